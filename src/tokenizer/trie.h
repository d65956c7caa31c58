// All texts of a set that another text begins with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/token_table.h"

namespace heed::inline v0 {

class Trie {
 public:
  Trie() = default;
  /// The texts and a number for each; of equal ones the last one counts. Empty ones are left out.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> texts);

  /// A place in them: what comes after a common beginning.
  using Place = uint32_t;
  static constexpr Place kBegin = 0;
  /// The place after `text`; nothing where none of them begins with it.
  std::optional<Place> after(std::string_view text) const;

  /// Calls visit(length, number) for each of them that `text` continues from `node` on, the shortest first.
  template <class Visit>
  void prefixes(std::string_view text, const Visit& visit, Place node = kBegin) const {
    if (nodes_.empty()) return;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<uint8_t>(text[at]));
      if (node == 0) return;
      if (nodes_[node].number >= 0) visit(at + 1, nodes_[node].number);
    }
  }

  /// The next byte from `at` on with which one of them begins; text.size() where there is none.
  size_t next_root(std::string_view text, size_t at) const {
    if (nodes_.size() < 2) return text.size();
    while (at < text.size() && of_root_[static_cast<uint8_t>(text[at])] == 0) ++at;
    return std::min(at, text.size());
  }

 private:
  struct Node {
    uint32_t first = 0;  // of its edges
    uint32_t count = 0;
    int32_t number = -1;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0 where there is none

  std::vector<Node> nodes_;  // the root first
  std::vector<Edge> edges_;
  std::array<uint32_t, 256> of_root_{};
};

/// Of the tokens of a model, with their ids.
Trie trie_of(const TokenTable& tokens);

}  // namespace heed::inline v0
