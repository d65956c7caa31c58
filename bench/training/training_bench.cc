// heed's side of what compare.py measures: training steps and translation.
//   training_bench --prepare=DIR [--shared=DIR]   writes batches, weights and token ids that all libraries read
//   training_bench [--threads=N] --serve          answers compare.py, see bench/serve/serve.h
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/serve/peak.h"
#include "bench/serve/serve.h"
#include "cli/paths.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/models.h"
#include "heed/optim.h"
#include "heed/profile.h"
#include "heed/random.h"
#include "heed/text.h"
#include "heed/train.h"
#include "train/batches.h"

namespace {

using namespace heed;
using nlohmann::json;
namespace fs = std::filesystem;
using Sentences = std::vector<std::vector<int32_t>>;

constexpr double kSmoothing = 0.1, kClip = 1, kRate = 1e-4;
constexpr size_t kBatches = 4;   // of Multi30k, of one size
constexpr size_t kUpdates = 20;  // of the language model

// The Multi30k model of Wu et al. 2021, "Good for Misconceived Reasons": Transformer-Tiny.
TransformerConfig tiny(double dropout) {
  return {.vocab_size = 10000,
          .d_model = 128,
          .nhead = 4,
          .num_encoder_layers = 4,
          .num_decoder_layers = 4,
          .dim_feedforward = 256,
          .dropout = dropout};
}

// nanoGPT's configuration for CPUs.
LanguageModelConfig nano() {
  return {.vocab_size = 65,
          .d_model = 128,
          .nhead = 4,
          .num_layers = 4,
          .dim_feedforward = 512,
          .dropout = 0,
          .bias = false,
          .max_positions = 64};
}

std::string in(const std::string& directory, const std::string& name) { return (fs::path(directory) / name).string(); }
json read_json(const std::string& path) { return json::parse(read_file(path)); }

NamedTensors named(const Module& module) {
  NamedTensors tensors;
  for (const auto& [name, variable] : module.named_parameters()) tensors.emplace_back(name, variable.value());
  return tensors;
}

void load_weights(Module& module, const std::string& path) {
  NamedTensors tensors;
  for (const auto& [name, array] : load_npz(path)) tensors.emplace_back(name, array.tensor);
  module.load(tensors);
}

// Training steps --------------------------------------------------------------------------------------------------

// One update for each of some batches, again and again.
class Steps {
 public:
  using Loss = std::function<Variable()>;  // of the batch it stands for
  Steps(std::shared_ptr<Module> model, std::vector<Loss> losses)
      : model_(std::move(model)), losses_(std::move(losses)), arena_(*model_), optimiser_(arena_, {}) {}

  void operator()() {
    for (const Loss& loss : losses_) {
      {
        const ProfileScope profile("zero gradients");
        arena_.zero_gradients();
      }
      loss().backward();
      const ProfileScope profile("optimiser");
      optimiser_.step(kRate, clip_scale(arena_.gradient_norm(), kClip));
    }
  }

  // Of the weights as they are, without dropout.
  std::vector<double> losses() const {
    model_->eval();
    std::vector<double> values;
    const NoGrad no_grad;
    for (const Loss& loss : losses_) values.push_back(loss().value().item());
    return values;
  }

