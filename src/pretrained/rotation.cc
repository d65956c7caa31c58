#include "pretrained/rotation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heed/error.h"
#include "pretrained/tables.h"

namespace heed::inline v0 {

KeyTable rope_keys() {
  return {applied("rope_type"),
          applied("type"),
          applied("rope_theta"),
          applied("partial_rotary_factor"),
          applied("factor"),
          applied("original_max_position_embeddings"),
          applied("attention_factor"),
          applied("beta_fast"),
          applied("beta_slow"),
          applied("mscale"),
          applied("mscale_all_dim"),
          applied("truncate", true),
          applied("short_factor"),
          harmless("long_factor", "texts are as long as the original context at most"),
          applied("low_freq_factor"),
          applied("high_freq_factor"),
          only("full_attention", nullptr),
          only("sliding_attention", nullptr)};
}

namespace {

constexpr double kMost = 1e12;
constexpr const char* kLongest = "max_position_embeddings";
constexpr const char* kOriginal = "original_max_position_embeddings";
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

// With an odd size the last pair is rotated, too.
std::vector<double> plain(double base, int64_t size) {
  std::vector<double> frequencies;
  for (int64_t p = 0; p < (size + 1) / 2; ++p)
    frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(p) / static_cast<double>(size)));
  return frequencies;
}

// Llama 3.1: long wavelengths are stretched by the factor, short ones kept, those between interpolated.
void llama3(const Keys& keys, double original, std::vector<double>& frequencies) {
  const double factor = keys.number("factor", 1, kMost), low = keys.number("low_freq_factor", 0, kMost);
  const double high = keys.number("high_freq_factor", 0, kMost);
  if (!(low < high)) keys.fail("low_freq_factor", "it must be below high_freq_factor");
  for (double& f : frequencies) {
    const double turns = original * f / (2 * std::numbers::pi);
    const double mix = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = (1 - mix) * f / factor + mix * f;
  }
}

