#include "text/vocabulary_format.h"

#include <array>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "text/base64.h"
#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

constexpr std::string_view bpe_header = "heed-vocabulary 1 bpe spaces=";
constexpr std::string_view characters_header = "heed-vocabulary 1 characters";
constexpr std::string_view foreign_header = "heed-vocabulary 1 sentencepiece";
constexpr std::array<std::string_view, 3> space_names = {"collapse", "keep", "verbatim"};  // in the order of Spaces
constexpr std::string_view hex_digits = "0123456789ABCDEF";

[[noreturn]] void fail(size_t line, const std::string& rule) {
  throw FormatError("vocabulary: line " + std::to_string(line) + ": " + rule);
}

bool control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// `spaces`: NUL and the space are escaped, too.
std::string escape(std::string_view piece, bool spaces) {
  std::string out;
  for (const char c : piece) {
    if (c == '\\') {
      out += "\\\\";
    } else if (control(c) || (spaces && c == ' ')) {
      out += "\\x";
      out += hex_digits[static_cast<unsigned char>(c) >> 4];
      out += hex_digits[c & 15];
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescape(std::string_view text, size_t line, bool spaces) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (control(text[i])) fail(line, "control characters are written as \\xHH");
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (text.substr(i, 2) == "\\\\") {
      out += '\\';
      i += 1;
      continue;
    }
    const size_t high = i + 3 < text.size() ? hex_digits.find(text[i + 2]) : std::string_view::npos;
    const size_t low = i + 3 < text.size() ? hex_digits.find(text[i + 3]) : std::string_view::npos;
    if (text.substr(i, 2) != "\\x" || high == std::string_view::npos || low == std::string_view::npos) {
      fail(line, "a backslash starts \\\\ or \\xHH with two upper-case hexadecimal digits");
    }
    const char c = static_cast<char>(high * 16 + low);
    if (spaces ? !control(c) && c != ' ' : !control(c) || c == 0) {
      fail(line, spaces ? "\\xHH is for the control characters 00 to 1F and 7F and for the space, 20, only"
                        : "\\xHH is for the control characters 01 to 1F and 7F only");
    }
    out += c;
    i += 3;
  }
  return out;
}

// The lines, each of which must end in "\n".
std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      fail(lines.size() + 1, "the line has no newline at its end; the file may have been cut short");
    }
    lines.push_back(text.substr(0, end));
    if (lines.size() > largest_vocabulary) {
      fail(lines.size(), "more than " + std::to_string(largest_vocabulary) + " lines");
    }
    text.remove_prefix(end + 1);
  }
  return lines;
}

void read_pieces(const std::vector<std::string_view>& lines, std::vector<std::string>& pieces) {
  std::unordered_set<std::string> seen;
  for (size_t id = 0; id < special_and_byte_pieces; ++id) seen.insert(fixed_piece(id));
  pieces.reserve(lines.size() - 1);
  for (size_t i = 1; i < lines.size(); ++i) {
    std::string piece = unescape(lines[i], i + 1, /*spaces=*/false);
    if (piece.empty()) fail(i + 1, "a piece must not be empty");
    if (piece.size() > longest_piece) {
      fail(i + 1,
           "a piece has at most " + std::to_string(longest_piece) + " bytes, not " + std::to_string(piece.size()));
    }
    if (!valid_utf8(piece)) fail(i + 1, "a piece must be valid UTF-8");
    if (piece.find(' ') != std::string::npos) fail(i + 1, "a space is written as U+2581");
    if (!seen.insert(piece).second) fail(i + 1, "the piece stands in the vocabulary already");
    pieces.push_back(std::move(piece));
  }
  // Without it a space would become the bytes of U+2581 and come back as that.
  if (!seen.contains("\u2581")) fail(lines.size(), "the piece U+2581, which stands for a space, is missing");
}

