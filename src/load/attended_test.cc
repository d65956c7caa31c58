// What is measured of attention besides weights, against formulas and differences computed here.
#include "heed/attended.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "heed/random.h"
#include "heed/text_encoder.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kPieces = 24;

// The words a to x, each a token.
Tokenizer letters() {
  std::string vocabulary;
  for (int64_t i = 0; i < kPieces; ++i)
    vocabulary += (i ? ", \"" : "\"") + std::string(1, static_cast<char>('a' + i)) + "\": " + std::to_string(i);
  return Tokenizer::from_json(R"({"version": "1.0", "added_tokens": [], "normalizer": null, "decoder": null,
      "truncation": null, "padding": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
      "model": {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": {)" +
                                  vocabulary + "}}}",
                              "test");
}

StoredModel stored(std::unique_ptr<Module> module) {
  for (const auto& [name, parameter] : module->named_parameters())
    if (parameter.value().rank() == 2) parameter.value().copy_from(normal(parameter.value().shape(), 0, 0.5));
  module->eval();
  return {PretrainedModel{.model_type = "test", .module = std::move(module)}, letters()};
}

StoredModel language_model() {
  manual_seed(6);
  return stored(std::make_unique<LanguageModel>(LanguageModelConfig{.vocab_size = kPieces,
                                                                    .d_model = 8,
                                                                    .nhead = 4,
                                                                    .num_kv_heads = 2,
                                                                    .num_layers = 2,
                                                                    .dim_feedforward = 12,
                                                                    .max_positions = 16}));
}

StoredModel translator() {
  manual_seed(7);
  return stored(std::make_unique<Transformer>(TransformerConfig{.vocab_size = kPieces,
                                                                .d_model = 8,
                                                                .nhead = 2,
                                                                .num_encoder_layers = 2,
                                                                .num_decoder_layers = 2,
                                                                .dim_feedforward = 12,
                                                                .activation = "gelu",  // which has no kinks
                                                                .max_positions = 16}));
}

const char* const kText = "d e f d g";

double log_probability(const Tensor& logits, int64_t row, int32_t id) {
  double sum = 0;
  for (int64_t v = 0; v < logits.size(2); ++v) sum += std::exp(static_cast<double>(logits.at<float>(0, row, v)));
  return static_cast<double>(logits.at<float>(0, row, id)) - std::log(sum);
}

TEST(MeasuredAttention, NormsAreThoseOfWhatEachKeyAdds) {
  const StoredModel model = language_model();
  const SeenText seen = see_text(model, kText, 0, /*want_vectors=*/true);
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::norms);
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].weights.shape(), (Dims{2, 4, 5, 5}));
  const AttentionLayers layers = attention_layers(model.module());
  for (int64_t l = 0; l < 2; ++l)
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t i = 0; i < 5; ++i)
        for (int64_t j = 0; j < 5; ++j) {
          const auto at = static_cast<size_t>(l);
          const Tensor &out = layers.decoder[at]->out_proj.weight.value(), &v = seen.record.decoder_vectors[at].v;
          const double weight = static_cast<double>(seen.record.decoder[at].at<float>(0, h, i, j));
          double square = 0;
          for (int64_t e = 0; e < 8; ++e) {
            double added = 0;
            for (int64_t d = 0; d < 2; ++d)
              added +=
                  static_cast<double>(out.at<float>(e, 2 * h + d)) * static_cast<double>(v.at<float>(0, h / 2, j, d));
            square += weight * added * weight * added;
          }
          EXPECT_NEAR(all[0].weights.at<float>(l, h, i, j), std::sqrt(square), 1e-5);
        }
}

