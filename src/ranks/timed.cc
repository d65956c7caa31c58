// A communicator in front of another one, which notes its messages in a timeline.
#include "heed/communicator.h"
#include "heed/timeline.h"

namespace heed::inline v0 {
namespace {

class Timed final : public Communicator {
 public:
  Timed(Communicator& behind, Timeline& timeline) : behind_(behind), timeline_(timeline) {
    set_time_limit(behind.time_limit());
  }
  int rank() const override { return behind_.rank(); }
  int size() const override { return behind_.size(); }

 private:
  using Clock = Timeline::Clock;
  struct Noted final : Transfer {
    void wait() override {
      const Clock::time_point waits = Clock::now();
      inner->wait();
      const Clock::time_point end = Clock::now();
      message.kind = Timeline::Kind::message;
      timeline->add(message, begin, end);
      message.kind = Timeline::Kind::wait;
      timeline->add(message, waits, end);
    }
    Timeline* timeline = nullptr;
    Timeline::Span message{};
    Clock::time_point begin;
    std::unique_ptr<Transfer> inner;
  };
  std::unique_ptr<Transfer> begin(const char* operation, std::span<const std::byte> out, int to,
                                  std::span<std::byte> in, int from) override {
    if (!timeline_.notes()) return behind_.start(operation, out, to, in, from);
    auto noted = std::make_unique<Noted>();
    noted->timeline = &timeline_;
    noted->message.name = operation;
    noted->message.to = to, noted->message.from = from;
    noted->message.sent = std::ssize(out), noted->message.received = std::ssize(in);
    noted->begin = Clock::now();
    noted->inner = behind_.start(operation, out, to, in, from);
    return noted;
  }
  void tell(const std::string& reason) noexcept override { behind_.fail(reason); }

  Communicator& behind_;
  Timeline& timeline_;
};

}  // namespace

std::unique_ptr<Communicator> timed(Communicator& behind, Timeline& timeline) {
  return std::make_unique<Timed>(behind, timeline);
}

}  // namespace heed::inline v0
