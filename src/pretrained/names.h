// Maps tensors of third-party files to heed's parameters and back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/io.h"
#include "heed/nn.h"

namespace heed::inline v0 {

/// A change made to a tensor when it is read, and undone when it is written.
enum class Change : uint8_t {
  none,
  transpose,  // the file has the matrix as (in, out) or (1, in, out)
  add_one,    // the file's norm multiplies by 1 + weight
  reshape,    // the file has the numbers in another shape; for a parameter of one tensor
};

/// One parameter `own` and the file's tensors `theirs` whose rows it joins in this order. "" stands for zeros, with as
/// many rows as the tensor before it. "{}" in names stands for the number of a layer.
struct NameRule {
  std::string own;
  std::vector<std::string> theirs;
  Change change = Change::none;
  bool alternating = false;  // in the file, rows of the two halves alternate
};

/// Two names of one tensor; a file may have either or both. As in transformers, a target stored with other values is a
/// separate tensor.
struct Tie {
  std::string target, source;
};

/// How a family names its tensors.
struct Names {
  std::vector<NameRule> rules;
  int64_t layers = 0;
  std::vector<std::string> prefixes{""};  // of all names; the first one that any stored tensor begins with applies
  /// Beginnings of the names of heads. They never have the prefix. Tensors of heads that the model lacks are ignored.
  std::vector<std::string> heads{};
  std::vector<std::pair<std::string, std::string>> old_endings{};  // with the endings of newer files
  std::vector<Tie> ties{};                                         // ties that hold
  // Names of modules in other versions of transformers, with their names in these files; {} stands for a layer.
  std::vector<std::pair<std::string, std::string>> other_versions{};
  /// Names, "*.ending" or "beginning.*" of tensors that may be present and are ignored.
  std::vector<std::string> unused{};
};

/// Those of `stored` that duplicate another tensor. They are not written, since training would make them differ.
std::vector<std::string> copies_in(const Names& names, const std::vector<std::string>& stored);

using ReadTensor = std::function<Tensor(const std::string& name)>;

/// Whether two tensors have one shape and equal values, whatever their types.
bool same_values(const Tensor& a, const Tensor& b);

/// The tensors of a file.
struct TensorSource {
  const std::vector<std::string>& names;
  ReadTensor read;
  bool makes_head = false;  // true: the caller makes a new head, so that its tensors need not be stored
};

/// Sets names.ties to those of `ties` that hold for the stored tensors. A tie is dropped if its target is stored with
/// other values than its source, or, if the source is not stored, than the first stored target of the same source.
void settle_ties(Names& names, const std::vector<Tie>& ties, const TensorSource& stored);
bool is_tied(const Names& names, const std::string& target);
/// Translates a name without prefix, of a module or a tensor, to the one in these files.
std::string in_this_version(const Names& names, const std::string& plain);
/// Whether several rules read the same stored tensor. Writing the model then needs a tensor for each.
bool shares_tensors(const Names& names, const Module& model, const std::vector<std::string>& stored);

/// The parameters of `model`, made from the tensors `stored`, which `read` loads. Throws FormatError for a tensor that
/// is missing, unknown or of another shape; `where` begins the message.
NamedTensors read_named(const Names& names, const Module& model, const std::vector<std::string>& stored,
                        const ReadTensor& read, const std::string& where);

/// The tensor of `stored` with this name without prefix, or one that it is tied to; null if there is none.
const std::string* find_stored(const Names& names, const std::string& plain, const std::vector<std::string>& stored);

/// The full name of the first tensor that the `rules` of a head need and the files lack; none if they have all, or if
/// the head is made.
std::optional<std::string> missing_of_head(const Names& names, const std::vector<NameRule>& rules,
                                           const TensorSource& stored);
/// Whether the stored tensor `name` belongs to a head.
bool is_of_head(const Names& names, const std::string& name);
/// Whether the model ignores a tensor with this name without prefix.
bool is_unused(const Names& names, const std::string& plain);

/// The full name in the files of the tensor with this name without prefix, whether or not `stored` has it.
std::string name_in_files(const Names& names, const std::string& plain, const std::vector<std::string>& stored);
/// Whether the files have the matrix with this name without prefix as (in, out).
bool is_transposed(const Names& names, const std::string& plain);

/// The tensor of `stored` that the parameter `own` is made of; null if there is none, or several.
const std::string* find_named(const Names& names, const std::string& own, const std::vector<std::string>& stored);

/// Names, with the first prefix, and shapes of the tensors of a new file for the parameters of `model`. For rules whose
/// parts have equal shapes and that change nothing but the shape, which is then that of the tensor in `stored`.
std::map<std::string, std::vector<int64_t>> rewritten_shapes(
    const Names& names, const Module& model, const std::vector<std::string>& stored,
    const std::function<std::vector<int64_t>(const std::string&)>& shape);

/// A matrix of a layer in the file, and the rows [begin, end) that it has in the parameter `own`.
struct StackedRows {
  std::string plain;  // its name without prefix
  std::string own;
  int64_t begin, end;
};
std::vector<StackedRows> stacked_rows(const Names& names, const Module& model, const std::vector<std::string>& stored,
                                      const std::function<std::vector<int64_t>(const std::string&)>& shape);

/// The kind of numbers in `own`. Change::add_one is undone for values only.
enum class Of : uint8_t { values, gradients };

/// The inverse of read_named: the tensors of a file with the names `stored` and shapes `shape(name)`, made from `own`
/// by heed's names. Tensors that no rule covers are left out.
NamedTensors write_named(const Names& names, const NamedTensors& own, const std::vector<std::string>& stored,
                         const std::function<std::vector<int64_t>(const std::string&)>& shape, Of of = Of::values);

}  // namespace heed::inline v0
