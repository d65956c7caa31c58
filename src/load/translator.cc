#include "heed/translator.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>

#include "heed/executor.h"
#include "heed/text.h"
#include "load/translations.h"

namespace heed::inline v0 {
namespace {

// The word of each token; words are separated by spaces.
std::vector<size_t> words_of(const Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<size_t> words;
  for (const int32_t id : ids) {
    const bool begins = tokenizer.written(id).starts_with(' ');
    words.push_back(words.empty() ? 0 : words.back() + begins);
  }
  return words;
}

// A model's input for a sentence. Tokens [begin, end) are the sentence itself, without special tokens, languages and
// prefixes.
struct SourceIds {
  std::vector<int32_t> ids{};
  size_t begin = 0, end = 0;
  bool cut = false;
};

// Aligns each target word with the source word that its pieces attended to most.
std::vector<std::pair<int64_t, int64_t>> align(const Tokenizer& of_source, const SourceIds& source,
                                               const Tokenizer& of_target, const std::vector<int32_t>& target,
                                               const Tensor& attention) {  // (target + 1, source + 1)
  std::vector<std::pair<int64_t, int64_t>> pairs;
  const std::span<const int32_t> of_sentence = std::span(source.ids).subspan(source.begin, source.end - source.begin);
  const std::vector<size_t> source_words = words_of(of_source, of_sentence), target_words = words_of(of_target, target);
  if (of_sentence.empty()) return pairs;
  std::vector<double> mass;
  for (size_t i = 0; i < target.size(); ++i) {
    if (i == 0 || target_words[i] != target_words[i - 1]) mass.assign(source_words.back() + 1, 0);
    for (size_t j = 0; j < of_sentence.size(); ++j) mass[source_words[j]] += attention.at<float>(i, source.begin + j);
    if (i + 1 == target.size() || target_words[i + 1] != target_words[i])
      pairs.emplace_back(std::max_element(mass.begin(), mass.end()) - mass.begin(), target_words[i]);
  }
  return pairs;
}

// Sources of models with details include special tokens; others get their end token in translate().
bool takes_whole_sources(std::span<const Transformer* const> models) { return models.front()->details().has_value(); }

int64_t longest_source(std::span<const Transformer* const> models) {
  int64_t longest = std::numeric_limits<int64_t>::max();
  for (const Transformer* model : models) longest = std::min(longest, model->config().max_positions);
  return takes_whole_sources(models) ? longest : longest - 1;
}

// Marian's models take the target language from a token before the text, ">>fra<<".
constexpr std::string_view kCodeBegins = ">>", kCodeEnds = "<<";

bool is_code(std::string_view token) {
  return token.size() > kCodeBegins.size() + kCodeEnds.size() && token.starts_with(kCodeBegins) &&
         token.ends_with(kCodeEnds);
}

// The language code that a text begins with, if it is a token; else empty.
std::string_view code_of(const Tokenizer& tokenizer, std::string_view text) {
  if (!text.starts_with(kCodeBegins)) return {};
  const size_t end = text.find(kCodeEnds);
  if (end == text.npos) return {};
  const std::string_view code = text.substr(0, end + kCodeEnds.size());
  return is_code(code) && tokenizer.id_of(code) ? code : std::string_view();
}

// Other models have a token for each language, fra_Latn or __fr__: a special one, or one of the tokenizer's class.
// Brackets mark special tokens that are not languages: </s>, <mask>, [PAD].
bool is_language(const Tokenizer& tokenizer, int32_t id) {
  if (tokenizer.language(id)) return true;
  if (!tokenizer.special(id)) return false;
  const std::string token = tokenizer.token(id).value_or("");
  return !token.empty() && token.front() != '<' && token.front() != '[';
}

// "__fr__" and ">>fr<<" are named "fr".
std::string name_of_language(std::string token) {
  constexpr std::string_view kUnderscores = "__";
  const auto strip = [&token](std::string_view front, std::string_view back) {
    if (token.size() > front.size() + back.size() && token.starts_with(front) && token.ends_with(back))
      token = token.substr(front.size(), token.size() - front.size() - back.size());
  };
  strip(kUnderscores, kUnderscores);
  strip(kCodeBegins, kCodeEnds);
  return token;
}

// `codes`: the accepted codes.
[[noreturn]] void refuse_language(const Tokenizer& tokenizer, const std::string& language, bool codes) {
  constexpr size_t kNamed = 12;
  std::vector<std::string> known;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    std::string token = tokenizer.token(id).value_or("");
    if (is_language(tokenizer, id) || (codes && is_code(token))) known.push_back(name_of_language(std::move(token)));
  }
  if (known.empty())
    throw UsageError("translate: the language is " + language +
                     ", and the model's tokenizer has no languages; leave it out");
  std::string names = known.front();
  for (size_t i = 1; i < std::min(known.size(), kNamed); ++i) names += ", " + known[i];
  if (known.size() > kNamed) names += " or one of " + std::to_string(known.size() - kNamed) + " others";
  throw UsageError("translate: the model has no language '" + language + "'; name " + names);
}

// A call's languages as tokens, and as text before each sentence.
struct Languages {
  std::optional<int32_t> source{}, target{};
  std::string code{};  // before the prefix
  std::string prefix{};
};

std::optional<int32_t> language_token(const Tokenizer& tokenizer, const std::string& language, bool codes = false) {
  if (language.empty()) return {};
  for (const std::string& token : {language, "__" + language + "__"}) {
    const std::optional<int32_t> id = tokenizer.id_of(token);
    if (id && is_language(tokenizer, *id)) return id;
  }
  refuse_language(tokenizer, language, codes);
}

Languages languages_of(const Tokenizer& source, const Tokenizer& target, const TranslateOptions& options) {
  Languages languages{.prefix = options.prefix};
  languages.source = language_token(source, options.source_language);
  const std::string& language = options.target_language;
  for (const std::string& code : {language, std::string(kCodeBegins) + language + std::string(kCodeEnds)})
    if (!language.empty() && is_code(code) && source.id_of(code)) {
      languages.code = code;
      return languages;
    }
  languages.target = language_token(target, language, /*codes=*/true);
  return languages;
}

// The text to put before a part: the language code of the part, else of its line, else of the call.
std::string prefix_of(const Tokenizer& tokenizer, const Languages& languages, std::string_view code_of_line,
                      std::string_view text) {
  if (!code_of(tokenizer, text).empty()) return languages.prefix;
  const std::string code(code_of_line.empty() ? std::string_view(languages.code) : code_of_line);
  return (code.empty() ? "" : code + ' ') + languages.prefix;
}

// `before` is put before the text.
SourceIds source_ids(const Tokenizer& tokenizer, const std::string& before, std::string_view text,
                     std::optional<int32_t> language, bool whole, size_t longest) {
  Encoding tokens = tokenizer.encode(before + std::string(text), /*special_tokens=*/whole);
  const auto is_added = [&](size_t i) { return tokens.added[i] != 0; };
  SourceIds source{.end = tokens.ids.size()};
  while (source.end > 0 && is_added(source.end - 1)) --source.end;
  const size_t behind = tokens.ids.size() - source.end;
  const auto is_before = [&](size_t i) {
    return is_added(i) || (!before.empty() && tokens.offsets[i].end <= before.size());
  };
  while (source.begin < source.end && is_before(source.begin)) ++source.begin;
  if (language) {
    if (tokens.added.empty() || !is_added(0))
      throw UsageError("translate: the tokenizer adds no source language to a text; leave out the source language");
    tokens.ids.front() = *language;
  }
  source.ids = std::move(tokens.ids);
  source.cut = source.ids.size() > longest;
  if (!source.cut) return source;
  // Trailing special tokens are kept.
  source.end = std::max(longest, behind) - behind;
  source.begin = std::min(source.begin, source.end);
  source.ids.erase(source.ids.begin() + static_cast<std::ptrdiff_t>(source.end),
                   source.ids.end() - static_cast<std::ptrdiff_t>(behind));
  return source;
}

// The target of a model with details, without the end token, which loss() adds.
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

// A part to translate: a sentence of a line, or the whole line.
struct Part {
  size_t line, number;      // index within the line
  std::string_view before;  // text between the previous part and this one, or the line's code
  std::string_view text;
  std::string_view code{};  // target language of the whole line, which begins with it
  SourceIds source{};
  std::vector<int32_t> given{};
  std::vector<Translation> best{};
};

std::vector<Part> parts_of(const Tokenizer& tokenizer, const std::vector<std::string>& lines, bool split) {
  std::vector<Part> parts;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) continue;
    std::string_view line = lines[i];
    if (!split) {
      parts.push_back({i, 0, {}, line});
      continue;
    }
    std::string_view code = code_of(tokenizer, line);
    if (is_blank(line.substr(code.size()))) code = {};
    line.remove_prefix(code.size());
    const char* end = code.empty() ? nullptr : line.data();  // end of the text before the part
    size_t number = 0;
    for (const std::string_view sentence : split_sentences(line)) {
      const char* const begin = end ? end : sentence.data();
      parts.push_back({i, number++, {begin, static_cast<size_t>(sentence.data() - begin)}, sentence, code});
      end = sentence.data() + sentence.size();
    }
  }
  return parts;
}

