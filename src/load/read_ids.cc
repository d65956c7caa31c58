// Everything that a model computes for one row of ids.
#include "heed/attended.h"
#include "heed/text_encoder.h"
#include "heed/text_generator.h"
#include "heed/text_reader.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

void check_ids(const char* what, const std::vector<int32_t>& ids, int64_t pieces) {
  if (ids.empty()) throw ShapeError(std::string("logits: ") + what + " has no tokens; give one at least");
  for (const int32_t id : ids)
    if (id < 0 || id >= pieces)
      throw ShapeError(std::string("logits: ") + what + " has the id " + std::to_string(id) +
                       "; the model's ids are 0 to " + std::to_string(pieces - 1));
}

void check_length(const char* what, const std::vector<int32_t>& ids, int64_t longest) {
  if (std::ssize(ids) > longest)
    throw ShapeError(std::string("logits: ") + what + " has " + std::to_string(ids.size()) +
                     " tokens; the model takes at most " + std::to_string(longest));
}

// (1, L, ...) -> (L, ...)
Tensor only(const Variable& batch) { return batch.value().to(DType::f32).select(0, 0).contiguous(); }

Reading read_pair(const Transformer& model, const std::vector<int32_t>& ids, const std::vector<int32_t>& target,
                  AttentionRecord* record) {
  check_ids("the text", ids, model.config().source_pieces());
  check_ids("the target", target, model.config().vocab_size);
  check_length("the target", target, model.config().max_positions);
  const int32_t pad = model.config().pad_id;
  const TokenBatch source = TokenBatch::pad({ids}, pad);
  const Variable memory = model.encode(source, record);
  const Variable last = model.decode(TokenBatch::pad({target}, pad), memory, source, record);
  Reading reading;
  if (model.has_logits()) reading.logits = only(model.logits_of(last));
  if (record && record->want_states) {
    reading.encoder_states = states_of(record->encoder_states, memory);
    reading.decoder_states = states_of(record->decoder_states, last);
  }
  return reading;
}

// For a model whose decoder, if any, reads the same ids as the encoder.
Reading read_source(const Transformer& model, const std::vector<int32_t>& ids, AttentionRecord* record) {
  check_ids("the text", ids, model.config().source_pieces());
  const TokenBatch source = TokenBatch::pad({ids}, model.config().pad_id);
  Reading reading;
  if (model.config().num_decoder_layers > 0) reading.logits = only(model.class_scores(source));
  if (!record) return reading;
  const Variable memory = model.encode(source, record);
  if (record->want_states) reading.encoder_states = states_of(record->encoder_states, memory);
  return reading;
}

Reading read_text(const StoredModel& stored, const std::vector<int32_t>& ids, AttentionRecord* record) {
  const TokenBatch text = TokenBatch::pad({ids}, 0);
  const bool states = record && record->want_states;
  Reading reading;
  if (const auto* encoder = stored.get_if<TextEncoder>()) {
    check_ids("the text", ids, encoder->config().vocab_size);
    const Variable last = encoder->hidden(text, {}, record);
    if (encoder->config().head) reading.logits = only(encoder->apply_head(last, text));
    if (states) reading.encoder_states = states_of(record->encoder_states, last);
  } else {
    const auto& model = stored.as<LanguageModel>();
    check_ids("the text", ids, model.config().vocab_size);
    const Variable last = model.hidden(text, record);
    if (stored.pretrained().head.task == HeadTask::text_classes)
      reading.logits = only(model.class_scores(last, text));
    else if (model.has_logits())
      reading.logits = only(model.logits_of(last));
    if (states) reading.decoder_states = states_of(record->decoder_states, last);
  }
  return reading;
}

}  // namespace

std::vector<int32_t> reading_ids(const StoredModel& model, const std::string& text) {
  if (const auto* language_model = model.get_if<LanguageModel>(); language_model && language_model->has_logits())
    return prompt_ids(model.tokenizer(), text);
  const auto* transformer = model.get_if<Transformer>();
  if (!transformer || transformer->details()) return model.source_tokenizer().encode(text).ids;
  std::vector<int32_t> ids = model.source_tokenizer().encode(text, /*special_tokens=*/false).ids;
  ids.push_back(transformer->config().eos_id);
  return ids;
}

std::vector<int32_t> decoder_ids(const StoredModel& model, const std::string& text) {
  std::vector<int32_t> ids{model.as<Transformer>().config().bos_id};
  if (const auto first = model.pretrained().beam.rules.first_token) ids.push_back(*first);
  const std::vector<int32_t> of_text = model.tokenizer().encode(text, /*special_tokens=*/false).ids;
  ids.insert(ids.end(), of_text.begin(), of_text.end());
  return ids;
}

bool takes_target(const StoredModel& model) {
  const auto* const transformer = model.get_if<Transformer>();
  return transformer && transformer->config().num_decoder_layers > 0 && model.pretrained().head.task == HeadTask::none;
}

Reading read_ids(const StoredModel& model, const std::vector<int32_t>& ids, const std::vector<int32_t>& target,
                 const ReadOptions& options) {
  const NoGrad no_grad;
  check_length("the text", ids, longest_text(model));
  AttentionRecord record;
  record.want_states = options.want_states;
  AttentionRecord* const wanted = options.want_states || options.want_weights ? &record : nullptr;
  Reading reading;
  const auto* const transformer = model.get_if<Transformer>();
  if (transformer && takes_target(model)) {
    reading = read_pair(*transformer, ids, target, wanted);
  } else {
    if (!target.empty())
      throw UsageError("logits: a target is for the decoder of a translator, and the model is " + what_it_does(model));
    reading = transformer ? read_source(*transformer, ids, wanted) : read_text(model, ids, wanted);
  }
  if (reading.logits.defined()) check_finite("logits", "a logit", reading.logits, model.module());
  if (!options.want_weights) return reading;
  add_weights("encoder", record.encoder, reading);
  add_weights("decoder", record.decoder, reading);
  add_weights("cross", record.cross, reading);
  return reading;
}

}  // namespace heed::inline v0