TEST(MeasuredAttention, RolloutIsAProductOverLayers) {
  const StoredModel model = translator();
  const SeenTranslation seen = see_translation(model, kText, "h i j", 1, /*want_vectors=*/true);
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::rollout);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "Encoder");
  EXPECT_EQ(all[1].name, "Decoder");
  const int64_t length = std::ssize(seen.source);
  ASSERT_EQ(all[0].weights.shape(), (Dims{2, 1, length, length}));
  const auto layer = [&](size_t l, int64_t i, int64_t j) {  // (mean of heads + I) / 2
    const Tensor& w = seen.record.encoder[l];
    return (static_cast<double>(w.at<float>(0, 0, i, j) + w.at<float>(0, 1, i, j)) / 2 + (i == j ? 1 : 0)) / 2;
  };
  for (int64_t i = 0; i < length; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < length; ++j) {
      EXPECT_NEAR(all[0].weights.at<float>(0, 0, i, j), layer(0, i, j), 1e-6);
      double product = 0;
      for (int64_t k = 0; k < length; ++k) product += layer(1, i, k) * layer(0, k, j);
      EXPECT_NEAR(all[0].weights.at<float>(1, 0, i, j), product, 1e-6);
      sum += product;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

// Weight times (T(+h) - T(-h)) / 2h, where h more of key j's value is in what head `head` gives query i.
void expect_gradient(MultiheadAttention& layer, const Tensor& weights, const Tensor& values, const Tensor& measured,
                     const std::function<double()>& log_probability_of_all, int64_t row_step) {
  const int64_t heads = weights.size(1), queries = weights.size(2), size = values.size(3);
  const NoGrad no_grad;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < queries; i += row_step)
      for (int64_t j = 0; j < weights.size(3); ++j) {
        const auto at = [&](float step) {
          const Tensor added = Tensor::zeros({1, queries, heads * size});
          for (int64_t d = 0; d < size; ++d)
            added.at<float>(0, i, h * size + d) = step * values.at<float>(0, h / (heads / values.size(1)), j, d);
          layer.control_heads({.scales = {}, .patterns = {}, .added = Variable(added)});
          const double found = log_probability_of_all();
          layer.control_heads({});
          return found;
        };
        const float step = 0.004F;
        const double slope =
            (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * static_cast<double>(step));
        EXPECT_NEAR(measured.at<float>(h, i, j), static_cast<double>(weights.at<float>(0, h, i, j)) * slope, 1e-3)
            << "head " << h << ", " << i << ", " << j;
      }
}

TEST(MeasuredAttention, GradientsOfALanguageModel) {
  const StoredModel model = language_model();
  const SeenText seen = see_text(model, kText, 0, /*want_vectors=*/true);
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::gradient);
  const AttentionLayers layers = attention_layers(model.module());
  const auto text = [&] {
    const Tensor logits = model.as<LanguageModel>().logits(TokenBatch::pad({seen.ids}, 0)).value();
    double sum = 0;
    for (int64_t i = 0; i + 1 < 5; ++i) sum += log_probability(logits, i, seen.ids[static_cast<size_t>(i) + 1]);
    return sum;
  };
  for (size_t l = 0; l < 2; ++l)
    expect_gradient(*layers.decoder[l], seen.record.decoder[l], seen.record.decoder_vectors[l].v,
                    all[0].weights.select(0, static_cast<int64_t>(l)), text, 1);
  EXPECT_THROW(measure_attention(see_text(model, kText), model, Measure::gradient), UsageError);  // without vectors
  const NoGrad no_grad;
  EXPECT_THROW(measure_attention(seen, model, Measure::gradient), UsageError);
}

TEST(MeasuredAttention, GradientsOfWhatALanguageModelWrote) {
  const StoredModel model = language_model();
  const SeenText seen = see_text(model, "d e f", 2, /*want_vectors=*/true);
  ASSERT_EQ(seen.ids.size(), 5u);
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::gradient);
  const auto written = [&] {
    const Tensor logits = model.as<LanguageModel>().logits(TokenBatch::pad({seen.ids}, 0)).value();
    return log_probability(logits, 2, seen.ids[3]) + log_probability(logits, 3, seen.ids[4]);
  };
  expect_gradient(*attention_layers(model.module()).decoder[0], seen.record.decoder[0],
                  seen.record.decoder_vectors[0].v, all[0].weights.select(0, 0), written, 1);
}

