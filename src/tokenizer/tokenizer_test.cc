#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "heed/tokenizer.h"
#include "tokenizer/regex.h"

namespace heed::inline v0 {
namespace {

using Ids = std::vector<int32_t>;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A small tokenizer.json; parts that are not given are null.
struct Document {
  std::string model = R"({"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,)"
                      R"("the":3,"cat":4,"##s":5,"é":6,"##e":7}})";
  std::string normalizer = "null", pre_tokenizer = R"({"type":"BertPreTokenizer"})", post_processor = "null",
              decoder = R"({"type":"WordPiece"})", added_tokens = "[]", rest{};
  std::string text() const {
    return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)" + added_tokens + R"(,"normalizer":)" +
           normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer + R"(,"post_processor":)" + post_processor +
           R"(,"decoder":)" + decoder + R"(,"model":)" + model + rest + "}";
  }
  Tokenizer load() const { return Tokenizer::from_json(text(), "tokenizer.json"); }
  std::string error() const {
    return message_of([&] { load(); });
  }
};

const std::string kBytes = R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"Ġ":3,"ab":4,"abc":5,"Ã":6,"©":7},)"
                           R"("merges":["a b",["ab","c"]]})";

TEST(Tokenizer, IdsOffsetsAndTokens) {
  Document d;
  d.post_processor = R"({"type":"BertProcessing","cls":["[CLS]",1],"sep":["[SEP]",2]})";
  const Tokenizer tokenizer = d.load();
  const Encoding row = tokenizer.encode("the  cats dog");
  EXPECT_EQ(row.ids, (Ids{1, 3, 4, 5, 0, 2}));
  EXPECT_EQ(row.offsets, (std::vector<ByteRange>{{0, 0}, {0, 3}, {5, 8}, {8, 9}, {10, 13}, {0, 0}}));
  EXPECT_EQ(row.added, (std::vector<uint8_t>{1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(tokenizer.encode("the cats", false).ids, (Ids{3, 4, 5}));
  const Encoding pair = tokenizer.encode_pair("the", "cats");
  EXPECT_EQ(pair.ids, (Ids{1, 3, 2, 4, 5, 2}));
  EXPECT_EQ(pair.type_ids, (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(tokenizer.token(5), "##s");
  EXPECT_EQ(tokenizer.token(8), std::nullopt);
  EXPECT_EQ(tokenizer.token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.id_of("cat"), 4);
  EXPECT_EQ(tokenizer.id_of("dog"), std::nullopt);
  EXPECT_EQ(tokenizer.size(), 8);
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 5}), "the cats");
  EXPECT_EQ(tokenizer.decode(Ids{-1, 3, 999, 2147483647}), "the");  // what names no token adds nothing
}

TEST(Tokenizer, OffsetsAreThoseOfTheTextThatWasGiven) {
  Document d;
  d.normalizer = R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,)"
                 R"("lowercase":true})";
  const Tokenizer tokenizer = d.load();
  EXPECT_EQ(tokenizer.encode("\x01TH\u00C9 c\u00C4t").offsets, (std::vector<ByteRange>{{1, 5}, {6, 10}}));
  EXPECT_EQ(tokenizer.encode("\xFF the\xC3").offsets, (std::vector<ByteRange>{{2, 5}}));  // not UTF-8: dropped here
  EXPECT_EQ(tokenizer.encode("\u4E00\u4E01").offsets, (std::vector<ByteRange>{{0, 3}, {3, 6}}));
}

TEST(Tokenizer, AddedTokens) {
  Document d;
  d.added_tokens = R"([{"content":"<l>","lstrip":true},{"content":"<r>","rstrip":true,"special":true},)"
                   R"({"content":"<w>","single_word":true},{"content":"<w><l>"}])";
  const Tokenizer tokenizer = d.load();
  EXPECT_EQ(tokenizer.encode("the <l><r> cat").ids, (Ids{3, 8, 9, 4}));
  EXPECT_EQ(tokenizer.encode("the <l><r> cat").offsets, (std::vector<ByteRange>{{0, 3}, {3, 7}, {7, 11}, {11, 14}}));
  EXPECT_EQ(tokenizer.encode("<w>").ids, (Ids{10}));
  EXPECT_NE(tokenizer.encode("a<w>").ids.back(), 10);
  EXPECT_EQ(tokenizer.encode("<w><l>").ids, (Ids{11}));  // the longest
  EXPECT_TRUE(tokenizer.special(9));
  EXPECT_FALSE(tokenizer.special(8));
  EXPECT_EQ(tokenizer.decode(Ids{3, 9, 4}), "the cat");
  EXPECT_EQ(tokenizer.decode(Ids{3, 9, 4}, false), "the <r> cat");
}

// Values from the tokenizers package, 0.23, with Lowercase before the normalizer.
TEST(Tokenizer, Lowercased) {
  Document d;
  d.model = R"({"type":"WordLevel","vocab":{"[UNK]":0,"a":1,"b":2,"foo":3,"A":4},"unk_token":"[UNK]"})";
  d.pre_tokenizer = R"({"type":"WhitespaceSplit"})";
  d.decoder = "null";
  d.added_tokens =
      R"([{"id":5,"content":"Foo","normalized":true,"special":false},{"id":6,"content":"BAR","normalized":false,"special":false},)"
      R"({"id":7,"content":"[CLS]","normalized":false,"special":true},{"id":8,"content":"[N]","normalized":true,"special":true}])";
  const std::string text = "A Foo foo BAR bar [CLS] [cls] [N] [n]";
  const Tokenizer tokenizer = d.load(), lowercased = tokenizer.lowercased();
  EXPECT_EQ(tokenizer.encode(text).ids, (Ids{4, 5, 3, 6, 0, 7, 0, 8, 0}));
  EXPECT_EQ(lowercased.encode(text).ids, (Ids{1, 5, 5, 6, 0, 7, 0, 8, 8}));
  EXPECT_EQ(lowercased.decode(Ids{1, 5, 6, 7, 8}, /*skip_special=*/false), "a foo BAR [CLS] [n]");
  // A normalizer with Lowercase stays as it is: here it replaces "A" before it lowercases.
  d.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"A"},"content":"b"},)"
                 R"({"type":"Lowercase"}]})";
  EXPECT_EQ(d.load().lowercased().encode("A a").ids, (Ids{2, 1}));
}

