// The executor of a page, which has one thread whatever is asked for: in the place of src/core/executor.cc, without
// oneTBB.
#include "heed/executor.h"

namespace heed::inline v0 {
namespace {

class Inline final : public Executor {
 public:
  void run(int64_t tiles, Tile function, void* context) override {
    for (int64_t tile = 0; tile < tiles; ++tile) function(context, tile);
  }
  int threads() const override { return 1; }
};

}  // namespace

std::unique_ptr<Executor> make_executor(int) { return std::make_unique<Inline>(); }

Executor& default_executor() {
  static Inline executor;
  return executor;
}

void set_threads(int) {}

int threads() { return 1; }

}  // namespace heed::inline v0
