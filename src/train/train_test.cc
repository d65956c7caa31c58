#include "heed/train.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/memory.h"
#include "train/batches.h"
#include "train/testing.h"

namespace heed::inline v0 {
namespace {

using Values = std::map<std::string, std::vector<float>>;

Values values_of(const Transformer& model) {
  Values values;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const std::span<float> span = parameter.value().span<float>();
    values[name].assign(span.begin(), span.end());
  }
  return values;
}

Values values_in(const std::string& path) {
  const SafetensorsFile file(path);
  Values values;
  for (const TensorInfo& info : file.tensors()) {
    const Tensor tensor = file.tensor(info.name);
    const std::span<float> span = tensor.span<float>();
    values[info.name].assign(span.begin(), span.end());
  }
  return values;
}

// The most probable next token, again and again, each time from the beginning.
std::vector<int32_t> greedy(const Transformer& model, std::vector<int32_t> source) {
  const TransformerConfig& c = model.config();
  source.push_back(c.eos_id);
  const TokenBatch encoded = TokenBatch::pad({source}, c.pad_id);
  std::vector<int32_t> ids{c.bos_id};
  const auto longest = std::min<size_t>(2 * source.size() + 10, static_cast<size_t>(c.max_positions) - 1);
  while (ids.size() <= longest) {
    const Variable logits = model.logits(encoded, TokenBatch::pad({ids}, c.pad_id));  // (1, ids, V)
    const std::span<float> all = logits.value().span<float>();
    const auto row = all.last(static_cast<size_t>(c.vocab_size));
    row[static_cast<size_t>(c.pad_id)] = -std::numeric_limits<float>::infinity();
    const auto next = static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    if (next == c.eos_id) break;
    ids.push_back(next);
  }
  ids.erase(ids.begin());
  return ids;
}

class Train : public TrainTest {
 protected:
  TrainResult run(const std::string& where, const TrainOptions& options, const TrainHooks& hooks = {}) const {
    manual_seed(5);
    Transformer model(tiny());
    return train(model, training_, validation_, options, where, hooks);
  }
  /// The log without what the clock decides.
  static std::string log(const std::string& where) {
    std::istringstream lines(read_file(where + "/" + kLogFile));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::ordered_json::parse(line);
      for (const char* key : {"words_per_second", "gflops", "minutes"}) json.erase(key);
      text += json.dump() + "\n";
    }
    return text;
  }
};

// A clock that goes on by `step` seconds each time it is read.
struct FakeClock {
  double step = 1, now = 1000;
  std::function<double()> reader() {
    return [this] { return now += step; };
  }
};

// The learning rates of a run.
std::vector<double> rates_in(const std::string& directory) {
  std::istringstream lines(read_file(directory + "/" + kLogFile));
  std::vector<double> rates;
  for (std::string line; std::getline(lines, line);)
    if (const auto json = nlohmann::json::parse(line); json["type"] == "train") rates.push_back(json["learning_rate"]);
  return rates;
}

TEST_F(Train, TheRateComesDownAsTheMinutesEnd) {
  TrainOptions options = quick();
  options.learning_rate = {.schedule = Schedule::linear, .peak = 0.01, .warmup = 0};
  options.max_updates = 0;
  options.max_minutes = 10;
  options.validate_every = 5;
  options.patience = 0;
  for (const double step : {1.0, 7.0}) {  // a machine, and one that is seven times as slow
    FakeClock clock{.step = step};
    const std::string where = directory("step" + std::to_string(step));
    const TrainResult result = run(where, options, {.seconds = clock.reader()});
    EXPECT_EQ(result.reason, StopReason::max_minutes);
    EXPECT_LE(result.minutes, 10 + 8 * step / 60);  // a few looks at the clock; the last validation is within them
    const std::vector<double> rates = rates_in(where);
    ASSERT_GT(rates.size(), 10u);
    EXPECT_TRUE(std::is_sorted(rates.rbegin(), rates.rend()));
    EXPECT_GT(rates.front(), 0.009);
    EXPECT_LT(rates.back(), 0.01 * 30 * step / 600);
  }
}

// The last validation takes some of the minutes, and so ends them early.
TEST_F(Train, MinutesThatAreOverStayOver) {
  TrainOptions options = quick();
  options.max_updates = 0;
  options.max_minutes = 10;
  options.validate_every = 5;
  options.patience = 0;
  const std::string where = directory("a");
  FakeClock clock{.step = 7};
  const int64_t updates = run(where, options, {.seconds = clock.reader()}).update;
  const TrainResult again = run(where, options, {.seconds = clock.reader()});
  EXPECT_TRUE(again.nothing_done);
  EXPECT_EQ(again.update, updates);
  options.max_minutes = 20;
  EXPECT_GT(run(where, options, {.seconds = clock.reader()}).update, updates);
  options.max_minutes = 15;
  EXPECT_TRUE(run(where, options, {.seconds = clock.reader()}).nothing_done);
}

TEST_F(Train, AClockThatGoesOnWhereItWas) {
  TrainOptions options = quick();
  options.learning_rate = {.schedule = Schedule::linear, .peak = 0.01, .warmup = 0};
  options.max_updates = 0;
  options.max_minutes = 10;
  options.minutes_before = 2;
  options.patience = 0;
  const std::string where = directory("a");
  int64_t updates = 0;
  FakeClock first;
  EXPECT_EQ(run(where, options, {.stop = [&] { return ++updates == 20; }, .seconds = first.reader()}).reason,
            StopReason::interrupted);
  FakeClock second{.now = 5};  // another process counts from another moment
  const TrainResult result = run(where, options, {.seconds = second.reader()});
  EXPECT_EQ(result.reason, StopReason::max_minutes);
  EXPECT_NEAR(result.minutes, 10, 0.2);
  const std::vector<double> rates = rates_in(where);
  EXPECT_NEAR(rates.front(), 0.008, 0.0001);  // two of ten minutes were spent before
  EXPECT_TRUE(std::is_sorted(rates.rbegin(), rates.rend()));
  EXPECT_NEAR(rates[20], rates[19], 0.0002);
}

