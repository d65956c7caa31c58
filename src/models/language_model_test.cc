#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "heed/executor.h"
#include "heed/models.h"
#include "heed/random.h"
#include "models/sampler.h"
#include "tests/gradcheck.h"

namespace heed::inline v0 {
namespace {

LanguageModelConfig tiny() {
  return {.vocab_size = 13,
          .d_model = 8,
          .nhead = 2,
          .num_layers = 2,
          .dim_feedforward = 12,
          .dropout = 0,
          .max_positions = 8};
}

// Weights far from 0, so that no two tokens are nearly as probable.
void make_sure_of_itself(LanguageModel& model) {
  for (auto& [name, parameter] : model.named_parameters())
    if (parameter.shape().rank() > 1) parameter.value().copy_from(normal(parameter.shape(), 0, 0.7));
  model.eval();
}

// The most probable token after `ids`, by a whole forward pass.
int32_t most_probable(const LanguageModel& model, const std::vector<int32_t>& ids) {
  const NoGrad no_grad;
  const Tensor logits = model.logits(TokenBatch::pad({ids}, 0)).value();  // (1, L, V)
  const auto row = logits.span<float>().last(static_cast<size_t>(model.config().vocab_size));
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

TEST(LanguageModel, MatricesKeptInHalfPrecisionGiveTheSameBits) {
  manual_seed(4);
  LanguageModel model(tiny());
  make_sure_of_itself(model);
  model.keep_matrices_as(DType::f16);
  const std::vector<int32_t> kept = model.generate({5, 6}, {.max_tokens = 20, .sampling = {.seed = 1}});
  {
    const NoGrad no_grad;
    const Tensor logits = model.logits(TokenBatch::pad({{5, 6, 7}}, 0)).value();
    model.to(DType::f32);
    const Tensor wide = model.logits(TokenBatch::pad({{5, 6, 7}}, 0)).value();
    EXPECT_TRUE(std::ranges::equal(logits.span<float>(), wide.span<float>()));
  }
  EXPECT_EQ(model.generate({5, 6}, {.max_tokens = 20, .sampling = {.seed = 1}}), kept);
}

TEST(LanguageModel, LossGradients) {
  manual_seed(3);
  for (const char* positions : {"sinusoidal", "learned", "rotary"})
    for (const bool tied : {true, false}) {
      LanguageModelConfig config = tiny();
      config.positions = positions;
      config.tie_embeddings = tied;
      config.norm_first = tied;
      config.num_kv_heads = tied ? 0 : 1;
      config.bias = tied;
      config.norm = tied ? "layer_norm" : "rms_norm";
      LanguageModel model(config);
      model.to(DType::f64);
      for (auto& [name, parameter] : model.named_parameters())  // deviations of 0.02 hide mistakes
        if (parameter.shape().rank() > 1) parameter.value().copy_from(normal(parameter.shape(), 0, 0.4, DType::f64));
      test::expect_gradients(
          [&] {
            return model.loss({{5, 6, 3, 1}, {7, 3}, {2, 2, 2, 9, 12}}, {.label_smoothing = 0.1});
          },
          model.parameters());
    }
}

TEST(LanguageModel, RDropTakesEachTextThroughDropoutTwice) {
  LanguageModelConfig config = tiny();
  config.dropout = 0.3;
  LanguageModel model(config);
  functional::LossParts once, twice;
  const auto loss = [&](double r_drop, functional::LossParts* parts) {
    manual_seed(7);
    return model.loss({{5, 6, 3, 1}, {7, 3}}, {.r_drop = r_drop}, parts).value().item();
  };
  model.train();
  EXPECT_GT(loss(4, &twice), loss(2, &twice));
  loss(0, &once);
  EXPECT_EQ(twice.count, 2 * once.count);
  model.eval();
  EXPECT_NEAR(loss(2, &twice), loss(0, &once), 1e-6);
}

TEST(LanguageModel, LossIsThatOfTheLogits) {
  manual_seed(4);
  LanguageModel model(tiny());
  make_sure_of_itself(model);
  const NoGrad no_grad;
  functional::LossParts parts;
  const double loss = model.loss({{1, 2, 3}, {4, 5}}, {}, &parts).value().item();
  const Tensor log_p = functional::log_softmax(model.logits(TokenBatch::pad({{1, 2}, {4}}, 0))).value();
  const double sum = -log_p.at<float>(0, 0, 2) - log_p.at<float>(0, 1, 3) - log_p.at<float>(1, 0, 5);
  EXPECT_NEAR(loss, sum / 3, 1e-5);
  EXPECT_EQ(parts.count, 3);
  EXPECT_THROW(model.loss({{1, 2}, {}}), ShapeError);
}

TEST(LanguageModel, NoTokenSeesALaterOne) {
  manual_seed(5);
  LanguageModel model(tiny());
  make_sure_of_itself(model);
  const NoGrad no_grad;
  AttentionRecord record;
  const Tensor a = model.hidden(TokenBatch::pad({{1, 2, 3, 4, 5}}, 0), &record).value();
  const Tensor b = model.hidden(TokenBatch::pad({{1, 2, 3, 9, 9}}, 0)).value();
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t e = 0; e < 8; ++e) EXPECT_EQ(a.at<float>(0, i, e) == b.at<float>(0, i, e), i < 3) << i << ' ' << e;
  ASSERT_EQ(record.decoder.size(), 2u);
  EXPECT_TRUE(record.encoder.empty() && record.cross.empty());
  for (const Tensor& weights : record.decoder) {
    ASSERT_EQ(weights.shape(), (Dims{1, 2, 5, 5}));
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 5; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < 5; ++j) {
          sum += weights.at<float>(0, h, i, j);
          if (j > i) {
            EXPECT_EQ(weights.at<float>(0, h, i, j), 0);
          }
        }
        EXPECT_NEAR(sum, 1, 1e-5);
      }
  }
}

