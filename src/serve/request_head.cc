#include "serve/request_head.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace heed::inline v0 {
namespace {

constexpr std::string_view kEnd = "\r\n", kDigits = "0123456789";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool consists_of(std::string_view text, std::initializer_list<std::string_view> sets) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::any_of(sets.begin(), sets.end(), [c](std::string_view set) { return set.find(c) != set.npos; });
  });
}

bool is_token(std::string_view text) {
  return !text.empty() && consists_of(text, {kLetters, kDigits, "!#$%&'*+-.^_`|~"});
}

// Without control characters; a tab may separate words.
bool is_printable(std::string_view text, bool spaces) {
  return std::all_of(text.begin(), text.end(), [spaces](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 ? byte != 0x7F : spaces && (byte == ' ' || byte == '\t');
  });
}

bool is_request_line(std::string_view line) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) return false;
  const std::string_view target = line.substr(first + 1, last - first - 1), version = line.substr(last + 1);
  return is_token(line.substr(0, first)) && !target.empty() && is_printable(target, /*spaces=*/false) &&
         (version == "HTTP/1.1" || version == "HTTP/1.0");
}

// "localhost", "127.0.0.1:8080" or "[::1]:8080".
bool is_host(std::string_view text) {
  constexpr size_t kMostDigits = 5;
  size_t end = std::min(text.find(':'), text.size());
  if (text.starts_with('[')) {
    end = text.find(']');
    std::array<unsigned char, sizeof(in6_addr)> address{};
    if (end == text.npos || ::inet_pton(AF_INET6, std::string(text.substr(1, end - 1)).c_str(), address.data()) != 1)
      return false;
    ++end;
  } else if (end == 0 || !consists_of(text.substr(0, end), {kLetters, kDigits, "-._"})) {
    return false;
  }
  const std::string_view port = text.substr(end);
  return port.empty() || (port[0] == ':' && port.size() <= 1 + kMostDigits && consists_of(port.substr(1), {kDigits}));
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view value) {
  const size_t begin = std::min(value.find_first_not_of(" \t"), value.size());
  value.remove_prefix(begin);
  const size_t end = value.find_last_not_of(" \t");
  return value.substr(0, end == value.npos ? 0 : end + 1);
}

using Values = std::vector<std::string_view>;

RequestHead refused(std::string why, int status = 400) { return {.status = status, .error = std::move(why)}; }

// Why what the lines say together cannot stand; empty where it can.
std::string contradiction(std::string_view request_line, const Values& hosts, const Values& lengths, bool encoded) {
  constexpr size_t kMostDigits = 18;
  if (hosts.empty() && request_line.ends_with("1.1")) return "the request has no Host; send one";
  if (hosts.size() > 1) return "the request has several Host lines; send one";
  if (!hosts.empty() && !is_host(hosts[0])) return "the request's Host is no host with or without a port";
  if (lengths.size() > 1) return "the request has several Content-Length lines; send one";
  if (!lengths.empty() && encoded)
    return "the request has Content-Length and Transfer-Encoding; send Content-Length alone";
  if (!lengths.empty() &&
      (lengths[0].empty() || lengths[0].size() > kMostDigits || !consists_of(lengths[0], {kDigits})))
    return "the request's Content-Length is no number of bytes; send one number of at most 18 digits";
  return {};
}

}  // namespace

RequestHead read_request_head(std::string_view head) {
  RequestHead result;
  std::string_view request_line;
  Values hosts, lengths;
  bool encoded = false;
  while (!head.empty() && !head.starts_with(kEnd)) {
    const size_t end = head.find(kEnd);
    const std::string_view line = head.substr(0, end);
    if (line.size() > kMostOfHeadLine)
      return request_line.empty()
                 ? refused(
                       "the address is longer than " + std::to_string(kMostOfHeadLine) + " bytes; post what is long",
                       414)
                 : refused("a line of the request's head is longer than " + std::to_string(kMostOfHeadLine) + " bytes",
                           431);
    if (end == head.npos) break;
    const std::string_view whole = head.substr(0, end + kEnd.size());
    head.remove_prefix(whole.size());
    if (request_line.empty()) {
      if (!is_request_line(line)) return refused("this is no request of HTTP/1.1");
      request_line = line;
      result.kept += whole;
      continue;
    }
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (colon == line.npos || !is_token(name) || !is_printable(line.substr(colon + 1), /*spaces=*/true))
      return refused(
          "a line of the request's head is not NAME: VALUE, where no space stands before the name or the colon");
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (same_name(name, "host")) hosts.push_back(value);
    if (same_name(name, "content-length")) lengths.push_back(value);
    encoded = encoded || same_name(name, "transfer-encoding");
    if (!same_name(name, "range") && !same_name(name, "if-range") && !same_name(name, "accept-encoding"))
      result.kept += whole;
  }
  if (head != kEnd || request_line.empty()) return refused("this is no request of HTTP/1.1");
  if (std::string why = contradiction(request_line, hosts, lengths, encoded); !why.empty())
    return refused(std::move(why));
  result.kept += kEnd;
  return result;
}

}  // namespace heed::inline v0
