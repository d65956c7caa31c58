// What ranks say to each other, over threads: every collective, wrong calls, ranks that fail, end or wait too long.
#include "heed/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "heed/timeline.h"
#include "ranks/some_ranks.h"
#include "ranks/testing.h"

namespace heed {
namespace {

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Another for each rank, of another size; rank 1's is empty.
std::string said_by(int rank) {
  return rank == 1 ? "" : std::string(static_cast<size_t>(3 + rank), static_cast<char>('a' + rank));
}

TEST(Communicator, MovesBytes) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::atomic<int> done{0};
    run_ranks(ranks, [&](Communicator& c) {
      EXPECT_EQ(c.size(), ranks);
      const int next = (c.rank() + 1) % ranks, before = (c.rank() + ranks - 1) % ranks;
      if (ranks > 1) {
        std::string in(4, ' ');
        const std::string out = "to " + std::to_string(next);
        c.exchange("ring", bytes(out), next, std::as_writable_bytes(std::span(in)), before);
        EXPECT_EQ(in, "to " + std::to_string(c.rank()));
      }
      for (int root = 0; root < ranks; ++root) {
        std::string word = c.rank() == root ? "word" : "    ";
        c.broadcast(std::as_writable_bytes(std::span(word)), root);
        EXPECT_EQ(word, "word");
        const std::vector<std::vector<std::byte>> all = c.gather(bytes(said_by(c.rank())), root);
        ASSERT_EQ(all.size(), c.rank() == root ? static_cast<size_t>(ranks) : 0);
        for (int rank = 0; c.rank() == root && rank < ranks; ++rank)
          EXPECT_EQ(text(all[static_cast<size_t>(rank)]), said_by(rank));
      }
      const std::vector<std::vector<std::byte>> all = c.all_gather(bytes(said_by(c.rank())));
      for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(text(all[static_cast<size_t>(rank)]), said_by(rank));
      ++done;
      c.barrier();
      EXPECT_EQ(done, ranks);
    });
  }
}

TEST(Communicator, SharesValuesAndLines) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& c) {
      EXPECT_EQ(of_lead(c, 7 + c.rank()), 7);
      EXPECT_EQ(text_of_lead(c, c.rank() == 0 ? std::string("a\0b", 3) : "longer than that"), std::string("a\0b", 3));
      EXPECT_EQ(text_of_lead(c, ""), "");
      // Rank r has r numbers and lines, rank 0 none.
      std::vector<int> numbers, all_numbers;
      std::vector<std::string> lines, all_lines;
      for (int rank = 0; rank < ranks; ++rank) {
        for (int i = 0; i < rank; ++i) {
          all_numbers.push_back(10 * rank + i);
          all_lines.push_back(i == 1 ? "" : "line\n" + std::to_string(all_numbers.back()));
          if (rank != c.rank()) continue;
          numbers.push_back(all_numbers.back());
          lines.push_back(all_lines.back());
        }
      }
      EXPECT_EQ(joined(c, numbers), all_numbers);
      EXPECT_EQ(joined_lines(c, lines), all_lines);
    });
  }
}

TEST(SomeRanks, AreRanksAmongThemselves) {
  run_ranks(6, [](Communicator& all) {
    const int half = all.rank() % 2;
    SomeRanks some(all, {4 + half, half, 2 + half});
    EXPECT_EQ(some.size(), 3);
    EXPECT_EQ(some.rank(), (all.rank() / 2 + 1) % 3);
    EXPECT_EQ(of_lead(some, all.rank()), 4 + half);
    EXPECT_EQ(joined(some, std::vector{all.rank()}), (std::vector{4 + half, half, 2 + half}));
    EXPECT_GT(all.sent().bytes, 0);
  });
  run_ranks(2, [](Communicator& all) {
    EXPECT_THROW(SomeRanks(all, {1 - all.rank()}), ShapeError);
    SomeRanks alone(all, {all.rank()});
    EXPECT_THROW(alone.send({}, 1), ShapeError);
  });
}

