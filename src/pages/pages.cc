#include "heed/pages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "heed/attention.h"
#include "heed/text_encoder.h"

namespace heed::inline v0 {
namespace {

Tensor causal_mask(int64_t length) {  // (length, length)
  const Tensor mask = Tensor::zeros({length, length}, DType::boolean);
  for (int64_t i = 0; i < length; ++i)
    for (int64_t j = 0; j <= i; ++j) mask.at<bool>(i, j) = true;
  return mask;
}

// Vectors are four bytes a number and do not compress: so many of them still make a page of a few megabytes.
constexpr int64_t kVectorNumbers = 1'000'000;  // of up to three groups

// Those of layer `first`, then of the others from the last one down, while their numbers are `left`.
std::vector<PageVectors> chosen_vectors(const std::vector<HeadVectors>& layers, int64_t first, int64_t left) {
  std::vector<PageVectors> chosen(layers.size());
  std::vector<size_t> order(layers.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_partition(order.begin(), order.end(), [&](size_t l) { return l == static_cast<size_t>(first); });
  for (const size_t l : order) {
    const HeadVectors& x = layers[l];
    left -= x.q.numel() + x.k.numel() + x.v.numel();
    if (left < 0) break;
    chosen[l] = {x.q.select(0, 0), x.k.select(0, 0), x.v.select(0, 0)};
  }
  return chosen;
}

// Of all layers, 0: 1 / sqrt(D). Layers of more than one scale have no numbers to show.
double scale_of(const std::vector<TransformerLayerOptions>& layers) {
  return layers.empty() ? 0 : layers.front().scale.value_or(0);
}

// What the page computes from vectors (H, L, D) is what the model computed: (H, Lq, Lk).
bool explains(const PageVectors& vectors, const Tensor& weights, double scale, bool causal) {
  const auto batched = [](const Tensor& x) {
    return x.to(DType::f32).contiguous().reshape({1, x.size(0), x.size(1), x.size(2)});
  };
  AttentionOptions options{.want_weights = true};
  if (scale > 0) options.scale = scale;
  if (causal) options.causal = Causal::top_left;
  const Tensor made = attention(batched(vectors.q), batched(vectors.k), batched(vectors.v), options).weights;
  constexpr float kNoticed = 1e-3F;
  const Tensor expected = weights.contiguous();
  const std::span<float> a = made.span<float>(), b = expected.span<float>();
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= kNoticed)) return false;
  return true;
}

// Chooses vectors for a group that has its weights (N, H, Lq, Lk).
void add_vectors(PageGroup& group, const std::vector<HeadVectors>& layers, int64_t first, double scale, bool causal,
                 int64_t numbers = kVectorNumbers / 3) {
  group.scale = scale;
  group.vectors = chosen_vectors(layers, std::min<int64_t>(first, std::ssize(layers) - 1), numbers);
  for (size_t l = 0; l < group.vectors.size(); ++l)
    if (group.vectors[l].q.defined() &&
        !explains(group.vectors[l], group.map.weights.select(0, static_cast<int64_t>(l)), scale, causal))
      group.vectors[l] = {};
}

using Candidates = std::vector<std::pair<std::string, double>>;

Candidates named(const std::vector<LikelyToken>& likely, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const LikelyToken& token : likely) ids.push_back(token.id);
  const Tokens names = tokens_of(tokenizer, ids);
  Candidates candidates;
  for (size_t i = 0; i < likely.size(); ++i) candidates.emplace_back(names.labels[i], likely[i].probability);
  return candidates;
}

// What each row of logits (1, L, V) predicts. `output`: what came, L or L - 1 of them; where nothing came, the
// likeliest.
std::vector<PageStep> steps_of(const Tensor& logits, const std::vector<int32_t>& output, const Tokenizer& tokenizer) {
  constexpr int64_t kCandidates = 5;
  const Tokens names = tokens_of(tokenizer, output);
  std::vector<PageStep> steps;
  for (const std::vector<LikelyToken>& likely : likeliest_tokens(logits, kCandidates)) {
    Candidates candidates = named(likely, tokenizer);
    const size_t i = steps.size();
    steps.push_back(
        {.token = i < output.size() ? names.labels[i] : candidates[0].first, .candidates = std::move(candidates)});
  }
  return steps;
}