// The words that begin in text[begin, end); words are separated by spaces.
int64_t words_in(std::string_view text, size_t begin, size_t end) {
  int64_t words = 0;
  for (size_t i = begin; i < end; ++i) words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
  return words;
}

// The text between two sentences of a translation. Full-width stops are followed directly, others by a space.
std::string_view between(std::string_view before, std::string_view translated) {
  constexpr std::string_view kFirstFullWidth = "\u3000";  // UTF-8 sorts like code points
  size_t last = translated.size();
  while (last > 0 && (translated[--last] & 0xC0) == 0x80) continue;
  return before.empty() && translated.substr(last) < kFirstFullWidth ? " " : before;
}

// Counts the words of a text that is passed through once.
class WordCount {
 public:
  // The words before one that follows text[0, end) and `gap`. `end` never decreases.
  int64_t before(std::string_view text, size_t end, std::string_view gap) {
    words_ += words_in(text, counted_, end);
    counted_ = end;
    return gap.find(' ') == gap.npos && words_ > 0 ? words_ - 1 : words_;  // it continues the last word
  }

 private:
  size_t counted_ = 0;
  int64_t words_ = 0;
};

// Tokenizers and models of a translation.
struct Texts {
  std::span<const Transformer* const> models;
  const Tokenizer& source;
  const Tokenizer& target;
};

