// libheed_pictures, which has cairo and pango, is loaded when it is first needed.
#pragma once

#include "view/drawing.h"

namespace heed::inline v0 {

/// A function of it, by its symbol. `operation` begins the text of the Error where the library cannot be loaded.
void* pictures_symbol(const char* operation, const char* symbol);

}  // namespace heed::inline v0
