#include "cli/translation_json.h"

#include <utility>

namespace heed::cli {

nlohmann::ordered_json json_of(const std::string& source, const TranslatedLine& line, bool alignment) {
  using Json = nlohmann::ordered_json;
  Json out = {{"source", source}};
  if (line.cut) out["cut"] = true;
  Json& translations = out["translations"] = Json::array();
  for (const Translation& t : line.best) {
    Json one = {{"text", t.text}, {"score", t.score}, {"log_probability", t.log_probability}, {"tokens", t.tokens}};
    if (alignment) one["alignment"] = t.alignment;
    translations.push_back(std::move(one));
  }
  return out;
}

}  // namespace heed::cli
