#include <algorithm>
#include <vector>

#include "heed/error.h"
#include "tokenizer/regex.h"

namespace heed::inline v0 {
namespace {

// What a class stands for in Oniguruma and not, or not the same, in PCRE2.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{"
    "1f169}"
    "\\x{1f170}-\\x{1f189}";
// Outside of brackets Oniguruma counts these of Latin-1, too.
constexpr std::string_view kWordAlone = "\\xb2\\xb3\\xb9\\xbc-\\xbe";
constexpr std::string_view kHex = "0-9A-Fa-f";

// Goes over a pattern once and writes what PCRE2 takes for the same.
class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string operator()() {
    while (at_ < in_.size()) {
      expect_short();
      const char c = in_[at_];
      if (c == '\\') {
        escape(/*in_class=*/false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(' && in_.substr(at_, 2) == "(?") {
        group();
      } else if (c == '{') {
        interval();
      } else if (c == '(') {
        open(1);
      } else if (c == ')') {
        close();
      } else {
        out_ += c;
        ++at_;
      }
    }
    out_.append(options_.front(), ')');
    expect_short();
    return std::move(out_);
  }

 private:
  // What PCRE2 compiles has at most 64 KiB, and two bytes, \b, become a thousand here.
  void expect_short() const {
    constexpr size_t kLongest = size_t{1} << 20;
    if (out_.size() > kLongest) refuse("too many classes of characters");
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw FormatError(where_ + ": the regular expression has " + what + " at byte " + std::to_string(at_) +
                      ", which heed does not read");
  }

  void take(size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  void open(size_t bytes) {
    take(bytes);
    options_.push_back(0);
  }
  void close() {
    out_.append(options_.back(), ')');
    if (options_.size() > 1) options_.pop_back();
    take(1);
  }

  static std::string alone() { return std::string(kWord) + std::string(kWordAlone); }

  void put_class(std::string_view members, bool negated, bool in_class) {
    if (in_class && negated) refuse("a negated class within a class");
    out_ += in_class ? std::string(members) : (negated ? "[^" : "[") + std::string(members) + "]";
    at_ += 2;
  }

  void escape(bool in_class) {
    if (at_ + 1 == in_.size()) refuse("a backslash");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's':
        return put_class(kSpace, false, in_class);
      case 'S':
        // Within a class PCRE2's own: it takes U+180E for a space, which Oniguruma does not.
        return in_class ? take(2) : put_class(kSpace, true, false);
      case 'w':
        return put_class(in_class ? std::string(kWord) : alone(), false, in_class);
      case 'W':
        return put_class(alone(), true, in_class);
      case 'h':
        return put_class(kHex, false, in_class);
      case 'H':
        return put_class(kHex, true, in_class);
      case 'b':
      case 'B':
        return in_class ? take(2) : boundary(c == 'B');
      case 'p':
      case 'P':
        return property();
      case 'x':
        return take(2);
      case 'u':
        return code_of_four_digits();
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
      case 'A':
      case 'z':
      case 'Z':
      case 'R':
        return take(2);
      case 'v':
        out_ += "\\x{b}";
        at_ += 2;
        return;
      default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) refuse(std::string("\\") + c);
        return take(2);
    }
  }

  void boundary(bool negated) {
    const std::string word = "[" + alone() + "]";
    const std::string inside = "(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + ")";
    const std::string edge = "(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + ")";
    out_ += "(?:" + (negated ? inside : edge) + ")";
    at_ += 2;
  }

  void code_of_four_digits() {
    const std::string_view digits = in_.substr(at_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse("\\u without four digits");
    out_ += "\\x{" + std::string(digits) + "}";
    at_ += 6;
  }

  // A name of one or two letters is a category in both; a longer one is a script, which PCRE2 takes for its
  // extensions unless told.
  void property() {
    const size_t end = in_.find('}', at_);
    if (in_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) refuse("a property without braces");
    std::string name(in_.substr(at_ + 3, end - at_ - 3));
    bool negated = in_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    const bool script = name.size() > 2 && name != "Any";
    out_ += std::string(negated ? "\\P{" : "\\p{") + (script ? "sc:" : "") + name + "}";
    at_ = end + 1;
  }

  void character_class() {
    take(1);
    if (in_.substr(at_, 1) == "^") take(1);
    if (in_.substr(at_, 1) == "]") refuse("a class that begins with ]");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        escape(/*in_class=*/true);
      } else if (in_[at_] == '[') {
        refuse("a class within a class");
      } else if (in_.substr(at_, 2) == "&&") {
        refuse("an intersection of classes");
      } else {
        take(1);
      }
    }
    if (at_ == in_.size()) refuse("a class without its end");
    take(1);
  }

  // (?i:...), (?:...), lookaround, atomic groups, and options for the rest of a group.
  void group() {
    static constexpr std::string_view kKnown[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    for (const std::string_view known : kKnown)
      if (in_.substr(at_).starts_with(known)) return open(known.size());
    const size_t end = in_.find_first_of(":)", at_);
    const std::string_view options =
        end == std::string_view::npos ? std::string_view("?") : in_.substr(at_ + 2, end - at_ - 2);
    if (options.empty() || options.find_first_not_of("i-") != std::string_view::npos) refuse("a group of another kind");
    if (in_[end] == ':') return open(end - at_ + 1);
    // Options for the rest of the group are a group of their own, alternatives and all.
    out_ += "(?" + std::string(options) + ":";
    at_ = end + 1;
    ++options_.back();
  }

  // {2}, {2,}, {,3} and {2,3}; other braces stand for themselves. Behind one of these + is no possession, and behind
  // {2} ? means once or not at all.
  void interval() {
    const size_t end = in_.find('}', at_);
    const std::string_view inside =
        end == std::string_view::npos ? std::string_view() : in_.substr(at_ + 1, end - at_ - 1);
    const bool is_interval = !inside.empty() && inside != "," &&
                             inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                             std::count(inside.begin(), inside.end(), ',') <= 1;
    if (!is_interval) {
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += inside.starts_with(',') ? "{0" : "{";
    out_ += inside;
    out_ += '}';
    at_ = end + 1;
    if (in_.substr(at_, 1) == "+") refuse("+ behind an interval");
    if (in_.substr(at_, 1) == "?" && inside.find(',') == inside.npos) refuse("? behind a number of times");
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
  std::vector<size_t> options_{0};  // of each group that is open: groups that (?i) has begun in it
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& where) { return Translator(pattern, where)(); }

}  // namespace heed::inline v0
