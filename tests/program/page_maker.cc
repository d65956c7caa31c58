// Reads a page as JSON from standard input and writes it as HTML: what page_test.py makes its pages with, so that it
// may hand any token and any weight to render_html. null in weights is NaN.
#include <exception>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "heed/view.h"

namespace {

using namespace heed;
using Json = nlohmann::json;

// {"shape": [...], "values": [...]}, or, of a large one that is mostly 0, {"shape": [...], "at": [...], "values":
// [...]}
Tensor tensor_of(const Json& json) {
  std::vector<float> values;
  for (const Json& value : json.at("values"))
    values.push_back(value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>());
  const auto shape = json.at("shape").get<std::vector<int64_t>>();
  if (!json.contains("at")) return Tensor::from(values, Dims(shape.begin(), shape.end()));
  Tensor tensor = Tensor::zeros(Dims(shape.begin(), shape.end()));
  for (size_t i = 0; i < values.size(); ++i) tensor.data<float>()[json["at"].at(i).get<int64_t>()] = values[i];
  return tensor;
}

PageGroup group_of(const Json& json) {
  PageGroup group;
  group.name = json.value("name", "Group");
  group.note = json.value("note", "");
  const std::string step_keys = json.value("step_keys", "");
  group.step_keys = step_keys == "input" ? StepKeys::input : step_keys == "output" ? StepKeys::output : StepKeys::none;
  group.first_step = json.value("first_step", 0);
  group.map = {tensor_of(json.at("weights")), json.value("queries", std::vector<std::string>{}),
               json.value("keys", std::vector<std::string>{}), json.value("title", "")};
  group.map.shares = json.value("shares", true);
  group.measure = json.value("measure", "");
  if (json.contains("importance")) group.importance = tensor_of(json["importance"]);
  group.query_words = json.value("query_words", std::vector<int32_t>{});
  group.key_words = json.value("key_words", std::vector<int32_t>{});
  group.value_labels = json.value("value_labels", std::vector<std::string>{});
  if (json.contains("picture")) {  // {"shape": [height, width, 3], "values": [...], "rows": ..., "columns": ...}
    const Tensor pixels = tensor_of(json["picture"]);
    group.picture = Tensor::empty(pixels.shape(), DType::u8);
    for (int64_t i = 0; i < pixels.numel(); ++i)
      group.picture.data<uint8_t>()[i] = static_cast<uint8_t>(pixels.data<float>()[i]);
    group.picture_rows = json["picture"].at("rows");
    group.picture_columns = json["picture"].at("columns");
  }
  for (const Json& x : json.value("vectors", Json::array()))
    group.vectors.push_back({tensor_of(x.at("q")), tensor_of(x.at("k")), tensor_of(x.at("v"))});
  return group;
}

}  // namespace

int main() {
  try {
    const Json json = Json::parse(std::cin);
    Page page{.title = json.value("title", ""), .text = json.value("text", "")};
    for (const Json& group : json.at("groups")) page.groups.push_back(group_of(group));
    page.compared_title = json.value("compared_title", "");
    page.compared_text = json.value("compared_text", "");
    for (const Json& group : json.value("compared", Json::array())) page.compared.push_back(group_of(group));
    using Candidates = std::vector<std::pair<std::string, double>>;
    for (const Json& step : json.value("steps", Json::array()))
      page.steps.push_back({.token = step.at("token"),
                            .candidates = step.at("candidates"),
                            .layers = step.value("layers", std::vector<Candidates>{})});
    for (const Json& of : json.value("predictions", Json::array()))
      page.predictions.push_back({of.at(0), of.at(1), of.at(2)});
    if (json.contains("opening")) {
      const Json& opening = json["opening"];
      page.opening = {.group = opening.value("group", -1),
                      .heads = opening.value("heads", std::vector<int64_t>{}),
                      .query = opening.value("query", -1)};
    }
    std::cout << render_html(page);
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
