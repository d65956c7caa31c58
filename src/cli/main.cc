// The program heed: results on standard output, everything else on standard error.
// Exit status: 0 done, 1 something failed, 2 wrong use, 128 + n ended by signal n.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "heed/error.h"
#include "heed/executor.h"
#include "heed/random.h"

namespace heed::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  echo 'Hola, mi nombre es Alex.' | heed translate\n"
    "  heed train --pairs spa-eng.tsv --columns 2,1 --valid-pairs dev.tsv --model my-model\n"
    "  heed translate --model my-model < dev.es | heed score --reference dev.en\n"
    "  heed train --text book.txt --model my-writer && heed generate --model my-writer \"Once upon a time\"\n"
    "  heed export --model my-model --to my-model-f16 --dtype f16\n"
    "heed COMMAND --help says more.";

// The reader of standard output has gone.
bool output_closed() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

// One line, whatever the message was.
int fail(const CLI::App& program, std::string text, int status) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  const auto commands = program.get_subcommands();
  warn(commands.empty() ? "" : commands.front()->get_name(), text);
  return status;
}

// CLI11 misses required arguments before it looks at those that nobody knows, which often are the cause.
std::string wrong_use(const CLI::App& program, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = program.remaining(/*recurse=*/true);
  if (unknown.empty()) return error.what();
  const auto commands = program.get_subcommands();
  return "unknown argument " + unknown.front() + "; heed " +
         (commands.empty() ? "" : commands.front()->get_name() + " ") + "--help lists what there is";
}

// Every command takes --threads and --seed, its own or these.
void add_common_options(CLI::App& program) {
  for (CLI::App* command : program.get_subcommands({})) {
    if (!command->get_option_no_throw("--threads"))
      command->add_option_function<int>("--threads", set_threads, "Threads; 0 for one per hardware thread [0]")
          ->check(CLI::Range(0, 4096));
    if (!command->get_option_no_throw("--seed"))
      command->add_option_function<uint64_t>("--seed", manual_seed, "Seed of everything random [0]")
          ->check(whole_number());
  }
}

int run(int argc, char** argv) {
  CLI::App program("heed: attention for C++. Compute it, train with it, look at it.", "heed");
  program.set_version_flag("--version", "heed " HEED_VERSION);
  program.footer(kFooter);
  program.require_subcommand(1);
  add_train(program);
  add_translate(program);
  add_generate(program);
  add_score(program);
  add_inspect(program);
  add_attend(program);
  add_attention(program);
  add_bench(program);
  add_export(program);
  add_common_options(program);
  try {
    program.parse(argc, argv);
    finish_output();
    return 0;
  } catch (const ExitStatus& status) {
    return status.code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.exit(e);  // --help, --version
    return fail(program, wrong_use(program, e), 2);
  } catch (const ShapeError& e) {
    return fail(program, e.what(), 2);
  } catch (const IoError& e) {
    return output_closed() ? 128 + SIGPIPE : fail(program, e.what(), 1);
  } catch (const std::bad_alloc&) {
    return fail(program, "not enough memory; try a smaller batch or model", 1);
  } catch (const std::exception& e) {
    return fail(program, e.what(), 1);
  } catch (...) {
    return fail(program, "unknown failure", 1);
  }
}

}  // namespace

void finish_output() {
  std::cout.flush();
  if (std::cout) return;
  if (output_closed()) throw ExitStatus{128 + SIGPIPE};
  throw IoError("writing to standard output failed; is the disk full?");
}

void warn(const std::string& command, const std::string& text) {
  // The library's messages begin with the operation, which often is the command.
  const bool named = !command.empty() && text.starts_with(command + ": ");
  std::cerr << "heed" << (command.empty() ? "" : " ") << command << ": "
            << (named ? text.substr(command.size() + 2) : text) << '\n';
}

CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) {
        uint64_t number = 0;
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, number);
        return error == std::errc() && rest == end ? std::string() : text + " is not a number from 0 to 2^64 - 1";
      },
      "UINT");
}

}  // namespace heed::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, dealt with above
  std::ios::sync_with_stdio(false);
  return heed::cli::run(argc, argv);
}
