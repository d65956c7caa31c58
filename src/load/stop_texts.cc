#include "load/stop_texts.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "text/unicode.h"

namespace heed::inline v0 {

StopTexts::StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) {
    if (stop.empty()) throw UsageError("generate: a text to stop at is empty; give the text that ends the output");
    if (!valid_utf8(stop))
      throw UsageError("generate: a text to stop at is not UTF-8 (" + std::to_string(stop.size()) +
                       " bytes); give whole characters");
  }
}

std::string StopTexts::push(std::string_view text) {
  if (stopped_) return {};
  text_ += text;
  return release(/*all=*/false);
}

std::string StopTexts::finish() {
  if (stopped_) return {};
  return release(/*all=*/true);
}

std::string StopTexts::release(bool all) {
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, text_.find(stop));
  if (end != std::string::npos) {
    stopped_ = true;
    return text_.substr(0, end);
  }
  size_t kept = 0;  // length of the longest suffix that begins a stop string
  if (!all)
    for (const std::string& stop : stops_)
      for (size_t n = std::min(stop.size() - 1, text_.size()); n > kept; --n)
        if (text_.ends_with(std::string_view(stop).substr(0, n))) kept = n;
  std::string certain = text_.substr(0, text_.size() - kept);
  text_.erase(0, certain.size());
  return certain;
}

StopStrings::StopStrings(std::vector<std::string> stops, Tokenizer tokenizer)
    : stops_(std::move(stops)), tokenizer_(std::move(tokenizer)) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

bool StopStrings::ends(std::span<const int32_t> ids) const {
  if (stops_.empty() || ids.empty()) return false;
  // A token has at least one byte, and the first of a row may lose its space.
  ids = ids.last(std::min(ids.size(), longest_ + 2));
  const std::string before = tokenizer_.decode(ids.first(ids.size() - 1), /*skip_special=*/false);
  const std::string text = tokenizer_.decode(ids, /*skip_special=*/false);
  const auto new_from = std::mismatch(before.begin(), before.end(), text.begin(), text.end()).second - text.begin();
  return std::any_of(stops_.begin(), stops_.end(), [&](const std::string& stop) {
    const size_t at = text.rfind(stop);
    return at != text.npos && at + stop.size() > static_cast<size_t>(new_from);
  });
}

}  // namespace heed::inline v0
