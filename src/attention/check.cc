#include "attention/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "attention/plan.h"
#include "attention/written.h"

namespace heed::inline v0 {
namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw ShapeError(text.str());
}

std::string shape(const Tensor& t) { return to_string(t.shape()); }

void check_defined(const char* operation, const char* name, const char* letters, const Tensor& t) {
  if (!t.defined()) refuse(operation, ": ", name, " is undefined; pass a tensor ", letters);
}

/// `letters` says what the dimensions are, "(B, Hq, Lq, D)"; their number is the rank.
void check_rank(const char* operation, const char* name, const char* letters, const Tensor& t) {
  const auto rank = static_cast<int>(std::count(letters, letters + std::strlen(letters), ',')) + 1;
  if (t.rank() != rank)
    refuse(operation, ": ", name, " has shape ", shape(t), ", not the ", rank == 4 ? "four" : "three", " dimensions ",
           letters, "; ",
           t.rank() < rank ? "add the missing ones with reshape" : "select from the others, or join them",
           rank == 4 ? "" : ", or leave q_offsets and k_offsets out");
}

bool has_steps(const Tensor& t) { return t.size(-1) > 1 && t.numel() > 0 && t.stride(-1) != 1; }

void check_operand(const char* operation, const char* name, const char* letters, const Tensor& t) {
  check_defined(operation, name, letters, t);
  if (!is_floating(t.dtype()))
    refuse(operation, ": ", name, " is ", name_of(t.dtype()), "; pass f32, f64, f16 or bf16, convert with to()");
  check_rank(operation, name, letters, t);
  if (has_steps(t))
    refuse(operation, ": the innermost stride of ", name, " is ", t.stride(-1),
           ", which must be 1; call contiguous() first");
}

void check_dtype(const char* operation, const char* name, const Tensor& t, DType expected) {
  if (t.dtype() != expected)
    refuse(operation, ": ", name, " is ", name_of(t.dtype()), "; pass ", name_of(expected), ", convert with to()");
}

void check_like_q(const char* operation, const char* name, const Tensor& t, const Tensor& q) {
  if (t.dtype() != q.dtype())
    refuse(operation, ": ", name, " is ", name_of(t.dtype()), " and q is ", name_of(q.dtype()),
           "; convert one with to()");
}

/// k and v are kept alike: as q is, or as halves beside queries in the compute type.
void check_storage(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v) {
  const bool halves = k.dtype() == DType::f16 || k.dtype() == DType::bf16;
  if (!(halves && q.dtype() == DType::f32)) check_like_q(operation, "k", k, q);
  if (v.dtype() != k.dtype())
    refuse(operation, ": v is ", name_of(v.dtype()), " and k is ", name_of(k.dtype()), "; convert one with to()");
}

void check_shape(const char* operation, const char* name, const char* letters, const Tensor& t, const Dims& expected) {
  if (!(t.shape() == expected))
    refuse(operation, ": ", name, " has shape ", shape(t), "; pass ", letters, " = ", to_string(expected));
}

std::string divisors(int64_t n) {
  std::string text;
  for (int64_t d = 1; d <= n; ++d) {
    if (n % d) continue;
    if (!text.empty()) text += d == n ? " or " : ", ";
    text += std::to_string(d);
  }
  return text;
}

int64_t integer(const Tensor& t, int64_t i) {
  return t.dtype() == DType::i64 ? t.at<int64_t>(i) : int64_t{t.at<int32_t>(i)};
}

void check_integers(const char* operation, const char* name, const Tensor& t) {
  if (t.dtype() != DType::i32 && t.dtype() != DType::i64)
    refuse(operation, ": ", name, " are ", name_of(t.dtype()), "; pass i32 or i64");
}

