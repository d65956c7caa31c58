#include "text/model_proto_reader.h"

#include <bit>

#include "heed/error.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

// A field of a message: a number, or bytes.
struct Field {
  uint64_t number = 0, value = 0;
  std::string_view bytes{};
};

class Fields {
 public:
  Fields(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  bool next(Field* field) {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    *field = {.number = key >> 3};
    switch (key & 7) {
      case 0:
        field->value = varint();
        return true;
      case 1:
        field->value = fixed(8);
        return true;
      case 2: {
        const uint64_t size = varint();
        if (size > rest_.size()) refuse();
        field->bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5:
        field->value = fixed(4);
        return true;
      default:
        refuse();
    }
  }

 private:
  [[noreturn]] void refuse() const {
    throw FormatError(where_ + ": not a sentencepiece model, or one that is cut off");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) refuse();
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }
  uint64_t fixed(size_t bytes) {
    if (rest_.size() < bytes) refuse();
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(bytes);
    return value;
  }
  std::string_view rest_;
  const std::string& where_;
};

SentencePiece read_piece(std::string_view bytes, const std::string& where) {
  SentencePiece piece;
  Fields fields(bytes, where);
  for (Field field; fields.next(&field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) piece.type = static_cast<uint32_t>(field.value);
  }
  if (!valid_utf8(piece.text)) throw FormatError(where + ": a piece that is not UTF-8");
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& where, SentencePieceModel* model) {
  Fields fields(bytes, where);
  for (Field field; fields.next(&field);) {
    if (field.number == 3) model->kind = static_cast<uint32_t>(field.value);
    if (field.number == 35) model->byte_fallback = field.value != 0;
    if (field.number == 40) model->unk_id = static_cast<int32_t>(field.value);
    if (field.number == 41) model->bos_id = static_cast<int32_t>(field.value);
    if (field.number == 42) model->eos_id = static_cast<int32_t>(field.value);
    if (field.number == 45) model->unk_piece = field.bytes;
    if (field.number == 46 && !field.bytes.empty()) model->bos_piece = field.bytes;
    if (field.number == 47 && !field.bytes.empty()) model->eos_piece = field.bytes;
  }
}

void read_normalizer(std::string_view bytes, const std::string& where, SentencePieceModel* model) {
  Fields fields(bytes, where);
  for (Field field; fields.next(&field);) {
    if (field.number == 2) model->character_map = field.bytes;
    if (field.number == 3) model->add_dummy_prefix = field.value != 0;
    if (field.number == 4) model->remove_extra_whitespaces = field.value != 0;
  }
}

}  // namespace

SentencePieceModel read_model_proto(std::string_view bytes, const std::string& where) {
  SentencePieceModel model;
  Fields fields(bytes, where);
  for (Field field; fields.next(&field);) {
    if (field.number == 1) model.pieces.push_back(read_piece(field.bytes, where));
    if (field.number == 2) read_trainer(field.bytes, where, &model);
    if (field.number == 3) read_normalizer(field.bytes, where, &model);
  }
  if (model.pieces.empty()) throw FormatError(where + ": a sentencepiece model without pieces");
  if (model.unk_id < 0 || static_cast<size_t>(model.unk_id) >= model.pieces.size())
    throw FormatError(where + ": unk_id is " + std::to_string(model.unk_id) + ", but there are " +
                      std::to_string(model.pieces.size()) + " pieces");
  return model;
}

}  // namespace heed::inline v0
