#include <filesystem>
#include <map>
#include <utility>

#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/models.h"
#include "heed/pages.h"
#include "heed/pretrained.h"
#include "heed/text_encoder.h"
#include "heed/text_reader.h"
#include "heed/tokenizer.h"

namespace heed::inline v0 {
namespace {

constexpr const char* kNoticeFile = "NOTICE";
constexpr uint64_t kLongestNotice = 1 << 16;     // bytes
constexpr uint64_t kLargestModel = 100'000'000;  // bytes of weights: the page then has 124 MB

class StringWriter : public FileWriter {
 public:
  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override {
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string content;
};

std::string halves_of(const NamedTensors& tensors, const std::string& format) {
  uint64_t numbers = 0;
  for (const auto& [name, tensor] : tensors) numbers += static_cast<uint64_t>(tensor.numel());
  if (2 * numbers > kLargestModel)
    throw UsageError("the model has " + std::to_string(numbers) + " parameters; a live page takes up to " +
                     std::to_string(kLargestModel / 2));
  NamedTensors halves;
  for (const auto& [name, tensor] : tensors)
    halves.emplace_back(name, converted(tensor.contiguous(), name, DType::f16, "the live page"));
  StringWriter file;
  write_safetensors(file, halves, {{"format", format}});
  return std::move(file.content);
}

// What the tokenizer of a directory is made of: what it reads.
void add_tokenizer(const StoredModel& model, const std::string& directory, LiveModel* live) {
  std::map<std::string, std::string> read;
  const TokenizerFiles files{
      .where = directory,
      .contains = [&](const std::string& name) { return std::filesystem::exists(directory + "/" + name); },
      .read = [&](const std::string& name) { return read[name] = read_file(directory + "/" + name); }};
  load_tokenizer(files, TokenizerSide::target);
  if (model.get_if<Transformer>()) load_tokenizer(files, TokenizerSide::source);
  read.erase(kConfigFile);  // the model's own, which is there
  for (auto& [name, content] : read) live->files.emplace_back(name, std::move(content));
}

void add_pretrained(const StoredModel& model, const std::string& directory, LiveModel* live) {
  const PretrainedModel& pretrained = model.pretrained();
  if (!pretrained.layout)
    throw UsageError(directory + " is a GGUF file, which a live page does not take; name the directory " +
                     "that it was made of");
  // Before the tokenizer's, which may be large.
  std::string weights = halves_of(pretrained_tensors(pretrained), "pt");
  const std::map<std::string, std::string> texts = pretrained_texts(pretrained);
  for (const char* name : {kConfigFile, "generation_config.json"})
    if (const auto text = texts.find(name); text != texts.end()) live->files.push_back(*text);
  add_tokenizer(model, directory, live);
  live->files.emplace_back(kModelFile, std::move(weights));
}

void add_own(const StoredModel& model, const std::string& directory, LiveModel* live) {
  if (model.vocabulary().foreign() || model.source_vocabulary().foreign())
    throw UsageError(directory + " has a vocabulary of sentencepiece; a live page takes heed's own");
  const ModelParts parts = write_parts(model);
  live->files.emplace_back(kConfigFile, parts.config);
  for (size_t i = 0; i < parts.vocabularies.size(); ++i)
    live->files.emplace_back(i == 0 ? kVocabularyFile : kSourceVocabularyFile, parts.vocabularies[i]);
  live->files.emplace_back(kModelFile, halves_of(parts.tensors, "heed"));
}

}  // namespace

LiveModel live_model(const StoredModel& model, const std::string& directory, int64_t beam, int64_t generate) {
  const bool translates = model.kind() == ModelKind::translator, reads = model.kind() == ModelKind::text_encoder;
  if (!translates && !reads && model.kind() != ModelKind::language_model)
    throw UsageError(directory + " holds " + what_it_does(model) + "; a live page takes models of texts");
  LiveModel live{.kind = translates ? LiveKind::translates
                         : reads    ? LiveKind::reads
                                    : LiveKind::continues,
                 .beam = beam,
                 .generate = generate};
  model.is_own() ? add_own(model, directory, &live) : add_pretrained(model, directory, &live);
  if (const DirectorySnapshot files(directory, {kNoticeFile}); files.contains(kNoticeFile))
    live.notice = files.read(kNoticeFile, kLongestNotice);
  return live;
}

}  // namespace heed::inline v0
