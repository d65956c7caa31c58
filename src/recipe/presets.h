// Named and usual values of options.
#pragma once

#include <string>
#include <vector>

#include "heed/recipe.h"

namespace heed::inline v0 {

/// The shape "tiny", "small" or "base" of a translator, or of a language model with the steps that go with it.
TrainingRequest pairs_preset(const std::string& name);
TrainingRequest text_preset(const std::string& name);
/// Usual for language models and not for translators, whatever the preset.
TrainingRequest text_defaults();
/// And, where they are neither given nor chosen.
TrainingRequest text_steps();
/// Usual for fine-tuning.
TrainingRequest tuning_defaults();

/// Options that choose_defaults() may choose, and those that follow from them.
bool is_chosen(const std::string& field);
/// Shape options that presets set.
bool is_of_preset(const std::string& field);
/// The default of an option for a language model, as text; empty if it has none.
std::string text_default(const std::string& field);

}  // namespace heed::inline v0
