#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <future>
#include <mutex>
#include <set>
#include <type_traits>
#include <unordered_map>

#include "heed/file_kind.h"
#include "heed/text.h"
#include "text/model_proto.h"
#include "text/read_whole_file.h"
#include "text/unicode.h"
#include "text/vocabulary_format.h"

namespace heed::inline v0 {

namespace {

constexpr std::string_view space_mark = "\u2581";
constexpr size_t first_byte_id = 4;
constexpr std::string_view sentencepiece_beginning = "\n";  // the tag of its first piece
constexpr uint64_t largest_vocabulary_file = uint64_t{64} << 20;

// sentencepiece's trainer stops the process on a word of 65536 characters. Pieces have at most 16, so words cut at a
// thousand teach the same.
constexpr size_t longest_training_word = 1000;  // bytes

class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  size_t next_ = 0;
};

std::string collapse_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// sentencepiece skips a line with a tab or U+2585, which mean something inside it, and ignores NUL.
std::string training_line(std::string_view text, Spaces spaces) {
  const std::string valid = sanitize_utf8(text), clean = spaces == Spaces::verbatim ? valid : to_nfc(valid);
  std::string out;
  size_t word = 0;
  for (std::string_view rest = clean; !rest.empty();) {
    const DecodedCharacter c = decode_utf8(rest);
    const bool special = c.code == 0 || c.code == U'\t' || c.code == U'\u2585' || c.code == U'\u2581';
    const std::string_view bytes = special ? " " : rest.substr(0, c.length);
    word = bytes == " " ? 0 : word + bytes.size();
    if (word > longest_training_word) {
      out += ' ';
      word = bytes.size();
    }
    out += bytes;
    rest.remove_prefix(c.length);
  }
  return collapse_spaces(out);
}

// Says in heed's terms what sentencepiece found wrong.
[[noreturn]] void refuse_training(const std::string& message, int64_t size) {
  const std::string_view before = "smaller than required_chars. ";
  if (const size_t at = message.find(before); at != std::string::npos) {
    const size_t number = message.find(" vs ", at) + 4;
    const std::string needed = message.substr(number, message.find('.', number) - number);
    throw ShapeError("train a vocabulary: size " + std::to_string(size) +
                     " leaves no room for the characters; pass a size of at least " + needed +
                     ", or a smaller character_coverage, so that rare ones become bytes");
  }
  throw Error("train a vocabulary: " + message);
}

thread_local bool in_sentencepiece = false;

// A call into sentencepiece, which may build messages there: what it returns.
template <typename Call>
sentencepiece::util::Status inside(const Call& call) {
  struct Scope {
    Scope() { in_sentencepiece = true; }
    ~Scope() { in_sentencepiece = false; }
  };
  const Scope scope;
  return call();
}

sentencepiece::util::Status load_model(sentencepiece::SentencePieceProcessor& processor, std::string_view model) {
  return inside([&] { return processor.LoadFromSerializedProto(model); });
}

[[noreturn]] void refuse_untrusted(const std::string& name) {
  throw UntrustedError(name +
                       ": a sentencepiece model that heed did not make can harm this program (CVE-2026-1260); if you "
                       "trust where it comes from, say so with --trust (in C++: trust = true)");
}

}  // namespace

bool inside_sentencepiece() { return in_sentencepiece; }

struct Vocabulary::Model {
  explicit Model(VocabularyFile from) : file(std::move(from)) {
    if (file.foreign) {
      load_foreign();
    } else if (file.characters) {
      load_characters();
    } else {
      load_own();
    }
  }

  void load_own() {
    std::vector<ModelPiece> pieces;
    pieces.reserve(special_and_byte_pieces + file.pieces.size());
    for (size_t id = 0; id < special_and_byte_pieces; ++id) {
      const PieceType type = id >= first_byte_id ? PieceType::byte
                             : id == unk         ? PieceType::unknown
                                                 : PieceType::control;
      pieces.push_back({fixed_piece(id), 0.0f, type});
    }
    // Pairs merge in the order of their scores.
    for (size_t i = 0; i < file.pieces.size(); ++i) {
      pieces.push_back({file.pieces[i], -static_cast<float>(i), PieceType::normal});
    }
    const auto status = load_model(processor, write_model_proto(pieces));
    if (!status.ok()) throw FormatError(std::string("vocabulary: sentencepiece refused it: ") + status.message());
  }

  void load_characters() {
    pad_id = bos_id = eos_id = -1;
    unk_id = 0;
    for (const std::string& character : file.pieces) {
      ids.emplace(decode_utf8(character).code, static_cast<int32_t>(ids.size()) + 1);
    }
  }

