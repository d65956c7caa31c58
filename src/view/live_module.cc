#include "view/live_module.h"

#include <cstddef>

// The assembler reads the file: half a million numbers in a source would take a compiler seconds.
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden heed_live_module\n"
    ".hidden heed_live_module_end\n"
    ".globl heed_live_module\n"
    ".globl heed_live_module_end\n"
    "heed_live_module:\n"
    ".incbin \"" HEED_LIVE_MODULE
    "\"\n"
    "heed_live_module_end:\n"
    ".popsection\n");

extern "C" {
extern const char heed_live_module[] __attribute__((visibility("hidden")));
extern const char heed_live_module_end[] __attribute__((visibility("hidden")));
}

namespace heed::inline v0 {

std::string_view live_module() {
  return {heed_live_module, static_cast<size_t>(heed_live_module_end - heed_live_module)};
}

}  // namespace heed::inline v0
