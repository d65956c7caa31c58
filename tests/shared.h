// Where the tests find data that is not part of the project. A test that needs it skips visibly without it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

// The build may name a place; the environment goes first.
#ifndef HEED_SHARED_DEFAULT
#define HEED_SHARED_DEFAULT "../shared"
#endif

namespace heed::test {

inline std::string shared_path(const std::string& relative) {
  const char* root = std::getenv("HEED_SHARED");
  return std::string(root ? root : HEED_SHARED_DEFAULT) + "/" + relative;
}

}  // namespace heed::test

/// HEED_NEEDS_SHARED("data/spa-eng/dev.tsv");
#define HEED_NEEDS_SHARED(relative)                                \
  if (!std::filesystem::exists(heed::test::shared_path(relative))) \
  GTEST_SKIP() << "needs shared/" << relative << ", which is not here"
