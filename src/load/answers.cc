// Question answering: the span of a context that answers a question.
#include <algorithm>
#include <cctype>
#include <limits>

#include "heed/text_reader.h"
#include "load/reading.h"

namespace heed::inline v0 {
namespace {

// A question with the window of its context that begins at token `begin`.
struct Window {
  size_t question = 0;
  int64_t begin = 0, count = 0;
};

struct Windows {
  std::vector<Window> windows;
  std::vector<ReadRow> rows;
};

void append(const Encoding& from, size_t begin, size_t end, ReadRow& to) {
  for (size_t t = begin; t < end; ++t) {
    to.ids.push_back(from.ids[t]);
    to.types.push_back(from.type_ids[t]);
    to.offsets.push_back(from.offsets[t]);
    to.added.push_back(from.added[t]);
  }
}

void check(const AnswerOptions& options) {
  for (const auto& [field, value] :
       {std::pair("top", options.top), {"longest", options.longest}, {"window", options.window}})
    if (value < 1)
      throw ShapeError(std::string("classify: ") + field + " is " + std::to_string(value) + "; it must be 1 or more");
}

// The windows of one question.
void add_windows(const Encoding& pair, size_t of_question, size_t number, int64_t longest, const AnswerOptions& options,
                 Windows& all) {
  size_t begin = 0, of_text = 0;  // the first token of the context
  while (begin < pair.ids.size() && (pair.added[begin] || of_text < of_question)) of_text += !pair.added[begin++];
  size_t end = begin;
  while (end < pair.ids.size() && !pair.added[end]) ++end;
  if (begin == end) return;
  const int64_t fixed = std::ssize(pair.ids) - static_cast<int64_t>(end - begin);
  const int64_t window = std::min(longest, options.window), room = window - fixed;
  if (room < 1)
    throw FormatError("line " + std::to_string(options.first_line + static_cast<int64_t>(number) + 1) +
                      ": the question has " + std::to_string(of_question) + " tokens, which leave no room for a text " +
                      "in the " + std::to_string(window) + " that are read at once");
  int64_t in_common = std::clamp<int64_t>(options.in_common, 0, window / 2);
  if (in_common >= room) in_common = room / 2;
  for (size_t from = begin;; from += static_cast<size_t>(room - in_common)) {
    const size_t to = std::min(from + static_cast<size_t>(room), end);
    ReadRow row;
    append(pair, 0, begin, row);
    append(pair, from, to, row);
    append(pair, end, pair.ids.size(), row);
    all.windows.push_back({number, static_cast<int64_t>(begin), static_cast<int64_t>(to - from)});
    all.rows.push_back(std::move(row));
    if (to == end) return;
  }
}

// Letters and digits; all non-ASCII bytes count as letters.
bool of_word(char c) { return static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)); }

// The words from one token to another, without surrounding spaces.
ByteRange of_whole_words(const std::string& text, ByteRange first, ByteRange last) {
  const auto size = static_cast<uint32_t>(text.size());
  uint32_t begin = first.begin, end = last.end;
  while (begin < size && text[begin] == ' ') ++begin;
  while (end > last.begin && text[end - 1] == ' ') --end;
  if (end == last.begin) {  // a token of a single space belongs to the word after it
    while (end < size && text[end] == ' ') ++end;
    end = std::min(end + 1, size);
  }
  if (begin >= end) return {end, end};
  while (begin > 0 && of_word(text[begin]) && of_word(text[begin - 1])) --begin;
  while (end < size && of_word(text[end - 1]) && of_word(text[end])) ++end;
  return {begin, end};
}

// Probabilities over the tokens of a window's context and an added first token, which stands for no answer.
std::vector<double> probabilities(const Tensor& logits, int64_t column, const Window& window, const ReadRow& row) {
  std::vector<float> scores;
  const bool none = row.added.front();
  if (none) scores.push_back(logits.at<float>(0, column));
  for (int64_t t = 0; t < window.count; ++t) scores.push_back(logits.at<float>(window.begin + t, column));
  std::vector<double> p = softmax(scores);
  if (none) p.erase(p.begin());
  return p;
}