TEST(LanguageModel, GeneratesWhatTheWholePassSays) {
  for (const char* positions : {"sinusoidal", "learned", "rotary"})
    for (const int64_t kv_heads : {0, 1}) {
      manual_seed(6);
      LanguageModelConfig config = tiny();
      config.positions = positions;
      config.num_kv_heads = kv_heads;
      config.tie_embeddings = false;  // else large weights repeat the token before
      LanguageModel model(config);
      make_sure_of_itself(model);
      for (const size_t length : {1u, 3u, 8u, 20u}) {  // 20: longer than the model takes
        std::vector<int32_t> prompt;
        for (size_t i = 0; i < length; ++i) prompt.push_back(static_cast<int32_t>(i * 5 % 13));
        std::vector<int32_t> view(prompt.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(length, 8)),
                                  prompt.end());
        std::vector<int32_t> expected;
        while (expected.size() < 30) {
          expected.push_back(most_probable(model, view));
          if (view.size() == 8) view.erase(view.begin(), view.begin() + 5);  // 3 stay, the new one makes 4
          view.push_back(expected.back());
        }
        EXPECT_EQ(model.generate(prompt, {.max_tokens = 30, .sampling = {.temperature = 0}}), expected)
            << positions << ' ' << kv_heads << ' ' << length;
        EXPECT_GT(std::set<int32_t>(expected.begin(), expected.end()).size(), 1u);
      }
    }
}

TEST(LanguageModel, OnePositionIsEnough) {
  manual_seed(7);
  LanguageModelConfig config = tiny();
  config.max_positions = 1;
  config.tie_embeddings = false;
  LanguageModel model(config);
  make_sure_of_itself(model);
  std::vector<int32_t> expected{4};
  for (int i = 0; i < 6; ++i) expected.push_back(most_probable(model, {expected.back()}));
  expected.erase(expected.begin());
  EXPECT_EQ(model.generate({1, 2, 4}, {.max_tokens = 6, .sampling = {.temperature = 0}}), expected);
}

TEST(LanguageModel, TheSeedDecidesAndThreadsDoNot) {
  manual_seed(8);
  LanguageModel model(tiny());
  model.eval();
  const auto text = [&](uint64_t seed, uint64_t sample) {
    return model.generate({1}, {.max_tokens = 40, .sampling = {.seed = seed}, .sample = sample});
  };
  const auto first = text(1, 0);
  EXPECT_EQ(first.size(), 40u);
  default_generator().next();  // nothing is drawn from it
  const int before = threads();
  set_threads(before == 1 ? 2 : 1);
  EXPECT_EQ(text(1, 0), first);
  set_threads(before);
  EXPECT_NE(text(2, 0), first);
  EXPECT_NE(text(1, 1), first);
  EXPECT_NE(text(1, 1), text(2, 0));
}

