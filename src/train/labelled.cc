// Training an encoder on labelled texts or pictures.
#include "heed/labelled.h"

#include <algorithm>
#include <numeric>

#include "heed/task.h"
#include "train/batches.h"
#include "train/state.h"

namespace heed::inline v0 {
namespace {

int64_t size_of(const LabelledTexts& texts) { return std::ssize(texts.ids); }
int64_t size_of(const LabelledPictures& pictures) { return std::ssize(pictures.names); }

template <class Labelled>
void check_labels(const Labelled& data, int64_t outputs, const char* things, const char* what) {
  if (size_of(data) != std::ssize(data.labels))
    throw ShapeError("train: " + std::to_string(size_of(data)) + " " + things + " and " +
                     std::to_string(data.labels.size()) + " labels for " + what + "; each needs its label");
  for (const int32_t label : data.labels)
    if (label < 0 || label >= outputs)
      throw ShapeError("train: label " + std::to_string(label) + " of the " + what + " data is not in 0.." +
                       std::to_string(outputs - 1) + ", the outputs of the head");
}

void check(const TextEncoder& model, const LabelledTexts& texts, const char* what) {
  const TextEncoderConfig& config = model.config();
  if (!config.head || !config.head->of_first_token || config.head->outputs < 1)
    throw ShapeError("train: the model's head does not tell the class of a text; give it one that does");
  check_labels(texts, config.head->outputs, "texts", what);
  for (const auto& ids : texts.ids) {
    if (ids.empty() || std::ssize(ids) > config.max_positions)
      throw ShapeError("train: a text of the " + std::string(what) + " data has " + std::to_string(ids.size()) +
                       " tokens; it must have 1.." + std::to_string(config.max_positions));
    check_ids(ids, config.vocab_size);
  }
}

void check(const ImageEncoder& model, const LabelledPictures& pictures, const char* what) {
  if (model.config().classes < 1)
    throw ShapeError("train: the model does not tell the class of a picture; give it a head that does");
  check_labels(pictures, model.config().classes, "pictures", what);
  if (!pictures.names.empty() && !pictures.pixels)
    throw ShapeError("train: nothing gives the pixels of the " + std::string(what) +
                     " data; set LabelledPictures::pixels");
}

std::string fingerprint(const LabelledTexts& texts) {
  Fingerprint print;
  for (const auto& ids : texts.ids) print.add(ids);
  print.add(texts.labels);
  return print.text();
}

std::string fingerprint(const LabelledPictures& pictures) {
  Fingerprint print;
  for (const std::string& name : pictures.names) {
    print.add(name);
    print.add(std::string_view("\0", 1));
  }
  print.add(pictures.labels);
  return print.text();
}

Variable logits(const TextEncoder& model, const LabelledTexts& all, const std::vector<int64_t>& chosen) {
  std::vector<std::vector<int32_t>> ids;
  for (const int64_t i : chosen) ids.push_back(all.ids[static_cast<size_t>(i)]);
  return model.logits(model.config().relative_buckets > 0 ? TokenBatch::pad(ids, 0) : TokenBatch::pack(ids));
}

Variable logits(const ImageEncoder& model, const LabelledPictures& all, const std::vector<int64_t>& chosen) {
  const ImageEncoderConfig& c = model.config();
  const Tensor pixels = Tensor::empty({std::ssize(chosen), c.channels, c.image.height, c.image.width});
  for (int64_t i = 0; i < std::ssize(chosen); ++i)
    pixels.slice(0, i, i + 1).copy_from(all.pixels(chosen[static_cast<size_t>(i)]));
  return model.logits(pixels);
}

template <class Labelled>
Tensor labels_of(const Labelled& all, const std::vector<int64_t>& chosen) {
  const Tensor labels = Tensor::empty({std::ssize(chosen)}, DType::i32);
  for (size_t i = 0; i < chosen.size(); ++i) labels.data<int32_t>()[i] = all.labels[static_cast<size_t>(chosen[i])];
  return labels;
}

// [number * batch, ...) of an order.
std::vector<int64_t> part_of(const std::vector<int64_t>& order, int64_t number, int64_t batch) {
  const int64_t begin = number * batch, end = std::min(begin + batch, std::ssize(order));
  return {order.begin() + begin, order.begin() + end};
}
int64_t parts_in(int64_t all, int64_t batch) { return (all + batch - 1) / batch; }

std::vector<int64_t> in_order(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

template <class Model, class Labelled>
class LabelledTask final : public Task {
 public:
  LabelledTask(Model& model, const Labelled& training, const Labelled& validation, const TrainOptions& options)
      : model_(model),
        options_(options),
        training_(training),
        validation_(validation),
        in_order_(in_order(size_of(validation))) {
    check(model, training, "training");
    check(model, validation, "validation");
    if (size_of(training) == 0) throw ShapeError("train: there is nothing to learn from; give labelled data");
    if (options.r_drop > 0) throw ShapeError("train: r_drop is for pairs and texts; give 0 for it with labels");
  }

  Module& model() override { return model_; }
  Recipe settings() const override { return {{"batch", std::to_string(options_.batch)}}; }
  Data data() const override { return {fingerprint(training_), fingerprint(validation_)}; }
  int64_t begin_epoch(int64_t epoch) override {
    order_ = shuffled(size_of(training_), options_.seed, epoch);
    return parts_in(std::ssize(order_), options_.batch);
  }
  Step loss(int64_t batch) override {
    const std::vector<int64_t> chosen = part_of(order_, batch, options_.batch);
    Step step{.sequences = std::ssize(chosen)};
    step.loss = functional::cross_entropy(logits(model_, training_, chosen), labels_of(training_, chosen),
                                          {.label_smoothing = options_.label_smoothing}, &step.parts);
    return step;
  }
  int64_t validation_batches() override { return parts_in(std::ssize(in_order_), options_.batch); }
  functional::LossParts validation(int64_t batch) override {
    const std::vector<int64_t> chosen = part_of(in_order_, batch, options_.batch);
    functional::LossParts parts;
    functional::cross_entropy(logits(model_, validation_, chosen), labels_of(validation_, chosen), {}, &parts);
    return parts;
  }

 private:
  Model& model_;
  const TrainOptions& options_;
  const Labelled& training_;
  const Labelled& validation_;
  const std::vector<int64_t> in_order_;  // of the validation data
  std::vector<int64_t> order_;           // of the training data in this epoch
};

template <class Model, class Labelled>
TrainResult train_labelled(Model& model, const Labelled& training, const Labelled& validation,
                           const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  validate(options);
  LabelledTask<Model, Labelled> task(model, training, validation, options);
  return train(task, options, directory, hooks);
}

template <class Model, class Labelled>
double share_of_right(Model& model, const Labelled& data, int64_t batch) {
  check(model, data, "validation");
  const Evaluation evaluation(model);
  const std::vector<int64_t> order = in_order(size_of(data));
  int64_t right = 0;
  for (int64_t number = 0; number < parts_in(std::ssize(order), batch); ++number) {
    const std::vector<int64_t> chosen = part_of(order, number, batch);
    const Tensor found = logits(model, data, chosen).value().contiguous();
    const int64_t outputs = found.size(1);
    for (int64_t i = 0; i < found.size(0); ++i) {
      const float* const row = found.data<float>() + i * outputs;
      right += std::max_element(row, row + outputs) - row ==
               data.labels[static_cast<size_t>(chosen[static_cast<size_t>(i)])];
    }
  }
  return order.empty() ? 0 : static_cast<double>(right) / static_cast<double>(order.size());
}

}  // namespace

TrainResult train(TextEncoder& model, const LabelledTexts& training, const LabelledTexts& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  return train_labelled(model, training, validation, options, directory, hooks);
}
TrainResult train(ImageEncoder& model, const LabelledPictures& training, const LabelledPictures& validation,
                  const TrainOptions& options, const std::string& directory, const TrainHooks& hooks) {
  return train_labelled(model, training, validation, options, directory, hooks);
}

double accuracy(TextEncoder& model, const LabelledTexts& texts, int64_t batch) {
  return share_of_right(model, texts, batch);
}
double accuracy(ImageEncoder& model, const LabelledPictures& pictures, int64_t batch) {
  return share_of_right(model, pictures, batch);
}

}  // namespace heed::inline v0