TEST_F(Train, LinearByUpdatesOrEpochsAsksNoClock) {
  TrainOptions options = quick();
  options.learning_rate = {.schedule = Schedule::linear, .peak = 0.01, .warmup = 0};
  FakeClock fast{.step = 1e-3}, slow{.step = 100};
  run(directory("fast"), options, {.seconds = fast.reader()});
  run(directory("slow"), options, {.seconds = slow.reader()});
  EXPECT_EQ(model_bytes((root_ / "fast").string()), model_bytes((root_ / "slow").string()));
  const std::vector<double> rates = rates_in((root_ / "fast").string());
  ASSERT_EQ(rates.size(), 12u);
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], 0.01 * (12 - static_cast<double>(i)) / 12, 1e-12);

  options.max_updates = 0;
  options.max_epochs = 2;
  run(directory("epochs"), options);
  const std::vector<double> by_epochs = rates_in((root_ / "epochs").string());
  const size_t updates = by_epochs.size();
  EXPECT_NEAR(by_epochs[updates / 2], 0.005, 1e-12);  // the second epoch begins
  EXPECT_NEAR(by_epochs.back(), 0.01 / static_cast<double>(updates), 1e-12);
  options.max_epochs = 3;
  EXPECT_THROW(run((root_ / "epochs").string(), options), FormatError);

  options.max_epochs = 0;
  EXPECT_THROW(run(directory("endless"), options), ShapeError);
}

TEST_F(Train, InterruptedAfterAnyUpdateEndsTheSame) {
  TrainOptions options = quick();
  options.max_updates = 9;  // more than an epoch
  const std::string whole = directory("whole");
  EXPECT_EQ(run(whole, options).reason, StopReason::max_updates);
  for (int64_t stop = 1; stop < 9; ++stop) {
    const std::string parts = directory(std::to_string(stop));
    for (int64_t until = stop;; until += stop) {
      int64_t update = 0;
      const TrainResult result = run(
          parts, options,
          {.progress = [&](const TrainProgress& p) { update = p.update; }, .stop = [&] { return update >= until; }});
      if (result.reason == StopReason::max_updates) break;
      ASSERT_EQ(result.reason, StopReason::interrupted);
      ASSERT_EQ(result.update, until);
    }
    EXPECT_TRUE(model_bytes(parts) == model_bytes(whole)) << "stopped every " << stop << " updates";
    EXPECT_EQ(log(parts), log(whole));
  }
  const TrainResult again = run(whole, options);
  EXPECT_TRUE(again.nothing_done);
  EXPECT_EQ(again.update, 9);
}

TEST_F(Train, WhatWasNotSavedIsDoneAgain) {
  TrainOptions options = quick();
  const std::string whole = directory("whole"), broken = directory("broken");
  run(whole, options);
  struct Killed {};
  int64_t updates = 0;
  const auto die = [&](const TrainProgress&) {
    if (++updates == 7) throw Killed();
  };
  EXPECT_THROW(run(broken, options, {.progress = die}), Killed);
  EXPECT_NE(log(broken), "");
  run(broken, options);
  EXPECT_TRUE(model_bytes(broken) == model_bytes(whole));
  EXPECT_EQ(log(broken), log(whole));  // cut back to update 4, then written again
}

TEST_F(Train, ExaminingChangesNothingButTheLogAndItsFiles) {
  const TrainOptions options = quick();
  const std::string plain = directory("plain"), seen = directory("seen");
  run(plain, options);
  manual_seed(5);
  Transformer model(tiny());
  std::vector<int64_t> asked;
  TrainHooks hooks;
  hooks.examine = [&](const Validation& v) {
    EXPECT_FALSE(model.training());
    EXPECT_FALSE(grad_enabled());
    normal({3}, 0, 1);  // draws
    asked.push_back(v.update);
    const std::string content = "after " + std::to_string(v.update);
    return Examination{.figures = {{"bleu", static_cast<double>(v.update)}},
                       .files = {{kAttentionFile, [content](FileWriter& file) { file.write(content); }}}};
  };
  train(model, training_, validation_, options, seen, hooks);
  EXPECT_EQ(asked, (std::vector<int64_t>{4, 8, 12}));
  EXPECT_TRUE(model_bytes(seen) == model_bytes(plain));
  EXPECT_EQ(read_file(seen + "/attention.safetensors"), "after 12");
  std::istringstream before(log(plain)), after(log(seen));
  for (std::string line, other; std::getline(before, line);) {
    ASSERT_TRUE(std::getline(after, other));
    auto json = nlohmann::ordered_json::parse(other);
    EXPECT_EQ(json.contains("bleu"), json["type"] == "validation");
    if (json.contains("bleu")) {
      EXPECT_EQ(json["bleu"], json["update"]);
    }
    json.erase("bleu");
    EXPECT_EQ(json.dump(), line);
  }
}

