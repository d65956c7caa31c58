// heed classify: classes of texts, of their tokens and of pictures, and answers in texts.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/paths.h"
#include "cli/reading.h"
#include "heed/label.h"
#include "heed/pages.h"
#include "heed/picture_reader.h"
#include "heed/text_reader.h"

namespace heed::cli {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

struct ClassifyArguments : ReadingArguments {
  int64_t top = 0;  // 0: one in columns, all as JSON
  AnswerOptions answers;
  bool json = false;
};

// What stands on both sides of a tab, if there is one.
std::pair<std::string, std::optional<std::string>> columns_of(const std::string& line, int64_t number) {
  const size_t tab = line.find('\t');
  if (tab == std::string::npos) return {line, {}};
  if (line.find('\t', tab + 1) != std::string::npos)
    throw FormatError("line " + std::to_string(number) + " has more than two columns");
  return {line.substr(0, tab), line.substr(tab + 1)};
}

Json range_of(const std::string& text, ByteRange bytes) {
  return {{"text", text.substr(bytes.begin, bytes.end - bytes.begin)},
          {"begin", characters_before(text, bytes.begin)},
          {"end", characters_before(text, bytes.end)}};
}

// The likeliest classes, as many as --top says: in columns, and as JSON.
struct TopLabels {
  std::string columns;
  Json json = Json::array();
};
TopLabels top_labels(const ClassifyArguments& a, const std::vector<ScoredLabel>& labels) {
  const auto all = std::ssize(labels), count = a.top > 0 ? std::min(a.top, all) : a.json ? all : 1;
  TopLabels top;
  for (const ScoredLabel& label : std::span(labels).first(static_cast<size_t>(count))) {
    top.json.push_back({{"label", label.label}, {"score", label.score}});
    top.columns += (top.columns.empty() ? "" : "\t") + label.label + '\t' + four_digits(label.score);
  }
  return top;
}

std::string classes_of(const ClassifyArguments& a, const StoredModel& model, const Lines& lines, int64_t before,
                       CutLines& cut) {
  std::vector<std::string> texts;
  std::vector<std::optional<std::string>> second;
  for (const std::string& line : lines) {
    auto [first, other] = columns_of(line, before + std::ssize(texts) + 1);
    texts.push_back(std::move(first));
    second.push_back(std::move(other));
  }
  const std::vector<ClassifiedText> found = classify_texts(model, texts, second);
  std::string out;
  for (size_t i = 0; i < found.size(); ++i) {
    if (++before; found[i].cut) cut.add(before);
    const TopLabels top = top_labels(a, found[i].labels);
    Json line = {{"line", before}, {"text", texts[i]}};
    if (second[i]) line["second"] = *second[i];
    line["labels"] = top.json;
    out += a.json ? json_line(line) : top.columns + '\n';
  }
  return out;
}

std::string labels_of(const ClassifyArguments& a, const StoredModel& model, const Lines& lines, int64_t before,
                      CutLines& cut) {
  const std::vector<LabelledText> found = label_tokens(model, lines);
  std::string out;
  for (size_t i = 0; i < found.size(); ++i) {
    if (++before; found[i].cut) cut.add(before);
    if (!a.json) {
      for (const LabelledToken& token : found[i].tokens)
        out += token.token + '\t' + token.label + '\t' + four_digits(token.score) + '\n';
      out += '\n';
      continue;
    }
    Json line = {{"line", before}, {"text", lines[i]}, {"tokens", Json::array()}, {"words", Json::array()}};
    for (const LabelledToken& token : found[i].tokens)
      line["tokens"].push_back({{"token", token.token},
                                {"label", token.label},
                                {"score", token.score},
                                {"begin", characters_before(lines[i], token.bytes.begin)},
                                {"end", characters_before(lines[i], token.bytes.end)}});
    for (const LabelledSpan& span : found[i].spans) {
      Json word = {{"label", span.label}, {"score", span.score}};
      word.update(range_of(lines[i], span.bytes));
      line["words"].push_back(word);
    }
    out += json_line(line);
  }
  return out;
}

std::string answers_of(const ClassifyArguments& a, const StoredModel& model, const Lines& lines, int64_t before,
                       CutLines& cut) {
  std::vector<std::string> questions, contexts;
  std::vector<std::optional<size_t>> places(lines.size());  // of the lines that have two columns
  for (size_t i = 0; i < lines.size(); ++i) {
    const int64_t number = before + static_cast<int64_t>(i) + 1;
    auto [question, context] = columns_of(lines[i], number);
    if (!context) {
      cut.pass(number, "has one column; the model finds answers: give a question, a tab, and a text that answers it");
      continue;
    }
    places[i] = questions.size();
    questions.push_back(std::move(question));
    contexts.push_back(std::move(*context));
  }
  AnswerOptions options = a.answers;
  options.top = std::max<int64_t>(a.top, 1);
  options.first_line = before;
  const std::vector<std::vector<Answer>> found = find_answers(model, questions, contexts, options);
  std::string out;
  for (const std::optional<size_t>& place : places) {
    Json answers = Json::array();
    std::string columns;
    for (const Answer& answer : place ? found[*place] : std::vector<Answer>()) {
      Json one = range_of(contexts[*place], answer.bytes);
      one["score"] = answer.score;
      answers.push_back(one);
      columns += (columns.empty() ? "" : "\t") + answer.text + '\t' + four_digits(answer.score);
    }
    const Json line = {
        {"line", ++before}, {"question", place ? Json(questions[*place]) : Json()}, {"answers", answers}};
    out += a.json ? json_line(line) : columns + '\n';
  }
  return out;
}

void classify_pictures(const ClassifyArguments& a, const StoredModel& model, const std::string& directory) {
  const std::vector<std::string> pictures = a.files.empty() && !a.input.empty() ? std::vector{a.input} : a.files;
  if (pictures.empty() || std::any_of(pictures.begin(), pictures.end(), is_standard_stream))
    throw UsageError(directory + " holds " + what_it_does(model) + ", each from a file; name PNG or npy files");
  const auto& encoder = model.as<ImageEncoder>();
  write_output(a.output, [&](FileWriter& out) {
    for (const std::string& path : pictures) {
      const TopLabels top = top_labels(a, classify_picture(model, read_pixels(path, directory, encoder.config())));
      out.write(a.json ? json_line({{"picture", path}, {"labels", top.json}})
                       : printable(path) + '\t' + top.columns + '\n');
    }
  });
}

void classify(const CLI::App& command, ClassifyArguments& a) {
  const std::string directory =
      named_model(a.model, "a model that classifies texts, tokens or pictures, or finds answers");
  check_files("classify", a, directory);
  const StoredModel model = load(directory, a.load);
  const HeadTask task = model.pretrained().head.task;
  if (task != HeadTask::answers && !command.get_option("--longest-answer")->empty())
    throw UsageError("--longest-answer: " + directory + " holds " + what_it_does(model) +
                     "; it is for a model that finds answers");
  if (task == HeadTask::picture_classes) return classify_pictures(a, model, directory);
  auto* const of_lines = task == HeadTask::text_classes    ? classes_of
                         : task == HeadTask::token_classes ? labels_of
                         : task == HeadTask::answers       ? answers_of
                                                           : nullptr;
  if (!of_lines)
    throw UsageError(directory + " holds " + what_it_does(model) +
                     "; name one that classifies texts, tokens or pictures, or finds answers");
  if (a.files.size() > 1)
    throw UsageError(directory + " holds " + what_it_does(model) + ", a line each, of one file; give one");
  if (task == HeadTask::token_classes && a.top > 0)
    throw UsageError("--top: " + directory + " holds " + what_it_does(model) + ", each of one class; leave out --top");
  write_output(a.output, [&](FileWriter& out) {
    each_window(a.input, "classify", [&](const Lines& lines, int64_t before, CutLines& cut) {
      out.write(of_lines(a, model, lines, before, cut));
    });
  });
}

}  // namespace

