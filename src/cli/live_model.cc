#include "cli/live_model.h"

#include <utility>

#include "heed/io.h"
#include "heed/model_files.h"
#include "heed/models.h"
#include "heed/text_reader.h"

namespace heed::cli {
namespace {

constexpr const char* kNoticeFile = "NOTICE";
constexpr uint64_t kLongestNotice = 1 << 16;     // bytes
constexpr uint64_t kLargestModel = 100'000'000;  // bytes of weights: the page then has 133 MB

class StringWriter : public FileWriter {
 public:
  using FileWriter::write;
  void write(std::span<const std::byte> bytes) override {
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string content;
};

std::string halves_of(const NamedTensors& tensors) {
  uint64_t numbers = 0;
  for (const auto& [name, tensor] : tensors) numbers += static_cast<uint64_t>(tensor.numel());
  if (2 * numbers > kLargestModel)
    throw UsageError("--live: the model has " + std::to_string(numbers) + " parameters; a page takes up to " +
                     std::to_string(kLargestModel / 2) + ", leave out --live");
  NamedTensors halves;
  for (const auto& [name, tensor] : tensors)
    halves.emplace_back(name, converted(tensor.contiguous(), name, DType::f16, "--live"));
  StringWriter file;
  write_safetensors(file, halves, {{"format", "heed"}});
  return std::move(file.content);
}

}  // namespace

LiveModel live_model(const StoredModel& model, const std::string& directory, int64_t beam, int64_t generate) {
  if (!model.model_type().empty())
    throw UsageError("--live takes models that heed made, and " + directory + " holds " + what_it_does(model) +
                     "; leave out --live");
  if (model.vocabulary().foreign() || model.source_vocabulary().foreign())
    throw UsageError("--live takes heed's own vocabularies, and " + directory +
                     " has one of sentencepiece; leave out --live");
  const ModelParts parts = write_parts(model);
  const bool translates = dynamic_cast<const Transformer*>(&model.module()) != nullptr;
  LiveModel live{.kind = translates ? LiveKind::translates : LiveKind::continues, .beam = beam, .generate = generate};
  live.files.emplace_back(kConfigFile, parts.config);
  for (size_t i = 0; i < parts.vocabularies.size(); ++i)
    live.files.emplace_back(i == 0 ? kVocabularyFile : kSourceVocabularyFile, parts.vocabularies[i]);
  live.files.emplace_back(kModelFile, halves_of(parts.tensors));
  if (const DirectorySnapshot files(directory, {kNoticeFile}); files.contains(kNoticeFile))
    live.notice = files.read(kNoticeFile, kLongestNotice);
  return live;
}

}  // namespace heed::cli
