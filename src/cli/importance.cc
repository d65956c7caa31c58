#include "cli/importance.h"

#include <array>
#include <cstdio>

#include "cli/commands.h"
#include "cli/paths.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/text_reader.h"

namespace heed::cli {
namespace {

std::string table_of(const std::string& kind, const Tensor& importance) {
  std::string table = kind + ", heads across, layers down\n";
  std::array<char, 32> number;
  for (int64_t layer = 0; layer < importance.size(0); ++layer) {
    for (int64_t head = 0; head < importance.size(1); ++head) {
      std::snprintf(number.data(), number.size(), head ? " %8.5f" : "%8.5f",
                    static_cast<double>(importance.at<float>(layer, head)));
      table += number.data();
    }
    table += '\n';
  }
  return table;
}

}  // namespace

HeadImportance importance_of(const AttendArguments& a) {
  if (a.load.dtype) throw UsageError("--importance needs gradients, which are of float32; leave out --dtype");
  const std::string directory = find_model(a.model);
  const StoredModel model = load(directory, {.trust = a.load.trust, .dtype = DType::f32, .base = a.load.base});
  const bool translates = model.get_if<Transformer>();
  if (!translates && !model.get_if<LanguageModel>())
    throw UsageError(directory + " holds " + what_it_does(model) +
                     "; --importance needs the loss of a translator or a language model");
  const auto say_replaced = [](int64_t replaced) {
    if (replaced > 0) warn("attend", replaced_in_words(replaced));
  };
  if (translates) {
    const TextPairs pairs = read_pairs_tsv(a.importance);
    say_replaced(pairs.replaced);
    return head_importance(model, pairs);
  }
  int64_t replaced = 0;
  const std::vector<std::string> lines = read_lines(a.importance, &replaced);
  say_replaced(replaced);
  return head_importance(model, lines);
}

std::string importance_in_text(const AttendArguments& a) {
  if (!a.target.empty() || !a.file.weights.empty() || a.examples || a.changes_heads() || a.generate > 0 ||
      a.compares() || a.statistics || a.lens || a.top > 0 || a.all ||
      !(a.png.empty() && a.svg.empty() && a.pdf.empty() && a.html.empty()))
    throw UsageError("--importance without a text prints a number for each head: leave out files to write and what " +
                     std::string("chooses or changes heads, or give a text and --html"));
  const HeadImportance importance = importance_of(a);
  const bool translates = importance.cross.defined();
  std::string shown;
  for (const auto& [kind, of_kind] : {std::pair("encoder self-attention", &importance.encoder),
                                      {translates ? "decoder self-attention" : "self-attention", &importance.decoder},
                                      {"cross-attention", &importance.cross}})
    if (of_kind->defined()) shown += (shown.empty() ? "" : "\n") + table_of(kind, *of_kind);
  return shown;
}

}  // namespace heed::cli