TEST_F(Train, ResumingWithOtherOptionsOrDataIsRefused) {
  TrainOptions options = quick();
  const std::string where = directory("model");
  run(where, options);
  const std::string before = model_bytes(where);
  const auto error_of = [&](const SentencePairs& training, const TrainOptions& o) -> std::string {
    Transformer model(tiny());
    try {
      train(model, training, validation_, o, where);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  };
  options.max_updates = 20;
  TrainOptions other = options;
  other.learning_rate.peak = 0.02;
  EXPECT_NE(error_of(training_, other).find("began with learning_rate 0.01, not 0.02"), std::string::npos);
  other = options;
  other.seed = 9;
  EXPECT_NE(error_of(training_, other).find("seed 1, not 9"), std::string::npos);
  EXPECT_NE(error_of(reversing(61, 6, 12, 1), options).find("other training data"), std::string::npos);
  EXPECT_TRUE(model_bytes(where) == before);
  EXPECT_EQ(run(where, options).update, 20);  // a limit may be raised
}

TEST_F(Train, DamageOfTheStateIsFoundWhereverItIs) {
  const Recipe recipe = settings_of_pairs(quick(), /*pairs=*/60);
  TrainState state{.update = 7, .best_nll = 0.5, .checkpoints = {3}};
  state.files = {{kModelFile, {.bytes = 9, .crc32 = 0xCBF43926}}, {"config.json", {.bytes = 1, .crc32 = 2}}};
  const std::string text = write_state(state, recipe);
  EXPECT_TRUE(read_state(text, "training.json", recipe).files == state.files);
  const auto refuses = [&](const std::string& damaged) {
    try {
      read_state(damaged, "training.json", recipe);
    } catch (const FormatError& error) {
      const std::string says = error.what();
      return says.starts_with("training.json: ") &&
             says.ends_with("; put back a copy of the directory, or start over in another one");
    }
    return false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_TRUE(refuses(text.substr(0, i))) << i;
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1 << i % 8);
    EXPECT_TRUE(refuses(damaged)) << i;
  }
  EXPECT_TRUE(refuses(text + ' '));
}

// Stands for pieces with merges left out: each token twice with the probability, by the seed.
SentencePairs doubled(const SentencePairs& pairs, double probability, uint64_t seed) {
  std::mt19937_64 draw(seed);
  SentencePairs result = pairs;
  for (auto* side : {&result.source, &result.target})
    for (auto& sentence : *side) {
      const std::vector<int32_t> tokens = std::exchange(sentence, {});
      for (const int32_t token : tokens)
        sentence.insert(sentence.end(), static_cast<double>(draw() % 1000) < 1000 * probability ? 2 : 1, token);
    }
  return result;
}

TEST_F(Train, EachEpochHasItsOwnPieces) {
  TrainOptions options = quick();
  options.subword_dropout = 0.25;
  options.max_updates = 0;
  options.max_epochs = 3;
  std::vector<uint64_t> seeds;
  const auto encode = [&](double dropout, uint64_t seed) {
    EXPECT_EQ(dropout, 0.25);
    seeds.push_back(seed);
    return doubled(training_, dropout, seed);
  };
  const std::string whole = directory("whole"), parts = directory("parts"), plain = directory("plain");
  run(whole, options, {.encode = encode});
  ASSERT_GE(seeds.size(), 3u);
  EXPECT_NE(seeds[0], seeds[1]);
  EXPECT_NE(seeds[1], seeds[2]);
  bool more = true;
  while (more)
    more = run(parts, options, {.stop = [] { return true; }, .encode = encode}).reason == StopReason::interrupted;
  EXPECT_TRUE(model_bytes(parts) == model_bytes(whole));
  EXPECT_EQ(log(parts), log(whole));
  options.subword_dropout = 0;
  run(plain, options);
  EXPECT_FALSE(model_bytes(plain) == model_bytes(whole));
  options.subword_dropout = 0.5;
  EXPECT_THROW(run(whole, options, {.encode = encode}), FormatError);
  EXPECT_THROW(run(directory("none"), options), ShapeError);
  options.subword_dropout = 1;
  EXPECT_THROW(run(directory("one"), options, {.encode = encode}), ShapeError);
}

TEST_F(Train, RDropGoesOnWhereItWasCut) {
  TrainOptions options = quick();
  options.r_drop = 3;
  const std::string whole = directory("whole"), parts = directory("parts"), plain = directory("plain");
  run(whole, options);
  bool more = true;
  while (more) more = run(parts, options, {.stop = [] { return true; }}).reason == StopReason::interrupted;
  EXPECT_TRUE(model_bytes(parts) == model_bytes(whole));
  EXPECT_EQ(log(parts), log(whole));
  options.r_drop = 0;
  run(plain, options);
  EXPECT_FALSE(model_bytes(plain) == model_bytes(whole));
  EXPECT_THROW(run(whole, options), FormatError);
}

TEST_F(Train, AccumulatedBatchesAreOneLargeBatch) {
  TransformerConfig config = tiny();
  config.dropout = 0;
  TrainOptions options = quick();
  options.max_updates = 3;
  options.validate_every = 0;
  options.average = 1;
  options.adamw.epsilon = 1;  // steps along the gradient, whose rounding would else decide where it is nearly 0
  options.learning_rate.peak = 0.5;
  options.learning_rate.warmup = 0;
  std::vector<TrainProgress> reports;
  const auto values = [&](const std::string& name, int64_t batch_tokens, int64_t accumulate) {
    options.batch_tokens = batch_tokens;
    options.accumulate = accumulate;
    manual_seed(5);
    Transformer model(config);
    const std::string where = directory(name);
    train(model, training_, validation_, options, where,
          {.progress = [&](const TrainProgress& p) { reports.push_back(p); }});
    return values_in(where + "/" + kModelFile);
  };
  const Values large = values("large", 100000, 1), small = values("small", 40, 1000);
  ASSERT_EQ(reports.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(reports[i].epoch, reports[i + 3].epoch);
    EXPECT_EQ(reports[i].sentences, reports[i + 3].sentences);
    EXPECT_EQ(reports[i].target_tokens, reports[i + 3].target_tokens);
    EXPECT_NEAR(reports[i].loss, reports[i + 3].loss, 1e-5);
    EXPECT_NEAR(reports[i].gradient_norm, reports[i + 3].gradient_norm, 1e-5);
  }
  for (const auto& [name, expected] : large)
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(small.at(name)[i], expected[i], 1e-5) << name;
}

TEST_F(Train, AccumulatingGoesOnWhereItWasCut) {
  TrainOptions options = quick();
  options.accumulate = 3;  // the last update of an epoch has fewer batches
  const std::string whole = directory("whole"), parts = directory("parts");
  run(whole, options);
  for (int64_t until = 1;; ++until) {
    int64_t update = 0;
    const TrainResult result =
        run(parts, options,
            {.step = [&](const TrainStep& s) { update = s.update; }, .stop = [&] { return update >= until; }});
    if (result.reason == StopReason::max_updates) break;
    ASSERT_EQ(result.update, until);
  }
  EXPECT_TRUE(model_bytes(parts) == model_bytes(whole));
  EXPECT_EQ(log(parts), log(whole));
  options.accumulate = 2;
  EXPECT_THROW(run(whole, options), TrainingDiffers);
}

