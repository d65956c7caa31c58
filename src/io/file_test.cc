#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "heed/io.h"
#include "io/directory_swap.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

class File : public testing::Test {
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

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no IoError";
}

int in_child(const std::function<int()>& f) {  // its exit code
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/// Runs f in a child that may write files of at most `limit` bytes, as on a full disk.
int with_file_limit(rlim_t limit, const std::function<int()>& f) {
  return in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);  // write() then fails with EFBIG
    const rlimit bound{limit, limit};
    ::setrlimit(RLIMIT_FSIZE, &bound);
    return f();
  });
}

TEST_F(File, ReadsBackAndReplaces) {
  write_file_atomically(at("a"), "one");
  EXPECT_EQ(read_file(at("a")), "one");
  write_file_atomically(at("a"), "");
  EXPECT_EQ(read_file(at("a")), "");
  const std::string large(1 << 20, 'x');
  write_file_atomically(at("a"), large);
  EXPECT_EQ(read_file(at("a")), large);
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(File, ReadLimit) {
  write_file_atomically(at("a"), "12345");
  EXPECT_EQ(read_file(at("a"), 5), "12345");
  EXPECT_THROW(read_file(at("a"), 4), FormatError);
  EXPECT_THROW(read_file("/dev/zero", 1000), FormatError);
}

TEST_F(File, ErrorsNamePathAndReason) {
  EXPECT_NE(error_of([&] { read_file(at("none")); }).find(at("none") + ": No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { read_file(root_.string()); }).find("Is a directory"), std::string::npos);
  write_file_atomically(at("file"), "x");
  EXPECT_NE(error_of([&] { write_file_atomically(at("file/below"), "y"); }).find("Not a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { write_file_atomically(at("none/below"), "y"); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { write_file_atomically(root_.string(), "y"); }).find("Is a directory"), std::string::npos);
  EXPECT_EQ(names(), Names{"file"});
}

TEST_F(File, FullDeviceIsAnErrorAndStaysADevice) {
  EXPECT_NE(error_of([] { write_file_atomically("/dev/full", "x"); }).find("No space left"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(File, FullDiskKeepsTheOldContent) {
  write_file_atomically(at("a"), "old");
  const int code = with_file_limit(100, [&] {
    const std::string text = error_of([&] { write_file_atomically(at("a"), std::string(1000, 'n')); });
    return text.find("File too large") != std::string::npos && text.find(at("a")) != std::string::npos ? 7 : 1;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(read_file(at("a")), "old");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(File, AThrowingCallbackLeavesNothing) {
  write_file_atomically(at("a"), "old");
  EXPECT_THROW(write_file_atomically(at("a"),
                                     [](FileWriter& file) {
                                       file.write("half");
                                       throw FormatError("stop");
                                     }),
               FormatError);
  EXPECT_EQ(read_file(at("a")), "old");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(File, ReadOnlyDirectory) {
  fs::create_directory(root_ / "model");
  write_file_atomically(at("model/a"), "old");
  for (const auto& path : {root_, root_ / "model"}) ::chmod(path.c_str(), 0555);
  const auto refused = [&](const std::function<void()>& f) {
    return error_of(f).find("Permission denied; check the permissions") != std::string::npos;
  };
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 9;  // root may write anywhere
    if (!refused([&] { write_file_atomically(at("model/a"), "new"); })) return 1;
    if (!refused([&] { write_file_atomically(at("b"), "new"); })) return 2;
    if (!refused([&] { DirectoryTransaction t(at("model")); })) return 3;
    return read_file(at("model/a")) == "old" ? 7 : 4;
  });
  for (const auto& path : {root_, root_ / "model"}) ::chmod(path.c_str(), 0700);
  if (code == 9) GTEST_SKIP() << "root that cannot become somebody else may write anywhere";
  EXPECT_EQ(code, 7);
  EXPECT_EQ(names(), Names{"model"});
}

TEST_F(File, PseudoFileSystemThatRefusesFiles) {  // refuses root, too
  EXPECT_NE(error_of([&] { write_file_atomically("/proc/heed-test", "x"); }).find("/proc/heed-test"),
            std::string::npos);
  EXPECT_NE(error_of([&] { DirectoryTransaction t("/proc/heed-test"); }).find("/proc"), std::string::npos);
}

TEST_F(File, FollowsSymbolicLinksAndKeepsTheMode) {
  write_file_atomically(at("real"), "old");
  ::chmod(at("real").c_str(), 0600);
  fs::create_symlink("real", root_ / "link");
  write_file_atomically(at("link"), "new");
  EXPECT_TRUE(fs::is_symlink(root_ / "link"));
  EXPECT_EQ(read_file(at("real")), "new");
  EXPECT_EQ(fs::status(root_ / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(File, WritesToAPipe) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(at("pipe")); });
  write_file_atomically(at("pipe"), "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(root_ / "pipe"));
}

// ------------------------------------------------------------------------------------------ DirectoryTransaction

TEST_F(File, TransactionCreatesThenReplaces) {
  {
    DirectoryTransaction t(at("deep/model/"));
    t.write("a", "a1");
    t.write("b", "b1");
    EXPECT_FALSE(fs::exists(root_ / "deep/model"));
    t.commit();
  }
  EXPECT_EQ(names("deep"), Names{"model"});
  write_file_atomically(at("deep/model/log"), "line\n");
  fs::create_directory(root_ / "deep/model/mine");
  write_file_atomically(at("deep/model/mine/note"), "note");
  const int log = ::open(at("deep/model/log").c_str(), O_WRONLY | O_APPEND);
  {
    DirectoryTransaction t(at("deep/model"));
    t.write("a", "a2");
    t.remove("b");
    EXPECT_EQ(read_file(at("deep/model/a")), "a1");
    t.commit();
  }
  EXPECT_EQ(names("deep"), Names{"model"});
  EXPECT_EQ(names("deep/model"), (Names{"a", "log", "mine"}));
  EXPECT_EQ(read_file(at("deep/model/a")), "a2");
  EXPECT_EQ(read_file(at("deep/model/mine/note")), "note");
  ASSERT_EQ(::write(log, "more\n", 5), 5);  // the log that was open is still the one in the directory
  ::close(log);
  EXPECT_EQ(read_file(at("deep/model/log")), "line\nmore\n");
}

TEST_F(File, TransactionWithoutCommitChangesNothing) {
  fs::create_directory(root_ / "model");
  write_file_atomically(at("model/a"), "a1");
  {
    DirectoryTransaction t(at("model"));
    t.write("a", "a2");
  }
  EXPECT_EQ(names(), Names{"model"});
  EXPECT_EQ(read_file(at("model/a")), "a1");
}

TEST_F(File, TransactionRefusesNamesAndPlaces) {
  DirectoryTransaction t(at("model"));
  for (const char* name : {"", ".", "..", "x/y", "/x"}) EXPECT_THROW(t.write(name, "x"), IoError) << name;
  t.write("a", "x");
  EXPECT_THROW(t.write("a", "y"), IoError);
  write_file_atomically(at("file"), "x");
  EXPECT_THROW(DirectoryTransaction(at("file")), IoError);
  EXPECT_THROW(DirectoryTransaction(at("file/below")), IoError);
  EXPECT_THROW(DirectoryTransaction("/"), IoError);
}

TEST_F(File, TransactionOnAFullDiskKeepsTheOldFiles) {
  fs::create_directory(root_ / "model");
  write_file_atomically(at("model/a"), "a1");
  const int code = with_file_limit(100, [&] {
    return error_of([&] {
             DirectoryTransaction t(at("model"));
             t.write("small", "fits");
             t.write("a", std::string(1000, 'n'));
             t.commit();
           }).find("File too large") != std::string::npos
               ? 7
               : 1;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(names(), Names{"model"});
  EXPECT_EQ(names("model"), Names{"a"});
  EXPECT_EQ(read_file(at("model/a")), "a1");
}

TEST_F(File, TransactionFollowsALinkAndTheWorkingDirectory) {
  fs::create_directory(root_ / "real");
  fs::create_directory_symlink("real", root_ / "link");
  write_file_atomically(at("real/a"), "a1");
  const fs::path before = fs::current_path();
  fs::current_path(root_ / "real");
  for (const char* content : {"a2", "a3"}) {
    DirectoryTransaction t(".");
    t.write("a", content);
    t.commit();
    EXPECT_EQ(read_file("a"), content);
  }
  fs::current_path(before);
  DirectoryTransaction t(at("link"));
  t.write("a", "a4");
  t.commit();
  EXPECT_TRUE(fs::is_symlink(root_ / "link"));
  EXPECT_EQ(read_file(at("real/a")), "a4");
}

TEST_F(File, StaleSiblingsGoAndLivingOnesStay) {
  fs::create_directory(root_ / ".model.99999-0.part");
  fs::create_directory(root_ / ".model.b.99999-0.part");  // belongs to the model "model.b"
  fs::create_directory(root_ / ".model.99998-0.part");
  const int living = ::open(at(".model.99998-0.part").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(living, LOCK_EX), 0);
  {
    DirectoryTransaction t(at("model"));
    t.write("a", "x");
    t.commit();
  }
  EXPECT_EQ(names(), (Names{"model", ".model.b.99999-0.part", ".model.99998-0.part"}));
  ::close(living);
  DirectoryTransaction t(at("model"));
  EXPECT_FALSE(fs::exists(root_ / ".model.99998-0.part"));
}

TEST_F(File, TwoRenamesAndRecovery) {
  fs::create_directory(root_ / "model");
  fs::create_directory(root_ / "part");
  write_file_atomically(at("model/a"), "old");
  write_file_atomically(at("part/a"), "new");
  replace_directory_by_two_renames(at("part"), at("model"), at(".model.previous"));
  EXPECT_EQ(read_file(at("model/a")), "new");
  EXPECT_EQ(read_file(at("part/a")), "old");
  EXPECT_EQ(names(), (Names{"model", "part"}));

  // Killed after the first rename: the old files come back.
  fs::rename(root_ / "model", root_ / ".model.previous");
  DirectoryTransaction::recover(at("model"));
  EXPECT_EQ(read_file(at("model/a")), "new");
  EXPECT_EQ(names(), (Names{"model", "part"}));
  // Killed after the second: the old files go.
  fs::rename(root_ / "part", root_ / ".model.previous");
  DirectoryTransaction::recover(at("model"));
  EXPECT_EQ(read_file(at("model/a")), "new");
  EXPECT_EQ(names(), Names{"model"});
}

TEST_F(File, KilledAtAnyMomentTheDirectoryIsWhole) {
  {
    DirectoryTransaction t(at("model"));
    t.write("a", "0");
    t.write("b", "0");
    t.commit();
  }
  const std::string large(100000, ' ');
  int moved = 0;
  for (int round = 0; round < 40 || (moved == 0 && round < 400); ++round) {  // on a busy machine none may commit
    const std::string before = read_file(at("model/a"));
    const pid_t child = ::fork();
    if (child == 0) {
      for (long n = std::stol(before) + 1;; ++n) {
        DirectoryTransaction t(at("model"));
        t.write("a", std::to_string(n) + large);
        t.write("b", std::to_string(n) + large);
        t.commit();
      }
    }
    ::usleep(static_cast<useconds_t>(500 + round * 613));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_EQ(names("model"), (Names{"a", "b"}));
    ASSERT_EQ(read_file(at("model/a")), read_file(at("model/b")));
    moved += read_file(at("model/a")) != before;
  }
  EXPECT_GT(moved, 0);
  DirectoryTransaction t(at("model"));
  t.write("a", "1");
  t.commit();
  EXPECT_EQ(names(), Names{"model"});
}

}  // namespace
}  // namespace heed
