// Who may ask for what: everything about HTTP that is not about sockets.
#include "heed/http_server.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "heed/error.h"
#include "serve/http_library.h"
#include "serve/worker.h"

namespace heed::inline v0 {
namespace {

constexpr int64_t kHeadBytes = 32 << 10;  // of a request: browsers send a kilobyte
constexpr double kSendSeconds = 60;       // that an answer takes to go once it is made
constexpr int64_t kBodiesBeside = 32;     // whole bodies that may come beside those of requests that wait

HttpLibraryFunction http_library() {
  // By its bare name, as pictures are (docs/decisions/0001-pictures-loaded-on-demand.md).
  void* const library = dlopen(kHttpLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library ? dlsym(library, kHttpSymbol) : nullptr;
  if (symbol) return reinterpret_cast<HttpLibraryFunction>(symbol);
#ifdef HEED_PYTHON_PACKAGE
  throw UsageError(
      "serve: the Python package has no server; build heed with CMake where cpp-httplib 0.11 is installed "
      "(docs/cpp.md) and run that program, or call heed.load(directory) in a server of your own");
#else
  const char* const reason = dlerror();
  throw UsageError(std::string("serve: ") + kHttpLibrary + " cannot be loaded (" + (reason ? reason : "unknown") +
                   "); build heed where cpp-httplib 0.11 is installed (on Debian 12: apt install libcpp-httplib-dev)");
#endif
}

// 128 bits in hexadecimal digits.
std::string drawn_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw IoError(std::string("serve: the system gives no random numbers: ") + std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) {
    token += "0123456789abcdef"[byte >> 4];
    token += "0123456789abcdef"[byte & 15];
  }
  return token;
}

// In a time that does not tell how far they agree.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "localhost" of "localhost:8080", "::1" of "[::1]:8080"; read_request_head() takes no other forms.
std::string host_of(const std::string& header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return lower(header.substr(0, header.find(':')));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

// What a request asked for, to be shown: whatever it is, in few letters.
std::string in_short(const std::string& text) {
  constexpr size_t kMost = 60;
  return "'" + text.substr(0, kMost) + (text.size() > kMost ? "...'" : "'");
}

// What is wrong where HTTP itself was not kept to.
std::string said_of(int status, const HttpServerOptions& options) {
  switch (status) {
    case 408:
      return "the request did not come within " + std::to_string(static_cast<int64_t>(options.receive_seconds)) +
             " seconds";
    case 413:
      return "the request is larger than " + std::to_string(options.body_bytes) + " bytes; ask for less at once";
    case 414:
      return "the address is too long; post what is long";
    case 431:
      return "the head of the request is larger than " + std::to_string(kHeadBytes) + " bytes";
    case 500:
      return "not enough memory, or a failure that nothing caught";
    case 503:
      return "too many connections; try again in a moment";
    default:
      return "this is no request of HTTP/1.1";
  }
}

}  // namespace

struct HttpServer::State {
  State(std::vector<HttpRoute> given, const HttpServerOptions& how)
      : routes(std::move(given)), options(how), token(drawn_token()), worker(how.waiting, how.unread_bytes) {
    const HttpListening where{.host = how.host,
                              .port = how.port,
                              .connections = how.connections,
                              .head_bytes = kHeadBytes,
                              .body_bytes = how.body_bytes,
                              .bodies_bytes = how.body_bytes * (how.waiting + kBodiesBeside),
                              .receive_seconds = how.receive_seconds,
                              .send_seconds = kSendSeconds,
                              .stream_seconds = how.seconds + kSendSeconds};
    std::string failure;
    connections.reset(http_library()(where, hooks(), &failure));
    if (!connections) {
      if (failure.empty()) throw std::bad_alloc();
      throw IoError("serve: cannot listen on " + how.host + ", port " + std::to_string(how.port) + ": " + failure);
    }
    const std::string host = how.host.find(':') == std::string::npos ? how.host : "[" + how.host + "]";
    address = "http://" + host + ":" + std::to_string(connections->port()) + "/" + token + "/";
  }

