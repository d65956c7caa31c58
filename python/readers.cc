// What models read in texts, for Python: heed/text_reader.h. heed/_models.py and heed/_encoders.py have the signatures
// and the documentation.
#include "heed/text_reader.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "characters.h"
#include "define.h"
#include "heed/adapters.h"
#include "heed/attended.h"
#include "heed/image_encoder.h"
#include "heed/model_files.h"
#include "heed/picture_reader.h"
#include "interrupt.h"
#include "nn.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

using H = nb::handle;
using List = nb::typed<nb::list, nb::any>;
using Tuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;
using Texts = std::vector<std::string>;
constexpr auto kCount = "a number of at most 63 bits";

/// Calls read(begin, end) for one part of `count` texts after the other, without the GIL, so that Ctrl-C ends it.
template <class Read>
void in_parts(size_t count, Read&& read) {
  constexpr size_t kTogether = 256;
  Interrupt interrupt;
  {
    const Computing running;
    for (size_t begin = 0; begin < count && !interrupt.pending(); begin += kTogether)
      read(begin, std::min(begin + kTogether, count));
  }
  interrupt.raise();
}

template <class Item>
std::vector<Item> part_of(const std::vector<Item>& all, size_t begin, size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// Appends what `read` gives for each part.
template <class Item, class Read>
std::vector<Item> all_of(size_t count, Read&& read) {
  std::vector<Item> all;
  in_parts(count, [&](size_t begin, size_t end) {
    for (Item& one : read(begin, end)) all.push_back(std::move(one));
  });
  return all;
}

void expect_as_many(const char* what, size_t texts, size_t others) {
  if (texts != others)
    throw ShapeError(std::string(what) + ": " + std::to_string(texts) + " texts and " + std::to_string(others) +
                     " others; pass as many");
}

// ---- Vectors

/// ((N, E), those that were cut)
Tuple embed(const StoredModel& model, H lines, const SentenceModules& modules) {
  check_eval("embed", model.module());
  const Texts all = texts("embed: texts", lines);
  std::vector<size_t> cut;
  std::vector<Tensor> parts;
  const auto read = [&](size_t begin, size_t end) {
    TextVectors found = embed_texts(model, part_of(all, begin, end), modules);
    for (const size_t place : found.cut) cut.push_back(begin + place);
    parts.push_back(std::move(found.vectors));
  };
  if (all.empty()) read(0, 0);
  in_parts(all.size(), read);
  const Tensor vectors = Tensor::empty({std::ssize(all), parts.front().size(1)});
  int64_t row = 0;
  for (const Tensor& part : parts) {
    vectors.slice(0, row, row + part.size(0)).copy_from(part);
    row += part.size(0);
  }
  return nb::make_tuple(give(vectors, nb::none()), cut);
}

// ---- Classes and answers

/// [([(label, score)], cut)]; `second` is None, or a text or None for each.
List classify(const StoredModel& model, H lines, H second) {
  check_eval("classify", model.module());
  const Texts all = texts("classify: texts", lines);
  std::vector<std::optional<std::string>> others;
  if (!second.is_none())
    for (nb::handle one : second)
      others.push_back(one.is_none() ? std::nullopt : std::optional(text("classify: second", one)));
  if (!second.is_none()) expect_as_many("classify", all.size(), others.size());
  const auto found = all_of<ClassifiedText>(all.size(), [&](size_t begin, size_t end) {
    return classify_texts(model, part_of(all, begin, end), others.empty() ? others : part_of(others, begin, end));
  });
  List result;
  for (const ClassifiedText& one : found) {
    nb::list labels;
    for (const ScoredLabel& l : one.labels) labels.append(nb::make_tuple(l.label, l.score));
    result.append(nb::make_tuple(labels, one.cut));
  }
  return result;
}

/// [([(token, label, score, (begin, end))], [(label, score, (begin, end))], cut)]
List label(const StoredModel& model, H lines) {
  check_eval("label_tokens", model.module());
  const Texts all = texts("label_tokens: texts", lines);
  const auto found = all_of<LabelledText>(
      all.size(), [&](size_t begin, size_t end) { return label_tokens(model, part_of(all, begin, end)); });
  List result;
  for (size_t i = 0; i < found.size(); ++i) {
    const Characters characters(all[i]);
    nb::list tokens, spans;
    for (const LabelledToken& t : found[i].tokens)
      tokens.append(nb::make_tuple(t.token, t.label, t.score, characters(t.bytes)));
    for (const LabelledSpan& s : found[i].spans) spans.append(nb::make_tuple(s.label, s.score, characters(s.bytes)));
    result.append(nb::make_tuple(tokens, spans, found[i].cut));
  }
  return result;
}

/// [[(text, score, (begin, end))]]
List answer(const StoredModel& model, H question_list, H context_list, H top, H longest, H window, H in_common) {
  check_eval("answer", model.module());
  const Texts questions = texts("answer: questions", question_list), contexts = texts("answer: contexts", context_list);
  expect_as_many("answer", questions.size(), contexts.size());
  AnswerOptions options{.top = integer("answer: top", top, kCount),
                        .longest = integer("answer: longest", longest, kCount),
                        .window = integer("answer: window", window, kCount),
                        .in_common = integer("answer: in_common", in_common, kCount)};
  const auto found = all_of<std::vector<Answer>>(questions.size(), [&](size_t begin, size_t end) {
    options.first_line = static_cast<int64_t>(begin);
    return find_answers(model, part_of(questions, begin, end), part_of(contexts, begin, end), options);
  });
  List result;
  for (size_t i = 0; i < found.size(); ++i) {
    const Characters characters(contexts[i]);
    nb::list answers;
    for (const Answer& a : found[i]) answers.append(nb::make_tuple(a.text, a.score, characters(a.bytes)));
    result.append(answers);
  }
  return result;
}

/// [[[(id, token, probability, text)]]]
List fill(const StoredModel& model, H lines, H top, H mask) {
  check_eval("fill", model.module());
  const Texts all = texts("fill: texts", lines);
  FillOptions options{.top = integer("fill: top", top, kCount)};
  if (!mask.is_none()) options.mask = text("fill: mask", mask);
  const auto found = all_of<std::vector<FilledMask>>(all.size(), [&](size_t begin, size_t end) {
    options.first_line = static_cast<int64_t>(begin);
    return fill_masks(model, part_of(all, begin, end), options);
  });
  List result;
  for (const std::vector<FilledMask>& of_text : found) {
    nb::list masks;
    for (const FilledMask& filled : of_text) {
      nb::list words;
      for (const MaskFilling& f : filled) words.append(nb::make_tuple(f.id, f.token, f.probability, f.text));
      masks.append(words);
    }
    result.append(masks);
  }
  return result;
}

// ---- All that is computed

/// (logits, encoder's states, decoder's states, [(name, weights)])
Tuple read(const StoredModel& model, H given, H target, H states, H weights) {
  check_eval("read", model.module());
  const std::vector<int32_t> of_text = ids("read: ids", given);
  const std::vector<int32_t> of_target = target.is_none() ? std::vector<int32_t>() : ids("read: target", target);
  const ReadOptions options{.want_states = flag("read: states", states),
                            .want_weights = flag("read: weights", weights)};
  Reading reading;
  {
    const Computing running;
    reading = read_ids(model, of_text, of_target, options);
  }
  const auto array = [](const Tensor& t) { return t.defined() ? nb::object(give(t, nb::none())) : nb::none(); };
  nb::list maps;
  for (const auto& [name, map] : reading.weights) maps.append(nb::make_tuple(name, array(map)));
  return nb::make_tuple(array(reading.logits), array(reading.encoder_states), array(reading.decoder_states), maps);
}

// ---- Heads, pictures, adapters

/// What the head of a text encoder is for; null without one, and of a model of pictures.
const char* task_of(const StoredModel& model) {
  switch (model.pretrained().head.task) {
    case HeadTask::masked_words:
      return "masked_words";
    case HeadTask::text_classes:
      return "text_classes";
    case HeadTask::token_classes:
      return "token_classes";
    case HeadTask::answers:
      return "answers";
    case HeadTask::picture_classes:
    case HeadTask::none:
      break;
  }
  return nullptr;
}

std::vector<std::string> labels(const StoredModel& model) {
  const PretrainedModel& pretrained = model.pretrained();
  return pretrained.head.labels.empty() && pretrained.layout ? labels_of(pretrained) : pretrained.head.labels;
}

nb::any prepare(H picture_, const ImagePreparation& how) {
  const Tensor picture = take("prepare: picture", picture_);
  Tensor pixels;
  {
    const nb::gil_scoped_release others_may_run;
    pixels = prepare_image(picture, how);
  }
  return nb::borrow<nb::any>(give(pixels, nb::none()));
}

/// [(label, score)] of pixels as prepare() gives them.
List classify_pixels(const StoredModel& model, H pixels_) {
  check_eval("classify", model.module());
  const Tensor pixels = take("classify: pixels", pixels_).contiguous();
  std::vector<ScoredLabel> found;
  {
    const Computing running;
    found = classify_picture(model, pixels);
  }
  List labels;
  for (const ScoredLabel& one : found) labels.append(nb::make_tuple(one.label, one.score));
  return labels;
}

/// (weights (N, H, L, L), names of the tokens, the picture as the model took it, rows and columns of patches)
Tuple attended_picture(const StoredModel& model, H picture_, const ImagePreparation& how) {
  check_eval("attend", model.module());
  const Tensor picture = take("attend: picture", picture_);
  SeenPicture seen;
  Tensor weights, shown;
  {
    const Computing running;
    const Tensor pixels = prepare_image(picture, how);
    seen = see_picture(model, pixels);
    weights = stacked(seen.record.encoder);
    const ImageSize patch = model.as<ImageEncoder>().config().patch;
    shown = restore_image(pixels, how).slice(0, 0, seen.rows * patch.height).slice(1, 0, seen.columns * patch.width);
  }
  return nb::make_tuple(give(weights, nb::none()), seen.tokens, give(shown, nb::none()),
                        nb::make_tuple(seen.rows, seen.columns));
}

std::unique_ptr<LowRankAdapters> adapters_of(const StoredModel& model, H layers, H rank, H alpha) {
  constexpr std::array kLayers{LowRankLayers::attention, LowRankLayers::all};
  const LowRankLayers which = kLayers[choice("make_adapters: layers", layers, {"attention", "all"})];
  const LowRankOptions options{.rank = integer("make_adapters: rank", rank, kCount),
                               .alpha = number("make_adapters: alpha", alpha)};
  if (model.is_own())
    throw UsageError("make_adapters: the model is heed's own; adapters are for those of other makers");
  for (const auto& [name, parameter] : model.module().named_parameters())
    if (parameter.dtype() == DType::f16 || parameter.dtype() == DType::bf16)
      throw UsageError("make_adapters: '" + name + "' is " + numpy_name(parameter.dtype()) +
                       "; call model.module.to(\"float32\") first");
  const Computing running;
  return make_adapters(model.pretrained(), which, options);
}

/// What PEFT has, and the texts beside the base: its tokenizer, and what config.json says.
void save_adapters(const StoredModel& model, const LowRankAdapters& adapters, H base_, H directory_) {
  const std::string base = path("save_adapters: base", base_), directory = path("save_adapters: directory", directory_);
  const Computing running;
  const PretrainedModel& pretrained = model.pretrained();
  const std::vector<AdaptedRows> known = linear_layers(pretrained, LowRankLayers::all);
  for (const AdaptedRows& rows : adapters.layers())
    if (std::none_of(known.begin(), known.end(), [&](const AdaptedRows& own) {
          return own.name == rows.name && own.begin == rows.begin && own.end == rows.end;
        }))
      throw UsageError("save_adapters: the model has no layer '" + rows.name +
                       "'; pass adapters that make_adapters() made of it");
  NamedTensors parameters;
  for (const auto& [name, parameter] : adapters.named_parameters()) parameters.emplace_back(name, parameter.value());
  DirectoryTransaction transaction(directory);
  if (!list_files(directory).empty())
    throw UsageError("save_adapters: " + directory + " has files; give a new or an empty directory");
  for (const auto& [name, text] : pretrained_texts(pretrained)) transaction.write(name, text);
  transaction.write(kAdapterConfigFile, adapter_config(pretrained, adapters, base));
  transaction.write(kAdapterFile, [&](FileWriter& file) { write_adapters(file, pretrained, parameters); });
  transaction.commit();
}

}  // namespace

