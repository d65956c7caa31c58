#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "io/testing.h"

namespace heed {
namespace {

class File : public FileTest {};

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

TEST_F(File, WhatAKilledWriterLeftGoesWithTheNextWriteOfTheSameFile) {
  const int code = in_child([&] {
    write_file_atomically(at("a"), [](FileWriter& file) {
      file.write("half");
      ::kill(::getpid(), SIGKILL);
    });
    return 0;
  });
  EXPECT_EQ(code, 255);  // no exit status of its own
  ASSERT_EQ(names().size(), 1u);
  const std::string part = *names().begin();
  EXPECT_TRUE(part.starts_with(".a.heed-") && part.ends_with(".part")) << part;
  write_file_atomically(at("b"), "b");
  EXPECT_EQ(names(), (Names{"b", part}));  // of another file
  write_file_atomically(at("a"), "a");
  EXPECT_EQ(names(), (Names{"a", "b"}));
}

TEST_F(File, WritersAtWorkAreLeftAlone) {
  write_file_atomically(at("a"), [&](FileWriter& file) {
    file.write("outer");
    write_file_atomically(at("a"), "inner");
    EXPECT_EQ(read_file(at("a")), "inner");
  });
  EXPECT_EQ(read_file(at("a")), "outer");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(File, TemporaryFilesOfOthersStay) {
  const Names others{
      ".a.heed-0123456789abcdef.part.bak", ".a.heed-0123456789ABCDEF.part",  ".a.heed-.part", ".a.99999-0.part",
      ".b.heed-0123456789abcdef.part",     ".a.b.heed-0123456789abcdef.part"};
  for (const std::string& name : others) write_file_atomically(at(name), "mine");
  write_file_atomically(at(".a.heed-0123456789abcdef.part"), "left by a killed writer");
  fs::create_directory(root_ / ".a.heed-0000000000000000.part");
  write_file_atomically(at("a"), "new");
  Names expected = others;
  expected.insert({"a", ".a.heed-0000000000000000.part"});
  EXPECT_EQ(names(), expected);
}

TEST_F(File, TheLongestName) {
  const std::string name(255, 'x');
  write_file_atomically(at(name), "one");
  write_file_atomically(at(name), "two");
  EXPECT_EQ(read_file(at(name)), "two");
  EXPECT_EQ(names(), Names{name});
}

TEST_F(File, ALinkThatLeadsNowhereStays) {
  fs::create_symlink("gone", root_ / "link");
  EXPECT_NE(error_of([&] { write_file_atomically(at("link"), "new"); }).find("leads nowhere"), std::string::npos);
  EXPECT_EQ(names(), Names{"link"});
}

TEST_F(File, ReplacedFilesKeepTheirOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  write_file_atomically(at("a"), "old");
  ASSERT_EQ(::chown(at("a").c_str(), 12345, 23456), 0);
  write_file_atomically(at("a"), "new");
  struct stat status {};
  ASSERT_EQ(::stat(at("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12345u);
  EXPECT_EQ(status.st_gid, 23456u);
}

TEST_F(File, ADirectoryThatMayNotBeListed) {
  fs::create_directory(root_ / "drop");
  ::chmod(at("drop").c_str(), 0333);
  ::chmod(root_.c_str(), 0755);
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 9;
    write_file_atomically(at("drop/a"), "one");
    write_file_atomically(at("drop/a"), "two");
    return read_file(at("drop/a")) == "two" ? 7 : 1;
  });
  ::chmod(at("drop").c_str(), 0755);
  if (code == 9) GTEST_SKIP() << "root that cannot become somebody else may list anything";
  EXPECT_EQ(code, 7);
  EXPECT_EQ(names("drop"), Names{"a"});
}

}  // namespace
}  // namespace heed
