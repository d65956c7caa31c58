// Encoder-decoders for text: Marian (Junczys-Dowmunt et al. 2018), BART (Lewis et al. 2020), M2M100 and NLLB (Fan et
// al. 2021).
#include <cmath>

#include "heed/error.h"
#include "pretrained/bart_layers.h"
#include "pretrained/family.h"

namespace heed::inline v0 {
namespace {

// Row p holds the sines of p / 10000^(i / divisor), then the cosines.
Tensor sinusoids(int64_t first, int64_t rows, int64_t width, double divisor) {
  const Tensor table = Tensor::empty({rows, width}, DType::f32);
  for (int64_t p = 0; p < rows; ++p)
    for (int64_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(first + p) * std::pow(10000, -static_cast<double>(i) / divisor);
      table.at<float>(p, i) = static_cast<float>(std::sin(angle));
      table.at<float>(p, width / 2 + i) = static_cast<float>(std::cos(angle));
    }
  return table;
}

KeyTable keys(const std::string& type) {
  if (type == "bart") return bart_keys().with({applied("num_labels", 3)});
  if (type == "marian")
    return bart_keys().with(
        {applied("vocab_size", 58101), applied("decoder_vocab_size"), applied("share_encoder_decoder_embeddings", true),
         applied("decoder_start_token_id", 58100), applied("pad_token_id", 58100), applied("eos_token_id", 0)});
  return bart_keys().with({applied("vocab_size", 128112), applied("activation_function", "relu"),
                           applied("attention_dropout", 0.1), applied("scale_embedding", true)});
}

std::vector<NameRule> class_head() {
  std::vector<NameRule> rules;
  for (const std::string kind : {".weight", ".bias"}) {
    rules.push_back({"head.dense" + kind, {"classification_head.dense" + kind}});
    rules.push_back({"head.output" + kind, {"classification_head.out_proj" + kind}});
  }
  return rules;
}

Names names_of(const TransformerConfig& config, const std::string& type) {
  Names names{.rules = {{"output.bias", {"final_logits_bias"}, Change::reshape},
                        {"source_positions.weight", {"encoder.embed_positions.weight"}},
                        {"target_positions.weight", {"decoder.embed_positions.weight"}}},
              .layers = std::max(config.num_encoder_layers, config.num_decoder_layers),
              .prefixes = {"model.", ""},
              .heads = {kHeadTable},
              .unused = {"encoder.version", "decoder.version"}};
  add_bart_layers(names.rules);
  if (type != "m2m_100") names.heads.emplace_back("final_logits_bias");
  if (type == "bart")
    names.heads.insert(names.heads.end(),
                       {"classification_head.dense.", "classification_head.out_proj.", "qa_outputs."});
  else
    for (const char* table : {"encoder.embed_positions.weights", "decoder.embed_positions.weights",
                              "encoder.embed_positions.weight", "decoder.embed_positions.weight"})
      names.unused.emplace_back(table);
  return names;
}

// transformers uses the position table of a Marian file, if any; heed computes it, and refuses a file with another one.
void check_sinusoids(const Keys& config, const Tensor& table, const Names& names, const TensorSource& stored) {
  constexpr float kMost = 1e-3F;  // precision of float16
  for (const std::string side : {"encoder", "decoder"}) {
    const std::string* const name = find_stored(names, side + ".embed_positions.weight", stored.names);
    if (!name) continue;
    const Tensor brought = stored.read(*name).to(DType::f32).contiguous();
    bool same = brought.shape() == table.shape();
    for (int64_t i = 0; same && i < table.numel(); ++i)
      same = std::abs(brought.data<float>()[i] - table.data<float>()[i]) < kMost;
    if (!same)
      throw FormatError(config.where() + ": the file has a table of positions, '" + *name +
                        "', which is not the sines and cosines that Marian computes");
  }
}

// The head that classifies texts, or why there is no head; `words`: whether the class has a head that predicts tokens.
PretrainedHead head_of(const Keys& config, bool words, const Names& names, const TensorSource& stored) {
  const std::string wrote = class_of(config);
  if (words || wrote.empty() || wrote.ends_with("Model")) return {};
  if (config.text("model_type") != "bart" || !wrote.ends_with("ForSequenceClassification"))
    return {.missing = head_unknown(config)};
  if (const auto lacks = missing_of_head(names, class_head(), stored)) return {.missing = head_without(config, *lacks)};
  return text_classes(config);
}

Described describe(const Keys& config, const TensorSource& stored) {
  const std::string type = config.text("model_type");
  const bool marian = type == "marian", bart = type == "bart", tied = config.flag("tie_word_embeddings");
  const int64_t width = size_of(config, "d_model");
  const bool separate = marian && !config.flag("share_encoder_decoder_embeddings");
  const int64_t pieces = size_of(config, "vocab_size");
  TransformerConfig own{.vocab_size = separate ? config.integer("decoder_vocab_size", 1, 10'000'000, pieces) : pieces,
                        .source_vocab_size = separate ? pieces : 0,
                        .d_model = width,
                        .nhead = size_of(config, "decoder_attention_heads"),
                        .num_encoder_layers = layers_of(config, "encoder_layers"),
                        .num_decoder_layers = layers_of(config, "decoder_layers"),
                        .dim_feedforward = size_of(config, "decoder_ffn_dim"),
                        .dropout = config.number("dropout", 0, 0.99),
                        .positions = bart ? "learned" : "sinusoidal",
                        .max_positions = size_of(config, "max_position_embeddings"),
                        .pad_id = static_cast<int32_t>(config.integer("pad_token_id", 0, INT32_MAX)),
                        .bos_id = static_cast<int32_t>(config.integer("decoder_start_token_id", 0, INT32_MAX)),
                        .eos_id = end_of_text(config)};
  Described described;
  Names& names = described.names = names_of(own, type);
  const bool norm_first = type == "m2m_100";
  const TransformerLayerOptions encoder = bart_layer(config, "encoder", norm_first);
  const TransformerLayerOptions decoder = bart_layer(config, "decoder", norm_first);
  TransformerDetails details{
      .encoder = std::vector(static_cast<size_t>(own.num_encoder_layers), encoder),
      .decoder = std::vector(static_cast<size_t>(own.num_decoder_layers), decoder),
      .encoder_norm = norm_first,
      .decoder_norm = norm_first,
      .embedding_factor = config.flag("scale_embedding") ? std::sqrt(static_cast<double>(width)) : 1,
      .padding_id = own.pad_id,
      .logit_bias = !norm_first && find_stored(names, "final_logits_bias", stored.names)};
  if (bart) {
    details.embedding_norm = 1e-5;
    details.position_offset = 2;
  } else if (width % 2) {
    config.fail("d_model", "it must be even, for sines and cosines");
  } else if (constexpr int64_t kMost = int64_t{1} << 26; width > kMost / own.max_positions) {  // before it is made
    config.fail("max_position_embeddings",
                "a table of this many positions and width " + std::to_string(width) + " would take more than 256 MiB");
  } else {
    const double half = static_cast<double>(width) / 2;
    if (marian) {
      details.fixed_positions = sinusoids(0, own.max_positions, width, half);
      check_sinusoids(config, details.fixed_positions, names, stored);
    } else {  // padding takes a row of zeros; the other positions start after pad_id
      details.fixed_positions = sinusoids(own.pad_id, own.max_positions + 1, width, half - 1);
      details.fixed_positions.select(0, 0).fill(0);
      details.position_offset = 1;
      details.unnumbered_id = own.pad_id;
    }
  }
  std::vector<Tie> ties;
  if (tied && separate) ties = {{kHeadTable, kDecoderTable}};
  if (tied && !separate)
    ties = {{kHeadTable, kSharedTable}, {kDecoderTable, kSharedTable}, {kEncoderTable, kSharedTable}};
  const std::string wrote = class_of(config);
  const bool words = wrote.ends_with("ForConditionalGeneration") || wrote.ends_with("MTModel");
  described.head = head_of(config, words, names, stored);
  details.classes = std::ssize(described.head.labels);
  details.has_head = described.head.missing.empty();
  if (details.classes > 0) {
    const std::vector<NameRule> rules = class_head();
    names.rules.insert(names.rules.end(), rules.begin(), rules.end());
    std::erase_if(ties, [](const Tie& tie) { return tie.target == kHeadTable; });
  }
  settle_tables(ties, stored, names, own, details);
  if (!details.has_head && words) described.head.missing = head_without(config, kHeadTable);
  details.missing_head = described.head.missing;
  details.logit_bias = details.logit_bias && details.has_head;
  described.make = [own, details] { return std::make_unique<Transformer>(own, details); };
  return described;
}

}  // namespace

const Family kMarian{.model_types = {"marian", "bart", "m2m_100"}, .keys = keys, .describe = describe};

}  // namespace heed::inline v0
