#include <algorithm>
#include <array>
#include <numeric>

#include "text/metric.h"

namespace heed::inline v0 {
namespace {

__extension__ typedef unsigned __int128 uint128;

// NumPy's SeedSequence (O'Neill's seed_seq_fe with 128 bits) for a seed: `words` 64-bit words.
std::array<uint64_t, 4> seed_words(uint64_t seed) {
  const auto hashed = [](uint32_t value, uint32_t* constant, uint32_t factor) {
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ (value >> 16);
  };
  std::array<uint32_t, 4> pool{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  uint32_t constant = 0x43b0d7e5;
  for (uint32_t& word : pool) word = hashed(word, &constant, 0x931e8875);
  for (size_t from = 0; from < pool.size(); ++from)
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from == to) continue;
      const uint32_t mixed = 0xca01f9dd * pool[to] - 0x4973f715 * hashed(pool[from], &constant, 0x931e8875);
      pool[to] = mixed ^ (mixed >> 16);
    }
  constant = 0x8b51f9dd;
  std::array<uint64_t, 4> words{};
  for (size_t i = 0; i < 8; ++i) {
    const uint64_t half = hashed(pool[i % 4], &constant, 0x58f38ded);
    words[i / 2] |= half << (i % 2 * 32);
  }
  return words;
}

// PCG64 (O'Neill 2014), seeded and read as NumPy does.
class Draws {
 public:
  explicit Draws(uint64_t seed) {
    const std::array<uint64_t, 4> words = seed_words(seed);
    increment_ = (join(words[2], words[3]) << 1) | 1;
    step();
    state_ += join(words[0], words[1]);
    step();
  }

  /// 0 to count - 1 (Lemire 2019).
  uint32_t below(uint32_t count) {
    if (count <= 1) return 0;
    uint64_t product = uint64_t{next()} * count;
    if (static_cast<uint32_t>(product) < count) {
      const uint32_t threshold = (0 - count) % count;
      while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next()} * count;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  static uint128 join(uint64_t high, uint64_t low) { return (uint128{high} << 64) | low; }
  void step() { state_ = state_ * join(0x2360ed051fc65da4, 0x4385df649fccf645) + increment_; }
  uint32_t next() {  // the low half of a 64-bit number first
    if (waits_) {
      waits_ = false;
      return waiting_;
    }
    step();
    const auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
    const uint64_t folded = high ^ low, turn = high >> 58;
    const uint64_t word = (folded >> turn) | (folded << ((64 - turn) % 64));
    waits_ = true;
    waiting_ = static_cast<uint32_t>(word >> 32);
    return static_cast<uint32_t>(word);
  }

  uint128 state_ = 0, increment_ = 0;
  bool waits_ = false;
  uint32_t waiting_ = 0;
};

}  // namespace

Confidence bootstrap(size_t lines, const MetricOptions& options,
                     const std::function<double(std::span<const uint32_t> chosen)>& score) {
  if (options.resamples == 0) return {};
  if (options.resamples < 0)
    throw ShapeError("score: " + std::to_string(options.resamples) + " resamples; 0 is none, 1000 is usual");
  Draws draws(options.seed);
  std::vector<uint32_t> chosen(lines);
  std::vector<double> scores(static_cast<size_t>(options.resamples));
  for (double& value : scores) {
    for (uint32_t& line : chosen) line = draws.below(static_cast<uint32_t>(lines));
    value = score(chosen);
  }
  std::sort(scores.begin(), scores.end());
  const size_t lower = scores.size() / 40, upper = scores.size() - lower - 1;
  return {.mean = std::accumulate(scores.begin(), scores.end(), 0.0) / static_cast<double>(scores.size()),
          .half_width = (scores[upper] - scores[lower]) / 2,
          .resamples = options.resamples,
          .seed = options.seed};
}

std::string confidence_text(const Confidence& confidence) {
  if (confidence.resamples == 0) return "";
  return " (\u03BC = " + fixed(confidence.mean, 2) + " \u00B1 " + fixed(confidence.half_width, 2) + ")";
}

std::string metric_signature(int64_t references, const Confidence& confidence, bool lowercase) {
  std::string text = "nrefs:" + std::to_string(references);
  if (confidence.resamples > 0)
    text += "|bs:" + std::to_string(confidence.resamples) + "|seed:" + std::to_string(confidence.seed);
  return text + "|case:" + (lowercase ? "lc" : "mixed");
}

}  // namespace heed::inline v0
