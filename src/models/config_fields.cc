#include "heed/config_fields.h"

#include <charconv>

#include "heed/kinds.h"

namespace heed::inline v0 {
namespace {

using NameOf = const std::function<std::string(const std::string&)>&;

/// Checks each field, then fields that depend on each other.
class Check {
 public:
  Check(const std::string& prefix, NameOf name) : prefix_(prefix), name_(name) {}

  void integer(const Field& field, int64_t value, int64_t low, int64_t high) const {
    in_range(field.name, value, low, high);
  }
  void optional(const Field& field, int64_t value, int64_t high) const { integer(field, value, 0, high); }
  void probability(const Field& field, double value) const {
    if (!(value >= 0 && value < 1)) fail(field.name, "is " + std::to_string(value) + "; it must be in [0, 1)");
  }
  void choice(const Field& field, const std::string& value, const std::vector<std::string>& names) const {
    std::string list;
    for (const auto& name : names) {
      if (name == value) return;
      list += (list.empty() ? "" : ", ") + name;
    }
    fail(field.name, "is '" + value + "'; it must be one of " + list);
  }
  void flag(const Field&, bool) const {}

  [[noreturn]] void fail(const char* field, const std::string& rule) const {
    throw ShapeError(prefix_ + name_(field) + " " + rule);
  }
  void in_range(const char* field, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high)
      fail(field,
           "is " + std::to_string(value) + "; it must be in " + std::to_string(low) + ".." + std::to_string(high));
  }
  void multiple(const char* field, int64_t value, const char* of, int64_t divisor) const {
    if (value % divisor)
      fail(field, std::to_string(value) + " is not a multiple of " + name_(of) + " " + std::to_string(divisor));
  }
  void different(const char* field, int64_t value, const char* other, int64_t other_value) const {
    if (value == other_value)
      fail(field, "is " + std::to_string(value) + ", as " + name_(other) +
                      " is; it must be a piece of its own, since what pads is never written");
  }
  template <class Config>
  void heads(const Config& c) const {
    multiple("d_model", c.d_model, "nhead", c.nhead);
    if (c.positions == "rotary" && c.d_model / c.nhead % 2)
      fail("positions", "rotary need an even head size, not " + std::to_string(c.d_model / c.nhead));
  }

 private:
  const std::string& prefix_;
  NameOf name_;
};

class Collect {
 public:
  explicit Collect(std::vector<FieldValue>& to) : to_(to) {}
  void integer(const Field& field, int64_t value, int64_t, int64_t) const { add(field, std::to_string(value)); }
  void optional(const Field& field, int64_t value, int64_t) const { integer(field, value, 0, 0); }
  void probability(const Field& field, double value) const {
    char digits[32];  // the fewest digits that read back to the same number
    add(field, std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr));
  }
  void choice(const Field& field, const std::string& value, const std::vector<std::string>&) const {
    add(field, value);
  }
  void flag(const Field& field, bool value) const { add(field, value ? "true" : "false"); }

 private:
  void add(const Field& field, std::string value) const { to_.push_back({field, std::move(value)}); }
  std::vector<FieldValue>& to_;
};

template <class Config>
std::vector<FieldValue> collect(const Config& c) {
  std::vector<FieldValue> all;
  visit_fields(c, Collect(all));
  return all;
}

std::string itself(const std::string& field) { return field; }

}  // namespace

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedFeedForwardKind& kind : kFeedForwardKinds) all.emplace_back(kind.name);
    return all;
  }();
  return names;
}
const std::vector<std::string>& norm_names() {
  static const std::vector<std::string> names{"layer_norm", "rms_norm"};
  return names;
}
const std::vector<std::string>& position_names() {
  static const std::vector<std::string> names{"sinusoidal", "learned", "rotary"};
  return names;
}

std::vector<FieldValue> field_values(const TransformerConfig& c) { return collect(c); }
std::vector<FieldValue> field_values(const LanguageModelConfig& c) { return collect(c); }

void check_fields(const TransformerConfig& c, const std::string& prefix, NameOf name) {
  const Check check(prefix, name);
  visit_fields(c, check);
  check.heads(c);
  const int64_t of_both = std::min(c.vocab_size, c.source_pieces());  // source and target share pad and eos
  check.in_range("pad_id", c.pad_id, 0, of_both - 1);
  check.in_range("bos_id", c.bos_id, 0, c.vocab_size - 1);
  check.in_range("eos_id", c.eos_id, 0, of_both - 1);
  check.different("eos_id", c.eos_id, "pad_id", c.pad_id);
}

void check_fields(const LanguageModelConfig& c, const std::string& prefix, NameOf name) {
  const Check check(prefix, name);
  visit_fields(c, check);
  check.heads(c);
  check.in_range("num_kv_heads", c.num_kv_heads, 0, c.nhead);
  if (c.num_kv_heads > 0) check.multiple("nhead", c.nhead, "num_kv_heads", c.num_kv_heads);
}

void validate(const TransformerConfig& c) { check_fields(c, "Transformer: ", itself); }
void validate(const LanguageModelConfig& c) { check_fields(c, "LanguageModel: ", itself); }

}  // namespace heed::inline v0