PageGroup group_of(SeenAttention attention) {
  PageGroup group;
  group.name = std::move(attention.name);
  group.map = {attention.weights, std::move(attention.queries.labels), std::move(attention.keys.labels),
               std::move(attention.title)};
  group.query_words = std::move(attention.queries.words);
  group.key_words = std::move(attention.keys.words);
  return group;
}

// The inputs of a causal example, which were drawn at random: five words, head size 8.
// clang-format off
constexpr std::array<double, 40> kCausalQueries = {
    0.2899, 0.8591, 0.2150, -2.1308, 1.0219, -0.3658, -0.5951, -0.4635,
    1.8796, -0.0257, -0.5152, 1.2302, -0.6771, -0.9153, 0.1685, 0.2348,
    -0.2302, -0.5174, 0.2221, -0.2167, 0.9800, -0.2523, 1.0523, 0.0399,
    -0.5722, -0.1318, -0.7318, -0.9035, 0.4997, 0.5138, 1.4731, -0.8266,
    0.7124, 0.6073, 1.2734, 0.3133, -1.5616, 0.1281, -0.7365, 1.4206
};
constexpr std::array<double, 40> kCausalKeys = {
    -1.5823, -0.1973, -1.0024, -0.0381, -1.2831, 0.8047, 0.8942, 0.1795,
    0.3691, -1.1434, -0.9305, -0.5720, 0.6580, 0.1088, 0.3922, -0.1506,
    -0.0934, 0.8095, 0.7264, 0.3486, 0.6061, -3.3091, -1.4728, 0.1767,
    -1.6132, 0.3050, 1.2088, 0.9539, 1.0030, 1.2075, 2.9839, -0.1191,
    -1.0870, 0.6044, 0.6650, -0.1220, -0.5280, -0.2745, -0.1515, 0.9172
};
constexpr std::array<double, 40> kCausalValues = {
    -2.0999, 0.0109, -0.6695, -1.9876, 1.2244, 0.1202, -0.3568, -0.1871,
    -0.0504, -0.8658, 2.0000, -1.3596, 0.4889, 0.1180, -0.2192, 1.3023,
    -0.2480, 0.2227, 0.7799, -0.5512, 1.0494, -0.6196, -2.7551, -1.2206,
    0.0977, -0.9887, -0.8342, -0.0279, 0.2056, 0.4292, 0.2987, -0.3279,
    0.1773, 0.8559, -0.8663, -1.6317, 1.9103, -0.9373, -1.9709, -1.4257
};
// clang-format on

// q (Lq, D), k (Lk, D), v (Lk, Dv) of one head, in double.
PageGroup example(std::string name, std::string title, std::string note, const Tensor& q, const Tensor& k,
                  const Tensor& v, AttentionOptions options) {
  options.want_weights = true;
  const auto batched = [](const Tensor& x) { return x.reshape({1, 1, x.size(0), x.size(1)}); };
  const AttentionResult result = attention(batched(q), batched(k), batched(v), options);
  PageGroup group;
  group.name = std::move(name);
  group.note = std::move(note);
  group.map.title = std::move(title);
  group.map.weights = result.weights;
  const auto one_head = [](const Tensor& x) { return x.reshape({1, x.size(0), x.size(1)}); };
  group.vectors = {{one_head(q), one_head(k), one_head(v)}};
  group.scale = options.scale.value_or(0);
  if (options.causal != Causal::none) group.mask = causal_mask(q.size(0));
  return group;
}

PageGroup basic_self_attention() {
  const Tensor x = Tensor::from({0.1, 0.0, 0.0, 0.1,   // the
                                 1.6, 0.9, 0.1, 0.2,   // cat
                                 1.2, 1.1, 0.8, 0.0,   // walks
                                 0.0, 0.2, 0.9, 0.3,   // on
                                 0.1, 0.0, 0.0, 0.1,   // the
                                 0.3, 0.1, 1.1, 1.3},  // street
                                {6, 4});
  PageGroup group = example(
      "Basic self-attention", "softmax(X X\u1D40) X: each word is query, key and value at once",
      "Four numbers a word, chosen by hand so that nouns and verbs that belong together point the same way. There is "
      "nothing to learn here and no scale: a word attends to the words that its vector resembles. Both \u201Cthe\u201D "
      "have small vectors, so they match nothing in particular and look at all words nearly alike; and they have the "
      "same output, since nothing says where in the sentence a word stands.",
      x, x, x, {.scale = 1});
  group.map.query_labels = group.map.key_labels = {"the", "cat", "walks", "on", "the", "street"};
  return group;
}

