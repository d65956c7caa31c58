#include "jinja/names.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jinja/lexer.h"

namespace heed::inline v0::jinja {
namespace {

// Names that every run has before the program sets any.
constexpr std::array<std::string_view, 16> kGiven{"messages",  "tools",     "documents",       "add_generation_prompt",
                                                  "bos_token", "eos_token", "unk_token",       "sep_token",
                                                  "pad_token", "cls_token", "mask_token",      "namespace",
                                                  "dict",      "range",     "raise_exception", "strftime_now"};
// Names with a meaning in Jinja that heed does not have.
constexpr std::array<std::string_view, 8> kNotHere{"caller", "cycler", "joiner", "kwargs",
                                                   "lipsum", "self",   "super",  "varargs"};

bool is_not_here(const std::string& name) {
  return std::find(kNotHere.begin(), kNotHere.end(), name) != kNotHere.end();
}

void check_target(const std::string& name, size_t line) {
  constexpr std::array<std::string_view, 7> kFixed{"true", "True", "false", "False", "none", "None", "loop"};
  if (std::find(kFixed.begin(), kFixed.end(), name) != kFixed.end() || is_not_here(name))
    fail_at(line, "heed does not set '" + name + "'");
}

}  // namespace

NameScopes::NameScopes(std::span<const std::string> given) : given_(kGiven.begin(), kGiven.end()) {
  given_.insert(given.begin(), given.end());
}

void NameScopes::read(const std::string& name, size_t line) {
  if (is_not_here(name)) fail_at(line, "heed does not have '" + name + "'");
  use(name);
}

void NameScopes::set(const std::string& name, size_t line) {
  check_target(name, line);
  if (!given_.contains(name)) return;
  if (std::any_of(scopes_.begin(), scopes_.end(), [&](const Names& scope) { return scope.known.contains(name); }))
    return;
  if (scopes_.back().branches > 0) return use(name);
  if (scopes_.back().seen.contains(name))
    fail_at(line, "heed does not set '" + name + "' here: it must be read before, outside of the loop or macro");
  scopes_.back().known.insert(name);
}

void NameScopes::use(const std::string& name) {
  if (!given_.contains(name)) return;
  for (Names& scope : scopes_) scope.seen.insert(name);
  scopes_.back().known.insert(name);
}

void NameScopes::declare(const std::string& name, size_t line) {
  check_target(name, line);
  if (given_.contains(name)) scopes_.back().known.insert(name);
}

}  // namespace heed::inline v0::jinja
