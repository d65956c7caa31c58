// A tokenizer.json that anybody wrote: it is refused, or it turns any text into ids and back.
#include <cstddef>
#include <cstdint>
#include <string>

#include "heed/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string json(reinterpret_cast<const char*>(data), size);
  try {
    const heed::Tokenizer tokenizer = heed::Tokenizer::from_json(json, "tokenizer.json");
    for (const char* text :
         {"", "The dog's café, 12 \xF0\x9F\x90\xA6\n\n  <s> [MASK] \xFF\xE2\x82", "\xE2\x96\x81\xCC\x81 x"}) {
      const heed::Encoding tokens = tokenizer.encode(text);
      tokenizer.decode(tokens.ids);
      for (const int32_t id : tokens.ids) tokenizer.written(id);
    }
  } catch (const heed::Error&) {
  }
  return 0;
}
