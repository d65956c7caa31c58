#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <regex>

namespace heed::cli {
namespace {

// Fields whose flag is not their name with dashes.
const std::map<std::string, std::string> kOtherNames{
    {"nhead", "--heads"},
    {"num_encoder_layers", "--encoder-layers"},
    {"num_decoder_layers", "--decoder-layers"},
    {"num_layers", "--layers"},
    {"num_kv_heads", "--kv-heads"},
    {"dim_feedforward", "--feed-forward"},
    {"norm_first", "--pre-norm"},
    {"source_vocab_size", "--separate-vocabularies"},
    {"learning_rate_floor", "--min-learning-rate"},
    {"schedule_total", "--max-updates"},
    {"criterion", "--validate-by"},
};

}  // namespace

std::string flag_of(const std::string& field) {
  if (const auto other = kOtherNames.find(field); other != kOtherNames.end()) return other->second;
  std::string flag = "--" + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string with_flags(const std::string& message, const CLI::App& command) {
  // A whole word that is no part of a path.
  static const std::regex word("(^|[ (])([a-z][a-z0-9_]*)(?=[ ,;:).]|'s |$)");
  static const std::regex value(" (is |[^ ]+ is |[^ ,;]+, not )");
  std::string text;
  auto rest = message.begin();
  for (std::sregex_iterator it(message.begin(), message.end(), word), end; it != end; ++it) {
    const std::string field = (*it)[2];
    const bool certain = field.find('_') != std::string::npos || kOtherNames.contains(field);
    const auto behind = (*it)[2].second;
    const bool judged = std::regex_search(behind, message.end(), value, std::regex_constants::match_continuous) &&
                        ((*it)[2].first == message.begin() || message.substr(0, it->position(2)).ends_with(": ") ||
                         message.substr(0, it->position(2)).ends_with("began with "));
    const std::string flag = flag_of(field);
    if (!(certain || judged) || !command.get_option_no_throw(flag)) continue;
    text.append(rest, (*it)[2].first).append(flag);
    rest = behind;
  }
  return text.append(rest, message.end());
}

}  // namespace heed::cli
