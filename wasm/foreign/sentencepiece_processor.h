// In the place of sentencepiece's header: what Vocabulary calls of it for heed's own vocabularies, which are BPE with
// bytes for what is unknown. The ids are sentencepiece's: scripts/compare-wasm looks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sentencepiece {
namespace util {

class Status {
 public:
  Status() = default;
  explicit Status(std::string message) : ok_(false), message_(std::move(message)) {}
  bool ok() const { return ok_; }
  const char* message() const { return message_.c_str(); }

 private:
  bool ok_ = true;
  std::string message_;
};

}  // namespace util

class SentencePieceProcessor {
 public:
  /// Refuses what write_model_proto() does not write.
  util::Status LoadFromSerializedProto(std::string_view model);

  int GetPieceSize() const { return static_cast<int>(pieces_.size()); }
  const std::string& IdToPiece(int id) const { return pieces_[static_cast<size_t>(id)].text; }
  bool IsControl(int id) const { return pieces_[static_cast<size_t>(id)].kind == Kind::control; }
  bool IsByte(int id) const { return pieces_[static_cast<size_t>(id)].kind == Kind::byte; }
  int unk_id() const { return 1; }
  int bos_id() const { return 2; }
  int eos_id() const { return 3; }
  int pad_id() const { return 0; }

  util::Status Encode(std::string_view text, std::vector<int>* ids) const;
  util::Status Encode(std::string_view text, std::vector<std::string>* pieces) const;
  /// Only training leaves merges out, and no page trains.
  template <class Piece>
  util::Status SampleEncode(std::string_view, int, float, std::vector<Piece>*) const {
    return util::Status("merges are left out in training alone");
  }
  util::Status Decode(const std::vector<int>& ids, std::string* text) const;

 private:
  enum class Kind : uint8_t { normal, unknown, control, byte };
  struct Piece {
    std::string text;
    float score;
    Kind kind;
  };
  std::vector<Piece> pieces_;
  std::unordered_map<std::string, int> ids_;  // of normal ones
  int bytes_[256] = {};
};

}  // namespace sentencepiece