// YaRN (Peng et al. 2023, sections 3.2 and 3.4). Returns the amplitude.
double yarn(const Keys& keys, double base, int64_t max_positions, double original, int64_t turned, bool truncate,
            std::vector<double>& frequencies) {
  const auto size = static_cast<double>(turned);
  const double factor = keys.number("factor", 1, kMost, static_cast<double>(max_positions) / original);
  // 0 means none.
  const auto number_or = [&](const char* key, double otherwise) {
    const double given = keys.number(key, 0, kMost, 0);
    return given == 0 ? otherwise : given;
  };
  const auto dimension_of = [&](double turns) {  // the dimension with `turns` rotations within the original context
    return size * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = dimension_of(number_or("beta_fast", 32)), high = dimension_of(number_or("beta_slow", 1));
  if (truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (size_t p = 0; p < frequencies.size(); ++p) {
    const double stretched = std::clamp((static_cast<double>(p) - low) / (high - low), 0.0, 1.0);
    frequencies[p] = stretched * frequencies[p] / factor + (1 - stretched) * frequencies[p];
  }
  const auto amplitude = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1; };
  if (keys.has("attention_factor")) return keys.number("attention_factor", 1e-6, kMost);
  const double scale = number_or("mscale", 0), of_all = number_or("mscale_all_dim", 0);
  return scale != 0 && of_all != 0 ? amplitude(scale) / amplitude(of_all) : amplitude(1);
}

// LongRoPE (Ding et al. 2024): a factor for each pair, here those for texts within the original context. Returns the
// amplitude, which is that of the longest context.
double longrope(const Keys& keys, int64_t longest, double original, std::vector<double>& frequencies) {
  const std::vector<double> factors = keys.numbers("short_factor", 1e-6, kMost);
  if (factors.size() != frequencies.size())
    keys.fail("short_factor", "it must have " + std::to_string(frequencies.size()) + " numbers, one for each pair");
  for (size_t p = 0; p < frequencies.size(); ++p) frequencies[p] /= factors[p];
  if (keys.has("attention_factor")) return keys.number("attention_factor", 1e-6, kMost);
  const double factor = keys.number("factor", 1e-6, kMost, static_cast<double>(longest) / original);
  return factor > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1;
}

std::string type_of(const Keys& config, const Keys& scaling) {
  std::string type = scaling.text("rope_type", scaling.text("type", "default"));
  const bool phi3 = config.text("model_type") == "phi3";
  if (type == "su" || (phi3 && type == "yarn")) type = "longrope";  // the name in Phi-3's first files
  if (phi3 && type != "default" && type != "longrope")
    scaling.fail(scaling.first_of({"rope_type", "type"}), "it must be default or longrope for Phi-3");
  return type;
}

// If both are present, transformers uses rope_scaling, the older one.
Keys scaling_of(const Keys& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (const std::optional<Keys> scaling = config.object(key); scaling && scaling->size() > 0)
      return scaling->under(rope_keys());
  return {nlohmann::json::object(), config.where(), rope_keys()};
}

double original_positions(const Keys& config, const Keys& scaling, bool by_type = false) {
  const int64_t longest = config.integer(kLongest, 1, INT32_MAX);
  const int64_t told = scaling.integer(kOriginal, 1, INT32_MAX, longest);
  return static_cast<double>(by_type ? told : config.integer(kOriginal, 1, INT32_MAX, told));
}

// `by_type`: `scaling` belongs to one type of layers.
Rotary turned(const Keys& config, const Keys& scaling, int64_t head_dim, double base, const RotationRules& rules,
              bool by_type = false) {
  const double part =
      scaling.number("partial_rotary_factor", 0, 1, by_type ? 1 : config.number("partial_rotary_factor", 0, 1, 1));
  const std::string type = type_of(config, scaling);
  auto turned = static_cast<int64_t>(static_cast<double>(head_dim) * part);
  if (!rules.partial && turned != head_dim) {
    // The class rotates whole heads; its scalings would give too few angles.
    if (type != "default") scaling.fail(scaling.first_of({"rope_type", "type"}), "it needs partial_rotary_factor 1");
    turned = head_dim;
  }
  if (turned < 1) config.fail("partial_rotary_factor", "it leaves no pair of a head to turn");
  const int64_t size = (turned + 1) / 2 * 2;
  if (size > head_dim) config.fail("head_dim", "it must be even");
  Rotary result{.size = size, .base = base};
  // dynamic changes nothing within max_position_embeddings
  if ((type == "default" || type == "dynamic") && turned == size) return result;
  const int64_t longest = config.integer(kLongest, 1, INT32_MAX);
  const double original = original_positions(config, scaling, by_type);
  std::vector<double> frequencies = plain(base, turned);
  if (type == "linear") {
    const double factor = scaling.number("factor", 1e-6, kMost);
    for (double& f : frequencies) f /= factor;
  } else if (type == "llama3") {
    llama3(scaling, original, frequencies);
  } else if (type == "yarn") {
    // With types of layers, transformers looks for `truncate` next to them.
    const bool truncate = by_type || scaling.flag("truncate");
    result.amplitude = yarn(scaling, base, longest, original, turned, truncate, frequencies);
  } else if (type == "longrope") {
    result.amplitude = longrope(scaling, longest, original, frequencies);
  } else if (type != "default" && type != "dynamic") {
    scaling.fail(scaling.first_of({"rope_type", "type"}),
                 "heed knows default, linear, dynamic, llama3, yarn and longrope");
  }
  result.frequencies = Tensor::from(std::span<const double>(frequencies), {std::ssize(frequencies)});
  return result;
}

}  // namespace

int64_t positions_of(const Keys& config) {
  const int64_t longest = config.integer(kLongest, 1, INT32_MAX);
  if (config.text("model_type") == "gemma3_text") return longest;
  const Keys scaling = scaling_of(config);
  return type_of(config, scaling) == "longrope" ? static_cast<int64_t>(original_positions(config, scaling)) : longest;
}

Rotary rotation(const Keys& config, int64_t head_dim, const RotationRules& rules) {
  const Keys scaling = scaling_of(config);
  const double base = scaling.number("rope_theta", 1, kMost, config.number("rope_theta", 1, kMost, rules.base));
  return turned(config, scaling, head_dim, base, rules);
}

Rotary rotation_of_type(const Keys& config, int64_t head_dim, bool sliding) {
  constexpr double kFullBase = 1'000'000, kSlidingBase = 10'000;
  const std::optional<Keys> by_type = config.object("rope_parameters");
  std::optional<Keys> scaling = by_type ? by_type->object(sliding ? kSliding : kFull) : std::nullopt;
  if (const std::optional<Keys> older = config.object("rope_scaling"); older && !sliding)
    scaling = (scaling ? *scaling : Keys({{"rope_type", "default"}}, config.where())).with(*older);
  const Keys known = (scaling ? *scaling : Keys(nlohmann::json::object(), config.where())).under(rope_keys());
  const double otherwise = sliding ? config.number("rope_local_base_freq", 1, kMost, kSlidingBase)
                                   : config.number("rope_theta", 1, kMost, kFullBase);
  return turned(config, known, head_dim, known.number("rope_theta", 1, kMost, otherwise), {}, /*by_type=*/true);
}

}  // namespace heed::inline v0
