// The sum of leaves over any number of ranks against the tree on one: bits, what is kept, what is sent.
#include "heed/tree_sum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ranks/testing.h"

namespace heed {
namespace {

/// Of very different sizes, so that another order of additions has other bits.
template <class T>
std::vector<std::vector<T>> random_leaves(int64_t leaves, int64_t length) {
  std::mt19937_64 random(static_cast<uint64_t>(leaves * 1000 + length));
  std::normal_distribution<double> normal;
  std::vector<std::vector<T>> all(static_cast<size_t>(leaves), std::vector<T>(static_cast<size_t>(length)));
  for (auto& leaf : all)
    for (T& x : leaf) x = static_cast<T>(normal(random) * std::exp(4 * normal(random)));
  return all;
}

/// The definition: neighbours are added until one is left.
template <class T>
std::vector<T> by_definition(std::vector<std::vector<T>> all) {
  for (; all.size() > 1; all.resize(all.size() / 2))
    for (size_t pair = 0; pair < all.size() / 2; ++pair)
      for (size_t i = 0; i < all[0].size(); ++i) all[pair][i] = all[2 * pair][i] + all[2 * pair + 1][i];
  return all[0];
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void expect_same_bits_on_any_number() {
  for (const int64_t leaves : {1, 2, 4, 8, 16, 64}) {
    for (const int64_t length : {0, 1, 2, 5, 37}) {
      const auto all = random_leaves<T>(leaves, length);
      const std::vector<T> expected = by_definition(all);
      for (const int ranks : {1, 2, 3, 4, 5, 8, 11}) {
        run_ranks(ranks, [&](Communicator& c) {
          TreeSum<T> sum(leaves, length, c.rank(), ranks);
          for (int turn = 0; turn < 2; ++turn) {  // a sum can be used again
            for (int64_t leaf = sum.leaves().begin; leaf < sum.leaves().end; ++leaf)
              sum.add(all[static_cast<size_t>(leaf)]);
            std::vector<T> total(static_cast<size_t>(length), T(7));
            sum.total(c, total);
            EXPECT_TRUE(same_bits(total, expected)) << leaves << " leaves, " << ranks << " ranks";
          }
        });
      }
    }
  }
}

TEST(Leaves, AreDealtEvenlyAndAlikeInEachPart) {
  for (const int64_t leaves : {0, 1, 2, 5, 8, 16})
    for (const int ranks : {1, 2, 3, 5, 8, 20}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const IndexRange own = leaves_of(leaves, rank, ranks);
        EXPECT_EQ(own.begin, next);
        EXPECT_GE(own.size(), leaves / ranks);
        EXPECT_LE(own.size(), (leaves + ranks - 1) / ranks);
        next = own.end;
        for (const int parts : {2, 4, 6})
          for (int part = 0; part < parts; ++part)
            EXPECT_EQ(leaves_of(parts * leaves, part * ranks + rank, parts * ranks),
                      (IndexRange{part * leaves + own.begin, part * leaves + own.end}));
      }
      EXPECT_EQ(next, leaves);
      if (leaves > 0) {
        EXPECT_GT(leaves_of(leaves, 0, ranks).size(), 0);
      }
    }
}

TEST(TreeSum, SameBitsForAnyNumberOfRanks) {
  expect_same_bits_on_any_number<float>();
  expect_same_bits_on_any_number<double>();
}

TEST(TreeSum, OrdersMatter) {  // else the test above shows nothing
  auto all = random_leaves<float>(16, 37);
  const std::vector<float> expected = by_definition(all);
  std::rotate(all.begin(), all.begin() + 1, all.end());
  EXPECT_FALSE(same_bits(by_definition(all), expected));
}

TEST(TreeSum, SlicesAreAllOfIt) {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    for (const int64_t length : {0, 1, 3, 8, 29}) {
      std::vector<int> seen(static_cast<size_t>(length));
      for (int rank = 0; rank < ranks; ++rank) {
        const IndexRange slice = slice_of(length, rank, ranks);
        for (int64_t i = slice.begin; i < slice.end; ++i) ++seen[static_cast<size_t>(i)];
        EXPECT_LE(slice.size(), (length + ranks - 1) / ranks);
      }
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    }
  }
}

TEST(TreeSum, SlicesAreCutAtBlocks) {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    for (const int64_t length : {0, 1, 4, 29, 64}) {
      std::vector<int> seen(static_cast<size_t>(length));
      for (int rank = 0; rank < ranks; ++rank) {
        const IndexRange slice = slice_of(length, rank, ranks, 4);
        for (int64_t i = slice.begin; i < slice.end; ++i) ++seen[static_cast<size_t>(i)];
        EXPECT_TRUE(slice.size() == 0 || slice.begin % 4 == 0);
      }
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    }
  }
}