// An added token of white space between another one, which takes the space after it, and a word.
TEST(Tokenizer, AddedTokensOfWhiteSpace) {
  Document d;
  d.added_tokens = R"([{"content":"user","rstrip":true},{"content":"  ","lstrip":true}])";
  const Tokenizer tokenizer = d.load();
  const Encoding row = tokenizer.encode("user  the");
  EXPECT_EQ(row.ids, (Ids{8, 3}));
  EXPECT_EQ(row.offsets, (std::vector<ByteRange>{{0, 6}, {6, 9}}));
  // Here the package `tokenizers` 0.23 fails. All white space is the first token's.
  EXPECT_EQ(tokenizer.encode("user    the").offsets, (std::vector<ByteRange>{{0, 8}, {8, 11}}));
  EXPECT_EQ(tokenizer.encode("the   the  user  ").ids, (Ids{3, 9, 3, 9, 8}));
}

TEST(Tokenizer, BytesMergeAndComeBackOneByOne) {
  Document d;
  d.model = kBytes;
  d.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})";
  d.decoder = R"({"type":"ByteLevel"})";
  const Tokenizer tokenizer = d.load();
  const Encoding row = tokenizer.encode("abc abé");
  EXPECT_EQ(row.ids, (Ids{5, 3, 4, 6, 7}));
  EXPECT_EQ(row.offsets, (std::vector<ByteRange>{{0, 3}, {3, 4}, {4, 6}, {6, 8}, {6, 8}}));
  TokenStream stream(tokenizer);
  EXPECT_EQ(stream.push(5), "abc");
  EXPECT_EQ(stream.push(6), "");
  EXPECT_EQ(stream.push(7), "é");
  EXPECT_EQ(stream.push(6), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  // A word that is longer than what is searched without a queue.
  std::string text;
  Ids ids;
  for (int i = 0; i < 100; ++i) text += "abcab", ids.insert(ids.end(), {5, 4});
  EXPECT_EQ(tokenizer.encode(text).ids, ids);
}

// What comes out of a stream, token by token, and at its end.
std::vector<std::string> streamed(TokenStream stream, const Ids& ids) {
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(stream.push(id));
  out.push_back(stream.finish());
  return out;
}

TEST(TokenStream, RowsOfByteTokensAreCertainWhenAnotherTokenFollows) {
  Document d;
  d.model = R"({"type":"BPE","unk_token":"<unk>","byte_fallback":true,"merges":[],"vocab":{"<unk>":0,"a":1,"▁a":2,
                "<0xC3>":3,"<0xA9>":4,"<0xBF>":5,"<0x0A>":6}})";
  d.pre_tokenizer = "null";
  d.decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
                  {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  d.added_tokens = R"([{"id":7,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,
                        "normalized":false,"special":true}])";
  const Tokenizer tokenizer = d.load();
  const std::string kUnknown = "\uFFFD";
  using Parts = std::vector<std::string>;
  EXPECT_EQ(streamed(TokenStream(tokenizer), {2, 3, 4, 2, 6}), (Parts{"a", "", "", "é a", "", "\n"}));
  EXPECT_EQ(streamed(TokenStream(tokenizer), {1, 3, 4, 5}), (Parts{"a", "", "", "", kUnknown + kUnknown + kUnknown}));
  EXPECT_EQ(streamed(TokenStream(tokenizer), {3, 7, 4, 1}), (Parts{"", "", "", "éa", ""}));
  for (const Ids& ids : std::vector<Ids>{{2, 3, 4, 2, 6}, {1, 3, 4, 5}, {3, 7, 4, 1}, {5, 5, 1, 3, 1, 4, 6}}) {
    std::string all;
    for (const std::string& part : streamed(TokenStream(tokenizer), ids)) all += part;
    EXPECT_EQ(all, tokenizer.decode(ids));
  }
  // Behind a text, whose last character does not change any more.
  const auto behind = [&](const Ids& prompt, const Ids& ids) {
    TokenStream stream(tokenizer);
    stream.follow(prompt);
    std::string all;
    for (const std::string& part : streamed(stream, ids)) all += part;
    return all;
  };
  EXPECT_EQ(behind({1, 3, 4}, {5, 5}), kUnknown + kUnknown);
  EXPECT_EQ(behind({1, 3, 4}, {2}), " a");
  EXPECT_EQ(behind({3, 4}, {2}), " a");  // nothing but bytes
  EXPECT_EQ(behind({3, 4}, {3, 4, 1}), "éa");
  EXPECT_EQ(behind({1}, {2}), " a");
  EXPECT_EQ(behind({}, {2}), "a");
  EXPECT_EQ(behind(Ids(40, 3), {4, 1}), kUnknown + "a");
}