std::vector<Answer> answers_in(const Tensor& logits, const Window& window, const ReadRow& row,
                               const std::string& context, const AnswerOptions& options) {
  struct Span {
    int64_t first, last;
    double score;
  };
  const std::vector<double> first = probabilities(logits, 0, window, row), last = probabilities(logits, 1, window, row);
  std::vector<Span> spans;
  for (int64_t a = 0; a < window.count; ++a)
    for (int64_t b = a; b < std::min(a + options.longest, window.count); ++b)
      spans.push_back({a, b, first[static_cast<size_t>(a)] * last[static_cast<size_t>(b)]});
  const auto keep = spans.begin() + std::min(options.top, std::ssize(spans));
  std::partial_sort(spans.begin(), keep, spans.end(), [](const Span& a, const Span& b) {
    return a.score != b.score ? a.score > b.score : std::pair(a.first, a.last) < std::pair(b.first, b.last);
  });
  std::vector<Answer> answers;
  for (auto span = spans.begin(); span != keep; ++span) {
    const auto at = [&](int64_t t) { return row.offsets[static_cast<size_t>(window.begin + t)]; };
    const ByteRange bytes = of_whole_words(context, at(span->first), at(span->last));
    answers.push_back({context.substr(bytes.begin, bytes.end - bytes.begin), span->score, bytes});
  }
  return answers;
}

// The best answers, one for each span.
std::vector<Answer> best_of(std::vector<Answer> answers, int64_t top) {
  std::stable_sort(answers.begin(), answers.end(), [](const Answer& a, const Answer& b) { return a.score > b.score; });
  std::vector<Answer> best;
  for (Answer& answer : answers) {
    const bool known =
        std::any_of(best.begin(), best.end(), [&](const Answer& other) { return other.bytes == answer.bytes; });
    if (!known && std::ssize(best) < top) best.push_back(std::move(answer));
  }
  return best;
}

}  // namespace

std::vector<std::vector<Answer>> find_answers(const StoredModel& model, const std::vector<std::string>& questions,
                                              const std::vector<std::string>& contexts, const AnswerOptions& options) {
  const TextEncoder& encoder = expect_head(model, HeadTask::answers, "classify");
  check(options);
  if (questions.size() != contexts.size())
    throw ShapeError("classify: " + std::to_string(questions.size()) + " questions and " +
                     std::to_string(contexts.size()) + " contexts; each needs the other");
  const Tokenizer& tokenizer = model.tokenizer();
  const int64_t longest = longest_text(model);
  Windows all;
  for (size_t i = 0; i < questions.size(); ++i)
    add_windows(tokenizer.encode_pair(questions[i], contexts[i]), tokenizer.encode(questions[i], false).ids.size(), i,
                longest, options, all);
  std::vector<std::vector<Answer>> of_window(all.windows.size());
  each_batch(model, all.rows, [&](const RowBatch& batch) {
    const Tensor logits = encoder.logits(batch.tokens, batch.types).value().to(DType::f32).contiguous();
    check_finite("classify", "a score", logits, model.module());
    for (size_t n = 0; n < batch.rows.size(); ++n) {
      const size_t w = batch.rows[n];
      of_window[w] =
          answers_in(batch.part(logits, n), all.windows[w], all.rows[w], contexts[all.windows[w].question], options);
    }
  });
  std::vector<std::vector<Answer>> answers(questions.size());
  for (size_t w = 0; w < of_window.size(); ++w)
    for (Answer& answer : of_window[w]) answers[all.windows[w].question].push_back(std::move(answer));
  for (std::vector<Answer>& of_question : answers) of_question = best_of(std::move(of_question), options.top);
  return answers;
}

}  // namespace heed::inline v0
