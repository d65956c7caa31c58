#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/io.h"
#include "heed/text.h"
#include "tests/shared.h"

namespace heed::cli {
void add_inspect(CLI::App& program);

namespace {

namespace fs = std::filesystem;

class InspectCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "heed-inspect-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return (root_ / name).string(); }
  /// What it prints; `says` gets what it says of a checkpoint that is not heed's, else nothing may be wrong.
  static std::string run(const std::string& arguments, std::string* says = nullptr) {
    CLI::App program;
    add_inspect(program);
    testing::internal::CaptureStdout();
    try {
      program.parse("inspect " + arguments);
    } catch (const FormatError& e) {
      const std::string printed = testing::internal::GetCapturedStdout();
      if (!says) throw;
      *says = e.what();
      return printed;
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }
  void checkpoint() const {
    DirectoryTransaction t(at("model"));
    t.write("model.safetensors", [](FileWriter& file) {
      write_safetensors(file, {{"encoder.weight", Tensor::zeros({100, 30}, DType::f16)}, {"bias", Tensor::zeros({7})}},
                        {{"made by", "heed"}});
    });
    t.write("config.json", "{\n  \"layers\": 2,\n  \"dropout\": 0.1\n}\n");
    t.write("training.safetensors", [](FileWriter& file) { write_safetensors(file, {{"m", Tensor::zeros({3})}}); });
    t.commit();
    write_file_atomically(at("model/log.jsonl"), "{}\n");
  }
  fs::path root_;
};

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(InspectCommand, Checkpoint) {
  checkpoint();
  std::string says;
  const std::string text = run(at("model"), &says);
  EXPECT_MENTIONS(says, "model/config.json");  // another program's: listed, and said so
  EXPECT_MENTIONS(text, "encoder.weight  F16    (100, 30)  6,000\n");
  EXPECT_MENTIONS(text, "bias            F32    (7)           28\n");
  EXPECT_MENTIONS(text, "parameters  3,007\n");
  EXPECT_MENTIONS(text, "data        6,028 bytes (5.9 KiB)\n");
  EXPECT_MENTIONS(text, "metadata    \"made by\" = \"heed\"\n");
  EXPECT_MENTIONS(text, "\"layers\": 2");
  EXPECT_MENTIONS(text, "training.safetensors");
  EXPECT_MENTIONS(text, "other       log.jsonl, 3 bytes\n");
}

TEST_F(InspectCommand, CheckpointAsJson) {
  checkpoint();
  std::string says;
  const auto json = nlohmann::json::parse(run("--json " + at("model"), &says));
  EXPECT_EQ(json["files"][0]["file"], "model.safetensors");
  EXPECT_EQ(json["files"][0]["parameters"], 3007);
  EXPECT_EQ(json["files"][0]["tensors"][1]["shape"], (std::vector<int>{100, 30}));
  EXPECT_EQ(json["files"][0]["metadata"]["made by"], "heed");
  EXPECT_EQ(json["files"][1]["file"], "training.safetensors");
  EXPECT_EQ(json["config"]["layers"], 2);
  EXPECT_EQ(json["others"][0]["file"], "log.jsonl");
}

TEST_F(InspectCommand, VocabularySize) {
  checkpoint();
  fs::remove(at("model/config.json"));  // of no model of heed
  std::vector<std::string> lines;
  for (int i = 0; i < 200; ++i) lines.push_back("the dog and the hair " + std::to_string(i));
  const Vocabulary vocabulary = Vocabulary::train(lines, {.size = 290});
  write_file_atomically(at("model/vocabulary.txt"), vocabulary.to_text());
  EXPECT_MENTIONS(run(at("model")), "vocabulary  vocabulary.txt, 290 pieces, ");
}

TEST_F(InspectCommand, OneFile) {
  save_npy(at("a.npy"), Tensor::zeros({2, 3}, DType::f64));
  EXPECT_MENTIONS(run(at("a.npy")), "<f8    (2, 3)     48\n");
  save_npz(at("a.npz"), {{"x", Tensor::zeros({2})}, {"y", Tensor::zeros({})}});
  const auto json = nlohmann::json::parse(run("--json " + at("a.npz")));
  EXPECT_EQ(json["files"][0]["tensors"][1]["name"], "y");
  EXPECT_EQ(json["files"][0]["parameters"], 3);
  save_safetensors(at("none.safetensors"), {});
  EXPECT_MENTIONS(run(at("none.safetensors")), "tensors     0\n");
}

TEST_F(InspectCommand, NamesCannotCommandTheTerminal) {
  save_safetensors(at("a.safetensors"), {{"x\x1b[31m\nfake", Tensor::zeros({1})}}, {{"k\a", "v\x1b[2J"}});
  const std::string text = run(at("a.safetensors"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\a'), std::string::npos);
}

TEST_F(InspectCommand, Errors) {
  EXPECT_THROW(run(at("none")), IoError);
  fs::create_directory(root_ / "empty");
  EXPECT_THROW(run(at("empty")), FormatError);
  write_file_atomically(at("empty/config.json"), "{\"a\": 1, \"a\": 2}");
  EXPECT_THROW(run(at("empty")), FormatError);
  write_file_atomically(at("x.safetensors"), "short");
  EXPECT_THROW(run(at("x.safetensors")), FormatError);
}

TEST_F(InspectCommand, ConformanceCases) {
  HEED_NEEDS_SHARED("conformance/formats/manifest.json");
  const auto manifest = nlohmann::json::parse(read_file(test::shared_path("conformance/formats/manifest.json")));
  for (const auto& c : manifest) {
    const std::string path = test::shared_path("conformance/formats/" + c.at("file").get<std::string>());
    if (c.at("accept").get<bool>()) {
      EXPECT_NO_THROW(run(path)) << path;
    } else {
      EXPECT_THROW(run(path), FormatError) << path;
    }
  }
  EXPECT_GE(manifest.size(), 47U);
}

}  // namespace
}  // namespace heed::cli
