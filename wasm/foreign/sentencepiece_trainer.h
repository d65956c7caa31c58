// In the place of sentencepiece's header: no page trains a vocabulary.
#pragma once

#include <string>
#include <unordered_map>

#include "sentencepiece_processor.h"

namespace sentencepiece {

class SentenceIterator {
 public:
  virtual ~SentenceIterator() = default;
  virtual bool done() const = 0;
  virtual void Next() = 0;
  virtual const std::string& value() const = 0;
  virtual util::Status status() const = 0;
};

class SentencePieceTrainer {
 public:
  static util::Status Train(const std::unordered_map<std::string, std::string>&, SentenceIterator*, std::string*) {
    return util::Status("a page trains no vocabulary");
  }
};

inline void SetRandomGeneratorSeed(unsigned) {}

}  // namespace sentencepiece
