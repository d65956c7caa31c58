#include "heed/text_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/executor.h"
#include "heed/random.h"
#include "heed/text_encoder.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

// [CLS] and [SEP] around the words of a text, which begin with one of `beginnings`; letters stand for themselves.
Tokenizer tokenizer_of(const std::string& pre_tokenizer, const std::string& beginnings, const std::string& letter) {
  std::string vocabulary = R"("[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3)" + beginnings;
  const auto first = std::count(vocabulary.begin(), vocabulary.end(), ':');
  for (int64_t i = 0; i < 24 - first; ++i)
    vocabulary += ", \"" + letter + static_cast<char>('a' + i) + "\": " + std::to_string(first + i);
  return Tokenizer::from_json(R"({"version": "1.0", "added_tokens": [{"id": 3, "content": "[MASK]", "special": true,
      "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
      "normalizer": null, "decoder": null, "truncation": null, "padding": null, "pre_tokenizer": )" +
                                  pre_tokenizer + R"(,
      "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": {)" +
                                  vocabulary + "}}}",
                              "test");
}

// The words a to t.
Tokenizer letters() { return tokenizer_of(R"({"type": "Whitespace"})", "", ""); }

StoredModel encoder(const PretrainedHead& head, std::optional<EncoderHead> layers, int64_t relative_buckets = 0,
                    const Tokenizer& tokenizer = letters()) {
  manual_seed(4);
  TextEncoderConfig config{.vocab_size = 24, .d_model = 8, .max_positions = 20, .types = 2, .head = layers};
  config.relative_buckets = relative_buckets;
  config.layers.assign(2, {.d_model = 8, .nhead = 2, .dim_feedforward = 12});
  PretrainedModel model{.model_type = "bert", .module = std::make_unique<TextEncoder>(config), .head = head};
  for (const auto& [name, parameter] : model.module->named_parameters())
    if (parameter.value().rank() == 2) parameter.value().copy_from(normal(parameter.value().shape(), 0, 0.6));
  model.module->eval();
  return {std::move(model), tokenizer};
}

std::vector<std::string> texts(size_t count) {
  std::vector<std::string> all;
  for (size_t i = 0; i < count; ++i) {
    all.emplace_back();
    for (size_t w = 0; w <= i * 7 % 13; ++w)
      all.back() += std::string(w ? " " : "") + static_cast<char>('a' + (i + w) % 20);
  }
  return all;
}

double difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    most = std::max(most, std::abs(double{a.contiguous().data<float>()[i]} - b.contiguous().data<float>()[i]));
  return most;
}

TEST(Rows, TheLongerTextOfAPairIsCut) {
  const Tokenizer tokenizer = letters();
  const auto lengths = [&](const std::string& first, const std::string& second, int64_t longest) {
    const ReadRow row = row_of_pair(tokenizer, first, second, longest);
    EXPECT_LE(std::ssize(row.ids), longest);
    EXPECT_EQ(row.ids.size(), row.types.size());
    EXPECT_EQ(row.ids.front(), 1);
    EXPECT_EQ(row.ids.back(), 2);
    int64_t of_second = std::count(row.types.begin(), row.types.end(), 1) - 1;  // with its [SEP]
    return std::tuple(std::ssize(row.ids) - 3 - of_second, of_second, row.cut);
  };
  EXPECT_EQ(lengths("a b", "c d e", 8), std::tuple(2, 3, false));
  EXPECT_EQ(lengths("a b", "c d e f g h", 8), std::tuple(2, 3, true));
  EXPECT_EQ(lengths("c d e f g h", "a b", 8), std::tuple(3, 2, true));
  EXPECT_EQ(lengths("a b c d e", "a b c d e f", 8), std::tuple(2, 3, true));
  EXPECT_EQ(lengths("a b c d e f g h i", "a b c d e f g", 8), std::tuple(3, 2, true));
  EXPECT_EQ(lengths("", "a b c d e f g", 5), std::tuple(0, 2, true));
  EXPECT_THROW(row_of_pair(tokenizer, "a", "b", 3), ShapeError);
  const ReadRow one = row_of(tokenizer, "a b c d", 4);
  EXPECT_EQ(one.ids, (std::vector<int32_t>{1, 4, 5, 2}));
  EXPECT_EQ(one.offsets[2], (ByteRange{2, 3}));
  EXPECT_TRUE(one.cut);
  EXPECT_THROW(row_of(tokenizer, "a", 2), ShapeError);
}

