#include "heed/chat.h"

#include <gtest/gtest.h>

#include "heed/io.h"
#include "heed/random.h"
#include "io/testing.h"

namespace heed::inline v0 {
namespace {

const std::vector<ChatMessage> kTalk = {
    {ChatRole::system, "Be kind."}, {ChatRole::user, "Hi "}, {ChatRole::assistant, "Hello"}, {ChatRole::user, "Bye"}};

// As the makers' templates write it.
TEST(ChatTemplate, Writes) {
  EXPECT_EQ(write_chat("chatml", kTalk),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n"
            "Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(write_chat("llama3", kTalk),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
            "Hello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(write_chat("llama2", kTalk),
            "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]");
  EXPECT_EQ(write_chat("mistral", kTalk), "<s>[INST] Be kind.\n\nHi  [/INST]Hello</s>[INST] Bye [/INST]");
  EXPECT_EQ(write_chat("gemma", kTalk),
            "<bos><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(write_chat("phi3", kTalk),
            "<|system|>\nBe kind.<|end|>\n<|user|>\nHi <|end|>\n<|assistant|>\nHello<|end|>\n<|user|>\nBye<|end|>\n"
            "<|assistant|>\n");
  EXPECT_EQ(
      write_chat("zephyr", kTalk),
      "<|system|>\nBe kind.</s>\n<|user|>\nHi </s>\n<|assistant|>\nHello</s>\n<|user|>\nBye</s>\n<|assistant|>\n");
  EXPECT_EQ(write_chat("plain", kTalk), "Be kind.\n\nUser: Hi\nAssistant: Hello\nUser: Bye\nAssistant:");
  EXPECT_THROW(write_chat("none", kTalk), UsageError);
  EXPECT_EQ(chat_templates().size(), 8u);
}

using ChatDirectory = FileTest;

TEST_F(ChatDirectory, IsKnownByItsMarks) {
  EXPECT_EQ(chat_template_of(root_.string()), "plain");
  const auto put = [&](const std::string& file, const std::string& text) { write_file_atomically(at(file), text); };
  put("tokenizer_config.json", R"({"chat_template": "{{ '<|im_start|>' + m }}<|im_end|>"})");
  EXPECT_EQ(chat_template_of(root_.string()), "chatml");
  put("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "[INST] {{ m }} [/INST]"}]})");
  EXPECT_EQ(chat_template_of(root_.string()), "mistral");
  put("chat_template.jinja", "<|start_header_id|>user<|end_header_id|><|eot_id|>");
  EXPECT_EQ(chat_template_of(root_.string()), "llama3");  // the file of its own comes first
  put("chat_template.jinja", "{{ 'something new' }}");
  EXPECT_THROW(chat_template_of(root_.string()), UsageError);
}

StoredModel small_model() {
  manual_seed(5);
  const Vocabulary vocabulary = Vocabulary::characters("User:Asistan hello\n");
  LanguageModelConfig config{.vocab_size = vocabulary.size(),
                             .d_model = 16,
                             .nhead = 2,
                             .num_layers = 2,
                             .dim_feedforward = 32,
                             .positions = "rotary",
                             .max_positions = 512};
  auto model = std::make_unique<LanguageModel>(config);
  model->eval();
  return {std::move(model), vocabulary};
}

TEST(ChatWithAModel, AnswersAsTheWholeConversationIsGoneOnWith) {
  const StoredModel model = small_model();
  std::string seen;
  const ContinueOptions options{.tokens = {.max_tokens = 12, .sampling = {.temperature = 0}},
                                .on_text = [&](const std::string& text) { seen += text; }};
  Chat chat(model, "plain", "Be nice", options);
  std::string all;
  for (const std::string said : {"hello", "a", "is it"}) all += chat.answer(said);
  EXPECT_EQ(seen, all);
  ASSERT_EQ(chat.messages().size(), 7u);
  for (const size_t turn : {2u, 4u, 6u}) {
    const std::string text = write_chat("plain", std::span(chat.messages()).first(turn));
    ContinueOptions again = options;
    again.on_text = {};
    again.stop = {"\nUser:"};
    std::string answer;
    Continuation more(model, text, again);
    for (std::string piece; !(piece = more.next()).empty();) answer += piece;
    answer.erase(0, answer.find_first_not_of(' '));
    EXPECT_EQ(chat.messages()[turn].content, answer);
  }
  EXPECT_THROW(Chat(model, "chatml"), UsageError);  // its marks are no tokens
}

}  // namespace
}  // namespace heed::inline v0
