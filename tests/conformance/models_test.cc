// Models of other makers beside what PyTorch makes of them: every state, map, logit, gradient and continuation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heed/image_encoder.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/pretrained.h"
#include "heed/random.h"
#include "heed/speech_transformer.h"
#include "heed/text_encoder.h"
#include "pretrained/family.h"
#include "pretrained/layout.h"
#include "tests/shared.h"

namespace heed {
namespace {

using nlohmann::json;

// Cases that tests/models/make_cases.py made, instead of those that are known by name.
const char* made_cases() { return std::getenv("HEED_MODEL_CASES"); }
std::string root() { return made_cases() ? made_cases() : test::shared_path("conformance/models"); }

// Of maps; what is made has scores further apart.
double map_tolerance() { return made_cases() ? 1e-4 : 1e-5; }

json json_of(const std::string& path);

// All of a task that were made, or those of these names.
std::vector<std::string> cases(const std::string& task, const std::vector<std::string>& names) {
  if (!made_cases()) return names;
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(root()))
    if (json_of(entry.path().string() + "/expected.json").at("task") == task)
      found.push_back(entry.path().filename().string());
  std::sort(found.begin(), found.end());
  return found;
}

json json_of(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// Row b of the first `length` tokens: of (B, L, ...) or, for maps, (B, H, L, L).
Tensor row(const Tensor& x, int64_t b, int64_t length) {
  Tensor one = x.select(0, b);
  if (one.rank() == 3) return one.slice(1, 0, length).slice(2, 0, length).contiguous();
  return one.slice(0, 0, length).contiguous();
}

// The largest difference, in parts of the largest expected value, which counts as `least` at least.
double difference(const Tensor& got, const Tensor& want, bool absolute = false, double least = 1e-30) {
  EXPECT_EQ(got.numel(), want.numel());
  if (got.numel() != want.numel()) return 1e9;
  const Tensor a = got.to(DType::f32).contiguous(), b = want.to(DType::f32).contiguous();
  double worst = 0, largest = absolute ? 1 : least;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data<float>()[i], y = b.data<float>()[i];
    worst = std::isnan(x) ? 1e9 : std::max(worst, std::abs(x - y));
    if (!absolute) largest = std::max(largest, std::abs(y));
  }
  return worst / largest;
}

class Case {
 public:
  explicit Case(const std::string& name)
      : directory(root() + "/" + name),
        expected(directory + "/expected.safetensors"),
        facts(json_of(directory + "/expected.json")) {}

  std::vector<std::vector<int32_t>> rows(const std::string& ids, const std::string& mask) const {
    const Tensor all = expected.tensor(ids), there = expected.tensor(mask);
    std::vector<std::vector<int32_t>> result;
    for (int64_t b = 0; b < all.size(0); ++b) {
      result.emplace_back();
      for (int64_t l = 0; l < all.size(1); ++l)
        if (there.at<int64_t>(b, l)) result.back().push_back(static_cast<int32_t>(all.at<int64_t>(b, l)));
    }
    return result;
  }
  // A case that tests/models/make_gguf.py made is one file.
  bool is_gguf() const { return std::filesystem::exists(directory + "/model.gguf"); }
  std::string model() const { return is_gguf() ? directory + "/model.gguf" : directory; }
  Tensor want(const std::string& name, int64_t b, size_t length) const {
    return row(expected.tensor(name), b, static_cast<int64_t>(length));
  }

