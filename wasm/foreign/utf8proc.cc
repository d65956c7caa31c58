// What heed calls of utf8proc in a page: categories, normal forms, lower case, grapheme clusters.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "unicode_tables.h"

namespace {

// Hangul is put together by arithmetic (Unicode 3.12).
constexpr int32_t kS = 0xAC00, kL = 0x1100, kV = 0x1161, kT = 0x11A7, kLs = 19, kVs = 21, kTs = 28;

// Up to the next one.
struct Run {
  int32_t first;
  uint8_t category, combining_class, bound;
};

// Every so many codes, and how far away their lower case is.
struct Lower {
  int32_t first, last, step, away;
};

struct Decompositions {
  struct Place {
    int32_t code;
    size_t begin, count;
    bool composes;  // the parts become the character again
  };
  std::vector<Place> places;
  std::vector<int32_t> parts;

  const Place* find(int32_t code) const {
    const auto found = std::lower_bound(places.begin(), places.end(), code,
                                        [](const Place& one, int32_t value) { return one.code < value; });
    return found == places.end() || found->code != code ? nullptr : &*found;
  }
};

// Goes over a table of unicode_tables.h.
class Unpacked {
 public:
  explicit Unpacked(const uint8_t* table) : at_(table), rows_(static_cast<size_t>(next())) {}
  size_t rows() const { return rows_; }
  int32_t next() {
    uint32_t value = 0;
    int shift = 0;
    for (; *at_ >= 128; shift += 7) value |= (*at_++ & 127U) << shift;
    return static_cast<int32_t>(value | static_cast<uint32_t>(*at_++) << shift);
  }
  int32_t next_signed() {
    const int32_t value = next();
    return value % 2 == 0 ? value / 2 : -(value / 2) - 1;
  }

 private:
  const uint8_t* at_;
  size_t rows_;
};

Decompositions decompositions_of(const uint8_t* table) {
  Unpacked in(table);
  Decompositions out;
  out.places.resize(in.rows());
  int32_t code = 0, part = 0;
  for (auto& place : out.places) place.code = code += in.next();
  for (auto& place : out.places) {
    const int32_t value = in.next();
    place.count = static_cast<size_t>(value / 2);
    place.composes = value % 2 != 0;
  }
  for (auto& place : out.places) {
    place.begin = out.parts.size();
    for (size_t i = 0; i < place.count; ++i) out.parts.push_back(part += in.next_signed());
  }
  return out;
}

struct Tables {
  std::vector<Run> runs;
  std::vector<Lower> lower;
  Decompositions canonical = decompositions_of(kCanonical), compatible = decompositions_of(kCompatible);
  std::map<std::pair<int32_t, int32_t>, int32_t> pairs;  // and what they become

  Tables() {
    Unpacked run(kRuns), low(kLower);
    runs.resize(run.rows());
    int32_t code = 0;
    for (Run& one : runs) one.first = code += run.next();
    for (Run& one : runs) one.category = static_cast<uint8_t>(run.next());
    for (Run& one : runs) one.combining_class = static_cast<uint8_t>(run.next());
    for (Run& one : runs) one.bound = static_cast<uint8_t>(run.next());
    lower.resize(low.rows());
    code = 0;
    for (Lower& one : lower) one.first = code += low.next();
    for (Lower& one : lower) one.last = one.first + low.next();
    for (Lower& one : lower) one.step = low.next();
    int32_t away = 0;
    for (Lower& one : lower) one.away = away += low.next_signed();
    fill_pairs();
  }

