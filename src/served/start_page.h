// The page of heed serve before there is a text.
#pragma once

#include <string>

namespace heed::inline v0 {

/// Asks for a text, in English or, where `languages` (as browsers tell them) prefers it, in Spanish.
std::string start_page(const std::string& model, const std::string& languages);

}  // namespace heed::inline v0
