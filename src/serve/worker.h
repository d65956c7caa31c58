// The one thread that answers, and what waits for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "heed/http_server.h"
#include "serve/http_library.h"

namespace heed::inline v0 {

/// {"error": text}, with status. A long text, which may repeat what was sent, is cut.
HttpReply error_reply(int status, const std::string& text);

class Worker;

/// A request on its way through the worker. Two threads share it: the worker's, which answers, and that of the
/// connection, which waits and sends.
class PendingAnswer final : public HttpCall {
 public:
  PendingAnswer(HttpRequest request, const HttpRoute& route, std::function<bool()> gone, double seconds,
                int64_t most_bytes, const Worker& worker);
  ~PendingAnswer() override;

  // The worker's.
  const HttpRequest& request() const override { return request_; }
  void put(const std::string& piece) override;
  void expect_wanted() const override;
  void expect_room(int64_t bytes) const override;
  void work();

  // The connection's.
  /// Waits for the beginning: the whole answer, or one whose pieces are still made.
  static HttpReply wait(const std::shared_ptr<PendingAnswer>& answer);
  /// Nobody wants it any more.
  void give_up() { given_up_ = true; }
  bool given_up() const { return given_up_; }

 private:
  void hold(int64_t bytes);
  bool next(std::string* piece);
  void wait_until(const std::function<bool()>& come, std::unique_lock<std::mutex>& lock);
  void end(HttpReply reply);

  const HttpRequest request_;
  const HttpRoute& route_;
  const std::function<bool()> gone_;
  const std::chrono::duration<double> limit_;
  const int64_t most_bytes_;
  const std::atomic<bool>& stopping_;
  const std::shared_ptr<std::atomic<int64_t>> unread_;  // bytes of all answers; those of this one leave it with it
  std::chrono::steady_clock::time_point deadline_{};    // from when work() begins
  std::atomic<bool> given_up_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_{};
  int64_t made_ = 0, held_ = 0;  // bytes of all pieces, and of what is counted in *unread_
  bool streams_ = false, ended_ = false;
  HttpReply reply_{};  // once it has ended, unless it streams
};

class Worker {
 public:
  /// At most so many answers wait, and none is added while so many bytes of others have not been read.
  Worker(int64_t waiting, int64_t unread_bytes);
  ~Worker();

  /// Empty, or why it is not answered: too many wait, or too much is not read.
  std::string add(const std::shared_ptr<PendingAnswer>& answer);
  /// Ends what it works on and what waits.
  void stop();
  const std::atomic<bool>& stopping() const { return stopping_; }
  const std::shared_ptr<std::atomic<int64_t>>& unread() const { return unread_; }

 private:
  void run();

  const int64_t most_, most_unread_;
  const std::shared_ptr<std::atomic<int64_t>> unread_ = std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::shared_ptr<PendingAnswer>> waiting_{};
  std::thread thread_;
};

}  // namespace heed::inline v0
