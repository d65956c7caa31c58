#include "cli/model_flags.h"

#include <charconv>

#include "cli/flags.h"
#include "heed/config_fields.h"

namespace heed::cli {
namespace {

class Collect {
 public:
  explicit Collect(Flags& to) : to_(to) {}
  template <class T>
  void integer(const std::string& field, T value, int64_t, int64_t) const {
    if (!field.ends_with("_id")) add(field, std::to_string(value));
  }
  void optional(const std::string& field, int64_t value, int64_t) const { flag(field, value > 0); }
  void probability(const std::string& field, double value) const {
    char digits[32];  // as few as give the same number back
    add(field, std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr));
  }
  void choice(const std::string& field, const std::string& value, const std::vector<std::string>&) const {
    add(field, value);
  }
  void flag(const std::string& field, bool value) const { add(field, value ? "true" : "false"); }

 private:
  void add(const std::string& field, std::string value) const { to_.emplace_back(flag_of(field), std::move(value)); }
  Flags& to_;
};

template <class Config>
Flags collect(const Config& config) {
  Flags flags;
  visit_fields(config, Collect(flags));
  return flags;
}

}  // namespace

Flags flags_of(const TransformerConfig& config) { return collect(config); }
Flags flags_of(const LanguageModelConfig& config) { return collect(config); }

}  // namespace heed::cli
