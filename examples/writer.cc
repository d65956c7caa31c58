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

constexpr const char* kDays[] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};

/// "After Tuesday comes Wednesday.", each day many times, in no order.
std::string sentences() {
  std::string text;
  for (int n = 0; n < 400; ++n) {
    const int day = n * n % 11 * (n + 3) % 7;
    text += std::string("After ") + kDays[day] + " comes " + kDays[(day + 1) % 7] + ".\n";
  }
  return text;
}

int run(const std::string& directory) {
  const std::string text = sentences();
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
  for (int day = 0; day < 7; ++day) {
    const std::string begun = std::string("After ") + kDays[day] + " comes ";
    const std::string answer =
        writer.continue_text(begun, {.tokens = {.max_tokens = 12, .sampling = {.temperature = 0}}, .stop = {"."}});
    std::printf("%s%s\n", begun.c_str(), answer.c_str());
    right += answer == kDays[(day + 1) % 7];
  }
  std::printf("%d of 7 days are right\n", right);
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
