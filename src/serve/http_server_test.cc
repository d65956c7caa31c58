#include "heed/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heed/error.h"

namespace heed {
namespace {

constexpr int64_t kPiece = 1 << 20;

// A client of one request.
class Client {
 public:
  Client(const std::string& address, const std::string& path, const std::string& body) {
    const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 4096;
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const std::string base = address.substr(address.find('/', address.find("//") + 2));
    const std::string request = "POST " + base + path +
                                " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
                                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(::send(socket_, request.data(), request.size(), MSG_NOSIGNAL), std::ssize(request));
  }
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  ~Client() {
    if (socket_ >= 0) ::close(socket_);
  }

  std::string read(size_t most = SIZE_MAX) const {
    std::string come;
    std::vector<char> part(1 << 16);
    for (ssize_t got;
         come.size() < most && (got = ::recv(socket_, part.data(), std::min(part.size(), most - come.size()), 0)) > 0;)
      come.append(part.data(), static_cast<size_t>(got));
    return come;
  }

 private:
  int socket_ = -1;
};

class Serving : public testing::Test {
 protected:
  void SetUp() override {
    const auto whole = [](HttpCall& call) {
      return std::string(static_cast<size_t>(std::stoll(call.request().body)), 'x');
    };
    const auto pieces = [](HttpCall& call) {
      for (int64_t left = std::stoll(call.request().body); left > 0; left -= kPiece)
        call.put(std::string(static_cast<size_t>(std::min(left, kPiece)), 'x'));
      return std::string("end");
    };
    const auto asks = [](HttpCall& call) {
      call.expect_room(std::stoll(call.request().body));
      return std::string("room");
    };
    const auto repeats = [](HttpCall& call) -> std::string { throw UsageError("it is " + call.request().body); };
    try {
      server_.emplace(std::vector<HttpRoute>{{"POST", "whole", "text/plain", whole},
                                             {"POST", "pieces", "text/plain", pieces},
                                             {"POST", "asks", "text/plain", asks},
                                             {"POST", "repeats", "text/plain", repeats}},
                      HttpServerOptions{.waiting = 8, .answer_bytes = 8 * kPiece, .unread_bytes = 16 * kPiece});
    } catch (const UsageError& e) {
      GTEST_SKIP() << e.what();
    }
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->stop();
    thread_.join();
  }
  Client ask(const std::string& path, const std::string& body) const { return {server_->address(), path, body}; }

  std::optional<HttpServer> server_;
  std::thread thread_;
};

bool is_status(const std::string& answer, int status) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

TEST_F(Serving, LargeAnswersAreWholeAndTooLargeOnesAreRefused) {
  const std::string most = std::to_string(8 * kPiece), more = std::to_string(8 * kPiece + 1);
  const std::string whole = ask("whole", most).read();
  EXPECT_TRUE(is_status(whole, 200)) << whole.substr(0, 300);
  EXPECT_NE(whole.find("Content-Length: " + most + "\r\n"), std::string::npos);
  EXPECT_EQ(whole.size() - whole.find("\r\n\r\n") - 4, static_cast<size_t>(8 * kPiece));
  const std::string refused = ask("whole", more).read();
  EXPECT_TRUE(is_status(refused, 400)) << refused.substr(0, 300);
  EXPECT_NE(refused.find("the answer has more than " + most + " bytes; ask for less at once"), std::string::npos);
  // What goes in pieces ends with the reason.
  const std::string cut = ask("pieces", std::to_string(20 * kPiece)).read();
  EXPECT_TRUE(is_status(cut, 200));
  EXPECT_NE(cut.find("the answer has more than"), std::string::npos);
  EXPECT_LT(cut.size(), static_cast<size_t>(9 * kPiece));
  EXPECT_NE(ask("pieces", std::to_string(3 * kPiece)).read().find("end"), std::string::npos);
  EXPECT_TRUE(is_status(ask("asks", most).read(), 200));
  EXPECT_TRUE(is_status(ask("asks", more).read(), 400));
}

TEST_F(Serving, ErrorsAreShortWhateverWasSent) {
  const std::string error = ask("repeats", std::string(500'000, 'y')).read();
  EXPECT_TRUE(is_status(error, 400));
  EXPECT_LT(error.size(), 2000u);
  EXPECT_NE(error.find("yyy...\"}"), std::string::npos);
  std::string accents;
  for (int i = 0; i < 1000; ++i) accents += "\xC3\xA9";
  EXPECT_EQ(ask("repeats", accents).read().find("\xEF\xBF\xBD"), std::string::npos);  // cut between characters
}

// Answers that nobody reads are kept for a minute. Meanwhile they take a bounded memory.
TEST_F(Serving, AnswersThatNobodyReadsAreBounded) {
  std::vector<Client> lazy;
  std::string answer;
  for (int i = 0; i < 20 && !is_status(answer, 503); ++i) {
    lazy.push_back(ask(i % 2 ? "whole" : "pieces", std::to_string(8 * kPiece - 3)));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    answer = ask("asks", "1").read();
  }
  EXPECT_TRUE(is_status(answer, 503)) << answer;
  EXPECT_NE(answer.find("have not been read yet; try again in a moment"), std::string::npos) << answer;
  EXPECT_NE(answer.find("Retry-After: 1\r\n"), std::string::npos);
  EXPECT_LE(lazy.size(), 4u);
  EXPECT_EQ(lazy[0].read(8 * kPiece).size(), static_cast<size_t>(8 * kPiece));  // those that are read are whole
  lazy.clear();                                                                 // and those that are left make room
  for (int i = 0; i < 100 && !is_status(answer, 200); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    answer = ask("asks", "1").read();
  }
  EXPECT_TRUE(is_status(answer, 200)) << answer;
}

}  // namespace
}  // namespace heed
