#include "pretrained/names.h"

#include <algorithm>
#include <array>
#include <cstdint>
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

// The rules with their layers' numbers.
std::vector<NameRule> rules_of(const Names& names) {
  std::vector<NameRule> all;
  for (const NameRule& rule : names.rules) {  // stacks may differ in length: a rule of no parameter does nothing
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

// Stored names by those that the rules have: without prefix, new endings.
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
      if (plain.starts_with(prefix) && !begins_with_any(name, names.without_prefix)) plain = name.substr(prefix.size());
      for (const auto& [old, now] : names.old_endings)
        if (plain.ends_with(old)) plain = plain.substr(0, plain.size() - old.size()) + now;
      by_plain_[plain] = name;
    }
    prefix_ = prefix;
  }
  /// As the file has it; null where it does not.
  const std::string* find(const std::string& plain) const {
    const auto at = by_plain_.find(plain);
    return at == by_plain_.end() ? nullptr : &at->second;
  }
  const std::map<std::string, std::string>& all() const { return by_plain_; }
  const std::string& prefix() const { return prefix_; }

 private:
  std::map<std::string, std::string> by_plain_;
  std::string prefix_;
};

template <class T>
void add(const Tensor& t, T number) {
  for (T& x : t.span<T>()) x += number;
}

// to (columns, rows) = from (rows, columns)^T, by way of blocks in the first cache: rows that are a power of two apart
// would push each other out.
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
  if (is_quantised(tensor.dtype())) return tensor.transpose(0, 1).contiguous();  // which says that it cannot be
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
      const Tensor wide = tensor.to(DType::f32).clone();  // 1 + w has more digits than a half has
      add<float>(wide, 1);
      return wide;
    }
  }
  return tensor;
}

// Rows 0, 2, ..., then the others; `undone`: the first of each half, the second ones, ...
Tensor halves_apart(const Tensor& tensor, bool undone) {
  Dims pairs{undone ? 2 : tensor.size(0) / 2, undone ? tensor.size(0) / 2 : 2};
  for (int d = 1; d < tensor.rank(); ++d) pairs.push_back(tensor.size(d));
  return tensor.reshape(pairs).transpose(0, 1).contiguous().reshape(tensor.shape());
}

Tensor stacked(std::vector<Tensor> parts, const std::string& own, const std::string& where) {
  if (parts.size() == 1) return parts[0];
  // Files of several types have blocks beside what becomes float16.
  if (std::any_of(parts.begin(), parts.end(), [&](const Tensor& part) { return part.dtype() != parts[0].dtype(); }))
    for (Tensor& part : parts)
      if (is_quantised(part.dtype())) part = part.to(DType::f16);
  std::vector<int64_t> dims(parts[0].shape().begin(), parts[0].shape().end());
  dims[0] = 0;
  for (const Tensor& part : parts) {
    const bool fits = part.rank() == parts[0].rank() && part.dtype() == parts[0].dtype() &&
                      std::equal(part.shape().begin() + 1, part.shape().end(), parts[0].shape().begin() + 1);
    if (!fits)
      throw FormatError(where + ": what makes up '" + own + "' has shapes " + to_string(parts[0].shape()) + " and " +
                        to_string(part.shape()) + ", or several dtypes; they must fit together");
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

std::vector<std::string> copies_in(const Names& names, const std::vector<std::string>& stored) {
  const Stored there(names, stored);
  std::vector<std::string> copies;
  for (const auto& [plain, name] : there.all())
    if (matches_any(plain, names.copies)) copies.push_back(name);
  return copies;
}

const std::string* find_named(const Names& names, const std::string& own, const std::vector<std::string>& stored) {
  const Stored there(names, stored);
  for (const NameRule& rule : rules_of(names)) {
    if (rule.own != own || rule.theirs.size() != 1) continue;
    const std::string* const name = there.find(rule.theirs[0]);
    if (!name) return nullptr;
    return &*std::find(stored.begin(), stored.end(), *name);
  }
  return nullptr;
}

std::map<std::string, std::vector<int64_t>> names_anew(
    const Names& names, const Module& model, const std::vector<std::string>& stored,
    const std::function<std::vector<int64_t>(const std::string&)>& shape_of) {
  const Stored there(names, stored);
  std::map<std::string, Dims> shapes;
  for (const auto& [name, parameter] : model.named_parameters()) shapes.emplace(name, parameter.shape());
  std::map<std::string, std::vector<int64_t>> result;
  for (const NameRule& rule : rules_of(names)) {
    const auto own = shapes.find(rule.own);
    if (own == shapes.end()) continue;
    std::vector<int64_t> shape(own->second.begin(), own->second.end());
    if (rule.change == Change::reshape)
      shape = shape_of(*there.find(rule.theirs[0]));
    else
      shape[0] /= std::ssize(rule.theirs);
    for (const std::string& plain : rule.theirs)
      result[(begins_with_any(plain, names.without_prefix) ? "" : names.prefixes[0]) + plain] = shape;
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
    if (own == expected.end()) continue;  // the model has it not: no bias, say. Its tensors are unknown then
    Wanted& wanted = all.emplace_back(Wanted{std::move(rule), own->second});
    for (const std::string& plain : wanted.rule.theirs) {
      if (plain.empty()) {
        wanted.stored.emplace_back();
        continue;
      }
      const std::string* const name = there.find(plain);
      if (!name) throw FormatError(where + ": there is no tensor '" + there.prefix() + plain + "'");
      if (!used.insert(plain).second)
        throw Error("pretrained: the rules use '" + plain + "' twice");  // a mistake of the family's page
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
  // What is turned or joined is copied, which takes most of the time until the first token.
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
  for (const auto& [plain, name] : there.all()) {
    if (used.contains(plain)) continue;
    if (!matches_any(plain, names.unused) && !matches_any(plain, names.copies))
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
