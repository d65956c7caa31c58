#include "heed/timeline.h"

#include <algorithm>
#include <utility>

namespace heed::inline v0 {

void Timeline::begin() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  threads_.clear();
  start_ = Clock::now();
  notes_ = true;
}

void Timeline::add(Span span, Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  if (!notes_ || begin < start_) return;
  const auto since_start = [&](Clock::time_point t) { return std::chrono::duration<double>(t - start_).count(); };
  const auto known = std::find(threads_.begin(), threads_.end(), std::this_thread::get_id());
  span.thread = static_cast<int>(known - threads_.begin());
  if (known == threads_.end()) threads_.push_back(std::this_thread::get_id());
  span.begin = since_start(begin), span.end = since_start(end);
  spans_.push_back(std::move(span));
}

std::vector<Timeline::Span> Timeline::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

}  // namespace heed::inline v0
