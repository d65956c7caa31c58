// Regular expressions of tokenizer.json, which are written for Oniguruma, run by PCRE2; in a page by the browser
// (wasm/foreign/regex.cc).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace heed::inline v0 {

class Regex {
 public:
  /// Throws FormatError "WHERE: ..." for what PCRE2 does not take, and for what the two read in different ways.
  Regex(std::string_view pattern, const std::string& where);

  /// Finds the matches in a text one after the other. One for each thread; the Regex must outlive it.
  class Finder {
   public:
    explicit Finder(const Regex& regex);
    ~Finder();
    Finder(const Finder&) = delete;
    Finder& operator=(const Finder&) = delete;

    void begin(std::string_view text);
    /// The next match, first and one behind its last byte; false at the end. None is empty right behind another one.
    /// Throws Error where PCRE2's limits on steps and memory are passed.
    bool next(std::pair<size_t, size_t>* match);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
  std::string pattern_;
};

/// The pattern as PCRE2 (with UTF and UCP) reads it in Oniguruma's sense. Throws FormatError.
std::string to_pcre2(std::string_view pattern, const std::string& where);

}  // namespace heed::inline v0
