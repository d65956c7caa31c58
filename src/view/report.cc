// The page about a training: curves, and maps over time packed as those of the other page are.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/label.h"
#include "heed/view.h"
#include "view/packing.h"
#include "view/page_source.h"
#include "view/panels.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostPoints = 1000;  // of a curve: more than a screen can tell apart
constexpr int64_t kMostKeys = 255;    // of a row that is stored whole

template <class Items>
void check_order(const Items& items, const char* what, const std::string& name) {
  const auto later = [](const auto& a, const auto& b) { return a.update > b.update; };
  const auto back = std::adjacent_find(items.begin(), items.end(), later);
  if (back != items.end())
    throw ShapeError(std::string("render_report: ") + what + " of " + name + " go back from update " +
                     std::to_string(back->update) + " to " + std::to_string(std::next(back)->update) +
                     "; pass them in order");
}

Json curve_json(const ReportCurve& curve) {
  check_order(curve.points, "the points", curve.name);
  std::vector<ReportPoint> points;
  for (const ReportPoint& point : curve.points)
    if (std::isfinite(point.value) && std::isfinite(point.minutes)) points.push_back(point);
  const size_t together = (points.size() + kMostPoints - 1) / kMostPoints;
  Json updates = Json::array(), minutes = Json::array(), values = Json::array();
  for (size_t i = 0; i < points.size(); i += together) {
    const size_t count = std::min(together, points.size() - i);
    double sum = 0;
    for (size_t j = i; j < i + count; ++j) sum += points[j].value;
    updates.push_back(points[i + count - 1].update);
    minutes.push_back(points[i + count - 1].minutes);
    values.push_back(sum / static_cast<double>(count));
  }
  return {{"name", printable(curve.name)},
          {"updates", std::move(updates)},
          {"minutes", std::move(minutes)},
          {"values", std::move(values)},
          {"together", together}};
}

Json figure_json(const ReportFigure& figure) {
  Json curves = Json::array();
  for (const ReportCurve& curve : figure.curves) curves.push_back(curve_json(curve));
  return {{"name", printable(figure.name)},
          {"note", printable(figure.note)},
          {"logarithmic", figure.logarithmic},
          {"curves", std::move(curves)}};
}

// Of one kind at one time: its rows, and behind them the statistics of each head as six float32.
std::string packed(const Tensor& weights) {
  const int64_t queries = weights.size(2), keys = weights.size(3);
  SparseRows rows({.mass = 1, .keys = kMostKeys}, /*whole=*/false);
  std::string figures;
  for (int64_t l = 0; l < weights.size(0); ++l)
    for (int64_t h = 0; h < weights.size(1); ++h) {
      const Tensor head = weights.select(0, l).select(0, h), values = head.to(DType::f64).contiguous();
      for (int64_t i = 0; i < queries; ++i) rows.add(values.data<double>() + i * keys, keys);
      const HeadStatistics s = statistics(head);
      for (const double x : {s.diagonal_mass, s.previous_mass, s.next_mass, s.first_mass, s.entropy, s.mean_distance}) {
        const auto bytes = std::bit_cast<std::array<char, sizeof(float)>>(static_cast<float>(x));
        figures.append(bytes.data(), bytes.size());
      }
    }
  return figures + rows.bytes();
}

Json group_json(const ReportSentence& sentence, size_t at, int64_t number, Blocks* blocks) {
  const ReportKind& kind = sentence.kinds[at];
  Json blocks_of = Json::array();
  const Tensor& first = sentence.moments.front().weights[at];
  for (const ReportMoment& moment : sentence.moments) {
    const Tensor& w = moment.weights[at];
    check_map({w, kind.query_labels, kind.key_labels, ""}, "render_report");
    if (w.rank() != 4 || !(w.shape() == first.shape()))
      throw ShapeError("render_report: weights " + to_string(w.shape()) + " at update " +
                       std::to_string(moment.update) + ", " + to_string(first.shape()) + " at update " +
                       std::to_string(sentence.moments.front().update) +
                       "; pass (N, H, Lq, Lk) of one shape at all times");
    if (w.size(3) > kMostKeys)
      throw ShapeError("render_report: " + std::to_string(w.size(3)) + " keys; a sentence may have at most " +
                       std::to_string(kMostKeys));
    blocks_of.push_back(blocks->add(packed(w)));
  }
  return {{"name", printable(kind.name)},
          {"title", printable(kind.title)},
          {"sentence", number},
          {"layers", first.size(0)},
          {"heads", first.size(1)},
          {"queries", first.size(2)},
          {"keys", first.size(3)},
          {"queryLabels", all_printable(kind.query_labels)},
          {"keyLabels", all_printable(kind.key_labels)},
          {"queryWords", Json::array()},
          {"keyWords", Json::array()},
          {"headLabels", Json::array()},
          {"whole", false},
          {"moments", std::move(blocks_of)}};
}

}  // namespace

std::string render_report(const TrainingReport& report) {
  Blocks blocks;
  Json figures = Json::array(), sentences = Json::array(), groups = Json::array(), facts = Json::array();
  for (const auto& [name, value] : report.facts) facts.push_back({printable(name), printable(value)});
  for (const ReportFigure& figure : report.figures) figures.push_back(figure_json(figure));
  for (const ReportSentence& sentence : report.sentences) {
    check_order(sentence.moments, "the moments", "a sentence");
    Json updates = Json::array();
    for (const ReportMoment& moment : sentence.moments) {
      updates.push_back(moment.update);
      if (moment.weights.size() != sentence.kinds.size())
        throw ShapeError("render_report: weights of " + std::to_string(moment.weights.size()) + " kinds at update " +
                         std::to_string(moment.update) + ", the sentence has " + std::to_string(sentence.kinds.size()) +
                         "; pass one tensor for each");
    }
    if (sentence.moments.empty()) continue;
    for (size_t at = 0; at < sentence.kinds.size(); ++at)
      groups.push_back(group_json(sentence, at, static_cast<int64_t>(sentences.size()), &blocks));
    sentences.push_back({{"text", printable(sentence.text)}, {"updates", std::move(updates)}});
  }
  const Json data = {{"title", printable(report.title)}, {"text", printable(report.text)},
                     {"facts", std::move(facts)},        {"figures", std::move(figures)},
                     {"groups", std::move(groups)},      {"sentences", std::move(sentences)},
                     {"compared", Json::array()},        {"colors", color_table()}};
  return filled(report_source(), data.dump(-1, ' ', /*ensure_ascii=*/true), blocks);
}

}  // namespace heed::inline v0
