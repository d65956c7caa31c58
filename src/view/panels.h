// An attention map checked and made ready to draw: one panel for each head, in double, with notes on what is odd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/view.h"

namespace heed::inline v0 {

struct Panels {
  int64_t layers = 1, heads = 1;  // panels: layers * heads
  int64_t queries = 0, keys = 0;
  std::vector<double> values;             // (layers, heads, queries, keys)
  std::vector<std::string> query_labels;  // printable, queries of them
  std::vector<std::string> key_labels;    // printable, keys of them
  std::vector<std::string> head_labels;   // printable, heads of them
  std::string title;                      // printable
  std::vector<std::string> notes;         // what a reader must know before trusting the colours
  double maximum = 1;                     // top of the scale, above 0
  int rank = 2;
  bool shares = true;       // as AttentionMap::shares
  bool is_signed = false;   // the scale goes from -maximum to maximum
  bool patches = false;     // queries and keys are rows and columns of patches
  int64_t first_query = 0;  // the number that notes give the first query

  int64_t count() const { return layers * heads; }
  const double* panel(int64_t i) const { return values.data() + i * queries * keys; }
};

/// Throws ShapeError unless the map has floating weights of rank 2 to 4 and labels for all queries and keys, or none.
void check_map(const AttentionMap& map, const std::string& operation);

/// `operation` begins the messages. `ascii`: labels in ASCII only. `maximum` 0: from the weights. `first_query`: the
/// number that notes give the first query, as what is shown around them numbers queries.
Panels make_panels(const AttentionMap& map, const std::string& operation, double maximum, bool ascii = false,
                   int64_t first_query = 0);

/// Rows and columns of patches as queries and keys, numbered from 1.
Panels patch_panels(const PatchMap& map, const std::string& operation, double maximum, bool ascii = false);

/// render_terminal of what one of these gave.
std::string draw_terminal(Panels panels, const TerminalOptions& options);

/// The distance of round ticks (1, 2 or 5 times a power of ten), about five of them up to `maximum`.
double tick_step(double maximum);

/// Pools axes longer than `limit` cells by the largest weight of each group, and says so in the notes.
void pool(Panels* panels, int64_t limit);

/// "0.25": the shortest form with three significant digits.
std::string format_weight(double weight);

}  // namespace heed::inline v0
