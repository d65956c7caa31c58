#include "models/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"

namespace heed::inline v0 {
namespace {

// A uniform double in [0, 1) with 53 random bits.
double uniform_at(uint64_t seed, uint64_t sample, uint64_t index) {
  const PhiloxCounter bits = philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                         static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
                                        philox_key(seed));
  return static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
}

}  // namespace

void validate(const GenerateOptions& o) {
  const auto check = [](bool good, const char* field, const std::string& value, const char* rule) {
    if (!good) throw ShapeError(std::string("generate: ") + field + " is " + value + "; it must be " + rule);
  };
  check(o.max_tokens >= 0, "max_tokens", std::to_string(o.max_tokens), "0 or more");
  check(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", std::to_string(o.temperature),
        "0 (always the most probable token) or more");
  check(o.top_k >= 0, "top_k", std::to_string(o.top_k), "0 (all tokens) or more");
  check(o.top_p > 0 && o.top_p <= 1, "top_p", std::to_string(o.top_p), "above 0 and at most 1");
}

Sampler::Sampler(const GenerateOptions& options, int64_t vocab_size)
    : options_(options), forbidden_(static_cast<size_t>(vocab_size)) {
  validate(options);
  for (const int32_t id : options.never) {
    if (id < 0 || id >= vocab_size)
      throw ShapeError("generate: token " + std::to_string(id) + " of never is not in 0.." +
                       std::to_string(vocab_size - 1));
    forbidden_[static_cast<size_t>(id)] = true;
  }
}

std::vector<Sampler::Choice> Sampler::choices(std::span<const float> logits) const {
  std::vector<Choice> list;  // with logits in place of probabilities, for now
  list.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (!forbidden_[i] && std::isfinite(logits[i]))
      list.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i])});
  if (list.empty()) throw Error("generate: no token has a finite score; the weights of the model are damaged");

  const auto before = [](const Choice& a, const Choice& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
  };
  const Choice best = *std::min_element(list.begin(), list.end(), before);
  if (options_.temperature == 0) return {{best.id, 1.0}};
  const auto k = static_cast<size_t>(options_.top_k);
  const bool cut = k > 0 && k < list.size();
  if (cut) {
    std::partial_sort(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(k), list.end(), before);
    list.resize(k);
  } else if (options_.top_p < 1) {
    std::sort(list.begin(), list.end(), before);
  }

  double sum = 0;
  for (Choice& c : list) sum += c.probability = std::exp((c.probability - best.probability) / options_.temperature);
  if (options_.top_p < 1) {
    double reached = 0;
    size_t count = 0;
    while (count < list.size() && reached < options_.top_p * sum) reached += list[count++].probability;
    list.resize(count);
    sum = reached;
  }
  for (Choice& c : list) c.probability /= sum;
  return list;
}

int32_t Sampler::operator()(std::span<const float> logits, uint64_t index) const {
  const std::vector<Choice> list = choices(logits);
  double left = uniform_at(options_.seed, options_.sample, index);
  for (const Choice& c : list) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  return list.back().id;  // the probabilities fell short of 1 by rounding
}

}  // namespace heed::inline v0
