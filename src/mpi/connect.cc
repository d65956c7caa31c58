// A communicator on libheed_messages: waiting with a limit, and failures that all ranks hear of.
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <limits>
#include <thread>

#include "attention/fused.h"
#include "heed/mpi.h"
#include "mpi/message_passing.h"
#include "ranks/errors.h"

namespace heed::inline v0 {
namespace mpi {
namespace {

using Clock = std::chrono::steady_clock;

enum Tag : int { kData = 1, kFailure = 2 };

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Waits between two looks: at first not at all, since most messages are near.
void pause(int64_t turn) {
  if (turn < 1000)
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(turn < 20000 ? 20 : 200));
}

class MpiRank : public Communicator {
 public:
  explicit MpiRank(const MessagePassing& mpi) : mpi_(mpi), exceptions_(std::uncaught_exceptions()) {}
  ~MpiRank() override {
    if (std::uncaught_exceptions() > exceptions_) fail("it has ended by an exception");
    if (!failure_.empty()) return;  // MPI_Finalize would wait for ranks that are gone
    try {
      set_time_limit(std::numeric_limits<double>::infinity());  // others may work on, or fail
      barrier();
      mpi_.end();
    } catch (const RankError&) {
    }
  }
  int rank() const override { return mpi_.rank; }
  int size() const override { return mpi_.size; }
  /// Whether another rank tells of a failure within some seconds.
  bool hears_of_a_failure(double seconds) {
    const Clock::time_point begin = Clock::now();
    try {
      for (int64_t turn = 0; failure_.empty() && seconds_since(begin) < seconds; ++turn) {
        hear("");
        pause(turn);
      }
    } catch (const RankError&) {
    }
    return elsewhere_;
  }

 private:
  class Moving : public Transfer {
   public:
    Moving(MpiRank& own, const char* operation, size_t expected, int to, int from)
        : own_(own), operation_(operation), expected_(static_cast<int64_t>(expected)), to_(to), from_(from) {}
    ~Moving() override { give_up(); }
    void wait() override {
      const Clock::time_point begin = Clock::now();
      int64_t received = expected_;
      for (int64_t turn = 0;; ++turn) {
        int64_t ignored = 0;
        look(out_, &ignored);
        look(in_, &received);
        if (received < expected_)
          throw own_.broken(
              unlike(operation_, own_.rank(), from_, static_cast<size_t>(received), static_cast<size_t>(expected_)));
        if (!out_ && !in_) return;
        if (turn % 16 == 15) own_.hear(operation_);
        // One rank speaks first, and the others hear of it.
        if (seconds_since(begin) > own_.time_limit() + 0.05 * own_.rank())
          throw own_.broken(late(operation_, own_.rank(), in_ ? from_ : to_, own_.time_limit()));
        pause(turn);
      }
    }
    void *out_ = nullptr, *in_ = nullptr;

   private:
    void look(void*& request, int64_t* bytes) {
      if (!request) return;
      switch (own_.mpi_.test(request, bytes)) {
        case Progress::none:
          return;
        case Progress::done:
          request = nullptr;
          return;
        case Progress::failed:
          request = nullptr;
          throw own_.refused(operation_);
      }
    }
    /// Nothing is written to the caller's memory from here on. What was being sent may still be read until the other
    /// side has it; after a failure no call of MPI follows that could.
    void give_up() {
      if (in_) own_.mpi_.cancel(in_);
      if (in_ || out_) own_.fail(own_.failure_.empty() ? "it has given up a message" : own_.failure_);
      in_ = out_ = nullptr;
    }
    MpiRank& own_;
    const char* operation_;
    int64_t expected_;
    int to_, from_;
  };

  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override {
    if (!failure_.empty()) throw RankError(failure_, elsewhere_);
    auto moving = std::make_unique<Moving>(*this, operation, in.size(), to, from);
    if (from != kNobody && !(moving->in_ = mpi_.receive(in.data(), static_cast<int64_t>(in.size()), from, kData)))
      throw refused(operation);
    if (to != kNobody && !(moving->out_ = mpi_.send(out.data(), static_cast<int64_t>(out.size()), to, kData)))
      throw refused(operation);
    return moving;
  }

