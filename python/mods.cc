#include "mods.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include "arrays.h"
#include "define.h"
#include "options.h"

namespace heed::python {
namespace {

template <class... Text>
[[noreturn]] void refuse(const Text&... text) {
  std::ostringstream all;
  (all << ... << text);
  throw ShapeError(all.str());
}

// ---- Arguments

Tensor doubles(const char* what, nb::handle array) {
  const Tensor t = take(what, array);
  if (!is_floating(t.dtype())) refuse(what, " is ", name_of(t.dtype()), "; pass floating numbers");
  return t.to(DType::f64).contiguous();
}

std::shared_ptr<const std::vector<int32_t>> integers(const char* what, const Tensor& t) {
  if (t.dtype() != DType::i32 && t.dtype() != DType::i64)
    refuse(what, " is ", name_of(t.dtype()), "; pass int32 or int64");
  const Tensor wide = t.to(DType::i64).contiguous();
  auto values = std::make_shared<std::vector<int32_t>>(static_cast<size_t>(wide.numel()));
  for (size_t i = 0; i < values->size(); ++i) {
    const int64_t x = wide.data<int64_t>()[i];
    if (x != static_cast<int32_t>(x)) refuse(what, " holds ", x, "; pass numbers that fit in int32");
    (*values)[i] = static_cast<int32_t>(x);
  }
  return values;
}

int32_t small(const char* what, nb::handle value, int64_t least = -(int64_t{1} << 30)) {
  const int64_t x = integer(what, value, "a number of positions");
  if (x < least || x > int64_t{1} << 30) refuse(what, " is ", x, "; pass ", least, " to 2^30");
  return static_cast<int32_t>(x);
}

double finite(const char* what, nb::handle value) {
  const double x = number(what, value);
  if (!std::isfinite(x)) refuse(what, " is ", x, "; pass a finite number");
  return x;
}

std::shared_ptr<const Table> table_of(const char* what, const Tensor& t) {
  Table table;
  table.rows = t.rank() == 2 ? t.size(0) : 1, table.columns = t.size(-1);
  table.f64.assign(t.data<double>(), t.data<double>() + t.numel());
  table.f32.assign(table.f64.begin(), table.f64.end());
  if (table.f64.empty()) refuse(what, " is empty; pass one number at least");
  return std::make_shared<const Table>(std::move(table));
}

// ---- Named functions

using Made = std::shared_ptr<Mods>;

Made made(Mod mod) { return std::make_shared<Mods>(std::vector{std::make_shared<const Mod>(std::move(mod))}); }

/// A mask: what `visible` denies becomes -inf.
template <class Visible>
ScoreMod hiding(Visible visible) {
  return score_mod([visible = std::move(visible)]<class T>(Dual<T> score, ScoreAt at) {
    return where(visible(at), score, -std::numeric_limits<T>::infinity());
  });
}

std::string called(const char* name, std::initializer_list<std::pair<const char*, nb::handle>> arguments) {
  std::string text = std::string(name) + "(";
  for (const auto& [key, value] : arguments) {
    if (value.is_none()) continue;
    if (text.back() != '(') text += ", ";
    text += (*key ? std::string(key) + "=" : std::string()) + shown(value);
  }
  return text + ")";
}

Made alibi(nb::handle slopes, nb::handle offset) {
  const Tensor t = doubles("mods.alibi: slopes", slopes);
  if (t.rank() != 1) refuse("mods.alibi: slopes is ", to_string(t.shape()), "; pass (Hq)");
  const int32_t first = small("mods.alibi: offset", offset);
  const auto table = table_of("mods.alibi: slopes", t.reshape({-1, 1}));
  return made({score_mod([table, first]<class T>(Dual<T> score, ScoreAt at) {
                 return score - table->at<T>(at.head, 0) * static_cast<T>(abs(at.query + first - at.key));
               }),
               "alibi(" + std::to_string(table->rows) + " slopes)",
               false,
               {.heads = table->rows}});
}

Made softcap(nb::handle cap) {
  const double x = finite("mods.softcap: cap", cap);
  if (!(x > 0)) refuse("mods.softcap: cap is ", x, "; pass a number above 0");
  return made({score_mod([x]<class T>(Dual<T> score, ScoreAt) {
                 return static_cast<T>(x) * tanh(static_cast<T>(1 / x) * score);
               }),
               called("softcap", {{"", cap}})});
}

Made scale(nb::handle factor) {
  const double x = finite("mods.scale: factor", factor);
  return made({score_mod([x]<class T>(Dual<T> score, ScoreAt) { return static_cast<T>(x) * score; }),
               called("scale", {{"", factor}})});
}

int64_t place_in(const Mod& bias, int64_t query, int64_t key) {
  const int64_t last = bias.learned->columns - 1;
  return std::clamp<int64_t>(last / 2 + key - query - bias.offset, 0, last);
}

Made relative_bias(nb::handle values, nb::handle offset) {
  constexpr auto kWhat = "mods.relative_bias: table";
  const Tensor t = doubles(kWhat, values);
  if (t.rank() < 1 || t.rank() > 2 || t.size(-1) % 2 == 0)
    refuse(kWhat, " is ", to_string(t.shape()), "; pass (2 n + 1) or (Hq, 2 n + 1): distances -n to n");
  const auto table = table_of(kWhat, t);
  const int32_t middle = static_cast<int32_t>(table->columns / 2) - small("mods.relative_bias: offset", offset);
  const auto last = static_cast<int32_t>(table->columns - 1);
  Mod mod{score_mod([table, middle, last]<class T>(Dual<T> score, ScoreAt at) {
            return score + table->at<T>(at.head, std::clamp(middle + at.key - at.query, int32_t{0}, last));
          }),
          "relative_bias(" + to_string(t.shape()) + ")",
          false,
          {.heads = table->rows == 1 ? -1 : table->rows}};
  mod.learned = table;
  mod.offset = table->columns / 2 - middle;
  return made(std::move(mod));
}

Made causal(nb::handle offset) {
  const int32_t first = small("mods.causal: offset", offset);
  return made(
      {hiding([first](ScoreAt at) { return at.key <= at.query + first; }), called("causal", {{"", offset}}), true});
}

Made sliding_window(nb::handle left, nb::handle right, nb::handle offset) {
  const int32_t before = small("mods.sliding_window: left", left, 0),
                after = small("mods.sliding_window: right", right, 0),
                first = small("mods.sliding_window: offset", offset);
  return made({hiding([=](ScoreAt at) {
                 const int32_t distance = at.key - at.query - first;
                 return (distance >= -before) & (distance <= after);
               }),
               called("sliding_window", {{"", left}, {"", right}}), true});
}

Made prefix(nb::handle length, nb::handle offset) {
  const int32_t n = small("mods.prefix: length", length, 0), first = small("mods.prefix: offset", offset);
  return made({hiding([=](ScoreAt at) { return (at.key < n) | (at.key <= at.query + first); }),
               called("prefix", {{"", length}}), true});
}

Made dilated(nb::handle step, nb::handle offset) {
  const int32_t n = small("mods.dilated: step", step, 1), first = small("mods.dilated: offset", offset);
  return made({hiding([=](ScoreAt at) { return (at.key - at.query - first) % n == 0; }),
               called("dilated", {{"", step}}), true});
}

Made documents(nb::handle query_ids, nb::handle key_ids) {
  const Tensor q = take("mods.documents: query_ids", query_ids),
               k = key_ids.is_none() ? q : take("mods.documents: key_ids", key_ids);
  if (q.rank() < 1 || q.rank() > 2 || k.rank() != q.rank() || (q.rank() == 2 && q.size(0) != k.size(0)))
    refuse("mods.documents: query_ids is ", to_string(q.shape()), " and key_ids ", to_string(k.shape()),
           "; pass (Lq) and (Lk), or (B, Lq) and (B, Lk)");
  const auto rows = integers("mods.documents: query_ids", q), columns = integers("mods.documents: key_ids", k);
  const int64_t queries = q.size(-1), keys = k.size(-1), batch = q.rank() == 2 ? q.size(0) : -1;
  const int64_t step_q = batch < 0 ? 0 : queries, step_k = batch < 0 ? 0 : keys;
  return made({hiding([=](ScoreAt at) {
                 return (*rows)[static_cast<size_t>(at.batch * step_q + at.query)] ==
                        (*columns)[static_cast<size_t>(at.batch * step_k + at.key)];
               }),
               "documents(" + to_string(q.shape()) + (key_ids.is_none() ? "" : ", " + to_string(k.shape())) + ")",
               true,
               {.batch = batch, .queries = queries, .keys = keys}});
}

Made padding(nb::handle lengths) {
  const Tensor t = take("mods.padding: lengths", lengths);
  if (t.rank() != 1) refuse("mods.padding: lengths is ", to_string(t.shape()), "; pass (B)");
  const auto values = integers("mods.padding: lengths", t);
  return made({hiding([values](ScoreAt at) { return at.key < (*values)[static_cast<size_t>(at.batch)]; }),
               "padding(" + to_string(t.shape()) + ")",
               true,
               {.batch = t.size(0)}});
}

// ---- Functions of Python's

void check_callable(const char* what, nb::handle f) {
  if (!PyCallable_Check(f.ptr()))
    throw nb::type_error((what + (" is " + shown(f)) + "; pass a function of (score, b, h, q_idx, kv_idx)").c_str());
}

/// 0, 1, ... from `first`, as a row or a column.
nb::object positions(int32_t first, int32_t count, bool column) {
  const Tensor t = Tensor::empty(column ? Dims{count, 1} : Dims{1, count}, DType::i64);
  for (int32_t i = 0; i < count; ++i) t.data<int64_t>()[i] = int64_t{first} + i;
  return as_numpy(t, Access::write);
}

/// What a function gave, at every place of (rows, columns).
Tensor spread(const char* what, nb::handle given, DType dtype, int64_t rows, int64_t columns) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array;
  try {
    array = numpy.attr("broadcast_to")(numpy.attr("asarray")(given), nb::make_tuple(rows, columns));
    array = numpy.attr("ascontiguousarray")(array, numpy_name(dtype));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_TypeError)) throw;
    refuse(what, " gave ", shown(given), "; it must give numbers of the shape of its indices, here (", rows, ", ",
           columns, ")");
  }
  return take(what, array);
}

