#include "recipe/choose.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "heed/optim.h"
#include "heed/random.h"
#include "heed/text.h"
#include "heed/train.h"

namespace heed::inline v0 {
namespace {

constexpr double kBleuSentences = 200;  // to choose weights by: the default is for the log
constexpr double kEverything = 1e12;    // no count is larger; keeps what is computed with finite

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}
std::string whole(double value) { return std::to_string(static_cast<int64_t>(std::llround(value))); }
// A round number near `value`, `step` and up.
double rounded(double value, double step) { return std::max(std::round(value / step), 1.0) * step; }
// 1.2 million
std::string amount(double value) {
  if (value >= 1e6) return number(value / 1e6) + " million";
  return whole(value);
}

// The value at `x` of the line through (log x0, y0) and (log x1, y1), kept between y0 and y1.
double between(double x, double x0, double y0, double x1, double y1) {
  const double along = std::log(std::max(x, 1.0) / x0) / std::log(x1 / x0);
  return y0 + (y1 - y0) * std::clamp(along, 0.0, 1.0);
}

// One of those that are tried, from the smallest.
struct Size {
  int64_t width, heads, feed_forward, encoder_layers, decoder_layers;  // of a text only decoder layers
};
constexpr Size kPairsSizes[] = {{64, 2, 128, 2, 1},  {96, 3, 192, 2, 2},   {128, 4, 256, 2, 2}, {192, 4, 384, 3, 2},
                                {256, 4, 512, 3, 2}, {384, 6, 1024, 4, 3}, {512, 8, 2048, 6, 6}};
constexpr Size kTextSizes[] = {{64, 2, 256, 0, 2},   {96, 3, 384, 0, 3},   {128, 4, 512, 0, 3},   {192, 4, 768, 0, 3},
                               {256, 4, 1024, 0, 4}, {384, 6, 1536, 0, 6}, {768, 12, 3072, 0, 12}};

bool is_empty(const TrainingRequest& options) {
  return std::ranges::all_of(training_options(),
                             [&](const TrainingOption& o) { return option_values(options, o.field).empty(); });
}

class Chooser {
 public:
  Chooser(const TrainFacts& facts, const TrainingRequest& given) : facts_(facts), given_(given) {}

  std::vector<Choice> choose() {
    choose_vocabulary();
    choose_size();
    choose_regularisation();
    choose_steps();
    return std::move(choices_);
  }

 private:
  using R = TrainingRequest;
  template <class T>
  bool has(std::optional<T> R::*option) const {
    return (given_.*option).has_value();
  }
  template <class T>
  double value(std::optional<T> R::*option, double otherwise) const {
    return has(option) ? static_cast<double>(*(given_.*option)) : otherwise;
  }
  bool is(std::optional<std::string> R::*option, const char* text) const { return given_.*option == text; }
  void begin(const std::string& reason) { choices_.push_back({.reason = reason}); }
  // Chooses the value unless it was given, and returns the one that counts from here on.
  double settle(std::optional<int64_t> R::*option, double chosen) {
    if (has(option)) return value(option, 0);
    choices_.back().options.*option = std::llround(chosen);
    return chosen;
  }
  double settle(std::optional<double> R::*option, double chosen) {
    if (has(option)) return value(option, 0);
    choices_.back().options.*option = std::atof(number(chosen).c_str());  // as it is printed
    return chosen;
  }
  template <class T, class Value>
  void settle_as(std::optional<T> R::*option, Value chosen) {
    if (!has(option)) choices_.back().options.*option = chosen;
  }
  void end() {
    if (is_empty(choices_.back().options)) choices_.pop_back();
  }

  std::string data() const {
    return facts_.text ? amount(static_cast<double>(facts_.bytes)) + " bytes"
                       : amount(static_cast<double>(facts_.pairs)) + " pairs";
  }

