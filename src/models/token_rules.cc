#include "models/token_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

namespace heed::inline v0 {
namespace {

using Ids = std::vector<int32_t>;

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

bool ends_with(std::span<const int32_t> text, std::span<const int32_t> ids) {
  return ids.size() <= text.size() && std::equal(ids.begin(), ids.end(), text.end() - std::ssize(ids));
}

void ban(const Ids& ids, std::span<float> scores) {
  for (const int32_t id : ids) scores[static_cast<size_t>(id)] = kImpossible;
}

void allow_only(const Ids& ids, std::span<float> scores) {
  std::fill(scores.begin(), scores.end(), kImpossible);
  for (const int32_t id : ids) scores[static_cast<size_t>(id)] = 0;
}

// Bans each token that would complete an n-gram of `size` tokens that occurs in `seen`.
void ban_repeated_rows(std::span<const int32_t> seen, std::span<const int32_t> text, size_t size,
                       std::span<float> scores) {
  if (text.size() + 1 < size || seen.size() < size) return;
  const auto before = text.last(size - 1);
  for (size_t begin = 0; begin + size <= seen.size(); ++begin) {
    const auto next = static_cast<size_t>(seen[begin + size - 1]);
    if (next < scores.size() &&  // the source may have another vocabulary
        std::equal(before.begin(), before.end(), seen.begin() + static_cast<std::ptrdiff_t>(begin)))
      scores[next] = kImpossible;
  }
}

class Bias : public ScoreRule {
 public:
  explicit Bias(std::vector<SequenceBias> all) : all_(std::move(all)) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    for (const SequenceBias& one : all_) {
      const std::span<const int32_t> ids(one.ids);
      if (ends_with(text.ids, ids.first(ids.size() - 1)))
        scores[static_cast<size_t>(ids.back())] += static_cast<float>(one.bias);
    }
  }

 private:
  std::vector<SequenceBias> all_;
};

class RepetitionPenalty : public ScoreRule {
 public:
  enum class Of : uint8_t { text, source };
  RepetitionPenalty(double penalty, Of of) : penalty_(static_cast<float>(penalty)), of_(of) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    std::vector<bool> done(scores.size());
    for (const int32_t id : of_ == Of::text ? text.ids : text.source) {
      const auto at = static_cast<size_t>(id);
      if (at >= scores.size() || done[at]) continue;
      done[at] = true;
      scores[at] = scores[at] < 0 ? scores[at] * penalty_ : scores[at] / penalty_;
    }
  }

 private:
  float penalty_;
  Of of_;
};

class NoRepeatedRows : public ScoreRule {
 public:
  explicit NoRepeatedRows(int64_t size) : size_(static_cast<size_t>(size)) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    ban_repeated_rows(text.ids, text.ids, size_, scores);
  }

 private:
  size_t size_;
};

class NoRowsOfTheSource : public ScoreRule {
 public:
  explicit NoRowsOfTheSource(int64_t size) : size_(static_cast<size_t>(size)) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    ban_repeated_rows(text.source, text.ids, size_, scores);
  }

 private:
  size_t size_;
};

class NoEndYet : public ScoreRule {
 public:
  NoEndYet(const TokenRules& rules, Ids ends)
      : length_(rules.min_length), tokens_(rules.min_tokens), ends_(std::move(ends)) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    const auto length = std::ssize(text.ids);
    const bool too_short = tokens_ ? length - static_cast<int64_t>(text.prompt) < *tokens_ : length < *length_;
    if (too_short) ban(ends_, scores);
  }

 private:
  std::optional<int64_t> length_, tokens_;
  Ids ends_;
};

class FirstToken : public ScoreRule {
 public:
  explicit FirstToken(int32_t id) : id_{id} {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    if (text.ids.size() == 1) allow_only(id_, scores);
  }

 private:
  Ids id_;
};

class LastToken : public ScoreRule {
 public:
  explicit LastToken(Ids ids) : ids_(std::move(ids)) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    if (text.last) allow_only(ids_, scores);
  }

 private:
  Ids ids_;
};

class FiniteScores : public ScoreRule {
 public:
  void apply(const TextSoFar&, std::span<float> scores) const override {
    for (float& score : scores) score = std::max(score, std::numeric_limits<float>::lowest());
  }
};

class DecayOfLength : public ScoreRule {
 public:
  DecayOfLength(const LengthDecay& decay, Ids ends) : decay_(decay), ends_(std::move(ends)) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    const int64_t beyond = std::ssize(text.ids) - static_cast<int64_t>(text.prompt) - decay_.start;
    if (beyond <= 0) return;
    const auto more = static_cast<float>(std::pow(decay_.factor, static_cast<double>(beyond)) - 1);
    for (const int32_t id : ends_) {
      float& score = scores[static_cast<size_t>(id)];
      if (std::isfinite(score)) score += std::abs(score) * more;
    }
  }

 private:
  LengthDecay decay_;
  Ids ends_;
};

class Never : public ScoreRule {
 public:
  explicit Never(Ids ids) : ids_(std::move(ids)) {}
  void apply(const TextSoFar&, std::span<float> scores) const override { ban(ids_, scores); }

 private:
  Ids ids_;
};

class NeverFirst : public ScoreRule {
 public:
  NeverFirst(Ids ids, bool first_is_given) : ids_(std::move(ids)), first_is_given_(first_is_given) {}
  void apply(const TextSoFar& text, std::span<float> scores) const override {
    const bool second = first_is_given_ && text.prompt == 1;
    if (text.ids.size() == text.prompt + (second ? 1 : 0)) ban(ids_, scores);
  }

 private:
  Ids ids_;
  bool first_is_given_;
};

