#include "heed/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "heed/attended.h"
#include "heed/config_fields.h"
#include "heed/io.h"
#include "heed/random.h"
#include "heed/text_generator.h"
#include "heed/translator.h"
#include "tests/shared.h"

namespace heed::inline v0 {
namespace {

TransformerConfig small() {
  TransformerConfig c;
  c.vocab_size = 300;
  c.d_model = 24;
  c.nhead = 3;
  c.num_encoder_layers = 2;
  c.num_decoder_layers = 3;
  c.dim_feedforward = 40;
  c.max_positions = 50;
  return c;
}

TEST(Checkpoint, ParameterCountIsThatOfTheModel) {
  const NoInit no_init;
  for (const char* activation : {"relu", "swiglu"})
    for (const char* norm : {"layer_norm", "rms_norm"})
      for (const char* positions : {"sinusoidal", "learned", "rotary"})
        for (int flags = 0; flags < 16; ++flags) {
          TransformerConfig c = small();
          c.activation = activation;
          c.norm = norm;
          c.positions = positions;
          c.norm_first = flags & 1;
          c.bias = flags & 2;
          c.tie_embeddings = flags & 4;
          c.source_vocab_size = flags & 8 ? 311 : 0;
          const Generator before = default_generator();
          const int64_t counted = parameter_count(c);
          EXPECT_EQ(default_generator().stream, before.stream);
          EXPECT_EQ(counted, Transformer(c).parameter_count())
              << activation << ' ' << norm << ' ' << positions << ' ' << flags;
        }
}

TEST(Checkpoint, ParameterCountOfTheLargestDoesNotOverflow) {
  TransformerConfig c = small();
  c.d_model = 65536;
  c.nhead = 1;
  c.num_encoder_layers = c.num_decoder_layers = 1000;
  c.dim_feedforward = 1'000'000;
  c.vocab_size = c.max_positions = 10'000'000;
  validate(c);
  EXPECT_GT(parameter_count(c), int64_t{1} << 47);
}

// Sets one integer field.
struct SetInteger {
  std::string field;
  int64_t to;
  template <class T>
  void integer(const Field& f, T& value, int64_t, int64_t) const {
    if (f.name == field) value = static_cast<T>(to);
  }
  void optional(const Field& f, int64_t& value, int64_t) const { integer(f, value, 0, 0); }
  void probability(const Field&, double&) const {}
  void choice(const Field&, std::string&, const std::vector<std::string>&) const {}
  void flag(const Field&, bool&) const {}
};
struct Bounds {
  std::vector<std::tuple<std::string, int64_t, int64_t>>& all;
  template <class T>
  void integer(const Field& f, const T&, int64_t low, int64_t high) const {
    all.emplace_back(f.name, low, high);
  }
  void optional(const Field& f, const int64_t&, int64_t high) const { all.emplace_back(f.name, 0, high); }
  void probability(const Field&, const double&) const {}
  void choice(const Field&, const std::string&, const std::vector<std::string>&) const {}
  void flag(const Field&, const bool&) const {}
};

template <class F>
bool refuses(F&& f) {
  try {
    f();
  } catch (const Error&) {
    return true;
  }
  return false;
}

TEST(Checkpoint, WhatIsValidCanBeReadAndNothingElse) {
  const auto all_agree = [](const auto& base) {
    std::vector<std::tuple<std::string, int64_t, int64_t>> bounds;
    visit_fields(base, Bounds{bounds});
    EXPECT_GE(bounds.size(), 7u);
    for (const auto& [field, low, high] : bounds)
      for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, low - 1, low, high, high + 1}) {
        auto c = base;
        visit_fields(c, SetInteger{field, value});
        const bool absent = field == "source_vocab_size" && value <= 0;  // not written
        EXPECT_EQ(refuses([&] { read_config(write_config(c), "config.json"); }),
                  !absent && refuses([&] { validate(c); }))
            << field << ' ' << value;
        const bool outside = value < low || value > high;
        EXPECT_TRUE(!outside || refuses([&] { validate(c); })) << field << ' ' << value;
      }
  };
  all_agree(small());
  all_agree(LanguageModelConfig{.vocab_size = 65});
}

