// Rows of a table by id.
#pragma once

#include <cstdint>

#include "core/quantised.h"
#include "heed/executor.h"
#include "heed/tensor.h"

namespace heed::inline v0 {

/// y[t] = scale * table[ids[t]]; table (vocab, width), y (tokens, width). Ids are checked by the caller.
/// W is T, or float16 or bfloat16 where T is float.
template <class T, class W>
void embedding_forward(const int32_t* ids, const W* table, T scale, T* y, int64_t tokens, int64_t width, Executor& ex);
/// Of rows of whole blocks, where T is float.
template <class T>
void embedding_forward(const int32_t* ids, const Quantised& table, T scale, T* y, int64_t tokens, int64_t width,
                       Executor& ex);
/// dtable[ids[t]] += scale * dy[t], tokens in order; but for those of id `padding_id`.
template <class T>
void embedding_backward(const int32_t* ids, const T* dy, T scale, T* dtable, int64_t tokens, int64_t width,
                        Executor& ex, int32_t padding_id = -1);

}  // namespace heed::inline v0