TEST(Tokenizer, UnigramTakesTheMostProbableWayAndFusesTheUnknown) {
  Document d;
  d.model =
      R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-2],["b",-2],["ab",-3.5],["abc",-9.0],["c",-2]]})";
  d.pre_tokenizer = "null";
  d.decoder = "null";
  const Tokenizer tokenizer = d.load();
  EXPECT_EQ(tokenizer.encode("abc").ids, (Ids{3, 5}));
  EXPECT_EQ(tokenizer.encode("axyzb").ids, (Ids{1, 0, 2}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 2}), "a b");
}

// transformers drops both blocks when it loads a tokenizer; they belong to the program that saved the file.
TEST(Tokenizer, IgnoresTruncationAndPadding) {
  Document d;
  d.rest = "";
  std::string text = d.text();
  text.replace(text.find(R"("truncation":null)"), 17,
               R"("truncation":{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0})");
  text.replace(
      text.find(R"("padding":null)"), 14,
      R"("padding":{"strategy":{"Fixed":4},"direction":"Left","pad_to_multiple_of":null,"pad_id":9,"pad_type_id":1,)"
      R"("pad_token":"x"})");
  const Tokenizer tokenizer = Tokenizer::from_json(text, "tokenizer.json");
  EXPECT_EQ(tokenizer.encode("the cat the").ids, d.load().encode("the cat the").ids);
  EXPECT_EQ(tokenizer.encode("the cat the").ids, (Ids{3, 4, 3}));
  EXPECT_EQ(tokenizer.encode_pair("the cat", "cat the").ids, (Ids{3, 4, 4, 3}));
}

TEST(Tokenizer, NamesWhatItHasNot) {
  Document d;
  d.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Unheard"}]})";
  EXPECT_EQ(d.error(),
            R"(tokenizer.json: normalizer.normalizers[1] is of the type "Unheard", which heed does not support)");
  d = {};
  d.pre_tokenizer = R"({"type":"UnicodeScripts"})";
  EXPECT_EQ(d.error(), R"(tokenizer.json: pre_tokenizer is of the type "UnicodeScripts", which heed does not support)");
  d = {};
  d.decoder = R"({"type":"Morse"})";
  EXPECT_NE(d.error().find("decoder is of the type \"Morse\""), std::string::npos);
  d = {};
  d.model = R"({"type":"Huffman","vocab":{}})";
  EXPECT_NE(d.error().find("model is of the type \"Huffman\""), std::string::npos);
}

TEST(Tokenizer, RefusesWhatIsBroken) {
  const auto with_model = [](const std::string& model) {
    Document d;
    d.model = model;
    return d.error();
  };
  EXPECT_EQ(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})"),
            "tokenizer.json: the merge of 'a' and 'b' needs the token 'b', which the vocabulary has not");
  EXPECT_EQ(with_model(R"({"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]})"),
            "tokenizer.json: the merge of 'a' and 'b' needs the token 'ab', which the vocabulary has not");
  EXPECT_EQ(with_model(R"({"type":"BPE","vocab":{"a":0},"merges":["a a a"]})"),
            "tokenizer.json: 'a a a' is no merge: that is two tokens with a space between them");
  EXPECT_EQ(with_model(R"({"type":"BPE","vocab":{"a":0,"b":0},"merges":[]})"),
            "tokenizer.json: two tokens have the id 0");
  EXPECT_NE(with_model(R"({"type":"BPE","vocab":{"a":-1},"merges":[]})").find("is -1, which is not an id"),
            std::string::npos);
  EXPECT_NE(with_model(R"({"type":"BPE","vocab":{"a":4294967296},"merges":[]})").find("which is not an id"),
            std::string::npos);
  EXPECT_NE(with_model(R"({"type":"WordPiece","vocab":{"a":0}})").find("has no '[UNK]'"), std::string::npos);
  EXPECT_NE(with_model(R"({"type":"Unigram","unk_id":7,"vocab":[["a",0]]})").find("unk_id is 7"), std::string::npos);
  EXPECT_NE(with_model(R"({"type":"BPE","vocab":{"a":0,"a":1},"merges":[]})").find("occurs twice"), std::string::npos);
  EXPECT_NE(message_of([] { Tokenizer::from_json("", "x"); }).find("not JSON"), std::string::npos);
  EXPECT_NE(message_of([] { Tokenizer::from_json("[]", "x"); }).find("is not an object"), std::string::npos);
  EXPECT_EQ(message_of([] { Tokenizer::from_json(std::string(100'000'000, '['), "x"); }),
            "x: nested deeper than 64 levels");
  Document d;
  d.added_tokens = R"([{"content":")" + std::string(2000, 'a') + R"("}])";
  EXPECT_NE(d.error().find("an added token of 2000 bytes"), std::string::npos);
}

// Ids far apart take no memory for what lies between them.
TEST(Tokenizer, HolesInAVocabulary) {
  Document d;
  d.model = R"({"type":"BPE","vocab":{"a":0,"b":2000000000},"merges":[]})";
  d.pre_tokenizer = "null";
  d.decoder = R"({"type":"Fuse"})";
  const Tokenizer tokenizer = d.load();
  EXPECT_EQ(tokenizer.encode("ab").ids, (Ids{0, 2000000000}));
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2000000000}), "ab");
  EXPECT_EQ(tokenizer.size(), 2000000001);
}

