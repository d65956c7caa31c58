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

/// {"error": text}, with status.
HttpReply error_reply(int status, const std::string& text);

/// A request on its way through the worker. Two threads share it: the worker's, which answers, and that of the
/// connection, which waits and sends.
class PendingAnswer final : public HttpCall {
 public:
  PendingAnswer(HttpRequest request, const HttpRoute& route, std::function<bool()> gone, double seconds,
                const std::atomic<bool>& stopping);

  // The worker's.
  const HttpRequest& request() const override { return request_; }
  void put(const std::string& piece) override;
  void expect_wanted() const override;
  void work();

  // The connection's.
  /// Waits for the beginning: the whole answer, or one whose pieces are still made.
  static HttpReply wait(const std::shared_ptr<PendingAnswer>& answer);
  /// Nobody wants it any more.
  void give_up() { given_up_ = true; }
  bool given_up() const { return given_up_; }

 private:
  bool next(std::string* piece);
  void wait_until(const std::function<bool()>& come, std::unique_lock<std::mutex>& lock);
  void end(HttpReply reply);

  const HttpRequest request_;
  const HttpRoute& route_;
  const std::function<bool()> gone_;
  const std::chrono::duration<double> limit_;
  const std::atomic<bool>& stopping_;
  std::chrono::steady_clock::time_point deadline_{};  // from when work() begins
  std::atomic<bool> given_up_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> pieces_{};
  bool streams_ = false, ended_ = false;
  HttpReply reply_{};  // once it has ended, unless it streams
};

class Worker {
 public:
  explicit Worker(int64_t waiting);
  ~Worker();

  /// False where too many wait already, or none are answered any more.
  bool add(const std::shared_ptr<PendingAnswer>& answer);
  /// Ends what it works on and what waits.
  void stop();
  const std::atomic<bool>& stopping() const { return stopping_; }

 private:
  void run();

  const int64_t most_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::shared_ptr<PendingAnswer>> waiting_{};
  std::thread thread_;
};

}  // namespace heed::inline v0
