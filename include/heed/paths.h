// Checks of paths before long work whose result goes there. `option` begins the messages: "--output".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {

/// Whether two paths lead to the same file or directory, existing or not.
bool same_file(const std::string& path, const std::string& other);

/// Checks a file that is to be written: throws UsageError if it is one of `inputs`, IoError if no file can be made
/// there. An empty `output` passes, as pipes and devices do. "-" among the inputs is standard input.
void expect_other_file(const std::string& option, const std::string& output, const std::vector<std::string>& inputs);
/// Checks several outputs, (option, path), in the same way, and that no two of them are the same file.
void expect_other_files(const std::vector<std::pair<std::string, std::string>>& outputs,
                        const std::vector<std::string>& inputs);

/// Throws UsageError if the name of an output ends as that of another format, as in map.svg for PNG. `ending`: the
/// right one, ".png".
void expect_ending(const std::string& option, const std::string& output, const std::string& ending);

/// Throws IoError if the directory neither exists nor can be made, or if no files can be made in it.
void expect_writable_directory(const std::string& option, const std::string& directory);

/// The files that a model in a directory may consist of, sorted, existing or not; for a GGUF file, the file. Adapters
/// include the files of their base model: `base`, or the one in adapter_config.json.
std::vector<std::string> model_paths(const std::string& model, const std::string& base = {});

}  // namespace heed::inline v0
