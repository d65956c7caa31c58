// Options of calls out of Python's values, each checked for its type; the library checks what they say.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "heed/attention.h"
#include "mods.h"

namespace heed::python {
namespace nb = nanobind;

/// `what` names the value in errors ("attention: scale"). Throws TypeError.
double number(const char* what, nb::handle value);

/// `limits` says in errors which ones may be passed. Throws TypeError; ShapeError for what 64 bits do not hold.
int64_t integer(const char* what, nb::handle value, const char* limits);

/// True or False. Throws TypeError.
bool flag(const char* what, nb::handle value);

/// False, True or "bottom_right". Throws ShapeError.
Causal causal_of(nb::handle value);

/// Throws ShapeError for a mask with fewer keys than the call, unless it has one, which broadcasts. C++ callers may
/// pass such a mask, which hides the missing keys, as in ONNX; Python follows NumPy's broadcasting.
void check_mask(const char* operation, const Tensor& mask, const CallSizes& sizes);

/// What attention() takes beside q, k, v and what to return. Keeps the memory of its arrays alive.
class Options {
 public:
  /// Of a call that says nothing of them.
  explicit Options(Executor* executor = nullptr) { options_.executor = executor; }
  Options(nb::handle mask, nb::handle causal, nb::handle scale, nb::handle window, nb::handle softcap, nb::handle alibi,
          nb::handle sinks, nb::handle score_mod, nb::handle block_mask, nb::handle key_lengths, nb::handle offset,
          nb::handle q_offsets, nb::handle k_offsets, nb::handle dropout_p, nb::handle seed);
  const AttentionOptions& get() const { return options_; }
  /// The same for a call on these threads; null: those of heed.
  AttentionOptions on(Executor* executor) const {
    AttentionOptions options = options_;
    options.executor = executor;
    return options;
  }
  bool has_additive_mask() const { return options_.mask.defined() && options_.mask.dtype() != DType::boolean; }
  bool has_sinks() const { return options_.sinks.defined(); }
  const Mods* mods() const { return mods_.get(); }
  /// Checks that score functions and the mask have numbers for the call. Throws ShapeError.
  void check(const char* operation, const CallSizes& sizes) const;
  void check(const char* operation, const Tensor& q, const Tensor& k) const;
  /// Whether a function of Python's threw in a kernel.
  bool failed() const { return mods_ && mods_->failed(); }
  /// Throws what it threw.
  void rethrow() const;

 private:
  AttentionOptions options_;
  std::shared_ptr<const Mods> mods_;
};

/// Whether a call says nothing of these options: then there is nothing to read.
bool are_defaults(std::initializer_list<nb::handle> nones, nb::handle causal, std::initializer_list<nb::handle> numbers,
                  std::initializer_list<nb::handle> integers);

/// return_weights: False, True, or (heads, rows, top_p) of a Select, whose indices below 0 count from the end.
void want_weights(nb::handle value, const Tensor& q, AttentionOptions& options);

/// Those of torch for its tensors, once heed.torch has been imported; else null.
Executor* threads_of(nb::handle array);

/// None, or a stage by its name.
std::optional<ScoreStage> stage(nb::handle name);

}  // namespace heed::python
