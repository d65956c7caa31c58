// Text in, text on: language models with their tokenizers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/load.h"

namespace heed::inline v0 {

struct ContinueOptions {
  GenerateOptions tokens{};         // StoredModel::completed() adds to them
  std::vector<std::string> stop{};  // texts that end what is written; they are not part of it
  bool own_text = false;            // what is written is a text by itself, so that no space begins it
  /// Called with whole characters as soon as they are certain.
  std::function<void(const std::string&)> on_text{};
};

/// How probable a model finds a text. The first token has nothing before it: neither it nor its bytes count; where the
/// tokenizer adds one in front of a text, all of the text counts.
struct TextScore {
  int64_t tokens = 0, bytes = 0;
  double nats = 0;  // -log p of all tokens
};

class TextGenerator {
 public:
  /// Throws as load(), and UsageError where the directory holds another kind of model.
  explicit TextGenerator(const std::string& directory, const LoadOptions& options = {});

  /// What the model makes follow a text, without it. Special tokens that the tokenizer adds in front of a text, such as
  /// Llama's first one, are in front of it. One without tokens counts as a newline: a text begins as if a line had just
  /// ended. Special tokens are not part of what is returned, and the end of a text ends it. Throws as
  /// LanguageModel::generate.
  std::string continue_text(const std::string& prompt, const ContinueOptions& options = {}) const;

  /// The same for many prompts, up to `together` at once (LanguageModel::generate). The options' on_text and on_token
  /// are not called.
  std::vector<std::string> continue_texts(const std::vector<std::string>& prompts, const ContinueOptions& options = {},
                                          int64_t together = 8) const;

  TextScore score(const std::string& text) const;  // score_text()

  /// Characters of a text that the tokenizer has no token for.
  int64_t unknown_in(const std::string& text) const;

  const LanguageModel& model() const { return stored_.as<LanguageModel>(); }
  const StoredModel& stored() const { return stored_; }

 private:
  StoredModel stored_;
};

/// What TextGenerator::continue_text returns, piece by piece at the caller's pace. The model must outlive it, and stay
/// as it is.
class Continuation {
 public:
  /// Throws as continue_text() does.
  Continuation(const StoredModel& model, const std::string& prompt, ContinueOptions options = {});
  /// Of a prompt that is ids already, special tokens among them.
  Continuation(const StoredModel& model, const std::vector<int32_t>& prompt, ContinueOptions options = {});
  ~Continuation();
  Continuation(const Continuation&) = delete;
  Continuation& operator=(const Continuation&) = delete;

  /// Whole characters, as soon as they are certain; empty where the text has ended.
  std::string next();
  /// Goes on with another prompt: Generation::restart.
  void restart(const std::vector<int32_t>& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The ids that a language model goes on from: of special tokens those in front of the text alone.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text);

/// How probable a language model finds a text. Throws ShapeError for one of fewer than 2 tokens.
TextScore score_text(const StoredModel& model, const std::string& text);

}  // namespace heed::inline v0
