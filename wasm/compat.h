// Included before every source: what the C++20 of Debian 12's emscripten (libc++ 14) has not yet.
#pragma once

#ifdef __cplusplus

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <string>
#include <version>

#if _LIBCPP_VERSION < 15000

namespace std {

#ifndef __cpp_lib_bit_cast
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}
#endif

/// The fewest digits that are the same number again. `first` has room for them.
inline to_chars_result to_chars(char* first, char* last, double value) {
  int length = 0;
  for (int digits = 1; digits <= 17; ++digits) {
    length = snprintf(first, static_cast<size_t>(last - first), "%.*g", digits, value);
    if (strtod(first, nullptr) == value) break;
  }
  return {first + length, errc()};
}

/// A number in decimal digits; infinities and NaN by their names.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  char* end = nullptr;
  const double read = strtod(text.c_str(), &end);
  if (end == text.c_str() || text.find_first_of(" \t\n\v\f\r+xX") == 0 || text.find_first_of("xX") < 3)
    return {first, errc::invalid_argument};
  value = read;
  return {first + (end - text.c_str()), errc()};
}

namespace ranges {

template <class Range, class Predicate>
constexpr bool all_of(Range&& range, Predicate predicate) {
  return std::all_of(std::begin(range), std::end(range), std::ref(predicate));
}

template <class Left, class Right>
constexpr bool equal(Left&& left, Right&& right) {
  return std::equal(std::begin(left), std::end(left), std::begin(right), std::end(right));
}

}  // namespace ranges
}  // namespace std

#endif
#endif
