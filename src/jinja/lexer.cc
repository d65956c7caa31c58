#include "jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "jinja/characters.h"
#include "text/unicode.h"

namespace heed::inline v0::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::string_view kSpaces = " \t\n\v\f\r\x1c\x1d\x1e\x1f";  // ASCII white space in Python

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_name(char c) { return begins_name(c) || is_digit(c); }

// Converts line ends to \n, and removes one at the end of the text.
std::string with_plain_lines(std::string_view source) {
  std::string plain;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      plain += source[i];
      continue;
    }
    plain += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      take_text(tag);
      if (tag == source_.size()) break;
      at_ += 2;
      if (rest().starts_with('-') || rest().starts_with('+')) ++at_;
      switch (source_[tag + 1]) {
        case '#':
          skip_comment();
          break;
        case '{':
          take_tag(Kind::begin_output, "}}", Kind::end_output);
          break;
        default:
          take_tag(Kind::begin_block, "%}", Kind::end_block);
      }
    }
    put(Kind::end);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  size_t line() {
    const std::string_view passed = std::string_view(source_).substr(counted_, at_ - counted_);
    line_ += static_cast<size_t>(std::count(passed.begin(), passed.end(), '\n'));
    counted_ = at_;
    return line_;
  }
  [[noreturn]] void fail(const std::string& what) { fail_at(line(), what); }
  void put(Kind kind, std::string text = {}, Value value = {}) {
    tokens_.push_back({kind, std::move(text), std::move(value), line()});
  }

  size_t next_tag() const {
    for (size_t i = at_; (i = source_.find('{', i)) != std::string::npos; ++i)
      if (i + 1 < source_.size() && std::string_view("{%#").find(source_[i + 1]) != std::string_view::npos) return i;
    return source_.size();
  }

  // Takes the text up to a tag, without the white space that the tag removes.
  void take_text(size_t tag) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (tag < source_.size() && sign == '-') {
      text = stripped(text, /*left=*/false, /*right=*/true);
    } else if (tag < source_.size() && sign != '+' && source_[tag + 1] != '{') {
      const size_t line = text.rfind('\n') + 1;  // 0 in the first line
      const bool from_its_begin = line > 0 || line_begins_;
      if (from_its_begin && stripped(text.substr(line), true, false).empty()) text = text.substr(0, line);
    }
    at_ = tag;
    if (!text.empty()) put(Kind::text, std::string(text));
  }

  // Moves past the end of a tag. `-%}` also skips all following whitespace, `%}` and `#}` one newline.
  void leave_tag(size_t end, bool minus, bool ends_line) {
    at_ = end;
    if (minus)
      at_ = source_.size() - stripped(rest(), /*left=*/true, /*right=*/false).size();
    else if (ends_line && rest().starts_with('\n'))
      ++at_;
    line_begins_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("a comment does not end");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    leave_tag(end + 2, sign == '-', sign != '+');
  }

  void take_tag(Kind begin, std::string_view end, Kind ends) {
    put(begin);
    open_.clear();
    for (;;) {
      at_ = std::min(source_.find_first_not_of(kSpaces, at_), source_.size());
      if (at_ == source_.size()) fail("a tag does not end");
      const std::string_view here = rest();
      const bool minus = here.starts_with('-') && here.substr(1).starts_with(end);
      const bool plus = begin == Kind::begin_block && here.starts_with('+') && here.substr(1).starts_with(end);
      if (open_.empty() && (minus || plus || here.starts_with(end))) {
        put(ends);
        leave_tag(at_ + end.size() + (minus || plus ? 1 : 0), minus, begin == Kind::begin_block && !plus);
        return;
      }
      take_word();
    }
  }

  void take_word() {
    const char c = source_[at_];
    if (begins_name(c)) {
      const size_t begin = at_;
      while (at_ < source_.size() && in_name(source_[at_])) ++at_;
      constexpr size_t kLongestName = 255;
      if (at_ - begin > kLongestName) fail("a name of more than " + std::to_string(kLongestName) + " bytes");
      return put(Kind::name, source_.substr(begin, at_ - begin));
    }
    if (is_digit(c)) return take_number();
    if (c == '\'' || c == '"') return take_string(c);
    constexpr std::array<std::string_view, 26> kSigns{"==", "!=", ">=", "<=", "//", "**", "+", "-", "*",
                                                      "/",  "%",  "~",  "(",  ")",  "[",  "]", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto sign =
        std::find_if(kSigns.begin(), kSigns.end(), [&](std::string_view s) { return rest().starts_with(s); });
    if (sign == kSigns.end()) fail("a character that no expression has");
    balance((*sign)[0]);
    put(Kind::sign, std::string(*sign));
    at_ += sign->size();
  }

  void balance(char sign) {
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(sign) != kOpen.npos) open_ += kClose[kOpen.find(sign)];
    if (kClose.find(sign) == kClose.npos) return;
    if (!open_.ends_with(sign)) fail("brackets do not match");
    open_.pop_back();
  }

  void take_number() {
    const size_t begin = at_;
    bool whole = true;
    const auto digits = [&] {
      while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
    };
    digits();
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      whole = false;
      ++at_;
      digits();
    }
    const char* const first = source_.data() + begin;
    const char* const last = source_.data() + at_;
    int64_t integer = 0;
    double number = 0;
    const auto read = whole ? std::from_chars(first, last, integer) : std::from_chars(first, last, number);
    if (read.ec != std::errc() || (at_ < source_.size() && in_name(source_[at_])) ||
        (whole && at_ - begin > 1 && *first == '0'))
      fail("a number that heed does not read");
    put(whole ? Kind::integer : Kind::number, {}, whole ? Value(integer) : Value(number));
  }

  void take_string(char quote) {
    std::string text;
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_)
      if (source_[at_] == '\\')
        take_escape(&text);
      else
        text += source_[at_];
    if (at_ == source_.size()) fail("a string does not end");
    ++at_;
    put(Kind::string, std::move(text));
  }

  // The escapes of Python's strings.
  void take_escape(std::string* text) {
    if (++at_ == source_.size()) fail("a string does not end");
    const char c = source_[at_];
    constexpr std::string_view kNames = "ntrabfv0\\'\"", kCharacters("\n\t\r\a\b\f\v\0\\'\"", 11);
    const bool octal = is_digit(c) && at_ + 1 < source_.size() && is_digit(source_[at_ + 1]);
    if (c == '\n') return;
    if (const size_t known = kNames.find(c); known != kNames.npos && !octal) return void(*text += kCharacters[known]);
    const size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (length == 0 && (is_digit(c) || c == 'N' || static_cast<unsigned char>(c) >= 0x80))
      fail("an escape that heed does not read");
    if (length == 0) {  // not an escape: the backslash stays
      *text += '\\';
      *text += c;
      return;
    }
    uint32_t code = 0;
    const std::string_view digits = rest().substr(1, length);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != length || read.ptr != digits.data() + length || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      fail("an escape that heed does not read");
    append_utf8(static_cast<char32_t>(code), text);
    at_ += length;
  }

  std::string source_;
  size_t at_ = 0, line_ = 1, counted_ = 0;  // line_ is the line of the byte counted_
  bool line_begins_ = true;
  std::string open_{};  // the closing brackets of the open ones
  std::vector<Token> tokens_{};
};

}  // namespace

void fail_at(size_t line, const std::string& what) { throw ProgramError("line " + std::to_string(line) + ": " + what); }

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

}  // namespace heed::inline v0::jinja
