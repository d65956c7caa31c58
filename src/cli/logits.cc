// heed logits: what a model computes of a text or a picture, as arrays.
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/load_options.h"
#include "cli/paths.h"
#include "cli/reading.h"
#include "cli/text_or_file.h"
#include "heed/io.h"
#include "heed/pages.h"
#include "heed/picture_reader.h"
#include "heed/text.h"
#include "heed/text_reader.h"

namespace heed::cli {
namespace {

struct LogitsArguments {
  std::string text, ids, target, target_ids, model;
  std::string out, hidden, weights;
  LoadOptions load{};
};

// Numbers with spaces or commas between them.
std::vector<int32_t> ids_of(const char* option, std::string_view text) {
  constexpr std::string_view kBetween = " ,\t\n";
  std::vector<int32_t> ids;
  for (size_t begin; (begin = text.find_first_not_of(kBetween)) != std::string_view::npos;) {
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0)
      throw UsageError(std::string(option) + ": '" + std::string(word.substr(0, 40)) +
                       "' is no id; give whole numbers from 0 on");
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
  if (ids.empty()) throw UsageError(std::string(option) + " has no ids; give one at least");
  return ids;
}

std::string clean(const std::string& text) {
  int64_t replaced = 0;
  std::string result = sanitize_utf8(text, &replaced);
  if (replaced > 0) warn("logits", replaced_in_words(replaced));
  return result;
}

void check(const LogitsArguments& a, const std::string& model) {
  if (a.text.empty() == a.ids.empty()) throw UsageError("give a text, or ids with --ids");
  if (!a.target.empty() && !a.target_ids.empty()) throw UsageError("give one of --target and --target-ids");
  if (a.out.empty() && a.hidden.empty() && a.weights.empty())
    throw UsageError("give --out, --hidden or --weights, which name the files to write");
  for (const auto& [option, path, ends] : {std::tuple("--out", &a.out, ".npy"), {"--weights", &a.weights, ".npz"}})
    if (!path->empty() && !path->ends_with(ends))
      throw UsageError(std::string(option) + " " + *path + ": its name must end in " + ends);
  if (!a.hidden.empty() && !a.hidden.ends_with(".npy") && !a.hidden.ends_with(".npz"))
    throw UsageError("--hidden " + a.hidden + ": its name must end in .npy or .npz");
  expect_other_files({{"--out", a.out}, {"--hidden", a.hidden}, {"--weights", a.weights}},
                     model_paths(model, a.load.base));
}

std::vector<int32_t> target_of(const LogitsArguments& a, const StoredModel& model, const std::string& directory) {
  const bool given = !a.target.empty() || !a.target_ids.empty();
  if (given != takes_target(model))
    throw UsageError(directory + " holds " + what_it_does(model) +
                     (given ? ", which has no decoder beside it; leave out --target and --target-ids"
                            : "; say what its decoder takes, by --target or --target-ids"));
  if (!given) return {};
  return a.target_ids.empty() ? decoder_ids(model, clean(a.target)) : ids_of("--target-ids", a.target_ids);
}

void write_states(const std::string& path, const Reading& reading, const std::string& described) {
  const bool both = reading.encoder_states.defined() && reading.decoder_states.defined();
  if (path.ends_with(".npz")) {
    NamedTensors arrays;
    if (reading.encoder_states.defined()) arrays.emplace_back("encoder", reading.encoder_states);
    if (reading.decoder_states.defined()) arrays.emplace_back("decoder", reading.decoder_states);
    return save_npz(path, arrays);
  }
  if (both)
    throw UsageError("--hidden " + path + ": the model is " + described +
                     ", with states of encoder and decoder; name a file that ends in .npz");
  save_npy(path, reading.encoder_states.defined() ? reading.encoder_states : reading.decoder_states);
}

Reading read_file(const LogitsArguments& a, const StoredModel& model, const std::string& directory,
                  const ReadOptions& options) {
  if (!a.ids.empty() || !a.target.empty() || !a.target_ids.empty())
    throw UsageError(directory + " holds " + what_it_does(model) +
                     "; name a PNG or npy file, and leave out --ids, --target and --target-ids");
  for (const auto& [option, path] : {std::pair("--out", &a.out), {"--hidden", &a.hidden}, {"--weights", &a.weights}})
    expect_other_file(option, *path, {a.text});
  return read_picture(model, read_pixels(a.text, directory, model.as<ImageEncoder>().config()), options);
}

Reading read_text(const LogitsArguments& a, const StoredModel& model, const std::string& directory,
                  const ReadOptions& options) {
  for (const std::string* const text : {&a.text, &a.target})
    warn_of_file_name("logits", *text, content_as_argument(*text));
  const std::vector<int32_t> target = target_of(a, model, directory);
  return read_ids(model, a.ids.empty() ? reading_ids(model, clean(a.text)) : ids_of("--ids", a.ids), target, options);
}

void logits(const LogitsArguments& a) {
  const std::string directory = find_model(a.model);
  check(a, directory);
  const StoredModel model = load(directory, a.load);
  const ReadOptions options{.want_states = !a.hidden.empty(), .want_weights = !a.weights.empty()};
  const bool reads_pictures = model.get_if<ImageEncoder>();
  const Reading reading =
      reads_pictures ? read_file(a, model, directory, options) : read_text(a, model, directory, options);
  if (!a.out.empty() && !reading.logits.defined())
    throw UsageError(directory + " holds " + what_it_does(model) + "; leave out --out");
  if (!a.hidden.empty()) write_states(a.hidden, reading, what_it_does(model));
  if (!a.weights.empty()) save_npz(a.weights, reading.weights);
  if (!a.out.empty()) save_npy(a.out, reading.logits);
  for (const std::string& path : {a.out, a.hidden, a.weights})
    if (!path.empty()) note("wrote " + path);
}

}  // namespace

void add_logits(CLI::App& program) {
  const auto a = std::make_shared<LogitsArguments>();
  CLI::App* command =
      program.add_subcommand("logits", "Write what a model computes of a text or a picture: logits, states, weights");
  command->description(
      "Write what a model computes of a text or a picture: logits, states, weights\n\n"
      "Reads one text, or ids as they are given, special tokens among them, and writes arrays of float32: logits "
      "(tokens, pieces), or what another head of the model gives; all states (layers + 1, tokens, width), of which "
      "the last are those after the last layer and its norm (of a model of pictures, before that norm, as transformers "
      "lists "
      "them); the weights of attention (heads, queries, keys), named encoder_0, "
      "decoder_0, cross_0 and so on. A translator also takes a target, which its decoder reads. Of a model of pictures "
      "it reads one in a PNG or npy file, as heed classify does; its tokens are the class token and the patches, row "
      "by "
      "row.");
  command->add_option("text", a->text, "The text, or the file of a picture");
  command->add_option("--ids", a->ids, "Ids instead of a text")->type_name("IDS")->check(not_empty());
  command->add_option("--target", a->target, "What a translator's decoder reads; the token that begins it is added")
      ->type_name("TEXT")
      ->check(not_empty());
  command->add_option("--target-ids", a->target_ids, "The same as ids, from the token that begins it")
      ->type_name("IDS")
      ->check(not_empty());
  command->add_option("-m,--model", a->model, "Directory of the model [HEED_MODEL, else the bundled one]")
      ->type_name("DIR");
  add_load_options(*command, a->load);
  command->add_option("-o,--out", a->out, "Write the logits, npy")->type_name("FILE");
  command->add_option("--hidden", a->hidden, "Write the states, npy; of a translator npz: encoder, decoder")
      ->type_name("FILE");
  command->add_option("--weights", a->weights, "Write the weights of attention, npz, for heed attend --from")
      ->type_name("FILE");
  set_usage(*command, {"TEXT --out FILE [OPTIONS]", "--ids IDS --out FILE [OPTIONS]"});
  command->footer(
      "Examples:\n"
      "  heed logits --model my-writer 'Once upon' --out logits.npy --hidden states.npy\n"
      "  heed logits 'El perro come.' --target 'The dog eats.' --out logits.npy --weights weights.npz");
  command->callback([a] { logits(*a); });
}

}  // namespace heed::cli