  // A character is the pair of its last part and of what the others become: shorter ones come first.
  void fill_pairs() {
    constexpr size_t kMostParts = 4;
    for (size_t count = 2; count <= kMostParts; ++count)
      for (const auto& place : canonical.places) {
        if (!place.composes || place.count != count) continue;
        const int32_t* const parts = canonical.parts.data() + place.begin;
        int32_t first = parts[0];
        for (size_t i = 1; i + 1 < count; ++i) first = pairs.at({first, parts[i]});
        pairs[{first, parts[count - 1]}] = place.code;
      }
  }
};

const Tables& tables() {
  static const Tables* const all = new Tables;
  return *all;
}

const Run& run_of(int32_t code) {
  const std::vector<Run>& runs = tables().runs;
  if (code < 0 || code > 0x10FFFF) code = 0x10FFFF;  // not assigned
  return *std::prev(std::upper_bound(runs.begin(), runs.end(), code,
                                     [](int32_t value, const Run& run) { return value < run.first; }));
}

void decompose(int32_t code, bool compatibly, std::vector<int32_t>* out) {
  if (const int32_t s = code - kS; s >= 0 && s < kLs * kVs * kTs) {
    out->insert(out->end(), {kL + s / (kVs * kTs), kV + s / kTs % kVs});
    if (s % kTs != 0) out->push_back(kT + s % kTs);
    return;
  }
  const Decompositions* from = &tables().compatible;
  const Decompositions::Place* found = compatibly ? from->find(code) : nullptr;
  if (!found) {
    from = &tables().canonical;
    found = from->find(code);
  }
  if (!found) return out->push_back(code);
  const auto begin = from->parts.begin() + static_cast<ptrdiff_t>(found->begin);
  out->insert(out->end(), begin, begin + static_cast<ptrdiff_t>(found->count));
}

// 0: none. The library takes U+11A7, which no syllable ends with, for a part of one, too.
int32_t composed(int32_t first, int32_t second) {
  if (const int32_t l = first - kL, v = second - kV; l >= 0 && l < kLs && v >= 0 && v < kVs)
    return kS + (l * kVs + v) * kTs;
  if (const int32_t s = first - kS, t = second - kT; s >= 0 && s < kLs * kVs * kTs && s % kTs == 0 && t >= 0 && t < kTs)
    return first + t;
  const auto found = tables().pairs.find({first, second});
  return found == tables().pairs.end() ? 0 : found->second;
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
  return static_cast<utf8proc_category_t>(run_of(code).category);
}

const utf8proc_property_t* utf8proc_get_property(utf8proc_int32_t code) {
  static utf8proc_property_t property;  // there is one thread
  property.category = run_of(code).category;
  property.combining_class = run_of(code).combining_class;
  return &property;
}

utf8proc_int32_t utf8proc_tolower(utf8proc_int32_t code) {
  const std::vector<Lower>& all = tables().lower;
  const auto after =
      std::upper_bound(all.begin(), all.end(), code, [](int32_t value, const Lower& one) { return value < one.first; });
  // Two of step 2 may lie within each other.
  for (auto at = after; at != all.begin() && after - at < 2;) {
    --at;
    if (code <= at->last && (code == at->first || (code - at->first) % at->step == 0)) return code + at->away;
  }
  return code;
}

/// Unicode's rules for grapheme clusters (UAX #29), as the library has them: what joins the characters so far is in
/// `state`, 0 at a beginning.
utf8proc_bool utf8proc_grapheme_break_stateful(utf8proc_int32_t first, utf8proc_int32_t second,
                                               utf8proc_int32_t* state) {
  const int before = *state == UTF8PROC_BOUNDCLASS_START ? run_of(first).bound : *state, after = run_of(second).bound;
  *state = before == UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR && after == before ? UTF8PROC_BOUNDCLASS_OTHER
           : before == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC && after == UTF8PROC_BOUNDCLASS_EXTEND ? before
           : before == UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC && after == UTF8PROC_BOUNDCLASS_ZWJ
               ? UTF8PROC_BOUNDCLASS_E_ZWG
               : after;
  const auto stands_alone = [](int bound) {
    return bound == UTF8PROC_BOUNDCLASS_CR || bound == UTF8PROC_BOUNDCLASS_LF || bound == UTF8PROC_BOUNDCLASS_CONTROL;
  };
  if (before == UTF8PROC_BOUNDCLASS_CR && after == UTF8PROC_BOUNDCLASS_LF) return false;
  if (stands_alone(before) || stands_alone(after)) return true;
  switch (after) {  // that follow whatever stands there
    case UTF8PROC_BOUNDCLASS_EXTEND:
    case UTF8PROC_BOUNDCLASS_ZWJ:
    case UTF8PROC_BOUNDCLASS_SPACINGMARK:
      return false;
    default:
      break;
  }
  switch (before) {
    case UTF8PROC_BOUNDCLASS_PREPEND:
      return false;
    case UTF8PROC_BOUNDCLASS_L:
      return after != UTF8PROC_BOUNDCLASS_L && after != UTF8PROC_BOUNDCLASS_V && after != UTF8PROC_BOUNDCLASS_LV &&
             after != UTF8PROC_BOUNDCLASS_LVT;
    case UTF8PROC_BOUNDCLASS_V:
    case UTF8PROC_BOUNDCLASS_LV:
      return after != UTF8PROC_BOUNDCLASS_V && after != UTF8PROC_BOUNDCLASS_T;
    case UTF8PROC_BOUNDCLASS_T:
    case UTF8PROC_BOUNDCLASS_LVT:
      return after != UTF8PROC_BOUNDCLASS_T;
    case UTF8PROC_BOUNDCLASS_E_ZWG:
      return after != UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC;
    case UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR:
      return after != UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR;
    default:
      return true;
  }
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
  std::vector<int32_t> codes;
  decompose(code, (options & UTF8PROC_COMPAT) != 0, &codes);
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
    decompose(code, /*compatibly=*/false, &codes);
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