TEST(Checkpoint, PaddingIsNoPieceOfItsText) {
  TransformerConfig c = small();
  c.eos_id = c.pad_id;
  EXPECT_THROW(validate(c), ShapeError);
  c = small();
  c.source_vocab_size = 3;  // eos is 3
  EXPECT_THROW(validate(c), ShapeError);
}

TEST(Checkpoint, TheSourceMayHaveAVocabularyOfItsOwn) {
  for (const bool tied : {true, false}) {
    TransformerConfig c = small();
    c.source_vocab_size = 400;
    c.vocab_size = 310;
    c.tie_embeddings = tied;
    c.dropout = 0;
    manual_seed(2);
    Transformer model(c);
    const auto loss = [&](int32_t source, int32_t target) {
      const NoGrad no_grad;
      return model.loss(TokenBatch::pad({{source}}, 0), {{target}}).value().item();
    };
    EXPECT_NO_THROW(loss(399, 309));
    EXPECT_THROW(loss(399, 310), ShapeError);
    EXPECT_THROW(loss(400, 309), ShapeError);
    EXPECT_NE(loss(309, 5), loss(308, 5));
    EXPECT_EQ(model.translate({{399}})[0].size(), 1u);
    // Of its source's embedding the loss moves the rows that were read, of the target's those read and the output.
    model.loss(TokenBatch::pad({{399}}, 0), {{309}}).backward();
    for (const auto& [name, parameter] : model.named_parameters())
      if (name == "source_embedding.weight") {
        double other = 0;
        for (int64_t row = 0; row < 399; ++row)
          if (row != 3)
            for (int64_t i = 0; i < c.d_model; ++i) other += std::abs(parameter.grad().at<float>(row, i));
        EXPECT_EQ(other, 0);
        EXPECT_NE(parameter.grad().at<float>(399, 0), 0);
      }
  }
}

TEST(Checkpoint, NoInitDrawsNothing) {
  manual_seed(1);
  {
    const NoInit outer;
    { const NoInit inner; }
    for (const Variable& parameter : Transformer(small()).parameters()) {
      if (parameter.shape().rank() == 1) continue;  // norms begin with ones all the same
      for (const float x : parameter.value().span<float>()) ASSERT_EQ(x, 0);
    }
    EXPECT_EQ(default_generator().stream, 0u);
  }
  EXPECT_NE(normal({1}, 0, 1).at<float>(0), 0);
  EXPECT_EQ(default_generator().stream, 1u);
}

TEST(Checkpoint, ConfigReadsBack) {
  TransformerConfig c = small();
  c.dropout = 0.1 + 0.2;
  c.norm_first = true;
  c.positions = "rotary";
  c.pad_id = 7;
  const auto back = std::get<TransformerConfig>(read_config(write_config(c), "config.json"));
  EXPECT_EQ(write_config(back), write_config(c));
  EXPECT_EQ(back.dropout, c.dropout);
  EXPECT_EQ(back.pad_id, 7);
  EXPECT_EQ(back.num_decoder_layers, 3);
}

TEST(Checkpoint, ConfigOfALanguageModelReadsBack) {
  LanguageModelConfig c;
  c.vocab_size = 65;
  c.num_kv_heads = 4;
  c.num_layers = 7;
  c.bias = false;
  c.positions = "rotary";
  const auto back = std::get<LanguageModelConfig>(read_config(write_config(c), "config.json"));
  EXPECT_EQ(write_config(back), write_config(c));
  EXPECT_EQ(back.num_layers, 7);
  EXPECT_EQ(back.num_kv_heads, 4);
  EXPECT_EQ(back.max_positions, 1024);
  EXPECT_THROW(expect_config<TransformerConfig>(back, "m"), UsageError);
  EXPECT_THROW(expect_config<LanguageModelConfig>(small(), "m"), UsageError);
}

class Stored : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "heed-load-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string at(const std::string& name) const { return (root_ / name).string(); }

  static Vocabulary words() {
    return Vocabulary::train(std::vector<std::string>{"the dog sees the house", "el perro ve la casa"},
                             {.size = 290, .fewer_will_do = true});
  }
  static StoredModel translator(bool own_source = false) {
    manual_seed(3);
    const Vocabulary vocabulary = words();
    TransformerConfig c = small();
    c.vocab_size = vocabulary.size();
    c.source_vocab_size = own_source ? vocabulary.size() : 0;
    auto model = std::make_unique<Transformer>(c);
    model->eval();
    return {std::move(model), vocabulary, own_source ? std::optional(vocabulary) : std::nullopt};
  }
  std::filesystem::path root_;
};