// The longest entry. `tokens` is the size of what the offsets cut.
int64_t check_offsets(const char* operation, const char* name, const Tensor& offsets, const char* what,
                      int64_t tokens) {
  check_integers(operation, name, offsets);
  if (offsets.rank() != 1 || offsets.size(0) == 0)
    refuse(operation, ": ", name, " have shape ", shape(offsets), "; pass (B + 1), the first 0");
  if (integer(offsets, 0) != 0) refuse(operation, ": ", name, "[0] is ", integer(offsets, 0), "; it must be 0");
  int64_t longest = 0;
  const int64_t B = offsets.size(0) - 1;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t from = integer(offsets, b), to = integer(offsets, b + 1);
    if (to < from) refuse(operation, ": ", name, "[", b + 1, "] is ", to, " after ", from, "; offsets must not fall");
    longest = std::max(longest, to - from);
  }
  if (integer(offsets, B) != tokens)
    refuse(operation, ": ", name, " end at ", integer(offsets, B), " and ", what, " has ", tokens,
           " tokens; the last offset must be their number");
  return longest;
}

Sizes check_dense_sizes(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v) {
  Sizes s;
  s.B = q.size(0), s.Hq = q.size(1), s.Hkv = k.size(1), s.Lq = q.size(2), s.Lk = k.size(2);
  s.D = q.size(3), s.Dv = v.size(3);
  if (k.size(0) != s.B || v.size(0) != s.B)
    refuse(operation, ": batches of q, k and v are ", s.B, ", ", k.size(0), " and ", v.size(0),
           "; make them equal, with expand() where one is shared");
  return s;
}

Sizes check_ragged_sizes(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                         const AttentionOptions& o) {
  if (!o.q_offsets.defined() || !o.k_offsets.defined())
    refuse(operation, ": ", o.q_offsets.defined() ? "q_offsets" : "k_offsets", " are given without ",
           o.q_offsets.defined() ? "k_offsets" : "q_offsets", "; pass both or neither");
  Sizes s;
  s.ragged = true;
  s.Tq = q.size(0), s.Tk = k.size(0), s.Hq = q.size(1), s.Hkv = k.size(1), s.D = q.size(2), s.Dv = v.size(2);
  s.Lq = check_offsets(operation, "q_offsets", o.q_offsets, "q", s.Tq);
  s.Lk = check_offsets(operation, "k_offsets", o.k_offsets, "k", s.Tk);
  s.B = o.q_offsets.size(0) - 1;
  if (o.k_offsets.size(0) != s.B + 1)
    refuse(operation, ": q_offsets have ", s.B + 1, " elements and k_offsets ", o.k_offsets.size(0),
           "; both cut the same entries, make them equal");
  constexpr auto with = " cannot be used with q_offsets and k_offsets; ";
  if (o.mask.defined())
    refuse(operation, ": a mask", with, "use score_mod, a window or a causal rule, or a padded batch");
  if (o.key_lengths.defined()) refuse(operation, ": key_lengths", with, "give each entry its keys through k_offsets");
  if (o.block_mask) refuse(operation, ": a block_mask", with, "use score_mod, or a padded batch");
  return s;
}

Sizes check_sizes(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                  const AttentionOptions& options) {
  const bool ragged = options.q_offsets.defined() || options.k_offsets.defined();
  check_operand(operation, "q", ragged ? "(Tq, Hq, D)" : "(B, Hq, Lq, D)", q);
  check_operand(operation, "k", ragged ? "(Tk, Hkv, D)" : "(B, Hkv, Lk, D)", k);
  check_operand(operation, "v", ragged ? "(Tk, Hkv, Dv)" : "(B, Hkv, Lk, Dv)", v);
  check_storage(operation, q, k, v);
  const Sizes s = ragged ? check_ragged_sizes(operation, q, k, v, options) : check_dense_sizes(operation, q, k, v);
  if (k.size(-1) != s.D)
    refuse(operation, ": the head size of q is ", s.D, " and of k ", k.size(-1),
           "; they are multiplied, make them equal");
  if (s.D == 0) refuse(operation, ": the head size of q and k is 0; pass at least 1");
  if (v.size(1) != s.Hkv) refuse(operation, ": k has ", s.Hkv, " heads and v ", v.size(1), "; make them equal");
  const int64_t keys = k.size(ragged ? 0 : 2), values = v.size(ragged ? 0 : 2);
  if (keys != values) refuse(operation, ": k has ", keys, " positions and v ", values, "; each key needs its value");
  if (s.Hkv == 0 ? s.Hq != 0 : s.Hq % s.Hkv != 0)
    refuse(operation, ": ", s.Hq, " query heads are not a multiple of ", s.Hkv, " key heads; pass k and v with ",
           divisors(s.Hq), s.Hq == 1 ? " head" : " heads");
  return s;
}

