// The program heed: results on standard output, everything else on standard error.
// Exit status: 0 done, 1 something failed, 2 wrong use, 128 + n ended by signal n.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/mpi.h"
#include "heed/random.h"
#include "heed/text.h"
#include "heed/train.h"

namespace heed::cli {
namespace {

constexpr const char* kDescription =
    "attention for C++\n\n"
    "Attention for C++: compute it, train with it, look at it.";

constexpr const char* kFooter =
    "Examples:\n"
    "  echo 'Hola, mi nombre es Alex.' | heed translate\n"
    "  heed train --pairs spa-eng.tsv --columns 2,1 --valid-pairs dev.tsv --model my-model\n"
    "  heed translate --model my-model < dev.es | heed score --reference dev.en\n"
    "  heed train --text book.txt --model my-writer && heed generate --model my-writer \"Once upon a time\"\n"
    "  heed export --model my-model --to my-model-f16 --dtype f16\n"
    "heed help COMMAND says more.";

// In the order of the help.
struct Command {
  const char* group;
  void (*add)(CLI::App& program);
  bool draws = false;  // random numbers, by --seed
};
constexpr Command kCommands[] = {
    {"Train and use models", add_train},
    {"Train and use models", add_prepare},
    {"Train and use models", add_translate},
    {"Train and use models", add_generate},
    {"Train and use models", add_score},
    {"Train and use models", add_embed},
    {"Train and use models", add_classify},
    {"Train and use models", add_fill},
    {"Train and use models", add_serve},
    {"Look", add_attend},
    {"Look", add_inspect},
    {"Look", add_tokenize},
    {"Look", add_logits},
    {"Compute", add_attention},
    {"Compute", add_bench, /*draws=*/true},
    {"Keep models", add_export},
    {"Keep models", add_average},
    {"About heed", add_completion},
    {"About heed", add_help},
};

int fail(const CLI::App& program, const std::string& text, int status) {
  const auto commands = program.get_subcommands();
  fail_with(commands.empty() ? "" : commands.front()->get_name(), text);
  return status;
}

// Names the path and the reason. Relative paths have no meaning where the current directory was removed.
std::string in_words(const std::filesystem::filesystem_error& error) {
  std::error_code gone;
  if (std::filesystem::current_path(gone).empty())
    return "the current directory: " + gone.message() + "; change to another directory";
  return "stat " + error.path1().string() + ": " + error.code().message();
}

std::vector<std::string> names_of_commands(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The library's fields as the flags that were typed, and of "--top-p is 2.000000" the value as it was.
std::string as_typed(const CLI::App& program, const std::string& message) {
  const auto commands = program.get_subcommands();
  if (commands.empty()) return message;
  std::string text = with_flags(message, *commands.front());
  for (const CLI::Option* option : commands.front()->get_options()) {
    if (option->get_lnames().empty() || option->count() != 1) continue;
    const std::string begin = "--" + option->get_lnames().front() + " is ";
    size_t at = text.find(begin);
    if (at == std::string::npos) continue;
    at += begin.size();
    if (text.find_first_of("-0123456789", at) != at) continue;  // "--text is for language models"
    text.replace(at, std::min(text.find_first_of(" ;,:", at), text.size()) - at, option->results().back());
  }
  return text;
}

// "--beam" of "--beam=3", "-b" of "-b3".
std::string name_of_option(const std::string& typed) {
  return typed.starts_with("--") ? typed.substr(0, typed.find('=')) : typed.substr(0, 2);
}

// `typed` is the first unknown word, `first` that behind "heed". Options are the commands', so they stand behind one.
std::string unknown_use(const CLI::App& program, const std::string& typed, const std::string& first) {
  const auto commands = program.get_subcommands();
  const CLI::App* command = commands.empty() ? nullptr : commands.front();
  const bool behind = command && command->get_name() == first;
  const std::string listed = "; heed " + (behind ? first + " " : "") + "--help lists what there is";
  std::string hint;
  if (!typed.starts_with('-')) {
    if (!behind) hint = called_elsewhere(typed);
    if (!behind && hint.empty()) hint = did_you_mean(typed, names_of_commands(program));
    return std::string("unknown ") + (behind ? "argument '" : "command '") + typed + "'" +
           (hint.empty() ? listed : hint);
  }
  const std::string name = name_of_option(typed);
  const auto takes = [&](const CLI::App* app) { return app->get_option_no_throw(name) != nullptr; };
  const auto all = program.get_subcommands({});
  if (!behind && (command ? takes(command) : std::any_of(all.begin(), all.end(), takes)))
    return name + " goes behind the command: heed " + (command ? command->get_name() : "COMMAND") + " " + name;
  std::vector<std::string> known;
  if (command) known = names_of_options(*command);
  if (!behind)
    for (std::string& of_program : names_of_options(program)) known.push_back(std::move(of_program));
  const std::string whole = typed.substr(0, typed.find('='));
  hint = called_elsewhere(whole, known);
  if (!hint.empty()) return "unknown option '" + typed + "'" + hint;
  hint = did_you_mean(whole, known);
  if (behind) {  // heed translate --verison
    for (std::string& of_program : names_of_options(program)) known.push_back(std::move(of_program));
    if (std::string other = did_you_mean(whole, known); other != hint) {
      hint = std::move(other);
      hint.insert(hint.find("--"), "heed ");
    }
  }
  return "unknown option '" + typed + "'" + (hint.empty() ? listed : hint);
}

// CLI11 misses required arguments before it looks at those that nobody knows, which often are the cause.
std::string wrong_use(const CLI::App& program, const CLI::ParseError& error, const std::string& first) {
  std::vector<std::string> unknown = program.remaining(/*recurse=*/true);
  if (first != "--") std::erase(unknown, "--");  // behind a command it ends the options
  if (!unknown.empty()) return unknown_use(program, unknown.front(), first);
  const auto commands = program.get_subcommands();
  const CLI::App& command = commands.empty() ? program : *commands.front();
  constexpr std::string_view kRequired = " is required";
  const std::string text = parse_error_in_words(error, command);
  if (commands.empty() || !text.ends_with(kRequired)) return text;
  std::string name = text.substr(0, text.size() - kRequired.size());
  if (const CLI::Option* option = command.get_option_no_throw(name); option && option->get_positional())
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name + " is missing; usage: " + describe_command(command).usage.front();
}

// Every command takes these; --threads and --seed its own where it has them. Help and completion compute nothing.
void add_common_options(CLI::App& command, bool computes, bool draws) {
  if (computes && !command.get_option_no_throw("--threads"))
    command
        .add_option_function<int>("-t,--threads", use_threads,
                                  "Threads; 0 for HEED_NUM_THREADS, else for one per hardware thread [0]")
        ->check(CLI::Range(0, 4096))
        ->group(kCommonGroup);
  if (computes && !command.get_option_no_throw("--seed"))
    command.add_option_function<uint64_t>("-s,--seed", manual_seed, "Seed of random numbers [0]")
        ->check(whole_number())
        ->group(draws ? kCommonGroup : "");  // taken everywhere, shown where it decides something
  CLI::Option* quiet = command.add_flag("-q,--quiet", console().quiet, "Print errors alone on standard error");
  CLI::Option* verbose = command.add_flag("-v,--verbose", console().verbose, "Print details on standard error");
  quiet->configurable(false)->group(kCommonGroup)->excludes(verbose);
  verbose->configurable(false)->group(kCommonGroup);
  const auto set_color = [](const std::string& when) {
    console().color = when == "always"  ? Console::Color::always
                      : when == "never" ? Console::Color::never
                                        : Console::Color::automatic;
  };
  command
      .add_option_function<std::string>("--color", set_color,
                                        "Colours: auto (as the terminal and NO_COLOR have it), always or never [auto]")
      ->transform(one_of({"auto", "always", "never"}))
      ->type_name("WHEN")
      ->configurable(false)
      ->group(kCommonGroup);
  command.get_help_ptr()->group(kCommonGroup);
  command.get_option("--help-all")->group(has_main_options(command) ? kCommonGroup : "");  // else --help shows all
}

// What holds for the options of every command: a path is not empty, and what is true or false by default, which CLI11
// captures as 1 or 0, is called that.
void complete_options(CLI::App& command) {
  for (CLI::Option* option : command.get_options({})) {
    const std::string type = option->get_type_name();
    if (type.find("FILE") != std::string::npos || type.find("DIR") != std::string::npos) option->check(not_empty());
    if (const std::string standard = option->get_default_str(); type == "BOOLEAN" && standard.size() == 1)  // captured
      option->default_str(standard == "1" ? "true" : "false");
  }
}

void show_help(const CLI::App& program, HelpOf what) {
  const std::vector<CommandHelp> all = describe(program);
  const auto commands = program.get_subcommands();
  const std::string name = commands.empty() ? "" : commands.front()->get_name();
  for (const CommandHelp& command : all)
    if (command.name == name) std::cout << help_text(command, all, help_width(), what);
}

// heed nosuch --help
void expect_known_command(const CLI::App& program) {
  if (!program.get_subcommands().empty()) return;
  for (const std::string& word : program.remaining())
    if (!word.starts_with('-')) throw CLI::ExtrasError("heed", {word});
}

void parse(CLI::App& program, int argc, char** argv) {
  try {
    if (argc < 2) throw CLI::CallForHelp();
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    expect_known_command(program);
    show_help(program, HelpOf::main_options);
  } catch (const CLI::CallForAllHelp&) {
    expect_known_command(program);
    show_help(program, HelpOf::all_options);
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << '\n';
  }
  finish_output();
}

// Under mpirun every rank finds what is wrong with the arguments: one says it.
bool is_ours_to_say(const std::exception& e) {
  if (mpi::launched_ranks() < 2) return true;
  std::unique_ptr<Communicator> ranks;
  try {
    ranks = mpi::connect(/*time_limit=*/10);
  } catch (const Error& failure) {
    return mpi::speaks(nullptr, failure);
  }
  return mpi::speaks(ranks.get(), e);
}

int run(int argc, char** argv) {
  CLI::App program(kDescription, "heed");
  program.set_help_flag("-h,--help", "Show this help");
  program.set_help_all_flag("--help-all", "Show the help with all options");  // of the commands, which inherit it
  program.set_version_flag("-V,--version", "heed " HEED_VERSION, "Show the version");
  program.footer(kFooter);
  program.require_subcommand(1);
  for (const Command& command : kCommands) {
    command.add(program);
    CLI::App* added = program.get_subcommands({}).back();
    added->group(command.group);
    add_common_options(*added, command.group != std::string_view("About heed"), command.draws);
    complete_options(*added);
  }
  program.get_option("--help-all")->group("");  // not before: commands inherit what is shown
  try {
    if (std::getenv(kThreadsVariable)) use_threads(0);
    parse(program, argc, argv);
    return 0;
  } catch (const ExitStatus& status) {
    return status.code;
  } catch (const CLI::ParseError& e) {
    return is_ours_to_say(e) ? fail(program, wrong_use(program, e, argv[1]), 2) : 2;
  } catch (const UsageError& e) {
    return fail(program, as_typed(program, e.what()), 2);
  } catch (const ShapeError& e) {
    return fail(program, as_typed(program, e.what()), 2);
  } catch (const TrainingDiffers& e) {
    return fail(program, as_typed(program, e.what()), 1);
  } catch (const BadLineError& e) {
    const auto commands = program.get_subcommands();
    const bool skips = !commands.empty() && commands.front()->get_option_no_throw("--skip-bad-lines");
    return fail(program, e.what() + std::string(skips ? "; --skip-bad-lines leaves such lines out" : ""), 1);
  } catch (const IoError& e) {
    const auto commands = program.get_subcommands();
    if (output_closed()) return 128 + SIGPIPE;
    return fail(program, commands.empty() ? e.what() : with_option(e.what(), *commands.front()), 1);
  } catch (const std::bad_alloc&) {
    return fail(program, "not enough memory; try a smaller batch or model", 1);
  } catch (const std::filesystem::filesystem_error& e) {
    const auto commands = program.get_subcommands();
    const std::string text = in_words(e);
    return fail(program, commands.empty() ? text : with_option(text, *commands.front()), 1);
  } catch (const std::exception& e) {
    return fail(program, e.what(), 1);
  } catch (...) {
    return fail(program, "unknown failure", 1);
  }
}

// What is thrown where nobody can catch it: by constructors of static objects, the libraries' too, or out of a thread.
[[noreturn]] void give_up() {
  static std::atomic_flag said;
  while (said.test_and_set()) ::pause();  // another thread says it and ends the program
  constexpr std::string_view kText = "heed: not enough memory, or a failure that nothing caught\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(1);
}

void no_memory() {
  if (inside_sentencepiece()) give_up();
  throw std::bad_alloc();
}

// A standard descriptor that is closed would be the number of the next file that is opened, into which messages would
// go. What takes its place fails at what it is for, reading or writing, as a closed one does.
void occupy_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int other = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", other) < 0 && ::open("/", O_PATH) < 0) ::_exit(1);  // the lowest number that is free: fd
  }
}

// Before the constructors of every library: what stands in this section runs first of all (ELF gABI, "Initialization").
__attribute__((section(".preinit_array"), used)) void (*const set_give_up)() = [] { std::set_terminate(give_up); };

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  heed::cli::occupy_standard_descriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, dealt with above
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file beyond the limit of its size, whose part is then removed
  std::set_new_handler(heed::cli::no_memory);
  try {
    std::ios::sync_with_stdio(false);
    return heed::cli::run(argc, argv);
  } catch (...) {  // the options, or the line that says what failed, found no memory: nothing here may ask for any
    std::fputs("heed: not enough memory\n", stderr);
    return 1;
  }
}
