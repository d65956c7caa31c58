// heed embed: vectors of texts.
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/paths.h"
#include "cli/reading.h"
#include "heed/io.h"
#include "heed/text_reader.h"

namespace heed::cli {
namespace {

struct EmbedArguments : ReadingArguments {
  std::string similarity, prompt;
  int64_t top = 1;
};

// The fewest digits that give the same float32 again.
std::string as_line(const Tensor& vectors, int64_t row) {
  std::string line;
  char number[32];
  for (const float x : vectors.select(0, row).span<float>()) {
    if (!line.empty()) line += ' ';
    line.append(number, std::to_chars(number, number + sizeof number, x).ptr);
  }
  return line + '\n';
}

struct Embedder {
  StoredModel model;
  SentenceModules modules;

  Tensor operator()(const std::vector<std::string>& lines, int64_t before, CutLines& cut) const {
    const TextVectors found = embed_texts(model, lines, modules);
    for (const size_t i : found.cut) cut.add(before + static_cast<int64_t>(i) + 1);
    return found.vectors;
  }
};

// The vectors of all lines.
Tensor all_vectors(const Embedder& embed, const std::string& input, std::vector<std::string>* texts = nullptr) {
  std::vector<Tensor> windows;
  int64_t rows = 0;
  each_window(input, "embed", [&](const std::vector<std::string>& lines, int64_t before, CutLines& cut) {
    windows.push_back(embed(lines, before, cut));
    rows += std::ssize(lines);
    if (texts) texts->insert(texts->end(), lines.begin(), lines.end());
  });
  if (windows.empty()) windows.push_back(embed_texts(embed.model, {}, embed.modules).vectors);
  const Tensor all = Tensor::empty({rows, windows.front().size(1)});
  int64_t at = 0;
  for (const Tensor& window : windows) {
    all.slice(0, at, at + window.size(0)).copy_from(window);
    at += window.size(0);
  }
  return all;
}

void write_similar(const EmbedArguments& a, const Embedder& embed) {
  std::vector<std::string> texts;
  const Tensor others = all_vectors(embed, a.similarity, &texts);
  if (texts.empty()) throw FormatError(a.similarity + " has no lines");
  write_output(a.output, [&](FileWriter& out) {
    each_window(a.input, "embed", [&](const std::vector<std::string>& lines, int64_t before, CutLines& cut) {
      std::string text;
      for (const auto& nearest : nearest_rows(embed(lines, before, cut), others, a.top, embed.modules.similarity)) {
        ++before;
        for (const auto& [place, similarity] : nearest)
          text += std::to_string(before) + '\t' + four_digits(similarity) + '\t' + std::to_string(place + 1) + '\t' +
                  texts[place] + '\n';
      }
      out.write(text);
    });
  });
}

// With the prompt of that name, where one is given.
SentenceModules modules_of(const std::string& model, const std::string& prompt) {
  SentenceModules modules = load_sentence_modules(model);
  if (prompt.empty()) return modules;
  std::string names;
  for (const auto& [name, text] : modules.prompts) names += (names.empty() ? "" : ", ") + name;
  const auto found = modules.prompts.find(prompt);
  if (found == modules.prompts.end()) throw UsageError("--prompt " + prompt + ": the model has the prompts " + names);
  modules.prompt = found->second;
  return modules;
}

// Lines in a file that other programs would take for arrays.
void expect_text_ending(const std::string& output) {
  for (const char* const ending : {".npz", ".safetensors", ".json", ".jsonl"})
    if (output.ends_with(ending))
      throw UsageError("--output " + output +
                       ": lines of numbers are written, or an array where the name ends in .npy" +
                       "; name another file");
}

void embed(EmbedArguments& a) {
  const std::string model = find_model(a.model);
  check_files("embed", a, model, {a.similarity});
  const bool array = a.output.ends_with(".npy");
  if (!array) expect_text_ending(a.output);
  if (!a.similarity.empty() && array)
    throw UsageError("--similarity prints lines, and --output names an array; give another name");
  if (!a.similarity.empty() && is_standard_stream(a.similarity) && is_standard_stream(a.input))
    throw UsageError("--similarity and the texts are both standard input; name a file for one");
  const Embedder embed{load(model, a.load), modules_of(model, a.prompt)};
  if (!a.similarity.empty()) return write_similar(a, embed);
  if (array) return save_npy(a.output, all_vectors(embed, a.input));
  write_output(a.output, [&](FileWriter& out) {
    each_window(a.input, "embed", [&](const std::vector<std::string>& lines, int64_t before, CutLines& cut) {
      const Tensor vectors = embed(lines, before, cut);
      for (int64_t n = 0; n < vectors.size(0); ++n) out.write(as_line(vectors, n));
    });
  });
}

}  // namespace

void add_embed(CLI::App& program) {
  const auto a = std::make_shared<EmbedArguments>();
  CLI::App* command = program.add_subcommand("embed", "Turn texts into vectors, or find those that are alike");
  command->description(
      "Turn texts into vectors, or find those that are alike\n\n"
      "Prints a line of numbers for each line, or writes them all as an array (lines, width) where --output ends in "
      ".npy. Models of sentence-transformers pool and normalise as their modules.json says. Of every other model the "
      "vector is what sentence-transformers makes of it: of a Hugging Face model that writes (ForCausalLM) the last "
      "state of the text's last token, else the mean of the last states of its tokens (of a translator the encoder's, "
      "of a bart the decoder's); special tokens count, but for the end that heed's own models have. Longer texts than "
      "the model takes are cut.\n\n"
      "With --similarity it prints the nearest lines of another file: the line's number, the similarity, the other's "
      "number, the other. The similarity is the cosine, or the one that the model "
      "names: dot, or euclidean or manhattan, the negative distance.");
  add_reading_options(*command, *a, "a text a line", "HEED_MODEL, else the bundled one");
  CLI::Option* similarity =
      command->add_option("--similarity", a->similarity, "Print the lines of this file that are nearest to each line")
          ->type_name("FILE");
  command->add_option("--top", a->top, "So many of them")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(similarity)
      ->capture_default_str();
  command
      ->add_option("--prompt", a->prompt,
                   "Put the model's prompt of this name in front of each text [the model's default prompt]")
      ->type_name("NAME");
  command->footer(
      "Examples:\n"
      "  heed embed --model MiniLM questions.txt -o questions.npy\n"
      "  echo 'Where is the key?' | heed embed --model MiniLM --similarity questions.txt --top 3");
  command->callback([a] { embed(*a); });
}

}  // namespace heed::cli
