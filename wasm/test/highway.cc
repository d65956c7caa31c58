// What the tests call of Highway's library, which is none of WebAssembly.
#include <hwy/targets.h>

namespace hwy {

int64_t SupportedTargets() { return HWY_STATIC_TARGET; }

}  // namespace hwy
