#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <fstream>
#include <map>
#include <stop_token>
#include <thread>

#include "io/testing.h"

namespace heed {
namespace {

class Directory : public FileTest {
 protected:
  /// Commits these contents by name; an empty one removes.
  void save(const std::string& directory, const std::map<std::string, std::string>& files) const {
    DirectoryTransaction t(at(directory));
    for (const auto& [name, content] : files) content.empty() ? t.remove(name) : void(t.write(name, content));
    t.commit();
  }
  /// What a kill right behind the commit leaves: parts, and the journal that names them.
  void commit_and_die(const std::string& directory, const std::map<std::string, std::string>& files) const {
    std::string renames, removals;
    for (const auto& [name, content] : files) {
      if (content.empty()) {
        removals += (removals.empty() ? "\"" : ", \"") + name + "\"";
        continue;
      }
      const std::string part = "." + name + ".heed-0123456789abcdef.part";
      write_file_atomically(at(directory + "/" + part), content);
      renames += (renames.empty() ? "" : ", ") + (R"({"from": ")" + part + R"(", "to": ")" + name + "\"}");
    }
    write_file_atomically(at(directory + "/.heed-journal"),
                          R"({"format": 1, "rename": [)" + renames + R"(], "remove": [)" + removals + "]}");
  }
  /// "NAME=CONTENT " of those that are there, as readers find them.
  std::string seen(const std::string& directory, const std::vector<std::string>& wanted) const {
    const DirectorySnapshot files(at(directory), wanted);
    std::string text;
    for (const std::string& name : wanted)
      if (files.contains(name)) text += name + "=" + files.read(name) + " ";
    return text;
  }
};

struct Identity {
  dev_t device;
  ino_t inode;
  int64_t seconds, nanoseconds;
  mode_t mode;
  std::string content;
  bool operator==(const Identity&) const = default;
};

/// Everything below a directory that no transaction may touch, by path.
std::map<std::string, Identity> identities(const fs::path& root, const std::set<std::string>& but) {
  std::map<std::string, Identity> all;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (but.contains(entry.path().filename().string())) continue;
    struct stat s {};
    ::lstat(entry.path().c_str(), &s);
    const bool file = entry.is_regular_file() && !entry.is_symlink();
    all[entry.path().string()] = {s.st_dev,          s.st_ino,  s.st_mtim.tv_sec,
                                  s.st_mtim.tv_nsec, s.st_mode, file ? read_file(entry.path().string()) : ""};
  }
  return all;
}

TEST_F(Directory, CreatesThenReplaces) {
  save("deep/model/", {{"config.json", "a1"}, {"vocabulary.txt", "b1"}});
  EXPECT_EQ(names("deep"), Names{"model"});
  EXPECT_EQ(names("deep/model"), (Names{"config.json", "vocabulary.txt"}));
  write_file_atomically(at("deep/model/log"), "line\n");
  const int log = ::open(at("deep/model/log").c_str(), O_WRONLY | O_APPEND);
  {
    DirectoryTransaction t(at("deep/model"));
    t.write("config.json", "a2");
    t.remove("vocabulary.txt");
    EXPECT_EQ(read_file(at("deep/model/config.json")), "a1");
    EXPECT_EQ(seen("deep/model", {"config.json", "vocabulary.txt"}), "config.json=a1 vocabulary.txt=b1 ");
    t.commit();
    EXPECT_EQ(seen("deep/model", {"config.json", "vocabulary.txt"}), "config.json=a2 ");
    t.write("config.json", "a3");
    t.write("vocabulary.txt", "b3");
    t.commit();
    EXPECT_EQ(seen("deep/model", {"config.json", "vocabulary.txt"}), "config.json=a3 vocabulary.txt=b3 ");
  }
  EXPECT_EQ(names("deep/model"), (Names{"config.json", "vocabulary.txt", "log"}));
  ASSERT_EQ(::write(log, "more\n", 5), 5);  // the log that was open is still the one in the directory
  ::close(log);
  EXPECT_EQ(read_file(at("deep/model/log")), "line\nmore\n");
}

