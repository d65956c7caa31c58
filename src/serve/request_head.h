// The head of a request of HTTP/1.1, read strictly (RFC 9112). What two readers could take for different requests is
// refused, whatever cpp-httplib, which reads it after this, would make of it.
#pragma once

#include <string>
#include <string_view>

namespace heed::inline v0 {

/// Bytes of a line of a head, without its end: below the 8,192 that cpp-httplib reads.
inline constexpr size_t kMostOfHeadLine = 8000;

struct RequestHead {
  int status = 0;       // of a refusal: 400, 414 or 431; 0 where the head is one
  std::string error{};  // why
  /// The head for cpp-httplib, without lines that would make it do more than it is asked for: search ranges by a
  /// regular expression and cut the answer into them, or compress it.
  std::string kept{};
};

/// `head` ends with the empty line. Refused are lines that end otherwise than with CR LF, fold, are too long or have
/// control characters, a space before the colon, a Host that is not one host with a port or is not there once (HTTP/1.0
/// may leave it out), and a Content-Length that is not one number, or stands beside Transfer-Encoding.
RequestHead read_request_head(std::string_view head);

}  // namespace heed::inline v0
