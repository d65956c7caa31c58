#include "pretrained/names.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>

#include "heed/checked.h"
#include "heed/executor.h"

namespace heed::inline v0 {
namespace {

std::string of_layer(const std::string& name, int64_t layer) {
  const size_t at = name.find("{}");
  return at == std::string::npos ? name : name.substr(0, at) + std::to_string(layer) + name.substr(at + 2);
}

// The rules with the numbers of layers filled in.
std::vector<NameRule> rules_of(const Names& names) {
  std::vector<NameRule> all;
  for (const NameRule& rule : names.rules) {  // stacks may differ in length: a rule without a parameter does nothing
    const bool by_layer = rule.own.find("{}") != std::string::npos;
    for (int64_t layer = 0; layer < (by_layer ? names.layers : 1); ++layer) {
      NameRule one{of_layer(rule.own, layer), rule.theirs, rule.change, rule.alternating};
      for (std::string& name : one.theirs) name = of_layer(name, layer);
      all.push_back(std::move(one));
    }
  }
  return all;
}

bool matches(const std::string& name, const std::string& pattern) {
  if (pattern.starts_with('*')) return name.ends_with(std::string_view(pattern).substr(1));
  if (pattern.ends_with('*')) return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return name == pattern;
}

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return matches(name, pattern); });
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](const auto& b) { return name.starts_with(b); });
}

// Maps names as in the rules (no prefix, newer endings, one name per group of ties) to stored names.
class Stored {
 public:
  Stored(const Names& names, const std::vector<std::string>& stored) {
    std::string prefix;
    for (const std::string& candidate : names.prefixes)
      if (std::any_of(stored.begin(), stored.end(), [&](const auto& s) { return s.starts_with(candidate); })) {
        prefix = candidate;
        break;
      }
    for (const std::string& name : stored) {
      std::string plain = name;
      if (plain.starts_with(prefix) && !is_of_head(names, name)) plain = name.substr(prefix.size());
      for (const auto& [old, now] : names.old_endings)
        if (plain.ends_with(old)) plain = plain.substr(0, plain.size() - old.size()) + now;
      const auto [at, is_new] = by_plain_.emplace(plain, name);
      if (!is_new && !matches_any(plain, names.unused)) doubled_ = {at->second, name};
    }
    prefix_ = prefix;
    for (const auto& [target, source] : names.ties) {
      if (!by_plain_.contains(source) && by_plain_.contains(target)) one_name_.emplace(source, target);
      one_name_.emplace(target, source);
    }
  }
  /// The name, without prefix, of the tensor with the values of `plain`: itself, or one that it is tied to. It need not
  /// be stored.
  const std::string& one_name(const std::string& plain) const {
    const auto source = one_name_.find(plain);
    if (source == one_name_.end()) return plain;
    const auto other = one_name_.find(source->second);  // the target that replaces a missing source
    return other == one_name_.end() || by_plain_.contains(source->second) ? source->second : other->second;
  }
  /// The name in the file; null if it is missing.
  const std::string* find(const std::string& plain) const {
    const auto at = by_plain_.find(one_name(plain));
    return at == by_plain_.end() ? nullptr : &at->second;
  }
  const std::map<std::string, std::string>& all() const { return by_plain_; }
  const std::string& prefix() const { return prefix_; }
  /// Two tensors that are one parameter by their names, one with a prefix or an older ending; empty if there are none.
  const std::pair<std::string, std::string>& doubled() const { return doubled_; }

 private:
  std::map<std::string, std::string> by_plain_, one_name_;
  std::string prefix_;
  std::pair<std::string, std::string> doubled_;
};

template <class T>
void add(const Tensor& t, T number) {
  for (T& x : t.span<T>()) x += number;
}

