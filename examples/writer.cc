// A language model from nothing to its first lines: text, vocabulary, training, files, sampling. The text is made up
// and regular, so that seconds are enough; with read_text_parts() and a larger model it is `heed train --text` in
// small.
//   writer DIR     keeps the model in DIR; a second run goes on from what is there
#include <cstdio>
#include <string>
#include <vector>

#include "heed/corpus.h"
#include "heed/load.h"
#include "heed/random.h"
#include "heed/text_generator.h"

namespace {

using namespace heed;

/// "3 + 4 = 7", all sums of two digits, in an order that is not sorted.
std::string sums() {
  std::string text;
  for (int n = 0; n < 400; ++n) {
    const int a = n * 7 % 10, b = n * n % 10;
    text += std::to_string(a) + " + " + std::to_string(b) + " = " + std::to_string(a + b) + "\n";
  }
  return text;
}

int run(const std::string& directory) {
  const std::string text = sums();
  const Vocabulary letters = Vocabulary::characters(text);
  const std::vector<int32_t> ids = encode_text(letters, text, "text");
  const std::vector<int32_t> training(ids.begin(), ids.end() - 400), validation(ids.end() - 400, ids.end());

  LanguageModelConfig config{.vocab_size = letters.size(), .d_model = 32, .nhead = 4, .num_layers = 2};
  config.dim_feedforward = 64;
  config.dropout = 0;
  config.max_positions = 48;
  manual_seed(2);
  LanguageModel model(config);

  TrainOptions options{.batch = 16, .max_updates = 400, .validate_every = 100, .average = 1};
  options.learning_rate = {.peak = 0.01, .warmup = 40};
  TrainHooks hooks{.files = {{kConfigFile, write_config(config)}, {kVocabularyFile, letters.to_text()}}};
  hooks.validation = [](const Validation& v) {
    std::printf("update %lld: validation loss %.3f\n", static_cast<long long>(v.update), v.nll);
  };
  train(model, training, validation, options, directory, hooks);

  const TextGenerator writer(directory);
  int right = 0;
  for (int a = 0; a < 10; ++a) {
    const std::string sum = std::to_string(a) + " + 3 = ";
    const std::string answer =
        writer.continue_text(sum, {.tokens = {.max_tokens = 4, .sampling = {.temperature = 0}}, .stop = {"\n"}});
    std::printf("%s%s\n", sum.c_str(), answer.c_str());
    right += answer == std::to_string(a + 3);
  }
  std::printf("%d of 10 sums are right\n", right);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "writer DIR\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
