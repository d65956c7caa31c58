#include "load/text_stream.h"

#include <algorithm>

#include "heed/text.h"

namespace heed::inline v0 {

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  bytes_ += bytes;
  const size_t whole = bytes_.size() - incomplete_utf8(bytes_);
  text_ += sanitize_utf8(std::string_view(bytes_).substr(0, whole));
  bytes_.erase(0, whole);
  return release(/*all=*/false);
}

std::string TextStream::finish() {
  if (stopped_) return {};
  text_ += sanitize_utf8(bytes_);
  bytes_.clear();
  return release(/*all=*/true);
}

std::string TextStream::release(bool all) {
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
