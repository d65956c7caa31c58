// Splits the text of a program into tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace heed::inline v0::jinja {

struct Token {
  enum class Kind : uint8_t {
    text,
    begin_output,
    end_output,
    begin_block,
    end_block,
    name,
    string,
    integer,
    number,
    sign,
    end
  };
  Kind kind = Kind::end;
  std::string text{};  // a string without its quotes and escapes
  Value value{};       // of integer and number
  size_t line = 1;
};

/// All tokens. The last one is an `end`. Throws ProgramError.
std::vector<Token> tokens_of(std::string_view source);

/// Throws ProgramError: "line 3: WHAT".
[[noreturn]] void fail_at(size_t line, const std::string& what);

}  // namespace heed::inline v0::jinja
