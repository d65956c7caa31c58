// Text that gzip compressed (RFC 1952).
#pragma once

#include <string>
#include <string_view>

namespace heed::inline v0 {

/// Do the bytes begin as gzip's do?
bool is_gzip(std::string_view bytes);

/// What was compressed: all members, one behind the other. Throws FormatError for data that is broken or cut, for what
/// else follows it, and beyond 64 MiB for what unpacks to more than 100 times its size, which no text does.
std::string gunzip(std::string_view packed, const std::string& where);

}  // namespace heed::inline v0
