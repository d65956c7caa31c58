// Answers what scripts ask a tokenizer: a line of JSON each, {"text": "...", "second": "..." or nothing} or
// {"ids": [...]}.
//
//   probe TOKENIZER.JSON|DIRECTORY [source|target]
//   probe --named DIRECTORY    prints the names of its special tokens, as describe_named_tokens() has them
//   probe --config    prints what heed does with tokenizer_config.json, as describe_tokenizer_config() has it
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "heed/tokenizer.h"

namespace heed::inline v0 {
std::string describe_tokenizer_config();  // src/tokenizer/load.h
std::string describe_named_tokens(const std::string& directory);
}  // namespace heed::inline v0

namespace {

nlohmann::json as_json(const heed::Encoding& encoding) {
  nlohmann::json offsets = nlohmann::json::array();
  for (const heed::ByteRange& range : encoding.offsets) offsets.push_back({range.begin, range.end});
  return {{"ids", encoding.ids}, {"type_ids", encoding.type_ids}, {"offsets", offsets}, {"added", encoding.added}};
}

nlohmann::json answer(const heed::Tokenizer& tokenizer, const nlohmann::json& question) {
  if (question.contains("ids")) {
    const auto ids = question["ids"].get<std::vector<int32_t>>();
    heed::TokenStream stream(tokenizer, /*skip_special=*/false);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    return {{"decoded", tokenizer.decode(ids, false)},
            {"decoded_skip_special", tokenizer.decode(ids, true)},
            {"streamed", streamed}};
  }
  const auto text = question["text"].get<std::string>();
  nlohmann::json out = nlohmann::json::object();
  for (const bool special : {true, false}) {
    const heed::Encoding encoding = question.contains("second")
                                        ? tokenizer.encode_pair(text, question["second"].get<std::string>(), special)
                                        : tokenizer.encode(text, special);
    out[special ? "special" : "plain"] = as_json(encoding);
    out[special ? "decoded" : "decoded_plain"] = tokenizer.decode(encoding.ids, false);
  }
  for (int32_t id = 0; id < tokenizer.size(); ++id)
    if (question.contains("special_ids") && tokenizer.special_by_name(id)) out["special_ids"].push_back(id);
  out["types"] = tokenizer.rules().types;
  out["cuts_left"] = tokenizer.rules().cuts_left;
  out["decoded_skip_special"] = tokenizer.decode(tokenizer.encode(text).ids, true);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string path = argc > 1 ? argv[1] : "";
    if (path == "--config") {
      std::cout << heed::describe_tokenizer_config() << '\n';
      return 0;
    }
    if (path == "--named" && argc > 2) {
      std::cout << heed::describe_named_tokens(argv[2]) << '\n';
      return 0;
    }
    const bool target = argc > 2 && std::string(argv[2]) == "target";
    const heed::Tokenizer tokenizer =
        heed::load_tokenizer(path, target ? heed::TokenizerSide::target : heed::TokenizerSide::source);
    for (std::string line; std::getline(std::cin, line);)
      std::cout << answer(tokenizer, nlohmann::json::parse(line)).dump() << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "probe: " << error.what() << '\n';
    return 1;
  }
}
