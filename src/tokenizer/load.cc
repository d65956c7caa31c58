#include "tokenizer/load.h"

#include <filesystem>

#include "core/gguf.h"
#include "heed/model_files.h"
#include "text/read_whole_file.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error && error != std::errc::not_a_directory) throw IoError("read " + path.string() + ": " + error.message());
  return there;
}

using Shared = std::shared_ptr<const Tokenizer::Implementation>;

// A text as JSON has it.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr const char* kDigits = "0123456789abcdef";
      out += std::string("\\u00") + kDigits[c >> 4] + kDigits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

TokenizerFiles files_in(const std::string& directory) {
  const std::filesystem::path path(directory);
  return {.where = directory,
          .contains = [path](const std::string& name) { return is_there(path / name); },
          .read = [path](const std::string& name) { return read_whole_file(path / name, kLargestTokenizer); }};
}

}  // namespace

std::string describe_named_tokens(const std::string& directory) {
  const TokenizerFiles files = files_in(directory);
  const NamedTokens named = TokenizerConfig(files).named_tokens(files);
  std::string tokens, none;
  for (const auto& [name, token] : named.tokens)
    tokens += (tokens.empty() ? "" : ", ") + json_text(name) + ": " + json_text(token);
  for (const std::string& name : named.none) none += (none.empty() ? "" : ", ") + json_text(name);
  return "{\"tokens\": {" + tokens + "}, \"complete\": " + (named.complete ? "true" : "false") + ", \"none\": [" +
         none + "]}";
}

Tokenizer load_tokenizer(const std::string& path, TokenizerSide side) {
  const std::filesystem::path directory(path);
  if (!std::filesystem::is_directory(directory)) {
    if (!is_there(directory)) throw IoError("read " + path + ": there is no such directory");
    if (is_gguf(path)) return Tokenizer(Shared(read_gguf(path)));
    throw FormatError(path + ": neither a directory nor a GGUF file; pass the directory of tokenizer.json");
  }
  return load_tokenizer(files_in(path), side);
}

Tokenizer load_tokenizer(const TokenizerFiles& files, TokenizerSide side) {
  const auto own = [&](const char* name) {
    return Tokenizer(Vocabulary::from_bytes(files.read(name), files.path(name)));
  };
  const bool source = side == TokenizerSide::source;
  if (source && files.contains(kSourceVocabularyFile)) return own(kSourceVocabularyFile);
  if (files.contains(kVocabularyFile)) return own(kVocabularyFile);
  const TokenizerConfig config(files);
  const std::string& name = config.class_name();
  // These two classes do not read tokenizer.json.
  const bool marian = files.contains("source.spm") && files.contains("target.spm") && files.contains("vocab.json");
  const bool m2m100 = files.contains("vocab.json") && files.contains("sentencepiece.bpe.model");
  if (marian && name == "MarianTokenizer") return Tokenizer(Shared(read_marian(files, config, side)));
  if (m2m100 && name == "M2M100Tokenizer") return Tokenizer(Shared(read_m2m100(files, config)));
  if (files.contains("tokenizer.json")) {
    const JsonDocument document(files.read("tokenizer.json"), files.path("tokenizer.json"));
    return Tokenizer(Shared(read_tokenizer_json(document.root(), files.path("tokenizer.json"), &config)));
  }
  if (marian && name.empty()) return Tokenizer(Shared(read_marian(files, config, side)));
  if (files.contains("vocab.json") && files.contains("merges.txt"))
    return Tokenizer(Shared(read_merges(files, config)));
  if (m2m100 && name.empty()) return Tokenizer(Shared(read_m2m100(files, config)));
  if (files.contains("vocab.txt")) return Tokenizer(Shared(read_wordpieces(files, config)));
  for (const char* model : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (files.contains(model)) return Tokenizer(Shared(read_sentencepiece(files, model, config)));
  throw FormatError(files.where +
                    ": no tokenizer that heed reads: tokenizer.json, source.spm with target.spm and vocab.json, "
                    "vocab.json with merges.txt or sentencepiece.bpe.model, vocab.txt, tokenizer.model, spiece.model "
                    "or sentencepiece.bpe.model");
}

}  // namespace heed::inline v0