  HttpHooks hooks() {
    HttpHooks all;
    all.head = read_request_head;
    all.refuse = [this](const IncomingHttp& incoming) { return refusal(incoming); };
    all.answer = [this](IncomingHttp&& incoming) { return answered(std::move(incoming)); };
    all.failure = [this](int status, const std::string& why) {
      return error_reply(status, why.empty() ? said_of(status, options) : why);
    };
    // No header lets another origin read anything; these keep pages from being framed, kept, guessed at or told of.
    all.headers = {{"Cache-Control", "no-store"},
                   {"Content-Security-Policy", "frame-ancestors 'none'"},
                   {"Cross-Origin-Opener-Policy", "same-origin"},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Referrer-Policy", "no-referrer"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"X-Frame-Options", "DENY"}};
    return all;
  }

  // The part of a path behind the token; none where that is not this server's.
  std::optional<std::string> behind_token(const std::string& path) const {
    const size_t slash = path.find('/', 1);
    if (slash == std::string::npos || !same(std::string_view(path).substr(1, slash - 1), token)) return {};
    return path.substr(slash + 1);
  }

  const HttpRoute* route_to(const std::string& method, const std::string& path) const {
    const auto found = std::find_if(routes.begin(), routes.end(), [&](const HttpRoute& route) {
      return route.path == path && route.method == (method == "HEAD" ? "GET" : method);
    });
    return found == routes.end() ? nullptr : &*found;
  }

  HttpReply refusal_of_path(const std::string& method, const std::string& path) const {
    std::string methods, posts;
    for (const HttpRoute& route : routes) {
      if (route.path == path) methods += (methods.empty() ? "" : ", ") + route.method;
      if (route.method == "POST") posts += (posts.empty() ? "" : ", ") + route.path;
    }
    if (methods.empty()) return error_reply(404, "there is no " + in_short(path) + " here; there are " + posts);
    if (methods == "GET") methods += ", HEAD";
    HttpReply reply = error_reply(405, in_short(path) + " does not take " + method + "; use " + methods);
    reply.headers = {{"Allow", methods}};
    return reply;
  }

  // What of a body is refused before it is read.
  HttpReply refusal_of_body(const IncomingHttp& incoming) const {
    if (!incoming.has_length) return error_reply(411, "the request does not say how long it is; send Content-Length");
    if (incoming.length > static_cast<uint64_t>(options.body_bytes)) return error_reply(413, said_of(413, options));
    const std::string type = lower(incoming.content_type.substr(0, incoming.content_type.find_first_of("; ")));
    if (type != "application/json")
      return error_reply(415, "the request is of type " + in_short(type) + "; send application/json (curl --json)");
    if (!incoming.content_encoding.empty())
      return error_reply(415, "the request is encoded by " + in_short(incoming.content_encoding) + "; send it plain");
    return {};
  }

  HttpReply refusal(const IncomingHttp& incoming) const {
    const std::string host = host_of(incoming.host);
    if (!is_address(host) && host != "localhost" && host != lower(options.host))
      return error_reply(403,
                         "the request names " + in_short(incoming.host) + " as its host, which is not this server");
    const std::optional<std::string> path = behind_token(incoming.request.path);
    if (!path) return error_reply(404, "nothing is here; take the whole address that the server printed");
    if (!route_to(incoming.request.method, *path)) return refusal_of_path(incoming.request.method, *path);
    return incoming.request.method == "POST" ? refusal_of_body(incoming) : HttpReply{};
  }

  HttpReply answered(IncomingHttp&& incoming) {
    incoming.request.path = *behind_token(incoming.request.path);
    const HttpRoute& route = *route_to(incoming.request.method, incoming.request.path);
    incoming.request.method = route.method;
    const auto pending = std::make_shared<PendingAnswer>(std::move(incoming.request), route, std::move(incoming.gone),
                                                         options.seconds, options.answer_bytes, worker);
    const std::string full = worker.add(pending);
    if (full.empty()) return PendingAnswer::wait(pending);
    HttpReply reply = error_reply(503, full + "; try again in a moment");
    reply.headers = {{"Retry-After", "1"}};
    return reply;
  }

  const std::vector<HttpRoute> routes;
  const HttpServerOptions options;
  const std::string token;
  std::string address;
  Worker worker;
  std::unique_ptr<HttpConnections> connections;
};

HttpServer::HttpServer(std::vector<HttpRoute> routes, const HttpServerOptions& options)
    : state_(std::make_unique<State>(std::move(routes), options)) {}

HttpServer::~HttpServer() = default;

const std::string& HttpServer::address() const { return state_->address; }

void HttpServer::run() {
  if (!state_->connections->serve())
    throw IoError(std::string("serve: the system takes no more connections: ") + std::strerror(errno));
}

void HttpServer::stop() {
  state_->worker.stop();
  state_->connections->end();
}

}  // namespace heed::inline v0