TEST(Tokenizer, RegularExpressionsThatBlowUpEnd) {
  Document d;
  d.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"(?:a+)+$|(?:(?:a|aa)+)+c"},"behavior":"Isolated"})";
  const Tokenizer tokenizer = d.load();
  EXPECT_NE(message_of([&] { tokenizer.encode(std::string(5000, 'a') + "b"); }).find("fails on this text"),
            std::string::npos);
  d.pre_tokenizer = R"({"type":"Split","pattern":{"String":""},"behavior":"Isolated"})";
  EXPECT_NE(d.error().find("is empty, and stands at every place of a text"), std::string::npos);
  d.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})";
  EXPECT_NE(d.error().find("the regular expression is broken"), std::string::npos);
}

TEST(Regex, IsReadAsOnigurumaReadsIt) {
  EXPECT_EQ(to_pcre2("x(?i)a|b", "x"), "x(?i:a|b)");  // "abc" is one piece
  EXPECT_EQ(to_pcre2("(?:x(?i)a|(b)|(?-i)c)|d", "x"), "(?:x(?i:a|(b)|(?-i:c)))|d");
  EXPECT_EQ(to_pcre2("(?i:a|b)|c{2,3}?", "x"), "(?i:a|b)|c{2,3}?");
  EXPECT_EQ(to_pcre2(R"(\h{,2}\p{Han}\p{^L}x{a)", "x"), R"([0-9A-Fa-f]{0,2}\p{sc:Han}\P{L}x\{a)");
  for (const char* pattern :
       {R"([a[bc]])", R"([a&&b])", R"(a{1,2}+)", R"(a{2}?)", R"((?m)a)", R"(\G)", R"([a)", R"(\)", R"((?~a))"})
    EXPECT_NE(message_of([&] { to_pcre2(pattern, "x"); }).find("which heed does not read"), std::string::npos)
        << pattern;
}

TEST(Tokenizer, HeedsOwnVocabularies) {
  const std::vector<std::string> lines(20, "the cat sat on the mat and the cats ran");
  const Tokenizer trained(Vocabulary::train(lines, {.size = 290}));
  const std::string text = "  the cafe\u0301  cat ";
  const Encoding row = trained.encode(text);
  EXPECT_EQ(row.ids.back(), Vocabulary::eos);
  EXPECT_EQ(row.added.back(), 1);
  EXPECT_EQ(trained.decode(row.ids), "the café cat");
  for (size_t i = 0; i + 1 < row.ids.size(); ++i) {
    ASSERT_LE(row.offsets[i].begin, row.offsets[i].end);
    ASSERT_LE(row.offsets[i].end, text.size());
    if (i > 0) {
      EXPECT_GE(row.offsets[i].begin, row.offsets[i - 1].begin);
    }
  }
  EXPECT_EQ(row.offsets[row.ids.size() - 2].end, text.size() - 1);
  const Tokenizer characters(Vocabulary::characters("abé"));
  EXPECT_EQ(characters.encode("aéz\u20ACb").offsets, (std::vector<ByteRange>{{0, 1}, {1, 3}, {3, 4}, {4, 7}, {7, 8}}));
  EXPECT_EQ(characters.encode("ab").added, (std::vector<uint8_t>{0, 0}));  // without an end of its own
}

// A directory in memory.
Tokenizer load_files(std::map<std::string, std::string> files) {
  const TokenizerFiles directory{.where = "model",
                                 .contains = [&](const std::string& name) { return files.contains(name); },
                                 .read = [&](const std::string& name) { return files.at(name); }};
  return load_tokenizer(directory);
}

std::string config_of(const std::string& type) { return R"({"model_type":")" + type + R"("})"; }

// Words of a Metaspace alone, as bge-m3 has them.
Document unigram_document() {
  Document d;
  d.model = R"({"type":"Unigram","unk_id":3,"vocab":[["<s>",0],["<pad>",0],["</s>",0],["<unk>",0],["▁a",-1],["▁",-2],)"
            R"(["a",-3],["b",-4]]})";
  d.pre_tokenizer = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})";
  d.decoder = "null";
  return d;
}

TEST(TokenizerClass, XlmRobertaReplacesAllPartsButTheModel) {
  const std::string json = unigram_document().text();
  const auto load = [&](const std::string& keys) {
    return load_files({{"tokenizer.json", json},
                       {"config.json", config_of("xlm-roberta")},
                       {"tokenizer_config.json", R"({"tokenizer_class":"XLMRobertaTokenizer")" + keys + "}"}});
  };
  EXPECT_EQ(Tokenizer::from_json(json, "x").encode("a ").ids, (Ids{4, 5}));
  EXPECT_EQ(load("").encode("a ").ids, (Ids{0, 4, 2}));
  EXPECT_EQ(load("").encode_pair("a", "a").ids, (Ids{0, 4, 2, 2, 4, 2}));
  EXPECT_EQ(load("").decode(Ids{4, 4}), "a a");
  EXPECT_EQ(load(R"(,"add_prefix_space":false)").encode("a").ids, (Ids{0, 6, 2}));
  EXPECT_EQ(load(R"(,"bos_token":"b","eos_token":"<new>")").encode("a").ids, (Ids{7, 4, 8}));
}

