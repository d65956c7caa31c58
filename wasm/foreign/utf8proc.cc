// What heed calls of utf8proc where it reads texts with its own vocabularies: categories and the canonical forms.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "unicode_tables.h"

namespace {

// Hangul is put together by arithmetic (Unicode 3.12).
constexpr int32_t kS = 0xAC00, kL = 0x1100, kV = 0x1161, kT = 0x11A7, kLs = 19, kVs = 21, kTs = 28;

const Run& run_of(int32_t code) {
  return *std::prev(std::upper_bound(std::begin(kRuns), std::end(kRuns), code,
                                     [](int32_t value, const Run& run) { return value < run.first; }));
}

void decompose(int32_t code, std::vector<int32_t>* out) {
  if (const int32_t s = code - kS; s >= 0 && s < kLs * kVs * kTs) {
    out->insert(out->end(), {kL + s / (kVs * kTs), kV + s / kTs % kVs});
    if (s % kTs != 0) out->push_back(kT + s % kTs);
    return;
  }
  const Decomposition* const found =
      std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), code,
                       [](const Decomposition& one, int32_t value) { return one.code < value; });
  if (found == std::end(kDecompositions) || found->code != code)
    out->push_back(code);
  else
    out->insert(out->end(), kParts + found->begin, kParts + found->begin + found->count);
}

// 0: none.
int32_t composed(int32_t first, int32_t second) {
  if (const int32_t l = first - kL, v = second - kV; l >= 0 && l < kLs && v >= 0 && v < kVs)
    return kS + (l * kVs + v) * kTs;
  if (const int32_t s = first - kS, t = second - kT; s >= 0 && s < kLs * kVs * kTs && s % kTs == 0 && t > 0 && t < kTs)
    return first + t;
  const Pair* const found = std::lower_bound(
      std::begin(kPairs), std::end(kPairs), Pair{first, second, 0},
      [](const Pair& a, const Pair& b) { return a.first != b.first ? a.first < b.first : a.second < b.second; });
  return found != std::end(kPairs) && found->first == first && found->second == second ? found->composed : 0;
}

// Marks behind one base in the order of their classes.
void order(std::vector<int32_t>& codes) {
  const auto marks = [](int32_t code) { return run_of(code).combining_class != 0; };
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if(begin, codes.end(), marks);
    const auto end = std::find_if_not(begin, codes.end(), marks);
    std::stable_sort(begin, end,
                     [](int32_t a, int32_t b) { return run_of(a).combining_class < run_of(b).combining_class; });
    begin = end;
  }
}

void compose(std::vector<int32_t>& codes) {
  size_t kept = 0, base = 0;
  bool has_base = false;
  int last = -1;  // class of what stands between the base and the next one
  for (const int32_t code : codes) {
    const int combining_class = run_of(code).combining_class;
    if (has_base && last < combining_class) {
      if (const int32_t both = composed(codes[base], code)) {
        codes[base] = both;
        continue;
      }
    }
    if (combining_class == 0) {
      has_base = true;
      base = kept;
      last = -1;
    } else {
      last = combining_class;
    }
    codes[kept++] = code;
  }
  codes.resize(kept);
}

}  // namespace

extern "C" {

utf8proc_category_t utf8proc_category(utf8proc_int32_t code) {
  return code < 0 || code > 0x10FFFF ? UTF8PROC_CATEGORY_CN : static_cast<utf8proc_category_t>(run_of(code).category);
}

const utf8proc_property_t* utf8proc_get_property(utf8proc_int32_t code) {
  static utf8proc_property_t property;  // there is one thread
  property.category = static_cast<utf8proc_propval_t>(utf8proc_category(code));
  property.combining_class = code < 0 || code > 0x10FFFF ? 0 : run_of(code).combining_class;
  return &property;
}

utf8proc_ssize_t utf8proc_iterate(const utf8proc_uint8_t* text, utf8proc_ssize_t size, utf8proc_int32_t* code) {
  *code = -1;
  if (size == 0) return 0;
  const uint8_t lead = text[0];
  const int length = lead < 0x80                   ? 1
                     : lead >= 0xC2 && lead < 0xE0 ? 2
                     : (lead & 0xF0) == 0xE0       ? 3
                     : lead >= 0xF0 && lead < 0xF5 ? 4
                                                   : 0;
  if (length == 0 || (size > 0 && size < length)) return UTF8PROC_ERROR_INVALIDUTF8;
  int32_t value = length == 1 ? lead : lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((text[i] & 0xC0) != 0x80) return UTF8PROC_ERROR_INVALIDUTF8;
    value = value << 6 | (text[i] & 0x3F);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || (value >= 0xD800 && value < 0xE000) || value > 0x10FFFF) return UTF8PROC_ERROR_INVALIDUTF8;
  *code = value;
  return length;
}

utf8proc_ssize_t utf8proc_encode_char(utf8proc_int32_t code, utf8proc_uint8_t* to) {
  const auto trail = [&](int shift) { return static_cast<uint8_t>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0 || code > 0x10FFFF) return 0;
  if (code < 0x80) {
    to[0] = static_cast<uint8_t>(code);
    return 1;
  }
  if (code < 0x800) {
    to[0] = static_cast<uint8_t>(0xC0 | code >> 6), to[1] = trail(0);
    return 2;
  }
  if (code < 0x10000) {
    to[0] = static_cast<uint8_t>(0xE0 | code >> 12), to[1] = trail(6), to[2] = trail(0);
    return 3;
  }
  to[0] = static_cast<uint8_t>(0xF0 | code >> 18), to[1] = trail(12), to[2] = trail(6), to[3] = trail(0);
  return 4;
}

utf8proc_ssize_t utf8proc_decompose_char(utf8proc_int32_t code, utf8proc_int32_t* to, utf8proc_ssize_t room,
                                         utf8proc_option_t options, int*) {
  if (options & UTF8PROC_COMPAT) return UTF8PROC_ERROR_INVALIDOPTS;  // tokenizers of other makers ask for it
  std::vector<int32_t> codes;
  decompose(code, &codes);
  std::copy_n(codes.begin(), std::min<size_t>(codes.size(), static_cast<size_t>(room)), to);
  return static_cast<utf8proc_ssize_t>(codes.size());
}

utf8proc_ssize_t utf8proc_normalize_utf32(utf8proc_int32_t* codes, utf8proc_ssize_t count, utf8proc_option_t) {
  std::vector<int32_t> all(codes, codes + count);
  compose(all);
  std::copy(all.begin(), all.end(), codes);
  return static_cast<utf8proc_ssize_t>(all.size());
}

/// To normal form C.
utf8proc_ssize_t utf8proc_map(const utf8proc_uint8_t* text, utf8proc_ssize_t size, utf8proc_uint8_t** to,
                              utf8proc_option_t) {
  std::vector<int32_t> codes;
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(text + at, size - at, &code);
    if (length <= 0) return UTF8PROC_ERROR_INVALIDUTF8;
    decompose(code, &codes);
    at += length;
  }
  order(codes);
  compose(codes);
  auto* const bytes = static_cast<utf8proc_uint8_t*>(std::malloc(4 * codes.size() + 1));
  if (!bytes) return UTF8PROC_ERROR_NOMEM;
  utf8proc_ssize_t end = 0;
  for (const int32_t code : codes) end += utf8proc_encode_char(code, bytes + end);
  bytes[end] = 0;
  *to = bytes;
  return end;
}

const char* utf8proc_errmsg(utf8proc_ssize_t) { return "invalid UTF-8"; }

}  // extern "C"