TEST(SomeRanks, OfAFailureAllHear) {
  EXPECT_THROW(run_ranks(4,
                         [](Communicator& all) {
                           const int half = all.rank() / 2;
                           SomeRanks some(all, {2 * half, 2 * half + 1});
                           if (all.rank() == 3) throw FormatError("on rank 3");
                           some.barrier();
                           EXPECT_THROW(all.barrier(), RankError);
                         }),
               FormatError);
}

TEST(Communicator, KeepsTheOrderOfMessages) {
  run_ranks(2, [](Communicator& c) {
    int first = 1, second = 2;
    if (c.rank() == 0) {
      c.send(std::as_bytes(std::span(&first, 1)), 1);
      c.send(std::as_bytes(std::span(&second, 1)), 1);
    } else {
      int a = 0, b = 0;
      const auto of_a = c.start("first", {}, Communicator::kNobody, std::as_writable_bytes(std::span(&a, 1)), 0);
      const auto of_b = c.start("second", {}, Communicator::kNobody, std::as_writable_bytes(std::span(&b, 1)), 0);
      of_b->wait();
      of_a->wait();
      EXPECT_EQ(a, 1);
      EXPECT_EQ(b, 2);
    }
  });
}

TEST(Communicator, CountsWhatIsSent) {
  run_ranks(4, [](Communicator& c) {
    std::vector<std::byte> block(100);
    c.broadcast(block);
    const Traffic sent = c.sent();  // 0 tells 2 and 1, 2 tells 3
    EXPECT_EQ(sent.messages, c.rank() == 0 ? 2 : c.rank() == 2 ? 1 : 0);
    EXPECT_EQ(sent.bytes, 100 * sent.messages);
    c.barrier();
    EXPECT_EQ(c.sent().messages - sent.messages, 2);
    EXPECT_EQ(c.sent().bytes, sent.bytes);
  });
}

/// The message of what run_ranks throws.
std::string failure(int ranks, const std::function<void(Communicator&)>& f, double time_limit = 60) {
  try {
    run_ranks(ranks, f, time_limit);
  } catch (const Error& e) {
    return e.what();
  }
  return "(nothing thrown)";
}

TEST(Communicator, OneFailureEndsAll) {
  std::atomic<int> told{0};
  const std::string said = failure(4, [&](Communicator& c) {
    if (c.rank() == 2) throw FormatError("corpus.tsv: line 7 has no tab; write one");
    for (int call = 0; call < 2; ++call) {
      try {
        c.barrier();
        FAIL();
      } catch (const RankError& e) {
        EXPECT_STREQ(e.what(), "barrier: rank 2 has failed: corpus.tsv: line 7 has no tab; write one");
        EXPECT_TRUE(e.elsewhere());
        ++told;
      }
    }
    c.barrier();
  });
  EXPECT_EQ(said, "corpus.tsv: line 7 has no tab; write one");
  EXPECT_EQ(told, 6);
}

TEST(Communicator, FailsInAnyMessage) {
  for (int64_t message = 0; message < 6; ++message) {
    const std::string said = failure(3, [&](Communicator& c) {
      test::Failing failing(c, message);
      Communicator& own = c.rank() == 1 ? failing : c;
      for (int i = 0; i < 4; ++i) own.barrier();
    });
    EXPECT_EQ(said, "barrier: the cable is out; plug it in");
  }
}

TEST(Communicator, NobodyWaitsForever) {
  const auto waits_for_one_byte = [](Communicator& c) {
    std::byte never{};
    c.receive(std::span(&never, 1), 1 - c.rank());
  };
  const std::string late = failure(2, waits_for_one_byte, 0.05);
  EXPECT_TRUE(late ==
                  "receive: rank 0 has waited 0.05 s for rank 1; see whether rank 1 still runs, or set a longer time "
                  "limit" ||
              late ==
                  "receive: rank 1 has waited 0.05 s for rank 0; see whether rank 0 still runs, or set a longer time "
                  "limit")
      << late;
  EXPECT_EQ(failure(2,
                    [&](Communicator& c) {
                      if (c.rank() == 0) waits_for_one_byte(c);
                    }),
            "receive: rank 0 waits for rank 1, which has ended; let all ranks make the same calls");
}

