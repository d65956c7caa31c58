#include "tokenizer/byte_characters.h"

#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

struct Table {
  Table() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool shows = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t code = shows ? static_cast<char32_t>(byte) : next++;
      append_utf8(code, &characters[static_cast<size_t>(byte)]);
      bytes[code] = static_cast<int16_t>(byte);
    }
  }
  std::array<std::string, 256> characters;
  std::array<int16_t, 0x144> bytes{};
};

const Table& table() {
  static const Table t;
  return t;
}

}  // namespace

const std::string& byte_character(uint8_t byte) { return table().characters[byte]; }

int byte_of_character(char32_t code) {
  const Table& t = table();
  return code < t.bytes.size() ? t.bytes[code] : -1;
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const DecodedCharacter c = decode_utf8(text);
    const int byte = byte_of_character(c.code);
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  return bytes;
}

std::string to_byte_characters(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += byte_character(static_cast<uint8_t>(byte));
  return out;
}

}  // namespace heed::inline v0