TEST_F(Directory, WithoutCommitNothingChanges) {
  save("model", {{"config.json", "a1"}});
  {
    DirectoryTransaction t(at("model"));
    t.write("config.json", "a2");
    t.write("MODEL_CARD.md", "n");
  }
  EXPECT_EQ(names("model"), Names{"config.json"});
  EXPECT_EQ(read_file(at("model/config.json")), "a1");
  {
    DirectoryTransaction t(at("new/deep"));
    EXPECT_EQ(t.made(), (std::vector<std::string>{at("new"), at("new/deep")}));
    t.write("config.json", "a");
  }
  EXPECT_EQ(names(), Names{"model"});
  {
    DirectoryTransaction t(at("new/deep"));
    write_file_atomically(at("new/mine"), "mine");
  }
  EXPECT_EQ(names("new"), Names{"mine"});
}

TEST_F(Directory, RefusesNamesAndPlaces) {
  DirectoryTransaction t(at("model"));
  for (const char* name :
       {"notes.txt", "checkpoint-of-mine.safetensors", "checkpoint-.safetensors", "Config.json", "", ".", "..", "x/y",
        "/x", ".heed-journal", ".heed-lock", ".config.json.heed-0123456789abcdef.part"}) {
    EXPECT_THROW(t.write(name, "x"), IoError) << name;
    EXPECT_THROW(t.remove(name), IoError) << name;
  }
  t.write("config.json", "x");
  EXPECT_THROW(t.write("config.json", "y"), IoError);
  EXPECT_THROW(t.remove("config.json"), IoError);
  write_file_atomically(at("file"), "x");
  EXPECT_THROW(DirectoryTransaction(at("file")), IoError);
  EXPECT_THROW(DirectoryTransaction(at("file/below")), IoError);
  EXPECT_THROW(DirectoryTransaction("/proc/heed-test"), IoError);  // refuses root, too
}

TEST_F(Directory, LinksAndDirectoriesInThePlaceOfFilesAreNeitherFollowedNorReplaced) {
  save("model", {{"config.json", "a1"}});
  write_file_atomically(at("mine"), "mine");
  fs::create_symlink("../mine", root_ / "model/vocabulary.txt");
  fs::create_symlink("gone", root_ / "model/train.toml");
  fs::create_directory(root_ / "model/training.json");
  ASSERT_EQ(::mkfifo(at("model/MODEL_CARD.md").c_str(), 0600), 0);
  const auto before = identities(root_, {});
  for (const char* name : {"vocabulary.txt", "train.toml", "training.json", "MODEL_CARD.md"}) {
    const std::string error = error_of([&] {
      DirectoryTransaction t(at("model"));
      t.write("config.json", "a2");
      t.write(name, "x");
    });
    EXPECT_NE(error.find(at("model/") + name + ": it is "), std::string::npos) << error;
  }
  save("model", {{"training.json", ""}, {"config.json", "a3"}});
  save("model", {{"config.json", "a1"}});
  EXPECT_EQ(read_file(at("mine")), "mine");
  EXPECT_EQ(names("model"), (Names{"config.json", "vocabulary.txt", "train.toml", "training.json", "MODEL_CARD.md"}));
  for (const auto& [path, identity] : identities(root_, {"model", "config.json"}))
    EXPECT_TRUE(before.at(path) == identity) << path;
}

TEST_F(Directory, FullDiskKeepsTheOldFiles) {
  save("model", {{"config.json", "a1"}});
  const int code = with_file_limit(100, [&] {
    return error_of([&] {
             save("model", {{"config.json", std::string(1000, 'n')}, {"training.json", "fits"}});
           }).find("File too large") != std::string::npos
               ? 7
               : 1;
  });
  EXPECT_EQ(code, 7);
  EXPECT_EQ(names("model"), Names{"config.json"});
  EXPECT_EQ(read_file(at("model/config.json")), "a1");
}

TEST_F(Directory, ALinkToItAndTheWorkingDirectory) {
  fs::create_directory(root_ / "real");
  fs::create_directory_symlink("real", root_ / "link");
  const fs::path before = fs::current_path();
  fs::current_path(root_ / "real");
  for (const char* content : {"a2", "a3"}) {
    DirectoryTransaction t(".");
    t.write("config.json", content);
    t.commit();
    EXPECT_EQ(read_file("config.json"), content);
  }
  fs::current_path(before);
  save("link", {{"config.json", "a4"}});
  EXPECT_TRUE(fs::is_symlink(root_ / "link"));
  EXPECT_EQ(read_file(at("real/config.json")), "a4");
}

