#include "bench/serve/serve.h"

#include <algorithm>
#include <exception>
#include <iostream>

#include "bench/serve/peak.h"
#include "core/memory.h"
#include "heed/executor.h"
#include "tests/allocations.h"

namespace heed::bench {
namespace {

using nlohmann::json;

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
  Server(const Prepare& prepare, const std::map<std::string, Answer>& more) : prepare_(prepare), more_(more) {}

  json answer(const json& request) {
    const std::string op = request.at("op");
    if (op == "peak") return {{"flops", 2 * multiply_add_peak(threads()).a_second}};
    if (op == "bandwidth") return {{"bytes", read_bandwidth(threads(), request.at("bytes").get<size_t>())}};
    if (const auto own = more_.find(op); own != more_.end()) return own->second(request);
    if (op != "run" && op != "memory") return {{"error", "unknown op " + op}};
    json key = request;
    for (const char* name : {"op", "seconds"}) key.erase(name);
    if (key != key_) {
      call_ = nullptr;
      key_ = key;
      call_ = prepare_(request);
      if (op == "run") call_();
    }
    if (!call_) throw Unsupported{"as before"};
    if (op == "memory") {
      reset_peak_memory();
      const size_t pool = memory_in_use(), rest = test::allocated_bytes();
      const int64_t before = test::allocations();
      call_();
      const int64_t calls = test::allocations() - before;
      return {{"bytes", peak_memory() - pool + (test::allocated_bytes() - rest)}, {"allocations", calls}};
    }
    return {{"seconds", repetitions(call_, request.at("seconds"))}};
  }

 private:
  const Prepare& prepare_;
  const std::map<std::string, Answer>& more_;
  json key_;
  Call call_;
};

}  // namespace

int serve(const std::string& name, const std::string& version, const Prepare& prepare,
          const std::map<std::string, Answer>& more) {
  Server server(prepare, more);
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