PageGroup circle() {
  const std::vector<std::string> bag = {"EL",  "PERRO", "TIENE", "EL",    "PELO", "SUELTO",
                                        "THE", "DOG",   "HAS",   "LOOSE", "HAIR"};
  const auto points = [&](const std::vector<std::string>& words) {
    std::vector<double> xy;
    for (const std::string& word : words) {
      const auto at = std::find(bag.begin(), bag.end(), word) - bag.begin();
      const double angle = 2 * std::numbers::pi * static_cast<double>(at) / static_cast<double>(bag.size());
      xy.insert(xy.end(), {std::cos(angle), std::sin(angle)});
    }
    return Tensor::from(xy, {static_cast<int64_t>(words.size()), 2});
  };
  const std::vector<std::string> spanish = {"PERRO", "TIENE", "PELO"}, english = {"DOG", "HAS", "HAIR"};
  PageGroup group = example(
      "Dictionary on a circle", "A dictionary that is looked up softly",
      "Eleven words stand on a circle. Spanish words are keys, English words are values, and each Spanish word asks. "
      "PERRO is closest to itself, so DOG gets the largest weight; but the circle says nothing about meaning, and the "
      "weights are nearly even.",
      points(spanish), points(spanish), points(english), {});
  group.map.query_labels = group.map.key_labels = spanish;
  group.value_labels = english;
  return group;
}

PageGroup causal() {
  const auto vectors = [](const std::array<double, 40>& numbers) {
    return Tensor::from(std::span<const double>(numbers), {5, 8});
  };
  PageGroup group =
      example("Causal mask", "Each word sees itself and the words before it",
              "The score of a word that comes later is replaced by \u2212\u221E before the softmax, so its weight is "
              "exactly 0. The first word can look only at itself: its output is its own value.",
              vectors(kCausalQueries), vectors(kCausalKeys), vectors(kCausalValues), {.causal = Causal::top_left});
  group.map.query_labels = group.map.key_labels = {"Hola", "mi", "nombre", "es", "Alex"};
  return group;
}

}  // namespace

std::vector<PageGroup> textbook_examples() { return {basic_self_attention(), circle(), causal()}; }

Page translation_page(const SeenTranslation& seen, int64_t layer, const StoredModel& stored) {
  const NoGrad no_grad;
  const auto& model = stored.as<Transformer>();
  Page page{.title = seen.text, .text = seen.translation};
  if (model.has_logits()) page.steps = steps_of(model.logits_of(seen.hidden).value(), seen.output, stored.tokenizer());
  for (SeenAttention& attention : attention_of(seen, stored)) {
    const bool decoder = attention.name == "Decoder", cross = attention.name == "Cross";
    const std::vector<HeadVectors>& vectors = decoder ? seen.record.decoder_vectors
                                              : cross ? seen.record.cross_vectors
                                                      : seen.record.encoder_vectors;
    const double scale = !model.details()   ? 0
                         : decoder || cross ? scale_of(model.details()->decoder)
                                            : scale_of(model.details()->encoder);
    PageGroup group = group_of(std::move(attention));
    add_vectors(group, vectors, layer, scale, decoder);
    if (model.has_logits()) group.step_keys = decoder ? StepKeys::output : cross ? StepKeys::input : StepKeys::none;
    if (decoder) group.mask = causal_mask(std::ssize(seen.input));
    page.groups.push_back(std::move(group));
  }
  return page;
}

