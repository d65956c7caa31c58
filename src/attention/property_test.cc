// Random shapes and options: forward and backward against the textbook, what hidden numbers may change, merge().
// RC_PARAMS="seed=N" repeats a run; a failure is shrunk and printed as a Case.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <iostream>
#include <sstream>

#include "attention/testing.h"

namespace heed {
namespace {

using test::Kept;
using test::max_abs;
using test::max_error;
using test::Outputs;
using test::random_tensor;
using test::same_bits;
using test::Textbook;
using test::textbook;

/// Sizes and options as small numbers; 0 is the plainest choice of each.
struct Case {
  int B = 1, Hkv = 1, group = 1, Lq = 1, Lk = 1, D = 1, Dv = 1;
  int causal = 0, offset = 0, left = 0, right = 0;  // left, right: the window, plus 1
  int scale = 0, softcap = 0, mod = 0, mask = 0, broadcast = 0, short_mask = 0, block = 0;
  int alibi = 0, sinks = 0, lengths = 0, dropout = 0, grad_lse = 0, stage = 0, layout = 0, reference = 0, seed = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << "B " << c.B << " Hkv " << c.Hkv << " group " << c.group << " Lq " << c.Lq << " Lk " << c.Lk << " D " << c.D
      << " Dv " << c.Dv;
  const std::pair<const char*, int> options[] = {{"causal", c.causal},
                                                 {"offset", c.offset},
                                                 {"left+1", c.left},
                                                 {"right+1", c.right},
                                                 {"scale", c.scale},
                                                 {"softcap", c.softcap},
                                                 {"mod", c.mod},
                                                 {"mask", c.mask},
                                                 {"block", c.block},
                                                 {"broadcast", c.broadcast},
                                                 {"alibi", c.alibi},
                                                 {"sinks", c.sinks},
                                                 {"lengths", c.lengths},
                                                 {"short_mask", c.short_mask},
                                                 {"dropout", c.dropout},
                                                 {"grad_lse", c.grad_lse},
                                                 {"stage", c.stage},
                                                 {"layout", c.layout},
                                                 {"reference", c.reference},
                                                 {"seed", c.seed}};
  for (const auto& [name, value] : options)
    if (value != 0) out << ' ' << name << ' ' << value;
  return out;
}

/// A call in double, with the memory it is to be made from.
struct Call : test::Call {
  int layout = 0;  // 1: scattered, outputs too; 2: q, k and v in one tensor; 3: v is k; 4: k and v shared by the batch
};

void set_mod(int kind, Call& call) {
  if (kind == 1) {  // a relative bias
    call.options.score_mod =
        score_mod([](auto score, ScoreAt at) { return score + 0.03125f * static_cast<float>(at.key - at.query); });
    call.mod = [](double s, ScoreAt at) { return test::Rules::Scored{s + 0.03125 * (at.key - at.query), 1}; };
  } else if (kind == 2) {  // not linear, another for each head and entry
    call.options.score_mod = score_mod([](auto score, ScoreAt at) {
      return score * score * (0.0625f * static_cast<float>(1 + at.head % 3)) - score * static_cast<float>(at.batch);
    });
    call.mod = [](double s, ScoreAt at) {
      const double a = 0.0625 * (1 + at.head % 3), b = at.batch;
      return test::Rules::Scored{a * s * s - b * s, 2 * a * s - b};
    };
  }
}

BlockMask block_of(int kind, int64_t B, int64_t Hq, int64_t Lq, int64_t Lk) {
  switch (kind) {
    case 1:  // documents
      return block_mask([](ScoreAt at) { return at.query / 24 == at.key / 24; }, 1, 1, Lq, Lk);
    case 2:  // a prefix, and what is behind
      return block_mask([](ScoreAt at) { return at.key < 10 || at.key <= at.query; }, 1, 1, Lq, Lk);
    case 3:  // whole tiles, another pattern for each head and entry
      return block_mask([](ScoreAt at) { return (at.query / 64 + at.key / 64 + at.head + at.batch) % 2 == 0; }, B, Hq,
                        Lq, Lk);
    default:
      return {};
  }
}

Call make_call(const Case& c) {
  const auto seed = static_cast<uint64_t>(c.seed) * 16;
  // The arithmetic of a case is bounded: batches and groups go first.
  int64_t B = c.B, group = c.group, Hkv = c.Hkv;
  const int64_t work = int64_t{1} * c.Lq * c.Lk * (c.D + c.Dv);
  if (work * B * group * Hkv > 3000000) B = 1;
  if (work * group * Hkv > 3000000) group = 1;
  if (work * Hkv > 3000000) Hkv = 1;
  const int64_t Hq = Hkv * group, Lq = c.Lq, Lk = c.Lk, D = c.D;
  Call call;
  call.layout = c.layout;
  if ((c.layout == 2 && (group != 1 || Lq != Lk || c.D != c.Dv)) || (c.layout == 3 && c.D != c.Dv)) call.layout = 1;
  call.q = random_tensor({B, Hq, Lq, D}, seed);
  call.k = random_tensor({B, Hkv, Lk, D}, seed + 1);
  call.v = random_tensor({B, Hkv, Lk, c.Dv}, seed + 2);
  call.grad = random_tensor({B, Hq, Lq, c.Dv}, seed + 3);
  if (c.grad_lse) call.grad_lse = random_tensor({B, Hq, Lq}, seed + 4);
  if (call.layout == 3) call.v = call.k;
  if (call.layout == 4) {
    call.k = call.k.slice(0, 0, 1).expand(call.k.shape());
    call.v = call.v.slice(0, 0, 1).expand(call.v.shape());
  }

  AttentionOptions& o = call.options;
  o.causal = static_cast<Causal>(c.causal);
  if (o.causal != Causal::bottom_right) o.offset = c.offset;
  o.window = {c.left - 1, c.right - 1};
  if (c.scale) o.scale = c.scale == 1 ? 0.3 : -0.05;
  if (c.softcap) o.softcap = 0.5 * c.softcap;
  set_mod(c.mod, call);
  o.block_mask = block_of(c.block, B, Hq, Lq, Lk);
  if (c.alibi) o.alibi = random_tensor({Hq}, seed + 5, DType::f64, 0.1);
  if (c.sinks) o.sinks = random_tensor({Hq}, seed + 6);
  if (c.dropout) o.dropout = 0.3 * c.dropout, o.seed = seed, o.stream = 5;
  std::mt19937_64 random(seed + 7);
  if (c.lengths) {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < B; ++b) lengths.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(Lk + 1)));
    o.key_lengths = Tensor::from(lengths, {B});
    if (c.lengths == 2) o.key_lengths = o.key_lengths.to(DType::i32);
  }
  if (c.mask) {
    const auto size = [&](int bit, int64_t n) { return c.broadcast >> bit & 1 ? 1 : n; };
    Dims shape{size(0, B), size(1, Hq), size(2, Lq), size(3, Lk)};
    if (c.short_mask && shape[3] > 2) shape[3] = 2 + c.short_mask % (shape[3] - 2);
    const Tensor values = random_tensor(shape, seed + 8);
    if (c.mask == 1) {
      o.mask = Tensor::zeros(shape, DType::boolean);
      for (int64_t i = 0; i < values.numel(); ++i) o.mask.data<bool>()[i] = values.data<double>()[i] > -0.7;
    } else {
      if (c.mask == 3)
        for (double& x : values.span<double>())
          if (x < -0.7) x = -INFINITY;
      o.mask = values;
    }
  }
  if (c.reference) o.implementation = Implementation::reference;
  if (c.stage) o.want_scores = static_cast<ScoreStage>(c.stage - 1);
  return call;
}

