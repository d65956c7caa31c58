#include "tokenizer/trie.h"

#include <algorithm>

namespace heed::inline v0 {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::stable_sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // What shares its first `depth` bytes becomes one node; nodes_ is the queue of those without edges yet.
  struct Range {
    size_t begin, end, depth;
  };
  size_t size = 1;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string_view before = i > 0 ? texts[i - 1].first : std::string_view(), text = texts[i].first;
    size +=
        static_cast<size_t>(text.end() - std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first);
  }
  nodes_.reserve(size);
  edges_.reserve(size - 1);
  std::vector<Range> ranges;
  ranges.reserve(size);
  ranges.push_back({0, texts.size(), 0});
  nodes_.emplace_back();
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    for (; begin < end && texts[begin].first.size() == depth; ++begin)
      if (depth > 0) nodes_[node].number = texts[begin].second;
    nodes_[node].first = static_cast<uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = texts[begin].first[depth];
      size_t next = begin;
      while (next < end && texts[next].first[depth] == byte) ++next;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[node].count = static_cast<uint32_t>(edges_.size()) - nodes_[node].first;
  }
  for (uint32_t i = 0; i < nodes_[0].count; ++i) of_root_[edges_[i].byte] = edges_[i].node;
}

std::optional<Trie::Place> Trie::after(std::string_view text) const {
  Place node = kBegin;
  for (const char byte : text) {
    if (nodes_.empty() || (node = child(node, static_cast<uint8_t>(byte))) == 0) return {};
  }
  return node;
}

uint32_t Trie::child(uint32_t node, uint8_t byte) const {
  if (node == 0) return of_root_[byte];
  const Edge* begin = edges_.data() + nodes_[node].first;
  const Edge* const end = begin + nodes_[node].count;
  begin = std::lower_bound(begin, end, byte, [](const Edge& edge, uint8_t wanted) { return edge.byte < wanted; });
  return begin == end || begin->byte != byte ? 0 : begin->node;
}

Trie trie_of(const TokenTable& tokens) {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  texts.reserve(tokens.count());
  tokens.each([&](std::string_view text, int32_t id) { texts.emplace_back(text, id); });
  return Trie(std::move(texts));
}

}  // namespace heed::inline v0
