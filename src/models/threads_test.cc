// A const model may be called from any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "heed/models.h"
#include "heed/random.h"

namespace heed::inline v0 {
namespace {

constexpr int kThreads = 4;

// What each of several threads gets from `call(thread)`, all beginning at once.
template <class F>
auto from_threads(const F& call) {
  std::vector<decltype(call(0))> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { results[static_cast<size_t>(t)] = call(t); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<int32_t> sentence(int64_t length) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(4 + (i * i + length) % 20));
  return ids;
}

TEST(ModelThreads, PositionsAreTheSameForAll) {
  constexpr std::array<int64_t, 6> kLengths = {1, 40, 70, 130, 260, 530};
  std::vector<Tensor> expected;
  for (const int64_t length : kLengths)
    expected.push_back(SinusoidalPositions(64, length).rows(0, length, DType::f32).clone());
  for (int round = 0; round < 100; ++round) {
    const SinusoidalPositions positions(64);
    std::barrier start(kThreads);
    const auto wrong = from_threads([&](int) {
      start.arrive_and_wait();
      int64_t count = 0;
      for (size_t i = 0; i < kLengths.size(); ++i)
        count += !std::ranges::equal(positions.rows(0, kLengths[i], DType::f32).contiguous().span<float>(),
                                     expected[i].span<float>());
      return count;
    });
    ASSERT_EQ(wrong, std::vector<int64_t>(kThreads, 0)) << round;
  }
}

TEST(ModelThreads, OneTransformerTranslatesForAll) {
  TransformerConfig config{.vocab_size = 24,
                           .d_model = 16,
                           .nhead = 2,
                           .num_encoder_layers = 1,
                           .num_decoder_layers = 1,
                           .dim_feedforward = 16,
                           .dropout = 0,
                           .max_positions = 600};
  for (const char* positions : {"sinusoidal", "learned", "rotary"}) {
    config.positions = positions;
    const auto make = [&] {
      manual_seed(5);
      auto model = std::make_unique<Transformer>(config);
      model->eval();
      return model;
    };
    // Lengths grow, past what is kept of the positions, in another order in each thread.
    const std::vector<int64_t> lengths = {1, 40, 70, 130, 260, 530};
    const auto model = make(), alone = make();
    const auto translate = [&](const Transformer& m, size_t i) {
      const Hypothesis best = m.translate({sentence(lengths[i])}, {.beam = 2, .max_length = lengths[i] + 5})[0][0];
      return std::pair(best.ids, best.log_probability);
    };
    const auto got = from_threads([&](int t) {
      std::vector<std::pair<std::vector<int32_t>, double>> all(lengths.size());
      for (size_t i = 0; i < lengths.size(); ++i) {
        const size_t which = (i + static_cast<size_t>(t)) % lengths.size();
        all[which] = translate(*model, which);
      }
      return all;
    });
    for (size_t i = 0; i < lengths.size(); ++i)
      for (const auto& one : got) EXPECT_EQ(one[i], translate(*alone, i)) << positions << ' ' << lengths[i];
  }
}

TEST(ModelThreads, OneLanguageModelWritesForAll) {
  LanguageModelConfig config{.vocab_size = 24,
                             .d_model = 16,
                             .nhead = 2,
                             .num_layers = 1,
                             .dim_feedforward = 16,
                             .dropout = 0,
                             .max_positions = 300};
  for (const char* positions : {"sinusoidal", "learned", "rotary"}) {
    config.positions = positions;
    const auto make = [&] {
      manual_seed(6);
      auto model = std::make_unique<LanguageModel>(config);
      model->eval();
      return model;
    };
    const auto model = make(), alone = make();
    const auto write = [&](const LanguageModel& m, int t) {
      return m.generate(sentence(1 + 60 * t),
                        {.max_tokens = 110, .sampling = {.seed = 3}, .sample = static_cast<uint64_t>(t)});
    };
    const auto got = from_threads([&](int t) { return write(*model, t); });
    for (int t = 0; t < kThreads; ++t) EXPECT_EQ(got[static_cast<size_t>(t)], write(*alone, t)) << positions;
  }
}

}  // namespace
}  // namespace heed::inline v0
