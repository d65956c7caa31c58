#include <queue>

#include "heed/error.h"
#include "sentencepiece_processor.h"
#include "text/model_proto_reader.h"
#include "text/unicode.h"

namespace sentencepiece {
namespace {

constexpr std::string_view kSpace = "\u2581";

// A character, or what some became.
struct Symbol {
  int previous, next;  // -1: none
  std::string_view text;
};

struct Pair {
  float score;
  int left, right;
  size_t size;  // of both together, when they were found
  // The best score first, of equal ones the pair on the left.
  bool operator<(const Pair& o) const { return score != o.score ? score < o.score : left > o.left; }
};

}  // namespace

util::Status SentencePieceProcessor::LoadFromSerializedProto(std::string_view bytes) {
  using Type = heed::SentencePiece;
  heed::SentencePieceModel model;
  try {
    model = heed::read_model_proto(bytes, "vocabulary");
  } catch (const heed::FormatError& error) {
    return util::Status(error.what());
  }
  if (model.kind != heed::SentencePieceModel::bpe || !model.byte_fallback || !model.character_map.empty() ||
      model.add_dummy_prefix || model.remove_extra_whitespaces)
    return util::Status("a page takes heed's own vocabularies");
  int byte = 0;
  for (const heed::SentencePiece& piece : model.pieces) {
    const auto id = static_cast<int>(pieces_.size());
    Kind kind = Kind::normal;
    if (piece.type == Type::unknown) kind = Kind::unknown;
    if (piece.type == Type::control) kind = Kind::control;
    if (piece.type == Type::byte) kind = Kind::byte;
    if (kind == Kind::byte && byte < 256) bytes_[byte++] = id;  // in their order
    if (kind == Kind::normal) ids_.emplace(piece.text, id);
    pieces_.push_back({piece.text, piece.score, kind});
  }
  return byte == 256 ? util::Status() : util::Status("a vocabulary without bytes");
}

// Of all neighbours that make up a piece those of the best score become one, until none do (Sennrich et al. 2016).
util::Status SentencePieceProcessor::Encode(std::string_view given, std::vector<int>* ids) const {
  std::string text;
  for (const char c : given) c == ' ' ? text += kSpace : text += c;
  std::vector<Symbol> symbols;
  for (std::string_view rest = text; !rest.empty();) {
    const auto length = static_cast<size_t>(heed::decode_utf8(rest).length);
    const auto at = static_cast<int>(symbols.size());
    symbols.push_back({at - 1, rest.size() > length ? at + 1 : -1, rest.substr(0, length)});
    rest.remove_prefix(length);
  }
  std::priority_queue<Pair> pairs;
  const auto look = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    const std::string_view both(
        symbols[static_cast<size_t>(left)].text.data(),
        symbols[static_cast<size_t>(left)].text.size() + symbols[static_cast<size_t>(right)].text.size());
    if (const auto found = ids_.find(std::string(both)); found != ids_.end())
      pairs.push({pieces_[static_cast<size_t>(found->second)].score, left, right, both.size()});
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) look(static_cast<int>(i), static_cast<int>(i) + 1);
  while (!pairs.empty()) {
    const Pair pair = pairs.top();
    pairs.pop();
    Symbol &left = symbols[static_cast<size_t>(pair.left)], &right = symbols[static_cast<size_t>(pair.right)];
    if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != pair.size) continue;
    left.text = {left.text.data(), pair.size};
    right.text = {};
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = pair.left;
    look(left.previous, pair.left);
    look(pair.left, left.next);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.text.empty()) continue;
    if (const auto found = ids_.find(std::string(symbol.text)); found != ids_.end())
      ids->push_back(found->second);
    else
      for (const char c : symbol.text) ids->push_back(bytes_[static_cast<uint8_t>(c)]);
  }
  return {};
}

util::Status SentencePieceProcessor::Encode(std::string_view text, std::vector<std::string>* pieces) const {
  std::vector<int> ids;
  const util::Status status = Encode(text, &ids);
  for (const int id : ids) pieces->push_back(IdToPiece(id));
  return status;
}

util::Status SentencePieceProcessor::Decode(const std::vector<int>& ids, std::string* text) const {
  std::string bytes;  // that follow each other
  const auto flush = [&] {
    for (std::string_view rest = bytes; !rest.empty();) {
      const heed::DecodedCharacter c = heed::decode_utf8(rest);
      const size_t length = c.valid ? static_cast<size_t>(c.length) : 1;
      text->append(c.valid ? rest.substr(0, length) : std::string_view("\uFFFD"));
      rest.remove_prefix(length);
    }
    bytes.clear();
  };
  for (const int id : ids) {
    const Piece& piece = pieces_[static_cast<size_t>(id)];
    if (piece.kind == Kind::byte) {
      bytes += static_cast<char>(id - bytes_[0]);
      continue;
    }
    flush();
    if (piece.kind == Kind::control) continue;
    if (piece.kind == Kind::unknown) {
      *text += "\uFFFD";
      continue;
    }
    for (std::string_view rest = piece.text; !rest.empty();) {
      const size_t at = rest.find(kSpace);
      text->append(rest.substr(0, at));
      if (at == std::string_view::npos) break;
      *text += ' ';
      rest.remove_prefix(at + kSpace.size());
    }
  }
  flush();
  return {};
}

}  // namespace sentencepiece
