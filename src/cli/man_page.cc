#include <string_view>

#include "cli/help.h"

namespace heed::cli {
namespace {

// Text as man(7) takes it: a hyphen that can be typed, no backslash, no request.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '-')
      out += "\\-";
    else if (c == '\\')
      out += "\\e";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

// Paragraphs, and lines that stay as they are.
std::string paragraphs(const std::string& text) {
  std::string out;
  bool example = false, gap = false;
  for (const std::string& line : CLI::detail::split(text, '\n')) {
    const bool indented = line.starts_with(' ');
    if (indented != example) out += indented ? ".PP\n.RS\n.nf\n" : ".fi\n.RE\n";
    if (!indented && !line.empty() && (gap || (example && !out.empty()))) out += ".PP\n";
    example = indented;
    gap = line.empty();
    if (!line.empty()) out += escaped(indented ? line.substr(line.find_first_not_of(' ')) : line) + "\n";
  }
  return out + (example ? ".fi\n.RE\n" : "");
}

std::string name_of_page(const CommandHelp& command) {
  return "heed" + (command.name.empty() ? "" : "-" + command.name);
}

std::string row(const OptionHelp& o) {
  std::string out = ".TP\n";
  for (size_t i = 0; i < o.names.size(); ++i)
    out += (i > 0 ? ", " : "") + (o.argument ? "\\fI" : std::string("\\fB")) + escaped(o.names[i]) + "\\fR";
  if (!o.argument && !o.value.empty()) out += " \\fI" + escaped(o.value) + "\\fR";
  out += "\n" + escaped(o.text) + (o.required && !o.argument ? " (required)" : "");
  return out + (o.standard.empty() ? "" : " [" + escaped(o.standard) + "]") + "\n";
}

constexpr const char* kStatus =
    ".SH EXIT STATUS\n"
    "0 when all was done, 1 when something failed, 2 for wrong use, 128 + n when signal n ended the work.\n"
    "Results go to standard output, everything else to standard error.\n";

constexpr const char* kEnvironment =
    ".SH ENVIRONMENT\n"
    ".TP\n\\fBHEED_MODEL\\fR\nDirectory of the model where \\fB\\-\\-model\\fR is not given.\n"
    ".TP\n\\fBHEED_NUM_THREADS\\fR\nThreads where \\fB\\-\\-threads\\fR is not given or 0; 0 for one per hardware "
    "thread.\n"
    ".TP\n\\fBHEED_EXPLAIN\\fR\n1: says on standard error which implementation of attention runs, and why.\n"
    ".TP\n\\fBNO_COLOR\\fR\nNo colours, unless \\fB\\-\\-color always\\fR asks for them.\n"
    ".TP\n\\fBCOLUMNS\\fR\nWidth of help and maps where standard output is no terminal.\n";

}  // namespace

std::string man_page(const CommandHelp& command, const std::vector<CommandHelp>& all) {
  const std::string name = name_of_page(command);
  std::string title = name;
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string out = ".TH " + title + " 1 \"\" \"heed " HEED_VERSION "\" \"heed\"\n";
  out += ".SH NAME\n" + escaped(name) + " \\- " + escaped(command.summary) + "\n";
  out += ".SH SYNOPSIS\n";
  for (const std::string& line : command.usage)
    out += (&line == &command.usage.front() ? "" : ".br\n") + escaped(line) + "\n";
  if (!command.description.empty()) out += ".SH DESCRIPTION\n" + paragraphs(command.description);
  if (command.name.empty()) {
    out += ".SH COMMANDS\n";
    for (const std::string& group : groups_of(all)) {
      out += ".SS " + escaped(group) + "\n";
      for (const CommandHelp& other : all)
        if (!other.name.empty() && other.group == group)
          out += ".TP\n\\fB" + escaped(other.name) + "\\fR\n" + escaped(other.summary) + "\n";
    }
  }
  if (!command.options.empty() && command.options.front().argument) out += ".SH ARGUMENTS\n";
  for (const OptionHelp& o : command.options)
    if (o.argument) out += row(o);
  out += ".SH OPTIONS\n";
  const std::vector<std::string> groups = groups_of(command);
  for (const std::string& group : groups) {
    if (groups.size() > 1) out += ".SS " + escaped(group) + "\n";
    for (const OptionHelp& o : command.options)
      if (!o.argument && o.group == group) out += row(o);
  }
  if (!command.examples.empty()) out += ".SH EXAMPLES\n" + paragraphs(command.examples);
  out += std::string(kStatus) + kEnvironment + ".SH SEE ALSO\n";
  std::vector<std::string> others;
  for (const CommandHelp& other : all)
    if (other.name != command.name) others.push_back(escaped(name_of_page(other)));
  for (size_t i = 0; i < others.size(); ++i) out += ".BR " + others[i] + (i + 1 < others.size() ? " (1),\n" : " (1)\n");
  return out;
}

}  // namespace heed::cli
