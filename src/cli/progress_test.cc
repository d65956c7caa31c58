#include "cli/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace heed::cli {
namespace {

using std::chrono::seconds;

TEST(Progress, OverwritesItsLineOnATerminal) {
  std::ostringstream out;
  {
    ProgressLine progress(
        out, [] { return 80; }, 5);
    progress.update("epoch 1  loss 4.2");
    progress.update("epoch 2  loss 3.1");
    progress.print("validation: best");
    progress.update("epoch 3");
  }
  EXPECT_EQ(out.str(),
            "epoch 1  loss 4.2"
            "\r\033[Kepoch 2  loss 3.1"
            "\r\033[Kvalidation: best\n"
            "epoch 3"
            "\r\033[K");
}

TEST(Progress, FoldsFieldsToTheWidth) {
  std::ostringstream out;
  {
    ProgressLine progress(
        out, [] { return 20; }, 5);
    progress.update("epoch 1  loss 4.25  words/s 1200  a field that is much too long");
  }
  EXPECT_EQ(out.str(),
            "epoch 1  loss 4.25\n"  // 18 columns; the twentieth stays free
            "words/s 1200\n"
            "a field that is mu…"
            "\r\033[K\033[A\033[K\033[A\033[K");
}

TEST(Progress, PlainLinesNowAndThenElsewhere) {
  std::ostringstream out;
  ProgressLine::Clock::time_point now{};
  {
    ProgressLine progress(
        out, [] { return std::nullopt; }, 5, [&] { return now; });
    progress.update("1");
    now += seconds(4);
    progress.update("2");
    progress.print("stays");
    now += seconds(1);
    progress.update("3");
    now += seconds(1);
    progress.update("4");
    progress.update("5");
  }
  EXPECT_EQ(out.str(), "1\nstays\n3\n5\n");  // the last is printed in the end
}

TEST(Progress, ControlCharactersAreEscaped) {
  std::ostringstream out;
  ProgressLine progress(
      out, [] { return std::nullopt; }, 0);
  progress.update("a\033[2Jb\nc");
  progress.print("d\re");
  EXPECT_EQ(out.str(), "a\\x1b[2Jb\\nc\nd\\re\n");
}

}  // namespace
}  // namespace heed::cli