TEST_F(Directory, ReplacedFilesKeepTheirPermissions) {
  save("model", {{"config.json", "a1"}});
  ::chmod(at("model").c_str(), 0710);
  ::chmod(at("model/config.json").c_str(), 0640);
  struct stat before {
  }, after{};
  ::stat(at("model").c_str(), &before);
  save("model", {{"config.json", "a2"}});
  ::stat(at("model").c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(before.st_mode, after.st_mode);
  ::stat(at("model/config.json").c_str(), &after);
  EXPECT_EQ(after.st_mode & 07777, 0640u);
}

TEST_F(Directory, AParentThatMayNotBeWrittenTo) {
  save("parent/model", {{"config.json", "a1"}});
  ::chmod(at("parent/model").c_str(), 0777);
  ::chmod(at("parent/model/config.json").c_str(), 0666);
  ::chmod(at("parent").c_str(), 0555);
  ::chmod(root_.c_str(), 0755);
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 9;  // root may write anywhere
    save("parent/model", {{"config.json", "a2"}, {"vocabulary.txt", "b2"}});
    if (error_of([&] {
          save("parent/new", {{"config.json", "x"}});
        }).find("check the permissions") == std::string::npos)
      return 1;
    return seen("parent/model", {"config.json", "vocabulary.txt"}) == "config.json=a2 vocabulary.txt=b2 " ? 7 : 2;
  });
  ::chmod(at("parent").c_str(), 0700);
  if (code == 9) GTEST_SKIP() << "root that cannot become somebody else may write anywhere";
  EXPECT_EQ(code, 7);
  EXPECT_EQ(names("parent"), Names{"model"});
}

TEST_F(Directory, AReadOnlyDirectoryKeepsItsFiles) {
  save("model", {{"config.json", "a1"}});
  for (const auto& path : {root_ / "model", root_}) ::chmod(path.c_str(), 0555);
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 9;
    if (error_of([&] { save("model", {{"config.json", "a2"}}); }).find("check the permissions") == std::string::npos)
      return 1;
    return seen("model", {"config.json"}) == "config.json=a1 " ? 7 : 2;
  });
  for (const auto& path : {root_, root_ / "model"}) ::chmod(path.c_str(), 0700);
  if (code == 9) GTEST_SKIP() << "root that cannot become somebody else may write anywhere";
  EXPECT_EQ(code, 7);
  EXPECT_EQ(names("model"), Names{"config.json"});
}

TEST_F(Directory, WhatWasCommittedIsReadWithoutWritingAndCompletedByTheNextWriter) {
  save("model", {{"config.json", "a1"}, {"vocabulary.txt", "b1"}, {"training.json", "c1"}});
  commit_and_die("model", {{"config.json", "a2"}, {"vocabulary.txt", ""}, {"train.toml", "d2"}});
  const auto before = identities(root_, {});
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt", "training.json", "train.toml", "MODEL_CARD.md"}),
            "config.json=a2 training.json=c1 train.toml=d2 ");
  EXPECT_EQ(list_files(at("model")), (std::vector<std::string>{"config.json", "train.toml", "training.json"}));
  EXPECT_TRUE(identities(root_, {}) == before);
  fs::rename(root_ / "model/.config.json.heed-0123456789abcdef.part",
             root_ / "model/config.json");  // killed one rename later
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt", "training.json", "train.toml", "MODEL_CARD.md"}),
            "config.json=a2 training.json=c1 train.toml=d2 ");
  { DirectoryTransaction t(at("model")); }
  EXPECT_EQ(names("model"), (Names{"config.json", "training.json", "train.toml"}));
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt", "training.json", "train.toml", "MODEL_CARD.md"}),
            "config.json=a2 training.json=c1 train.toml=d2 ");
}

TEST_F(Directory, WhatCannotBeRenamedIsStillReadAndCompletedLater) {
  save("model", {{"config.json", "a1"}, {"vocabulary.txt", "b1"}});
  commit_and_die("model", {{"config.json", "a2"}, {"vocabulary.txt", "b2"}});
  fs::remove(root_ / "model/vocabulary.txt");
  fs::create_directory(root_ / "model/vocabulary.txt");
  EXPECT_NE(error_of([&] {
              save("model", {{"config.json", "a3"}});
            }).find(at("model/vocabulary.txt") + ": Is a directory"),
            std::string::npos);
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt"}), "config.json=a2 vocabulary.txt=b2 ");
  fs::remove(root_ / "model/vocabulary.txt");
  save("model", {{"config.json", "a3"}});
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt"}), "config.json=a3 vocabulary.txt=b2 ");
  EXPECT_EQ(names("model"), (Names{"config.json", "vocabulary.txt"}));
}

