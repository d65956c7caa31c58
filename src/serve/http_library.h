// What libheed_http gives: connections over cpp-httplib, which the program needs when it serves, and at no other time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/http_server.h"
#include "serve/request_head.h"

namespace heed::inline v0 {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A request whose head has come.
struct IncomingHttp {
  HttpRequest request{};  // the path with its token
  std::string host{}, content_type{}, content_encoding{};
  bool has_length = false;
  uint64_t length = 0;           // of the body
  std::function<bool()> gone{};  // whoever asked has closed the connection; for the thread that answers
};

struct HttpReply {
  int status = 0;
  std::string type = "application/json";
  std::string body{};
  HttpHeaders headers{};
  /// Where given, instead of a body: the next piece, never an empty one; false after the last.
  std::function<bool(std::string* piece)> next{};
  std::shared_ptr<void> counted{};  // kept until the answer has gone, so that its bytes count until then
};

/// What the connections ask, several at once. None may throw.
struct HttpHooks {
  std::function<RequestHead(std::string_view head)> head;  // before anything else looks at it
  std::function<HttpReply(const IncomingHttp&)> refuse;    // before the body is read; status 0: it is
  std::function<HttpReply(IncomingHttp&&)> answer;
  std::function<HttpReply(int status, const std::string& why)> failure;  // `why` may be empty
  HttpHeaders headers{};                                                 // of every answer
};

struct HttpListening {
  std::string host{};
  int port = 0;
  int64_t connections = 0, head_bytes = 0, body_bytes = 0;
  int64_t bodies_bytes = 0;  // of all requests that are there
  // Of all of a request, of all of an answer, and of one that goes in pieces.
  double receive_seconds = 0, send_seconds = 0, stream_seconds = 0;
};

class HttpConnections {
 public:
  virtual ~HttpConnections() = default;
  virtual int port() const = 0;
  /// Until end() was called; false where the system ended it.
  virtual bool serve() = 0;
  virtual void end() = 0;
};

/// Listens. Null where that fails, with the reason in `failure`.
using HttpLibraryFunction = HttpConnections* (*)(const HttpListening& where, const HttpHooks& hooks,
                                                 std::string* failure);

/// The symbol of the library. Change its number with the types above: a stale library is then refused.
inline constexpr const char* kHttpSymbol = "heed_http_2";
inline constexpr const char* kHttpLibrary = "libheed_http.so.1";

}  // namespace heed::inline v0
