// heed attend: what attends to what while a model translates or reads a text.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "cli/attention_page.h"
#include "cli/commands.h"
#include "cli/drawn_apart.h"
#include "cli/paths.h"
#include "cli/weights_file.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/text_encoder.h"
#include "heed/text_generator.h"
#include "heed/view.h"

namespace heed::cli {
namespace {

struct AttendArguments {
  std::string text, target, compare, model;
  WeightsFile file;
  std::string png, svg, pdf, html;
  int64_t layer = 0, head = 0, top = 0, beam = 5, generate = 0;  // layer 0: the last; head 0: the mean of all
  std::string heads;                                             // a row of them: "1,3,5-8", "all"
  bool trust = false, all = false, statistics = false, encoder = false, decoder = false, cross = false;
  std::string width;
  std::optional<std::string> title;
  PictureOptions picture;
};

// What there is to look at.
struct Looked {
  std::string text{};  // printed above the map
  AttentionMap map{};  // weights (N, H, Lq, Lk) float32
  std::string kind{};
  Page page{};  // for --html
};

// Tokens as a reader wants them: a word's first plain, one that goes on with a word behind a dot. Where each is a
// character there are no dots.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Tokens tokens = tokens_of(tokenizer, ids);
  const auto one_character = [](const std::string& label) {
    return std::count_if(label.begin(), label.end(), [](char c) { return (c & 0xC0) != 0x80; }) == 1;
  };
  const bool characters = std::all_of(tokens.labels.begin(), tokens.labels.end(), one_character);
  for (size_t i = 1; i < tokens.labels.size() && !characters; ++i)
    if (tokens.words[i] == tokens.words[i - 1]) tokens.labels[i].insert(0, "\u00B7");
  return std::move(tokens.labels);
}

// layers x (1, H, Lq, Lk) -> (layers, H, Lq, Lk)
Tensor stack(const std::vector<Tensor>& layers) {
  if (layers.empty()) throw UsageError("the model has no layers of this kind");
  return stacked(layers);
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
    throw UsageError(std::string(what) + " " + std::to_string(number) + " is not in 1.." + std::to_string(count));
}

// From 0.
int64_t chosen_layer(const AttendArguments& a, int64_t layers) {
  check_number("layer", a.layer, layers);
  return a.layer ? a.layer - 1 : layers - 1;
}

// "1,3,5-8" or "all", from 0.
std::vector<int64_t> numbers_of(const std::string& list, int64_t count) {
  std::vector<int64_t> numbers;
  if (list == "all") {
    numbers.resize(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto fail = [&] { throw UsageError("--heads " + list + " is no list; write 1,3,5-8 or all"); };
  const auto number = [&] {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1) fail();
    check_number("head", value, count);
    at = rest;
    return value;
  };
  for (;;) {
    const int64_t first = number();
    int64_t last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first) fail();
    for (int64_t n = first; n <= last; ++n) numbers.push_back(n - 1);
    if (at == end) return numbers;
    if (*at++ != ',') fail();
  }
}

// "80mm", "8cm", "3in", "1200px", "1200" into the width of a picture.
void set_width(const std::string& text, PictureOptions* picture) {
  if (text.empty()) return;
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const std::map<std::string_view, double> millimetres = {{"mm", 1}, {"cm", 10}, {"in", 25.4}};
  const auto found = millimetres.find(unit);
  const bool pixels = unit.empty() || unit == "px";
  if (error != std::errc() || !(value > 0) || !std::isfinite(value) || (!pixels && found == millimetres.end()))
    throw UsageError("--width " + text + " is no width; write 80mm, 8cm, 3in or 1200px");
  picture->unit = pixels ? LengthUnit::pixels : LengthUnit::millimetres;
  picture->width = pixels ? value : value * found->second;
}

std::string statistics_table(const Tensor& all) {  // (N, H, Lq, Lk)
  std::string table;
  std::array<char, 128> line;
  const auto add = [&](auto... values) {
    std::snprintf(line.data(), line.size(), values...);
    table += line.data();
  };
  add("%5s %4s %9s %8s %9s %9s %6s %6s\n", "layer", "head", "diagonal", "entropy", "distance", "previous", "next",
      "first");
  for (int64_t layer = 0; layer < all.size(0); ++layer)
    for (int64_t head = 0; head < all.size(1); ++head) {
      const HeadStatistics s = statistics(all.select(0, layer).select(0, head));
      add("%5d %4d %9.3f %8.3f %9.3f %9.3f %6.3f %6.3f\n", static_cast<int>(layer + 1), static_cast<int>(head + 1),
          s.diagonal_mass, s.entropy, s.mean_distance, s.previous_mass, s.next_mass, s.first_mass);
    }
  return table;
}

void warn_of_replaced(const std::string& text) {
  int64_t replaced = 0;
  sanitize_utf8(text, &replaced);
  if (replaced > 0) warn("attend", "replaced malformed UTF-8 by U+FFFD in " + std::to_string(replaced) + " places");
}

Looked look_at_translation(const AttendArguments& a, const StoredModel& model, const std::string& text,
                           const std::string& wanted) {
  const Tokenizer &of_source = model.source_tokenizer(), &of_target = model.tokenizer();
  warn_of_replaced(text);
  const SeenTranslation seen = see_translation(model, text, wanted, a.beam, /*want_vectors=*/!a.html.empty());
  const AttentionRecord& record = seen.record;
  Looked looked{.text = seen.translation};
  looked.map.weights = stack(a.encoder ? record.encoder : a.decoder ? record.decoder : record.cross);
  looked.kind = a.encoder ? "encoder self-attention" : a.decoder ? "decoder self-attention" : "cross-attention";
  looked.map.key_labels = a.decoder ? pieces_of(of_target, seen.input) : pieces_of(of_source, seen.source);
  // A row of cross-attention is where the model looks while it produces the next token.
  looked.map.query_labels = a.encoder || a.decoder ? looked.map.key_labels : pieces_of(of_target, seen.output);
  if (!a.html.empty()) looked.page = translation_page(seen, chosen_layer(a, looked.map.weights.size(0)), model);
  return looked;
}

void check_longest(const AttendArguments& a, const StoredModel& model, const std::string& given) {
  const int64_t given_tokens = std::ssize(prompt_ids(model.tokenizer(), sanitize_utf8(given))),
                longest = model.as<LanguageModel>().config().max_positions;
  if (given_tokens > longest - a.generate)
    throw UsageError("--generate " + std::to_string(a.generate) + ": with the " + std::to_string(given_tokens) +
                     " tokens of the text that is more than the " + std::to_string(longest) +
                     " that the model takes; generate fewer, or shorten the text");
}

Looked look_at_text(const AttendArguments& a, const StoredModel& model, const std::string& given) {
  warn_of_replaced(given);
  if (a.generate > 0) check_longest(a, model, given);
  const SeenText seen = see_text(model, given, a.generate, /*want_vectors=*/!a.html.empty());
  const bool encoder = !seen.record.encoder.empty();
  Looked looked{.text = seen.text,
                .map = {.weights = stack(encoder ? seen.record.encoder : seen.record.decoder)},
                .kind = encoder ? "self-attention" : "causal self-attention"};
  looked.map.query_labels = looked.map.key_labels = pieces_of(model.tokenizer(), seen.ids);
  if (!a.html.empty()) looked.page = text_page(seen, chosen_layer(a, looked.map.weights.size(0)), model);
  return looked;
}

// The text, and the one to compare it with where there is one.
std::vector<Looked> look_at_texts(const AttendArguments& a) {
  const std::string directory = find_model(a.model);
  const StoredModel model = load(directory, a.trust);
  std::vector<Looked> looked;
  if (dynamic_cast<const Transformer*>(&model.module())) {
    if (a.generate > 0)
      throw UsageError(directory + " holds a translator, which ends its sentences itself; leave out --generate");
    looked.push_back(look_at_translation(a, model, a.text, a.target));
    if (!a.compare.empty()) looked.push_back(look_at_translation(a, model, a.compare, ""));
    return looked;
  }
  if (dynamic_cast<const TextEncoder*>(&model.module())) {
    if (a.decoder || a.cross || !a.target.empty() || a.generate > 0)
      throw UsageError(directory + " holds an encoder, which reads a text and writes none; leave out --decoder, " +
                       "--cross, --target and --generate");
  } else if (a.encoder || a.cross || !a.target.empty()) {
    throw UsageError(directory + " holds a language model, which has self-attention alone; leave out --encoder, " +
                     "--cross and --target");
  }
  looked.push_back(look_at_text(a, model, a.text));
  if (!a.compare.empty()) looked.push_back(look_at_text(a, model, a.compare));
  return looked;
}

Looked look_at_file(const AttendArguments& a) {
  std::vector<NamedMap> maps = read_weights(a.file);
  if (maps.size() > 1 && a.html.empty())
    warn("attend", "shows array " + array_in_quotes(maps[0].name) + ", the first of " + std::to_string(maps.size()) +
                       "; --array chooses another, --html shows all");
  Looked looked{.map = maps[0].map, .kind = maps[0].name};
  looked.page.title = std::filesystem::path(a.file.weights).filename().string();
  for (NamedMap& map : maps) {
    PageGroup group;
    group.name = map.name;
    group.map = std::move(map.map);
    looked.page.groups.push_back(std::move(group));
  }
  return looked;
}

// The part of looked.map that is to be seen in a terminal and in pictures.
AttentionMap chosen_map(const AttendArguments& a, const Looked& looked) {
  const Tensor& all = looked.map.weights;
  const int64_t layers = all.size(0), heads = all.size(1), layer = chosen_layer(a, layers);
  check_number("head", a.head, heads);
  AttentionMap map = looked.map;
  const std::string of_layer =
      looked.kind + (layers > 1 || heads > 1 ? ", layer " + std::to_string(layer + 1) + " of " + std::to_string(layers)
                                             : std::string());
  if (a.all) {
    map.title = looked.kind + ", every layer and head";
  } else if (!a.heads.empty()) {
    const std::vector<int64_t> numbers = numbers_of(a.heads, heads);
    map.weights = Tensor::empty({std::ssize(numbers), all.size(2), all.size(3)});
    for (size_t n = 0; n < numbers.size(); ++n) {
      map.weights.select(0, static_cast<int64_t>(n)).copy_from(all.select(0, layer).select(0, numbers[n]));
      map.head_labels.push_back("head " + std::to_string(numbers[n] + 1));
    }
    map.title = of_layer;
  } else if (a.head || heads == 1) {
    map.weights = all.select(0, layer).select(0, a.head ? a.head - 1 : 0);
    map.title = of_layer + (heads > 1 ? ", head " + std::to_string(a.head) : std::string());
  } else {
    map.weights = mean_of_heads(all.select(0, layer));
    // The mean may look right where single heads do not.
    if (odd_weights({.weights = map.weights}).empty())
      for (const std::string& note : odd_weights({.weights = all.select(0, layer)})) warn("attend", "heads: " + note);
    map.title = of_layer + ", mean of " + std::to_string(heads) + " heads";
  }
  if (a.title) map.title = *a.title;
  return map;
}

void check_choice(const AttendArguments& a) {
  const bool from_file = !a.file.weights.empty();
  if (a.text.empty() && !from_file)
    throw UsageError("give a sentence in quotes, or weights of another program with --from FILE");
  if (from_file && (!a.text.empty() || !a.target.empty() || !a.model.empty() || !a.compare.empty() || a.encoder ||
                    a.decoder || a.cross || a.generate > 0))
    throw UsageError("--from needs no model: leave out the text, --target, --model, --compare, --generate, " +
                     std::string("--encoder, --decoder and --cross"));
  if (!from_file &&
      !(a.file.labels.empty() && a.file.query_labels.empty() && a.file.key_labels.empty() && a.file.arrays.empty()))
    throw UsageError("--labels, --query-labels, --key-labels and --array belong to --from");
  if (!a.compare.empty() && a.html.empty()) throw UsageError("--compare is a view of the page; add --html FILE");
  if (a.encoder + a.decoder + a.cross > 1) throw UsageError("choose one of --encoder, --decoder and --cross");
  if (a.all + (a.head > 0) + !a.heads.empty() > 1) throw UsageError("choose one of --head, --heads and --all");
  if (a.top > 0 && (a.all || !a.heads.empty()))
    throw UsageError("--top looks at one head or at the mean of all; leave out --heads and --all");
  if (a.top > 0 && a.statistics) throw UsageError("choose one of --top and --statistics");
}

// What is written must not take the place of what is read, or of what else is written.
void check_outputs(const AttendArguments& a) {
  std::vector<std::string> taken;
  if (!a.file.weights.empty()) taken.push_back(a.file.weights);
  if (a.file.weights.empty()) taken = model_paths(find_model(a.model));
  for (const auto* labels : {&a.file.labels, &a.file.query_labels, &a.file.key_labels})
    for (const std::string& entry : *labels) {
      taken.push_back(entry);
      taken.push_back(entry.substr(entry.find('=') + 1));  // of NAME=FILE
    }
  for (const std::string& output : {a.png, a.svg, a.pdf, a.html}) {
    if (output.empty()) continue;
    for (const std::string& other : taken)
      if (same_file(output, other)) throw UsageError(output + " is named twice; give each file a name of its own");
    taken.push_back(output);
  }
}

void attend(AttendArguments a) {
  check_choice(a);
  check_outputs(a);
  set_width(a.width, &a.picture);
  const NoGrad no_grad;
  std::vector<Looked> looked;
  if (a.file.weights.empty())
    looked = look_at_texts(a);
  else
    looked.push_back(look_at_file(a));
  Looked& first = looked.front();
  const AttentionMap map = chosen_map(a, first);

  std::vector<std::pair<std::string, std::string>> files;  // all made before the first is written
  if (!a.png.empty()) files.emplace_back(a.png, drawn_apart([&] { return render_png(map, a.picture); }));
  if (!a.svg.empty()) files.emplace_back(a.svg, drawn_apart([&] { return render_svg(map, a.picture); }));
  if (!a.pdf.empty()) files.emplace_back(a.pdf, drawn_apart([&] { return render_pdf(map, a.picture); }));
  if (!a.html.empty()) {
    if (looked.size() > 1) compare_with(looked[1].page, &first.page);
    files.emplace_back(a.html, render_html(first.page));
  }
  std::string shown;
  if (a.statistics) {
    if (!first.text.empty()) shown = first.text + "\n\n";
    shown += statistics_table(first.map.weights);
    for (const std::string& note : odd_weights({.weights = first.map.weights})) shown += "note: " + note + "\n";
  } else {
    for (const Looked& one : looked) {
      if (&one != &first) shown += "\n";
      if (!one.text.empty()) shown += one.text + "\n\n";
      TerminalOptions shown_on = terminal(STDOUT_FILENO);
      shown_on.maximum = a.picture.maximum;
      const AttentionMap part = &one == &first ? map : chosen_map(a, one);
      shown += a.top > 0 ? render_top(part, a.top, shown_on) : render_terminal(part, shown_on);
    }
  }
  for (const auto& [path, content] : files) {
    write_file_atomically(path, content);
    note("wrote " + path);
  }
  std::cout << shown;
}

void add_file(CLI::App& command, const char* name, std::string& path, const char* text) {
  command.add_option(name, path, text)->type_name("FILE");
}

void add_picture_options(CLI::App& command, AttendArguments& a) {
  add_file(command, "--png", a.png, "Write a picture");
  add_file(command, "--svg", a.svg, "Write a picture");
  add_file(command, "--pdf", a.pdf, "Write a picture");
  add_file(command, "--html", a.html, "Write a page for a browser: every layer and head, to look into");
  command.add_option("--compare", a.compare, "Another text, beside the first in the page")
      ->type_name("TEXT")
      ->check(not_empty());
  command.add_option("--width", a.width, "Of the pictures: 80mm, 8cm, 3in or 1200px [as wide as they want]")
      ->type_name("LENGTH");
  command.add_option("--dpi", a.picture.dpi, "Pixels to the inch")
      ->check(finite_number())
      ->check(in_range(10, 2400))
      ->capture_default_str();
  command.add_option("--font-size", a.picture.font_size, "Of the pictures, in points")
      ->check(finite_number())
      ->check(in_range(1, 100))
      ->capture_default_str();
  command.add_option("--font", a.picture.font, "Of the pictures")->type_name("FAMILY")->capture_default_str();
  command.add_option("--columns", a.picture.columns, "Heads in a row of --heads [up to 4]")->check(CLI::Range(1, 1024));
  command.add_option("--maximum", a.picture.maximum, "Weight at the top of the scale [the largest]")
      ->check(finite_number())
      ->check(in_range(1e-30, 1e30));
  command.add_option("--title", a.title, "Title of map and pictures; \"\" for none")->type_name("TEXT");
}

}  // namespace

