#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "heed/text.h"
#include "tests/shared.h"
#include "text/model_proto.h"
#include "text/unicode.h"
#include "text/vocabulary_format.h"

namespace heed::inline v0 {
namespace {

const std::vector<std::string>& small_corpus() {
  static const std::vector<std::string> lines = [] {
    const std::vector<std::string> words = {"the",   "cat",   "sat",   "on",   "a",       "mat",     "and",     "reads",
                                            "books", "about", "ships", "niño", "canción", "reading", "sitting", "mats"};
    std::mt19937 random(7);
    std::vector<std::string> out;
    for (int i = 0; i < 400; ++i) {
      std::string line;
      for (int j = 0; j < 8; ++j) line += (j ? " " : "") + words[random() % words.size()];
      out.push_back(line + ".");
    }
    return out;
  }();
  return lines;
}

const Vocabulary& small(Spaces spaces = Spaces::collapse) {
  static const Vocabulary collapse = Vocabulary::train(small_corpus(), {.size = 320});
  static const Vocabulary keep = Vocabulary::train(small_corpus(), {.size = 320, .spaces = Spaces::keep});
  return spaces == Spaces::keep ? keep : collapse;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string random_text(std::mt19937* random) {
  static const std::vector<std::string> parts = {" ",
                                                 "  ",
                                                 "the",
                                                 "niño",
                                                 "nin\u0303o",
                                                 "\t",
                                                 "\n",
                                                 "\r\n",
                                                 std::string(1, '\0'),
                                                 "\u2581",
                                                 "\u2585",
                                                 "<s>",
                                                 "</s>",
                                                 "<pad>",
                                                 "<0x41>",
                                                 "😀",
                                                 "👩‍👩‍👧",
                                                 "שלום",
                                                 "\u202e",
                                                 "e\u0301\u0323",
                                                 "\xff",
                                                 "\xe2\x96",
                                                 "\xed\xa0\x80",
                                                 "\xf4\x90\x80\x80",
                                                 "\ufeff",
                                                 "\uffff",
                                                 "한국",
                                                 "\u1112\u1161\u11ab",
                                                 "\u212b",
                                                 "ﬁ",
                                                 "\u00a0",
                                                 "\u3000",
                                                 "cat.",
                                                 "a",
                                                 "\U0010ffff",
                                                 " ⁇ "};
  std::string out;
  const int n = static_cast<int>((*random)() % 12);
  for (int i = 0; i < n; ++i) out += parts[(*random)() % parts.size()];
  return out;
}

TEST(Vocabulary, SpecialIdsAndBytesStandWhereTheHeaderSays) {
  EXPECT_EQ(small().size(), 320);
  EXPECT_EQ(small().piece(0), "<pad>");
  EXPECT_EQ(small().piece(1), "<unk>");
  EXPECT_EQ(small().piece(2), "<s>");
  EXPECT_EQ(small().piece(3), "</s>");
  EXPECT_EQ(small().piece(4), "<0x00>");
  EXPECT_EQ(small().piece(259), "<0xFF>");
  EXPECT_EQ(small().pad_id(), 0);
  EXPECT_EQ(small().unk_id(), 1);
  EXPECT_EQ(small().bos_id(), 2);
  EXPECT_EQ(small().eos_id(), 3);
  EXPECT_FALSE(small().foreign());
}

TEST(Vocabulary, LearnsWholeWords) {
  EXPECT_EQ(small().encode_pieces("the cat"), (std::vector<std::string>{"▁the", "▁cat"}));
  EXPECT_EQ(small().encode("the cat").size(), 2u);
}

TEST(Vocabulary, RoundTripsHostileText) {
  for (const Spaces spaces : {Spaces::collapse, Spaces::keep}) {
    const Vocabulary& v = small(spaces);
    std::mt19937 random(11);
    for (int i = 0; i < 3000; ++i) {
      const std::string text = random_text(&random);
      const std::vector<int32_t> ids = v.encode(text);
      ASSERT_EQ(v.decode(ids), v.normalize(text)) << testing::PrintToString(text);
      for (const int32_t id : ids) ASSERT_GE(id, 4) << testing::PrintToString(text);
      const std::vector<std::string> pieces = v.encode_pieces(text);
      ASSERT_EQ(pieces.size(), ids.size());
      for (size_t j = 0; j < ids.size(); ++j) ASSERT_EQ(pieces[j], v.piece(ids[j]));
    }
  }
}

TEST(Vocabulary, RoundTripsSentences) {
  HEED_NEEDS_SHARED("data/spa-eng/dev.tsv");
  const TextPairs pairs = read_pairs_tsv(heed::test::shared_path("data/spa-eng/dev.tsv"));
  ASSERT_GT(pairs.source.size(), 1000u);
  std::vector<std::string> lines = pairs.source;
  lines.insert(lines.end(), pairs.target.begin(), pairs.target.end());
  const Vocabulary v = Vocabulary::train(lines, {.size = 2000});
  size_t pieces = 0;
  size_t bytes = 0;
  for (const std::string& line : lines) {
    const std::vector<int32_t> ids = v.encode(line);
    ASSERT_EQ(v.decode(ids), v.normalize(line));
    pieces += ids.size();
    bytes += line.size();
  }
  EXPECT_GT(bytes, 2 * pieces);
}

TEST(Vocabulary, NormalizeChangesOnlyWhatItSays) {
  const std::string nul(1, '\0');
  EXPECT_EQ(small().normalize("  the   cat "), "the cat");
  EXPECT_EQ(small(Spaces::keep).normalize("  the   cat "), "  the   cat ");
  EXPECT_EQ(small().normalize("\tthe\ncat\u00a0 "), "\tthe\ncat\u00a0");
  EXPECT_EQ(small().normalize("nin\u0303o \u212b ﬁ"), "niño \u00c5 ﬁ");
  EXPECT_EQ(small().normalize("a" + nul + "b\xff"), "a" + nul + "b\ufffd");
  EXPECT_EQ(small().normalize("\u2581"), "\u2581");
}

TEST(Vocabulary, EmptyTextHasNoPieces) {
  EXPECT_TRUE(small().encode("").empty());
  EXPECT_TRUE(small().encode("   ").empty());
  EXPECT_EQ(small(Spaces::keep).decode(small(Spaces::keep).encode("   ")), "   ");
  EXPECT_EQ(small().decode({}), "");
}

TEST(Vocabulary, DropoutLeavesMergesOut) {
  const std::vector<std::string>& lines = small_corpus();
  std::vector<std::vector<int32_t>> whole;
  for (const std::string& line : lines) whole.push_back(small().encode(line));
  EXPECT_EQ(small().encode_with_dropout(lines, 0, 1), whole);
  EXPECT_EQ(small().encode_with_dropout({}, 0.5, 1), std::vector<std::vector<int32_t>>{});
  const auto some = small().encode_with_dropout(lines, 0.1, 1);
  EXPECT_EQ(small().encode_with_dropout(lines, 0.1, 1), some);
  EXPECT_NE(small().encode_with_dropout(lines, 0.1, 2), some);
  EXPECT_NE(small().encode_with_dropout(lines, 0.1, uint64_t{2} << 32), some);
  const auto pieces = [](const std::vector<std::vector<int32_t>>& all) {
    size_t count = 0;
    for (const auto& ids : all) count += ids.size();
    return count;
  };
  const auto most = small().encode_with_dropout(lines, 0.9, 1);
  EXPECT_GT(pieces(some), pieces(whole));
  EXPECT_GT(pieces(most), pieces(some));
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(small().decode(some[i]), lines[i]);
    EXPECT_EQ(small().decode(most[i]), lines[i]);
  }
}

TEST(Vocabulary, DropoutOutOfRangeIsRefused) {
  const std::vector<std::string> lines{"the cat"};
  for (const double dropout : {-0.1, 1.0, std::nan("")})
    EXPECT_NE(message_of([&] { small().encode_with_dropout(lines, dropout, 1); }).find("must be in [0, 1)"),
              std::string::npos);
  const Vocabulary characters = Vocabulary::characters("the cat");
  EXPECT_EQ(characters.encode_with_dropout(lines, 0, 1).front(), characters.encode(lines.front()));
  EXPECT_NE(message_of([&] { characters.encode_with_dropout(lines, 0.1, 1); }).find("not of characters"),
            std::string::npos);
}

TEST(Vocabulary, EncodesAVeryLongWord) {
  std::string word;
  for (int i = 0; i < 100000; ++i) word += "catsitmn"[i * 7 % 8];
  EXPECT_EQ(small().decode(small().encode(word)), word);
}

TEST(Vocabulary, DecodeSkipsControlsAndMarksWhatIsLost) {
  std::vector<int32_t> ids = small().encode("the cat");
  ids.insert(ids.begin(), {Vocabulary::bos, Vocabulary::pad});
  ids.push_back(Vocabulary::eos);
  EXPECT_EQ(small().decode(ids), "the cat");
  EXPECT_EQ(small().decode(std::vector<int32_t>{Vocabulary::unk}), "\ufffd");
  EXPECT_EQ(small().decode(std::vector<int32_t>{4 + 0xC3}), "\ufffd");
  EXPECT_THROW(small().decode(std::vector<int32_t>{-1}), ShapeError);
  EXPECT_EQ(message_of([] { small().decode(std::vector<int32_t>{320}); }),
            "decode: id 320 is outside the vocabulary of 320 pieces");
  EXPECT_THROW(small().piece(320), ShapeError);
}

TEST(Vocabulary, TextFormatRoundTrips) {
  for (const Spaces spaces : {Spaces::collapse, Spaces::keep}) {
    const std::string text = small(spaces).to_text();
    const Vocabulary again = Vocabulary::from_text(text);
    EXPECT_EQ(again.to_text(), text);
    EXPECT_EQ(again.size(), 320);
    for (const std::string& line : small_corpus()) ASSERT_EQ(again.encode(line), small(spaces).encode(line));
    EXPECT_EQ(again.normalize("a  b"), spaces == Spaces::keep ? "a  b" : "a b");
  }
}

TEST(Vocabulary, OrderOfLinesDoesNotMatter) {
  std::vector<std::string> lines = small_corpus();
  std::shuffle(lines.begin(), lines.end(), std::mt19937(3));
  EXPECT_EQ(Vocabulary::train(lines, {.size = 320}).to_text(), small().to_text());
}

TEST(Vocabulary, TooLittleTextSaysTheLargestSize) {
  const std::string message = message_of([] { Vocabulary::train(small_corpus(), {.size = 5000}); });
  const std::string before = "the text gives at most ";
  const size_t at = message.find(before);
  ASSERT_NE(at, std::string::npos) << message;
  const int64_t largest = std::stoll(message.substr(at + before.size()));
  EXPECT_EQ(Vocabulary::train(small_corpus(), {.size = largest}).size(), largest);
  EXPECT_THROW(Vocabulary::train(small_corpus(), {.size = largest + 1}), ShapeError);
  EXPECT_EQ(Vocabulary::train(small_corpus(), {.size = 5000, .fewer_will_do = true}).to_text(),
            Vocabulary::train(small_corpus(), {.size = largest}).to_text());
  EXPECT_EQ(Vocabulary::train(small_corpus(), {.size = 320, .fewer_will_do = true}).size(), 320);
}

TEST(Vocabulary, RefusesBadOptionsAndEmptyText) {
  EXPECT_THROW(Vocabulary::train(small_corpus(), {.size = 260}), ShapeError);
  EXPECT_THROW(Vocabulary::train(small_corpus(), {.size = -1}), ShapeError);
  EXPECT_THROW(Vocabulary::train(small_corpus(), {.size = 1'000'001}), ShapeError);
  EXPECT_THROW(Vocabulary::train(small_corpus(), {.size = 320, .character_coverage = 1.5}), ShapeError);
  EXPECT_THROW(Vocabulary::train(small_corpus(), {.size = 320, .character_coverage = NAN}), ShapeError);
  EXPECT_THROW(Vocabulary::train({}, {.size = 320}), ShapeError);
  EXPECT_THROW(Vocabulary::train(std::vector<std::string>{"", "  ", std::string(3, '\0')}, {.size = 320}), ShapeError);
  EXPECT_EQ(message_of([] { Vocabulary::train(small_corpus(), {.size = 262}); }),
            "train a vocabulary: size 262 leaves no room for the characters; pass a size of at least 281, or a smaller "
            "character_coverage, so that rare ones become bytes");
  EXPECT_EQ(Vocabulary::train(small_corpus(), {.size = 281}).size(), 281);
}

TEST(Vocabulary, TrainsOnHostileText) {
  std::vector<std::string> lines;
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) lines.push_back(random_text(&random));
  lines.push_back(std::string(200000, 'x'));
  std::string mixed;
  for (int i = 0; i < 100000; ++i) mixed += static_cast<char>('a' + random() % 26);
  lines.push_back(mixed);
  for (int i = 0; i < 50; ++i) lines.push_back("<s><pad></s><unk><0x41> <s> <0x41>");
  const Vocabulary v = Vocabulary::train(lines, {.size = 600, .character_coverage = 1.0});
  EXPECT_EQ(v.size(), 600);
  EXPECT_EQ(Vocabulary::from_text(v.to_text()).to_text(), v.to_text());
  for (const std::string& line : lines) ASSERT_EQ(v.decode(v.encode(line)), v.normalize(line));
}

TEST(Vocabulary, SpaceHasAPieceHoweverRare) {
  const std::vector<std::string> lines(20, [] {
    std::string line;
    for (int i = 0; i < 900; ++i) line += static_cast<char>('a' + i * i % 7);
    return line;
  }());
  const Vocabulary v = Vocabulary::train(lines, {.size = 270, .character_coverage = 0.98});
  EXPECT_EQ(v.encode_pieces(" a").front(), "▁");
  EXPECT_EQ(Vocabulary::from_text(v.to_text()).decode(v.encode("a b")), "a b");
}

TEST(Vocabulary, WritesNothingOnStandardError) {
  testing::internal::CaptureStderr();
  Vocabulary::train(small_corpus(), {.size = 300});
  message_of([] { Vocabulary::train(small_corpus(), {.size = 5000}); });
  message_of([] { Vocabulary::train(small_corpus(), {.size = 262}); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

std::string file_with(const std::vector<std::string>& pieces) {
  std::string text = "heed-vocabulary 1 bpe spaces=collapse pieces=" + std::to_string(260 + pieces.size()) + "\n";
  for (const std::string& piece : pieces) text += piece + "\n";
  return text;
}

// ---------------------------------------------------------------------------------------------- for language models

std::string bytes_of(const Vocabulary& v, const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += v.bytes(id);
  return text;
}

TEST(Vocabulary, VerbatimKeepsEveryCharacter) {
  const Vocabulary v = Vocabulary::train(small_corpus(), {.size = 320, .spaces = Spaces::verbatim});
  std::mt19937 random(21);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(&random);
    const std::vector<int32_t> ids = v.encode(text);
    ASSERT_EQ(v.decode(ids), sanitize_utf8(text)) << testing::PrintToString(text);
    ASSERT_EQ(bytes_of(v, ids), sanitize_utf8(text)) << testing::PrintToString(text);
    // Cut behind newlines, the parts have the pieces of the whole.
    std::vector<int32_t> parts;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      const std::vector<int32_t> part = v.encode(text.substr(begin, end - begin));
      parts.insert(parts.end(), part.begin(), part.end());
      begin = end;
    }
    ASSERT_EQ(parts, ids) << testing::PrintToString(text);
  }
  EXPECT_EQ(v.decode(v.encode("  a\n\n  b  \n")), "  a\n\n  b  \n");
  EXPECT_EQ(v.normalize("nin\u0303o"), "nin\u0303o");
  EXPECT_EQ(v.encode_pieces("the").front(), "the");  // as behind a newline
  const std::vector<std::string> pieces = v.encode_pieces("\nthe the");
  EXPECT_EQ(pieces, (std::vector<std::string>{"<0x0A>", "the", "▁the"}));
  const Vocabulary again = Vocabulary::from_text(v.to_text());
  EXPECT_EQ(again.to_text(), v.to_text());
  EXPECT_EQ(again.encode(" nin\u0303o"), v.encode(" nin\u0303o"));
}

TEST(Vocabulary, CharactersKeepTheirText) {
  std::mt19937 random(22);
  for (int i = 0; i < 1000; ++i) {
    std::string text = random_text(&random) + random_text(&random) + "x";
    const Vocabulary v = Vocabulary::characters(text);
    const Vocabulary again = Vocabulary::from_text(v.to_text());
    ASSERT_EQ(again.to_text(), v.to_text());
    const std::vector<int32_t> ids = v.encode(text);
    ASSERT_EQ(again.encode(text), ids);
    ASSERT_EQ(ids.size(), to_utf32(text).size());
    ASSERT_EQ(v.decode(ids), sanitize_utf8(text)) << testing::PrintToString(text);
    ASSERT_EQ(bytes_of(v, ids), sanitize_utf8(text));
  }
}

TEST(Vocabulary, PlaysComeBackAsTheyWere) {
  HEED_NEEDS_SHARED("data/tinyshakespeare/input.txt");
  std::ifstream file(heed::test::shared_path("data/tinyshakespeare/input.txt"), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  ASSERT_EQ(text.size(), 1'115'394u);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    lines.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  const Vocabulary characters = Vocabulary::characters(text);
  EXPECT_EQ(characters.size(), 66);
  const Vocabulary subwords = Vocabulary::train(lines, {.size = 800, .spaces = Spaces::verbatim});
  for (const Vocabulary& v : {characters, subwords}) {
    std::string back;
    size_t count = 0;
    for (const std::string& line : lines) {
      const std::vector<int32_t> ids = v.encode(line);
      count += ids.size();
      back += v.decode(ids);
    }
    EXPECT_TRUE(back == text);
    EXPECT_LE(count, v.of_characters() ? text.size() : text.size() / 2);
  }
}

TEST(Vocabulary, CharactersInTheOrderOfTheirCodes) {
  const Vocabulary v = Vocabulary::characters("baé\n a\u2581b😀");
  EXPECT_EQ(v.size(), 8);
  EXPECT_TRUE(v.of_characters());
  EXPECT_FALSE(small().of_characters());
  EXPECT_EQ(v.to_text(), "heed-vocabulary 1 characters pieces=8\n\\x0A\n\\x20\na\nb\né\n\u2581\n😀\n");
  EXPECT_EQ(v.piece(0), "<unk>");
  EXPECT_EQ(v.piece(1), "\n");
  EXPECT_EQ(v.encode("a b?"), (std::vector<int32_t>{3, 2, 4, 0}));
  EXPECT_EQ(v.encode_pieces("a?"), (std::vector<std::string>{"a", "<unk>"}));
  EXPECT_EQ(v.decode(std::vector<int32_t>{0, 5}), "\ufffdé");
  EXPECT_EQ(v.unk_id(), 0);
  EXPECT_EQ(v.pad_id(), -1);
  EXPECT_EQ(v.bos_id(), -1);
  EXPECT_EQ(v.eos_id(), -1);
  EXPECT_THROW(v.decode(std::vector<int32_t>{8}), ShapeError);
  EXPECT_THROW(v.bytes(-1), ShapeError);
  EXPECT_THROW(Vocabulary::characters(""), ShapeError);
}

TEST(Vocabulary, BytesOfPieces) {
  EXPECT_EQ(small().bytes(Vocabulary::pad), "");
  EXPECT_EQ(small().bytes(Vocabulary::unk), "\ufffd");
  EXPECT_EQ(small().bytes(Vocabulary::eos), "");
  EXPECT_EQ(small().bytes(4), std::string(1, '\0'));
  EXPECT_EQ(small().bytes(4 + 0xC3), "\xC3");
  EXPECT_EQ(bytes_of(small(), small().encode("the cat")), " the cat");
}

TEST(VocabularyFormat, RefusesBrokenCharacters) {
  const auto refusal = [](const std::string& lines, size_t pieces) {
    return message_of(
        [&] { Vocabulary::from_text("heed-vocabulary 1 characters pieces=" + std::to_string(pieces) + "\n" + lines); });
  };
  EXPECT_EQ(refusal("\\x00\n\\x20\na\n", 4), "no error");
  EXPECT_EQ(refusal("a\n", 3), "vocabulary: line 2: the header announces 2 lines after it, but there are 1");
  EXPECT_EQ(refusal("", 1), "vocabulary: line 1: pieces must be from 2 to 1000000, not 1");
  EXPECT_EQ(refusal("b\na\n", 3), "vocabulary: line 3: characters stand in the order of their codes, each once");
  EXPECT_EQ(refusal("a\na\n", 3), "vocabulary: line 3: characters stand in the order of their codes, each once");
  for (const char* bad : {"ab\n", "\n", "\xff\n", "\xc3\n", "\xed\xa0\x80\n"})
    EXPECT_EQ(refusal(bad, 2), "vocabulary: line 2: a line holds one character in UTF-8") << bad;
  EXPECT_EQ(refusal(" \n", 2), "vocabulary: line 2: a space is written as \\x20");
  EXPECT_EQ(refusal("\\x41\n", 2),
            "vocabulary: line 2: \\xHH is for the control characters 00 to 1F and 7F and for the space, 20, only");
  EXPECT_EQ(refusal("a\n", 2), "no error");
  EXPECT_NE(message_of([] {
              Vocabulary::from_text("heed-vocabulary 1 characters spaces=keep pieces=2\na\n");
            }).find("line 1: the header is"),
            std::string::npos);
}

TEST(Unicode, IncompleteCharactersAtTheEnd) {
  for (const auto& [text, count] : std::vector<std::pair<std::string, size_t>>{{"", 0},
                                                                               {"a", 0},
                                                                               {"é", 0},
                                                                               {"a\xc3", 1},
                                                                               {"\xe2\x82", 2},
                                                                               {"\xf0\x9f\x98", 3},
                                                                               {"😀", 0},
                                                                               {"\xff", 0},
                                                                               {"\x80", 0},
                                                                               {"\xed\xa0", 0},
                                                                               {"\xe0\x80", 0},
                                                                               {"\xf4\x90", 0},
                                                                               {"\xc3\xc3", 1},
                                                                               {"😀\x98", 0}})
    EXPECT_EQ(incomplete_utf8(text), count) << testing::PrintToString(text);
}

TEST(VocabularyFormat, MergesInTheOrderOfTheFile) {
  EXPECT_EQ(Vocabulary::from_text(file_with({"ab", "bc", "a", "b", "c", "▁"})).encode_pieces("abc"),
            (std::vector<std::string>{"▁", "ab", "c"}));
  EXPECT_EQ(Vocabulary::from_text(file_with({"bc", "ab", "a", "b", "c", "▁"})).encode_pieces("abc"),
            (std::vector<std::string>{"▁", "a", "bc"}));
  EXPECT_EQ(Vocabulary::from_text(file_with({"a", "▁"})).encode("b"), (std::vector<int32_t>{261, 4 + 'b'}));
}

TEST(VocabularyFormat, EscapesBackslashAndControls) {
  const std::string text = file_with({"\\\\", "\\x09", "\\x7F", "a\\x0Ab", "\\\\x41", "▁"});
  const Vocabulary v = Vocabulary::from_text(text);
  EXPECT_EQ(v.piece(260), "\\");
  EXPECT_EQ(v.piece(261), "\t");
  EXPECT_EQ(v.piece(262), "\x7f");
  EXPECT_EQ(v.piece(263), "a\nb");
  EXPECT_EQ(v.piece(264), "\\x41");
  EXPECT_EQ(v.to_text(), text);
}

TEST(VocabularyFormat, RefusesWithLineAndRule) {
  const auto refusal = [](const std::string& text) { return message_of([&] { Vocabulary::from_text(text); }); };
  const std::string good = file_with({"▁", "b"});
  EXPECT_EQ(refusal(good), "no error");
  EXPECT_EQ(refusal(""), "vocabulary: line 1: not a heed vocabulary, which starts with \"heed-vocabulary\"");
  EXPECT_EQ(refusal("heed-vocabulary 2 bpe\n"),
            "vocabulary: line 1: only version 1 of the format is known to this heed");
  EXPECT_EQ(refusal(good.substr(0, good.size() - 1)),
            "vocabulary: line 3: the line has no newline at its end; the file may have been cut short");
  EXPECT_EQ(refusal(good.substr(0, good.size() - 2)),
            "vocabulary: line 2: the header announces 2 lines after it, but there are 1");
  EXPECT_EQ(refusal(good + "c\n"), "vocabulary: line 4: the header announces 2 lines after it, but there are 3");
  EXPECT_EQ(refusal(file_with({"a", "b", "a"})), "vocabulary: line 4: the piece stands in the vocabulary already");
  EXPECT_EQ(refusal(file_with({"<0x41>"})), "vocabulary: line 2: the piece stands in the vocabulary already");
  EXPECT_EQ(refusal(file_with({"</s>"})), "vocabulary: line 2: the piece stands in the vocabulary already");
  EXPECT_EQ(refusal(file_with({"a", "b"})),
            "vocabulary: line 3: the piece U+2581, which stands for a space, is missing");
  EXPECT_EQ(refusal(file_with({"a", ""})), "vocabulary: line 3: a piece must not be empty");
  EXPECT_EQ(refusal(file_with({"a b"})), "vocabulary: line 2: a space is written as U+2581");
  EXPECT_EQ(refusal(file_with({"\xff"})), "vocabulary: line 2: a piece must be valid UTF-8");
  EXPECT_EQ(refusal(file_with({"\xed\xa0\x80"})), "vocabulary: line 2: a piece must be valid UTF-8");
  EXPECT_EQ(refusal(file_with({std::string(512, 'x'), "▁"})), "no error");
  EXPECT_EQ(refusal(file_with({std::string(513, 'x')})), "vocabulary: line 2: a piece has at most 512 bytes, not 513");
  EXPECT_EQ(refusal(file_with({std::string("a\0b", 3)})),
            "vocabulary: line 2: control characters are written as \\xHH");
  for (const char* bad : {"\\", "\\x", "\\x0", "\\x0a", "\\n", "\\xG0"}) {
    EXPECT_EQ(refusal(file_with({bad})),
              "vocabulary: line 2: a backslash starts \\\\ or \\xHH with two upper-case hexadecimal digits")
        << bad;
  }
  for (const char* bad : {"\\x41", "\\x00", "\\xFF"}) {
    EXPECT_EQ(refusal(file_with({bad})),
              "vocabulary: line 2: \\xHH is for the control characters 01 to 1F and 7F only");
  }
  for (const char* bad :
       {"heed-vocabulary 1 bpe spaces=some pieces=261\na\n", "heed-vocabulary 1 unigram\na\n",
        "heed-vocabulary 1 bpe spaces=keep pieces=0261\na\n", "heed-vocabulary 1 bpe spaces=keep pieces=261 \na\n",
        "heed-vocabulary 1 bpe spaces=keep pieces=99999999999999999999\na\n",
        "heed-vocabulary 1 bpe spaces=keep pieces=\na\n", "heed-vocabulary 1 bpe spaces=keep pieces=-1\na\n"}) {
    EXPECT_NE(refusal(bad).find("line 1: the header is"), std::string::npos) << bad;
  }
  EXPECT_EQ(refusal("heed-vocabulary 1 bpe spaces=keep pieces=260\n"),
            "vocabulary: line 1: pieces must be from 261 to 1000000, not 260");
}

TEST(VocabularyFormat, DamagedFilesNeverCrash) {
  const std::string good = small().to_text();
  std::mt19937 random(13);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int j = 0; j < 3; ++j) bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size());
    try {
      const Vocabulary v = Vocabulary::from_text(bad);
      ASSERT_EQ(v.decode(v.encode("the cat")), "the cat");
      ASSERT_EQ(v.to_text(), bad);
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

class ForeignModel : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("heed_vocabulary_test_" + std::to_string(::getpid()) + ".model");
};

TEST_F(ForeignModel, SavedFileLoadsWithoutTrust) {
  write(small().to_text());
  EXPECT_EQ(Vocabulary::load(path_).to_text(), small().to_text());
  EXPECT_EQ(Vocabulary::from_bytes(small().to_text(), "the name").to_text(), small().to_text());
  EXPECT_THROW(Vocabulary::load("/no/such/file"), IoError);
  EXPECT_THROW(Vocabulary::load("/"), IoError);
}

// A model with one rule of its own: space is not marked before the first word.
std::string some_model(const char* eos = "</s>", const char* pad = "<pad>") {
  std::vector<ModelPiece> pieces = {{pad, 0, PieceType::control},
                                    {"<unk>", 0, PieceType::unknown},
                                    {"<s>", 0, PieceType::control},
                                    {eos, 0, PieceType::control}};
  for (size_t id = 4; id < 260; ++id) pieces.push_back({fixed_piece(id), 0, PieceType::byte});
  for (const char* text : {"ab", "▁", "a", "b"}) {
    pieces.push_back({text, -static_cast<float>(pieces.size()), PieceType::normal});
  }
  return write_model_proto(pieces);
}

TEST_F(ForeignModel, NeedsTrustEveryTime) {
  write(some_model());
  EXPECT_THROW(Vocabulary::load(path_), FormatError);
  EXPECT_THROW(Vocabulary::load_sentencepiece(path_, false), FormatError);
  const Vocabulary v = Vocabulary::load(path_, true);
  EXPECT_TRUE(v.foreign());
  EXPECT_EQ(v.size(), 264);
  EXPECT_EQ(v.eos_id(), 3);
  EXPECT_EQ(v.encode_pieces("ab  ba"), (std::vector<std::string>{"ab", "▁", "▁", "b", "a"}));
  EXPECT_EQ(v.decode(v.encode("ab  ba")), "ab  ba");

  const std::string text = v.to_text();
  EXPECT_TRUE(valid_utf8(text));
  EXPECT_THROW(Vocabulary::from_text(text), FormatError);
  const Vocabulary again = Vocabulary::from_text(text, true);
  EXPECT_TRUE(again.foreign());
  EXPECT_EQ(again.to_text(), text);
  EXPECT_EQ(again.encode("ab  ba"), v.encode("ab  ba"));
  EXPECT_THROW(Vocabulary::from_text(text.substr(0, text.size() - 2) + "\n", true), FormatError);
}

TEST_F(ForeignModel, WithoutEndOfTextIsRefused) {
  write(some_model("<end>"));
  EXPECT_NE(message_of([&] { Vocabulary::load(path_, true); }).find("lacks a piece for unk, bos or eos"),
            std::string::npos)
      << message_of([&] { Vocabulary::load(path_, true); });
}

TEST_F(ForeignModel, WithoutPaddingUnkPads) {  // eos would never be written
  write(some_model("</s>", "<none>"));
  const Vocabulary v = Vocabulary::load(path_, true);
  EXPECT_EQ(v.pad_id(), v.unk_id());
  EXPECT_NE(v.pad_id(), v.eos_id());
}

TEST_F(ForeignModel, OnlyRegularFilesOfBoundedSizeAreRead) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(message_of([&] { Vocabulary::load(path_); }).find("a pipe"), std::string::npos);  // and does not wait
  EXPECT_NE(message_of([&] { Vocabulary::load("/dev/zero"); }).find("a device"), std::string::npos);
  std::filesystem::remove(path_);
  write("heed-vocabulary 1 bpe spaces=collapse pieces=300\n");
  std::filesystem::resize_file(path_, std::uintmax_t{3} << 30);
  const std::string says = message_of([&] { Vocabulary::load(path_); });
  EXPECT_NE(says.find(path_.string() + ": 3221225472 bytes; at most 67108864"), std::string::npos) << says;
}

TEST_F(ForeignModel, RubbishIsRefused) {
  write("");
  EXPECT_THROW(Vocabulary::load(path_), FormatError);
  EXPECT_THROW(Vocabulary::load(path_, true), FormatError);
  write("not a model");
  for (const bool trust : {false, true}) {  // not by sentencepiece's parser, whatever is trusted
    const std::string says = message_of([&] { Vocabulary::load(path_, trust); });
    EXPECT_NE(says.find(path_.string() + ": "), std::string::npos) << says;
    EXPECT_NE(says.find("starts with \"heed-vocabulary\""), std::string::npos) << says;
  }
  for (const auto& [content, name] : {std::pair{"GGUF\3", "GGUF"}, {"PK\3\4", "zip"}, {"{\"version\": 1}", "JSON"}}) {
    write(content);
    EXPECT_NE(message_of([&] { Vocabulary::load(path_, true); }).find(name), std::string::npos);
  }
  testing::internal::CaptureStderr();
  EXPECT_THROW(Vocabulary::load(path_, true), FormatError);
  const std::string model = some_model();
  for (size_t size = 1; size < model.size(); size += 97) {
    write(model.substr(0, size));
    message_of([&] { Vocabulary::load(path_, true); });
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace heed::inline v0