Made function(nb::handle f, nb::handle derivative) {
  check_callable("mods.function: f", f);
  if (!derivative.is_none()) check_callable("mods.function: derivative", derivative);
  auto held = std::make_shared<const Function>(nb::borrow(f), nb::borrow(derivative));
  Mod mod{score_mod([held](const auto& tile) { (*held)(tile); }), called("function", {{"", f}})};
  mod.function = std::move(held);
  return made(std::move(mod));
}

/// A heed.mods.ScoreMod as kernels take it; null for what is none. Throws RequiresGrad for tables in torch's graph.
Made named(nb::handle value) {
  static PyObject* const kept = PyUnicode_InternFromString("_heed_mod");
  nb::object mod = nb::steal(PyObject_GetAttr(value.ptr(), kept));
  if (!mod.is_valid()) {
    PyErr_Clear();
    mod = nb::borrow(value);
  } else if (mod.is_none()) {
    mod = value.attr("_made")();
  }
  Made mods;
  nb::try_cast(mod, mods);
  return mods;
}

// ---- Masks in tiles

/// A bit for every pair, as a Python function said it: word (row, query / 64, key), bit query % 64.
struct PairBits {
  std::vector<uint64_t> words;
  int64_t batch = 1, heads = 1, query_tiles = 0, keys = 0;  // batch and heads of 1: for all of the call's
  bool operator()(ScoreAt at) const {
    const int64_t row = (batch == 1 ? 0 : at.batch * heads) + (heads == 1 ? 0 : at.head);
    return words[static_cast<size_t>((row * query_tiles + at.query / kTile) * keys + at.key)] >> (at.query % kTile) & 1;
  }
};

