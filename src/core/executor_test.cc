#include "heed/executor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEED_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEED_SANITIZED 1
#endif
#endif

namespace heed {
namespace {

TEST(Executor, RunsEveryTileOnce) {
  for (const int width : {1, 2, 3, 8}) {
    const auto executor = make_executor(width);
    EXPECT_EQ(executor->threads(), width);
    std::vector<std::atomic<int>> seen(1000);
    parallel_for(*executor, 1000, [&](int64_t tile) { ++seen[static_cast<size_t>(tile)]; });
    for (const auto& count : seen) EXPECT_EQ(count, 1);
    parallel_for(*executor, 0, [&](int64_t) { FAIL(); });
  }
}

TEST(Executor, TakesNestedAndConcurrentCalls) {
  const auto executor = make_executor(3);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back(
        [&] { parallel_for(*executor, 10, [&](int64_t) { parallel_for(*executor, 10, [&](int64_t) { ++sum; }); }); });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(sum, 400);
}

// Other threads compute at the moment of the fork: they hold places in oneTBB's arenas and locks of the memory's pool.
TEST(Executor, AForkedProcessComputesTheSameBits) {
#if HEED_SANITIZED
  GTEST_SKIP() << "sanitizers do not follow a fork beside other threads";
#endif
  const auto before = threads();
  set_threads(4);
  const Tensor q = Tensor::full({2, 8, 100, 16}, 0.5), k = Tensor::full({2, 8, 300, 16}, 0.25);
  for (int64_t i = 0; i < k.numel(); ++i) k.data<float>()[i] = static_cast<float>(i % 97) / 97;
  const Tensor expected = attention(q, k, k).out;
  const auto same = [&] {
    const Tensor found = attention(q, k, k).out;
    return std::memcmp(found.raw(), expected.raw(), static_cast<size_t>(expected.nbytes())) == 0;
  };
  std::atomic<bool> ended{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      while (!ended) EXPECT_TRUE(same());
    });
  int right = 0;
  constexpr int kForks = 40, kRight = 7;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      bool is_right = same();
      set_threads(3);
      is_right = is_right && same() && threads() == 3;
      ::_exit(is_right ? kRight : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    right += WIFEXITED(status) && WEXITSTATUS(status) == kRight;
    if (right <= i) break;  // one that hangs takes a minute
  }
  ended = true;
  for (std::thread& other : others) other.join();
  set_threads(before);
  EXPECT_EQ(right, kForks);
}

TEST(Executor, AWiderOneGetsItsThreadsBesideANarrowerOne) {
  const auto narrow = make_executor(2), wide = make_executor(6);
  parallel_for(*narrow, 2, [](int64_t) {});
  std::mutex mutex;
  std::condition_variable all_here;
  int here = 0;
  // Six tiles that wait for each other end only if six threads run them.
  parallel_for(*wide, 6, [&](int64_t) {
    std::unique_lock lock(mutex);
    ++here;
    all_here.notify_all();
    EXPECT_TRUE(all_here.wait_for(lock, std::chrono::seconds(60), [&] { return here == 6; }));
  });
}

// Destroyed after everything that its first call of attention makes, if that has static lifetime, too.
struct Static {
  static void compute() {
    const Tensor q = Tensor::full({1, 8, 300, 16}, 0.5), k = Tensor::full({1, 2, 3000, 16}, 0.5);
    for (const Tensor& queries : {q, q.slice(2, 0, 1)}) {
      const Tensor out = attention(queries, k, k, {.causal = Causal::bottom_right}).out;
      if (out.at<float>(0, 0, 0, 0) < 0.49f) std::abort();
    }
  }
  ~Static() { compute(); }
};

TEST(ExecutorDeathTest, ComputesInDestructorsOfStaticLifetime) {
  EXPECT_EXIT(
      {
        static const Static first;
        set_threads(3);
        Static::compute();
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Executor, PassesExceptionsOn) {
  const auto executor = make_executor(2);
  EXPECT_THROW(parallel_for(*executor, 8,
                            [](int64_t tile) {
                              if (tile == 5) throw std::runtime_error("tile 5");
                            }),
               std::runtime_error);
}

TEST(Executor, TheDefaultMayChangeWhileWorkRuns) {
  const int before = threads();
  std::atomic<bool> done = false;
  std::thread worker([&] {
    for (int i = 0; i < 300; ++i) {
      std::atomic<int> sum = 0;
      parallel_for(default_executor(), 50, [&](int64_t tile) { sum += static_cast<int>(tile); });
      EXPECT_EQ(sum, 50 * 49 / 2);
    }
    done = true;
  });
  for (int width = 1; !done; width = width % 4 + 1) {
    set_threads(width);
    EXPECT_EQ(threads(), width);
  }
  worker.join();
  set_threads(before);
}

TEST(Executor, RefusesAbsurdWidths) {
  EXPECT_THROW(make_executor(-1), ShapeError);
  EXPECT_THROW(set_threads(100000), ShapeError);
}

}  // namespace
}  // namespace heed
