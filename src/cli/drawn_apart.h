#pragma once

#include <functional>
#include <string>

namespace heed::cli {

/// What `draw` gives, drawn in a process of its own: where memory is short, GLib ends the process and fontconfig reads
/// behind a null. Throws what `draw` throws, and MemoryError when its process ended early.
std::string drawn_apart(const std::function<std::string()>& draw);

}  // namespace heed::cli
