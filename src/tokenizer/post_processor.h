// Post-processors: add [CLS], [SEP] and segments to the tokens of one or two texts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tokenizer.h"

namespace heed::inline v0 {

/// The tokens of a text, and it. Without one for special tokens.
struct Row {
  Encoding tokens{};
  std::string_view text{};
};

void append(const Encoding& from, Encoding* to);

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// `rows`: the texts' tokens, one or two of them; what it leaves there is joined in its order.
  virtual void apply(std::vector<Row>* rows, bool special_tokens) const = 0;
};
using PostProcessorPtr = std::shared_ptr<const PostProcessor>;

/// A token's text: what is trimmed off its offsets depends on it. data() == nullptr for one that was found in the text,
/// where it may have whitespace around it.
using TokenText = std::function<std::string_view(int32_t id)>;

/// A piece of a template: a text's tokens, or special tokens.
struct TemplatePiece {
  int sequence = -1;  // 0 or 1; -1 for special tokens
  std::vector<int32_t> ids{};
  int32_t type_id = 0;
};

PostProcessorPtr make_byte_level_processor(bool trim_offsets, bool add_prefix_space, TokenText text);  // ByteLevel
PostProcessorPtr make_bert_processor(int32_t cls, int32_t sep);                                        // BertProcessing
PostProcessorPtr make_roberta_processor(int32_t cls, int32_t sep, bool trim_offsets, bool add_prefix_space,
                                        TokenText text);  // RobertaProcessing
PostProcessorPtr make_template(std::vector<TemplatePiece> single, std::vector<TemplatePiece> pair);
PostProcessorPtr make_sequence(std::vector<PostProcessorPtr> processors);  // Sequence

}  // namespace heed::inline v0