TEST_F(Directory, JournalsOfOthersAreRefused) {
  write_file_atomically(at("victim"), "mine");
  fs::create_directory(root_ / "model");
  write_file_atomically(at("model/config.json"), "a1");
  write_file_atomically(at("model/notes.txt"), "mine");
  const std::string part = ".config.json.heed-0123456789abcdef.part",
                    of_notes = ".notes.txt.heed-0123456789abcdef.part";
  write_file_atomically(at("model/" + of_notes), "theirs");
  const auto renames = [](const std::string& from, const std::string& to) {
    return R"({"format": 1, "rename": [{"from": ")" + from + R"(", "to": ")" + to + R"("}], "remove": []})";
  };
  const auto removes = [](const std::string& names) {
    return R"({"format": 1, "rename": [], "remove": [)" + names + "]}";
  };
  for (const std::string& journal :
       {std::string("{"), std::string("{}"), std::string(R"({"format": 2, "rename": [], "remove": []})"),
        removes(R"("../victim")"), removes(R"("..")"), removes("1"), removes(R"("notes.txt")"),
        removes(R"("config.json", "notes.txt")"), removes(R"("checkpoint-of-mine.safetensors")"), removes(R"("")"),
        renames(of_notes, "notes.txt"), renames(part, "notes.txt"), renames(part, "../victim"),
        renames("../victim", "config.json"), renames("victim", "config.json"), renames("notes.txt", "config.json"),
        renames(of_notes, "config.json"), renames(part, "vocabulary.txt")}) {
    write_file_atomically(at("model/.heed-journal"), journal);
    const auto before = identities(root_, {"model"});
    EXPECT_THROW(DirectoryTransaction(at("model")), FormatError) << journal;
    EXPECT_THROW(DirectorySnapshot(at("model"), {"config.json"}), FormatError) << journal;
    EXPECT_THROW(list_files(at("model")), FormatError) << journal;
    EXPECT_TRUE(identities(root_, {"model"}) == before) << journal;
  }
  fs::remove(root_ / "model/.heed-journal");
  fs::create_symlink("../victim", root_ / "model/.heed-journal");
  EXPECT_THROW(DirectoryTransaction(at("model")), IoError);
  EXPECT_THROW(DirectorySnapshot(at("model"), {"config.json"}), IoError);
}

TEST_F(Directory, OneTransactionAtATime) {
  {
    DirectoryTransaction first(at("model"));
    EXPECT_NE(error_of([&] {
                DirectoryTransaction second(at("model"));
              }).find("another run of heed is writing in " + at("model")),
              std::string::npos);
    first.write("config.json", "a1");
    first.commit();
  }
  EXPECT_EQ(names("model"), Names{"config.json"});
  write_file_atomically(at("model/.heed-lock"), "");  // of one that was killed
  save("model", {{"config.json", "a2"}});
  EXPECT_EQ(names("model"), Names{"config.json"});
}

TEST_F(Directory, WhatAKilledTransactionLeftGoesWithTheNextAndNothingElse) {
  save("model", {{"config.json", "a1"}});
  EXPECT_EQ(in_child([&]() -> int {
              DirectoryTransaction t(at("model"));
              t.write("config.json", "a2");
              t.write("vocabulary.txt", "b2");
              ::kill(::getpid(), SIGKILL);
              return 0;
            }),
            255);
  EXPECT_EQ(names("model").size(), 4u);
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt"}), "config.json=a1 ");
  EXPECT_EQ(list_files(at("model")), std::vector<std::string>{"config.json"});
  save("model", {{"training.json", "c1"}});
  EXPECT_EQ(names("model"), (Names{"config.json", "training.json"}));
}

