// Reads a sentencepiece model, whoever made it: protobuf's wire format, each length checked. Numbers of fields are
// those of sentencepiece_model.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::inline v0 {

struct SentencePiece {
  enum Type : uint32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  std::string text{};
  float score = 0;
  uint32_t type = normal;
};

struct SentencePieceModel {
  enum Kind : uint32_t { unigram = 1, bpe = 2 };
  std::vector<SentencePiece> pieces{};
  uint32_t kind = unigram;
  bool byte_fallback = false;
  int32_t unk_id = 0, bos_id = 1, eos_id = 2;  // negative: none
  std::string unk_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>";
  std::string character_map{};  // see CharacterMap
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
};

/// Throws FormatError "WHERE: ...".
SentencePieceModel read_model_proto(std::string_view bytes, const std::string& where);

}  // namespace heed::inline v0
