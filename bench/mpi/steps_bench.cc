// Training steps of the Multi30k model on the batches that training_bench --prepare has written: alone on some threads,
// or under mpirun, a batch of two a rank. What compare.py runs beside steps_peer.py.
//   steps_bench DIRECTORY TOKENS DROPOUT THREADS UPDATES   rank 0 prints {"seconds": [of each update], "losses": [...]}
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "heed/executor.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/mpi.h"
#include "heed/random.h"
#include "heed/task.h"

namespace {

using namespace heed;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Sentences = std::vector<std::vector<int32_t>>;

constexpr int64_t kBatches = 2;  // an update

TransformerConfig config_of(const json& file, double dropout) {
  return {.vocab_size = file.at("vocab_size"),
          .d_model = file.at("d_model"),
          .nhead = file.at("nhead"),
          .num_encoder_layers = file.at("layers"),
          .num_decoder_layers = file.at("layers"),
          .dim_feedforward = file.at("dim_feedforward"),
          .dropout = dropout};
}

/// The file's batches one after another, again and again.
class GivenBatches final : public Task {
 public:
  GivenBatches(const std::string& directory, const std::string& tokens, double dropout)
      : file_(json::parse(read_file(directory + "/multi30k.json"))), model_(config_of(file_, dropout)) {
    NamedTensors weights;
    for (const auto& [name, array] : load_npz(directory + "/multi30k.npz")) weights.emplace_back(name, array.tensor);
    model_.load(weights);
    for (const json& batch : file_.at("steps").at(tokens).at("batches"))
      batches_.emplace_back(TokenBatch::pack(batch.at("source").get<Sentences>()),
                            TokenBatch::pack(batch.at("target").get<Sentences>()));
  }
  double number(const char* name) const { return file_.at(name); }

  Module& model() override { return model_; }
  Recipe settings() const override { return {}; }
  Data data() const override { return {}; }
  int64_t begin_epoch(int64_t) override { return 1'000'000 * std::ssize(batches_); }
  Step loss(int64_t number_of_batch) override {
    const auto& [source, target] = batches_[static_cast<size_t>(number_of_batch % std::ssize(batches_))];
    Step step{.sequences = 1};
    step.loss = model_.loss(source, target, {.label_smoothing = number("label_smoothing")}, &step.parts);
    return step;
  }
  int64_t validation_batches() override { return 0; }
  functional::LossParts validation(int64_t) override { return {}; }

 private:
  json file_;
  Transformer model_;
  std::vector<std::pair<TokenBatch, TokenBatch>> batches_;
};

void run(Communicator* ranks, char** argv) {
  set_threads(std::atoi(argv[4]));
  GivenBatches task(argv[1], argv[2], std::atof(argv[3]));
  TrainOptions options{.accumulate = kBatches, .max_updates = std::atoll(argv[5]), .save_minutes = 0};
  options.learning_rate = {.schedule = Schedule::constant, .peak = task.number("learning_rate"), .warmup = 0};
  options.clip_norm = task.number("clip_norm");
  json seconds = json::array(), losses = json::array();
  Clock::time_point begin = Clock::now();
  TrainHooks hooks;
  hooks.ranks = ranks;
  hooks.step = [&](const TrainStep& step) {
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    losses.push_back(step.loss);
    begin = Clock::now();
  };
  const std::string directory = std::string(argv[1]) + "/steps";
  train(task, options, directory, hooks);
  if (ranks && ranks->rank() != 0) return;
  std::filesystem::remove_all(directory);
  std::printf("%s\n", json{{"seconds", seconds}, {"losses", losses}}.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "steps_bench DIRECTORY TOKENS DROPOUT THREADS UPDATES\n");
    return 2;
  }
  if (mpi::launched_ranks() > 1) return mpi::run([&](Communicator& ranks) { run(&ranks, argv); });
  try {
    run(nullptr, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "steps_bench: %s\n", e.what());
    return 1;
  }
}