  std::string directory;
  SafetensorsFile expected;
  json facts;
};

// Gradients by the names of the file, against those that are written down and the lengths of all.
void expect_gradients(const Case& c, const Module& model) {
  if (c.is_gguf()) return;  // whose names nothing is written back to
  const Keys config(json_of(c.directory + "/config.json"), "config.json");
  NamedTensors own;
  for (const auto& [name, parameter] : model.named_parameters()) own.emplace_back(name, parameter.grad());
  std::vector<std::string> names;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& entry : std::filesystem::directory_iterator(c.directory)) {
    if (!entry.path().filename().string().starts_with("model") || entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file(entry.path().string());
    for (const TensorInfo& info : file.tensors()) names.push_back(info.name), shapes[info.name] = info.shape;
  }
  const NamedTensors got = write_named(
      names_of_files(config.json(), "config.json", TensorFiles(files_of_model(c.directory))), own, names,
      [&](const std::string& name) { return shapes.at(name); }, Of::gradients);
  size_t compared = 0;
  for (const auto& [name, gradient] : got) {
    if (c.facts["gradient_norms"].contains(name)) {
      double squares = 0;
      for (const float x : gradient.to(DType::f32).contiguous().span<float>()) squares += double{x} * x;
      const double want = c.facts["gradient_norms"][name];
      EXPECT_NEAR(std::sqrt(squares), want, 1e-3 * want + 1e-6) << name;
      ++compared;
    }
    if (!c.expected.contains("grad." + name)) continue;
    // That of the keys' bias is 0 but for rounding.
    EXPECT_LT(difference(gradient, c.expected.tensor("grad." + name), false, 1e-4), 1e-3) << name;
  }
  size_t wanted = 0;  // what counts for nothing, gpt-oss' router of one expert, is no parameter here
  for (const json& norm : c.facts["gradient_norms"]) wanted += norm != 0;
  EXPECT_GE(compared, wanted);
}

#define NEEDS_CASES() \
  if (!std::filesystem::exists(root())) GTEST_SKIP() << "needs shared/conformance/models, which is not here"

// What compute() gives with matrices in blocks has the bits that it has with the numbers that these stand for.
template <class F>
void expect_bits_of_the_widened(const Module& model, const F& compute) {
  const NoGrad no_grad;
  auto& module = const_cast<Module&>(model);
  module.keep_matrices_as(DType::q8);
  const Tensor in_blocks = compute().value().contiguous();
  module.keep_matrices_as(DType::f32);
  const Tensor wide = compute().value().contiguous();
  ASSERT_EQ(in_blocks.shape(), wide.shape());
  EXPECT_EQ(std::memcmp(in_blocks.raw(), wide.raw(), static_cast<size_t>(wide.nbytes())), 0);
}

class LanguageModels : public testing::TestWithParam<std::string> {};

TEST_P(LanguageModels, StatesMapsAndLogits) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const LanguageModel&>(*loaded.module);
  const NoGrad no_grad;
  const auto rows = c.rows("input_ids", "attention_mask");
  for (size_t b = 0; b < rows.size(); ++b) {
    SCOPED_TRACE("row " + std::to_string(b));
    const auto at = static_cast<int64_t>(b);
    const size_t length = rows[b].size();
    const TokenBatch text = TokenBatch::pad({rows[b]}, 0);
    AttentionRecord record;
    record.want_states = true;
    EXPECT_LT(difference(model.hidden(text, &record).value(), c.want("last_hidden_state", at, length)), 1e-4);
    EXPECT_LT(difference(model.logits(text).value(), c.want("logits", at, length)), 1e-4);
    for (int64_t l = 0; l < model.config().num_layers; ++l) {
      SCOPED_TRACE("layer " + std::to_string(l));
      const auto layer = static_cast<size_t>(l);
      const std::string n = std::to_string(l);
      EXPECT_LT(difference(record.decoder_states.at(layer), c.want("hidden." + n, at, length)), 1e-4);
      EXPECT_LT(difference(record.decoder.at(layer), c.want("attention." + n, at, length), true), map_tolerance());
    }
  }
}

TEST_P(LanguageModels, MatricesInBlocks) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const LanguageModel&>(*loaded.module);
  expect_bits_of_the_widened(model,
                             [&] { return model.logits(TokenBatch::pad(c.rows("input_ids", "attention_mask"), 0)); });
}

