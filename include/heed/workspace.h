// Workspace: scratch memory that a caller keeps, so that calls after the first allocate nothing.
#pragma once

#include <cstddef>
#include <memory>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// Grows to what the largest call needed. One call at a time: threads that call at once need one each.
class Workspace {
 public:
  size_t size() const { return bytes_; }  // bytes held

 private:
  friend class WorkspaceAccess;
  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
};

}  // namespace heed::inline v0