TEST(Embed, DependsOnNoNeighboursAndThreads) {
  for (const int64_t buckets : {0, 8}) {
    const StoredModel model = encoder({}, {}, buckets);
    const std::vector<std::string> lines = texts(400);
    const TextVectors all = embed_texts(model, lines);
    EXPECT_EQ(all.vectors.shape(), (Dims{400, 8}));
    EXPECT_TRUE(all.cut.empty());
    for (const size_t i : {0, 7, 63, 64, 399})
      EXPECT_LT(difference(all.vectors.slice(0, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1),
                           embed_texts(model, {lines[i]}).vectors),
                1e-5);
    const int before = threads();
    set_threads(1);
    EXPECT_EQ(difference(embed_texts(model, lines).vectors, all.vectors), 0);
    set_threads(before);
  }
}

TEST(Embed, SaysWhatWasCut) {
  const StoredModel model = encoder({}, {});
  const std::vector<std::string> lines{"a b", "a b c d e f", "a b c"};
  EXPECT_EQ(embed_texts(model, lines, {.longest = 5}).cut, (std::vector<size_t>{1}));
  EXPECT_EQ(embed_texts(model, {}).vectors.shape(), (Dims{0, 8}));
  EXPECT_THROW(embed_texts(model, lines, {.steps = {{.weight = Tensor::zeros({3, 9})}}}), FormatError);
}

TEST(NearestRows, AreThoseOfTheLargestCosine) {
  const Tensor rows = normal({300, 6}, 0, 1), others = normal({41, 6}, 0, 3);
  others.select(0, 5).fill(0);
  const auto nearest = nearest_rows(rows, others, 4);
  ASSERT_EQ(nearest.size(), 300u);
  const auto cosine = [&](int64_t a, int64_t b) {
    double dot = 0, aa = 0, bb = 0;
    for (int64_t e = 0; e < 6; ++e) {
      const double x = rows.at<float>(a, e), y = others.at<float>(b, e);
      dot += x * y, aa += x * x, bb += y * y;
    }
    return bb > 0 ? dot / std::sqrt(aa * bb) : 0;
  };
  for (int64_t a = 0; a < 300; ++a) {
    std::vector<double> all;
    for (int64_t b = 0; b < 41; ++b) all.push_back(cosine(a, b));
    const auto& found = nearest[static_cast<size_t>(a)];
    ASSERT_EQ(found.size(), 4u);
    for (const auto& [place, c] : found) EXPECT_NEAR(c, all[place], 1e-5);
    std::sort(all.rbegin(), all.rend());
    for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(found[k].second, all[k], 1e-5);
  }
  EXPECT_EQ(nearest_rows(rows, others, 100).front().size(), 41u);
  EXPECT_TRUE(nearest_rows(rows, Tensor::zeros({0, 6}), 3).front().empty());
  EXPECT_THROW(nearest_rows(rows, normal({2, 5}, 0, 1), 1), ShapeError);
}

