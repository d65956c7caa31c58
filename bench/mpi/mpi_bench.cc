// What updates and attention over ranks send, and how long that takes over links of a known latency and bandwidth:
// figures of compare.py, as JSON. Ranks are threads, messages are delayed (ranks/testing.h), and what a rank would
// compute is slept, since many ranks on few processors measure the scheduler.
//   mpi_bench [--quick]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "heed/attention_over_ranks.h"
#include "heed/executor.h"
#include "heed/functional.h"
#include "heed/models.h"
#include "heed/random.h"
#include "heed/task.h"
#include "ranks/testing.h"

namespace {

using namespace heed;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kBatches = 8;  // an update

struct Link {
  double latency, bandwidth;  // seconds, bytes a second
};

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Sleeps and messages only ever come late: the undisturbed one.
double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

/// Ranks as threads, each behind `link` where there is one.
void run_linked(int ranks, const Link* link, const std::function<void(Communicator&)>& f) {
  run_ranks(ranks, [&](Communicator& c) {
    if (!link) return f(c);
    test::Delaying delayed(c, link->latency, link->bandwidth);
    f(delayed);
  });
}

// Updates -------------------------------------------------------------------------------------------------------------

/// Seconds of batches of a Transformer on one thread, forward and backward, to be slept in their place.
std::vector<double> record_batches() {
  set_threads(1);
  const TransformerConfig config{.vocab_size = 2000,
                                 .d_model = 64,
                                 .nhead = 4,
                                 .num_encoder_layers = 2,
                                 .num_decoder_layers = 2,
                                 .dim_feedforward = 128};
  const Transformer model(config);
  std::vector<double> seconds;
  for (int64_t batch = -1; batch < kBatches; ++batch) {  // the first fills the caches
    const std::vector<std::vector<int32_t>> sentences(64, std::vector<int32_t>(static_cast<size_t>(10 + batch), 5));
    const Clock::time_point begin = Clock::now();
    model.loss(sentences, sentences, {}).backward();
    if (batch >= 0) seconds.push_back(since(begin));
  }
  return seconds;
}

/// One parameter of 2^20 numbers. Each rank sleeps its even share of the recorded time, dealt over its batches: a rank
/// that is early would hide its messages behind the others' work.
class SleepingTask final : public Task {
 public:
  static constexpr int64_t kParameters = 1 << 20;
  SleepingTask(const Communicator& ranks, const std::vector<double>& seconds)
      : each_(std::accumulate(seconds.begin(), seconds.end(), 0.0) / ranks.size() /
              static_cast<double>(leaves_of(kBatches, ranks.rank(), ranks.size()).size())) {}
  Module& model() override { return model_; }
  Recipe settings() const override { return {}; }
  Data data() const override { return {}; }
  int64_t begin_epoch(int64_t) override { return 1000 * kBatches; }
  Step loss(int64_t) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(each_));
    return {.loss = functional::sum(model_.all), .parts = {.count = 1}, .sequences = 1};
  }
  int64_t validation_batches() override { return 0; }
  functional::LossParts validation(int64_t) override { return {}; }

 private:
  struct Wide : Module {
    Wide() : all(register_parameter("all", Tensor::zeros({kParameters}))) {}
    Variable all;
  };
  Wide model_;
  double each_;  // seconds
};

struct Updates {
  double seconds = 0;  // of one
  std::vector<Traffic> sent;
};

Updates run_updates(int ranks, const Link* link, const std::vector<double>& seconds, int64_t count) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("heed-mpi-bench-" + std::to_string(getpid()));
  Updates found;
  found.sent.resize(static_cast<size_t>(ranks));
  run_linked(ranks, link, [&](Communicator& c) {
    SleepingTask task(c, seconds);
    TrainOptions options{.accumulate = kBatches, .max_updates = count + 1, .save_minutes = 0};
    Traffic before;
    Clock::time_point begin;
    std::vector<double> times;
    TrainHooks hooks;
    hooks.ranks = &c;
    hooks.step = [&](const TrainStep& step) {
      if (step.update > 1) times.push_back(since(begin));
      begin = Clock::now();
      const Traffic now = c.sent();
      found.sent[static_cast<size_t>(c.rank())] = {now.messages - before.messages, now.bytes - before.bytes};
      before = now;
    };
    train(task, options, directory.string(), hooks);
    if (c.rank() == 0) found.seconds = least(times);
  });
  std::filesystem::remove_all(directory);
  return found;
}

json traffic(const std::vector<Traffic>& sent) {
  int64_t bytes = 0, messages = 0, most = 0;
  for (const Traffic& t : sent) bytes += t.bytes, messages += t.messages, most = std::max(most, t.bytes);
  return {{"bytes", bytes}, {"messages", messages}, {"most_bytes", most}};
}

// Attention -----------------------------------------------------------------------------------------------------------

constexpr int64_t kLength = 1024, kHeads = 8, kWidth = 64;

struct Call {
  double forward = 0, backward = 0;  // seconds
  std::vector<Traffic> sent_forward, sent_backward;
};

