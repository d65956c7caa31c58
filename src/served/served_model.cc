#include "heed/served_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "heed/attended.h"
#include "heed/models.h"
#include "heed/pages.h"
#include "heed/text.h"
#include "heed/text_encoder.h"
#include "heed/text_generator.h"
#include "heed/text_reader.h"
#include "heed/translator.h"
#include "heed/view.h"
#include "served/request_fields.h"
#include "served/start_page.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostPenalty = 100;  // of length
constexpr int64_t kMostBeam = 64, kMostTokens = int64_t{1} << 20;
constexpr int64_t kMostWeights = int64_t{1} << 26;    // of all heads of a text: 256 MB
constexpr size_t kMostTexts = 4096, kMostStops = 64;  // a text of no bytes makes a vector of thousands

bool is_translator(const StoredModel& model) { return model.kind() == ModelKind::translator; }

bool reads_texts(const StoredModel& model) {
  return is_translator(model) || model.kind() == ModelKind::language_model || model.kind() == ModelKind::text_encoder;
}

Sampling read_sampling(RequestFields& fields) {
  return {.temperature = fields.number("temperature"),
          .top_k = fields.whole("top_k", 0, int64_t{1} << 30),
          .top_p = fields.number("top_p"),
          .min_p = fields.number("min_p"),
          .seed = fields.seed("seed")};
}

void read_rules(RequestFields& fields, const char* shortest, TokenRules& rules) {
  rules.min_tokens = fields.whole(shortest, 0, kMostTokens);
  rules.repetition_penalty = fields.number("repetition_penalty");
  rules.no_repeat_ngram_size = fields.whole("no_repeat_ngram_size", 0, kMostTokens);
}

TranslateOptions translate_options(const StoredModel& model, RequestFields& fields) {
  TranslateOptions options;
  BeamOptions& beam = options.beam;
  beam.n_best = fields.whole_or("n_best", beam.n_best, 1, kMostBeam);
  beam.beam = fields.whole("beam", 1, kMostBeam);
  beam.length_penalty = fields.number("length_penalty");
  if (std::abs(beam.length_penalty.value_or(0)) > kMostPenalty)
    throw UsageError("length_penalty is to be in the range " + std::to_string(-kMostPenalty) + " to " +
                     std::to_string(kMostPenalty));
  beam.max_length = fields.whole("max_length", 0, kMostTokens);
  read_rules(fields, "min_length", beam.rules);
  beam.want_alignment = fields.flag_or("alignment", false);
  options.split = fields.flag_or("split", model.takes_sentences());
  options.prefix = fields.text_or("prefix", "");
  options.source_language = fields.text_or("from", "");
  options.target_language = fields.text_or("to", "");
  const std::optional<bool> sample = fields.flag("sample");
  const Sampling sampling = read_sampling(fields);
  beam = model.drawn_or_searched(std::move(beam), sample, sampling);
  return options;
}

// Heads of all layers, whose weights a page shows.
int64_t heads_of(const StoredModel& model) {
  const AttentionLayers layers = attention_layers(model.module());
  int64_t heads = 0;
  for (const auto* kind : {&layers.encoder, &layers.decoder, &layers.cross})
    for (const MultiheadAttention* layer : *kind) heads += layer->options().num_heads;
  return heads;
}

void expect_few_weights(const StoredModel& model, int64_t tokens) {
  const auto most = static_cast<int64_t>(std::sqrt(kMostWeights / std::max<int64_t>(heads_of(model), 1)));
  if (tokens > most)
    throw UsageError("the text has " + std::to_string(tokens) + " tokens; of this model heed serve shows " +
                     std::to_string(most) + " at most, heed attend more");
}

// A request may ask for many translations of each text, and for a matrix of each.
void expect_few_translations(const StoredModel& model, const std::vector<std::string>& texts, const BeamOptions& beam) {
  const auto most = static_cast<int64_t>(kMostTexts);
  if (const int64_t asked = std::ssize(texts) * beam.n_best; asked > most)
    throw UsageError("texts and n_best ask for " + std::to_string(asked) + " translations; at most " +
                     std::to_string(most) + " are made at once");
  if (!beam.want_alignment) return;
  int64_t weights = 0;
  for (const std::string& text : texts) {
    const int64_t tokens = std::ssize(reading_ids(model, sanitize_utf8(text)));
    weights += std::min(tokens * tokens, kMostWeights) * beam.n_best;
    if (weights > kMostWeights)
      throw UsageError("the texts have alignments of more than " + std::to_string(kMostWeights) +
                       " weights; ask for fewer or shorter ones at once");
  }
}

// What POST attend asks for.
struct AttendRequest {
  PageRequest page{};
  std::string change{};  // heads: read_group_changes()
};

// Every layer and head, as heed attend --html shows them.
Page page_of(const StoredModel& model, AttendRequest asked) {
  PageRequest& page = asked.page;
  page.text = sanitize_utf8(page.text);
  expect_few_weights(model, std::ssize(reading_ids(model, page.text)) + page.generate);
  if (is_translator(model) && page.generate > 0)
    throw UsageError("the model is a translator, which ends its sentences; leave out generate");
  if (!is_translator(model) && !page.target.empty()) throw UsageError("the model translates nothing; leave out target");
  return page_with_changes(read_group_changes(asked.change), model, [&] { return see_page(model, page); });
}