// Throws ShapeError with the field that is out of range.
class Check {
 public:
  Check(int64_t vocab_size, const std::string& operation) : vocab_size_(vocab_size), operation_(operation) {}

  void value(bool good, const char* field, double value, const char* rule) const {
    if (good) return;
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.17g", value);
    throw ShapeError(operation_ + ": " + field + " is " + text.data() + "; it must be " + rule);
  }
  void penalty(const std::optional<double>& given, const char* field) const {
    if (given) value(*given > 0 && std::isfinite(*given), field, *given, "above 0, and 1 for none");
  }
  void count(const std::optional<int64_t>& given, const char* field) const {
    if (given) value(*given >= 0, field, static_cast<double>(*given), "0 or more");
  }
  void ids(const Ids& ids, const char* field) const {
    for (const int32_t id : ids)
      if (id < 0 || id >= vocab_size_)
        throw ShapeError(operation_ + ": token " + std::to_string(id) + " of " + field + " is not in 0.." +
                         std::to_string(vocab_size_ - 1));
  }
  // A token that is both required and forbidden leaves no choice.
  void some_left(const Ids& wanted, const Ids& never, const char* field) const {
    const auto banned = [&](int32_t id) { return std::find(never.begin(), never.end(), id) != never.end(); };
    if (!wanted.empty() && std::all_of(wanted.begin(), wanted.end(), banned))
      throw ShapeError(operation_ + ": " + field + " is token " + std::to_string(wanted.front()) +
                       ", which `never` forbids; leave it out of one of them");
  }

 private:
  int64_t vocab_size_;
  const std::string& operation_;
};

void check(const TokenRules& rules, const Check& check) {
  for (const SequenceBias& one : rules.sequence_bias) {
    check.ids(one.ids, "sequence_bias");
    check.value(!one.ids.empty(), "the length of a row of sequence_bias", 0, "1 or more");
    check.value(std::isfinite(one.bias), "a bias of sequence_bias", one.bias, "finite");
  }
  check.penalty(rules.encoder_repetition_penalty, "encoder_repetition_penalty");
  check.penalty(rules.repetition_penalty, "repetition_penalty");
  check.count(rules.no_repeat_ngram_size, "no_repeat_ngram_size");
  check.count(rules.encoder_no_repeat_ngram_size, "encoder_no_repeat_ngram_size");
  for (const Ids& word : rules.bad_words) check.ids(word, "bad_words");
  check.count(rules.min_length, "min_length");
  check.count(rules.min_tokens, "min_tokens");
  const Ids first = rules.first_token ? Ids{*rules.first_token} : Ids();
  check.ids(first, "first_token");
  check.ids(rules.last_tokens, "last_tokens");
  check.some_left(first, rules.never, "first_token");
  check.some_left(rules.last_tokens, rules.never, "last_tokens");
  const double factor = rules.length_decay ? rules.length_decay->factor : 1;
  check.value(std::isfinite(factor), "length_decay.factor", factor, "finite");
  check.ids(rules.never, "never");
  check.ids(rules.never_first, "never_first");
}

}  // namespace

void validate(const TokenRules& rules, const std::string& operation) {
  check(rules, Check(int64_t{1} << 31, operation));
}

ScoreRules::ScoreRules(const TokenRules& rules, Ids ends, int64_t vocab_size, const std::string& operation) {
  check(rules, Check(vocab_size, operation));
  std::erase_if(ends, [&](int32_t id) { return id < 0 || id >= vocab_size; });  // it is never written
  const auto add = [this](auto rule, bool depends_on_scale = false) {
    rules_.push_back(std::make_unique<const decltype(rule)>(std::move(rule)));
    depend_on_scale_ = depend_on_scale_ || depends_on_scale;
  };
  const auto is_penalty = [](const std::optional<double>& penalty) { return penalty.value_or(1) != 1; };
  using Of = RepetitionPenalty::Of;
  if (!rules.sequence_bias.empty()) add(Bias(rules.sequence_bias));
  if (is_penalty(rules.encoder_repetition_penalty))
    add(RepetitionPenalty(1 / *rules.encoder_repetition_penalty, Of::source), /*depends_on_scale=*/true);
  if (is_penalty(rules.repetition_penalty))
    add(RepetitionPenalty(*rules.repetition_penalty, Of::text), /*depends_on_scale=*/true);
  if (rules.no_repeat_ngram_size.value_or(0) > 0) add(NoRepeatedRows(*rules.no_repeat_ngram_size));
  if (rules.encoder_no_repeat_ngram_size.value_or(0) > 0) add(NoRowsOfTheSource(*rules.encoder_no_repeat_ngram_size));
  std::vector<SequenceBias> bad_words;
  for (const Ids& word : rules.bad_words)
    if (word.size() > 1 || (word.size() == 1 && std::find(ends.begin(), ends.end(), word[0]) == ends.end()))
      bad_words.push_back({word, -std::numeric_limits<double>::infinity()});
  if (!bad_words.empty()) add(Bias(std::move(bad_words)));
  if (!ends.empty() && rules.min_tokens.value_or(rules.min_length.value_or(0)) > 0) add(NoEndYet(rules, ends));
  if (rules.first_token) add(FirstToken(*rules.first_token), /*depends_on_scale=*/true);
  if (!rules.last_tokens.empty()) add(LastToken(rules.last_tokens), /*depends_on_scale=*/true);
  if (rules.finite_scores) add(FiniteScores());
  if (rules.length_decay) add(DecayOfLength(*rules.length_decay, ends), /*depends_on_scale=*/true);
  if (!rules.never.empty()) add(Never(rules.never));
  if (!rules.never_first.empty()) add(NeverFirst(rules.never_first, rules.first_token.has_value()));
}

}  // namespace heed::inline v0
