#include "jinja/write_json.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string_view>

namespace heed::inline v0::jinja {
namespace {

void append_string(const std::string& text, std::string* out, Budget& budget) {
  budget.read(text.size());
  budget.append("\"", out);
  for (size_t done = 0; done < text.size();) {
    constexpr std::string_view kCharacters = "\"\\\n\r\t\b\f", kNames = "\"\\nrtbf";
    const auto is_escaped = [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; };
    const auto at = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(done), text.end(), is_escaped);
    const auto end = static_cast<size_t>(at - text.begin());
    budget.append(std::string_view(text).substr(done, end - done), out);
    done = end + 1;
    if (at == text.end()) continue;
    std::array<char, 8> code;
    if (const size_t known = kCharacters.find(*at); known != kCharacters.npos)
      std::snprintf(code.data(), code.size(), "\\%c", kNames[known]);
    else
      std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(*at));
    budget.append(code.data(), out);
  }
  budget.append("\"", out);
}

void append_value(const Value& value, std::optional<int64_t> indent, int64_t depth, std::string* out, Budget& budget) {
  budget.step();
  const auto line = [&](int64_t at) {
    if (indent) budget.append("\n" + std::string(static_cast<size_t>(*indent * at), ' '), out);
  };
  // Writes `count` parts between brackets.
  const auto parts = [&](const char* open, const char* close, size_t count, const auto& part) {
    budget.append(open, out);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) budget.append(indent ? "," : ", ", out);
      line(depth + 1);
      part(i);
    }
    if (count > 0) line(depth);
    budget.append(close, out);
  };
  const List* const list = value.list();
  if (const std::string* const s = value.text()) {
    append_string(*s, out, budget);
  } else if (list && (value.sequence() == Sequence::list || value.sequence() == Sequence::tuple)) {
    parts("[", "]", list->size(), [&](size_t i) { append_value((*list)[i], indent, depth + 1, out, budget); });
  } else if (const Dict* const dict = value.dict()) {
    parts("{", "}", dict->size(), [&](size_t i) {
      append_string((*dict)[i].first, out, budget);
      budget.append(": ", out);
      append_value((*dict)[i].second, indent, depth + 1, out, budget);
    });
  } else if (value.is_none()) {
    budget.append("null", out);
  } else if (const bool* const b = value.boolean()) {
    budget.append(*b ? "true" : "false", out);
  } else if (is_number(value)) {
    budget.append(text_of(value), out);
  } else {
    fail("tojson of " + kind_of(value));
  }
}

}  // namespace

std::string written_as_json(const Value& value, std::optional<int64_t> indent, Budget& budget) {
  std::string out;
  append_value(value, indent, 0, &out, budget);
  return out;
}

}  // namespace heed::inline v0::jinja