PairBits asked(nb::handle f, const CallSizes& s) {
  constexpr auto kWhat = "block_mask: the function";
  PairBits bits;
  bits.batch = s.batch, bits.heads = s.heads, bits.query_tiles = (s.queries + kTile - 1) / kTile, bits.keys = s.keys;
  const auto [least, most] = std::minmax({s.batch, s.heads, s.queries, s.keys});
  if (least == 0 || most > int64_t{1} << 31) return bits;  // there is nothing to ask for, or block_mask() refuses it
  const double words = static_cast<double>(s.batch) * static_cast<double>(s.heads) *
                       static_cast<double>(bits.query_tiles) * static_cast<double>(s.keys);
  if (words > 0x1p31)
    refuse("block_mask: ", s.batch, " x ", s.heads, " x ", s.queries, " x ", s.keys,
           " pairs of a Python function take more than 16 GiB; use heed.mods, which keeps none");
  bits.words.resize(static_cast<size_t>(words));
  size_t at = 0;
  for (int64_t row = 0; row < s.batch * s.heads; ++row)
    for (int64_t query = 0; query < s.queries; query += kTile, at += static_cast<size_t>(s.keys)) {
      const auto n = static_cast<int32_t>(std::min(s.queries - query, kTile));
      const nb::object given = f(row / s.heads, row % s.heads, positions(static_cast<int32_t>(query), n, true),
                                 positions(0, static_cast<int32_t>(s.keys), false));
      const Tensor open = spread(kWhat, given, DType::boolean, n, s.keys);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < s.keys; ++j)
          bits.words[at + static_cast<size_t>(j)] |= uint64_t{open.data<bool>()[i * s.keys + j]} << i;
    }
  return bits;
}

