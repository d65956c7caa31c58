#include "heed/chat.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/testing.h"
#include "heed/io.h"
#include "heed/random.h"
#include "io/testing.h"
#include "jinja/program.h"

namespace heed::inline v0 {
namespace {

using nlohmann::json;

const std::vector<ChatMessage> kTalk = {
    {ChatRole::system, "Be kind."}, {ChatRole::user, "Hi "}, {ChatRole::assistant, "Hello"}, {ChatRole::user, "Bye"}};

// As the makers' templates write it.
TEST(ChatTemplate, Writes) {
  EXPECT_EQ(ChatTemplate("chatml").write(kTalk),
            "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n"
            "Hello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(ChatTemplate("llama3").write(kTalk),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
            "Hello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(ChatTemplate("llama2").write(kTalk),
            "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]");
  EXPECT_EQ(ChatTemplate("mistral").write(kTalk), "<s>[INST] Be kind.\n\nHi  [/INST]Hello</s>[INST] Bye [/INST]");
  EXPECT_EQ(ChatTemplate("gemma").write(kTalk),
            "<bos><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(ChatTemplate("phi3").write(kTalk),
            "<|system|>\nBe kind.<|end|>\n<|user|>\nHi <|end|>\n<|assistant|>\nHello<|end|>\n<|user|>\nBye<|end|>\n"
            "<|assistant|>\n");
  EXPECT_EQ(
      ChatTemplate("zephyr").write(kTalk),
      "<|system|>\nBe kind.</s>\n<|user|>\nHi </s>\n<|assistant|>\nHello</s>\n<|user|>\nBye</s>\n<|assistant|>\n");
  EXPECT_EQ(ChatTemplate("plain").write(kTalk), "Be kind.\n\nUser: Hi\nAssistant: Hello\nUser: Bye\nAssistant:");
  EXPECT_THROW(ChatTemplate("none"), UsageError);
  EXPECT_EQ(chat_templates().size(), 8u);
}

jinja::Dict variables_of(const json& c, const json& messages) {
  jinja::List talk;
  for (const json& m : messages)
    talk.emplace_back(
        jinja::Dict{{"role", m["role"].get<std::string>()}, {"content", m["content"].get<std::string>()}});
  jinja::Dict variables{
      {"messages", std::move(talk)}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", true}};
  for (const auto& [name, token] : c["tokens"].items())
    if (!token.is_null()) variables.emplace_back(name, token.get<std::string>());
  return variables;
}

// What a program makes of a conversation; "error: ..." where it does not run.
std::string made_of(const json& c, const json& messages) {
  try {
    std::vector<std::string> names;
    for (const auto& [name, token] : c["tokens"].items()) names.push_back(name);
    return jinja::Program(c["template"].get<std::string>(), names).run(variables_of(c, messages));
  } catch (const jinja::ProgramError& e) {
    return std::string("error: ") + e.what();
  }
}

// tests/models/make_chats.py prints them; HEED_CHAT_CASES names a file with others, drawn at random.
TEST(ChatProgram, WritesAsTransformersDoes) {
  const char* const other = std::getenv("HEED_CHAT_CASES");
  std::ifstream file(other ? other : HEED_CHATS);
  size_t written = 0, refused = 0, both_refuse = 0;
  for (const json& c : json::parse(file))
    for (const json& talk : c["talks"]) {
      SCOPED_TRACE(c["name"].get<std::string>() + "\n" + c["template"].get<std::string>() + "\n" + talk.dump());
      const std::string got = made_of(c, talk["messages"]);
      const bool refuses = got.starts_with("error: ");
      if (talk.contains("error")) {
        EXPECT_TRUE(refuses) << got;
        ++both_refuse;
      } else if (refuses && (c["name"] == "" || c["name"].get<std::string>().starts_with("refused"))) {
        ++refused;
      } else {
        EXPECT_EQ(got, talk["text"].get<std::string>());
        ++written;
      }
    }
  std::cout << written << " conversations written alike, " << both_refuse << " refused by both, " << refused
            << " by heed alone\n";
  EXPECT_GE(written, 60u);
}

std::string refusal(const std::string& program) {
  const json c = {{"template", program}, {"tokens", json::object()}};
  return made_of(c, json::array({json{{"role", "user"}, {"content", "Hi"}}}));
}

TEST(ChatProgram, SaysWhatItDoesNotRun) {
  EXPECT_EQ(refusal("a\n{% include 'b' %}"), "error: line 2: heed does not have the statement 'include'");
  EXPECT_EQ(refusal("{{ 'a' | urlize }}"), "error: heed does not have the filter 'urlize' of a text");
  EXPECT_EQ(refusal("{{ raise_exception('no: ' + messages[0].role) }}"), "error: no: user");
  EXPECT_EQ(refusal("{{ messages }}"), "error: heed does not write a list as Python does");
  for (const char* program : {"{{",
                              "{%",
                              "{#",
                              "{{ 'a }}",
                              "{{ a b }}",
                              "{% if %}{% endif %}",
                              "{% if a %}",
                              "{% endfor %}",
                              "{{ (a }}",
                              "{{ a) }}",
                              "{% for in b %}{% endfor %}",
                              "{{ a[ }}",
                              "{{ a ** b }}",
                              "{{ 'a\\N{x}' }}",
                              "{% raw %}{% endraw %}",
                              "{{ @ }}",
                              "{{ a is }}",
                              "{% set a.b.c = 1 %}",
                              "{% break %}",
                              "{% for a in b %}{% macro c() %}{% endmacro %}{% endfor %}",
                              "{{ 09 }}",
                              "{{ a.b }}",
                              "{{ 1 + 'a' }}",
                              "{{ nothing() }}",
                              "{{ 1 // 0 }}",
                              "{{ messages[0].content.format() }}",
                              "{{ namespace(1) }}",
                              "{% set a = {1: 2} %}",
                              "{{ strftime_now('%E') }}",
                              "{{ 9223372036854775807 + 1 }}",
                              "{{ range(-9223372036854775807 - 1, 5) | length }}",
                              "{{ range(100001) | length }}",
                              "{{ namespace(_a=1) }}",
                              "{{ namespace(__class__='x')['__class__'] }}",
                              "{{ dict(a=1, a=2) | length }}"})
    EXPECT_TRUE(refusal(program).starts_with("error: ")) << program << ": " << refusal(program);
}

// An untrusted program ends within bounded memory.
TEST(ChatProgram, IsBounded) {
  const auto nested = [](const std::string& open, const std::string& inner, const std::string& close, int times) {
    std::string program;
    for (int i = 0; i < times; ++i) program += open;
    program += inner;
    for (int i = 0; i < times; ++i) program += close;
    return program;
  };
  std::string long_sum = "{{ 1";
  for (int i = 0; i < 100000; ++i) long_sum += "+1";
  for (const std::string& program :
       {std::string("{% for i in range(100000000000) %}{% endfor %}"),
        std::string("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"),
        std::string("{{ 'a' * 100000000000 }}"),
        std::string("{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x "
                    "%}{% endfor %}"),
        std::string("{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = "
                    "ns.x.replace('a', ns.x) %}{% endfor %}"),
        std::string("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
        std::string("{% set ns = namespace(x=[1]) %}{% for i in range(999999) %}{% set ns.x = [ns.x] %}{% endfor %}"),
        std::string(
            "{% set ns = namespace(x={}) %}{% for i in range(999999) %}{% set ns.x = {'a': ns.x.items} %}{% endfor %}"),
        std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        nested("{{ ", nested("(", "1", ")", 100000), " }}", 1), nested("{% if 1 %}", "", "{% endif %}", 100000),
        nested("{{ ", nested("[", "1", "]", 100000), " }}", 1),
        nested("{{ ", nested("not ", "1", "", 100000), " }}", 1), nested("{{ ", nested("-", "1", "", 100000), " }}", 1),
        nested("{{ 1", nested("|string", "", "", 100000), " }}", 1),
        nested("{{ a", nested(".a", "", "", 100000), " }}", 1), long_sum + " }}",
        std::string(std::size_t{3} << 20, 'a')})
    EXPECT_TRUE(refusal(program).starts_with("error: ")) << program.substr(0, 80);
  // Namespaces that hold each other and themselves are freed (the address sanitizer looks).
  EXPECT_EQ(refusal("{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.x = b %}{% set a.y = [a] %}b"), "b");
}

// Each program does much work for each of its operations. Without a count of that work it takes minutes, or all memory.
TEST(ChatProgram, CountsTheWorkOfOperations) {
  const std::string shared =
      "{% set ns = namespace(a=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}";
  std::string chain = "x", maps = "'map'", names = "{% macro m(";
  for (int i = 0; i < 17; ++i) chain = "(0<" + chain + "<1)";
  for (int i = 0; i < 15000; ++i) maps += ",'map'";
  for (int i = 0; i < 2000; ++i) names += "a" + std::to_string(i) + ",";
  const std::string text = "{% set x = 'a' * 4000000 %}", loop = "{% for i in range(99999) %}";
  for (const std::string& program :
       {shared + "{{ ns.a == ns.a }}",
        shared + "{{ ns.a in [ns.a] }}",
        shared + "{{ ns.a is eq(ns.a) }}",
        shared + "{{ [ns.a, ns.a] | unique | list | length }}",
        shared + "{{ ns.a | tojson | length }}",
        "{{ " + chain + " }}",
        "{% set ns = namespace(l=[" + std::string(100000, 'a') +
            "]) %}{% for i in range(13) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
        "{{ 'a' | map(" + maps + ") | list | length }}",
        names + ") %}{% endmacro %}",
        text + "{% set y = 'a' * 2000000 ~ 'b' %}{{ y in x }}",
        text + "{% set y = 'a' * 2000000 ~ 'b' %}{{ x.split(y) | length }}",
        text + "{% set y = 'a' * 2000000 ~ 'b' %}{{ x.replace(y, '') | length }}",
        text + "{% set y = 'a' * 2000000 ~ 'b' %}{{ x.find(y) }}{{ x.count(y) }}",
        text + loop + "{{ x[-3999999] }}{% endfor %}",
        text + loop + "{{ x[3999999] }}{% endfor %}",
        text + loop + "{{ x[3999998:] }}{% endfor %}",
        text + loop + "{{ x | length }}{% endfor %}",
        text + loop + "{{ x.strip('a') }}{% endfor %}",
        text + "{% set y = x ~ '' %}" + loop + "{{ x == y }}{% endfor %}",
        text + "{% set y = x ~ '' %}" + loop + "{{ x < y }}{% endfor %}",
        text + "{% set y = x ~ '' %}" + loop + "{{ x.startswith(y) }}{% endfor %}",
        text + "{% set y = x ~ '' %}{% set d = {x: 1} %}" + loop + "{{ d[y] }}{% endfor %}",
        text + loop + "{{ [] | map(x) | list | length }}{% endfor %}",
        text + loop + "{{ [] | selectattr('role', x) | list | length }}{% endfor %}",
        text + loop + "{{ [] | join(x) }}{% endfor %}",
        text + loop + "{{ strftime_now(x) }}{% endfor %}",
        text + "{{ x.strip(x) }}",
        text + "{{ x[::-1] }}",
        text + "{{ x | list | length }}",
        text + "{% set ns = namespace(l=[]) %}" + loop + "{% set ns.l = ns.l + [ns[x]] %}{% endfor %}"}) {
    const std::clock_t before = std::clock();
    EXPECT_TRUE(refusal(program).starts_with("error: ")) << program.substr(0, 200);
    constexpr double kMost = 20;  // seconds of processor time; about one is needed without sanitizers
    EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, kMost) << program.substr(0, 200);
  }
}

using ChatDirectory = FileTest;

TEST_F(ChatDirectory, HasItsTemplate) {
  const std::vector<ChatMessage> said = {{ChatRole::user, "Hi"}};
  const auto put = [&](const std::string& file, const std::string& text) { write_file_atomically(at(file), text); };
  const auto writes = [&] { return chat_template_of(root_.string()).write(said); };
  EXPECT_EQ(writes(), "User: Hi\nAssistant:");
  put("tokenizer.json", "{}");
  put("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}{{ messages[0].content }}", "bos_token": "<s>"})");
  EXPECT_EQ(writes(), "<s>Hi");
  put("tokenizer_config.json",
      R"({"chat_template": "{{ bos_token }}.", "bos_token": {"content": "<b>", "__type": "AddedToken"}})");
  EXPECT_EQ(writes(), "<b>.");
  put("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}.", "bos_token": null})");
  EXPECT_EQ(writes(), ".");
  put("tokenizer_config.json",
      R"({"chat_template": "{{ bos_token }}.", "tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_EQ(writes(), ".");
  put("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}.", "tokenizer_class": "LlamaTokenizer"})");
  EXPECT_EQ(writes(), "<s>.");  // the class has one
  put("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}.", "tokenizer_class": "CohereTokenizer"})");
  EXPECT_THROW(writes(), UnsupportedTemplateError);  // the class may have one
  put("tokenizer_config.json", R"({"chat_template": "{{ image_token }}.", "tokenizer_class": "CohereTokenizer"})");
  EXPECT_THROW(writes(), UnsupportedTemplateError);
  put("tokenizer_config.json",
      R"({"chat_template": "{% set image_token = 1 %}{{ image_token }}{% for a_token in [2] %}{{ a_token }}{% endfor %}",
                                   "tokenizer_class": "CohereTokenizer"})");
  EXPECT_EQ(writes(), "12");
  put("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}.", "tokenizer_class": "CohereTokenizer"})");
  put("special_tokens_map.json", R"({"bos_token": "<m>"})");
  EXPECT_EQ(writes(), "<m>.");
  put("special_tokens_map.json", "{}");
  const std::string defined = "{{ bos_token is defined }}{{ image_token is defined }}";
  put("tokenizer_config.json",
      R"({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": ")" + defined + R"(", "bos_token": ""})");
  EXPECT_EQ(writes(), "TrueFalse");  // only null is no token
  put("special_tokens_map.json", R"({"bos_token": null})");
  EXPECT_EQ(writes(), "FalseFalse");
  put("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tool"},
                                                     {"name": "default", "template": "default"}]})");
  EXPECT_EQ(writes(), "default");
  put("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tool"}]})");
  EXPECT_THROW(writes(), UsageError);
  put("tokenizer_config.json", "{}");
  put("chat_template.json", R"({"chat_template": "of a processor"})");
  EXPECT_THROW(writes(), UsageError);
  put("tokenizer_config.json", R"({"chat_template": "old"})");
  put("chat_template.jinja", "new");
  EXPECT_EQ(writes(), "new");  // the file of its own comes first
  const auto expect_refused = [&](const std::string& text, const std::string& part, bool unsupported) {
    put("chat_template.jinja", text);
    try {
      writes();
      ADD_FAILURE() << text;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      EXPECT_EQ(dynamic_cast<const UnsupportedTemplateError*>(&e) != nullptr, unsupported) << e.what();
    }
  };
  expect_refused("{% include 'a' %}",
                 "statement 'include'; name one of chatml, gemma, llama2, llama3, mistral, phi3, plain", true);
  expect_refused("{{ messages | xmlattr }}", "filter 'xmlattr' of a list; name one of chatml", true);
  expect_refused("{{ raise_exception('System role not supported') }}",
                 "the model's template does not take the conversation: System role not supported", false);
  expect_refused("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
                 "it takes more steps than a conversation needs; name one of chatml", false);
  expect_refused("{{ 'a' * 99999999999 }}", "it makes more text than a conversation needs; name one of chatml", false);
}