Page text_page(const SeenText& seen, int64_t layer, const StoredModel& stored) {
  const NoGrad no_grad;
  Page page{.title = seen.text};
  PageGroup group = group_of(attention_of(seen, stored).at(0));
  if (const auto* encoder = stored.get_if<TextEncoder>()) {
    add_vectors(group, seen.record.encoder_vectors, layer, scale_of(encoder->config().layers), /*causal=*/false);
  } else {
    const auto& model = stored.as<LanguageModel>();
    // A text is followed to what would come next; of one that the model wrote itself that is not known yet.
    const int64_t first = std::max<int64_t>(seen.given, 1), end = std::ssize(seen.ids) + (seen.given > 0 ? 0 : 1);
    if (model.has_logits()) {
      const Variable hidden(seen.hidden.value().slice(1, first - 1, end - 1));
      page.steps =
          steps_of(model.logits_of(hidden).value(), {seen.ids.begin() + first, seen.ids.end()}, stored.tokenizer());
      group.step_keys = StepKeys::output;
      group.first_step = first - 1;
    }
    add_vectors(group, seen.record.decoder_vectors, layer, model.details() ? scale_of(model.details()->layers) : 0,
                /*causal=*/true);
    group.mask = causal_mask(std::ssize(seen.ids));
  }
  page.groups.push_back(std::move(group));
  return page;
}

void add_measured(std::vector<SeenAttention> all, const std::string& measure, Page* page) {
  for (SeenAttention& attention : all) {
    PageGroup group = group_of(std::move(attention));
    group.measure = measure;
    group.map.shares = false;
    page->groups.push_back(std::move(group));
  }
}

void add_lens(const LogitLens& lens, const Tokenizer& tokenizer, Page* page) {
  if (page->steps.empty()) return;
  int64_t first = 0;
  for (const PageGroup& group : page->groups)
    first = std::max(first, group.step_keys == StepKeys::output ? group.first_step : 0);
  for (const auto& layer : lens)
    for (size_t i = 0; i < page->steps.size(); ++i)
      page->steps[i].layers.push_back(named(layer.at(static_cast<size_t>(first) + i), tokenizer));
}

Page picture_page(const SeenPicture& seen, const Patches& patches, int64_t layer, const StoredModel& stored) {
  const NoGrad no_grad;
  PageGroup group;
  group.name = "Self-attention";
  group.map = {stacked(seen.record.encoder), seen.tokens, seen.tokens,
               "Self-attention: the class token and each patch look at all of them."};
  group.picture = patches.picture;
  group.picture_rows = patches.rows;
  group.picture_columns = patches.columns;
  add_vectors(group, seen.record.encoder_vectors, layer, scale_of(stored.as<ImageEncoder>().config().layers),
              /*causal=*/false, kVectorNumbers / 2);
  Page page;
  page.groups.push_back(std::move(group));
  return page;
}

PageOptions options_of_picture(const Page& page) {
  constexpr int64_t kBytes = 6'000'000;  // of weights, which hardly shrink
  const Tensor& weights = page.groups.at(0).map.weights;
  const int64_t keys = weights.size(-1), room = kBytes / (weights.numel() / keys);  // of a row
  PageOptions options;
  if (keys > options.keys)  // two bytes each where all fit, else one
    options.keys = 2 * keys <= std::min<int64_t>(room, 510)
                       ? keys
                       : std::clamp<int64_t>(std::min(room, keys - 1), options.keys, 255);
  return options;
}

SeenPage see_page(const StoredModel& model, const PageRequest& request) {
  const auto layer_of = [&](size_t layers) {
    const auto count = static_cast<int64_t>(layers);
    if (request.layer < 0 || request.layer > count)
      throw UsageError("layer is " + std::to_string(request.layer) + "; the model has " + std::to_string(count));
    return request.layer > 0 ? request.layer - 1 : count - 1;
  };
  if (model.get_if<Transformer>()) {
    const SeenTranslation seen = see_translation(model, request.text, request.target, request.beam,
                                                 /*want_vectors=*/true, request.on_written);
    return {translation_page(seen, layer_of(seen.record.cross.size()), model), predicted_of(seen, model)};
  }
  const SeenText seen = see_text(model, request.text, request.generate, /*want_vectors=*/true, request.on_written);
  return {text_page(seen, layer_of(seen.record.encoder.size() + seen.record.decoder.size()), model),
          predicted_of(seen, model)};
}

void add_importance(const HeadImportance& importance, Page* page) {
  for (PageGroup& group : page->groups)
    group.importance = group.name == "Encoder" ? importance.encoder
                       : group.name == "Cross" ? importance.cross
                                               : importance.decoder;
}

void compare_with(const Page& other, Page* page) {
  page->compared_title = other.title;
  page->compared_text = other.text;
  page->compared = other.groups;
}

}  // namespace heed::inline v0