  void load_foreign() {
    const auto status = load_model(processor, file.model);
    if (!status.ok() || processor.GetPieceSize() == 0) {
      throw FormatError(std::string("vocabulary: not a sentencepiece model: ") + status.message());
    }
    unk_id = processor.unk_id();
    bos_id = processor.bos_id();
    eos_id = processor.eos_id();
    pad_id = processor.pad_id() >= 0 ? processor.pad_id() : unk_id;  // what is never written
    if (unk_id < 0 || bos_id < 0 || eos_id < 0) {
      throw FormatError("vocabulary: the sentencepiece model lacks a piece for unk, bos or eos (ids " +
                        std::to_string(unk_id) + ", " + std::to_string(bos_id) + ", " + std::to_string(eos_id) +
                        "); train it with all three");
    }
  }

  int size() const { return file.characters ? static_cast<int>(file.pieces.size()) + 1 : processor.GetPieceSize(); }

  void check_id(int32_t id, const char* operation) const {
    if (id < 0 || id >= size()) {
      throw ShapeError(std::string(operation) + ": id " + std::to_string(id) + " is outside the vocabulary of " +
                       std::to_string(size()) + " pieces");
    }
  }

  const std::string& piece(int32_t id) const {
    if (!file.characters) return processor.IdToPiece(id);
    static const std::string unknown = fixed_piece(unk);
    return id == unk_id ? unknown : file.pieces[static_cast<size_t>(id) - 1];
  }

  std::string bytes(int32_t id) const {
    if (id == unk_id) return "\uFFFD";
    if (file.characters) return piece(id);
    if (processor.IsControl(id)) return "";
    if (processor.IsByte(id)) {  // <0x41>
      return std::string(1, static_cast<char>(std::stoi(piece(id).substr(3, 2), nullptr, 16)));
    }
    std::string text = piece(id);
    for (size_t at = 0; (at = text.find(space_mark, at)) != std::string::npos;) {
      text.replace(at, space_mark.size(), 1, ' ');
    }
    return text;
  }

  // Appends the pieces of a text; Piece is int or std::string.
  template <typename Piece>
  void append_encoded(std::string_view text, double dropout, std::vector<Piece>* out) const {
    std::vector<Piece> pieces;
    const auto status = inside([&] {
      return dropout > 0 ? processor.SampleEncode(text, -1, static_cast<float>(dropout), &pieces)
                         : processor.Encode(text, &pieces);
    });
    if (!status.ok()) throw Error(std::string("encode: ") + status.message());
    out->insert(out->end(), pieces.begin(), pieces.end());
  }

  template <typename Piece>
  void append_id(int32_t id, std::vector<Piece>* out) const {
    if constexpr (std::is_same_v<Piece, int32_t>) {
      out->push_back(id);
    } else {
      out->push_back(piece(id));
    }
  }

  // `dropout` is of merges, for vocabularies that have any.
  template <typename Piece>
  std::vector<Piece> encode(const std::string& normalized, double dropout = 0) const {
    std::vector<Piece> out;
    if (file.foreign) {
      append_encoded(normalized, 0, &out);
      return out;
    }
    if (file.characters) {
      for (std::string_view rest = normalized; !rest.empty();) {
        const DecodedCharacter character = decode_utf8(rest);
        const auto found = ids.find(character.code);
        append_id(found == ids.end() ? unk_id : found->second, &out);
        rest.remove_prefix(static_cast<size_t>(character.length));
      }
      return out;
    }
    if (normalized.empty()) return out;
    // The first word gets the space that the other words have before them.
    const std::string prefixed = file.spaces == Spaces::verbatim ? normalized : " " + normalized;
    for (std::string_view rest = prefixed;;) {
      const size_t at = rest.find(space_mark);
      append_encoded(rest.substr(0, at), dropout, &out);
      if (at == std::string_view::npos) return out;
      // U+2581 itself would come back as a space: write it in bytes.
      for (const char c : space_mark) {
        append_id(static_cast<int>(first_byte_id) + static_cast<unsigned char>(c), &out);
      }
      rest.remove_prefix(at + space_mark.size());
    }
  }

  VocabularyFile file;
  sentencepiece::SentencePieceProcessor processor;  // not of characters
  std::unordered_map<char32_t, int32_t> ids{};      // of characters
  int32_t pad_id = pad;
  int32_t unk_id = unk;
  int32_t bos_id = bos;
  int32_t eos_id = eos;
};