 private:
  std::shared_ptr<Module> model_;
  std::vector<Loss> losses_;
  ParameterArena arena_;
  AdamW optimiser_;
};

// Sentences of 6 to 24 pieces, where a corpus is missing.
SentencePairs random_pairs(int64_t count, int64_t vocabulary) {
  const Tensor draws = uniform({count, 2, 25}, 0, 1, DType::f64);
  SentencePairs pairs;
  for (int64_t i = 0; i < count; ++i)
    for (const int64_t side : {0, 1}) {
      std::vector<int32_t> ids(static_cast<size_t>(6 + 19 * draws.at<double>(i, side, 24)));
      for (size_t t = 0; t < ids.size(); ++t)
        ids[t] = static_cast<int32_t>(4 + draws.at<double>(i, side, t) * static_cast<double>(vocabulary - 4));
      (side ? pairs.target : pairs.source).push_back(std::move(ids));
    }
  return pairs;
}

SentencePairs multi30k(const std::string& directory, int64_t vocabulary_size) {
  const auto source = read_lines(in(directory, "train.en")), target = read_lines(in(directory, "train.de"));
  std::vector<std::string> both = source;
  both.insert(both.end(), target.begin(), target.end());
  const Vocabulary vocabulary = Vocabulary::train(both, {.size = vocabulary_size});
  SentencePairs pairs;
  for (const std::string& line : source) pairs.source.push_back(vocabulary.encode(line));
  for (const std::string& line : target) pairs.target.push_back(vocabulary.encode(line));
  return pairs;
}

// Batches of `tokens`, of sentences of like length as a library that pads wants them, spread evenly over those of an
// epoch from the shortest sentences to the longest.
json spread_batches(const SentencePairs& pairs, int64_t tokens, const Transformer& model) {
  PairsInMemory in_memory(pairs);
  std::vector<SizedPair> order = sized(in_memory, 0, in_memory.size());
  std::stable_sort(order.begin(), order.end(), [](const SizedPair& a, const SizedPair& b) {
    return std::pair{a.tokens.target, a.tokens.source} < std::pair{b.tokens.target, b.tokens.source};
  });
  const std::vector<Batch> all = cut_batches(order, tokens);
  json batches = json::array();
  int64_t target_tokens = 0;
  double flop = 0;
  for (size_t i = 0; i < kBatches; ++i) {
    const Batch& batch = all[all.size() * (2 * i + 1) / (2 * kBatches)];
    json sides{{"source", json::array()}, {"target", json::array()}};
    for (const int64_t pair : batch) {
      sides["source"].push_back(pairs.source[static_cast<size_t>(pair)]);
      sides["target"].push_back(pairs.target[static_cast<size_t>(pair)]);
    }
    const BatchTokens gathered = gather(in_memory, batch, model);
    target_tokens += gathered.target_tokens;
    flop += gathered.flop;
    batches.push_back(std::move(sides));
  }
  return {{"target_tokens", target_tokens}, {"flop", flop}, {"batches", std::move(batches)}};
}

void prepare_multi30k(const std::string& to, const std::string& shared) {
  const TransformerConfig config = tiny(0);
  const fs::path corpus = fs::path(shared) / "data/multi30k";
  const bool real = fs::exists(corpus / "train.en") && fs::exists(corpus / "train.de");
  const SentencePairs pairs =
      real ? multi30k(corpus.string(), config.vocab_size) : random_pairs(20000, config.vocab_size);
  json file{{"data", real ? "Multi30k, English to German" : "random sentences of 6 to 24 pieces"},
            {"label_smoothing", kSmoothing},
            {"clip_norm", kClip},
            {"learning_rate", kRate},
            {"vocab_size", config.vocab_size},
            {"d_model", config.d_model},
            {"nhead", config.nhead},
            {"layers", config.num_encoder_layers},
            {"dim_feedforward", config.dim_feedforward},
            {"pad_id", config.pad_id},
            {"bos_id", config.bos_id},
            {"eos_id", config.eos_id}};
  const Transformer model(config);
  for (const int64_t tokens : {4096, 8192})
    file["steps"][std::to_string(tokens)] = spread_batches(pairs, tokens, model);
  write_file_atomically(in(to, "multi30k.json"), file.dump());
  save_npz(in(to, "multi30k.npz"), named(model));
}

std::shared_ptr<Steps> multi30k_steps(const json& request, double dropout) {
  const std::string directory = request.at("directory");
  const auto model = std::make_shared<Transformer>(tiny(dropout));
  load_weights(*model, in(directory, "multi30k.npz"));
  const json file = read_json(in(directory, "multi30k.json"));
  std::vector<Steps::Loss> losses;
  for (const json& batch : file.at("steps").at(std::to_string(request.at("tokens").get<int64_t>())).at("batches")) {
    losses.push_back([model, source = TokenBatch::pack(batch.at("source").get<Sentences>()),
                      target = TokenBatch::pack(batch.at("target").get<Sentences>())] {
      return model->loss(source, target, {.label_smoothing = kSmoothing});
    });
  }
  return std::make_shared<Steps>(model, std::move(losses));
}

void prepare_shakespeare(const std::string& to, const std::string& shared) {
  const LanguageModelConfig config = nano();
  const fs::path corpus = fs::path(shared) / "data/tinyshakespeare/input.txt";
  const bool real = fs::exists(corpus);
  std::vector<int32_t> text;
  if (real) {  // all of it is ASCII: a character is a byte
    const std::string bytes = read_file(corpus.string());
    const std::set<char> characters(bytes.begin(), bytes.end());
    for (const char c : bytes)
      text.push_back(static_cast<int32_t>(std::distance(characters.begin(), characters.find(c))));
  } else {
    for (const double x : uniform({100000}, 0, static_cast<double>(config.vocab_size), DType::f64).span<double>())
      text.push_back(static_cast<int32_t>(x));
  }
  constexpr size_t kTexts = 12;
  const auto block = static_cast<size_t>(config.max_positions);
  std::vector<Sentences> batches(kUpdates, Sentences(kTexts));
  const Tensor places = uniform({kUpdates, kTexts}, 0, static_cast<double>(text.size() - block - 1), DType::f64);
  for (size_t i = 0; i < kUpdates; ++i)
    for (size_t j = 0; j < kTexts; ++j) {
      const auto begin = text.begin() + static_cast<std::ptrdiff_t>(places.at<double>(i, j));
      batches[i][j].assign(begin, begin + config.max_positions + 1);  // each token predicts the next
    }
  const auto texts = static_cast<double>(kUpdates * kTexts);
  const json file{{"data", real ? "tinyshakespeare" : "random characters"},
                  {"clip_norm", kClip},
                  {"learning_rate", kRate},
                  {"vocab_size", config.vocab_size},
                  {"d_model", config.d_model},
                  {"nhead", config.nhead},
                  {"layers", config.num_layers},
                  {"dim_feedforward", config.dim_feedforward},
                  {"max_positions", config.max_positions},
                  {"target_tokens", kUpdates * kTexts * block},
                  {"flop", texts * training_flop(config, config.max_positions)},
                  {"batches", batches}};
  write_file_atomically(in(to, "shakespeare.json"), file.dump());
  save_npz(in(to, "shakespeare.npz"), named(LanguageModel(config)));
}

std::shared_ptr<Steps> shakespeare_steps(const json& request) {
  const std::string directory = request.at("directory");
  const auto model = std::make_shared<LanguageModel>(nano());
  load_weights(*model, in(directory, "shakespeare.npz"));
  const json file = read_json(in(directory, "shakespeare.json"));
  std::vector<Steps::Loss> losses;
  for (const json& batch : file.at("batches"))
    losses.push_back([model, texts = TokenBatch::pad(batch.get<Sentences>(), 0)] { return model->loss(texts); });
  return std::make_shared<Steps>(model, std::move(losses));
}

std::shared_ptr<Steps> steps(const json& request, double dropout) {
  if (request.at("kind") == "shakespeare") return shakespeare_steps(request);
  return multi30k_steps(request, dropout);
}

// Forward and backward of the same model on one token a side with a vocabulary of 8: all operations, and next to no
// arithmetic in them.
class EmptyGraph {
 public:
  EmptyGraph() : model_(config()), arena_(model_), source_(TokenBatch::pad({{}}, config().pad_id)) {}
  void operator()() const { model_.loss(source_, {{}}, {.label_smoothing = kSmoothing}).backward(); }