rc::Gen<int> towards(int plainest, rc::Gen<int> gen) {
  return rc::gen::shrink(rc::gen::resize(100, gen), [=](int x) { return rc::shrink::towards(x, plainest); });
}
/// 0 in `none` of 10 cases, otherwise 1 to `kinds`.
rc::Gen<int> option(int kinds, int none = 6) {
  return towards(0, rc::gen::weightedOneOf<int>({{static_cast<size_t>(none), rc::gen::just(0)},
                                                 {static_cast<size_t>(10 - none), rc::gen::inRange(1, kinds + 1)}}));
}
rc::Gen<int> length(int least) {
  return towards(least, rc::gen::weightedOneOf<int>({{8, rc::gen::inRange(least, 20)},
                                                     {5, rc::gen::element(15, 16, 17, 31, 32, 33, 63, 64, 65)},
                                                     {3, rc::gen::inRange(20, 140)},
                                                     {2, rc::gen::element(127, 128, 129, 191, 192, 193, 257)}}));
}
rc::Gen<int> width() {
  return towards(1, rc::gen::weightedOneOf<int>({{6, rc::gen::inRange(1, 40)},
                                                 {4, rc::gen::element(1, 3, 16, 40, 64, 65)},
                                                 {1, rc::gen::element(128, 129, 257, 512)}}));
}