void define_readers(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  const nb::arg model("model");
  nb::class_<SentenceModules>(m, "SentenceModules", "How a text's vector is made of the states of its tokens.")
      .def(nb::init<>());
  nb::class_<ImagePreparation>(m, "ImagePreparation", "What is done to a picture.");
  m.def(
      "load_sentence_modules", [](H place) { return load_sentence_modules(path("embed: path", place)); }, any("path"));
  m.def(
      "load_image_preparation", [](H place) { return load_image_preparation(path("prepare: path", place)); },
      any("path"));
  m.def("embed_texts", &embed, model, any("texts"), nb::arg("modules"));
  m.def("classify_texts", &classify, model, any("texts"), any("second"));
  m.def("label_tokens", &label, model, any("texts"));
  m.def("find_answers", &answer, model, any("questions"), any("contexts"), any("top"), any("longest"), any("window"),
        any("in_common"));
  m.def("fill_masks", &fill, model, any("texts"), any("top"), any("mask"));
  m.def("read_ids", &read, model, any("ids"), any("target"), any("states"), any("weights"));
  m.def(
      "reading_ids", [](const StoredModel& of, H line) { return reading_ids(of, text("ids: text", line)); }, model,
      any("text"));
  m.def(
      "head_task", [](const StoredModel& of) { return nb::borrow<nb::any>(nb::cast(task_of(of))); }, model);
  m.def("labels", &labels, model);
  m.def("what_it_does", &what_it_does, model);
  m.def("prepare_image", &prepare, any("picture"), nb::arg("how"));
  m.def("classify_picture", &classify_pixels, model, any("pixels"));
  m.def("attended_picture", &attended_picture, model, any("picture"), nb::arg("how"));
  m.def("make_adapters", &adapters_of, nb::keep_alive<0, 1>(), model, any("layers"), any("rank"), any("alpha"));
  m.def("save_adapters", &save_adapters, model, nb::arg("adapters"), any("base"), any("directory"));
}

}  // namespace heed::python
