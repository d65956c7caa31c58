// A line with its translations as JSON: what heed translate --json prints, and heed serve answers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heed/translator.h"

namespace heed::cli {

/// {"source", "cut" where it was, "translations": [{"text", "score", "log_probability", "tokens", "alignment" where it
/// is wanted}]}
nlohmann::ordered_json json_of(const std::string& source, const TranslatedLine& line, bool alignment);

}  // namespace heed::cli