Blocks make_blocks(nb::handle mask, nb::handle queries, nb::handle keys, nb::handle batch, nb::handle heads) {
  constexpr auto kLimits = "at most 2^31 - 65";
  const CallSizes s{integer("block_mask: batch", batch, kLimits), integer("block_mask: heads", heads, kLimits),
                    integer("block_mask: queries", queries, kLimits), integer("block_mask: keys", keys, kLimits)};
  block_mask([](ScoreAt) { return true; }, std::min<int64_t>(s.batch, 1), std::min<int64_t>(s.heads, 1),
             std::min<int64_t>(s.queries, 1), std::min<int64_t>(s.keys, 1));  // refuses what is below the least
  if (const Made mods = named(mask)) {
    if (!mods->hides())
      refuse("block_mask: ", mods->text(), " does more than hide; pass masks of heed.mods, and the rest as score_mod");
    mods->check("block_mask", s);
    const nb::gil_scoped_release others_may_run;
    return {block_mask(mods->mod(), s.batch, s.heads, s.queries, s.keys)};
  }
  if (!PyCallable_Check(mask.ptr()))
    throw nb::type_error(
        ("block_mask: mask is " + shown(mask) + "; pass a mask of heed.mods or a function of (b, h, q_idx, kv_idx)")
            .c_str());
  PairBits bits = asked(mask, s);
  const nb::gil_scoped_release others_may_run;
  return {block_mask(std::move(bits), s.batch, s.heads, s.queries, s.keys)};
}

}  // namespace

// ---- Function

Function::~Function() {
  const nb::gil_scoped_acquire gil;
  value_.reset();
  derivative_.reset();
  error_ = nullptr;
}

template <class T>
void Function::operator()(const ScoreTile<T>& tile) const {
  const nb::gil_scoped_acquire gil;
  if (error_) return;
  try {
    constexpr DType kType = std::is_same_v<T, double> ? DType::f64 : DType::f32;
    // A copy: the function may keep it, and the tile's memory is soon another's.
    const Tensor scores = Tensor::empty({tile.queries, tile.keys}, kType);
    for (int64_t i = 0; i < tile.queries; ++i)
      for (int64_t j = 0; j < tile.keys; ++j) scores.data<T>()[i * tile.keys + j] = tile.scores[j * tile.pitch + i];
    const nb::object given = as_numpy(scores, Access::write), query = positions(tile.query, tile.queries, true),
                     key = positions(tile.key, tile.keys, false);
    const auto ask = [&](const char* what, nb::handle f, T* to) {
      const Tensor t = spread(what, f(given, tile.batch, tile.head, query, key), kType, tile.queries, tile.keys);
      for (int64_t i = 0; i < tile.queries; ++i)
        for (int64_t j = 0; j < tile.keys; ++j) to[j * tile.pitch + i] = t.data<T>()[i * tile.keys + j];
    };
    if (tile.derivatives) ask("score_mod: the derivative", derivative_, tile.derivatives);
    ask("score_mod: the function", value_, tile.scores);
  } catch (...) {
    failed_ = true;
    error_ = std::current_exception();  // kernels let nothing through: attention() throws it at its end
  }
}
template void Function::operator()(const ScoreTile<float>& tile) const;
template void Function::operator()(const ScoreTile<double>& tile) const;

