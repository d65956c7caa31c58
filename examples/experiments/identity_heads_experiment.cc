// Are some heads close to the identity, each position looking at itself? A small encoder learns a task in which half of
// the positions need themselves; then every head is measured, before and after. Twice: as usual, and without the
// residual path around attention, when a position has only its heads to carry what it is.
//
// identity_heads_experiment [steps]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "heed/nn.h"
#include "heed/optim.h"
#include "heed/random.h"
#include "heed/view.h"

namespace {

using namespace heed;
namespace F = functional;

constexpr int64_t kVocabulary = 8, kLength = 12, kWidth = 32, kHeads = 4, kLayers = 2, kBatch = 32;

struct Batch {
  Tensor ids;      // (B, L) int32
  Tensor targets;  // (B * L) int32
};

/// At even positions the target is the token before plus the token itself, at odd ones the mirrored token: some
/// positions need themselves, others do not.
Batch draw_batch() {
  const Tensor drawn = uniform({kBatch, kLength}, 0, double{kVocabulary}, DType::f64);
  const Batch batch = {Tensor::empty({kBatch, kLength}, DType::i32), Tensor::empty({kBatch * kLength}, DType::i32)};
  for (int64_t b = 0; b < kBatch; ++b) {
    const auto token = [&](int64_t i) { return static_cast<int32_t>(drawn.at<double>(b, i)); };
    for (int64_t i = 0; i < kLength; ++i) {
      batch.ids.at<int32_t>(b, i) = token(i);
      const int32_t sum = token(i) + (i > 0 ? token(i - 1) : 0);
      batch.targets.at<int32_t>(b * kLength + i) =
          i % 2 == 0 ? sum % static_cast<int32_t>(kVocabulary) : token(kLength - 1 - i);
    }
  }
  return batch;
}

struct Tagger : Module {
  explicit Tagger(bool residual_path)
      : embed(kVocabulary, kWidth),
        encoder({.d_model = kWidth, .nhead = kHeads, .dim_feedforward = 4 * kWidth, .dropout = 0}, kLayers,
                /*final_norm=*/true),
        classify(kWidth, kVocabulary),
        residual(residual_path) {
    register_module("embed", embed);
    register_module("encoder", encoder);
    register_module("classify", classify);
  }

  /// ids (B, L) -> logits (B * L, vocabulary). `weights` receives (B, heads, L, L) of each layer.
  Variable operator()(const Tensor& ids, std::vector<Tensor>* weights = nullptr) const {
    const Tensor places =
        SinusoidalPositions(kWidth).rows(0, kLength, DType::f32).expand({ids.size(0), kLength, kWidth});
    Variable x = F::add(embed(ids), Variable(places.contiguous()));
    for (const auto& layer : encoder.layers) {  // pre-norm, spelled out to take the residual path away
      HeadRecord record;
      const Variable y = layer->norm1(x), attended = layer->self_attn(y, y, y, {}, weights ? &record : nullptr);
      if (weights) weights->push_back(record.weights);
      const Variable h = residual ? F::add(x, attended) : attended;
      x = F::add(h, layer->feed_forward(layer->norm2(h)));
    }
    return F::reshape(classify((*encoder.norm)(x)), {ids.size(0) * kLength, kVocabulary});
  }

  Embedding embed;
  TransformerEncoder encoder;
  Linear classify;
  bool residual;
};

/// Trains by Adam; returns the loss of the last batch.
double train(Tagger& model, int64_t steps) {
  ParameterArena arena(model);
  AdamW adam(arena, {});
  double loss_now = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch = draw_batch();
    arena.zero_gradients();
    const Variable loss = F::cross_entropy(model(batch.ids), batch.targets);
    loss.backward();
    adam.step(0.003);
    loss_now = loss.value().item();
  }
  return loss_now;
}

struct Head {
  int64_t layer, head;
  HeadStatistics statistics;  // averaged over the sentences of a batch
};

/// Every head of the model over one batch.
std::vector<Head> look(const Tagger& model, const Tensor& ids) {
  const NoGrad no_grad;
  std::vector<Tensor> weights;  // a layer: (B, heads, L, L)
  model(ids, &weights);
  std::vector<Head> heads;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 0; head < kHeads; ++head) {
      HeadStatistics mean;
      const double share = 1 / static_cast<double>(ids.size(0));
      for (int64_t b = 0; b < ids.size(0); ++b) {
        const HeadStatistics one = statistics(weights[static_cast<size_t>(layer)].select(0, b).select(0, head));
        mean.diagonal_mass += share * one.diagonal_mass;
        mean.entropy += share * one.entropy;
        mean.mean_distance += share * one.mean_distance;
      }
      heads.push_back({layer, head, mean});
    }
  }
  return heads;
}

void report(bool residual, int64_t steps) {
  manual_seed(6);
  Tagger model(residual);
  const Batch probe = draw_batch();
  const std::vector<Head> before = look(model, probe.ids);
  const double loss = train(model, steps);
  std::vector<Head> after = look(model, probe.ids);
  std::stable_sort(after.begin(), after.end(), [](const Head& a, const Head& b) {
    return a.statistics.diagonal_mass > b.statistics.diagonal_mass;
  });

  std::printf("%s a residual path around attention: %lld steps, loss %.3f\n", residual ? "With" : "Without",
              static_cast<long long>(steps), loss);
  std::printf("%-12s | %-20s | %-20s | %-20s\n%-12s |%10s %10s |%10s %10s |%10s %10s\n", "", "mass on the diagonal",
              "entropy (nats)", "mean distance", "layer, head", "untrained", "trained", "untrained", "trained",
              "untrained", "trained");
  int64_t identities = 0;
  for (const Head& head : after) {
    const HeadStatistics& was = before[static_cast<size_t>(head.layer * kHeads + head.head)].statistics;
    const HeadStatistics& is = head.statistics;
    std::printf("%5lld, %-5lld |%10.3f %10.3f |%10.3f %10.3f |%10.3f %10.3f\n", static_cast<long long>(head.layer),
                static_cast<long long>(head.head), was.diagonal_mass, is.diagonal_mass, was.entropy, is.entropy,
                was.mean_distance, is.mean_distance);
    identities += is.diagonal_mass > 0.9;
  }
  std::printf("%lld of %zu heads keep more than 0.9 of their weight on the diagonal\n\n",
              static_cast<long long>(identities), after.size());
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::max(1L, std::strtol(argv[1], nullptr, 10)) : 2000;
  const double length = kLength;
  std::printf(
      "Uniform attention over %.0f positions: diagonal %.3f, entropy %.3f, mean distance %.3f; the identity: 1, 0, 0."
      "\n\n",
      length, 1 / length, std::log(length), (length * length - 1) / (3 * length));
  for (const bool residual : {true, false}) report(residual, steps);
  return 0;
}
