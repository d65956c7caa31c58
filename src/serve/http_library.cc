// HTTP over sockets: libheed_http. cpp-httplib parses requests and writes answers. How long these take and how large
// they become is bounded here, whatever it does: a stream and a thread for each connection, which has one request.
#include "serve/http_library.h"

#include <httplib.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <thread>

namespace heed::inline v0 {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Waits until the socket can do this; false where that is not before `deadline`.
bool ready(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return false;
    pollfd wanted{.fd = socket, .events = events, .revents = 0};
    const int found = ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left + 1, 1000)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
  }
}

bool passed(ssize_t result) { return result < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK); }

// What came, 0 at the end, -1 where nothing comes in time.
ssize_t receive(int socket, char* to, size_t size, Clock::time_point deadline) {
  for (;;) {
    if (!ready(socket, POLLIN, deadline)) return -1;
    const ssize_t got = ::recv(socket, to, size, MSG_DONTWAIT);
    if (!passed(got)) return got;
  }
}

// Closed by the other side, who then wants no answer: what speaks HTTP does not close half of a connection.
bool closed(int socket) {
  pollfd seen{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return ::poll(&seen, 1, 0) > 0 && seen.revents != 0;
}

/// One request and its answer.
class BoundedStream final : public httplib::Stream {
 public:
  BoundedStream(int socket, const HttpListening& limits)
      : socket_(socket), limits_(limits), received_until_(after(limits.receive_seconds)) {}

  /// Reads up to the empty line. Status 0, or that of a refusal, or -1 where nobody is there.
  RequestHead read_head(const HttpHooks& hooks) {
    constexpr std::string_view kEnd = "\r\n\r\n";
    std::array<char, 4096> part;
    size_t end = std::string::npos, looked = 0;
    while ((end = come_.find(kEnd, looked)) == std::string::npos) {
      if (std::ssize(come_) > limits_.head_bytes) return {.status = 431};
      looked = come_.size() - std::min(come_.size(), kEnd.size() - 1);
      const ssize_t got = receive(socket_, part.data(), part.size(), received_until_);
      if (got < 0 && Clock::now() >= received_until_ && !come_.empty()) return {.status = 408};
      if (got <= 0) return {.status = -1};
      come_.append(part.data(), static_cast<size_t>(got));
    }
    const std::string_view whole = come_;
    RequestHead head = hooks.head(whole.substr(0, end + kEnd.size()));
    come_ = head.kept + std::string(whole.substr(end + kEnd.size()));
    left_ = limits_.body_bytes;
    return head;
  }

  bool is_readable() const override { return at_ < come_.size() || ready(socket_, POLLIN, Clock::now()); }
  bool is_writable() const override { return true; }  // write() waits

  ssize_t read(char* to, size_t size) override {
    if (at_ < come_.size()) {
      const size_t count = std::min(size, come_.size() - at_);
      std::memcpy(to, come_.data() + at_, count);
      at_ += count;
      return static_cast<ssize_t>(count);
    }
    if (left_ <= 0) return -1;
    const ssize_t got = receive(socket_, to, std::min(size, static_cast<size_t>(left_)), received_until_);
    left_ -= std::max<ssize_t>(got, 0);
    return got;
  }

  ssize_t write(const char* from, size_t size) override {
    if (sent_until_ == Clock::time_point{})
      sent_until_ = after(in_pieces_ ? limits_.stream_seconds : limits_.send_seconds);
    for (;;) {
      if (!ready(socket_, POLLOUT, sent_until_)) return -1;
      const ssize_t sent = ::send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (!passed(sent)) return sent;
    }
  }

  /// The request did not come in time.
  bool late() const { return Clock::now() >= received_until_; }
  /// The answer is made while it goes.
  void goes_in_pieces() { in_pieces_ = true; }

  void get_remote_ip_and_port(std::string&, int&) const override {}  // nobody asks
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  const int socket_;
  const HttpListening& limits_;
  const Clock::time_point received_until_;
  Clock::time_point sent_until_{};  // from when an answer begins
  bool in_pieces_ = false;
  std::string come_{};
  size_t at_ = 0;
  int64_t left_ = 0;  // of a body, that may come
};

// Bytes of an answer that httplib does not write.
std::string as_bytes(const HttpReply& reply, const HttpHeaders& headers) {
  const char* const reason = reply.status == 400   ? "Bad Request"
                             : reply.status == 408 ? "Request Timeout"
                             : reply.status == 414 ? "URI Too Long"
                             : reply.status == 431 ? "Request Header Fields Too Large"
                                                   : "Service Unavailable";
  std::string bytes = "HTTP/1.1 " + std::to_string(reply.status) + " " + reason + "\r\nConnection: close\r\n";
  for (const auto& [name, value] : headers) bytes += name + ": " + value + "\r\n";
  if (reply.status == 503) bytes += "Retry-After: 1\r\n";
  return bytes + "Content-Type: " + reply.type + "\r\nContent-Length: " + std::to_string(reply.body.size()) +
         "\r\n\r\n" + reply.body;
}

thread_local BoundedStream* this_stream = nullptr;  // what this thread answers
thread_local bool turns_away = false;               // this thread closes what is too much
thread_local int64_t admitted = 0;                  // bytes of the body that this thread reads

IncomingHttp incoming_of(const httplib::Request& request) {
  IncomingHttp incoming;
  incoming.request = {.method = request.method,
                      .path = request.path,
                      .query = {request.params.begin(), request.params.end()},
                      .languages = request.get_header_value("Accept-Language")};
  incoming.host = request.get_header_value("Host");
  incoming.content_type = request.get_header_value("Content-Type");
  incoming.content_encoding = request.get_header_value("Content-Encoding");
  incoming.has_length = request.has_header("Content-Length") && !request.has_header("Transfer-Encoding");
  incoming.length = request.get_header_value<uint64_t>("Content-Length");
  incoming.gone = [socket = this_stream->socket()] { return closed(socket); };
  return incoming;
}

void fill(HttpReply reply, httplib::Response* response) {
  response->status = reply.status;
  for (const auto& [name, value] : reply.headers) response->set_header(name, value);
  const auto kept = std::make_shared<const HttpReply>(std::move(reply));  // sent from where it lies, however large
  if (!kept->next) {
    if (kept->body.empty()) return response->set_content(kept->body, kept->type);
    return response->set_content_provider(
        kept->body.size(), kept->type, [kept](size_t offset, size_t length, httplib::DataSink& sink) {
          return sink.write(kept->body.data() + offset, std::min(length, kept->body.size() - offset));
        });
  }
  this_stream->goes_in_pieces();
  response->set_chunked_content_provider(kept->type, [kept](size_t, httplib::DataSink& sink) {
    std::string piece;
    if (kept->next(&piece)) return sink.write(piece.data(), piece.size());
    sink.done();
    return true;
  });
}

class Connections final : public HttpConnections, private httplib::Server {
 public:
  Connections(const HttpListening& where, const HttpHooks& hooks) : limits_(where), hooks_(hooks) {
    limits_.connections = std::min(limits_.connections, open_files_allowed());
    set_handlers();
  }

  /// Empty, or why it cannot.
  std::string listen_at() {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (const int failure = ::getaddrinfo(limits_.host.c_str(), nullptr, &hints, &found)) return gai_strerror(failure);
    ::freeaddrinfo(found);
    errno = 0;
    port_ = limits_.port;
    const bool bound =
        port_ == 0 ? (port_ = bind_to_any_port(limits_.host)) > 0 : bind_to_port(limits_.host, limits_.port);
    if (!bound) return errno ? std::strerror(errno) : "the system refuses";
    constexpr int kBacklog = 1024;  // httplib lets five connections wait
    if (::listen(svr_sock_, kBacklog) != 0) return std::strerror(errno);
    return "";
  }

  int port() const override { return port_; }
  bool serve() override {
    try {
      return listen_after_bind() || ending_;
    } catch (...) {  // no memory for one connection more
      finish();
      errno = ENOMEM;
      return false;
    }
  }
  void end() override { ending_ = true; }

 private:
  // A thread for each connection, which sleeps most of the time.
  class Threads final : public httplib::TaskQueue {
   public:
    explicit Threads(Connections* of) : of_(of) {}
    void enqueue(std::function<void()> answer) override { of_->begin(answer); }
    void shutdown() override { of_->finish(); }
    void on_idle() override {
      of_->join_ended();
      of_->end_if_asked();
    }

   private:
    Connections* const of_;
  };

  // The system's limit, but for what the program itself has open.
  static int64_t open_files_allowed() {
    constexpr int64_t kOwn = 64;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
    return std::max<int64_t>(static_cast<int64_t>(limit.rlim_cur) - kOwn, 1);
  }

  void set_handlers() {
    new_task_queue = [this] { return new Threads(this); };
    // Two servers may not share a port, as httplib's own options let them.
    set_socket_options([](socket_t socket) {
      const int yes = 1, unsent = 128 << 10;  // the system keeps megabytes for a reader that is slow, unless told
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &unsent, sizeof unsent);  // connections inherit it
    });
    set_tcp_nodelay(true);  // pieces of a stream go at once
    constexpr time_t kLookMicroseconds = 100'000;
    set_idle_interval(0, kLookMicroseconds);
    set_payload_max_length(static_cast<size_t>(limits_.body_bytes));
    set_default_headers({hooks_.headers.begin(), hooks_.headers.end()});
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      HttpReply reply = hooks_.refuse(incoming_of(request));
      if (reply.status == 0 && request.method == "POST") {
        if (admits(static_cast<int64_t>(request.get_header_value<uint64_t>("Content-Length"))))
          return HandlerResponse::Unhandled;
        reply = hooks_.failure(503, "");
      }
      if (reply.status == 0) reply = hooks_.answer(incoming_of(request));
      fill(std::move(reply), &response);
      return HandlerResponse::Handled;
    });
    set_expect_100_continue_handler([this](const httplib::Request& request, httplib::Response& response) {
      HttpReply reply = hooks_.refuse(incoming_of(request));
      if (reply.status == 0) return 100;
      const int status = reply.status;
      fill(std::move(reply), &response);
      return status;
    });
    Post(".*", [this](const httplib::Request& request, httplib::Response& response) {
      IncomingHttp incoming = incoming_of(request);
      incoming.request.body = request.body;
      fill(hooks_.answer(std::move(incoming)), &response);
    });
    set_error_handler([this](const httplib::Request&, httplib::Response& response) {
      const bool late = response.status == 400 && this_stream->late();
      if (response.body.empty() && response.content_length_ == 0 && !response.content_provider_)
        fill(hooks_.failure(late ? 408 : response.status, ""), &response);
    });
    set_exception_handler([this](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
      fill(hooks_.failure(500, ""), &response);
    });
  }

  // From here to finish(): by the thread that takes connections.
  void begin(const std::function<void()>& answer) {
    end_if_asked();
    if (started(answer)) return;
    turns_away = true;
    answer();
    turns_away = false;
  }

  // In a thread of its own; false where there are too many.
  bool started(const std::function<void()>& answer) {
    join_ended();
    const std::lock_guard lock(mutex_);
    if (static_cast<int64_t>(threads_.size()) >= limits_.connections) return false;
    try {
      const auto self = threads_.emplace(threads_.end());
      try {
        *self = std::thread([this, answer, self] {
          answer();
          const std::lock_guard ended(mutex_);
          ended_.splice(ended_.end(), threads_, self);
          if (threads_.empty()) none_runs_.notify_all();
        });
      } catch (...) {
        threads_.erase(self);
        throw;
      }
      return true;
    } catch (const std::exception&) {  // no more threads, or no memory
      return false;
    }
  }

  // None outlives the server: whoever leaves the process while a thread ends pulls its memory from under it.
  void join_ended() {
    std::list<std::thread> ended;
    {
      const std::lock_guard lock(mutex_);
      ended.swap(ended_);
    }
    for (std::thread& thread : ended) thread.join();
  }

  void end_if_asked() {
    if (ending_ && svr_sock_ != INVALID_SOCKET) stop();
  }

  // Requests that still come are cut off; answers have a moment to go.
  void finish() {
    constexpr std::chrono::seconds kMoment{2};
    {
      std::unique_lock lock(mutex_);
      const auto none = [this] { return threads_.empty(); };
      for (const int socket : open_) ::shutdown(socket, SHUT_RD);
      if (!none_runs_.wait_for(lock, kMoment, none)) {
        for (const int socket : open_) ::shutdown(socket, SHUT_RDWR);
        none_runs_.wait(lock, none);
      }
    }
    join_ended();
  }

  // The place of httplib's own, which would wait for each byte anew.
  bool process_and_close_socket(socket_t socket) override {
    if (turns_away) {
      turn_away(socket);
    } else {
      try {
        keep(socket, true);
        answer(socket);
        if (!ending_) linger(socket);
      } catch (...) {  // no memory: the connection ends
      }
      bodies_ -= std::exchange(admitted, 0);
      keep(socket, false);
    }
    ::close(socket);
    return true;
  }

  void answer(int socket) {
    BoundedStream stream(socket, limits_);
    const RequestHead head = stream.read_head(hooks_);
    if (head.status < 0) return;
    if (head.status > 0) {
      const std::string bytes = as_bytes(hooks_.failure(head.status, head.error), hooks_.headers);
      stream.write(bytes.data(), bytes.size());
      return;
    }
    this_stream = &stream;
    bool closed_by_request = false;
    process_request(stream, /*close_connection=*/true, closed_by_request, nullptr);
  }

  // Without waiting: whoever is turned away may not hold up the others.
  void turn_away(int socket) {
    try {
      const std::string bytes = as_bytes(hooks_.failure(503, ""), hooks_.headers);
      std::array<char, 4096> come;
      [[maybe_unused]] const ssize_t got = ::recv(socket, come.data(), come.size(), MSG_DONTWAIT);
      [[maybe_unused]] const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } catch (...) {  // no memory for words
    }
  }

  // A socket that is closed while something still comes takes its answer back (RFC 9112, 9.6).
  static void linger(int socket) {
    constexpr double kSeconds = 2;
    ::shutdown(socket, SHUT_WR);
    const Clock::time_point until = after(kSeconds);
    std::array<char, 16384> rest;
    while (receive(socket, rest.data(), rest.size(), until) > 0) continue;
  }

  // Whether the body of a request may be read beside those that are there.
  bool admits(int64_t bytes) {
    if (bodies_.fetch_add(bytes) + bytes <= limits_.bodies_bytes) {
      admitted += bytes;
      return true;
    }
    bodies_ -= bytes;
    return false;
  }

  void keep(int socket, bool open) {
    const std::lock_guard lock(mutex_);
    open ? void(open_.insert(socket)) : void(open_.erase(socket));
  }

  HttpListening limits_;
  const HttpHooks hooks_;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<int64_t> bodies_{0};  // bytes of bodies that are there
  std::mutex mutex_;
  std::condition_variable none_runs_;
  std::list<std::thread> threads_{};  // that answer
  std::list<std::thread> ended_{};    // that have answered, to be joined
  std::set<int> open_{};
};

}  // namespace
}  // namespace heed::inline v0

// Exceptions stay inside, as with pictures.
extern "C" __attribute__((visibility("default"))) heed::HttpConnections* heed_http_2(const heed::HttpListening& where,
                                                                                     const heed::HttpHooks& hooks,
                                                                                     std::string* failure) {
  try {
    auto connections = std::make_unique<heed::Connections>(where, hooks);
    *failure = connections->listen_at();
    return failure->empty() ? connections.release() : nullptr;
  } catch (const std::bad_alloc&) {
    failure->clear();
  } catch (const std::exception& reason) {
    *failure = reason.what();
  }
  return nullptr;
}