rc::Gen<Case> cases() {
  using rc::gen::set;
  return rc::gen::build<Case>(
      set(&Case::B, towards(1, rc::gen::inRange(1, 4))), set(&Case::Hkv, towards(1, rc::gen::inRange(1, 3))),
      set(&Case::group, towards(1, rc::gen::inRange(1, 4))), set(&Case::Lq, length(0)), set(&Case::Lk, length(0)),
      set(&Case::D, width()), set(&Case::Dv, width()), set(&Case::causal, option(2, 5)),
      set(&Case::offset,
          towards(0, rc::gen::weightedOneOf<int>({{2, rc::gen::just(0)}, {1, rc::gen::inRange(-20, 70)}}))),
      set(&Case::left, option(90, 7)), set(&Case::right, option(40, 7)), set(&Case::scale, option(2, 7)),
      set(&Case::softcap, option(3, 7)), set(&Case::mod, option(2, 7)), set(&Case::mask, option(3)),
      set(&Case::broadcast, towards(0, rc::gen::inRange(0, 16))), set(&Case::short_mask, option(200, 7)),
      set(&Case::block, option(3, 7)), set(&Case::alibi, option(1, 7)), set(&Case::sinks, option(1, 7)),
      set(&Case::lengths, option(2, 7)), set(&Case::dropout, option(2, 7)), set(&Case::grad_lse, option(1)),
      set(&Case::stage, option(4, 7)), set(&Case::layout, option(4, 7)), set(&Case::reference, option(1, 9)),
      set(&Case::seed, towards(0, rc::gen::inRange(0, 1 << 20))));
}

/// The call with its operands kept so, in the memory that its layout asks for.
Call placed(const Call& call, const Kept& kept) {
  Call r = call;
  static_cast<test::Call&>(r) = test::converted(call, kept, call.layout == 1);
  if (call.layout == 2) {
    const Dims s = call.q.shape();  // (B, H, L, D) -> (B, L, 3, H, D)
    const Tensor packed = Tensor::zeros({s[0], s[2], 3, s[1], s[3]}, kept.q);
    for (const auto& [t, n] : {std::pair{&r.q, 0}, {&r.k, 1}, {&r.v, 2}}) {
      const Tensor view = packed.select(2, n).transpose(1, 2);
      view.copy_from(*t);
      *t = view;
    }
  } else if (call.layout == 3) {
    r.v = r.k;
  } else if (call.layout == 4) {
    r.k = r.k.slice(0, 0, 1).clone().expand(r.k.shape());
    r.v = r.v.slice(0, 0, 1).clone().expand(r.v.shape());
  }
  return r;
}

Outputs run(const Call& call) {
  const Outputs r = test::run(call);
  if (call.layout != 1) return r;
  // The same into scattered memory of the caller: the same bits.
  AttentionOptions o = call.options;
  o.want_lse = true;
  const auto blank = [](const Tensor& t) {
    return test::strided_copy(Tensor::full(t.shape(), std::numeric_limits<double>::quiet_NaN(), t.dtype()));
  };
  Outputs s = r;
  s.result.out = blank(r.result.out);
  attention(call.q, call.k, call.v, s.result, o);
  s.gradients.q = blank(call.q), s.gradients.k = blank(call.k), s.gradients.v = blank(call.v);
  attention_backward(call.grad, call.q, call.k, call.v, s.result, s.gradients, o, {.grad_lse = call.grad_lse});
  RC_ASSERT(same_bits(r.result.out, s.result.out));
  RC_ASSERT(same_bits(r.gradients.q, s.gradients.q));
  RC_ASSERT(same_bits(r.gradients.k, s.gradients.k));
  RC_ASSERT(same_bits(r.gradients.v, s.gradients.v));
  return s;
}

double longest_row(const Tensor& t) {
  double longest = 0;
  const Tensor flat = t.to(DType::f64).contiguous();
  const int64_t n = t.size(-1);
  for (int64_t i = 0; n > 0 && i < flat.numel(); i += n) {
    double sum = 0;
    for (int64_t d = 0; d < n; ++d) sum += flat.data<double>()[i + d] * flat.data<double>()[i + d];
    longest = std::max(longest, std::sqrt(sum));
  }
  return longest;
}