TEST_P(LanguageModels, LossAndGradients) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  loaded.module->to(DType::f32);
  auto& model = dynamic_cast<LanguageModel&>(*loaded.module);
  const Variable loss = model.loss(TokenBatch::pack(c.rows("input_ids", "attention_mask")));
  EXPECT_NEAR(loss.value().to(DType::f64).contiguous().data<double>()[0], c.facts["loss"].get<double>(), 1e-5);
  loss.backward();
  expect_gradients(c, model);
}

TEST_P(LanguageModels, ContinuesGreedily) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const LanguageModel&>(*loaded.module);
  const std::vector<int32_t>& ends = loaded.generate.stop;
  const auto rows = c.rows("input_ids", "attention_mask");
  ASSERT_FALSE(c.facts["greedy"].empty());
  for (const json& expected : c.facts["greedy"]) {
    auto want = expected["ids"].get<std::vector<int32_t>>();
    if (std::find(ends.begin(), ends.end(), want.back()) != ends.end()) want.pop_back();
    const GenerateOptions options{.max_tokens = c.facts["greedy_with"]["max_new_tokens"].get<int64_t>(),
                                  .sampling = {.temperature = 0},
                                  .stop = ends};
    EXPECT_EQ(model.generate(rows.at(expected["row"].get<size_t>()), options), want);
  }
}

class Any : public testing::TestWithParam<std::string> {};

TEST_P(Any, SavedAsItCame) {
  NEEDS_CASES();
  const Case c(GetParam());
  const std::string copy =
      (std::filesystem::temp_directory_path() / ("heed_saved_" + std::to_string(getpid()))).string();
  std::filesystem::remove_all(copy);
  const PretrainedModel loaded = load_pretrained(c.model());
  if (c.is_gguf()) {
    EXPECT_THROW(save_pretrained(loaded, copy), UsageError);
    return;
  }
  save_pretrained(loaded, copy);
  const SafetensorsFile after(copy + "/model.safetensors");
  const std::vector<std::string> copies = copies_in(loaded.layout->names, loaded.layout->tensors.names());
  size_t tensors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(c.directory)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json") {
      EXPECT_EQ(read_file(copy + "/" + name), read_file(entry.path().string()));
    }
    if (!name.starts_with("model") || entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile before(entry.path().string());
    for (const TensorInfo& info : before.tensors()) {
      if (std::find(copies.begin(), copies.end(), info.name) != copies.end()) continue;
      ++tensors;
      ASSERT_TRUE(after.contains(info.name)) << info.name;
      EXPECT_EQ(after.info(info.name).dtype_name, info.dtype_name) << info.name;
      EXPECT_EQ(after.info(info.name).shape, info.shape) << info.name;
      // 1 + weight, which Gemma's norms multiply by, rounds.
      EXPECT_LT(difference(after.tensor(info.name), before.tensor(info.name), true), 2e-7) << info.name;
    }
  }
  EXPECT_EQ(after.tensors().size(), tensors);
  const NoGrad no_grad;
  const PretrainedModel again = load_pretrained(copy);
  const auto before = loaded.module->named_parameters(), now = again.module->named_parameters();
  ASSERT_EQ(before.size(), now.size());
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_LT(difference(now[i].second.value(), before[i].second.value(), true), 2e-7) << before[i].first;
  EXPECT_THROW(save_pretrained(loaded, copy), UsageError);
  std::filesystem::remove_all(copy);
}