void check_mask(const char* operation, const Tensor& mask, const Tensor& q, const Sizes& s) {
  if (!mask.defined()) return;
  const DType compute = compute_dtype(q);
  if (mask.dtype() != DType::boolean && mask.dtype() != compute && mask.dtype() != q.dtype())
    refuse(operation, ": the mask is ", name_of(mask.dtype()), "; pass bool (true = may be attended) or ",
           name_of(compute), compute == q.dtype() ? " like q" : "", " (added to the score)");
  const int64_t full[4] = {s.B, s.Hq, s.Lq, s.Lk};
  bool fits = mask.rank() <= 4;
  for (int d = 1; fits && d <= mask.rank(); ++d) {
    const int64_t n = mask.size(-d);
    fits = n == 1 || n == full[4 - d] || (d == 1 && n > 1 && n < s.Lk);
  }
  if (!fits)
    refuse(
        operation, ": a mask of shape ", shape(mask),
        " does not broadcast to (B, Hq, Lq, Lk) = ", to_string(Dims{s.B, s.Hq, s.Lq, s.Lk}),
        "; pass (Lq, Lk) = ", to_string(Dims{s.Lq, s.Lk}),
        ", or a shape whose dimensions, from the right, are 1 or those sizes (a last one from 2 to Lk - 1 hides the ",
        "keys past it)");
}

void check_key_lengths(const char* operation, const Tensor& lengths, const Sizes& s) {
  if (!lengths.defined()) return;
  check_integers(operation, "key_lengths", lengths);
  if (lengths.rank() != 1 || lengths.size(0) != s.B)
    refuse(operation, ": key_lengths have shape ", shape(lengths), "; pass one length an entry, (", s.B, ")");
  for (int64_t b = 0; b < s.B; ++b) {
    const int64_t n = integer(lengths, b);
    if (n < 0 || n > s.Lk) refuse(operation, ": key_lengths[", b, "] is ", n, "; pass 0 to Lk = ", s.Lk);
  }
}

/// Of the numbers that kernels compute with: at most `most`, which is finite times a few, too; what they divide by is
/// `least` at least, and 1/least at most.
struct Limits {
  double most, least;
};

Limits limits_of(DType compute) { return compute == DType::f64 ? Limits{1e308, 1e-307} : Limits{1e38, 1e-37}; }

/// One number for each query head, -inf too where `nothing` stands for it.
void check_per_head(const char* operation, const char* name, const Tensor& t, const Tensor& q, const Sizes& s,
                    const char* nothing) {
  if (!t.defined()) return;
  const DType compute = compute_dtype(q);
  check_dtype(operation, name, t, compute);
  check_shape(operation, name, "(Hq)", t, {s.Hq});
  const double most = limits_of(compute).most;
  for (int64_t h = 0; h < s.Hq; ++h) {
    const double x = compute == DType::f64 ? t.at<double>(h) : double{t.at<float>(h)};
    if (!(std::fabs(x) <= most) && !(nothing && x == -INFINITY))
      refuse(operation, ": ", name, "[", h, "] is ", x, "; pass at most ", most, " in ", name_of(compute),
             ", in either direction", nothing ? nothing : "");
  }
}