TEST(MeasuredAttention, GradientsOfATranslation) {
  const StoredModel model = translator();
  const SeenTranslation seen = see_translation(model, kText, "h i j", 1, /*want_vectors=*/true);
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::gradient);
  ASSERT_EQ(all.size(), 3u);
  const AttentionLayers layers = attention_layers(model.module());
  const auto translation = [&] {
    const Tensor logits =
        model.as<Transformer>().logits(TokenBatch::pad({seen.source}, 0), TokenBatch::pad({seen.input}, 0)).value();
    double sum = 0;
    for (size_t i = 0; i < seen.output.size(); ++i)
      sum += log_probability(logits, static_cast<int64_t>(i), seen.output[i]);
    return sum;
  };
  expect_gradient(*layers.encoder[0], seen.record.encoder[0], seen.record.encoder_vectors[0].v,
                  all[0].weights.select(0, 0), translation, 2);
  expect_gradient(*layers.decoder[1], seen.record.decoder[1], seen.record.decoder_vectors[1].v,
                  all[1].weights.select(0, 1), translation, 2);
  expect_gradient(*layers.cross[0], seen.record.cross[0], seen.record.cross_vectors[0].v, all[2].weights.select(0, 0),
                  translation, 2);
}

// (T(x + h) - T(x - h)) / 2h along the vector x that stands for token j, by its rows of the embedding and of positions.
TEST(MeasuredAttention, GradientsByTheInput) {
  const StoredModel model = language_model();
  const auto& network = model.as<LanguageModel>();
  const SeenText seen = see_text(model, "d e f g h", 0, /*want_vectors=*/true);  // no token twice
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::input);
  ASSERT_EQ(all.at(0).weights.shape(), (Dims{1, 1, 5, 5}));
  Tensor positions;
  for (const auto& [name, parameter] : network.named_parameters())
    if (name == "positions.weight") positions = parameter.value();
  ASSERT_TRUE(positions.defined());
  const NoGrad no_grad;
  for (int64_t j = 0; j < 5; ++j) {
    const Tensor row = positions.select(0, j), before = row.clone();
    const auto at = [&](float step, int64_t query) {
      for (int64_t e = 0; e < 8; ++e)
        row.at<float>(e) = before.at<float>(e) + step * seen.record.decoder_states[0].at<float>(0, j, e);
      const Tensor logits = network.logits(TokenBatch::pad({seen.ids}, 0)).value();
      row.copy_from(before);
      return log_probability(logits, query, seen.ids[static_cast<size_t>(query) + 1]);
    };
    for (int64_t i = 0; i < 4; ++i) {
      const double slope = (at(0.01F, i) - at(-0.01F, i)) / 0.02;
      EXPECT_NEAR(all[0].weights.at<float>(0, 0, i, j), slope, 5e-3) << i << ", " << j;
    }
    EXPECT_EQ(all[0].weights.at<float>(0, 0, 4, j), 0);  // it is not known what comes next
  }
}

TEST(MeasuredAttention, GradientsByTheInputOfATranslation) {
  const StoredModel model = translator();
  const SeenTranslation seen = see_translation(model, kText, "h i j", 1, /*want_vectors=*/true);
  const std::vector<SeenAttention> all = measure_attention(seen, model, Measure::input);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "Decoder");
  EXPECT_EQ(all[1].name, "Cross");
  EXPECT_EQ(all[0].weights.shape(), (Dims{1, 1, 4, 4}));
  EXPECT_EQ(all[1].weights.shape(), (Dims{1, 1, 4, std::ssize(seen.source)}));
  double of_source = 0;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = i + 1; j < 4; ++j) EXPECT_EQ(all[0].weights.at<float>(0, 0, i, j), 0);  // what comes later
    for (int64_t j = 0; j < std::ssize(seen.source); ++j)
      of_source = std::max(of_source, std::abs(static_cast<double>(all[1].weights.at<float>(0, 0, i, j))));
  }
  EXPECT_GT(of_source, 1e-3);
}

