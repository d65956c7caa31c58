#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "heed/attended.h"

namespace heed::inline v0 {
namespace {

const char* title_of(Measure measure) {
  switch (measure) {
    case Measure::norms:
      return "Norms: the length of what each key adds to a query, weight times transformed value (Kobayashi et al. "
             "2020).";
    case Measure::rollout:
      return "Rollout: how much of each token is in a position behind this layer, through all layers up to it (Abnar "
             "and Zuidema 2020).";
    case Measure::input:
      return "Gradient times input: what each token contributes to the log-probability of what was written at a row, "
             "in "
             "first order (Shrikumar et al. 2016).";
    default:
      return "Gradient times weight: what each weight contributes to the log-probability of what was written, in first "
             "order (Chefer et al. 2021).";
  }
}

// One kind of attention of a model, by layer.
struct Kind {
  const std::vector<Tensor>& weights;         // (1, H, Lq, Lk) each
  const std::vector<HeadVectors>& vectors;    // of the same layers
  std::vector<MultiheadAttention*> layers{};  // modules of the same layers
};

// weights (1, H, Lq, Lk), with those of head h multiplied by factors(h): (Lq, Lk), or (1, Lk) for all queries.
Tensor times(const Tensor& weights, const std::function<Tensor(int64_t head)>& factors) {
  const int64_t queries = weights.size(2), keys = weights.size(3);
  const Tensor of = weights.contiguous(), made = Tensor::empty(weights.shape());
  for (int64_t h = 0; h < weights.size(1); ++h) {
    const Tensor own = factors(h).contiguous();
    for (int64_t i = 0; i < queries; ++i) {
      const float* const factor = own.data<float>() + (own.size(0) > 1 ? i * keys : 0);
      const int64_t row = (h * queries + i) * keys;
      for (int64_t j = 0; j < keys; ++j) made.data<float>()[row + j] = of.data<float>()[row + j] * factor[j];
    }
  }
  return made;
}

// The values (Lk, size) of query head h among (1, Hkv, Lk, size).
Tensor values_of(const Tensor& values, int64_t h, int64_t heads) {
  return values.select(0, 0).select(0, h / (heads / values.size(1))).contiguous();
}

// x (rows, size) times the transpose of y (columns, size).
Tensor product(const Tensor& x, const Tensor& y) {
  const NoGrad no_grad;
  return functional::linear(Variable(x.contiguous()), Variable(y.contiguous())).value();
}

std::vector<Tensor> norms_of(const Kind& kind) {
  std::vector<Tensor> all;
  for (size_t l = 0; l < kind.weights.size(); ++l) {
    const Tensor out = kind.layers[l]->out_proj.weight.value().to(DType::f32);  // (E, H * size)
    const Tensor& values = kind.vectors[l].v;
    const int64_t heads = kind.weights[l].size(1), size = values.size(3);
    all.push_back(times(kind.weights[l], [&](int64_t h) {
      const Tensor transformed =
          product(values_of(values, h, heads), out.slice(1, h * size, (h + 1) * size));  // (Lk, E)
      const Tensor norms = Tensor::empty({1, transformed.size(0)});
      for (int64_t j = 0; j < transformed.size(0); ++j) {
        double square = 0;
        for (int64_t e = 0; e < transformed.size(1); ++e) {
          const double x = static_cast<double>(transformed.at<float>(j, e));
          square += x * x;
        }
        norms.at<float>(0, j) = static_cast<float>(std::sqrt(square));
      }
      return norms;
    }));
  }
  return all;
}

std::vector<Tensor> rollout_of(const Kind& kind) {
  std::vector<Tensor> all;
  for (const Tensor& weights : kind.weights) {
    const int64_t heads = weights.size(1), length = weights.size(2);
    const Tensor made = Tensor::zeros({1, 1, length, length});
    for (int64_t i = 0; i < length; ++i) {
      float* const row = made.data<float>() + i * length;
      for (int64_t k = 0; k < length; ++k) {
        float share = i == k ? 0.5F : 0;
        for (int64_t h = 0; h < heads; ++h) share += weights.at<float>(0, h, i, k) / static_cast<float>(2 * heads);
        if (all.empty()) {
          row[k] = share;
          continue;
        }
        const float* const below = all.back().data<float>() + k * length;
        for (int64_t j = 0; share != 0 && j < length; ++j) row[j] += share * below[j];
      }
    }
    all.push_back(made);
  }
  return all;
}

// Leaves of zeros added to the outputs of all heads of a kind; their gradients are those of the heads.
class Probes {
 public:
  explicit Probes(const Kind& kind) : kind_(kind) {
    for (size_t l = 0; l < kind.weights.size(); ++l) {
      const MultiheadAttentionOptions& o = kind.layers[l]->options();
      leaves_.emplace_back(Tensor::zeros({1, kind.weights[l].size(2), o.num_heads * o.head_dim}),
                           /*requires_grad=*/true);
      kind.layers[l]->control_heads({.scales = {}, .patterns = {}, .added = leaves_.back()});
    }
  }
  ~Probes() {
    for (size_t l = 0; l < leaves_.size(); ++l) kind_.layers[l]->control_heads({});
  }
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;

