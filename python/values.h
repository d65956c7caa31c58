// Texts, tokens and names of files out of Python's values, each checked for its type.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

namespace heed::python {
namespace nb = nanobind;

/// A str as UTF-8. `what` names the value in errors ("translate: text"). Throws TypeError, and UnicodeEncodeError for
/// half of a surrogate pair.
std::string text(const char* what, nb::handle value);

/// The same of each item of what can be iterated over, but is no str.
std::vector<std::string> texts(const char* what, nb::handle value);

/// Integers. Throws TypeError, ShapeError for one that 32 bits do not hold.
std::vector<int32_t> ids(const char* what, nb::handle value);

/// 0 to 2^64 - 1. Throws TypeError, ShapeError.
uint64_t seed(const char* what, nb::handle value);

/// A str, bytes or os.PathLike. Throws TypeError, and ValueError for a NUL.
std::string path(const char* what, nb::handle value);

/// A message of the library in the words of Python: np.ascontiguousarray() for contiguous(), float32 for f32,
/// return_lse for want_lse.
std::string in_words_of_python(const std::string& message);

/// One of those that may be chosen, by its place. Throws ShapeError that names them.
size_t choice(const char* what, nb::handle value, std::initializer_list<const char*> names);

}  // namespace heed::python
