#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <new>

#include "heed/error.h"
#include "text/unicode.h"

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
      const char c = in_[at_];
      if (c == '\\') {
        escape(/*in_class=*/false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(' && in_.substr(at_, 2) == "(?") {
        group();
      } else if (c == '{') {
        interval();
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw FormatError(where_ + ": the regular expression has " + what + " at byte " + std::to_string(at_) +
                      ", which heed does not read");
  }

  void take(size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
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
      if (in_.substr(at_).starts_with(known)) return take(known.size());
    const size_t end = in_.find_first_of(":)", at_);
    const std::string_view options =
        end == std::string_view::npos ? std::string_view("?") : in_.substr(at_ + 2, end - at_ - 2);
    if (options.empty() || options.find_first_not_of("i-") != std::string_view::npos) refuse("a group of another kind");
    take(end - at_ + 1);
  }

  // {2}, {2,}, {,3} and {2,3}; other braces stand for themselves. Behind one of these + is no possession.
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
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
};

std::string reason(int error) {
  PCRE2_UCHAR text[200];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

constexpr uint32_t kMostSteps = 10'000'000;
constexpr uint32_t kMostDepth = 100'000;
constexpr size_t kMostHeap = 64 << 10;  // KiB
constexpr size_t kJitStack = 4 << 20;
constexpr size_t kLongestPattern = 100'000;  // bytes

// One for each thread: to make one takes longer than most matches.
pcre2_jit_stack* stack_of_thread(void*) {
  struct Stack {
    ~Stack() { pcre2_jit_stack_free(stack); }
    pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, kJitStack, nullptr);
  };
  static thread_local const Stack stack;
  return stack.stack;
}

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& where) { return Translator(pattern, where)(); }

struct Regex::Code {
  ~Code() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
  }
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;  // with the limits
};

Regex::Regex(std::string_view pattern, const std::string& where) : pattern_(pattern.substr(0, 60)) {
  if (pattern.size() > kLongestPattern)
    throw FormatError(where + ": a regular expression of " + std::to_string(pattern.size()) + " bytes; at most " +
                      std::to_string(kLongestPattern) + " are read");
  if (!valid_utf8(pattern)) throw FormatError(where + ": a regular expression that is not UTF-8");
  const std::string translated = to_pcre2(pattern, where);
  auto code = std::make_shared<Code>();
  int error = 0;
  size_t offset = 0;
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (!code->code) throw FormatError(where + ": the regular expression is broken: " + reason(error));
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // where there is none, it is interpreted
  code->context = pcre2_match_context_create(nullptr);
  if (!code->context) throw std::bad_alloc();
  pcre2_set_match_limit(code->context, kMostSteps);
  pcre2_set_depth_limit(code->context, kMostDepth);
  pcre2_set_heap_limit(code->context, kMostHeap);
  pcre2_jit_stack_assign(code->context, stack_of_thread, nullptr);
  code_ = std::move(code);
}

struct Regex::Finder::State {
  ~State() { pcre2_match_data_free(data); }
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
};

Regex::Finder::Finder(const Regex& regex) : state_(std::make_unique<State>()), regex_(regex) {
  if (!state_->data) throw std::bad_alloc();
}

Regex::Finder::~Finder() = default;

void Regex::Finder::begin(std::string_view text) {
  text_ = text;
  at_ = 0;
  last_end_ = std::string_view::npos;
}

bool Regex::Finder::next(std::pair<size_t, size_t>* match) {
  while (at_ <= text_.size()) {
    const int found = pcre2_match(regex_.code_->code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                                  PCRE2_NO_UTF_CHECK, state_->data, regex_.code_->context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (found < 0)
      throw Error("tokenize: the regular expression " + regex_.pattern_ + " fails on this text: " + reason(found) +
                  "; cut the text into shorter ones, or mend tokenizer.json");
    const size_t* const ends = pcre2_get_ovector_pointer(state_->data);
    *match = {ends[0], ends[1]};
    if (ends[0] == ends[1] && ends[1] == last_end_) {
      at_ += at_ < text_.size() ? static_cast<size_t>(decode_utf8(text_.substr(at_)).length) : 1;
      continue;
    }
    at_ = last_end_ = ends[1];
    return true;
  }
  return false;
}

}  // namespace heed::inline v0
