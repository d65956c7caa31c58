// What people typed, for messages of the library, which knows its fields alone.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace heed::cli {

/// The flag of a field of the library's options or of config.json: num_encoder_layers is --encoder-layers.
std::string flag_of(const std::string& field);

/// What failed with a file that an option of the command names: "open m/config.json: ..." as "--model m: open
/// m/config.json: ...", and "open pairs.tsv: ..." as "--pairs pairs.tsv: ...". HEED_MODEL is named, too.
std::string with_option(const std::string& message, const CLI::App& command);

/// The message with the fields of the library's options as the command's flags: batch_tokens as --batch-tokens. A word
/// that is none but for its place ("batch") counts as a field where the message judges its value, as in "batch is 0".
std::string with_flags(const std::string& message, const CLI::App& command);

}  // namespace heed::cli
