#include "text/base64.h"

#include <algorithm>
#include <cstdint>

namespace heed::inline v0 {
namespace {

constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < n ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += j <= n ? base64_digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string from_base64(std::string_view text, const std::function<void(const std::string&)>& refuse) {
  if (text.empty() || text.size() % 4 != 0) refuse("base64 comes in groups of 4 digits");
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::string out;
  uint32_t group = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool pad = i >= text.size() - padding;
    const size_t digit = pad ? 0 : base64_digits.find(text[i]);
    if (digit == std::string_view::npos) refuse("not a base64 digit at column " + std::to_string(i + 1));
    group = group << 6 | static_cast<uint32_t>(digit);
    if (i % 4 == 3) {
      for (int shift = 16; shift >= 0; shift -= 8) out += static_cast<char>(group >> shift & 0xFF);
      group = 0;
    }
  }
  out.resize(out.size() - padding);
  return out;
}

}  // namespace heed::inline v0
