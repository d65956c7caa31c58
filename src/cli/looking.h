// What heed attend looks at: a text, a picture, weights of another program, or the examples.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/load.h"
#include "heed/pages.h"
#include "heed/picture_reader.h"
#include "heed/view.h"
#include "heed/weights_file.h"

namespace heed::cli {

struct AttendArguments {
  std::string text, target, model;
  std::string compare, compare_model;  // another text, or with --from another file; another model
  WeightsFile file;
  std::string png, svg, pdf, html;
  int64_t layer = 0, head = 0, top = 0, beam = 5, generate = 0;  // layer 0: the last; head 0: the mean of all
  std::string heads;                                             // a row of them: "1,3,5-8", "all"
  std::string patch;                                             // of a picture: "row,column", from 1
  std::string without, change;                                   // heads: "2.1,3.4", "2.1=0.5"
  std::string importance;                                        // a file of texts
  std::string measure;                                           // "norms,gradient"; empty: weights
  LoadOptions load{};
  bool all = false, statistics = false, encoder = false, decoder = false, cross = false;
  bool examples = false, terminal = false, lens = false, live = false;
  std::string width;
  std::optional<std::string> title;
  PictureOptions picture;

  bool changes_heads() const { return !without.empty() || !change.empty(); }
  std::vector<std::string> measures() const;  // by name; throws UsageError for one that there is not
  bool compares() const { return !compare.empty() || !compare_model.empty(); }
};

// What there is to look at.
struct Looked {
  std::string text{};  // printed above the map
  std::string lens{};  // in its place, with --lens
  AttentionMap map{};  // weights (N, H, Lq, Lk) float32
  std::string kind{};
  Page page{};        // for --html
  Patches patches{};  // of a picture
  int64_t looks = 0;  // the token that looks at them
  Predicted predicted{};
};

/// The text or picture, and what is compared with it where something is. Throws UsageError for options that the model
/// has nothing for.
std::vector<Looked> look_at_texts(const AttendArguments& a);
/// The arrays of a file: the first one's map, and a page with all; behind it those of the file that is compared.
std::vector<Looked> look_at_files(const AttendArguments& a);
/// Three textbook examples; the first has the page.
std::vector<Looked> look_at_examples();

/// Throws UsageError where `number`, from 1, is more than `count`; 0 is none.
void check_number(const char* what, int64_t number, int64_t count);
/// From 0; the last one where none is chosen.
int64_t chosen_layer(const AttendArguments& a, int64_t layers);

}  // namespace heed::cli