void check_positions(const char* operation, const AttentionOptions& o) {
  if (o.offset > kMostOffset || o.offset < -kMostOffset)
    refuse(operation, ": offset is ", o.offset, "; pass at most 2^58, in either direction");
  if (o.causal == Causal::bottom_right && o.offset != 0)
    refuse(operation, ": causal bottom_right places the queries itself, and offset is ", o.offset,
           "; pass 0, or Causal::top_left with this offset");
  if (o.window.left < -1 || o.window.right < -1)
    refuse(operation, ": the window is (", o.window.left, ", ", o.window.right,
           "); pass the keys to the left and right of a query, -1 for all");
}

void check_part(const char* operation, const AttentionOptions& o, const Sizes& s) {
  const AttentionPart& part = o.part;
  const auto check = [&](const char* name, int64_t first) {
    if (first < 0 || first > kMostOffset)
      refuse(operation, ": part.", name, " is ", first, "; pass a place in the whole, from 0 to 2^58");
  };
  check("first_batch", part.first_batch);
  check("first_head", part.first_head);
  check("first_query", part.first_query);
  check("first_key", part.first_key);
  if (part.heads < 0 || (part.heads > 0 && part.heads < part.first_head + s.Hq))
    refuse(operation, ": part.heads is ", part.heads, ", and the part ends at head ", part.first_head + s.Hq,
           "; pass Hq of the whole");
  if (part.first_query == 0 && part.first_key == 0) return;
  if (o.causal == Causal::bottom_right)
    refuse(operation, ": causal bottom_right counts from the ends of this call, which is a part of another; pass ",
           "Causal::top_left, with the whole's Lk - Lq as offset");
  if (s.ragged)
    refuse(operation, ": part.first_query ", part.first_query, " and part.first_key ", part.first_key,
           " cannot be used with q_offsets and k_offsets; pass parts of entries or heads");
  if (o.block_mask && (part.first_query % kTile != 0 || part.first_key % kTile != 0))
    refuse(operation, ": part.first_query ", part.first_query, " and part.first_key ", part.first_key,
           " with a block_mask, which has one class for a tile; cut at multiples of ", kTile);
}

void check_functions(const char* operation, const AttentionOptions& o, const Sizes& s) {
  if (!o.score_mod && !o.block_mask) return;
  constexpr int64_t kMost = int64_t{1} << 31;
  const AttentionPart& part = o.part;
  const Dims end{part.first_batch + s.B, part.first_head + s.Hq, part.first_query + s.Lq, part.first_key + s.Lk};
  if (std::max({end[0], end[1], end[2], end[3]}) >= kMost)
    refuse(operation, ": (B, Hq, Lq, Lk) = ", to_string(end),
           " with score_mod or block_mask, whose positions are int32; pass less than 2^31 of each");
  const BlockMask& mask = o.block_mask;
  if (!mask) return;
  if (part.first_batch || part.first_head || part.first_query || part.first_key || part.heads) {
    const Dims whole{mask.batch(), mask.heads(), mask.queries(), mask.keys()};
    if ((whole[0] != 1 && whole[0] < end[0]) || (whole[1] != 1 && whole[1] < end[1]) || whole[2] < end[2] ||
        whole[3] < end[3])
      refuse(operation, ": a block_mask of ", to_string(whole), " for a part that ends at ", to_string(end),
             "; pass that of the whole");
    return;
  }
  const Dims given{mask.batch(), mask.heads(), mask.queries(), mask.keys()};
  if ((given[0] != 1 && given[0] != s.B) || (given[1] != 1 && given[1] != s.Hq) || given[2] != s.Lq || given[3] != s.Lk)
    refuse(operation, ": a block_mask of ", to_string(given),
           " for (B, Hq, Lq, Lk) = ", to_string(Dims{s.B, s.Hq, s.Lq, s.Lk}),
           "; make it with B or 1, Hq or 1, and these lengths");
}

/// Indices that choose heads or rows.
void check_chosen(const char* operation, const char* name, const char* letters, const Tensor& t, int64_t end) {
  if (!t.defined()) return;
  if (t.dtype() != DType::i64 || t.rank() != 1)
    refuse(operation, ": ", name, " are ", name_of(t.dtype()), " ", shape(t), "; pass i64 ", letters);
  for (int64_t i = 0; i < t.size(0); ++i)
    if (t.at<int64_t>(i) < 0 || t.at<int64_t>(i) >= end)
      refuse(operation, ": ", name, "[", i, "] is ", t.at<int64_t>(i), " of ", end, "; count from 0");
}