// to (columns, rows) = from (rows, columns)^T, in blocks that fit the L1 cache: rows a power of two apart would evict
// each other.
template <class Bits>
void turn(const void* from_bits, int64_t rows, int64_t columns, void* to_bits) {
  constexpr int64_t kBlock = 64;
  const auto* const from = static_cast<const Bits*>(from_bits);
  auto* const to = static_cast<Bits*>(to_bits);
  std::array<Bits, kBlock * kBlock> near;
  for (int64_t column = 0; column < columns; column += kBlock)
    for (int64_t row = 0; row < rows; row += kBlock) {
      const int64_t height = std::min(kBlock, rows - row), width = std::min(kBlock, columns - column);
      for (int64_t r = 0; r < height; ++r)
        std::copy_n(from + (row + r) * columns + column, width, near.data() + r * kBlock);
      for (int64_t c = 0; c < width; ++c)
        for (int64_t r = 0; r < height; ++r)
          to[(column + c) * rows + row + r] = near[static_cast<size_t>(r * kBlock + c)];
    }
}

Tensor turned(const Tensor& tensor) {
  if (is_quantised(tensor.dtype())) return tensor.transpose(0, 1).contiguous();  // which throws
  const Tensor from = tensor.contiguous(), to = Tensor::empty({tensor.size(1), tensor.size(0)}, tensor.dtype());
  const auto turn_bits = size_of(tensor.dtype()) == 2   ? turn<uint16_t>
                         : size_of(tensor.dtype()) == 4 ? turn<uint32_t>
                                                        : turn<uint64_t>;
  turn_bits(from.raw(), from.size(0), from.size(1), to.raw());
  return to;
}

Tensor changed(const Tensor& tensor, Change change, const std::string& name, const std::string& where) {
  if (!is_floating(tensor.dtype()) && !is_quantised(tensor.dtype()))
    throw FormatError(where + ": tensor '" + name + "' is " + name_of(tensor.dtype()) + "; a parameter is floating");
  switch (change) {
    case Change::none:
    case Change::reshape:
      return tensor;
    case Change::transpose:
      if (tensor.rank() == 3 && tensor.size(0) == 1) return tensor.select(0, 0).transpose(0, 1).contiguous();
      if (tensor.rank() != 2)
        throw FormatError(where + ": tensor '" + name + "' has shape " + to_string(tensor.shape()) +
                          "; it must be a matrix");
      return turned(tensor);
    case Change::add_one: {
      const Tensor wide = tensor.to(DType::f32).clone();  // 1 + w needs more digits than half precision has
      add<float>(wide, 1);
      return wide;
    }
  }
  return tensor;
}

// Rows 0, 2, ..., then rows 1, 3, ...; `undone`: the inverse, which interleaves the two halves.
Tensor halves_apart(const Tensor& tensor, bool undone) {
  Dims pairs{undone ? 2 : tensor.size(0) / 2, undone ? tensor.size(0) / 2 : 2};
  for (int d = 1; d < tensor.rank(); ++d) pairs.push_back(tensor.size(d));
  return tensor.reshape(pairs).transpose(0, 1).contiguous().reshape(tensor.shape());
}

Tensor stacked(std::vector<Tensor> parts, const std::string& own, const std::string& where) {
  if (parts.size() == 1) return parts[0];
  // Quantised parts of different types are joined as float16.
  if (std::any_of(parts.begin(), parts.end(), [&](const Tensor& part) { return part.dtype() != parts[0].dtype(); }))
    for (Tensor& part : parts)
      if (is_quantised(part.dtype())) part = part.to(DType::f16);
  if (std::any_of(parts.begin(), parts.end(), [&](const Tensor& part) { return part.dtype() != parts[0].dtype(); }))
    for (Tensor& part : parts) part = part.to(DType::f32);
  std::vector<int64_t> dims(parts[0].shape().begin(), parts[0].shape().end());
  dims[0] = 0;
  for (const Tensor& part : parts) {
    const bool fits = part.rank() == parts[0].rank() &&
                      std::equal(part.shape().begin() + 1, part.shape().end(), parts[0].shape().begin() + 1);
    if (!fits)
      throw FormatError(where + ": the tensors of '" + own + "' have shapes " + to_string(parts[0].shape()) + " and " +
                        to_string(part.shape()) + "; they must fit together");
    dims[0] += part.size(0);
  }
  const Tensor all = Tensor::empty(Dims(dims), parts[0].dtype());
  int64_t row = 0;
  for (const Tensor& part : parts) {
    all.slice(0, row, row + part.size(0)).copy_from(part);
    row += part.size(0);
  }
  return all;
}

}  // namespace

