// Training a LanguageModel on a text.
#include "heed/train.h"

#include <algorithm>
#include <optional>

#include "heed/task.h"
#include "train/batches.h"
#include "train/state.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kValidationTokens = 4096;  // read at once

// Tokens [begin, begin + length] of a text: `length` of them predict the next.
std::vector<int32_t> piece(const std::vector<int32_t>& text, int64_t begin, int64_t length) {
  const auto last = std::min(begin + length + 1, static_cast<int64_t>(text.size()));
  return {text.begin() + begin, text.begin() + last};
}

int64_t blocks_together(int64_t block) { return std::max<int64_t>(kValidationTokens / block, 1); }

// The last token predicts nothing.
int64_t batches_of(const std::vector<int32_t>& text, int64_t block) {
  const int64_t tokens = blocks_together(block) * block, last = static_cast<int64_t>(text.size()) - 1;
  return last < 1 ? 0 : (last + tokens - 1) / tokens;
}

functional::LossParts parts_of(LanguageModel& model, const std::vector<int32_t>& text, int64_t block, int64_t batch,
                               const functional::SplitRows* split = nullptr) {
  std::vector<std::vector<int32_t>> pieces;
  const int64_t first = batch * blocks_together(block) * block, last = static_cast<int64_t>(text.size()) - 1;
  for (int64_t i = 0; i < blocks_together(block) && first + i * block < last; ++i)
    pieces.push_back(piece(text, first + i * block, block));
  functional::LossParts parts;
  model.loss(TokenBatch::pad(pieces, 0), {}, &parts, split);
  return parts;
}

class TextInMemory final : public TextCorpus {
 public:
  explicit TextInMemory(const std::vector<int32_t>& text) : text_(text) {}
  int64_t size() const override { return std::ssize(text_); }
  std::vector<int32_t> read(int64_t begin, int64_t end) override {
    return {text_.begin() + begin, text_.begin() + end};
  }
  std::string fingerprint() const override { return heed::fingerprint(text_); }

 private:
  const std::vector<int32_t>& text_;
};

class TextTask final : public Task {
 public:
  TextTask(LanguageModel& model, TextCorpus& training, const std::vector<int32_t>& validation,
           const TrainOptions& options)
      : model_(model),
        options_(options),
        training_(training),
        validation_(validation),
        block_(options.block ? options.block : model.config().max_positions) {
    const int64_t positions = model.config().max_positions, tokens = training.size();
    if (block_ > positions)
      throw ShapeError("train: block is " + std::to_string(block_) + "; it must be in 1.." + std::to_string(positions) +
                       ", the model's max_positions");
    if (tokens < block_ + 1)
      throw ShapeError("train: the training text has " + std::to_string(tokens) + " tokens, a block of " +
                       std::to_string(block_) + " and the token behind it need " + std::to_string(block_ + 1) +
                       "; give more text or a shorter block");
    if (validation.size() == 1)
      throw ShapeError("train: the validation text has one token, so there is nothing to predict; give more of it");
    check_ids(validation, model.config().vocab_size);
  }

  Module& model() override { return model_; }
  Recipe settings() const override { return settings_of_text(options_, block_); }
  Data data() const override { return {training_.fingerprint(), fingerprint(validation_)}; }
  void split_over(Communicator& context, const MakeAttentionOperator& attention) override {
    if (block_ < context.size())
      throw ShapeError("train: context_ranks is " + std::to_string(context.size()) + "; it must be at most " +
                       std::to_string(block_) + ", the block");
    // Late tokens see most of the others: pairs of pieces from both ends are equal work.
    const Split rows = Split::zigzag(block_, context.size());
    split_ = {rows, context.rank(), attention(context, rows)};
  }
  int64_t begin_epoch(int64_t epoch) override {
    epoch_ = epoch;
    return std::max<int64_t>(training_.size() / block_ / options_.batch, 1);
  }
  Step loss(int64_t batch) override {
    Step step{.sequences = !split_ || split_->rank == 0 ? options_.batch : 0};
    std::vector<std::vector<int32_t>> pieces;
    const int64_t places = training_.size() - block_;
    for (const int64_t begin : random_offsets(options_.seed, epoch_, batch, options_.batch, places))
      check_ids(pieces.emplace_back(training_.read(begin, begin + block_ + 1)), model_.config().vocab_size);
    if (!model_.details()) step.flop = static_cast<double>(options_.batch) * training_flop(model_.config(), block_);
    if (options_.r_drop > 0) step.flop *= 2;
    step.flop /= static_cast<double>(options_.context_ranks);
    step.loss =
        model_.loss(TokenBatch::pad(pieces, 0),
                    {.label_smoothing = options_.label_smoothing, .r_drop = options_.r_drop}, &step.parts, split());
    return step;
  }
  int64_t validation_batches() override { return batches_of(validation_, block_); }
  functional::LossParts validation(int64_t batch) override {
    return parts_of(model_, validation_, block_, batch, split());
  }

 private:
  const functional::SplitRows* split() const { return split_ ? &*split_ : nullptr; }

  LanguageModel& model_;
  const TrainOptions& options_;
  TextCorpus& training_;
  const std::vector<int32_t>& validation_;
  const int64_t block_;
  std::optional<functional::SplitRows> split_;
  int64_t epoch_ = 1;
};

}  // namespace

TrainResult train(LanguageModel& model, const std::vector<int32_t>& training, const std::vector<int32_t>& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  check_ids(training, model.config().vocab_size);
  TextInMemory text(training);
  return train(model, text, validation, options, directory, hooks);
}

TrainResult train(LanguageModel& model, TextCorpus& training, const std::vector<int32_t>& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  TextTask task(model, training, validation, options);
  return train(task, options, directory, hooks);
}

double validation_nll(LanguageModel& model, const std::vector<int32_t>& text, int64_t block) {
  if (block < 1 || block > model.config().max_positions)
    throw ShapeError("validation: block is " + std::to_string(block) + "; it must be in 1.." +
                     std::to_string(model.config().max_positions) + ", the model's max_positions");
  const Evaluation evaluation(model);
  double nll = 0;
  for (int64_t batch = 0; batch < batches_of(text, block); ++batch) nll += parts_of(model, text, block, batch).nll;
  return nll / static_cast<double>(std::max<int64_t>(static_cast<int64_t>(text.size()) - 1, 1));
}

}  // namespace heed::inline v0
