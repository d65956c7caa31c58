// The directory of a training: made on the first run, gone on with after that.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/load.h"
#include "heed/text.h"
#include "recipe/settings.h"

namespace heed::inline v0 {

struct Prepared {
  Vocabulary vocabulary;          // of the target
  Vocabulary source;              // the same unless --separate-vocabularies
  bool fresh;                     // made by this run
  std::vector<std::string> made;  // directories, outermost first
};

/// The texts that a vocabulary is learned from; those of a language model are both.
enum class Side : uint8_t { both, source, target };
using LearnVocabulary = std::function<Vocabulary(Side)>;

/// Throws, before data are read, where --model cannot hold this training: UsageError for files of others and for a
/// model without its training, IoError where no files can be made, FormatError for a training whose files are damaged.
Holds check_training_directory(const TrainingSettings& a);

/// Vocabularies and shape of the directory, made on the first run with `options`
/// (kTrainOptionsFile), when `learn` gives what --vocabulary and
/// --source-vocabulary do not. Completes `shape`. Throws UsageError where the directory has another one. For the
/// configurations of both models.
template <class Config>
Prepared prepare_directory(const TrainingSettings& a, Config& shape, const std::string& options,
                           const LearnVocabulary& learn);

/// The same for ranks: rank 0 has the directory, and the others what it found or made there.
template <class Config>
Prepared prepare_over_ranks(const TrainingSettings& a, Config& shape, const std::string& options,
                            const LearnVocabulary& learn);

/// Of a first run that was refused: the next one may choose another shape or vocabulary.
void forget_directory(const std::string& directory, const std::vector<std::string>& made);

/// Gives the model the weights of --init, where it is given. A fresh directory is forgotten where they do not fit.
template <class Model>
void begin_with(Model& model, const TrainingSettings& a, const Prepared& prepared);

}  // namespace heed::inline v0