TEST_P(Any, SavedFromBlocks) {
  NEEDS_CASES();
  const Case c(GetParam());
  if (c.is_gguf()) GTEST_SKIP() << "is saved in no layout";
  const std::string copy =
      (std::filesystem::temp_directory_path() / ("heed_saved_blocks_" + std::to_string(getpid()))).string();
  std::filesystem::remove_all(copy);
  const PretrainedModel loaded = load_pretrained(c.model());
  loaded.module->keep_matrices_as(DType::q8);
  save_pretrained(loaded, copy);
  const PretrainedModel again = load_pretrained(copy);
  const auto before = loaded.module->named_parameters(), now = again.module->named_parameters();
  ASSERT_EQ(before.size(), now.size());
  for (size_t i = 0; i < before.size(); ++i)  // bfloat16 has 8 bits
    EXPECT_LT(difference(now[i].second.value(), before[i].second.value().to(DType::f32), true), 1e-2)
        << before[i].first;
  std::filesystem::remove_all(copy);
}

class TextEncoders : public testing::TestWithParam<std::string> {
 protected:
  // Types of tokens, where the case has them: (1, length) of row b.
  static Tensor types(const Case& c, int64_t b, size_t length) {
    if (!c.expected.contains("token_type_ids")) return {};
    return c.want("token_type_ids", b, length).to(DType::i32).reshape({1, static_cast<int64_t>(length)});
  }
};

TEST_P(TextEncoders, StatesMapsAndLogits) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const TextEncoder&>(*loaded.module);
  const NoGrad no_grad;
  const auto rows = c.rows("input_ids", "attention_mask");
  for (size_t b = 0; b < rows.size(); ++b) {
    SCOPED_TRACE("row " + std::to_string(b));
    const auto at = static_cast<int64_t>(b);
    const size_t length = rows[b].size();
    const TokenBatch text = TokenBatch::pad({rows[b]}, 0);
    AttentionRecord record;
    record.want_states = true;
    const Variable states = model.hidden(text, types(c, at, length), &record);
    EXPECT_LT(difference(states.value(), c.want("last_hidden_state", at, length)), 1e-4);
    if (model.config().head) {
      const Tensor logits = c.expected.tensor("logits");
      EXPECT_LT(difference(model.apply_head(states, text).value(),
                           logits.rank() == 2 ? logits.select(0, at) : c.want("logits", at, length)),
                1e-4);
    }
    for (size_t l = 0; l < model.config().layers.size(); ++l) {
      SCOPED_TRACE("layer " + std::to_string(l));
      EXPECT_LT(difference(record.encoder_states.at(l), c.want("hidden." + std::to_string(l), at, length)), 1e-4);
      EXPECT_LT(difference(record.encoder.at(l), c.want("attention." + std::to_string(l), at, length), true),
                map_tolerance());
    }
  }
}

TEST_P(TextEncoders, MatricesInBlocks) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const TextEncoder&>(*loaded.module);
  const TokenBatch texts = TokenBatch::pad(c.rows("input_ids", "attention_mask"), 0);
  expect_bits_of_the_widened(model, [&] {
    const Variable states = model.hidden(texts);
    return model.config().head ? model.apply_head(states, texts) : states;
  });
}

TEST_P(TextEncoders, ABatchIsItsTexts) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const TextEncoder&>(*loaded.module);
  const NoGrad no_grad;
  const auto rows = c.rows("input_ids", "attention_mask");
  std::vector<TokenBatch> batches{TokenBatch::pad(rows, 0)};
  if (model.config().relative_buckets == 0) batches.push_back(TokenBatch::pack(rows));
  for (const TokenBatch& batch : batches) {
    const Tensor states = model.hidden(batch).value();
    for (size_t b = 0; b < rows.size(); ++b) {
      const int64_t begin = batch.is_packed() ? batch.offsets.at<int32_t>(static_cast<int64_t>(b)) : 0;
      const Tensor own = states.select(0, batch.is_packed() ? 0 : static_cast<int64_t>(b))
                             .slice(0, begin, begin + std::ssize(rows[b]));
      EXPECT_LT(difference(own, model.hidden(TokenBatch::pad({rows[b]}, 0)).value()), 1e-5) << b;
    }
  }
}

