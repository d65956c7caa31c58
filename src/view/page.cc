// The page: the data of attention maps, packed, between the halves of a document that the build makes of page/.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "heed/label.h"
#include "heed/view.h"
#include "view/live_module.h"
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

// The pixels that tokens are patches of.
Json picture_json(const PageGroup& group, int64_t queries, int64_t keys, Blocks* blocks) {
  const Tensor& picture = group.picture;
  const int64_t rows = group.picture_rows, columns = group.picture_columns;
  if (picture.rank() != 3 || picture.size(2) != 3 || picture.dtype() != DType::u8)
    throw ShapeError("render_html: a picture " + to_string(picture.shape()) + " of " + name_of(picture.dtype()) +
                     "; pass (height, width, 3) of u8");
  if (rows < 1 || columns < 1 || rows > picture.size(0) || columns > picture.size(1) ||
      rows * columns > std::min(queries, keys))
    throw ShapeError("render_html: " + std::to_string(rows) + " x " + std::to_string(columns) +
                     " patches in a picture " + to_string(picture.shape()) + ", with " + std::to_string(queries) +
                     " queries and " + std::to_string(keys) + " keys; each patch needs a pixel, a query and a key");
  const Tensor pixels = picture.contiguous();
  return {{"block", blocks->add({static_cast<const char*>(pixels.raw()), static_cast<size_t>(pixels.nbytes())})},
          {"height", picture.size(0)},
          {"width", picture.size(1)},
          {"rows", rows},
          {"columns", columns}};
}

using Candidates = std::vector<std::pair<std::string, double>>;
Json candidates_json(const Candidates& candidates) {
  Json json = Json::array();
  for (const auto& [token, probability] : candidates) json.push_back({printable(token), probability});
  return json;
}

Json importance_json(const Tensor& importance, int64_t layers, int64_t heads) {
  if (!is_floating(importance.dtype()) || !(importance.shape() == Dims{layers, heads}))
    throw ShapeError("render_html: importance " + to_string(importance.shape()) + " of " + name_of(importance.dtype()) +
                     " for " + std::to_string(layers) + " layers of " + std::to_string(heads) +
                     " heads; pass floating ones, (layers, heads)");
  const Tensor values = importance.to(DType::f64).contiguous();
  const std::span<const double> all = values.span<double>();
  if (!std::all_of(all.begin(), all.end(), [](double x) { return std::isfinite(x) && x >= 0; }))
    throw ShapeError("render_html: an importance is below 0 or not finite; pass magnitudes");
  return std::vector<double>(all.begin(), all.end());
}

Json opening_json(const Page& page, const Json& groups) {
  const PageOpening& opening = page.opening;
  const auto refuse = [](const std::string& what, int64_t number, int64_t count) {
    throw ShapeError("render_html: it opens on " + what + " " + std::to_string(number) + ", which is not in 0.." +
                     std::to_string(count - 1));
  };
  const bool asked = opening.group != -1 || !opening.heads.empty() || opening.query != -1;
  const int64_t of = opening.group == -1 ? 0 : opening.group;
  if (of < 0 || of >= std::ssize(page.groups)) refuse("group", of, std::ssize(page.groups));
  const Json& group = groups.at(static_cast<size_t>(of));
  const int64_t heads = group.at("layers").get<int64_t>() * group.at("heads").get<int64_t>(),
                queries = group.at("queries");
  for (const int64_t head : opening.heads)
    if (head < 0 || head >= heads) refuse("head", head, heads);
  if (opening.query < -1 || opening.query >= queries) refuse("query", opening.query, queries);
  return {{"asked", asked}, {"group", of}, {"heads", opening.heads}, {"query", opening.query}};
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
      const Panels panel = make_panels({.weights = head, .shares = map.shares}, "render_html", 0,
                                       /*ascii=*/false, /*first_query=*/1);
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
               {"measure", printable(group.measure)},
               {"shares", map.shares},
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
  if (group.importance.defined()) json["importance"] = importance_json(group.importance, layers, heads);
  if (group.picture.defined()) json["picture"] = picture_json(group, queries, keys, blocks);
  if (group.mask.defined()) {
    const Tensor mask = group.mask.contiguous();
    json["mask"] = blocks->add({static_cast<const char*>(mask.raw()), static_cast<size_t>(mask.nbytes())});
  }
  return json;
}

