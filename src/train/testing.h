// What the tests of training share: a directory of their own, a tiny model, and a task that it can learn.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include "heed/io.h"
#include "heed/random.h"
#include "heed/train.h"
#include "train/state.h"

namespace heed::inline v0 {

class TrainTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "heed-train-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  /// A new empty directory.
  std::string directory(const std::string& name) const {
    std::filesystem::create_directory(root_ / name);
    return (root_ / name).string();
  }
  static std::string model_bytes(const std::string& directory) { return read_file(directory + "/" + kModelFile); }

  /// Sentences of 1 to `longest` of the ids 4..vocab_size - 1; the target is the source backwards.
  static SentencePairs reversing(int64_t count, int64_t longest, int64_t vocab_size, unsigned seed) {
    std::mt19937 generator(seed);
    const auto below = [&](int64_t bound) { return static_cast<int64_t>(generator() % static_cast<uint64_t>(bound)); };
    SentencePairs pairs;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int32_t> sentence;
      for (int64_t n = 1 + below(longest); n > 0; --n)
        sentence.push_back(static_cast<int32_t>(4 + below(vocab_size - 4)));
      pairs.source.push_back(sentence);
      pairs.target.emplace_back(sentence.rbegin(), sentence.rend());
    }
    return pairs;
  }

  static TransformerConfig tiny() {
    TransformerConfig c;
    c.vocab_size = 12;
    c.d_model = 16;
    c.nhead = 2;
    c.num_encoder_layers = c.num_decoder_layers = 1;
    c.dim_feedforward = 32;
    c.norm_first = true;
    c.max_positions = 32;
    return c;
  }
  static TrainOptions quick() {
    TrainOptions o;
    o.batch_tokens = 64;
    o.learning_rate = {.schedule = Schedule::constant, .peak = 0.01, .warmup = 4};
    o.max_updates = 12;
    o.validate_every = 4;
    o.average = 2;
    o.save_minutes = 0;
    o.log_every = 1;
    return o;
  }

  /// A text of ids 0..9 that counts up or down by turns of 3 to 8.
  static std::vector<int32_t> counting(size_t length, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<int32_t> text;
    for (int32_t at = 0, step = 1; text.size() < length; step = -step)
      for (unsigned n = 3 + generator() % 6; n > 0 && text.size() < length; --n)
        text.push_back(at = (at + step + 10) % 10);
    return text;
  }
  static LanguageModelConfig tiny_language_model() {
    return {.vocab_size = 10,
            .d_model = 16,
            .nhead = 2,
            .num_layers = 1,
            .dim_feedforward = 32,
            .dropout = 0.1,
            .max_positions = 16};
  }
  static TrainOptions quick_text() {
    TrainOptions o = quick();
    o.batch = 4;
    o.block = 8;
    o.label_smoothing = 0;
    return o;
  }

  const SentencePairs training_ = reversing(60, 6, 12, 1), validation_ = reversing(10, 6, 12, 2);
  std::filesystem::path root_;
};

}  // namespace heed::inline v0
