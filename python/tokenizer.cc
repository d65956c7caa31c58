// Tokenizers for Python: heed/_tokenizer.py has the signatures and the documentation.
#include "heed/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "characters.h"
#include "define.h"
#include "options.h"
#include "values.h"

namespace heed::python {
namespace {

using H = nb::handle;
using List = nb::typed<nb::list, nb::any>;
using Tuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;

Tokenizer load_from(H place, H side) {
  constexpr std::array kSides{TokenizerSide::source, TokenizerSide::target};
  const std::string directory = path("load_tokenizer: path", place);
  const TokenizerSide of = kSides[choice("load_tokenizer: side", side, {"source", "target"})];
  const nb::gil_scoped_release others_may_run;
  return load_tokenizer(directory, of);
}

/// (ids, types, offsets in characters, added)
Tuple as_tuple(const Encoding& encoding, const std::vector<std::pair<uint32_t, uint32_t>>& offsets) {
  nb::list added;
  for (const uint8_t one : encoding.added) added.append(nb::bool_(one != 0));
  return nb::make_tuple(encoding.ids, encoding.type_ids, offsets, added);
}

List encode(const Tokenizer& tokenizer, H lines, H special_tokens) {
  const std::vector<std::string> all = texts("encode: texts", lines);
  const bool special = flag("encode: special_tokens", special_tokens);
  List encoded;
  for (const std::string& line : all) {
    Encoding encoding;
    std::vector<std::pair<uint32_t, uint32_t>> offsets;
    {
      const nb::gil_scoped_release others_may_run;
      encoding = tokenizer.encode(line, special);
      const Characters characters(line);
      for (const ByteRange bytes : encoding.offsets) offsets.push_back(characters(bytes));
    }
    encoded.append(as_tuple(encoding, offsets));
  }
  return encoded;
}

/// Tokens of the first text come before those of the second.
Tuple encode_pair(const Tokenizer& tokenizer, H first_text, H second_text, H special_tokens) {
  const std::string first = text("encode_pair: first", first_text), second = text("encode_pair: second", second_text);
  const bool special = flag("encode_pair: special_tokens", special_tokens);
  Encoding encoding;
  std::vector<std::pair<uint32_t, uint32_t>> offsets;
  {
    const nb::gil_scoped_release others_may_run;
    encoding = tokenizer.encode_pair(first, second, special);
    const auto of_first = std::ssize(tokenizer.encode(first, /*special_tokens=*/false).ids);
    const std::array<Characters, 2> characters{Characters(first), Characters(second)};
    int64_t tokens = 0;
    for (size_t i = 0; i < encoding.ids.size(); ++i)
      offsets.push_back(encoding.added[i] ? std::pair(0u, 0u) : characters[tokens++ >= of_first](encoding.offsets[i]));
  }
  return as_tuple(encoding, offsets);
}

std::string decode(const Tokenizer& tokenizer, H tokens, H skip_special) {
  const std::vector<int32_t> all = ids("decode: ids", tokens);
  const bool skip = flag("decode: skip_special", skip_special);
  const nb::gil_scoped_release others_may_run;
  return tokenizer.decode(all, skip);
}

int32_t id(const char* what, H value) { return ids(what, nb::make_tuple(value)).at(0); }

}  // namespace

void define_tokenizer(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<Tokenizer>(m, "Tokenizer", "Texts to ids and back.")
      .def("__len__", &Tokenizer::size)
      .def("encode", &encode, any("texts"), any("special_tokens"))
      .def("encode_pair", &encode_pair, any("first"), any("second"), any("special_tokens"))
      .def("decode", &decode, any("ids"), any("skip_special"))
      .def(
          "token", [](const Tokenizer& t, H value) { return t.token(id("token: id", value)); }, any("id"))
      .def(
          "written", [](const Tokenizer& t, H value) { return t.written(id("written: id", value)); }, any("id"))
      .def(
          "special", [](const Tokenizer& t, H value) { return t.special(id("special: id", value)); }, any("id"))
      .def(
          "id_of", [](const Tokenizer& t, H token) { return t.id_of(text("id_of: token", token)); }, any("token"))
      .def("unknown", &Tokenizer::unknown);
  m.def("load_tokenizer", &load_from, any("path"), any("side"));
}

}  // namespace heed::python