TEST_F(Stored, ATranslatorComesBackAsItWas) {
  for (const bool own_source : {false, true}) {
    const StoredModel model = translator(own_source);
    const std::string directory = at(own_source ? "two" : "one");
    save(model, directory);
    const StoredModel back = load(directory);
    EXPECT_EQ(back.has_source_vocabulary(), own_source);
    const std::vector<int32_t> ids = model.vocabulary().encode("el perro ve la casa");
    EXPECT_EQ(back.source_vocabulary().encode("el perro ve la casa"), ids);
    EXPECT_EQ(back.as<Transformer>().translate({ids})[0][0].ids, model.as<Transformer>().translate({ids})[0][0].ids);
    EXPECT_THROW(back.as<LanguageModel>(), UsageError);
    EXPECT_NO_THROW(check(inspect(directory), directory));
    const auto lines = Translator(directory).translate({"el perro", "", "la casa"});
    EXPECT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[1].best[0].text, "");
    EXPECT_THROW(TextGenerator{directory}, UsageError);
  }
}

TEST_F(Stored, MatricesAreKeptAsAsked) {
  save(translator(false), at("model"));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8}) {
    const StoredModel model = load(at("model"), {.dtype = dtype});
    for (const auto& [name, parameter] : model.module().named_parameters()) {
      const bool fits = parameter.shape().rank() == 2 && (dtype != DType::q8 || parameter.size(1) % 32 == 0);
      EXPECT_EQ(parameter.dtype(), fits ? dtype : DType::f32) << name;
    }
    // What it computes with is saved.
    save(model, at("again"), DType::f32, Existing::replace);
    const StoredModel again = load(at("again"));
    const std::vector<int32_t> ids = model.vocabulary().encode("el perro ve la casa");
    const auto got = again.as<Transformer>().translate({ids})[0][0],
               want = model.as<Transformer>().translate({ids})[0][0];
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_EQ(got.log_probability, want.log_probability);
    EXPECT_EQ(Translator(at("model"), {.dtype = dtype}).translate({"el perro"}).size(), 1u);
  }
  EXPECT_THROW(load(at("model"), {.dtype = DType::i8}), ShapeError);
}

TEST_F(Stored, ALanguageModelGoesOnAndScores) {
  manual_seed(4);
  const Vocabulary letters = Vocabulary::characters("the dog sees a house\n");
  LanguageModelConfig c{.vocab_size = letters.size(), .d_model = 16, .nhead = 2, .num_layers = 1};
  c.dim_feedforward = 16;
  c.max_positions = 32;
  auto model = std::make_unique<LanguageModel>(c);
  model->eval();
  save({std::move(model), letters}, at("text"));
  const TextGenerator generator(at("text"));
  std::string streamed;
  ContinueOptions options{.tokens = {.max_tokens = 9, .sampling = {.seed = 5}},
                          .on_text = [&](const std::string& more) { streamed += more; }};
  const std::string text = generator.continue_text("the dog", options);
  EXPECT_EQ(text.size(), 9u);
  EXPECT_EQ(streamed, text);
  options.stop = {text.substr(4, 1)};
  EXPECT_EQ(generator.continue_text("the dog", options), text.substr(0, text.find(options.stop[0])));
  const TextScore score = generator.score("the dog");
  EXPECT_EQ(score.tokens, 6);
  EXPECT_EQ(score.bytes, 6);
  EXPECT_NEAR(score.nats / 6, std::log(static_cast<double>(c.vocab_size)), 1);  // it has learned nothing
  EXPECT_THROW(generator.score("t"), ShapeError);
  EXPECT_EQ(generator.unknown_in("the cat"), 1);
}