TEST(Communicator, OtherCallsAreFound) {
  EXPECT_EQ(failure(2,
                    [](Communicator& c) {
                      std::vector<std::byte> block(c.rank() == 0 ? 40 : 80);
                      c.broadcast(block);
                    }),
            "broadcast: rank 0 sent 40 bytes and rank 1 expects 80; start all ranks with the same options and data");
}

TEST(Communicator, FindsRanksThatDiffer) {
  run_ranks(3, [](Communicator& c) { c.require_same("train", "abc", "the data", "give all the same"); });
  EXPECT_EQ(failure(3,
                    [](Communicator& c) {
                      c.require_same("train", c.rank() == 2 ? "abd" : "abc", "the data", "give all the same");
                    }),
            "train: the data of rank 0 is 'abc' and of rank 2 'abd'; give all the same");
}

TEST(Communicator, RefusesRanksThatAreNot) {
  EXPECT_EQ(failure(2, [](Communicator& c) { c.send({}, 2); }).substr(0, 20), "send: rank 2 of 2, f");
  EXPECT_EQ(failure(1, [](Communicator& c) { c.send({}, 0); }),
            "send: rank 0 of 1, from rank 0; pass another of 0 to 0");
  EXPECT_EQ(failure(1, [](Communicator& c) { c.broadcast({}, 3); }),
            "broadcast: rank 3 of 1, from rank 0; pass another of 0 to 0");
  EXPECT_EQ(failure(0, [](Communicator&) {}), "run_ranks: 0 ranks; pass 1 or more");
}

TEST(Communicator, NotesItsMessagesInATimeline) {
  run_ranks(2, [](Communicator& c) {
    Timeline timeline;
    const std::unique_ptr<Communicator> noted = timed(c, timeline);
    const int other = 1 - c.rank();
    std::string out(static_cast<size_t>(16 + c.rank()), 'a'), in(static_cast<size_t>(16 + other), ' ');
    noted->barrier();
    timeline.begin();
    const auto transfer = noted->start("swap", bytes(out), other, std::as_writable_bytes(std::span(in)), other);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    transfer->wait();
    timeline.end();
    noted->barrier();
    EXPECT_EQ(in, std::string(in.size(), 'a'));
    const std::vector<Timeline::Span> spans = timeline.spans();
    ASSERT_EQ(spans.size(), 2u);
    EXPECT_EQ(spans[0].kind, Timeline::Kind::message);
    EXPECT_EQ(spans[1].kind, Timeline::Kind::wait);
    for (const Timeline::Span& span : spans) {
      EXPECT_EQ(span.name, "swap");
      EXPECT_EQ(span.thread, 0);
      EXPECT_EQ(std::pair(span.to, span.from), std::pair(other, other));
      EXPECT_EQ(std::pair(span.sent, span.received), std::pair(std::ssize(out), std::ssize(in)));
      EXPECT_EQ(span.end, spans[0].end);
    }
    EXPECT_GE(spans[0].begin, 0);
    EXPECT_GE(spans[1].begin - spans[0].begin, 0.02);  // it was on its way before it was waited for
  });
}

TEST(Communicator, DelaysAsAsked) {
  using Clock = std::chrono::steady_clock;
  run_ranks(2, [](Communicator& c) {
    test::Delaying slow(c, 0.02, 1e6);
    std::vector<Clock::time_point> sent(4000), received(4000);  // 32,000 bytes
    sent[7] = Clock::now();
    slow.exchange("swap", std::as_bytes(std::span(sent)), 1 - c.rank(), std::as_writable_bytes(std::span(received)),
                  1 - c.rank());
    EXPECT_GE(Clock::now() - received[7], std::chrono::milliseconds(52));
  });
}

}  // namespace
}  // namespace heed
