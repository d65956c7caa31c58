// heed's side of compare.py. Requests: {"directory": a model's, "kind": "decode", "prompt", "record", "encode" or
// "train", "texts", "length", "tokens", "dtype"}; ids are any. The dtype is the directory's own, or "int8".
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/serve/serve.h"
#include "heed/models.h"
#include "heed/optim.h"
#include "heed/pretrained.h"
#include "heed/text_encoder.h"

namespace {

using heed::bench::Call;
using Ids = std::vector<int32_t>;

std::vector<Ids> some_texts(int64_t count, int64_t length) {
  std::mt19937 random(1);
  std::vector<Ids> texts(static_cast<size_t>(count), Ids(static_cast<size_t>(length)));
  for (Ids& text : texts)
    for (int32_t& id : text) id = static_cast<int32_t>(random() % 30000);
  return texts;
}

// Texts of `length` tokens, and `tokens` more of each.
Call generating(const heed::LanguageModel& model, const nlohmann::json& request) {
  const std::vector<Ids> prompts = some_texts(request["texts"], request["length"]);
  const heed::GenerateOptions options{.max_tokens = request["tokens"].get<int64_t>(), .sampling = {.temperature = 0}};
  if (prompts.size() == 1) return [&model, prompts, options] { model.generate(prompts[0], options); };
  return [&model, prompts, options] { model.generate(prompts, options, std::ssize(prompts)); };
}

// One text, and the maps of all its layers and heads, as heed attend --generate shows them: it is read once more.
Call recording(const heed::LanguageModel& model, const nlohmann::json& request) {
  const Ids prompt = some_texts(1, request["length"])[0];
  const heed::GenerateOptions options{.max_tokens = request["tokens"].get<int64_t>(), .sampling = {.temperature = 0}};
  return [&model, prompt, options] {
    const heed::NoGrad no_grad;
    Ids text = prompt;
    for (const int32_t id : model.generate(prompt, options)) text.push_back(id);
    heed::AttentionRecord record;
    model.hidden(heed::TokenBatch::pad({text}, 0), &record);
  };
}

Call encoding(const heed::TextEncoder& model, const nlohmann::json& request) {
  const heed::TokenBatch batch = heed::TokenBatch::pack(some_texts(request["texts"], request["length"]));
  return [&model, batch] {
    const heed::NoGrad no_grad;
    model.hidden(batch);
  };
}

// A step of AdamW.
Call training(heed::Module& model, const nlohmann::json& request) {
  model.train();
  const std::vector<Ids> texts = some_texts(request["texts"], request["length"]);
  const auto arena = std::make_shared<heed::ParameterArena>(model);
  const auto optimizer = std::make_shared<heed::AdamW>(*arena, heed::AdamW::Options{});
  const heed::Tensor labels = heed::Tensor::zeros({std::ssize(texts)}, heed::DType::i32);
  return [&model, arena, optimizer, batch = heed::TokenBatch::pack(texts), labels] {
    if (const auto* const language_model = dynamic_cast<heed::LanguageModel*>(&model))
      language_model->loss(batch).backward();
    else
      heed::functional::cross_entropy(dynamic_cast<heed::TextEncoder&>(model).logits(batch), labels).backward();
    optimizer->step(/*learning_rate=*/1e-6);
    model.zero_grad();
  };
}

Call prepare(const nlohmann::json& request) {
  static std::string directory, dtype;
  static heed::PretrainedModel held;
  if (directory != request["directory"] || dtype != request["dtype"]) {
    held = {};  // one at a time: they are large
    directory = request["directory"];
    dtype = request["dtype"];
    held = heed::load_pretrained(directory);
    if (dtype == "int8") held.module->keep_matrices_as(heed::DType::q8);
  }
  held.module->eval();
  const std::string kind = request["kind"];
  if (kind == "train") return training(*held.module, request);
  if (const auto* const encoder = dynamic_cast<heed::TextEncoder*>(held.module.get()))
    return encoding(*encoder, request);
  const auto& model = dynamic_cast<heed::LanguageModel&>(*held.module);
  return kind == "record" ? recording(model, request) : generating(model, request);
}

}  // namespace

int main() { return heed::bench::serve("heed", HEED_BENCH_BUILD, prepare); }