TEST(LanguageModel, StopsWhereItIsTold) {
  manual_seed(9);
  LanguageModel model(tiny());
  model.eval();
  const std::vector<int32_t> whole = model.generate({1}, {.max_tokens = 40});
  const int32_t end = whole[10];
  const auto at = std::find(whole.begin(), whole.end(), end);
  EXPECT_EQ(model.generate({1}, {.max_tokens = 40, .stop = {end}}), std::vector<int32_t>(whole.begin(), at));
  std::vector<int32_t> seen;
  const auto until_five = [&](int32_t id) {
    seen.push_back(id);
    return seen.size() < 5;
  };
  EXPECT_EQ(model.generate({1}, {.max_tokens = 40, .on_token = until_five}),
            std::vector<int32_t>(whole.begin(), whole.begin() + 5));
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_TRUE(model.generate({1}, {.max_tokens = 0}).empty());
  for (const int32_t id : model.generate({1}, {.max_tokens = 200, .rules = {.never = {0, 4, end}}}))
    EXPECT_TRUE(id != 0 && id != 4 && id != end);
}

TEST(LanguageModel, AGenerationGivesTheSameTokensOneByOne) {
  manual_seed(9);
  LanguageModel model(tiny());
  model.eval();
  const GenerateOptions options{.max_tokens = 30, .sampling = {.seed = 4}, .rules = {.repetition_penalty = 1.3}};
  const std::vector<int32_t> whole = model.generate({1, 2}, options);
  Generation one(model, {1, 2}, options), other(model, {1, 2}, options);
  for (const int32_t id : whole) {  // in turns: each keeps its own caches, through several views of the model
    EXPECT_EQ(one.next(), id);
    EXPECT_EQ(other.next(), id);
  }
  EXPECT_EQ(one.next(), std::nullopt);
  EXPECT_EQ(one.next(), std::nullopt);
  EXPECT_THROW(Generation(model, {}), ShapeError);
  EXPECT_THROW(Generation(model, {1}, {.max_tokens = -1}), ShapeError);
}

TEST(LanguageModel, AGenerationThatRestartsGivesWhatANewOneWould) {
  manual_seed(4);
  LanguageModelConfig config = tiny();
  config.max_positions = 40;  // several turns
  LanguageModel model(config);
  make_sure_of_itself(model);
  // What was read before decides what comes.
  for (auto& [name, parameter] : model.named_parameters())
    if (name.ends_with("out_proj.weight")) parameter.value().copy_from(normal(parameter.shape(), 0, 5));
  const int64_t longest = model.config().max_positions;
  const GenerateOptions options{.max_tokens = 4, .sampling = {.temperature = 0}, .rules = {.repetition_penalty = 1.3}};
  std::vector<int32_t> text{1, 2};
  Generation goes_on(model, text, options);
  const auto rest = [](Generation& generation) {
    std::vector<int32_t> ids;
    while (const auto id = generation.next()) ids.push_back(*id);
    return ids;
  };
  std::vector<int32_t> written = rest(goes_on);
  std::mt19937 random(6);
  for (int turn = 0; turn < 30; ++turn) {
    // Behind what is cached, within it, the same again, something else, or more than is taken.
    text.insert(text.end(), written.begin(), written.end());
    const auto kind = turn % 5;
    if (kind == 1) text.resize(text.size() / 2 + 1);
    if (kind == 3)
      for (size_t i = 0; i < text.size(); i += 2) text[i] = static_cast<int32_t>(random() % 7);
    if (kind == 4) text.resize(static_cast<size_t>(longest) + 3, static_cast<int32_t>(random() % 7));
    if (kind == 0) text.push_back(static_cast<int32_t>(random() % 7));
    goes_on.restart(text);
    written = rest(goes_on);
    Generation fresh(model, text, options);
    ASSERT_EQ(written, rest(fresh)) << turn;
    if (std::ssize(text) > longest) text = {1};
  }
  EXPECT_THROW(goes_on.restart({}), ShapeError);
}