Translation translation_of(const Texts& texts, const Part& part, const Hypothesis& h, bool want_alignment) {
  Translation t{.text = texts.target.decode(h.ids), .score = h.score, .log_probability = h.log_probability};
  for (char& c : t.text)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';  // keeps output on one line; tabs separate columns
  for (size_t i = 0; i < h.token_log_probabilities.size(); ++i) {
    const int32_t id = i < h.ids.size() ? h.ids[i] : h.end.value_or(texts.models.front()->config().eos_id);
    t.tokens.emplace_back(texts.target.token(id).value_or(""), h.token_log_probabilities[i]);
  }
  if (want_alignment && h.alignment.defined())
    t.alignment = align(texts.source, part.source, texts.target, h.ids, h.alignment);
  return t;
}

// The best translation of each text, in their order. Of a list an empty one is of no use, unless it is the best.
void keep_distinct(std::vector<Translation>& best) {
  std::vector<Translation> kept;
  for (Translation& t : best) {
    if (!kept.empty() && t.text.empty()) continue;
    if (std::any_of(kept.begin(), kept.end(), [&](const Translation& k) { return k.text == t.text; })) continue;
    kept.push_back(std::move(t));
  }
  best = std::move(kept);
}

using Choice = std::vector<size_t>;  // one of the translations of each part

// The choices with the highest sums of scores, best first. Each part's translations are sorted by theirs.
std::vector<Choice> best_choices(std::span<const Part> parts, size_t most) {
  struct Sum {
    double score = 0;
    size_t before = 0, last = 0;  // indices among the sums before this part, and among the part's translations
  };
  const auto worse = [](const Sum& a, const Sum& b) {
    return a.score != b.score ? a.score < b.score : std::tie(a.before, a.last) > std::tie(b.before, b.last);
  };
  std::vector<std::vector<Sum>> sums = {{Sum{}}};
  for (const Part& part : parts) {
    const std::vector<Sum>& before = sums.back();
    const auto sum = [&](size_t i, size_t n) { return Sum{before[i].score + part.best[n].score, i, n}; };
    // A sum is no better than those that differ from it by one index less.
    std::priority_queue<Sum, std::vector<Sum>, decltype(worse)> next(worse);
    next.push(sum(0, 0));
    std::vector<Sum> found;
    while (!next.empty() && found.size() < most) {
      const Sum best = next.top();
      next.pop();
      found.push_back(best);
      if (best.last + 1 < part.best.size()) next.push(sum(best.before, best.last + 1));
      if (best.last == 0 && best.before + 1 < before.size()) next.push(sum(best.before + 1, 0));
    }
    sums.push_back(std::move(found));
  }
  std::vector<Choice> choices;
  for (size_t i = 0; i < sums.back().size(); ++i) {
    Choice choice(parts.size());
    for (size_t p = parts.size(), at = i; p-- > 0; at = sums[p + 1][at].before) choice[p] = sums[p + 1][at].last;
    choices.push_back(std::move(choice));
  }
  return choices;
}