TEST_F(Train, EachUpdateSaysHowFarItIs) {
  TrainOptions options = quick();
  options.max_updates = 0;
  options.max_epochs = 2;
  std::vector<double> done;
  int64_t updates = 0;
  const TrainResult result = run(directory("a"), options, {.step = [&](const TrainStep& s) {
                                   EXPECT_EQ(s.update, ++updates);
                                   EXPECT_GE(s.minutes_left, 0);
                                   EXPECT_GT(s.loss, 0);
                                   done.push_back(s.done);
                                 }});
  EXPECT_EQ(result.update, updates);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 1);
  options.max_epochs = 0;
  run(directory("b"), options,
      {.step =
           [&](const TrainStep& s) {
             EXPECT_LT(s.done, 0);
             EXPECT_LT(s.minutes_left, 0);
             updates = s.update;
           },
       .stop = [&] { return updates > 0; }});
}

TEST_F(Train, BleuChoosesTheWeights) {
  TrainOptions options = quick();
  options.validate_every = 2;
  options.average = 1;
  const std::string by_loss = directory("loss"), by_bleu = directory("bleu"), third = directory("third");
  run(by_loss, options);
  options.criterion = Criterion::bleu;
  options.bleu_sentences = 7;
  const std::vector<double> scores{1, 3, 9,
                                   2, 9, 0};  // of updates 2, 4, ...; the second 9 counts with a lower loss alone
  size_t asked = 0;
  std::vector<Validation> seen;
  const TrainHooks hooks{.validation = [&](const Validation& v) { seen.push_back(v); },
                         .bleu =
                             [&](int64_t sentences) {
                               EXPECT_EQ(sentences, 7);
                               normal({3}, 0, 1);  // what it draws changes nothing
                               return scores.at(asked++);
                             }};
  const TrainResult result = run(by_bleu, options, hooks);
  EXPECT_EQ(result.best_bleu, 9);
  const bool later = seen.at(4).nll < seen.at(2).nll;
  EXPECT_EQ(result.best_update, later ? 10 : 6);
  EXPECT_EQ(result.best_nll, seen.at(later ? 4 : 2).nll);
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(seen.at(i).bleu, scores[i]);
  EXPECT_TRUE(read_file(by_bleu + "/" + kTensorsFile) == read_file(by_loss + "/" + kTensorsFile));
  options.criterion = Criterion::loss;  // the weights of that update
  options.max_updates = result.best_update;
  options.validate_every = 100;
  asked = 0;
  run(third, options, hooks);
  EXPECT_TRUE(model_bytes(by_bleu) == model_bytes(third));
}

TEST_F(Train, BleuIsRememberedAndPatienceWaitsForIt) {
  TrainOptions options = quick();
  options.validate_every = 1;
  options.average = 3;
  options.patience = 4;
  options.max_updates = 1000;
  options.criterion = Criterion::bleu;
  options.bleu_sentences = 1;
  // Of the weights as they are and from the second validation on of the mean, too: best is the mean of update 3.
  const auto score = [](int64_t update, bool mean) { return update == 3 && mean ? 50. : update == 2 ? 40. : 5.; };
  const auto train_until = [&](const std::string& where, int64_t stop) {
    int64_t update = 0, asked = 0;
    return run(where, options,
               {.step = [&](const TrainStep& s) { update = s.update, asked = 0; },
                .bleu = [&](int64_t) { return score(update, asked++ > 0); },
                .stop = [&] { return update == stop; }});
  };
  const std::string whole = directory("whole"), parts = directory("parts");
  const TrainResult result = train_until(whole, -1);
  EXPECT_EQ(result.reason, StopReason::patience);
  EXPECT_EQ(result.update, 7);
  EXPECT_EQ(result.best_update, 3);
  EXPECT_EQ(result.best_bleu, 50);
  EXPECT_TRUE(result.average_is_best);
  for (int64_t stop = 1; stop < 7; ++stop) EXPECT_EQ(train_until(parts, stop).reason, StopReason::interrupted);
  EXPECT_EQ(train_until(parts, -1).best_update, 3);
  EXPECT_TRUE(model_bytes(parts) == model_bytes(whole));
  EXPECT_EQ(log(parts), log(whole));
  options.criterion = Criterion::loss;
  EXPECT_THROW(train_until(whole, -1), TrainingDiffers);
}

TEST_F(Train, AveragesTheLastCheckpoints) {
  TrainOptions options = quick();
  options.validate_every = 2;
  options.average = 3;
  options.max_updates = 8;
  const std::string where = directory("model");
  manual_seed(5);
  Transformer model(tiny());
  std::vector<Values> seen;  // after updates 2, 4, 6 and 8
  const TrainResult result =
      train(model, training_, {}, options, where, {.validation = [&](const Validation& v) {
              seen.push_back(values_of(model));
              EXPECT_EQ(v.average_is_best, seen.size() > 1);
              const Values kept = values_in(where + "/" + kModelFile);
              const size_t count = std::min<size_t>(seen.size(), 3);
              for (const auto& [name, saved] : kept)
                for (size_t i = 0; i < saved.size(); ++i) {
                  double mean = 0;
                  for (size_t c = 0; c < count; ++c) mean += static_cast<double>(seen[seen.size() - 1 - c][name][i]);
                  ASSERT_FLOAT_EQ(saved[i], static_cast<float>(mean / static_cast<double>(count))) << name;
                }
            }});
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_TRUE(result.average_is_best);
  EXPECT_NE(seen[3], values_in(where + "/" + kModelFile));
}