// tests/models/make_chat_directories.py prints the directories, and what transformers writes by them.
TEST_F(ChatDirectory, WritesAsTransformersDoes) {
  std::ifstream file(HEED_CHAT_DIRECTORIES);
  size_t written = 0, refused = 0, number = 0;
  for (const json& c : json::parse(file)) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const std::filesystem::path directory = at(std::to_string(number++));
    for (const auto& [name, content] : c["files"].items()) {
      std::filesystem::create_directories((directory / name).parent_path());
      write_file_atomically(directory / name, content.is_string() ? content.get<std::string>() : content.dump());
    }
    const std::vector<ChatMessage> said = {{ChatRole::user, "Hi"}};
    try {
      const std::string text = chat_template_of(directory.string()).write(said);
      if (c.contains("error")) {
        ADD_FAILURE() << text << ", where transformers has " << c["error"];
      } else {
        EXPECT_EQ(text, c["text"].get<std::string>());
      }
      ++written;
    } catch (const Error& e) {
      if (!c.contains("error") && !c["name"].get<std::string>().starts_with("refused")) ADD_FAILURE() << e.what();
      ++refused;
    }
  }
  EXPECT_GE(written, 60u);
  EXPECT_LE(refused, 16u);
}

TEST_F(ChatDirectory, OrAGgufFileHasIt) {
  const auto file_with = [&](const std::string& text) {
    GgufBytes file;
    file.text("tokenizer.chat_template", text).texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
    file.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.eos_token_id", 3).write(at("m.gguf"));
    return at("m.gguf");
  };
  const std::vector<ChatMessage> said = {{ChatRole::user, "Hi"}};
  EXPECT_EQ(
      chat_template_of(file_with("{{ bos_token }}{{ messages[0].content }}{{ eos_token is defined }}")).write(said),
      "<s>HiFalse");  // 3 is no token of the file
  EXPECT_EQ(chat_template_of(file_with("")).write(said), "User: Hi\nAssistant:");
  EXPECT_THROW(chat_template_of(file_with("{{ pad_token }}")), UnsupportedTemplateError);  // the file may not name all
  EXPECT_THROW(chat_template_of(file_with("{% include 'a' %}")), UnsupportedTemplateError);
}

// As their tokenizer.
TEST_F(ChatDirectory, OfAdaptersIsThatOfTheBase) {
  std::filesystem::create_directories(at("base"));
  std::filesystem::create_directories(at("adapters"));
  write_file_atomically(at("base/tokenizer.json"), "{}");
  write_file_atomically(at("base/chat_template.jinja"), "of the base");
  const auto names_base = [&](const std::string& base) {
    const json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 2}, {"base_model_name_or_path", base}};
    write_file_atomically(at("adapters/adapter_config.json"), config.dump());
  };
  const std::vector<ChatMessage> said = {{ChatRole::user, "Hi"}};
  names_base(at("base"));
  EXPECT_EQ(chat_template_of(at("adapters")).write(said), "of the base");
  names_base("org/name");
  EXPECT_EQ(chat_template_of(at("adapters"), at("base")).write(said), "of the base");
  EXPECT_THROW(chat_template_of(at("adapters")), IoError);
  write_file_atomically(at("adapters/tokenizer.json"), "{}");
  write_file_atomically(at("adapters/chat_template.jinja"), "its own");
  EXPECT_EQ(chat_template_of(at("adapters")).write(said), "its own");
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
    const std::string text = ChatTemplate("plain").write(std::span(chat.messages()).first(turn));
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
