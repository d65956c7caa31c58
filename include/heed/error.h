// Errors. Every throw happens at a border (public call, file, command line) and says the operation, the rule,
// the values and the remedy.
#pragma once

#include <stdexcept>
#include <string>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// Base of everything heed throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes, dtypes or option values that do not fit the operation.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// An impossible request: options that exclude each other, a directory that is not heed's, a model of another kind.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A file whose content breaks its format.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// The operating system refused to read or write.
class IoError : public Error {
 public:
  using Error::Error;
};

/// The system gives no more memory for a tensor or a kernel's scratch. Smaller things throw std::bad_alloc.
class MemoryError : public Error {
 public:
  using Error::Error;
};

/// Training that cannot continue (a loss that is not finite).
class TrainingError : public Error {
 public:
  using Error::Error;
};

}  // namespace heed::inline v0
