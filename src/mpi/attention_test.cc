// Attention over ranks against one machine, for random shapes, options, ranks and cuts. RC_PARAMS="seed=N" repeats a
// run.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "attention/testing.h"
#include "heed/attention_over_ranks.h"
#include "ranks/testing.h"

namespace heed {
namespace {

using mpi::Meeting;
using mpi::OverRanks;
using test::max_abs;
using test::max_error;
using test::random_tensor;
using test::same_bits;

int64_t number(int64_t low, int64_t high) { return high <= low ? low : *rc::gen::inRange<int64_t>(low, high + 1); }
bool one_of(int64_t n) { return number(0, n - 1) == 0; }

/// A call of one machine.
struct Whole {
  Tensor q, k, v, grad;
  AttentionOptions options;
  BackwardOptions backward;
  int rows = 2;            // the dimension of the sequence in q, k and v
  bool mask_rows = false;  // the mask has one for each query

  bool additive() const { return options.mask.defined() && options.mask.dtype() != DType::boolean; }
};

struct Outcome {
  AttentionResult result;
  AttentionGradients gradients;
  std::vector<std::pair<const char*, Tensor>> all() const {
    return {{"out", result.out}, {"lse", result.lse},       {"dq", gradients.q},        {"dk", gradients.k},
            {"dv", gradients.v}, {"dmask", gradients.mask}, {"dsinks", gradients.sinks}};
  }
};

Outcome on_one(const Whole& w) {
  Outcome o;
  o.result = attention(w.q, w.k, w.v, w.options);
  o.gradients = attention_backward(w.grad, w.q, w.k, w.v, o.result, w.options, w.backward);
  return o;
}

/// A rank's rows back in the place they have in `whole`, which is made by the first that comes.
void place(const Split& split, int rank, int dimension, const Tensor& own, const Tensor& whole) {
  int64_t at = 0;
  for (const IndexRange& piece : split.of(rank)) {
    whole.slice(dimension, piece.begin, piece.end).copy_from(own.slice(dimension, at, at + piece.size()));
    at += piece.size();
  }
}

/// The same call on ranks. What has rows is put together, what every rank has is compared.
Outcome on_ranks(const Whole& w, const OverRanks& over, int ranks) {
  const auto like = [](const Tensor& t) { return Tensor::empty(t.shape(), t.dtype()); };
  const Outcome one = on_one(w);
  Outcome all;
  all.result.out = like(one.result.out), all.result.lse = like(one.result.lse);
  all.gradients = {like(w.q), like(w.k), like(w.v), {}, {}};
  if (w.backward.want_mask) all.gradients.mask = like(one.gradients.mask);
  std::vector<AttentionGradients> gradients(static_cast<size_t>(ranks));
  const int lse_rows = w.rows == 2 ? 2 : 1;
  run_ranks(ranks, [&](Communicator& c) {
    const int r = c.rank();
    const auto queries = [&](const Tensor& t, int dimension) { return over.queries.take(t, dimension, r); };
    const Tensor q = queries(w.q, w.rows), grad = queries(w.grad, w.rows);
    const Tensor k = over.keys.take(w.k, w.rows, r), v = over.keys.take(w.v, w.rows, r);
    AttentionOptions o = w.options;
    if (w.mask_rows) o.mask = queries(o.mask, o.mask.rank() - 2);
    BackwardOptions backward = w.backward;
    if (backward.grad_lse.defined()) backward.grad_lse = queries(backward.grad_lse, lse_rows);
    const AttentionResult own = mpi::attention(c, q, k, v, over, o);
    AttentionGradients g = mpi::attention_backward(c, grad, q, k, v, own, over, o, backward);
    place(over.queries, r, w.rows, own.out, all.result.out);
    place(over.queries, r, lse_rows, own.lse, all.result.lse);
    place(over.queries, r, w.rows, g.q, all.gradients.q);
    place(over.keys, r, w.rows, g.k, all.gradients.k);
    place(over.keys, r, w.rows, g.v, all.gradients.v);
    if (w.backward.want_mask && w.mask_rows) place(over.queries, r, g.mask.rank() - 2, g.mask, all.gradients.mask);
    gradients[static_cast<size_t>(r)] = g;
  });
  for (const AttentionGradients& g : gradients) {
    if (w.backward.want_sinks) RC_ASSERT(same_bits(g.sinks, gradients[0].sinks));
    if (w.backward.want_mask && !w.mask_rows) RC_ASSERT(same_bits(g.mask, gradients[0].mask));
  }
  all.gradients.sinks = gradients[0].sinks;
  if (w.backward.want_mask && !w.mask_rows) all.gradients.mask = gradients[0].mask;
  return all;
}

/// Contiguous, zigzag, or any cuts and owners; cut at multiples of `step`.
Split random_split(int64_t length, int ranks, int64_t step) {
  const int64_t kind = number(0, 2);
  if (kind == 0) return Split::contiguous(length, ranks, step);
  if (kind == 1) return Split::zigzag(length, ranks, step);
  std::vector<int64_t> cuts{0};
  std::vector<int> owners;
  for (int64_t n = number(0, 2 * ranks); n > 0; --n) cuts.push_back(std::min(length, number(0, length / step) * step));
  std::sort(cuts.begin(), cuts.end());
  cuts.push_back(length);
  for (size_t n = 1; n < cuts.size(); ++n) owners.push_back(static_cast<int>(number(0, ranks - 1)));
  return {cuts, owners};
}

void set_mask(Whole& w, int64_t B, int64_t Hq, int64_t Lq, int64_t Lk, bool for_all_heads, uint64_t seed) {
  AttentionOptions& o = w.options;
  w.mask_rows = one_of(2);
  Dims shape{one_of(2) ? B : 1, for_all_heads && one_of(2) ? 1 : Hq, w.mask_rows ? Lq : 1, one_of(4) ? 1 : Lk};
  if (Lk > 3 && shape[3] == Lk && one_of(4)) shape[3] = number(2, Lk - 1);  // hides the rest
  const Tensor values = random_tensor(shape, seed);
  if (one_of(2)) {
    o.mask = Tensor::zeros(shape, DType::boolean);
    for (int64_t i = 0; i < values.numel(); ++i) o.mask.data<bool>()[i] = values.data<double>()[i] > -0.7;
  } else {
    o.mask = values;
    w.backward.want_mask = true;
  }
}

/// In double. `meeting` leaves out what it refuses.
Whole random_whole(Meeting meeting) {
  Whole w;
  const bool ring = meeting == Meeting::ring;
  const auto or_nothing = [](int64_t size) { return one_of(25) ? 0 : size; };
  const int64_t B = or_nothing(number(1, 2)), Hkv = or_nothing(number(1, 4)), group = number(1, 2), Hq = Hkv * group;
  const int64_t Lq = or_nothing(one_of(3) ? number(1, 40) : number(40, 400));
  const int64_t Lk = or_nothing(one_of(3) ? Lq : number(1, 400));
  const int64_t D = one_of(2) ? 8 : number(1, 9), Dv = or_nothing(one_of(2) ? 8 : number(1, 9));
  const auto seed = static_cast<uint64_t>(number(0, 1 << 20)) * 16;
  AttentionOptions& o = w.options;
  o.want_lse = true;
  o.causal = static_cast<Causal>(number(0, 2));
  if (o.causal != Causal::bottom_right) o.offset = one_of(2) ? 0 : number(-20, 80);
  if (one_of(3)) o.window = {number(-1, 90), number(-1, 90)};
  if (one_of(3)) o.softcap = 2;
  if (one_of(3))
    o.score_mod = score_mod([](auto score, ScoreAt at) {
      return score * (1 + 0.25f * static_cast<float>(at.head)) +
             0.03125f * static_cast<float>(at.key - at.query - 7 * at.batch);
    });
  if (one_of(3)) o.alibi = random_tensor({Hq}, seed + 4, DType::f64, 0.1);
  if (one_of(3)) o.sinks = random_tensor({Hq}, seed + 5), w.backward.want_sinks = true;
  if (one_of(3)) o.dropout = 0.3, o.seed = seed, o.stream = 5;
  if (one_of(5)) o.implementation = Implementation::reference;
  if (!ring && one_of(4)) {  // ragged
    w.rows = 0;
    const auto offsets = [&](int64_t tokens) {
      const int64_t middle = number(0, tokens);
      return Tensor::from<int32_t>({0, static_cast<int32_t>(middle), static_cast<int32_t>(tokens)}, {3});
    };
    o.q_offsets = offsets(Lq), o.k_offsets = offsets(Lk);
    w.q = random_tensor({Lq, Hq, D}, seed), w.k = random_tensor({Lk, Hkv, D}, seed + 1);
    w.v = random_tensor({Lk, Hkv, Dv}, seed + 2), w.grad = random_tensor({Lq, Hq, Dv}, seed + 3);
    if (one_of(2)) w.backward.grad_lse = random_tensor({Hq, Lq}, seed + 6);
    return w;
  }
  w.q = random_tensor({B, Hq, Lq, D}, seed), w.k = random_tensor({B, Hkv, Lk, D}, seed + 1);
  w.v = random_tensor({B, Hkv, Lk, Dv}, seed + 2), w.grad = random_tensor({B, Hq, Lq, Dv}, seed + 3);
  if (one_of(2)) w.backward.grad_lse = random_tensor({B, Hq, Lq}, seed + 6);
  if (one_of(4)) {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < B; ++b) lengths.push_back(number(0, Lk));
    o.key_lengths = Tensor::from(lengths, {B});
    for (int64_t b = 0; b < B; ++b)  // hidden
      for (const Tensor& t : {w.k, w.v}) t.select(0, b).slice(1, lengths[static_cast<size_t>(b)], Lk).fill(NAN);
  }
  if (one_of(3)) set_mask(w, B, Hq, Lq, Lk, ring || Hkv == 1, seed + 7);
  if (one_of(4) && B > 0 && Hq > 0)
    o.block_mask = block_mask(
        [](ScoreAt at) { return (at.query / 64 + at.key / 64 + at.head) % 3 != 0 && at.key % 5 != at.batch; }, B, Hq,
        Lq, Lk);
  return w;
}

Whole converted(const Whole& w, DType storage) {
  const DType compute = storage == DType::f64 ? DType::f64 : DType::f32;
  Whole r = w;
  for (Tensor* t : {&r.q, &r.k, &r.v, &r.grad}) *t = t->to(storage);
  for (Tensor* t : {&r.options.alibi, &r.options.sinks, &r.backward.grad_lse})
    if (t->defined()) *t = t->to(compute);
  if (r.additive()) r.options.mask = r.options.mask.to(compute);
  return r;
}

/// A mask goes where nobody could tell one row for all from a row for each query.
OverRanks random_layout(Whole& w, Meeting meeting, int ranks) {
  const int64_t step = w.options.block_mask && (meeting == Meeting::ring || one_of(2)) ? kTile : 1;
  OverRanks over;
  over.meeting = meeting;
  over.queries = random_split(w.q.size(w.rows), ranks, step);
  over.keys = random_split(w.k.size(w.rows), ranks, step);
  bool single = true;
  for (int rank = 0; rank < ranks; ++rank) single = single && over.queries.rows(rank) == 1;
  if (single && ranks > 1 && !w.mask_rows) w.options.mask = {}, w.backward.want_mask = false;
  return over;
}

/// What a failed case says of itself.
std::string describe(const Whole& w, const OverRanks& over, int ranks) {
  std::ostringstream text;
  text << explain(w.q, w.k, w.v, w.options) << "\n" << ranks << " ranks; queries:";
  for (const Split::Piece& p : over.queries.pieces()) text << ' ' << p.rank << ':' << p.begin << '-' << p.end;
  text << "; keys:";
  for (const Split::Piece& p : over.keys.pieces()) text << ' ' << p.rank << ':' << p.begin << '-' << p.end;
  if (w.backward.grad_lse.defined()) text << "; grad_lse";
  if (w.mask_rows) text << "; the mask has rows";
  return text.str();
}

int random_ranks() { return *rc::gen::element(1, 2, 3, 4, 8); }

void has_the_bits_of_one(Meeting meeting) {
  const DType storage = *rc::gen::element(DType::f32, DType::f64, DType::bf16);
  Whole w = converted(random_whole(meeting), storage);
  const int ranks = random_ranks();
  const OverRanks over = random_layout(w, meeting, ranks);
  RC_LOG() << describe(w, over, ranks) << "\n";
  const auto expected = on_one(w).all(), found = on_ranks(w, over, ranks).all();
  for (size_t n = 0; n < found.size(); ++n) {
    RC_ASSERT(expected[n].second.defined() == found[n].second.defined());
    if (!found[n].second.defined() || same_bits(found[n].second, expected[n].second)) continue;
    RC_LOG() << found[n].first << " differs by " << max_error(found[n].second, expected[n].second);
    RC_FAIL("other bits");
  }
}

RC_GTEST_PROP(AttentionOverRanks, ExactHasTheBitsOfOne, ()) { has_the_bits_of_one(Meeting::exact); }

RC_GTEST_PROP(AttentionOverRanks, HeadsHaveTheBitsOfOne, ()) { has_the_bits_of_one(Meeting::heads); }

RC_GTEST_PROP(AttentionOverRanks, RingIsOneInDouble, ()) {
  Whole w = random_whole(Meeting::ring);
  const int ranks = random_ranks();
  const OverRanks over = random_layout(w, Meeting::ring, ranks);
  RC_LOG() << describe(w, over, ranks) << "\n";
  const auto expected = on_one(w).all(), found = on_ranks(w, over, ranks).all();
  for (size_t n = 0; n < found.size(); ++n) {
    RC_ASSERT(expected[n].second.defined() == found[n].second.defined());
    if (!found[n].second.defined()) continue;
    RC_LOG() << found[n].first << ": " << max_error(found[n].second, expected[n].second) << "\n";
    RC_ASSERT(max_error(found[n].second, expected[n].second) <= 1e-11 * (1 + max_abs(expected[n].second)));
  }
}

/// Against what double computes from the same numbers. One machine that happens to be lucky is not the measure: so is
/// what a value moves by where lse, a factor on all of a row's weights, moves by its rounding.
RC_GTEST_PROP(AttentionOverRanks, RingErrsAtMostTwiceAsMuch, ()) {
  const DType storage = *rc::gen::element(DType::f32, DType::bf16);
  Whole w = converted(random_whole(Meeting::ring), storage);
  w.options.implementation = Implementation::automatic;  // the reference sums in double
  const int ranks = random_ranks();
  const OverRanks over = random_layout(w, Meeting::ring, ranks);
  RC_LOG() << describe(w, over, ranks) << "\n";
  const auto exact = on_one(converted(w, DType::f64)).all(), one = on_one(w).all(),
             found = on_ranks(w, over, ranks).all();
  const double factor = 1 + max_abs(exact[1].second);  // of lse
  for (size_t n = 0; n < found.size(); ++n) {
    if (!found[n].second.defined()) continue;
    const double error = max_error(found[n].second, exact[n].second),
                 of_one = max_error(one[n].second, exact[n].second);
    RC_LOG() << found[n].first << ": " << error << ", on one " << of_one << "\n";
    RC_ASSERT(error <=
              2 * of_one + 4 * test::epsilon(found[n].second.dtype()) * factor * (1 + max_abs(exact[n].second)));
  }
}

/// Row 2 n of the mask is x, row 2 n + 1 is -x: of a whole row, one rank's keys know nothing of the others' share.
template <class T>
void large_masks_keep_the_shares(const std::vector<T>& sizes) {
  constexpr DType kType = dtype_of<T>();
  constexpr int64_t Lq = 80, Lk = 100;
  Whole w;
  const auto integers = [](const Dims& shape, uint64_t seed) {  // scores that no order of summing rounds
    const Tensor t = random_tensor(shape, seed, kType);
    for (T& x : t.span<T>()) x = std::round(x);
    return t;
  };
  w.q = integers({1, 2, Lq, 4}, 1), w.k = integers({1, 2, Lk, 4}, 2);
  w.v = integers({1, 2, Lk, 4}, 3), w.grad = integers({1, 2, Lq, 4}, 4);
  w.options.scale = 1;
  w.options.want_lse = true;
  w.options.mask = Tensor::empty({1, 2, Lq, Lk}, kType);
  for (int64_t n = 0; n < w.options.mask.numel(); ++n) {
    const int64_t row = n / Lk % Lq;
    w.options.mask.data<T>()[n] = (row % 2 ? -1 : 1) * sizes[static_cast<size_t>(row / 2) % sizes.size()];
  }
  w.mask_rows = w.backward.want_mask = true;
  w.backward.grad_lse = random_tensor({1, 2, Lq}, 5, kType);
  const auto one = on_one(w).all();
  for (const T x : one[2].second.span<T>()) ASSERT_TRUE(std::isfinite(x));
  for (const Meeting meeting : {Meeting::exact, Meeting::heads, Meeting::ring})
    for (const int ranks : {2, 3}) {
      const OverRanks over{Split::contiguous(Lq, ranks), Split::zigzag(Lk, ranks), meeting};
      const auto found = on_ranks(w, over, ranks).all();
      const double near = 16 * test::epsilon(kType);
      for (size_t n = 0; n < found.size(); ++n) {
        const auto& [name, value] = found[n];
        if (!value.defined()) continue;
        const Tensor &x = value.contiguous(), &y = one[n].second.contiguous();
        for (int64_t i = 0; n == 1 && i < x.numel(); ++i)
          EXPECT_NEAR(x.data<T>()[i] / y.data<T>()[i], 1, near) << name << ", " << ranks << " ranks";
        if (n != 1) {
          EXPECT_LE(max_error(x, y), near * (1 + max_abs(y))) << name << ", " << ranks << " ranks";
        }
      }
    }
}

TEST(AttentionOverRanks, LargeMasksKeepTheSharesOfAllRanks) {
  large_masks_keep_the_shares<float>({1, 1e3f, 1e6f, 1e9f, 4294967295.0f, 1e20f, 1e30f, 3.4e38f});
  large_masks_keep_the_shares<double>({1, 1e9, 1e15, 1e18, 1e20, 3.4e38, 1e300, 1.7e308});
}

}  // namespace
}  // namespace heed