bool same_values(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  if (a.dtype() != b.dtype()) return same_values(a.to(DType::f32), b.to(DType::f32));
  const Tensor x = a.contiguous(), y = b.contiguous();
  const auto bytes = static_cast<int64_t>(size_of(x.dtype())) * x.numel();
  constexpr int64_t kTogether = int64_t{1} << 20;
  std::atomic<bool> same = true;
  parallel_for(default_executor(), (bytes + kTogether - 1) / kTogether, [&](int64_t tile) {
    const int64_t begin = tile * kTogether;
    if (std::memcmp(static_cast<const char*>(x.raw()) + begin, static_cast<const char*>(y.raw()) + begin,
                    static_cast<size_t>(std::min(kTogether, bytes - begin))) != 0)
      same = false;
  });
  return same;
}

std::vector<std::string> copies_in(const Names& names, const std::vector<std::string>& stored) {
  const Stored there(names, stored);
  std::vector<std::string> copies;
  for (const auto& [plain, name] : there.all())
    if (there.one_name(plain) != plain) copies.push_back(name);
  return copies;
}

void settle_ties(Names& names, const std::vector<Tie>& ties, const TensorSource& stored) {
  names.ties = {};
  for (const Tie& tie : ties) {
    const Stored there(names, stored.names);
    const auto target = there.all().find(tie.target);
    const std::string* const source = there.find(tie.source);
    if (target == there.all().end() || !source || same_values(stored.read(target->second), stored.read(*source)))
      names.ties.push_back(tie);
  }
}

bool is_tied(const Names& names, const std::string& target) {
  return std::any_of(names.ties.begin(), names.ties.end(), [&](const Tie& tie) { return tie.target == target; });
}

bool shares_tensors(const Names& names, const Module& model, const std::vector<std::string>& stored) {
  const Stored there(names, stored);
  std::set<std::string> parameters, used;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.insert(name);
  for (const NameRule& rule : rules_of(names))
    for (const std::string& plain : rule.theirs)
      if (parameters.contains(rule.own) && !plain.empty() && !used.insert(there.one_name(plain)).second) return true;
  return false;
}

std::string in_this_version(const Names& names, const std::string& plain) {
  for (const auto& [theirs, here] : names.other_versions)
    for (int64_t layer = 0; layer < names.layers; ++layer)
      if (const std::string module = of_layer(theirs, layer); plain == module || plain.starts_with(module + "."))
        return of_layer(here, layer) + plain.substr(module.size());
  return plain;
}

const std::string* find_stored(const Names& names, const std::string& plain, const std::vector<std::string>& stored) {
  const Stored there(names, stored);
  const std::string* const name = there.find(plain);
  return name ? &*std::find(stored.begin(), stored.end(), *name) : nullptr;
}

std::optional<std::string> missing_of_head(const Names& names, const std::vector<NameRule>& rules,
                                           const TensorSource& stored) {
  if (stored.makes_head) return {};
  const Stored there(names, stored.names);
  for (const NameRule& rule : rules)
    for (const std::string& plain : rule.theirs)
      if (!plain.empty() && !there.find(plain)) return name_in_files(names, plain, stored.names);
  return {};
}

bool is_unused(const Names& names, const std::string& plain) { return matches_any(plain, names.unused); }

bool is_of_head(const Names& names, const std::string& name) { return begins_with_any(name, names.heads); }