TEST_P(TextEncoders, LossAndGradients) {
  NEEDS_CASES();
  const Case c(GetParam());
  if (!c.facts.contains("loss")) GTEST_SKIP() << GetParam() << " has no loss";
  const PretrainedModel loaded = load_pretrained(c.model());
  loaded.module->to(DType::f32);
  const auto& model = dynamic_cast<const TextEncoder&>(*loaded.module);
  const auto rows = c.rows("input_ids", "attention_mask");
  const TokenBatch text = TokenBatch::pad(rows, 0);
  Tensor all_types;
  if (c.expected.contains("token_type_ids")) all_types = c.expected.tensor("token_type_ids").to(DType::i32);
  const Variable logits = model.logits(text, all_types);
  const Tensor labels = c.expected.tensor("labels").to(DType::i32).contiguous();
  const Variable loss = functional::cross_entropy(functional::reshape(logits, {labels.numel(), logits.size(-1)}),
                                                  labels.reshape({labels.numel()}));
  EXPECT_NEAR(loss.value().to(DType::f64).contiguous().data<double>()[0], c.facts["loss"].get<double>(), 1e-5);
  loss.backward();
  expect_gradients(c, model);
}

class ImageEncoders : public testing::TestWithParam<std::string> {};

TEST_P(ImageEncoders, StatesMapsAndLogits) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.directory);
  const auto& model = dynamic_cast<const ImageEncoder&>(*loaded.module);
  const NoGrad no_grad;
  AttentionRecord record;
  record.want_states = true;
  const Variable states = model.hidden(c.expected.tensor("pixel_values"), &record);
  EXPECT_LT(difference(states.value(), c.expected.tensor("last_hidden_state")), 1e-4);
  ASSERT_EQ(model.config().classes > 0, c.expected.contains("logits"));
  if (model.config().classes > 0) {
    EXPECT_LT(difference(model.apply_head(states).value(), c.expected.tensor("logits")), 1e-4);
  }
  for (size_t l = 0; l < model.config().layers.size(); ++l) {
    const std::string n = std::to_string(l);
    EXPECT_LT(difference(record.encoder_states.at(l), c.expected.tensor("hidden." + n)), 1e-4) << n;
    EXPECT_LT(difference(record.encoder.at(l), c.expected.tensor("attention." + n), true), map_tolerance()) << n;
  }
}

TEST_P(ImageEncoders, MatricesInBlocks) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.directory);
  const auto& model = dynamic_cast<const ImageEncoder&>(*loaded.module);
  expect_bits_of_the_widened(model, [&] { return model.hidden(c.expected.tensor("pixel_values")); });
}

TEST_P(ImageEncoders, LossAndGradients) {
  NEEDS_CASES();
  const Case c(GetParam());
  if (!c.facts.contains("loss")) GTEST_SKIP() << GetParam() << " has no loss";
  const PretrainedModel loaded = load_pretrained(c.directory);
  loaded.module->to(DType::f32);
  const auto& model = dynamic_cast<const ImageEncoder&>(*loaded.module);
  const Variable logits = model.logits(c.expected.tensor("pixel_values"));
  const Variable loss = functional::cross_entropy(logits, c.expected.tensor("labels").to(DType::i32));
  EXPECT_NEAR(loss.value().item(), c.facts["loss"].get<double>(), 1e-5);
  loss.backward();
  expect_gradients(c, *loaded.module);
}

TEST_P(ImageEncoders, PreparesPictures) {
  NEEDS_CASES();
  const Case c(GetParam());
  const ImagePreparation how = load_image_preparation(c.directory);
  if (!c.expected.contains("picture.0")) GTEST_SKIP() << GetParam() << " has no pictures";
  for (int64_t n = 0; c.expected.contains("picture." + std::to_string(n)); ++n) {
    const Tensor got = prepare_image(c.expected.tensor("picture." + std::to_string(n)), how);
    const Tensor want = c.expected.tensor("prepared." + std::to_string(n));
    ASSERT_EQ(got.shape(), want.shape()) << n;
    EXPECT_LT(difference(got, want), 1e-6) << n;
  }
}

