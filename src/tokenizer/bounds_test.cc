// Memory that untrusted tokenizers take: multiples of their files and of texts. SECURITY.md has the numbers.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "heed/tokenizer.h"
#include "tests/allocations.h"

namespace heed {
namespace {

constexpr size_t kOfFile = 100, kOfText = 2000, kAlways = 4 << 20;

// All that is asked of the system, given back or not.
size_t allocated_by(const std::function<void()>& f) {
  const size_t before = test::allocated_bytes();
  try {
    f();
  } catch (const FormatError&) {
  }
  return test::allocated_bytes() - before;
}

std::string repeated(const std::string& begin, size_t times, const std::function<std::string(size_t)>& one,
                     const std::string& end) {
  std::string text = begin;
  for (size_t i = 0; i < times; ++i) text += (i > 0 ? "," : "") + one(i);
  return text + end;
}

std::string with_model(const std::string& model, const std::string& more = "") {
  return R"({"model":)" + model + more + "}";
}

const std::string kSmall = R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0}})";

TEST(TokenizerBounds, LoadingTakesAMultipleOfTheFile) {
  constexpr size_t kMany = 50'000, kLong = 200;
  // Tokens of which no two begin alike take most of a trie.
  const auto unlike = [](size_t i) {
    std::string text = std::to_string(i * 7919 % kLong);
    return "\"" + text + std::string(4000, static_cast<char>('A' + i % 26)) + text;
  };
  const std::vector<std::pair<const char*, std::string>> files{
      {"numbers", with_model(kSmall, repeated(R"(,"x":[)", kMany * 10, [](size_t) { return "0"; }, "]"))},
      {"lists", with_model(kSmall, repeated(R"(,"x":[)", kMany * 10, [](size_t) { return "[]"; }, "]"))},
      {"members", with_model(kSmall, repeated(R"(,"x":{)", kMany,
                                              [](size_t i) { return "\"" + std::to_string(i) + "\":0"; }, "}"))},
      {"short tokens",
       with_model(repeated(R"({"type":"WordPiece","unk_token":"0","vocab":{)", kMany,
                           [](size_t i) { return "\"" + std::to_string(i) + "\":" + std::to_string(i); }, "}}"))},
      {"long tokens", with_model(repeated(R"({"type":"Unigram","unk_id":0,"vocab":[)", kLong,
                                          [&](size_t i) { return "[" + unlike(i) + "\",0]"; }, "]}"))},
      {"merges", with_model(R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2})" +
                            repeated(R"(,"merges":[)", kMany, [](size_t) { return "\"a b\""; }, "]}"))},
      {"added tokens",
       with_model(kSmall, repeated(R"(,"added_tokens":[)", kMany,
                                   [](size_t i) { return R"({"content":")" + std::to_string(i) + "\"}"; }, "]"))},
      {"added tokens that grow",
       with_model(kSmall, R"(,"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"bcdefg"})" +
                              repeated(R"(,"added_tokens":[)", kMany,
                                       [](size_t i) { return R"({"content":")" + std::to_string(i) + "a\"}"; }, "]"))},
      {"regular expressions",
       with_model(
           kSmall,
           R"(,"normalizer":{"type":"Sequence")" +
               repeated(R"(,"normalizers":[)", 1000,
                        [](size_t) {
                          return R"({"type":"Replace","pattern":{"Regex":"\\s+|[^\\s\\w]+|\\p{L}"},"content":""})";
                        },
                        "]}"))},
      {"a regular expression", with_model(kSmall, R"(,"normalizer":{"type":"Replace","pattern":{"Regex":")" +
                                                      repeated(
                                                          "", 30'000, [](size_t) { return "\\\\b"; }, "") +
                                                      R"("},"content":""})")},
      {"a template",
       with_model(kSmall, R"(,"post_processor":{"type":"TemplateProcessing","special_tokens":{"s":{"ids":[)" +
                              repeated(
                                  "", kMany, [](size_t) { return "0"; }, "") +
                              R"(]}},"pair":[])" +
                              repeated(R"(,"single":[)", kMany / 10,
                                       [](size_t) { return R"({"SpecialToken":{"id":"s"}})"; }, "]}"))},
  };
  for (const auto& [name, file] : files) {
    const size_t taken = allocated_by([&file = file] { Tokenizer::from_json(file, "tokenizer.json"); });
    EXPECT_LE(taken, kOfFile * file.size() + kAlways) << name << ": " << taken / file.size() << " times the file";
    RecordProperty(name, static_cast<int>(taken / file.size()));
  }
}