TEST(MeasuredAttention, ATextEncoderHasNoGradient) {
  manual_seed(8);
  TextEncoderConfig config{.vocab_size = kPieces, .d_model = 8, .max_positions = 20, .types = 2};
  config.layers.assign(2, {.d_model = 8, .nhead = 2, .dim_feedforward = 12});
  const StoredModel model = stored(std::make_unique<TextEncoder>(config));
  const SeenText seen = see_text(model, kText, 0, /*want_vectors=*/true);
  EXPECT_EQ(measure_attention(seen, model, Measure::norms).at(0).weights.shape(), (Dims{2, 2, 5, 5}));
  EXPECT_EQ(measure_attention(seen, model, Measure::rollout).at(0).weights.shape(), (Dims{2, 1, 5, 5}));
  EXPECT_THROW(measure_attention(seen, model, Measure::gradient), UsageError);
  EXPECT_THROW(measure_attention(seen, model, Measure::input), UsageError);
  EXPECT_THROW(logit_lens(seen, model), UsageError);
}

TEST(LogitLens, IsTheLastNormAndTheOutputOfEachLayer) {
  const StoredModel model = language_model();
  const auto& network = model.as<LanguageModel>();
  const SeenText seen = see_text(model, kText);
  const LogitLens lens = logit_lens(seen, model, 3);
  ASSERT_EQ(lens.size(), 2u);
  Tensor weight, bias;
  for (const auto& [name, parameter] : network.named_parameters()) {
    if (name == "norm.weight") weight = parameter.value();
    if (name == "norm.bias") bias = parameter.value();
  }
  ASSERT_TRUE(weight.defined() && bias.defined());
  const Tensor &states = seen.record.decoder_states.at(1), &pieces = network.embedding().value();
  const Tensor last = network.logits(TokenBatch::pad({seen.ids}, 0)).value();
  for (int64_t row = 0; row < 5; ++row) {
    double mean = 0, variance = 0;
    for (int64_t e = 0; e < 8; ++e) mean += static_cast<double>(states.at<float>(0, row, e)) / 8;
    for (int64_t e = 0; e < 8; ++e)
      variance += std::pow(static_cast<double>(states.at<float>(0, row, e)) - mean, 2) / 8;
    std::vector<double> first(kPieces), second(kPieces);
    double of_first = 0, of_second = 0;
    for (int64_t v = 0; v < kPieces; ++v) {
      double logit = 0;
      for (int64_t e = 0; e < 8; ++e)
        logit += ((static_cast<double>(states.at<float>(0, row, e)) - mean) / std::sqrt(variance + 1e-5) *
                      static_cast<double>(weight.at<float>(e)) +
                  static_cast<double>(bias.at<float>(e))) *
                 static_cast<double>(pieces.at<float>(v, e));
      of_first += first[static_cast<size_t>(v)] = std::exp(logit);
      of_second += second[static_cast<size_t>(v)] = std::exp(static_cast<double>(last.at<float>(0, row, v)));
    }
    const auto expect = [&](const std::vector<LikelyToken>& likely, const std::vector<double>& all, double sum) {
      ASSERT_EQ(likely.size(), 3u);
      std::vector<double> sorted = all;
      std::sort(sorted.rbegin(), sorted.rend());
      for (size_t n = 0; n < 3; ++n) {
        EXPECT_NEAR(likely[n].probability, sorted[n] / sum, 1e-5);
        EXPECT_NEAR(all[static_cast<size_t>(likely[n].id)] / sum, sorted[n] / sum, 1e-5);
      }
    };
    expect(lens[0].at(static_cast<size_t>(row)), first, of_first);
    expect(lens[1].at(static_cast<size_t>(row)), second, of_second);
  }
}