void check_selection(const char* operation, const WeightsSelection& selection, const Sizes& s) {
  check_chosen(operation, "selection.heads", "(N)", selection.heads, s.Hq);
  if (s.ragged && selection.rows.defined())
    refuse(operation, ": selection.rows cannot be used with q_offsets and k_offsets; take the rows from all weights");
  check_chosen(operation, "selection.rows", "(R)", selection.rows, s.Lq);
  if (!(selection.top_p > 0 && selection.top_p <= 1))
    refuse(operation, ": selection.top_p is ", selection.top_p, "; pass a share of the weights in (0, 1]");
}

void check_numbers(const char* operation, const AttentionOptions& o, const Sizes& s, DType compute) {
  const Limits limits = limits_of(compute);
  if (o.scale && !(std::fabs(*o.scale) <= limits.most))
    refuse(operation, ": scale is ", *o.scale, "; pass at most ", limits.most, " in ", name_of(compute),
           ", in either direction, or none for 1/sqrt(D)");
  if (o.softcap != 0 && !(o.softcap >= limits.least && o.softcap <= 1 / limits.least))
    refuse(operation, ": softcap is ", o.softcap, "; pass a limit from ", limits.least, " to ", 1 / limits.least,
           " in ", name_of(compute), ", or 0 for none");
  if (!(o.dropout >= 0 && o.dropout < 1))
    refuse(operation, ": dropout is ", o.dropout, "; pass a probability in [0, 1)");
  constexpr int64_t kMost = int64_t{1} << 32;
  const int64_t queries = o.part.first_query + s.Lq, keys = o.part.first_key + s.Lk;
  if (o.dropout > 0 && (queries >= kMost || keys / 4 >= kMost))
    refuse(operation, ": Lq ", queries, " and Lk ", keys,
           " with dropout, which counts positions in 32 bits; pass less than 2^32 queries and 2^34 keys");
}

// A copy in another dtype or order would be written to instead of it, so the advice is to pass other memory.
void check_written(const char* operation, const char* name, const char* letters, const Tensor& t, const Dims& expected,
                   DType dtype) {
  check_defined(operation, name, letters, t);
  if (t.dtype() != dtype)
    refuse(operation, ": ", name, " is ", name_of(t.dtype()), "; pass memory of ", name_of(dtype));
  check_rank(operation, name, letters, t);
  if (has_steps(t))
    refuse(operation, ": the innermost stride of ", name, " is ", t.stride(-1),
           ", which must be 1; pass contiguous memory");
  check_shape(operation, name, letters, t, expected);
  check_own_places(operation, name, t);
}

/// Where it is defined, contiguous and of the compute type.
void check_contiguous(const char* operation, const char* name, const char* letters, const Tensor& t,
                      const Dims& expected, const Tensor& q) {
  if (!t.defined()) return;
  check_dtype(operation, name, t, compute_dtype(q));
  check_shape(operation, name, letters, t, expected);
  if (!t.is_contiguous()) refuse(operation, ": ", name, " is strided; call contiguous() first");
}

/// No two of the written share memory, nor does one of them with what is read: the inputs, the options, `also`.
void check_all_apart(const char* operation, Names written, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionOptions& o, Names also = {}) {
  check_apart(operation, written,
              {{"q", &q},
               {"k", &k},
               {"v", &v},
               {"the mask", &o.mask},
               {"alibi", &o.alibi},
               {"sinks", &o.sinks},
               {"key_lengths", &o.key_lengths},
               {"q_offsets", &o.q_offsets},
               {"k_offsets", &o.k_offsets},
               {"selection.heads", &o.selection.heads},
               {"selection.rows", &o.selection.rows}});
  check_apart(operation, written, also);
}

