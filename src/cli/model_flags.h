// The fields of a model's configuration as options of heed train.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/models.h"

namespace CLI {
class App;
}

namespace heed::cli {

/// Options and the values that give a model these fields. Ids of pieces are no options; --separate-vocabularies stands
/// for source_vocab_size.
using Flags = std::vector<std::pair<std::string, std::string>>;
Flags flags_of(const TransformerConfig& config);
Flags flags_of(const LanguageModelConfig& config);

/// Adds an option for each field, which sets it in every configuration that has it. Both must outlive the command.
void add_model_options(CLI::App& command, TransformerConfig& translator, LanguageModelConfig& language_model);

/// rms_norm as rms-norm: values are typed with hyphens, config.json has underscores.
std::string hyphened(std::string value);

}  // namespace heed::cli
