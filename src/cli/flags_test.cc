#include "cli/flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace heed::cli {
namespace {

TEST(Flags, FieldsAreNamedAsTheyWereTyped) {
  CLI::App command;
  for (const char* name : {"--batch-tokens", "--max-updates", "--anneal", "--batch", "--block", "--d-model", "--heads",
                           "--learning-rate", "--average", "--n-best", "--beam"})
    command.add_option(name);
  int64_t head = 0;
  command.add_option("--head", head);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"train: batch_tokens is 0; it must be 1 or more", "train: --batch-tokens is 0; it must be 1 or more"},
      {"train: anneal is 5; it must be at most max_updates, 1",
       "train: --anneal is 5; it must be at most --max-updates, 1"},
      {"Transformer: d_model 32 is not a multiple of nhead 5",
       "Transformer: --d-model 32 is not a multiple of --heads 5"},
      {"m/training.json: this run began with learning_rate 0.002, not 0.5; give the same",
       "m/training.json: this run began with --learning-rate 0.002, not 0.5; give the same"},
      {"x: this run began with average 8, not 2; give the same",
       "x: this run began with --average 8, not 2; give the same"},
      {"translate: n_best 5 is not in 1..4, the beam", "translate: --n-best 5 is not in 1..4, the beam"},
      {"translate: beam 0 is not in 1..1000", "translate: --beam 0 is not in 1..1000"},
      {"head 9 is not in 1..4", "--head 9 is not in 1..4"},
      {"head 9.9 is not there", "head 9.9 is not there"},  // a layer and its head
      // no flag of this command, a word of the sentence, a part of a path
      {"train: max_length is 0", "train: max_length is 0"},
      {"train: a batch is never empty, nor is the average", "train: a batch is never empty, nor is the average"},
      {"train: the text has 5 tokens, a block of 8 needs 9", "train: the text has 5 tokens, a block of 8 needs 9"},
      {"read /d_model/batch_tokens: no such file", "read /d_model/batch_tokens: no such file"},
  };
  for (const auto& [message, expected] : cases) EXPECT_EQ(with_flags(message, command), expected);
  // Messages may name files and values of any length.
  for (const char c : {'a', '_', ' ', '('}) {
    const std::string text(1'000'000, c);
    EXPECT_EQ(with_flags(text + ": batch is 0", command), text + ": --batch is 0");
  }
}

TEST(Flags, FilesAreNamedWithTheirOption) {
  CLI::App command;
  std::vector<std::string> pairs;
  std::string model, path;
  command.add_option("--pairs", pairs);
  command.add_option("-m,--model", model);
  command.add_option("path", path);
  command.parse("--pairs a.tsv none*.tsv --model m -- nope");
  const auto said = [&](const std::string& message) { return with_option(message, command); };
  EXPECT_EQ(said("open a.tsv: No such file or directory"), "--pairs a.tsv: No such file or directory");
  EXPECT_EQ(said("read none*.tsv: no file fits this pattern"), "--pairs none*.tsv: no file fits this pattern");
  EXPECT_EQ(said("list nope: Is a directory"), "nope: Is a directory");
  EXPECT_EQ(said("open m/config.json: gone"), "--model m: open m/config.json: gone");
  for (const char* other : {"open m2/config.json: gone", "open a.tsv2: gone", "write a.tsv: gone", "a.tsv: gone", ""})
    EXPECT_EQ(said(other), other);
}

}  // namespace
}  // namespace heed::cli