TEST(LanguageModel, ManyTextsAtOnceAreWhatEachIsByItself) {
  for (const char* positions : {"learned", "sinusoidal", "rotary"}) {
    manual_seed(4);
    LanguageModelConfig config = tiny();
    config.positions = positions;
    LanguageModel model(config);
    model.eval();
    std::mt19937 random(8);
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 9; ++i) {
      std::vector<int32_t>& prompt = prompts.emplace_back(1 + random() % 12);
      for (int32_t& id : prompt) id = static_cast<int32_t>(random() % static_cast<uint64_t>(config.vocab_size));
    }
    const GenerateOptions options{
        .max_tokens = 20, .sampling = {.seed = 3}, .rules = {.repetition_penalty = 1.2}, .stop = {2}};
    std::vector<std::vector<int32_t>> alone;
    for (size_t i = 0; i < prompts.size(); ++i) {
      GenerateOptions own = options;
      own.sample = i;
      alone.push_back(model.generate(prompts[i], own));
    }
    for (const int64_t together : {1, 4, 9, 100}) EXPECT_EQ(model.generate(prompts, options, together), alone);
    std::vector<size_t> told(prompts.size());
    const auto most_two = [&](size_t text, int32_t) { return ++told[text] < 2; };
    for (const std::vector<int32_t>& text : model.generate(prompts, options, 4, most_two)) EXPECT_LE(text.size(), 2u);
    EXPECT_THROW(model.generate(prompts, options, 0), ShapeError);
    EXPECT_THROW(model.generate(prompts, {.on_token = [](int32_t) { return true; }}), ShapeError);
  }
}

TEST(LanguageModel, RefusesWhatDoesNotFit) {
  LanguageModel model(tiny());
  model.eval();
  EXPECT_THROW(model.generate({}), ShapeError);
  EXPECT_THROW(model.generate({13}), ShapeError);
  EXPECT_THROW(model.generate({-1}), ShapeError);
  EXPECT_THROW(model.logits(TokenBatch::pad({{1, 1, 1, 1, 1, 1, 1, 1, 1}}, 0)), ShapeError);
  for (const auto& spoil : std::vector<std::function<void(GenerateOptions&)>>{
           [](auto& o) { o.max_tokens = -1; }, [](auto& o) { o.sampling.temperature = -0.1; },
           [](auto& o) { o.sampling.temperature = NAN; }, [](auto& o) { o.sampling.temperature = INFINITY; },
           [](auto& o) { o.sampling.top_k = -1; }, [](auto& o) { o.sampling.top_p = 0; },
           [](auto& o) { o.sampling.top_p = 1.01; }, [](auto& o) { o.sampling.top_p = NAN; },
           [](auto& o) { o.sampling.min_p = -0.1; }, [](auto& o) { o.sampling.min_p = 1.1; },
           [](auto& o) { o.sampling.min_p = NAN; }, [](auto& o) { o.rules.repetition_penalty = 0; },
           [](auto& o) { o.rules.repetition_penalty = NAN; }, [](auto& o) { o.rules.never = {13}; },
           [](auto& o) { o.rules.never = {-1}; }}) {
    GenerateOptions options;
    spoil(options);
    EXPECT_THROW(model.generate({1}, options), ShapeError);
  }
  for (const auto& spoil : std::vector<std::function<void(LanguageModelConfig&)>>{
           [](auto& c) { c.vocab_size = 0; }, [](auto& c) { c.num_layers = 0; }, [](auto& c) { c.nhead = 3; },
           [](auto& c) { c.num_kv_heads = 3; }, [](auto& c) { c.num_kv_heads = -1; },
           [](auto& c) { c.max_positions = 0; }, [](auto& c) { c.positions = "none"; },
           [](auto& c) { c.dropout = -1; }}) {
    LanguageModelConfig config = tiny();
    spoil(config);
    EXPECT_THROW(LanguageModel{config}, ShapeError);
  }
  for (auto& parameter : model.parameters()) parameter.value().fill(NAN);
  EXPECT_THROW(model.generate({1}), Error);
}