std::string name_in_files(const Names& names, const std::string& plain, const std::vector<std::string>& stored) {
  const Stored there(names, stored);
  if (const auto own = there.all().find(plain); own != there.all().end()) return own->second;
  return (is_of_head(names, plain) ? "" : there.prefix()) + plain;
}

bool is_transposed(const Names& names, const std::string& plain) {
  for (const NameRule& rule : rules_of(names))
    if (std::find(rule.theirs.begin(), rule.theirs.end(), plain) != rule.theirs.end())
      return rule.change == Change::transpose;
  return false;
}

const std::string* find_named(const Names& names, const std::string& own, const std::vector<std::string>& stored) {
  for (const NameRule& rule : rules_of(names))
    if (rule.own == own && rule.theirs.size() == 1) return find_stored(names, rule.theirs[0], stored);
  return nullptr;
}

std::map<std::string, std::vector<int64_t>> rewritten_shapes(
    const Names& names, const Module& model, const std::vector<std::string>& stored,
    const std::function<std::vector<int64_t>(const std::string&)>& shape_of) {
  const Stored there(names, stored);
  std::map<std::string, Dims> shapes;
  for (const auto& [name, parameter] : model.named_parameters()) shapes.emplace(name, parameter.shape());
  std::map<std::string, std::vector<int64_t>> result;
  for (const NameRule& rule : rules_of(names)) {
    const auto own = shapes.find(rule.own);
    if (own == shapes.end()) continue;
    const std::vector<int64_t> shape(own->second.begin(), own->second.end());
    // A parameter equal to one tensor may not be stored yet, as a tied head.
    const bool is_theirs = rule.theirs.size() == 1 && rule.change == Change::none;
    for (const std::string& plain : rule.theirs) {
      if (plain.empty()) continue;
      const std::string* const stored_name = is_theirs ? nullptr : there.find(plain);
      result[(is_of_head(names, plain) ? "" : names.prefixes[0]) + plain] =
          stored_name ? shape_of(*stored_name) : shape;
    }
  }
  return result;
}

std::vector<StackedRows> stacked_rows(const Names& names, const Module& model, const std::vector<std::string>& stored,
                                      const std::function<std::vector<int64_t>(const std::string&)>& shape) {
  const Stored there(names, stored);
  std::set<std::string> matrices;
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter.shape().rank() == 2 && name.find("layers.") != std::string::npos) matrices.insert(name);
  std::vector<StackedRows> all;
  for (const NameRule& rule : rules_of(names)) {
    if (!matrices.contains(rule.own)) continue;
    int64_t row = 0;
    for (const std::string& plain : rule.theirs) {
      const std::vector<int64_t> dims = shape(*there.find(plain));
      const int64_t rows = dims.at(rule.change == Change::transpose ? 1 : 0);
      all.push_back({plain, rule.own, row, row + rows});
      row += rows;
    }
  }
  return all;
}

