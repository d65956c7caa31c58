// Rules on what is written, as options of generate and translate.
#pragma once

#include "heed/models.h"

namespace CLI {
class App;
}

namespace heed::cli {

/// --repetition-penalty, --no-repeat-ngram and `shortest`, the least number of tokens. `rules` must outlive the
/// command.
void add_rules(CLI::App& command, TokenRules& rules, const char* shortest, const char* shortest_is);

}  // namespace heed::cli
