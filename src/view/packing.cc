#include "view/packing.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "heed/label.h"
#include "view/color_map.h"

namespace heed::inline v0 {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                Z_BEST_COMPRESSION) != Z_OK)
    throw Error("page: zlib could not compress " + std::to_string(bytes.size()) + " bytes");
  out.resize(size);
  return out;
}

template <class T>
void append(std::string* out, T value) {  // little endian, as every machine heed runs on
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  out->append(bytes.data(), bytes.size());
}

}  // namespace

size_t Blocks::add(const std::string& bytes) {
  html_ += "<script type=\"application/octet-stream\" id=\"block" + std::to_string(count_) + "\">" +
           base64(deflated(bytes)) + "</script>\n";
  return count_++;
}

void SparseRows::add(const double* row, int64_t keys) {
  double sum = 0, kept = 0;
  bool odd = false;  // a weight that has no place on the scale
  order_.clear();
  for (int64_t key = 0; key < keys; ++key) {
    if (!(row[key] >= 0) || std::isinf(row[key])) {
      odd = true;
    } else if (row[key] > 0) {
      sum += row[key];
      order_.push_back(key);
    }
  }
  const auto larger = [row](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; };
  const double largest = order_.empty() ? 0 : row[*std::min_element(order_.begin(), order_.end(), larger)];
  if (!whole_) {
    const auto limit = std::min(order_.size(), static_cast<size_t>(options_.keys));
    std::partial_sort(order_.begin(), order_.begin() + static_cast<int64_t>(limit), order_.end(), larger);
    size_t count = 0;
    for (double mass = 0; count < limit && mass < options_.mass * sum; ++count) mass += row[order_[count]];
    order_.resize(count);
    std::sort(order_.begin(), order_.end());
  }
  const double top = whole_ ? 65535 : 255;
  int64_t previous = -1;
  uint32_t count = 0;
  for (const int64_t key : order_) {
    const double t = std::round(top * std::sqrt(row[key] / largest));
    if (t == 0) continue;
    kept += row[key];
    ++count;
    for (auto gap = static_cast<uint64_t>(key - previous - 1);; gap >>= 7) {  // seven bits a byte, lowest first
      gaps_ += static_cast<char>((gap & 127) | (gap > 127 ? 128 : 0));
      if (gap <= 127) break;
    }
    previous = key;
    whole_ ? append(&levels_, static_cast<uint16_t>(t)) : append(&levels_, static_cast<uint8_t>(t));
  }
  entries_ += count;
  append(&counts_, static_cast<uint8_t>(count));
  append(&kept_, static_cast<float>(kept));
  append(&dropped_, odd ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sum - kept));
}

std::string SparseRows::bytes() const {
  std::string out;
  append(&out, entries_);
  append(&out, static_cast<uint32_t>(gaps_.size()));
  return out + kept_ + dropped_ + levels_ + counts_ + gaps_;
}

std::string color_table() {
  std::string hex;
  for (int i = 0; i < 256; ++i) {
    const Rgb c = paper_color(i / 255.0);
    for (const uint8_t byte : {c.red, c.green, c.blue}) {
      hex += "0123456789abcdef"[byte >> 4];
      hex += "0123456789abcdef"[byte & 15];
    }
  }
  return hex;
}

std::vector<std::string> all_printable(const std::vector<std::string>& labels) {
  std::vector<std::string> out;
  for (const std::string& label : labels) out.push_back(printable(label));
  return out;
}

std::string filled(std::string_view document, const std::string& ascii_json, const Blocks& blocks) {
  // In ASCII and without "<" no label can end the element that holds it.
  std::string json;
  for (const char c : ascii_json) c == '<' ? json += "\\u003c" : json += c;
  constexpr std::string_view kMark = "<!--data-->";
  const size_t mark = document.find(kMark);
  std::string html(document.substr(0, mark));
  html += "<script type=\"application/json\" id=\"data\">" + json + "</script>\n" + blocks.html();
  return html.append(document.substr(mark + kMark.size()));
}

}  // namespace heed::inline v0
