// heed completion: what a shell needs to complete commands, options, choices and files.
#include <iostream>
#include <memory>
#include <string_view>

#include "cli/commands.h"
#include "cli/help.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

// What stands for a value: its choices, a directory, a file, or nothing that could be known.
enum class Kind { words, directory, file, unknown };
Kind kind_of(const OptionHelp& o) {
  if (!o.choices.empty()) return Kind::words;
  if (o.value.find("FILE") != std::string::npos) return Kind::file;  // DIR|FILE, too
  return o.value.find("DIR") != std::string::npos ? Kind::directory : Kind::unknown;
}

std::vector<std::string> names_of(const std::vector<CommandHelp>& all) {
  std::vector<std::string> names;
  for (const CommandHelp& command : all)
    if (!command.name.empty()) names.push_back(command.name);
  return names;
}

std::vector<std::string> names_of(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& o : command.options)
    if (!o.argument) names.insert(names.end(), o.names.begin(), o.names.end());
  return names;
}

std::string bash_kind(const OptionHelp& o) {
  switch (kind_of(o)) {
    case Kind::words:
      return "kind=words words=" + shell_word(joined(o.choices));
    case Kind::directory:
      return "kind=directory";
    case Kind::file:
      return "kind=file";
    case Kind::unknown:
      return "kind=unknown";
  }
  return "";
}

std::string zsh_action(const OptionHelp& o) {
  std::string value = o.value.empty() ? o.names.back() : o.value;
  std::erase(value, ':');
  switch (kind_of(o)) {
    case Kind::words:
      return value + ":(" + joined(o.choices) + ")";
    case Kind::directory:
      return value + ":_files -/";
    case Kind::file:
      return value + ":_files";
    case Kind::unknown:
      return value + ": ";
  }
  return "";
}

std::string zsh_option(const OptionHelp& o) {
  std::string text;
  for (const char c : o.text) text += (c == '[' || c == ']' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  if (o.argument) return shell_word((o.repeated ? "*:" : ":") + zsh_action(o));
  std::string out;
  for (const std::string& name : o.names) {
    const bool flag = o.value.empty();
    const std::string alone = o.repeated ? "*" : "(" + joined(o.names) + ")";
    const std::string takes = flag ? "" : name.starts_with("--") ? "=" : "+";
    out += (out.empty() ? "" : " ") +
           shell_word(alone + name + takes + "[" + text + "]" + (flag ? "" : ":" + zsh_action(o)));
  }
  return out;
}

}  // namespace

std::string bash_completion(const std::vector<CommandHelp>& all) {
  std::string out =
      "# Completion of heed for bash: heed completion bash > ~/.local/share/bash-completion/completions/heed\n"
      "_heed() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} options kind words\n"
      "  COMPREPLY=()\n"
      "  # --option=value comes as three words.\n"
      "  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  [[ $cur == = ]] && cur=\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    mapfile -t COMPREPLY < <(compgen -W " +
      shell_word(joined(names_of(all)) + " " + joined(names_of(all.front()))) +
      " -- \"$cur\")\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const CommandHelp& command : all) {
    if (command.name.empty()) continue;
    out +=
        "    " + command.name + ")\n      options=" + shell_word(joined(names_of(command))) + "\n      case $prev in\n";
    std::string argument = "kind=unknown";
    for (const OptionHelp& o : command.options) {
      if (o.argument)
        argument = bash_kind(o);
      else if (!o.value.empty())
        out += "        " + joined(o.names, " | ") + ") " + bash_kind(o) + " ;;\n";
    }
    out += "        *)\n          [[ $cur == -* ]] && kind=words words=$options || " +
           (argument.find(' ') == std::string::npos ? argument : "{ " + argument + "; }") +
           "\n          ;;\n      esac\n      ;;\n";
  }
  return out +
         "  esac\n"
         "  case $kind in\n"
         "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
         "    directory)\n"
         "      compopt -o filenames 2> /dev/null\n"
         "      mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
         "      ;;\n"
         "    file)\n"
         "      compopt -o filenames 2> /dev/null\n"
         "      mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "      ;;\n"
         "  esac\n"
         "}\n"
         "complete -F _heed heed\n";
}

std::string zsh_completion(const std::vector<CommandHelp>& all) {
  std::string out =
      "#compdef heed\n"
      "# Completion of heed for zsh: heed completion zsh > a directory of $fpath/_heed\n"
      "_heed() {\n"
      "  local curcontext=$curcontext context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C";
  for (const OptionHelp& o : all.front().options) out += " \\\n    " + zsh_option(o);
  out +=
      " \\\n    '1: :->command' '*:: :->rest' && return\n"
      "  case $state in\n"
      "    command)\n"
      "      local -a commands=(\n";
  for (const CommandHelp& command : all)
    if (!command.name.empty()) out += "        " + shell_word(command.name + ":" + command.summary) + "\n";
  out +=
      "      )\n"
      "      _describe -t commands 'command of heed' commands\n"
      "      ;;\n"
      "    rest)\n"
      "      case $words[1] in\n";
  for (const CommandHelp& command : all) {
    if (command.name.empty()) continue;
    out += "        " + command.name + ")\n          _arguments -s -S";
    for (const OptionHelp& o : command.options) out += " \\\n            " + zsh_option(o);
    out += "\n          ;;\n";
  }
  return out +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "}\n"
         "# Autoloaded it is the function itself; sourced it is registered.\n"
         "if [[ $funcstack[1] == _heed ]]; then _heed \"$@\"; else compdef _heed heed; fi\n";
}

namespace {

// In single quotes for fish, in which a backslash escapes.
std::string fish_word(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

// What stands for the value of an option or an argument.
std::string fish_value(const OptionHelp& o) {
  switch (kind_of(o)) {
    case Kind::words:
      return " -x -a " + fish_word(joined(o.choices));
    case Kind::directory:
      return " -x -a '(__fish_complete_directories)'";
    case Kind::file:
      return " -r -F";
    case Kind::unknown:
      return " -x";
  }
  return "";
}

}  // namespace

std::string fish_completion(const std::vector<CommandHelp>& all) {
  std::string out =
      "# Completion of heed for fish: heed completion fish > ~/.config/fish/completions/heed.fish\n"
      "complete -c heed -f\n";
  for (const CommandHelp& command : all) {
    const bool program = command.name.empty();
    const std::string when = "complete -c heed -n " +
                             (program ? "__fish_use_subcommand" : "'__fish_seen_subcommand_from " + command.name + "'");
    if (!program)
      out +=
          "complete -c heed -n __fish_use_subcommand -a " + command.name + " -d " + fish_word(command.summary) + "\n";
    for (const OptionHelp& o : command.options) {
      out += when;
      for (const std::string& name : o.names)
        if (!o.argument) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (o.argument || !o.value.empty()) out += fish_value(o);
      out += (o.argument ? "" : " -d " + fish_word(o.text)) + "\n";
    }
  }
  return out;
}

void add_completion(CLI::App& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("completion", "Print completion for a shell");
  command->description(
      "Print completion for a shell\n\n"
      "An installed heed brings its completion along; this is for one that runs from where it was built.");
  command->add_option("shell", *shell, "The shell")->required()->transform(one_of({"bash", "zsh", "fish"}));
  command->footer("Example:\n  source <(heed completion bash)");
  command->callback([shell, &program] {
    const std::vector<CommandHelp> all = describe(program);
    std::cout << (*shell == "bash"  ? bash_completion(all)
                  : *shell == "zsh" ? zsh_completion(all)
                                    : fish_completion(all));
  });
}

}  // namespace heed::cli