TEST(TokenizerClass, TheModelTypeDecidesWhereTransformersLetsIt) {
  const std::string json = unigram_document().text();
  const auto ids = [&](const std::string& type, const std::string& config) {
    return load_files({{"tokenizer.json", json}, {"config.json", config_of(type)}, {"tokenizer_config.json", config}})
        .encode("a ")
        .ids;
  };
  const std::string named = R"({"tokenizer_class":"XLMRobertaTokenizerFast"})";
  EXPECT_EQ(ids("xlm-roberta", "{}"), (Ids{0, 4, 2}));
  EXPECT_EQ(ids("bert", named), (Ids{0, 4, 2}));
  EXPECT_EQ(ids("umt5", named), (Ids{4, 5}));  // its tokenizer.json is taken as it is
  EXPECT_EQ(ids("bert", R"({"tokenizer_class":"PreTrainedTokenizerFast"})"), (Ids{4, 5}));
  EXPECT_EQ(ids("xlm-roberta", R"({"tokenizer_class":"UnheardTokenizer"})"), (Ids{4, 5}));
  EXPECT_EQ(message_of([&] { ids("qwen2", named); }),
            "model/tokenizer.json: model is of the type \"Unigram\", which Qwen2Tokenizer does not read: it needs BPE");
}

TEST(TokenizerClass, ByteLevelClassesReplaceNormalizerWordsAndDecoder) {
  Document d;
  d.model = kBytes;
  d.normalizer = R"({"type":"Lowercase"})";
  d.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false})";
  d.decoder = R"({"type":"Fuse"})";
  const auto load = [&](const std::string& name, const std::string& keys) {
    return load_files(
        {{"tokenizer.json", d.text()}, {"tokenizer_config.json", R"({"tokenizer_class":")" + name + '"' + keys + "}"}});
  };
  for (const std::string name : {"GPT2Tokenizer", "Qwen2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer"}) {
    EXPECT_EQ(load(name, "").encode("abcA").ids, (Ids{5})) << name;  // 'A' has no token
    EXPECT_EQ(load(name, R"(,"add_prefix_space":true)").encode("abc").ids, (Ids{3, 5})) << name;
    EXPECT_EQ(load(name, "").decode(Ids{5, 3, 6, 7}), "abc é") << name;
  }
  EXPECT_EQ(load("RobertaTokenizer", R"(,"cls_token":"a","sep_token":"b")").encode("c").ids, (Ids{0, 2, 1}));
  EXPECT_EQ(Tokenizer::from_json(d.text(), "x").encode("ABC").ids, (Ids{5}));
}

TEST(TokenizerClass, BertReplacesAnyNormalizerAndThePostProcessor) {
  Document d;
  d.normalizer = "null";
  d.pre_tokenizer = "null";
  d.decoder = "null";
  const Tokenizer tokenizer = load_files(
      {{"tokenizer.json", d.text()}, {"tokenizer_config.json", R"({"tokenizer_class":"ElectraTokenizer"})"}});
  EXPECT_EQ(tokenizer.encode("THE cats").ids, (Ids{1, 3, 4, 5, 2}));
  EXPECT_EQ(tokenizer.encode_pair("the", "cat").type_ids, (Ids{0, 0, 0, 1, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 4, 5}), "the cats");
}

TEST(TokenizerClass, NllbBeginsWithTheLanguage) {
  Document d;
  d.model = R"({"type":"BPE","vocab":{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"▁":4,"a":5,"▁a":6},"merges":["▁ a"]})";
  d.pre_tokenizer = "null";
  const auto ids = [&](const std::string& keys) {
    return load_files({{"tokenizer.json", d.text()},
                       {"tokenizer_config.json", R"({"tokenizer_class":"NllbTokenizer",)"
                                                 R"("additional_special_tokens":["eng_Latn","fra_Latn"])" +
                                                     keys + "}"}})
        .encode("a")
        .ids;
  };
  EXPECT_EQ(ids(""), (Ids{8, 6, 2}));  // after <mask>
  EXPECT_EQ(ids(R"(,"src_lang":"fra_Latn")"), (Ids{9, 6, 2}));
  EXPECT_EQ(ids(R"(,"src_lang":"xyz_Latn")"), (Ids{3, 6, 2}));
  EXPECT_EQ(ids(R"(,"legacy_behaviour":true)"), (Ids{6, 2, 8}));
}

TEST(TokenizerClass, SpecialTokensAreAddedInTransformersOrder) {
  const std::string json = Document().text();
  const auto load = [&](const std::string& keys, std::map<std::string, std::string> more) {
    more["tokenizer.json"] = json;
    more["tokenizer_config.json"] = R"({"tokenizer_class":"PreTrainedTokenizerFast")" + keys + "}";
    return load_files(std::move(more));
  };
  const Tokenizer listed = load(R"(,"eos_token":"<e>","x_token":"<x>","extra_special_tokens":["<y>"],)"
                                R"("added_tokens_decoder":{"20":{"content":"<b>"},"9":{"content":"<a>"}})",
                                {{"special_tokens_map.json", R"({"pad_token":"<p>"})"}});
  const std::vector<std::string> order{"<a>", "<b>", "<e>", "<x>", "<y>"};
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(listed.id_of(order[i]), static_cast<int32_t>(8 + i)) << order[i];
  EXPECT_EQ(listed.id_of("<p>"), std::nullopt);  // the list replaces special_tokens_map.json
  EXPECT_FALSE(listed.special(8));
  EXPECT_TRUE(listed.special(10));
  const Tokenizer mapped = load(R"(,"pad_token":null)", {{"special_tokens_map.json", R"({"pad_token":"<p>"})"},
                                                         {"added_tokens.json", R"({"<q>":30,"<p>":29})"}});
  EXPECT_EQ(mapped.id_of("<p>"), 8);
  EXPECT_TRUE(mapped.special(8));
  EXPECT_EQ(mapped.id_of("<q>"), 9);
  EXPECT_FALSE(mapped.special(9));
}

TEST(TokenizerClass, FormsOfSpecialTokens) {
  const std::string object = R"({"content":"<o>","lstrip":true,"normalized":false)",
                    with_type = object + R"(,"__type":"AddedToken"})";
  const auto load = [&](const std::string& keys, const std::string& map = "{}", const std::string& json = "") {
    return load_files({{"tokenizer.json", json.empty() ? Document().text() : json},
                       {"tokenizer_config.json", R"({"tokenizer_class":"PreTrainedTokenizerFast",)" + keys + "}"},
                       {"special_tokens_map.json", map}});
  };
  const auto refusal = [&](const std::string& keys) { return message_of([&] { load(keys); }); };
  EXPECT_EQ(load(R"("bos_token":)" + with_type).named("bos_token"), "<o>");
  const char* const expected = "is not a token; write a text, or an object with \"__type\": \"AddedToken\"";
  EXPECT_NE(refusal(R"("bos_token":)" + object + "}").find(std::string("bos_token ") + expected), std::string::npos);
  EXPECT_NE(refusal(R"("bos_token":3)").find(expected), std::string::npos);
  EXPECT_NE(refusal(R"("extra_special_tokens":[)" + object + "}]").find(expected), std::string::npos);
  EXPECT_NE(refusal(R"("extra_special_tokens":{"a":)" + object + "}}").find("has a a that "), std::string::npos);
  EXPECT_EQ(load(R"("image_token":)" + object + "}").named("image_token"), std::nullopt);
  EXPECT_EQ(load(R"("image_token":)" + with_type).named("image_token"), "<o>");
  EXPECT_EQ(load(R"("extra_special_tokens":{"sound":"<n>"})").named("sound"), "<n>");
  EXPECT_EQ(load(R"("bos_token":"<a>")", R"({"bos_token":)" + object + "}}").named("bos_token"), "<o>");
  EXPECT_EQ(load(R"("bos_token":"<a>")", R"({"bos_token":null})").named("bos_token"), std::nullopt);
  EXPECT_EQ(load(R"("bos_token":"<a>")", R"({"bos_token":null})").id_of("<a>"), std::nullopt);

  // A token twice: a text and an object differ, and the last one decides.
  const auto strips = [&](const std::string& keys) { return load(keys).encode("the <o>").offsets.back().begin == 3; };
  EXPECT_TRUE(strips(R"("extra_special_tokens":["<o>",)" + with_type + "]"));
  EXPECT_FALSE(strips(R"("extra_special_tokens":[)" + with_type + R"(,"<o>"])"));
  EXPECT_TRUE(strips(R"("eos_token":"<o>","extra_special_tokens":[)" + with_type + "]"));
  EXPECT_FALSE(strips(R"("eos_token":"<o>","added_tokens_decoder":{"9":{"content":"<o>"}},"extra_special_tokens":[)" +
                      with_type + "]"));

  // Files list them beside tokenizer.json, which may have more of them.
  Document d;
  d.added_tokens = R"([{"content":"<r>","special":true}])";
  const Tokenizer more = load(R"("extra_special_tokens":["<e>"])", "{}", d.text());
  EXPECT_TRUE(more.special(8) && !more.special_by_name(8));
  EXPECT_TRUE(more.special(9) && more.special_by_name(9));

  // tokenizer.json cuts and pads as the files do not say otherwise.
  std::string json = Document().text();
  const std::string none = R"("truncation":null,"padding":null)";
  json.replace(json.find(none), none.size(), R"("truncation":{"direction":"Left"},"padding":{"pad_token":"<p>"})");
  EXPECT_EQ(load(R"("a":1)", "{}", json).named("pad_token"), "<p>");
  EXPECT_EQ(load(R"("pad_token":null)", "{}", json).named("pad_token"), std::nullopt);
  EXPECT_TRUE(load(R"("a":1)", "{}", json).rules().cuts_left);
  EXPECT_FALSE(load(R"("truncation_side":"right")", "{}", json).rules().cuts_left);
  // A class that builds on a token takes one content of it.
  const auto bert = [&](const std::string& keys) {
    return message_of([&] {
      load_files({{"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"},
                  {"tokenizer_config.json", R"({"tokenizer_class":"BertTokenizer",)" + keys + "}"}});
    });
  };
  EXPECT_NE(bert(R"("extra_special_tokens":{"cls_token":"a"})").find("another cls_token in extra_special_tokens"),
            std::string::npos);
  EXPECT_EQ(bert(R"("extra_special_tokens":{"cls_token":"[CLS]"})"), "no error");
}

// The package tokenizers has tables of Unicode 8 for these parts: U+166D was punctuation, U+1734 a nonspacing mark, and
// U+2E4F, U+1DF6 and U+0890 were not there. U+2E42, U+0301 and U+00AD were.
TEST(Tokenizer, BertReadsByUnicode8) {
  Document d;
  d.model = R"({"type":"WordPiece","unk_token":"u","continuing_subword_prefix":"##","max_input_chars_per_word":9,)"
            R"("vocab":{"u":0,"a":1,"b":2,"ab":3}})";
  d.normalizer = R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":false,"strip_accents":true,)"
                 R"("lowercase":false})";
  d.pre_tokenizer = R"({"type":"BertPreTokenizer"})";
  d.post_processor = d.decoder = "null";
  d.added_tokens = "[]";
  const Tokenizer tokenizer = d.load();
  for (const char* cut : {"a\u2E42b", "a\u166Db"}) EXPECT_EQ(tokenizer.encode(cut).ids, (Ids{1, 0, 2})) << cut;
  for (const char* left_out : {"a\u0301b", "a\u1734b", "a\u00ADb"})
    EXPECT_EQ(tokenizer.encode(left_out).ids, Ids{3}) << left_out;
  for (const char* kept : {"a\u2E4Fb", "a\u1DF6b", "a\u0890b"}) EXPECT_EQ(tokenizer.encode(kept).ids, Ids{0}) << kept;
}

// The package tokenizers has tables of Unicode 9 for normal forms: U+32FF (Unicode 12.1) has no decomposition, U+2460
// has.
TEST(Tokenizer, NormalFormsByUnicode9) {
  Document d;
  d.model = R"({"type":"WordLevel","unk_token":"u","vocab":{"u":0,"\u32ff":1,"\u4ee4\u548c":2,"1":3}})";
  d.normalizer = R"({"type":"NFKC"})";
  d.pre_tokenizer = R"({"type":"WhitespaceSplit"})";
  d.decoder = "null";
  EXPECT_EQ(d.load().encode("\u32FF \u2460").ids, (Ids{1, 3}));
}

// As in the package tokenizers, white space at the end of a line does not belong to the token. U+001C and U+200B are no
// white space.
TEST(Tokenizer, LinesOfAVocabulary) {
  const Tokenizer tokenizer = load_files(
      {{"vocab.txt", "[PAD]\n[UNK] \n[CLS]\r\n[SEP]\n[MASK]\na \xC2\xA0\t\nb\xE2\x80\xA8\n c\nd\x1C\ne\xE2\x80\x8B\nf"},
       {"tokenizer_config.json", R"({"tokenizer_class":"BertTokenizer"})"}});
  for (const auto& [token, id] :
       {std::pair("[UNK]", 1), {"[CLS]", 2}, {"a", 5}, {"b", 6}, {" c", 7}, {"d\x1C", 8}, {"f", 10}})
    EXPECT_EQ(tokenizer.id_of(token), id) << token;
  EXPECT_EQ(tokenizer.id_of("e\xE2\x80\x8B"), 9);
}

TEST(Tokenizer, OwnTexts) {
  Document d;
  d.model = R"({"type":"BPE","vocab":{"abcdef":0,"▁a":1,"<0xC3>":2,"b":3,"▁":4},"merges":[],"byte_fallback":true})";
  d.normalizer = d.pre_tokenizer = d.post_processor = "null";
  d.added_tokens = R"([{"content":"abcdef"},{"content":"</s>","special":true}])";
  d.decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
              R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";
  const Tokenizer pieces = d.load();
  EXPECT_EQ(pieces.own_text(1), " a");
  EXPECT_EQ(pieces.own_text(2), "\xC3");
  EXPECT_EQ(pieces.own_text(3), "b");
  EXPECT_EQ(pieces.own_text(4), " ");
  EXPECT_EQ(pieces.own_text(5), "</s>");
  EXPECT_EQ(pieces.own_text(6), std::nullopt);
  d.decoder = R"({"type":"ByteLevel"})";
  d.model = R"({"type":"BPE","vocab":{"abcdef":0,"Ġa":1,"Ã":2},"merges":[]})";
  const Tokenizer bytes = d.load();
  EXPECT_EQ(bytes.own_text(1), " a");
  EXPECT_EQ(bytes.own_text(2), "\xC3");
  EXPECT_EQ(bytes.own_text(3), "</s>");
  d.added_tokens = "[]";
  d.decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})";
  d.model = R"({"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"##a":1}})";
  const Tokenizer without = d.load();
  EXPECT_THROW(without.own_text(1), FormatError);  // it has no letters to put in front
}

