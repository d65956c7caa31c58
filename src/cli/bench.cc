// heed bench: how fast attention, training and translation are on this machine, as a table and as JSON.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/paths.h"
#include "heed/attention.h"
#include "heed/executor.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/optim.h"
#include "heed/profile.h"
#include "heed/random.h"
#include "heed/train.h"
#include "heed/translator.h"

namespace heed::cli {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Spread {
  double lower = 0, median = 0, upper = 0;  // quartiles
  int runs = 0;
};

Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.25), at(0.5), at(0.75), static_cast<int>(values.size())};
}

// Seconds of a call: one to warm up, then as many as fit in `seconds`, and five where they take no ten times as long.
Spread time(double seconds, const std::function<void()>& call) {
  call();
  std::vector<double> runs;
  const auto start = Clock::now();
  while (runs.empty() || (runs.size() < 1000 && since(start) < (runs.size() < 5 ? 10 : 1) * seconds)) {
    const auto begin = Clock::now();
    call();
    runs.push_back(since(begin));
  }
  return spread(std::move(runs));
}

struct Row {
  std::string section, name;
  double rate = 0, lower = 0, upper = 0;  // median and quartiles
  std::string unit;
  double milliseconds = 0;
};

// A row of `work` units of something a call.
Row row(const char* section, const std::string& name, const Spread& s, double work, const std::string& unit) {
  return {section, name, work / s.median, work / s.upper, work / s.lower, unit, s.median * 1e3};
}

void attention_rows(double seconds, std::vector<Row>& rows) {
  struct Shape {
    int64_t batch, heads, length, size;
    Causal causal;
    const char* name;
  };
  for (const Shape& s :
       {Shape{400, 4, 10, 64, Causal::none, "400x4x10x64"}, Shape{8, 8, 128, 64, Causal::none, "8x8x128x64"},
        Shape{1, 8, 512, 64, Causal::none, "1x8x512x64"}, Shape{1, 8, 2048, 64, Causal::none, "1x8x2048x64"},
        Shape{1, 8, 2048, 64, Causal::top_left, "1x8x2048x64 causal"}}) {
    const Dims shape{s.batch, s.heads, s.length, s.size};
    const Tensor q = normal(shape, 0, 1), k = normal(shape, 0, 1), v = normal(shape, 0, 1), g = normal(shape, 0, 1);
    const AttentionOptions options{.causal = s.causal, .want_lse = true};
    AttentionResult result = attention(q, k, v, options);
    const AttentionGradients gradients{Tensor::empty(shape), Tensor::empty(shape), Tensor::empty(shape), {}, {}};
    // Two products forward, five backward; a causal mask leaves half of each.
    const double pairs =
        static_cast<double>(s.batch * s.heads * s.length) *
        (s.causal == Causal::none ? static_cast<double>(s.length) : (static_cast<double>(s.length) + 1) / 2);
    const double product = 2e-9 * pairs * static_cast<double>(s.size);
    rows.push_back(row("attention", std::string(s.name) + " forward",
                       time(seconds, [&] { attention(q, k, v, result, options); }), 2 * product, "GFLOP/s"));
    rows.push_back(row("attention", std::string(s.name) + " forward + backward",
                       time(seconds,
                            [&] {
                              attention(q, k, v, result, options);
                              attention_backward(g, q, k, v, result, gradients, options);
                            }),
                       7 * product, "GFLOP/s"));
  }
}

// One update of the bundled model's shape on sentences of 11 tokens, as most of its corpus are.
class TrainingStep {
 public:
  TrainingStep() : model_(config()), arena_(model_), optimiser_(arena_, {}) {
    const Tensor draws = uniform({kSentences, 2 * kLength}, 4, static_cast<double>(config().vocab_size), DType::f64);
    std::vector<std::vector<int32_t>> sources, targets;
    for (int64_t s = 0; s < kSentences; ++s) {
      std::vector<int32_t> source, target;
      for (int64_t t = 0; t < kLength; ++t) {
        source.push_back(static_cast<int32_t>(draws.at<double>(s, t)));
        target.push_back(static_cast<int32_t>(draws.at<double>(s, kLength + t)));
      }
      source.pop_back();  // end tokens take their places
      target.pop_back();
      sources.push_back(std::move(source));
      targets.push_back(std::move(target));
    }
    source_ = sources;
    target_ = targets;
  }

