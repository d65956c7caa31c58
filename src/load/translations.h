// Translations as bytes, on their way from one rank to another of the same build.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "heed/translator.h"

namespace heed::inline v0 {

void append_bytes(const std::vector<Translation>& translations, std::vector<std::byte>& to);

/// What append_bytes() has put at the front, which is then gone from there.
std::vector<Translation> take_translations(std::span<const std::byte>& from);

}  // namespace heed::inline v0
