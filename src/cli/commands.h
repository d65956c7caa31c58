// The commands, one file each, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace heed::cli {

void add_attend(CLI::App& program);
void add_attention(CLI::App& program);
void add_bench(CLI::App& program);
void add_export(CLI::App& program);
void add_generate(CLI::App& program);
void add_inspect(CLI::App& program);
void add_score(CLI::App& program);
void add_train(CLI::App& program);
void add_translate(CLI::App& program);

/// Thrown by a command to leave quietly with this status.
struct ExitStatus {
  int code;
};

/// Flushes standard output. Throws IoError when that fails; leaves quietly when the reader has gone (a closed pipe).
void finish_output();

/// A line on standard error: "heed COMMAND: text".
void warn(const std::string& command, const std::string& text);

/// Refuses what is not a number from 0 to 2^64 - 1 written in digits: CLI11 itself wraps and clamps.
CLI::Validator whole_number();

/// The processor's name, or "unknown".
std::string processor_name();

}  // namespace heed::cli