// Trees beside the directory were how heed saved before it had journals.
TEST_F(Directory, SiblingsOfAnEarlierHeed) {
  fs::create_directories(root_ / ".model.99999-0.part/mine");
  fs::create_directories(root_ / ".model.previous");
  const std::string error = error_of([&] { DirectoryTransaction t(at("model")); });
  EXPECT_NE(error.find("rename that to " + at("model")), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { DirectorySnapshot files(at("model"), {"config.json"}); }), error);
  EXPECT_EQ(names(), (Names{".model.99999-0.part", ".model.previous"}));
  fs::rename(root_ / ".model.previous", root_ / "model");
  save("model", {{"config.json", "a1"}});
  EXPECT_EQ(names(), (Names{".model.99999-0.part", "model"}));
  EXPECT_EQ(names(".model.99999-0.part"), Names{"mine"});
}

TEST_F(Directory, SnapshotsOfWhatIsNotThere) {
  EXPECT_NE(error_of([&] { DirectorySnapshot files(at("none"), {"config.json"}); }).find("none: No such file"),
            std::string::npos);
  fs::create_directory(root_ / "model");
  fs::create_directory(root_ / "model/training.json");
  EXPECT_THROW(DirectorySnapshot(at("model"), {"training.json"}), IoError);
  const DirectorySnapshot files(at("model"), {"config.json"});
  EXPECT_NE(error_of([&] { files.read("config.json"); }).find(at("model/config.json") + ": No such file"),
            std::string::npos);
  EXPECT_THROW(files.safetensors("config.json"), IoError);
}

TEST_F(Directory, SnapshotsOutliveTheFiles) {
  save("model", {{"config.json", "a1"}});
  const DirectorySnapshot files(at("model"), {"config.json"});
  save("model", {{"config.json", ""}});
  EXPECT_EQ(files.read("config.json"), "a1");
  EXPECT_EQ(files.read("config.json"), "a1");
  EXPECT_THROW(files.read("config.json", 1), FormatError);
}

TEST_F(Directory, ChecksumsAreThoseOfGzip) {
  DirectoryTransaction t(at("model"));
  const Checksum sum = t.write("config.json", [](FileWriter& file) {
    file.write("1234");
    file.write("56789");
  });
  t.commit();
  EXPECT_EQ(sum.bytes, 9u);
  EXPECT_EQ(sum.crc32, 0xCBF43926u);  // the check value of CRC-32/ISO-HDLC in the RevEng catalogue
  EXPECT_TRUE(checksum_of_file(at("model/config.json")) == sum);
}

