// Communicators that stand in front of another: one whose messages take time, one that fails.
#pragma once

#include <chrono>
#include <cstring>
#include <thread>

#include "heed/communicator.h"

namespace heed::test {

/// Hands everything on to another communicator of the same rank.
class InFront : public Communicator {
 public:
  explicit InFront(Communicator& behind) : behind_(behind) { set_time_limit(behind.time_limit()); }
  int rank() const override { return behind_.rank(); }
  int size() const override { return behind_.size(); }

 protected:
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override {
    return behind_.start(operation, out, to, in, from);
  }
  void tell(const std::string& reason) noexcept override { behind_.fail(reason); }
  Communicator& behind_;
};

/// A message of n bytes arrives `latency` + n / `bandwidth` seconds after it was sent, and a rank's messages leave one
/// after another, each n / `bandwidth` seconds long: the alpha-beta model, for ranks of one machine, whose clock every
/// message carries in front. Time that passes while the receiver computes counts, as on a network.
class Delaying : public InFront {
 public:
  Delaying(Communicator& behind, double latency, double bandwidth)
      : InFront(behind), latency_(latency), bandwidth_(bandwidth) {}

 private:
  using Clock = std::chrono::steady_clock;
  struct Delayed : Transfer {
    void wait() override {
      inner->wait();
      if (from == kNobody) return;
      Clock::time_point arrival;
      std::memcpy(static_cast<void*>(&arrival), received.data(), sizeof arrival);
      std::this_thread::sleep_until(arrival);
      std::copy(received.begin() + sizeof arrival, received.end(), in.begin());
    }
    std::vector<std::byte> sent, received;
    std::span<std::byte> in;
    int from = kNobody;
    std::unique_ptr<Transfer> inner;
  };
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override {
    auto transfer = std::make_unique<Delayed>();
    transfer->in = in, transfer->from = from;
    if (to != kNobody) {
      const auto seconds = [](double s) {
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
      };
      free_ = std::max(free_, Clock::now()) + seconds(static_cast<double>(out.size()) / bandwidth_);
      const Clock::time_point arrival = free_ + seconds(latency_);
      transfer->sent.resize(sizeof arrival + out.size());
      std::memcpy(transfer->sent.data(), &arrival, sizeof arrival);
      std::copy(out.begin(), out.end(), transfer->sent.begin() + sizeof arrival);
    }
    if (from != kNobody) transfer->received.resize(sizeof(Clock::time_point) + in.size());
    transfer->inner = behind_.start(operation, transfer->sent, to, transfer->received, from);
    return transfer;
  }
  double latency_, bandwidth_;
  Clock::time_point free_{};  // when the last message has left
};

/// Fails in the place of its message number `message`, counted from 0.
class Failing : public InFront {
 public:
  Failing(Communicator& behind, int64_t message) : InFront(behind), left_(message) {}

 private:
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override {
    if (left_-- == 0) throw IoError(std::string(operation) + ": the cable is out; plug it in");
    return InFront::begin(operation, out, to, in, from);
  }
  int64_t left_;
};

}  // namespace heed::test
