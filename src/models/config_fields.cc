#include "heed/config_fields.h"

namespace heed::inline v0 {
namespace {

using NameOf = std::string (*)(const std::string&);

/// Checks each field by itself, then those that hang together.
class Check {
 public:
  Check(const std::string& prefix, NameOf name) : prefix_(prefix), name_(name) {}

  template <class T>
  void integer(const char* field, T value, int64_t low, int64_t high) const {
    if (value < low || value > high) range(field, value, low, high);
  }
  void optional(const char* field, int64_t value, int64_t high) const { integer(field, value, 0, high); }
  void probability(const char* field, double value) const {
    if (!(value >= 0 && value < 1)) fail(field, "is " + std::to_string(value) + "; it must be in [0, 1)");
  }
  void choice(const char* field, const std::string& value, const std::vector<std::string>& names) const {
    std::string list;
    for (const auto& name : names) {
      if (name == value) return;
      list += (list.empty() ? "" : ", ") + name;
    }
    fail(field, "is '" + value + "'; it must be one of " + list);
  }
  void flag(const char*, bool) const {}

  [[noreturn]] void fail(const char* field, const std::string& rule) const {
    throw ShapeError(prefix_ + name_(field) + " " + rule);
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
  [[noreturn]] void range(const char* field, int64_t value, int64_t low, int64_t high) const {
    fail(field, "is " + std::to_string(value) + "; it must be in " + std::to_string(low) + ".." + std::to_string(high));
  }
  const std::string& prefix_;
  NameOf name_;
};

std::string itself(const std::string& field) { return field; }

}  // namespace

void check_fields(const TransformerConfig& c, const std::string& prefix, NameOf name) {
  const Check check(prefix, name);
  visit_fields(c, check);
  check.heads(c);
  const int64_t of_both = std::min(c.vocab_size, c.source_pieces());  // source and target end alike
  check.integer("pad_id", c.pad_id, 0, of_both - 1);
  check.integer("bos_id", c.bos_id, 0, c.vocab_size - 1);
  check.integer("eos_id", c.eos_id, 0, of_both - 1);
  check.different("eos_id", c.eos_id, "pad_id", c.pad_id);
}

void check_fields(const LanguageModelConfig& c, const std::string& prefix, NameOf name) {
  const Check check(prefix, name);
  visit_fields(c, check);
  check.heads(c);
  check.integer("num_kv_heads", c.num_kv_heads, 0, c.nhead);
  if (c.num_kv_heads > 0) check.multiple("nhead", c.nhead, "num_kv_heads", c.num_kv_heads);
}

void validate(const TransformerConfig& c) { check_fields(c, "Transformer: ", itself); }
void validate(const LanguageModelConfig& c) { check_fields(c, "LanguageModel: ", itself); }

}  // namespace heed::inline v0
