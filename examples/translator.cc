// A translator from nothing to its first sentence: pairs, vocabulary, training, files, loading, beam search. The
// language is small (an article, a noun, an adjective, which change places), so that seconds are enough; with pairs
// from read_pairs_tsv() and a larger TransformerConfig it is the program `heed train` in small.
//   translator DIR     keeps the model in DIR; a second run goes on from what is there
#include <cstdio>
#include <string>
#include <vector>

#include "heed/corpus.h"
#include "heed/load.h"
#include "heed/random.h"
#include "heed/translator.h"

namespace {

using namespace heed;
using std::string;
using std::vector;

/// Every phrase; each ninth goes to `unseen`.
void make_phrases(TextPairs& seen, TextPairs& unseen) {
  const vector<std::pair<string, string>> nouns{
      {"gato", "cat"},   {"perro", "dog"}, {"libro", "book"}, {"coche", "car"},  {"pan", "bread"},
      {"barco", "boat"}, {"mapa", "map"},  {"vaso", "glass"}, {"tren", "train"}, {"reloj", "clock"}};
  const vector<std::pair<string, string>> adjectives{{"rojo", "red"},     {"grande", "big"},  {"viejo", "old"},
                                                     {"nuevo", "new"},    {"verde", "green"}, {"caro", "expensive"},
                                                     {"bonito", "pretty"}};
  const vector<std::pair<string, string>> articles{{"el", "the"}, {"un", "a"}, {"mi", "my"}, {"este", "this"}};
  int n = 0;
  for (const auto& article : articles)
    for (const auto& noun : nouns)
      for (const auto& adjective : adjectives) {
        TextPairs& part = n++ % 9 == 4 ? unseen : seen;
        part.source.push_back(article.first + " " + noun.first + " " + adjective.first);
        part.target.push_back(article.second + " " + adjective.second + " " + noun.second);
      }
}

int run(const string& directory) {
  TextPairs seen, unseen;
  make_phrases(seen, unseen);

  // One vocabulary for both languages.
  vector<string> lines = seen.source;
  lines.insert(lines.end(), seen.target.begin(), seen.target.end());
  const Vocabulary vocabulary = Vocabulary::train(lines, {.size = 320});

  // A model of 32 numbers a token; dropout is for larger ones.
  const TransformerConfig config{.vocab_size = vocabulary.size(),
                                 .d_model = 32,
                                 .nhead = 4,
                                 .num_encoder_layers = 1,
                                 .num_decoder_layers = 1,
                                 .dim_feedforward = 64,
                                 .dropout = 0,
                                 .norm_first = true,
                                 .max_positions = 64,
                                 .pad_id = vocabulary.pad_id(),
                                 .bos_id = vocabulary.bos_id(),
                                 .eos_id = vocabulary.eos_id()};
  manual_seed(1);  // of the first weights
  Transformer model(config);
  TrainOptions options{.batch_tokens = 256, .max_updates = 300, .validate_every = 100, .average = 1};
  options.learning_rate = {.peak = 0.01, .warmup = 30};
  TrainHooks hooks{.files = {{kConfigFile, write_config(config)}, {kVocabularyFile, vocabulary.to_text()}}};
  hooks.validation = [](const Validation& v) {
    std::printf("update %lld: validation loss %.3f\n", static_cast<long long>(v.update), v.nll);
  };
  train(model, encode(vocabulary, vocabulary, seen), encode(vocabulary, vocabulary, unseen), options, directory, hooks);

  // Another program begins here: the directory is all that it knows.
  const vector<TranslatedLine> translated = Translator(directory).translate(unseen.source, {.beam = {.beam = 4}});
  size_t right = 0;
  for (size_t i = 0; i < translated.size(); ++i) {
    const string& text = translated[i].best.front().text;
    right += text == unseen.target[i];
    if (i < 5) std::printf("%s -> %s\n", unseen.source[i].c_str(), text.c_str());
  }
  std::printf("%zu of %zu phrases that it never saw are right\n", right, translated.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "translator DIR\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
