// Translations as bytes, sent between ranks of the same build.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "heed/translator.h"

namespace heed::inline v0 {

void append_bytes(const std::vector<Translation>& translations, std::vector<std::byte>& to);

/// Reads one translation that append_bytes() wrote at the front, and removes it.
std::vector<Translation> take_translations(std::span<const std::byte>& from);

}  // namespace heed::inline v0
