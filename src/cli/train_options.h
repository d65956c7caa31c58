// What heed train is asked for: its options, presets and configuration files.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "heed/models.h"
#include "heed/train.h"

namespace heed::cli {

struct TrainArguments {
  std::string pairs, source, target, valid_pairs, valid_source, valid_target, exclude;
  std::string columns = "1,2";
  std::string text, valid_text;
  double valid_fraction = 0.1;
  std::string model, vocabulary, init, preset = "small", config;
  bool dump_config = false, trust = false;
  int threads = 0;
  std::string vocab_type = "subwords";
  int64_t vocab_size = 0;
  double character_coverage = 0.9995;
  std::string html, html_lines;
  int64_t html_bleu = 100;
  std::string schedule = "inverse-square-root";
  TransformerConfig shape{.max_positions = 512};
  int64_t layers = 0, kv_heads = 0;  // of a language model, which has the rest from `shape`
  TrainOptions options;
  bool of_text() const { return !text.empty(); }
};

/// Adds the options to `command`; their values land in `a`, which must outlive it.
void add_train_options(CLI::App& command, TrainArguments& a);

/// Fills in what the command line leaves open: --config, then the shape of --init, then --preset, then defaults. Throws
/// ShapeError for options of the other kind of training, FormatError for a configuration with others.
void apply_config(CLI::App& command, const TrainArguments& a);

}  // namespace heed::cli
