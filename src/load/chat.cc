#include "heed/chat.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "heed/io.h"
#include "io/json.h"
#include "load/stop_texts.h"

namespace heed::inline v0 {
namespace {

// What stands before and behind a message of each role, and what an answer begins with.
struct ChatTemplate {
  std::string_view name;
  std::array<std::string_view, 2> marks;  // all of them, in a model's own template, tell that it is this one
  std::string_view begin;
  std::array<std::string_view, 2> system, user, assistant;
  std::string_view answer;
  bool system_within_user;    // between what stands before and behind it
  bool trimmed;               // messages lose spaces at their ends
  std::string_view end;       // token that ends an answer; empty: text
  std::string_view end_text;  // text that does
};

// The more special ones first: others have some of their marks.
constexpr std::array<ChatTemplate, 8> kTemplates{{
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     "",
     {"<|im_start|>system\n", "<|im_end|>\n"},
     {"<|im_start|>user\n", "<|im_end|>\n"},
     {"<|im_start|>assistant\n", "<|im_end|>\n"},
     "<|im_start|>assistant\n",
     false,
     false,
     "<|im_end|>",
     ""},
    {"llama3",
     {"<|start_header_id|>", "<|eot_id|>"},
     "<|begin_of_text|>",
     {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     "<|start_header_id|>assistant<|end_header_id|>\n\n",
     false,
     true,
     "<|eot_id|>",
     ""},
    {"gemma",
     {"<start_of_turn>", "<end_of_turn>"},
     "<bos>",
     {"", "\n\n"},
     {"<start_of_turn>user\n", "<end_of_turn>\n"},
     {"<start_of_turn>model\n", "<end_of_turn>\n"},
     "<start_of_turn>model\n",
     true,
     true,
     "<end_of_turn>",
     ""},
    {"phi3",
     {"<|user|>", "<|end|>"},
     "",
     {"<|system|>\n", "<|end|>\n"},
     {"<|user|>\n", "<|end|>\n"},
     {"<|assistant|>\n", "<|end|>\n"},
     "<|assistant|>\n",
     false,
     false,
     "<|end|>",
     ""},
    {"zephyr",
     {"<|user|>", "<|assistant|>"},
     "",
     {"<|system|>\n", "</s>\n"},
     {"<|user|>\n", "</s>\n"},
     {"<|assistant|>\n", "</s>\n"},
     "<|assistant|>\n",
     false,
     false,
     "</s>",
     ""},
    {"llama2",
     {"[INST]", "<<SYS>>"},
     "",
     {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     {"<s>[INST] ", " [/INST]"},
     {" ", " </s>"},
     "",
     true,
     true,
     "</s>",
     ""},
    {"mistral",
     {"[INST]", "[/INST]"},
     "<s>",
     {"", "\n\n"},
     {"[INST] ", " [/INST]"},
     {"", "</s>"},
     "",
     true,
     false,
     "</s>",
     ""},
    {"plain", {}, "", {"", "\n\n"}, {"User: ", "\n"}, {"Assistant: ", "\n"}, "Assistant:", false, true, "", "\nUser:"},
}};

const ChatTemplate& template_named(std::string_view name) {
  std::string known;
  for (const ChatTemplate& t : kTemplates) {
    if (t.name == name) return t;
    known += (known.empty() ? "" : ", ") + std::string(t.name);
  }
  throw UsageError("chat: there is no template '" + std::string(name) + "'; name one of " + known);
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  const size_t end = text.find_last_not_of(kSpaces);
  return std::string(text.substr(begin, end == text.npos ? 0 : end + 1 - begin));
}

std::string written(const ChatTemplate& t, std::span<const ChatMessage> messages) {
  std::string text(t.begin), held;  // a system's message for the user's that follows
  for (const ChatMessage& message : messages) {
    const auto& around = message.role == ChatRole::system ? t.system
                         : message.role == ChatRole::user ? t.user
                                                          : t.assistant;
    std::string content = t.trimmed ? trimmed(message.content) : message.content;
    if (message.role == ChatRole::system && t.system_within_user) {
      held = std::string(around[0]) + content + std::string(around[1]);
      continue;
    }
    if (message.role == ChatRole::user) content = std::exchange(held, {}) + content;
    text += std::string(around[0]) + content + std::string(around[1]);
  }
  return text + std::string(t.answer);
}

// A model's own template, or nothing.
std::string own_template(const std::string& directory) {
  constexpr const char *kFile = "chat_template.jinja", *kTokenizerFile = "tokenizer_config.json",
                       *kKey = "chat_template";
  constexpr uint64_t kLargest = uint64_t{16} << 20;  // bytes: tokenizer_config.json lists added tokens, too
  const DirectorySnapshot files(directory, {kFile, kTokenizerFile});
  if (files.contains(kFile)) return files.read(kFile, kLargest);
  if (!files.contains(kTokenizerFile)) return {};
  const nlohmann::json config = parse_json(files.read(kTokenizerFile, kLargest), directory + "/" + kTokenizerFile);
  if (!config.is_object() || !config.contains(kKey)) return {};
  return config[kKey].is_string() ? config[kKey].get<std::string>() : config[kKey].dump();  // or a list of named ones
}

}  // namespace

std::vector<std::string> chat_templates() {
  std::vector<std::string> names;
  for (const ChatTemplate& t : kTemplates) names.emplace_back(t.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string chat_template_of(const std::string& directory) {
  const std::string own = own_template(directory);
  if (own.empty()) return "plain";
  for (const ChatTemplate& t : kTemplates)
    if (!t.marks[0].empty() &&
        std::all_of(t.marks.begin(), t.marks.end(), [&](std::string_view mark) { return own.find(mark) != own.npos; }))
      return std::string(t.name);
  throw UsageError("chat: the template of " + directory +
                   " is none that heed knows; choose the one that comes closest, " + "or plain");
}

std::string write_chat(const std::string& chat_template, std::span<const ChatMessage> messages) {
  return written(template_named(chat_template), messages);
}

struct Chat::State {
  const StoredModel& model;
  const ChatTemplate& form;
  ContinueOptions options;
  std::vector<ChatMessage> messages{};
  std::unique_ptr<Continuation> text{};
  std::function<void(const std::string&)> on_text{};

  std::vector<int32_t> ids() const {
    const std::string all = written(form, messages);
    if (form.end.empty()) return prompt_ids(model.tokenizer(), all);
    return model.tokenizer().encode(all, /*special_tokens=*/false).ids;  // they are written in it
  }
};

Chat::Chat(const StoredModel& model, std::string chat_template, const std::string& system,
           const ContinueOptions& options)
    : state_(new State{model, template_named(chat_template), options}) {
  State& s = *state_;
  s.on_text = std::exchange(s.options.on_text, {});
  model.as<LanguageModel>();
  if (!s.form.end.empty()) {
    const std::optional<int32_t> end = model.tokenizer().id_of(s.form.end);
    if (!end)
      throw UsageError("chat: " + std::string(s.form.end) + " of the template " + chat_template +
                       " is no token of the model's; choose another, or plain");
    s.options.tokens.stop.push_back(*end);
  }
  if (!s.form.end_text.empty()) s.options.stop.emplace_back(s.form.end_text);
  if (!system.empty()) s.messages.push_back({ChatRole::system, system});
}

Chat::~Chat() = default;

std::string Chat::answer(const std::string& said) {
  State& s = *state_;
  s.messages.push_back({ChatRole::user, said});
  std::string text;
  try {
    if (s.text) {
      s.text->restart(s.ids());
    } else {
      s.text = std::make_unique<Continuation>(s.model, s.ids(), s.options);
    }
    bool begun = false;  // without the space that some templates leave in front
    for (std::string piece; !(piece = s.text->next()).empty();) {
      if (!begun && s.form.trimmed) piece.erase(0, piece.find_first_not_of(' '));
      begun = begun || !piece.empty();
      text += piece;
      if (s.on_text && !piece.empty()) s.on_text(piece);
    }
  } catch (...) {
    s.messages.pop_back();
    throw;
  }
  s.messages.push_back({ChatRole::assistant, text});
  return text;
}

const std::vector<ChatMessage>& Chat::messages() const { return state_->messages; }

}  // namespace heed::inline v0
