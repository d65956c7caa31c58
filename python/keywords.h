// Keyword arguments by name, where there are many.
#pragma once

#include <nanobind/nanobind.h>

#include <concepts>
#include <string>
#include <utility>

#include "arrays.h"
#include "options.h"

namespace heed::python {
namespace nb = nanobind;

/// Taken one by one, each checked for its type. `operation` begins messages.
class Keywords {
 public:
  Keywords(std::string operation, const nb::kwargs& given)
      : operation_(std::move(operation)), left_(given.attr("copy")()) {}

  /// Leaves `value` where none is given. Throws TypeError.
  template <class T>
  void take(const char* name, T& value) {
    known_ += (known_.empty() ? "" : ", ") + std::string(name);
    const nb::object given = left_.attr("pop")(name, nb::handle(Py_Ellipsis));
    if (!given.is(nb::handle(Py_Ellipsis))) convert((operation_ + ": " + name).c_str(), given, value);
  }
  /// Throws TypeError for those that nothing has taken.
  void finish() const {
    if (nb::len(left_) == 0) return;
    const nb::object first = nb::list(left_)[0];
    throw nb::type_error((operation_ + ": there is no option " + shown(first) + "; those are " + known_).c_str());
  }

 private:
  static void convert(const char* what, nb::handle given, bool& value) { value = flag(what, given); }
  static void convert(const char* what, nb::handle given, double& value) { value = number(what, given); }
  static void convert(const char* what, nb::handle given, std::string& value) {
    if (!nb::isinstance<nb::str>(given))
      throw nb::type_error((what + (" is " + shown(given)) + "; pass a str").c_str());
    value = nb::cast<std::string>(given);
  }
  template <std::signed_integral Integer>
  static void convert(const char* what, nb::handle given, Integer& value) {
    constexpr auto kLimits = "a number that 32 bits hold";
    const int64_t wide = integer(what, given, kLimits);
    value = static_cast<Integer>(wide);
    if (value != wide) throw ShapeError(what + (" is " + std::to_string(wide)) + "; pass " + kLimits);
  }

  std::string operation_;
  nb::object left_;
  std::string known_;
};

}  // namespace heed::python