void Function::rethrow() const {
  failed_ = false;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// ---- Mods

CallSizes sizes_of(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  if (!options.q_offsets.defined()) {
    if (q.rank() != 4 || k.rank() != 4) return {};
    return {q.size(0), q.size(1), q.size(2), k.size(2)};
  }
  if (q.rank() != 3 || k.rank() != 3) return {};
  const auto longest = [](const Tensor& offsets) {
    const Tensor t = offsets.to(DType::i64).reshape({-1});
    int64_t most = 0;
    for (int64_t b = 1; b < t.size(0); ++b) {
      const int64_t begin = t.at<int64_t>(b - 1), end = t.at<int64_t>(b);
      if (begin >= 0 && end > begin) most = std::max(most, end - begin);  // any numbers: they are not checked yet
    }
    return most;
  };
  const Tensor& keys = options.k_offsets.defined() ? options.k_offsets : options.q_offsets;
  return {options.q_offsets.numel() - 1, q.size(1), longest(options.q_offsets), longest(keys)};
}

Mods::Mods(std::vector<std::shared_ptr<const Mod>> parts) : parts_(std::move(parts)) {
  for (const auto& part : parts_) mod_ = mod_ | part->mod;
}

Mods Mods::then(const Mods& other) const {
  auto all = parts_;
  all.insert(all.end(), other.parts_.begin(), other.parts_.end());
  return Mods(std::move(all));
}

std::string Mods::text() const {
  std::string text;
  for (const auto& part : parts_) text += (text.empty() ? "" : " | ") + part->text;
  return text;
}

bool Mods::hides() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->hides; });
}

void Mods::check(const char* operation, const CallSizes& call) const {
  for (const auto& part : parts_) {
    const CallSizes& own = part->sizes;
    const auto compare = [&](const char* what, int64_t has, int64_t wanted, bool at_most) {
      if (has < 0 || wanted < 0 || (at_most ? wanted <= has : wanted == has)) return;
      refuse(operation, ": ", part->text, " has numbers for ", has, " ", what, ", and the call has ", wanted,
             "; make it with as many");
    };
    compare("entries", own.batch, call.batch, false);
    compare("heads", own.heads, call.heads, false);
    compare("queries", own.queries, call.queries, true);
    compare("keys", own.keys, call.keys, true);
  }
}

void Mods::check_differentiable() const {
  for (const auto& part : parts_)
    if (part->function && !part->function->differentiable())
      refuse("attention_backward: ", part->text,
             " has no derivative; pass heed.mods.function(f, derivative), d new score / d score");
}

bool Mods::failed() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->function && part->function->failed(); });
}

void Mods::rethrow() const {
  for (const auto& part : parts_)
    if (part->function) part->function->rethrow();
}

bool Mods::learns() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->learned != nullptr; });
}

namespace {

/// Gradients of the tables of a chain from those of the scores that it gave.
template <class T>
void add_gradients(const std::vector<std::shared_ptr<const Mod>>& parts, const ScoreGradientTile<T>& given,
                   std::vector<Tensor>& gradients) {
  const int64_t size = given.keys * given.pitch;
  std::vector<T> scores(given.scores, given.scores + size), slopes(parts.size() * static_cast<size_t>(size));
  ScoreTile<T> tile{sizeof(tile),  given.batch, given.head,  given.query,  given.key,
                    given.queries, given.keys,  given.pitch, scores.data()};
  for (size_t n = 0; n < parts.size(); ++n) {
    tile.derivatives = slopes.data() + n * static_cast<size_t>(size);
    parts[n]->mod(tile);
  }
  std::vector<double> behind(given.gradients, given.gradients + size);  // of the score behind part n
  size_t table = gradients.size();
  for (size_t n = parts.size(); n-- > 0;) {
    const Mod& part = *parts[n];
    double* const sums = part.learned ? gradients[--table].data<double>() : nullptr;
    const int64_t row = sums && part.learned->rows > 1 ? given.head * part.learned->columns : 0;
    const T* const own = slopes.data() + n * static_cast<size_t>(size);
    for (int64_t j = 0; j < given.keys; ++j)
      for (int64_t i = 0; i < given.queries; ++i) {
        double& x = behind[static_cast<size_t>(j * given.pitch + i)];
        if (x == 0) continue;  // hidden: its slopes may be anything
        if (sums) sums[row + place_in(part, given.query + i, given.key + j)] += x;
        x *= static_cast<double>(own[j * given.pitch + i]);
      }
  }
}

}  // namespace

