// The commands and their options in words: help, man pages, completion and tests are made of this one description.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
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
  std::vector<std::string> usage;         // "heed translate [OPTIONS]", a line for each way to call it
  std::vector<OptionHelp> options;        // arguments first
  std::vector<std::string> main_options;  // those that --help shows, in its order; empty: all
};

/// Names the options that --help shows of a command that has very many; --help-all shows all.
void set_main_options(const CLI::App& command, const std::vector<std::string>& names);
bool has_main_options(const CLI::App& command);

/// What follows "heed NAME" in the lines of the usage, for a command whose options do not say what is required.
void set_usage(const CLI::App& command, const std::vector<std::string>& lines);

OptionHelp describe(const CLI::Option& option);

/// The program, then its commands as help shows them. Of a command's description the part before the first empty line
/// (or, without one, its first sentence) is the summary. An option's text may end in what holds when the option is not
/// given, in brackets; where it does not, its captured default stands for that.
std::vector<CommandHelp> describe(const CLI::App& program);

/// Of a command's options, and of the commands: each once, in the order in which they come first.
std::vector<std::string> groups_of(const CommandHelp& command);
std::vector<std::string> groups_of(const std::vector<CommandHelp>& all);

/// The help of one command.
CommandHelp describe_command(const CLI::App& command);

enum class HelpOf : uint8_t { main_options, all_options };
/// What --help and --help-all print, in lines of at most `width` columns (examples are not folded).
std::string help_text(const CommandHelp& command, const std::vector<CommandHelp>& all, int width, HelpOf what);

/// The same as a page for man(1), in man(7).
std::string man_page(const CommandHelp& command, const std::vector<CommandHelp>& all);

/// Completion for a shell.
std::string bash_completion(const std::vector<CommandHelp>& all);
std::string zsh_completion(const std::vector<CommandHelp>& all);
std::string fish_completion(const std::vector<CommandHelp>& all);

/// Columns for help: those of the terminal or COLUMNS, else 80; at most 100.
int help_width();

}  // namespace heed::cli
