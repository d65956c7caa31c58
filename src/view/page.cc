// The page: the data of attention maps, packed, between the halves of a document that the build makes of page/.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "heed/label.h"
#include "heed/view.h"
#include "view/packing.h"
#include "view/page_source.h"
#include "view/panels.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

void check_words(const std::vector<int32_t>& words, int64_t count, const char* what) {
  if (words.empty()) return;
  if (static_cast<int64_t>(words.size()) != count)
    throw ShapeError("render_html: words of " + std::to_string(words.size()) + " " + what + " for " +
                     std::to_string(count) + "; pass one for each, or none");
  if (!std::is_sorted(words.begin(), words.end()))
    throw ShapeError(std::string("render_html: the words of ") + what +
                     " go back; number them in the order of the tokens");
}

void check_vectors(const PageVectors& x, int64_t heads, int64_t queries, int64_t keys) {
  const auto shape = [](const Tensor& t) { return t.defined() ? to_string(t.shape()) : std::string("(undefined)"); };
  const bool fits = x.k.defined() && x.v.defined() && x.q.rank() == 3 && x.k.rank() == 3 && x.v.rank() == 3 &&
                    x.q.size(0) == heads && x.q.size(1) == queries && x.k.size(1) == keys && x.v.size(1) == keys &&
                    x.k.size(0) > 0 && heads % x.k.size(0) == 0 && x.v.size(0) == x.k.size(0) &&
                    x.q.size(2) == x.k.size(2) && is_floating(x.q.dtype()) && is_floating(x.k.dtype()) &&
                    is_floating(x.v.dtype());
  if (!fits)
    throw ShapeError("render_html: vectors " + shape(x.q) + ", " + shape(x.k) + ", " + shape(x.v) + " for " +
                     std::to_string(heads) + " heads of " + std::to_string(queries) + " x " + std::to_string(keys) +
                     "; pass floating q (H, Lq, D), k (Hkv, Lk, D) and v (Hkv, Lk, Dv)");
}

Json vectors_json(const PageVectors& x, Blocks* blocks) {
  if (!x.q.defined()) return nullptr;
  std::string bytes;
  for (const Tensor* part : {&x.q, &x.k, &x.v}) {
    const Tensor values = part->to(DType::f32).contiguous();
    bytes.append(static_cast<const char*>(values.raw()), static_cast<size_t>(values.nbytes()));
  }
  return {{"block", blocks->add(bytes)}, {"size", x.q.size(2)}, {"valueSize", x.v.size(2)}, {"kvHeads", x.k.size(0)}};
}