TEST(NearestRows, ByOtherSimilarities) {
  const Tensor rows = normal({9, 6}, 0, 1), others = normal({41, 6}, 0, 3);
  const auto similarity = [&](int64_t a, int64_t b, Similarity by) {
    double dot = 0, squares = 0, sum = 0;
    for (int64_t e = 0; e < 6; ++e) {
      const double x = rows.at<float>(a, e), y = others.at<float>(b, e);
      dot += x * y, squares += (x - y) * (x - y), sum += std::abs(x - y);
    }
    return by == Similarity::dot ? dot : by == Similarity::euclidean ? -std::sqrt(squares) : -sum;
  };
  for (const Similarity by : {Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    const auto nearest = nearest_rows(rows, others, 5, by);
    for (int64_t a = 0; a < 9; ++a) {
      std::vector<double> all;
      for (int64_t b = 0; b < 41; ++b) all.push_back(similarity(a, b, by));
      for (const auto& [place, found] : nearest[static_cast<size_t>(a)]) EXPECT_NEAR(found, all[place], 1e-4);
      std::sort(all.rbegin(), all.rend());
      EXPECT_NEAR(nearest[static_cast<size_t>(a)].back().second, all[4], 1e-4);
    }
  }
}

TEST(Embed, LowersAllButSpecialTokens) {
  const StoredModel model = encoder({}, {});
  const auto vector = [&](const std::string& text, bool lower_case) {
    return embed_texts(model, {text}, {.lower_case = lower_case}).vectors;
  };
  EXPECT_EQ(difference(vector("A [MASK] B", true), vector("a [MASK] b", false)), 0);
  EXPECT_GT(difference(vector("A [MASK] B", true), vector("A [MASK] B", false)), 0);
}

TEST(Classify, PairsAndSinglesTogether) {
  const StoredModel model = encoder({.task = HeadTask::text_classes, .labels = {"x", "y", "z"}},
                                    EncoderHead{.of_first_token = true, .dense = Activation::tanh, .outputs = 3});
  const auto found = classify_texts(model, {"a b", "a b", "c"}, {{}, "c d", {}});
  EXPECT_EQ(found[0].labels[0].score, classify_texts(model, {"a b"})[0].labels[0].score);
  EXPECT_NE(found[0].labels[0].score, found[1].labels[0].score);
  for (const ClassifiedText& text : found) {
    double sum = 0;
    for (const ScoredLabel& label : text.labels) sum += label.score;
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_GE(text.labels[0].score, text.labels[2].score);
  }
  EXPECT_THROW(classify_texts(model, {"a", "b"}, {{}}), ShapeError);
  EXPECT_THROW(label_tokens(model, {"a"}), UsageError);
  EXPECT_THROW(fill_masks(model, {"[MASK]"}), UsageError);
  EXPECT_THROW(find_answers(model, {"a"}, {"b"}), UsageError);
}

// Every span of every window, one by one.
TEST(Answers, AreTheBestOfAllWindows) {
  const StoredModel model = encoder({.task = HeadTask::answers}, EncoderHead{.outputs = 2});
  const auto& reader = model.as<TextEncoder>();
  const std::string question = "a b", context = "c d e f g h i j k l m n o p q r s t a b c d e f";
  const AnswerOptions options{.top = 3, .longest = 2, .window = 12, .in_common = 4};
  const std::vector<Answer> found = find_answers(model, {question}, {context}, options).at(0);
  std::vector<std::pair<double, std::string>> want;
  const int64_t room = 12 - 5;  // [CLS] a b [SEP] and [SEP]
  const Encoding whole = model.tokenizer().encode(context, false);
  for (int64_t begin = 0;; begin += room - 4) {
    const int64_t end = std::min(begin + room, std::ssize(whole.ids));
    const ReadRow row =
        row_of_pair(model.tokenizer(), question,
                    context.substr(static_cast<size_t>(2 * begin), static_cast<size_t>(2 * (end - begin) - 1)), 20);
    const NoGrad no_grad;
    const Tensor types = Tensor::from(row.types, {1, std::ssize(row.types)});
    const Tensor logits = reader.logits(TokenBatch::pad({row.ids}, 0), types).value().select(0, 0);
    std::vector<double> p[2];
    for (const int64_t column : {0, 1}) {
      std::vector<float> scores{logits.at<float>(0, column)};
      for (int64_t t = 0; t < end - begin; ++t) scores.push_back(logits.at<float>(4 + t, column));
      p[column] = softmax(scores);
    }
    for (int64_t a = 0; a < end - begin; ++a)
      for (int64_t b = a; b < std::min(a + 2, end - begin); ++b)
        want.emplace_back(-p[0][static_cast<size_t>(a + 1)] * p[1][static_cast<size_t>(b + 1)],
                          context.substr(static_cast<size_t>(2 * (begin + a)), static_cast<size_t>(2 * (b - a) + 1)));
    if (end == std::ssize(whole.ids)) break;
  }
  std::sort(want.begin(), want.end());
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].text, want[0].second);
  EXPECT_NEAR(found[0].score, -want[0].first, 1e-6);
  for (const Answer& answer : found) {
    EXPECT_EQ(answer.text, context.substr(answer.bytes.begin, answer.bytes.end - answer.bytes.begin));
    EXPECT_LE(answer.text.size(), 3u);
  }
  EXPECT_TRUE(find_answers(model, {question}, {""}).at(0).empty());
  EXPECT_THROW(find_answers(model, {question}, {context}, {.window = 5}), FormatError);
  EXPECT_THROW(find_answers(model, {question}, {context}, {.longest = 0}), ShapeError);
  EXPECT_THROW(find_answers(model, {question}, {}), ShapeError);
}

