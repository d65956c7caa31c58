// heed's side of compare.py. Requests: {"directory": a tokenizer's, "file": a text, "lines": each line by itself}.
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/serve/serve.h"
#include "heed/tokenizer.h"

namespace {

using heed::bench::Call;

std::vector<std::string_view> texts_of(std::string_view text, bool lines) {
  if (!lines) return {text};
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

Call prepare(const nlohmann::json& request) {
  std::ifstream in(request["file"].get<std::string>(), std::ios::binary);
  const auto text = std::make_shared<std::string>(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  const heed::Tokenizer tokenizer = heed::load_tokenizer(request["directory"].get<std::string>());
  const std::vector<std::string_view> texts = texts_of(*text, request["lines"].get<bool>());
  return [text, tokenizer, texts] {
    size_t tokens = 0;
    for (const std::string_view one : texts) tokens += tokenizer.encode(one, false).ids.size();
    if (tokens == 0) throw heed::Error("no tokens");
  };
}

}  // namespace

int main() { return heed::bench::serve("heed", HEED_BENCH_BUILD, prepare); }