TEST(TokenizerClass, KeysThatHeedDoesNotSupportAreRefused) {
  const auto error = [&](const std::string& keys) {
    return message_of([&] {
      load_files({{"tokenizer.json", Document().text()}, {"tokenizer_config.json", "{" + keys + "}"}});
    });
  };
  EXPECT_EQ(
      error(R"("split_special_tokens":true)"),
      "model/tokenizer_config.json: split_special_tokens has a value that heed does not support; it must be false");
  EXPECT_NE(error(R"("init_inputs":[1])").find("it must be []"), std::string::npos);
  EXPECT_NE(error(R"("fast_tokenizer_files":["tokenizer.4.0.0.json"])").find("it must be"), std::string::npos);
  EXPECT_EQ(error(R"("split_special_tokens":false,"init_inputs":[],"fast_tokenizer_files":["tokenizer.json"])"),
            "no error");
  EXPECT_NE(error(R"("added_tokens_decoder":{"x":{"content":"<a>"}})").find("'x', which is not an id"),
            std::string::npos);
}

TEST(Tokenizer, TheLastOfEqualAddedTokensSaysWhatItStrips) {
  Document d;
  d.added_tokens = R"([{"content":"<l>","lstrip":true,"special":true},{"content":"<l>","special":true}])";
  EXPECT_EQ(d.load().encode("the <l>").offsets, (std::vector<ByteRange>{{0, 3}, {4, 7}}));
}

