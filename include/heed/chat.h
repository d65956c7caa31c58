// Conversations with language models that were taught to answer.
#pragma once

#include <cstdint>
#include <memory>
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

/// The ways of writing a conversation that heed knows: "chatml" (Qwen and others), "gemma", "llama2", "llama3",
/// "mistral", "phi3", "zephyr", and "plain", a dialogue as a text has it, for models that were not taught any.
std::vector<std::string> chat_templates();

/// The one that a model's directory asks for. Its own template, in chat_template.jinja or tokenizer_config.json, is a
/// program, which heed does not run: it is known by the marks in it. "plain" where there is none. Throws UsageError
/// for one that heed does not know, IoError and FormatError.
std::string chat_template_of(const std::string& directory);

/// A conversation as the model reads it, up to where its answer begins. Models without a place for the system's message
/// read it in front of the first of the user's. Throws UsageError for a template that heed does not know.
std::string write_chat(const std::string& chat_template, std::span<const ChatMessage> messages);

/// A conversation that goes on. The model must outlive it.
class Chat {
 public:
  /// `system`: what the model is told first, where not empty. Of `options`, `stop` and `tokens.stop` are added to.
  /// Throws UsageError for a template that heed does not know, and for one whose marks are no tokens of the model's.
  Chat(const StoredModel& model, std::string chat_template, const std::string& system = "",
       const ContinueOptions& options = {});
  ~Chat();
  Chat(const Chat&) = delete;
  Chat& operator=(const Chat&) = delete;

  /// What the model answers. Keys and values of what was said before are kept from one call to the next; a conversation
  /// that outgrows the model loses its beginning, as LanguageModel::generate says. Throws as that does.
  std::string answer(const std::string& said);

  const std::vector<ChatMessage>& messages() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::inline v0
