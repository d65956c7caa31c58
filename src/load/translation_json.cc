#include <nlohmann/json.hpp>
#include <utility>

#include "heed/translator.h"

namespace heed::inline v0 {

std::string to_json(const std::string& source, const TranslatedLine& line, bool alignment) {
  using Json = nlohmann::ordered_json;
  Json out = {{"source", source}};
  if (line.cut) out["cut"] = true;
  Json& translations = out["translations"] = Json::array();
  for (const Translation& t : line.best) {
    Json one = {{"text", t.text}, {"score", t.score}, {"log_probability", t.log_probability}, {"tokens", t.tokens}};
    if (alignment) one["alignment"] = t.alignment;
    translations.push_back(std::move(one));
  }
  return out.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace heed::inline v0
