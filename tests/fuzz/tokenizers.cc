// Tokenizers of all kinds: each is refused, or turns any text into ids and back in memory of the text's size.
#include <cstring>
#include <map>

#include "fuzz/fuzz.h"
#include "heed/error.h"
#include "heed/tokenizer.h"

namespace heed::fuzz {
namespace {

void use(const Tokenizer& tokenizer) {
  static const std::vector<std::string> texts = {"", "The dog's café, 12 \xF0\x9F\x90\xA6\n\n  <s> [MASK] \xFF\xE2\x82",
                                                 "\xE2\x96\x81\xCC\x81 x", std::string(300, 'a'),
                                                 "\uFDFA\uFDFA a\u0301\u0323\u1E9B\u0323"};
  for (const std::string& text : texts) {
    try {
      const Encoding tokens = tokenizer.encode(text);
      constexpr size_t kGrowth = 8 * 4, kAlways = 4 << 16;  // of the text, and a template may repeat it
      expect(tokens.ids.size() <= kGrowth * text.size() + kAlways, "tokens are at most a multiple of a text");
      expect(tokens.offsets.size() == tokens.ids.size(), "each token has its place");
      tokenizer.decode(tokens.ids);
      for (size_t i = 0; i < std::min<size_t>(tokens.ids.size(), 40); ++i) tokenizer.written(tokens.ids[i]);
      tokenizer.encode_pair(text, "b");
    } catch (const Error&) {  // of this text
    }
  }
}

// ------------------------------------------------------------------------------------------------- tokenizer.json

void run_json(const std::string& bytes) { use(Tokenizer::from_json(bytes, "tokenizer.json")); }

std::vector<std::string> json_examples() {
  return {
      R"({"added_tokens":[{"content":"[UNK]","special":true}],"normalizer":{"type":"Sequence","normalizers":[{"type":"Replace","pattern":{"String":"a"},"content":"b"},{"type":"Prepend","prepend":" "},{"type":"NFKC"}]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"_"}]},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A"}},{"Sequence":{"id":"B"}}],"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]}}},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},"content":" "},{"type":"Fuse"}]},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"a":1,"##a":2}}})",
      R"({"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"ByteLevel"},"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"RobertaProcessing","cls":["a",0],"sep":["b",1]}]},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","byte_fallback":true,"end_of_word_suffix":"</w>","vocab":{"a":0,"b":1,"ab":2,"<0x41>":3},"merges":["a b"]}})",
      R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":""},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\w+|\\s"},"behavior":"Isolated","invert":false},"post_processor":{"type":"BertProcessing","cls":["a",0],"sep":["b",1]},"decoder":{"type":"WordPiece","prefix":"##"},"truncation":{"max_length":5},"padding":{"strategy":{"Fixed":8},"pad_to_multiple_of":8,"pad_id":0,"pad_type_id":0,"direction":"Left"},"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1.5],["ab",-2]]}})"};
}

// --------------------------------------------------------------------------------------------------- older files

constexpr char kBetween = '\x1E';  // between two files; the last one may hold it

// Which files there are, by the first byte.
std::vector<const char*> names_of(char kind) {
  switch (kind) {
    case 'b':
      return {"tokenizer_config.json", "vocab.json", "merges.txt"};
    case 'w':
      return {"tokenizer_config.json", "vocab.txt"};
    case 's':
      return {"tokenizer_config.json", "spiece.model"};
    case 'm':
      return {"tokenizer_config.json", "vocab.json", "source.spm", "target.spm"};
    case 'x':
      return {"tokenizer_config.json", "vocab.json", "sentencepiece.bpe.model"};
    default:
      return {"vocabulary.txt"};
  }
}

void run_files(const std::string& bytes) {
  if (bytes.empty()) return;
  std::map<std::string, std::string> files;
  std::string_view rest = std::string_view(bytes).substr(1);
  const std::vector<const char*> names = names_of(bytes[0]);
  for (const char* name : names) {
    const size_t end = name == names.back() ? rest.size() : std::min(rest.find(kBetween), rest.size());
    files[name] = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (bytes[0] == 'm') files["target.spm"] = files["source.spm"];
  const TokenizerFiles directory{.where = "directory",
                                 .contains = [&](const std::string& name) { return files.contains(name); },
                                 .read = [&](const std::string& name) { return files.at(name); }};
  use(load_tokenizer(directory, TokenizerSide::target));
}

// Protocol buffers' wire format, of short texts.
std::string field(int number, std::string_view bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + std::string(bytes);
}
std::string piece(std::string_view text, float score, char type) {
  std::string bits(sizeof score, '\0');
  std::memcpy(bits.data(), &score, sizeof score);
  return field(1, field(1, text) + "\x15" + bits + "\x18" + type);
}
std::string sentencepiece(char kind) {
  std::string model;
  const char* const kTexts[] = {"<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "b"};
  for (size_t i = 0; i < std::size(kTexts); ++i)
    model += piece(kTexts[i], -static_cast<float>(i), i == 0 ? '\2' : i < 3 ? '\3' : '\1');
  return model + field(2, std::string("\x18") + kind) + field(3, "\x18\x01\x20\x01");
}

std::vector<std::string> file_examples() {
  const std::string between(1, kBetween);
  return {"b{\"tokenizer_class\":\"GPT2Tokenizer\"}" + between + R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})" + between +
              "#version: 0.2\na b\n",
          "b{\"tokenizer_class\":\"RobertaTokenizer\",\"add_prefix_space\":true}" + between +
              R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"<mask>":5})" + between + "",
          "w{\"do_lower_case\":false}" + between + "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n",
          "s{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":2}" + between + sentencepiece('\1'),
          "s{\"tokenizer_class\":\"LlamaTokenizer\",\"add_bos_token\":true}" + between + sentencepiece('\2'),
          "s{\"tokenizer_class\":\"XLMRobertaTokenizer\"}" + between + sentencepiece('\1'),
          "s{\"tokenizer_class\":\"NllbTokenizer\",\"additional_special_tokens\":[\"eng_Latn\"]}" + between +
              sentencepiece('\2'),
          "m{\"tokenizer_class\":\"MarianTokenizer\"}" + between + "{\"<unk>\":0,\"</s>\":1,\"<pad>\":2,\"a\":3}" +
              between + sentencepiece('\1'),
          "x{\"tokenizer_class\":\"M2M100Tokenizer\",\"language_codes\":\"wmt21\"}" + between +
              "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"a\":4,\"\u2581a\":5}" + between + sentencepiece('\2'),
          "vheed-vocabulary 1 bpe spaces=collapse pieces=262\n\u2581\na\n",
          "vheed-vocabulary 1 characters pieces=4\n\\x0A\n\\x20\na\n",
          "vheed-vocabulary 1 sentencepiece\nCgA=\n"};
}

constexpr Format kFormats[] = {{"tokenizer_json", run_json, json_examples, /*json=*/true},
                               {"tokenizer_files", run_files, file_examples}};

}  // namespace

std::span<const Format> tokenizer_formats() { return kFormats; }

}  // namespace heed::fuzz