Json group_json(const PageGroup& group, size_t steps, const PageOptions& options, Blocks* blocks) {
  const AttentionMap& map = group.map;
  check_map(map, "render_html");
  const Tensor& w = map.weights;
  const int64_t queries = w.size(-2), keys = w.size(-1);
  const int64_t heads = w.rank() > 2 ? w.size(-3) : 1, layers = w.rank() > 3 ? w.size(-4) : 1;
  check_words(group.query_words, queries, "queries");
  check_words(group.key_words, keys, "keys");
  if (!group.value_labels.empty() && static_cast<int64_t>(group.value_labels.size()) != keys)
    throw ShapeError("render_html: " + std::to_string(group.value_labels.size()) + " value labels for " +
                     std::to_string(keys) + " keys; pass one for each, or none");
  if (!group.vectors.empty() && static_cast<int64_t>(group.vectors.size()) != layers)
    throw ShapeError("render_html: vectors of " + std::to_string(group.vectors.size()) + " layers for " +
                     std::to_string(layers) + "; pass one for each, or none");
  for (const PageVectors& x : group.vectors)
    if (x.q.defined()) check_vectors(x, heads, queries, keys);
  if (group.mask.defined() && (group.mask.dtype() != DType::boolean || group.mask.rank() != 2 ||
                               group.mask.size(0) != queries || group.mask.size(1) != keys))
    throw ShapeError("render_html: mask " + to_string(group.mask.shape()) + " of " + name_of(group.mask.dtype()) +
                     "; pass booleans (Lq, Lk), here (" + std::to_string(queries) + ", " + std::to_string(keys) + ")");

  if (group.step_keys != StepKeys::none &&
      (group.first_step < 0 || group.first_step + static_cast<int64_t>(steps) > queries))
    throw ShapeError("render_html: " + std::to_string(steps) + " steps from row " + std::to_string(group.first_step) +
                     " of " + std::to_string(queries) + "; each step needs a row");

  const bool whole = keys <= options.keys;
  Json statistics_of = Json::array(), notes = Json::object(), weights = Json::array();
  const Tensor all = w.reshape({layers, heads, queries, keys});
  for (int64_t l = 0; l < layers; ++l) {
    SparseRows rows(options, whole);
    for (int64_t h = 0; h < heads; ++h) {
      const Tensor head = all.select(0, l).select(0, h);
      const Panels panel = make_panels({.weights = head}, "render_html", 0);
      for (int64_t i = 0; i < queries; ++i) rows.add(panel.values.data() + i * keys, keys);
      if (!panel.notes.empty()) notes[std::to_string(l * heads + h)] = panel.notes;
      const HeadStatistics s = statistics(head);
      statistics_of.push_back(
          {s.diagonal_mass, s.previous_mass, s.next_mass, s.first_mass, s.entropy, s.mean_distance});
    }
    weights.push_back(blocks->add(rows.bytes()));
  }
  Json vectors = Json::array();
  for (const PageVectors& x : group.vectors) vectors.push_back(vectors_json(x, blocks));
  Json json = {{"name", printable(group.name)},
               {"title", printable(map.title)},
               {"note", printable(group.note)},
               {"example", group.example},
               {"layers", layers},
               {"heads", heads},
               {"queries", queries},
               {"keys", keys},
               {"queryLabels", all_printable(map.query_labels)},
               {"keyLabels", all_printable(map.key_labels)},
               {"headLabels", all_printable(map.head_labels)},
               {"valueLabels", all_printable(group.value_labels)},
               {"queryWords", group.query_words},
               {"keyWords", group.key_words},
               {"whole", whole},
               {"statistics", std::move(statistics_of)},
               {"notes", std::move(notes)},
               {"weights", std::move(weights)},
               {"vectors", std::move(vectors)},
               {"stepKeys", group.step_keys == StepKeys::none    ? ""
                            : group.step_keys == StepKeys::input ? "input"
                                                                 : "output"},
               {"firstStep", group.first_step},
               {"scale", group.scale}};
  if (group.mask.defined()) {
    const Tensor mask = group.mask.contiguous();
    json["mask"] = blocks->add({static_cast<const char*>(mask.raw()), static_cast<size_t>(mask.nbytes())});
  }
  return json;
}

}  // namespace

std::string render_html(const Page& page, const PageOptions& options) {
  if (page.groups.empty()) throw ShapeError("render_html: the page has no groups; pass one map at least");
  if (!(options.mass > 0 && options.mass <= 1))
    throw ShapeError("render_html: mass " + format_weight(options.mass) + " is not in (0, 1]");
  if (options.keys < 1 || options.keys > 255)
    throw ShapeError("render_html: keys " + std::to_string(options.keys) + " is not in 1..255");
  Blocks blocks;
  Json groups = Json::array(), compared = Json::array(), steps = Json::array();
  for (const PageGroup& group : page.groups) groups.push_back(group_json(group, page.steps.size(), options, &blocks));
  for (size_t i = 0; i < page.compared.size(); ++i) {
    const PageGroup& other = page.compared[i];
    Json json = group_json(
        {.name = other.name, .map = other.map, .query_words = other.query_words, .key_words = other.key_words}, 0,
        options, &blocks);
    const auto differs = [&](const char* what) { return json.at(what) != groups.at(i).at(what); };
    if (i >= groups.size() || differs("layers") || differs("heads"))
      throw ShapeError("render_html: compared group " + std::to_string(i) + " has no group with as many layers and " +
                       "heads beside it; pass groups in the same order");
    compared.push_back(std::move(json));
  }
  for (const PageStep& step : page.steps) {
    Json candidates = Json::array();
    for (const auto& [token, probability] : step.candidates) candidates.push_back({printable(token), probability});
    steps.push_back({{"token", printable(step.token)}, {"candidates", std::move(candidates)}});
  }
  const Json data = {{"title", printable(page.title)},
                     {"text", printable(page.text)},
                     {"groups", std::move(groups)},
                     {"steps", std::move(steps)},
                     {"compared", std::move(compared)},
                     {"comparedTitle", printable(page.compared_title)},
                     {"comparedText", printable(page.compared_text)},
                     {"colors", color_table()},
                     {"limits", {{"mass", options.mass}, {"keys", options.keys}}}};
  return filled(page_source(), data.dump(-1, ' ', /*ensure_ascii=*/true), blocks);
}

}  // namespace heed::inline v0
