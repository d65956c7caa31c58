#include "models/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

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

namespace {

void check(bool good, const std::string& operation, const char* field, double value, const char* rule) {
  if (good) return;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.17g", value);
  throw ShapeError(operation + ": " + field + " is " + text.data() + "; it must be " + rule);
}

}  // namespace

void validate(const Sampling& s, const std::string& operation) {
  check(s.temperature >= 0 && std::isfinite(s.temperature), operation, "temperature", s.temperature,
        "0 (always the most probable token) or more");
  check(s.top_k >= 0, operation, "top_k", static_cast<double>(s.top_k), "0 (all tokens) or more");
  check(s.top_p > 0 && s.top_p <= 1, operation, "top_p", s.top_p, "above 0 and at most 1");
  check(s.min_p >= 0 && s.min_p <= 1, operation, "min_p", s.min_p, "in 0..1");
}

void validate(const GenerateOptions& o) {
  check(o.max_tokens >= 0, "generate", "max_tokens", static_cast<double>(o.max_tokens), "0 or more");
  validate(o.sampling, "generate");
  check(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "generate", "repetition_penalty",
        o.repetition_penalty, "above 0, and 1 for none");
}

Sampler::Sampler(const Sampling& sampling, int64_t vocab_size, const std::vector<int32_t>& never, std::string operation)
    : options_(sampling), forbidden_(static_cast<size_t>(vocab_size)), operation_(std::move(operation)) {
  validate(sampling, operation_);
  for (const int32_t id : never) {
    if (id < 0 || id >= vocab_size)
      throw ShapeError(operation_ + ": token " + std::to_string(id) + " of never is not in 0.." +
                       std::to_string(vocab_size - 1));
    forbidden_[static_cast<size_t>(id)] = true;
  }
}

std::vector<Sampler::Choice> Sampler::choices(std::span<const float> logits) const {
  std::vector<Choice> list;  // with logits in place of probabilities, for now
  list.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (!forbidden_[i]) list.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i])});
  if (list.empty()) throw ShapeError(operation_ + ": no token may be drawn; leave one at least");

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
  } else if (options_.top_p < 1 || options_.min_p > 0) {
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
  if (options_.min_p > 0) {
    const double least = options_.min_p * list.front().probability;
    const auto end = std::find_if(list.begin(), list.end(), [&](const Choice& c) { return c.probability < least; });
    list.erase(end, list.end());
    sum = 0;
    for (const Choice& c : list) sum += c.probability;
  }
  for (Choice& c : list) c.probability /= sum;
  return list;
}

int32_t Sampler::operator()(std::span<const float> logits, uint64_t sample, uint64_t index) const {
  const std::vector<Choice> list = choices(logits);
  double left = uniform_at(options_.seed, sample, index);
  for (const Choice& c : list) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  return list.back().id;  // the probabilities fell short of 1 by rounding
}

}  // namespace heed::inline v0