Vocabulary Vocabulary::train(std::span<const std::string> lines, const VocabularyOptions& options) {
  const auto smallest = static_cast<int64_t>(special_and_byte_pieces) + 1;
  if (options.size < smallest || options.size > static_cast<int64_t>(largest_vocabulary)) {
    throw ShapeError("train a vocabulary: size must be from " + std::to_string(smallest) + " to " +
                     std::to_string(largest_vocabulary) + ", not " + std::to_string(options.size));
  }
  if (!(options.character_coverage >= VocabularyOptions::kLeastCoverage && options.character_coverage <= 1.0)) {
    throw ShapeError("train a vocabulary: character_coverage must be from 0.98 to 1, not " +
                     std::to_string(options.character_coverage));
  }
  std::vector<std::string> clean;
  clean.reserve(lines.size());
  for (const std::string& line : lines) {
    if (std::string text = training_line(line, options.spaces); !text.empty()) clean.push_back(std::move(text));
  }
  if (clean.empty()) throw ShapeError("train a vocabulary: the text is empty; pass at least one line with a word");
  // sentencepiece ends the process where its mark of a space occurs nowhere.
  if (options.spaces == Spaces::verbatim &&
      std::none_of(clean.begin(), clean.end(), [](const auto& line) { return line.find(' ') != std::string::npos; }))
    clean.push_back(" ");

  char digits[32];
  const std::string coverage(digits, std::to_chars(digits, digits + sizeof digits, options.character_coverage).ptr);
  const std::string prefix = options.spaces == Spaces::verbatim ? "false" : "true";
  LineIterator iterator(clean);
  std::string model;
  const auto status = inside([&] {
    return sentencepiece::SentencePieceTrainer::Train({{"model_type", "bpe"},
                                                       {"vocab_size", std::to_string(options.size)},
                                                       {"character_coverage", coverage},
                                                       {"required_chars", std::string(space_mark)},
                                                       {"byte_fallback", "true"},
                                                       {"pad_id", "0"},
                                                       {"unk_id", "1"},
                                                       {"bos_id", "2"},
                                                       {"eos_id", "3"},
                                                       {"normalization_rule_name", "identity"},
                                                       {"remove_extra_whitespaces", "false"},
                                                       {"add_dummy_prefix", prefix},
                                                       {"max_sentence_length", "1073741824"},
                                                       {"hard_vocab_limit", "false"},
                                                       {"num_threads", "1"},
                                                       {"minloglevel", "4"}},
                                                      &iterator, &model);
  });
  if (!status.ok()) refuse_training(status.message(), options.size);

  sentencepiece::SentencePieceProcessor trained;
  if (const auto loaded = load_model(trained, model); !loaded.ok()) {
    throw Error(std::string("train a vocabulary: ") + loaded.message());
  }
  const int size = trained.GetPieceSize();
  if (size < options.size && !options.fewer_will_do) {
    throw ShapeError("train a vocabulary: the text gives at most " + std::to_string(size) +
                     " pieces, fewer than the size of " + std::to_string(options.size) + "; pass a size of at most " +
                     std::to_string(size) + ", or more text");
  }
  VocabularyFile file;
  file.spaces = options.spaces;
  for (int id = special_and_byte_pieces; id < size; ++id) file.pieces.push_back(trained.IdToPiece(id));
  return Vocabulary(std::make_shared<const Model>(std::move(file)));
}

Vocabulary Vocabulary::characters(std::string_view text) {
  std::set<char32_t> codes;
  const std::string clean = sanitize_utf8(text);
  for (std::string_view rest = clean; !rest.empty();) {
    const DecodedCharacter character = decode_utf8(rest);
    codes.insert(character.code);
    rest.remove_prefix(static_cast<size_t>(character.length));
  }
  if (codes.empty()) throw ShapeError("make a vocabulary: the text is empty; pass at least one character");
  VocabularyFile file;
  file.characters = true;
  for (const char32_t code : codes) append_utf8(code, &file.pieces.emplace_back());
  return Vocabulary(std::make_shared<const Model>(std::move(file)));
}

Vocabulary Vocabulary::from_text(std::string_view text, bool trust) {
  VocabularyFile file = parse_vocabulary(text);
  if (file.foreign && !trust) refuse_untrusted("vocabulary");
  return Vocabulary(std::make_shared<const Model>(std::move(file)));
}

Vocabulary Vocabulary::load(const std::filesystem::path& path, bool trust) {
  return from_bytes(read_whole_file(path, largest_vocabulary_file), path.string(), trust);
}

Vocabulary Vocabulary::load_sentencepiece(const std::filesystem::path& path, bool trust) {
  return from_sentencepiece(read_whole_file(path, largest_vocabulary_file), path.string(), trust);
}

