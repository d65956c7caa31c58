#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace heed::inline v0 {

std::string to_base64(std::string_view bytes);
/// Calls refuse(rule), which throws, for what is not base64 or is empty.
std::string from_base64(std::string_view text, const std::function<void(const std::string&)>& refuse);

}  // namespace heed::inline v0
