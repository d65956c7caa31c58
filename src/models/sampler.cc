#include "models/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

#include "core/philox.h"

namespace heed::inline v0 {
namespace {

using Choice = Sampler::Choice;
using Choices = std::vector<Choice>;

// A uniform double in [0, 1) with 53 random bits.
double uniform_at(uint64_t seed, uint64_t sample, uint64_t index) {
  const PhiloxCounter bits = philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                                         static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
                                        philox_key(seed));
  return static_cast<double>((uint64_t{bits[1]} << 32 | bits[0]) >> 11) * 0x1p-53;
}

void check(bool good, const std::string& operation, const char* field, double value, const char* rule) {
  if (good) return;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.17g", value);
  throw ShapeError(operation + ": " + field + " is " + text.data() + "; it must be " + rule);
}

bool more_probable(const Choice& a, const Choice& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
}

void normalise(Choices& list) {
  double sum = 0;
  for (const Choice& c : list) sum += c.probability;
  for (Choice& c : list) c.probability /= sum;
}

double entropy_of(const Choices& list) {
  double entropy = 0;
  for (const Choice& c : list)
    if (c.probability > 0) entropy -= c.probability * std::log(c.probability);
  return entropy;
}

// Each cut takes probabilities that sum to 1, greatest first, keeps some of them in order, and normalises them.

void keep_nucleus(double top_p, Choices& list) {
  double reached = 0;
  size_t count = 0;
  while (count < list.size() && reached < top_p) reached += list[count++].probability;
  list.resize(count);
  normalise(list);
}

void keep_at_least(double least, Choices& list) {
  const double most = list.front().probability;
  std::erase_if(list, [&](const Choice& c) { return c.probability < least && c.probability < most; });
  normalise(list);
}

// Tokens as typical as the last one needed are kept, too.
void keep_typical(double mass, Choices& list) {
  const double entropy = entropy_of(list);
  std::vector<double> distance;  // between a token's surprise and the expected surprise
  for (const Choice& c : list) distance.push_back(std::abs(-std::log(c.probability) - entropy));
  std::vector<size_t> order(list.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return distance[a] < distance[b]; });
  double reached = 0;
  size_t last = 0;
  while (last + 1 < order.size() && (reached += list[order[last]].probability) < mass) ++last;
  Choices kept;
  for (size_t i = 0; i < list.size(); ++i)
    if (distance[i] <= distance[order[last]]) kept.push_back(list[i]);
  list = std::move(kept);
  normalise(list);
}

}  // namespace

const char* first_given(const Sampling& s) {
  return s.temperature      ? "temperature"
         : s.top_k          ? "top_k"
         : s.top_p          ? "top_p"
         : s.min_p          ? "min_p"
         : s.typical_p      ? "typical_p"
         : s.epsilon_cutoff ? "epsilon_cutoff"
         : s.eta_cutoff     ? "eta_cutoff"
         : s.seed           ? "seed"
                            : nullptr;
}

bool always_greedy(const Sampling& s) { return s.temperature == 0.0 || s.top_k == 1; }

void expect_effect(const Sampling& s, const std::string& operation) {
  if (s.temperature != 0.0) return;
  Sampling others = s;
  others.temperature.reset();
  if (const char* const given = first_given(others))
    throw UsageError(operation + ": " + given + " is for sampling, and temperature 0 takes the most probable token; " +
                     "leave one of them out");
}

void validate(const Sampling& s, const std::string& operation) {
  const auto in = [&](const std::optional<double>& value, const char* field, bool (*good)(double), const char* rule) {
    if (value) check(good(*value), operation, field, *value, rule);
  };
  in(
      s.temperature, "temperature", [](double x) { return x >= 0 && std::isfinite(x); },
      "0 (always the most probable token) or more");
  const int64_t top_k = s.top_k.value_or(0);
  check(top_k >= 0, operation, "top_k", static_cast<double>(top_k), "0 (all tokens) or more");
  in(
      s.top_p, "top_p", [](double x) { return x > 0 && x <= 1; }, "above 0 and at most 1");
  in(
      s.min_p, "min_p", [](double x) { return x >= 0 && x <= 1; }, "in 0..1");
  in(
      s.typical_p, "typical_p", [](double x) { return x > 0 && x <= 1; }, "above 0 and at most 1");
  in(
      s.epsilon_cutoff, "epsilon_cutoff", [](double x) { return x >= 0 && x < 1; }, "0 or more and below 1");
  in(
      s.eta_cutoff, "eta_cutoff", [](double x) { return x >= 0 && x < 1; }, "0 or more and below 1");
}

void validate(const GenerateOptions& o) {
  const int64_t tokens = o.max_tokens.value_or(0), length = o.max_length.value_or(0);
  check(tokens >= 0, "generate", "max_tokens", static_cast<double>(tokens), "0 or more");
  check(length >= 0, "generate", "max_length", static_cast<double>(length), "0 or more");
  validate(o.sampling, "generate");
  validate(o.rules, "generate");
}

Sampler::Sampler(const Sampling& s, std::string operation) : operation_(std::move(operation)) {
  validate(s, operation_);
  temperature_ = s.temperature.value_or(1);
  top_k_ = static_cast<size_t>(s.top_k.value_or(0));
  top_p_ = s.top_p.value_or(1);
  min_p_ = s.min_p.value_or(0);
  typical_p_ = s.typical_p.value_or(1);
  epsilon_ = s.epsilon_cutoff.value_or(0);
  eta_ = s.eta_cutoff.value_or(0);
  seed_ = s.seed.value_or(0);
}

Choices Sampler::choices(std::span<const float> logits) const {
  Choices list;  // holds logits until they become probabilities
  list.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] != -std::numeric_limits<float>::infinity())
      list.push_back({static_cast<int32_t>(i), static_cast<double>(logits[i])});
  if (list.empty()) throw ShapeError(operation_ + ": every token is forbidden; allow at least one");

  const Choice best = *std::min_element(list.begin(), list.end(), more_probable);
  if (temperature_ == 0) return {{best.id, 1.0}};
  if (top_k_ > 0 && top_k_ < list.size()) {
    std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(top_k_) - 1, list.end(), more_probable);
    const double least = list[top_k_ - 1].probability;
    std::erase_if(list, [&](const Choice& c) { return c.probability < least; });
  }
  if (cuts()) std::sort(list.begin(), list.end(), more_probable);
  for (Choice& c : list) c.probability = std::exp((c.probability - best.probability) / temperature_);
  normalise(list);
  if (top_p_ < 1) keep_nucleus(top_p_, list);
  if (min_p_ > 0) keep_at_least(min_p_ * list.front().probability, list);
  if (typical_p_ < 1) keep_typical(typical_p_, list);
  if (epsilon_ > 0) keep_at_least(epsilon_, list);
  if (eta_ > 0) keep_at_least(std::min(eta_, std::sqrt(eta_) * std::exp(-entropy_of(list))), list);
  return list;
}

int32_t Sampler::operator()(std::span<const float> logits, uint64_t sample, uint64_t index) const {
  const Choices list = choices(logits);
  double left = uniform_at(seed_, sample, index);
  for (const Choice& c : list) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  return list.back().id;  // rounding left the probabilities below 1
}

}  // namespace heed::inline v0