// The package `tokenizers` 0.23: the last form is found, one special form makes the token special, and one normalized
// form makes decoders write it so.
TEST(Tokenizer, TheLastOfEqualAddedTokensSaysHowItIsFound) {
  Document d;
  d.normalizer = R"({"type":"Lowercase"})";
  const auto load = [&](const std::string& first, const std::string& last) {
    d.added_tokens = R"([{"content":"<L>",)" + first + R"(},{"content":"<L>",)" + last + "}]";
    return d.load();
  };
  const std::string given = R"("normalized":false,"special":)", normal = R"("normalized":true,"special":)";
  EXPECT_NE(load(normal + "true", given + "true").encode("<l>").ids, (Ids{8}));
  EXPECT_EQ(load(normal + "true", given + "true").encode("<L>").ids, (Ids{8}));
  EXPECT_EQ(load(given + "true", normal + "true").encode("<l>").ids, (Ids{8}));
  EXPECT_EQ(load(given + "false", normal + "false").encode("<l>").ids, (Ids{8}));
  EXPECT_TRUE(load(given + "true", given + "false").special(8));
  EXPECT_EQ(load(normal + "false", given + "false").decode(Ids{8}), "<l>");
  EXPECT_EQ(load(given + "false", given + "false").decode(Ids{8}), "<L>");
}

