// Classes of texts or images in a config.json.
#pragma once

#include <string>
#include <vector>

namespace heed::inline v0 {

/// The classes in a classifier's config.json; empty for other models. Throws FormatError.
std::vector<std::string> classifier_labels(const std::string& config, const std::string& directory);

}  // namespace heed::inline v0
