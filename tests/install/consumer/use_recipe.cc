// Options of a training by name, and a request that is refused before any file is read.
#include <heed/recipe.h>

#include <cstdio>

int main() {
  heed::TrainingRequest request;
  heed::set_option(request, "max_updates", {"3"});
  try {
    heed::train_translator(request);
  } catch (const heed::UsageError& e) {
    std::printf("recipe %s\n", e.what());
    return request.max_updates == 3 ? 0 : 1;
  }
  return 1;
}
