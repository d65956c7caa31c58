// What transports say when ranks cannot go on.
#pragma once

#include <sstream>
#include <string>

#include "heed/communicator.h"

namespace heed::inline v0 {

/// Rank `rank` has told why it cannot go on.
inline RankError failed(const char* operation, int rank, const std::string& reason) {
  return {std::string(operation) + ": rank " + std::to_string(rank) + " has failed: " + reason, true};
}

/// Rank `rank` has waited too long for rank `other`.
inline RankError late(const char* operation, int rank, int other, double seconds) {
  std::ostringstream text;
  text << operation << ": rank " << rank << " has waited " << seconds << " s for rank " << other
       << "; see whether rank " << other << " still runs, or set a longer time limit";
  return {text.str(), false};
}

/// Rank `other`, for which rank `rank` waits, is no more.
inline RankError gone(const char* operation, int rank, int other) {
  return {std::string(operation) + ": rank " + std::to_string(rank) + " waits for rank " + std::to_string(other) +
              ", which has ended without a word, killed perhaps, or out of memory; start all ranks again",
          false};
}

/// A message of another size than the one expected.
inline RankError unlike(const char* operation, int rank, int from, size_t came, size_t expected) {
  std::ostringstream text;
  text << operation << ": rank " << from << " sent " << came << " bytes and rank " << rank << " expects " << expected
       << "; start all ranks with the same options and data";
  return {text.str(), false};
}

}  // namespace heed::inline v0