  void operator()() {
    arena_.zero_gradients();
    model_.loss(source_, target_, {.label_smoothing = 0.1}).backward();
    const ProfileScope profile("optimiser");
    optimiser_.step(1e-4, clip_scale(arena_.gradient_norm(), 1));
  }
  double tokens() const { return kSentences * kLength; }
  double gflop() const { return 1e-9 * kSentences * training_flop(config(), kLength, kLength); }

 private:
  static constexpr int64_t kSentences = 372, kLength = 11;
  static TransformerConfig config() {
    return {.vocab_size = 3000,
            .d_model = 256,
            .nhead = 4,
            .num_encoder_layers = 3,
            .num_decoder_layers = 2,
            .dim_feedforward = 512,
            .norm_first = true};
  }
  Transformer model_;
  ParameterArena arena_;
  AdamW optimiser_;
  TokenBatch source_, target_;
};

void training_rows(double seconds, std::vector<Row>& rows) {
  TrainingStep step;
  const Spread s = time(seconds, [&] { step(); });
  rows.push_back(row("training", "spa-eng shape, 4,092 target tokens a step", s, step.tokens(), "tokens/s"));
  rows.push_back(row("training", "the same, useful work", s, step.gflop(), "GFLOP/s"));
}

ordered_json profile_rows(double seconds, std::vector<Row>& rows) {
  TrainingStep step;
  step();
  Profile profile;
  Profile::active() = &profile;
  const auto start = Clock::now();
  do step();
  while (since(start) < seconds);
  const double total = since(start);
  Profile::active() = nullptr;

  ordered_json json = ordered_json::object();
  std::vector<std::pair<double, std::string>> shares;
  double known = 0, products = 0;
  for (const auto& [name, entry] : profile.entries) {
    const double share = (entry.forward_seconds + entry.backward_seconds) / total;
    shares.emplace_back(share, name);
    known += share;
    if (name == "linear" || name == "attention" || name == "linear_cross_entropy") products += share;
  }
  shares.emplace_back(1 - known, "the rest: tape, batches");
  std::sort(shares.rbegin(), shares.rend());
  for (const auto& [share, name] : shares) {
    rows.push_back({"profile", name, 100 * share, 100 * share, 100 * share, "%", 0});
    json[name] = share;
  }
  rows.push_back(
      {"profile", "products and attention together", 100 * products, 100 * products, 100 * products, "%", 0});
  return json;
}

