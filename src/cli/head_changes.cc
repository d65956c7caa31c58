#include "cli/head_changes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "cli/commands.h"

namespace heed::cli {
namespace {

constexpr std::array<std::pair<std::string_view, HeadPattern>, 3> kPatterns{
    {{"uniform", HeadPattern::uniform}, {"previous", HeadPattern::previous}, {"own", HeadPattern::own}}};

// The whole of `text` as a number.
template <class T>
bool is_number(std::string_view text, T* value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && rest == text.data() + text.size();
}

std::vector<std::string_view> items_of(std::string_view list) {
  std::vector<std::string_view> items;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    items.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

bool read_place(std::string_view text, HeadChange* change) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos || !is_number(text.substr(0, dot), &change->layer) ||
      !is_number(text.substr(dot + 1), &change->head) || change->layer < 1 || change->head < 1)
    return false;
  --change->layer, --change->head;
  return true;
}

bool read_what(std::string_view text, HeadChange* change) {
  for (const auto& [name, pattern] : kPatterns)
    if (text == name) {
      change->pattern = pattern;
      return true;
    }
  return is_number(text, &change->scale) && std::isfinite(change->scale);
}

std::string place(const HeadChange& change) {
  return std::to_string(change.layer + 1) + "." + std::to_string(change.head + 1);
}

std::string listed(const std::vector<std::string>& items) {
  std::string all;
  for (size_t i = 0; i < items.size(); ++i) all += (i == 0 ? "" : i + 1 < items.size() ? ", " : " and ") + items[i];
  return all;
}

std::string short_number(double x) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), x);
  return {text.data(), written.ptr};
}

}  // namespace

std::vector<HeadChange> read_head_changes(const std::string& without, const std::string& change) {
  std::vector<HeadChange> changes;
  const auto add = [&](const HeadChange& one) {
    for (const HeadChange& other : changes)
      if (other.layer == one.layer && other.head == one.head)
        throw UsageError("head " + place(one) + " is named twice in --without and --change");
    changes.push_back(one);
  };
  if (!without.empty())
    for (const std::string_view item : items_of(without)) {
      HeadChange one{.scale = 0};
      if (!read_place(item, &one))
        throw UsageError("--without " + without + " is no list of heads; write layer.head as in 2.1,3.4");
      add(one);
    }
  if (!change.empty())
    for (const std::string_view item : items_of(change)) {
      const size_t equals = item.find('=');
      HeadChange one;
      if (equals == std::string_view::npos || !read_place(item.substr(0, equals), &one) ||
          !read_what(item.substr(equals + 1), &one))
        throw UsageError("--change " + change +
                         " is no list of changes; write layer.head=what as in 2.1=0.5,3.4=uniform, " +
                         "what: a factor, uniform, previous or own");
      add(one);
    }
  return changes;
}

std::string in_words(const std::vector<HeadChange>& changes) {
  std::vector<std::string> off, others;
  for (const HeadChange& change : changes) {
    if (change.pattern != HeadPattern::learned) {
      const auto* const found = std::find_if(kPatterns.begin(), kPatterns.end(),
                                             [&](const auto& pattern) { return pattern.second == change.pattern; });
      others.push_back(place(change) + " " + std::string(found->first));
    } else if (change.scale == 0) {
      off.push_back(place(change));
    } else {
      others.push_back(place(change) + " x " + short_number(change.scale));
    }
  }
  const auto heads = [](const std::vector<std::string>& items) {
    return (items.size() > 1 ? "heads " : "head ") + listed(items);
  };
  std::string words = off.empty() ? "" : "without " + heads(off);
  if (!others.empty()) words += (off.empty() ? "with " : ", with ") + heads(others);
  return words;
}

void change_heads(const std::vector<HeadChange>& changes, const std::vector<MultiheadAttention*>& layers) {
  for (const HeadChange& change : changes) {
    const bool there = change.layer < std::ssize(layers);
    const int64_t heads = there ? layers[static_cast<size_t>(change.layer)]->options().num_heads : 0;
    if (change.head >= heads)
      throw UsageError("head " + place(change) + " is not there: the model has " + std::to_string(layers.size()) +
                       " layers of this attention" +
                       (there ? ", this one with " + std::to_string(heads) + " heads" : ""));
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const auto heads = static_cast<size_t>(layers[layer]->options().num_heads);
    HeadControl control;
    const Tensor scales = Tensor::full({static_cast<int64_t>(heads)}, 1);
    for (const HeadChange& change : changes) {
      if (change.layer != static_cast<int64_t>(layer)) continue;
      control.scales = Variable(scales);
      scales.at<float>(change.head) = static_cast<float>(change.scale);
      if (control.patterns.empty()) control.patterns.assign(heads, HeadPattern::learned);
      control.patterns[static_cast<size_t>(change.head)] = change.pattern;
    }
    layers[layer]->control_heads(std::move(control));
  }
}

}  // namespace heed::cli
