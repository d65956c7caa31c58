// A vocabulary learned here, there and back; BLEU of a text against itself.
#include <heed/text.h>

#include <cstdio>

int main() {
  const std::vector<std::string> lines(20, "the cat sat on the mat, and the dog sat on the log");
  const heed::Vocabulary vocabulary = heed::Vocabulary::train(lines, {.size = 290});
  const std::string text = "the dog \xC3\xA1 \xF0\x9F\x90\x95";
  const heed::BleuScore score = heed::bleu(lines, lines);
  std::printf("text %zu pieces, BLEU %.1f\n", static_cast<size_t>(vocabulary.size()), score.score);
  return vocabulary.decode(vocabulary.encode(text)) == text && score.score > 99.999 ? 0 : 1;
}
