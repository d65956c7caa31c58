#include "view/packing.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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

std::string packed(const std::string& bytes) { return base64(deflated(bytes)); }

std::string in_planes(const std::string& bytes) {
  std::string planes;
  planes.reserve(bytes.size());
  for (const size_t first : {size_t{0}, size_t{1}})
    for (size_t i = first; i < bytes.size(); i += 2) planes += bytes[i];
  return planes;
}

void SparseRows::add(const double* row, int64_t keys) {
  const auto size = [row](int64_t key) { return std::abs(row[key]); };
  const auto finite = [row](int64_t key) { return std::isfinite(row[key]); };
  double sum = 0, kept = 0, largest = 0;  // of sizes
  order_.clear();
  for (int64_t key = 0; key < keys; ++key) {
    if (row[key] == 0) continue;
    order_.push_back(key);
    if (!finite(key)) continue;
    sum += size(key);
    largest = std::max(largest, size(key));
  }
  if (!whole_) {
    const auto larger = [&](int64_t a, int64_t b) {  // what is not finite comes first
      if (finite(a) != finite(b)) return finite(b);
      return finite(a) && size(a) != size(b) ? size(a) > size(b) : a < b;
    };
    const auto limit = std::min(order_.size(), static_cast<size_t>(options_.keys));
    std::partial_sort(order_.begin(), order_.begin() + static_cast<int64_t>(limit), order_.end(), larger);
    size_t count = 0;
    for (double mass = 0; count < limit && (!finite(order_[count]) || mass < options_.mass * sum); ++count)
      if (finite(order_[count])) mass += size(order_[count]);
    order_.resize(count);
    std::sort(order_.begin(), order_.end());
  }
  const double top = whole_ ? 65535 : 255;
  int64_t previous = -1;
  uint32_t count = 0;
  for (const int64_t key : order_) {
    const double t = finite(key) ? std::round(top * std::sqrt(size(key) / largest)) : 0;
    if (t == 0 && finite(key)) continue;
    if (finite(key)) kept += size(key);
    ++count;
    for (auto gap = static_cast<uint64_t>(key - previous - 1);; gap >>= 7) {  // seven bits a byte, lowest first
      gaps_ += static_cast<char>((gap & 127) | (gap > 127 ? 128 : 0));
      if (gap <= 127) break;
    }
    previous = key;
    whole_ ? append(&levels_, static_cast<uint16_t>(t)) : append(&levels_, static_cast<uint8_t>(t));
    const char kind = finite(key) ? row[key] < 0 ? 1 : 0 : 2;
    kinds_ += kind;
    odd_ = odd_ || kind != 0;
  }
  entries_ += count;
  append(&counts_, static_cast<uint8_t>(count));
  append(&kept_, static_cast<float>(kept));
  append(&dropped_, static_cast<float>(sum - kept));
}

std::string SparseRows::bytes() const {
  std::string out;
  append(&out, entries_);
  append(&out, static_cast<uint32_t>(gaps_.size()));
  return out + kept_ + dropped_ + levels_ + counts_ + gaps_ + (odd_ ? kinds_ : std::string());
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

std::string filled(std::string_view document, const std::string& ascii_json, Blocks& blocks, Alive alive) {
  std::string html;
  const auto copy_up_to = [&](std::string_view mark) {
    const size_t at = document.find(mark);
    html.append(document.substr(0, at));
    document.remove_prefix(at + mark.size());
  };
  // What the policy permits a live page beyond others. A worker is a script that has an address, and addresses of
  // scripts are made by one named policy.
  copy_up_to("<!--wasm-->");
  if (alive == Alive::by_module) html += " 'wasm-unsafe-eval'; worker-src blob:";
  if (alive == Alive::by_server) html += "; connect-src 'self'";
  copy_up_to("<!--types-->");
  html += alive == Alive::by_module ? "heed-worker" : "'none'";
  copy_up_to("<!--data-->");
  // In ASCII and without "<" no label can end the element that holds it.
  html += "<script type=\"application/json\" id=\"data\">";
  for (const char c : ascii_json) c == '<' ? html += "\\u003c" : html += c;
  html += "</script>\n";
  for (size_t i = 0; i < blocks.all().size(); ++i)
    html += "<script type=\"application/octet-stream\" id=\"block" + std::to_string(i) + "\">" +
            packed(blocks.all()[i]) + "</script>\n";
  return html.append(document);
}

}  // namespace heed::inline v0
