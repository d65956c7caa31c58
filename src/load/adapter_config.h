// adapter_config.json, as PEFT writes it: which layers have adapters, and their scales.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pretrained/keys.h"
#include "tokenizer/regex.h"

namespace heed::inline v0 {

inline constexpr uint64_t kLargestAdapterConfig = 1 << 20;  // bytes

class AdapterConfig {
 public:
  /// Reads the file of a directory. Throws IoError and FormatError.
  explicit AdapterConfig(const std::string& directory);

  const std::string& where() const { return where_; }
  std::string base() const { return keys_.text("base_model_name_or_path", ""); }
  std::string task() const { return keys_.text("task_type", ""); }
  bool has_magnitudes() const { return keys_.flag("use_dora"); }

  /// The factor of B A for a module whose A has `rank` rows.
  double scale(const std::string& module, int64_t rank) const;

  /// Throws FormatError for a module ("model.layers.0.self_attn.q_proj") that PEFT would not adapt: it ignores the
  /// tensors of such adapters.
  void expect_target(const std::string& module, bool embedding = false) const;

 private:
  using Patterns = std::vector<std::pair<Regex, double>>;
  /// A list of names, or one regular expression.
  struct Modules {
    std::optional<Regex> pattern;
    std::set<std::string> names;
    bool match(const std::string& module) const;
  };

  AdapterConfig(const std::string& directory, const std::string& text);
  Patterns patterns(const std::string& key, const std::string& text) const;
  Modules modules(const std::string& key) const;
  bool in_layers(const std::string& module) const;

  std::string where_;
  Keys keys_;
  Patterns ranks_, alphas_;
  bool all_linear_;  // target_modules
  Modules targets_, excluded_;
  std::vector<Regex> saved_, layers_;  // modules_to_save; the part of a name up to its layer's number
  int64_t rank_ = 0;
  double alpha_ = 0;
};

}  // namespace heed::inline v0
