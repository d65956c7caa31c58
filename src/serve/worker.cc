#include "serve/worker.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "heed/error.h"

namespace heed::inline v0 {
namespace {

using Clock = std::chrono::steady_clock;

// How often it is looked whether somebody still waits.
constexpr std::chrono::milliseconds kLook{200};

// An answer that is not wanted any more.
class Unwanted : public Error {
 public:
  using Error::Error;
};

std::string error_json(const std::string& text) {
  const nlohmann::json object = {{"error", text}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

// The library's messages begin with the operation, which often is the path.
std::string without_path(const std::string& text, const std::string& path) {
  return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : text;
}

std::string in_digits(double x) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%g", x);
  return text.data();
}

// What the exception that is being handled becomes.
HttpReply failure_reply(const std::string& path) {
  try {
    throw;
  } catch (const Unwanted& e) {
    return error_reply(503, e.what());
  } catch (const MemoryError& e) {
    return error_reply(503, without_path(e.what(), path));
  } catch (const std::bad_alloc&) {
    return error_reply(503, "not enough memory; ask for less at once");
  } catch (const UsageError& e) {
    return error_reply(400, without_path(e.what(), path));
  } catch (const ShapeError& e) {
    return error_reply(400, without_path(e.what(), path));
  } catch (const FormatError& e) {
    return error_reply(400, without_path(e.what(), path));
  } catch (const std::exception& e) {
    return error_reply(500, without_path(e.what(), path));
  } catch (...) {
    return error_reply(500, "unknown failure");
  }
}

}  // namespace

HttpReply error_reply(int status, const std::string& text) {
  constexpr size_t kLongest = 1000;
  size_t size = std::min(text.size(), kLongest);
  while (size < text.size() && size > 0 && (text[size] & 0xC0) == 0x80) --size;  // not inside a character
  return {.status = status, .body = error_json(size < text.size() ? text.substr(0, size) + "..." : text)};
}

PendingAnswer::PendingAnswer(HttpRequest request, const HttpRoute& route, std::function<bool()> gone, double seconds,
                             int64_t most_bytes, const Worker& worker)
    : request_(std::move(request)),
      route_(route),
      gone_(std::move(gone)),
      limit_(seconds),
      most_bytes_(most_bytes),
      stopping_(worker.stopping()),
      unread_(worker.unread()) {}

PendingAnswer::~PendingAnswer() { *unread_ -= held_; }

void PendingAnswer::put(const std::string& piece) {
  expect_wanted();
  if (piece.empty()) return;
  const std::lock_guard lock(mutex_);
  expect_room(made_ + std::ssize(piece));
  made_ += std::ssize(piece);
  hold(std::ssize(piece));
  pieces_.push_back(piece);
  streams_ = true;
  changed_.notify_all();
}

// So many bytes more are there, until they are read.
void PendingAnswer::hold(int64_t bytes) {
  held_ += bytes;
  *unread_ += bytes;
}

void PendingAnswer::expect_room(int64_t bytes) const {
  if (bytes > most_bytes_)
    throw UsageError("the answer has more than " + std::to_string(most_bytes_) + " bytes; ask for less at once");
}

void PendingAnswer::expect_wanted() const {
  if (stopping_) throw Unwanted("the server ends");
  if (given_up_) throw Unwanted("nobody waits for the answer");
  if (Clock::now() > deadline_)
    throw Unwanted("the answer takes longer than " + in_digits(limit_.count()) + " seconds; ask for less at once");
}

void PendingAnswer::work() {
  try {
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit_);
    expect_wanted();
    std::string body = route_.answer(*this);
    expect_room(made_ + std::ssize(body));
    end({.status = 200, .type = route_.type, .body = std::move(body)});
    return;
  } catch (...) {
    try {
      end(failure_reply(request_.path));
      return;
    } catch (const std::bad_alloc&) {  // no memory for words
    }
  }
  const std::lock_guard lock(mutex_);
  reply_.status = 503;
  ended_ = true;
  changed_.notify_all();
}

void PendingAnswer::end(HttpReply reply) {
  const std::lock_guard lock(mutex_);
  hold(std::ssize(reply.body));
  if (streams_ && !reply.body.empty()) pieces_.push_back(std::move(reply.body));
  if (!streams_) reply_ = std::move(reply);
  ended_ = true;
  changed_.notify_all();
}

// Until it has come, or whoever waits for it has gone.
void PendingAnswer::wait_until(const std::function<bool()>& come, std::unique_lock<std::mutex>& lock) {
  while (!changed_.wait_for(lock, kLook, come) && !given_up_)
    if (gone_()) given_up_ = true;
}

HttpReply PendingAnswer::wait(const std::shared_ptr<PendingAnswer>& answer) {
  std::unique_lock lock(answer->mutex_);
  answer->wait_until([&] { return answer->ended_ || answer->streams_; }, lock);
  if (!answer->streams_ && !answer->ended_) return error_reply(503, "nobody waits");
  if (!answer->streams_) {
    HttpReply reply = std::move(answer->reply_);
    reply.counted = answer;
    return reply;
  }
  // The answer is given up where its pieces are no longer asked for: the connection has gone with the function.
  const std::shared_ptr<void> reader(nullptr, [answer](void*) { answer->give_up(); });
  return {.status = 200, .type = answer->route_.type, .next = [answer, reader](std::string* piece) {
            return answer->next(piece);
          }};
}

bool PendingAnswer::next(std::string* piece) {
  std::unique_lock lock(mutex_);
  wait_until([&] { return ended_ || !pieces_.empty(); }, lock);
  if (pieces_.empty()) return false;
  *piece = std::move(pieces_.front());
  pieces_.pop_front();
  hold(-std::ssize(*piece));
  return true;
}

Worker::Worker(int64_t waiting, int64_t unread_bytes)
    : most_(waiting), most_unread_(unread_bytes), thread_([this] { run(); }) {}

Worker::~Worker() {
  stop();
  thread_.join();
}

std::string Worker::add(const std::shared_ptr<PendingAnswer>& answer) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [](const auto& other) { return other->given_up(); });
  if (stopping_) return "the server ends";
  if (std::ssize(waiting_) >= most_) return std::to_string(most_) + " requests wait already";
  if (*unread_ > most_unread_)
    return "answers of more than " + std::to_string(most_unread_) + " bytes have not been read yet";
  waiting_.push_back(answer);
  added_.notify_one();
  return {};
}

void Worker::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  added_.notify_one();
}

void Worker::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::shared_ptr<PendingAnswer> answer = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    answer->work();
  }
}

}  // namespace heed::inline v0
