// Tokenizers in plain files, whose class says the rest: vocab.json with merges.txt, and vocab.txt.
#include <algorithm>
#include <array>

#include "text/unicode.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/classes.h"
#include "tokenizer/read_json.h"

namespace heed::inline v0 {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::shared_ptr<const Pipeline> read_merges(const TokenizerFiles& files, const TokenizerConfig& config) {
  const std::string where = files.path("vocab.json");
  const std::string name = config.class_name().empty() ? "GPT2Tokenizer" : config.class_name();
  constexpr std::array<std::string_view, 5> kReaders{"GPT2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer",
                                                     "RobertaTokenizer", "Qwen2Tokenizer"};
  if (std::find(kReaders.begin(), kReaders.end(), name) == kReaders.end())
    throw FormatError(files.where + ": heed does not know how a " + name +
                      " reads vocab.json and merges.txt; add its tokenizer.json, which transformers saves");
  const JsonDocument vocabulary(files.read("vocab.json"), where);
  const std::string merges_path = files.path("merges.txt");
  const std::string merges_text = files.read("merges.txt");
  if (!valid_utf8(merges_text)) throw FormatError(merges_path + ": not UTF-8");
  ClassFiles of_class{.where = where, .table = read_vocabulary(vocabulary.root(), where)};
  for (const std::string_view line : lines_of(merges_text))
    if (!line.starts_with("#version") && !line.empty()) of_class.merges.push_back(split_merge(line, merges_path));
  return std::make_shared<const Pipeline>(build_class(name, std::move(of_class), config));
}

std::shared_ptr<const Pipeline> read_wordpieces(const TokenizerFiles& files, const TokenizerConfig& config) {
  const std::string where = files.path("vocab.txt");
  const std::string name = config.class_name().empty() ? "BertTokenizer" : config.class_name();
  if (kind_of_class(name) != VocabularyKind::wordpiece)
    throw FormatError(files.where + ": heed does not know how a " + name +
                      " reads vocab.txt; add its tokenizer.json, which transformers saves");
  const std::string text = files.read("vocab.txt");
  if (!valid_utf8(text)) throw FormatError(where + ": not UTF-8");
  ClassFiles of_class{.where = where, .kind = VocabularyKind::wordpiece};
  int32_t next = 0;
  // The package tokenizers ignores white space at the end of a line.
  for (const std::string_view line : lines_of(text)) of_class.table.add(line.substr(0, trimmed_end(line)), next++);
  of_class.table.finish(where);
  return std::make_shared<const Pipeline>(build_class(name, std::move(of_class), config));
}

}  // namespace heed::inline v0
