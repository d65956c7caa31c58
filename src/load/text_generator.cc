#include "heed/text_generator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "load/stop_texts.h"

namespace heed::inline v0 {
namespace {

StoredModel load_language_model(const std::string& directory, const LoadOptions& options) {
  if (!is_pretrained(directory)) expect_config<LanguageModelConfig>(load_config(directory), directory);
  return load(directory, options);
}

// The tokens of a text, with those added before it.
Encoding begun(const Tokenizer& tokenizer, const std::string& text) {
  const auto in_text = [](uint8_t added) { return added == 0; };
  Encoding tokens = tokenizer.encode(text);
  auto end = std::find_if(tokens.added.rbegin(), tokens.added.rend(), in_text).base();
  if (end == tokens.added.begin()) {  // without text tokens, leading and trailing tokens cannot be distinguished
    tokens = tokenizer.encode("a");
    end = std::find_if(tokens.added.begin(), tokens.added.end(), in_text);
  }
  const auto count = static_cast<size_t>(end - tokens.added.begin());
  tokens.ids.resize(count);
  tokens.offsets.resize(count);
  tokens.added.resize(count);
  return tokens;
}

// The prompt. A text without tokens counts as a newline.
std::vector<int32_t> begun_prompt(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids = prompt_ids(tokenizer, prompt);
  if (ids.empty()) ids = prompt_ids(tokenizer, "\n");
  if (ids.empty()) ids = {tokenizer.unknown().value_or(0)};
  return ids;
}

}  // namespace

std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text) {
  return begun(tokenizer, text).ids;
}

TextGenerator::TextGenerator(const std::string& directory, const LoadOptions& options)
    : TextGenerator(load_language_model(directory, options)) {}

TextGenerator::TextGenerator(StoredModel model) : stored_(std::move(model)) {
  if (!stored_.get_if<LanguageModel>())
    throw UsageError((stored_.path().empty() ? "the model" : stored_.path()) + " holds a " + stored_.model_type() +
                     ", which does not continue a text; name the directory of a language model");
}

std::string TextGenerator::continue_text(const std::string& prompt, const ContinueOptions& options) const {
  Continuation more(stored_, prompt, options);
  std::string text;
  for (std::string piece; !(piece = more.next()).empty();) text += piece;
  return text;
}

std::vector<std::string> TextGenerator::continue_texts(const std::vector<std::string>& prompts,
                                                       const ContinueOptions& options, int64_t together) const {
  struct Written {
    TokenStream characters;
    StopTexts stops;
    std::vector<int32_t> ids{};  // including the prompt
    std::string text{};
  };
  const Tokenizer& tokenizer = stored_.tokenizer();
  const StopStrings own_stops(stored_.pretrained().stop_texts, tokenizer);
  std::vector<std::vector<int32_t>> ids;
  std::vector<Written> written;
  for (const std::string& prompt : prompts) {
    ids.push_back(begun_prompt(tokenizer, prompt));
    written.push_back({TokenStream(tokenizer), StopTexts(options.stop)});
    if (!options.own_text) written.back().characters.follow(ids.back());
    if (!own_stops.empty()) written.back().ids = ids.back();
  }
  GenerateOptions tokens = stored_.completed(options.tokens);
  tokens.on_token = {};
  model().generate(ids, tokens, together, [&](size_t at, int32_t id) {
    Written& w = written[at];
    w.text += w.stops.push(w.characters.push(id));
    if (own_stops.empty()) return !w.stops.stopped();
    w.ids.push_back(id);
    return !w.stops.stopped() && !own_stops.ends(w.ids);
  });
  std::vector<std::string> texts;
  for (Written& w : written) {
    w.text += w.stops.push(w.characters.finish());
    w.text += w.stops.finish();
    texts.push_back(std::move(w.text));
  }
  return texts;
}

TextScore TextGenerator::score(const std::string& text) const { return score_text(stored_, text); }

int64_t TextGenerator::unknown_in(const std::string& text) const {
  const std::optional<int32_t> unknown = stored_.tokenizer().unknown();
  if (!unknown) return 0;
  const std::vector<int32_t> ids = prompt_ids(stored_.tokenizer(), text);
  return std::count(ids.begin(), ids.end(), *unknown);
}

struct Continuation::State {
  const StoredModel& model;
  std::vector<std::string> stop;
  std::function<void(const std::string&)> on_text;
  std::function<bool(int32_t)> on_token;
  Generation tokens;
  TokenStream characters;
  StopTexts stops;
  StopStrings own_stops;
  std::vector<int32_t> ids{};  // including the prompt, if any
  bool own_text;
  bool ended = false;

  void follow(const std::vector<int32_t>& prompt) {
    if (!own_text) characters.follow(prompt);
    if (!own_stops.empty()) ids = prompt;
  }
  bool ends_with(int32_t id) {
    if (own_stops.empty()) return false;
    ids.push_back(id);
    return own_stops.ends(ids);
  }

  std::string rest() {
    std::string text = stops.push(characters.finish());
    return text + stops.finish();
  }
};

Continuation::Continuation(const StoredModel& model, const std::string& prompt, ContinueOptions options)
    : Continuation(model, begun_prompt(model.tokenizer(), prompt), std::move(options)) {}

Continuation::Continuation(const StoredModel& model, const std::vector<int32_t>& prompt, ContinueOptions given) {
  GenerateOptions options = model.completed(std::move(given.tokens));
  std::function<bool(int32_t)> on_token = std::exchange(options.on_token, {});
  state_.reset(new State{model,
                         std::move(given.stop),
                         std::move(given.on_text),
                         std::move(on_token),
                         {model.as<LanguageModel>(), prompt, std::move(options)},
                         TokenStream(model.tokenizer()),
                         StopTexts({}),
                         StopStrings(model.pretrained().stop_texts, model.tokenizer()),
                         {},
                         given.own_text});
  state_->stops = StopTexts(state_->stop);
  state_->follow(prompt);
}

void Continuation::restart(const std::vector<int32_t>& prompt) {
  State& s = *state_;
  s.tokens.restart(prompt);
  s.characters = TokenStream(s.model.tokenizer());
  s.stops = StopTexts(s.stop);
  s.ended = false;
  s.follow(prompt);
}

Continuation::~Continuation() = default;

std::string Continuation::next() {
  State& s = *state_;
  std::string piece;
  while (piece.empty() && !s.ended) {
    const std::optional<int32_t> id = s.tokens.next();
    piece = id ? s.stops.push(s.characters.push(*id)) : s.rest();
    if (s.on_text && !piece.empty()) s.on_text(piece);
    s.ended = !id || s.stops.stopped();
    if (s.ended) continue;
    const bool goes_on = !s.on_token || s.on_token(*id);
    if (goes_on && !s.ends_with(*id)) continue;
    s.ended = true;
    const std::string rest = s.rest();
    if (s.on_text && !rest.empty()) s.on_text(rest);
    piece += rest;
  }
  return piece;
}

TextScore score_text(const StoredModel& model, const std::string& text) {
  const Encoding tokens = begun(model.tokenizer(), text);
  if (tokens.ids.size() < 2) throw ShapeError("score: the text has fewer than 2 tokens; give a longer one");
  TextScore score{.tokens = std::ssize(tokens.ids) - 1};
  for (const float log_p : model.as<LanguageModel>().log_probabilities(tokens.ids))
    score.nats -= static_cast<double>(log_p);
  score.bytes = std::ssize(text) - (tokens.added.front() ? 0 : int64_t{tokens.offsets.front().end});
  return score;
}

}  // namespace heed::inline v0
