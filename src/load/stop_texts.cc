#include "load/stop_texts.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
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

struct StopStrings::Texts {
  explicit Texts(Tokenizer of) : tokenizer(std::move(of)) {}

  Tokenizer tokenizer;
  std::mutex mutex{};
  std::unordered_map<int32_t, std::optional<std::string>> of_token{};

  std::optional<std::string> of(int32_t id) {
    const std::lock_guard lock(mutex);
    const auto found = of_token.find(id);
    return found != of_token.end() ? found->second : of_token.emplace(id, tokenizer.own_text(id)).first->second;
  }
};

StopStrings::StopStrings(std::vector<std::string> stops, Tokenizer tokenizer)
    : stops_(std::move(stops)), texts_(std::make_shared<Texts>(std::move(tokenizer))) {
  for (const std::string& stop : stops_) longest_ = std::max(longest_, stop.size());
}

bool StopStrings::ends(std::span<const int32_t> ids) const {
  if (stops_.empty() || ids.empty()) return false;
  std::string text;
  size_t new_from = 0;
  for (const int32_t id : ids.last(std::min(ids.size(), longest_))) {  // as many tokens as transformers looks at
    const std::optional<std::string> own = texts_->of(id);
    if (!own) text.clear();  // an id without a token
    new_from = text.size();
    text += own.value_or("");
  }
  return std::any_of(stops_.begin(), stops_.end(), [&](const std::string& stop) {
    const size_t at = text.rfind(stop);
    return at != text.npos && at + stop.size() > new_from;
  });
}

}  // namespace heed::inline v0
