// What all pages are made of: blocks of packed data, rows of weights among them, and the document they stand in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heed/view.h"

namespace heed::inline v0 {

/// The blocks of binary data of a page: the JSON names them by their number.
class Blocks {
 public:
  size_t add(const std::string& bytes);
  const std::string& html() const { return html_; }

 private:
  std::string html_;
  size_t count_ = 0;
};

/// Rows of weights, packed: what the page unpacks again in data.js. A weight w of a row that keeps the sum s is stored
/// as t = top sqrt(w / largest), and is s t^2 / (sum of t^2) again: small weights keep their size, and sums are exact.
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
  std::string kept_, dropped_, levels_, counts_, gaps_;
  std::vector<int64_t> order_;
};

/// The colour map as the scripts take it: 256 times rrggbb.
std::string color_table();

std::vector<std::string> all_printable(const std::vector<std::string>& labels);

/// `document` as cmake/HeedPage.cmake makes it, with its data: `ascii_json` as dumped with ensure_ascii.
std::string filled(std::string_view document, const std::string& ascii_json, const Blocks& blocks);

}  // namespace heed::inline v0
