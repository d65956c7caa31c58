// What all pages are made of: blocks of packed data, rows of weights among them, and the document they stand in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/view.h"

namespace heed::inline v0 {

/// The blocks of binary data of a page: the JSON names them by their number.
class Blocks {
 public:
  size_t add(std::string bytes) {
    all_.push_back(std::move(bytes));
    return all_.size() - 1;
  }
  std::vector<std::string>& all() { return all_; }

 private:
  std::vector<std::string> all_;
};

/// Bytes as a page has them: base64 of a deflated stream.
std::string packed(const std::string& bytes);

/// Bytes at even places, then those at odd ones: of 16-bit numbers deflate leaves 7 % less then. live_worker.js puts
/// them back.
std::string in_planes(const std::string& bytes);

/// Rows of weights, packed: what the page unpacks again in data.js. A weight w of a row that keeps the sum s is stored
/// as t = top sqrt(w / largest), and is s t^2 / (sum of t^2) again: small weights keep their size, and sums are exact.
/// Where weights are below 0 or not finite, sums are those of sizes, and behind the rows stands a byte for each weight
/// that is kept: 0 as stored, 1 below 0, 2 not finite.
class SparseRows {
 public:
  /// `whole`: each weight of a row, in 16 bits; else the largest, as `options` says, in 8.
  SparseRows(const PageOptions& options, bool whole) : options_(options), whole_(whole) {}
  void add(const double* row, int64_t keys);
  std::string bytes() const;

 private:
  PageOptions options_;
  bool whole_;
  uint32_t entries_ = 0;
  std::string kept_, dropped_, levels_, counts_, gaps_, kinds_;
  bool odd_ = false;  // a kind is not 0
  std::vector<int64_t> order_;
};

/// The colour map as the scripts take it: 256 times rrggbb.
std::string color_table();

std::vector<std::string> all_printable(const std::vector<std::string>& labels);

/// `document` as cmake/HeedPage.cmake makes it, with its data: `ascii_json` as dumped with ensure_ascii. `alive`: by a
/// module it may run WebAssembly, and a worker that it makes itself; by a server it may ask that.
enum class Alive : uint8_t { no, by_module, by_server };
std::string filled(std::string_view document, const std::string& ascii_json, Blocks& blocks, Alive alive = Alive::no);

}  // namespace heed::inline v0
