#include "heed/translator.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "heed/executor.h"
#include "heed/text.h"
#include "load/translations.h"

namespace heed::inline v0 {
namespace {

// The word of each token: words are what spaces separate.
std::vector<size_t> words_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<size_t> words;
  for (const int32_t id : ids) {
    const bool begins = tokenizer.written(id).starts_with(' ');
    words.push_back(words.empty() ? 0 : words.back() + begins);
  }
  return words;
}

// Each target word with the source word that its pieces attended to most.
std::vector<std::pair<int64_t, int64_t>> align(const Tokenizer& of_source, const std::vector<int32_t>& source,
                                               const Tokenizer& of_target, const std::vector<int32_t>& target,
                                               const Tensor& attention) {  // (target + 1, source + 1)
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const std::vector<size_t> source_words = words_of(of_source, source), target_words = words_of(of_target, target);
  if (source.empty()) return pairs;
  std::vector<double> mass;
  for (size_t i = 0; i < target.size(); ++i) {
    if (i == 0 || target_words[i] != target_words[i - 1]) mass.assign(source_words.back() + 1, 0);
    for (size_t j = 0; j < source.size(); ++j) mass[source_words[j]] += attention.at<float>(i, j);
    if (i + 1 == target.size() || target_words[i + 1] != target_words[i])
      pairs.emplace_back(std::max_element(mass.begin(), mass.end()) - mass.begin(), target_words[i]);
  }
  return pairs;
}

// Special tokens are in the sources of models with details; the others' get their end when they are translated.
bool takes_whole_sources(std::span<const Transformer* const> models) { return models.front()->details().has_value(); }

int64_t longest_source(std::span<const Transformer* const> models) {
  int64_t longest = std::numeric_limits<int64_t>::max();
  for (const Transformer* model : models) longest = std::min(longest, model->config().max_positions);
  return takes_whole_sources(models) ? longest : longest - 1;
}

// The token of a language; none where none is asked for.
std::optional<int32_t> language_token(const Tokenizer& tokenizer, const std::string& language) {
  if (language.empty()) return {};
  for (const std::string& token : {language, "__" + language + "__"})
    if (const std::optional<int32_t> id = tokenizer.id_of(token)) return id;
  throw UsageError("translate: the language " + language +
                   " is no token of the model's; name it as its tokenizer does, such as fra_Latn or fr");
}

// The ids of a text, and whether they were too many.
std::pair<std::vector<int32_t>, bool> source_ids(const Tokenizer& tokenizer, const std::string& text,
                                                 std::optional<int32_t> language, bool whole, size_t longest) {
  Encoding tokens = tokenizer.encode(text, /*special_tokens=*/whole);
  if (language) {
    if (tokens.added.empty() || !tokens.added.front())
      throw UsageError("translate: the tokenizer puts no language in front of a text; leave out the source language");
    tokens.ids.front() = *language;
  }
  const bool cut = tokens.ids.size() > longest;
  if (cut) {
    const auto last = std::find(tokens.added.rbegin(), tokens.added.rend(), 0);
    const auto behind = last - tokens.added.rbegin();  // special tokens at the end stay
    tokens.ids.erase(tokens.ids.begin() + std::max<int64_t>(static_cast<int64_t>(longest) - behind, 0),
                     tokens.ids.end() - behind);
  }
  return {std::move(tokens.ids), cut};
}

// What the decoder of a model with details learns to write, but for the end, which the loss adds.
std::vector<int32_t> target_ids(const Tokenizer& tokenizer, const std::string& text, std::optional<int32_t> first,
                                const Transformer& model) {
  Encoding tokens = tokenizer.encode(text, /*special_tokens=*/model.details().has_value());
  if (!model.details()) return tokens.ids;
  if (!tokens.ids.empty() && tokens.added.back() && tokens.ids.back() == model.config().eos_id) {
    tokens.ids.pop_back();
    tokens.added.pop_back();
  }
  if (!first) return tokens.ids;
  if (!tokens.ids.empty() && tokens.added.front())
    tokens.ids.front() = *first;
  else
    tokens.ids.insert(tokens.ids.begin(), *first);
  return tokens.ids;
}

// What is translated at once: a sentence of a line, or all of it.
struct Part {
  size_t line, number;      // its own within the line
  std::string_view before;  // what stands between it and the part before
  std::string_view text;
  std::vector<int32_t> ids{}, given{};
  std::vector<Translation> best{};
};

std::vector<Part> parts_of(const std::vector<std::string>& lines, bool split) {
  std::vector<Part> parts;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) continue;
    const std::string_view line = lines[i];
    if (!split) {
      parts.push_back({i, 0, {}, line});
      continue;
    }
    const char* end = nullptr;  // of the last one
    size_t number = 0;
    for (const std::string_view sentence : split_sentences(line)) {
      const char* const begin = end ? end : sentence.data();
      parts.push_back({i, number++, {begin, static_cast<size_t>(sentence.data() - begin)}, sentence});
      end = sentence.data() + sentence.size();
    }
  }
  return parts;
}