// The next two run in memory where there is such a file system: 10,000 saves wait for no disk.
class InMemory : public Directory {
 protected:
  void SetUp() override {
    if (::access("/dev/shm", W_OK) != 0) return Directory::SetUp();
    std::string pattern = "/dev/shm/heed-file-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
};

TEST_F(InMemory, FilesOfOthersSurviveTenThousandSaves) {
  save("model", {{"config.json", "0"}, {"vocabulary.txt", "0"}});
  fs::create_directories(root_ / "model/notes/deep");
  for (const char* path : {"model/mine.txt", "model/.hidden", "model/notes/one", "model/notes/deep/two",
                           "model/checkpoint-of-mine.safetensors", "beside"})
    write_file_atomically(at(path), path);
  fs::create_symlink("notes/one", root_ / "model/link");
  fs::create_hard_link(root_ / "model/mine.txt", root_ / "model/notes/hard");
  const std::set<std::string> own = {"config.json", "vocabulary.txt", "training.json", "model"};
  const auto before = identities(root_, own);
  ASSERT_EQ(before.size(), 10u);
  int written = 0;
  std::jthread user([&](const std::stop_token& stop) {  // makes files meanwhile
    for (; !stop.stop_requested(); ++written) {
      std::ofstream(root_ / "model/notes" / std::to_string(written)) << written;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  {
    DirectoryTransaction t(at("model"));
    for (int i = 1; i <= 10000; ++i) {
      t.write("config.json", std::to_string(i));
      t.write("vocabulary.txt", std::to_string(i));
      i % 2 ? void(t.write("training.json", "c")) : t.remove("training.json");
      t.commit();
    }
  }
  user.request_stop();
  user.join();
  EXPECT_EQ(seen("model", {"config.json", "vocabulary.txt", "training.json"}),
            "config.json=10000 vocabulary.txt=10000 ");
  for (const auto& [path, identity] : before) {
    if (path == at("model/notes")) continue;  // its time is that of the newest file
    const auto after = identities(fs::path(path).parent_path(), own);
    ASSERT_TRUE(after.contains(path)) << path;
    EXPECT_TRUE(after.at(path) == identity) << path;
  }
  for (int i = 0; i < written; ++i) ASSERT_EQ(read_file(at("model/notes/" + std::to_string(i))), std::to_string(i));
}

TEST_F(InMemory, ReadersBesideAWriterFindWholeSets) {
  save("model", {{"config.json", "0"}, {"vocabulary.txt", "0"}});
  int saves = 0;
  std::jthread writer([&](const std::stop_token& stop) {
    DirectoryTransaction t(at("model"));
    for (; !stop.stop_requested(); ++saves) {
      for (const char* name : {"config.json", "vocabulary.txt"}) t.write(name, std::to_string(saves));
      saves % 2 ? void(t.write("training.json", std::to_string(saves))) : t.remove("training.json");
      t.commit();
      // In bursts: in memory they come faster than anything looks twice.
      if (saves % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::set<std::string> different;
  for (int i = 0; i < 2000; ++i) {
    const DirectorySnapshot files(at("model"), {"config.json", "vocabulary.txt", "training.json"});
    const std::string a = files.read("config.json");
    different.insert(a);
    EXPECT_EQ(files.read("vocabulary.txt"), a);
    EXPECT_EQ(files.contains("training.json"), std::stoi(a) % 2 == 1);
    if (files.contains("training.json")) {
      EXPECT_EQ(files.read("training.json"), a);
    }
  }
  writer.request_stop();
  writer.join();
  EXPECT_GT(saves, 1);
  EXPECT_GT(different.size(), 1u);
}

TEST_F(Directory, FilesInMemory) {
  save_safetensors(at("t"), {{"x", Tensor::from({1, 2, 3}, {3})}});
  const DirectorySnapshot files =
      DirectorySnapshot::in_memory("here", {{"config.json", "some"}, {"t.safetensors", read_file(at("t"))}});
  EXPECT_EQ(files.names(), (std::vector<std::string>{"config.json", "t.safetensors"}));
  EXPECT_TRUE(files.contains("config.json") && !files.contains("vocabulary.txt"));
  EXPECT_EQ(files.read("config.json"), "some");
  EXPECT_EQ(files.path("config.json"), "here/config.json");
  EXPECT_EQ(DirectorySnapshot::in_memory("here/", {}).path("config.json"), "here/config.json");
  EXPECT_THROW(files.read("config.json", 3), FormatError);
  EXPECT_THROW(files.read("vocabulary.txt"), IoError);
  EXPECT_THROW(files.safetensors("config.json"), FormatError);
  Tensor tensor;
  {
    const DirectorySnapshot copy = files;  // NOLINT(performance-unnecessary-copy-initialization)
    tensor = copy.safetensors("t.safetensors").tensor("x");
  }
  EXPECT_EQ(tensor.at<int32_t>(2), 3);
  EXPECT_EQ(DirectorySnapshot(at(""), {"t", "u"}).names(), std::vector<std::string>{"t"});
}

TEST_F(Directory, KilledAtAnyMomentTheSetIsWhole) {
  save("model", {{"config.json", "0"}, {"vocabulary.txt", "0"}});
  const std::string large(100000, ' ');
  int moved = 0;
  for (int round = 0; round < 40 || (moved == 0 && round < 400); ++round) {  // on a busy machine none may commit
    const std::string before = DirectorySnapshot(at("model"), {"config.json"}).read("config.json");
    const pid_t child = ::fork();
    if (child == 0) {
      DirectoryTransaction t(at("model"));
      for (long n = std::stol(before) + 1;; ++n) {
        t.write("config.json", std::to_string(n) + large);
        t.write("vocabulary.txt", std::to_string(n) + large);
        t.commit();
      }
    }
    ::usleep(static_cast<useconds_t>(500 + round * 613));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const DirectorySnapshot files(at("model"), {"config.json", "vocabulary.txt"});
    ASSERT_EQ(files.read("config.json"), files.read("vocabulary.txt"));
    moved += files.read("config.json") != before;
  }
  EXPECT_GT(moved, 0);
  save("model", {{"config.json", "1"}});
  EXPECT_EQ(names("model"), (Names{"config.json", "vocabulary.txt"}));
}

}  // namespace
}  // namespace heed
