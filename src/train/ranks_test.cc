// Training over ranks ends with the bits of one: for any number of them, of threads, of stops in between.
#include <functional>

#include "heed/executor.h"
#include "ranks/testing.h"
#include "train/testing.h"

namespace heed::inline v0 {
namespace {

class TrainRanks : public TrainTest {
 protected:
  static TrainOptions options() {
    TrainOptions o = quick();
    o.batch_tokens = 24;
    o.accumulate = 8;
    o.save_every = 1;
    o.label_smoothing = 0.1;
    return o;
  }

  static Transformer model() {
    manual_seed(3);
    TransformerConfig config = tiny();
    config.dropout = 0.2;
    return Transformer(config);
  }
  /// Trains as one of `ranks`; every rank has a model of its own.
  TrainResult train_on(int ranks, const std::string& directory, const TrainOptions& options,
                       const std::function<void(Communicator&, TrainHooks&)>& change = {}) const {
    TrainResult result;
    run_ranks(ranks, [&](Communicator& c) {
      Transformer own_model = model();
      TrainHooks hooks;
      hooks.ranks = &c;
      if (change) change(c, hooks);
      const TrainResult own = train(own_model, training_, validation_, options, directory, hooks);
      if (c.rank() == 0) result = own;
    });
    return result;
  }
  /// Weights, moments and averaged checkpoints.
  static std::string state_bytes(const std::string& directory) {
    return model_bytes(directory) + read_file(directory + "/training.safetensors") +
           read_file(directory + "/checkpoint-00000012.safetensors");
  }
};

TEST_F(TrainRanks, SameBitsOnAnyNumberOfRanksAndThreads) {
  const int before = threads();
  for (const int64_t accumulate : {1, 3, 8}) {
    TrainOptions o = options();
    o.accumulate = accumulate;
    std::string expected;
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (const int count : {1, 2}) {
        set_threads(count);
        const std::string at =
            directory(std::to_string(accumulate) + "-" + std::to_string(ranks) + "-" + std::to_string(count));
        const TrainResult result = train_on(ranks, at, o);
        EXPECT_EQ(result.update, 12);
        if (expected.empty()) expected = state_bytes(at);
        EXPECT_TRUE(state_bytes(at) == expected) << accumulate << " batches on " << ranks << " ranks";
      }
    }
  }
  set_threads(before);
}

TEST_F(TrainRanks, AloneIsOneRank) {
  Transformer own_model = model();
  const std::string apart = directory("apart"), together = directory("together");
  train(own_model, training_, validation_, options(), apart);
  train_on(4, together, options());
  EXPECT_TRUE(state_bytes(apart) == state_bytes(together));
}

TEST_F(TrainRanks, StopsAndGoesOnWithOtherRanks) {
  const std::string whole = directory("whole"), cut = directory("cut");
  train_on(1, whole, options());
  for (const int ranks : {2, 8, 1, 3, 4, 2, 5, 6, 7, 1, 2, 3}) {
    train_on(ranks, cut, options(), [](Communicator& c, TrainHooks& hooks) {
      if (c.rank() == 0) hooks.stop = [] { return true; };  // after one update
    });
  }
  const TrainResult result = train_on(2, cut, options());
  EXPECT_EQ(result.update, 12);
  EXPECT_TRUE(state_bytes(whole) == state_bytes(cut));
}

/// Whether the training ended in spite of a rank whose transport fails in its n-th message.
bool ends_with_a_broken_cable(int64_t message, const std::function<void(Communicator&)>& train) {
  try {
    run_ranks(3, [&](Communicator& c) {
      test::Failing failing(c, message);
      train(c.rank() == 1 ? failing : c);
    });
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the cable is out"), std::string::npos) << e.what();
    return false;
  }
  return true;
}

TEST_F(TrainRanks, ARankThatFailsAnywhereCostsNothing) {
  const std::string whole = directory("whole");
  train_on(1, whole, options());
  int failures = 0;
  for (int64_t message = 0;; message += 13, ++failures) {
    const std::string cut = directory("cut" + std::to_string(message));
    const bool ended = ends_with_a_broken_cable(message, [&](Communicator& c) {
      Transformer own_model = model();
      TrainHooks hooks;
      hooks.ranks = &c;
      train(own_model, training_, validation_, options(), cut, hooks);
    });
    if (!ended) train_on(2, cut, options());
    EXPECT_TRUE(state_bytes(whole) == state_bytes(cut)) << message;
    if (ended) break;
  }
  EXPECT_GE(failures, 8);
}

TEST_F(TrainRanks, OtherOptionsOrDataAreNamed) {
  const auto refusal = [&](const std::function<void(int rank, TrainOptions&, SentencePairs&)>& change) {
    try {
      run_ranks(3, [&](Communicator& c) {
        TrainOptions o = options();
        SentencePairs pairs = training_;
        change(c.rank(), o, pairs);
        Transformer model(tiny());
        TrainHooks hooks;
        hooks.ranks = &c;
        train(model, pairs, validation_, o, directory("never"), hooks);
      });
    } catch (const RankError& e) {
      return std::string(e.what());
    }
    return std::string("(nothing)");
  };
  EXPECT_EQ(refusal([](int rank, TrainOptions& o, SentencePairs&) {
              if (rank == 2) o.learning_rate.peak = 0.5;
            }),
            "train: an option or the data of rank 0 is 'learning_rate 0.01' and of rank 2 'learning_rate 0.5'; start "
            "all ranks with "
            "the same of both");
  EXPECT_NE(refusal([](int rank, TrainOptions&, SentencePairs& pairs) {
              if (rank == 1) pairs.source[0][0] ^= 1, pairs.target[0].back() ^= 1;
            }).find("of rank 1 'training_data "),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(root_ / "never/training.json"));
}

TEST_F(TrainRanks, NanEndsAll) {
  const std::string at = directory("nan");
  EXPECT_THROW(run_ranks(4,
                         [&](Communicator& c) {
                           manual_seed(3);
                           Transformer model(tiny());
                           model.named_parameters()[0].second.value().fill(std::nan(""));
                           TrainHooks hooks;
                           hooks.ranks = &c;
                           train(model, training_, validation_, options(), at, hooks);
                         }),
               TrainingError);
}

TEST_F(TrainRanks, LogsWhatOneRankLogs) {
  const auto losses = [&](int ranks) {
    std::vector<std::pair<double, double>> seen;
    train_on(ranks, directory("log" + std::to_string(ranks)), options(), [&](Communicator& c, TrainHooks& hooks) {
      if (c.rank() != 0) return;
      hooks.progress = [&](const TrainProgress& p) { seen.emplace_back(p.loss, p.gradient_norm); };
      hooks.validation = [&](const Validation& v) { seen.emplace_back(v.nll, v.average_nll); };
    });
    return seen;
  };
  const auto expected = losses(1);
  EXPECT_EQ(expected.size(), 15u);
  for (const int ranks : {2, 3, 8}) EXPECT_EQ(losses(ranks), expected);
}

TEST_F(TrainRanks, AnUpdateSendsEachParameterTwice) {
  constexpr int kRanks = 4;
  LanguageModelConfig config = tiny_language_model();
  config.d_model = 256;
  config.dim_feedforward = 1024;
  run_ranks(kRanks, [&](Communicator& c) {
    LanguageModel model(config);
    const std::vector<int32_t> text = counting(400, 1);
    TrainOptions o = quick_text();
    o.accumulate = 4;
    o.validate_every = 100;
    o.max_updates = 3;
    std::vector<int64_t> sent;
    TrainHooks hooks;
    hooks.ranks = &c;
    hooks.step = [&](const TrainStep&) { sent.push_back(c.sent().bytes); };
    train(model, text, {}, o, directory("bytes"), hooks);
    const double expected = 2.0 * (kRanks - 1) / kRanks * 4 * static_cast<double>(ParameterArena(model).size());
    EXPECT_NEAR(static_cast<double>(sent[2] - sent[1]) / expected, 1, 0.05);  // slices are cut at 16,384 parameters
  });
}

}  // namespace
}  // namespace heed::inline v0
