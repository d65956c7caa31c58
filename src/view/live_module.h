// heed as WebAssembly, which pages with a model in them carry: wasm/heed.wasm, which scripts/build-wasm makes.
#pragma once

#include <string_view>

namespace heed::inline v0 {

std::string_view live_module();

}  // namespace heed::inline v0
