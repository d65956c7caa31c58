#include "serve/request_head.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace heed {
namespace {

const std::string kBegin = "POST /t/embed HTTP/1.1\r\n", kHost = "Host: localhost\r\n";

int status_of(const std::string& head) { return read_request_head(head).status; }

TEST(RequestHead, WhatClientsSend) {
  for (const std::string& head :
       {kBegin + kHost, kBegin + "host:localhost\r\n", kBegin + "HOST: \t localhost \t\r\n",
        kBegin + "Host: 127.0.0.1:8080\r\n", kBegin + "Host: [::1]:40123\r\n", kBegin + "Host: [::1]\r\n",
        kBegin + "Host: my-host.example.\r\n", kBegin + "Host: localhost:\r\n",
        kBegin + kHost + "Content-Length: 0\r\n", kBegin + kHost + "Content-Length: 999999999999999999\r\n",
        kBegin + kHost + "Transfer-Encoding: chunked\r\n", kBegin + kHost + "X:\r\n",
        kBegin + kHost + "Accept: text/html, */*;q=0.8\r\nUser-Agent: caf\xC3\xA9 \t (x)\r\nSec-Fetch-Mode: cors\r\n",
        "GET /t/?text=El+perro%20duerme. HTTP/1.1\r\n" + kHost, "GET /t/?text=ni\xC3\xB1o HTTP/1.1\r\n" + kHost,
        std::string("GET /t/ HTTP/1.0\r\n"), "HEAD / HTTP/1.0\r\n" + kHost, "OPTIONS * HTTP/1.1\r\n" + kHost}) {
    const RequestHead read = read_request_head(head + "\r\n");
    EXPECT_EQ(read.status, 0) << head << read.error;
    EXPECT_EQ(read.kept, head + "\r\n");
  }
  const RequestHead read = read_request_head(kBegin + "RANGE: bytes=0-1\r\n" + kHost +
                                             "If-Range: x\r\nAccept-Encoding: br\r\nAccept-Encoding-X: y\r\n\r\n");
  EXPECT_EQ(read.kept, kBegin + kHost + "Accept-Encoding-X: y\r\n\r\n");
}

// Each is refused by nginx, too, or is what RFC 9112 asks servers to refuse.
TEST(RequestHead, WhatCouldBeReadInTwoWaysIsRefused) {
  const std::string length = "Content-Length: 28\r\n";
  const std::vector<std::pair<const char*, std::string>> cases{
      {"two lengths", kBegin + kHost + length + "Content-Length: 29\r\n\r\n"},
      {"the same length twice", kBegin + kHost + length + "content-length: 28\r\n\r\n"},
      {"a list", kBegin + kHost + "Content-Length: 28, 28\r\n\r\n"},
      {"a sign", kBegin + kHost + "Content-Length: +28\r\n\r\n"},
      {"below zero", kBegin + kHost + "Content-Length: -1\r\n\r\n"},
      {"a base", kBegin + kHost + "Content-Length: 0x1c\r\n\r\n"},
      {"no number", kBegin + kHost + "Content-Length:\r\n\r\n"},
      {"a space within", kBegin + kHost + "Content-Length: 2 8\r\n\r\n"},
      {"beyond 64 bits", kBegin + kHost + "Content-Length: 9999999999999999999\r\n\r\n"},
      {"chunks and a length", kBegin + kHost + length + "Transfer-Encoding: chunked\r\n\r\n"},
      {"a space before the colon", kBegin + kHost + "Transfer-Encoding : chunked\r\n\r\n"},
      {"a tab before the colon", kBegin + kHost + "X\t: y\r\n\r\n"},
      {"a folded line", kBegin + kHost + length + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n"},
      {"a folded line by a tab", kBegin + kHost + "X: y\r\n\tz\r\n\r\n"},
      {"a line of spaces", kBegin + kHost + " \r\n\r\n"},
      {"a folded first line", kBegin + " " + kHost + "\r\n"},
      {"no colon", kBegin + kHost + "X\r\n\r\n"},
      {"no name", kBegin + kHost + ": y\r\n\r\n"},
      {"a name with a bracket", kBegin + kHost + "X[0]: y\r\n\r\n"},
      {"a bare line feed", kBegin + "Host: localhost\nX: y\r\n\r\n"},
      {"a bare carriage return", kBegin + kHost + "X: y\rZ: w\r\n\r\n"},
      {"a NUL", kBegin + kHost + std::string("X: \0\r\n\r\n", 8)},
      {"a control character", kBegin + kHost + "X: \x1B[2J\r\n\r\n"},
      {"two hosts", kBegin + kHost + kHost + "\r\n"},
      {"no host", kBegin + "\r\n"},
      {"an empty host", kBegin + "Host:\r\n\r\n"},
      {"a NUL in the host", kBegin + std::string("Host: 127.0.0.1\0evil\r\n\r\n", 24)},
      {"more behind the brackets", kBegin + "Host: [::1].evil.com\r\n\r\n"},
      {"no address in brackets", kBegin + "Host: [evil.com]\r\n\r\n"},
      {"an open bracket", kBegin + "Host: [::1\r\n\r\n"},
      {"a user", kBegin + "Host: 127.0.0.1:80@evil.com\r\n\r\n"},
      {"a user without a port", kBegin + "Host: a@localhost\r\n\r\n"},
      {"a port that is none", kBegin + "Host: localhost:http\r\n\r\n"},
      {"a long port", kBegin + "Host: localhost:000080\r\n\r\n"},
      {"two ports", kBegin + "Host: localhost:80:80\r\n\r\n"},
      {"a path in the host", kBegin + "Host: localhost/x\r\n\r\n"},
      {"a list of hosts", kBegin + "Host: localhost, evil.com\r\n\r\n"},
      {"an empty line first", "\r\n" + kBegin + kHost + "\r\n"},
      {"nothing", "\r\n"},
      {"no end", kBegin + kHost},
      {"something after the end", kBegin + kHost + "\r\nX: y\r\n"},
      {"two spaces", "GET  / HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a space in the address", "GET /a b HTTP/1.1\r\n" + kHost + "\r\n"},
      {"no version", "GET /\r\n" + kHost + "\r\n"},
      {"no address", "GET HTTP/1.1\r\n" + kHost + "\r\n"},
      {"another version", "GET / HTTP/2.0\r\n" + kHost + "\r\n"},
      {"a version without its number", "GET / HTTP/1.\r\n" + kHost + "\r\n"},
      {"a method with a colon", "GET: / HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a control character in the address", "GET /\x01 HTTP/1.1\r\n" + kHost + "\r\n"},
      {"a greeting of TLS", "\x16\x03\x01\x02\r\n\r\n"},
  };
  for (const auto& [name, head] : cases) {
    const RequestHead read = read_request_head(head);
    EXPECT_EQ(read.status, 400) << name;
    EXPECT_FALSE(read.error.empty()) << name;
    EXPECT_LT(read.error.size(), 120u) << name;
  }
}

TEST(RequestHead, LongLines) {
  const auto of_length = [](const std::string& begin, size_t size) {
    return begin + std::string(size - begin.size(), 'x');
  };
  EXPECT_EQ(status_of(kBegin + kHost + of_length("X: ", kMostOfHeadLine) + "\r\n\r\n"), 0);
  EXPECT_EQ(status_of(kBegin + kHost + of_length("X: ", kMostOfHeadLine + 1) + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of(of_length("GET /", kMostOfHeadLine - 9) + " HTTP/1.1\r\n" + kHost + "\r\n"), 0);
  EXPECT_EQ(status_of(of_length("GET /", kMostOfHeadLine - 8) + " HTTP/1.1\r\n" + kHost + "\r\n"), 414);
  EXPECT_EQ(status_of(std::string(kMostOfHeadLine + 1, 'x')), 414);
}

}  // namespace
}  // namespace heed
