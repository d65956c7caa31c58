#include "view/pictures_library.h"

#include <dlfcn.h>

#include "heed/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEED_LEAK_CHECK
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HEED_LEAK_CHECK
#endif
#ifdef HEED_LEAK_CHECK
// fontconfig's patterns point to their parts by encoded offsets, which the leak checker cannot follow.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig\n"; }
#endif

namespace heed::inline v0 {

void* pictures_symbol(const char* operation, const char* symbol) {
  // By its bare name: the dynamic loader looks where the program's run path says (beside it, in the library
  // directory it was installed with), then in the system's places. Never unloaded: GLib does not survive that.
  void* const library = dlopen(kPicturesLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const found = library ? dlsym(library, symbol) : nullptr;
  if (found) return found;
  const char* const reason = dlerror();
  throw Error(std::string(operation) + ": " + kPicturesLibrary + " cannot be loaded (" + (reason ? reason : "unknown") +
              "); it comes with heed and needs cairo and pango (on Debian: apt install libpangocairo-1.0-0)");
}

}  // namespace heed::inline v0
