// Models of other makers' directories and GGUF files: each is refused, or loaded in memory of its size.
#include <nlohmann/json.hpp>

#include "core/testing.h"
#include "fuzz/fuzz.h"
#include "heed/adapters.h"
#include "heed/chat.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/pretrained.h"
#include "heed/tokenizer.h"

namespace heed::fuzz {
namespace {

// Calls it; what it throws for bytes that it refuses does not end the others.
template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

// ----------------------------------------------------------------------------------------------------- config.json

void run_config(const std::string& bytes) {
  static const Directory directory;
  static const bool made = [] {
    save_safetensors(directory.at("model.safetensors"), {{"wte.weight", Tensor::zeros({4, 8})}});
    return true;
  }();
  static_cast<void>(made);
  directory.write("config.json", bytes);
  attempt([] { load_pretrained(directory.path()); });
  attempt([] { load(directory.path()); });  // heed's own, too
}

std::vector<std::string> config_examples() {
  return {
      R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":8,"n_head":2,"n_layer":1,"n_positions":16,"vocab_size":4,"n_ctx":16})",
      R"({"format":1,"architecture":"language_model","d_model":8,"nhead":2,"num_layers":1,"dim_feedforward":16,"vocab_size":4})"};
}

// ------------------------------------------------------------------------------- the other JSON files of a directory

// The bytes are an object: the contents of files by name.
void run_directory(const std::string& bytes) {
  const auto files = nlohmann::ordered_json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (!files.is_object()) return;
  static const char* const kNames[] = {"config.json",
                                       "generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "adapter_config.json",
                                       "modules.json",
                                       "sentence_bert_config.json",
                                       "config_sentence_transformers.json",
                                       "preprocessor_config.json",
                                       "model.safetensors.index.json",
                                       "1_Pooling/config.json",
                                       "2_Dense/config.json"};
  static const Directory directory;
  for (const char* name : kNames) {
    const std::string path = directory.at(name);
    if (!files.contains(name)) {
      std::filesystem::remove(path);
      continue;
    }
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    directory.write(name, files[name].dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  attempt([] { load(directory.path()); });
  attempt([] { load_sentence_modules(directory.path()); });
  attempt([] { load_tokenizer(directory.path()); });
  attempt([] { chat_template_of(directory.path()); });
  attempt([] { adapted_base(directory.path()); });
}

std::vector<std::string> directory_examples() {
  return {
      R"({"config.json":{"model_type":"bert","architectures":["BertModel"],"hidden_size":8,"num_attention_heads":2,"num_hidden_layers":1,"intermediate_size":16,"vocab_size":4,"max_position_embeddings":8,"type_vocab_size":2},"modules.json":[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},{"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.models.Dense"}],"1_Pooling/config.json":{"word_embedding_dimension":8,"pooling_mode_mean_tokens":true},"2_Dense/config.json":{"in_features":8,"out_features":4,"bias":true},"sentence_bert_config.json":{"max_seq_length":8,"do_lower_case":false},"config_sentence_transformers.json":{"prompts":{"query":"query: "},"default_prompt_name":"query"},"tokenizer_config.json":{"model_max_length":512,"tokenizer_class":"BertTokenizer","chat_template":"{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"},"special_tokens_map.json":{"unk_token":"[UNK]"},"model.safetensors.index.json":{"weight_map":{"a":"model-1.safetensors"}}})",
      R"({"config.json":{"model_type":"marian","architectures":["MarianMTModel"],"d_model":8,"vocab_size":4,"decoder_start_token_id":3,"eos_token_id":0,"pad_token_id":3},"generation_config.json":{"bad_words_ids":[[3]],"num_beams":4,"max_length":512,"forced_eos_token_id":0,"eos_token_id":[0,1],"length_penalty":1.0}})",
      R"({"config.json":{"model_type":"vit","architectures":["ViTForImageClassification"],"hidden_size":8,"image_size":8,"patch_size":4,"num_channels":3,"id2label":{"0":"cat"}},"preprocessor_config.json":{"do_resize":true,"size":{"height":8,"width":8},"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5],"resample":2}})",
      R"({"adapter_config.json":{"peft_type":"LORA","base_model_name_or_path":"base","r":2,"lora_alpha":4,"target_modules":["c_attn"],"bias":"none","task_type":"CAUSAL_LM"}})"};
}

// ------------------------------------------------------------------------------------------------------------ GGUF

void run_gguf(const std::string& bytes) {
  static const Directory directory;
  static const std::string path = directory.at("model.gguf");
  directory.write("model.gguf", bytes);
  attempt([] { load_pretrained(path); });
  attempt([] {
    const Tokenizer tokenizer = load_tokenizer(path);
    tokenizer.decode(tokenizer.encode("a b\n\xE2\x96\x81\xFF").ids);
  });
}

// A Llama of one layer with a tokenizer of bytes.
std::vector<std::string> gguf_examples() {
  GgufBytes file;
  file.text("general.architecture", "llama");
  for (const auto& [key, value] : {std::pair{"llama.block_count", 1u},
                                   {"llama.context_length", 32u},
                                   {"llama.embedding_length", 8u},
                                   {"llama.feed_forward_length", 32u},
                                   {"llama.attention.head_count", 2u},
                                   {"llama.attention.head_count_kv", 1u},
                                   {"tokenizer.ggml.eos_token_id", 2u}})
    file.integer(key, value);
  file.number("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a", "\xE2\x96\x81\x61", "<0x0A>", "b"});
  file.numbers<float>("tokenizer.ggml.scores", {0, 0, 0, -1, -2, -3, 0, -4});
  file.numbers<uint32_t>("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1, 6, 1});
  const auto tensor = [&](const char* name, uint64_t rows, uint64_t columns) {
    std::vector<uint64_t> shape{columns};
    if (rows > 1) shape.push_back(rows);
    file.tensor(name, shape, 0, std::string(rows * columns * 4, '\1'));
  };
  tensor("token_embd.weight", 8, 8);
  tensor("output_norm.weight", 1, 8);
  for (const char* name : {"attn_norm", "ffn_norm"}) tensor(("blk.0." + std::string(name) + ".weight").c_str(), 1, 8);
  tensor("blk.0.attn_q.weight", 8, 8);
  tensor("blk.0.attn_k.weight", 4, 8);
  tensor("blk.0.attn_v.weight", 4, 8);
  tensor("blk.0.attn_output.weight", 8, 8);
  tensor("blk.0.ffn_gate.weight", 32, 8);
  tensor("blk.0.ffn_up.weight", 32, 8);
  file.tensor("blk.0.ffn_down.weight", {32, 8}, 8, std::string(8 * 34, '\1'));
  return {file.bytes()};
}

constexpr Format kFormats[] = {{"config_json", run_config, config_examples, /*json=*/true},
                               {"model_directory", run_directory, directory_examples, /*json=*/true},
                               {"gguf", run_gguf, gguf_examples}};

}  // namespace

std::span<const Format> model_formats() { return kFormats; }

}  // namespace heed::fuzz