TEST_F(Train, KeepsTheBestOfAllSingleAndAverage) {
  TrainOptions options = quick();
  // The rate rises until the weights are thrown about and the loss is far above the first.
  options.learning_rate = {.schedule = Schedule::inverse_square_root, .peak = 3, .warmup = 40};
  options.max_updates = 40;
  const std::string where = directory("model");
  double best = std::numeric_limits<double>::infinity();
  int worse = 0;
  const TrainResult result = run(where, options, {.validation = [&](const Validation& v) {
                                   const double now = v.average_nll < 0 ? v.nll : std::min(v.nll, v.average_nll);
                                   EXPECT_EQ(v.better, now < best);
                                   worse += !v.better;
                                   best = std::min(best, now);
                                 }});
  EXPECT_GT(worse, 0);
  EXPECT_LT(result.best_update, result.update);  // what was best is not what is last
  EXPECT_EQ(result.best_nll, best);
  Transformer model(tiny());
  const SafetensorsFile file(where + "/" + kModelFile);
  NamedTensors tensors;
  for (const TensorInfo& info : file.tensors()) tensors.emplace_back(info.name, file.tensor(info.name));
  model.load(tensors);
  EXPECT_EQ(validation_nll(model, validation_, options.batch_tokens), best);
}

TEST_F(Train, StopsWhenPatienceRunsOut) {
  TrainOptions options = quick();
  options.learning_rate = {.schedule = Schedule::constant, .peak = 1e-30, .warmup = 0};  // nothing ever changes
  options.max_updates = 0;
  options.validate_every = 2;
  options.patience = 3;
  const TrainResult result = run(directory("model"), options);
  EXPECT_EQ(result.reason, StopReason::patience);
  EXPECT_EQ(result.update, 8);  // the first validation is the best, three more are not
  EXPECT_EQ(result.best_update, 2);
}

TEST_F(Train, StopsAfterEpochsAndMinutes) {
  TrainOptions options = quick();
  options.max_updates = 0;
  options.max_epochs = 2;
  std::map<int64_t, int64_t> sentences;
  const TrainResult epochs = run(directory("epochs"), options,
                                 {.progress = [&](const TrainProgress& p) { sentences[p.epoch] += p.sentences; }});
  EXPECT_EQ(epochs.reason, StopReason::max_epochs);
  EXPECT_EQ(sentences, (std::map<int64_t, int64_t>{{1, 60}, {2, 60}}));  // every sentence once an epoch

  options.max_epochs = 0;
  options.max_minutes = 1e-5;
  const std::string where = directory("minutes");
  const TrainResult minutes = run(where, options);
  EXPECT_EQ(minutes.reason, StopReason::max_minutes);
  EXPECT_GE(minutes.minutes, 1e-5);
  EXPECT_TRUE(std::filesystem::exists(where + "/" + kModelFile));
  EXPECT_TRUE(run(where, options).nothing_done);  // earlier runs count
}

TEST_F(Train, ClipsTheGradient) {
  // With epsilon 1 a value's first step is about rate * gradient where gradients are small.
  TrainOptions options = quick();
  options.learning_rate = {.schedule = Schedule::constant, .peak = 1, .warmup = 0};
  options.adamw.epsilon = 1;
  options.clip_norm = 0.01;
  options.max_updates = 1;
  options.average = 1;
  manual_seed(5);
  Transformer model(tiny());
  Values before = values_of(model);
  double norm = 0;
  train(model, training_, {}, options, directory("model"),
        {.progress = [&](const TrainProgress& p) { norm = p.gradient_norm; }});
  EXPECT_GT(norm, 0.1);  // the norm that is reported is that before clipping
  double step = 0;
  for (const auto& [name, values] : values_of(model))
    for (size_t i = 0; i < values.size(); ++i) step += std::pow(static_cast<double>(values[i]) - before[name][i], 2);
  EXPECT_NEAR(std::sqrt(step), 0.01, 2e-4);
}

TEST_F(Train, NanStopsWithinOneUpdateAndKeepsTheState) {
  TrainOptions options = quick();
  options.save_every = 2;
  const std::string whole = directory("whole"), broken = directory("broken");
  run(whole, options);
  manual_seed(5);
  Transformer model(tiny());
  std::string at_validation;
  int64_t updates = 0;
  const auto poison = [&](const TrainProgress& p) {
    updates = p.update;
    if (p.update == 7) model.named_parameters()[0].second.value().fill(std::numeric_limits<double>::quiet_NaN());
  };
  std::string message;
  try {
    train(model, training_, validation_, options, broken,
          {.progress = poison, .validation = [&](const Validation&) { at_validation = model_bytes(broken); }});
  } catch (const TrainingError& error) {
    message = error.what();
  }
  EXPECT_EQ(updates, 7);
  EXPECT_NE(message.find("the loss is not finite in update 8"), std::string::npos) << message;
  EXPECT_NE(message.find("the state after update 6 is kept"), std::string::npos) << message;
  EXPECT_FALSE(at_validation.empty());
  EXPECT_TRUE(model_bytes(broken) == at_validation);
  run(broken, options);  // goes on after update 6
  EXPECT_TRUE(model_bytes(broken) == model_bytes(whole));
}

TEST_F(Train, ADamagedModelIsNotTrained) {
  Transformer model(tiny());
  model.parameters().back().value().fill(std::numeric_limits<double>::infinity());
  try {
    train(model, training_, validation_, quick(), directory("damaged"), {});
    FAIL();
  } catch (const TrainingError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("train: tensor 'decoder.")) << message;
    EXPECT_NE(message.find("holds Inf at (0"), std::string::npos) << message;
    EXPECT_NE(message.find("the model is damaged"), std::string::npos) << message;
  }
}