  void tell(const std::string& reason) noexcept override {
    if (told_) return;
    told_ = true;
    if (failure_.empty()) failure_ = reason;
    const Clock::time_point begin = Clock::now();
    std::vector<void*> notices;
    for (int other = 0; other < size(); ++other)
      if (other != rank())
        notices.push_back(mpi_.send(reason.data(), static_cast<int64_t>(reason.size()), other, kFailure));
    for (void* notice : notices) {
      int64_t bytes = 0;
      while (notice && mpi_.test(notice, &bytes) == Progress::none && seconds_since(begin) < 1) pause(0);
    }
  }

  /// Throws when another rank has told of its failure.
  void hear(const char* operation) {
    int from = 0;
    int64_t bytes = 0;
    switch (mpi_.probe(kFailure, &from, &bytes)) {
      case Progress::none:
        return;
      case Progress::failed:
        throw refused(operation);
      case Progress::done:
        break;
    }
    std::string reason(static_cast<size_t>(bytes), ' ');
    void* const request = mpi_.receive(reason.data(), bytes, from, kFailure);
    while (request && mpi_.test(request, &bytes) == Progress::none) pause(0);
    told_ = true;  // all have heard of that one
    throw broken(failed(operation, from, reason));
  }

  RankError broken(const RankError& error) {
    if (failure_.empty()) failure_ = error.what(), elsewhere_ = error.elsewhere();
    return error;
  }
  RankError refused(const char* operation) {
    return broken({std::string(operation) + ": MPI on rank " + std::to_string(rank()) + " says: " + mpi_.error() +
                       "; see whether all ranks make the same calls",
                   false});
  }

  const MessagePassing& mpi_;
  const int exceptions_;  // that were passing when this was made
  std::string failure_;   // what every later call throws
  bool elsewhere_ = false, told_ = false;
};

const MessagePassing& load() {
  // By its bare name, as pictures are (docs/decisions/0001). Never unloaded: MPI does not survive that. Its plugins
  // look for its symbols among the global ones.
  void* const library = dlopen(kMessagesLibrary, RTLD_NOW | RTLD_GLOBAL);
  void* const symbol = library ? dlsym(library, kMessagePassingSymbol) : nullptr;
  if (!symbol) {
    const char* const reason = dlerror();
    throw UsageError(std::string("mpi::connect: ") + kMessagesLibrary + " cannot be loaded (" +
                     (reason ? reason : "unknown") +
                     "); build heed where an MPI is installed (on Debian: apt install libopenmpi-dev openmpi-bin), or "
                     "start one process without mpirun");
  }
  const char* reason = "";
  const MessagePassing* const mpi = reinterpret_cast<MessagePassingFunction>(symbol)(&reason);
  if (!mpi) throw RankError(std::string("mpi::connect: ") + reason, false);
  return *mpi;
}

/// The first of these variables of the environment that is set; 0 without.
int number_in(std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (const char* const text = std::getenv(variable)) return std::atoi(text);
  return 0;
}

std::unique_ptr<MpiRank> connected(double time_limit) {
  const MessagePassing& mpi = load();
  if (const int launched = launched_ranks(); launched > 1 && mpi.size == 1) {
    mpi.end();
    throw UsageError("mpi::connect: " + std::to_string(launched) + " processes were started, and " + mpi.library +
                     " knows of this one alone; start them with the mpirun of that MPI, or build heed with the other");
  }
  auto ranks = std::make_unique<MpiRank>(mpi);
  ranks->set_time_limit(time_limit);
  ranks->require_same("mpi::connect", std::string("heed " HEED_VERSION ", " __VERSION__ ", ") + fused_target(),
                      "the build", "start one build on all ranks, on processors with the same vector instructions");
  return ranks;
}

}  // namespace

int launched_ranks() { return number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}); }

std::unique_ptr<Communicator> connect(double time_limit) { return connected(time_limit); }

int run(const std::function<void(Communicator&)>& f, double time_limit) {
  std::unique_ptr<MpiRank> ranks;
  try {
    ranks = connected(time_limit);
    f(*ranks);
    return 0;
  } catch (const std::exception& e) {
    const auto* const error = dynamic_cast<const RankError*>(&e);
    bool silent = error && error->elsewhere();
    // What ends one rank often ends all at once: those behind the first give it time to say so, and others to hear.
    if (ranks)
      silent = silent || ranks->hears_of_a_failure(std::min(0.01 * ranks->rank(), 0.2));
    else if (number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) > 0)
      std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!silent) std::fprintf(stderr, "heed: %s\n", e.what());
    if (ranks) ranks->fail(e.what());
  }
  return 1;
}

}  // namespace mpi
}  // namespace heed::inline v0
