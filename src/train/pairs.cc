// Training a Transformer on sentence pairs.
#include "heed/train.h"

#include <algorithm>

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

// Pairs that are not empty and short enough.
SentencePairs usable(const SentencePairs& pairs, int64_t max_length, int64_t* left_out) {
  SentencePairs kept;
  for (size_t i = 0; i < pairs.source.size(); ++i) {
    const auto longest = static_cast<int64_t>(std::max(pairs.source[i].size(), pairs.target[i].size()));
    if (pairs.source[i].empty() || pairs.target[i].empty() || longest > max_length) {
      ++*left_out;
      continue;
    }
    kept.source.push_back(pairs.source[i]);
    kept.target.push_back(pairs.target[i]);
  }
  return kept;
}

functional::LossParts parts_of(Transformer& model, const SentencePairs& pairs, const Batch& batch) {
  const BatchTokens tokens = gather(pairs, batch, model.config());
  functional::LossParts parts;
  model.loss(tokens.source, tokens.target, {}, &parts);
  return parts;
}

class PairsTask final : public Task {
 public:
  PairsTask(Transformer& model, const SentencePairs& training, const SentencePairs& validation,
            const TrainOptions& options, const TrainHooks& hooks)
      : model_(model),
        options_(options),
        hooks_(hooks),
        training_(keep_usable(training, "training", &hooks)),
        validation_(keep_usable(validation, "validation", &hooks)),
        validation_batches_(cut_batches(validation_, in_order(validation_), options.batch_tokens)) {
    if (options.subword_dropout > 0 && !hooks.encode)
      throw ShapeError("train: subword_dropout needs TrainHooks::encode, which makes the pieces of an epoch");
    if (training_.source.empty())
      throw ShapeError("train: the training data has no sentence pairs" +
                       std::string(training.source.empty() ? "" : " that are not empty and short enough") +
                       "; give a corpus, or raise max_length");
  }

  Module& model() override { return model_; }
  Recipe settings() const override { return settings_of_pairs(options_); }
  Data data() const override { return {fingerprint(training_), fingerprint(validation_)}; }
  int64_t begin_epoch(int64_t epoch) override {
    if (options_.subword_dropout > 0)
      epoch_ = keep_usable(hooks_.encode(options_.subword_dropout, epoch_seed(options_.seed, epoch)), "training");
    batches_ = make_batches(pairs(), options_, epoch);
    return static_cast<int64_t>(batches_.size());
  }
  Step loss(int64_t batch) override {
    const Batch& chosen = batches_[static_cast<size_t>(batch)];
    const BatchTokens tokens = gather(pairs(), chosen, model_.config());
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
  const SentencePairs& pairs() const { return options_.subword_dropout > 0 ? epoch_ : training_; }

  // Says to `hooks` how many were left out.
  SentencePairs keep_usable(const SentencePairs& pairs, const char* what, const TrainHooks* hooks = nullptr) const {
    check_pairs(pairs, model_.config(), what);
    int64_t left_out = 0;
    // One more for the end token.
    const int64_t longest = std::min(options_.max_length, model_.config().max_positions - 1);
    SentencePairs kept = usable(pairs, longest, &left_out);
    if (left_out > 0 && hooks && hooks->message)
      hooks->message("left out " + std::to_string(left_out) + " of " + std::to_string(pairs.source.size()) + " " +
                     what + " pairs: empty, or longer than " + std::to_string(longest) + " tokens");
    return kept;
  }

  Transformer& model_;
  const TrainOptions& options_;
  const TrainHooks& hooks_;
  const SentencePairs training_, validation_;
  const std::vector<Batch> validation_batches_;
  SentencePairs epoch_;  // with subword_dropout
  std::vector<Batch> batches_;
};

}  // namespace

TrainResult train(Transformer& model, const SentencePairs& training, const SentencePairs& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  PairsTask task(model, training, validation, options, hooks);
  return train(task, options, directory, hooks);
}

double validation_nll(Transformer& model, const SentencePairs& pairs, int64_t batch_tokens) {
  const Evaluation evaluation(model);
  double nll = 0;
  int64_t count = 0;
  for (const Batch& batch : cut_batches(pairs, in_order(pairs), batch_tokens)) {
    const functional::LossParts parts = parts_of(model, pairs, batch);
    nll += parts.nll;
    count += parts.count;
  }
  return nll / static_cast<double>(std::max<int64_t>(count, 1));
}

}  // namespace heed::inline v0
