#include "heed/text_generator.h"

#include <algorithm>

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

std::string TextGenerator::continue_text(const std::string& prompt, const ContinueOptions& given) const {
  std::vector<int32_t> ids = vocabulary().encode(prompt);
  if (ids.empty()) ids = vocabulary().encode("\n");
  if (ids.empty()) ids = {vocabulary().unk_id()};
  GenerateOptions options = given.tokens;
  for (const int32_t id : {vocabulary().pad_id(), vocabulary().unk_id(), vocabulary().bos_id()})
    if (id >= 0) options.never.push_back(id);
  if (vocabulary().eos_id() >= 0) options.stop.push_back(vocabulary().eos_id());
  std::string text;
  TextStream stream(given.stop);
  const auto pass_on = [&](const std::string& more) {
    if (more.empty()) return;
    text += more;
    if (given.on_text) given.on_text(more);
  };
  options.on_token = [&](int32_t id) {
    pass_on(stream.push(vocabulary().bytes(id)));
    return !stream.stopped() && (!given.tokens.on_token || given.tokens.on_token(id));
  };
  model().generate(ids, options);
  pass_on(stream.finish());
  return text;
}

TextScore TextGenerator::score(const std::string& text) const {
  const std::vector<int32_t> ids = vocabulary().encode(text);
  if (ids.size() < 2) throw ShapeError("score: the text has fewer than 2 tokens; nothing is predicted");
  TextScore score{.tokens = static_cast<int64_t>(ids.size()) - 1};
  for (const float log_p : model().log_probabilities(ids)) score.nats -= static_cast<double>(log_p);
  for (size_t i = 1; i < ids.size(); ++i) score.bytes += static_cast<int64_t>(vocabulary().bytes(ids[i]).size());
  return score;
}

int64_t TextGenerator::unknown_in(const std::string& text) const {
  const std::vector<int32_t> ids = vocabulary().encode(text);
  return std::count(ids.begin(), ids.end(), vocabulary().unk_id());
}

}  // namespace heed::inline v0