// Words are what spaces separate.
int64_t words_in(std::string_view text) {
  int64_t words = 0;
  for (size_t i = 0; i < text.size(); ++i) words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
  return words;
}

// What stands between two sentences in a translation. Full-width stops need no space behind them, others do.
std::string_view between(std::string_view before, std::string_view translated) {
  constexpr std::string_view kFirstFullWidth = "\u3000";  // UTF-8 has the order of the codes
  size_t last = translated.size();
  while (last > 0 && (translated[--last] & 0xC0) == 0x80) continue;
  return before.empty() && translated.substr(last) < kFirstFullWidth ? " " : before;
}

// The translation of the part that follows is added to that of those before it. `line` ends before that part.
void append(Translation& to, const Translation& next, std::string_view line, std::string_view before) {
  const std::string_view space = between(before, to.text);
  if (!next.alignment.empty()) {
    const auto words_before = [](std::string_view text, std::string_view gap) {
      const int64_t words = words_in(text);
      return gap.find(' ') == gap.npos && words > 0 ? words - 1 : words;  // it goes on with the last word
    };
    const int64_t source = words_before(line, before), target = words_before(to.text, space);
    for (const auto& [from, word] : next.alignment) to.alignment.emplace_back(from + source, word + target);
  }
  to.text.append(space).append(next.text);
  to.score += next.score;
  to.log_probability += next.log_probability;
  to.tokens.insert(to.tokens.end(), next.tokens.begin(), next.tokens.end());
}

// What the models read and write.
struct Texts {
  std::span<const Transformer* const> models;
  const Tokenizer& source;
  const Tokenizer& target;
};

Translation translation_of(const Texts& texts, const Part& part, const Hypothesis& h, bool want_alignment) {
  Translation t{.text = texts.target.decode(h.ids), .score = h.score, .log_probability = h.log_probability};
  for (char& c : t.text)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';  // a line stays one, and tabs are the source's
  for (size_t i = 0; i < h.token_log_probabilities.size(); ++i) {
    const int32_t id = i < h.ids.size() ? h.ids[i] : texts.models.front()->config().eos_id;
    t.tokens.emplace_back(texts.target.token(id).value_or(""), h.token_log_probabilities[i]);
  }
  if (want_alignment && h.alignment.defined())
    t.alignment = align(texts.source, part.ids, texts.target, h.ids, h.alignment);
  return t;
}

using Batch = std::vector<size_t>;  // indices of parts

// Long ones first: they wait for each other less. Lines are taken together in parts of the text, and nothing else
// decides what shares a batch.
std::vector<Batch> batches_of(const std::vector<Part>& parts, bool given, size_t size) {
  const auto together = [&](size_t i) { return parts[i].line / static_cast<size_t>(kLinesTogether); };
  std::vector<size_t> order;
  for (size_t i = 0; i < parts.size(); ++i)
    if (given || !parts[i].ids.empty()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return together(a) != together(b) ? together(a) > together(b) : parts[a].ids.size() < parts[b].ids.size();
  });
  std::vector<Batch> batches;
  for (const size_t i : order) {
    if (batches.empty() || batches.back().size() == size || together(batches.back().front()) != together(i))
      batches.emplace_back();
    batches.back().push_back(i);
  }
  std::reverse(batches.begin(), batches.end());
  return batches;
}

