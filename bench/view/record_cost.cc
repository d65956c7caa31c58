// record_cost [RUNS]: what it costs to record attention while a model reads 512 tokens, as JSON on standard output.
//
//   cmake --preset bench && cmake --build --preset bench --target record_cost
//   build/bench/bench/view/record_cost > bench/results/record.json
//
// A decoder-only model of 12 layers and 8 heads with random weights; two threads. Runs of all kinds take turns, so that
// a machine that slows down slows all; `ratio` is the median over turns of a kind's time by that of the plain forward
// in the same turn, `cpu_ratio` the same of processor time, which other work on the machine changes less.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "heed/executor.h"
#include "heed/models.h"
#include "heed/random.h"

namespace {

using namespace heed;
using Json = nlohmann::ordered_json;

struct Kind {
  const char* name;
  std::function<void(AttentionRecord*)> ask;  // empty: no record
};

struct Cost {
  double seconds = 0, cpu = 0;  // cpu: of all threads
};

Cost cost_of(const LanguageModel& model, const TokenBatch& text, const Kind& kind) {
  AttentionRecord record;
  if (kind.ask) kind.ask(&record);
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu_begin = std::clock();
  model.hidden(text, kind.ask ? &record : nullptr);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC};
}

double quantile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(at * static_cast<double>(values.size() - 1) + 0.5)];
}

double rounded(double x) { return std::round(x * 1e4) / 1e4; }

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 31;
  if (argc > 2 || runs < 1) {
    std::cerr << "usage: record_cost [RUNS]\n";
    return 2;
  }
  constexpr int64_t kTokens = 512, kLayers = 12, kHeads = 8, kWidth = 512;
  set_threads(2);
  manual_seed(1);
  LanguageModel model({.vocab_size = 8000,
                       .d_model = kWidth,
                       .nhead = kHeads,
                       .num_layers = kLayers,
                       .dim_feedforward = 4 * kWidth,
                       .max_positions = kTokens});
  model.eval();
  const NoGrad no_grad;
  std::vector<int32_t> ids(kTokens);
  for (int32_t i = 0; i < kTokens; ++i) ids[static_cast<size_t>(i)] = i * 37 % 8000;
  const TokenBatch text = TokenBatch::pad({ids}, 0);

  const std::vector<Kind> kinds = {
      {"no record", {}},
      {"every weight", [](AttentionRecord*) {}},
      {"every weight, q, k and v", [](AttentionRecord* r) { r->want_vectors = true; }},
      {"one layer", [](AttentionRecord* r) { r->part.layers = {11}; }},
      {"one head of each layer", [](AttentionRecord* r) { r->part.heads = {3}; }},
      {"the last row of each head", [](AttentionRecord* r) { r->part.rows = {kTokens - 1}; }}};
  std::vector<std::vector<double>> seconds(kinds.size()), ratios(kinds.size()), cpu(kinds.size()),
      cpu_ratios(kinds.size());
  for (int run = -2; run < runs; ++run) {  // two to warm up
    std::vector<Cost> turn;
    for (const Kind& kind : kinds) turn.push_back(cost_of(model, text, kind));
    for (size_t k = 0; run >= 0 && k < kinds.size(); ++k) {
      seconds[k].push_back(turn[k].seconds);
      ratios[k].push_back(turn[k].seconds / turn[0].seconds);
      cpu[k].push_back(turn[k].cpu);
      cpu_ratios[k].push_back(turn[k].cpu / turn[0].cpu);
    }
  }

  char date[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::string processor = "unknown";
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.starts_with("model name")) {
      processor = line.substr(line.find(':') + 2);
      break;
    }
  std::array<double, 1> load{};
  getloadavg(load.data(), 1);
  Json out = {{"date", date},          {"processor", processor}, {"load_average", rounded(load[0])},
              {"threads", 2},          {"layers", kLayers},      {"heads", kHeads},
              {"width", kWidth},       {"tokens", kTokens},      {"runs", runs},
              {"kinds", Json::array()}};
  for (size_t k = 0; k < kinds.size(); ++k)
    out["kinds"].push_back({{"recorded", kinds[k].name},
                            {"seconds", rounded(quantile(seconds[k], 0.5))},
                            {"ratio", rounded(quantile(ratios[k], 0.5))},
                            {"lower", rounded(quantile(ratios[k], 0.25))},
                            {"upper", rounded(quantile(ratios[k], 0.75))},
                            {"cpu_seconds", rounded(quantile(cpu[k], 0.5))},
                            {"cpu_ratio", rounded(quantile(cpu_ratios[k], 0.5))}});
  std::cout << out.dump(1) << '\n';
  return std::cout.flush() ? 0 : 1;
}