class Transformers : public testing::TestWithParam<std::string> {};

TEST_P(Transformers, StatesMapsAndLogits) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const Transformer&>(*loaded.module);
  const NoGrad no_grad;
  const auto sources = c.rows("input_ids", "attention_mask");
  const auto targets = c.rows("decoder_input_ids", "decoder_attention_mask");
  for (size_t b = 0; b < sources.size(); ++b) {
    SCOPED_TRACE("row " + std::to_string(b));
    const auto at = static_cast<int64_t>(b);
    const size_t from = sources[b].size(), to = targets[b].size();
    const TokenBatch source = TokenBatch::pad({sources[b]}, 0), target = TokenBatch::pad({targets[b]}, 0);
    AttentionRecord record;
    record.want_states = true;
    const Variable memory = model.encode(source, &record);
    EXPECT_LT(difference(memory.value(), c.want("encoder_last_hidden_state", at, from)), 1e-4);
    EXPECT_LT(difference(model.decode(target, memory, source, &record).value(), c.want("last_hidden_state", at, to)),
              1e-4);
    EXPECT_LT(difference(model.logits(source, target).value(), c.want("logits", at, to)), 1e-4);
    for (size_t l = 0; l < record.encoder.size(); ++l) {
      const std::string n = std::to_string(l);
      EXPECT_LT(difference(record.encoder_states.at(l), c.want("encoder_hidden." + n, at, from)), 1e-4) << n;
      EXPECT_LT(difference(record.encoder[l], c.want("encoder_attention." + n, at, from), true), map_tolerance()) << n;
    }
    for (size_t l = 0; l < record.decoder.size(); ++l) {
      const std::string n = std::to_string(l);
      EXPECT_LT(difference(record.decoder_states.at(l), c.want("decoder_hidden." + n, at, to)), 1e-4) << n;
      EXPECT_LT(difference(record.decoder[l], c.want("decoder_attention." + n, at, to), true), map_tolerance()) << n;
      const Tensor cross = c.expected.tensor("cross_attention." + n).select(0, at);
      const Tensor part = cross.slice(1, 0, std::ssize(targets[b])).slice(2, 0, std::ssize(sources[b]));
      EXPECT_LT(difference(record.cross.at(l), part, true), map_tolerance()) << n;
    }
  }
}

TEST_P(Transformers, MatricesInBlocks) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const Transformer&>(*loaded.module);
  const TokenBatch source = TokenBatch::pad(c.rows("input_ids", "attention_mask"), 0);
  const TokenBatch target = TokenBatch::pad(c.rows("decoder_input_ids", "decoder_attention_mask"), 0);
  expect_bits_of_the_widened(model, [&] { return model.logits(source, target); });
}

TEST_P(Transformers, LossAndGradients) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  loaded.module->to(DType::f32);
  auto& model = dynamic_cast<Transformer&>(*loaded.module);
  std::vector<std::vector<int32_t>> targets;  // bare: the end is the loss's to add
  const Tensor labels = c.expected.tensor("labels");
  for (int64_t b = 0; b < labels.size(0); ++b) {
    targets.emplace_back();
    for (int64_t l = 0; l < labels.size(1); ++l)
      if (labels.at<int64_t>(b, l) >= 0) targets.back().push_back(static_cast<int32_t>(labels.at<int64_t>(b, l)));
    ASSERT_EQ(targets.back().back(), model.config().eos_id);
    targets.back().pop_back();
  }
  const auto sources = c.rows("input_ids", "attention_mask");
  const int32_t pad = model.config().pad_id;
  const Variable loss = model.loss(TokenBatch::pad(sources, pad), TokenBatch::pad(targets, pad));
  EXPECT_NEAR(loss.value().to(DType::f64).contiguous().data<double>()[0], c.facts["loss"].get<double>(), 1e-5);
  loss.backward();
  expect_gradients(c, model);
}

