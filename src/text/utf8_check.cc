// Texts in other encodings than UTF-8.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "heed/text.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kDamaged = 4;  // malformed sequences that say nothing about the encoding

bool is_safe_in_a_shell(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("/._-+,:@%").find(c) != std::string_view::npos || (c & 0x80) != 0;
}

// The command that converts the text called `name`, which is a file or comes from a pipe.
std::string conversion(const std::string& name, const std::string& encoding) {
  const std::string iconv = "iconv -f " + encoding + " -t UTF-8";
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(name, unknown)) return iconv;
  const bool packed = name.ends_with(".gz");
  std::filesystem::path to =
      packed ? std::filesystem::path(name.substr(0, name.size() - 3)) : std::filesystem::path(name);
  to.replace_extension("utf8" + to.extension().string());
  const std::string from = shell_word(name);
  return (packed ? "gzip -dc " + from + " | " + iconv : iconv + " " + from) + " > " + shell_word(to.string());
}

// "UTF-16LE" of a text whose every second byte is mostly 0; empty where that is not so.
std::string wide_encoding(std::string_view part) {
  bool zero[4]{};  // whether the bytes at 4 * i + k are mostly 0
  for (size_t k = 0; k < 4; ++k) {
    size_t zeros = 0, all = 0;
    for (size_t i = k; i < part.size(); i += 4, ++all) zeros += part[i] == '\0';
    zero[k] = 2 * zeros >= all;
  }
  if (zero[2] && zero[3] && !zero[0]) return "UTF-32LE";
  if (zero[0] && zero[1] && !zero[3]) return "UTF-32BE";
  if (zero[1] && zero[3] && !zero[0] && !zero[2]) return "UTF-16LE";
  if (zero[0] && zero[2] && !zero[1] && !zero[3]) return "UTF-16BE";
  return "";
}

std::string marked_encoding(std::string_view part) {
  using namespace std::string_view_literals;
  if (part.starts_with("\xFF\xFE\0\0"sv) || part.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  if (part.starts_with("\xFF\xFE"sv) || part.starts_with("\xFE\xFF"sv)) return "UTF-16";
  return "";
}

}  // namespace

std::string shell_word(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_safe_in_a_shell)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

void Utf8Check::expect_single_bytes(std::string_view part) {
  constexpr size_t kEnough = 8;
  std::string encoding = begun_ ? "" : marked_encoding(part);
  if (encoding.empty()) {
    if (begun_ && part.starts_with('\0')) part.remove_prefix(1);  // the rest of a newline
    if (part.size() < kEnough) return;
    decided_ = true;
    encoding = wide_encoding(part.substr(0, size_t{1} << 16));
  }
  if (!encoding.empty())
    throw FormatError(name_ + ": the text is " + encoding.substr(0, 6) +
                      ", and heed reads UTF-8; convert it: " + conversion(name_, encoding));
}

std::string Utf8Check::take(std::string_view part) {
  if (!decided_) expect_single_bytes(part);
  if (!std::exchange(begun_, true)) part = without_byte_order_mark(part);
  const auto is_ascii = [](char c) { return (c & 0x80) == 0; };
  auto at = std::find_if_not(part.begin(), part.end(), is_ascii);
  std::string text(part.begin(), at);
  if (at == part.end()) return text;
  const std::string_view whole = part;
  const int64_t before = replaced_;
  text.reserve(part.size());
  part.remove_prefix(text.size());
  while (!part.empty()) {
    const DecodedCharacter c = decode_utf8(part);
    if (c.valid) {
      text.append(part.substr(0, static_cast<size_t>(c.length)));
      valid_ += c.length > 1;
    } else {
      text.append("\uFFFD");
      ++replaced_;
      windows_ |= static_cast<unsigned char>(part[0]) < 0xA0;
    }
    part.remove_prefix(static_cast<size_t>(c.length));
  }
  binary_ |= replaced_ > before && whole.find('\0') != std::string_view::npos;
  return text;
}

void Utf8Check::expect_utf8() const {
  if (replaced_ <= kDamaged || replaced_ <= valid_) return;
  const std::string what = name_ + ": not UTF-8: " + std::to_string(replaced_) + " of " +
                           std::to_string(replaced_ + valid_) + " characters beyond ASCII are malformed; ";
  if (binary_) throw FormatError(what + "it is no text; give another file");
  throw FormatError(what + "convert it, where it is " + (windows_ ? "Windows-1252" : "Latin-1") + " by " +
                    conversion(name_, windows_ ? "WINDOWS-1252" : "ISO-8859-1"));
}

std::string replaced_in_words(int64_t replaced, const std::string& of) {
  return "replaced malformed UTF-8 by U+FFFD in " + std::to_string(replaced) + (replaced == 1 ? " place" : " places") +
         (of.empty() ? "" : " of the " + of) + "; a text in Latin-1 is converted by iconv -f ISO-8859-1 -t UTF-8";
}

}  // namespace heed::inline v0
