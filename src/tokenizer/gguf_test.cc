// Tokenizers in GGUF files; scripts/test-tokenizers compares larger ones with the tokenizers package.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "core/testing.h"
#include "heed/error.h"
#include "heed/tokenizer.h"

namespace heed {
namespace {

using Ids = std::vector<int32_t>;
using Types = std::vector<uint32_t>;

class GgufTokenizer : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  Tokenizer load(const GgufBytes& file) const {
    file.write(path_);
    return load_tokenizer(path_);
  }
  void expect_refused(const GgufBytes& file, const std::string& part) const {
    try {
      load(file);
      ADD_FAILURE() << "taken, not refused with: " << part;
    } catch (const FormatError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("heed_gguf_tokenizer_" + std::to_string(getpid()))).string();
};

const std::string kMark = "\u2581";

GgufBytes sentencepiece(bool prefix) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens",
             {"<unk>", "<s>", "</s>", "<0x21>", kMark, "a", "b", kMark + "a", "ab", "  ", "<x>"});
  file.numbers<uint32_t>("tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1, 1, 1, 1, 4, 4});
  file.numbers<float>("tokenizer.ggml.scores", {0, 0, 0, 0, -9, -9, -9, -2, -1, 0, 0});
  file.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.eos_token_id", 2);
  return file.flag("tokenizer.ggml.add_space_prefix", prefix);
}

TEST_F(GgufTokenizer, MergesByScores) {
  const Tokenizer llama = load(sentencepiece(true));
  EXPECT_EQ(llama.encode("ab").ids, (Ids{1, 4, 8}));  // "ab" before the mark and "a"
  EXPECT_EQ(llama.encode("aa", false).ids, (Ids{7, 5}));
  EXPECT_EQ(llama.encode("  a", false).ids, (Ids{9, 7}));  // a mark more; two of them are the run of spaces
  EXPECT_EQ(llama.encode("!?", false).ids, (Ids{4, 3, 0}));
  EXPECT_EQ(llama.encode("a<x>a</s>", false).ids, (Ids{7, 10, 7, 2}));  // each part begins with a mark
  EXPECT_EQ(llama.decode(Ids{1, 7, 8, 4, 3}), "aab !");
  EXPECT_TRUE(llama.special(2));
  EXPECT_FALSE(llama.special(10));
  EXPECT_EQ(llama.encode_pair("a", "b").ids, (Ids{1, 7, 1, 4, 6}));
  const Tokenizer gemma = load(sentencepiece(false).flag("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(gemma.encode("a").ids, (Ids{1, 5, 2}));
  EXPECT_EQ(gemma.encode(" a  ", false).ids, (Ids{7, 9}));
  EXPECT_EQ(gemma.decode(Ids{7}), " a");
}

GgufBytes byte_level(const std::string& pre) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2");
  if (!pre.empty()) file.text("tokenizer.ggml.pre", pre);
  file.texts("tokenizer.ggml.tokens", {"1", "a", "b", "\u0120", "ab", "11", "1111", "<end>"});
  file.numbers<uint32_t>("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, 1, 3});
  file.texts("tokenizer.ggml.merges", {"a b", "1 1", "11 11"});
  return file.integer("tokenizer.ggml.bos_token_id", 7).integer("tokenizer.ggml.eos_token_id", 7);
}

TEST_F(GgufTokenizer, WordsByName) {
  EXPECT_EQ(load(byte_level("gpt-2")).encode("ab 11111<end>").ids, (Ids{4, 3, 6, 0, 7}));
  EXPECT_EQ(load(byte_level("llama-bpe")).encode("ab11111").ids, (Ids{7, 4, 5, 0, 5}));  // three digits at most
  EXPECT_EQ(load(byte_level("qwen2")).encode("11").ids, (Ids{0, 0}));
  EXPECT_EQ(load(byte_level("smollm")).encode("ab11").ids, (Ids{4, 0, 0}));
  EXPECT_EQ(load(byte_level("gpt-2").flag("tokenizer.ggml.add_bos_token", true)).encode("a").ids, (Ids{7, 1}));
  EXPECT_EQ(load(byte_level("llama-bpe").flag("tokenizer.ggml.add_bos_token", false)).encode("a").ids, (Ids{1}));
  EXPECT_EQ(load(byte_level("mpt")).encode("ab 11111").ids, (Ids{4, 3, 6, 0}));
  EXPECT_EQ(load(byte_level("tekken")).encode("ab11").ids, (Ids{7, 4, 0, 0}));            // digit by digit
  EXPECT_EQ(load(byte_level("falcon")).encode("ab11111", false).ids, (Ids{4, 5, 0, 5}));  // three, then the rest
  EXPECT_EQ(load(byte_level("deepseek-coder")).encode("ab 11a").ids, (Ids{4, 3, 0, 0, 1}));
  for (const char* name : {"default", ""})
    EXPECT_EQ(load(byte_level(name)).encode("ab11111").ids, (Ids{4, 5, 0, 5})) << name;
  expect_refused(byte_level("deepseek-llm"), "'tokenizer.ggml.pre' is 'deepseek-llm'; heed has gpt-2, mpt");
}

GgufBytes wordpiece(const std::string& word) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "bert");
  file.texts("tokenizer.ggml.tokens",
             {"[PAD]", "[UNK]", "[CLS]", "[SEP]", kMark + word, "s", kMark + ",", "[unused1]"});
  return file.numbers<uint32_t>("tokenizer.ggml.token_type", {3, 3, 3, 3, 1, 1, 1, 1});
}

TEST_F(GgufTokenizer, Wordpieces) {
  const Tokenizer bert = load(wordpiece("word"));
  EXPECT_EQ(bert.encode("Words, x").ids, (Ids{2, 4, 5, 6, 1, 3}));
  EXPECT_EQ(bert.token(5), "##s");
  EXPECT_EQ(bert.decode(Ids{2, 4, 5, 6, 3}), "words,");
  const Tokenizer cased = load(wordpiece("Word"));  // capitals are told apart where there are any
  EXPECT_EQ(cased.encode("Word word", false).ids, (Ids{4, 1}));
  EXPECT_EQ(load(wordpiece("w").integer("tokenizer.ggml.seperator_token_id", 0)).encode("").ids, (Ids{2, 0}));
}

TEST_F(GgufTokenizer, FactsThatAreMissingOrBroken) {
  using B = GgufBytes;
  const auto tokens = [](const std::vector<std::string>& t) {
    return B().text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", t);
  };
  expect_refused(B(), "the file has no tokenizer");
  expect_refused(B().texts("tokenizer.ggml.tokens", {"a"}), "'tokenizer.ggml.model' is ''");
  expect_refused(B().texts("tokenizer.ggml.tokens", {"a"}).text("tokenizer.ggml.model", "rwkv"),
                 "is 'rwkv'; heed reads llama, gpt2 and bert");
  expect_refused(tokens({"a\xff"}), "of UTF-8");
  expect_refused(tokens({std::string(1025, 'a')}), "at most 1024 bytes");
  expect_refused(tokens({"a"}), "scores' does not have one number for each token");
  expect_refused(tokens({"a"}).numbers<float>("tokenizer.ggml.scores", {std::nanf("")}), "not finite");
  expect_refused(tokens({"a"}).numbers<uint32_t>("tokenizer.ggml.token_type", {1, 1}), "one number for each token");
  expect_refused(tokens({"a"}).numbers<float>("tokenizer.ggml.scores", {0}).integer("tokenizer.ggml.bos_token_id", 1),
                 "is 1; there are 1 tokens");
  expect_refused(tokens({"a"}).numbers<float>("tokenizer.ggml.scores", {0}).flag("tokenizer.ggml.add_eos_token", true),
                 "is not there, and texts end with it");
  B bad;
  bad.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.tokens", {"a"});
  expect_refused(B(bad).texts("tokenizer.ggml.merges", {"a b"}), "needs the token 'b'");
  expect_refused(B(bad).texts("tokenizer.ggml.merges", {"a"}), "is no merge");
  B words;
  words.text("tokenizer.ggml.model", "bert").texts("tokenizer.ggml.tokens", {"[UNK]", "[CLS]"});
  expect_refused(words, "has no [SEP]");
}

TEST_F(GgufTokenizer, CutAndChangedAnywhere) {
  for (const GgufBytes& file : {sentencepiece(true), byte_level("llama-bpe"), wordpiece("word")}) {
    const std::string good = file.bytes();
    const auto try_it = [&](const std::string& bytes) {
      write_anew(path_, bytes);
      try {
        const Tokenizer tokenizer = load_tokenizer(path_);
        tokenizer.decode(tokenizer.encode("a Words, 11<x> \xff").ids);
        return true;
      } catch (const FormatError& e) {
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
      }
      return false;
    };
    EXPECT_TRUE(try_it(good));
    for (size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(try_it(good.substr(0, length)));
    for (size_t at = 0; at < good.size(); ++at)
      for (const int change : {1, 0x20, 0xFF}) {
        std::string bytes = good;
        bytes[at] = static_cast<char>(bytes[at] ^ change);
        try_it(bytes);
      }
  }
}

}  // namespace
}  // namespace heed
