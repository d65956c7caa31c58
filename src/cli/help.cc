#include "cli/help.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/commands.h"
#include "heed/error.h"
#include "heed/label.h"

namespace heed::cli {
namespace {

// A sentence ends where a dot is followed by a space or by nothing.
size_t end_of_sentence(const std::string& text) {
  for (size_t at = text.find('.'); at != std::string::npos; at = text.find('.', at + 1))
    if (at + 1 == text.size() || text[at + 1] == ' ' || text[at + 1] == '\n') return at;
  return text.size();
}

// "FILE", "N", "f32|f16|bf16".
std::string value_of(const CLI::Option& option, const std::vector<std::string>& choices) {
  const std::string full = option.get_type_name(), type = full.substr(0, full.find(':'));
  std::string joined;
  for (const std::string& choice : choices) joined += (joined.empty() ? "" : "|") + choice;
  if (!choices.empty() && type == "TEXT") return joined.size() <= 20 ? joined : "NAME";
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  if (type == "BOOLEAN") return "true|false";
  return type;
}

}  // namespace

OptionHelp describe(const CLI::Option& option) {
  OptionHelp help;
  help.argument = option.get_positional();
  help.required = option.get_required();
  help.group = option.get_group();
  if (help.argument) {
    help.names = {option.get_name(/*positional=*/true)};
  } else {
    for (const std::string& letter : option.get_snames()) help.names.push_back("-" + letter);
    if (!option.get_lnames().empty()) help.names.push_back("--" + option.get_lnames().front());
  }
  const bool flag = option.get_items_expected_max() == 0;
  help.repeated = !flag && (option.get_items_expected_max() > 1 ||
                            option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll);
  const std::string type = option.get_type_name();
  if (const size_t brace = type.find(":{"); brace != std::string::npos)
    help.choices = CLI::detail::split(type.substr(brace + 2, type.find('}', brace) - brace - 2), ',');
  if (!flag) help.value = value_of(option, help.choices);
  if (!flag) help.captured = option.get_default_str();
  if (help.captured == "[]" || help.captured == "{}") help.captured.clear();
  help.text = option.get_description();
  if (const size_t bracket = help.text.rfind(" ["); help.text.ends_with(']') && bracket != std::string::npos) {
    help.standard = help.text.substr(bracket + 2, help.text.size() - bracket - 3);
    help.text.resize(bracket);
  } else if (!help.required) {
    help.standard = help.captured;
  }
  // Beside the name of an argument stands no value.
  if ((help.value == "NAME" || help.argument) && !help.choices.empty() &&
      help.text.find(help.choices.front()) == std::string::npos) {
    std::string listed;
    for (const std::string& choice : help.choices) listed += (listed.empty() ? "" : ", ") + choice;
    help.text += ": " + listed;
  }
  return help;
}

namespace {

// What CLI11 has no place for, of each command.
struct Notes {
  std::vector<std::string> usage, main_options;
};
Notes& notes_of(const CLI::App& command) {
  static std::map<const CLI::App*, Notes> all;
  return all[&command];
}

// "heed translate [OPTIONS]", from what is required.
std::string usage_of(const CommandHelp& command) {
  if (command.name.empty()) return "heed COMMAND [OPTIONS]";
  std::string usage = "heed " + command.name + " [OPTIONS]";
  for (const OptionHelp& o : command.options) {
    if (o.required && !o.argument) usage += " " + o.names.back() + " " + o.value;
    if (!o.argument) continue;
    std::string name = o.names.front();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    usage += (o.required ? " " + name : " [" + name + "]") + (o.repeated ? "..." : "");
  }
  return usage;
}

}  // namespace

void set_main_options(const CLI::App& command, const std::vector<std::string>& names) {
  notes_of(command).main_options = names;
}
bool has_main_options(const CLI::App& command) { return !notes_of(command).main_options.empty(); }
void set_usage(const CLI::App& command, const std::vector<std::string>& lines) { notes_of(command).usage = lines; }

CommandHelp describe_command(const CLI::App& app) {
  CommandHelp help;
  help.name = app.get_parent() ? app.get_name() : "";
  help.group = app.get_group();
  help.description = app.get_description();
  if (const size_t gap = help.description.find("\n\n"); gap != std::string::npos) {
    help.summary = help.description.substr(0, gap);
    help.description.erase(0, gap + 2);
  } else {
    help.summary = help.description.substr(0, end_of_sentence(help.description));
    if (help.description.size() <= help.summary.size() + 1) help.description.clear();
  }
  std::replace(help.summary.begin(), help.summary.end(), '\n', ' ');
  help.examples = app.get_footer();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) help.options.push_back(describe(*option));
  const auto place = [](const OptionHelp& o) { return o.argument ? 0 : o.group == kCommonGroup ? 2 : 1; };
  std::stable_sort(help.options.begin(), help.options.end(),
                   [&](const OptionHelp& a, const OptionHelp& b) { return place(a) < place(b); });
  const Notes& notes = notes_of(app);
  help.main_options = notes.main_options;
  help.usage = notes.usage;
  for (std::string& line : help.usage) line.insert(0, "heed " + help.name + " ");
  if (help.usage.empty()) help.usage = {usage_of(help)};
  return help;
}