TEST_F(Stored, HalfPrecisionIsKeptAndChecked) {
  const StoredModel model = translator();
  save(model, at("half"), DType::f16);
  EXPECT_EQ(inspect(at("half")).tensors.at(0).tensors.at(0).dtype, "F16");
  const StoredModel back = load(at("half"));
  EXPECT_FALSE(back.as<Transformer>().translate({{4, 5}}).at(0).empty());
  EXPECT_THROW(save(model, at("whole"), DType::i32), ShapeError);
  for (Variable& parameter : model.module().parameters()) parameter.value().data<float>()[0] = 1e6f;
  EXPECT_THROW(save(model, at("large"), DType::f16), FormatError);
  EXPECT_FALSE(std::filesystem::exists(at("large")));
}

TEST_F(Stored, AModelIsReplacedWhereThatIsAskedFor) {
  const StoredModel model = translator(/*own_source=*/true);
  save(model, at("m"));
  for (const char* name : {"NOTICE", "README.md", "mine.txt"}) write_file_atomically(at("m/" + std::string(name)), "x");
  EXPECT_THROW(save(model, at("m")), UsageError);
  const StoredModel same = load(at("m"));
  EXPECT_EQ(same.path(), at("m"));
  save(same, at("m"), DType::f32, Existing::replace);
  EXPECT_THROW(save(translator(), at("m"), DType::f32, Existing::replace), IoError);  // of another model
  const std::vector<std::string> with_licence = {
      "NOTICE", "README.md", "config.json", "mine.txt", "model.safetensors", "source_vocabulary.txt", "vocabulary.txt"};
  EXPECT_EQ(list_files(at("m")), with_licence);
  for (const char* name : {"NOTICE", "README.md"}) std::filesystem::remove(at("m/" + std::string(name)));
  save(translator(), at("m"), DType::f32, Existing::replace);
  const std::vector<std::string> others = {"config.json", "mine.txt", "model.safetensors", "vocabulary.txt"};
  EXPECT_EQ(list_files(at("m")), others);
}

TEST_F(Stored, SearchesAndDrawsTakeTheirOwnOptions) {
  const StoredModel model = translator();
  const auto refused = [&](const BeamOptions& beam, std::optional<bool> sample, const Sampling& sampling = {}) {
    EXPECT_THROW(model.drawn_or_searched(beam, sample, sampling), UsageError);
  };
  refused({.beam = 4}, true);
  refused({.length_penalty = 1.0}, true);
  refused({}, {}, {.seed = 0});
  refused({}, false, {.temperature = 1.0});
  refused({}, true, {.temperature = 0.0, .top_k = 3});
  EXPECT_TRUE(model.drawn_or_searched({.length_penalty = 1.0, .n_best = 2}, true, {.seed = 3}).sampling);
  EXPECT_THROW(model.completed(GenerateOptions{.sampling = {.temperature = 0.0, .seed = 3}}), UsageError);
}

TEST_F(Stored, APartedModelIsPutTogetherAgain) {
  const auto check_parts = [](const StoredModel& model) {
    const ModelParts parts = write_parts(model);
    EXPECT_EQ(parts.vocabularies.size(), model.has_source_vocabulary() ? 2u : 1u);
    const StoredModel back = make_model(parts, "here");
    const auto before = model.module().named_parameters(), after = back.module().named_parameters();
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(parts.tensors[i].second.raw(), before[i].second.value().raw());
      EXPECT_NE(after[i].second.value().raw(), before[i].second.value().raw());
      EXPECT_EQ(after[i].second.dtype(), before[i].second.dtype());
    }
    EXPECT_EQ(back.as<Transformer>().translate({{4, 5}})[0][0].ids,
              model.as<Transformer>().translate({{4, 5}})[0][0].ids);
  };
  for (const bool own_source : {false, true}) {
    const StoredModel model = translator(own_source);
    check_parts(model);
    save(model, at("half"), DType::bf16, Existing::replace);
    check_parts(load(at("half")));
  }
  ModelParts parts = write_parts(translator());
  parts.tensors.pop_back();
  EXPECT_THROW(make_model(parts, "here"), FormatError);
  parts = write_parts(translator());
  parts.vocabularies.push_back(parts.vocabularies[0]);
  EXPECT_THROW(make_model(parts, "here"), FormatError);
  parts = write_parts(translator());
  parts.config = "{}";
  EXPECT_THROW(make_model(parts, "here"), FormatError);
}

