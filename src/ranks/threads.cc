// Ranks as threads of this process: a message is a copy in the receiver's box.
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "heed/communicator.h"
#include "ranks/errors.h"

namespace heed::inline v0 {
namespace {

using Message = std::vector<std::byte>;

class Group {
 public:
  explicit Group(int size) : size_(size), ended_(static_cast<size_t>(size)), boxes_(static_cast<size_t>(size * size)) {}
  int size() const { return size_; }

  void put(const char* operation, int from, int to, Message message) {
    const std::lock_guard lock(mutex_);
    check(operation);
    Box& to_box = box(from, to);
    to_box.messages.emplace(to_box.sent++, std::move(message));
    changed_.notify_all();
  }
  /// The number of the message that a receive which begins now is for: the one that was not asked for yet.
  int64_t expect(int from, int to) {
    const std::lock_guard lock(mutex_);
    return box(from, to).expected++;
  }
  Message take(const char* operation, int from, int to, int64_t number, double seconds) {
    std::unique_lock lock(mutex_);
    std::map<int64_t, Message>& messages = box(from, to).messages;
    const auto done = [&] { return messages.contains(number) || failed_ >= 0 || ended_[static_cast<size_t>(from)]; };
    if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds), done))
      throw late(operation, to, from, seconds);
    check(operation);
    auto message = messages.extract(number);
    if (!message)
      throw RankError(std::string(operation) + ": rank " + std::to_string(to) + " waits for rank " +
                          std::to_string(from) + ", which has ended; let all ranks make the same calls",
                      false);
    return std::move(message.mapped());
  }
  void fail(int rank, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (failed_ < 0) failed_ = rank, reason_ = reason;
    changed_.notify_all();
  }
  void end(int rank) {
    const std::lock_guard lock(mutex_);
    ended_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

 private:
  struct Box {
    std::map<int64_t, Message> messages;  // by their numbers
    int64_t sent = 0, expected = 0;
  };
  Box& box(int from, int to) { return boxes_[static_cast<size_t>(from * size_ + to)]; }
  void check(const char* operation) const {
    if (failed_ >= 0) throw failed(operation, failed_, reason_);
  }
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int failed_ = -1;  // the first rank that did
  std::string reason_;
  std::vector<bool> ended_;
  std::vector<Box> boxes_;  // (from, to)
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(Group& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }

 private:
  struct Arrival : Transfer {
    Arrival(ThreadRank& of, const char* name, std::span<std::byte> to, int source)
        : own(of),
          operation(name),
          in(to),
          from(source),
          number(from == kNobody ? 0 : of.group_.expect(from, of.rank_)) {}
    void wait() override {
      if (from == kNobody) return;
      const Message message = own.group_.take(operation, from, own.rank_, number, own.time_limit());
      if (message.size() != in.size()) throw unlike(operation, own.rank_, from, message.size(), in.size());
      std::copy(message.begin(), message.end(), in.begin());
    }
    ThreadRank& own;
    const char* operation;
    std::span<std::byte> in;
    int from;
    int64_t number;
  };
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override {
    if (to != kNobody) group_.put(operation, rank_, to, Message(out.begin(), out.end()));
    return std::make_unique<Arrival>(*this, operation, in, from);
  }
  void tell(const std::string& reason) noexcept override { group_.fail(rank_, reason); }

  Group& group_;
  const int rank_;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& f, double time_limit) {
  if (ranks < 1) throw ShapeError("run_ranks: " + std::to_string(ranks) + " ranks; pass 1 or more");
  Group group(ranks);
  std::mutex mutex;
  std::exception_ptr first;  // the one that others may have followed
  const auto run = [&](int rank) {
    ThreadRank communicator(group, rank);
    communicator.set_time_limit(time_limit);
    const auto keep = [&](const char* reason, bool elsewhere) {
      communicator.fail(reason);
      const std::lock_guard lock(mutex);
      if (!first && !elsewhere) first = std::current_exception();
    };
    try {
      f(communicator);
    } catch (const RankError& e) {
      keep(e.what(), e.elsewhere());
    } catch (const std::exception& e) {
      keep(e.what(), false);
    } catch (...) {
      keep("an exception of no standard type", false);
    }
    group.end(rank);
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run, rank);
    run(0);
  } catch (const std::exception& e) {  // no more threads
    group.fail(0, e.what());
    for (std::thread& thread : threads) thread.join();
    throw;
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace heed::inline v0
