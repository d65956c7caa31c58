// Where models are, and which paths may not be one.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace heed::cli {

/// $HEED_MODEL, or "" if it is not set. Throws IoError if it names neither a directory nor a file.
std::string model_of_environment();

/// The directory given, else $HEED_MODEL, else the bundled model: models/spa-eng in the program's directory or one of
/// the four above it (the root of a source tree), share/heed/models/spa-eng under the install prefix, or heed_spa_eng
/// beside the package that the program is installed with (python/model). Throws IoError; with --verbose it prints where
/// it looked.
std::string find_model(const std::string& given);

/// Whether two paths lead to one file or directory, there already or not.
bool same_file(const std::string& path, const std::string& other);

/// Checks a file before the work whose result it is to hold: throws UsageError where it is one of the files that are
/// read, IoError where no file can be made there. Empty names are none, "-" is standard input. `option` names it. Pipes
/// and devices pass.
void expect_other_file(const char* option, const std::string& output, const std::vector<std::string>& inputs);

/// Checks --output as expect_other_file() does. Standard output must not be a file that is read either.
void expect_other_output(const std::string& output, const std::vector<std::string>& inputs);

/// Throws UsageError if the name of a file that `option` writes ends as that of another format: --png map.svg. `ending`
/// is the right one: ".png".
void expect_ending(const char* option, const std::string& output, const std::string& ending);

/// Throws IoError where the directory is not there and cannot be made, or no files can be made in it: to be called
/// before the work whose result goes there. `option` names it.
void expect_writable_directory(const char* option, const std::string& directory);

/// Checks several outputs, (option, path), as expect_other_file() does, and that no two of them are one file.
void expect_other_files(const std::vector<std::pair<const char*, std::string>>& outputs,
                        const std::vector<std::string>& inputs);

/// The files that a directory's model may be made of, sorted, also those that are not there; a GGUF file is one itself.
/// Adapters also have the files of their model: `base`, or the one that adapter_config.json names.
std::vector<std::string> model_paths(const std::string& model, const std::string& base = {});

}  // namespace heed::cli
