#include "models/shape.h"

#include <algorithm>
#include <numeric>

namespace heed::inline v0 {

NormKind norm_kind(const std::string& name) { return name == "layer_norm" ? NormKind::layer_norm : NormKind::rms_norm; }

static int64_t longest_of(const TokenBatch& packed) {
  const std::span<const int32_t> lengths = packed.lengths.span<int32_t>();
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

Tensor positions_of(const functional::SplitRows& split) {
  const Tensor positions = Tensor::empty({split.split.rows(split.rank)}, DType::i32);
  int32_t* next = positions.data<int32_t>();
  for (const IndexRange& piece : split.split.of(split.rank)) {
    std::iota(next, next + piece.size(), static_cast<int32_t>(piece.begin));
    next += piece.size();
  }
  return positions;
}

// Sinusoidal positions of this rank's rows: (rows, E).
static Tensor sinusoidal_rows(const SinusoidalPositions& sinusoidal, const functional::SplitRows& split, int64_t width,
                              DType dtype) {
  const Tensor rows = Tensor::empty({split.split.rows(split.rank), width}, dtype);
  int64_t at = 0;
  for (const IndexRange& piece : split.split.of(split.rank)) {
    rows.slice(0, at, at + piece.size()).copy_from(sinusoidal.rows(piece.begin, piece.size(), dtype));
    at += piece.size();
  }
  return rows;
}

// The row of the position table for each token of a batch (B, L). Tokens `unnumbered` are not counted and take row
// offset - 1.
static Tensor counted_positions(const TokenBatch& batch, int64_t first, int64_t offset, int32_t unnumbered) {
  const Tensor ids = batch.ids.contiguous(), positions = Tensor::empty(batch.ids.shape(), DType::i32);
  const Tensor packed = batch.is_packed() ? batch.positions.contiguous() : Tensor();
  int64_t next = 0;
  for (int64_t n = 0; n < ids.numel(); ++n) {
    if (packed.defined() ? packed.data<int32_t>()[n] == 0 : n % ids.size(1) == 0) next = first;
    const bool counts = ids.data<int32_t>()[n] != unnumbered;
    positions.data<int32_t>()[n] = static_cast<int32_t>(offset + (counts ? next++ : -1));
  }
  return positions;
}

Variable TokenEmbedding::operator()(const TokenBatch& batch, int64_t first_position,
                                    const functional::SplitRows* split) const {
  const Tensor& ids = batch.ids;
  const int64_t length = split ? split->split.length() : batch.is_packed() ? longest_of(batch) : ids.size(1);
  if (first_position + length > max_positions)
    throw ShapeError(std::string(model) + ": " + std::to_string(first_position + length) + " tokens, the model takes " +
                     std::to_string(max_positions) + "; split the text");
  Variable x = functional::embedding(ids, table, factor, padding_id);
  if (sinusoidal) {
    const Tensor rows = split ? sinusoidal_rows(*sinusoidal, *split, x.size(2), x.dtype())
                              : sinusoidal->rows(first_position, length, x.dtype());
    if (batch.is_packed())
      x = functional::add(x, functional::embedding(batch.positions.reshape(ids.shape()), Variable(rows)));
    else
      x = functional::add(x, Variable(rows.expand(x.shape()).contiguous()));
  } else if (learned.defined()) {
    Tensor positions = split ? positions_of(*split) : batch.positions;
    if (!split && !batch.is_packed()) {
      positions = Tensor::empty({length}, DType::i32);
      std::iota(positions.data<int32_t>(), positions.data<int32_t>() + length, static_cast<int32_t>(first_position));
    }
    if (unnumbered_id >= 0) {
      positions = counted_positions(batch, first_position, position_offset, unnumbered_id);
    } else if (position_offset != 0) {
      positions = positions.clone();
      for (int32_t& position : positions.span<int32_t>()) position += static_cast<int32_t>(position_offset);
    }
    x = functional::add(x, functional::embedding(positions.expand(ids.shape()), learned));
  }
  return functional::dropout(norm ? (*norm)(x) : x, dropout, split);
}

}  // namespace heed::inline v0