void add_classify(CLI::App& program) {
  const auto a = std::make_shared<ClassifyArguments>();
  CLI::App* command =
      program.add_subcommand("classify", "Classify texts, their tokens or pictures, or find answers in texts");
  command->description(
      "Classify texts, their tokens or pictures, or find answers in texts\n\n"
      "What it does is what the model was trained for. Classes of texts: prints label and probability of each line; "
      "two columns with a tab between them are a pair. Classes of tokens: prints token, label and probability, a line "
      "each, and an empty line behind each text; as JSON also the words of one label, with their places in "
      "characters. Answers: each line is a question, a tab and a text; prints the part of the text that answers it, "
      "and its score. Longer texts than the model takes are cut; answers are looked for in all of a text. Classes of "
      "pictures: reads PNG files, or npy of bytes (height, width, 3) or of what the model takes, (channels, height, "
      "width) floating; prints the file's name, label and probability, a line each.");
  add_reading_options(*command, *a, "a text a line, or a picture; several pictures", "HEED_MODEL", /*several=*/true);
  command->add_option("--top", a->top, "So many classes or answers a line [1, as JSON all classes]")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--longest-answer", a->answers.longest, "Tokens of an answer, at most")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_flag("--json", a->json, "Write each line as a JSON object with all of it");
  set_usage(*command, {"--model DIR [OPTIONS] [FILE]..."});
  command->footer(
      "Examples:\n"
      "  echo 'What a day!' | heed classify --model sentiment --top 2\n"
      "  heed classify --model sentiment reviews.txt -o classes.jsonl --json\n"
      "  heed classify --model vit cat.png dog.png --top 5");
  command->callback([command, a] { classify(*command, *a); });
}

}  // namespace heed::cli
