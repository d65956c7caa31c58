#include "bench/attention/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace heed::bench {

double Request::pairs() const {
  const auto visible = [&](double q, double k) {
    if (!causal) return q * k;
    const double o = k - q, w = window < 0 ? k : static_cast<double>(window);
    double sum = 0;
    for (double i = 0; i < q; ++i) sum += std::min(i + o + 1, w);
    return sum;
  };
  double sum = 0;
  for (const int64_t n : lengths) sum += visible(static_cast<double>(n), static_cast<double>(n));
  if (lengths.empty()) sum = static_cast<double>(B) * visible(static_cast<double>(Lq), static_cast<double>(Lk));
  return sum * static_cast<double>(Hq);
}

double Request::cache_bytes() const { return static_cast<double>(2 * B * Hkv * Lk * D) * (dtype == "f32" ? 4 : 2); }

Request parse(const nlohmann::json& from) {
  Request r;
  for (const auto& [name, field] : {std::pair{"B", &r.B},
                                    {"Hq", &r.Hq},
                                    {"Hkv", &r.Hkv},
                                    {"Lq", &r.Lq},
                                    {"Lk", &r.Lk},
                                    {"D", &r.D},
                                    {"window", &r.window}})
    *field = from.value(name, *field);
  r.causal = from.value("causal", r.causal);
  r.backward = from.value("backward", r.backward);
  r.workspace = from.value("workspace", r.workspace);
  r.dropout = from.value("dropout", r.dropout);
  r.dtype = from.value("dtype", r.dtype);
  r.lengths = from.value("lengths", r.lengths);
  return r;
}

}  // namespace heed::bench