namespace {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    if (end > at) found.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

// Appends words, the first at column `column`, further lines at `indent`.
void fold(std::string_view text, int column, int indent, int width, std::string* out) {
  bool first = true;
  for (const std::string& word : words(text)) {
    const int length = display_width(word);
    if (!first && column + 1 + length > width) {
      *out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      column = indent;
      first = true;
    }
    *out += (first ? "" : " ") + word;
    column += length + !first;
    first = false;
  }
  *out += '\n';
}

// Paragraphs are set apart by empty lines; lines that begin with a space stay as they are.
void fold_paragraphs(const std::string& text, int width, std::string* out) {
  std::string paragraph;
  const auto flush = [&] {
    if (!paragraph.empty()) fold(paragraph, 0, 0, width, out);
    paragraph.clear();
  };
  for (const std::string& line : CLI::detail::split(text, '\n')) {
    if (line.empty() || line[0] == ' ') {
      flush();
      *out += line + '\n';
    } else {
      paragraph += line + ' ';
    }
  }
  flush();
}

void add_row(const std::string& left, const std::string& right, int column, int width, std::string* out) {
  *out += left;
  const int length = display_width(left);
  if (length + 2 > column)
    *out += "\n" + std::string(static_cast<size_t>(column), ' ');
  else
    *out += std::string(static_cast<size_t>(column - length), ' ');
  fold(right, column, column, width, out);
}

std::string left_of(const OptionHelp& option) {
  std::string left = "  ";
  if (!option.argument && option.names.front().starts_with("--")) left += "    ";
  for (size_t i = 0; i < option.names.size(); ++i) left += (i > 0 ? ", " : "") + option.names[i];
  if (!option.argument && !option.value.empty()) left += " " + option.value;
  return left;
}

// Where the texts beside the options begin.
int column_of(const std::vector<const OptionHelp*>& options) {
  int column = 0;
  for (const OptionHelp* o : options) column = std::max(column, display_width(left_of(*o)) + 2);
  return std::min(column, 30);
}

std::string right_of(const OptionHelp& option) {
  return option.text + (option.required && !option.argument ? " (required)" : "") +
         (option.standard.empty() ? "" : " [" + option.standard + "]");
}

std::string json_text(const std::vector<CommandHelp>& all) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const CommandHelp& command : all) {
    nlohmann::ordered_json options = nlohmann::ordered_json::array();
    for (const OptionHelp& o : command.options)
      options.push_back({{"names", o.names},
                         {"value", o.value},
                         {"choices", o.choices},
                         {"text", o.text},
                         {"default", o.standard},
                         {"captured", o.captured},
                         {"group", o.group},
                         {"argument", o.argument},
                         {"required", o.required},
                         {"repeated", o.repeated}});
    out.push_back({{"name", command.name},
                   {"group", command.group},
                   {"summary", command.summary},
                   {"description", command.description},
                   {"examples", command.examples},
                   {"usage", command.usage},
                   {"main_options", command.main_options},
                   {"options", std::move(options)}});
  }
  return out.dump(2) + "\n";
}

}  // namespace

