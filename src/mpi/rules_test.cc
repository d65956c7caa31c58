// Attention over ranks: splits, what is sent, ranks that fail or are slow, what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "attention/testing.h"
#include "heed/attention_over_ranks.h"
#include "heed/score_mod.h"
#include "ranks/testing.h"

namespace heed {
namespace {

using mpi::Meeting;
using mpi::OverRanks;
using test::random_tensor;
using test::refusal;
using test::same_bits;

std::vector<int64_t> cuts(const Split& split) {
  std::vector<int64_t> list{0};
  for (const Split::Piece& piece : split.pieces()) list.push_back(piece.end);
  return list;
}

TEST(Split, IsAsEvenAsItsCutsLetItBe) {
  EXPECT_EQ(cuts(Split::contiguous(10, 4)), (std::vector<int64_t>{0, 3, 5, 8, 10}));
  EXPECT_EQ(cuts(Split::contiguous(1000, 4, 64)), (std::vector<int64_t>{0, 256, 512, 768, 1000}));
  EXPECT_EQ(cuts(Split::contiguous(2, 3)), (std::vector<int64_t>{0, 1, 2, 2}));
  EXPECT_EQ(cuts(Split::zigzag(8, 2)), (std::vector<int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(Split::zigzag(8, 2).of(0), (std::vector<IndexRange>{{0, 2}, {6, 8}}));
  EXPECT_EQ(Split::zigzag(8, 2).of(1), (std::vector<IndexRange>{{2, 4}, {4, 6}}));
  EXPECT_EQ(Split::contiguous(0, 2).rows(1), 0);
}

TEST(Split, TakesARanksRows) {
  const Tensor whole = Tensor::from<int64_t>({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  const Tensor own = Split({0, 3, 5, 8}, {1, 0, 1}).take(whole, 0, 1);
  EXPECT_TRUE(same_bits(own, Tensor::from<int64_t>({0, 1, 2, 5, 6, 7}, {6})));
  EXPECT_EQ(refusal([&] { Split::contiguous(9, 2).take(whole, 0, 1); }),
            "Split: a tensor (8) along dimension 0, and a sequence of 9; pass all of its rows");
}

TEST(Split, ZigzagBalancesWhatCausalQueriesSee) {
  const int64_t L = 8192;
  for (const int ranks : {2, 4, 8}) {
    const auto seen = [&](const Split& split, int rank) {  // pairs
      double pairs = 0;
      for (const IndexRange& rows : split.of(rank))
        for (int64_t i = rows.begin; i < rows.end; ++i) pairs += static_cast<double>(i + 1);
      return pairs;
    };
    const double even = static_cast<double>(L) * (L + 1) / 2 / ranks;
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_NEAR(seen(Split::zigzag(L, ranks), rank) / even, 1, 0.03) << ranks << " ranks";
    EXPECT_GT(seen(Split::contiguous(L, ranks), ranks - 1) / even, 1.4);
  }
}

TEST(Split, RefusesWhatIsNone) {
  EXPECT_EQ(refusal([] {
              Split({0, 3}, {0, 1});
            }),
            "Split: 2 cuts and 2 owners; pass an owner for each piece, and cuts from 0 to the length");
  EXPECT_EQ(refusal([] { Split({0, 3, 2}, {0, 1}); }), "Split: cut 2 is 2 after 3; cuts must not fall");
  EXPECT_EQ(refusal([] { Split({0, 3}, {-1}); }), "Split: the owner of piece 0 is -1; pass a rank from 0 on");
  EXPECT_EQ(
      refusal([] { Split::zigzag(4, 0); }),
      "Split: a length of 4 over 0 ranks in multiples of 1; pass a length from 0, and ranks and multiples from 1 on");
}

/// 4 query heads, 2 key heads, head size 8, in float.
struct Example {
  int64_t L;
  int rank = 0;
  Tensor q, k, v, grad;
  explicit Example(int64_t length)
      : L(length),
        q(random_tensor({1, 4, L, 8}, 1, DType::f32)),
        k(random_tensor({1, 2, L, 8}, 2, DType::f32)),
        v(random_tensor({1, 2, L, 8}, 3, DType::f32)),
        grad(random_tensor({1, 4, L, 8}, 4, DType::f32)) {}
};

struct Own {
  AttentionResult result;
  AttentionGradients gradients;
  Traffic forward, backward;
};

/// A word for each call tells the next rank of its options.
Traffic without_agreement(Traffic sent) { return {sent.messages - 1, sent.bytes - 8}; }

/// What one rank computes of the example.
Own of_rank(Communicator& c, const Example& e, const OverRanks& over, const AttentionOptions& o) {
  const Tensor q = over.queries.take(e.q, 2, c.rank()), grad = over.queries.take(e.grad, 2, c.rank());
  const Tensor k = over.keys.take(e.k, 2, c.rank()), v = over.keys.take(e.v, 2, c.rank());
  Own own;
  own.result = mpi::attention(c, q, k, v, over, o);
  own.forward = without_agreement(c.sent());
  own.gradients = mpi::attention_backward(c, grad, q, k, v, own.result, over, o);
  const Traffic both = without_agreement(without_agreement(c.sent()));
  own.backward = {both.messages - own.forward.messages, both.bytes - own.forward.bytes};
  return own;
}

/// The bytes of `rows` of all keys and values of the example, and of all queries and outputs.
int64_t keys(int64_t rows) { return rows * 2 * (8 + 8) * 4; }
int64_t queries(int64_t rows) { return rows * 4 * (8 + 8) * 4; }

/// What each of n ranks sends of the example in even pieces.
std::vector<Own> on_even_pieces(const Example& e, int n, Meeting meeting) {
  std::vector<Own> all(static_cast<size_t>(n));
  const Split split = Split::contiguous(e.L, n);
  run_ranks(n, [&](Communicator& c) {
    all[static_cast<size_t>(c.rank())] = of_rank(c, e, {split, split, meeting}, {.want_lse = true});
  });
  return all;
}

// docs/machines.md has the formulas. K and Q are the bytes of keys and values, and of queries and outputs.
TEST(AttentionOverRanks, SendsWhatTheFormulaSays) {
  const Example e(1024);
  const int64_t K = keys(e.L), Q = queries(e.L), lse = e.L * 4 * (4 + 4);  // with lse_low
  for (const int n : {2, 4, 8}) {
    for (const Own& own : on_even_pieces(e, n, Meeting::exact)) {
      EXPECT_EQ(own.forward.bytes, (n - 1) * K / n);
      EXPECT_EQ(own.forward.messages, 2 * (n - 1));  // a key head each
    }
    for (const Own& own : on_even_pieces(e, n, Meeting::ring)) {
      EXPECT_EQ(own.forward.bytes, (n - 1) * K / n);
      EXPECT_EQ(own.forward.messages, 2 * (n - 1));
      EXPECT_EQ(own.backward.bytes, 2 * (n - 1) * K / n);
      EXPECT_EQ(own.backward.messages, 4 * (n - 1));
    }
    // Whole heads: what a rank has of others' heads goes there, and comes back. Two key heads keep two ranks busy.
    for (const Meeting meeting : {Meeting::exact, Meeting::heads}) {
      Traffic forward, backward;
      for (const Own& own : on_even_pieces(e, n, meeting)) {
        forward.bytes += own.forward.bytes, backward.bytes += own.backward.bytes;
        backward.messages += own.backward.messages;
      }
      if (meeting == Meeting::heads) {
        EXPECT_EQ(forward.bytes, (n - 1) * (K + Q + lse) / n);
      }
      EXPECT_EQ(backward.bytes, (n - 1) * (2 * K + 2 * Q + lse) / n);
      EXPECT_EQ(backward.messages, 9 * 2 * (n - 1));  // nine tensors, between each rank with a head and the others
    }
  }
}

TEST(AttentionOverRanks, CausalKeysGoOnlyWhereTheyAreSeen) {
  const Example e(1024);
  const int n = 4;
  const Split split = Split::contiguous(e.L, n);
  for (const Meeting meeting : {Meeting::exact, Meeting::ring})
    run_ranks(n, [&](Communicator& c) {
      const Own own = of_rank(c, e, {split, split, meeting}, {.causal = Causal::top_left, .want_lse = true});
      EXPECT_EQ(own.forward.bytes, (n - 1 - c.rank()) * keys(e.L / n));
    });
}

TEST(AttentionOverRanks, ZigzagSendsThreeQuartersOfTheKeys) {
  const Example e(1024);
  for (const int n : {2, 4}) {
    const Split split = Split::zigzag(e.L, n);
    std::vector<int64_t> sent(static_cast<size_t>(n));
    run_ranks(n, [&](Communicator& c) {
      const Own own = of_rank(c, e, {split, split, Meeting::ring}, {.causal = Causal::top_left, .want_lse = true});
      sent[static_cast<size_t>(c.rank())] = own.forward.bytes;
    });
    EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), int64_t{0}), 3 * (n - 1) * keys(e.L) / 4);
  }
}

TEST(AttentionOverRanks, ZigzagDealsTheTilesEvenly) {
  const Example e(4096);
  for (const int n : {2, 4, 8}) {
    const auto work = [&](const Split& split) {  // scores that each rank computes
      std::vector<double> scores(static_cast<size_t>(n));
      run_ranks(n, [&](Communicator& c) {
        const OverRanks over{split, split, Meeting::ring};
        const AttentionOptions o{.causal = Causal::top_left, .want_lse = true};
        const auto own = [&](const Tensor& t) { return split.take(t.slice(1, 0, 1), 2, c.rank()); };
        const Tensor q = own(e.q), k = own(e.k), v = own(e.v);
        BackwardOptions backward;
        backward.visitor = score_visitor([&, c = c.rank()](const auto& tile) {
          scores[static_cast<size_t>(c)] += static_cast<double>(tile.queries) * tile.keys;
        });
        mpi::attention_backward(c, own(e.grad), q, k, v, mpi::attention(c, q, k, v, over, o), over, o, backward);
      });
      return scores;
    };
    const std::vector<double> even = work(Split::zigzag(e.L, n)), uneven = work(Split::contiguous(e.L, n));
    const double mean = std::accumulate(even.begin(), even.end(), 0.0) / n;
    for (const double scores : even) EXPECT_NEAR(scores / mean, 1, 0.03) << n << " ranks";
    EXPECT_GT(uneven.back() / mean, 1.4);
  }
}

TEST(AttentionOverRanks, InAWindowNeighboursAloneTalk) {
  const Example e(1024);
  const int n = 4;
  const Split split = Split::contiguous(e.L, n);
  for (const Meeting meeting : {Meeting::exact, Meeting::ring})
    run_ranks(n, [&](Communicator& c) {
      const AttentionOptions o{.causal = Causal::top_left, .window = {.left = 200}, .want_lse = true};
      const Own own = of_rank(c, e, {split, split, meeting}, o);
      EXPECT_EQ(own.forward.messages, c.rank() < n - 1 ? 2 : 0);  // a key head each, to the next rank
    });
}

TEST(AttentionOverRanks, SameBitsForAnyRanksSplitsThreadsAndDelays) {
  const Example e(1500);
  AttentionOptions o{.causal = Causal::top_left, .dropout = 0.1, .seed = 3, .want_lse = true};
  const AttentionResult one = attention(e.q, e.k, e.v, o);
  const AttentionGradients gradients = attention_backward(e.grad, e.q, e.k, e.v, one, o);
  const auto executor = make_executor(2);
  for (const int n : {1, 2, 3, 5}) {
    for (const bool zigzag : {false, true}) {
      const Split split = zigzag ? Split::zigzag(e.L, n) : Split::contiguous(e.L, n);
      for (const Meeting meeting : {Meeting::exact, Meeting::heads})
        run_ranks(n, [&](Communicator& c) {
          test::Delaying slow(c, c.rank() * 0.001, 1e9);
          AttentionOptions own_options = o;
          if (c.rank() % 2) own_options.executor = executor.get();
          const Own own = of_rank(slow, e, {split, split, meeting}, own_options);
          const auto expect = [&](const Tensor& found, const Tensor& whole) {
            EXPECT_TRUE(same_bits(found, split.take(whole, 2, c.rank())));
          };
          expect(own.result.out, one.out);
          expect(own.result.lse, one.lse);
          expect(own.gradients.q, gradients.q);
          expect(own.gradients.k, gradients.k);
          expect(own.gradients.v, gradients.v);
        });
    }
  }
}

TEST(AttentionOverRanks, FewQueriesAreDecodedAsOnOne) {
  const Tensor q = random_tensor({1, 4, 3, 8}, 1, DType::f32), k = random_tensor({1, 2, 900, 8}, 2, DType::f32),
               v = random_tensor({1, 2, 900, 8}, 3, DType::f32);
  const Tensor one = attention(q, k, v);
  OverRanks over{Split::contiguous(3, 2), Split::contiguous(900, 2)};
  run_ranks(2, [&](Communicator& c) {
    const Tensor own = mpi::attention(c, over.queries.take(q, 2, c.rank()), over.keys.take(k, 2, c.rank()),
                                      over.keys.take(v, 2, c.rank()), over);
    EXPECT_TRUE(same_bits(own, over.queries.take(one, 2, c.rank())));
  });
}

TEST(AttentionOverRanks, AFailureInAnyMessageEndsAll) {
  const Example e(200);
  for (const Meeting meeting : {Meeting::exact, Meeting::ring, Meeting::heads}) {
    int64_t messages = 0;
    for (bool failed = true; failed; ++messages) {
      failed = false;
      try {
        run_ranks(3, [&](Communicator& c) {
          test::Failing failing(c, messages);
          const Split split = Split::zigzag(e.L, 3);
          of_rank(c.rank() == 1 ? failing : c, e, {split, split, meeting}, {.want_lse = true});
        });
      } catch (const IoError& error) {
        failed = true;
        EXPECT_NE(std::string(error.what()).find("the cable is out; plug it in"), std::string::npos);
      }
    }
    EXPECT_GT(messages, 10);
  }
}

/// What two ranks say of a call with some arguments.
std::string says(const std::function<void(Example&, OverRanks&, AttentionOptions&)>& change,
                 const BackwardOptions& backward = {}) {
  return refusal([&] {
    run_ranks(2, [&](Communicator& c) {
      Example e(300);
      e.rank = c.rank();
      OverRanks over{Split::contiguous(300, 2), Split::contiguous(300, 2)};
      AttentionOptions o{.want_lse = true};
      e.q = over.queries.take(e.q, 2, c.rank()), e.grad = over.queries.take(e.grad, 2, c.rank());
      e.k = over.keys.take(e.k, 2, c.rank()), e.v = over.keys.take(e.v, 2, c.rank());
      change(e, over, o);
      const AttentionResult r = mpi::attention(c, e.q, e.k, e.v, over, o);
      mpi::attention_backward(c, e.grad, e.q, e.k, e.v, r, over, o, backward);
    });
  });
}

TEST(AttentionOverRanks, RefusesWhatDoesNotFit) {
  using Options = AttentionOptions;
  EXPECT_EQ(says([](Example& e, OverRanks&, Options&) { e.k = e.k.slice(2, 0, 7); }).substr(27),
            " has 7 rows, and its pieces have 150; pass this rank's rows, as Split::take has them");
  EXPECT_EQ(says([](Example&, OverRanks& over, Options&) { over.queries = Split::contiguous(300, 3); }),
            "mpi::attention: a piece of q is rank 2's, and there are 2 ranks; split it over these");
  EXPECT_EQ(
      says([](Example&, OverRanks&, Options& o) { o.want_weights = true; }),
      "mpi::attention: weights and scores have a row of all keys for each query, which no rank is to hold; compute "
      "those of the queries that matter on one rank");
  EXPECT_EQ(says([](Example&, OverRanks&, Options& o) { o.part.first_query = 1; }),
            "mpi::attention: part is set by the ranks; pass the options of the whole");
  EXPECT_EQ(says([](Example&, OverRanks&, Options& o) { o.softcap = -1; }).substr(0, 29),
            "mpi::attention: softcap is -1");
  EXPECT_EQ(says([](Example&, OverRanks&, Options& o) {
              o.mask = Tensor::zeros({7, 300});
            }).substr(0, 33),
            "mpi::attention: the mask of rank ");
  EXPECT_EQ(says([](Example&, OverRanks&, Options& o) {
              o.mask = Tensor::zeros({1, 3, 1, 300});
            }).substr(0, 58),
            "mpi::attention: a mask of shape (1, 3, 1, 300) does not br");
  EXPECT_EQ(
      says([](Example& e, OverRanks& over, Options& o) {
        over = {Split({0, 70, 300}, {0, 0}), Split({0, 300}, {0}), Meeting::ring};
        const Example whole(300);
        e.q = over.queries.take(whole.q, 2, e.rank), e.grad = e.q;
        e.k = over.keys.take(whole.k, 2, e.rank), e.v = over.keys.take(whole.v, 2, e.rank);
        o.block_mask = block_mask([](ScoreAt) { return true; }, 1, 1, 300, 300);
      }),
      "mpi::attention: a piece begins at row 70, and the block_mask has one class for a tile; cut at multiples of 64, "
      "or use Meeting::exact or heads");
  EXPECT_EQ(says([](Example&, OverRanks& over, Options& o) {
              over.meeting = Meeting::ring;
              o.q_offsets = o.k_offsets = Tensor::from<int32_t>({0, 300}, {2});
            }),
            "mpi::attention: q_offsets and k_offsets cannot be used with Meeting::ring; use Meeting::exact or heads");
  EXPECT_EQ(
      says(
          [](Example&, OverRanks&, Options& o) {
            o.mask = Tensor::zeros({1, 300});
          },
          {.want_mask = true}),
      "mpi::attention_backward: the gradient of a mask (1, 300) sums over heads that several ranks compute; pass one "
      "matrix for each head, or use Meeting::ring");
  EXPECT_EQ(says([](Example&, OverRanks&, Options&) {}, {.want_sinks = true}),
            "attention_backward: the gradient of the sinks is wanted, but there are none; pass options.sinks");
}

TEST(AttentionOverRanks, FindsRanksThatDiffer) {
  const Example e(300);
  for (const Meeting meeting : {Meeting::exact, Meeting::ring, Meeting::heads}) {
    const auto differ = [&](const Split& other, double dropout) {
      try {
        run_ranks(3, [&](Communicator& c) {
          const Split split = c.rank() == 1 ? other : Split::contiguous(300, 3);
          of_rank(c, e, {split, split, meeting}, {.dropout = c.rank() == 1 ? dropout : 0, .want_lse = true});
        });
      } catch (const RankError& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    for (const std::string& said : {differ(Split::zigzag(300, 3), 0), differ(Split::contiguous(300, 3), 0.1)})
      EXPECT_TRUE(said == "mpi::attention: ranks 0 and 1 have other sizes, splits or options; pass the same to all" ||
                  said == "mpi::attention: ranks 1 and 2 have other sizes, splits or options; pass the same to all")
          << said;
  }
}

}  // namespace
}  // namespace heed
