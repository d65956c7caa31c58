#include "cli/text_or_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/console.h"
#include "heed/error.h"
#include "heed/text.h"

namespace heed::cli {
namespace {

namespace fs = std::filesystem;

// Names of files rarely have spaces or end like sentences.
bool looks_like_text(const std::string& word) {
  return word.find_first_of(" \t\n") != std::string::npos ||
         (word.find('/') == std::string::npos && std::string(".?!").find(word.back()) != std::string::npos);
}

// As it is typed; of a long text a name for it.
std::string example_of(const std::string& text) {
  constexpr size_t kLongest = 60;  // bytes
  return text.size() <= kLongest && text.find('\n') == std::string::npos ? shell_word(text) : "TEXT";
}

}  // namespace

void warn_of_file_name(const char* command, const std::string& text, const std::string& how) {
  std::error_code error;
  if (text.empty() || !fs::is_regular_file(text, error)) return;
  warn(command, text + " is the name of a file, and is taken as the text itself; to read the file, give " + how);
}

std::string content_as_argument(const std::string& file) { return "\"$(cat " + shell_word(file) + ")\""; }

void expect_no_text(const char* command, const std::string& path, GivesText how) {
  std::error_code error;
  if (path.empty() || path == "-" || fs::exists(fs::status(path, error)) || !looks_like_text(path)) return;
  const bool piped = how == GivesText::standard_input;
  throw IoError("read " + path + ": " + (error ? error.message() : std::strerror(ENOENT)) +
                "; this must be a file. To give a text itself, " +
                (piped ? "leave it out and put this before the command: echo " + example_of(path) + " |"
                       : std::string("leave out --input: heed ") + command + " ... " + example_of(path)));
}

}  // namespace heed::cli