TEST(TokenizerBounds, SpecialTokensTakeAMultipleOfTheirFiles) {
  constexpr size_t kMany = 10'000;
  const auto number = [](size_t i) { return std::to_string(i); };
  const auto token = [&](size_t i) { return "\"" + number(i) + "\""; };
  const std::string json = with_model(
      R"({"type":"WordPiece","unk_token":"a","vocab":{"a":0,"[UNK]":1}})",
      repeated(R"(,"added_tokens":[)", kMany, [&](size_t i) { return R"({"content":)" + token(i) + "}"; }, "]"));
  const std::vector<std::pair<const char*, std::string>> lists{
      {"added_tokens_decoder",
       repeated(
           "{", kMany, [&](size_t i) { return token(i) + R"(:{"content":)" + token(i) + "}"; }, "}")},
      {"extra_special_tokens", repeated("[", kMany, token, "]")},
      {"extra_special_tokens", repeated(
                                   "{", kMany, [&](size_t i) { return token(i) + ":" + token(i); }, "}")},
      {"x_token", repeated(
                      "0", kMany, [&](size_t i) { return "\"" + number(i) + "_token\":" + token(i); }, "")}};
  for (const std::string name : {"PreTrainedTokenizerFast", "BertTokenizer"}) {
    for (const auto& [key, list] : lists) {
      const std::string config = R"({"tokenizer_class":")" + name + "\",\"" + key +
                                 "\":" + (list.starts_with('0') ? "0," + list.substr(1) : list) + "}";
      const TokenizerFiles files{
          .where = "model",
          .contains =
              [](const std::string& file) { return file == "tokenizer.json" || file == "tokenizer_config.json"; },
          .read = [&](const std::string& file) { return file == "tokenizer.json" ? json : config; }};
      const size_t size = json.size() + config.size();
      const size_t taken = allocated_by([&] { load_tokenizer(files); });
      EXPECT_LE(taken, kOfFile * size + kAlways) << name << ", " << key << ": " << taken / size << " times the files";
      RecordProperty(name + " " + key, static_cast<int>(taken / size));
    }
  }
}

TEST(TokenizerBounds, TextsTakeAMultipleOfThemselves) {
  const auto replace = [](const std::string& content) {
    return R"({"type":"Replace","pattern":{"String":"a"},"content":")" + content + "\"}";
  };
  const std::string bytes = [] {
    std::string vocab;
    for (int byte = 0; byte < 256; ++byte) {
      char token[32];
      std::snprintf(token, sizeof token, "%s\"<0x%02X>\":%d", byte ? "," : "", byte, byte);
      vocab += token;
    }
    return R"({"type":"BPE","byte_fallback":true,"merges":[],"vocab":{)" + vocab + "}";
  }();
  const std::vector<std::pair<const char*, std::string>> files{
      {"as it is", with_model(kSmall)},
      {"eight times", with_model(bytes + "}", R"(,"normalizer":)" + replace("abcdefgh"))},
      {"a thousand times", with_model(bytes + "}", R"(,"normalizer":)" + replace(std::string(1000, 'b')))},
      {"twice, forty times", with_model(kSmall, R"(,"normalizer":{"type":"Sequence","normalizers":[)" +
                                                    repeated(
                                                        "", 40, [&](size_t) { return replace("aa"); }, "]}"))},
      {"a suffix of each letter",
       with_model(bytes + R"(,"continuing_subword_prefix":")" + std::string(1000, 'p') + "\"}")},
      {"words of one letter",
       with_model(
           bytes + "}",
           R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"."},"behavior":"Isolated","invert":false},{"type":"Metaspace"},{"type":"Split","pattern":{"Regex":"."},"behavior":"Isolated","invert":false}]})")},
      {"four times in a template",
       with_model(
           bytes + "}",
           R"(,"post_processor":{"type":"TemplateProcessing","special_tokens":{},"pair":[],"single":[{"Sequence":{"id":"A"}},{"Sequence":{"id":"A"}},{"Sequence":{"id":"A"}},{"Sequence":{"id":"A"}}]})")}};
  for (const auto& [name, file] : files) {
    const Tokenizer tokenizer = Tokenizer::from_json(file, "tokenizer.json");
    for (const size_t size : {size_t{10}, size_t{100'000}}) {
      const std::string text(size, 'a');
      const size_t taken = allocated_by([&] { tokenizer.encode(text); });
      EXPECT_LE(taken, kOfText * size + (32 << 20)) << name << ": " << taken / size << " times the text";
      RecordProperty(std::string(name) + " " + std::to_string(size), static_cast<int>(taken / size));
    }
  }
}

}  // namespace
}  // namespace heed
