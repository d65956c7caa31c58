#include "heed/profile.h"

namespace heed::inline v0 {

Profile*& Profile::active() {
  thread_local Profile* profile = nullptr;
  return profile;
}

}  // namespace heed::inline v0