TEST(LogitLens, OfATranslation) {
  const StoredModel model = translator();
  const SeenTranslation seen = see_translation(model, kText, "h i j", 1);
  const LogitLens lens = logit_lens(seen, model, 100);
  ASSERT_EQ(lens.size(), 2u);
  for (const auto& rows : lens) {
    ASSERT_EQ(rows.size(), seen.output.size());
    for (const auto& likely : rows) {
      EXPECT_EQ(likely.size(), static_cast<size_t>(kPieces));  // all of them
      double sum = 0;
      for (const LikelyToken& token : likely) sum += token.probability;
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
  EXPECT_THROW(likeliest_tokens(Tensor::zeros({2, 3}), 1), ShapeError);
  EXPECT_THROW(likeliest_tokens(Tensor::zeros({1, 2, 3}), 0), ShapeError);
}

// |L(1 + h) - L(1 - h)| / 2h for the factor of each head, in the mean over texts.
TEST(HeadImportance, IsTheSlopeOfTheLoss) {
  const StoredModel model = language_model();
  const std::vector<std::string> texts{kText, "k l", "m n o p"};
  const HeadImportance importance = head_importance(model, texts);
  EXPECT_FALSE(importance.encoder.defined());
  EXPECT_FALSE(importance.cross.defined());
  ASSERT_EQ(importance.decoder.shape(), (Dims{2, 4}));
  const auto& network = model.as<LanguageModel>();
  const AttentionLayers layers = attention_layers(model.module());
  const NoGrad no_grad;
  for (size_t l = 0; l < 2; ++l)
    for (int64_t h = 0; h < 4; ++h) {
      double mean = 0;
      for (const std::string& text : texts) {
        const TokenBatch ids = TokenBatch::pad({model.tokenizer().encode(text).ids}, 0);
        const auto at = [&](float factor) {
          const Tensor scales = Tensor::full({4}, 1);
          scales.at<float>(h) = factor;
          layers.decoder[l]->control_heads({.scales = Variable(scales)});
          const double loss = network.loss(ids).value().item();
          layers.decoder[l]->control_heads({});
          return loss;
        };
        mean += std::abs(at(1.005F) - at(0.995F)) / 0.01 / 3;
      }
      EXPECT_NEAR(importance.decoder.at<float>(static_cast<int64_t>(l), h), mean, 2e-3);
    }
}

TEST(HeadImportance, OfATranslatorLeavesItAsItWas) {
  const StoredModel model = translator();
  const auto& network = model.as<Transformer>();
  const auto logits = [&] {
    const NoGrad no_grad;
    return network.logits(TokenBatch::pad({{5, 6, 3}}, 0), TokenBatch::pad({{2, 7}}, 0)).value();
  };
  const Tensor before = logits();
  const HeadImportance importance = head_importance(model, TextPairs{{"d e", "f"}, {"g", "h i"}});
  for (const Tensor* of_kind : {&importance.encoder, &importance.decoder, &importance.cross}) {
    ASSERT_EQ(of_kind->shape(), (Dims{2, 2}));
    const std::span<const float> values = of_kind->span<float>();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float x) { return x > 0 && std::isfinite(x); }));
  }
  const Tensor after = logits();
  for (int64_t i = 0; i < before.numel(); ++i) EXPECT_EQ(after.data<float>()[i], before.data<float>()[i]);
  for (const auto& [name, parameter] : network.named_parameters())
    for (const float x : parameter.grad().defined() ? parameter.grad().span<float>() : std::span<float>())
      EXPECT_EQ(x, 0) << name;
  EXPECT_THROW(head_importance(model, TextPairs{}), UsageError);
  EXPECT_THROW(head_importance(model, TextPairs{{"d"}, {""}}), UsageError);
}

}  // namespace
}  // namespace heed::inline v0