Call run_attention(int ranks, const Link* link, mpi::Meeting meeting, int turns) {
  Call found;
  found.sent_forward.resize(static_cast<size_t>(ranks)), found.sent_backward.resize(static_cast<size_t>(ranks));
  const Split split = Split::contiguous(kLength, ranks);
  const mpi::OverRanks over{split, split, meeting};
  run_linked(ranks, link, [&](Communicator& c) {
    const Tensor q = Tensor::full({1, kHeads, split.rows(c.rank()), kWidth}, 0.1), k = q.clone(), v = q.clone();
    const AttentionOptions options{.want_lse = true};
    std::vector<double> forward, backward;
    Traffic before;
    const auto timed = [&](std::vector<double>& times, std::vector<Traffic>& sent, const auto& call) {
      c.barrier();
      before = c.sent();
      const Clock::time_point begin = Clock::now();
      call();
      const Traffic now = c.sent();
      sent[static_cast<size_t>(c.rank())] = {now.messages - before.messages, now.bytes - before.bytes};
      c.barrier();
      times.push_back(since(begin));
    };
    for (int turn = 0; turn < turns; ++turn) {
      AttentionResult result;
      timed(forward, found.sent_forward, [&] { result = mpi::attention(c, q, k, v, over, options); });
      timed(backward, found.sent_backward,
            [&] { mpi::attention_backward(c, result.out, q, k, v, result, over, options); });
    }
    if (c.rank() == 0) found.forward = least(forward), found.backward = least(backward);
  });
  return found;
}

// The link ------------------------------------------------------------------------------------------------------------

/// Seconds of one way of a message between two ranks, by its bytes: half of there and back.
json ping_pong(const Link& link, int turns) {
  json rows = json::array();
  run_linked(2, &link, [&](Communicator& c) {
    for (const size_t bytes : {8, 100'000, 1'000'000, 4'000'000}) {
      std::vector<std::byte> message(bytes);
      std::vector<double> times;
      for (int turn = 0; turn < turns; ++turn) {
        const Clock::time_point begin = Clock::now();
        for (int way = 0; way < 2; ++way) c.rank() == way ? c.send(message, 1 - way) : c.receive(message, way);
        if (c.rank() == 0) times.push_back(since(begin) / 2);
      }
      if (c.rank() == 0) rows.push_back({{"bytes", bytes}, {"seconds", least(times)}});
    }
  });
  return rows;
}

json measure(bool quick) {
  const int turns = quick ? 3 : 5;
  const std::vector<double> seconds = record_batches();
  const Link links[] = {{0.0005, 6.25e6}, {0.02, 125e6}};  // 50 Mbit; 1 Gbit far away
  json found{{"parameters", SleepingTask::kParameters},
             {"batches", kBatches},
             {"batch_seconds", seconds},
             {"attention", {{"length", kLength}, {"heads", kHeads}, {"width", kWidth}}},
             {"links", json::array()},
             {"updates", json::array()},
             {"calls", json::array()}};
  for (const Link& link : links) found["links"].push_back(ping_pong(link, turns));
  for (int ranks = 2; ranks <= 8; ++ranks) {
    const Updates bare = run_updates(ranks, nullptr, seconds, turns);
    json row{
        {"ranks", ranks}, {"sent", traffic(bare.sent)}, {"bare_seconds", bare.seconds}, {"seconds", json::array()}};
    for (const Link& link : links) row["seconds"].push_back(run_updates(ranks, &link, seconds, turns).seconds);
    found["updates"].push_back(std::move(row));
    std::fprintf(stderr, "updates on %d ranks\n", ranks);
  }
  const std::pair<const char*, mpi::Meeting> meetings[] = {
      {"exact", mpi::Meeting::exact}, {"heads", mpi::Meeting::heads}, {"ring", mpi::Meeting::ring}};
  for (const auto& [name, meeting] : meetings)
    for (const int ranks : {2, 4, 8}) {
      const Call bare = run_attention(ranks, nullptr, meeting, turns);
      const Call slow = run_attention(ranks, links, meeting, turns);
      for (const bool forward : {true, false})
        found["calls"].push_back({{"meeting", name},
                                  {"ranks", ranks},
                                  {"forward", forward},
                                  {"sent", traffic(forward ? bare.sent_forward : bare.sent_backward)},
                                  {"bare_seconds", forward ? bare.forward : bare.backward},
                                  {"seconds", forward ? slow.forward : slow.backward}});
      std::fprintf(stderr, "attention, %s, on %d ranks\n", name, ranks);
    }
  return found;
}

}  // namespace

int main(int argc, char** argv) try {
  const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
  if (argc > 1 && !quick) {
    std::fprintf(stderr, "mpi_bench: unknown argument %s\n", argv[1]);
    return 2;
  }
  std::printf("%s\n", measure(quick).dump().c_str());
} catch (const std::exception& e) {
  std::fprintf(stderr, "mpi_bench: %s\n", e.what());
  return 1;
}
