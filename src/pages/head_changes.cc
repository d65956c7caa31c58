#include "heed/head_changes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

constexpr std::array<std::pair<std::string_view, HeadPattern>, 3> kPatterns{
    {{"uniform", HeadPattern::uniform}, {"previous", HeadPattern::previous}, {"own", HeadPattern::own}}};

// The whole of `text` as a number.
template <class T>
bool is_number(std::string_view text, T* value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && rest == text.data() + text.size();
}

std::vector<std::string_view> items_of(std::string_view list, char between = ',') {
  std::vector<std::string_view> items;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(between, begin), list.size());
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

// Throws UsageError for a head that occurs twice.
void expect_once(const std::vector<HeadChange>& changes) {
  for (size_t i = 0; i < changes.size(); ++i)
    for (size_t before = 0; before < i; ++before)
      if (changes[before].layer == changes[i].layer && changes[before].head == changes[i].head)
        throw UsageError("head " + place(changes[i]) + " is named twice; say once what is done to it");
}

// Of "2.1=0.5,3.4=uniform"; false where it is no such list.
bool read_changes(std::string_view list, std::vector<HeadChange>* changes) {
  for (const std::string_view item : items_of(list)) {
    const size_t equals = item.find('=');
    HeadChange one;
    if (equals == std::string_view::npos || !read_place(item.substr(0, equals), &one) ||
        !read_what(item.substr(equals + 1), &one))
      return false;
    changes->push_back(one);
  }
  return true;
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

// Layers of the attention that a page calls so.
const std::vector<MultiheadAttention*>& layers_named(const AttentionLayers& layers, const std::string& name) {
  const bool translator = !layers.cross.empty();
  const std::vector<MultiheadAttention*>* found = nullptr;
  if (translator && name == "Encoder") found = &layers.encoder;
  if (translator && name == "Decoder") found = &layers.decoder;
  if (translator && name == "Cross") found = &layers.cross;
  if (!translator && name == "Self-attention") found = layers.decoder.empty() ? &layers.encoder : &layers.decoder;
  if (found) return *found;
  throw UsageError("change: the model has no attention \"" + name + "\"; it has " +
                   (translator ? "Encoder, Decoder and Cross" : "Self-attention"));
}

void restore(const AttentionLayers& layers) {
  for (const auto* kind : {&layers.encoder, &layers.decoder, &layers.cross})
    for (MultiheadAttention* layer : *kind) layer->control_heads({});
}

}  // namespace

std::vector<HeadChange> read_heads_off(std::string_view list) {
  std::vector<HeadChange> changes;
  for (const std::string_view item : items_of(list)) {
    HeadChange one{.scale = 0};
    if (!read_place(item, &one))
      throw UsageError(std::string(list) + " is no list of heads; write layer.head as in 2.1,3.4");
    changes.push_back(one);
  }
  return changes;
}

std::vector<HeadChange> read_head_changes(std::string_view list) {
  std::vector<HeadChange> changes;
  if (!read_changes(list, &changes))
    throw UsageError(std::string(list) + " is no list of changes; write layer.head=what as in 2.1=0.5,3.4=uniform, " +
                     "what: a factor, uniform, previous or own");
  return changes;
}

std::vector<HeadChange> combined(std::vector<HeadChange> changes, const std::vector<HeadChange>& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  expect_once(changes);
  return changes;
}

std::string description_of(const std::vector<HeadChange>& changes) {
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

GroupChanges read_group_changes(const std::string& changes) {
  GroupChanges all;
  if (changes.empty()) return all;
  for (const std::string_view item : items_of(changes, ';')) {
    const size_t colon = std::min(item.find(':'), item.size());
    std::vector<HeadChange>& heads = all[std::string(item.substr(0, colon))];
    if (colon == item.size() || !heads.empty() || !read_changes(item.substr(colon + 1), &heads))
      throw UsageError("change is \"" + changes + "\"; write each attention once, and layer.head=what, as in " +
                       "Cross:2.1=0,3.4=uniform;Encoder:1.2=own, what: a factor, uniform, previous or own");
    expect_once(heads);
  }
  return all;
}

std::string description_of(const GroupChanges& changes) {
  std::string words;
  for (const auto& [name, heads] : changes)
    words += (words.empty() ? "" : "; ") + description_of(heads) + " of " + name;
  return words;
}

ChangedHeads::ChangedHeads(const GroupChanges& changes, Module& model) : layers_(attention_layers(model)) {
  try {
    for (const auto& [name, heads] : changes) change_heads(heads, layers_named(layers_, name));
  } catch (...) {
    restore(layers_);
    throw;
  }
}

ChangedHeads::~ChangedHeads() { restore(layers_); }

}  // namespace heed::inline v0
