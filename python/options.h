// Options of calls out of Python's values, each checked for its type; the library checks what they say.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "heed/attention.h"

namespace heed::python {
namespace nb = nanobind;

/// `what` names the value in errors ("attention: scale"). Throws TypeError.
double number(const char* what, nb::handle value);

/// `limits` says in errors which ones may be passed. Throws TypeError; ShapeError for what 64 bits do not hold.
int64_t integer(const char* what, nb::handle value, const char* limits);

/// True or False. Throws TypeError.
bool flag(const char* what, nb::handle value);

/// What attention() takes beside q, k, v and what to return. Keeps the memory of its arrays alive.
class Options {
 public:
  Options(nb::handle mask, nb::handle causal, nb::handle scale, nb::handle window, nb::handle softcap, nb::handle alibi,
          nb::handle sinks, nb::handle key_lengths, nb::handle offset, nb::handle q_offsets, nb::handle k_offsets,
          nb::handle dropout_p, nb::handle seed);
  const AttentionOptions& get() const { return options_; }
  bool has_additive_mask() const { return options_.mask.defined() && options_.mask.dtype() != DType::boolean; }
  bool has_sinks() const { return options_.sinks.defined(); }

 private:
  AttentionOptions options_;
};

/// None, or a stage by its name.
std::optional<ScoreStage> stage(nb::handle name);

}  // namespace heed::python
