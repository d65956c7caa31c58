// Text generation: language models with their tokenizers.
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
  std::vector<std::string> stop{};  // stop strings; not part of the result
  bool own_text = false;            // true: the result is a separate text, without a leading space
  /// Called with whole characters as soon as they are certain.
  std::function<void(const std::string&)> on_text{};
};

/// The probability of a text. The first token has nothing before it, so neither it nor its bytes are counted; if the
/// tokenizer adds a token before the text, all of the text is counted.
struct TextScore {
  int64_t tokens = 0, bytes = 0;
  double nats = 0;  // -log p of all tokens
};

class TextGenerator {
 public:
  /// Throws as load(), and UsageError for another kind of model.
  explicit TextGenerator(const std::string& directory, const LoadOptions& options = {});
  /// Takes a model that was loaded or trained. Throws UsageError for another kind of model.
  explicit TextGenerator(StoredModel model);

  /// Continues a text and returns the new text only. Special tokens that the tokenizer adds before a text are included
  /// in the prompt. A prompt without tokens counts as a newline. The end token ends the result, which contains no
  /// special tokens. Throws as LanguageModel::generate.
  std::string continue_text(const std::string& prompt, const ContinueOptions& options = {}) const;

  /// Continues many prompts, up to `together` at once (LanguageModel::generate). Does not call the options' on_text and
  /// on_token.
  std::vector<std::string> continue_texts(const std::vector<std::string>& prompts, const ContinueOptions& options = {},
                                          int64_t together = 8) const;

  TextScore score(const std::string& text) const;  // score_text()

  /// The number of characters of a text without a token.
  int64_t unknown_in(const std::string& text) const;

  const LanguageModel& model() const { return stored_.as<LanguageModel>(); }
  const StoredModel& stored() const { return stored_; }

 private:
  StoredModel stored_;
};

/// Yields the result of TextGenerator::continue_text piece by piece. The model must outlive this object and must not
/// change.
class Continuation {
 public:
  /// Throws as continue_text() does.
  Continuation(const StoredModel& model, const std::string& prompt, ContinueOptions options = {});
  /// `prompt`: ids, special tokens included.
  Continuation(const StoredModel& model, const std::vector<int32_t>& prompt, ContinueOptions options = {});
  ~Continuation();
  Continuation(const Continuation&) = delete;
  Continuation& operator=(const Continuation&) = delete;

  /// Complete characters, as soon as they are certain; empty once the text has ended.
  std::string next();
  /// Continues with another prompt: see Generation::restart.
  void restart(const std::vector<int32_t>& prompt);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The ids of a text as a prompt: with leading special tokens, without trailing ones.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text);

/// The probability of a text. Throws ShapeError for a text of fewer than 2 tokens.
TextScore score_text(const StoredModel& model, const std::string& text);

}  // namespace heed::inline v0