TEST_F(Train, RefusesWhatDoesNotFit) {
  Transformer model(tiny());
  const std::string where = directory("model");
  const auto refuses = [&](const SentencePairs& pairs, const char* says) {
    try {
      train(model, pairs, {}, quick(), where);
      ADD_FAILURE() << "accepted: " << says;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
    EXPECT_TRUE(std::filesystem::is_empty(where));
  };
  refuses({}, "no sentence pairs");
  refuses({{{4}}, {}}, "1 source and 0 target");
  refuses({{{4}}, {{12}}}, "token id 12 is not in 0..11");
  refuses({{{4}}, {{-1}}}, "token id -1");
  refuses({{{}}, {{4}}}, "not empty and short enough");
  TrainOptions options = quick();
  options.label_smoothing = 1;
  EXPECT_THROW(validate(options), ShapeError);
  options = quick();
  options.learning_rate.peak = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(validate(options), ShapeError);
  for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    options = quick();
    options.r_drop = wrong;
    EXPECT_THROW(validate(options), ShapeError);
  }
  options = quick();
  options.batch_tokens = 0;
  EXPECT_THROW(validate(options), ShapeError);
}

std::vector<Batch> batches_of(const SentencePairs& pairs, const TrainOptions& options, int64_t epoch,
                              const Windows& windows = {}) {
  PairsInMemory in_memory(pairs);
  EpochBatches all(in_memory, options, /*longest=*/100, epoch, windows);
  std::vector<Batch> batches;
  for (int64_t batch = 0; batch < all.size(); ++batch) batches.push_back(all[batch]);
  return batches;
}

TEST_F(Train, BatchesHoldEveryPairOnceAndMixLengths) {
  const SentencePairs pairs = reversing(3000, 20, 12, 3);
  TrainOptions options;
  options.batch_tokens = 500;
  const auto batches = [&](uint64_t seed, int64_t epoch) {
    options.seed = seed;
    return batches_of(pairs, options, epoch);
  };
  const std::vector<Batch> one = batches(1, 1);
  EXPECT_EQ(batches(1, 1), one);
  EXPECT_NE(batches(1, 2), one);
  EXPECT_NE(batches(2, 1), one);
  std::vector<int> seen(pairs.source.size());
  for (size_t b = 0; b < one.size(); ++b) {
    int64_t tokens = 0;
    for (const int64_t i : one[b]) {
      ++seen[static_cast<size_t>(i)];
      tokens += static_cast<int64_t>(pairs.target[static_cast<size_t>(i)].size()) + 1;
    }
    EXPECT_LE(tokens, 500);
    if (b + 1 == one.size()) continue;  // what is left
    EXPECT_GT(tokens, 500 - 21);
    const auto sentences = static_cast<double>(one[b].size());
    EXPECT_NEAR(static_cast<double>(tokens) / sentences, 11.5, 5 * 5.8 / std::sqrt(sentences));  // as of all
  }
  EXPECT_EQ(seen, std::vector<int>(pairs.source.size(), 1));
}

// Numbers of the order as it was when all pairs were shuffled in one array: a corpus of one window keeps it.
TEST_F(Train, TheOrderOfASmallCorpusStays) {
  TrainOptions options;
  options.batch_tokens = 12;
  options.seed = 7;
  EXPECT_EQ(batches_of(reversing(12, 5, 12, 3), options, 2),
            (std::vector<Batch>{{10, 8, 0}, {4, 6}, {1, 3, 2}, {11, 9}, {5, 7}}));
}

TEST_F(Train, WindowsHoldEveryPairOnceFromStretchesAnywhere) {
  const SentencePairs pairs = reversing(1003, 20, 12, 3);
  const Windows windows{.pairs_of_block = 10, .blocks = 7};  // 101 blocks in 15 windows of 6 or 7
  TrainOptions options;
  options.batch_tokens = 100;
  const std::vector<Batch> one = batches_of(pairs, options, 1, windows);
  EXPECT_EQ(batches_of(pairs, options, 1, windows), one);
  EXPECT_NE(batches_of(pairs, options, 2, windows), one);
  std::vector<int> seen(pairs.source.size());
  std::vector<int64_t> order;
  for (const Batch& batch : one)
    for (const int64_t i : batch) ++seen[static_cast<size_t>(i)], order.push_back(i);
  EXPECT_EQ(seen, std::vector<int>(pairs.source.size(), 1));
  const auto blocks_of = [&](size_t begin, size_t end) {
    std::set<int64_t> blocks;
    for (size_t i = begin; i < end; ++i) blocks.insert(order[i] / 10);
    return blocks;
  };
  const std::set<int64_t> first = blocks_of(0, 60);
  EXPECT_EQ(first.size(), 6u);                      // a window has no more
  EXPECT_GT(blocks_of(0, 20).size(), 4u);           // which are mixed,
  EXPECT_GT(*first.rbegin() - *first.begin(), 30);  // and from anywhere

  // From anywhere in the epoch without what was before.
  PairsInMemory in_memory(pairs);
  EpochBatches again(in_memory, options, 100, 1, windows);
  ASSERT_EQ(again.size(), std::ssize(one));
  for (const int64_t batch : {again.size() - 1, int64_t{0}, again.size() / 2, again.size() / 3})
    EXPECT_EQ(again[batch], one[static_cast<size_t>(batch)]);
}

// Counts what is read of the pairs.
class Watched final : public PairCorpus {
 public:
  explicit Watched(const SentencePairs& pairs) : pairs_(pairs) {}
  int64_t size() const override { return pairs_.size(); }
  std::vector<Lengths> lengths(int64_t begin, int64_t end) override { return pairs_.lengths(begin, end); }
  Pair read(int64_t index) override {
    ++reads;
    return pairs_.read(index);
  }
  std::string fingerprint() const override { return pairs_.fingerprint(); }
  int64_t reads = 0;

 private:
  PairsInMemory pairs_;
};

