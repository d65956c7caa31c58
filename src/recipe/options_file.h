// Options of a training in TOML: files that people write, and the one that a training keeps.
#pragma once

#include <string>
#include <string_view>

#include "heed/io.h"
#include "heed/recipe.h"

namespace heed::inline v0 {

inline constexpr uint64_t kLargestOptions = 1 << 20;  // bytes

/// The options of the text, as the file `path` has it: paths are relative to its directory. `given` has the spelling of
/// names in hints. Throws FormatError "PATH: line N: ..." for an unknown option and for a value that it does not take.
TrainingRequest parse_options(std::string_view toml, const std::string& path, const TrainingRequest& given);

/// kTrainOptionsFile of a training, which `files` of `directory` has. Throws FormatError if heed did not write it.
std::string read_kept_options(const DirectorySnapshot& files, const std::string& directory);

}  // namespace heed::inline v0