// An object on a line. Bytes of a token that are not UTF-8 become U+FFFD.
std::string json_line(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n'; }

// The fewest digits that give the same float32 again.
void append_row(const Tensor& vectors, int64_t row, std::string* json) {
  char number[32];
  char before = '[';
  for (const float x : vectors.select(0, row).span<float>()) {
    *json += std::exchange(before, ',');
    json->append(number, std::to_chars(number, number + sizeof number, x).ptr);
  }
  *json += ']';
}

}  // namespace

ServedModel::ServedModel(const std::string& directory, const LoadOptions& options)
    : directory_(directory), model_(load(directory, options)), modules_(load_sentence_modules(directory)) {
  if (!reads_texts(model_))
    throw UsageError(directory + " holds " + what_it_does(model_) + "; heed serve answers with models of texts");
  model_.tokenizer();  // refused now rather than by the first request
}

std::vector<HttpRoute> ServedModel::routes() const {
  return {{"GET", "", "text/html; charset=utf-8", [this](HttpCall& call) { return page(call); }},
          {"POST", "translate", "application/json", [this](HttpCall& call) { return translate(call); }},
          {"POST", "generate", "application/x-ndjson", [this](HttpCall& call) { return generate(call); }},
          {"POST", "embed", "application/json", [this](HttpCall& call) { return embed(call); }},
          {"POST", "attend", "application/json", [this](HttpCall& call) { return attend(call); }}};
}

template <class Model>
const Model& ServedModel::expect(const char* wanted) const {
  if (const auto* const model = model_.get_if<Model>()) return *model;
  throw UsageError(directory_ + " holds " + what_it_does(model_) + "; this needs " + wanted);
}

std::string ServedModel::page(HttpCall& call) const {
  const auto text = call.request().query.find("text");
  if (text == call.request().query.end())
    return start_page(std::filesystem::path(directory_).lexically_normal().filename().string(),
                      call.request().languages);
  const AttendRequest asked{.page = {.text = text->second}};
  Page page = page_of(model_, asked);
  page.live = {.kind = is_translator(model_) ? LiveKind::translates : LiveKind::reads,
               .text = sanitize_utf8(asked.page.text),
               .beam = asked.page.beam};
  return render_html(page);
}

std::string ServedModel::translate(HttpCall& call) const {
  const auto& transformer = expect<Transformer>("a model that translates");
  RequestFields fields(call.request().body);
  const std::vector<std::string> texts = fields.texts("texts", kMostTexts);
  TranslateOptions options = translate_options(model_, fields);
  fields.expect_no_others();
  expect_few_translations(model_, texts, options.beam);
  options.on_batch = [&call] { call.expect_wanted(); };
  const bool alignment = options.beam.want_alignment;
  options.beam = model_.completed(options.beam);
  const Transformer* const models[] = {&transformer};
  const std::vector<TranslatedLine> lines =
      translate_lines(models, model_.source_tokenizer(), model_.tokenizer(), texts, options);
  std::string answer = "{\"lines\":[";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) answer += ',';
    answer += to_json(texts[i], lines[i], alignment);
    call.expect_room(std::ssize(answer));
  }
  return answer += "]}\n";
}

std::string ServedModel::generate(HttpCall& call) const {
  expect<LanguageModel>("a language model");
  RequestFields fields(call.request().body);
  const std::string prompt = fields.text("text");
  ContinueOptions options{.stop = fields.texts_or_none("stop", kMostStops)};
  options.tokens.max_tokens = fields.whole("max_tokens", 0, kMostTokens);
  read_rules(fields, "min_tokens", options.tokens.rules);
  options.tokens.sampling = read_sampling(fields);
  fields.expect_no_others();
  for (const std::string& stop : options.stop)
    if (stop.empty()) throw UsageError("stop has an empty text; give the text that ends the output");
  options.tokens.on_token = [&call](int32_t) {
    call.expect_wanted();  // many tokens may make one piece
    return true;
  };
  Continuation more(model_, prompt, std::move(options));
  for (std::string piece; !(piece = more.next()).empty();) call.put(json_line({{"text", piece}}));
  return json_line({{"done", true}});
}

std::string ServedModel::embed(HttpCall& call) const {
  constexpr size_t kTogether = 64;
  RequestFields fields(call.request().body);
  const std::vector<std::string> texts = fields.texts("texts", kMostTexts);
  fields.expect_no_others();
  std::string answer = "{\"vectors\":[", cut;
  for (size_t first = 0; first < texts.size(); first += kTogether) {
    call.expect_wanted();
    const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(first);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kTogether, texts.size() - first));
    const TextVectors found = embed_texts(model_, {begin, begin + count}, modules_);
    for (int64_t row = 0; row < found.vectors.size(0); ++row) {
      if (first > 0 || row > 0) answer += ',';
      append_row(found.vectors, row, &answer);
      call.expect_room(std::ssize(answer));
    }
    for (const size_t place : found.cut) cut += (cut.empty() ? "" : ",") + std::to_string(first + place);
  }
  return answer += "],\"cut\":[" + cut + "]}\n";
}

std::string ServedModel::attend(HttpCall& call) const {
  RequestFields fields(call.request().body);
  AttendRequest asked{.page = {.text = fields.text("text"), .target = fields.text_or("target", "")}};
  asked.change = fields.text_or("change", "");
  PageRequest& page = asked.page;
  page.beam = fields.whole_or("beam", page.beam, 1, kMostBeam);
  page.generate = fields.whole_or("generate", page.generate, 0, kMostTokens);
  page.layer = fields.whole_or("layer", page.layer, 1, kMostTokens);
  fields.expect_no_others();
  return render_json(page_of(model_, asked)) + '\n';
}

}  // namespace heed::inline v0