NamedTensors read_named(const Names& names, const Module& model, const std::vector<std::string>& stored,
                        const ReadTensor& read, const std::string& where) {
  const Stored there(names, stored);
  if (const auto& [one, other] = there.doubled(); !one.empty())
    throw FormatError(where + ": tensors '" + one + "' and '" + other +
                      "' are both names of one parameter; store it once");
  std::set<std::string> used;
  NamedTensors result;
  std::map<std::string, Dims> expected;
  for (const auto& [name, parameter] : model.named_parameters()) expected.emplace(name, parameter.shape());
  struct Wanted {
    NameRule rule;
    Dims shape;
    std::vector<std::string> stored{};
    Tensor value{};
    std::exception_ptr failure{};
  };
  std::vector<Wanted> all;
  for (NameRule& rule : rules_of(names)) {
    const auto own = expected.find(rule.own);
    if (own == expected.end()) continue;  // the model lacks it (a bias, say), so its tensors count as unknown
    Wanted& wanted = all.emplace_back(Wanted{std::move(rule), own->second});
    for (const std::string& plain : wanted.rule.theirs) {
      if (plain.empty()) {
        wanted.stored.emplace_back();
        continue;
      }
      const std::string* const name = there.find(plain);
      if (!name) throw FormatError(where + ": there is no tensor '" + there.prefix() + plain + "'");
      if (!used.insert(plain).second)
        throw Error("pretrained: the rules use '" + plain + "' twice");  // a mistake in the family's source
      wanted.stored.push_back(*name);
    }
  }
  const auto make = [&](Wanted& wanted) {
    std::vector<Tensor> parts;
    for (const std::string& name : wanted.stored) {
      if (name.empty()) {
        parts.push_back(Tensor::zeros(parts.back().shape(), parts.back().dtype()));
        continue;
      }
      parts.push_back(changed(read(name), wanted.rule.change, name, where));
      if (parts.back().rank() == 0)
        throw FormatError(where + ": tensor '" + name + "' is a single number; it must be a vector or a matrix");
    }
    wanted.value = stacked(std::move(parts), wanted.rule.own, where);
    if (wanted.rule.change == Change::reshape && wanted.value.numel() == numel(wanted.shape))
      wanted.value = wanted.value.contiguous().reshape(wanted.shape);
    if (!(wanted.value.shape() == wanted.shape))
      throw FormatError(where + ": '" + wanted.stored[0] + "' gives " + to_string(wanted.value.shape()) +
                        ", the configuration asks for " + to_string(wanted.shape));
    if (wanted.rule.alternating) wanted.value = halves_apart(wanted.value, false);
  };
  // Transposed and joined tensors are copied, which takes most of the time until the first token.
  parallel_for(default_executor(), std::ssize(all), [&](int64_t i) {
    Wanted& wanted = all[static_cast<size_t>(i)];
    try {
      make(wanted);
    } catch (...) {
      wanted.failure = std::current_exception();
    }
  });
  for (Wanted& wanted : all) {
    if (wanted.failure) std::rethrow_exception(wanted.failure);
    result.emplace_back(wanted.rule.own, std::move(wanted.value));
  }
  std::set<std::string> known;
  for (const std::string& plain : used) known.insert(there.one_name(plain));
  for (const auto& [plain, name] : there.all()) {
    if (known.contains(there.one_name(plain))) continue;
    if (!is_unused(names, plain) && !is_of_head(names, name))
      throw FormatError(where + ": tensor '" + name + "' has no place in this kind of model; its results would differ");
  }
  return result;
}

NamedTensors write_named(const Names& names, const NamedTensors& own, const std::vector<std::string>& stored,
                         const std::function<std::vector<int64_t>(const std::string&)>& shape, Of of) {
  const Stored there(names, stored);
  std::map<std::string, Tensor> values(own.begin(), own.end());
  NamedTensors result;
  for (const NameRule& rule : rules_of(names)) {
    const auto found = values.find(rule.own);
    if (found == values.end()) continue;
    int64_t row = 0, rows = 0;
    for (const std::string& plain : rule.theirs) {
      if (plain.empty()) {
        row += rows;
        continue;
      }
      const std::string* const name = there.find(plain);
      if (!name) throw FormatError("write_named: the file has no tensor '" + plain + "' to write to");
      const std::vector<int64_t> dims = shape(*name);
      rows = rule.change == Change::reshape     ? found->second.size(0)
             : rule.change == Change::transpose ? dims.back()
                                                : dims.at(0);
      Tensor part = found->second.slice(0, row, row + rows);
      row += rows;
      if (rule.alternating) part = halves_apart(part, true);
      if (rule.change == Change::transpose) part = part.transpose(0, 1);
      part = part.contiguous().reshape(Dims(dims));
      if (rule.change == Change::add_one && of == Of::values) {
        part = part.to(DType::f32).clone();
        add<float>(part, -1);
      }
      result.emplace_back(*name, part);
    }
  }
  return result;
}

}  // namespace heed::inline v0