// Drawn translations are joined in their order, the n-th of each part; a part without words has one.
std::vector<Choice> choices_of(std::span<const Part> parts, const BeamOptions& options) {
  const auto most = static_cast<size_t>(options.n_best);
  if (!options.sampling) return best_choices(parts, most);
  std::vector<Choice> choices(most, Choice(parts.size()));
  for (size_t n = 0; n < most; ++n)
    for (size_t p = 0; p < parts.size(); ++p) choices[n][p] = std::min(n, parts[p].best.size() - 1);
  return choices;
}

// The translation of a line from those of its parts.
Translation line_of(std::span<const Part> parts, const Choice& choice, const std::string& line) {
  Translation whole;
  WordCount source, target;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Part& part = parts[p];
    const Translation& next = part.best[choice[p]];
    const std::string_view space = p > 0 ? between(part.before, whole.text) : std::string_view();
    if (!next.alignment.empty()) {
      const size_t done = static_cast<size_t>(part.text.data() - line.data()) - part.before.size();
      const bool counts = p > 0 || !part.code.empty();  // before the first part there may be a code
      const int64_t from = counts ? source.before(line, done, part.before) : 0;
      const int64_t to = p > 0 ? target.before(whole.text, whole.text.size(), space) : 0;
      for (const auto& [word, translated] : next.alignment) whole.alignment.emplace_back(word + from, translated + to);
    }
    whole.text.append(space).append(next.text);
    whole.score += next.score;
    whole.log_probability += next.log_probability;
    whole.tokens.insert(whole.tokens.end(), next.tokens.begin(), next.tokens.end());
  }
  return whole;
}

using Batch = std::vector<size_t>;  // indices of parts

// Long parts first, so that batches wait for each other less. Batches depend only on the parts of the text.
std::vector<Batch> batches_of(const std::vector<Part>& parts, bool given, size_t size) {
  const auto together = [&](size_t i) { return parts[i].line / static_cast<size_t>(kLinesTogether); };
  std::vector<size_t> order;
  for (size_t i = 0; i < parts.size(); ++i)
    if (given || !parts[i].source.ids.empty()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return together(a) != together(b) ? together(a) > together(b)
                                      : parts[a].source.ids.size() < parts[b].source.ids.size();
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
                   std::optional<int32_t> language, std::vector<Part>& parts) {
  std::vector<std::vector<int32_t>> sources, targets;
  BeamOptions beam = options.beam;
  const bool list = beam.n_best > 1 && !beam.sampling && !given;  // of different texts
  if (list) beam.n_best = beam.beam.value_or(BeamOptions::kBeam);
  if (language) beam.rules.first_token = language;
  beam.streams.clear();
  for (const size_t i : batch) {
    sources.push_back(parts[i].source.ids);
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
    if (list) keep_distinct(part.best);
  }
}

// Gathers the results of each rank on rank 0, in the order of batches.
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

// Translates the parts, or scores given translations, and records which lines were cut.
void work_on(const Texts& texts, std::vector<Part>& parts, bool given, const TranslateOptions& options,
             std::vector<TranslatedLine>& lines) {
  if (options.batch < 1) throw ShapeError("translate: batch " + std::to_string(options.batch) + " must be 1 or more");
  BeamOptions checked = options.beam;
  checked.streams.clear();
  if (given) checked.refused.clear();
  // Checks the options even if all lines are blank.
  heed::translate(texts.models, std::vector<std::vector<int32_t>>{}, checked);
  const auto longest = static_cast<size_t>(longest_source(texts.models));
  const Languages languages = languages_of(texts.source, texts.target, options);
  for (Part& part : parts) {
    const std::string before = prefix_of(texts.source, languages, part.code, part.text);
    part.source =
        source_ids(texts.source, before, part.text, languages.source, takes_whole_sources(texts.models), longest);
    lines[part.line].cut = lines[part.line].cut || part.source.cut;
  }
  // Ranks and threads get whole batches, which synchronise less often than parts of one batch.
  const std::vector<Batch> batches = batches_of(parts, given, static_cast<size_t>(options.batch));
  const int64_t rank = options.ranks ? options.ranks->rank() : 0, ranks = options.ranks ? options.ranks->size() : 1;
  const int64_t own = std::max<int64_t>(std::ssize(batches) - rank + ranks - 1, 0) / ranks;
  parallel_for(default_executor(), own, [&](int64_t n) {
    if (options.on_batch) options.on_batch();
    work_on_batch(texts, batches[static_cast<size_t>(n * ranks + rank)], given, options, languages.target, parts);
  });
  if (options.ranks) gather(*options.ranks, batches, parts);
}

bool has_results(const TranslateOptions& options) { return !options.ranks || options.ranks->rank() == 0; }

}  // namespace

