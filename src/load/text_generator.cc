#include "heed/text_generator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "load/text_stream.h"

namespace heed::inline v0 {
namespace {

StoredModel load_language_model(const std::string& directory, bool trust) {
  expect_config<LanguageModelConfig>(load_config(directory), directory);
  return load(directory, trust);
}

}  // namespace

TextGenerator::TextGenerator(const std::string& directory, bool trust)
    : stored_(load_language_model(directory, trust)) {}

std::string TextGenerator::continue_text(const std::string& prompt, const ContinueOptions& options) const {
  Continuation more(model(), vocabulary(), prompt, options);
  std::string text;
  for (std::string piece; !(piece = more.next()).empty();) text += piece;
  return text;
}

TextScore TextGenerator::score(const std::string& text) const { return score_text(model(), vocabulary(), text); }

int64_t TextGenerator::unknown_in(const std::string& text) const {
  const std::vector<int32_t> ids = vocabulary().encode(text);
  return std::count(ids.begin(), ids.end(), vocabulary().unk_id());
}

struct Continuation::State {
  const Vocabulary& vocabulary;
  std::function<void(const std::string&)> on_text;
  std::function<bool(int32_t)> on_token;
  Generation tokens;
  TextStream stream;
  bool ended = false;
};

Continuation::Continuation(const LanguageModel& model, const Vocabulary& vocabulary, const std::string& prompt,
                           ContinueOptions given) {
  std::vector<int32_t> ids = vocabulary.encode(prompt);
  if (ids.empty()) ids = vocabulary.encode("\n");
  if (ids.empty()) ids = {vocabulary.unk_id()};
  GenerateOptions options = std::move(given.tokens);
  for (const int32_t id : {vocabulary.pad_id(), vocabulary.unk_id(), vocabulary.bos_id()})
    if (id >= 0) options.never.push_back(id);
  if (vocabulary.eos_id() >= 0) options.stop.push_back(vocabulary.eos_id());
  const std::function<bool(int32_t)> on_token = std::exchange(options.on_token, {});
  state_.reset(new State{vocabulary,
                         std::move(given.on_text),
                         on_token,
                         {model, ids, std::move(options)},
                         TextStream(std::move(given.stop))});
}

Continuation::~Continuation() = default;

std::string Continuation::next() {
  State& s = *state_;
  std::string piece;
  while (piece.empty() && !s.ended) {
    const std::optional<int32_t> id = s.tokens.next();
    piece = id ? s.stream.push(s.vocabulary.bytes(*id)) : s.stream.finish();
    if (s.on_text && !piece.empty()) s.on_text(piece);
    s.ended = !id || s.stream.stopped();
    if (s.ended || !s.on_token || s.on_token(*id)) continue;
    s.ended = true;
    const std::string rest = s.stream.finish();
    if (s.on_text && !rest.empty()) s.on_text(rest);
    piece += rest;
  }
  return piece;
}

TextScore score_text(const LanguageModel& model, const Vocabulary& vocabulary, const std::string& text) {
  const std::vector<int32_t> ids = vocabulary.encode(text);
  if (ids.size() < 2) throw ShapeError("score: the text has fewer than 2 tokens; nothing is predicted");
  TextScore score{.tokens = static_cast<int64_t>(ids.size()) - 1};
  for (const float log_p : model.log_probabilities(ids)) score.nats -= static_cast<double>(log_p);
  for (size_t i = 1; i < ids.size(); ++i) score.bytes += static_cast<int64_t>(vocabulary.bytes(ids[i]).size());
  return score;
}

}  // namespace heed::inline v0
