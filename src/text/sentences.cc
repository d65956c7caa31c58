// Where one sentence of a paragraph ends and the next begins.
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "heed/text.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

// Compared in lower case. Only what is often followed by a capital or a digit: a lower-case letter never begins a
// sentence.
//
// Stand before a name or a noun, and end no sentence.
constexpr std::array<std::string_view, 66> kBeforeNames{
    "abp",   "adm", "arq",  "bros", "bspw", "bzgl",  "bzw",    "capt", "cdte", "cf",    "chr", "cmdr", "cnel", "dipl",
    "dr",    "dra", "drs",  "dña",  "evtl", "excmo", "frl",    "gob",  "gral", "gov",   "hno", "hr",   "hrn",  "hrsg",
    "inkl",  "jh",  "lcdo", "lic",  "lt",   "maj",   "messrs", "mgr",  "mlle", "mlles", "mme", "mmes", "mons", "mr",
    "mrs",   "ms",  "mt",   "pbro", "prof", "profa", "pte",    "rev",  "sgt",  "sr",    "sra", "sras", "sres", "srta",
    "srtas", "ss",  "st",   "sta",  "ste",  "sto",   "tte",    "vgl",  "vs",   "zzgl"};
// Stand before a number.
constexpr std::array<std::string_view, 62> kBeforeNumbers{
    "abb", "abs",  "abschn", "ago",  "apdo", "apr", "art",  "arts", "aug",  "av",  "avda", "bd",  "ca",
    "cap", "chap", "dec",    "dez",  "dic",  "eq",  "feb",  "fig",  "figs", "jan", "jul",  "jun", "kap",
    "lám", "mar",  "nos",    "nov",  "no",   "nr",  "num",  "nº",   "n°",   "núm", "núms", "oct", "okt",
    "pag", "pp",   "pág",    "págs", "sec",  "sep", "sept", "set",  "tab",  "tel", "tfno", "tlf", "tomo",
    "vol", "vols", "ziff",   "ene",  "abr",  "may", "mai",  "mrz",  "§",    "§§"};