void read_characters(const std::vector<std::string_view>& lines, std::vector<std::string>& characters) {
  std::optional<char32_t> last;
  for (size_t i = 1; i < lines.size(); ++i) {
    std::string character = unescape(lines[i], i + 1, /*spaces=*/true);
    const DecodedCharacter decoded = character.empty() ? DecodedCharacter{0, 0, false} : decode_utf8(character);
    if (!decoded.valid || static_cast<size_t>(decoded.length) != character.size()) {
      fail(i + 1, "a line holds one character in UTF-8");
    }
    if (lines[i] == " ") fail(i + 1, "a space is written as \\x20");
    if (last && decoded.code <= *last) fail(i + 1, "characters stand in the order of their codes, each once");
    last = decoded.code;
    characters.push_back(std::move(character));
  }
}

// Pieces that stand in every vocabulary of this kind, and not in its file.
size_t fixed_pieces(const VocabularyFile& file) { return file.characters ? 1 : special_and_byte_pieces; }

}  // namespace

std::string fixed_piece(size_t id) {
  static constexpr std::string_view special[4] = {"<pad>", "<unk>", "<s>", "</s>"};
  if (id < 4) return std::string(special[id]);
  const size_t byte = id - 4;
  return std::string("<0x") + hex_digits[byte >> 4] + hex_digits[byte & 15] + ">";
}

std::string write_vocabulary(const VocabularyFile& file) {
  if (file.foreign) return std::string(foreign_header) + "\n" + to_base64(file.model) + "\n";
  std::string out(file.characters ? characters_header : bpe_header);
  if (!file.characters) out += space_names.at(static_cast<size_t>(file.spaces));
  out += " pieces=" + std::to_string(file.pieces.size() + fixed_pieces(file)) + "\n";
  for (const std::string& piece : file.pieces) out += escape(piece, file.characters) + "\n";
  return out;
}

VocabularyFile parse_vocabulary(std::string_view text) {
  if (!text.starts_with(vocabulary_magic)) fail(1, "not a heed vocabulary, which starts with \"heed-vocabulary\"");
  if (!text.starts_with("heed-vocabulary 1 ")) fail(1, "only version 1 of the format is known to this heed");
  const std::vector<std::string_view> lines = split_lines(text);
  VocabularyFile file;
  if (lines[0] == foreign_header) {
    if (lines.size() != 2) fail(2, "one line of base64 follows the header");
    file.foreign = true;
    file.model = from_base64(lines[1], [](const std::string& rule) { fail(2, rule); });
    return file;
  }

  std::string_view header = lines[0];
  file.characters = header.starts_with(characters_header);
  const std::string rule = file.characters
                               ? "the header is \"heed-vocabulary 1 characters pieces=N\""
                               : "the header is \"heed-vocabulary 1 bpe spaces=collapse pieces=N\", or spaces=keep, or "
                                 "spaces=verbatim";
  const auto take = [&](std::string_view word) {
    const bool there = header.starts_with(word);
    if (there) header.remove_prefix(word.size());
    return there;
  };
  if (!take(file.characters ? characters_header : bpe_header)) fail(1, rule);
  if (!file.characters) {
    size_t spaces = 0;
    while (spaces < space_names.size() && !take(space_names[spaces])) ++spaces;
    if (spaces == space_names.size()) fail(1, rule);
    file.spaces = static_cast<Spaces>(spaces);
  }
  if (!take(" pieces=")) fail(1, rule);
  size_t pieces = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), pieces);
  // The comparison shuts out leading zeros, so that equal vocabularies are equal files.
  if (error != std::errc() || end != header.data() + header.size() || std::to_string(pieces) != header) fail(1, rule);
  const size_t fixed = fixed_pieces(file);
  if (pieces <= fixed || pieces > largest_vocabulary) {
    fail(1, "pieces must be from " + std::to_string(fixed + 1) + " to " + std::to_string(largest_vocabulary) +
                ", not " + std::to_string(pieces));
  }
  if (lines.size() - 1 != pieces - fixed) {
    fail(lines.size(), "the header announces " + std::to_string(pieces - fixed) + " lines after it, but there are " +
                           std::to_string(lines.size() - 1));
  }
  if (file.characters) {
    read_characters(lines, file.pieces);
  } else {
    read_pieces(lines, file.pieces);
  }
  return file;
}

}  // namespace heed::inline v0