TEST(LanguageModel, ParameterCountIsThatOfTheModel) {
  const NoInit no_init;
  for (const char* activation : {"gelu", "swiglu"})
    for (const char* norm : {"layer_norm", "rms_norm"})
      for (const char* positions : {"sinusoidal", "learned", "rotary"})
        for (int flags = 0; flags < 16; ++flags) {
          LanguageModelConfig c = tiny();
          c.activation = activation;
          c.norm = norm;
          c.positions = positions;
          c.norm_first = flags & 1;
          c.bias = flags & 2;
          c.tie_embeddings = flags & 4;
          c.num_kv_heads = flags & 8 ? 1 : 0;
          EXPECT_EQ(parameter_count(c), LanguageModel(c).parameter_count())
              << activation << ' ' << norm << ' ' << positions << ' ' << flags;
        }
  // nanoGPT prints 0.80M for this one with its 65 characters, without positions.
  const LanguageModelConfig c{.vocab_size = 65,
                              .d_model = 128,
                              .nhead = 4,
                              .num_layers = 4,
                              .dim_feedforward = 512,
                              .bias = false,
                              .max_positions = 64};
  EXPECT_EQ(parameter_count(c) - 64 * 128, 795'904);
}

// ---------------------------------------------------------------------------------------------- scoring

// log p of the last token behind the others, by the whole logits.
double by_logits(const LanguageModel& model, const std::vector<int32_t>& text) {
  const std::vector<int32_t> before(text.begin(), text.end() - 1);
  const Tensor logits = model.logits(TokenBatch::pad({before}, 0)).value();
  const int64_t row = logits.size(1) - 1;
  double sum = 0;
  for (int64_t id = 0; id < logits.size(2); ++id) sum += std::exp(static_cast<double>(logits.at<float>(0, row, id)));
  return static_cast<double>(logits.at<float>(0, row, text.back())) - std::log(sum);
}

TEST(LanguageModel, LogProbabilitiesSlideAWindow) {
  for (const int64_t longest : {1, 2, 3, 8}) {
    manual_seed(11);
    LanguageModelConfig config = tiny();
    config.max_positions = longest;
    LanguageModel model(config);
    make_sure_of_itself(model);
    std::vector<int32_t> text;
    for (int32_t i = 0; i < 30; ++i) text.push_back(i * i % 13);
    const std::vector<float> found = model.log_probabilities(text);
    ASSERT_EQ(found.size(), text.size() - 1);
    const int64_t kept = std::max<int64_t>(longest / 2, 1);
    int64_t begin = 0;
    for (int64_t i = 1; i < std::ssize(text); ++i) {
      if (i - begin > longest) begin = i - kept;  // a new window
      EXPECT_NEAR(found[static_cast<size_t>(i - 1)], by_logits(model, {text.begin() + begin, text.begin() + i + 1}),
                  1e-4)
          << longest << ' ' << i;
    }
    EXPECT_NEAR(model.log_probabilities({5, 7}).at(0), by_logits(model, {5, 7}), 1e-5);
  }
  LanguageModel model(tiny());
  model.eval();
  for (const std::vector<int32_t>& wrong : std::vector<std::vector<int32_t>>{{}, {1}, {1, 13}, {-1, 2}, {1, 2, -5}})
    EXPECT_THROW(model.log_probabilities(wrong), ShapeError);
  for (auto& parameter : model.parameters()) parameter.value().fill(NAN);
  EXPECT_THROW(model.log_probabilities({1, 2}), Error);
}

TEST(LanguageModel, RepeatsLessWhenThatIsPenalised) {
  manual_seed(12);
  LanguageModel model(tiny());
  make_sure_of_itself(model);
  size_t changed = 0;
  for (int32_t first = 0; first < 13; ++first) {
    std::vector<int32_t> text{first, 5}, expected;
    while (text.size() < 8) {  // as many as the model has in view
      const Tensor logits = model.logits(TokenBatch::pad({text}, 0)).value();
      std::vector<float> scores;
      for (int64_t id = 0; id < 13; ++id) scores.push_back(logits.at<float>(0, logits.size(1) - 1, id));
      for (const int32_t id : std::set<int32_t>(text.begin(), text.end())) {
        float& score = scores[static_cast<size_t>(id)];
        score = score > 0 ? score / 1.5f : score * 1.5f;
      }
      expected.push_back(static_cast<int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
      text.push_back(expected.back());
    }
    GenerateOptions greedy{.max_tokens = 6, .sampling = {.temperature = 0}};
    const std::vector<int32_t> plain = model.generate({first, 5}, greedy);
    greedy.rules.repetition_penalty = 1.5;
    EXPECT_EQ(model.generate({first, 5}, greedy), expected) << first;
    changed += plain != expected;
  }
  EXPECT_GT(changed, 3u);
}

// ---------------------------------------------------------------------------------------------- drawing

std::vector<int32_t> ids_of(const std::vector<Sampler::Choice>& choices) {
  std::vector<int32_t> ids;
  for (const auto& choice : choices) ids.push_back(choice.id);
  return ids;
}

const std::vector<float> kLogits{std::log(0.1f), std::log(0.4f), std::log(0.05f), std::log(0.25f), std::log(0.2f)};

std::vector<Sampler::Choice> choices(const Sampling& sampling, std::vector<float> logits = kLogits,
                                     const std::vector<int32_t>& never = {}) {
  for (const int32_t id : never) logits[static_cast<size_t>(id)] = -INFINITY;
  return Sampler(sampling, "generate").choices(logits);
}

TEST(Sampler, TheSetsAreExact) {
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids_of(choices({})), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(ids_of(choices({.top_k = 1})), (Ids{1}));
  EXPECT_EQ(ids_of(choices({.top_k = 3})), (Ids{1, 3, 4}));
  EXPECT_EQ(ids_of(choices({.top_k = 9})), (Ids{1, 3, 4, 0, 2}));  // all, the most probable first
  EXPECT_EQ(ids_of(choices({.top_p = 0.39})), (Ids{1}));
  EXPECT_EQ(ids_of(choices({.top_p = 0.41})), (Ids{1, 3}));
  EXPECT_EQ(ids_of(choices({.top_p = 0.8})), (Ids{1, 3, 4}));
  EXPECT_EQ(ids_of(choices({.top_p = 0.9})), (Ids{1, 3, 4, 0}));
  EXPECT_EQ(ids_of(choices({.top_p = 1e-9})), (Ids{1}));
  // The nucleus is that of what top_k left: 0.4 and 0.25 of 0.85 are 0.76.
  EXPECT_EQ(ids_of(choices({.top_k = 3, .top_p = 0.75})), (Ids{1, 3}));
  EXPECT_EQ(ids_of(choices({.top_p = 0.75})), (Ids{1, 3, 4}));
  EXPECT_EQ(ids_of(choices({.top_k = 2}, kLogits, {1, 3})), (Ids{4, 0}));
  EXPECT_EQ(ids_of(choices({.temperature = 0}, kLogits, {1})), (Ids{3}));
  // 0.4 is the greatest probability.
  EXPECT_EQ(ids_of(choices({.min_p = 0.2})), (Ids{1, 3, 4, 0}));
  EXPECT_EQ(ids_of(choices({.min_p = 0.3})), (Ids{1, 3, 4}));
  EXPECT_EQ(ids_of(choices({.min_p = 0.6})), (Ids{1, 3}));
  EXPECT_EQ(ids_of(choices({.min_p = 1})), (Ids{1}));
  EXPECT_EQ(ids_of(choices({.top_k = 2, .min_p = 0.3})), (Ids{1, 3}));
  EXPECT_EQ(ids_of(choices({.temperature = 2, .min_p = 0.6})), (Ids{1, 3, 4}));  // 0.4, 0.25 and 0.2 by their roots
  EXPECT_NEAR(choices({.min_p = 0.6})[0].probability, 0.4 / 0.65, 1e-7);
  // Those that are as probable as the last one stay; of equals the lower ids come first.
  EXPECT_EQ(ids_of(choices({.top_k = 2}, {1, 2, 1, 1})), (Ids{1, 0, 2, 3}));
  EXPECT_EQ(ids_of(choices({.temperature = 0}, {0, 1, 1})), (Ids{1}));
}

TEST(Sampler, ProbabilitiesFollowTheTemperature) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(static_cast<double>(logit) / temperature);
    for (const auto& c : choices({.temperature = temperature}))
      EXPECT_NEAR(c.probability, std::exp(static_cast<double>(kLogits[static_cast<size_t>(c.id)]) / temperature) / sum,
                  1e-7);
  }
  EXPECT_NEAR(choices({.temperature = 1e-30})[1].probability, 1, 1e-12);
  const float big = 3e38f;
  EXPECT_NEAR(choices({}, {big, -big, big})[0].probability, 0.5, 1e-12);
  EXPECT_EQ(ids_of(choices({}, {1, 1, 1}, {0, 2})), (std::vector<int32_t>{1}));
  EXPECT_THROW(choices({}, {1, 1}, {0, 1}), ShapeError);
}

TEST(Sampler, DrawsAsOftenAsItSays) {
  constexpr int kDraws = 200'000;
  for (const Sampling& sampling : {Sampling{}, Sampling{.top_k = 3}, Sampling{.temperature = 0.7, .top_p = 0.9}}) {
    const Sampler sampler(sampling, "generate");
    std::map<int32_t, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[sampler(kLogits, 0, static_cast<uint64_t>(i))];
    const auto expected = sampler.choices(kLogits);
    EXPECT_EQ(counts.size(), expected.size());
    for (const auto& c : expected) {
      const double deviation = std::sqrt(kDraws * c.probability * (1 - c.probability));
      EXPECT_NEAR(counts[c.id], kDraws * c.probability, 5 * deviation) << c.id;
    }
  }
}

}  // namespace
}  // namespace heed::inline v0