/// What a rounding error of 1 in every number becomes in each output: a small case may have a textbook error of 0 by
/// chance, or a result that cancels to 0.
struct Condition {
  double score = 0, value = 0, ds = 0, q = 0, k = 0, rows = 0;
  explicit Condition(const Call& call, const Textbook& exact) {
    const AttentionOptions& o = call.options;
    const double D = static_cast<double>(call.q.size(-1));
    const double scale = std::fabs(o.scale ? *o.scale : 1 / std::sqrt(D));
    score = scale * longest_row(call.q) * longest_row(call.k);
    double slope = 1;
    if (o.score_mod) slope = 2 + 0.4 * score, score = 5 + score * slope;
    if (call.additive()) score += max_abs(o.mask);
    if (o.alibi.defined())
      score += max_abs(o.alibi) * static_cast<double>(call.q.size(-2) + call.k.size(-2) + std::abs(o.offset));
    if (o.sinks.defined()) score += max_abs(o.sinks);
    value = (1 + score) / (1 - o.dropout) * max_abs(call.v);
    ds = (1 + score) * (2 * longest_row(call.grad) * longest_row(call.v) / (1 - o.dropout) +
                        (call.grad_lse.defined() ? max_abs(call.grad_lse) : 0));
    q = ds * scale * slope * max_abs(call.k);
    // Each key's share of all rows.
    const Tensor w = exact.weights;
    std::vector<double> seen(static_cast<size_t>(w.size(-1)));
    for (int64_t i = 0; i < w.numel(); ++i) seen[static_cast<size_t>(i % w.size(-1))] += w.data<double>()[i];
    for (const double x : seen) rows = std::max(rows, x);
    k = ds * scale * slope * max_abs(call.q) * rows;
    rows = static_cast<double>(exact.lse.numel());
  }
  double of(const std::string& name) const {
    if (name == "out") return value;
    if (name == "lse" || name == "weights" || name == "scores") return 1 + score;
    if (name == "dq") return q;
    if (name == "dk") return k;
    if (name == "dv") return 0;  // added by the caller: P and grad_out only
    return ds * rows;            // dmask, dsinks
  }
};

/// The rule, with the condition for what cancels; half storage has its own rounding on top.
void check_accuracy(const Call& call, const Outputs& r, const Textbook& exact, const Textbook& plain, DType storage) {
  const DType compute = test::compute_type(storage);
  const auto rounding = [](DType kept) { return kept == test::compute_type(kept) ? 0 : test::epsilon(kept); };
  const Condition condition(call, exact);
  for (const test::Accuracy& a : test::accuracies(r, exact, plain)) {
    const std::string name = a.name;
    double floor = condition.of(name);
    if (name == "dv") floor = (1 + condition.score) * max_abs(exact.dv);
    double allowed = a.allowed(test::epsilon(compute)) + 4 * test::epsilon(compute) * floor;
    // Results are rounded once, and gradients start from the rounded out. Below 2^-14 float16 has steps of 2^-24.
    const double half = rounding(storage), own = rounding(a.value.dtype());
    if (a.value.dtype() == DType::f16) allowed += 0x1p-25;
    if (name == "out" || name == "dv") allowed += half * max_abs(exact.out) + own * max_abs(a.exact);
    if (name == "dq" || name == "dk" || name == "dmask" || name == "dsinks")
      allowed += half * (floor + max_abs(a.exact)) + own * max_abs(a.exact);
    if (!(a.error() <= allowed)) {
      std::ostringstream text;
      text << name << " is off by " << a.error() << ", allowed " << allowed << "; the textbook by "
           << max_error(a.plain, a.exact) << ", largest value " << max_abs(a.exact);
      RC_FAIL(text.str());
    }
  }
}

void equals_textbook(Call call, const Kept& kept) {
  static_cast<test::Call&>(call) = test::rounded(call, kept);
  const Outputs r = run(placed(call, kept));
  if (kept.q == DType::f64) {
    check_accuracy(call, r, call.book<long double>(), call.book<double>(), kept.q);
  } else {
    check_accuracy(call, r, call.book<double>(), call.book<float>(), kept.q);
  }
}

/// f for `count` random arguments; RC_PARAMS may ask for more.
template <class F>
void check_many(int count, F&& f) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  rc::detail::TestMetadata metadata;
  metadata.id = std::string(info->test_suite_name()) + "/" + info->name();
  metadata.description = info->name();
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  if (params.maxSuccess == rc::detail::TestParams().maxSuccess) params.maxSuccess = count;
  std::cout << count << " cases, seed " << params.seed << '\n';
  const rc::detail::TestResult result = rc::detail::checkTestable(f, metadata, params);
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  EXPECT_TRUE(result.is<rc::detail::SuccessResult>()) << "seed " << params.seed << '\n' << text.str();
}

