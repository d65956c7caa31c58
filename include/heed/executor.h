// Executor: the one seam for threads. Work is cut into tiles that do not depend on the number of threads, then the
// tiles are dealt out, so results never depend on that number either.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "heed/cpp20.h"

namespace heed::inline v0 {

/// Runs tile 0 .. tiles-1, each exactly once, and returns when all are done. Implement it to plug in your own pool.
/// Calls may come from several threads at once, and from inside a tile (run those inline).
class Executor {
 public:
  using Tile = void (*)(void* context, int64_t tile);
  virtual ~Executor() = default;
  virtual void run(int64_t tiles, Tile function, void* context) = 0;
  virtual int threads() const = 0;
};

/// The executor used when none is given: oneTBB with a static partition over threads(). In a process that fork() made
/// of one that had computed on several threads, work runs on the thread that asks for it, with the same results.
Executor& default_executor();
/// An executor of its own width (1 runs everything on the calling thread).
std::unique_ptr<Executor> make_executor(int threads);
/// Sets the width of the default executor; 0 means one per hardware thread. Running work continues.
void set_threads(int threads);
int threads();
/// The name of the processor, or "unknown".
std::string processor_name();

/// parallel_for(executor, n, [&](int64_t tile) { ... })
template <class F>
void parallel_for(Executor& executor, int64_t tiles, F&& f) {
  if (tiles == 1) return f(int64_t{0});
  if (tiles <= 0) return;
  using Function = std::remove_reference_t<F>;
  executor.run(
      tiles, [](void* context, int64_t tile) { (*static_cast<Function*>(context))(tile); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace heed::inline v0
