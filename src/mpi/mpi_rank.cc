#include "mpi/mpi_rank.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>

#include "ranks/errors.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

enum Tag : int { kData = 1, kFailure = 2 };

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr double kLook = 0.2;  // seconds between two looks whether a process is still there

/// Where process numbers mean the same.
struct Place {
  char boot[40]{};  // of this computer, since it was started
  ino_t processes = 0;
  pid_t process = ::getpid();
};

Place own_place() {
  Place place;
  std::ifstream("/proc/sys/kernel/random/boot_id").read(place.boot, sizeof place.boot - 1);
  struct stat names {};
  if (::stat("/proc/self/ns/pid", &names) == 0) place.processes = names.st_ino;
  return place;
}

/// Between two looks: at first not at all, since most messages are near.
void pause(int64_t turn) {
  if (turn < 1000)
    sched_yield();
  else
    std::this_thread::sleep_for(microseconds(turn < 20000 ? 20 : 200));
}

}  // namespace

class MpiRank::Moving : public Transfer {
 public:
  Moving(MpiRank& own, const char* operation, std::span<const std::byte> out, int to, std::span<std::byte> in, int from)
      : own_(own), operation_(operation), expected_(static_cast<int64_t>(in.size())), to_(to), from_(from) {
    const std::lock_guard lock(own_.mutex_);
    if (!own_.failure_.empty()) throw RankError(own_.failure_, own_.elsewhere_);
    if (from != kNobody && !(in_ = own_.mpi_.receive(in.data(), expected_, from, kData))) throw own_.refused(operation);
    if (to != kNobody && !(out_ = own_.mpi_.send(out.data(), static_cast<int64_t>(out.size()), to, kData)))
      throw own_.refused(operation);
    own_.moving_.push_back(this);
  }
  /// Given up before its end, nothing is written to the caller's memory any more. What was being sent may be read until
  /// the other side has it; after a failure no call of MPI follows that could.
  ~Moving() override {
    std::string failure;
    {
      const std::lock_guard lock(own_.mutex_);
      std::erase(own_.moving_, this);
      if (!in_ && !out_) return;
      if (in_) own_.mpi_.cancel(in_);
      failure = own_.failure_.empty() ? "it has given up a message" : own_.failure_;
    }
    own_.fail(failure);
  }
  void wait() override {
    const Clock::time_point begin = Clock::now();
    Clock::time_point looked = begin;
    bool was_gone = false;
    for (int64_t turn = 0;; ++turn) {
      {
        const std::lock_guard lock(own_.mutex_);
        look();
        if (refused_) throw own_.refused(operation_);
        if (received_ >= 0 && received_ < expected_)
          throw own_.broken(
              unlike(operation_, own_.rank(), from_, static_cast<size_t>(received_), static_cast<size_t>(expected_)));
        if (!in_ && !out_) return;
        if (turn % 16 == 15) own_.hear(operation_);
        if (seconds_since(looked) > kLook) {
          looked = Clock::now();
          if (const int other = in_ ? from_ : to_; own_.is_gone(other)) {
            if (was_gone) throw own_.broken(gone(operation_, own_.rank(), other));
            was_gone = true;  // what it has sent before may still come
          }
        }
        // One rank speaks first, and the others hear of it.
        if (seconds_since(begin) > own_.time_limit() + 0.05 * own_.rank())
          throw own_.broken(late(operation_, own_.rank(), in_ ? from_ : to_, own_.time_limit()));
      }
      pause(turn);
    }
  }
  /// Lets MPI go on, and sees what has ended. With the mutex held.
  void look() {
    int64_t sent = 0;
    for (const auto& [request, bytes] : {std::pair(&out_, &sent), std::pair(&in_, &received_)}) {
      if (!*request || refused_) continue;
      const MessageProgress progress = own_.mpi_.test(*request, bytes);
      refused_ = progress == MessageProgress::failed;
      if (progress != MessageProgress::none) *request = nullptr;
    }
  }
  bool is_moving() const { return (in_ || out_) && !refused_; }

 private:
  MpiRank& own_;
  const char* operation_;
  int64_t expected_, received_ = -1;  // bytes; -1 until it has ended
  int to_, from_;
  void *out_ = nullptr, *in_ = nullptr;
  bool refused_ = false;
};

