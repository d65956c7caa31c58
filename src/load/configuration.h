// What load(), save() and inspect() share: kinds of models by their name, and whether files belong together.
#pragma once

#include <string>

#include "heed/load.h"

namespace heed::inline v0 {

/// What a config.json asks for, of any registered kind. Throws FormatError.
ModelPlan read_plan(const std::string& json, const std::string& where);
/// The config.json of a model. Throws ShapeError where it is of no registered kind.
std::string describe(const Module& model);

/// Throw FormatError where model.safetensors has not the parameters, and a vocabulary not the pieces, that config.json
/// says.
void check_parameters(const std::string& path, uint64_t has, int64_t needs);
void check_pieces(const std::string& directory, const std::string& file, int64_t has, int64_t needs);

/// vocabulary.txt, source_vocabulary.txt.
inline const char* vocabulary_file(size_t number) { return number == 0 ? kVocabularyFile : kSourceVocabularyFile; }

}  // namespace heed::inline v0
