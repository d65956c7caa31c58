// The program's regular expressions, run by the browser: src/view/page/live_patterns.js puts them into JavaScript's
// writing. That is done there, and not in here, since JavaScript reads patterns and says what it does not take.
#include "tokenizer/regex.h"

#include <cstdint>
#include <vector>

#include "heed/error.h"

#define HEED_ASKED(name) __attribute__((import_module("env"), import_name(#name)))

extern "C" {
/// The number of a pattern; -1 where JavaScript has no such thing.
HEED_ASKED(pattern_made) int32_t pattern_made(const char* pattern, size_t size);
/// Finds all matches in a text; -1 where that fails.
HEED_ASKED(pattern_found) int32_t pattern_found(int32_t pattern, const char* text, size_t size);
/// Puts the first byte of each match and the one behind its last into `to`.
HEED_ASKED(pattern_taken) void pattern_taken(uint32_t* to);
}

namespace heed::inline v0 {

struct Regex::Code {
  int32_t number;
};

Regex::Regex(std::string_view pattern, const std::string& where) : pattern_(pattern.substr(0, 60)) {
  const std::string translated = to_pcre2(pattern, where);
  const int32_t number = pattern_made(translated.data(), translated.size());
  if (number < 0) throw FormatError(where + ": JavaScript has no regular expression such as " + pattern_);
  code_ = std::make_shared<Code>(Code{number});
}

struct Regex::Finder::State {
  const Regex& regex;
  std::vector<uint32_t> ends{};
  size_t at = 0;
};

Regex::Finder::Finder(const Regex& regex) : state_(new State{regex}) {}
Regex::Finder::~Finder() = default;

void Regex::Finder::begin(std::string_view text) {
  const int32_t count = pattern_found(state_->regex.code_->number, text.data(), text.size());
  if (count < 0)
    throw Error("tokenize: the regular expression " + state_->regex.pattern_ +
                " fails on this text; cut the text into shorter ones, or mend tokenizer.json");
  state_->ends.resize(2 * static_cast<size_t>(count));
  pattern_taken(state_->ends.data());
  state_->at = 0;
}

bool Regex::Finder::next(std::pair<size_t, size_t>* match) {
  State& s = *state_;
  if (s.at == s.ends.size()) return false;
  *match = {s.ends[s.at], s.ends[s.at + 1]};
  s.at += 2;
  return true;
}

}  // namespace heed::inline v0
