// Communicator: the one seam for ranks, processes or threads that compute one thing together. An implementation moves
// bytes from one rank to another; what many ranks do together (broadcast, gather, sums) is built of that here, so its
// messages and its bits are the same over MPI (heed/mpi.h), over threads (run_ranks) and over a transport of your own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "heed/error.h"

namespace heed::inline v0 {

class Timeline;

/// The ranks cannot continue together: one of them failed, exceeded the time limit, or makes another call.
class RankError : public IoError {
 public:
  RankError(const std::string& text, bool elsewhere) : IoError(text), elsewhere_(elsewhere) {}
  /// Another rank failed and has said why: of all ranks it is the one to print a line.
  bool elsewhere() const { return elsewhere_; }

 private:
  bool elsewhere_;
};

/// The amount of data that a rank has sent.
struct Traffic {
  int64_t messages = 0, bytes = 0;
};

/// Bytes of numbers: as_bytes(tensor.span<float>()).
template <class T>
std::span<const std::byte> as_bytes(std::span<T> numbers) {
  return std::as_bytes(std::span<const T>(numbers));
}

/// One rank's end. Every rank makes the same calls in the same order, one at a time; calls come from one thread at a
/// time. A call throws RankError when another rank fails or when it waits for one longer than the time limit; then the
/// communicator is of no further use, and every later call throws the same. Throws ShapeError for a rank that is not.
class Communicator {
 public:
  /// Data on its way, in one direction or both.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    /// Returns when what was to be received is there and what was sent may be changed. Call it once.
    virtual void wait() = 0;
  };
  /// No rank: nothing is sent to it, or received from it.
  static constexpr int kNobody = -1;

  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // from 0 to size() - 1
  virtual int size() const = 0;

  /// Seconds that a call waits for another rank; 600 unless set.
  double time_limit() const { return time_limit_; }
  void set_time_limit(double seconds) { time_limit_ = seconds; }
  Traffic sent() const { return sent_; }

  /// Sends `out` to rank `to` and receives all of `in` from rank `from`; memory stays the caller's and must live until
  /// wait(). Messages from one rank to another go to the receives in the order in which both began, whatever is waited
  /// for first. `operation` begins an error's text.
  std::unique_ptr<Transfer> start(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from);
  void exchange(const char* operation, std::span<const std::byte> out, int to, std::span<std::byte> in, int from) {
    start(operation, out, to, in, from)->wait();
  }
  void send(std::span<const std::byte> out, int to) { exchange("send", out, to, {}, kNobody); }
  void receive(std::span<std::byte> in, int from) { exchange("receive", {}, kNobody, in, from); }

  /// All ranks have come here.
  void barrier();
  /// `bytes` of rank `root` to all; of one size on all ranks.
  void broadcast(std::span<std::byte> bytes, int root = 0);
  /// The bytes of each rank, of whatever size, on rank `root`; nothing elsewhere.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root = 0);
  /// Likewise on every rank.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> bytes);

  /// Throws RankError, which names two ranks and what they have, unless `own` is the same on all: on rank 0, whose
  /// failure the others then hear of. `what` it is, and what to do when it is not, stand in the text.
  void require_same(const char* operation, const std::string& own, const char* what, const char* remedy);

  /// Notifies all others that this rank cannot continue: their calls throw RankError with `reason`. Does not wait.
  void fail(const std::string& reason) noexcept;

 protected:
  /// start() of an implementation, which vouches for ranks and counts. Either rank may be kNobody.
  virtual std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                          std::span<std::byte> in, int from) = 0;
  virtual void tell(const std::string& reason) noexcept = 0;

 private:
  void check_rank(const char* operation, int rank) const;
  double time_limit_ = 600;
  Traffic sent_;
};

/// Rank 0's value on all ranks. T is a number or a plain struct of numbers.
template <class T>
T of_lead(Communicator& ranks, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.broadcast(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}
/// Rank 0's text on all ranks.
std::string text_of_lead(Communicator& ranks, std::string text);
/// What all ranks have, in their order, on every rank. T as above.
template <class T>
std::vector<T> joined(Communicator& ranks, const std::vector<T>& own) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all;
  for (const std::vector<std::byte>& bytes : ranks.all_gather(std::as_bytes(std::span(own)))) {
    const auto* const first = reinterpret_cast<const T*>(bytes.data());
    all.insert(all.end(), first, first + bytes.size() / sizeof(T));
  }
  return all;
}
/// Likewise for lines of any letters.
std::vector<std::string> joined_lines(Communicator& ranks, const std::vector<std::string>& own);

/// In front of another communicator: its messages are noted in `timeline` while that notes. Both must outlive it.
std::unique_ptr<Communicator> timed(Communicator& behind, Timeline& timeline);

/// Runs `f` on `ranks` threads, each with its end of a communicator between them, and returns when all are done. When
/// one throws, the calls of the others do, too, and its exception is thrown here. Throws ShapeError for no ranks.
void run_ranks(int ranks, const std::function<void(Communicator&)>& f, double time_limit = 600);

}  // namespace heed::inline v0
