#include "load/stop_texts.h"

#include <algorithm>

namespace heed::inline v0 {

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
  size_t kept = 0;  // the longest end of the text that begins a stop string
  if (!all)
    for (const std::string& stop : stops_)
      for (size_t n = std::min(stop.size() - 1, text_.size()); n > kept; --n)
        if (text_.ends_with(std::string_view(stop).substr(0, n))) kept = n;
  std::string certain = text_.substr(0, text_.size() - kept);
  text_.erase(0, certain.size());
  return certain;
}

}  // namespace heed::inline v0
