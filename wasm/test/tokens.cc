// A module with the tokenizer of a directory alone: what is asked as heed.wasm is asked, and answers with ids.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "heed/io.h"
#include "heed/tokenizer.h"

namespace heed {
namespace {

#define HEED_CALLED __attribute__((used, visibility("default")))

std::string buffer, name;
std::map<std::string, std::string> files;
std::optional<Tokenizer> source, target;

template <class F>
int32_t guarded(F&& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    buffer = error.what();
  }
  return -1;
}

}  // namespace

extern "C" {

HEED_CALLED char* heed_buffer(size_t size) {
  buffer.resize(size);
  return buffer.data();
}
HEED_CALLED const char* heed_buffer_at() { return buffer.data(); }
HEED_CALLED size_t heed_buffer_size() { return buffer.size(); }
HEED_CALLED void heed_take_name() { name = std::move(buffer); }
HEED_CALLED void heed_take_file() { files[name] = std::move(buffer); }
HEED_CALLED void heed_take_block(size_t) {}
HEED_CALLED int32_t heed_change() { return 0; }  // there are no heads here

HEED_CALLED int32_t heed_load() {
  return guarded([] {
    const TokenizerFiles all{.where = "here",
                             .contains = [](const std::string& file) { return files.contains(file); },
                             .read = [](const std::string& file) { return files.at(file); }};
    source = load_tokenizer(all);
    target = load_tokenizer(all, TokenizerSide::target);
  });
}

/// JSON with the ids of the text and what they become again; `special`: with the tokens that the model wants around it.
HEED_CALLED int32_t heed_run(int32_t of_target, int32_t special) {
  return guarded([&] {
    const Tokenizer& tokenizer = of_target ? *target : *source;
    const Encoding row = tokenizer.encode(buffer, special != 0);
    std::string ids, offsets;
    for (size_t i = 0; i < row.ids.size(); ++i) {
      ids += (i > 0 ? "," : "") + std::to_string(row.ids[i]);
      offsets +=
          (i > 0 ? ",[" : "[") + std::to_string(row.offsets[i].begin) + "," + std::to_string(row.offsets[i].end) + "]";
    }
    ConfigWriter texts;
    texts.set("decoded", tokenizer.decode(row.ids, /*skip_special=*/false));
    texts.set("plain", tokenizer.decode(row.ids));
    buffer = "{\"ids\":[" + ids + "],\"offsets\":[" + offsets + "],\"texts\":" + texts.text() + "}";
  });
}

}  // extern "C"

}  // namespace heed