  // Larger ones tell more words apart, and need more text to learn each piece.
  void choose_vocabulary() {
    bytes_ = std::clamp(static_cast<double>(facts_.bytes), 1.0, kEverything);
    const auto characters = static_cast<double>(facts_.characters);
    const bool of_characters = facts_.text && is(&R::vocab_type, "characters");
    if (of_characters) {
      pieces_ = characters + 1;
    } else if (has(&R::init) ||
               (has(&R::vocabulary) && given_.separate_vocabularies.value_or(false) == has(&R::source_vocabulary))) {
      pieces_ = value(&R::vocab_size, 2000);
    } else {
      begin("for " + data());
      const double by_bytes = std::clamp(1000 * std::pow(bytes_ / 150e3, 0.3), 300.0, 32000.0);
      pieces_ = settle(&R::vocab_size, rounded(std::max(by_bytes, 260 + 1.5 * characters), 100));
      end();
    }
    const double bytes_a_token =
        of_characters ? std::max(1.0, bytes_ / kEverything) : 2.4 * std::pow(std::max(pieces_, 300.0) / 1000, 0.2);
    const auto pairs = static_cast<double>(std::max<int64_t>(facts_.pairs, 1));
    // Of an epoch, on one side and with its end tokens.
    tokens_ = facts_.text ? bytes_ / bytes_a_token : bytes_ / 2 / bytes_a_token + pairs;
    validation_tokens_ = tokens_ * static_cast<double>(facts_.validation_bytes) / bytes_;
    length_ = facts_.text ? value(&R::block, block()) : std::clamp(tokens_ / pairs, 1.0, 1e4);
  }
  double block() const { return between(tokens_, 50e3, 64, 5e6, 256) >= 128 ? 128 : 64; }

  double steps_of(const Size& size) const {  // floating-point operations of an epoch
    const auto length = static_cast<int64_t>(length_ + 0.5);
    const double once = facts_.text ? training_flop(LanguageModelConfig{.vocab_size = static_cast<int64_t>(pieces_),
                                                                        .d_model = size.width,
                                                                        .nhead = size.heads,
                                                                        .num_layers = size.decoder_layers,
                                                                        .dim_feedforward = size.feed_forward},
                                                    length)
                                    : training_flop(TransformerConfig{.vocab_size = static_cast<int64_t>(pieces_),
                                                                      .d_model = size.width,
                                                                      .nhead = size.heads,
                                                                      .num_encoder_layers = size.encoder_layers,
                                                                      .num_decoder_layers = size.decoder_layers,
                                                                      .dim_feedforward = size.feed_forward},
                                                    length, length);
    return once * tokens_ / std::max(static_cast<double>(length), 1.0);
  }
  // With what was given.
  Size completed(const Size& size) const {
    Size s = size;
    const auto take = [&](std::optional<int64_t> R::*option, int64_t& field) {
      field = static_cast<int64_t>(std::clamp(value(option, static_cast<double>(field)), 0.0, 1e6));
    };
    take(&R::d_model, s.width);
    take(&R::heads, s.heads);
    if (!has(&R::d_model) && s.heads > 0)  // a multiple of the heads
      s.width = std::max<int64_t>((s.width + s.heads - 1) / s.heads, 1) * s.heads;
    if (!has(&R::heads) && has(&R::d_model)) {
      s.heads = std::clamp<int64_t>(s.width / 32, 1, 16);
      while (s.width % s.heads != 0) --s.heads;
    }
    if (has(&R::d_model)) s.feed_forward = (facts_.text ? 4 : 2) * s.width;
    take(&R::feed_forward, s.feed_forward);
    take(&R::encoder_layers, s.encoder_layers);
    take(facts_.text ? &R::layers : &R::decoder_layers, s.decoder_layers);
    return s;
  }

  // How often the data should be seen at least: the less there is, the oftener.
  double least_epochs() const {
    return facts_.text ? std::clamp(6 * std::pow(400e3 / tokens_, 0.5), 1.0, 100.0)
                       : std::clamp(6 * std::pow(1e6 / tokens_, 0.5), 1.0, 100.0);
  }
  // Beyond, nothing is learned but the data by heart.
  double most_epochs() const { return std::round(10 * least_epochs()); }

