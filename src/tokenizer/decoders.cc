#include <algorithm>
#include <array>

#include "text/unicode.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/decoder.h"
#include "tokenizer/growth.h"

namespace heed::inline v0 {
namespace {

void replace_all(std::string* text, std::string_view what, std::string_view by) {
  if (what.empty() || text->find(what) == std::string::npos) return;
  std::string out;
  size_t last = 0;
  for (size_t at; (at = text->find(what, last)) != std::string::npos; last = at + what.size()) {
    out.append(*text, last, at - last);
    out += by;
  }
  out.append(*text, last);
  *text = std::move(out);
}

// The package `tokenizers` has one rule more than transformers.
void clean_up(std::string* text, bool of_package = true) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleanup{{{" .", "."},
                                                                                           {" ?", "?"},
                                                                                           {" !", "!"},
                                                                                           {" ,", ","},
                                                                                           {" ' ", "'"},
                                                                                           {" n't", "n't"},
                                                                                           {" 'm", "'m"},
                                                                                           {" do not", " don't"},
                                                                                           {" 's", "'s"},
                                                                                           {" 've", "'ve"},
                                                                                           {" 're", "'re"}}};
  for (const auto& [what, by] : kCleanup)
    if (of_package || what != " do not") replace_all(text, what, by);
}

class ByteLevelDecoder : public Decoder {
 public:
  Bytes bytes() const override { return Bytes::characters; }
  void apply(std::vector<std::string>* tokens, size_t) const override {
    std::string all;
    for (const std::string& token : *tokens) all += bytes_of_characters(token).value_or(token);
    *tokens = {sanitize_utf8(all)};
  }
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const MetaspaceOptions& o)
      : mark_(o.replacement), prepends_(o.prepend != PrependScheme::never) {}
  void apply(std::vector<std::string>* tokens, size_t) const override {
    for (size_t i = 0; i < tokens->size(); ++i) replace_all(&(*tokens)[i], mark_, i == 0 && prepends_ ? "" : " ");
  }

 private:
  std::string mark_;
  bool prepends_;
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>* tokens, size_t) const override {
    for (size_t i = 0; i < tokens->size(); ++i) {
      std::string& token = (*tokens)[i];
      if (i > 0) {
        if (token.starts_with(prefix_)) {
          token.erase(0, prefix_.size());
        } else {
          token.insert(0, " ");
        }
      }
      if (cleanup_) clean_up(&token);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

// Graves et al. 2006: of equal tokens in a row one counts, and blanks are nothing.
class CtcDecoder : public Decoder {
 public:
  CtcDecoder(std::string blank, std::string space, bool cleanup)
      : blank_(std::move(blank)), space_(std::move(space)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>* tokens, size_t) const override {
    tokens->erase(std::unique(tokens->begin(), tokens->end()), tokens->end());
    for (std::string& token : *tokens) {
      replace_all(&token, blank_, "");
      if (!cleanup_) continue;
      clean_up(&token);
      replace_all(&token, space_, " ");
    }
    std::erase(*tokens, "");
  }

 private:
  std::string blank_, space_;
  bool cleanup_;
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>* tokens, size_t most) const override {
    Pattern::Finder finder(pattern_);
    std::vector<Part> parts;
    size_t written = 0;
    const auto expect_room = [&](size_t more) {
      if (more > most - written) refuse_growth("decode", most);
      written += more;
    };
    for (std::string& token : *tokens) {
      finder.find(token, &parts);
      std::string out;
      for (const Part& part : parts) {
        expect_room(part.match ? content_.size() : part.end - part.begin);
        if (part.match) {
          out += content_;
        } else {
          out.append(token, part.begin, part.end - part.begin);
        }
      }
      token = std::move(out);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class ByteFallbackDecoder : public Decoder {
 public:
  Bytes bytes() const override { return Bytes::numbers; }
  void apply(std::vector<std::string>* tokens, size_t) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (valid_utf8(bytes)) {
        out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\uFFFD");
      }
      bytes.clear();
    };
    for (std::string& token : *tokens) {
      if (const int byte = byte_of_token(token); byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    *tokens = std::move(out);
  }
};

class FuseDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>* tokens, size_t) const override {
    std::string all;
    for (const std::string& token : *tokens) all += token;
    *tokens = {std::move(all)};
  }
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>* tokens, size_t) const override {
    for (std::string& token : *tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>* tokens, size_t) const override {
    for (size_t i = 0; i < tokens->size(); ++i) replace_all(&(*tokens)[i], suffix_, i + 1 == tokens->size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class Sequence : public Decoder {
 public:
  explicit Sequence(std::vector<DecoderPtr> decoders) : decoders_(std::move(decoders)) {}
  void apply(std::vector<std::string>* tokens, size_t most) const override {
    for (const DecoderPtr& decoder : decoders_) {
      decoder->apply(tokens, most);
      size_t bytes = 0;
      for (const std::string& token : *tokens) bytes += token.size();
      if (bytes > most) refuse_growth("decode", most);
    }
  }
  Bytes bytes() const override {
    Bytes most = Bytes::none;
    for (const DecoderPtr& decoder : decoders_) most = std::max(most, decoder->bytes());
    return most;
  }

 private:
  std::vector<DecoderPtr> decoders_;
};

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

void clean_up_tokenization(std::string* text) { clean_up(text, /*of_package=*/false); }

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);  // "<0x+1>", too
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

DecoderPtr make_byte_level_decoder() { return std::make_unique<ByteLevelDecoder>(); }
DecoderPtr make_metaspace_decoder(const MetaspaceOptions& o) { return std::make_unique<MetaspaceDecoder>(o); }
DecoderPtr make_ctc_decoder(std::string pad_token, std::string word_delimiter_token, bool cleanup) {
  return std::make_unique<CtcDecoder>(std::move(pad_token), std::move(word_delimiter_token), cleanup);
}
DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
DecoderPtr make_replace_decoder(Pattern pattern, std::string content) {
  return std::make_unique<ReplaceDecoder>(std::move(pattern), std::move(content));
}
DecoderPtr make_byte_fallback_decoder() { return std::make_unique<ByteFallbackDecoder>(); }
DecoderPtr make_fuse_decoder() { return std::make_unique<FuseDecoder>(); }
DecoderPtr make_strip_decoder(std::string content, int64_t start, int64_t stop) {
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}
DecoderPtr make_bpe_decoder(std::string suffix) { return std::make_unique<BpeDecoder>(std::move(suffix)); }
DecoderPtr make_sequence(std::vector<DecoderPtr> decoders) { return std::make_unique<Sequence>(std::move(decoders)); }

}  // namespace heed::inline v0