  // Runs backward from `loss`, the negative log-probability. Leaves that do not affect it have no gradient.
  std::vector<Tensor> gradients_times_weights() const {
    std::vector<Tensor> all;
    for (size_t l = 0; l < leaves_.size(); ++l) {
      const Tensor &gradient = leaves_[l].grad(), &values = kind_.vectors[l].v;
      const int64_t heads = kind_.weights[l].size(1), size = values.size(3);
      all.push_back(times(kind_.weights[l], [&](int64_t h) {
        if (!gradient.defined()) return Tensor::zeros({1, values.size(2)});
        const Tensor made =
            product(gradient.select(0, 0).slice(1, h * size, (h + 1) * size), values_of(values, h, heads));
        for (float& x : made.span<float>()) x = -x;
        return made;
      }));
    }
    return all;
  }

 private:
  const Kind& kind_;
  std::vector<Variable> leaves_;
};

constexpr int32_t kNothing = -100;  // an ignored target

// The sum of the negative log-probabilities of targets, one for each row of logits (B, L, V).
Variable loss_of(const Variable& logits, const std::vector<int32_t>& targets) {
  const int64_t rows = std::ssize(targets);
  return functional::cross_entropy(functional::reshape(logits, {rows, logits.size(2)}),
                                   Tensor::from(std::span<const int32_t>(targets), {rows}),
                                   {.ignore_index = kNothing, .reduction = functional::Reduction::sum});
}

// A model with a text and the targets to explain.
struct Reader {
  Module& model;
  int64_t vocabulary;
  std::vector<int32_t> targets;  // target of each row
  /// Logits (copies, L, V) for `copies` copies of the text; fills the record, if given, with the inputs of the first
  /// layers.
  std::function<Variable(int64_t copies, AttentionRecord* record)> logits;
};

void check_gradients(const Module& model) {
  if (!grad_enabled()) throw UsageError("measure_attention: it needs gradients; call it without NoGrad");
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter.dtype() != DType::f32)
      throw UsageError("measure_attention: " + name + " is " + name_of(parameter.dtype()) +
                       ", and gradients need float32; load the model with this dtype");
}

std::vector<std::vector<Tensor>> gradients_of(const std::vector<Kind>& kinds, const Reader& reader) {
  std::vector<std::unique_ptr<Probes>> probes;
  for (const Kind& kind : kinds) probes.push_back(std::make_unique<Probes>(kind));
  loss_of(reader.logits(1, nullptr), reader.targets).backward();
  reader.model.zero_grad();
  std::vector<std::vector<Tensor>> all;
  for (const auto& of_kind : probes) all.push_back(of_kind->gradients_times_weights());
  return all;
}

// Gradient times input of the tokens of encoder and decoder, (1, 1, rows, keys), for each row of the output.
struct OfInputs {
  Tensor encoder, decoder;
};

OfInputs gradients_by_inputs(const Reader& reader) {
  constexpr int64_t kLogits = int64_t{1} << 24, kCopies = 16;
  const int64_t rows = std::ssize(reader.targets),
                together = std::clamp<int64_t>(kLogits / (rows * reader.vocabulary), 1, kCopies);
  std::vector<int64_t> asked;  // rows; one copy of the text is read for each
  for (int64_t row = 0; row < rows; ++row)
    if (reader.targets[static_cast<size_t>(row)] != kNothing) asked.push_back(row);
  OfInputs all;
  for (size_t begin = 0; begin < asked.size(); begin += static_cast<size_t>(together)) {
    const std::span<const int64_t> part =
        std::span(asked).subspan(begin, std::min(asked.size() - begin, static_cast<size_t>(together)));
    std::vector<int32_t> targets(part.size() * static_cast<size_t>(rows), kNothing);
    for (size_t copy = 0; copy < part.size(); ++copy)
      targets[copy * static_cast<size_t>(rows) + static_cast<size_t>(part[copy])] =
          reader.targets[static_cast<size_t>(part[copy])];
    AttentionRecord record;
    record.want_inputs = true;
    loss_of(reader.logits(std::ssize(part), &record), targets).backward();
    reader.model.zero_grad();
    for (const auto& [input, into] :
         {std::pair(&record.encoder_input, &all.encoder), {&record.decoder_input, &all.decoder}}) {
      if (!input->defined()) continue;
      const Tensor &x = input->value(), &gradient = input->grad();
      if (!into->defined()) *into = Tensor::zeros({1, 1, rows, x.size(1)});
      for (size_t copy = 0; copy < part.size(); ++copy)
        for (int64_t j = 0; j < x.size(1); ++j) {
          double sum = 0;
          for (int64_t e = 0; e < x.size(2); ++e)
            sum -= static_cast<double>(gradient.at<float>(copy, j, e)) * static_cast<double>(x.at<float>(copy, j, e));
          into->at<float>(0, 0, part[copy], j) = static_cast<float>(sum);
        }
    }
  }
  return all;
}

// `all` in the order of `kinds`.
std::vector<SeenAttention> measured(std::vector<SeenAttention> all, const std::vector<Kind>& kinds, Measure measure,
                                    const Reader& reader) {
  if (measure == Measure::weights) return all;
  if (measure == Measure::gradient || measure == Measure::input) check_gradients(reader.model);
  for (const Kind& kind : kinds)
    if (kind.vectors.size() != kind.weights.size())
      throw UsageError("measure_attention: the vectors are missing; see the text with want_vectors");
  const auto gradients =
      measure == Measure::gradient ? gradients_of(kinds, reader) : std::vector<std::vector<Tensor>>(kinds.size());
  const OfInputs inputs = measure == Measure::input ? gradients_by_inputs(reader) : OfInputs();
  std::vector<SeenAttention> out;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& name = all[i].name;
    std::vector<Tensor> layers = gradients[i];
    if (measure == Measure::norms) layers = norms_of(kinds[i]);
    if (measure == Measure::rollout && name != "Cross") layers = rollout_of(kinds[i]);
    if (measure == Measure::input && name != "Encoder") layers = {name == "Cross" ? inputs.encoder : inputs.decoder};
    if (layers.empty()) continue;
    all[i].weights = stacked(layers);
    all[i].title = title_of(measure);
    out.push_back(std::move(all[i]));
  }
  return out;
}

}  // namespace

