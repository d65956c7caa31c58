// Figures over the steps of a training, in files that TensorBoard reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// A file of TFRecords (tensorflow/core/lib/io/record_writer.h) of messages Event (tensorflow/core/util/event.proto)
/// that is only ever appended to.
class EventFile {
 public:
  using Scalars = std::vector<std::pair<std::string, double>>;

  /// Makes the next file of `directory`, which is made where it is missing: events.out.tfevents.TIME.heed. What files
  /// of before say of `step` and later steps counts no more. Throws IoError.
  EventFile(const std::string& directory, int64_t step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::string& path() const { return path_; }
  /// Throws IoError.
  void write(int64_t step, const Scalars& scalars);

 private:
  void append(std::string_view event);

  std::string path_;
  int fd_ = -1;
};

}  // namespace heed::inline v0
