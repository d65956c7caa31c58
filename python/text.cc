// Vocabularies and metrics for Python: heed/_text.py has the signatures and the documentation.
#include "heed/text.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "define.h"
#include "heed/io.h"
#include "heed/load.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

using H = nb::handle;

// ---- Vocabularies

Vocabulary load_from(H file, H trust) {
  const std::string place = path("Vocabulary.load: path", file);
  const bool trusted = flag("Vocabulary.load: trust", trust);
  const nb::gil_scoped_release others_may_run;
  return load_vocabulary(place, trusted);
}

Vocabulary trained(H lines, H size, H fewer_will_do, H character_coverage, H spaces) {
  constexpr std::array kSpaces{Spaces::collapse, Spaces::keep, Spaces::verbatim};
  const std::vector<std::string> all = texts("Vocabulary.train: texts", lines);
  const VocabularyOptions options{
      .size = integer("Vocabulary.train: size", size, "a number of pieces"),
      .fewer_will_do = flag("Vocabulary.train: fewer_will_do", fewer_will_do),
      .character_coverage = number("Vocabulary.train: character_coverage", character_coverage),
      .spaces = kSpaces[choice("Vocabulary.train: spaces", spaces, {"collapse", "keep", "verbatim"})]};
  const nb::gil_scoped_release others_may_run;
  return Vocabulary::train(all, options);
}

Vocabulary of_characters(H all) {
  const std::string characters = text("Vocabulary.characters: text", all);
  const nb::gil_scoped_release others_may_run;
  return Vocabulary::characters(characters);
}

void save(const Vocabulary& vocabulary, H file) {
  const std::string place = path("Vocabulary.save: path", file);
  const nb::gil_scoped_release others_may_run;
  write_file_atomically(place, vocabulary.to_text());
}

std::vector<std::vector<int32_t>> encode(const Vocabulary& vocabulary, H lines) {
  const std::vector<std::string> all = texts("encode: texts", lines);
  std::vector<std::vector<int32_t>> encoded(all.size());
  const nb::gil_scoped_release others_may_run;
  std::transform(all.begin(), all.end(), encoded.begin(),
                 [&](const std::string& one) { return vocabulary.encode(one); });
  return encoded;
}

std::string decode(const Vocabulary& vocabulary, H tokens) { return vocabulary.decode(ids("decode: ids", tokens)); }

std::vector<std::string> tokenize(const Vocabulary& vocabulary, H line) {
  return vocabulary.encode_pieces(text("tokenize: text", line));
}

std::vector<std::string> pieces(const Vocabulary& vocabulary) {
  std::vector<std::string> all;
  for (int64_t id = 0; id < vocabulary.size(); ++id) all.push_back(vocabulary.piece(static_cast<int32_t>(id)));
  return all;
}

/// (pad, unk, bos, eos), -1 for what there is not.
std::array<int32_t, 4> special_ids(const Vocabulary& v) { return {v.pad_id(), v.unk_id(), v.bos_id(), v.eos_id()}; }

// ---- Metrics

/// What a metric compares: references[r][i] with hypotheses[i].
struct Corpus {
  Corpus(const std::string& metric, H hypothesis_list, H reference_lists)
      : hypotheses(texts((metric + ": hypotheses").c_str(), hypothesis_list)) {
    for (const nb::handle list : nb::cast<nb::list>(reference_lists))
      references.push_back(texts((metric + ": references").c_str(), list));
  }
  std::vector<std::string> hypotheses;
  std::vector<std::vector<std::string>> references;
};

MetricOptions options_of(const std::string& metric, H lowercase, H resamples, H seed_value) {
  const std::string what = metric + ": resamples";
  const int64_t count = integer(what.c_str(), resamples, "0 to 1000000");
  if (count < 0 || count > 1'000'000)
    throw ShapeError(what + " is " + std::to_string(count) + "; pass 0 to 1000000, 0 for no interval");
  return {.lowercase = flag((metric + ": lowercase").c_str(), lowercase),
          .resamples = count,
          .seed = seed((metric + ": seed").c_str(), seed_value)};
}

BleuScore bleu_of(H hypotheses, H references, H lowercase, H resamples, H seed_value) {
  const Corpus corpus("bleu", hypotheses, references);
  const MetricOptions options = options_of("bleu", lowercase, resamples, seed_value);
  const nb::gil_scoped_release others_may_run;
  return bleu(corpus.hypotheses, corpus.references, options);
}

ChrfScore chrf_of(H hypotheses, H references, H lowercase, H resamples, H seed_value) {
  const Corpus corpus("chrf", hypotheses, references);
  const MetricOptions options = options_of("chrf", lowercase, resamples, seed_value);
  const nb::gil_scoped_release others_may_run;
  return chrf(corpus.hypotheses, corpus.references, options);
}

/// The mean and the half width of the interval, or None.
nb::object confidence_of(const Confidence& c) {
  return c.resamples > 0 ? nb::object(nb::make_tuple(c.mean, c.half_width)) : nb::none();
}

}  // namespace

void define_text(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<Vocabulary>(m, "Vocabulary", "The pieces of texts.")
      .def("__len__", &Vocabulary::size)
      .def("save", &save, any("path"))
      .def("to_text", &Vocabulary::to_text)
      .def("encode", &encode, any("texts"))
      .def("decode", &decode, any("ids"))
      .def("tokenize", &tokenize, any("text"))
      .def("pieces", &pieces)
      .def("special_ids", &special_ids)
      .def("of_characters", &Vocabulary::of_characters);
  m.def("load_vocabulary", &load_from, any("path"), any("trust"));
  m.def("train_vocabulary", &trained, any("texts"), any("size"), any("fewer_will_do"), any("character_coverage"),
        any("spaces"));
  m.def("vocabulary_of_characters", &of_characters, any("text"));
  m.def(
      "vocabulary_from_text", [](const std::string& text) { return Vocabulary::from_text(text, /*trust=*/true); },
      nb::arg("text"));

  nb::class_<BleuScore>(m, "BleuScore")
      .def_ro("score", &BleuScore::score)
      .def_ro("precisions", &BleuScore::precisions)
      .def_ro("correct", &BleuScore::correct)
      .def_ro("total", &BleuScore::total)
      .def_ro("brevity_penalty", &BleuScore::brevity_penalty)
      .def_ro("hypothesis_length", &BleuScore::hypothesis_length)
      .def_ro("reference_length", &BleuScore::reference_length)
      .def("confidence", [](const BleuScore& s) { return confidence_of(s.confidence); })
      .def("format", &BleuScore::format)
      .def("signature", &BleuScore::signature);
  nb::class_<ChrfScore>(m, "ChrfScore")
      .def_ro("score", &ChrfScore::score)
      .def("confidence", [](const ChrfScore& s) { return confidence_of(s.confidence); })
      .def("format", &ChrfScore::format)
      .def("signature", &ChrfScore::signature);
  m.def("bleu", &bleu_of, any("hypotheses"), any("references"), any("lowercase"), any("resamples"), any("seed"));
  m.def("chrf", &chrf_of, any("hypotheses"), any("references"), any("lowercase"), any("resamples"), any("seed"));
}

}  // namespace heed::python
