// Where models are, and which paths may not be one.
#pragma once

#include <string>
#include <vector>

#include "heed/paths.h"

namespace heed::cli {

/// $HEED_MODEL, or "" if it is not set. Throws IoError if it names neither a directory nor a file.
std::string model_of_environment();

/// The directory given, else $HEED_MODEL, else the bundled model: models/spa-eng in the program's directory or one of
/// the four above it (the root of a source tree), share/heed/models/spa-eng under the install prefix, or heed_spa_eng
/// beside the package that the program is installed with (python/model). Throws IoError; with --verbose it prints where
/// it looked.
std::string find_model(const std::string& given);

/// Checks --output as expect_other_file() does. Standard output must not be a file that is read either.
void expect_other_output(const std::string& output, const std::vector<std::string>& inputs);

}  // namespace heed::cli