TEST_F(Train, ACorpusElsewhereTrainsAsOneInMemoryAndIsReadAsItGoes) {
  const SentencePairs pairs = reversing(300, 8, 12, 3);
  TrainOptions options = quick();
  options.max_updates = 6;
  const auto fresh = [] {
    manual_seed(3);
    return Transformer(tiny());
  };
  Transformer one = fresh();
  train(one, pairs, {}, options, directory("memory"));
  Watched watched(pairs);
  Transformer other = fresh();
  train(other, watched, {}, options, directory("elsewhere"));
  EXPECT_EQ(model_bytes(directory("memory")), model_bytes(directory("elsewhere")));
  EXPECT_GT(watched.reads, 0);
  EXPECT_LT(watched.reads, 150);  // those of six batches
  options.subword_dropout = 0.1;
  EXPECT_THROW(train(other, watched, {}, options, directory("none")), ShapeError);
}

TEST_F(Train, ABatchIsCutByItsLongerSideAndALongPairStandsAlone) {
  const SentencePairs pairs{.source = {{4, 4, 4}, {4}, {4}, std::vector<int32_t>(30, 4), {4}},
                            .target = {{4}, {4, 4, 4, 4}, {4, 4}, {4}, {4}}};
  // With their end tokens: 4|2, 2|5, 2|3, 31|2, 2|2.
  PairsInMemory in_memory(pairs);
  const std::vector<SizedPair> all = sized(in_memory, 0, 5);
  EXPECT_EQ(cut_batches(all, 10), (std::vector<Batch>{{0, 1, 2}, {3}, {4}}));
  EXPECT_EQ(cut_batches(all, 9), (std::vector<Batch>{{0, 1}, {2}, {3}, {4}}));
  EXPECT_EQ(cut_batches(std::array{all[4], all[2], all[0]}, 8), (std::vector<Batch>{{4, 2, 0}}));
  EXPECT_TRUE(cut_batches({}, 8).empty());
}