TEST_F(Stored, AModelOfFilesInMemory) {
  for (const bool own_source : {false, true}) {
    const StoredModel model = translator(own_source);
    save(model, at("one"), DType::f32, Existing::replace);
    std::map<std::string, std::string> files;
    for (const std::string& name : list_files(at("one"))) files[name] = read_file(at("one/" + name));
    const StoredModel back = load(DirectorySnapshot::in_memory("here", files), {.dtype = DType::f16});
    EXPECT_EQ(back.has_source_vocabulary(), own_source);
    EXPECT_EQ(back.tokenizer().encode("a").ids, model.tokenizer().encode("a").ids);
    files.erase(kModelFile);
    EXPECT_THROW(load(DirectorySnapshot::in_memory("here", files)), IoError);
    files[kConfigFile] = R"({"model_type": "mamba"})";
    EXPECT_THROW(load(DirectorySnapshot::in_memory("here", files)), FormatError);
  }
}

TEST_F(Stored, ATranslationEndsWhereABatchThrows) {
  save(translator(), at("one"));
  const Translator translator(at("one"));
  const std::vector<std::string> lines(40, "el perro");
  std::atomic<int> batches = 0;
  const auto count = [&] { ++batches; };
  EXPECT_EQ(translator.translate(lines, {.batch = 4, .on_batch = count}).size(), 40u);
  EXPECT_EQ(batches, 10);
  const auto fail = [&] {
    if (++batches == 12) throw std::runtime_error("enough");
  };
  EXPECT_THROW(translator.translate(lines, {.batch = 4, .on_batch = fail}), std::runtime_error);
}

TEST_F(Stored, RanksTranslateAsOneProcess) {
  save(translator(), at("one"));
  std::vector<std::string> lines(static_cast<size_t>(kLinesTogether) + 40, "el perro");
  for (size_t i = 0; i < lines.size(); i += 3) lines[i] = i % 2 ? "" : "la casa. el perro.";
  const TranslateOptions options{.beam = {.beam = 1, .max_length = 3, .want_alignment = true}};
  const std::vector<TranslatedLine> expected = Translator(at("one")).translate(lines, options);
  run_ranks(3, [&](Communicator& ranks) {
    TranslateOptions over = options;
    over.ranks = &ranks;
    const std::vector<TranslatedLine> results = Translator(at("one")).translate(lines, over);
    ASSERT_EQ(results.size(), ranks.rank() == 0 ? lines.size() : 0u);
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(results[i].best.size(), 1u);
      const Translation &one = expected[i].best[0], &other = results[i].best[0];
      ASSERT_EQ(one.text, other.text);
      ASSERT_EQ(one.score, other.score);
      ASSERT_EQ(one.log_probability, other.log_probability);
      ASSERT_EQ(one.tokens, other.tokens);
      ASSERT_EQ(one.alignment, other.alignment);
    }
  });
}

TEST_F(Stored, OptionsAreCheckedWhereNothingIsToTranslate) {
  save(translator(), at("one"));
  const Translator translator(at("one"));
  EXPECT_EQ(translator.translate({"", " "}, {.beam = {.n_best = 3}}).at(1).best.size(), 1u);
  for (const BeamOptions& beam :
       {BeamOptions{.n_best = -1}, BeamOptions{.n_best = int64_t{1} << 60}, BeamOptions{.beam = 0},
        BeamOptions{.max_length = -1}, BeamOptions{.sampling = Sampling{.temperature = -1}}})
    EXPECT_THROW(translator.translate({""}, {.beam = beam}), ShapeError);
  for (const BeamOptions& beam : {BeamOptions{.max_length = 3, .rules = {.min_tokens = 4}},
                                  BeamOptions{.n_best = 2, .sampling = Sampling{.temperature = 0}},
                                  BeamOptions{.n_best = 2, .sampling = Sampling{.top_k = 1}}})
    EXPECT_THROW(translator.translate({""}, {.beam = beam}), UsageError);
}

