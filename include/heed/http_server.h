// A small server of HTTP/1.1 for programs that compute: one request is answered at a time, sizes and times are bounded,
// and who does not know the address gets nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heed::inline v0 {

struct HttpRequest {
  std::string method{};                        // "GET" or "POST"
  std::string path{};                          // behind the token: "translate"; empty for the address itself
  std::map<std::string, std::string> query{};  // what stands behind a question mark, decoded
  std::string languages{};                     // those of the reader, as browsers tell them: "es-ES,es;q=0.9"
  std::string body{};
};

/// A request while it is answered.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  virtual const HttpRequest& request() const = 0;
  /// Sends a piece of the answer at once. What the route returns is the last one then.
  virtual void put(const std::string& piece) = 0;
  /// Throws Error where the answer is not wanted any more: nobody waits for it, it has taken too long, or the server
  /// ends. Who computes for long calls it now and then, from any thread.
  virtual void expect_wanted() const = 0;
  /// Throws UsageError where an answer of so many bytes in all is more than HttpServerOptions::answer_bytes. A route
  /// that makes a long one asks while it grows; a longer one is refused in any case.
  virtual void expect_room(int64_t bytes) const = 0;
};

/// What is answered at one path, from one thread for all routes. What `answer` throws becomes {"error": TEXT}: with
/// status 400 for UsageError, ShapeError and FormatError, 503 where memory runs out, else 500; behind what was put
/// already, as a last piece of its own.
struct HttpRoute {
  std::string method{};  // "GET", which answers HEAD, too, or "POST", which takes application/json
  std::string path{};
  std::string type = "application/json";
  std::function<std::string(HttpCall& call)> answer{};
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";           // a name or an address of this machine
  int port = 0;                             // 0: a free one
  int64_t waiting = 32;                     // for the request that is answered; more are turned away with status 503
  double seconds = 300;                     // that a request is worked on at most
  int64_t body_bytes = int64_t{1} << 20;    // of a request at most
  double receive_seconds = 20;              // that a request takes to come at most
  int64_t answer_bytes = int64_t{1} << 27;  // of an answer at most, all its pieces together
  int64_t unread_bytes = int64_t{1} << 28;  // of answers that nobody has read yet; beyond, requests are turned away
  int64_t connections = 1200;  // at once; more are turned away, and so are those beyond the open files allowed
};

class HttpServer {
 public:
  /// Listens; answers once it runs. Throws UsageError where heed was built without HTTP, IoError where it cannot
  /// listen.
  explicit HttpServer(std::vector<HttpRoute> routes, const HttpServerOptions& options = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:40123/TOKEN/": paths stand behind it. The token is 128 bits, drawn anew for each server.
  /// Requests must name an address, localhost or options.host as their host: a name that others can point here is
  /// refused.
  const std::string& address() const;

  /// Answers until stop() was called. Throws IoError where the system ends it before.
  void run();
  /// From any thread, also before run(). What is being answered is given up.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heed::inline v0
