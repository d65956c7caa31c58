// A small HTTP/1.1 server for programs that compute: it answers one request at a time, bounds sizes and times, and only
// serves clients that know its secret address.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heed/cpp20.h"

namespace heed::inline v0 {

struct HttpRequest {
  std::string method{};                        // "GET" or "POST"
  std::string path{};                          // after the token: "translate"; empty for the address itself
  std::map<std::string, std::string> query{};  // the decoded query after the question mark
  std::string languages{};                     // the client's Accept-Language: "es-ES,es;q=0.9"
  std::string body{};
};

/// A request being answered.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  virtual const HttpRequest& request() const = 0;
  /// Sends a piece of the answer immediately. The route's return value is the last piece.
  virtual void put(const std::string& piece) = 0;
  /// Throws Error if the answer is no longer needed: the client has gone, the time limit is reached, or the server
  /// stops. Long computations should call it regularly, from any thread.
  virtual void expect_wanted() const = 0;
  /// Throws UsageError if an answer of this many bytes in total exceeds HttpServerOptions::answer_bytes. Routes with
  /// long answers call it while the answer grows; an answer that is too long is refused in any case.
  virtual void expect_room(int64_t bytes) const = 0;
};

/// The handler of a path; one thread runs all routes. Exceptions of `answer` become {"error": TEXT} with status 400 for
/// UsageError, ShapeError and FormatError, 503 if memory runs out, else 500. After pieces were sent, the error is the
/// last piece.
struct HttpRoute {
  std::string method{};  // "GET", which also answers HEAD, or "POST", which takes application/json
  std::string path{};
  std::string type = "application/json";
  std::function<std::string(HttpCall& call)> answer{};
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";           // a name or an address of this machine
  int port = 0;                             // 0: a free one
  int64_t waiting = 32;                     // most waiting requests; more are refused with status 503
  double seconds = 300;                     // time limit for answering a request
  int64_t body_bytes = int64_t{1} << 20;    // limit of a request's body
  double receive_seconds = 20;              // time limit for receiving a request
  int64_t answer_bytes = int64_t{1} << 27;  // limit of an answer, all pieces together
  int64_t unread_bytes = int64_t{1} << 28;  // limit of unread answers; beyond it, requests are refused
  int64_t connections = 1200;  // most open connections; more are refused, as are those beyond the limit of open files
};

class HttpServer {
 public:
  /// Starts to listen; run() answers. Throws UsageError if heed was built without HTTP, IoError if it cannot listen.
  explicit HttpServer(std::vector<HttpRoute> routes, const HttpServerOptions& options = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:40123/TOKEN/", the prefix of all paths. The token has 128 random bits, new for each server.
  /// Requests must have an IP address, localhost or options.host as their host; other names are refused, since others
  /// could point them here.
  const std::string& address() const;

  /// Answers requests until stop() is called. Throws IoError if the system ends it earlier.
  void run();
  /// May be called from any thread, also before run(). Abandons requests being answered.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::inline v0