TEST_P(Transformers, TranslatesGreedilyAndByBeams) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.model());
  const auto& model = dynamic_cast<const Transformer&>(*loaded.module);
  const auto sources = c.rows("input_ids", "attention_mask");
  const auto translate = [&](const json& expected, const json& with) {
    BeamOptions options = loaded.beam;
    options.beam = options.n_best = with["num_beams"];
    options.max_length = with["max_new_tokens"].get<int64_t>();
    if (with.contains("length_penalty")) options.length_penalty = with["length_penalty"].get<double>();
    if (with.contains("forced_bos_token_id")) options.rules.first_token = with["forced_bos_token_id"].get<int32_t>();
    return model.translate(TokenBatch::pad({sources.at(expected["row"].get<size_t>())}, 0), options).at(0);
  };
  const auto bare = [&](const json& ids) {
    auto want = ids.get<std::vector<int32_t>>();
    if (want.back() == model.config().eos_id) want.pop_back();
    return want;
  };
  ASSERT_FALSE(c.facts["greedy"].empty());
  for (const json& expected : c.facts["greedy"])
    EXPECT_EQ(translate(expected, c.facts["greedy_with"]).at(0).ids, bare(expected["ids"]));
  ASSERT_FALSE(c.facts["beam"].empty());
  for (const json& expected : c.facts["beam"]) {
    const std::vector<Hypothesis> got = translate(expected, c.facts["beam_with"]);
    ASSERT_EQ(got.size(), expected["beams"].size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].ids, bare(expected["beams"][i]["ids"])) << i;
      EXPECT_NEAR(got[i].score, expected["beams"][i]["score"].get<double>(), 1e-4) << i;
    }
  }
}

class SpeechTransformers : public testing::TestWithParam<std::string> {};

TEST_P(SpeechTransformers, StatesMapsAndLogits) {
  NEEDS_CASES();
  const Case c(GetParam());
  const PretrainedModel loaded = load_pretrained(c.directory);
  const auto& model = dynamic_cast<const SpeechTransformer&>(*loaded.module);
  const NoGrad no_grad;
  const auto targets = c.rows("decoder_input_ids", "decoder_attention_mask");
  for (size_t b = 0; b < targets.size(); ++b) {
    SCOPED_TRACE("row " + std::to_string(b));
    const auto at = static_cast<int64_t>(b);
    const auto length = static_cast<size_t>(targets[b].size());
    AttentionRecord record;
    record.want_states = true;
    const Tensor mel = c.expected.tensor("input_features").slice(0, at, at + 1);
    const auto whole = [&](const std::string& name) { return c.expected.tensor(name).select(0, at); };
    const Variable memory = model.encode(mel, &record);
    EXPECT_LT(difference(memory.value(), whole("encoder_last_hidden_state")), 1e-4);
    const Variable states = model.decode(TokenBatch::pad({targets[b]}, 0), memory, &record);
    EXPECT_LT(difference(states.value(), c.want("last_hidden_state", at, length)), 1e-4);
    EXPECT_LT(difference(model.logits_of(states).value(), c.want("logits", at, length)), 1e-4);
    for (size_t l = 0; l < record.encoder.size(); ++l) {
      const std::string n = std::to_string(l);
      EXPECT_LT(difference(record.encoder_states.at(l), whole("encoder_hidden." + n)), 1e-4) << n;
      EXPECT_LT(difference(record.encoder[l], whole("encoder_attention." + n), true), map_tolerance()) << n;
    }
    for (size_t l = 0; l < record.decoder.size(); ++l) {
      const std::string n = std::to_string(l);
      EXPECT_LT(difference(record.decoder_states.at(l), c.want("decoder_hidden." + n, at, length)), 1e-4) << n;
      EXPECT_LT(difference(record.decoder[l], c.want("decoder_attention." + n, at, length), true), map_tolerance());
      const Tensor cross = whole("cross_attention." + n).slice(1, 0, std::ssize(targets[b]));
      EXPECT_LT(difference(record.cross.at(l), cross, true), map_tolerance()) << n;
    }
  }
}

