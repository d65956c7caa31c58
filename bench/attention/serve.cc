#include "bench/attention/serve.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "bench/attention/peak.h"
#include "core/memory.h"
#include "heed/executor.h"

namespace {
std::atomic<size_t> g_allocated{0};  // bytes asked of operator new, given back or not
}  // namespace

void* operator new(size_t bytes) {
  g_allocated += bytes;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace heed::bench {
namespace {

using nlohmann::json;

Request parse(const json& from) {
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
  r.dtype = from.value("dtype", r.dtype);
  r.lengths = from.value("lengths", r.lengths);
  return r;
}

// Seconds of each repetition; calls too short for the clock are timed several at once.
std::vector<double> repetitions(const Call& call, double budget) {
  constexpr double kShortest = 20e-6;
  const auto time = [&](int calls) {
    const double start = seconds();
    for (int i = 0; i < calls; ++i) call();
    return (seconds() - start) / calls;
  };
  const double first = time(1);  // wakes the threads and the caches; long calls need no second one for that
  std::vector<double> times;
  if (first > 2 * budget) times.push_back(first);
  const double once = first > kShortest ? first : time(10);
  const int calls = once > kShortest ? 1 : static_cast<int>(kShortest / std::max(once, 1e-9)) + 1;
  for (double spent = 0; times.empty() || spent < budget; spent += times.back() * calls) times.push_back(time(calls));
  return times;
}

class Server {
 public:
  explicit Server(const Prepare& prepare) : prepare_(prepare) {}

  json answer(const json& request) {
    const std::string op = request.at("op");
    if (op == "peak") return {{"flops", 2 * multiply_add_peak(threads()).a_second}};
    if (op == "bandwidth") return {{"bytes", read_bandwidth(threads(), request.at("bytes").get<size_t>())}};
    if (op != "run" && op != "memory") return {{"error", "unknown op " + op}};
    json key = request;
    for (const char* name : {"op", "seconds"}) key.erase(name);
    if (key != key_) {
      call_ = nullptr;
      key_ = key;
      call_ = prepare_(parse(request));
      if (op == "run") call_();
    }
    if (!call_) throw Unsupported{"as before"};
    if (op == "memory") {
      reset_peak_memory();
      const size_t pool = memory_in_use(), rest = g_allocated;
      call_();
      return {{"bytes", peak_memory() - pool + (g_allocated - rest)}};
    }
    return {{"seconds", repetitions(call_, request.at("seconds"))}};
  }

 private:
  const Prepare& prepare_;
  json key_;
  Call call_;
};

}  // namespace

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

int serve(const std::string& name, const std::string& version, const Prepare& prepare) {
  Server server(prepare);
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      const json request = json::parse(line);
      answer = request.at("op") == "hello" ? json{{"name", name}, {"version", version}} : server.answer(request);
    } catch (const Unsupported& e) {
      answer = {{"unsupported", e.reason}};
    } catch (const std::exception& e) {
      answer = {{"error", e.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace heed::bench