ScoreVisitor Mods::visitor(std::vector<Tensor>& gradients) const {
  gradients.clear();
  for (const auto& part : parts_)
    if (part->learned) gradients.push_back(Tensor::zeros({part->learned->rows, part->learned->columns}, DType::f64));
  return score_visitor([this, &gradients](const auto& tile) { add_gradients(parts_, tile, gradients); });
}

std::shared_ptr<const Mods> mods_of(nb::handle value) {
  if (value.is_none()) return nullptr;
  if (Made mods = named(value)) return mods;
  if (!PyCallable_Check(value.ptr()))
    throw nb::type_error(("attention: score_mod is " + shown(value) +
                          "; pass one of heed.mods or a function of (score, b, h, q_idx, kv_idx)")
                             .c_str());
  static bool said = false;
  if (!std::exchange(said, true) &&
      PyErr_WarnEx(PyExc_UserWarning,
                   "heed.attention: score_mod is a Python function, which is called for every tile of scores, by one "
                   "thread at a time, and has no gradient; heed.mods has functions that run inside of the kernels",
                   1) != 0)
    throw nb::python_error();
  return function(value, nb::none());
}

void define_mods(nb::module_& m) {
  const auto any = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<Mods>(m, "ScoreMod", "A score function, or several joined by |: the first, then the next.")
      .def("__or__", &Mods::then, nb::arg("then"), nb::is_operator())
      .def("__repr__", [](const Mods& mods) { return "heed.mods: " + mods.text(); })
      .def_prop_ro("hides", &Mods::hides, "Whether it hides pairs and does nothing else, as block_mask() asks for.");
  m.def("alibi", &alibi, any("slopes"), any("offset"));
  m.def("softcap", &softcap, any("cap"));
  m.def("scale", &scale, any("factor"));
  m.def("relative_bias", &relative_bias, any("table"), any("offset"));
  m.def("causal", &causal, any("offset"));
  m.def("sliding_window", &sliding_window, any("left"), any("right"), any("offset"));
  m.def("prefix", &prefix, any("length"), any("offset"));
  m.def("dilated", &dilated, any("step"), any("offset"));
  m.def("documents", &documents, any("query_ids"), any("key_ids"));
  m.def("padding", &padding, any("lengths"));
  m.def("function", &function, any("f"), any("derivative"));
  nb::class_<Blocks>(m, "BlockMask", "Which pairs may be attended, in tiles of 64 x 64: see block_mask().")
      .def_prop_ro(
          "shape",
          [](const Blocks& b) -> nb::typed<nb::tuple, int, int, int, int> {
            return nb::make_tuple(b.mask.batch(), b.mask.heads(), b.mask.queries(), b.mask.keys());
          },
          "(B or 1, Hq or 1, Lq, Lk)")
      .def_prop_ro(
          "sparsity", [](const Blocks& b) { return b.mask.sparsity(); },
          "Share of tiles that are empty and skipped, in [0, 1].")
      .def("__repr__", [](const Blocks& b) {
        std::ostringstream text;
        text << "heed.BlockMask(" << b.mask.batch() << ", " << b.mask.heads() << ", " << b.mask.queries() << ", "
             << b.mask.keys() << "; " << std::lround(100 * b.mask.sparsity()) << " % of the tiles are skipped)";
        return text.str();
      });
  m.def("block_mask", &make_blocks, any("mask"), any("queries"), any("keys"), any("batch"), any("heads"));
}

}  // namespace heed::python