std::vector<std::string> groups_of(const CommandHelp& command) {
  std::vector<std::string> groups;
  for (const OptionHelp& option : command.options)
    if (!option.argument && std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  return groups;
}

std::vector<std::string> groups_of(const std::vector<CommandHelp>& all) {
  std::vector<std::string> groups;
  for (const CommandHelp& command : all)
    if (!command.name.empty() && std::find(groups.begin(), groups.end(), command.group) == groups.end())
      groups.push_back(command.group);
  return groups;
}

std::vector<CommandHelp> describe(const CLI::App& program) {
  std::vector<CommandHelp> all{describe_command(program)};
  for (const CLI::App* command : program.get_subcommands({}))
    if (!command->get_group().empty()) all.push_back(describe_command(*command));
  return all;
}

namespace {

void add_usage(const CommandHelp& command, int width, std::string* out) {
  constexpr int kColumn = 7, kFurther = 11;
  const char* before = "\nUsage: ";
  for (const std::string& line : command.usage) {
    *out += std::exchange(before, "       ");
    fold(line, kColumn, kFurther, width, out);
  }
}

void add_examples(const CommandHelp& command, int width, std::string* out) {
  if (command.examples.empty()) return;
  *out += '\n';
  fold_paragraphs(command.examples, width, out);
}

void add_options(const std::string& title, const std::vector<const OptionHelp*>& options, int column, int width,
                 std::string* out) {
  if (options.empty()) return;
  *out += "\n" + title + ":\n";
  for (const OptionHelp* o : options) add_row(left_of(*o), right_of(*o), column, width, out);
}

// The options that most calls need, with an example before them.
std::string short_help(const CommandHelp& command, int width) {
  std::string out;
  fold_paragraphs(command.description.empty() ? command.summary : command.description, width, &out);
  add_usage(command, width, &out);
  add_examples(command, width, &out);
  std::vector<const OptionHelp*> shown;
  for (const std::string& name : command.main_options)
    for (const OptionHelp& o : command.options)
      if (o.names.back() == name) shown.push_back(&o);
  add_options("Options that most calls need", shown, column_of(shown), width, &out);
  out += '\n';
  fold("heed " + command.name + " --help-all shows all " + std::to_string(command.options.size()) + " options.", 0, 0,
       width, &out);
  return out;
}

}  // namespace

std::string help_text(const CommandHelp& command, const std::vector<CommandHelp>& all, int width, HelpOf what) {
  if (what == HelpOf::main_options && !command.main_options.empty()) return short_help(command, width);
  std::string out;
  fold_paragraphs(command.description.empty() ? command.summary : command.description, width, &out);
  add_usage(command, width, &out);
  if (command.name.empty())
    for (const std::string& group : groups_of(all)) {
      out += "\n" + group + ":\n";
      for (const CommandHelp& other : all)
        if (other.group == group) add_row("  " + other.name, other.summary, 14, width, &out);
    }
  const auto those = [&](auto&& chosen) {
    std::vector<const OptionHelp*> found;
    for (const OptionHelp& o : command.options)
      if (chosen(o)) found.push_back(&o);
    return found;
  };
  const int column = column_of(those([](const OptionHelp&) { return true; }));
  add_options("Arguments", those([](const OptionHelp& o) { return o.argument; }), column, width, &out);
  for (const std::string& group : groups_of(command))
    add_options(group, those([&](const OptionHelp& o) { return !o.argument && o.group == group; }), column, width,
                &out);
  add_examples(command, width, &out);
  return out;
}

int help_width() { return std::clamp(detect_terminal(STDOUT_FILENO).width, 40, 100); }

void add_help(CLI::App& program) {
  struct Arguments {
    std::string command;
    bool man = false, json = false, all = false;
  };
  const auto a = std::make_shared<Arguments>();
  CLI::App* help = program.add_subcommand("help", "Show the help of a command");
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) names.push_back(command->get_name());
  help->add_option("command", a->command, "Nothing for an overview, or one of the commands")
      ->transform(one_of(names))
      ->type_name("COMMAND");
  CLI::Option* man = help->add_flag("--man", a->man, "As a page for man: heed help --man train | man -l -");
  help->add_flag("--json", a->json, "The description of every command and option, for programs")->excludes(man);
  help->add_flag("--all", a->all, "All options of a command that has very many")->excludes(man);
  help->footer("Examples:\n  heed help translate\n  heed help --man translate > heed-translate.1");
  help->callback([a, &program] {
    const std::vector<CommandHelp> all = describe(program);
    const auto command = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.name == a->command; });
    const HelpOf what = a->all ? HelpOf::all_options : HelpOf::main_options;
    std::cout << (a->json  ? json_text(all)
                  : a->man ? man_page(*command, all)
                           : help_text(*command, all, help_width(), what));
  });
}

}  // namespace heed::cli
