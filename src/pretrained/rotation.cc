#include "pretrained/rotation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

constexpr double kMost = 1e12;

std::vector<double> plain(double base, int64_t size) {
  std::vector<double> frequencies;
  for (int64_t p = 0; p < size / 2; ++p)
    frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(p) / static_cast<double>(size)));
  return frequencies;
}

// Long wavelengths are stretched by the factor, short ones stay, those between are mixed (Llama 3.1).
void llama3(const Keys& keys, std::vector<double>& frequencies) {
  const double factor = keys.number("factor", 1, kMost), low = keys.number("low_freq_factor", 0, kMost);
  const double high = keys.number("high_freq_factor", 0, kMost);
  const auto original = static_cast<double>(keys.integer("original_max_position_embeddings", 1, INT32_MAX));
  if (!(low < high)) keys.fail("low_freq_factor", "it must be below high_freq_factor");
  for (double& f : frequencies) {
    const double turns = original * f / (2 * std::numbers::pi);
    const double mix = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = (1 - mix) * f / factor + mix * f;
  }
}

// Peng et al. 2023, "YaRN", 3.2 and 3.4. Returns the amplitude.
double yarn(const Keys& keys, double base, int64_t max_positions, std::vector<double>& frequencies) {
  const auto size = static_cast<double>(2 * frequencies.size());
  const auto original =
      static_cast<double>(keys.integer("original_max_position_embeddings", 1, INT32_MAX, max_positions));
  const double factor = keys.number("factor", 1, kMost, static_cast<double>(max_positions) / original);
  const auto dimension_of = [&](double turns) {  // that turns so often within the original context
    return size * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = dimension_of(keys.number("beta_fast", 0, kMost, 32));
  double high = dimension_of(keys.number("beta_slow", 0, kMost, 1));
  if (keys.flag("truncate", true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (size_t p = 0; p < frequencies.size(); ++p) {
    const double stretched = std::clamp((static_cast<double>(p) - low) / (high - low), 0.0, 1.0);
    frequencies[p] = stretched * frequencies[p] / factor + (1 - stretched) * frequencies[p];
  }
  const auto amplitude = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1; };
  if (keys.has("attention_factor")) return keys.number("attention_factor", 1e-6, kMost);
  if (keys.has("mscale") && keys.has("mscale_all_dim"))
    return amplitude(keys.number("mscale", 0, kMost)) / amplitude(keys.number("mscale_all_dim", 0, kMost));
  return amplitude(1);
}

// Ding et al. 2024, "LongRoPE": a factor for each pair, here those of texts within the original context. Returns the
// amplitude, which is that of the longest context.
double longrope(const Keys& keys, int64_t longest, int64_t original, std::vector<double>& frequencies) {
  const std::vector<double> factors = keys.numbers("short_factor", 1e-6, kMost);
  if (factors.size() != frequencies.size())
    keys.fail("short_factor", "it must have " + std::to_string(frequencies.size()) + " numbers, one for each pair");
  for (size_t p = 0; p < frequencies.size(); ++p) frequencies[p] /= factors[p];
  if (keys.has("attention_factor")) return keys.number("attention_factor", 1e-6, kMost);
  const double factor =
      keys.number("factor", 1e-6, kMost, static_cast<double>(longest) / static_cast<double>(original));
  return factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original))) : 1;
}

std::string type_of(const Keys& keys) { return keys.text(keys.first_of({"rope_type", "type"}), "default"); }
bool is_longrope(const std::string& type) { return type == "longrope" || type == "su"; }

constexpr const char* kLongest = "max_position_embeddings";
constexpr const char* kOriginal = "original_max_position_embeddings";

int64_t original_positions(const Keys& config, const Keys& scaling) {
  const int64_t longest = config.integer(kLongest, 1, INT32_MAX);
  return scaling.integer(kOriginal, 2, INT32_MAX, config.integer(kOriginal, 2, INT32_MAX, longest));
}

}  // namespace

int64_t positions_of(const Keys& config) {
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const std::optional<Keys> scaling = config.object(key); scaling && is_longrope(type_of(*scaling)))
      return original_positions(config, *scaling);
  return config.integer(kLongest, 1, 10'000'000);
}

Rotary rotation(const Keys& config, int64_t head_dim, const std::string& layer_type, const char* base_key,
                bool scaled) {
  std::optional<Keys> keys = config.object("rope_parameters");
  if (keys && !layer_type.empty() && keys->object(layer_type)) keys = keys->object(layer_type);
  const double base =
      keys && keys->has("rope_theta") ? keys->number("rope_theta", 1, kMost) : config.number(base_key, 1, kMost, 10000);
  const double part = keys && keys->has("partial_rotary_factor") ? keys->number("partial_rotary_factor", 0, 1)
                                                                 : config.number("partial_rotary_factor", 0, 1, 1);
  const auto size = static_cast<int64_t>(static_cast<double>(head_dim) * part) / 2 * 2;
  if (size < 2) config.fail("partial_rotary_factor", "it leaves no pair of a head to turn");
  Rotary result{.size = size, .base = base};
  if (!keys && scaled) keys = config.object("rope_scaling");
  if (!keys) return result;
  const std::string type = type_of(*keys);
  if (type == "default" || type == "dynamic") return result;  // dynamic: as they are within max_position_embeddings
  const int64_t longest = config.integer(kLongest, 1, INT32_MAX);
  std::vector<double> frequencies = plain(base, size);
  if (type == "linear") {
    const double factor = keys->number("factor", 1, kMost);
    for (double& f : frequencies) f /= factor;
  } else if (type == "llama3") {
    llama3(*keys, frequencies);
  } else if (type == "yarn") {
    result.amplitude = yarn(*keys, base, longest, frequencies);
  } else if (is_longrope(type)) {
    result.amplitude = longrope(*keys, longest, original_positions(config, *keys), frequencies);
  } else {
    keys->fail(keys->first_of({"rope_type", "type"}), "heed knows default, linear, dynamic, llama3, yarn and longrope");
  }
  result.frequencies = Tensor::from(std::span<const double>(frequencies), {std::ssize(frequencies)});
  return result;
}

}  // namespace heed::inline v0
