#include "recipe/config_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "heed/error.h"
#include "heed/io.h"
#include "heed/text.h"

namespace heed::inline v0 {
namespace {

// What may follow a backslash, and what it stands for.
constexpr std::string_view kEscapeNames = "btnfr\"\\", kEscaped = "\b\t\n\f\r\"\\";

constexpr std::string_view kOfName = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::general).ptr};
}

bool is_digit(char c, int base = 10) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  return base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'));
}

// Digits without the underscores that separate them; empty where one does not stand between two digits.
std::string plain_digits(std::string_view text, int base) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool separates = text[i] == '_' && i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (!separates && !is_digit(text[i], base)) return "";
    if (!separates) digits += text[i];
  }
  return digits.empty() || text.back() == '_' ? "" : digits;
}

std::optional<std::string> whole_number(const std::string& digits, int base) {
  int64_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number, base);
  if (digits.empty() || read.ec != std::errc() || read.ptr != end) return {};
  return std::to_string(number);
}

// A number of TOML as it is typed at a command line; nothing for another text, and for a number beyond 64 bits.
std::optional<std::string> number_of(std::string_view text) {
  for (const auto& [prefix, base] : {std::pair{"0x", 16}, {"0o", 8}, {"0b", 2}})
    if (text.starts_with(prefix)) return whole_number(plain_digits(text.substr(2), base), base);
  const std::string sign(text.starts_with('-') ? "-" : "");
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text == "inf" || text == "nan") return sign + std::string(text);
  const size_t point = std::min(text.find_first_of(".eE"), text.size());
  const std::string whole = plain_digits(text.substr(0, point), 10);
  if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return {};
  if (point == text.size()) return whole_number(sign + whole, 10);
  std::string number = sign + whole;
  std::string_view rest = text.substr(point);
  if (rest[0] == '.') {
    const size_t end = std::min(rest.find_first_of("eE"), rest.size());
    const std::string fraction = plain_digits(rest.substr(1, end - 1), 10);
    if (fraction.empty()) return {};
    number += "." + fraction;
    rest.remove_prefix(end);
  }
  if (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string exponent_sign(rest.starts_with('-') ? "-" : "");
    if (rest.starts_with('-') || rest.starts_with('+')) rest.remove_prefix(1);
    const std::string exponent = plain_digits(rest, 10);
    if (exponent.empty()) return {};
    number += "e" + exponent_sign + exponent;
  }
  double value = 0;
  if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc()) return {};
  return shortest(value);
}