TEST_P(SpeechTransformers, LossAndGradients) {
  NEEDS_CASES();
  const Case c(GetParam());
  if (!c.facts.contains("loss")) GTEST_SKIP() << GetParam() << " has no loss";
  const PretrainedModel loaded = load_pretrained(c.directory);
  loaded.module->to(DType::f32);
  const auto& model = dynamic_cast<const SpeechTransformer&>(*loaded.module);
  const TokenBatch target = TokenBatch::pad(c.rows("decoder_input_ids", "decoder_attention_mask"), 0);
  const Variable states = model.decode(target, model.encode(c.expected.tensor("input_features")));
  const Variable loss =
      functional::linear_cross_entropy(states, model.output_weight(), {}, c.expected.tensor("labels").to(DType::i32));
  EXPECT_NEAR(loss.value().item(), c.facts["loss"].get<double>(), 1e-5);
  loss.backward();
  expect_gradients(c, *loaded.module);
}

TEST_P(SpeechTransformers, TranscribesGreedily) {
  NEEDS_CASES();
  const Case c(GetParam());
  if (!c.facts.contains("greedy")) GTEST_SKIP() << GetParam() << " has no texts";
  const PretrainedModel loaded = load_pretrained(c.directory);
  const auto& model = dynamic_cast<const SpeechTransformer&>(*loaded.module);
  for (const json& expected : c.facts["greedy"]) {
    const auto row = expected["row"].get<int64_t>();
    const TranscribeOptions options{.prompt = c.facts["greedy_with"]["prompt"].get<std::vector<int32_t>>(),
                                    .max_tokens = c.facts["greedy_with"]["max_new_tokens"]};
    EXPECT_EQ(model.transcribe(c.expected.tensor("input_features").slice(0, row, row + 1), options),
              expected["ids"].get<std::vector<int32_t>>());
  }
}

std::string as_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}
const std::vector<std::string> kLanguageModels =
    cases("causal", {"gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "gpt-oss-dense"});
const std::vector<std::string> kTransformers =
    cases("translation", {"marian", "marian-separate", "nllb", "t5", "t5-v1.1", "bart"});
const std::vector<std::string> kTextEncoders = cases("encoder", {"bert", "bert-classifier", "distilbert", "roberta",
                                                                 "mpnet", "sentence-encoder", "sentence-encoder-cls"});
const std::vector<std::string> kImageEncoders = cases("image", {"vit"});
const std::vector<std::string> kSpeechTransformers = cases("speech", {"whisper"});

std::vector<std::string> all_cases() {
  std::vector<std::string> all = kLanguageModels;
  all.insert(all.end(), kTransformers.begin(), kTransformers.end());
  all.insert(all.end(), kTextEncoders.begin(), kTextEncoders.end());
  all.insert(all.end(), kImageEncoders.begin(), kImageEncoders.end());
  all.insert(all.end(), kSpeechTransformers.begin(), kSpeechTransformers.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, LanguageModels, testing::ValuesIn(kLanguageModels), as_name);
INSTANTIATE_TEST_SUITE_P(Models, Transformers, testing::ValuesIn(kTransformers), as_name);
INSTANTIATE_TEST_SUITE_P(Models, TextEncoders, testing::ValuesIn(kTextEncoders), as_name);
INSTANTIATE_TEST_SUITE_P(Models, ImageEncoders, testing::ValuesIn(kImageEncoders), as_name);
INSTANTIATE_TEST_SUITE_P(Models, SpeechTransformers, testing::ValuesIn(kSpeechTransformers), as_name);
INSTANTIATE_TEST_SUITE_P(Models, Any, testing::ValuesIn(all_cases()), as_name);

}  // namespace
}  // namespace heed
