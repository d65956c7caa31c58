#include "text/model_proto.h"

#include <bit>
#include <cstdint>
#include <string_view>

namespace heed::inline v0 {
namespace {

// Protobuf's wire format: a field is a varint (number << 3 | wire type), then its value.
class Message {
 public:
  void varint_field(int number, uint64_t value) {
    varint(static_cast<uint64_t>(number) << 3 | 0);
    varint(value);
  }
  void float_field(int number, float value) {
    varint(static_cast<uint64_t>(number) << 3 | 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<char>(bits >> shift & 0xFF));
  }
  void bytes_field(int number, std::string_view value) {
    varint(static_cast<uint64_t>(number) << 3 | 2);
    varint(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

}  // namespace

std::string write_model_proto(const std::vector<ModelPiece>& pieces) {
  Message model;
  for (const ModelPiece& piece : pieces) {
    Message m;
    m.bytes_field(1, piece.text);
    m.float_field(2, piece.score);
    m.varint_field(3, static_cast<uint64_t>(piece.type));
    model.bytes_field(1, m.bytes());
  }
  Message trainer;
  trainer.varint_field(3, 2);  // model_type: BPE
  trainer.varint_field(4, pieces.size());
  trainer.varint_field(35, 1);        // byte_fallback
  trainer.varint_field(40, 1);        // unk_id
  trainer.varint_field(41, 2);        // bos_id
  trainer.varint_field(42, 3);        // eos_id
  trainer.varint_field(43, 0);        // pad_id
  trainer.bytes_field(44, "\uFFFD");  // unk_surface
  model.bytes_field(2, trainer.bytes());
  Message normalizer;
  normalizer.bytes_field(1, "identity");
  normalizer.varint_field(3, 0);  // add_dummy_prefix: heed adds and strips it
  normalizer.varint_field(4, 0);  // remove_extra_whitespaces: heed does
  normalizer.varint_field(5, 1);  // escape_whitespaces
  model.bytes_field(3, normalizer.bytes());
  return model.bytes();
}

}  // namespace heed::inline v0
