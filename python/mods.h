// Score functions for Python: named ones, a Python function's, and what | joins of them.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "heed/attention.h"

namespace heed::python {
namespace nb = nanobind;

/// What a score function's numbers are for: it may be called for no other entry, head, query or key. Below 0: for any,
/// and of a call: not known.
struct CallSizes {
  int64_t batch = -1, heads = -1, queries = -1, keys = -1;
};

/// Of a call of these shapes; of a ragged batch the longest entries.
CallSizes sizes_of(const Tensor& q, const Tensor& k, const AttentionOptions& options);

/// A function of Python's, called for a tile of scores at a time, by one thread after another.
class Function {
 public:
  Function(nb::object value, nb::object derivative) : value_(std::move(value)), derivative_(std::move(derivative)) {}
  ~Function();
  Function(const Function&) = delete;
  bool differentiable() const { return !derivative_.is_none(); }
  template <class T>
  void operator()(const ScoreTile<T>& tile) const;
  bool failed() const { return failed_; }
  /// Throws what the function threw, once. Needs the GIL.
  void rethrow() const;

 private:
  nb::object value_, derivative_;
  mutable std::exception_ptr error_;  // under the GIL
  mutable std::atomic<bool> failed_ = false;
};

/// (heads or 1, columns) of numbers in both types that scores have.
struct Table {
  std::vector<float> f32;
  std::vector<double> f64;
  int64_t rows = 0, columns = 0;
  template <class T>
  T at(int64_t row, int64_t column) const {
    const auto n = static_cast<size_t>((rows == 1 ? 0 : row) * columns + column);
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32[n];
    } else {
      return f64[n];
    }
  }
};

/// One function of a chain.
struct Mod {
  ScoreMod mod;
  std::string text;    // as it was called
  bool hides = false;  // and does nothing else
  CallSizes sizes{};   // that it has numbers for; queries and keys: at most
  std::shared_ptr<const Function> function{};
  std::shared_ptr<const Table> learned{};  // relative_bias's, which has a gradient
  int64_t offset = 0;                      // of it
};

/// A chain, the first one first.
class Mods {
 public:
  explicit Mods(std::vector<std::shared_ptr<const Mod>> parts);
  const ScoreMod& mod() const { return mod_; }
  Mods then(const Mods& other) const;
  std::string text() const;
  bool hides() const;
  /// Throws ShapeError where a part has numbers for other sizes. `operation` begins the message.
  void check(const char* operation, const CallSizes& call) const;
  /// Throws ShapeError for a function without a derivative.
  void check_differentiable() const;
  bool failed() const;
  void rethrow() const;
  bool learns() const;
  /// Gradients of the tables, in order; sums in double, rounded to the compute type at the end.
  ScoreVisitor visitor(std::vector<Tensor>& gradients) const;

 private:
  std::vector<std::shared_ptr<const Mod>> parts_;
  ScoreMod mod_;
};

/// None, a chain, or a function of Python's.
std::shared_ptr<const Mods> mods_of(nb::handle value);

/// A mask in tiles for Python.
struct Blocks {
  BlockMask mask;
};

}  // namespace heed::python
