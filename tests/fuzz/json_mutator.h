// Mutations that keep JSON valid, so that readers see documents and not broken text.
#pragma once

#include <string>
#include <string_view>

namespace heed::fuzz {

/// One or more changes of a document: values become others, members go, move and are copied, lists repeat their
/// elements up to a thousand times. At most `most` bytes. Empty where `text` is no JSON, and now and then where it is:
/// such bytes are for libFuzzer's own mutations.
std::string mutate_json(std::string_view text, size_t most, unsigned seed);

}  // namespace heed::fuzz
