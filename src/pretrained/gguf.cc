#include "pretrained/gguf.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "heed/error.h"
#include "pretrained/gguf_tensor.h"

namespace heed::inline v0 {
namespace {

using Json = nlohmann::json;

struct Renamed {
  const char *hub, *file;  // without ".weight" and ".bias"
};

constexpr Renamed kLlamaNames[] = {{"embed_tokens", "token_embd"},
                                   {"norm", "output_norm"},
                                   {"lm_head", "output"},
                                   {"layers.{}.input_layernorm", "blk.{}.attn_norm"},
                                   {"layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
                                   {"layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
                                   {"layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
                                   {"layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
                                   {"layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
                                   {"layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
                                   {"layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
                                   {"layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
                                   {"layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
                                   {"layers.{}.mlp.down_proj", "blk.{}.ffn_down"}};
// Names that differ from Llama's.
constexpr Renamed kGemma2Names[] = {{"layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
                                    {"layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
                                    {"layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"}};
constexpr Renamed kGpt2Names[] = {{"wte", "token_embd"},
                                  {"wpe", "position_embd"},
                                  {"ln_f", "output_norm"},
                                  {"lm_head", "output"},
                                  {"h.{}.ln_1", "blk.{}.attn_norm"},
                                  {"h.{}.attn.c_attn", "blk.{}.attn_qkv"},
                                  {"h.{}.attn.c_proj", "blk.{}.attn_output"},
                                  {"h.{}.ln_2", "blk.{}.ffn_norm"},
                                  {"h.{}.mlp.c_fc", "blk.{}.ffn_up"},
                                  {"h.{}.mlp.c_proj", "blk.{}.ffn_down"}};
constexpr Renamed kBertNames[] = {{"embeddings.word_embeddings", "token_embd"},
                                  {"embeddings.position_embeddings", "position_embd"},
                                  {"embeddings.token_type_embeddings", "token_types"},
                                  {"embeddings.LayerNorm", "token_embd_norm"},
                                  {"encoder.layer.{}.attention.self.query", "blk.{}.attn_q"},
                                  {"encoder.layer.{}.attention.self.key", "blk.{}.attn_k"},
                                  {"encoder.layer.{}.attention.self.value", "blk.{}.attn_v"},
                                  {"encoder.layer.{}.attention.output.dense", "blk.{}.attn_output"},
                                  {"encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm"},
                                  {"encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up"},
                                  {"encoder.layer.{}.output.dense", "blk.{}.ffn_down"},
                                  {"encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm"}};

constexpr const char *kEmbedding = "token_embd.weight", *kTypes = "token_types.weight";
constexpr const char* kFrequencies = "rope_freqs.weight";  // divisors of the frequencies in Llama 3

// Translates a file's facts to the config.json keys that the family of its architecture reads.
class Translation {
 public:
  explicit Translation(const GgufFile& file) : file_(file), architecture_(file.text(kArchitecture).value_or("")) {}

  Json config() {
    const std::string type(file_.text("general.type").value_or("model"));
    if (type != "model") file_.fail("general.type", "is " + printable(type) + "; heed reads whole models");
    if (file_.integer("split.count").value_or(1) > 1)
      file_.fail("split.count", "says that this is a part of a model; join its parts (llama-gguf-split --merge)");
    constexpr std::string_view kLikeLlama[] = {"llama", "qwen2", "qwen3", "gemma", "gemma2"};
    if (std::find(std::begin(kLikeLlama), std::end(kLikeLlama), architecture_) != std::end(kLikeLlama)) {
      llama();
      if (architecture_ == "gemma2") gemma2();
    } else if (architecture_ == "gpt2") {
      gpt2();
    } else if (architecture_ == "bert") {
      bert();
    } else {
      file_.fail(kArchitecture,
                 (file_.has(kArchitecture) ? "is " + printable(architecture_) : std::string("is not there")) +
                     "; heed has bert, gemma, gemma2, gpt2, llama, qwen2 and qwen3");
    }
    config_["model_type"] = architecture_;
    std::vector<int64_t> ends;
    for (const char* end : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
      if (const auto id = file_.integer(end)) ends.push_back(*id);
    if (!ends.empty()) config_["eos_token_id"] = ends;
    return std::move(config_);
  }

 private:
  static constexpr const char* kArchitecture = "general.architecture";

  std::string key(const char* name) const { return architecture_ + "." + name; }
  int64_t need_integer(const char* name) const {
    const auto value = file_.integer(key(name));
    if (!value) file_.fail(key(name), "is not there; this kind of model needs it");
    return *value;
  }
  // One number for all layers. A list with a number for each layer is accepted if they are equal.
  std::optional<int64_t> integer_of_layers(const char* name) const {
    if (!file_.is_list(key(name))) return file_.integer(key(name));
    const std::vector<int64_t> each = file_.integers(key(name));
    if (const int64_t layers = need_integer("block_count"); std::ssize(each) != layers)
      file_.fail(key(name), "is a list of " + std::to_string(each.size()) + " numbers and " + key("block_count") +
                                " is " + std::to_string(layers) + "; the list must have one number for each layer");
    const auto differs = std::find_if(each.begin(), each.end(), [&](int64_t value) { return value != each[0]; });
    if (differs != each.end())
      file_.fail(key(name), "is " + std::to_string(each[0]) + " in one layer and " + std::to_string(*differs) +
                                " in another; heed supports this kind of model only with equal layers");
    if (each.empty()) return {};
    return each[0];
  }
  int64_t need_integer_of_layers(const char* name) const {
    const auto value = integer_of_layers(name);
    if (!value) file_.fail(key(name), "is not there; this kind of model needs it");
    return *value;
  }
  double need_number(const char* name) const {
    const auto value = file_.number(key(name));
    if (!value) file_.fail(key(name), "is not there; this kind of model needs it");
    return *value;
  }
  int64_t rows_of(const char* tensor) const {
    const GgufTensor* const found = file_.tensor(tensor);
    if (!found) throw FormatError(file_.path() + ": there is no tensor '" + tensor + "'");
    return found->shape[0];
  }

  void sizes(const char* width, const char* heads, const char* layers, const char* inner, const char* positions) {
    config_["vocab_size"] = rows_of(kEmbedding);
    config_[width] = need_integer("embedding_length");
    config_[heads] = need_integer_of_layers("attention.head_count");
    config_[layers] = need_integer("block_count");
    config_[inner] = need_integer_of_layers("feed_forward_length");
    config_[positions] = need_integer("context_length");
  }

  void llama() {
    sizes("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "max_position_embeddings");
    if (file_.integer(key("expert_count")).value_or(0) > 0)
      file_.fail(key("expert_count"), "says that layers have experts, which heed does not support");
    config_["rms_norm_eps"] = need_number("attention.layer_norm_rms_epsilon");
    config_["tie_word_embeddings"] = !file_.tensor("output.weight");
    config_["attention_bias"] = file_.tensor("blk.0.attn_output.bias") != nullptr;
    const auto heads = config_["num_attention_heads"].get<int64_t>();
    if (heads < 1) file_.fail(key("attention.head_count"), "is below 1");
    config_["num_key_value_heads"] = integer_of_layers("attention.head_count_kv").value_or(heads);
    const int64_t head =
        file_.integer(key("attention.key_length")).value_or(config_["hidden_size"].get<int64_t>() / heads);
    config_["head_dim"] = head;
    for (const char* same : {"attention.value_length", "rope.dimension_count"})
      if (const int64_t size = file_.integer(key(same)).value_or(head); size != head)
        file_.fail(key(same),
                   "is " + std::to_string(size) + "; heed supports only the size of a head, " + std::to_string(head));
    config_["rope_theta"] = file_.number(key("rope.freq_base")).value_or(10000);
    scaling();
  }

  void scaling() {
    const double factor = file_.number(key("rope.scaling.factor")).value_or(1);
    // llama.cpp takes a factor without a type as linear.
    const std::string type(file_.text(key("rope.scaling.type")).value_or(factor == 1 ? "none" : "linear"));
    Json scaling = Json::object();
    if (const GgufTensor* const frequencies = file_.tensor(kFrequencies)) {
      // LongRoPE divides each frequency by its own factor, as this tensor does.
      const Tensor factors = gguf_tensor(file_, *frequencies).to(DType::f32).contiguous();
      scaling = {{"rope_type", "longrope"},
                 {"short_factor", std::vector<float>(factors.span<float>().begin(), factors.span<float>().end())},
                 {"attention_factor", 1.0},
                 {"original_max_position_embeddings", config_["max_position_embeddings"]}};
    } else if (type == "linear" || type == "yarn") {
      scaling = {{"rope_type", type}, {"factor", factor}};
      if (const auto original = file_.integer(key("rope.scaling.original_context_length")))
        scaling["original_max_position_embeddings"] = *original;
      for (const auto& [theirs, ours] :
           {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"), {"rope.scaling.yarn_beta_slow", "beta_slow"}})
        if (const auto value = file_.number(key(theirs))) scaling[ours] = *value;
    } else if (type != "none") {
      file_.fail(key("rope.scaling.type"), "is " + printable(type) + "; heed has none, linear and yarn");
    }
    for (const char* other : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor", "rope.scale_linear"})
      if (file_.number(key(other)).value_or(1) != 1)
        file_.fail(key(other), "is not 1, the only value that heed supports for this kind of model");
    if (!scaling.empty()) config_["rope_scaling"] = std::move(scaling);
  }

  void gemma2() {
    for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
      if (const auto value = file_.number(key(cap))) config_[cap] = *value;
    if (const auto window = file_.integer(key("attention.sliding_window"))) config_["sliding_window"] = *window;
    // The file has no such fact. 27B, the model with 46 layers, scales by width / heads, the others by the head size.
    const bool largest = config_["num_hidden_layers"] == 46;
    config_["query_pre_attn_scalar"] =
        largest ? config_["hidden_size"].get<int64_t>() / config_["num_attention_heads"].get<int64_t>()
                : config_["head_dim"].get<int64_t>();
  }

  void gpt2() {
    sizes("n_embd", "n_head", "n_layer", "n_inner", "n_positions");
    config_["layer_norm_epsilon"] = need_number("attention.layer_norm_epsilon");
    config_["tie_word_embeddings"] = !file_.tensor("output.weight");
  }

  void bert() {
    sizes("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "max_position_embeddings");
    config_["layer_norm_eps"] = need_number("attention.layer_norm_epsilon");
    config_["type_vocab_size"] = rows_of(kTypes);
    if (file_.flag(key("attention.causal")).value_or(false))
      file_.fail(key("attention.causal"), "is true; heed supports this kind of model only with false");
  }

  const GgufFile& file_;
  std::string architecture_;
  Json config_ = Json::object();
};

std::string with_ending(const std::string& name, std::span<const Renamed> table) {
  for (const auto& [hub, file] : table)
    for (const char* ending : {".weight", ".bias"})
      if (name == std::string(hub) + ending) return std::string(file) + ending;
  return "";
}

// llama.cpp rotates rows (2i, 2i + 1) of a head together; in Hugging Face's order they are half a head apart.
Tensor halves(const Tensor& pairs, int64_t heads) {
  const int64_t rows = pairs.size(0);
  if (rows % (2 * heads) != 0) return pairs;  // the caller refuses this shape
  const int64_t width = pairs.numel() / std::max<int64_t>(rows, 1);
  return pairs.reshape({heads, rows / heads / 2, 2, width}).transpose(1, 2).contiguous().reshape(pairs.shape());
}

}  // namespace

GgufModel::GgufModel(const std::string& path) : file_(path), config_(Translation(file_).config(), path) {
  for (const GgufTensor& tensor : file_.tensors()) names_.push_back(tensor.name);
}

std::vector<std::string> GgufModel::hub_names() const {
  std::vector<std::string> names = names_;
  if (config_.text("model_type") != "bert") names.emplace_back("lm_head.weight");
  return names;
}

Names GgufModel::renamed(Names names) const {
  const std::string architecture = config_.text("model_type");
  std::vector<Renamed> table;
  const auto add = [&](std::span<const Renamed> more) { table.insert(table.end(), more.begin(), more.end()); };
  if (architecture == "gpt2") {
    add(kGpt2Names);
  } else if (architecture == "bert") {
    add(kBertNames);
  } else {
    if (architecture == "gemma2") add(kGemma2Names);
    add(kLlamaNames);
  }
  for (NameRule& rule : names.rules) {
    rule.change = Change::none;
    for (std::string& name : rule.theirs)
      if (const std::string own = with_ending(name, table); !own.empty()) name = own;
  }
  names.prefixes = {""};
  names.heads = {};
  names.ties = {};
  names.old_endings = {};
  names.unused = {kFrequencies};
  return names;
}

Tensor GgufModel::tensor(const std::string& name) const {
  const Tensor tensor = gguf_tensor(file_, *file_.tensor(name));
  if (config_.text("model_type") != "llama") return tensor;
  const auto is = [&](const char* which) {
    return name.ends_with(std::string(which) + ".weight") || name.ends_with(std::string(which) + ".bias");
  };
  if (is(".attn_q")) return halves(tensor, config_.integer("num_attention_heads", 1, INT32_MAX));
  if (is(".attn_k")) return halves(tensor, config_.integer("num_key_value_heads", 1, INT32_MAX));
  return tensor;
}

}  // namespace heed::inline v0