std::vector<TranslatedLine> translate_lines(std::span<const Transformer* const> models, const Tokenizer& source,
                                            const Tokenizer& target, const std::vector<std::string>& lines,
                                            const TranslateOptions& options) {
  std::vector<TranslatedLine> results(lines.size());
  std::vector<Part> parts = parts_of(source, lines, options.split.value_or(true));
  work_on({models, source, target}, parts, /*given=*/false, options, results);
  if (!has_results(options)) return {};
  for (size_t i = 0, end = 0; i < lines.size(); ++i) {
    const size_t begin = end;
    while (end < parts.size() && parts[end].line == i) ++end;
    const std::span<Part> of_line(parts.data() + begin, end - begin);
    for (Part& part : of_line)
      if (part.best.empty()) part.best.emplace_back();
    std::vector<Translation>& best = results[i].best;
    if (of_line.empty())
      best.push_back({.text = lines[i]});
    else
      for (const Choice& choice : choices_of(of_line, options.beam)) best.push_back(line_of(of_line, choice, lines[i]));
    if (!options.beam.sampling) keep_distinct(best);
  }
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
  const Languages languages = languages_of(model.source_tokenizer(), model.tokenizer(), options);
  const std::optional<int32_t> first = languages.target ? languages.target : model.pretrained().beam.rules.first_token;
  SentencePairs pairs;
  for (const std::string& line : texts.source) {
    pairs.source.emplace_back();
    if (!is_blank(line))
      pairs.source.back() =
          source_ids(model.source_tokenizer(), prefix_of(model.source_tokenizer(), languages, {}, line), line,
                     languages.source, whole, std::numeric_limits<size_t>::max())
              .ids;
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
  return load(directory, options);
}

bool same_tokens(const Tokenizer& a, const Tokenizer& b) {
  if (a.size() != b.size()) return false;
  for (int32_t id = 0; id < static_cast<int32_t>(a.size()); ++id)
    if (a.token(id) != b.token(id)) return false;
  return true;
}

}  // namespace

Translator::Translator(const std::vector<std::string>& directories, const LoadOptions& options) {
  for (const std::string& directory : directories) add(load_transformer(directory, options));
}

Translator::Translator(StoredModel model) { add(std::move(model)); }

void Translator::add(StoredModel model) {
  const auto* const transformer = model.get_if<Transformer>();
  if (!transformer)
    throw UsageError((model.path().empty() ? "the model" : model.path()) + " holds a " + model.model_type() +
                     ", which does not translate; name the directory of a model with an encoder and a decoder");
  stored_.push_back(std::move(model));
  models_.push_back(transformer);
  const StoredModel &first = stored_.front(), &last = stored_.back();
  if (!same_tokens(first.tokenizer(), last.tokenizer()) ||
      !same_tokens(first.source_tokenizer(), last.source_tokenizer()) ||
      models_.front()->details().has_value() != models_.back()->details().has_value())
    throw UsageError("the vocabulary of " + last.path() + " is not that of " + first.path() +
                     "; models that translate together need one vocabulary");
}

std::vector<TranslatedLine> Translator::translate(const std::vector<std::string>& lines,
                                                  const TranslateOptions& options) const {
  TranslateOptions completed = options;
  completed.beam = stored().completed(options.beam);
  completed.split = options.split.value_or(stored().takes_sentences());
  return translate_lines(models_, stored().source_tokenizer(), stored().tokenizer(), lines, completed);
}

std::vector<TranslatedLine> Translator::score(const std::vector<std::string>& lines,
                                              const std::vector<std::string>& given,
                                              const TranslateOptions& options) const {
  TranslateOptions completed = options;
  completed.beam = stored().completed(options.beam);
  return score_lines(models_, stored().source_tokenizer(), stored().tokenizer(), lines, given, completed);
}

int64_t Translator::max_source_tokens() const {
  const int64_t longest = longest_source(models_);
  if (!takes_whole_sources(models_)) return longest;
  return longest - std::ssize(stored().source_tokenizer().encode("").ids);
}

}  // namespace heed::inline v0