TEST_F(Train, LearnsToReverse) {
  TransformerConfig config = tiny();
  config.d_model = 32;
  config.dim_feedforward = 64;
  config.dropout = 0;
  TrainOptions options = quick();
  options.batch_tokens = 512;
  options.learning_rate = {.schedule = Schedule::inverse_square_root, .peak = 0.01, .warmup = 60};
  options.label_smoothing = 0;
  options.max_updates = 400;
  options.validate_every = 100;
  manual_seed(2);
  Transformer model(config);
  train(model, reversing(2000, 5, config.vocab_size, 6), {}, options, directory("model"));
  model.eval();
  const SentencePairs unseen = reversing(200, 5, config.vocab_size, 7);
  const auto translated = model.translate(unseen.source, {.beam = 1});
  size_t right = 0;
  for (size_t i = 0; i < unseen.source.size(); ++i) right += translated[i][0].ids == unseen.target[i];
  EXPECT_GE(right, 190u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(translated[i][0].ids, greedy(model, unseen.source[i]));
}

TEST_F(Train, BeamOneIsGreedyInAnUntrainedModelToo) {
  manual_seed(11);
  Transformer model(tiny());
  model.eval();
  for (const auto& source : validation_.source)
    EXPECT_EQ(model.translate({source}, {.beam = 1})[0][0].ids, greedy(model, source));
}

// The logits of this batch alone would take 252 MB.
TEST_F(Train, LossHasNoBufferOfTokensTimesVocabulary) {
  TransformerConfig config = tiny();
  config.vocab_size = 16384;
  config.max_positions = 128;
  Transformer model(config);
  const size_t bytes = static_cast<size_t>(64 * 60) * 16384 * sizeof(float);
  SentencePairs pairs;
  for (int32_t i = 0; i < 64; ++i) pairs.source.emplace_back(59, 4 + i);
  const TokenBatch source = TokenBatch::pad(pairs.source, config.pad_id);
  const size_t before = memory_in_use();
  reset_peak_memory();
  model.loss(source, pairs.source, {.label_smoothing = 0.1}).backward();
  EXPECT_LT(peak_memory() - before, bytes / 4);  // logits and their gradients would be 2
}

// ---------------------------------------------------------------------------------------------- on a text

class TrainText : public Train {
 protected:
  using Text = std::vector<int32_t>;
  TrainResult run_text(const std::string& where, const TrainOptions& options, const TrainHooks& hooks = {}) const {
    manual_seed(5);
    LanguageModel model(tiny_language_model());
    return train(model, text_, valid_text_, options, where, hooks);
  }
  const Text text_ = counting(130, 1), valid_text_ = counting(50, 2);
};

TEST_F(TrainText, InterruptedAfterAnyUpdateEndsTheSame) {
  TrainOptions options = quick_text();  // 4 updates an epoch
  options.max_updates = 9;
  const std::string whole = directory("whole");
  EXPECT_EQ(run_text(whole, options).reason, StopReason::max_updates);
  for (int64_t stop = 1; stop < 9; ++stop) {
    const std::string parts = directory(std::to_string(stop));
    for (int64_t until = stop;; until += stop) {
      int64_t update = 0;
      const TrainResult result = run_text(
          parts, options,
          {.progress = [&](const TrainProgress& p) { update = p.update; }, .stop = [&] { return update >= until; }});
      if (result.reason == StopReason::max_updates) break;
      ASSERT_EQ(result.update, until);
    }
    EXPECT_TRUE(model_bytes(parts) == model_bytes(whole)) << "stopped every " << stop << " updates";
    EXPECT_EQ(log(parts), log(whole));
  }
  EXPECT_TRUE(run_text(whole, options).nothing_done);
}

TEST_F(TrainText, BatchesAreFromAnywhereAndNeverTheSame) {
  const auto places = [](uint64_t seed, int64_t epoch, int64_t batch) {
    return random_offsets(seed, epoch, batch, 1000, 50);
  };
  const std::vector<int64_t> one = places(1, 1, 0);
  EXPECT_EQ(places(1, 1, 0), one);
  EXPECT_NE(places(2, 1, 0), one);
  EXPECT_NE(places(1, 2, 0), one);
  EXPECT_NE(places(1, 1, 1), one);
  std::vector<int> counts(50);
  for (const int64_t at : one) {
    ASSERT_TRUE(at >= 0 && at < 50);
    ++counts[static_cast<size_t>(at)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 20, 5 * std::sqrt(20.0));
}

TEST_F(TrainText, AnEpochHoldsTheTextOnce) {
  TrainOptions options = quick_text();
  options.max_updates = 0;
  options.max_epochs = 2;
  options.validate_every = 0;
  std::vector<int64_t> validated;
  int64_t tokens = 0;
  const TrainResult result = run_text(directory("model"), options,
                                      {.progress = [&](const TrainProgress& p) { tokens += p.target_tokens; },
                                       .validation = [&](const Validation& v) { validated.push_back(v.update); }});
  EXPECT_EQ(result.reason, StopReason::max_epochs);
  EXPECT_EQ(validated, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(tokens, 8 * 4 * 8);
}

TEST_F(TrainText, ValidationReadsEveryTokenOnce) {
  manual_seed(6);
  LanguageModel model(tiny_language_model());
  for (auto& [name, parameter] : model.named_parameters())
    if (parameter.shape().rank() > 1) parameter.value().copy_from(normal(parameter.shape(), 0, 0.5));
  for (const size_t length : {2u, 8u, 9u, 10u, 17u, 50u}) {
    const Text text(valid_text_.begin(), valid_text_.begin() + static_cast<std::ptrdiff_t>(length));
    double sum = 0;
    model.eval();
    {
      const NoGrad no_grad;
      for (size_t i = 1; i < length; ++i) {  // token i, with what its block of 8 has before it
        const Text before(text.begin() + static_cast<std::ptrdiff_t>((i - 1) / 8 * 8),
                          text.begin() + static_cast<std::ptrdiff_t>(i));
        const Tensor log_p = functional::log_softmax(model.logits(TokenBatch::pad({before}, 0))).value();
        sum -= log_p.at<float>(0, static_cast<int64_t>(before.size()) - 1, text[i]);
      }
    }
    model.train();
    EXPECT_NEAR(validation_nll(model, text, 8), sum / static_cast<double>(length - 1), 1e-5) << length;
    EXPECT_TRUE(model.training());
  }
  EXPECT_THROW(validation_nll(model, valid_text_, 0), ShapeError);
  EXPECT_THROW(validation_nll(model, valid_text_, 17), ShapeError);
}

TEST_F(TrainText, ResumingWithOtherOptionsOrDataIsRefused) {
  TrainOptions options = quick_text();
  const std::string where = directory("model");
  run_text(where, options);
  const auto error_of = [&](const Text& text, const Text& valid, const TrainOptions& o) -> std::string {
    LanguageModel model(tiny_language_model());
    try {
      train(model, text, valid, o, where);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "accepted";
  };
  options.max_updates = 20;
  TrainOptions other = options;
  other.block = 7;
  EXPECT_NE(error_of(text_, valid_text_, other).find("began with block 8, not 7"), std::string::npos);
  other = options;
  other.batch = 5;
  EXPECT_NE(error_of(text_, valid_text_, other).find("began with batch 4, not 5"), std::string::npos);
  other = options;
  other.learning_rate.floor = 0.001;
  EXPECT_NE(error_of(text_, valid_text_, other).find("learning_rate_floor 0, not 0.001"), std::string::npos);
  EXPECT_NE(error_of(counting(130, 9), valid_text_, options).find("other training data"), std::string::npos);
  EXPECT_NE(error_of(text_, {}, options).find("other validation data"), std::string::npos);
  Transformer translator(tiny());
  EXPECT_THROW(train(translator, training_, validation_, quick(), where), FormatError);
  EXPECT_EQ(run_text(where, options).update, 20);  // a limit may be raised
}

TEST_F(TrainText, RefusesWhatDoesNotFit) {
  LanguageModel model(tiny_language_model());
  const std::string where = directory("model");
  const auto refuses = [&](const Text& text, const Text& valid, int64_t block, const char* says) {
    TrainOptions options = quick_text();
    options.block = block;
    try {
      train(model, text, valid, options, where);
      ADD_FAILURE() << "accepted: " << says;
    } catch (const ShapeError& error) {
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    }
    EXPECT_TRUE(std::filesystem::is_empty(where));
  };
  refuses({}, {}, 8, "the training text has 0 tokens");
  refuses(Text(8, 1), {}, 8, "has 8 tokens, a block of 8 and the token behind it need 9");
  refuses(Text(16, 1), {}, 0, "need 17");
  refuses(text_, {}, 17, "block is 17; it must be in 1..16");
  refuses(text_, {}, -1, "block is -1");
  refuses(text_, {3}, 8, "the validation text has one token");
  refuses({1, 2, 3, 10, 1, 2, 3, 4, 5}, {}, 8, "token id 10 is not in 0..9");
  refuses(text_, {1, -1}, 8, "token id -1");
}

TEST_F(TrainText, LearnsToCount) {
  LanguageModelConfig config = tiny_language_model();
  config.dropout = 0;
  TrainOptions options = quick_text();
  options.batch = 16;
  options.block = 16;
  options.max_updates = 300;
  options.validate_every = 100;
  options.average = 1;
  options.learning_rate = {.schedule = Schedule::cosine, .peak = 0.01, .floor = 0.001, .warmup = 10, .total = 300};
  manual_seed(5);
  LanguageModel model(config);
  const TrainResult result = train(model, counting(5000, 3), counting(1000, 4), options, directory("model"));
  // A turn comes after 3 to 8 tokens: one in 5.5 or so is a surprise, the rest is not.
  EXPECT_LT(result.best_nll, 0.75);
  EXPECT_GT(result.best_nll, 0.3);
  model.eval();
  EXPECT_EQ(model.generate({3, 4}, {.max_tokens = 1, .sampling = {.temperature = 0}}), Text{5});
  EXPECT_EQ(model.generate({7, 6, 5}, {.max_tokens = 1, .sampling = {.temperature = 0}}), Text{4});
}

}  // namespace
}  // namespace heed::inline v0
