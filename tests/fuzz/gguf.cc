// A GGUF file that anybody wrote: its model and its tokenizer are refused, or loaded in memory of its size.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/testing.h"
#include "heed/pretrained.h"
#include "heed/tokenizer.h"

namespace {

// A whole one to begin with: a Llama of one layer, its tokenizer of bytes.
std::string whole() {
  heed::GgufBytes file;
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
  return file.bytes();
}

// Where the file stands; gone at the end, but for what a crash leaves.
struct Place {
  std::string path =
      (std::filesystem::temp_directory_path() / ("heed-fuzz-" + std::to_string(::getpid()) + ".gguf")).string();
  ~Place() { std::filesystem::remove(path); }
};

}  // namespace

// The last argument is where to begin.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path begin = (*argv)[*argc - 1];
  if (std::filesystem::is_directory(begin)) std::ofstream(begin / "whole", std::ios::binary) << whole();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Place place;
  const std::string& path = place.path;
  // A new file each time: one that is mapped must not be shortened.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    heed::load_pretrained(path);
  } catch (const heed::Error&) {
  }
  try {
    const heed::Tokenizer tokenizer = heed::load_tokenizer(path);
    tokenizer.decode(tokenizer.encode("a b\n\xE2\x96\x81\xFF").ids);
  } catch (const heed::Error&) {
  }
  return 0;
}
