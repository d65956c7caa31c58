// Sequences whose tokens are split over ranks: the loss and gradients of the whole, and training with the same bits for
// any number of groups of ranks, threads and stops.
#include <cmath>
#include <functional>

#include "heed/attention_over_ranks.h"
#include "heed/executor.h"
#include "ranks/testing.h"
#include "train/testing.h"

namespace heed::inline v0 {
namespace {

AttentionOperator exact(Communicator& ranks, const Split& rows) { return mpi::attention_operator(ranks, rows); }

// ------------------------------------------------------------------------------------------------- one loss

struct Sums {
  double loss = 0, count = 0;
  std::vector<double> gradients;
};

// Of the sum over all tokens, so that those of parts add up.
Sums sums_of(LanguageModel& model, const std::vector<std::vector<int32_t>>& texts,
             const functional::CrossEntropyOptions& options, const functional::SplitRows* split) {
  const ParameterArena arena(model);
  manual_seed(17);
  functional::LossParts parts;
  const Variable loss = model.loss(TokenBatch::pad(texts, 0), options, &parts, split);
  loss.backward(Tensor::full({}, static_cast<double>(parts.count), DType::f64));
  const std::span<double> gradients = arena.gradients().span<double>();
  return {parts.loss, static_cast<double>(parts.count), {gradients.begin(), gradients.end()}};
}

LanguageModelConfig small() {
  return {.vocab_size = 10,
          .d_model = 24,
          .nhead = 4,
          .num_layers = 2,
          .dim_feedforward = 20,
          .dropout = 0.2,
          .attention_dropout = 0.2,
          .activation_dropout = 0.2,
          .max_positions = 200};
}

void expect_loss_of_the_whole(const LanguageModelConfig& config, const Split& split, int ranks, double r_drop = 0,
                              mpi::Meeting meeting = mpi::Meeting::exact) {
  const auto made = [&] {
    manual_seed(3);
    auto model = std::make_unique<LanguageModel>(config);
    model->to(DType::f64);
    return model;
  };
  std::mt19937 draw(5);
  std::vector<std::vector<int32_t>> texts(3);
  for (std::vector<int32_t>& text : texts)
    while (std::ssize(text) < split.length() + 1) text.push_back(static_cast<int32_t>(draw() % 10));
  const functional::CrossEntropyOptions options{.label_smoothing = 0.1, .r_drop = r_drop};
  const Sums whole = sums_of(*made(), texts, options, nullptr);
  run_ranks(ranks, [&](Communicator& c) {
    const functional::SplitRows rows{split, c.rank(), mpi::attention_operator(c, split, meeting)};
    Sums own = sums_of(*made(), texts, options, &rows);
    own.gradients.push_back(own.loss);
    own.gradients.push_back(own.count);
    std::vector<double> total(own.gradients.size());
    TreeSum<double> sum(4, std::ssize(total), c.rank(), c.size());
    for (int64_t leaf = sum.leaves().begin; leaf < sum.leaves().end; ++leaf)
      sum.add(leaf == sum.leaves().begin ? own.gradients : std::vector<double>(total.size()));
    sum.total(c, total);
    EXPECT_EQ(total.back(), whole.count);
    EXPECT_NEAR(total[total.size() - 2], whole.loss, 1e-10 * whole.loss);
    double largest = 0, error = 0;
    for (size_t i = 0; i < whole.gradients.size(); ++i) {
      largest = std::max(largest, std::abs(whole.gradients[i]));
      error = std::max(error, std::abs(whole.gradients[i] - total[i]));
    }
    EXPECT_GT(largest, 0.1);
    EXPECT_LT(error, 1e-11 * largest);
  });
}

TEST(SplitContext, LossAndGradientsAreThoseOfTheWhole) {
  for (const char* positions : {"learned", "sinusoidal", "rotary"}) {
    SCOPED_TRACE(positions);
    LanguageModelConfig config = small();
    config.positions = positions;
    expect_loss_of_the_whole(config, Split::zigzag(23, 2), 2);
    expect_loss_of_the_whole(config, Split::zigzag(150, 3), 3);
    expect_loss_of_the_whole(config, Split::contiguous(150, 4), 4);
  }
}

TEST(SplitContext, WhateverTheModel) {
  LanguageModelConfig config = small();
  config.num_kv_heads = 2;
  config.activation = "swiglu";
  config.norm = "rms_norm";
  config.norm_first = false;
  config.d_model = 28;  // 7 and 9 numbers: draws do not begin at multiples of 4
  config.dim_feedforward = 9;
  config.positions = "sinusoidal";
  expect_loss_of_the_whole(config, Split({0, 5, 9, 9, 22}, {1, 0, 2, 1}), 3);
  expect_loss_of_the_whole(config, Split({0, 7, 7, 8}, {0, 1, 2}), 3);  // a rank with nothing
  expect_loss_of_the_whole(config, Split::zigzag(23, 2), 2, /*r_drop=*/1);
  expect_loss_of_the_whole(config, Split::zigzag(150, 2), 2, /*r_drop=*/0, mpi::Meeting::ring);
}

TEST(SplitContext, ShorterTextsAreFilledUp) {
  const LanguageModelConfig config = small();
  const Split split = Split::zigzag(20, 2);
  manual_seed(3);
  LanguageModel model(config);
  model.eval();
  const std::vector<std::vector<int32_t>> texts{{1, 2, 3, 4, 5, 6, 7}, {3, 1}};
  functional::LossParts whole;
  model.loss(TokenBatch::pad(texts, 0), {}, &whole);
  run_ranks(2, [&](Communicator& c) {
    const NoGrad no_grad;
    const functional::SplitRows rows{split, c.rank(), exact(c, split)};
    functional::LossParts own;
    model.loss(TokenBatch::pad(texts, 0), {}, &own, &rows);
    const std::vector<functional::LossParts> all = joined(c, std::vector{own});
    EXPECT_EQ(all[0].count + all[1].count, whole.count);
    EXPECT_NEAR(all[0].nll + all[1].nll, whole.nll, 1e-5);
    EXPECT_THROW(model.loss(TokenBatch::pad({std::vector<int32_t>(22, 1)}, 0), {}, nullptr, &rows), ShapeError);
  });
}

TEST(SplitContext, WhatNeedsAllRowsIsRefused) {
  const MultiheadAttention layer(8, 2);
  const Variable x(Tensor::zeros({1, 4, 8}));
  const Split split = Split::contiguous(4, 1);
  run_ranks(1, [&](Communicator& c) {
    const MultiheadAttention::Call call{.tokens = functional::SplitRows{split, 0, exact(c, split)}};
    HeadRecord record;
    EXPECT_THROW(layer(x, x, x, call, &record), ShapeError);
    EXPECT_NO_THROW(layer(x, x, x, call));
    const functional::SplitRows others{Split::contiguous(9, 2), 0, {}};
    EXPECT_THROW(functional::dropout(x, 0.5, &others), ShapeError);
  });
}

// ------------------------------------------------------------------------------------------------- training

class ContextRanks : public TrainTest {
 protected:
  static TrainOptions options(int64_t context) {
    TrainOptions o = quick_text();
    o.accumulate = 2;
    o.context_ranks = context;
    o.save_every = 1;
    return o;
  }
  TrainResult train_on(int ranks, const std::string& directory, const TrainOptions& options,
                       const std::function<void(Communicator&, TrainHooks&)>& change = {}) const {
    TrainResult result;
    run_ranks(ranks, [&](Communicator& c) {
      manual_seed(3);
      LanguageModelConfig config = tiny_language_model();
      config.attention_dropout = 0.1;
      LanguageModel model(config);
      TrainHooks hooks{.ranks = &c, .attention = exact};
      if (change) change(c, hooks);
      const TrainResult own = train(model, text_, validation_text_, options, directory, hooks);
      if (c.rank() == 0) result = own;
    });
    return result;
  }
  static std::string state_bytes(const std::string& directory) {
    return model_bytes(directory) + read_file(directory + "/training.safetensors");
  }
  const std::vector<int32_t> text_ = counting(400, 1), validation_text_ = counting(67, 2);
};

TEST_F(ContextRanks, SameBitsOnAnyNumberOfGroupsAndThreads) {
  const int before = threads();
  for (const int context : {2, 4})
    for (const int64_t accumulate : {1, 3}) {
      TrainOptions o = options(context);
      o.accumulate = accumulate;
      std::string expected;
      for (const int groups : {1, 2, 3}) {
        set_threads(1 + groups % 2);
        const std::string at =
            directory(std::to_string(context) + "-" + std::to_string(accumulate) + "-" + std::to_string(groups));
        EXPECT_EQ(train_on(context * groups, at, o).update, 12);
        if (expected.empty()) expected = state_bytes(at);
        EXPECT_TRUE(state_bytes(at) == expected) << context << " x " << groups << " ranks, " << accumulate;
      }
    }
  set_threads(before);
}

TEST_F(ContextRanks, StopsAndGoesOnWithOtherGroups) {
  const std::string whole = directory("whole"), cut = directory("cut");
  train_on(2, whole, options(2));
  for (const int ranks : {4, 2, 6, 8, 2})
    train_on(ranks, cut, options(2), [](Communicator& c, TrainHooks& hooks) {
      if (c.rank() == 0) hooks.stop = [] { return true; };  // after one update
    });
  EXPECT_EQ(train_on(4, cut, options(2)).update, 12);
  EXPECT_TRUE(state_bytes(whole) == state_bytes(cut));
}

TEST_F(ContextRanks, AsOneRankButForRounding) {
  std::vector<std::vector<double>> seen(3);
  for (const int64_t context : {1, 2, 4}) {
    std::vector<double>& losses = seen[static_cast<size_t>(context / 2)];
    train_on(static_cast<int>(context), directory(std::to_string(context)), options(context),
             [&](Communicator& c, TrainHooks& hooks) {
               if (c.rank() != 0) return;
               hooks.progress = [&](const TrainProgress& p) {
                 losses.insert(losses.end(), {p.loss, p.gradient_norm, static_cast<double>(p.sentences),
                                              static_cast<double>(p.target_tokens)});
               };
               hooks.validation = [&](const Validation& v) { losses.push_back(v.nll); };
             });
  }
  ASSERT_EQ(seen[0].size(), 12u * 4 + 3);
  for (const size_t other : {1, 2}) {
    ASSERT_EQ(seen[other].size(), seen[0].size());
    for (size_t i = 0; i < seen[0].size(); ++i) EXPECT_NEAR(seen[other][i], seen[0][i], 2e-5 * seen[0][i]) << i;
  }
}

TEST_F(ContextRanks, ARankThatFailsAnywhereCostsNothing) {
  const std::string whole = directory("whole");
  train_on(4, whole, options(2));
  int failures = 0;
  for (int64_t message = 5;; message += 83, ++failures) {
    const std::string cut = directory("cut" + std::to_string(message));
    bool ended = true;
    try {
      run_ranks(4, [&](Communicator& c) {
        manual_seed(3);
        LanguageModelConfig config = tiny_language_model();
        config.attention_dropout = 0.1;
        LanguageModel model(config);
        test::Failing failing(c, message);
        TrainHooks hooks{.ranks = c.rank() == 2 ? &failing : &c, .attention = exact};
        train(model, text_, validation_text_, options(2), cut, hooks);
      });
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("the cable is out"), std::string::npos) << e.what();
      ended = false;
      train_on(2, cut, options(2));
    }
    EXPECT_TRUE(state_bytes(whole) == state_bytes(cut)) << message;
    if (ended) break;
  }
  EXPECT_GE(failures, 6);
}

TEST_F(ContextRanks, Refusals) {
  const auto refusal = [&](int ranks, const TrainOptions& o, const TrainHooks& changed = {.attention = exact}) {
    std::string said = "(nothing)";
    run_ranks(ranks, [&](Communicator& c) {
      LanguageModel model(tiny_language_model());
      TrainHooks hooks = changed;
      hooks.ranks = &c;
      try {
        train(model, text_, validation_text_, o, directory("never"), hooks);
      } catch (const ShapeError& e) {
        if (c.rank() == 0) said = e.what();
      }
    });
    return said;
  };
  EXPECT_EQ(refusal(3, options(3)), "train: context_ranks is 3; it must be a power of two");
  EXPECT_EQ(refusal(1, options(0)), "train: context_ranks is 0; it must be a power of two");
  EXPECT_EQ(refusal(3, options(2)),
            "train: context_ranks is 2 and there are 3 ranks; pass TrainHooks::ranks of a multiple of it");
  EXPECT_EQ(refusal(2, options(2), TrainHooks{}),
            "train: context_ranks needs TrainHooks::attention; pass mpi::attention_operator");
  TrainOptions o = options(4);
  o.block = 3;
  EXPECT_EQ(refusal(4, o), "train: context_ranks is 4; it must be at most 3, the block");
  EXPECT_FALSE(std::filesystem::exists(root_ / "never/training.json"));

  const std::string at = directory("begun");
  train_on(2, at, options(2));
  EXPECT_THROW(train_on(2, at, options(1)), TrainingDiffers);
}

TEST_F(ContextRanks, PairsAreNotSplit) {
  TrainOptions o = quick();
  o.context_ranks = 2;
  EXPECT_THROW(run_ranks(2,
                         [&](Communicator& c) {
                           Transformer model(tiny());
                           train(model, training_, validation_, o, directory("pairs"),
                                 {.ranks = &c, .attention = exact});
                         }),
               ShapeError);
}

}  // namespace
}  // namespace heed::inline v0