void check_mask_gradient(const AttentionOptions& options) {
  if (!options.mask.defined() || options.mask.dtype() == DType::boolean)
    refuse("attention_backward: the gradient of the mask is wanted, but the mask is ",
           options.mask.defined() ? "boolean" : "absent", "; only an additive mask has one");
}

void check_sinks_gradient(const AttentionOptions& options) {
  if (!options.sinks.defined())
    refuse("attention_backward: the gradient of the sinks is wanted, but there are none; pass options.sinks");
}

const char* out_letters(const Sizes& s) { return s.ragged ? "(Tq, Hq, Dv)" : "(B, Hq, Lq, Dv)"; }
const char* lse_letters(const Sizes& s) { return s.ragged ? "(Hq, Tq)" : "(B, Hq, Lq)"; }

}  // namespace

Dims out_shape(const Sizes& s) { return s.ragged ? Dims{s.Tq, s.Hq, s.Dv} : Dims{s.B, s.Hq, s.Lq, s.Dv}; }

Dims lse_shape(const Sizes& s) { return s.ragged ? Dims{s.Hq, s.Tq} : Dims{s.B, s.Hq, s.Lq}; }

Dims weights_shape(const Sizes& s, const WeightsSelection& selection) {
  const Dims dense = selection.shape(s.B, s.Hq, s.Lq, s.Lk);
  return s.ragged ? Dims{dense[1], s.Tq, s.Lk} : dense;
}

Sizes check_inputs(const char* operation, const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options) {
  const Sizes s = check_sizes(operation, q, k, v, options);
  check_mask(operation, options.mask, q, s);
  check_key_lengths(operation, options.key_lengths, s);
  check_per_head(operation, "alibi", options.alibi, q, s, nullptr);
  check_per_head(operation, "sinks", options.sinks, q, s, ", or -inf for none");
  check_positions(operation, options);
  check_part(operation, options, s);
  check_functions(operation, options, s);
  check_selection(operation, options.selection, s);
  check_numbers(operation, options, s, compute_dtype(q));
  if (options.implementation == Implementation::decode)
    if (const char* const refusal = decode_refusal(s, options))
      refuse(operation, ": options.implementation asks for decode, but ", refusal, "; pass automatic");
  return s;
}

void check_lse_is_exact(const char* operation, const char* name, const AttentionResult& result) {
  if (result.lse_low.defined()) return;
  const Tensor lse = result.lse.contiguous();
  const auto check = [&]<class T>(T) {
    const double most = 0x1p-10 / static_cast<double>(std::numeric_limits<T>::epsilon());
    for (const T x : lse.span<T>())
      if (std::isfinite(x) && std::fabs(static_cast<double>(x)) >= most)
        refuse(operation, ": ", name, " has a lse of ", x, " in ", name_of(lse.dtype()),
               ", whose rounding has lost the sum of its row, and no lse_low; pass both, as attention() gives them");
  };
  lse.dtype() == DType::f64 ? check(double{}) : check(float{});
}

void check_outputs(const Sizes& s, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionResult& into,
                   const AttentionOptions& options) {
  constexpr auto operation = "attention";
  check_written(operation, "into.out", out_letters(s), into.out, out_shape(s), q.dtype());
  check_contiguous(operation, "into.lse", lse_letters(s), into.lse, lse_shape(s), q);
  check_contiguous(operation, "into.lse_low", lse_letters(s), into.lse_low, lse_shape(s), q);
  if (into.lse_low.defined() && !into.lse.defined())
    refuse(operation, ": into.lse_low is defined without into.lse, whose rounding error it is; pass both");
  if (into.weights.defined())
    check_contiguous(operation, "into.weights", s.ragged ? "(N, Tq, longest Lk)" : "(B, N, R, Lk)", into.weights,
                     weights_shape(s, options.selection), q);
  if (into.scores.defined())
    check_contiguous(operation, "into.scores", s.ragged ? "(Hq, Tq, longest Lk)" : "(B, Hq, Lq, Lk)", into.scores,
                     scores_shape(s), q);
  if (into.scores.defined() && !options.want_scores)
    refuse(operation, ": into.scores is defined, but not of which stage; set options.want_scores");
  if (options.selection.top_p < 1)
    refuse(operation, ": selection.top_p is ", options.selection.top_p,
           ", whose results have no size beforehand; call attention() without `into`");
  check_all_apart(operation,
                  {{"into.out", &into.out},
                   {"into.lse", &into.lse},
                   {"into.lse_low", &into.lse_low},
                   {"into.weights", &into.weights},
                   {"into.scores", &into.scores}},
                  q, k, v, options);
}