TEST(Tokenizer, StripWithoutASideKeepsWhiteSpace) {
  Document d;
  d.model = R"({"type":"BPE","vocab":{" ":0,"a":1},"merges":[]})";
  d.pre_tokenizer = "null";
  d.normalizer = R"({"type":"Strip","strip_left":false,"strip_right":false})";
  EXPECT_EQ(d.load().encode("  ").ids, (Ids{0, 0}));
  d.normalizer = R"({"type":"Strip","strip_left":true,"strip_right":false})";
  EXPECT_EQ(d.load().encode("  ").ids, (Ids{}));
}

TEST(Tokenizer, OffsetsLoseWholeCharacters) {
  Document d;
  d.model = R"({"type":"BPE","vocab":{"Ġ":0,"Ã":1,"©":2},"merges":[]})";
  d.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false})";
  d.post_processor = R"({"type":"ByteLevel","trim_offsets":true,"add_prefix_space":false})";
  EXPECT_EQ(d.load().encode("é").offsets, (std::vector<ByteRange>{{2, 2}, {0, 2}, {0, 2}}));
}

TEST(Tokenizer, DirectoriesWithoutOneSayWhatIsRead) {
  const std::filesystem::path empty = std::filesystem::path(testing::TempDir()) / "heed-no-tokenizer";
  std::filesystem::create_directories(empty);
  EXPECT_NE(message_of([&] { load_tokenizer(empty.string()); }).find("no tokenizer that heed reads"),
            std::string::npos);
  EXPECT_NE(message_of([&] { load_tokenizer((empty / "none").string()); }).find("there is no such directory"),
            std::string::npos);
  std::ofstream(empty / "vocab.json") << R"({"a":0})";
  std::ofstream(empty / "merges.txt") << "#version: 0.2\n\n";
  std::ofstream(empty / "tokenizer_config.json") << R"({"tokenizer_class":"CTRLTokenizer"})";
  EXPECT_NE(message_of([&] { load_tokenizer(empty.string()); }).find("does not know how a CTRLTokenizer"),
            std::string::npos);
  std::filesystem::remove_all(empty);
}

// Files that somebody changed end in an Error or make a tokenizer that works, or says what it lacks.
TEST(Tokenizer, ChangedFiles) {
  Document d;
  d.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},)"
                 R"({"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "},)"
                 R"({"type":"Precompiled","precompiled_charsmap":"CAAAAAABAAAAAAAAYQA="}]})";
  d.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"Metaspace","replacement":"▁"},)"
                    R"({"type":"Split","pattern":{"String":"a"},"behavior":"Contiguous"},{"type":"ByteLevel"}]})";
  d.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s"}},{"Sequence":{"id":"A"}}],)"
                     R"("pair":[{"Sequence":{"id":"A"}}],"special_tokens":{"s":{"ids":[1]}}})";
  d.added_tokens = R"([{"id":9,"content":"<a>","lstrip":true,"normalized":true}])";
  d.model = kBytes;
  const std::string valid = d.text();
  std::mt19937 random(5);
  const auto draw = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int loaded = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = valid;
    for (size_t changes = 1 + draw(3); changes > 0; --changes) {
      const size_t at = draw(text.size());
      switch (draw(5)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + draw(20));
          break;
        case 2:
          text.insert(at, text.substr(draw(text.size()), draw(30)));
          break;
        case 3:
          text.insert(at, std::string(1, "0123456789[]{}\",:-e"[draw(19)]));
          break;
        default:
          text[at] = "0123456789"[draw(10)];
      }
    }
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(text, "x");
      ++loaded;
      const Encoding row = tokenizer.encode_pair("abc  <a> caf\u00E9 \u1E9B\u0323", "b\xFF");
      tokenizer.decode(row.ids, false);
      for (const ByteRange& range : row.offsets) ASSERT_LE(range.begin, range.end);
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace heed::inline v0