// Goes over the text once. It calls itself for nothing, so that no text is nested too deeply for it.
class Reader {
 public:
  Reader(std::string_view text, const std::string& path) : path_(path) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    text_.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] != '\r' || text.substr(i + 1, 1) != "\n") text_ += text[i];  // a line may end as on Windows
  }

  std::vector<ConfigEntry> read() {
    check_characters();
    std::vector<ConfigEntry> entries;
    std::set<std::string> names;
    int64_t line = 1;
    size_t counted = 0;
    for (skip_lines(); !done(); skip_lines()) {
      line += line_ends(counted);
      counted = at_;
      entries.push_back(entry(line));
      if (!names.insert(entries.back().name).second) refuse(quoted(entries.back().name) + " stands there twice");
      end_line();
    }
    return entries;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw FormatError(path_ + ": line " + std::to_string(1 + line_ends(0)) + ": " + what);
  }
  // Between `from` and here.
  int64_t line_ends(size_t from) const {
    return std::count(text_.begin() + static_cast<std::ptrdiff_t>(from),
                      text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  }
  static std::string quoted(const std::string& name) { return "'" + name + "'"; }
  [[noreturn]] void refuse_value(const std::string& name, const std::string& value) const {
    refuse(quoted(name) + " is " + (value.empty() ? "empty" : in_quotes(value)) +
           ", which is neither text nor a number, true or false; options stand alone, as in seed = 1, and text in "
           "quotes");
  }

  bool done() const { return at_ == text_.size(); }
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool take(std::string_view what) {
    if (!rest().starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  void check_characters() {
    for (; !done(); ++at_) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7F)
        refuse("it has the control character " + std::to_string(c) + "; in text, write it as \\u00XX");
    }
    for (at_ = 0; !done();) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      int64_t malformed = 0;
      sanitize_utf8(rest().substr(0, end - at_), &malformed);
      if (malformed > 0) refuse("it is not UTF-8");
      at_ = std::min(end + 1, text_.size());
    }
    at_ = 0;
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size()); }
  void skip_comment() {
    skip_blanks();
    if (rest().starts_with('#')) at_ = std::min(text_.find('\n', at_), text_.size());
  }
  void skip_lines() {
    do skip_comment();
    while (take("\n"));
  }
  void end_line() {
    skip_comment();
    if (!done() && !take("\n")) refuse("a line holds one option; begin a new line for the next");
  }

  ConfigEntry entry(int64_t line) {
    ConfigEntry entry{.name = key(), .values = {}, .line = line};
    skip_blanks();
    if (take(".")) refuse("the name of an option is one word, as in seed = 1, without a point");
    if (!take("=")) refuse("no = follows " + quoted(entry.name) + "; options stand alone, as in seed = 1");
    skip_blanks();
    if (!take("[")) {
      entry.values.push_back(value(entry.name));
      return entry;
    }
    for (skip_lines(); !take("]"); skip_lines()) {
      entry.values.push_back(value(entry.name));
      skip_lines();
      if (take(",")) continue;
      if (!rest().starts_with("]")) refuse("the list of " + quoted(entry.name) + " does not end: , or ] is missing");
    }
    return entry;
  }

  std::string key() {
    constexpr size_t kLongest = 100;  // bytes, more than any option has
    if (rest().starts_with('[')) refuse("it begins a table; options stand alone, as in seed = 1");
    const bool is_quoted = rest().starts_with('"') || rest().starts_with('\'');
    const size_t begin = at_;
    const std::string name =
        is_quoted ? line_of_text() : std::string(rest().substr(0, rest().find_first_not_of(kOfName)));
    if (!is_quoted) at_ += name.size();
    if (name.empty() || name.size() > kLongest || name.find_first_not_of(kOfName) != std::string::npos) {
      at_ = begin;
      refuse("it begins with no name of an option; write one as in seed = 1");
    }
    return name;
  }

  std::string value(const std::string& name) {
    if (rest().starts_with("\"\"\"") || rest().starts_with("'''")) return lines_of_text();
    if (rest().starts_with('"') || rest().starts_with('\'')) return line_of_text();
    if (rest().starts_with('[') || rest().starts_with('{'))
      refuse(quoted(name) + " holds a list or a table; give it text, numbers, true or false");
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(" \t\n,]#", at_), text_.size());
    const std::string word = text_.substr(begin, at_ - begin);
    if (word == "true" || word == "false") return word;
    if (auto number = number_of(word)) return *number;
    at_ = begin;
    refuse_value(name, word);
  }

  // "text" or 'text'.
  std::string line_of_text() {
    const char quote = text_[at_++];
    std::string text;
    while (!take(std::string_view(&quote, 1))) {
      if (done() || rest().starts_with('\n')) refuse("a text has no end: its closing quote is missing on this line");
      if (quote == '"' && take("\\"))
        escape(&text);
      else
        text += text_[at_++];
    }
    return text;
  }

  // """text""" or '''text''', over several lines. The last quotes end it; two before them belong to it.
  std::string lines_of_text() {
    const std::string quotes = text_.substr(at_, 3);
    const size_t begin = at_;
    at_ += 3;
    take("\n");
    std::string text;
    while (!take(quotes)) {
      if (done()) {
        at_ = begin;
        refuse("a text has no end: its closing quotes are missing");
      }
      if (quotes[0] != '"' || !take("\\")) {
        text += text_[at_++];
        continue;
      }
      const size_t next = text_.find_first_not_of(" \t", at_);
      if (next != std::string::npos && text_[next] == '\n')
        at_ = std::min(text_.find_first_not_of(" \t\n", next), text_.size());  // joins the next line
      else
        escape(&text);
    }
    for (int more = 0; more < 2 && rest().starts_with(quotes[0]); ++more) text += text_[at_++];
    return text;
  }

  // After the backslash.
  void escape(std::string* text) {
    const char name = done() ? '\0' : text_[at_++];
    if (const size_t which = kEscapeNames.find(name); which != std::string_view::npos) {
      *text += kEscaped[which];
      return;
    }
    const size_t digits = name == 'u' ? 4 : name == 'U' ? 8 : 0;
    const std::string code = text_.substr(at_, digits);
    uint32_t character = 0;
    const auto read = std::from_chars(code.data(), code.data() + code.size(), character, 16);
    if (digits == 0 || code.size() != digits || read.ptr != code.data() + digits || read.ec != std::errc())
      refuse(
          "a backslash begins none of \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX \\UXXXXXXXX; for a backslash write \\\\, "
          "or put "
          "the text in single quotes");
    if (character == 0 || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000))
      refuse("\\" + std::string(1, name) + code + " is no character that an option may hold");
    at_ += digits;
    append_utf8(static_cast<char32_t>(character), text);
  }

  std::string text_;
  const std::string& path_;
  size_t at_ = 0;
};

std::string toml_value(const std::string& text, bool quoted) {
  if (!quoted && (text == "true" || text == "false")) return text;
  // Numbers as they are typed; TOML's other forms are text here.
  if (!quoted && !text.starts_with('+') && text.find_first_not_of("0123456789+-.eE") == std::string::npos)
    if (auto number = number_of(text)) return *number;
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    if (const size_t which = kEscaped.find(c); which != std::string_view::npos)
      out += {'\\', kEscapeNames[which]};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::vector<ConfigEntry> parse_config(std::string_view toml, const std::string& path) {
  return Reader(toml, path).read();
}

std::string toml_line(const std::string& name, const std::vector<std::string>& values, bool list, bool quoted) {
  std::string line = name + " = ";
  if (list) line += "[";
  for (const std::string& value : values)
    if (sanitize_utf8(value) != value)
      throw UsageError(name + " " + sanitize_utf8(value) +
                       ": it is not UTF-8, which files of options are; rename the file");
  for (size_t i = 0; i < values.size(); ++i) line += (i > 0 ? ", " : "") + toml_value(values[i], quoted);
  return line + (list ? "]" : "");
}

}  // namespace heed::inline v0
