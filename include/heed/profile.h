// Time by operation, for `heed bench --profile` and `heed train --timeline`. Costs one test of a pointer where nobody
// asks.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "heed/timeline.h"

namespace heed::inline v0 {

class Profile {
 public:
  struct Entry {
    double forward_seconds = 0, backward_seconds = 0;
    int64_t calls = 0;
  };
  std::map<std::string, Entry> entries;
  Timeline* timeline = nullptr;  // notes each operation, where there is one

  /// The profile that this thread's operations are added to; null for none.
  static Profile*& active();
};

/// Adds the time of its own life to the active profile.
class ProfileScope {
 public:
  explicit ProfileScope(const char* name, bool backward = false)
      : profile_(Profile::active()), name_(name), backward_(backward) {
    if (profile_) start_ = std::chrono::steady_clock::now();
  }
  ~ProfileScope() {
    if (!profile_) return;
    const auto end = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(end - start_).count();
    auto& entry = profile_->entries[name_];
    (backward_ ? entry.backward_seconds : entry.forward_seconds) += seconds;
    entry.calls += !backward_;
    if (!profile_->timeline) return;
    const std::string name = std::string(name_) + (backward_ ? " backward" : "");
    profile_->timeline->add({.kind = Timeline::Kind::operation, .name = name}, start_, end);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Profile* profile_;
  const char* name_;
  bool backward_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace heed::inline v0
