// heed in a page: what src/view/page/live_worker.js calls. Everything goes in and comes out through one buffer.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/attended.h"
#include "heed/io.h"
#include "heed/load.h"
#include "heed/models.h"
#include "heed/pages.h"
#include "heed/view.h"

/// The page is told what is written so far.
extern "C" __attribute__((import_module("env"), import_name("page_written"))) void page_written(const char* text,
                                                                                                size_t size);

namespace heed {
namespace {

#define HEED_CALLED __attribute__((used, visibility("default")))

struct State {
  std::string buffer;
  std::string name;                          // of the file that comes next
  std::map<std::string, std::string> files;  // until they are loaded
  std::optional<StoredModel> model;
  GroupChanges changes;             // of heads
  std::vector<std::string> blocks;  // of the last answer
};

State& state() {
  static State* const instance = new State;  // never destroyed: a page ends without a word
  return *instance;
}

// Halves are widened once, not at each step.
StoredModel model_of(std::map<std::string, std::string> files) {
  return load(DirectorySnapshot::in_memory("the page", std::move(files)), {.dtype = DType::f32});
}

SeenPage look(const StoredModel& model, int64_t beam, int64_t generate) {
  const auto tell = [&](const std::vector<int32_t>& ids) {
    const std::string written = model.tokenizer().decode(ids);
    page_written(written.data(), written.size());
  };
  return see_page(model, {.text = state().buffer, .beam = beam, .generate = generate, .on_written = tell});
}

// What `call` returns, or -1 with a line in the buffer that says why.
template <class F>
int32_t guarded(F&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    state().buffer = "there is too little memory";
  } catch (const std::exception& error) {
    state().buffer = error.what();
  }
  return -1;
}

}  // namespace

extern "C" {

/// Where `size` bytes are to be put; null where there is no memory for them.
HEED_CALLED char* heed_buffer(size_t size) {
  return guarded([&] { return state().buffer.resize(size), 0; }) < 0 ? nullptr : state().buffer.data();
}
/// What the last call left there.
HEED_CALLED const char* heed_buffer_at() { return state().buffer.data(); }
HEED_CALLED size_t heed_buffer_size() { return state().buffer.size(); }

/// The buffer is the name, then the content, of a file of the model.
HEED_CALLED void heed_take_name() { state().name = std::move(state().buffer); }
HEED_CALLED void heed_take_file() { state().files[state().name] = std::move(state().buffer); }

/// The files become the model. 0, or -1 as all that follow: then the buffer says why.
HEED_CALLED int32_t heed_load() {
  return guarded([] { return state().model.emplace(model_of(std::exchange(state().files, {}))), 0; });
}

/// The buffer says which heads are changed in the texts that follow, as "Cross:2.1=0,3.4=uniform"; none where it is
/// empty.
HEED_CALLED int32_t heed_change() {
  return guarded([] { return state().changes = read_group_changes(state().buffer), 0; });
}

/// Reads the text in the buffer, and leaves the JSON of its page there; the number of blocks.
HEED_CALLED int32_t heed_run(int32_t beam, int32_t generate) {
  return guarded([&] {
    const StoredModel& model = state().model.value();
    PageData data = page_data(page_with_changes(state().changes, model, [&] { return look(model, beam, generate); }));
    state().buffer = std::move(data.json);
    state().blocks = std::move(data.blocks);
    return static_cast<int32_t>(state().blocks.size());
  });
}

/// The block is in the buffer, and nowhere else.
HEED_CALLED void heed_take_block(size_t number) { state().buffer = std::move(state().blocks.at(number)); }

}  // extern "C"

}  // namespace heed