Vocabulary Vocabulary::from_bytes(std::string bytes, const std::string& name, bool trust) {
  if (bytes.starts_with(sentencepiece_beginning)) return from_sentencepiece(std::move(bytes), name, trust);
  try {
    if (bytes.empty()) throw FormatError("the file is empty; it has to hold a vocabulary");
    if (const std::string_view other = foreign_format(bytes); !other.empty())
      throw FormatError("this is " + std::string(other) + ", not a vocabulary of heed or sentencepiece");
    if (bytes.starts_with('{'))
      throw FormatError("this is JSON, perhaps a tokenizer.json; heed reads its own vocabularies and sentencepiece's");
    VocabularyFile file = parse_vocabulary(bytes);
    if (file.foreign && !trust) refuse_untrusted(name);
    return Vocabulary(std::make_shared<const Model>(std::move(file)));
  } catch (const UntrustedError&) {
    throw;
  } catch (const FormatError& error) {
    throw FormatError(name + ": " + error.what());
  }
}

Vocabulary Vocabulary::from_sentencepiece(std::string bytes, const std::string& name, bool trust) {
  VocabularyFile file;
  file.foreign = true;
  file.model = std::move(bytes);
  if (!trust) refuse_untrusted(name);
  try {
    return Vocabulary(std::make_shared<const Model>(std::move(file)));
  } catch (const FormatError& error) {
    throw FormatError(name + ": " + error.what());
  }
}

std::string Vocabulary::to_text() const { return write_vocabulary(model_->file); }

int64_t Vocabulary::size() const { return model_->size(); }
int32_t Vocabulary::pad_id() const { return model_->pad_id; }
int32_t Vocabulary::unk_id() const { return model_->unk_id; }
int32_t Vocabulary::bos_id() const { return model_->bos_id; }
int32_t Vocabulary::eos_id() const { return model_->eos_id; }
bool Vocabulary::foreign() const { return model_->file.foreign; }
bool Vocabulary::of_characters() const { return model_->file.characters; }

std::string Vocabulary::normalize(std::string_view text) const {
  std::string clean = sanitize_utf8(text);
  if (foreign() || of_characters() || model_->file.spaces == Spaces::verbatim) return clean;
  clean = to_nfc(clean);
  return model_->file.spaces == Spaces::keep ? clean : collapse_spaces(clean);
}

std::vector<int32_t> Vocabulary::encode(std::string_view text) const {
  return model_->encode<int32_t>(normalize(text));
}

std::vector<std::vector<int32_t>> Vocabulary::encode_with_dropout(std::span<const std::string> texts, double dropout,
                                                                  uint64_t seed) const {
  if (!(dropout >= 0 && dropout < 1))
    throw ShapeError("encode with dropout: " + std::to_string(dropout) + " is no probability; it must be in [0, 1)");
  if (dropout > 0 && (foreign() || of_characters()))
    throw ShapeError("encode with dropout: merges can be left out of heed's own subwords only, not of " +
                     std::string(foreign() ? "a sentencepiece model" : "characters") + "; set the dropout to 0");
  std::vector<std::vector<int32_t>> ids(texts.size());
  const auto encode_all = [&] {
    for (size_t i = 0; i < texts.size(); ++i) ids[i] = model_->encode<int32_t>(normalize(texts[i]), dropout);
  };
  // sentencepiece draws from a generator of the thread, which takes its seed from a global number when it is first
  // used: a new thread begins it anew.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  sentencepiece::SetRandomGeneratorSeed(static_cast<unsigned>((seed ^ seed >> 32) & 0x7fffffff));  // ~0: not at all
  std::async(std::launch::async, encode_all).get();
  return ids;
}

std::vector<std::string> Vocabulary::encode_pieces(std::string_view text) const {
  return model_->encode<std::string>(normalize(text));
}

std::string Vocabulary::decode(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) model_->check_id(id, "decode");
  std::string text;
  if (of_characters()) {
    for (const int32_t id : ids) text += model_->bytes(id);
    return text;
  }
  const std::vector<int> numbers(ids.begin(), ids.end());
  const auto status = inside([&] { return model_->processor.Decode(numbers, &text); });
  if (!status.ok()) throw Error(std::string("decode: ") + status.message());
  if (!foreign() && model_->file.spaces != Spaces::verbatim && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

const std::string& Vocabulary::piece(int32_t id) const {
  model_->check_id(id, "piece");
  return model_->piece(id);
}

std::string Vocabulary::bytes(int32_t id) const {
  model_->check_id(id, "bytes");
  return model_->bytes(id);
}

}  // namespace heed::inline v0
