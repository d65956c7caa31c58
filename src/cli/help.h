// The commands and their options in words: help, man pages, completion and tests are made of this one description.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heed::cli {

/// Options that every command has; they come last.
inline constexpr const char* kCommonGroup = "Common";

struct OptionHelp {
  std::vector<std::string> names;  // "-m", "--model"; of an argument its name alone. Older spellings are not shown
  std::string value;               // "DIR"; empty for a flag
  std::vector<std::string> choices;
  std::string text;
  std::string standard;  // the value when none is given, or words for it; empty where there is nothing to say
  std::string captured;  // that value as the program holds it, empty where it is not that simple
  std::string group;
  bool argument = false;  // goes without a name
  bool required = false;
  bool repeated = false;
};

struct CommandHelp {
  std::string name;  // empty for the program itself
  std::string group, summary, description, examples;
  std::vector<OptionHelp> options;  // arguments first
};

/// The program, then its commands as help shows them. Of a command's description the part before the first empty line
/// (or, without one, its first sentence) is the summary. An option's text may end in what holds when the option is not
/// given, in brackets; where it does not, its captured default stands for that.
std::vector<CommandHelp> describe(const CLI::App& program);

/// "heed translate [OPTIONS]".
std::string usage_of(const CommandHelp& command);

/// Of a command's options, and of the commands: each once, in the order in which they come first.
std::vector<std::string> groups_of(const CommandHelp& command);
std::vector<std::string> groups_of(const std::vector<CommandHelp>& all);

/// What --help prints, in lines of at most `width` columns (examples are not folded).
std::string help_text(const CommandHelp& command, const std::vector<CommandHelp>& all, int width);

/// The same as a page for man(1), in man(7).
std::string man_page(const CommandHelp& command, const std::vector<CommandHelp>& all);

/// Completion for a shell.
std::string bash_completion(const std::vector<CommandHelp>& all);
std::string zsh_completion(const std::vector<CommandHelp>& all);

/// Columns for help: those of the terminal or COLUMNS, else 80; at most 100.
int help_width();

}  // namespace heed::cli