// What German counts with a number and a dot: "am 3. Mai", "der 2. Weltkrieg".
constexpr std::array<std::string_view, 26> kAfterOrdinals{
    "april",      "auflage", "august",    "bundesliga",  "dezember",     "etage",    "februar",
    "geburtstag", "januar",  "jahrestag", "jahrhundert", "jahrhunderts", "juli",     "juni",
    "kapitel",    "klasse",  "liga",      "mai",         "märz",         "november", "oktober",
    "platz",      "rang",    "september", "stock",       "weltkrieg"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_one_of(char32_t code, std::u32string_view set) { return set.find(code) != std::u32string_view::npos; }

// Ends a sentence where a space follows.
bool is_terminator(char32_t code) { return is_one_of(code, U".!?…‽؟।॥։۔"); }
// Ends a sentence by itself.
bool is_full_width_terminator(char32_t code) { return is_one_of(code, U"。！？｡"); }
// Belongs to the sentence that ended before it. Quotation marks close in one language and open in another.
bool is_closer(char32_t code) { return is_one_of(code, U"\"')]}”’»›“«‹」』）】》〉］｝"); }
// Stands before the first letter of a sentence.
bool is_opener(char32_t code) { return is_one_of(code, U"\"'([{“‘„‚«‹»›”’「『（【《〈［｛-–—*_"); }

bool is_letter(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}
bool is_digit(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool begins_sentence(char32_t code) {
  return code == U'¿' || code == U'¡' || is_digit(code) || (is_letter(code) && category(code) != UTF8PROC_CATEGORY_LL);
}

std::string lower(std::u32string_view word) {
  std::string text;
  for (const char32_t code : word) append_utf8(code, &text);
  return to_lower(text);
}

// Brackets keep what they hold together: '(', and its kind, while what closes it comes later.
constexpr std::u32string_view kOpenBrackets = U"([（［「『【《", kCloseBrackets = U")]）］」』】》";

class Splitter {
 public:
  explicit Splitter(std::u32string text) : text_(std::move(text)) {
    for (size_t i = 0; i < text_.size(); ++i)
      if (const auto kind = kCloseBrackets.find(text_[i]); kind != std::u32string_view::npos) last_close_[kind] = i;
  }

  // Begin and end of each sentence.
  std::vector<std::pair<size_t, size_t>> operator()() {
    std::vector<std::pair<size_t, size_t>> sentences;
    begin_ = skip_spaces(0);
    bool words = false;  // since begin_: what has none is no sentence of its own
    for (size_t i = begin_; i < text_.size();) {
      const char32_t code = text_[i];
      words = words || is_letter(code) || is_digit(code);
      const bool stops = is_terminator(code) || is_full_width_terminator(code);
      const size_t end = stops ? end_of(i) : i + 1;
      if (!stops || end == text_.size() || !words || !is_boundary(i, end)) {
        for (; i < end; ++i) follow_brackets(i);
        continue;
      }
      sentences.emplace_back(begin_, end);
      i = begin_ = skip_spaces(end);
      open_.clear();
      words = false;
    }
    size_t end = text_.size();
    while (end > begin_ && is_space(text_[end - 1])) --end;
    if (end > begin_) sentences.emplace_back(begin_, end);
    return sentences;
  }

 private:
  void follow_brackets(size_t i) {
    const auto kind = kOpenBrackets.find(text_[i]);
    const bool smiley = i > 0 && is_one_of(text_[i - 1], U":;=-");
    if (kind != std::u32string_view::npos && last_close_[kind] > i && !smiley) open_.push_back(kind);
    if (!open_.empty() && text_[i] == kCloseBrackets[open_.back()]) open_.pop_back();
  }
  size_t skip_spaces(size_t i) const {
    while (i < text_.size() && is_space(text_[i])) ++i;
    return i;
  }
  // Behind the terminators that stand together.
  size_t run_end(size_t i) const {
    while (i < text_.size() && (is_terminator(text_[i]) || is_full_width_terminator(text_[i]))) ++i;
    return i;
  }
  // Behind them and what closes with them.
  size_t end_of(size_t i) const {
    for (size_t end = run_end(i);; i = end) {
      while (end < text_.size() && is_closer(text_[end])) ++end;
      end = run_end(end);
      if (end == i) return end;
    }
  }
  // The brackets that are open at i are closed before `end`.
  bool brackets_close(size_t i, size_t end) const {
    size_t open = open_.size();
    for (; i < end && open > 0; ++i)
      if (text_[i] == kCloseBrackets[open_[open - 1]]) --open;
    return open == 0;
  }

  // Terminators begin at `i`; the sentence would end at `end`, before the end of the text.
  bool is_boundary(size_t i, size_t end) const {
    if (!brackets_close(i, end)) return false;
    const size_t stop = run_end(i), next = skip_spaces(end);
    if (next == text_.size()) return false;
    if (next == end) {
      if (is_one_of(text_[next], U"¿¡")) return stop - i > 1 || text_[i] != U'.';
      // In a quotation that goes on: 「行くの？」と言った。
      const bool quoted = is_closer(text_[end - 1]) && !is_one_of(text_[next], kOpenBrackets);
      return is_full_width_terminator(text_[stop - 1]) && !quoted;
    }
    size_t first = next;
    while (first < text_.size() && (is_opener(text_[first]) || is_space(text_[first]))) ++first;
    if (is_full_width_terminator(text_[stop - 1])) return true;
    if (first == text_.size() || !begins_sentence(text_[first])) return false;
    return stop - i > 1 || text_[i] != U'.' || end > stop || dot_ends_sentence(i, first);
  }

  // A single dot at `dot`; what follows begins at `next` as a sentence may.
  bool dot_ends_sentence(size_t dot, size_t next) const {
    size_t begin = dot;
    while (begin > begin_ && !is_space(text_[begin - 1])) --begin;
    const bool leads = begin == begin_;
    while (begin < dot && is_opener(text_[begin])) ++begin;
    const std::u32string_view word = std::u32string_view(text_).substr(begin, dot - begin);
    if (word.size() == 1 && is_letter(word[0])) return word == U"I" && !leads;  // an initial; Henry I.; so do I.
    if (word.find(U'.') != std::u32string_view::npos) return !is_dotted(word) || ends_hour(word);
    if (word.size() <= 2 && std::all_of(word.begin(), word.end(), is_digit))
      return !leads && !contains(kAfterOrdinals, lower(word_at(next)));
    const std::string plain = lower(word);
    return !contains(kBeforeNames, plain) && !(is_digit(text_[next]) && contains(kBeforeNumbers, plain));
  }

  // U.S, e.g, EE.UU, z.B
  static bool is_dotted(std::u32string_view word) {
    size_t letters = 0;
    for (const char32_t code : word) {
      letters = code == U'.' ? 0 : letters + 1;
      if (letters > 2 || (code != U'.' && !is_letter(code))) return false;
    }
    return true;
  }
  static bool ends_hour(std::u32string_view word) {
    const std::string plain = lower(word);
    return plain == "a.m" || plain == "p.m";
  }
  std::u32string_view word_at(size_t begin) const {
    size_t end = begin;
    while (end < text_.size() && is_letter(text_[end])) ++end;
    return std::u32string_view(text_).substr(begin, end - begin);
  }

  std::u32string text_;
  std::array<size_t, kCloseBrackets.size()> last_close_{};
  std::vector<size_t> open_;  // kinds of the brackets that are open
  size_t begin_ = 0;          // of the sentence
};

}  // namespace

std::vector<std::string_view> split_sentences(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t at = 0, byte = 0;  // the same place, in characters and bytes
  const auto advance = [&](size_t to) {
    for (; at < to; ++at) byte += static_cast<size_t>(decode_utf8(text.substr(byte)).length);
    return byte;
  };
  for (const auto& [begin, end] : Splitter(to_utf32(text))()) {
    const size_t first = advance(begin);
    parts.push_back(text.substr(first, advance(end) - first));
  }
  return parts;
}

bool is_blank(std::string_view text) {
  for (const char32_t code : to_utf32(text)) {
    const bool shows_nothing = is_space(code) || category(code) == UTF8PROC_CATEGORY_CC || code == U'\u2800' ||
                               category(code) == UTF8PROC_CATEGORY_CF ||
                               utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->ignorable;
    if (!shows_nothing) return false;
  }
  return true;
}

}  // namespace heed::inline v0
