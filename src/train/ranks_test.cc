// Training over ranks ends with the bits of one: for any number of them, of threads, of stops in between.
#include <algorithm>
#include <bit>
#include <functional>
#include <map>

#include "heed/executor.h"
#include "heed/functional.h"
#include "heed/task.h"
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
                           TrainHooks hooks;
                           hooks.ranks = &c;
                           hooks.progress = [&](const TrainProgress& p) {
                             if (p.update == 2) model.named_parameters()[0].second.value().fill(std::nan(""));
                           };
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

/// One parameter of 2^20 numbers, whose loss costs next to nothing.
class WideTask final : public Task {
 public:
  static constexpr int64_t kParameters = 1 << 20, kBatches = 1000;
  Module& model() override { return model_; }
  Recipe settings() const override { return {}; }
  Data data() const override { return {}; }
  int64_t begin_epoch(int64_t) override { return kBatches; }
  Step loss(int64_t) override { return {.loss = functional::sum(model_.all), .parts = {.count = 1}, .sequences = 1}; }
  int64_t validation_batches() override { return 0; }
  functional::LossParts validation(int64_t) override { return {}; }

 private:
  struct Wide : Module {
    Wide() : all(register_parameter("all", Tensor::zeros({kParameters}))) {}
    Variable all;
  };
  Wide model_;
};

/// What each rank sends in an update of 8 batches.
std::vector<Traffic> sent_in_an_update(int ranks, const std::string& directory) {
  std::vector<Traffic> sent(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](Communicator& c) {
    WideTask task;
    TrainOptions o{.accumulate = 8, .max_updates = 2, .save_minutes = 0};
    TrainHooks hooks;
    hooks.ranks = &c;
    Traffic before;
    hooks.step = [&](const TrainStep&) {
      const Traffic now = c.sent();
      sent[static_cast<size_t>(c.rank())] = {now.messages - before.messages, now.bytes - before.bytes};
      before = now;
    };
    train(task, o, directory, hooks);
  });
  return sent;
}

// docs/machines.md has the formulas.
TEST_F(TrainRanks, AnUpdateSendsWhatTheFormulaSays) {
  constexpr int64_t kP = WideTask::kParameters, kNorms = kP / ParameterArena::kSliceBlock;
  constexpr int64_t kFigures = 5;                                     // of the log, in double
  constexpr int64_t kShared = 2 * sizeof(double) + 2 * sizeof(bool);  // the clock twice; whether to save, to stop
  // Other numbers of ranks than powers of two: the parts of the tree over 8 leaves that lie whole in each rank's.
  const std::map<int, std::vector<int64_t>> ranks_and_parts{
      {2, {}}, {3, {2, 2, 1}}, {4, {}}, {5, {1, 1, 1, 2, 1}}, {8, {}}};
  for (const auto& [n, parts] : ranks_and_parts) {
    const std::vector<Traffic> sent = sent_in_an_update(n, directory("sends" + std::to_string(n)));
    int64_t bytes = 0, messages = 0, most = 0;
    for (const Traffic& t : sent) bytes += t.bytes, messages += t.messages, most = std::max(most, t.bytes);
    int64_t expected = (n - 1) * (4 * kP + 8 * kFigures + 8 * kNorms + kShared);  // gathered and told
    if (parts.empty()) expected += (n - 1) * (4 * kP + 8 * kFigures);             // summed by halves
    for (int rank = 0; rank < std::ssize(parts); ++rank) {
      const int64_t own = slice_of(kP, rank, n, ParameterArena::kSliceBlock).size(),
                    figures = slice_of(kFigures, rank, n).size();
      expected += parts[static_cast<size_t>(rank)] * (4 * (kP - own) + 8 * (kFigures - figures));
    }
    EXPECT_EQ(bytes, expected) << n;
    const int64_t rounds = parts.empty() ? std::countr_zero(static_cast<unsigned>(n)) : n - 1;
    EXPECT_EQ(messages, 5 * n * rounds + 4 * (n - 1)) << n;
    if (parts.empty()) {
      EXPECT_LE(static_cast<double>(most), 1.01 * 2 * (n - 1) / n * 4 * kP) << n;
    }
  }
}

}  // namespace
}  // namespace heed::inline v0
