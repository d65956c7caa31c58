// The directory of a training: made on the first run, gone on with after that.
#pragma once

#include <functional>
#include <string>

#include "cli/train_options.h"
#include "heed/text.h"

namespace heed::cli {

struct Prepared {
  Vocabulary vocabulary;
  bool fresh;  // made by this run
};

/// Vocabulary and shape of the directory, made on the first run, when `learn` gives the vocabulary unless --vocabulary
/// does. Completes `shape`. Throws ShapeError where the directory has another one. For the configurations of both
/// models.
template <class Config>
Prepared prepare_directory(const TrainArguments& a, Config& shape, const std::function<Vocabulary()>& learn);

/// Of a first run that was refused: the next one may choose another shape or vocabulary.
void forget_directory(const std::string& directory);

/// Gives the model the weights of --init, where it is given. A `fresh` directory is forgotten where they do not fit.
template <class Model>
void begin_with(Model& model, const TrainArguments& a, bool fresh);

}  // namespace heed::cli
