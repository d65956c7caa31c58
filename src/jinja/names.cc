#include "jinja/names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jinja/lexer.h"

namespace heed::inline v0::jinja {
namespace {

// Names that a run has before the program sets any, in the order of their bits.
constexpr std::array<std::string_view, 16> kGiven{"messages",  "tools",     "documents",       "add_generation_prompt",
                                                  "bos_token", "eos_token", "unk_token",       "sep_token",
                                                  "pad_token", "cls_token", "mask_token",      "namespace",
                                                  "dict",      "range",     "raise_exception", "strftime_now"};
// Names with a meaning in Jinja that heed does not have.
constexpr std::array<std::string_view, 8> kNotHere{"caller", "cycler", "joiner", "kwargs",
                                                   "lipsum", "self",   "super",  "varargs"};

uint32_t bit_of(std::string_view name) {
  const auto at = std::find(kGiven.begin(), kGiven.end(), name);
  return at == kGiven.end() ? 0 : uint32_t{1} << (at - kGiven.begin());
}

bool is_not_here(const std::string& name) {
  return std::find(kNotHere.begin(), kNotHere.end(), name) != kNotHere.end();
}

void check_target(const std::string& name, size_t line) {
  constexpr std::array<std::string_view, 7> kFixed{"true", "True", "false", "False", "none", "None", "loop"};
  if (std::find(kFixed.begin(), kFixed.end(), name) != kFixed.end() || is_not_here(name))
    fail_at(line, "heed does not set '" + name + "'");
}

}  // namespace

void NameScopes::read(const std::string& name, size_t line) {
  if (is_not_here(name)) fail_at(line, "heed does not have '" + name + "'");
  use(bit_of(name));
}

void NameScopes::set(const std::string& name, size_t line) {
  check_target(name, line);
  const uint32_t bit = bit_of(name);
  if (std::any_of(scopes_.begin(), scopes_.end(), [&](const Names& scope) { return (scope.known & bit) != 0; })) return;
  if (scopes_.back().branches > 0) return use(bit);
  if (bit != 0 && (scopes_.back().seen & bit) != 0)
    fail_at(line, "heed does not set '" + name + "' here: it must be read before, outside of the loop or macro");
  scopes_.back().known |= bit;
}

void NameScopes::use(uint32_t bit) {
  for (Names& scope : scopes_) scope.seen |= bit;
  scopes_.back().known |= bit;
}

void NameScopes::declare(const std::string& name, size_t line) {
  check_target(name, line);
  scopes_.back().known |= bit_of(name);
}

}  // namespace heed::inline v0::jinja
