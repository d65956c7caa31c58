// From the tensors of other makers' files to heed's parameters, and back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/nn.h"

namespace heed::inline v0 {

/// What is done to a tensor on its way in, and undone on its way out.
enum class Change : uint8_t {
  none,
  transpose,  // a matrix is (in, out) there, or (1, in, out)
  add_one,    // a norm multiplies by 1 + weight there
  reshape,    // the same numbers in another shape there; for a parameter of one tensor
};

/// One parameter of heed's and the tensors that it is made of, rows of the first first; "" for zeros, as many rows as
/// the one before has. "{}" in names stands for the number of a layer.
struct NameRule {
  std::string own;
  std::vector<std::string> theirs;
  Change change = Change::none;
  bool alternating = false;  // rows of the two halves alternate there
};

/// Two names of one tensor, of which a file may have either, or both. transformers ties them so: a target that is
/// stored with other values is a tensor of its own.
struct Tie {
  std::string target, source;
};

/// How a family names its tensors.
struct Names {
  std::vector<NameRule> rules;
  int64_t layers = 0;
  std::vector<std::string> prefixes{""};      // of all of them; the first that any tensor begins with
  std::vector<std::string> without_prefix{};  // beginnings of names that never have it
  std::vector<std::pair<std::string, std::string>> old_endings{};  // and what newer files have for them
  std::vector<Tie> ties{};                                         // that hold
  // Names of modules that other versions of transformers have, and what these files have for them, with {} for a layer.
  std::vector<std::pair<std::string, std::string>> other_versions{};
  std::vector<std::string> unused{};  // names, also "*.ending" and "beginning.*", that may be there
};

/// Those of `stored` that repeat another one: they are not written, since they would soon differ.
std::vector<std::string> copies_in(const Names& names, const std::vector<std::string>& stored);

using ReadTensor = std::function<Tensor(const std::string& name)>;

/// The tensors of a file.
struct TensorSource {
  const std::vector<std::string>& names;
  ReadTensor read;
};

/// Which of `ties` hold for the tensors that are stored, in names.ties: all but those whose target is stored with other
/// values than its group's source, or where that is not there, than the group's first target that is.
void settle_ties(Names& names, const std::vector<Tie>& ties, const TensorSource& stored);
bool is_tied(const Names& names, const std::string& target);
/// A name without prefix, of a module or a tensor, as these files have it.
std::string in_this_version(const Names& names, const std::string& plain);
/// Whether one stored tensor is all that several rules have: an own tensor each would be written for them.
bool shares_tensors(const Names& names, const Module& model, const std::vector<std::string>& stored);

/// The parameters of `model`, of tensors `stored` that `read` gives. Throws FormatError where one is missing, of
/// another shape, or unknown: `where` begins the text.
NamedTensors read_named(const Names& names, const Module& model, const std::vector<std::string>& stored,
                        const ReadTensor& read, const std::string& where);

/// The tensor of `stored` by its plain name, or one that it is tied to; null where there is none.
const std::string* find_stored(const Names& names, const std::string& plain, const std::vector<std::string>& stored);

/// What the tensor of this plain name is called among those of `stored`, or would be beside them.
std::string name_in_files(const Names& names, const std::string& plain, const std::vector<std::string>& stored);
/// Whether a matrix of this plain name is (in, out) there.
bool is_transposed(const Names& names, const std::string& plain);

/// The tensor of `stored` that one parameter is made of; null where there is none.
const std::string* find_named(const Names& names, const std::string& own, const std::vector<std::string>& stored);

/// The tensors of a new file for the parameters of `model`, with their shapes: names with the first prefix. Of rules
/// whose parts are equal, and that change nothing or the shape alone, which is then that of the tensor in `stored`.
std::map<std::string, std::vector<int64_t>> rewritten_shapes(
    const Names& names, const Module& model, const std::vector<std::string>& stored,
    const std::function<std::vector<int64_t>(const std::string&)>& shape);

/// A matrix of a layer and the rows that it is among those of a parameter.
struct StackedRows {
  std::string plain;  // its name without a prefix
  std::string own;
  int64_t begin, end;
};
std::vector<StackedRows> stacked_rows(const Names& names, const Module& model, const std::vector<std::string>& stored,
                                      const std::function<std::vector<int64_t>(const std::string&)>& shape);

/// What `own` tensors are of: a change that adds is undone in values alone.
enum class Of : uint8_t { values, gradients };

/// The other way: the tensors of a file that has `stored`, of the shapes that `shape` gives, from those of `own` by
/// heed's names. What no rule makes is not among them.
NamedTensors write_named(const Names& names, const NamedTensors& own, const std::vector<std::string>& stored,
                         const std::function<std::vector<int64_t>(const std::string&)>& shape, Of of = Of::values);

}  // namespace heed::inline v0
