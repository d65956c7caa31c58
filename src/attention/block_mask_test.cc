// BlockMask: classes of tiles against brute force, edges, and errors.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "heed/attention.h"

namespace heed {
namespace {

/// Every class, and every score after the mask, against the function itself.
template <class F>
void expect_brute_force(const BlockMask& mask, F f, int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
  int64_t empty = 0, tiles = 0;
  for (int32_t b = 0; b < batch; ++b)
    for (int32_t h = 0; h < heads; ++h)
      for (int32_t query = 0; query < queries; query += kTile)
        for (int32_t key = 0; key < keys; key += kTile) {
          ScoreTile<float> tile;
          tile.batch = b, tile.head = h, tile.query = query, tile.key = key;
          tile.queries = static_cast<int32_t>(std::min(queries - query, kTile));
          tile.keys = static_cast<int32_t>(std::min(keys - key, kTile));
          tile.pitch = kTile;
          std::vector<float> scores(kTile * kTile, NAN);
          tile.scores = scores.data();
          int64_t open = 0;
          for (int32_t j = 0; j < tile.keys; ++j)
            for (int32_t i = 0; i < tile.queries; ++i) {
              open += f(ScoreAt{b, h, query + i, key + j});
              scores[static_cast<size_t>(j * kTile + i)] = static_cast<float>(j - i);
            }
          const TileClass expected = open == 0                          ? TileClass::empty
                                     : open == tile.queries * tile.keys ? TileClass::full
                                                                        : TileClass::partial;
          ASSERT_EQ(mask.at(b, h, query / kTile, key / kTile), expected) << b << h << " " << query << " " << key;
          empty += expected == TileClass::empty;
          ++tiles;
          mask(tile);
          for (int32_t j = 0; j < tile.keys; ++j)
            for (int32_t i = 0; i < tile.queries; ++i)
              ASSERT_EQ(scores[static_cast<size_t>(j * kTile + i)],
                        f(ScoreAt{b, h, query + i, key + j}) ? static_cast<float>(j - i) : -INFINITY);
        }
  EXPECT_EQ(mask.sparsity(), tiles ? static_cast<double>(empty) / static_cast<double>(tiles) : 0);
}

/// A lambda, and the same as a score function that hides.
template <class F>
void expect_brute_force(F f, int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
  expect_brute_force(block_mask(f, batch, heads, queries, keys), f, batch, heads, queries, keys);
  const ScoreMod hiding = score_mod([f](auto score, auto at) { return heed::where(f(at), score, -INFINITY); });
  expect_brute_force(block_mask(hiding, batch, heads, queries, keys), f, batch, heads, queries, keys);
}

TEST(BlockMask, ClassesAreThoseOfBruteForce) {
  for (const auto& [queries, keys] :
       {std::pair<int64_t, int64_t>{1, 1}, {64, 64}, {65, 63}, {200, 130}, {17, 300}, {256, 256}, {0, 5}, {5, 0}}) {
    SCOPED_TRACE(std::to_string(queries) + " x " + std::to_string(keys));
    expect_brute_force([](auto) { return true; }, 1, 1, queries, keys);
    expect_brute_force([](auto) { return false; }, 1, 1, queries, keys);
    expect_brute_force([](auto at) { return at.key <= at.query; }, 1, 1, queries, keys);
    expect_brute_force([](auto at) { return heed::abs(at.query - at.key) <= 70 && at.key % 3 != at.query % 2; }, 1, 1,
                       queries, keys);
    expect_brute_force([](auto at) { return at.query == 199 && at.key == 129; }, 1, 1, queries, keys);
    expect_brute_force([](auto at) { return at.query != 64 || at.key != 62; }, 1, 1, queries, keys);
    expect_brute_force([](auto at) { return at.key / 64 == at.batch + at.head; }, 2, 3, queries, keys);
  }
}

TEST(BlockMask, LambdasSeeNoQueryPastTheLast) {
  std::vector<int32_t> seen(70, 0);  // the address sanitizer would tell, too
  const BlockMask mask = block_mask(
      [&seen](auto at) {
        seen.at(static_cast<size_t>(at.query)) = 1;
        return at.key < 3;
      },
      1, 1, 70, 70);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 70);
}

TEST(BlockMask, CopiesShareAndOutliveTheFirst) {
  BlockMask copy;
  EXPECT_FALSE(copy);
  {
    const std::vector<int32_t> ids(100, 7);
    const BlockMask first =
        block_mask([ids](auto at) { return ids[static_cast<size_t>(at.query)] == ids[static_cast<size_t>(at.key)]; }, 1,
                   1, 100, 100);
    copy = first;
  }
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy.at(5, 5, 1, 1), TileClass::full);  // of all entries and heads
  EXPECT_EQ(copy.queries(), 100);
}

TEST(BlockMask, ThreadsAskAtTheSameTime) {
  const BlockMask mask = block_mask([](auto at) { return at.key <= at.query; }, 1, 1, 64, 64);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        std::vector<double> scores(kTile * kTile, 1.0);
        ScoreTile<double> tile;
        tile.queries = tile.keys = 64, tile.pitch = kTile, tile.scores = scores.data();
        mask(tile);
        for (size_t at = 0; at < scores.size(); ++at)
          if (std::isinf(scores[at]) != (at / 64 > at % 64)) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BlockMask, JoinedMasksHideWhatEitherHides) {
  const ScoreMod causal = score_mod([](auto score, auto at) { return where(at.key <= at.query, score, -INFINITY); });
  const ScoreMod even = score_mod([](auto score, auto at) { return where(at.key % 2 == 0, score, -INFINITY); });
  const auto both = [](ScoreAt at) { return at.key <= at.query && at.key % 2 == 0; };
  expect_brute_force(block_mask(causal | even, 1, 1, 130, 200), both, 1, 1, 130, 200);
}

TEST(BlockMask, RefusesScoreFunctionsThatDoMoreThanHide) {
  const ScoreMod adds = score_mod([](auto score, auto at) { return score + static_cast<float>(at.key == 70); });
  EXPECT_NO_THROW(block_mask(adds, 1, 1, 10, 70));
  try {
    block_mask(adds, 1, 1, 10, 71);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "block_mask: the score function makes 1.000000 of 0 at query 0 and key 70; pass one that "
                 "leaves scores as they are or hides them with -inf");
  }
  EXPECT_THROW(block_mask(ScoreMod(), 1, 1, 1, 1), ShapeError);
}

TEST(BlockMask, RefusesSizes) {
  const auto open = [](auto) { return true; };
  const int64_t most = std::numeric_limits<int32_t>::max() - kTile;
  EXPECT_THROW(block_mask(open, 0, 1, 1, 1), ShapeError);
  EXPECT_THROW(block_mask(open, 1, -1, 1, 1), ShapeError);
  EXPECT_THROW(block_mask(open, 1, 1, -1, 1), ShapeError);
  EXPECT_THROW(block_mask(open, 1, 1, 1, -5), ShapeError);
  EXPECT_THROW(block_mask(open, 1, 1, most + 1, 1), ShapeError);
  EXPECT_THROW(block_mask(open, 1, 1, 1, int64_t{1} << 40), ShapeError);
  EXPECT_THROW(block_mask(open, most, most, most, most), ShapeError);
  try {
    block_mask(open, 1, 1, 1, -5);
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(), "block_mask: keys is -5; it must be from 0 to 2147483583");
  }
}

}  // namespace
}  // namespace heed