std::vector<SeenAttention> measure_attention(const SeenTranslation& seen, const StoredModel& stored, Measure measure) {
  const auto& model = stored.as<Transformer>();
  const AttentionLayers layers = attention_layers(stored.module());
  std::vector<Kind> kinds;
  const auto add = [&](const std::vector<Tensor>& weights, const std::vector<HeadVectors>& vectors,
                       const std::vector<MultiheadAttention*>& of) {
    if (!weights.empty()) kinds.push_back({weights, vectors, of});
  };
  add(seen.record.encoder, seen.record.encoder_vectors, layers.encoder);
  add(seen.record.decoder, seen.record.decoder_vectors, layers.decoder);
  add(seen.record.cross, seen.record.cross_vectors, layers.cross);
  const auto logits = [&](int64_t copies, AttentionRecord* record) {
    const int32_t pad = model.config().pad_id;
    const auto times = [&](const std::vector<int32_t>& ids) {
      return TokenBatch::pad(std::vector(static_cast<size_t>(copies), ids), pad);
    };
    const TokenBatch source = times(seen.source);
    return model.logits_of(model.decode(times(seen.input), model.encode(source, record), source, record));
  };
  return measured(attention_of(seen, stored), kinds, measure,
                  {stored.module(), model.config().vocab_size, seen.output, logits});
}

std::vector<SeenAttention> measure_attention(const SeenText& seen, const StoredModel& stored, Measure measure) {
  const AttentionLayers layers = attention_layers(stored.module());
  const bool encoder = !seen.record.encoder.empty();
  const std::vector<Kind> kinds{encoder ? Kind{seen.record.encoder, seen.record.encoder_vectors, layers.encoder}
                                        : Kind{seen.record.decoder, seen.record.decoder_vectors, layers.decoder}};
  if (encoder && (measure == Measure::gradient || measure == Measure::input))
    throw UsageError("measure_attention: a " + stored.model_type() +
                     " generates no text, so there are no gradients; choose another measure");
  std::vector<int32_t> targets(seen.ids.begin() + 1, seen.ids.end());
  for (int64_t i = 0; i + 1 < seen.given; ++i) targets[static_cast<size_t>(i)] = kNothing;
  targets.push_back(kNothing);
  const auto logits = [&](int64_t copies, AttentionRecord* record) {
    const auto& model = stored.as<LanguageModel>();
    return model.logits_of(
        model.hidden(TokenBatch::pad(std::vector(static_cast<size_t>(copies), seen.ids), 0), record));
  };
  const int64_t vocabulary = encoder ? 0 : stored.as<LanguageModel>().config().vocab_size;
  return measured(attention_of(seen, stored), kinds, measure,
                  {stored.module(), vocabulary, std::move(targets), logits});
}

}  // namespace heed::inline v0
