// What models write by the settings of their generation_config.json, beside transformers: tests/models/searches.json,
// which tests/models/make_searches.py prints of ../shared/conformance/models.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "pretrained/generation.h"
#include "tests/shared.h"

namespace heed::inline v0 {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

// The same models again and again.
PretrainedModel& model_named(const std::string& name) {
  static std::map<std::string, PretrainedModel> models;
  const auto [at, is_new] = models.try_emplace(name);
  if (is_new) at->second = load_pretrained(test::shared_path("conformance/models/" + name));
  return at->second;
}

Ids written(const PretrainedModel& loaded, const Ids& given) {
  if (const auto* const model = dynamic_cast<const Transformer*>(loaded.module.get())) {
    const Hypothesis best = model->translate({given}, loaded.beam).at(0).at(0);
    Ids ids = best.ids;
    if (best.end) ids.push_back(*best.end);
    return ids;
  }
  return dynamic_cast<const LanguageModel&>(*loaded.module).generate(given, loaded.generate);
}

TEST(GenerationSettings, WriteWhatTransformersWrites) {
  HEED_NEEDS_SHARED("conformance/models/bart/model.safetensors");
  std::ifstream file(HEED_SEARCHES);
  size_t compared = 0;
  for (const json& c : json::parse(file)) {
    PretrainedModel& loaded = model_named(c["model"]);
    loaded.generate = {};
    loaded.beam = {};
    read_generation(Keys(c["fields"], "generation_config.json"), /*of_config=*/false, loaded);
    for (const json& row : c["rows"]) {
      SCOPED_TRACE(c["model"].get<std::string>() + " " + c["fields"].dump());
      auto want = row["ids"].get<Ids>();
      const bool ends = std::count(loaded.generate.stop.begin(), loaded.generate.stop.end(), want.back()) > 0;
      if (ends && dynamic_cast<const LanguageModel*>(loaded.module.get())) want.pop_back();
      EXPECT_EQ(written(loaded, row["given"].get<Ids>()), want);
      ++compared;
    }
  }
  EXPECT_GE(compared, 400u);
}

}  // namespace
}  // namespace heed::inline v0