TEST(Property, DoubleEqualsTheTextbook) {
  check_many(1900, [] { equals_textbook(make_call(*cases()), DType::f64); });
}

TEST(Property, FloatEqualsTheTextbook) {
  check_many(1900, [] { equals_textbook(make_call(*cases()), DType::f32); });
}

TEST(Property, HalfStorageEqualsTheTextbook) {
  check_many(400, [] {
    const Case c = *cases();
    equals_textbook(make_call(c), *rc::gen::element(DType::f16, DType::bf16));
  });
}

/// Every combination that the call takes: k and v like q or in half beside float32, an additive mask like q or in the
/// compute type.
TEST(Property, MixedStorageEqualsTheTextbook) {
  constexpr auto f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  check_many(800, [] {
    Case c = *cases();
    if (c.layout == 2) c.layout = 1;  // one tensor has one dtype
    equals_textbook(make_call(c), *rc::gen::elementOf(std::vector<Kept>{
                                      {f32, f16, f32}, {f32, bf16, f32}, {f16, f16, f16}, {bf16, bf16, bf16}}));
  });
}

TEST(Property, HiddenNumbersChangeNoBit) {
  check_many(600, [] {
    const Case c = *cases();
    Call call = make_call(c);
    if (call.layout > 1) call.layout = 0, call.k = call.k.clone(), call.v = call.v.clone();
    if (call.options.want_scores) call.options.want_scores = ScoreStage::masked;
    const DType dtype = *rc::gen::element(DType::f32, DType::f64, DType::f16);
    const int64_t B = call.q.size(0), Hq = call.q.size(1), Lq = call.q.size(2), Hkv = call.k.size(1),
                  Lk = call.k.size(2), group = Hq / Hkv;
    // Which row of which input: q, grad, k or v.
    const int which = *rc::gen::inRange(0, 4);
    const double poison = *rc::gen::element(static_cast<double>(NAN), static_cast<double>(INFINITY), -INFINITY);
    const Tensor input = which == 0 ? call.q : which == 1 ? call.grad : which == 2 ? call.k : call.v;
    RC_PRE(input.numel() > 0 && Lq > 0 && Lk > 0);
    const int64_t b = *rc::gen::inRange<int64_t>(0, B), h = *rc::gen::inRange<int64_t>(0, input.size(1)),
                  row = *rc::gen::resize(100, rc::gen::inRange<int64_t>(0, input.size(2))),
                  d = *rc::gen::inRange<int64_t>(0, input.size(3));
    const Outputs clean = run(placed(call, dtype));
    input.at<double>(b, h, row, d) = poison;
    const Outputs got = run(placed(call, dtype));

    std::vector<char> rows(static_cast<size_t>(B * Hq * Lq)), keys(static_cast<size_t>(B * Hkv * Lk)),
        heads(static_cast<size_t>(Hq));
    const auto n = [](int64_t x) { return static_cast<size_t>(x); };
    for (int64_t head = 0; head < Hq; ++head) {
      const int64_t hk = head / group;
      if (which < 2 ? head != h : hk != h) continue;
      const test::Rules rules(call.options, b, head, B, Hq, Lq, Lk);
      for (int64_t i = 0; i < Lq; ++i) {
        bool any = false;  // whether row i is reached
        for (int64_t j = 0; j < Lk; ++j) any = any || ((which < 2 ? i == row : j == row) && rules.open(i, j));
        if (!any) continue;
        rows[n((b * Hq + head) * Lq + i)] = heads[n(head)] = 1;
        for (int64_t j = 0; j < Lk; ++j)
          if (rules.open(i, j)) keys[n((b * Hkv + hk) * Lk + j)] = 1;
      }
    }
    // Rows of `a` and `b`, the leading dimensions in one, are equal but where `reached`.
    const auto same = [&](const char* name, const Tensor& x, const Tensor& y, const std::vector<char>& reached) {
      if (!x.defined() || x.numel() == 0) return;
      const auto flat = [&](const Tensor& t) {
        const int64_t count = static_cast<int64_t>(reached.size());
        return t.contiguous().reshape({count, t.numel() / count});
      };
      for (size_t i = 0; i < reached.size(); ++i) {
        const int64_t at = static_cast<int64_t>(i);
        if (!reached[i] && !same_bits(flat(x).select(0, at), flat(y).select(0, at)))
          RC_FAIL(std::string(name) + " changed in row " + std::to_string(i) + ", input " + std::to_string(which) +
                  " (" + std::to_string(b) + ", " + std::to_string(h) + ", " + std::to_string(row) + ")");
      }
    };
    const auto none = [](const std::vector<char>& like) { return std::vector<char>(like.size(), 0); };
    const bool scores = which == 0 || which == 2;  // grad and v reach no score
    same("out", clean.result.out, got.result.out, which == 1 ? none(rows) : rows);
    for (const auto& [x, y] : {std::pair{clean.result.lse, got.result.lse},
                               {clean.result.weights, got.result.weights},
                               {clean.result.scores, got.result.scores}})
      same("lse, weights or scores", x, y, scores ? rows : none(rows));
    same("dq", clean.gradients.q, got.gradients.q, rows);
    same("dk", clean.gradients.k, got.gradients.k, keys);
    same("dv", clean.gradients.v, got.gradients.v, which == 3 ? none(keys) : keys);
    same("dsinks", clean.gradients.sinks, got.gradients.sinks, heads);
    if (std::count(rows.begin(), rows.end(), 1) == 0 && clean.gradients.mask.defined())
      RC_ASSERT(same_bits(clean.gradients.mask, got.gradients.mask));
  });
}

