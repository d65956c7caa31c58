#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "heed/tokenizer.h"

namespace heed::inline v0 {
namespace {

TEST(TokenizerThreads, ShareOne) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},)"
                           R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s"},"behavior":"Removed"}})",
                           "x");
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back("ab a " + std::string(static_cast<size_t>(i % 17), 'b') + " ab");
  std::vector<std::vector<int32_t>> alone;
  for (const std::string& text : texts) alone.push_back(tokenizer.encode(text).ids);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const Tokenizer copy = tokenizer;
      for (size_t i = 0; i < texts.size(); ++i) wrong[t] += copy.encode(texts[i]).ids != alone[i];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace heed::inline v0
