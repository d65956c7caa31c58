// heed attend: what attends to what while a model translates or reads a text, or reads a picture.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "cli/commands.h"
#include "cli/drawn_apart.h"
#include "cli/help.h"
#include "cli/importance.h"
#include "cli/load_options.h"
#include "cli/looking.h"
#include "cli/paths.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/models.h"
#include "heed/pages.h"
#include "heed/picture_reader.h"
#include "heed/text.h"
#include "heed/text_encoder.h"
#include "heed/text_generator.h"
#include "heed/view.h"
#include "heed/weights_file.h"

namespace heed::cli {
namespace {

// (H, Lq, Lk) -> (Lq, Lk)
Tensor mean_of_heads(const Tensor& weights) {
  const Tensor mean = Tensor::zeros({weights.size(1), weights.size(2)});
  for (int64_t h = 0; h < weights.size(0); ++h)
    for (int64_t i = 0; i < weights.size(1); ++i)
      for (int64_t j = 0; j < weights.size(2); ++j)
        mean.at<float>(i, j) += weights.at<float>(h, i, j) / static_cast<float>(weights.size(0));
  return mean;
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

// The width of a picture, in inches.
constexpr double kNarrowest = 0.5, kWidest = 200;

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
  const double inches = pixels ? value / picture->dpi : value * found->second / 25.4;
  if (inches < kNarrowest || inches > kWidest) {
    std::array<char, 160> size;
    std::snprintf(size.data(), size.size(), "%.3g inches%s; give %.3g to %.0f inches", inches,
                  pixels ? " (a number without mm, cm or in is in pixels)" : "", kNarrowest, kWidest);
    throw UsageError("--width " + text + " is out of range: " + size.data());
  }
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

// What was asked for of a page with every layer and head: it opens on that.
void open_page_on(const AttendArguments& a, Looked* looked) {
  Page& page = looked->page;
  if (a.title) page.title = *a.title;
  const bool of_heads = a.layer > 0 || a.head > 0 || !a.heads.empty() || !a.patch.empty();
  if (!of_heads && !a.encoder && !a.decoder && !a.cross && a.importance.empty() && a.measure.empty()) return;
  // Of a translation cross-attention is what is shown unless asked otherwise.
  const std::string name = a.encoder ? "Encoder" : a.decoder ? "Decoder" : "Cross";
  const std::string measure = a.measure.empty() ? "" : a.measures().front();
  const auto found = [&](bool of_name) {
    return std::find_if(page.groups.begin(), page.groups.end(), [&](const PageGroup& group) {
      return group.measure == measure && (!of_name || group.name == name);
    });
  };
  auto shown = found(!page.steps.empty());
  if (shown == page.groups.end()) shown = found(false);
  page.opening.group = shown - page.groups.begin();
  if (!of_heads || a.all) return;
  const int64_t heads = looked->map.weights.size(1), layer = chosen_layer(a, looked->map.weights.size(0));
  const std::vector<int64_t> numbers =
      a.head > 0 ? std::vector<int64_t>{a.head - 1} : numbers_of(a.heads.empty() ? "all" : a.heads, heads);
  for (const int64_t head : numbers) page.opening.heads.push_back(layer * heads + head);
  if (!a.patch.empty()) page.opening.query = looked->looks;
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
    if (odd_weights({.weights = map.weights, .shares = map.shares}).empty())
      for (const std::string& note : odd_weights({.weights = all.select(0, layer), .shares = map.shares}))
        warn("attend", "heads: " + note);
    map.title = of_layer + ", mean of " + std::to_string(heads) + " heads";
  }
  if (a.title) map.title = *a.title;
  return map;
}

// What is drawn: a map of tokens, or of a picture the weights over it.
struct Chosen {
  AttentionMap map;
  std::optional<PatchMap> over{};
};

Chosen chosen_of(const AttendArguments& a, const Looked& looked) {
  Chosen chosen{chosen_map(a, looked)};
  if (looked.patches.rows == 0 || a.encoder || a.top > 0) return chosen;
  AttentionMap& map = chosen.map;
  if (!a.title) map.title += a.patch.empty() ? ", from the class token" : ", from patch " + a.patch;
  chosen.over = over_picture(map, looked.patches, looked.looks);
  return chosen;
}

void check_choice(const AttendArguments& a) {
  const bool from_file = !a.file.weights.empty();
  if (a.text.empty() && !from_file && !a.examples)
    throw UsageError(
        "give a sentence in quotes, the file of a picture, or weights of another program with --from FILE");
  const char* const without = from_file ? "--from" : a.examples ? "--examples" : nullptr;
  if (without && (!a.text.empty() || !a.target.empty() || !a.model.empty() || !a.compare_model.empty() || a.encoder ||
                  (a.examples && !a.compare.empty()) || a.decoder || a.cross || a.generate > 0 || a.load.dtype ||
                  !a.measure.empty() || a.lens || !a.patch.empty() || a.changes_heads()))
    throw UsageError(std::string(without) + " needs no model: leave out the text, --target, --model, " +
                     (a.examples ? "--compare, " : "") + "--compare-model, --without, --change, --generate, --dtype, " +
                     "--measure, --lens, --patch, --encoder, --decoder and --cross");
  if (a.changes_heads() && a.compares())
    throw UsageError(
        "--without and --change are compared with the model as it is; leave out --compare and --compare-model");
  if (!a.compare.empty() && !a.compare_model.empty()) throw UsageError("choose one of --compare and --compare-model");
  if (a.examples && from_file) throw UsageError("choose one of --examples and --from");
  if (!a.importance.empty() && (without || a.html.empty()))
    throw UsageError("--importance with a text is for the maps of the page: " +
                     (without ? "leave out " + std::string(without) : std::string("add --html FILE")));
  if (a.examples && !(a.png.empty() && a.svg.empty() && a.pdf.empty()))
    throw UsageError("--examples are three maps: leave out --png, --svg and --pdf, or look at them with --html FILE");
  if (!from_file &&
      !(a.file.labels.empty() && a.file.query_labels.empty() && a.file.key_labels.empty() && a.file.arrays.empty()))
    throw UsageError("--labels, --query-labels, --key-labels and --array belong to --from");
  if (a.compares() && a.html.empty()) throw UsageError("what is compared is a view of the page; add --html FILE");
  if (a.live && a.html.empty()) throw UsageError("--live is of the page; add --html FILE");
  if (a.live && (without || a.load.dtype || a.changes_heads() || a.compares() || a.lens || !a.measure.empty() ||
                 !a.importance.empty()))
    throw UsageError(
        "--live puts the model into the page as it is; leave out --from, --examples, --dtype, --without, " +
        std::string("--change, --compare, --compare-model, --lens, --measure and --importance"));
  if (a.encoder + a.decoder + a.cross > 1) throw UsageError("choose one of --encoder, --decoder and --cross");
  if (a.all + (a.head > 0) + !a.heads.empty() > 1) throw UsageError("choose one of --head, --heads and --all");
  if (a.top > 0 && (a.all || !a.heads.empty()))
    throw UsageError("--top looks at one head or at the mean of all; leave out --heads and --all");
  if (!a.measures().empty() && (a.changes_heads() || a.compares() || a.load.dtype || a.statistics))
    throw UsageError("--measure is of the model as it is, in float32: leave out --without, --change, --compare, " +
                     std::string("--compare-model, --dtype and --statistics, which are of weights"));
  if ((a.top > 0) + a.statistics + a.lens > 1) throw UsageError("choose one of --top, --statistics and --lens");
}

// What is written must not take the place of what is read, or of what else is written.
void check_outputs(const AttendArguments& a) {
  std::vector<std::string> taken;
  if (!a.file.weights.empty()) taken.push_back(a.file.weights);
  if (!a.file.weights.empty() && !a.compare.empty()) taken.push_back(a.compare);
  if (a.file.weights.empty() && !a.examples) taken = model_paths(find_model(a.model), a.load.base);
  if (!a.compare_model.empty()) std::ranges::copy(model_paths(find_model(a.compare_model)), std::back_inserter(taken));
  if (!a.importance.empty()) taken.push_back(a.importance);
  for (const auto* labels : {&a.file.labels, &a.file.query_labels, &a.file.key_labels})
    for (const std::string& entry : *labels) {
      taken.push_back(entry);
      taken.push_back(entry.substr(entry.find('=') + 1));  // of NAME=FILE
    }
  expect_other_files({{"--png", a.png}, {"--svg", a.svg}, {"--pdf", a.pdf}, {"--html", a.html}}, taken);
}

// Paths and what is to be written there.
using Files = std::vector<std::pair<std::string, std::string>>;

void add_pictures(const AttendArguments& a, const Chosen& chosen, Files& files) {
  const auto add = [&](const std::string& path, const auto& of_map, const auto& over_picture) {
    if (path.empty()) return;
    files.emplace_back(path, drawn_apart([&] {
                         return chosen.over ? over_picture(*chosen.over, a.picture) : of_map(chosen.map, a.picture);
                       }));
  };
  add(a.png, render_png, render_overlay_png);
  add(a.svg, render_svg, render_overlay_svg);
  add(a.pdf, render_pdf, render_overlay_pdf);
}

std::string in_terminal(const AttendArguments& a, const Chosen& chosen) {
  TerminalOptions options = terminal(STDOUT_FILENO);
  options.maximum = a.picture.maximum;
  if (chosen.over) return render_overlay_terminal(*chosen.over, options);
  return a.top > 0 ? render_top(chosen.map, a.top, options) : render_terminal(chosen.map, options);
}

// What standard output gets: texts with their maps, or numbers.
std::string text_of(const AttendArguments& a, const std::vector<Looked>& looked, const Chosen& chosen) {
  std::string shown;
  for (const Looked& one : looked) {
    const bool first = &one == &looked.front();
    if (a.statistics && !first && !a.examples) break;
    if (!first) shown += "\n";
    if (!one.text.empty()) shown += one.text + "\n\n";
    if (a.statistics) {
      if (a.examples) shown += one.kind + "\n";
      shown += statistics_table(one.map.weights);
      for (const std::string& note : odd_weights({.weights = one.map.weights})) shown += "note: " + note + "\n";
    } else if (a.lens) {
      shown += one.lens;
    } else {
      shown += in_terminal(a, first ? chosen : chosen_of(a, one));
    }
  }
  return shown;
}

// Options of pictures where none is written, and others that change nothing.
void check_effects(const CLI::App& command, const AttendArguments& a) {
  const auto given = [&](const char* name) { return !command.get_option(name)->empty(); };
  const bool drawn = !(a.png.empty() && a.svg.empty() && a.pdf.empty());
  for (const char* const name : {"--width", "--dpi", "--font-size", "--font", "--columns"})
    if (given(name) && !drawn)
      throw UsageError(std::string(name) + " is of pictures; add --png, --svg or --pdf FILE, or leave it out");
  if (given("--columns") && a.heads.empty() && !a.all)
    throw UsageError("--columns is of a row of heads; add --heads LIST, or leave it out");
  if (given("--beam") && !a.target.empty())
    throw UsageError("--beam is of a search, and --target is a translation; leave one of them out");
  for (const auto& [option, output, ending] : {std::tuple("--png", &a.png, ".png"),
                                               {"--svg", &a.svg, ".svg"},
                                               {"--pdf", &a.pdf, ".pdf"},
                                               {"--html", &a.html, ".html"}})
    expect_ending(option, *output, ending);
}

void attend(const CLI::App& command, AttendArguments a) {
  if (!a.importance.empty() && a.text.empty()) {
    std::cout << importance_in_text(a);
    return;
  }
  check_choice(a);
  check_outputs(a);
  set_width(a.width, &a.picture);
  check_effects(command, a);
  std::vector<Looked> looked;
  if (a.examples)
    looked = look_at_examples();
  else if (a.file.weights.empty())
    looked = look_at_texts(a);
  else
    looked = look_at_files(a);
  Looked& first = looked.front();
  const Chosen chosen = chosen_of(a, first);
  Files files;  // all made before the first is written
  add_pictures(a, a.changes_heads() ? chosen_of(a, looked.back()) : chosen, files);
  if (!a.html.empty()) {
    if (looked.size() > 1 && !a.examples) compare_with(looked[1].page, &first.page);
    if (!a.importance.empty()) add_importance(importance_of(a), &first.page);
    open_page_on(a, &first);
    files.emplace_back(
        a.html, render_html(first.page, first.patches.rows > 0 ? options_of_picture(first.page) : PageOptions{}));
  }
  const std::string shown = files.empty() || a.terminal || a.top > 0 || a.statistics ? text_of(a, looked, chosen) : "";
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
  command.add_flag(
      "--live", a.live,
      "The model itself is in the page, which then reads what is typed into it: up to 50 million parameters");
  command.add_option("--compare", a.compare, "Another text, beside the first in the page; with --from another file")
      ->type_name("TEXT")
      ->check(not_empty());
  command
      .add_option(
          "--compare-model", a.compare_model,
          "Another model, beside the first in the page, or weights of the same one, as a training's checkpoints")
      ->type_name("DIR|FILE")
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
  command.add_option("--title", a.title, "Title of map, pictures and page; \"\" for none")->type_name("TEXT");
}

// Which heads, and what is shown of them.
void add_head_options(CLI::App& command, AttendArguments& a) {
  command.add_option("--layer", a.layer, "Layer, from 1 [the last]")->check(CLI::Range(1, 16384));
  command.add_option("--head", a.head, "Head, from 1 [the mean of all]")->check(CLI::Range(1, 16384));
  command.add_option("--heads", a.heads, "A row of heads of the layer: 1,3,5-8 or all")
      ->type_name("LIST")
      ->check(not_empty());
  command.add_flag("--all", a.all, "Every layer and head, as small maps");
  command.add_option("--without", a.without, "Heads switched off, layer.head, beside the model as it is: 2.1,3.4")
      ->type_name("LIST")
      ->check(not_empty());
  command.add_option("--change", a.change, "Heads scaled or replaced likewise: 2.1=0.5,3.4=uniform, or previous, own")
      ->type_name("LIST")
      ->check(not_empty());
  add_file(
      command, "--importance", a.importance,
      "How much the loss of these lines depends on each head (Michel et al. 2019): texts, or source TAB target for "
      "a translator; a table, or with a text bars in its page");
  command.add_option("--top", a.top, "Instead of a map: for each token the so many it attends to most")
      ->check(CLI::Range(1, 65536));
  command.add_flag("--statistics", a.statistics, "Numbers of each head instead of a map");
  command
      .add_option(
          "--measure", a.measure,
          "Instead of weights: norms of weight times transformed value (Kobayashi et al. 2020), rollout through "
          "the layers (Abnar and Zuidema 2020), gradient times weight (Chefer et al. 2021), or the gradient by each "
          "input "
          "token times it: input (Shrikumar et al. 2016); in the page all that are listed: norms,gradient")
      ->type_name("NAME")
      ->check(not_empty());
  command.add_flag(
      "--lens", a.lens,
      "Instead of a map: what each layer would have written (the logit lens, nostalgebraist 2020); also in "
      "the page, under Steps");
}

}  // namespace

void add_attend(CLI::App& program) {
  const auto a = std::make_shared<AttendArguments>();
  CLI::App* command = program.add_subcommand(
      "attend", "Show what attends to what while a model translates or reads a text or a picture");
  command->description(
      "Show what attends to what while a model translates or reads a text or a picture\n\n"
      "Translates the text and shows the attention of the model: a map in the terminal, or in the files asked for.\n"
      "Rows are queries, columns are keys. By default: cross-attention of the last layer, mean of its heads. Of a\n"
      "language model: self-attention over the text, each token with those before it; of an encoder such as BERT: "
      "each\n"
      "with all. Of a model of pictures such as ViT: over the picture, a PNG or npy file as heed classify reads, what\n"
      "the class token attends to, or with --patch a patch; with --encoder the map of all tokens. With --from: what\n"
      "another program saved, (Lq, Lk), (H, Lq, Lk) or (N, H, Lq, Lk).");
  command->add_option("text", a->text, "The sentence, or the file of a picture");
  command->add_option("--target", a->target, "Look at this translation instead of the model's own")->check(not_empty());
  command->add_option("-m,--model", a->model, "Directory of the model [HEED_MODEL, else the bundled one]")
      ->type_name("DIR");
  add_load_options(*command, a->load);
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
  command->add_option("--patch", a->patch, "Of a picture: who looks, row and column from 1: 3,4 [the class token]")
      ->type_name("PLACE")
      ->check(not_empty());
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
  command->add_flag("--examples", a->examples,
                    "Three textbook examples instead of a text, small enough to follow each number");
  add_head_options(*command, *a);
  command->add_flag("--terminal", a->terminal, "The map in the terminal also where files are written");
  add_picture_options(*command, *a);
  set_usage(*command, {"TEXT [OPTIONS]", "--from FILE [OPTIONS]", "--examples [OPTIONS]"});
  command->footer(
      "Examples:\n"
      "  heed attend \"El perro tiene el pelo suelto.\" --png attention.png\n"
      "  heed attend \"El perro tiene el pelo suelto.\" --heads all --pdf heads.pdf --width 80mm\n"
      "  heed attend \"El perro tiene el pelo suelto.\" --html page.html --live\n"
      "  heed attend --model vit cat.png --heads all --png heads.png\n"
      "  heed attend --from weights.npz --labels tokens.txt --html page.html\n"
      "  heed attend --examples --html examples.html");
  command->callback([command, a] { attend(*command, *a); });
}

}  // namespace heed::cli
