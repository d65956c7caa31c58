// The documents that cmake/HeedPage.cmake makes of src/view/page/: style and script in them, and their hashes.
#pragma once

#include <string_view>

namespace heed::inline v0 {

/// HTML with <!--data--> where the data belongs.
std::string_view page_source();
/// The same for the page about a training.
std::string_view report_source();

}  // namespace heed::inline v0
