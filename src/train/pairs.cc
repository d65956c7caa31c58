// Training a Transformer on sentence pairs.
#include "heed/train.h"

#include <algorithm>
#include <optional>

#include "heed/task.h"
#include "train/batches.h"
#include "train/state.h"

namespace heed::inline v0 {
namespace {

void check_pairs(const SentencePairs& pairs, const TransformerConfig& config, const char* what) {
  if (pairs.source.size() != pairs.target.size())
    throw ShapeError("train: " + std::to_string(pairs.source.size()) + " source and " +
                     std::to_string(pairs.target.size()) + " target sentences for " + what +
                     "; each source sentence needs its target");
  for (const auto& sentence : pairs.source) check_ids(sentence, config.source_pieces());
  for (const auto& sentence : pairs.target) check_ids(sentence, config.vocab_size);
}

// Longer pairs are left out; one more for the end token.
int64_t longest_of(const Transformer& model, const TrainOptions& options) {
  return std::min(options.max_length, model.config().max_positions - 1);
}

functional::LossParts parts_of(Transformer& model, PairCorpus& pairs, const Batch& batch) {
  const BatchTokens tokens = gather(pairs, batch, model);
  functional::LossParts parts;
  model.loss(tokens.source, tokens.target, {}, &parts);
  return parts;
}

class PairsTask final : public Task {
 public:
  PairsTask(Transformer& model, PairCorpus& training, const SentencePairs& validation, const TrainOptions& options,
            const TrainHooks& hooks)
      : model_(model),
        options_(options),
        hooks_(hooks),
        longest_(longest_of(model, options)),
        training_(training),
        validation_(validation, longest_) {
    check_pairs(validation, model.config(), "validation");
    if (options.subword_dropout > 0 && !hooks.encode)
      throw ShapeError("train: subword_dropout needs TrainHooks::encode, which makes the pieces of an epoch");
    if (count_usable(training_, "training") == 0)
      throw ShapeError("train: the training data has no sentence pairs" +
                       std::string(training.size() == 0 ? "" : " that are not empty and short enough") +
                       "; give a corpus, or raise max_length");
    count_usable(validation_, "validation");
    std::vector<SizedPair> all = sized(validation_, 0, validation_.size());
    keep_usable(all, longest_);
    validation_batches_ = cut_batches(all, options.batch_tokens);
  }

  Module& model() override { return model_; }
  Recipe settings() const override { return settings_of_pairs(options_, training_.size()); }
  Data data() const override { return {training_.fingerprint(), validation_.fingerprint()}; }
  int64_t begin_epoch(int64_t epoch) override {
    batches_.reset();
    if (options_.subword_dropout > 0) {
      encoded_ = hooks_.encode(options_.subword_dropout, epoch_seed(options_.seed, epoch));
      check_pairs(encoded_, model_.config(), "training");
    }
    batches_.emplace(pairs(), options_, longest_, epoch);
    return batches_->size();
  }
  Step loss(int64_t batch) override {
    const Batch& chosen = (*batches_)[batch];
    const BatchTokens tokens = gather(pairs(), chosen, model_);
    Step step{.sequences = static_cast<int64_t>(chosen.size()), .flop = tokens.flop};
    if (options_.r_drop > 0) step.flop *= 2;
    step.loss = model_.loss(tokens.source, tokens.target,
                            {.label_smoothing = options_.label_smoothing, .r_drop = options_.r_drop}, &step.parts);
    return step;
  }
  int64_t validation_batches() override { return static_cast<int64_t>(validation_batches_.size()); }
  functional::LossParts validation(int64_t batch) override {
    return parts_of(model_, validation_, validation_batches_[static_cast<size_t>(batch)]);
  }

 private:
  // As this epoch has them.
  PairCorpus& pairs() { return options_.subword_dropout > 0 ? epoch_ : training_; }

  // Says how many are not.
  int64_t count_usable(PairCorpus& pairs, const char* what) const {
    constexpr int64_t kAtOnce = 1 << 14;
    int64_t count = 0;
    for (int64_t begin = 0; begin < pairs.size(); begin += kAtOnce)
      for (const PairCorpus::Lengths& tokens : pairs.lengths(begin, std::min(begin + kAtOnce, pairs.size())))
        count += usable(tokens, longest_);
    if (const int64_t left_out = pairs.size() - count; left_out > 0 && hooks_.message)
      hooks_.message("left out " + std::to_string(left_out) + " of " + std::to_string(pairs.size()) + " " + what +
                     " pairs: empty, or longer than " + std::to_string(longest_) + " tokens");
    return count;
  }

  Transformer& model_;
  const TrainOptions& options_;
  const TrainHooks& hooks_;
  const int64_t longest_;
  PairCorpus& training_;
  PairsInMemory validation_;
  std::vector<Batch> validation_batches_;
  SentencePairs encoded_;  // with subword_dropout
  PairsInMemory epoch_{encoded_};
  std::optional<EpochBatches> batches_;
};

}  // namespace

TrainResult train(Transformer& model, const SentencePairs& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  check_pairs(training, model.config(), "training");
  PairsInMemory pairs(training, longest_of(model, options));
  PairsTask task(model, pairs, validation, options, hooks);
  return train(task, options, directory, hooks);
}

TrainResult train(Transformer& model, PairCorpus& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  if (options.subword_dropout > 0)
    throw ShapeError(
        "train: subword_dropout makes other pieces of a text each epoch; these pairs are tokens already, "
        "give 0 for it");
  PairsTask task(model, training, validation, options, hooks);
  return train(task, options, directory, hooks);
}

double validation_nll(Transformer& model, const SentencePairs& pairs, int64_t batch_tokens) {
  const Evaluation evaluation(model);
  double nll = 0;
  int64_t count = 0;
  PairsInMemory all(pairs);
  for (const Batch& batch : cut_batches(sized(all, 0, all.size()), batch_tokens)) {
    const functional::LossParts parts = parts_of(model, all, batch);
    nll += parts.nll;
    count += parts.count;
  }
  return nll / static_cast<double>(std::max<int64_t>(count, 1));
}

}  // namespace heed::inline v0
