#include "kernels/embedding.h"

#include "kernels/chunks.h"

namespace heed::inline v0 {
namespace {

float number(const float* table, int64_t i) { return table[i]; }
double number(const double* table, int64_t i) { return table[i]; }
float number(const float16* table, int64_t i) { return to_float(table[i]); }
float number(const bfloat16* table, int64_t i) { return to_float(table[i]); }

}  // namespace

template <class T, class W>
void embedding_forward(const int32_t* ids, const W* table, T scale, T* y, int64_t tokens, int64_t width, Executor& ex) {
  for_rows(tokens, width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t j = 0; j < width; ++j) y[t * width + j] = scale * number(table, ids[t] * width + j);
  });
}

template <>
void embedding_forward(const int32_t* ids, const Quantised& table, float scale, float* y, int64_t tokens, int64_t width,
                       Executor& ex) {
  for_rows(tokens, width, ex, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* const row = y + t * width;
      dequantise(element(table, ids[t] * width), width, row);
      for (int64_t j = 0; j < width; ++j) row[j] *= scale;
    }
  });
}

template <class T>
void embedding_backward(const int32_t* ids, const T* dy, T scale, T* dtable, int64_t tokens, int64_t width,
                        Executor& ex, int32_t padding_id) {
  // Threads take columns, so that tokens of one id are added in their order.
  for_chunks(width, 64, ex, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t j = begin; j < end && ids[t] != padding_id; ++j)
        dtable[ids[t] * width + j] += scale * dy[t * width + j];
  });
}

#define HEED_EMBEDDING(T, W) \
  template void embedding_forward(const int32_t*, const W*, T, T*, int64_t, int64_t, Executor&);
HEED_EMBEDDING(float, float)
HEED_EMBEDDING(double, double)
HEED_EMBEDDING(float, float16)
HEED_EMBEDDING(float, bfloat16)
#undef HEED_EMBEDDING
template void embedding_backward(const int32_t*, const float*, float, float*, int64_t, int64_t, Executor&, int32_t);
template void embedding_backward(const int32_t*, const double*, double, double*, int64_t, int64_t, Executor&, int32_t);

}  // namespace heed::inline v0
