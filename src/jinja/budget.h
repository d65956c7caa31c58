// The bounds of a run. Operations, filters and methods count their work and the bytes of their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "jinja/value.h"

namespace heed::inline v0::jinja {

/// Steps and bytes that a run has left. Bytes are not returned: they bound all that a run makes, not what it holds.
/// All functions throw BoundError where too little is left.
class Budget {
 public:
  static constexpr uint64_t kOverhead = 64;  // bytes of a text, list or dictionary beside its content

  Budget(int64_t steps, int64_t bytes) : steps_(steps), bytes_(bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(int64_t count = 1) {
    if ((steps_ -= count) < 0) throw BoundError("it takes more steps than a conversation needs");
  }
  void charge(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(bytes_)) refuse_bytes();
    bytes_ -= static_cast<int64_t>(bytes);
  }
  /// Charges `times` copies of a text in one new text. times > 0.
  void charge_copies(size_t size, int64_t times) {
    if (times > bytes_) refuse_bytes();  // so the product below does not overflow
    charge(kOverhead + size * static_cast<uint64_t>(times));
  }

  /// Counts one pass over a text.
  void read(size_t bytes) { step(1 + static_cast<int64_t>(bytes / 64)); }
  /// Counts the search for one text in another.
  void search(size_t in, size_t what) { step(1 + static_cast<int64_t>(in / 64 * (1 + what / 64))); }

  // New values, charged.
  Value made(std::string text) {
    charge(kOverhead + text.size());
    return text;
  }
  Value made(List list, Sequence sequence = Sequence::list) {
    charge(kOverhead + list.size() * sizeof(Value));
    return {std::move(list), sequence};
  }
  Value made(Dict dict) {
    charge(kOverhead + dict.size() * sizeof(Dict::value_type));
    return dict;
  }
  Value generated(List items) {
    charge(kOverhead + items.size() * sizeof(Value));
    return OnceRead{.items = std::move(items)};
  }

  void append(std::string_view text, std::string* out) {
    charge(text.size());
    *out += text;
  }

 private:
  [[noreturn]] static void refuse_bytes() { throw BoundError("it makes more text than a conversation needs"); }

  int64_t steps_, bytes_;
};

}  // namespace heed::inline v0::jinja
