#include <gtest/gtest.h>

#include <random>

#include "heed/text.h"
#include "tests/shared.h"

namespace heed {
namespace {

using Parts = std::vector<std::string>;

Parts split(const std::string& text) {
  Parts parts;
  for (const std::string_view part : split_sentences(text)) parts.emplace_back(part);
  return parts;
}

// What is written "a | b" is split there, and nowhere else.
void expect_split(const std::string& marked) {
  Parts expected;
  std::string text;
  for (size_t at = 0;;) {
    const size_t bar = marked.find(" |", at);
    expected.push_back(marked.substr(at, bar - at));
    text += expected.back();
    if (bar == std::string::npos) break;
    const bool space = marked.substr(bar + 2, 1) == " ";  // "a |b" stands for two without a space
    if (space) text += " ";
    at = bar + 2 + space;
  }
  EXPECT_EQ(split(text), expected) << text;
}

TEST(Sentences, EndWhereACapitalFollows) {
  for (const char* text : {
           "Hola. | Adiós.",
           "¿Qué tal? | ¡Muy bien! | Gracias.",
           "Llovía. | ¿Salimos? | No. | Élla lo dijo.",
           "Sie kam. | Über den Fluss. | Ärger gab es nicht.",
           "Il est parti. | École fermée.",
           "Он ушёл. | Она осталась.",
           "Έφυγε. | Έμεινε.",
           "Wait!!! | What?! | Nothing",
           "It was 1990. | He was 20. | 12 people came.",
           "No. | I do not.",
           "No se lo di a Tom. | Lo tiene Mary.",
           "So do I. | You know.",
           "I came at 5 p.m. | He left.",
           "Use www.example.org. | It works.",
           "Es kostet 3.14. | Das ist viel.",
           "वह गया। | वह आया।",
           "هل ذهب؟ | نعم.",
       })
    expect_split(text);
}

TEST(Sentences, CloseWithTheirQuotationMarks) {
  for (const char* text : {
           "\"Hola.\" | \"Adiós.\"",
           "Dijo: «Hola.» | Y se fue... no.",
           "„Komm!“ | Er kam.",
           "»Komm!« | Er kam.",
           "(Nobody knew.) | She left.",
           "He asked 'why?' | Nobody knew.",
           "Really? | – Yes. | — No.",
           "He said \"Go!\". | They went.",
       })
    expect_split(text);
}

TEST(Sentences, GoOnBehindWhatOnlyLooksLikeAnEnd) {
  for (const char* text : {
           "«¿Qué?», dijo él.",
           "\"¿Dónde?\" preguntó ella.",
           "¡Ay! dijo. | Se fue.",
           "Y entonces... nada.",
           "El Sr. García y la Sra. López viven en EE.UU. Norte.",
           "Dr. Smith met Mrs. Jones vs. Mr. Brown. | They talked.",
           "J. R. R. Tolkien wrote it. | C. S. Lewis read it.",
           "A. С. Пушкин писал.",
           "z. B. Hunde und d. h. Tiere",
           "Er kam am 3. Mai und am 12. Oktober. | Der 2. Weltkrieg war vorbei.",
           "1. Einleitung",
           "12. El fin. | Ya está.",
           "See No. 5 and fig. 3 on p. 12. | Then núm. 7, art. 8 and Nr. 9.",
           "The U.S. Army came.",
           "Version 2.0 of node.js is at https://a.b/c?d=E. | Good.",
           "He left (why? Nobody knows) today. | Yes.",
           "La raíz de 2 es 1,41... más o menos.",
           "... Y se fue.",
           "! ! ! Hola",
           "Hola. :)",
           "one. two. three.",
       })
    expect_split(text);
}

TEST(Sentences, SmileysAreNoBrackets) { expect_split("No puedo :( Lo siento. | Adiós :)"); }

TEST(Sentences, FullWidthStopsNeedNoSpace) {
  for (const char* text : {
           "你好。 |再见！ |真的吗？ |是。",
           "「行くの？」と彼は言った。 |彼は行った。",
           "「はい。そうです。」と言った。 |終わり。",
           "「はい。」 |「いいえ。」",
           "你好。 | 再见。",
       })
    expect_split(text);
  EXPECT_EQ(split("¿Qué?¡No!"), (Parts{"¿Qué?", "¡No!"}));
}

TEST(Sentences, WhitespaceOfAnyKindStandsBetween) {
  EXPECT_EQ(split("  Hola.\t\tAdiós.\u00A0\u3000Fin. \n"), (Parts{"Hola.", "Adiós.", "Fin."}));
  EXPECT_EQ(split(""), Parts{});
  EXPECT_EQ(split(" \t\u00A0\u3000\u2028"), Parts{});
  EXPECT_EQ(split("..."), Parts{"..."});
}

// Whatever the text: the parts in order, and nothing but whitespace left between them.
TEST(Sentences, NothingIsLost) {
  std::mt19937 random(5);
  const Parts bits{"a", "B", "é", "1",  ".",  ".",  "!",  "?",  "…", " ", " ",    "\t",       "\u3000", "¿", "\"",
                   "»", "(", ")", "「", "」", "。", "？", "Sr", "I", "5", "\xff", "\xe2\x82", "U.S",    "-", "😀"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (unsigned n = random() % 24; n > 0; --n) text += bits[random() % bits.size()];
    size_t at = 0;
    for (const std::string_view part : split_sentences(text)) {
      const auto begin = static_cast<size_t>(part.data() - text.data());
      ASSERT_GE(begin, at);
      ASSERT_TRUE(split_sentences(text.substr(at, begin - at)).empty()) << text;
      ASSERT_FALSE(part.empty());
      at = begin + part.size();
    }
    ASSERT_TRUE(split_sentences(text.substr(at)).empty()) << text;
  }
}

// Within a second also where every character may end a sentence.
TEST(Sentences, TakeTimeByTheLength) {
  for (const std::string bit : {".", ".\"", ". ", "(", "(.", ". (", "a. ", "!) ", "「。", "a.b."}) {
    std::string text;
    while (text.size() < 1'000'000) text += bit;
    size_t bytes = 0;
    for (const std::string_view part : split_sentences(text)) bytes += part.size();
    EXPECT_LE(bytes, text.size());
  }
}

TEST(Sentences, OneSentenceStaysOneInACorpus) {
  HEED_NEEDS_SHARED("data/multi30k/val.en");
  // Captions of one sentence each, nearly all.
  for (const char* name : {"data/multi30k/val.en", "data/multi30k/val.de"}) {
    const std::vector<std::string> lines = read_lines(test::shared_path(name));
    size_t whole = 0;
    for (const std::string& line : lines) whole += split_sentences(line).size() == 1;
    EXPECT_GE(whole, lines.size() - 3) << name;
  }
}

TEST(Blank, WhatShowsNothing) {
  for (const char* text : {"", " ", "\t", "\u00A0", "\u3000", "\u200B", "\uFEFF", " \u2009\u200D\u2060\r\v\f ",
                           "\u00AD", "\u2800", "\u3164", "\u034F"})
    EXPECT_TRUE(is_blank(text)) << testing::PrintToString(text);
  EXPECT_TRUE(is_blank(std::string(1, '\0')));
  for (const char* text : {".", "a", " \u200Bé", "\xff", "😀", "-"}) EXPECT_FALSE(is_blank(text)) << text;
}

}  // namespace
}  // namespace heed