TEST(Property, RaggedEqualsTheTextbook) {
  check_many(500, [] {
    Case c = *cases();
    c.mask = c.lengths = c.block = c.layout = c.stage = 0;
    Call call = make_call(c);
    const int64_t Hq = call.q.size(1), Hkv = call.k.size(1);
    std::vector<int64_t> q_offsets{0}, k_offsets{0};
    const int entries = *rc::gen::inRange(1, 6);
    for (int b = 0; b < entries; ++b) {
      q_offsets.push_back(q_offsets.back() + *rc::gen::resize(100, rc::gen::inRange(0, c.Lq + 1)));
      k_offsets.push_back(k_offsets.back() + *rc::gen::resize(100, rc::gen::inRange(0, c.Lk + 1)));
    }
    const auto seed = static_cast<uint64_t>(c.seed) * 16;
    call.q = random_tensor({q_offsets.back(), Hq, c.D}, seed);
    call.k = random_tensor({k_offsets.back(), Hkv, c.D}, seed + 1);
    call.v = random_tensor({k_offsets.back(), Hkv, c.Dv}, seed + 2);
    call.grad = random_tensor({q_offsets.back(), Hq, c.Dv}, seed + 3);
    if (c.grad_lse) call.grad_lse = random_tensor({Hq, q_offsets.back()}, seed + 4);
    call.options.q_offsets = Tensor::from(q_offsets, {entries + 1});
    call.options.k_offsets = Tensor::from(k_offsets, {entries + 1});
    call.layout = *rc::gen::inRange(0, 2);
    equals_textbook(call, *rc::gen::element(DType::f32, DType::f64));
  });
}

TEST(Property, MergeOfAnySplitIsTheWhole) {
  check_many(400, [] {
    Case c = *cases();
    c.mod = c.block = c.dropout = c.short_mask = c.stage = c.layout = 0;  // what counts keys, or draws for them
    if (c.causal == 2) c.causal = 1;
    Call call = make_call(c);
    const int64_t Lk = call.k.size(2), cut = *rc::gen::resize(100, rc::gen::inRange<int64_t>(0, Lk + 1));
    const auto part = [&](int64_t begin, int64_t end, bool sinks) {
      AttentionOptions o = call.options;
      o.offset -= begin;
      o.want_lse = true;
      if (!sinks) o.sinks = {};
      if (o.mask.defined() && o.mask.size(3) > 1) o.mask = o.mask.slice(3, begin, end);
      if (o.key_lengths.defined()) {
        o.key_lengths = o.key_lengths.to(DType::i64).clone();
        for (int64_t& n : o.key_lengths.span<int64_t>()) n = std::clamp<int64_t>(n - begin, 0, end - begin);
      }
      return attention(call.q, call.k.slice(2, begin, end), call.v.slice(2, begin, end), o);
    };
    const AttentionResult whole = part(0, Lk, true), first = part(0, cut, true), second = part(cut, Lk, false);
    const AttentionResult joined = merge(first, second);
    RC_ASSERT(max_error(joined.out, whole.out) <= 1e-13 * (1 + max_abs(call.v)));
    RC_ASSERT(max_error(joined.lse, whole.lse) <= 1e-13 * (10 + max_abs(whole.lse)));
  });
}

}  // namespace
}  // namespace heed