  void choose_size() {
    const std::span<const Size> sizes = facts_.text ? std::span<const Size>(kTextSizes) : kPairsSizes;
    // As large as the data allows; without a clock a size that takes minutes, not hours.
    const size_t largest = tokens_ < 20e3 ? 2 : tokens_ < 100e3 ? 3 : tokens_ < 5e6 ? 4 : tokens_ < 50e6 ? 5 : 6;
    const bool timed = facts_.minutes > 0 && facts_.flops > 0;
    const double flop = timed ? 0.9 * 60 * facts_.minutes * facts_.flops : 0;  // the rest goes into validations
    size_t chosen = timed ? 0 : std::min<size_t>(largest, tokens_ < 200e3 ? 2 : 4);
    if (timed)
      while (chosen < largest && flop / steps_of(completed(sizes[chosen + 1])) >= least_epochs()) ++chosen;
    const Size size = completed(sizes[chosen]);
    epochs_ = timed ? std::min(flop / steps_of(size), kEverything) : 2 * least_epochs();
    width_ = static_cast<double>(size.width);
    begin(timed ? number(epochs_) + " epochs of " + data() + " in " + number(facts_.minutes) + " minutes at " +
                      number(facts_.flops * 1e-9) + " GFLOP/s"
                : "for " + data());
    settle(&R::d_model, width_);
    settle(&R::heads, static_cast<double>(size.heads));
    settle(&R::feed_forward, static_cast<double>(size.feed_forward));
    if (!facts_.text) settle(&R::encoder_layers, static_cast<double>(size.encoder_layers));
    settle(facts_.text ? &R::layers : &R::decoder_layers, static_cast<double>(size.decoder_layers));
    settle_as(&R::pre_norm, true);
    end();
    if (has(&R::max_epochs)) epochs_ = std::min(epochs_, value(&R::max_epochs, 0));
    epochs_ = std::min(epochs_, most_epochs());
  }

  // The more epochs over the less text, the more of it.
  void choose_regularisation() {
    const bool chosen = !has(&R::dropout);
    const double most = facts_.text ? between(tokens_, 50e3, 0.2, 1e6, 0.1) : between(tokens_, 40e3, 0.3, 1e6, 0.1);
    const double dropout = std::round(20 * most * between(epochs_, 1, 0.3, 5, 1)) / 20;
    begin(number(std::round(epochs_ * 10) / 10) + " epochs of " + amount(std::round(tokens_)) + " tokens");
    settle(&R::dropout, dropout);
    if (!facts_.text && chosen) settle(&R::subword_dropout, epochs_ >= 30 ? 0.03 : 0);
    end();
  }

  void choose_steps() {
    const double seen = std::max(tokens_ * epochs_, 1.0);
    const double batch_tokens = std::clamp(rounded(seen / 2000, 100), 500.0, facts_.text ? 8192.0 : 8000.0);
    double batch = batch_tokens;
    begin("");
    if (facts_.text) {
      const double block = settle(&R::block, length_);
      batch = block * settle(&R::batch, std::max(std::round(batch_tokens / std::max(block, 1.0)), 1.0));
    } else {
      batch = settle(&R::batch_tokens, batch_tokens);
    }
    batch = std::max(batch, 1.0);
    const double updates = std::max(seen / batch, 1.0);
    // Wide models and small batches want small steps; a model that has learned already smaller ones.
    const double from = has(&R::init) ? 0.3 : 1;
    settle(&R::learning_rate, std::clamp(from * 0.5 / std::max(width_, 1.0), 1e-4, 0.006));
    double warmup = std::min(std::clamp(updates / 20, 20.0, 2000.0), std::max(updates / 5, 1.0));
    if (has(&R::max_updates) && value(&R::max_updates, 0) > 0)
      warmup = std::min(warmup, value(&R::max_updates, 0) / 10);
    settle(&R::warmup, std::floor(warmup));
    choices_.back().reason = "about " + whole(updates) + " updates";
    choose_end(batch, updates);
    end();
  }

