// A layer's products beside OpenBLAS's, one thread each, round by round in one run: y = x W^T, dx = dy W, dw += dy^T x.
//   products_bench [ROUNDS [REGEX]]     JSON: of each shape (that REGEX finds) and product the medians in GFLOP/s, and
//                                       that of the rounds' ratios
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "heed/executor.h"
#include "kernels/linear.h"

extern "C" char* openblas_get_corename(void);

namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  const char* name;
  int64_t rows, in, out;
};

// Layers of GPT-2 (124 million) and Llama-like models (2048 and 4096 wide), on texts of 64 to 2,048 tokens.
constexpr Shape kShapes[] = {{"square 256", 256, 256, 256},
                             {"square 1024", 1024, 1024, 1024},
                             {"square 4096", 4096, 4096, 4096},
                             {"GPT-2 qkv, 64 tokens", 64, 768, 2304},
                             {"GPT-2 out, 64 tokens", 64, 768, 768},
                             {"GPT-2 up, 64 tokens", 64, 768, 3072},
                             {"GPT-2 down, 64 tokens", 64, 3072, 768},
                             {"GPT-2 qkv, 512 tokens", 512, 768, 2304},
                             {"GPT-2 out, 512 tokens", 512, 768, 768},
                             {"GPT-2 up, 512 tokens", 512, 768, 3072},
                             {"GPT-2 down, 512 tokens", 512, 3072, 768},
                             {"GPT-2 qkv, 2048 tokens", 2048, 768, 2304},
                             {"GPT-2 out, 2048 tokens", 2048, 768, 768},
                             {"GPT-2 up, 2048 tokens", 2048, 768, 3072},
                             {"GPT-2 down, 2048 tokens", 2048, 3072, 768},
                             {"Llama q of 2048, 256 tokens", 256, 2048, 2048},
                             {"Llama kv of 2048, 256 tokens", 256, 2048, 512},
                             {"Llama gate and up of 2048, 256 tokens", 256, 2048, 11264},
                             {"Llama down of 2048, 256 tokens", 256, 5632, 2048},
                             {"Llama q of 4096, 512 tokens", 512, 4096, 4096},
                             {"Llama kv of 4096, 512 tokens", 512, 4096, 1024},
                             {"Llama gate and up of 4096, 128 tokens", 128, 4096, 22016},
                             {"Llama down of 4096, 128 tokens", 128, 11008, 4096}};

std::vector<float> noise(int64_t n, uint32_t state) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1;
  }
  return values;
}

/// Seconds of a call, of as many as take 50 ms.
template <class F>
double seconds_of(F&& call) {
  int64_t calls = 0;
  const auto start = Clock::now();
  double seconds = 0;
  do {
    call();
    ++calls;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  } while (seconds < 0.05);
  return seconds / static_cast<double>(calls);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const std::regex only(argc > 2 ? argv[2] : "");
  openblas_set_num_threads(1);
  const auto one = heed::make_executor(1);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Shape& s : kShapes) {
    if (!std::regex_search(s.name, only)) continue;
    const std::vector<float> x = noise(s.rows * s.in, 1), w = noise(s.out * s.in, 2), dy = noise(s.rows * s.out, 3);
    std::vector<float> y(dy.size()), dx(x.size()), dw(w.size());
    const int m = static_cast<int>(s.rows), k = static_cast<int>(s.in), n = static_cast<int>(s.out);
    const auto none = static_cast<float*>(nullptr);
    const auto ours = [&](int product) {
      if (product == 0)
        heed::linear_forward<float, float>(x.data(), w.data(), nullptr, y.data(), s.rows, s.in, s.out, *one);
      else
        heed::linear_backward<float>(dy.data(), x.data(), w.data(), product == 1 ? dx.data() : none,
                                     product == 2 ? dw.data() : none, none, s.rows, s.in, s.out, *one);
    };
    const auto theirs = [&](int product) {
      if (product == 0)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, x.data(), k, w.data(), k, 0, y.data(), n);
      else if (product == 1)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, k, n, 1, dy.data(), n, w.data(), k, 0, dx.data(), k);
      else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n, k, m, 1, dy.data(), n, x.data(), k, 1, dw.data(), k);
    };
    const double flop = 2e-9 * static_cast<double>(s.rows) * static_cast<double>(s.in) * static_cast<double>(s.out);
    for (int product = 0; product < 3; ++product) {
      std::vector<double> mine, other, ratios;
      for (int round = 0; round <= rounds; ++round) {  // the first one warms up
        const double a = seconds_of([&] { ours(product); }), b = seconds_of([&] { theirs(product); });
        if (round == 0) continue;
        mine.push_back(flop / a);
        other.push_back(flop / b);
        ratios.push_back(b / a);
      }
      list.push_back({{"shape", s.name},
                      {"rows", s.rows},
                      {"in", s.in},
                      {"out", s.out},
                      {"product", product == 0   ? "forward"
                                  : product == 1 ? "dx"
                                                 : "dw"},
                      {"heed", median(mine)},
                      {"openblas", median(other)},
                      {"ratio", median(ratios)}});
      std::fprintf(stderr, "%-40s %-8s %6.1f %6.1f  %.2f\n", s.name, list.back()["product"].get<std::string>().c_str(),
                   median(mine), median(other), median(ratios));
    }
  }
  const nlohmann::ordered_json all = {{"openblas", openblas_get_corename()}, {"rounds", rounds}, {"products", list}};
  std::printf("%s\n", all.dump(1).c_str());
}