void work_on_batch(const Texts& texts, const Batch& batch, bool given, const TranslateOptions& options,
                   std::vector<Part>& parts) {
  std::vector<std::vector<int32_t>> sources, targets;
  BeamOptions beam = options.beam;
  if (const auto language = language_token(texts.target, options.target_language)) beam.first_token = language;
  beam.streams.clear();
  for (const size_t i : batch) {
    sources.push_back(parts[i].ids);
    targets.push_back(parts[i].given);
    beam.streams.push_back((static_cast<uint64_t>(options.first_line) + parts[i].line) << 20 |
                           (parts[i].number & 0xFFFFF));
  }
  std::vector<std::vector<Hypothesis>> found;
  if (given)
    for (Hypothesis& h : score(texts.models, sources, targets, beam)) found.push_back({std::move(h)});
  else
    found = heed::translate(texts.models, sources, beam);
  for (size_t n = 0; n < batch.size(); ++n) {
    Part& part = parts[batch[n]];
    for (const Hypothesis& h : found[n]) part.best.push_back(translation_of(texts, part, h, beam.want_alignment));
  }
}

// What each rank has found, in its batches' order, on rank 0.
void gather(Communicator& ranks, const std::vector<Batch>& batches, std::vector<Part>& parts) {
  const auto size = static_cast<size_t>(ranks.size()), own = static_cast<size_t>(ranks.rank());
  const auto each_part = [&](size_t rank, const auto& f) {
    for (size_t b = rank; b < batches.size(); b += size)
      for (const size_t i : batches[b]) f(parts[i].best);
  };
  std::vector<std::byte> found;
  if (own != 0) each_part(own, [&](const std::vector<Translation>& best) { append_bytes(best, found); });
  const std::vector<std::vector<std::byte>> all = ranks.gather(found);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    std::span<const std::byte> rest = all[rank];
    each_part(rank, [&](std::vector<Translation>& best) { best = take_translations(rest); });
  }
}

// Translates the parts, or scores what is given, and says which lines were cut.
void work_on(const Texts& texts, std::vector<Part>& parts, bool given, const TranslateOptions& options,
             std::vector<TranslatedLine>& lines) {
  if (options.batch < 1) throw ShapeError("translate: batch " + std::to_string(options.batch) + " must be 1 or more");
  BeamOptions checked = options.beam;
  checked.streams.clear();
  heed::translate(texts.models, std::vector<std::vector<int32_t>>{}, checked);  // there may be nothing but blank lines
  const auto longest = static_cast<size_t>(longest_source(texts.models));
  const std::optional<int32_t> language = language_token(texts.source, options.source_language);
  for (Part& part : parts) {
    bool cut = false;
    std::tie(part.ids, cut) = source_ids(texts.source, options.prefix + std::string(part.text), language,
                                         takes_whole_sources(texts.models), longest);
    lines[part.line].cut = lines[part.line].cut || cut;
  }
  // Batches are dealt to ranks and threads: they wait for each other less often than the parts of one batch.
  const std::vector<Batch> batches = batches_of(parts, given, static_cast<size_t>(options.batch));
  const int64_t rank = options.ranks ? options.ranks->rank() : 0, ranks = options.ranks ? options.ranks->size() : 1;
  const int64_t own = std::max<int64_t>(std::ssize(batches) - rank + ranks - 1, 0) / ranks;
  parallel_for(default_executor(), own, [&](int64_t n) {
    if (options.on_batch) options.on_batch();
    work_on_batch(texts, batches[static_cast<size_t>(n * ranks + rank)], given, options, parts);
  });
  if (options.ranks) gather(*options.ranks, batches, parts);
}

bool has_results(const TranslateOptions& options) { return !options.ranks || options.ranks->rank() == 0; }

}  // namespace

std::vector<TranslatedLine> translate_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                            const Tokenizer& target, const std::vector<std::string>& lines,
                                            const TranslateOptions& options) {
  std::vector<TranslatedLine> results(lines.size());
  std::vector<Part> parts = parts_of(lines, options.split);
  work_on({models, source, target}, parts, /*given=*/false, options, results);
  if (!has_results(options)) return {};
  const auto n_best = static_cast<size_t>(options.beam.n_best);
  for (Part& part : parts) {
    std::vector<Translation>& best = results[part.line].best;
    part.best.resize(n_best, part.best.empty() ? Translation{} : part.best.back());
    if (best.empty()) {
      best = std::move(part.best);
      continue;
    }
    const std::string& line = lines[part.line];
    const std::string_view done(line.data(), static_cast<size_t>(part.text.data() - line.data()) - part.before.size());
    for (size_t n = 0; n < n_best; ++n) append(best[n], part.best[n], done, part.before);
  }
  for (size_t i = 0; i < lines.size(); ++i)
    if (results[i].best.empty()) results[i].best.resize(n_best, {.text = lines[i]});
  return results;
}

