#include "cli/console.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "heed/error.h"
#include "heed/label.h"
#include "heed/view.h"

namespace heed::cli {

Console& console() {
  static Console console;
  return console;
}

namespace {

// One line, whatever the text was.
void say(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  std::cerr << printable(text) << '\n';
}

// A file takes the text in large parts; who watches wants each piece at once.
bool watched() {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && !S_ISREG(status.st_mode);
}

class StandardOutput : public FileWriter {
 public:
  void write(std::span<const std::byte> bytes) override {
    std::cout.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (watched_ || !std::cout) finish_output();
  }

 private:
  bool watched_ = watched();
};

}  // namespace

void fail_with(const std::string& command, const std::string& text) {
  // The library's messages begin with the operation, which often is the command.
  const bool named = !command.empty() && text.starts_with(command + ": ");
  say("heed" + (command.empty() ? "" : " " + command) + ": " + (named ? text.substr(command.size() + 2) : text));
}

void warn(const std::string& command, const std::string& text) {
  if (!console().quiet) fail_with(command, text);
}

void note(const std::string& text) {
  if (!console().quiet) say(text);
}

void detail(const std::string& text) {
  if (console().verbose) say(text);
}

bool output_closed() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

void ask(const std::string& text) {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) std::cerr << text << std::flush;
}

void say_that_it_waits(int descriptor) {
  if (isatty(descriptor) == 1) note("reading lines from the terminal; Ctrl-D ends them");
}

void finish_output() {
  std::cout.flush();
  if (std::cout) return;
  if (output_closed()) throw ExitStatus{128 + SIGPIPE};
  throw IoError("writing to standard output failed; is the disk full?");
}

bool is_standard_stream(const std::string& path) { return path.empty() || path == "-"; }

void write_output(const std::string& path, const FillFile& fill) {
  if (!is_standard_stream(path)) return write_file_atomically(path, fill);
  StandardOutput output;
  fill(output);
  finish_output();
}

TerminalOptions terminal(int fd) {
  TerminalOptions options = detect_terminal(fd);
  if (console().color == Console::Color::never) options.color = TerminalColor::none;
  if (console().color == Console::Color::always) {
    const auto able = [](const char* name) -> const char* {
      const std::string_view variable = name;
      if (variable == "NO_COLOR") return nullptr;
      const char* value = std::getenv(name);
      return variable == "TERM" && (value == nullptr || *value == '\0') ? "xterm-256color" : value;
    };
    options.color = detect_terminal(/*is_terminal=*/true, options.width, able).color;
  }
  return options;
}

}  // namespace heed::cli
