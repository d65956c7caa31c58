// heed attend: what attends to what while a model translates or reads a text.
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/attention_page.h"
#include "cli/commands.h"
#include "cli/translator.h"
#include "heed/io.h"
#include "heed/text.h"
#include "heed/view.h"

namespace heed::cli {
namespace {

struct AttendArguments {
  std::string text, target, model;
  std::string png, svg, pdf, html;
  int64_t layer = 0, head = 0, beam = 5;  // layer 0: the last; head 0: the mean of all
  bool trust = false, all = false, statistics = false, encoder = false, decoder = false, cross = false;
  double width = 0;
};

// What a model attended to.
struct Looked {
  std::string text;              // printed above the map
  std::vector<Tensor> layers{};  // (1, H, Lq, Lk) each
  std::vector<std::string> query_labels{}, key_labels{};
  const char* kind = "";
  Page page{};  // for --html
};

// Pieces as a reader wants them: a word's first piece plain, a piece that goes on with a word behind a dot.
std::vector<std::string> pieces_of(const Vocabulary& vocabulary, const std::vector<int32_t>& ids) {
  constexpr std::string_view kSpaceMark = "\u2581";
  std::vector<std::string> pieces;
  bool new_line = true;
  for (const int32_t id : ids) {
    std::string piece = vocabulary.piece(id);
    const std::string text = vocabulary.bytes(id);
    if (text == "\n" || vocabulary.of_characters())
      piece = text == " " ? std::string(kSpaceMark) : text;
    else if (piece.starts_with(kSpaceMark) && piece != kSpaceMark)
      piece.erase(0, kSpaceMark.size());
    else if (const auto first = static_cast<unsigned char>(piece[0]);
             !new_line && (first >= 0x80 || std::isalnum(first)))
      piece.insert(0, "\u00B7");
    new_line = text == "\n";
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// layers x (1, H, Lq, Lk) -> (layers, H, Lq, Lk)
Tensor stack(const std::vector<Tensor>& layers) {
  const Dims& one = layers.front().shape();
  const Tensor all = Tensor::empty({static_cast<int64_t>(layers.size()), one[1], one[2], one[3]});
  for (size_t l = 0; l < layers.size(); ++l) all.select(0, static_cast<int64_t>(l)).copy_from(layers[l].select(0, 0));
  return all;
}

// (H, Lq, Lk) -> (Lq, Lk)
Tensor mean_of_heads(const Tensor& weights) {
  const Tensor mean = Tensor::zeros({weights.size(1), weights.size(2)});
  for (int64_t h = 0; h < weights.size(0); ++h)
    for (int64_t i = 0; i < weights.size(1); ++i)
      for (int64_t j = 0; j < weights.size(2); ++j)
        mean.at<float>(i, j) += weights.at<float>(h, i, j) / static_cast<float>(weights.size(0));
  return mean;
}

// `number` counts from 1.
void check_number(const char* what, int64_t number, int64_t count) {
  if (number < 0 || number > count)
    throw ShapeError(std::string(what) + " " + std::to_string(number) + " is not in 1.." + std::to_string(count));
}

// From 0.
int64_t chosen_layer(const AttendArguments& a, const std::vector<Tensor>& layers) {
  check_number("layer", a.layer, std::ssize(layers));
  return a.layer ? a.layer - 1 : std::ssize(layers) - 1;
}

void print_statistics(const Tensor& all) {  // (N, H, Lq, Lk)
  std::printf("%5s %4s %9s %8s %9s %9s %6s %6s\n", "layer", "head", "diagonal", "entropy", "distance", "previous",
              "next", "first");
  for (int64_t layer = 0; layer < all.size(0); ++layer)
    for (int64_t head = 0; head < all.size(1); ++head) {
      const HeadStatistics s = statistics(all.select(0, layer).select(0, head));
      std::printf("%5d %4d %9.3f %8.3f %9.3f %9.3f %6.3f %6.3f\n", static_cast<int>(layer + 1),
                  static_cast<int>(head + 1), s.diagonal_mass, s.entropy, s.mean_distance, s.previous_mass, s.next_mass,
                  s.first_mass);
    }
}

// Ids of the text, which must not be empty.
std::vector<int32_t> encode(const AttendArguments& a, const Vocabulary& vocabulary) {
  int64_t replaced = 0;
  std::vector<int32_t> ids = vocabulary.encode(sanitize_utf8(a.text, &replaced));
  if (replaced > 0) warn("attend", "replaced malformed UTF-8 by U+FFFD in " + std::to_string(replaced) + " places");
  if (ids.empty()) throw ShapeError("the text is empty; give a sentence in quotes");
  return ids;
}

Looked look_at_translator(const AttendArguments& a, const std::string& directory) {
  const Translator translator(directory, a.trust);
  const Transformer& model = translator.model();
  const Vocabulary& vocabulary = translator.vocabulary();
  std::vector<int32_t> source = encode(a, vocabulary);
  std::vector<int32_t> target = vocabulary.encode(sanitize_utf8(a.target));
  if (a.target.empty()) target = model.translate({source}, {.beam = a.beam}).at(0).at(0).ids;
  source.push_back(vocabulary.eos_id());
  std::vector<int32_t> input{vocabulary.bos_id()};
  input.insert(input.end(), target.begin(), target.end());
  AttentionRecord record;
  record.want_vectors = !a.html.empty();
  const TokenBatch batch = TokenBatch::pad({source}, vocabulary.pad_id());
  const Variable memory = model.encode(batch, &record);
  const Variable hidden = model.decode(TokenBatch::pad({input}, vocabulary.pad_id()), memory, batch.lengths, &record);

  Looked looked{.text = vocabulary.decode(target)};
  looked.layers = a.encoder ? record.encoder : a.decoder ? record.decoder : record.cross;
  looked.kind = a.encoder ? "encoder self-attention" : a.decoder ? "decoder self-attention" : "cross-attention";
  std::vector<int32_t> produced = target;
  produced.push_back(vocabulary.eos_id());
  looked.key_labels = pieces_of(vocabulary, a.decoder ? input : source);
  // A row of cross-attention is where the model looks while it produces the next token.
  looked.query_labels = a.encoder || a.decoder ? looked.key_labels : pieces_of(vocabulary, produced);
  if (!a.html.empty())
    looked.page = translation_page(
        {sanitize_utf8(a.text), looked.text, source, input, produced, record, hidden, chosen_layer(a, looked.layers)},
        model, vocabulary);
  return looked;
}

Looked look_at_language_model(const AttendArguments& a, const std::string& directory) {
  if (a.encoder || a.cross || !a.target.empty())
    throw ShapeError(directory + " holds a language model, which has self-attention alone; leave out --encoder, " +
                     "--cross and --target");
  const auto [model, vocabulary] = load_checkpoint<LanguageModel>(directory, a.trust);
  const std::vector<int32_t> ids = encode(a, vocabulary);
  AttentionRecord record;
  record.want_vectors = !a.html.empty();
  const Variable hidden = model->hidden(TokenBatch::pad({ids}, 0), &record);
  Looked looked{.text = vocabulary.decode(ids), .layers = record.decoder, .kind = "causal self-attention"};
  looked.query_labels = looked.key_labels = pieces_of(vocabulary, ids);
  if (!a.html.empty())
    looked.page =
        language_model_page({looked.text, ids, record, hidden, chosen_layer(a, looked.layers)}, *model, vocabulary);
  return looked;
}

void attend(const AttendArguments& a) {
  if (a.encoder + a.decoder + a.cross > 1) throw ShapeError("choose one of --encoder, --decoder and --cross");
  const NoGrad no_grad;
  const std::string directory = find_model(a.model);
  const bool translates = std::holds_alternative<TransformerConfig>(load_config(directory));
  const auto [text, layers, query_labels, key_labels, kind, page] =
      translates ? look_at_translator(a, directory) : look_at_language_model(a, directory);
  if (layers.empty()) throw ShapeError("the model has no layers of this kind");
  const Tensor all = stack(layers);
  check_number("head", a.head, all.size(1));
  const int64_t layer = chosen_layer(a, layers);

  AttentionMap map;
  map.query_labels = query_labels;
  map.key_labels = key_labels;
  const std::string of_layer = ", layer " + std::to_string(layer + 1) + " of " + std::to_string(all.size(0));
  if (a.all) {
    map.weights = all;
    map.title = std::string(kind) + ", every layer and head";
  } else if (a.head) {
    map.weights = all.select(0, layer).select(0, a.head - 1);
    map.title = kind + of_layer + ", head " + std::to_string(a.head);
  } else {
    map.weights = mean_of_heads(all.select(0, layer));
    map.title = kind + of_layer + ", mean of " + std::to_string(all.size(1)) + " heads";
  }

  const PictureOptions picture{.width = a.width};
  const auto write = [&](const std::string& path, std::string (*render)(const AttentionMap&, const PictureOptions&)) {
    if (path.empty()) return;
    write_file_atomically(path, render(map, picture));
    std::cerr << "wrote " << path << '\n';
  };
  write(a.png, render_png);
  write(a.svg, render_svg);
  write(a.pdf, render_pdf);
  if (!a.html.empty()) {
    write_file_atomically(a.html, render_html(page));
    std::cerr << "wrote " << a.html << '\n';
  }

  std::cout << text << "\n\n";
  if (a.statistics) {
    std::cout << std::flush;
    print_statistics(all);
  } else {
    std::cout << render_terminal(map, detect_terminal(STDOUT_FILENO));
  }
}

}  // namespace

void add_attend(CLI::App& program) {
  const auto a = std::make_shared<AttendArguments>();
  CLI::App* command =
      program.add_subcommand("attend", "Show what attends to what while a model translates or reads a text");
  command->description(
      "Translates the text and shows the attention of the model: a map in the terminal, and pictures where asked for.\n"
      "Rows are queries, columns are keys. By default: cross-attention of the last layer, mean of its heads. Of a\n"
      "language model: self-attention over the text, each token with those before it.");
  command->add_option("text", a->text, "The sentence")->required();
  command->add_option("--target", a->target, "Look at this translation instead of the model's own");
  command->add_option("--model", a->model, "Directory of the model (default: HEED_MODEL, else the bundled one)");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make");
  command->add_flag("--encoder", a->encoder, "Self-attention of the encoder");
  command->add_flag("--decoder", a->decoder, "Self-attention of the decoder, or of a language model");
  command->add_flag("--cross", a->cross, "Attention of the decoder over the encoder (default)");
  command->add_option("--layer", a->layer, "Layer, from 1 (default: the last)")->check(CLI::Range(1, 1000));
  command->add_option("--head", a->head, "Head, from 1 (default: the mean of all)")->check(CLI::Range(1, 4096));
  command->add_flag("--all", a->all, "Every layer and head, as small maps");
  command->add_flag("--statistics", a->statistics, "Numbers of each head instead of a map");
  command->add_option("--beam", a->beam, "Hypotheses kept while translating [5]")->check(CLI::Range(1, 1000));
  command->add_option("--png", a->png, "Write a picture");
  command->add_option("--svg", a->svg, "Write a picture");
  command->add_option("--pdf", a->pdf, "Write a picture");
  command->add_option("--html", a->html, "Write a page for a browser: every layer and head, to look into")
      ->type_name("FILE");
  command->add_option("--width", a->width, "Width of the pictures in pixels (default: as wide as they want to be)")
      ->check(CLI::Range(16.0, 100000.0));
  command->footer("Example:\n  heed attend \"El perro tiene el pelo suelto.\" --png attention.png");
  command->callback([a] { attend(*a); });
}

}  // namespace heed::cli