TEST_F(Stored, WhatATranslatorAttendsTo) {
  const StoredModel model = translator();
  const auto& transformer = model.as<Transformer>();
  const SeenTranslation seen = see_translation(model, "el perro", "la casa");
  EXPECT_EQ(seen.translation, "la casa");
  EXPECT_EQ(seen.source.back(), transformer.config().eos_id);
  EXPECT_EQ(seen.input.front(), transformer.config().bos_id);
  const std::vector<SeenAttention> all = attention_of(seen, model);
  ASSERT_EQ(all.size(), 3u);
  for (const SeenAttention& one : all) {
    EXPECT_EQ(one.weights.size(2), std::ssize(one.queries.labels));
    EXPECT_EQ(one.weights.size(3), std::ssize(one.keys.labels));
    EXPECT_EQ(one.keys.words.size(), one.keys.labels.size());
  }
  EXPECT_EQ(all[2].name, "Cross");
  EXPECT_EQ(all[2].queries.labels.back(), "</s>");
  EXPECT_THROW(see_translation(model, " "), UsageError);
}

TEST_F(Stored, WhatIsWrittenIsToldOnTheWay) {
  std::vector<std::vector<int32_t>> told;
  const OnWritten tell = [&](const std::vector<int32_t>& ids) { told.push_back(ids); };
  const SeenTranslation seen = see_translation(translator(), "el perro", "", 1, false, tell);
  // Nothing is told of the step that ends it: by the end token, or by its length.
  const size_t written = seen.output.size() - 1;
  EXPECT_EQ(written - told.size(), written == 2 * seen.source.size() + 10 ? 1U : 0U);
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].size(), i + 1);
  if (told.empty()) return;
  EXPECT_TRUE(std::equal(told.back().begin(), told.back().end(), seen.output.begin()));
}

TEST(StoredModel, OfPicturesHasNoTokenizer) {
  HEED_NEEDS_SHARED("conformance/models/vit");
  const StoredModel model = load(test::shared_path("conformance/models/vit"));
  EXPECT_GT(model.as<ImageEncoder>().config().classes, 0);
  EXPECT_THROW(model.tokenizer(), UsageError);
  EXPECT_THROW(model.source_tokenizer(), UsageError);
  EXPECT_THROW(model.vocabulary(), UsageError);
}

TEST_F(Stored, NobodyElsesFilesAreTouched) {
  std::filesystem::create_directory(at("mine"));
  write_file_atomically(at("mine") + "/notes.txt", "mine");
  EXPECT_THROW(save(translator(), at("mine")), UsageError);
  EXPECT_EQ(list_files(at("mine")), std::vector<std::string>{"notes.txt"});
}

// A model of one's own: the mean of its words' vectors.
class Bag : public Module {
 public:
  explicit Bag(int64_t pieces) : table(register_parameter("table", Tensor::zeros({pieces, 4}))) {}
  Variable table;
};

TEST_F(Stored, AnArchitectureOfOnesOwn) {
  const Vocabulary vocabulary = words();
  const auto bag = [&] { return StoredModel(std::make_unique<Bag>(vocabulary.size()), vocabulary); };
  EXPECT_THROW(save(bag(), at("bag")), UsageError);
  register_architecture({.name = "bag",
                         .plan =
                             [](ConfigReader& from) {
                               const int64_t pieces = from.integer("pieces", 1, 1'000'000);
                               return ModelPlan{.parameters = 4 * pieces, .pieces = {pieces}, .make = [pieces] {
                                                  return std::make_unique<Bag>(pieces);
                                                }};
                             },
                         .describe =
                             [](const Module& module, ConfigWriter& to) {
                               const auto* const model = dynamic_cast<const Bag*>(&module);
                               if (model) to.set("pieces", model->table.shape()[0]);
                               return model != nullptr;
                             }});
  EXPECT_THROW(register_architecture({.name = "bag", .plan = {}, .describe = {}}), UsageError);
  EXPECT_THROW(register_architecture({.name = "transformer", .plan = {}, .describe = {}}), UsageError);
  const StoredModel model = bag();
  model.as<Bag>().table.value().at<float>(7, 2) = 3;
  save(model, at("bag"));
  EXPECT_EQ(load(at("bag")).as<Bag>().table.value().at<float>(7, 2), 3);
  EXPECT_NO_THROW(check(inspect(at("bag")), at("bag")));
  EXPECT_THROW(load_config(at("bag")), FormatError);  // heed's own only
}

}  // namespace
}  // namespace heed::inline v0