  // The rate comes down to 0 as the training ends, unless its way or its number of updates is given: --max-updates
  // alone may be raised later.
  void choose_end(double batch, double updates) {
    if (has(&R::max_updates)) return;
    const bool ends = has(&R::max_minutes) || has(&R::max_epochs);
    const bool by_hand = has(&R::anneal) || (has(&R::schedule) && !is(&R::schedule, "linear"));
    if (by_hand) {
      const bool counts = has(&R::anneal) || is(&R::schedule, "cosine");
      settle(&R::max_updates, counts || !ends ? std::round(updates) : 0);
      return;
    }
    settle_as(&R::schedule, "linear");
    settle(&R::max_updates, 0);
    // A timed run ends with its minutes; but not all data fills them.
    if (!ends || (facts_.minutes > 0 && epochs_ >= most_epochs())) {
      settle(&R::max_epochs, std::max(std::round(epochs_), 1.0));
      choices_.back().reason += ends ? ", more would not help" : "; --max-minutes sets another end";
    }
    settle(&R::patience, 0);
    settle(&R::average, 1);
    choose_criterion();
    // Reading once costs a third of learning from it; all validations together cost about a twentieth.
    const double costs = validation_tokens_ / 3 / 0.05 / batch;
    settle(&R::validate_every, std::ceil(std::clamp(std::max(costs, updates / 20), 1.0, kEverything)));
  }

  // A small corpus seen often: the loss of what the model is sure and wrong about rises while it still learns to
  // translate, above all where the validation pairs are longer than those it learns from.
  void choose_criterion() {
    const bool scores = facts_.validation_bytes > 0 && value(&R::bleu_sentences, kBleuSentences) > 0;
    if (facts_.text || !scores || epochs_ < 10 || has(&R::validate_by)) return;
    settle_as(&R::validate_by, "bleu");
    settle(&R::bleu_sentences, kBleuSentences);
  }

  const TrainFacts& facts_;
  const TrainingRequest& given_;
  std::vector<Choice> choices_;
  double bytes_ = 1, pieces_ = 1, tokens_ = 1, validation_tokens_ = 0, length_ = 1, epochs_ = 1, width_ = 1;
};

}  // namespace

bool TextFacts::add(const std::string& line) {
  const int64_t before = characters_;
  bytes_ += std::ssize(line);
  for (const char32_t code : to_utf32(line)) {
    if (!seen_[code]) {
      seen_[code] = true;
      ++characters_;
    }
  }
  return characters_ > before;
}

TrainFacts TextFacts::completed(TrainFacts facts) const {
  facts.bytes = bytes_;
  facts.characters = characters_;
  return facts;
}

std::vector<Choice> choose_defaults(const TrainFacts& facts, const TrainingRequest& given) {
  return Chooser(facts, given).choose();
}

double default_valid_fraction(int64_t pairs) {
  constexpr double kFewest = 100, kMost = 2000, kPart = 0.02, kLargestPart = 0.1;
  if (static_cast<double>(pairs) < kFewest) return 0;
  const auto all = static_cast<double>(pairs);
  return std::min(std::clamp(kPart, kFewest / all, kMost / all), kLargestPart);
}

std::string to_line(const Choice& choice, std::string (*spelling)(const std::string& field)) {
  std::string line = "chosen";
  for (const TrainingOption& option : training_options())
    for (const std::string& value : option_values(choice.options, option.field))
      line += " " + (spelling ? spelling(option.field) : option.field) + " " + value;
  return line + ": " + choice.reason;
}

double measure_flops(double seconds) {
  const TransformerConfig config{.vocab_size = 1000,
                                 .d_model = 128,
                                 .nhead = 4,
                                 .num_encoder_layers = 2,
                                 .num_decoder_layers = 2,
                                 .dim_feedforward = 256,
                                 .norm_first = true};
  constexpr int64_t kSentences = 128, kLength = 12;
  const std::vector<std::vector<int32_t>> sentences(kSentences, std::vector<int32_t>(kLength - 1, 5));
  const TokenBatch batch = sentences;
  Transformer model(config);
  ParameterArena arena(model);
  AdamW optimiser(arena, {});
  const auto step = [&] {
    arena.zero_gradients();
    model.loss(batch, batch).backward();
    optimiser.step(1e-4, clip_scale(arena.gradient_norm(), 1));
  };
  step();  // the first one fills the caches and starts the threads
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto start = Clock::now();
  double steps = 0;
  do {
    step();
    ++steps;
  } while (since(start) < seconds);
  return steps * kSentences * training_flop(config, kLength - 1, kLength) / since(start);
}

}  // namespace heed::inline v0