MpiRank::MpiRank(const MessagePassing& messages) : mpi_(messages), exceptions_(std::uncaught_exceptions()) {
  if (size() > 1 && mpi_.from_any_thread) keeps_moving_ = std::thread([this] { keep_moving(); });
}

MpiRank::~MpiRank() {
  ends_ = true;
  if (keeps_moving_.joinable()) keeps_moving_.join();
  if (std::uncaught_exceptions() > exceptions_) fail("it has ended by an exception");
  if (!failure_.empty()) return;  // MPI_Finalize would wait for ranks that are gone
  try {
    set_time_limit(std::numeric_limits<double>::infinity());  // others may work on, or fail
    processes_.clear();                                       // who ends here has done its part
    barrier();
    mpi_.end();
  } catch (const RankError&) {
  }
}

void MpiRank::meet() {
  const Place own = own_place();
  for (const Place& place : joined(*this, std::vector<Place>{own})) {
    const bool here = std::memcmp(place.boot, own.boot, sizeof own.boot) == 0 && place.processes == own.processes;
    processes_.push_back(here && own.boot[0] ? place.process : 0);
  }
}

bool MpiRank::is_gone(int other) const {
  const pid_t process = processes_.empty() ? 0 : processes_[static_cast<size_t>(other)];
  return process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

void MpiRank::keep_moving() {
  while (!ends_) {
    bool any = false;
    {
      const std::lock_guard lock(mutex_);
      for (Moving* const moving : moving_) {
        if (!moving->is_moving() || !failure_.empty()) continue;
        moving->look();
        any = true;
      }
    }
    // What ends within a millisecond is not worth being looked for.
    std::this_thread::sleep_for(microseconds(any ? 50 : 1000));
  }
}

std::unique_ptr<Communicator::Transfer> MpiRank::begin(const char* operation, std::span<const std::byte> out, int to,
                                                       std::span<std::byte> in, int from) {
  return std::make_unique<Moving>(*this, operation, out, to, in, from);
}

void MpiRank::tell(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = reason;
  if (told_) return;
  told_ = true;
  const Clock::time_point begin = Clock::now();
  std::vector<void*> notices;
  for (int other = 0; other < size(); ++other)
    if (other != rank())
      notices.push_back(mpi_.send(reason.data(), static_cast<int64_t>(reason.size()), other, kFailure));
  for (void* notice : notices) {
    int64_t bytes = 0;
    while (notice && mpi_.test(notice, &bytes) == MessageProgress::none && seconds_since(begin) < 1) pause(0);
  }
}

bool MpiRank::hears_of_a_failure(double seconds) {
  const Clock::time_point begin = Clock::now();
  try {
    for (int64_t turn = 0; seconds_since(begin) < seconds; ++turn) {
      {
        const std::lock_guard lock(mutex_);
        if (!elsewhere_) hear("");
      }
      pause(turn);
    }
  } catch (const RankError&) {
  }
  return elsewhere_;
}

void MpiRank::hear(const char* operation) {
  int from = 0;
  int64_t bytes = 0;
  switch (mpi_.probe(kFailure, &from, &bytes)) {
    case MessageProgress::none:
      return;
    case MessageProgress::failed:
      throw refused(operation);
    case MessageProgress::done:
      break;
  }
  std::string reason(static_cast<size_t>(bytes), ' ');
  void* const request = mpi_.receive(reason.data(), bytes, from, kFailure);
  while (request && mpi_.test(request, &bytes) == MessageProgress::none) pause(0);
  told_ = elsewhere_ = true;  // all have heard of that one
  throw broken(failed(operation, from, reason));
}

RankError MpiRank::broken(const RankError& error) {
  if (failure_.empty()) failure_ = error.what(), elsewhere_ = error.elsewhere();
  return error;
}

RankError MpiRank::refused(const char* operation) {
  return broken({std::string(operation) + ": MPI on rank " + std::to_string(rank()) + " says: " + mpi_.error() +
                     "; see whether all ranks make the same calls",
                 false});
}

}  // namespace mpi
}  // namespace heed::inline v0
