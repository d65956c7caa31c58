#include "pretrained/generation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "io/json.h"

namespace heed::inline v0 {
namespace {

using Ids = std::vector<int32_t>;
using enum GenerationField::Use;

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr double kLargest = 1e30;

constexpr const char* kOneAnswer = "how many texts are returned is the caller's choice, each is written the same";
constexpr const char* kReturned = "it only decides what the call returns beside the text";
constexpr const char* kSpeed = "it only decides how fast the same text is written";
constexpr const char* kSpeculation = "a draft only decides how fast the same text is written";
constexpr const char* kRecord = "a record of who wrote the file";

constexpr std::array kFields{
    GenerationField{"max_length", applied},
    GenerationField{"max_new_tokens", applied},
    GenerationField{"min_length", applied},
    GenerationField{"min_new_tokens", applied},
    GenerationField{"early_stopping", applied},
    GenerationField{"max_time", refused, "time limits, by which the same call gives other texts"},
    GenerationField{"stop_strings", applied},
    GenerationField{"do_sample", applied},
    GenerationField{"num_beams", applied},
    GenerationField{"use_mtp", harmless, kSpeculation},
    GenerationField{"use_cache", harmless, kSpeed},
    GenerationField{"cache_implementation", refused_value, "caches in fewer bits", "\"quantized\""},
    GenerationField{"cache_config", harmless, "it belongs to cache_implementation"},
    GenerationField{"max_cache_len", harmless, kSpeed},
    GenerationField{"temperature", applied},
    GenerationField{"top_k", applied},
    GenerationField{"top_p", applied},
    GenerationField{"min_p", applied},
    GenerationField{"top_h", refused, "draws that are cut by a share of the entropy"},
    GenerationField{"typical_p", applied},
    GenerationField{"epsilon_cutoff", applied},
    GenerationField{"eta_cutoff", applied},
    GenerationField{"repetition_penalty", applied},
    GenerationField{"encoder_repetition_penalty", applied},
    GenerationField{"length_penalty", applied},
    GenerationField{"no_repeat_ngram_size", applied},
    GenerationField{"bad_words_ids", applied},
    GenerationField{"renormalize_logits", applied},
    GenerationField{"forced_bos_token_id", applied},
    GenerationField{"force_bos_token_to_be_generated", applied},
    GenerationField{"forced_eos_token_id", applied},
    GenerationField{"forced_decoder_ids", harmless, "transformers reads it for Whisper alone"},
    GenerationField{"remove_invalid_values", applied},
    GenerationField{"exponential_decay_length_penalty", applied},
    GenerationField{"suppress_tokens", applied},
    GenerationField{"begin_suppress_tokens", applied},
    GenerationField{"sequence_bias", applied},
    GenerationField{"token_healing", refused, "prompts whose last token is replaced", "false"},
    GenerationField{"guidance_scale", refused, "classifier-free guidance", "1"},
    GenerationField{"watermarking_config", refused, "watermarks"},
    GenerationField{"num_return_sequences", harmless, kOneAnswer},
    GenerationField{"output_attentions", harmless, kReturned},
    GenerationField{"output_hidden_states", harmless, kReturned},
    GenerationField{"output_scores", harmless, kReturned},
    GenerationField{"output_logits", harmless, kReturned},
    GenerationField{"return_dict_in_generate", harmless, kReturned},
    GenerationField{"pad_token_id", harmless, "it fills rows behind their end"},
    GenerationField{"bos_token_id", applied},
    GenerationField{"eos_token_id", applied},
    GenerationField{"encoder_no_repeat_ngram_size", applied},
    GenerationField{"decoder_start_token_id", applied},
    GenerationField{"is_assistant", refused, "models that write drafts for others", "false"},
    GenerationField{"num_assistant_tokens", harmless, kSpeculation},
    GenerationField{"num_assistant_tokens_schedule", harmless, kSpeculation},
    GenerationField{"assistant_confidence_threshold", harmless, kSpeculation},
    GenerationField{"prompt_lookup_num_tokens", harmless, kSpeculation},
    GenerationField{"max_matching_ngram_size", harmless, kSpeculation},
    GenerationField{"assistant_early_exit", harmless, kSpeculation},
    GenerationField{"assistant_lookbehind", harmless, kSpeculation},
    GenerationField{"target_lookbehind", harmless, kSpeculation},
    GenerationField{"assistant_ensemble_weight", refused, "drafts that change the probabilities"},
    GenerationField{"speculation_type", harmless, kSpeculation},
    GenerationField{"compile_config", harmless, kSpeed},
    GenerationField{"disable_compile", harmless, kSpeed},
    GenerationField{"continuous_batching_config", harmless, kSpeed},
    GenerationField{"prefill_chunk_size", harmless, kSpeed},
    GenerationField{"low_memory", harmless, kSpeed},
    GenerationField{"penalty_alpha", refused, "contrastive search", "0"},
    GenerationField{"dola_layers", refused, "contrasts between layers"},
    GenerationField{"num_beam_groups", refused, "groups of beams", "1"},
    GenerationField{"diversity_penalty", harmless, "it belongs to num_beam_groups"},
    GenerationField{"constraints", refused, "constrained search"},
    GenerationField{"force_words_ids", refused, "constrained search"},
    GenerationField{"transformers_version", harmless, kRecord},
    GenerationField{"_from_model_config", harmless, kRecord},
    GenerationField{"_commit_hash", harmless, kRecord},
};

// The first setting that heed does not support, as a message; empty if there is none.
std::string refusal(const Keys& keys) {
  for (const GenerationField& field : kFields) {
    const nlohmann::json* const value = keys.find(field.key);
    if (!value || field.use == applied || field.use == harmless) continue;
    if ((*value == nlohmann::json::parse(field.value)) == (field.use == refused)) continue;
    return keys.told(field.key) + ", and heed does not support " + field.what + "; remove the key to write without it";
  }
  return {};
}

std::optional<int64_t> count(const Keys& keys, const char* key) {
  return keys.has(key) ? std::optional(keys.integer(key, 0, kMost)) : std::nullopt;
}

std::optional<double> penalty(const Keys& keys, const char* key) {
  return keys.has(key) ? std::optional(keys.number(key, 1e-6, 1e6)) : std::nullopt;
}

std::optional<int32_t> one_id(const Keys& keys, const char* key) {
  const Ids ids = keys.ids(key);
  if (ids.size() > 1) keys.fail(key, "heed begins every text with the same token; name one id");
  return ids.empty() ? std::nullopt : std::optional(ids[0]);
}

// [[[5, 9], -1.5], ...]; if a sequence is listed twice, its last bias is used.
std::vector<SequenceBias> sequence_bias(const Keys& keys) {
  constexpr const char* kKey = "sequence_bias";
  std::vector<SequenceBias> all;
  const nlohmann::json* const list = keys.find(kKey);
  if (!list) return all;
  const auto refuse = [&] { keys.fail(kKey, "it must be a list of [list of ids, bias]"); };
  if (!list->is_array()) refuse();
  std::map<Ids, double> biases;
  for (const nlohmann::json& one : *list) {
    if (!one.is_array() || one.size() != 2 || !one[1].is_number() || one[0].empty()) refuse();
    biases[keys.ids_in(one[0], kKey)] = one[1].get<double>();
  }
  for (const auto& [ids, bias] : biases) all.push_back({ids, bias});
  return all;
}

std::optional<LengthDecay> length_decay(const Keys& keys) {
  constexpr const char* kKey = "exponential_decay_length_penalty";
  const nlohmann::json* const pair = keys.find(kKey);
  if (!pair) return {};
  if (!pair->is_array() || pair->size() != 2 || !(*pair)[0].is_number_integer() || !(*pair)[1].is_number())
    keys.fail(kKey, "it must be [tokens, factor]");
  const double start = (*pair)[0].get<double>();
  if (start < 0 || start > kMost) keys.fail(kKey, "its number of tokens must be in 0..2147483647");
  return LengthDecay{static_cast<int32_t>(start), (*pair)[1].get<double>()};
}

EarlyStopping early_stopping(const Keys& keys) {
  constexpr const char* kKey = "early_stopping";
  const nlohmann::json* const value = keys.find(kKey);
  if (!value || *value == false) return EarlyStopping::heuristic;
  if (*value == "never") return EarlyStopping::never;
  if (*value != true) keys.fail(kKey, "it must be true, false or \"never\"");
  return EarlyStopping::when_full;
}

TokenRules rules(const Keys& keys, bool of_config) {
  TokenRules rules{.sequence_bias = sequence_bias(keys),
                   .encoder_repetition_penalty = penalty(keys, "encoder_repetition_penalty"),
                   .repetition_penalty = penalty(keys, "repetition_penalty"),
                   .no_repeat_ngram_size = count(keys, "no_repeat_ngram_size"),
                   .encoder_no_repeat_ngram_size = count(keys, "encoder_no_repeat_ngram_size"),
                   .bad_words = keys.lists_of_ids("bad_words_ids"),
                   .min_length = count(keys, "min_length"),
                   .min_tokens = count(keys, "min_new_tokens"),
                   .first_token = one_id(keys, "forced_bos_token_id"),
                   .last_tokens = keys.ids("forced_eos_token_id"),
                   .finite_scores = keys.flag("remove_invalid_values", false),
                   .length_decay = length_decay(keys),
                   .never = keys.ids_or_none("suppress_tokens"),
                   .never_first = keys.ids_or_none("begin_suppress_tokens"),
                   .renormalize = keys.flag("renormalize_logits", false)};
  // BART's configurations of 2020.
  const bool old = of_config || keys.flag("_from_model_config", false);
  if (old && keys.flag("force_bos_token_to_be_generated", false)) rules.first_token = one_id(keys, "bos_token_id");
  return rules;
}

// With the defaults of transformers' generate().
Sampling sampling(const Keys& keys) {
  constexpr double kBelowOne = 0.9999999;
  return {.temperature = keys.number("temperature", 0, kLargest, 1),
          .top_k = keys.integer("top_k", 0, kMost, 50),
          .top_p = keys.number("top_p", 1e-12, 1, 1),
          .min_p = keys.number("min_p", 0, 1, 0),
          .typical_p = keys.number("typical_p", 1e-12, 1, 1),
          .epsilon_cutoff = keys.number("epsilon_cutoff", 0, kBelowOne, 0),
          .eta_cutoff = keys.number("eta_cutoff", 0, kBelowOne, 0)};
}

}  // namespace

std::span<const GenerationField> generation_fields() { return kFields; }

void read_generation(const Keys& keys, bool of_config, PretrainedModel& model) {
  const bool draws = keys.flag("do_sample", false);
  const int64_t beams = keys.integer("num_beams", 1, 256, 1);
  const Ids ends = keys.ids("eos_token_id");
  model.sampling = sampling(keys);
  model.stop_texts = keys.text_or_texts("stop_strings");
  std::erase(model.stop_texts, "");
  const std::string refused = refusal(keys);

  GenerateOptions& text = model.generate;
  text.max_tokens = count(keys, "max_new_tokens");
  text.max_length = count(keys, "max_length");
  text.rules = rules(keys, of_config);
  text.sampling = model.sampling;
  if (!draws) text.sampling.temperature = 0;
  text.stop = ends;
  text.refused = refused;
  if (beams > 1 && refused.empty())
    text.refused = keys.told("num_beams") + ", and heed writes with language models by one beam; give a temperature" +
                   ": 0 for the most probable tokens, another one for draws";

  BeamOptions& pair = model.beam;
  pair.beam = beams;
  pair.length_penalty = keys.number("length_penalty", -100, 100, 1);
  pair.early_stopping = early_stopping(keys);
  pair.rules = text.rules;
  if (text.max_tokens || text.max_length)  // max_length includes the start token
    pair.max_length = std::max<int64_t>(text.max_tokens ? *text.max_tokens : *text.max_length - 1, 1);
  pair.start = one_id(keys, "decoder_start_token_id");
  if (!pair.start) pair.start = one_id(keys, "bos_token_id");
  pair.ends = ends;
  if (draws && beams == 1) pair.sampling = model.sampling;
  pair.refused = refused;
  if (draws && beams > 1 && refused.empty())
    pair.refused = keys.told("num_beams") +
                   " and do_sample true, and heed does not draw from several beams; ask for a " +
                   "number of beams, or for draws";
  model.refused_unless_chosen = refused.empty();
}

}  // namespace heed::inline v0
