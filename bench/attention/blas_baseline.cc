// What a C++ user without an attention library writes: product, softmax, product, with BLAS and one matrix of scores a
// head. Heads are dealt to threads and each product is serial, which is faster here than BLAS's own threads, except
// where there is a single head. Forward only.
//   blas_baseline [--threads=N]       answers compare.py, see bench/serve/serve.h
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "bench/attention/request.h"
#include "bench/serve/serve.h"
#include "heed/executor.h"

namespace {

using heed::bench::Request;

struct Operands {
  std::vector<float> q, k, v, out, scores;
};

std::vector<float> noise(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& x : values) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return values;
}

// Weights of the keys begin .. end - 1, zeros elsewhere.
void softmax(float* row, int64_t n, int64_t begin, int64_t end) {
  float largest = -std::numeric_limits<float>::max(), sum = 0;
  for (int64_t j = begin; j < end; ++j) largest = std::max(largest, row[j]);
  for (int64_t j = begin; j < end; ++j) row[j] = std::exp(row[j] - largest);
  for (int64_t j = begin; j < end; ++j) sum += row[j];
  const float factor = 1 / sum;
  for (int64_t j = begin; j < end; ++j) row[j] *= factor;
  std::fill(row, row + begin, 0.0f);
  std::fill(row + end, row + n, 0.0f);
}

// `heads` query heads of Lq rows each, one after another, on one key head.
void attend(const float* q, const float* k, const float* v, float* out, float* scores, int64_t heads, int64_t Lq,
            int64_t Lk, int64_t stride, const Request& r) {
  const int rows = static_cast<int>(heads * Lq), keys = static_cast<int>(Lk), size = static_cast<int>(r.D);
  const int ld = static_cast<int>(stride);
  const float scale = 1 / std::sqrt(static_cast<float>(r.D));
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, size, scale, q, ld, k, ld, 0, scores, keys);
  for (int64_t i = 0; i < heads * Lq; ++i) {
    const int64_t end = r.causal ? i % Lq + Lk - Lq + 1 : Lk;
    softmax(scores + i * Lk, Lk, r.window < 0 ? 0 : std::max<int64_t>(0, end - r.window), end);
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, size, keys, 1, scores, keys, v, ld, 0, out, ld);
}

heed::bench::Call prepare(const Request& r) {
  if (r.dtype != "f32") throw heed::bench::Unsupported{"BLAS has float32 and float64"};
  if (r.backward) throw heed::bench::Unsupported{"forward only"};
  const auto all = std::make_shared<Operands>();
  const int64_t D = r.D, group = r.Hq / r.Hkv;
  std::vector<int64_t> offsets{0};
  for (const int64_t n : r.lengths) offsets.push_back(offsets.back() + n);
  const bool ragged = !r.lengths.empty();
  const int64_t q_rows = ragged ? offsets.back() * r.Hq : r.B * r.Hq * r.Lq;
  const int64_t k_rows = ragged ? offsets.back() * r.Hkv : r.B * r.Hkv * r.Lk;
  const int64_t tiles = r.B * r.Hkv;
  all->q = noise(q_rows * D), all->k = noise(k_rows * D), all->v = noise(k_rows * D);
  all->out.resize(all->q.size());
  const int64_t one = group * r.Lq * r.Lk;  // scores of a tile; a thread keeps its own
  const int64_t width = heed::threads();
  const bool split = tiles >= width;
  openblas_set_num_threads(split ? 1 : static_cast<int>(width));
  const int64_t workers = split ? std::min(width, tiles) : 1;
  all->scores.resize(static_cast<size_t>(one * workers));
  return [=] {
    const auto tile = [&](int64_t t, float* scores) {
      const int64_t b = t / r.Hkv, h = t % r.Hkv;
      if (ragged) {  // (T, H, D)
        const int64_t at = (offsets[static_cast<size_t>(b)] * r.Hq + h) * D, n = r.lengths[static_cast<size_t>(b)];
        attend(&all->q[static_cast<size_t>(at)], &all->k[static_cast<size_t>(at)], &all->v[static_cast<size_t>(at)],
               &all->out[static_cast<size_t>(at)], scores, 1, n, n, r.Hq * D, r);
      } else {
        const auto q = static_cast<size_t>(t * group * r.Lq * D), k = static_cast<size_t>(t * r.Lk * D);
        attend(&all->q[q], &all->k[k], &all->v[k], &all->out[q], scores, group, r.Lq, r.Lk, D, r);
      }
    };
    heed::parallel_for(heed::default_executor(), workers, [&](int64_t worker) {
      for (int64_t t = worker * tiles / workers; t < (worker + 1) * tiles / workers; ++t)
        tile(t, all->scores.data() + worker * one);
    });
  };
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], "--threads=", 10) == 0) heed::set_threads(std::atoi(argv[i] + 10));
  return heed::bench::serve("BLAS, softmax, BLAS", openblas_get_config(),
                            [](const auto& request) { return prepare(heed::bench::parse(request)); });
}
