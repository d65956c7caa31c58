// Shared by load(), save() and inspect(): kinds of models by name, and checks that files belong together.
#pragma once

#include <string>

#include "heed/load.h"

namespace heed::inline v0 {

/// Reads a config.json of any registered kind. Throws FormatError.
ModelPlan read_plan(const std::string& json, const std::string& where);
/// The config.json of a model. Throws UsageError for an unregistered kind.
std::string describe(const Module& model);

/// Throw FormatError if model.safetensors lacks the parameters, or a vocabulary the pieces, of config.json.
void check_parameters(const std::string& path, uint64_t has, int64_t needs);
void check_pieces(const std::string& directory, const std::string& file, int64_t has, int64_t needs);

/// vocabulary.txt, source_vocabulary.txt.
inline const char* vocabulary_file(size_t number) { return number == 0 ? kVocabularyFile : kSourceVocabularyFile; }

}  // namespace heed::inline v0
