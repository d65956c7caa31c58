#include "cli/train_display.h"

#include <cstdio>

#include "cli/console.h"

namespace heed::cli {
namespace {

std::string format(const char* pattern, auto... values) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string time_left(double minutes) { return "left " + (minutes < 0 ? "?" : duration(minutes)); }

std::string where(int64_t epoch, int64_t update) {
  return "epoch " + std::to_string(epoch) + "  update " + std::to_string(update);
}

}  // namespace

void TrainDisplay::step(const TrainStep& s) {
  line_.bar(s.done, where(s.epoch, s.update) + "  " + time_left(s.minutes_left) + format("  loss %.4f", s.nll));
}

void TrainDisplay::progress(const TrainProgress& p) {
  sequences_ += p.sentences;
  std::string text = where(p.epoch, p.update) + format("  loss %.4f  ", p.nll) + format("%.0f ", p.words_per_second) +
                     words_.tokens + "/s";
  if (console().verbose)
    text += std::string("  ") + words_.sequences + " " + std::to_string(sequences_) +
            format("  gradient %.3f  rate %.2e  %.1f GFLOP/s", p.gradient_norm, p.learning_rate, p.gflops);
  line(text + "  " + time_left(p.minutes_left));
}

void TrainDisplay::validation(const Validation& v) {
  line("validation: " + where(v.epoch, v.update) + "  loss " + loss_in_words(v.nll, words_) +
       (v.average_nll < 0 ? "" : ", of the average " + loss_in_words(v.average_nll, words_)) +
       (v.bleu < 0 ? "" : format("  BLEU %.2f", v.bleu)) +
       (v.average_bleu < 0 ? "" : format(", of the average %.2f", v.average_bleu)) + "  " +
       (v.better ? "best" : "no better for " + std::to_string(v.without_progress)));
}

void TrainDisplay::line(const std::string& text) { line_.print("heed train: " + text); }

}  // namespace heed::cli