void add_attend(CLI::App& program) {
  const auto a = std::make_shared<AttendArguments>();
  CLI::App* command =
      program.add_subcommand("attend", "Show what attends to what while a model translates or reads a text");
  command->description(
      "Show what attends to what while a model translates or reads a text\n\n"
      "Translates the text and shows the attention of the model: a map in the terminal, and pictures where asked for.\n"
      "Rows are queries, columns are keys. By default: cross-attention of the last layer, mean of its heads. Of a\n"
      "language model: self-attention over the text, each token with those before it; of an encoder such as BERT: "
      "each\n"
      "with all. With --from: what another program saved, (Lq, Lk), (H, Lq, Lk) or (N, H, Lq, Lk).");
  command->add_option("text", a->text, "The sentence");
  command->add_option("--target", a->target, "Look at this translation instead of the model's own")->check(not_empty());
  command->add_option("-m,--model", a->model, "Directory of the model [HEED_MODEL, else the bundled one]")
      ->type_name("DIR");
  command->add_flag("--trust", a->trust, "Load a vocabulary that heed did not make");
  command->add_flag("--encoder", a->encoder, "Self-attention of the encoder");
  command->add_flag("--decoder", a->decoder, "Self-attention of the decoder, or of a language model");
  command->add_flag("--cross", a->cross,
                    "Attention of the decoder over the encoder; what is shown of a translator unless asked otherwise");
  command->add_option("-b,--beam", a->beam, "Hypotheses kept while translating")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--generate", a->generate, "Tokens that a language model writes behind the text, the likeliest each")
      ->check(CLI::Range(1, 1 << 24));
  add_file(*command, "--from", a->file.weights, "Weights of another program, npy or npz, instead of a text");
  command->add_option("--array", a->file.arrays, "Array of the npz; several times for several [all]")
      ->type_name("NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  const auto labels = [&](const char* name, std::vector<std::string>& files, const char* text) {
    command->add_option(name, files, text)
        ->type_name("[NAME=]FILE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  labels("--labels", a->file.labels, "Tokens of queries and keys, one a line; with NAME of one array, several times");
  labels("--query-labels", a->file.query_labels, "Tokens of the queries, where they differ");
  labels("--key-labels", a->file.key_labels, "Tokens of the keys, likewise");
  command->add_option("--layer", a->layer, "Layer, from 1 [the last]")->check(CLI::Range(1, 16384));
  command->add_option("--head", a->head, "Head, from 1 [the mean of all]")->check(CLI::Range(1, 16384));
  command->add_option("--heads", a->heads, "A row of heads of the layer: 1,3,5-8 or all")
      ->type_name("LIST")
      ->check(not_empty());
  command->add_flag("--all", a->all, "Every layer and head, as small maps");
  command->add_option("--top", a->top, "Instead of a map: for each token the so many it attends to most")
      ->check(CLI::Range(1, 65536));
  command->add_flag("--statistics", a->statistics, "Numbers of each head instead of a map");
  add_picture_options(*command, *a);
  command->footer(
      "Examples:\n"
      "  heed attend \"El perro tiene el pelo suelto.\" --png attention.png\n"
      "  heed attend \"El perro tiene el pelo suelto.\" --heads all --pdf heads.pdf --width 80mm\n"
      "  heed attend --from weights.npz --labels tokens.txt --html page.html");
  command->callback([a] { attend(*a); });
}

}  // namespace heed::cli