// A space that is a token by itself belongs to the word behind it.
TEST(Answers, AreWholeWords) {
  const Tokenizer tokenizer = tokenizer_of(R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
      "split": true})",
                                           ", \"\u2581\": 4", "##");
  ASSERT_EQ(tokenizer.encode("ab c", false).ids.size(), 5u);
  const StoredModel model = encoder({.task = HeadTask::answers}, EncoderHead{.outputs = 2}, 0, tokenizer);
  const auto answers = find_answers(model, {"a"}, {"ab cde f"}, {.top = 99, .longest = 1});
  std::vector<std::string> found;
  for (const Answer& answer : answers.at(0)) found.push_back(answer.text);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{"ab", "cde", "f"}));
}

TEST(Fill, TheHeadIsAppliedToMasksAlone) {
  const StoredModel model =
      encoder({.task = HeadTask::masked_words}, EncoderHead{.dense = Activation::gelu, .norm = true});
  const auto found = fill_masks(model, {"a [MASK] c", "<mask> <mask>", "[MASK] <mask>"}, {.top = 24});
  ASSERT_EQ(found.at(0).size(), 1u);
  ASSERT_EQ(found.at(1).size(), 2u);
  ASSERT_EQ(found.at(2).size(), 1u);  // beside the model's own mask, the other spelling is text
  const Reading reading = read_ids(model, {1, 4, 3, 6, 2});
  const std::vector<double> p = softmax(reading.logits.select(0, 2).span<float>());
  for (const MaskFilling& filling : found[0][0])
    EXPECT_NEAR(filling.probability, p[static_cast<size_t>(filling.id)], 1e-6);
  EXPECT_EQ(found[1][0].front().text, found[1][1].front().text);
  EXPECT_EQ(fill_masks(model, {"a _ c"}, {.top = 24, .mask = "_"}).at(0).at(0).front().id, found[0][0].front().id);
  EXPECT_TRUE(fill_masks(model, {"a"}).at(0).empty());
  EXPECT_THROW(fill_masks(model, {"[MASK]"}, {.top = 0}), ShapeError);
}

TEST(ReadIds, OfOwnModels) {
  TransformerConfig config;
  config.vocab_size = 30;
  config.d_model = 8;
  config.nhead = 2;
  config.num_encoder_layers = 1;
  config.num_decoder_layers = 2;
  config.dim_feedforward = 12;
  config.max_positions = 9;
  PretrainedModel translator{.model_type = "", .module = std::make_unique<Transformer>(config)};
  translator.module->eval();
  const auto& transformer = dynamic_cast<const Transformer&>(*translator.module);
  const StoredModel model(std::move(translator), letters());
  const Reading reading = read_ids(model, {5, 6, 7}, {2, 8}, {.want_states = true, .want_weights = true});
  const NoGrad no_grad;
  EXPECT_EQ(difference(reading.logits, transformer.logits({{5, 6, 7}}, {{2, 8}}).value().select(0, 0)), 0);
  EXPECT_EQ(reading.encoder_states.shape(), (Dims{2, 3, 8}));
  EXPECT_EQ(reading.decoder_states.shape(), (Dims{3, 2, 8}));
  std::vector<std::string> names;
  for (const auto& [name, weights] : reading.weights) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder_0", "decoder_0", "decoder_1", "cross_0", "cross_1"}));
  EXPECT_EQ(reading.weights.back().second.shape(), (Dims{2, 2, 3}));
  EXPECT_TRUE(read_ids(model, {5}, {2}).weights.empty());
  EXPECT_THROW(read_ids(model, {5}), ShapeError);
  EXPECT_THROW(read_ids(model, {5, 30}, {2}), ShapeError);
  EXPECT_THROW(read_ids(model, {5}, std::vector<int32_t>(10, 2)), ShapeError);
  EXPECT_EQ(what_it_does(model), "a translator");
}

}  // namespace
}  // namespace heed::inline v0
