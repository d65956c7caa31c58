#include "cli/looking.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string_view>
#include <typeinfo>

#include "cli/commands.h"
#include "cli/paths.h"
#include "cli/text_or_file.h"
#include "heed/models.h"
#include "heed/text.h"
#include "heed/text_encoder.h"
#include "heed/text_generator.h"
#include "heed/text_reader.h"

namespace heed::cli {

void check_number(const char* what, int64_t number, int64_t count) {
  if (number < 0 || number > count)
    throw UsageError(std::string(what) + " " + std::to_string(number) + " is not in 1.." + std::to_string(count));
}

int64_t chosen_layer(const AttendArguments& a, int64_t layers) {
  check_number("layer", a.layer, layers);
  return a.layer ? a.layer - 1 : layers - 1;
}

namespace {

constexpr std::array<std::pair<std::string_view, Measure>, 4> kMeasures{{{"norms", Measure::norms},
                                                                         {"rollout", Measure::rollout},
                                                                         {"gradient", Measure::gradient},
                                                                         {"input", Measure::input}}};

Measure measure_of(std::string_view name) {
  for (const auto& [known, measure] : kMeasures)
    if (name == known) return measure;
  throw UsageError("--measure: \"" + std::string(name) +
                   "\" is no measure; there are norms, rollout, gradient and input");
}

}  // namespace

std::vector<std::string> AttendArguments::measures() const {
  std::vector<std::string> names;
  for (size_t begin = 0; !measure.empty() && begin <= measure.size();) {
    const size_t end = std::min(measure.find(',', begin), measure.size());
    const std::string name = measure.substr(begin, end - begin);
    measure_of(name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    begin = end + 1;
  }
  return names;
}

namespace {

// The result of `read`; its UsageErrors begin with the option.
template <class Read>
auto for_option(const std::string& option, Read&& read) {
  try {
    return read();
  } catch (const UsageError& e) {
    throw UsageError(option + " " + e.what());
  }
}

std::vector<HeadChange> changes_asked(const AttendArguments& a) {
  std::vector<HeadChange> off, changes;
  if (!a.without.empty()) off = for_option("--without", [&] { return read_heads_off(a.without); });
  if (!a.change.empty()) changes = for_option("--change", [&] { return read_head_changes(a.change); });
  return combined(std::move(off), changes);
}

// layers x (1, H, Lq, Lk) -> (layers, H, Lq, Lk)
Tensor stack(const std::vector<Tensor>& layers) {
  if (layers.empty()) throw UsageError("the model has no layers of this kind");
  return stacked(layers);
}

void warn_of_replaced(const std::string& text) {
  int64_t replaced = 0;
  sanitize_utf8(text, &replaced);
  if (replaced > 0) warn("attend", replaced_in_words(replaced));
}

// What --measure asks for: all in the page, and the first in the place of `looked.map`, of the attention called `name`.
void show_measures(const AttendArguments& a, const auto& seen, const StoredModel& model, const std::string& name,
                   Looked* looked) {
  for (const std::string& measure : a.measures()) {
    std::vector<SeenAttention> all = measure_attention(seen, model, measure_of(measure));
    const bool first = measure == a.measures().front();
    const auto shown = std::find_if(all.begin(), all.end(), [&](const SeenAttention& one) { return one.name == name; });
    if (first && shown == all.end())
      throw UsageError("--measure " + measure +
                       (measure == "rollout" ? " is of self-attention; add --encoder or --decoder"
                                             : " is of what is written; leave out --encoder"));
    if (first) {
      looked->map.weights = shown->weights;
      looked->map.shares = false;
      looked->kind += ", " + measure;
    }
    if (!a.html.empty()) add_measured(std::move(all), measure, &looked->page);
  }
}

// `first`: the row of the first token that is told of.
void show_lens(const LogitLens& lens, const Tokenizer& tokenizer, int64_t first, Looked* looked) {
  const std::vector<std::string>& tokens = looked->predicted.tokens;
  looked->lens = lens_table(lens, tokenizer, {tokens.begin() + first, tokens.end()}, first);
  add_lens(lens, tokenizer, &looked->page);
}

Looked look_at_translation(const AttendArguments& a, const StoredModel& model, const std::string& text,
                           const std::string& wanted) {
  const Tokenizer &of_source = model.source_tokenizer(), &of_target = model.tokenizer();
  warn_of_replaced(text);
  const bool vectors = !a.html.empty() || !a.measure.empty();
  const SeenTranslation seen = see_translation(model, text, wanted, a.beam, vectors);
  const AttentionRecord& record = seen.record;
  Looked looked{.text = seen.translation};
  looked.map.weights = stack(a.encoder ? record.encoder : a.decoder ? record.decoder : record.cross);
  looked.kind = a.encoder ? "encoder self-attention" : a.decoder ? "decoder self-attention" : "cross-attention";
  looked.map.key_labels = a.decoder ? marked_labels(of_target, seen.input) : marked_labels(of_source, seen.source);
  // A row of cross-attention is where the model looks while it produces the next token.
  looked.map.query_labels = a.encoder || a.decoder ? looked.map.key_labels : marked_labels(of_target, seen.output);
  if (!a.html.empty()) looked.page = translation_page(seen, chosen_layer(a, looked.map.weights.size(0)), model);
  show_measures(a, seen, model, a.encoder ? "Encoder" : a.decoder ? "Decoder" : "Cross", &looked);
  looked.predicted = predicted_of(seen, model);
  if (a.lens) show_lens(logit_lens(seen, model), of_target, 0, &looked);
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
  const SeenText seen = see_text(model, given, a.generate, /*want_vectors=*/!a.html.empty() || !a.measure.empty());
  const bool encoder = !seen.record.encoder.empty();
  Looked looked{.text = seen.text,
                .map = {.weights = stack(encoder ? seen.record.encoder : seen.record.decoder)},
                .kind = encoder ? "self-attention" : "causal self-attention"};
  looked.map.query_labels = looked.map.key_labels = marked_labels(model.tokenizer(), seen.ids);
  if (!a.html.empty()) looked.page = text_page(seen, chosen_layer(a, looked.map.weights.size(0)), model);
  show_measures(a, seen, model, "Self-attention", &looked);
  if (encoder) return looked;
  looked.predicted = predicted_of(seen, model);
  if (a.lens) show_lens(logit_lens(seen, model), model.tokenizer(), std::max<int64_t>(seen.given - 1, 0), &looked);
  return looked;
}

void check_picture_options(const AttendArguments& a, const StoredModel& model, const std::string& directory) {
  const std::string holds = directory + " holds " + what_it_does(model);
  if (a.decoder || a.cross || !a.target.empty() || a.generate > 0 || !a.measure.empty() || a.lens || a.compares() ||
      a.changes_heads())
    throw UsageError(holds + "; leave out --decoder, --cross, --target, --generate, --measure, --lens, --compare, " +
                     "--compare-model, --without and --change");
  if (!a.patch.empty() && (a.encoder || a.top > 0 || a.statistics))
    throw UsageError("--patch is for weights over the picture; leave out --encoder, --top and --statistics");
}

Looked look_at_picture(const AttendArguments& a, const StoredModel& model, const std::string& directory) {
  check_picture_options(a, model, directory);
  const ImageEncoderConfig& config = model.as<ImageEncoder>().config();
  if (config.channels != 3)
    throw UsageError(directory + " takes pictures of " + std::to_string(config.channels) +
                     " channels; heed shows those of 3");
  for (const auto& [option, path] :
       {std::pair("--png", &a.png), {"--svg", &a.svg}, {"--pdf", &a.pdf}, {"--html", &a.html}})
    expect_other_file(option, *path, {a.text});
  const Tensor pixels = read_pixels(a.text, directory, config);
  const SeenPicture seen = see_picture(model, pixels, /*want_vectors=*/!a.html.empty());
  Looked looked{.text = likeliest(seen.classes),
                .map = {.weights = stack(seen.record.encoder)},
                .kind = "self-attention",
                .patches = patches_of(pixels, load_image_preparation(directory), config)};
  looked.map.query_labels = looked.map.key_labels = seen.tokens;
  looked.looks = for_option("--patch", [&] { return token_of_patch(a.patch, looked.patches); });
  if (!a.html.empty()) {
    looked.page = picture_page(seen, looked.patches, chosen_layer(a, looked.map.weights.size(0)), model);
    looked.page.title = std::filesystem::path(a.text).filename().string();
    looked.page.text = looked.text;
  }
  return looked;
}

// How probable each token of the first output is, `was` at first and now to `model`: below the second text, and in the
// page of the first. `how` says to whom.
void add_probabilities(const std::vector<double>& was, const StoredModel& model, const std::string& how, Looked* first,
                       Looked* second) {
  if (was.empty()) return;
  first->page.predictions = predictions_of(first->predicted.tokens, was, first->predicted.probabilities(model));
  if (first->page.predictions.empty()) return;
  second->text += "\n\nHow probable each token of the first is, " + how + ":";
  for (const PagePrediction& one : first->page.predictions) {
    std::array<char, 48> line;
    std::snprintf(line.data(), line.size(), "\n%8.4f %8.4f  ", one.first, one.second);
    second->text += line.data() + one.token;
  }
}

// The same with what --without and --change do to heads of the kind that is shown, beside `looked`, which was before.
Looked look_with_changes(const AttendArguments& a, const StoredModel& model, Looked* before,
                         const std::function<Looked()>& look) {
  const std::vector<HeadChange> changes = changes_asked(a);
  const AttentionLayers layers = attention_layers(model.module());
  const auto& own = a.encoder || layers.decoder.empty() ? layers.encoder
                    : a.decoder || layers.cross.empty() ? layers.decoder
                                                        : layers.cross;
  const std::vector<double> was =
      before->predicted.probabilities ? before->predicted.probabilities(model) : std::vector<double>();
  try {
    change_heads(changes, own);
  } catch (const UsageError& e) {
    const std::string option = a.without.empty()  ? "--change " + a.change
                               : a.change.empty() ? "--without " + a.without
                                                  : "--without and --change";
    throw UsageError(option + ": " + e.what());
  }
  Looked changed = look();
  changed.text = description_of(changes) + ": " + changed.text;
  before->text = "as learned: " + before->text;
  changed.page.title = description_of(changes);
  add_probabilities(was, model, "as learned and " + description_of(changes), before, &changed);
  return changed;
}

// Heads are compared one by one.
void check_comparable(const Page& first, const Page& second, const std::string& name) {
  const auto shape = [](const Page& page, size_t i) {
    const Tensor& w = page.groups[i].map.weights;
    return std::to_string(w.size(0)) + " x " + std::to_string(w.size(1));
  };
  if (first.groups.size() != second.groups.size())
    throw UsageError(name + " has " + std::to_string(second.groups.size()) + " kinds of attention, the first has " +
                     std::to_string(first.groups.size()) + "; compare what has the same");
  for (size_t i = 0; i < first.groups.size(); ++i)
    if (shape(first, i) != shape(second, i))
      throw UsageError(name + " has " + shape(second, i) + " layers and heads, the first has " + shape(first, i) +
                       "; heads are compared one by one");
}

std::string last_part(const std::string& path) {
  return std::filesystem::path(path + "/").parent_path().filename().string();
}

bool is_weight_file(const std::string& path) {
  std::error_code error;
  return path.ends_with(".safetensors") && !std::filesystem::is_directory(path, error);
}

// The same text in another model of the same kind, or with other weights of this one.
Looked look_in_other(const AttendArguments& a, const StoredModel& model, Looked* first) {
  const std::string directory = find_model(a.compare_model);
  const StoredModel other = is_weight_file(directory) ? with_weights(model, directory) : load(directory, a.load);
  const Module &one = model.module(), &two = other.module();
  if (typeid(one) != typeid(two))
    throw UsageError("--compare-model: " + directory + " holds " + what_it_does(other) + ", and the other holds " +
                     what_it_does(model) + "; compare models of one kind");
  Looked looked =
      other.get_if<Transformer>() ? look_at_translation(a, other, a.text, a.target) : look_at_text(a, other, a.text);
  check_comparable(first->page, looked.page, directory);
  const std::string names[] = {last_part(find_model(a.model)), last_part(directory)};
  looked.page.title = names[1];
  add_probabilities(first->predicted.probabilities ? first->predicted.probabilities(model) : std::vector<double>(),
                    other, "in " + names[0] + " and in " + names[1], first, &looked);
  return looked;
}

}  // namespace

std::vector<Looked> look_at_texts(const AttendArguments& a) {
  const std::string directory = find_model(a.model);
  LoadOptions options = a.load;
  if (!a.measure.empty()) options.dtype = DType::f32;  // which gradients are of
  const StoredModel model = load(directory, options);
  std::vector<Looked> looked;
  std::optional<LiveModel> live;
  if (a.live) {
    try {
      live = live_model(model, directory, a.beam, a.generate);
    } catch (const UsageError& e) {
      throw UsageError(std::string("--live: ") + e.what() + "; leave out --live");
    }
    live->text = sanitize_utf8(a.text);
  }
  if (model.get_if<ImageEncoder>()) {
    looked.push_back(look_at_picture(a, model, directory));
    return looked;
  }
  for (const std::string* const text : {&a.text, &a.target, &a.compare})
    warn_of_file_name("attend", *text, content_as_argument(*text));
  if (!a.patch.empty())
    throw UsageError("--patch is one of a picture, and " + directory + " holds " + what_it_does(model));
  if (model.get_if<Transformer>()) {
    if (a.generate > 0)
      throw UsageError(directory + " holds a translator, which ends its sentences itself; leave out --generate");
    const auto look = [&] { return look_at_translation(a, model, a.text, a.target); };
    looked.push_back(look());
    looked.front().page.live = std::move(live);
    if (!a.compare.empty()) looked.push_back(look_at_translation(a, model, a.compare, ""));
    if (!a.compare_model.empty()) looked.push_back(look_in_other(a, model, &looked.front()));
    if (a.changes_heads()) looked.push_back(look_with_changes(a, model, &looked.front(), look));
    return looked;
  }
  if (model.get_if<TextEncoder>()) {
    if (a.decoder || a.cross || !a.target.empty() || a.generate > 0 || a.lens)
      throw UsageError(directory + " holds an encoder, which reads a text and writes none; leave out --decoder, " +
                       "--cross, --target, --generate and --lens");
  } else if (!model.get_if<LanguageModel>()) {
    throw UsageError(directory + " holds " + what_it_does(model) +
                     "; heed attend shows those of texts and of pictures");
  } else if (a.encoder || a.cross || !a.target.empty()) {
    throw UsageError(directory + " holds a language model, which has self-attention alone; leave out --encoder, " +
                     "--cross and --target");
  }
  const auto look = [&] { return look_at_text(a, model, a.text); };
  looked.push_back(look());
  looked.front().page.live = std::move(live);
  if (!a.compare.empty()) looked.push_back(look_at_text(a, model, a.compare));
  if (!a.compare_model.empty()) looked.push_back(look_in_other(a, model, &looked.front()));
  if (a.changes_heads()) looked.push_back(look_with_changes(a, model, &looked.front(), look));
  return looked;
}

std::vector<Looked> look_at_files(const AttendArguments& a) {
  std::vector<Looked> looked;
  std::vector<std::string> names;
  const auto look = [&](const WeightsFile& file) {
    std::vector<NamedMap> maps = read_weights(file);
    if (maps.size() > 1 && a.html.empty())
      warn("attend", "shows array " + array_in_quotes(maps[0].name) + ", the first of " + std::to_string(maps.size()) +
                         "; --array chooses another, --html shows all");
    Looked one{.map = maps[0].map, .kind = maps[0].name};
    one.page.title = std::filesystem::path(file.weights).filename().string();
    for (NamedMap& map : maps) {
      PageGroup group;
      names.push_back(map.name);
      group.name = map.name;
      group.map = std::move(map.map);
      one.page.groups.push_back(std::move(group));
    }
    looked.push_back(std::move(one));
  };
  WeightsFile first = a.file;
  first.on_warning = [](const std::string& text) { warn("attend", text); };
  look(first);
  if (a.compare.empty()) return looked;
  WeightsFile other = first;
  other.weights = a.compare;
  other.arrays = other.weights.ends_with(".npz") && a.file.weights.ends_with(".npz") ? names : a.file.arrays;
  look(other);
  check_comparable(looked[0].page, looked[1].page, a.compare);
  return looked;
}

std::vector<Looked> look_at_examples() {
  std::vector<Looked> looked;
  Page page{.title = "Three textbook examples"};
  for (PageGroup& group : textbook_examples()) {
    looked.push_back({.map = group.map, .kind = group.name});
    page.groups.push_back(std::move(group));
  }
  looked.front().page = std::move(page);
  return looked;
}

}  // namespace heed::cli