void expect_scattered_and_gathered(int ranks, int64_t block) {
  const auto all = random_leaves<float>(8, 50);
  const std::vector<float> expected = by_definition(all);
  run_ranks(ranks, [&](Communicator& c) {
    TreeSum<float> sum(8, 50, c.rank(), ranks, block);
    for (int64_t leaf = sum.leaves().begin; leaf < sum.leaves().end; ++leaf) sum.add(all[static_cast<size_t>(leaf)]);
    const IndexRange slice = slice_of(50, c.rank(), ranks, block);
    std::vector<float> own(static_cast<size_t>(slice.size()));
    sum.reduce_scatter(c, own);
    EXPECT_TRUE(same_bits(own, std::vector<float>(expected.begin() + slice.begin, expected.begin() + slice.end)));
    std::vector<float> gathered(50, -1);
    std::copy(own.begin(), own.end(), gathered.begin() + slice.begin);
    all_gather_slices<float>(c, gathered, block);
    EXPECT_TRUE(same_bits(gathered, expected));
  });
}

TEST(TreeSum, ScattersAndGathersTheSame) {
  for (const int ranks : {2, 3, 4})
    for (const int64_t block : {1, 16, 64}) expect_scattered_and_gathered(ranks, block);
}

TEST(TreeSum, SendsWhatAnUpdateNeeds) {
  constexpr int64_t kLength = 4800;
  for (const int ranks : {2, 4, 8}) {
    run_ranks(ranks, [&](Communicator& c) {
      TreeSum<float> sum(16, kLength, c.rank(), ranks);
      const std::vector<float> leaf(kLength, 1);
      for (int64_t n = 0; n < sum.leaves().size(); ++n) sum.add(leaf);
      std::vector<float> total(kLength);
      sum.total(c, total);
      EXPECT_EQ(total[5], 16);
      EXPECT_EQ(c.sent().bytes, 2 * (ranks - 1) * kLength * 4 / ranks);
      EXPECT_EQ(c.sent().messages, 2 * std::bit_width(static_cast<unsigned>(ranks - 1)));
    });
  }
}

TEST(TreeSum, RefusesWhatDoesNotFit) {
  const auto says = [](const std::function<void()>& f) {
    try {
      f();
    } catch (const ShapeError& e) {
      return std::string(e.what());
    }
    return std::string("(nothing thrown)");
  };
  EXPECT_EQ(says([] { TreeSum<float>(12, 3); }), "TreeSum: 12 leaves; pass a power of two");
  EXPECT_EQ(says([] { TreeSum<float>(0, 3); }), "TreeSum: 0 leaves; pass a power of two");
  EXPECT_EQ(says([] { TreeSum<float>(4, -1); }), "TreeSum: a length of -1; pass 0 or more");
  EXPECT_EQ(says([] { TreeSum<float>(4, 1, 2, 2); }), "TreeSum: rank 2 of 2; count from 0");
  TreeSum<float> sum(2, 3);
  const std::vector<float> leaf(3), longer(4);
  EXPECT_EQ(says([&] { sum.add(longer); }), "TreeSum: a leaf of 4 numbers; pass 3");
  sum.add(leaf);
  std::vector<float> total(3);
  run_ranks(1, [&](Communicator& c) {
    EXPECT_EQ(says([&] { sum.total(c, total); }), "reduce_scatter: rank 0 has added 1 of its 2 leaves; add them all");
    sum.add(leaf);
    EXPECT_EQ(says([&] { sum.add(leaf); }), "TreeSum: rank 0 has all its leaves, 0 to 2; end the sum first");
    EXPECT_EQ(says([&] { sum.total(c, std::span(total).first(2)); }),
              "TreeSum: the total has 3 numbers, and there is room for 2; pass as much");
  });
  run_ranks(2, [&](Communicator& c) {
    if (c.rank() == 1) return;
    EXPECT_EQ(says([&] { sum.total(c, total); }),
              "reduce_scatter: rank 0 of 2 ends a sum of rank 0 of 1; make it for this communicator");
  });
}

TEST(TreeSum, AFailureReachesAll) {
  for (const int ranks : {3, 4}) {
    std::atomic<int> ended{0};
    EXPECT_THROW(run_ranks(ranks,
                           [&](Communicator& c) {
                             test::Failing failing(c, 1);
                             Communicator& own = c.rank() == 1 ? failing : c;
                             TreeSum<double> sum(16, 100, c.rank(), ranks);
                             const std::vector<double> leaf(100, 1);
                             for (int64_t n = 0; n < sum.leaves().size(); ++n) sum.add(leaf);
                             std::vector<double> total(100);
                             ++ended;
                             sum.total(own, total);
                           }),
                 IoError);
    EXPECT_EQ(ended, ranks);
  }
}

}  // namespace
}  // namespace heed
