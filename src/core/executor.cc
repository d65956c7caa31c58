#include "heed/executor.h"

#include <pthread.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "heed/error.h"

#if defined(__SANITIZE_THREAD__)
#define HEED_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEED_THREAD_SANITIZER 1
#endif
#endif

namespace heed::inline v0 {
namespace {

constexpr int kMaxThreads = 4096;

// A process that fork() makes has one thread, the one that called it. Where oneTBB had others, it would wait for them
// for ever there.
std::atomic<bool> has_threads{false}, lost_threads{false};

class Inline final : public Executor {
 public:
  void run(int64_t tiles, Tile function, void* context) override {
    for (int64_t tile = 0; tile < tiles; ++tile) function(context, tile);
  }
  int threads() const override { return 1; }
};

#if HEED_THREAD_SANITIZER
// oneTBB is not built for the thread sanitizer, which then takes what it hands from thread to thread for races.
template <class F>
void run_on_plain_threads(int64_t workers, const F& drain) {
  std::exception_ptr failure;
  std::mutex mutex;
  const auto guarded = [&](int64_t worker) {
    try {
      drain(worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int64_t worker = 1; worker < workers; ++worker) others.emplace_back(guarded, worker);
  guarded(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}
#endif

// Tiles are taken one by one from a counter: tiles are coarse and of unequal cost (causal blocks), and which thread
// computes a tile never changes its bits.
class Tbb final : public Executor {
 public:
  explicit Tbb(int threads) : threads_(threads), arena_(threads) {
    // oneTBB allows as many threads as cores, and the lowest limit that is alive wins: lift it once, for every
    // executor.
    static const auto* const limit = new tbb::global_control(tbb::global_control::max_allowed_parallelism, kMaxThreads);
    static_cast<void>(limit);
  }

  void run(int64_t tiles, Tile function, void* context) override {
    if (lost_threads.load(std::memory_order_relaxed)) return Inline().run(tiles, function, context);
    has_threads.store(true, std::memory_order_relaxed);
    const int64_t workers = std::min<int64_t>(threads_, tiles);
    std::atomic<int64_t> next{0};
    const auto drain = [&](int64_t) {
      for (int64_t tile; (tile = next.fetch_add(1, std::memory_order_relaxed)) < tiles;) function(context, tile);
    };
#if HEED_THREAD_SANITIZER
    run_on_plain_threads(workers, drain);
#else
    arena_.execute([&] { tbb::parallel_for(int64_t{0}, workers, drain, tbb::static_partitioner{}); });
#endif
  }
  int threads() const override { return threads_; }

 private:
  int threads_;
  tbb::task_arena arena_;
};

struct Default {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Executor>> made;  // by width, kept: work may run in one while another is chosen
  Executor* chosen = nullptr;
};

// Never destroyed, as the limit above: destructors of objects with static lifetime may compute.
Default& instance() {
  static auto* const value = new Default;
  return *value;
}

// Locks that another thread may hold at a fork() are taken for it, so that they are free in both processes after it.
[[maybe_unused]] const bool fork_is_safe = [] {
  const auto prepare = [] {
    instance().mutex.lock();
    lock_memory();
  };
  const auto parent = [] {
    unlock_memory();
    instance().mutex.unlock();
  };
  const auto child = [] {
    unlock_memory();
    instance().mutex.unlock();
    if (has_threads) lost_threads = true;
  };
  return ::pthread_atfork(prepare, parent, child) == 0;
}();

// One of its width that is there already is taken instead.
void choose(Default& d, std::unique_ptr<Executor> executor) {
  const int width = executor->threads();
  d.chosen = d.made.try_emplace(width, std::move(executor)).first->second.get();
}

int hardware_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

std::unique_ptr<Executor> make_executor(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    throw ShapeError("threads: " + std::to_string(threads) + " is not in 0..4096; 0 means one per hardware thread");
  if (threads == 0) threads = hardware_threads();
  if (threads == 1) return std::make_unique<Inline>();
  return std::make_unique<Tbb>(threads);
}

Executor& default_executor() {
  Default& d = instance();
  const std::lock_guard lock(d.mutex);
  if (!d.chosen) choose(d, make_executor(0));
  return *d.chosen;
}

void set_threads(int threads) {
  auto executor = make_executor(threads);
  Default& d = instance();
  const std::lock_guard lock(d.mutex);
  choose(d, std::move(executor));
}

int threads() { return default_executor().threads(); }

}  // namespace heed::inline v0
