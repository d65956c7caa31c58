// Reads pages again: what their tests share.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

// What stands between `begin` and `end` in text, from `at` on.
inline std::string between(const std::string& text, const std::string& begin, const std::string& end, size_t at = 0) {
  const size_t found = text.find(begin, at);
  if (found == std::string::npos) return "(missing)";
  const size_t from = found + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

inline nlohmann::json data_of(const std::string& html) {
  return nlohmann::json::parse(between(html, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

// A block of the page: base64, deflated.
inline std::string block_of(const std::string& html, int number) {
  const std::string text = between(html, "id=\"block" + std::to_string(number) + "\">", "</script>");
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string packed;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    if ((count += 6) >= 8) packed += static_cast<char>(bits >> (count -= 8) & 255);
  }
  std::string out(1 << 22, '\0');
  uLongf size = out.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  out.resize(size);
  return out;
}

template <class T>
std::vector<T> part(const std::string& bytes, size_t* at, size_t count) {
  std::vector<T> out(count);
  std::memcpy(out.data(), bytes.data() + *at, count * sizeof(T));
  *at += count * sizeof(T);
  return out;
}

struct Rows {
  std::vector<std::vector<double>> weights;
  std::vector<float> kept, dropped;
  bool has_kinds = false;
};

// The format as packing.h states it, read again: rows of `keys` weights.
inline Rows unpacked(const std::string& bytes, size_t rows, size_t keys, bool whole) {
  size_t at = 0;
  const auto sizes = part<uint32_t>(bytes, &at, 2);
  Rows out;
  out.kept = part<float>(bytes, &at, rows);
  out.dropped = part<float>(bytes, &at, rows);
  std::vector<double> levels;
  if (whole)
    for (const uint16_t t : part<uint16_t>(bytes, &at, sizes[0])) levels.push_back(t);
  else
    for (const uint8_t t : part<uint8_t>(bytes, &at, sizes[0])) levels.push_back(t);
  const auto counts = part<uint8_t>(bytes, &at, rows);
  const auto gaps = part<uint8_t>(bytes, &at, sizes[1]);
  out.has_kinds = at < bytes.size();
  const auto kinds = out.has_kinds ? part<uint8_t>(bytes, &at, sizes[0]) : std::vector<uint8_t>(sizes[0]);
  EXPECT_EQ(at, bytes.size());
  size_t entry = 0, byte = 0;
  for (size_t i = 0; i < rows; ++i) {
    std::vector<double> row(keys);
    std::vector<uint8_t> kind(keys);
    int64_t key = -1;
    for (int n = 0; n < counts[i]; ++n, ++entry) {
      int64_t gap = 0;
      for (int shift = 0;; shift += 7) {
        gap |= static_cast<int64_t>(gaps.at(byte) & 127) << shift;
        if (gaps.at(byte++) < 128) break;
      }
      key += gap + 1;
      row.at(static_cast<size_t>(key)) = levels[entry] * levels[entry];
      kind.at(static_cast<size_t>(key)) = kinds[entry];
    }
    const double squares = std::accumulate(row.begin(), row.end(), 0.0);
    for (size_t j = 0; j < keys; ++j) {
      row[j] *= squares > 0 ? out.kept[i] / squares : 0;
      if (kind[j] == 1) row[j] = -row[j];
      if (kind[j] == 2) row[j] = std::numeric_limits<double>::quiet_NaN();
    }
    out.weights.push_back(row);
  }
  return out;
}

}  // namespace heed::inline v0
