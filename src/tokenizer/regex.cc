#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "heed/error.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

std::string reason(int error) {
  PCRE2_UCHAR text[200];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

constexpr uint32_t kMostSteps = 1'000'000;  // at each place of a text
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
  explicit State(const Regex& of) : regex(of) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { pcre2_match_data_free(data); }

  const Regex& regex;
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  std::string_view text;
  size_t at = 0;
  size_t last_end = std::string_view::npos;
};

Regex::Finder::Finder(const Regex& regex) : state_(std::make_unique<State>(regex)) {
  if (!state_->data) throw std::bad_alloc();
}

Regex::Finder::~Finder() = default;

void Regex::Finder::begin(std::string_view text) {
  state_->text = text;
  state_->at = 0;
  state_->last_end = std::string_view::npos;
}

bool Regex::Finder::next(std::pair<size_t, size_t>* match) {
  State& s = *state_;
  while (s.at <= s.text.size()) {
    const int found = pcre2_match(s.regex.code_->code, reinterpret_cast<PCRE2_SPTR>(s.text.data()), s.text.size(), s.at,
                                  PCRE2_NO_UTF_CHECK, s.data, s.regex.code_->context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found == PCRE2_ERROR_NOMEMORY) throw std::bad_alloc();
    if (found < 0)
      throw Error("tokenize: the regular expression " + s.regex.pattern_ + " fails on this text: " + reason(found) +
                  "; cut the text into shorter ones, or mend tokenizer.json");
    const size_t* const ends = pcre2_get_ovector_pointer(s.data);
    *match = {ends[0], ends[1]};
    if (ends[0] == ends[1] && ends[1] == s.last_end) {
      s.at += s.at < s.text.size() ? static_cast<size_t>(decode_utf8(s.text.substr(s.at)).length) : 1;
      continue;
    }
    s.at = s.last_end = ends[1];
    return true;
  }
  return false;
}

}  // namespace heed::inline v0
