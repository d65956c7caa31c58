#include <random>

#include "heed/text.h"

namespace heed::inline v0 {
namespace {

bool is_letter(char c) {
  const auto u = static_cast<unsigned char>(c);  // bytes past ASCII belong to letters here, accents among them
  return (u >= '0' && u <= '9') || (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z') || u >= 0x80;
}

// Replaces `word` where no letter touches it. Returns whether there was one.
bool replace_word(std::string& text, std::string_view word, std::string_view by) {
  bool found = false;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
    const std::size_t end = at + word.size();
    if ((at > 0 && is_letter(text[at - 1])) || (end < text.size() && is_letter(text[end]))) {
      at = end;
      continue;
    }
    text.replace(at, word.size(), by);
    at += by.size();
    found = true;
  }
  return found;
}

// Two or three syllables and perhaps a last consonant.
std::string made_up_name(std::mt19937_64& random) {
  constexpr std::string_view consonants = "bcdfghjklmnprstvwxyz", vowels = "aeiou", endings = "dklmnrsxz";
  const auto one_of = [&](std::string_view letters) { return letters[random() % letters.size()]; };
  std::string name;
  for (std::uint64_t syllables = 2 + random() % 2; syllables > 0; --syllables) {
    if (!name.empty() || random() % 3 > 0) name += one_of(consonants);
    name += one_of(vowels);
  }
  if (random() % 2 == 0) name += one_of(endings);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

}  // namespace

std::int64_t add_made_up_names(TextPairs& pairs, std::string_view word, std::uint64_t seed) {
  if (word.empty()) throw ShapeError("made-up names: the word to replace is empty");
  std::mt19937_64 random(seed);
  const std::size_t count = pairs.source.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::string source = pairs.source[i], target = pairs.target[i];
    const std::string name = made_up_name(random);
    if (!replace_word(source, word, name) || !replace_word(target, word, name)) continue;
    pairs.source.push_back(std::move(source));
    pairs.target.push_back(std::move(target));
  }
  return static_cast<std::int64_t>(pairs.source.size() - count);
}

}  // namespace heed::inline v0