void check_saved(const Sizes& s, const Tensor& q, const Tensor& grad_out, const AttentionResult& forward,
                 const AttentionOptions& options, const BackwardOptions& backward) {
  constexpr auto operation = "attention_backward";
  if (!forward.out.defined() || !forward.lse.defined())
    refuse(operation, ": forward.", forward.out.defined() ? "lse" : "out",
           " is undefined; pass the result of attention() called with want_lse");
  check_operand(operation, "forward.out", out_letters(s), forward.out);
  check_like_q(operation, "forward.out", forward.out, q);
  if (!(forward.out.shape() == out_shape(s)))
    refuse(operation, ": forward.out has shape ", shape(forward.out), ", and of these q, k and v it is ",
           to_string(out_shape(s)), "; pass the result of the same q, k and v");
  check_operand(operation, "grad_out", out_letters(s), grad_out);
  check_like_q(operation, "grad_out", grad_out, q);
  check_shape(operation, "grad_out", out_letters(s), grad_out, out_shape(s));
  check_contiguous(operation, "forward.lse", lse_letters(s), forward.lse, lse_shape(s), q);
  check_contiguous(operation, "forward.lse_low", lse_letters(s), forward.lse_low, lse_shape(s), q);
  if (options.part.first_key > 0) check_lse_is_exact(operation, "forward", forward);
  if (backward.grad_lse.defined()) {
    check_dtype(operation, "grad_lse", backward.grad_lse, compute_dtype(q));
    check_shape(operation, "grad_lse", lse_letters(s), backward.grad_lse, lse_shape(s));
  }
  if (backward.want_mask) check_mask_gradient(options);
  if (backward.want_sinks) check_sinks_gradient(options);
}

void check_gradients(const Sizes& s, const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionResult& forward, const AttentionGradients& into, const AttentionOptions& options,
                     const BackwardOptions& backward) {
  constexpr auto operation = "attention_backward";
  check_written(operation, "into.q", s.ragged ? "(Tq, Hq, D)" : "(B, Hq, Lq, D)", into.q, q.shape(), q.dtype());
  check_written(operation, "into.k", s.ragged ? "(Tk, Hkv, D)" : "(B, Hkv, Lk, D)", into.k, k.shape(), k.dtype());
  check_written(operation, "into.v", s.ragged ? "(Tk, Hkv, Dv)" : "(B, Hkv, Lk, Dv)", into.v, v.shape(), v.dtype());
  if (into.mask.defined()) check_mask_gradient(options);
  if (into.sinks.defined()) check_sinks_gradient(options);
  check_contiguous(operation, "into.mask", "a tensor like the mask", into.mask, options.mask.shape(), q);
  check_contiguous(operation, "into.sinks", "(Hq)", into.sinks, options.sinks.shape(), q);
  check_all_apart(operation,
                  {{"into.q", &into.q},
                   {"into.k", &into.k},
                   {"into.v", &into.v},
                   {"into.mask", &into.mask},
                   {"into.sinks", &into.sinks}},
                  q, k, v, options,
                  {{"grad_out", &grad_out},
                   {"forward.out", &forward.out},
                   {"forward.lse", &forward.lse},
                   {"forward.lse_low", &forward.lse_low},
                   {"grad_lse", &backward.grad_lse}});
}

}  // namespace heed::inline v0
