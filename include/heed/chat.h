// Conversations with language models that were taught to answer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "heed/text_generator.h"

namespace heed::inline v0 {

enum class ChatRole : uint8_t { system, user, assistant };

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string content{};
};

/// The model's own chat template has features that heed does not have. An interpreter of Jinja may run it.
class UnsupportedTemplateError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// The names of the ways of writing a conversation that heed knows: "chatml" (Qwen and others), "gemma", "llama2",
/// "llama3", "mistral", "phi3", "zephyr", and "plain", a dialogue as a text has it, for models that were not taught
/// any.
std::vector<std::string> chat_templates();

/// How a conversation is written for a model. Copies share what they hold; const functions may run in several threads
/// at once.
class ChatTemplate {
 public:
  using Writer = std::function<std::string(std::span<const ChatMessage>)>;

  /// One of chat_templates(). Models without a place for the system's message read it in front of the first of the
  /// user's. Throws UsageError for another name.
  ChatTemplate(const std::string& name);
  ChatTemplate(const char* name) : ChatTemplate(std::string(name)) {}
  /// What `writer` makes of a conversation, up to where the answer begins, with all special tokens in it.
  explicit ChatTemplate(Writer writer);

  /// A conversation as the model reads it, up to where its answer begins. For the model's own template,
  /// throws UsageError where it refuses the conversation or exceeds its bounds, and UnsupportedTemplateError.
  std::string write(std::span<const ChatMessage> messages) const;

 private:
  friend class Chat;
  struct Form;
  std::shared_ptr<const Form> form_;
};

/// The template of a model's directory (additional_chat_templates/default.jinja, chat_template.jinja, or chat_template
/// of tokenizer_config.json; of several with names, the one named "default") or GGUF file, as it is: a program in the
/// language of Jinja 2, which heed runs as transformers does, with no tools and no documents, and within so many steps
/// and so much memory. "plain" where there is none. The template of adapters is the one in the directory that their
/// tokenizer comes from; `base` is as in LoadOptions. Throws UnsupportedTemplateError, IoError and FormatError.
ChatTemplate chat_template_of(const std::string& path, const std::string& base = {});

/// A chat template as a text, and the special tokens that it may name ("bos_token"), as in transformers'
/// special_tokens_map: those of the files and those that the tokenizer's class has by default.
struct ChatSource {
  std::string text{};                           // empty where there is none
  std::map<std::string, std::string> tokens{};  // contents by name
  bool complete = true;                         // false: the tokenizer's class may have tokens that heed does not know
  std::set<std::string> none{};                 // names that stand for no token, whatever the class has
};
/// Throws as chat_template_of().
ChatSource chat_source_of(const std::string& path, const std::string& base = {});

/// A conversation that goes on. The model must outlive it.
class Chat {
 public:
  /// `system`: what the model is told first, where not empty. Of `options`, `stop` and `tokens.stop` are added to.
  /// Throws UsageError for a template whose marks are no tokens of the model's.
  Chat(const StoredModel& model, ChatTemplate chat_template, const std::string& system = "",
       const ContinueOptions& options = {});
  ~Chat();
  Chat(const Chat&) = delete;
  Chat& operator=(const Chat&) = delete;

  /// What the model answers. Keys and values of what was said before are kept from one call to the next; a conversation
  /// that outgrows the model loses its beginning, as LanguageModel::generate says. Throws as that does, and as
  /// ChatTemplate::write.
  std::string answer(const std::string& said);

  const std::vector<ChatMessage>& messages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::inline v0
