// Expected values are sacreBLEU 2.6.0's for the same sentences.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/text.h"
#include "text/tokenize_13a.h"

namespace heed::inline v0 {
namespace {

using Lines = std::vector<std::string>;

const Lines references = {"The harbour was quiet, and 3.5 boats lay at anchor.",
                          "She said: \"don't wait for the 10-year report!\"",
                          "¿Dónde está la llave del buzón azul?",
                          "ΟΔΟΣ ΣΟΦΙΑΣ 12",
                          "A",
                          "We sold 1,200 kilos of tea &amp; coffee in 2019-2020."};
const Lines hypotheses = {"The harbor was quiet and 3.5 boats lay at an anchor .",
                          "she said : \"do not wait for the 10-year report!\"",
                          "¿Donde está la llave azul del buzón?",
                          "οδος σοφιας 12",
                          "",
                          "We sold 1200 kilos of tea & coffee in 2019-2020"};

struct Case {
  Lines hypotheses;
  Lines references;
  bool lowercase;
  std::string bleu;
  double bleu_score;
  std::string chrf;
  double chrf_score;
};

TEST(Metrics, EqualSacrebleu) {
  const std::vector<Case> cases = {
      {hypotheses, references, false,
       "BLEU = 54.69 82.0/62.2/47.5/40.0 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)", 54.6943358498226,
       "chrF2 = 73.65", 73.64609876820897},
      {references, hypotheses, false,
       "BLEU = 55.52 80.4/62.2/47.5/40.0 (BP = 1.000 ratio = 1.020 hyp_len = 51 ref_len = 50)", 55.52367452848474,
       "chrF2 = 75.48", 75.48179640542439},
      {hypotheses, references, true,
       "BLEU = 59.57 88.0/68.9/52.5/42.9 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)", 59.56864247201616,
       "chrF2 = 80.14", 80.14439059787965},
      {references, references, false,
       "BLEU = 100.00 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000 hyp_len = 51 ref_len = 51)", 100.00000000000004,
       "chrF2 = 100.00", 100.0},
      // An empty hypothesis.
      {{""},
       {"A"},
       false,
       "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 0.000 ratio = 0.000 hyp_len = 0 ref_len = 1)",
       0.0,
       "chrF2 = 0.00",
       0.0},
      // An empty reference; nothing at all.
      {{"A"},
       {""},
       false,
       "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 0.000 hyp_len = 1 ref_len = 0)",
       0.0,
       "chrF2 = 0.00",
       0.0},
      // No 2-gram exists, so the score is 0 although all matches.
      {{"A"},
       {"A"},
       false,
       "BLEU = 0.00 100.0/0.0/0.0/0.0 (BP = 1.000 ratio = 1.000 hyp_len = 1 ref_len = 1)",
       0.0,
       "chrF2 = 100.00",
       100.0},
      {{"cat dog"},
       {"the cat"},
       false,
       "BLEU = 0.00 50.0/50.0/0.0/0.0 (BP = 1.000 ratio = 1.000 hyp_len = 2 ref_len = 2)",
       0.0,
       "chrF2 = 19.17",
       19.16666666666666},
      {{"x y z"},
       {"a b c"},
       false,
       "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 1.000 hyp_len = 3 ref_len = 3)",
       0.0,
       "chrF2 = 0.00",
       0.0},
      // Two orders are smoothed: 100 / (2 * 4) and 100 / (4 * 3).
      {{"a b c d e f"},
       {"a b x c d y"},
       false,
       "BLEU = 22.96 66.7/40.0/12.5/8.3 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)",
       22.957488466614336,
       "chrF2 = 17.78",
       17.77777777777778},
  };
  for (const Case& c : cases) {
    const BleuScore b = bleu(c.hypotheses, c.references, {.lowercase = c.lowercase});
    EXPECT_EQ(b.format(), c.bleu);
    EXPECT_NEAR(b.score, c.bleu_score, 1e-11);
    const ChrfScore f = chrf(c.hypotheses, c.references, {.lowercase = c.lowercase});
    EXPECT_EQ(f.format(), c.chrf);
    EXPECT_NEAR(f.score, c.chrf_score, 1e-11);
  }
}

const Lines second_references = {"The harbor was still and 3.5 boats were lying at an anchor.",
                                 "She said: do not wait for that report!",
                                 "¿Dónde está la llave azul del buzón?",
                                 "οδος ΣΟΦΙΑΣ",
                                 "",
                                 "We have sold 1200 kilos of tea and coffee."};

TEST(Metrics, SeveralReferencesEqualSacrebleu) {
  struct MultiCase {
    std::vector<Lines> references;
    bool lowercase;
    std::string bleu;
    double bleu_score, chrf_score;
  };
  const std::vector<MultiCase> cases = {
      {{references, second_references},
       false,
       "BLEU = 78.72 94.0/86.7/75.0/62.9 (BP = 1.000 ratio = 1.000 hyp_len = 50 ref_len = 50)",
       78.72251524326597,
       79.03218229007594},
      // Of equally good references chrF takes the first, which has another length.
      {{second_references, references},
       false,
       "BLEU = 78.72 94.0/86.7/75.0/62.9 (BP = 1.000 ratio = 1.000 hyp_len = 50 ref_len = 50)",
       78.72251524326597,
       79.10500446041985},
      {{references, second_references},
       true,
       "BLEU = 83.27 98.0/93.3/80.0/65.7 (BP = 1.000 ratio = 1.000 hyp_len = 50 ref_len = 50)",
       83.27279807061353,
       83.97638199635344},
      {{second_references},
       false,
       "BLEU = 40.08 66.0/48.9/35.0/22.9 (BP = 1.000 ratio = 1.163 hyp_len = 50 ref_len = 43)",
       40.08307417537339,
       66.49891815091257},
  };
  for (const MultiCase& c : cases) {
    const BleuScore b = bleu(hypotheses, c.references, {.lowercase = c.lowercase});
    EXPECT_EQ(b.format(), c.bleu);
    EXPECT_NEAR(b.score, c.bleu_score, 1e-11);
    EXPECT_NEAR(chrf(hypotheses, c.references, {.lowercase = c.lowercase}).score, c.chrf_score, 1e-11);
    EXPECT_TRUE(b.signature().starts_with("nrefs:" + std::to_string(c.references.size()) + "|case:"));
  }
}

// NumPy draws the same lines; it adds up in float32, and so do chrF2's means.
TEST(Metrics, ConfidenceEqualsSacrebleu) {
  const std::vector<Lines> both = {references, second_references};
  const MetricOptions options{.resamples = 1000};
  const BleuScore one = bleu(hypotheses, references, options), two = bleu(hypotheses, both, options);
  EXPECT_EQ(
      one.format(),
      "BLEU = 54.69 (μ = 52.56 ± 19.47) 82.0/62.2/47.5/40.0 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)");
  EXPECT_EQ(one.signature(), "nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-0.2.0");
  EXPECT_NEAR(one.confidence.mean, 52.55522488241333, 1e-4);
  EXPECT_NEAR(one.confidence.half_width, 19.468358745471498, 1e-4);
  EXPECT_NEAR(two.confidence.mean, 77.18031649611042, 1e-4);
  EXPECT_NEAR(two.confidence.half_width, 10.006665514542782, 1e-4);
  const ChrfScore f = chrf(hypotheses, references, options);
  EXPECT_EQ(f.format(), "chrF2 = 73.65 (μ = 72.46 ± 14.22)");
  EXPECT_NEAR(f.confidence.mean, 72.46046, 1e-4);
  EXPECT_NEAR(f.confidence.half_width, 14.217875, 1e-4);
  EXPECT_EQ(f.signature(), "nrefs:1|bs:1000|seed:12345|case:mixed|eff:yes|nc:6|nw:0|space:no|version:heed-0.2.0");
}

TEST(Metrics, ConfidenceOfFewLines) {
  const MetricOptions options{.resamples = 3};
  EXPECT_EQ(bleu(Lines{"a b c d"}, Lines{"a b c d"}, options).confidence.half_width, 0);
  EXPECT_NEAR(bleu(Lines{"a b c d"}, Lines{"a b c d"}, options).confidence.mean, 100, 1e-9);
  EXPECT_THROW(bleu(Lines{"a"}, Lines{"a"}, {.resamples = -1}), ShapeError);
  const std::vector<Lines> none;
  EXPECT_THROW(bleu(Lines{"a"}, none), ShapeError);
  EXPECT_THROW(chrf(Lines{"a"}, none), ShapeError);
}

TEST(Metrics, ALineEndingInADashLosesItsLineBreakFirst) {
  // The line break goes before "-\n" is joined, so the dash stays a token.
  EXPECT_EQ(bleu(Lines{"a -\n"}, Lines{"a -"}).hypothesis_length, 2);
}

TEST(Metrics, Signatures) {
  EXPECT_EQ(bleu(references, references).signature(),
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-0.2.0");
  EXPECT_EQ(bleu(references, references, {.lowercase = true}).signature(),
            "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:heed-0.2.0");
  EXPECT_EQ(chrf(references, references, {.lowercase = true}).signature(),
            "nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no|version:heed-0.2.0");
}

TEST(Metrics, RefusesUnequalAndEmptyCorpora) {
  EXPECT_THROW(bleu(Lines{}, Lines{}), ShapeError);
  EXPECT_THROW(chrf(Lines{}, Lines{}), ShapeError);
  try {
    bleu(Lines{"a", "b"}, Lines{"a"});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "bleu: 2 hypotheses but 1 references; line i of one belongs to line i of the other");
  }
}

TEST(Metrics, APerfectScoreIs100) {  // exp of a mean of logarithms is a little more
  const Lines lines{"the dog sees the cat in the house today", "it sleeps there ."};
  EXPECT_EQ(bleu(lines, lines).score, 100.0);
  EXPECT_EQ(bleu(lines, lines, {.resamples = 20}).confidence.mean, 100.0);
}

TEST(Metrics, MalformedUtf8IsOneCharacter) {
  EXPECT_EQ(chrf(Lines{"ab\xff"}, Lines{"ab\ufffd"}).score, 100.0);
  EXPECT_EQ(bleu(Lines{"a b c \xe2\x96"}, Lines{"a b c \xe2\x96"}).hypothesis_length, 4);
}

TEST(Tokenize13a, EqualsSacrebleu) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Hello, world.", "Hello , world ."},
      {"3.14 1,000 1. .5 a.b", "3.14 1,000 1 . . 5 a . b"},
      {"2019-2020 a-b -1 1--2", "2019 - 2020 a-b -1 1 - -2"},
      {"&lt;b&gt; &quot;x&quot; &amp;lt;", "< b > \" x \" <"},
      {"x<skipped>y <skip<skipped>ped>", "xy < skipped >"},
      {"end-\nof line\nnext", "endof line next"},
      {"don't (stop) [me] {now} ~ ` ^ _ \\ / @#$%", "don't ( stop ) [ me ] { now } ~ ` ^ _ \\ / @ # $ %"},
      {"...,,,", ". . . , , ,"},
      {"¿Qué? «sí».é, é.1", "¿Qué ? «sí» . é , é . 1"},
      {"a\u00a0b\u3000c\x1c"
       "d\u200be",
       "a b c d\u200be"},
      {"", ""},
  };
  for (const auto& [text, tokens] : cases) EXPECT_EQ(tokenize_13a(text), tokens);
}

}  // namespace
}  // namespace heed::inline v0