std::vector<TranslatedLine> score_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                        const Tokenizer& target, const std::vector<std::string>& lines,
                                        const std::vector<std::string>& given, const TranslateOptions& options) {
  if (lines.size() != given.size())
    throw ShapeError("score: " + std::to_string(lines.size()) + " lines and " + std::to_string(given.size()) +
                     " translations; each needs the other");
  std::vector<TranslatedLine> results(lines.size());
  std::vector<Part> parts;
  for (size_t i = 0; i < lines.size(); ++i) {
    parts.push_back({i, 0, {}, lines[i]});
    parts.back().given = target.encode(given[i], /*special_tokens=*/false).ids;
    const auto longest = static_cast<size_t>(longest_source(models)), tokens = parts.back().given.size();
    if (tokens > longest)
      throw FormatError("translation " + std::to_string(static_cast<size_t>(options.first_line) + i + 1) + " has " +
                        std::to_string(tokens) + " tokens; the model takes at most " + std::to_string(longest));
  }
  work_on({models, source, target}, parts, /*given=*/true, options, results);
  if (!has_results(options)) return {};
  for (size_t i = 0; i < lines.size(); ++i) {
    results[i].best = std::move(parts[i].best);
    results[i].best.at(0).text = given[i];
  }
  return results;
}

SentencePairs encode_pairs(const StoredModel& model, const TextPairs& texts, const TranslateOptions& options) {
  const auto& transformer = model.as<Transformer>();
  const bool whole = transformer.details().has_value();
  const std::optional<int32_t> language = language_token(model.source_tokenizer(), options.source_language);
  std::optional<int32_t> first = language_token(model.tokenizer(), options.target_language);
  if (!first) first = model.pretrained().beam.first_token;
  SentencePairs pairs;
  for (const std::string& line : texts.source) {
    pairs.source.emplace_back();
    if (!is_blank(line))
      pairs.source.back() = source_ids(model.source_tokenizer(), options.prefix + line, language, whole,
                                       std::numeric_limits<size_t>::max())
                                .first;
  }
  for (const std::string& line : texts.target) {
    pairs.target.emplace_back();
    if (!is_blank(line)) pairs.target.back() = target_ids(model.tokenizer(), line, first, transformer);
  }
  return pairs;
}

namespace {

StoredModel load_transformer(const std::string& directory, const LoadOptions& options) {
  if (!is_pretrained(directory)) expect_config<TransformerConfig>(load_config(directory), directory);
  StoredModel model = load(directory, options);
  if (!dynamic_cast<const Transformer*>(&model.module()))
    throw UsageError(directory + " holds a " + model.model_type() +
                     ", which does not translate; name the directory of a model with an encoder and a decoder");
  return model;
}

bool same_tokens(const Tokenizer& a, const Tokenizer& b) {
  if (a.size() != b.size()) return false;
  for (int32_t id = 0; id < static_cast<int32_t>(a.size()); ++id)
    if (a.token(id) != b.token(id)) return false;
  return true;
}

}  // namespace

Translator::Translator(const std::vector<std::string>& directories, const LoadOptions& options) {
  for (const std::string& directory : directories) {
    stored_.push_back(load_transformer(directory, options));
    models_.push_back(&stored_.back().as<Transformer>());
    const StoredModel& first = stored_.front();
    const StoredModel& last = stored_.back();
    if (!same_tokens(first.tokenizer(), last.tokenizer()) ||
        !same_tokens(first.source_tokenizer(), last.source_tokenizer()) ||
        models_.front()->details().has_value() != models_.back()->details().has_value())
      throw UsageError("the vocabulary of " + directory + " is not that of " + directories.front() +
                       "; models that translate together need one vocabulary");
  }
}

std::vector<TranslatedLine> Translator::translate(const std::vector<std::string>& lines,
                                                  const TranslateOptions& options) const {
  TranslateOptions completed = options;
  completed.beam = stored().completed(options.beam);
  return translate_lines(models_, stored().source_tokenizer(), stored().tokenizer(), lines, completed);
}

std::vector<TranslatedLine> Translator::score(const std::vector<std::string>& lines,
                                              const std::vector<std::string>& given,
                                              const TranslateOptions& options) const {
  return score_lines(models_, stored().source_tokenizer(), stored().tokenizer(), lines, given, options);
}

int64_t Translator::max_source_tokens() const {
  const int64_t longest = longest_source(models_);
  if (!takes_whole_sources(models_)) return longest;
  return longest - std::ssize(stored().source_tokenizer().encode("").ids);
}

}  // namespace heed::inline v0
