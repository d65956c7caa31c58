// Other people's text through a model on the disk: what `heed translate` and `heed generate` do, as a library.
//   load_model DIR TEXT...     translations where DIR holds a translator, continuations where it holds a language model
#include <cstdio>
#include <string>
#include <vector>

#include "heed/load.h"
#include "heed/text_generator.h"
#include "heed/translator.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "load_model DIR TEXT...\n");
    return 2;
  }
  const std::string directory = argv[1];
  const std::vector<std::string> texts(argv + 2, argv + argc);
  try {
    const heed::StoredFiles files = heed::inspect(directory);  // headers only
    std::printf("%llu parameters, %lld pieces\n", static_cast<unsigned long long>(files.tensors.at(0).numbers),
                static_cast<long long>(files.vocabularies.at(0).pieces));

    if (std::holds_alternative<heed::TransformerConfig>(heed::load_config(directory))) {
      const heed::Translator translator(directory);
      const auto lines = translator.translate(texts, {.beam = {.beam = 4, .want_alignment = true}});
      for (size_t i = 0; i < lines.size(); ++i) {
        const heed::Translation& best = lines[i].best.front();
        std::printf("%s -> %s (score %.2f)\n", texts[i].c_str(), best.text.c_str(), best.score);
        for (const auto& [source, target] : best.alignment)
          std::printf("  word %lld from word %lld\n", static_cast<long long>(target), static_cast<long long>(source));
      }
    } else {
      const heed::TextGenerator generator(directory);
      for (const std::string& text : texts)
        std::printf("%s%s\n", text.c_str(), generator.continue_text(text, {.tokens = {.max_tokens = 40}}).c_str());
    }
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
