#include "heed/chat.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "core/gguf.h"
#include "heed/io.h"
#include "heed/model_files.h"
#include "jinja/characters.h"
#include "jinja/program.h"
#include "load/adapters.h"
#include "tokenizer/load.h"

namespace heed::inline v0 {
namespace {

// What stands before and behind a message of each role, and what an answer begins with.
struct KnownForm {
  std::string_view name;
  std::string_view begin;
  std::array<std::string_view, 2> system, user, assistant;
  std::string_view answer;
  bool system_within_user;    // between what stands before and behind it
  bool trimmed;               // messages lose spaces at their ends
  std::string_view end;       // token that ends an answer; empty: text
  std::string_view end_text;  // text that does
};

constexpr std::array<KnownForm, 8> kForms{{
    {"chatml",
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
     "",
     {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     {"<s>[INST] ", " [/INST]"},
     {" ", " </s>"},
     "",
     true,
     true,
     "</s>",
     ""},
    {"mistral", "<s>", {"", "\n\n"}, {"[INST] ", " [/INST]"}, {"", "</s>"}, "", true, false, "</s>", ""},
    {"plain", "", {"", "\n\n"}, {"User: ", "\n"}, {"Assistant: ", "\n"}, "Assistant:", false, true, "", "\nUser:"},
}};

std::string names_of_forms() {
  std::string names;
  for (const std::string& name : chat_templates()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

const KnownForm& form_named(std::string_view name) {
  for (const KnownForm& form : kForms)
    if (form.name == name) return form;
  throw UsageError("chat: there is no template '" + std::string(name) + "'; name one of " + names_of_forms());
}

std::string written(const KnownForm& t, std::span<const ChatMessage> messages) {
  std::string text(t.begin), held;  // a system's message for the user's that follows
  for (const ChatMessage& message : messages) {
    const auto& around = message.role == ChatRole::system ? t.system
                         : message.role == ChatRole::user ? t.user
                                                          : t.assistant;
    std::string content(t.trimmed ? jinja::stripped(message.content, true, true) : message.content);
    if (message.role == ChatRole::system && t.system_within_user) {
      held = std::string(around[0]) + content + std::string(around[1]);
      continue;
    }
    if (message.role == ChatRole::user) content = std::exchange(held, {}) + content;
    text += std::string(around[0]) + content + std::string(around[1]);
  }
  return text + std::string(t.answer);
}

constexpr uint64_t kLargest = uint64_t{16} << 20;  // bytes of a template
constexpr const char *kTemplateFile = "chat_template.jinja", *kMoreTemplates = "additional_chat_templates";

ChatSource source_of_gguf(const std::string& path) {
  const GgufFile file(path);
  ChatSource source{.text = std::string(file.text("tokenizer.chat_template").value_or("")), .complete = false};
  const std::vector<std::string_view> tokens = file.texts("tokenizer.ggml.tokens");
  for (const std::string name : {"bos", "eos"}) {
    const std::optional<int64_t> id = file.integer("tokenizer.ggml." + name + "_token_id");
    if (id && *id >= 0 && *id < std::ssize(tokens)) {
      source.tokens[name + "_token"] = tokens[static_cast<size_t>(*id)];
    } else {
      source.none.insert(name + "_token");
    }
  }
  return source;
}

// Templates by name. The last of several with the same name counts.
using Templates = std::map<std::string, std::string>;

// Reads chat_template: a text, a list of objects with a name and a template, or an object.
Templates templates_in(const JsonValue& given) {
  Templates templates;
  if (given.is_string()) {
    templates["default"] = given.string();
  } else if (given.is_array()) {
    given.each([&](const JsonValue& one) {
      templates.insert_or_assign(std::string(one.at("name").string()), std::string(one.at("template").string()));
    });
  } else if (given.is_object()) {
    given.each_member([&](std::string_view name, const JsonValue& one) {
      templates.insert_or_assign(std::string(name), std::string(one.string()));
    });
  } else {
    given.refuse("is neither a text nor a list of templates");
  }
  return templates;
}

// Reads chat_template.jinja and the files of additional_chat_templates, which precede it.
Templates templates_of_files(const DirectorySnapshot& files) {
  Templates templates;
  if (files.contains(kTemplateFile)) templates["default"] = files.read(kTemplateFile, kLargest);
  const std::string directory = files.where() + "/" + kMoreTemplates;
  if (!std::filesystem::is_directory(directory)) return templates;
  constexpr std::string_view kEnd = ".jinja";
  std::vector<std::string> names = list_files(directory);
  std::erase_if(names, [&](const std::string& name) { return !name.ends_with(kEnd); });
  const DirectorySnapshot more(directory, names);
  for (const std::string& file : more.names()) {
    // transformers takes file.jinja for chat_template.jinja.
    const std::string name = file.substr(0, file.size() - kEnd.size());
    if (name == "file" && more.contains("default.jinja")) continue;
    templates[name == "file" ? "default" : name] = more.read(file, kLargest);
  }
  return templates;
}

// The arguments of transformers' render_jinja_template(), which no token can be named like.
constexpr std::string_view kArguments[] = {"messages",
                                           "conversations",
                                           "tools",
                                           "documents",
                                           "add_generation_prompt",
                                           "chat_template",
                                           "continue_final_message",
                                           "return_assistant_tokens_mask"};

ChatSource source_of_directory(const std::string& directory) {
  const DirectorySnapshot files(
      directory, {kTemplateFile, "chat_template.json", kConfigFile, "tokenizer_config.json", "special_tokens_map.json",
                  "added_tokens.json", "tokenizer.json", "tokenizer.model"});
  const TokenizerFiles of_tokenizer{
      .where = directory,
      .contains = [&](const std::string& name) { return files.contains(name); },
      .read = [&](const std::string& name) { return files.read(name, kLargestTokenizer); }};
  const TokenizerConfig config(of_tokenizer);
  Templates templates = templates_of_files(files);
  const auto given = config.chat_template();
  if (given && (templates.empty() || config.chat_template_is_mapped())) templates = templates_in(*given);
  if (templates.empty() && !given) {
    if (files.contains("chat_template.json"))
      throw UsageError("chat: " + directory + " has its template in chat_template.json, which is for pictures and " +
                       "texts; copy the template to " + kTemplateFile + ", or name one of " + names_of_forms());
    return {};
  }
  const auto chosen = templates.find("default");
  if (chosen == templates.end())
    throw UsageError("chat: " + directory + " has templates with names, and none is named default; name one of " +
                     names_of_forms());
  NamedTokens named = config.named_tokens(of_tokenizer);
  for (const std::string_view name : kArguments)
    if (named.tokens.contains(std::string(name)))
      throw FormatError(files.path("tokenizer_config.json") + ": a special token is named '" + std::string(name) +
                        "', as an argument of templates; give it another name");
  return {.text = std::move(chosen->second),
          .tokens = std::move(named.tokens),
          .complete = named.complete,
          .none = std::move(named.none)};
}

// The first token of the tokenizer's class that a template may read and that heed does not know; empty if there is
// none.
std::string unknown_token(const jinja::Program& program, const ChatSource& source) {
  if (source.complete) return "";
  const std::set<std::string> sets = program.sets();
  for (const std::string& name : program.reads())
    if (name.ends_with("_token") && !source.tokens.contains(name) && !source.none.contains(name) &&
        !sets.contains(name))
      return name;
  return "";
}

std::string run_program(const jinja::Program& program, const std::map<std::string, std::string>& tokens,
                        std::span<const ChatMessage> messages) {
  constexpr std::array kRoles{"system", "user", "assistant"};
  jinja::List talk;
  for (const ChatMessage& message : messages)
    talk.emplace_back(jinja::Dict{{"role", kRoles[static_cast<size_t>(message.role)]}, {"content", message.content}});
  jinja::Dict variables{
      {"messages", std::move(talk)}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", true}};
  for (const auto& [name, token] : tokens) variables.emplace_back(name, token);
  return program.run(variables);
}

}  // namespace

std::vector<std::string> chat_templates() {
  std::vector<std::string> names;
  for (const KnownForm& form : kForms) names.emplace_back(form.name);
  std::sort(names.begin(), names.end());
  return names;
}

struct ChatTemplate::Form {
  Writer write{};
  bool whole = true;       // special tokens are in what it writes
  bool trimmed = false;    // answers lose spaces in front
  std::string end{};       // token that ends an answer, where the model does not say it
  std::string end_text{};  // text that does
};

ChatTemplate::ChatTemplate(const std::string& name) {
  const KnownForm& form = form_named(name);
  form_ = std::make_shared<const Form>(
      Form{.write = [&form](std::span<const ChatMessage> messages) { return written(form, messages); },
           .whole = !form.end.empty(),
           .trimmed = form.trimmed,
           .end = std::string(form.end),
           .end_text = std::string(form.end_text)});
}

ChatTemplate::ChatTemplate(Writer writer) : form_(std::make_shared<const Form>(Form{.write = std::move(writer)})) {}

std::string ChatTemplate::write(std::span<const ChatMessage> messages) const { return form_->write(messages); }

ChatSource chat_source_of(const std::string& path, const std::string& base) {
  return is_gguf(path) ? source_of_gguf(path) : source_of_directory(tokenizer_directory(path, base));
}

ChatTemplate chat_template_of(const std::string& path, const std::string& base) {
  ChatSource source = chat_source_of(path, base);
  if (source.text.empty()) return "plain";
  const auto refusal = [path](const std::string& why) {
    return "chat: heed does not run the template of " + path + ": " + why + "; name one of " + names_of_forms();
  };
  try {
    std::vector<std::string> names;
    for (const auto& [name, token] : source.tokens) names.push_back(name);
    const jinja::Program program(source.text, names);
    if (const std::string name = unknown_token(program, source); !name.empty())
      throw UnsupportedTemplateError(refusal("it writes " + name + ", which no file of the tokenizer names"));
    return ChatTemplate([=, tokens = std::move(source.tokens)](std::span<const ChatMessage> messages) {
      try {
        return run_program(program, tokens, messages);
      } catch (const jinja::RaisedError& e) {
        throw UsageError(std::string("chat: the model's template does not take the conversation: ") + e.what());
      } catch (const jinja::BoundError& e) {
        throw UsageError(refusal(e.what()));
      } catch (const jinja::ProgramError& e) {
        throw UnsupportedTemplateError(refusal(e.what()));
      }
    });
  } catch (const jinja::ProgramError& e) {
    throw UnsupportedTemplateError(refusal(e.what()));
  }
}

struct Chat::State {
  const StoredModel& model;
  std::shared_ptr<const ChatTemplate::Form> form;
  ContinueOptions options;
  std::vector<ChatMessage> messages{};
  std::unique_ptr<Continuation> text{};
  std::function<void(const std::string&)> on_text{};

  std::vector<int32_t> ids() const {
    const std::string all = form->write(messages);
    return form->whole ? model.tokenizer().encode(all, /*special_tokens=*/false).ids
                       : prompt_ids(model.tokenizer(), all);
  }
};

Chat::Chat(const StoredModel& model, ChatTemplate chat_template, const std::string& system,
           const ContinueOptions& options)
    : state_(new State{model, std::move(chat_template.form_), options}) {
  State& s = *state_;
  s.on_text = std::exchange(s.options.on_text, {});
  s.options.own_text = true;
  model.as<LanguageModel>();
  if (!s.form->end.empty()) {
    const std::optional<int32_t> end = model.tokenizer().id_of(s.form->end);
    if (!end)
      throw UsageError("chat: " + s.form->end +
                       " of the template is no token of the model's; choose another, or plain");
    s.options.tokens.stop.push_back(*end);
  }
  if (!s.form->end_text.empty()) s.options.stop.emplace_back(s.form->end_text);
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
      if (!begun && s.form->trimmed) piece.erase(0, piece.find_first_not_of(' '));
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
