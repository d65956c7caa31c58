#include "cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/console.h"

namespace heed::cli {
namespace {

using std::chrono::milliseconds;

ProgressLine::Terminal columns(int width, bool unicode = false, TerminalColor color = TerminalColor::none) {
  return [=] { return TerminalOptions{.width = width, .color = color, .unicode = unicode}; };
}

TEST(Progress, ABarBelowTheLines) {
  std::ostringstream out;
  ProgressLine::Clock::time_point now{};
  {
    ProgressLine progress(out, columns(80), [&] { return now; });
    progress.bar(0.5, "epoch 1  loss 4.2");
    now += milliseconds(99);
    progress.bar(0.75, "too soon");
    progress.print("validation: best");
    now += milliseconds(1);
    progress.bar(1, "epoch 2");
  }
  EXPECT_EQ(out.str(),
            " 50% [============------------]  epoch 1  loss 4.2"
            "\r\033[Kvalidation: best\n"
            "100% [========================]  epoch 2"
            "\r\033[K");
}

TEST(Progress, ABarIsNeverWiderThanTheTerminal) {
  const std::string text = "epoch 1  loss 4.25  left 0:12:34";
  const auto row = [&](int width, double done) {
    std::ostringstream out;
    ProgressLine progress(out, columns(width));
    progress.bar(done, text);
    return out.str();
  };
  EXPECT_EQ(row(80, 0), "  0% [------------------------]  epoch 1  loss 4.25  left 0:12:34");
  EXPECT_EQ(row(64, 0), "  0% [------------------------]  epoch 1  loss 4.25");  // one column stays free
  EXPECT_EQ(row(40, 0), "  0% [------------------------]");
  EXPECT_EQ(row(30, 0), "epoch 1  loss 4.25");  // no room for the bar
  EXPECT_EQ(row(80, -1), text);                 // nobody knows the end
}

TEST(Progress, ABarInColour) {
  std::ostringstream out;
  ProgressLine progress(out, columns(60, /*unicode=*/true, TerminalColor::palette256));
  progress.bar(1 / 24., "x");
  std::string rest;
  for (int i = 0; i < 23; ++i) rest += "━";
  EXPECT_EQ(out.str(), "  4% \033[32m━\033[90m" + rest + "\033[0m  x");
}

TEST(Progress, FoldsLinesThatStay) {
  std::ostringstream out;
  ProgressLine progress(out, columns(20));
  progress.print("epoch 1  loss 4.25  words/s 1200  a field that is much too long");
  EXPECT_EQ(out.str(),
            "epoch 1  loss 4.25\n"  // 18 columns; the twentieth stays free
            "words/s 1200\n"
            "a field that is much too long\n");
}

TEST(Progress, NoBarElsewhere) {
  std::ostringstream out;
  ProgressLine progress(out, [] { return std::nullopt; });
  progress.bar(0.5, "1");
  progress.print("epoch 1  loss 4.25  words/s 1200  a field that is much too long, and all of it in one line");
  EXPECT_EQ(out.str(), "epoch 1  loss 4.25  words/s 1200  a field that is much too long, and all of it in one line\n");
}

TEST(Progress, ControlCharactersAreEscaped) {
  std::ostringstream out;
  ProgressLine progress(out, [] { return std::nullopt; });
  progress.print("a\033[2Jb\nc\rd");
  EXPECT_EQ(out.str(), "a\\x1b[2Jb\\nc\\rd\n");
}

TEST(Progress, QuietSaysNothing) {
  std::ostringstream out;
  console().quiet = true;
  {
    ProgressLine progress(out, columns(80));
    progress.bar(0.5, "x");
    progress.print("y");
  }
  console() = {};
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace heed::cli
