#include "attention/plan.h"

#include <sstream>

#include "attention/fused.h"

namespace heed::inline v0 {
namespace {

const char* name_of(Implementation implementation) {
  switch (implementation) {
    case Implementation::automatic:
      return "automatic";
    case Implementation::decode:
      return "decode";
    case Implementation::fused:
      return "fused";
    case Implementation::reference:
      return "reference";
  }
  return "";
}

const char* asks_for(Implementation implementation) {
  switch (implementation) {
    case Implementation::automatic:
      return nullptr;
    case Implementation::decode:
      return "options.implementation asks for decode";
    case Implementation::fused:
      return "options.implementation asks for fused";
    case Implementation::reference:
      return "options.implementation asks for reference";
  }
  return nullptr;
}

bool is_empty(const Sizes& s) { return s.B == 0 || s.Hq == 0 || s.Lq == 0 || s.Lk == 0 || s.Dv == 0; }

constexpr const char* kEmpty = "a size is 0, which leaves no tile to compute";

/// Why decode does not run although nobody asks for another; null where it does.
const char* decode_disadvantage(const Sizes& s, const AttentionOptions& o) {
  // Never destroyed: destructors of objects with static lifetime may call attention.
  static const std::string& rows = *new std::string("more than " + std::to_string(kDecodeMostRows) +
                                                    " query rows a key head (Lq * Hq / Hkv) are worth tiles");
  static const std::string& keys =
      *new std::string("fewer than " + std::to_string(kDecodeFewestKeys) + " keys leave little to split");
  if (const char* const refusal = decode_refusal(s, o)) return refusal;
  if (s.Lq > kDecodeMostRows / s.group()) return rows.c_str();
  return s.Lk < kDecodeFewestKeys ? keys.c_str() : nullptr;
}

const char* refusal_of(Implementation candidate, const Sizes& s, const AttentionOptions& o) {
  const Implementation asked = o.implementation;
  if (candidate != Implementation::reference && is_empty(s)) return kEmpty;
  if (candidate == Implementation::reference && is_empty(s)) return nullptr;
  if (asked != Implementation::automatic) return asked == candidate ? nullptr : asks_for(asked);
  return candidate == Implementation::decode ? decode_disadvantage(s, o) : nullptr;
}

std::string describe(Implementation implementation) {
  const std::string target = fused_target();
  switch (implementation) {
    case Implementation::decode:
      return "decode (" + target + ", split along the keys)";
    case Implementation::fused:
      return "fused (" + target + ", tiles of " + std::to_string(kQueryTile) + " queries by " +
             std::to_string(kKeyTile) + " keys)";
    default:
      return "reference (sums in double, a row at a time)";
  }
}

const char* name_of(Causal causal) {
  return causal == Causal::none ? "none" : causal == Causal::top_left ? "top_left" : "bottom_right";
}

const char* name_of(ScoreStage stage) {
  switch (stage) {
    case ScoreStage::scaled:
      return "scaled";
    case ScoreStage::softcap:
      return "softcap";
    case ScoreStage::masked:
      return "masked";
    case ScoreStage::weights:
      return "weights";
  }
  return "";
}

/// The operands, and every option that is not as it is by default.
void describe_call(std::ostream& text, const Sizes& s, const Storages& storages, const AttentionOptions& o) {
  const Dims q = s.ragged ? Dims{s.Tq, s.Hq, s.D} : Dims{s.B, s.Hq, s.Lq, s.D};
  const Dims k = s.ragged ? Dims{s.Tk, s.Hkv, s.D} : Dims{s.B, s.Hkv, s.Lk, s.D};
  Dims v = k;
  v.back() = s.Dv;
  text << "q " << to_string(q) << ", k " << to_string(k) << ", v " << to_string(v) << " "
       << heed::name_of(storages.queries);
  if (storages.keys != storages.queries) text << " (k and v " << heed::name_of(storages.keys) << ")";
  if (s.ragged) text << ", ragged: " << s.B << " entries of up to " << s.Lq << " queries and " << s.Lk << " keys";
  if (o.causal != Causal::none) text << ", causal " << name_of(o.causal);
  if (o.offset != 0) text << ", offset " << o.offset;
  if (o.window.left >= 0 || o.window.right >= 0) text << ", window (" << o.window.left << ", " << o.window.right << ")";
  if (o.softcap > 0) text << ", softcap " << o.softcap;
  if (o.score_mod) text << ", score_mod";
  if (o.mask.defined()) text << ", " << name_of(o.mask.dtype()) << " mask " << to_string(o.mask.shape());
  if (o.block_mask) text << ", block_mask (" << 100 * o.block_mask.sparsity() << " % of its tiles empty)";
  if (o.alibi.defined()) text << ", alibi";
  if (o.sinks.defined()) text << ", sinks";
  if (o.key_lengths.defined()) text << ", key_lengths";
  if (o.dropout > 0) text << ", dropout " << o.dropout;
  const AttentionPart& p = o.part;
  if (p.first_batch || p.first_head || p.first_query || p.first_key)
    text << ", part from " << to_string(Dims{p.first_batch, p.first_head, p.first_query, p.first_key});
}

void describe_requests(std::ostream& text, const AttentionOptions& o) {
  if (o.want_weights && o.selection.top_p < 1) {
    text << "; weights, from a second pass: the largest of each row, to a sum of " << o.selection.top_p;
  } else if (o.want_weights) {
    text << "; weights, from a second pass: O(Lq * Lk) memory, as asked";
  }
  if (o.want_scores)
    text << "; scores (" << name_of(*o.want_scores) << "), from a second pass: O(Lq * Lk) memory, as asked";
}

}  // namespace

const char* decode_refusal(const Sizes& s, const AttentionOptions& o) {
  static const std::string& size = *new std::string("it takes head sizes up to " + std::to_string(kDecodeHeadSize));
  if (s.ragged) return "it does not take ragged batches";
  if (s.D > kDecodeHeadSize || s.Dv > kDecodeHeadSize) return size.c_str();
  if (o.score_mod) return "it does not take a score_mod";
  if (o.block_mask) return "it does not take a block_mask";
  if (o.dropout > 0) return "it does not take dropout";
  return nullptr;
}

// A new implementation takes its place in this list, before those that it beats.
std::array<Candidate, 3> candidates(const Sizes& sizes, const AttentionOptions& options) {
  std::array<Candidate, 3> list{Candidate{Implementation::decode, nullptr}, Candidate{Implementation::fused, nullptr},
                                Candidate{Implementation::reference, nullptr}};
  const char* earlier = nullptr;  // has been chosen
  for (Candidate& c : list) {
    c.refusal = refusal_of(c.implementation, sizes, options);
    if (c.refusal) continue;
    c.refusal = earlier;
    if (!earlier) earlier = c.implementation == Implementation::decode ? "decode comes first" : "fused comes first";
  }
  return list;
}

Implementation choose(const Sizes& sizes, const AttentionOptions& options) {
  for (const Candidate& c : candidates(sizes, options))
    if (!c.refusal) return c.implementation;
  return Implementation::reference;
}

Implementation choose_backward(const Sizes& sizes, const AttentionOptions& options) {
  const bool fused = options.implementation != Implementation::reference && !is_empty(sizes);
  return fused ? Implementation::fused : Implementation::reference;
}

std::string explain(const Sizes& sizes, const Storages& storages, const AttentionOptions& options) {
  std::ostringstream text;
  text << "attention: ";
  describe_call(text, sizes, storages, options);
  text << ": " << describe(choose(sizes, options));
  describe_requests(text, options);
  for (const Candidate& c : candidates(sizes, options))
    if (c.refusal) text << "; not " << name_of(c.implementation) << ": " << c.refusal;
  text << "; backward: " << name_of(choose_backward(sizes, options));
  return text.str();
}

std::string explain_backward(const Sizes& sizes, const Storages& storages, const AttentionOptions& options) {
  std::ostringstream text;
  text << "attention_backward: ";
  describe_call(text, sizes, storages, options);
  text << ": " << describe(choose_backward(sizes, options));
  if (options.implementation == Implementation::decode) text << "; not decode: it has no backward";
  return text.str();
}

}  // namespace heed::inline v0