Json page_json(const Page& page, const PageOptions& options, Blocks* blocks) {
  if (page.groups.empty()) throw ShapeError("render_html: the page has no groups; pass one map at least");
  if (!(options.mass > 0 && options.mass <= 1))
    throw ShapeError("render_html: mass " + format_weight(options.mass) + " is not in (0, 1]");
  if (options.keys < 1 || options.keys > 255)
    throw ShapeError("render_html: keys " + std::to_string(options.keys) + " is not in 1..255");
  Json groups = Json::array(), compared = Json::array(), steps = Json::array();
  for (const PageGroup& group : page.groups) groups.push_back(group_json(group, page.steps.size(), options, blocks));
  for (size_t i = 0; i < page.compared.size(); ++i) {
    const PageGroup& other = page.compared[i];
    Json json = group_json(
        {.name = other.name, .map = other.map, .query_words = other.query_words, .key_words = other.key_words}, 0,
        options, blocks);
    const auto differs = [&](const char* what) { return json.at(what) != groups.at(i).at(what); };
    if (i >= groups.size() || differs("layers") || differs("heads"))
      throw ShapeError("render_html: compared group " + std::to_string(i) + " has no group with as many layers and " +
                       "heads beside it; pass groups in the same order");
    compared.push_back(std::move(json));
  }
  for (const PageStep& step : page.steps) {
    Json layers = Json::array();
    for (const Candidates& of_layer : step.layers) layers.push_back(candidates_json(of_layer));
    steps.push_back({{"token", printable(step.token)},
                     {"candidates", candidates_json(step.candidates)},
                     {"layers", std::move(layers)}});
  }
  Json predictions = Json::array();
  for (const PagePrediction& of : page.predictions) {
    if (!(of.first >= 0 && of.first <= 1 && of.second >= 0 && of.second <= 1))
      throw ShapeError("render_html: a prediction is not in 0..1; pass probabilities");
    predictions.push_back({printable(of.token), of.first, of.second});
  }
  Json opens = opening_json(page, groups);
  return {{"title", printable(page.title)},
          {"text", printable(page.text)},
          {"opens", std::move(opens)},
          {"groups", std::move(groups)},
          {"steps", std::move(steps)},
          {"compared", std::move(compared)},
          {"predictions", std::move(predictions)},
          {"comparedTitle", printable(page.compared_title)},
          {"comparedText", printable(page.compared_text)},
          {"colors", color_table()},
          {"limits", {{"mass", options.mass}, {"keys", options.keys}}}};
}

std::string_view name_of(LiveKind kind) {
  return kind == LiveKind::translates ? "translates" : kind == LiveKind::continues ? "continues" : "reads";
}

// The provider that the script takes: live.js has them.
Json live_json(const LiveModel& model, Blocks* blocks) {
  Json live = {{"provider", model.files.empty() ? "server" : "module"},
               {"kind", name_of(model.kind)},
               {"text", model.text},
               {"beam", model.beam},
               {"generate", model.generate},
               {"notice", model.notice}};
  if (model.files.empty()) return live;
  Json files = Json::array();
  for (const auto& [name, content] : model.files)
    files.push_back({name, blocks->add(name.ends_with(".safetensors") ? in_planes(content) : content)});
  live["module"] = blocks->add(std::string(live_module()));
  live["files"] = std::move(files);
  return live;
}

std::string ascii(const Json& json) { return json.dump(-1, ' ', /*ensure_ascii=*/true); }

}  // namespace

PageData page_data(const Page& page, const PageOptions& options) {
  Blocks blocks;
  const Json data = page_json(page, options, &blocks);
  return {ascii(data), std::move(blocks.all())};
}

std::string render_html(const Page& page, const PageOptions& options) {
  Blocks blocks;
  Json data = page_json(page, options, &blocks);
  if (page.live) data["live"] = live_json(*page.live, &blocks);
  const Alive alive = !page.live ? Alive::no : page.live->files.empty() ? Alive::by_server : Alive::by_module;
  return filled(page_source(), ascii(data), blocks, alive);
}

std::string render_json(const Page& page, const PageOptions& options) {
  Blocks blocks;
  Json data = page_json(page, options, &blocks);
  Json& all = data["blocks"] = Json::array();
  for (const std::string& block : blocks.all()) all.push_back(packed(block));
  return ascii(data);
}

}  // namespace heed::inline v0
