// What the tests of files share: a directory of their own, and children that fail or die.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "heed/io.h"

namespace heed {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "heed-file-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  std::set<std::string> names(const std::string& directory = "") const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(root_ / directory)) found.insert(entry.path().filename().string());
    return found;
  }
  fs::path root_;
};

using Names = std::set<std::string>;

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no IoError";
}

inline int in_child(const std::function<int()>& f) {  // its exit code
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/// Runs f in a child that may write files of at most `limit` bytes, as on a full disk.
inline int with_file_limit(rlim_t limit, const std::function<int()>& f) {
  return in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);  // write() then fails with EFBIG
    const rlimit bound{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &bound);
    return f();
  });
}

}  // namespace heed
