#include "text/tokenize_13a.h"

#include "text/unicode.h"

namespace heed::inline v0 {
namespace {

// Every rule speaks of ASCII characters and of "anything else", so working on the bytes of UTF-8 gives the same.
bool digit(char c) { return c >= '0' && c <= '9'; }
bool stop(char c) { return c == '.' || c == ','; }
// ASCII punctuation and space, but for ' , - .
bool splits(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

void replace_all(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

// Rewrites each pair of neighbours that matches, from left to right, without overlap.
template <typename Match, typename Write>
std::string rewrite_pairs(const std::string& text, Match match, Write write) {
  std::string out;
  out.reserve(text.size() * 2);
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && match(text[i], text[i + 1])) {
      write(&out, text[i], text[i + 1]);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string tokenize_13a(std::string_view text) {
  std::string line(text);
  replace_all(&line, "<skipped>", "");
  replace_all(&line, "-\n", "");
  replace_all(&line, "\n", " ");
  // In this order: "&amp;lt;" becomes "<".
  replace_all(&line, "&quot;", "\"");
  replace_all(&line, "&amp;", "&");
  replace_all(&line, "&lt;", "<");
  replace_all(&line, "&gt;", ">");

  std::string spaced = " ";
  for (const char c : line) {
    if (splits(c)) {
      spaced += {' ', c, ' '};
    } else {
      spaced += c;
    }
  }
  spaced += ' ';
  // A stop stands alone unless digits are on both sides; a dash when a digit is before it.
  spaced = rewrite_pairs(
      spaced, [](char a, char b) { return !digit(a) && stop(b); },
      [](std::string* out, char a, char b) {
        *out += {a, ' ', b, ' '};
      });
  spaced = rewrite_pairs(
      spaced, [](char a, char b) { return stop(a) && !digit(b); },
      [](std::string* out, char a, char b) {
        *out += {' ', a, ' ', b};
      });
  spaced = rewrite_pairs(
      spaced, [](char a, char b) { return digit(a) && b == '-'; },
      [](std::string* out, char a, char b) {
        *out += {a, ' ', b, ' '};
      });

  std::string tokens;
  for (const std::string_view word : split_words(spaced)) {
    if (!tokens.empty()) tokens += ' ';
    tokens += word;
  }
  return tokens;
}

}  // namespace heed::inline v0