 private:
  static TransformerConfig config() {
    TransformerConfig c = tiny(0.3);
    c.vocab_size = 8;
    return c;
  }
  Transformer model_;
  ParameterArena arena_;
  TokenBatch source_;
};

// Translation with the bundled model ------------------------------------------------------------------------------

void prepare_sentences(const std::string& to, const std::string& shared) {
  const fs::path corpus = fs::path(shared) / "data/spa-eng/dev.tsv";
  const StoredModel bundled = heed::load(cli::find_model(""));
  Sentences sources;
  const bool real = fs::exists(corpus);
  if (real) {
    for (const std::string& line : read_pairs_tsv(corpus, 2, 1).source)
      if (auto ids = bundled.vocabulary().encode(line); !ids.empty()) sources.push_back(std::move(ids));
  } else {
    sources = random_pairs(2400, bundled.as<Transformer>().config().vocab_size).source;
  }
  const json file{{"data", real ? "spa-eng, the validation sentences" : "random sentences of 6 to 24 pieces"},
                  {"model", fs::absolute(cli::find_model("")).string()},
                  {"source", sources}};
  write_file_atomically(in(to, "spa-eng.json"), file.dump());
}

// Sentences of unlike length, sorted by length: one by one, or handed over at once, when batches are dealt to threads,
// long ones first, as `heed translate` deals them.
class Translation {
 public:
  explicit Translation(const json& request)
      : bundled_(heed::load(cli::find_model(""))),
        options_{.beam = request.at("beam").get<int64_t>(), .length_penalty = 1},
        at_once_(request.at("at_once").get<bool>()) {
    const json file = read_json(in(request.at("directory"), "spa-eng.json"));
    const auto all = file.at("source").get<Sentences>();
    const auto every = request.at("every").get<size_t>(), batch = request.at("batch").get<size_t>();
    Sentences chosen;
    for (size_t i = 0; i < all.size(); i += every) chosen.push_back(all[i]);
    std::stable_sort(chosen.begin(), chosen.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (size_t begin = 0; begin < chosen.size(); begin += batch)
      batches_.emplace_back(chosen.begin() + static_cast<std::ptrdiff_t>(begin),
                            chosen.begin() + static_cast<std::ptrdiff_t>(std::min(chosen.size(), begin + batch)));
  }

  Sentences operator()() const {
    std::vector<Sentences> of_batches(batches_.size());
    const auto count = static_cast<int64_t>(batches_.size());
    const auto translate = [&](int64_t tile) {
      const auto i = static_cast<size_t>(count - 1 - tile);
      for (const auto& hypotheses : bundled_.as<Transformer>().translate(batches_[i], options_))
        of_batches[i].push_back(hypotheses.at(0).ids);
    };
    if (at_once_) {
      parallel_for(default_executor(), count, translate);
    } else {
      for (int64_t tile = 0; tile < count; ++tile) translate(tile);
    }
    Sentences translations;
    for (const Sentences& batch : of_batches) translations.insert(translations.end(), batch.begin(), batch.end());
    return translations;
  }

 private:
  StoredModel bundled_;
  BeamOptions options_;
  bool at_once_;
  std::vector<Sentences> batches_;
};

// Answers ---------------------------------------------------------------------------------------------------------

bench::Call prepare(const json& request) {
  const std::string kind = request.at("kind");
  if (kind == "multi30k" || kind == "shakespeare") {
    const auto updates = steps(request, request.value("dropout", 0.0));
    return [updates] { (*updates)(); };
  }
  if (kind == "translate") {
    const auto translation = std::make_shared<Translation>(request);
    return [translation] { (*translation)(); };
  }
  if (kind == "empty graph") {
    const auto graph = std::make_shared<EmptyGraph>();
    return [graph] { (*graph)(); };
  }
  throw bench::Unsupported{"no kind " + kind};
}

json losses(const json& request) { return {{"losses", steps(request, 0)->losses()}}; }
json translations(const json& request) { return {{"ids", Translation(request)()}}; }

// Shares of a pass by operation; what no operation accounts for is the tape's and the batches'.
json profile(const json& request) {
  const bench::Call call = prepare(request);
  call();
  Profile profile;
  const double start = bench::seconds();
  Profile::active() = &profile;
  for (int pass = 0; pass < request.at("passes").get<int>(); ++pass) call();
  Profile::active() = nullptr;
  const double total = bench::seconds() - start;
  json shares = json::object();
  double rest = 1;
  for (const auto& [name, entry] : profile.entries) {
    shares[name] = {{"forward", entry.forward_seconds / total}, {"backward", entry.backward_seconds / total}};
    rest -= (entry.forward_seconds + entry.backward_seconds) / total;
  }
  return {{"shares", shares}, {"rest", rest}};
}

}  // namespace

int main(int argc, char** argv) try {
  bool serving = false;
  std::string to, shared = "../shared";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const char* option) { return argument.substr(std::strlen(option)); };
    if (argument.starts_with("--threads=")) {
      set_threads(std::atoi(value("--threads=").c_str()));
    } else if (argument.starts_with("--prepare=")) {
      to = value("--prepare=");
    } else if (argument.starts_with("--shared=")) {
      shared = value("--shared=");
    } else if (argument == "--serve") {
      serving = true;
    } else {
      std::fprintf(stderr, "training_bench: unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (!to.empty()) {
    manual_seed(1);
    prepare_multi30k(to, shared);
    prepare_shakespeare(to, shared);
    prepare_sentences(to, shared);
  }
  if (!serving) return 0;
  return bench::serve("heed", HEED_BENCH_BUILD, prepare,
                      {{"losses", losses}, {"translations", translations}, {"profile", profile}});
} catch (const std::exception& e) {
  std::fprintf(stderr, "training_bench: %s\n", e.what());
  return 1;
}
