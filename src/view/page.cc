// The page: the data of attention maps, packed, between the halves of a document that the build makes of page/.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "heed/view.h"
#include "view/color_map.h"
#include "view/label.h"
#include "view/page_source.h"
#include "view/panels.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                Z_BEST_COMPRESSION) != Z_OK)
    throw Error("render_html: zlib could not compress " + std::to_string(bytes.size()) + " bytes");
  out.resize(size);
  return out;
}

template <class T>
void append(std::string* out, T value) {  // little endian, as every machine heed runs on
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  out->append(bytes.data(), bytes.size());
}

// The blocks of binary data of a page: the JSON names them by their number.
class Blocks {
 public:
  size_t add(const std::string& bytes) {
    html_ += "<script type=\"application/octet-stream\" id=\"block" + std::to_string(count_) + "\">" +
             base64(deflated(bytes)) + "</script>\n";
    return count_++;
  }
  const std::string& html() const { return html_; }

 private:
  std::string html_;
  size_t count_ = 0;
};

// Rows of weights, packed: what the page unpacks again in data.js. A weight w of a row that keeps the sum s is stored
// as t = top sqrt(w / largest), and is s t^2 / (sum of t^2) again: small weights keep their size, and sums are exact.
class SparseRows {
 public:
  SparseRows(const PageOptions& options, bool whole) : options_(options), whole_(whole) {}

  void add(const double* row, int64_t keys) {
    double sum = 0, kept = 0;
    bool odd = false;  // a weight that has no place on the scale
    order_.clear();
    for (int64_t key = 0; key < keys; ++key) {
      if (!(row[key] >= 0) || std::isinf(row[key])) {
        odd = true;
      } else if (row[key] > 0) {
        sum += row[key];
        order_.push_back(key);
      }
    }
    const auto larger = [row](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; };
    const double largest = order_.empty() ? 0 : row[*std::min_element(order_.begin(), order_.end(), larger)];
    if (!whole_) {
      const auto limit = std::min(order_.size(), static_cast<size_t>(options_.keys));
      std::partial_sort(order_.begin(), order_.begin() + static_cast<int64_t>(limit), order_.end(), larger);
      size_t count = 0;
      for (double mass = 0; count < limit && mass < options_.mass * sum; ++count) mass += row[order_[count]];
      order_.resize(count);
      std::sort(order_.begin(), order_.end());
    }
    const double top = whole_ ? 65535 : 255;
    int64_t previous = -1;
    uint32_t count = 0;
    for (const int64_t key : order_) {
      const double t = std::round(top * std::sqrt(row[key] / largest));
      if (t == 0) continue;
      kept += row[key];
      ++count;
      for (auto gap = static_cast<uint64_t>(key - previous - 1);; gap >>= 7) {  // seven bits a byte, lowest first
        gaps_ += static_cast<char>((gap & 127) | (gap > 127 ? 128 : 0));
        if (gap <= 127) break;
      }
      previous = key;
      whole_ ? append(&levels_, static_cast<uint16_t>(t)) : append(&levels_, static_cast<uint8_t>(t));
    }
    entries_ += count;
    append(&counts_, static_cast<uint8_t>(count));
    append(&kept_, static_cast<float>(kept));
    append(&dropped_, odd ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sum - kept));
  }

  std::string bytes() const {
    std::string out;
    append(&out, entries_);
    append(&out, static_cast<uint32_t>(gaps_.size()));
    return out + kept_ + dropped_ + levels_ + counts_ + gaps_;
  }

 private:
  const PageOptions& options_;
  bool whole_;
  uint32_t entries_ = 0;
  std::string kept_, dropped_, levels_, counts_, gaps_;
  std::vector<int64_t> order_;
};

std::vector<std::string> all_printable(const std::vector<std::string>& labels) {
  std::vector<std::string> out;
  for (const std::string& label : labels) out.push_back(printable(label));
  return out;
}

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

std::string color_table() {
  std::string hex;
  for (int i = 0; i < 256; ++i) {
    const Rgb c = paper_color(i / 255.0);
    for (const uint8_t byte : {c.red, c.green, c.blue}) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
  }
  return hex;
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
  // In ASCII and without "<" no label can end the element that holds it.
  std::string json;
  for (const char c : data.dump(-1, ' ', /*ensure_ascii=*/true)) c == '<' ? json += "\\u003c" : json += c;

  constexpr std::string_view kMark = "<!--data-->";
  const std::string_view document = page_source();
  const size_t mark = document.find(kMark);
  std::string html(document.substr(0, mark));
  html += "<script type=\"application/json\" id=\"data\">" + json + "</script>\n" + blocks.html();
  return html.append(document.substr(mark + kMark.size()));
}

}  // namespace heed::inline v0
