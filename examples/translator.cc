// A translator from nothing to its first sentence: pairs, vocabulary, training, files, loading, beam search. The
// language is small (an article, a noun, an adjective, which change places), so that seconds are enough; with pairs
// from read_pairs_tsv() and a larger TransformerConfig it is the program `heed train` in small.
//   translator DIR     keeps the model in DIR; a second run goes on from what is there
#include <cstdio>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/models.h"
#include "heed/random.h"
#include "heed/text.h"
#include "heed/train.h"

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

SentencePairs encode(const Vocabulary& vocabulary, const TextPairs& text) {
  SentencePairs pairs;
  for (const string& line : text.source) pairs.source.push_back(vocabulary.encode(line));
  for (const string& line : text.target) pairs.target.push_back(vocabulary.encode(line));
  return pairs;
}

/// The best translation of each sentence.
vector<string> translate(const Transformer& model, const Vocabulary& vocabulary, const vector<string>& sentences) {
  vector<vector<int32_t>> source;
  for (const string& sentence : sentences) {
    source.push_back(vocabulary.encode(sentence));
    source.back().push_back(vocabulary.eos_id());
  }
  vector<string> texts;
  for (const vector<Hypothesis>& found : model.translate(source, {.beam = 4}))
    texts.push_back(vocabulary.decode(found.front().ids));
  return texts;
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
  TrainHooks hooks;
  hooks.validation = [](const Validation& v) {
    std::printf("update %lld: validation loss %.3f\n", static_cast<long long>(v.update), v.nll);
  };
  train(model, encode(vocabulary, seen), encode(vocabulary, unseen), options, directory, hooks);
  write_file_atomically(directory + "/vocabulary.txt", vocabulary.to_text());

  // Another program begins here: it knows the directory and the shape.
  const Vocabulary words = Vocabulary::load(directory + "/vocabulary.txt");
  Transformer loaded(config);
  const SafetensorsFile file(directory + "/model.safetensors");
  vector<std::pair<string, Tensor>> weights;
  for (const TensorInfo& info : file.tensors()) weights.emplace_back(info.name, file.tensor(info.name));
  loaded.load(weights);
  loaded.eval();

  const vector<string> translations = translate(loaded, words, unseen.source);
  size_t right = 0;
  for (size_t i = 0; i < translations.size(); ++i) {
    right += translations[i] == unseen.target[i];
    if (i < 5) std::printf("%s -> %s\n", unseen.source[i].c_str(), translations[i].c_str());
  }
  std::printf("%zu of %zu phrases that it never saw are right\n", right, translations.size());
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
