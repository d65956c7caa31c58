// Writes a sentencepiece model from pieces that heed has checked, so that no bytes of a file ever reach the protobuf
// parser. Only writing: the numbers are those of sentencepiece_model.proto (0.1.97).
#pragma once

#include <string>
#include <vector>

namespace heed::inline v0 {

enum class PieceType { normal = 1, unknown = 2, control = 3, byte = 6 };

struct ModelPiece {
  std::string text;
  float score;
  PieceType type;
};

/// A serialised ModelProto: byte-pair encoding, byte fallback, no normalisation of its own, ids 0 to 3 special.
std::string write_model_proto(const std::vector<ModelPiece>& pieces);

}  // namespace heed::inline v0
