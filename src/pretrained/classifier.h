// What a config.json says of classes of texts or pictures.
#pragma once

#include <string>
#include <vector>

namespace heed::inline v0 {

/// The classes of a config.json, where it is that of a classifier; else none. Throws FormatError.
std::vector<std::string> classifier_labels(const std::string& config, const std::string& directory);

}  // namespace heed::inline v0