void translation_rows(double seconds, const std::string& directory, std::vector<Row>& rows) {
  const Translator translator(find_model(directory));
  const std::vector<std::string> sentences{"¿Dónde está la estación de tren?",
                                           "Mi hermana trabaja en un hospital.",
                                           "No sé qué hacer esta tarde.",
                                           "El libro que me prestaste es muy interesante.",
                                           "Hace mucho frío hoy.",
                                           "¿Puedes ayudarme con esta maleta?",
                                           "Ellos llegaron tarde a la reunión.",
                                           "Me gusta leer antes de dormir."};
  for (const int64_t beam : {1, 5})
    for (const size_t batch : {size_t{1}, size_t{64}}) {
      std::vector<std::string> lines;
      for (size_t i = 0; i < std::max(batch, sentences.size()); ++i) lines.push_back(sentences[i % sentences.size()]);
      const Spread s = time(seconds, [&] {
        for (size_t i = 0; i < lines.size(); i += batch)
          translator.translate({lines.begin() + static_cast<std::ptrdiff_t>(i),
                                lines.begin() + static_cast<std::ptrdiff_t>(std::min(i + batch, lines.size()))},
                               {.beam = {.beam = beam}, .batch = static_cast<int64_t>(batch)});
      });
      rows.push_back(row("translation", (beam == 1 ? "greedy, batch " : "beam 5, batch ") + std::to_string(batch), s,
                         static_cast<double>(lines.size()), "sentences/s"));
    }
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

struct BenchArguments {
  std::string model, json;
  double seconds = 1;
  bool profile = false;
  std::vector<std::string> only;
};

void bench(const BenchArguments& a) {
  const auto wanted = [&](const char* section) {
    return a.only.empty() ? !a.profile : std::find(a.only.begin(), a.only.end(), section) != a.only.end();
  };
  std::vector<Row> rows;
  if (!wanted("translation") && !a.model.empty())
    throw UsageError("--model is of the section translation, which is not measured; leave it out");
  expect_other_file("--json", a.json,
                    wanted("translation") ? model_paths(find_model(a.model)) : std::vector<std::string>());
  expect_ending("--json", a.json, ".json");
  ordered_json json{{"date", today()},
                    {"processor", processor_name()},
                    {"threads", threads()},
                    {"compiler", __VERSION__},
                    {"attention", explain(Tensor::empty({1, 1, 64, 64}), Tensor::empty({1, 1, 64, 64}),
                                          Tensor::empty({1, 1, 64, 64}))},
                    {"rows", ordered_json::array()}};
  if (wanted("attention")) attention_rows(a.seconds, rows);
  if (wanted("training")) training_rows(a.seconds, rows);
  if (wanted("translation")) translation_rows(a.seconds, a.model, rows);
  if (a.profile) json["profile"] = profile_rows(a.seconds, rows);

  const auto print = [](const char* format, auto... values) {
    char line[256];
    std::snprintf(line, sizeof line, format, values...);
    std::cout << line;
  };
  print("%s, %d threads, %s\n", processor_name().c_str(), threads(), today().c_str());
  std::string section;
  for (const Row& r : rows) {
    if (r.section != section) print("\n%-44s %12s  %s\n", r.section.c_str(), "median", "quartiles");
    section = r.section;
    if (r.section == "profile")
      print("%-44s %12.1f  %s\n", r.name.c_str(), r.rate, r.unit.c_str());
    else
      print("%-44s %12.1f  %.1f .. %.1f %s\n", r.name.c_str(), r.rate, r.lower, r.upper, r.unit.c_str());
    if (r.section != "profile")
      json["rows"].push_back({{"section", r.section},
                              {"name", r.name},
                              {"median", r.rate},
                              {"lower", r.lower},
                              {"upper", r.upper},
                              {"unit", r.unit},
                              {"milliseconds", r.milliseconds}});
  }
  if (!a.json.empty()) write_file_atomically(a.json, json.dump(2) + "\n");
}

}  // namespace

void add_bench(CLI::App& program) {
  auto* command = program.add_subcommand("bench", "Measure attention, training and translation on this machine");
  auto arguments = std::make_shared<BenchArguments>();
  command
      ->add_option("-m,--model", arguments->model,
                   "Directory of the model that translates [HEED_MODEL, else the bundled one]")
      ->type_name("DIR");
  command->add_option("--json", arguments->json, "Write the figures to this file, too")->type_name("FILE");
  command->add_option("--seconds", arguments->seconds, "Time for each figure")
      ->check(finite_number())
      ->check(in_range(0.01, 3600))
      ->capture_default_str();
  command->add_flag("--profile", arguments->profile, "Share of a training step by operation");
  command->add_option("--only", arguments->only, "Sections [all]")
      ->transform(one_of({"attention", "training", "translation"}));
  command->footer("Example:\n  heed bench --only attention --json attention.json");
  command->callback([arguments] { bench(*arguments); });
}

}  // namespace heed::cli
