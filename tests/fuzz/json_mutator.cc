#include "fuzz/json_mutator.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);  // libFuzzer's own

namespace heed::fuzz {
namespace {

using Json = nlohmann::ordered_json;

class Mutator {
 public:
  Mutator(std::string_view text, size_t most, unsigned seed)
      : document_(Json::parse(text, nullptr, /*allow_exceptions=*/false)), most_(most), random_(seed) {}

  bool is_json() const { return !document_.is_discarded(); }
  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string changed() {
    for (size_t times = 1 + below(4); times > 0; --times) {
      places_.clear();
      collect(document_, 0);
      change(*places_[below(places_.size())]);
    }
    return written(document_);
  }

 private:
  static std::string written(const Json& value) {
    return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  }

  // All values, the document first.
  void collect(Json& value, int depth) {
    places_.push_back(&value);
    constexpr int kDeepest = 100;
    if (value.is_structured() && depth < kDeepest)
      for (Json& child : value) collect(child, depth + 1);
  }

  const Json& any() { return *places_[below(places_.size())]; }

  void change(Json& value) {
    switch (below(10)) {
      case 0:
        value = Json(any());
        return;
      case 1:
        value = scalar();
        return;
      case 2:
        value = Json::array({Json(value)});
        return;
      default:
        if (value.is_array()) return change_array(value);
        if (value.is_object()) return change_object(value);
        if (value.is_string()) return change_string(value);
        value = scalar();
    }
  }

  void change_array(Json& list) {
    const size_t at = below(list.size());
    switch (list.empty() ? 0 : below(4)) {
      case 0:
        list.insert(list.begin() + static_cast<int64_t>(at), Json(any()));
        return;
      case 1:
        list.erase(at);
        return;
      case 2:
        std::swap(list[at], list[below(list.size())]);
        return;
      default: {  // what grows, grows by repeating
        constexpr size_t kTimes[] = {1, 2, 10, 40, 200, 1000};
        const Json one = list[at];
        const size_t room = most_ / (written(one).size() + 1);
        for (size_t times = std::min(kTimes[below(std::size(kTimes))], room); times > 0; --times) list.push_back(one);
      }
    }
  }

  void change_object(Json& object) {
    if (object.empty() || below(4) == 0) {
      object[any_key()] = Json(any());
      return;
    }
    auto member = object.begin();
    std::advance(member, static_cast<int64_t>(below(object.size())));
    if (below(3) == 0) {
      object.erase(member);
    } else if (below(2) == 0) {
      const Json kept = *member;
      const std::string key = any_key();  // before places move
      object.erase(member);
      object[key] = kept;
    } else {
      change_scalar(*member);
    }
  }

  void change_scalar(Json& value) {
    if (value.is_string()) return change_string(value);
    if (!value.is_structured()) value = scalar();
  }

  void change_string(Json& value) {
    std::string text = value.get<std::string>();
    switch (below(4)) {
      case 0:
        value = text + text;
        return;
      case 1:
        value = any_text();
        return;
      case 2:
        text.insert(below(text.size() + 1), any_text());
        value = text;
        return;
      default: {
        const size_t size = text.size();
        text.resize(size + 16);
        text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
        value = text;
      }
    }
  }

  std::string any_key() {
    const Json& object = any();
    if (!object.is_object() || object.empty()) return any_text();
    auto member = object.begin();
    std::advance(member, static_cast<int64_t>(below(object.size())));
    return member.key();
  }

  // A text of the document, or one that readers know.
  std::string any_text() {
    static constexpr const char* kTexts[] = {"",
                                             "a",
                                             "aa",
                                             " ",
                                             "\u2581",
                                             "\uFDFA",
                                             "A",
                                             "B",
                                             "##",
                                             "</w>",
                                             "<0x41>",
                                             "[UNK]",
                                             "type",
                                             "Sequence",
                                             "normalizers",
                                             "pretokenizers",
                                             "processors",
                                             "decoders",
                                             "Replace",
                                             "pattern",
                                             "String",
                                             "Regex",
                                             "content",
                                             "Prepend",
                                             "prepend",
                                             "NFC",
                                             "NFKD",
                                             "Lowercase",
                                             "Strip",
                                             "ByteLevel",
                                             "Metaspace",
                                             "Precompiled",
                                             "BertNormalizer",
                                             "Split",
                                             "behavior",
                                             "Isolated",
                                             "Removed",
                                             "Digits",
                                             "Punctuation",
                                             "WhitespaceSplit",
                                             "TemplateProcessing",
                                             "single",
                                             "pair",
                                             "SpecialToken",
                                             "special_tokens",
                                             "ids",
                                             "tokens",
                                             "id",
                                             "type_id",
                                             "BPE",
                                             "Unigram",
                                             "WordPiece",
                                             "vocab",
                                             "merges",
                                             "unk_id",
                                             "unk_token",
                                             "byte_fallback",
                                             "fuse_unk",
                                             "ignore_merges",
                                             "end_of_word_suffix",
                                             "continuing_subword_prefix",
                                             "max_input_chars_per_word",
                                             "Fuse",
                                             "ByteFallback",
                                             "BPEDecoder",
                                             "truncation",
                                             "padding",
                                             "strategy",
                                             "Fixed",
                                             "pad_to_multiple_of",
                                             "added_tokens",
                                             "lstrip",
                                             "rstrip",
                                             "normalized",
                                             "model_type",
                                             "hidden_size",
                                             "num_hidden_layers",
                                             "vocab_size",
                                             "architectures",
                                             "a|b",
                                             "(a*)*b",
                                             "\\b",
                                             "[\\w\\s]+"};
    if (below(2) == 0)
      if (const Json& value = any(); value.is_string()) return value.get<std::string>();
    return kTexts[below(std::size(kTexts))];
  }

  Json scalar() {
    switch (below(6)) {
      case 0:
        return nullptr;
      case 1:
        return below(2) == 0;
      case 2:
        return any_text();
      case 3: {
        static constexpr double kNumbers[] = {0.5, -0.0, 1e-300, 1e300, 3.5e38, -1.5};
        return kNumbers[below(std::size(kNumbers))];
      }
      default: {
        static constexpr int64_t kNumbers[] = {0,
                                               1,
                                               -1,
                                               2,
                                               3,
                                               7,
                                               8,
                                               64,
                                               100,
                                               255,
                                               256,
                                               1000,
                                               65535,
                                               65536,
                                               INT32_MAX - 1,
                                               INT32_MAX,
                                               int64_t{1} << 32,
                                               INT64_MAX,
                                               INT64_MIN};
        return kNumbers[below(std::size(kNumbers))];
      }
    }
  }

  Json document_;
  const size_t most_;
  std::minstd_rand random_;
  std::vector<Json*> places_;
};

}  // namespace

std::string mutate_json(std::string_view text, size_t most, unsigned seed) {
  Mutator mutator(text, most, seed);
  constexpr size_t kSeldom = 20;
  if (!mutator.is_json() || mutator.below(kSeldom) == 0) return {};
  std::string changed = mutator.changed();
  return changed.size() > most ? std::string() : changed;
}

}  // namespace heed::fuzz
