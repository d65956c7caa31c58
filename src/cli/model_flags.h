// The fields of a model's configuration as options of heed train.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/models.h"

namespace heed::cli {

/// Options and the values that give a model these fields. Ids of pieces are no options; --separate-vocabularies stands
/// for source_vocab_size.
using Flags = std::vector<std::pair<std::string, std::string>>;
Flags flags_of(const TransformerConfig& config);
Flags flags_of(const LanguageModelConfig& config);

}  // namespace heed::cli
