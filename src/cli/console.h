// What the program says beside its results, and what it was asked to say of it.
#pragma once

#include <string>

#include "heed/io.h"
#include "heed/view.h"

namespace heed::cli {

/// --quiet, --verbose and --color: set before a command begins.
struct Console {
  enum class Color { automatic, always, never };
  bool quiet = false;    ///< errors alone: no warnings, notes and progress
  bool verbose = false;  ///< details, too
  Color color = Color::automatic;
};
Console& console();

/// Lines on standard error. Control characters in them, as names of files may have, come out escaped.
void fail_with(const std::string& command, const std::string& text);  ///< "heed COMMAND: text", always
void warn(const std::string& command, const std::string& text);       ///< the same, but not with --quiet
void note(const std::string& text);                                   ///< "wrote page.html"; not with --quiet
void detail(const std::string& text);                                 ///< with --verbose alone

/// What a person at the terminal is asked to type behind; nothing where standard input or output is none.
void ask(const std::string& text);

/// On standard error, where `descriptor` is a terminal: that lines are read from it, and how to end them.
void say_that_it_waits(int descriptor);

/// Thrown by a command to leave quietly with this status.
struct ExitStatus {
  int code;
};

/// Flushes standard output. Throws IoError when that fails; leaves quietly when the reader has gone (a closed pipe).
void finish_output();

/// No path, and "-", stand for standard input or output.
bool is_standard_stream(const std::string& path);

/// Hands `fill` what takes a command's result: standard output, where each piece comes at once unless it is a file, or
/// the file `path`, which is there when all is written, whole or not at all. Throws as write_file_atomically() and
/// finish_output() do.
void write_output(const std::string& path, const FillFile& fill);

/// The reader of standard output has gone.
bool output_closed();

/// What the terminal behind a file descriptor can do, with the colours that --color asks for.
TerminalOptions terminal(int fd);

}  // namespace heed::cli
