// Look at attention: maps in the terminal, as PNG, SVG and PDF, a page for a browser, what a head does in six numbers,
// and a page about a training.
//
// Terminal maps, pages and statistics need Unicode tables and zlib. Pictures are drawn by cairo and pango, which
// libheed_pictures brings in the first time one of the render_png/svg/pdf functions, or read_png, is called.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heed/tensor.h"

namespace heed::inline v0 {

/// Weights with the words they belong to.
struct AttentionMap {
  /// (Lq, Lk) one head, (H, Lq, Lk) a row of heads, or (N, H, Lq, Lk) layers x heads; any floating dtype, any strides.
  Tensor weights;
  std::vector<std::string> query_labels{};  // Lq of them, UTF-8; none: positions 0, 1, ...
  std::vector<std::string> key_labels{};    // Lk of them, likewise
  std::string title{};
  std::vector<std::string> head_labels{};  // H of them; none: head 1, head 2, ...
};

/// What a reader must know before trusting the map: rows that do not sum to 1 or are all zero, weights below 0 or not
/// finite; a sentence each. Terminal maps, pictures and pages show the same. Throws ShapeError as render_terminal does.
std::vector<std::string> odd_weights(const AttentionMap& map);

// ---------------------------------------------------------------------------------------------- terminal

enum class TerminalColor : uint8_t { none, palette256, true_color };

struct TerminalOptions {
  int width = 80;  // columns; below 20 counts as 20
  TerminalColor color = TerminalColor::none;
  bool unicode = true;  // false: ASCII only, other characters as \u{1F600}
  double maximum = 0;   // weight at the top of the scale; 0: the largest weight, rounded up to a round number
};

/// What the terminal behind a file descriptor can do. Colour needs a terminal, TERM other than empty, "dumb" or
/// "vt...", and NO_COLOR absent or empty; COLORTERM=truecolor|24bit or a TERM ending in "-direct" gives 24 bits.
/// Unicode needs a UTF-8 locale (LC_ALL, LC_CTYPE, LANG). The width is the terminal's, else COLUMNS, else 80.
TerminalOptions detect_terminal(int fd);
/// The same with its senses given: `columns` 0 where unknown, `environment` like getenv.
TerminalOptions detect_terminal(bool is_terminal, int columns,
                                const std::function<const char*(const char*)>& environment);

/// The map as lines of text, each ended by a newline and none wider than options.width. One head is drawn with its
/// labels: a coloured cell for each weight, or a digit (d stands for d/10 to (d+1)/10 of the scale) without colour;
/// keys that do not fit continue in blocks below. Several heads are drawn as thumbnails without labels, two queries a
/// line where half blocks can be. Control characters in labels come out escaped. Notes below the map say which rows do
/// not sum to 1 and how many weights are not finite.
/// Throws ShapeError: a rank other than 2, 3, 4; labels that differ in number from the weights; a dtype that is not
/// floating.
std::string render_terminal(const AttentionMap& map, const TerminalOptions& options = {});

struct KeyWeight {
  int64_t key = 0;
  double weight = 0;
};

/// For each query of weights (Lq, Lk) its `count` largest weights, largest first, of equal ones the lower key first.
/// What is 0, negative or not finite is left out, so a row may have fewer.
/// Throws ShapeError: a rank other than 2, a dtype that is not floating, a count below 1.
std::vector<std::vector<KeyWeight>> top_keys(const Tensor& weights, int64_t count);

/// What each query of one head, weights (Lq, Lk), attends to most: a line for each with the keys of top_keys and their
/// weights, folded to options.width. A label that several keys have carries its position, from 0: el[4]. With colour,
/// keys stand on the colour of their weight. Notes below as for a map. Throws ShapeError as top_keys and
/// render_terminal do.
std::string render_top(const AttentionMap& map, int64_t count, const TerminalOptions& options = {});

// ---------------------------------------------------------------------------------------------- pictures

enum class LengthUnit : uint8_t { pixels, millimetres };

struct PictureOptions {
  double width = 0;  // of the whole picture; 0: as wide as it wants to be
  LengthUnit unit = LengthUnit::pixels;
  double dpi = 200;      // pixels to the inch
  double font_size = 8;  // points (1/72 inch)
  std::string font = "sans-serif";
  std::string query_axis = "query";  // empty: no name beside the axis
  std::string key_axis = "key";
  int columns = 0;     // heads in a row, for (H, Lq, Lk); 0: up to 4. (N, H, Lq, Lk) has one row a layer
  double maximum = 0;  // weight at the top of the scale; 0: the largest weight, rounded up to a round number
};

/// The picture as the bytes of a file. The same drawing in each format: a panel for each head, shared labels, one scale
/// with a colour bar, notes as in the terminal. Labels are never drawn over each other: on long axes every n-th is
/// shown. Axes of more than 1024 cells are pooled: a cell then shows the largest weight it stands for.
/// Throws ShapeError as render_terminal does, and for a width, dpi or font size out of range; Error where
/// libheed_pictures cannot be loaded, or where there is no font.
std::string render_png(const AttentionMap& map, const PictureOptions& options = {});
std::string render_svg(const AttentionMap& map, const PictureOptions& options = {});
std::string render_pdf(const AttentionMap& map, const PictureOptions& options = {});

/// The most pixels of a picture that read_png takes.
inline constexpr uint64_t kMostPixels = uint64_t{1} << 25;
/// The picture of a PNG file: (H, W, 3) u8, red, green and blue. Of 16 bits a value the upper 8 count; what is
/// transparent is laid over white; grey and palettes become colours; colour profiles are not looked at. No file makes
/// it take more than 1 GiB of memory. Throws IoError; FormatError for what is no PNG, is damaged or too large;
/// MemoryError; Error where libheed_pictures cannot be loaded.
Tensor read_png(const std::string& path);

// ---------------------------------------------------------------------------------------------- statistics

/// Each is a mean over those queries for which the key in question exists, 0 where there is none.
struct HeadStatistics {
  double diagonal_mass = 0;  // weight of key i for query i
  double entropy = 0;        // -sum w ln w of a row, in nats; ln(Lk) at most
  double mean_distance = 0;  // sum w |query - key| of a row, in positions
  double previous_mass = 0;  // weight of key i - 1
  double next_mass = 0;      // weight of key i + 1
  double first_mass = 0;     // weight of key 0
};

/// weights (Lq, Lk), floating. A NaN gives NaN. Throws ShapeError for another rank or dtype.
HeadStatistics statistics(const Tensor& weights);

// ---------------------------------------------------------------------------------------------- page

/// What the heads of one layer compared and averaged, for the view that shows the computation in numbers.
struct PageVectors {
  Tensor q{};  // (H, Lq, D)
  Tensor k{};  // (Hkv, Lk, D); H is a multiple of Hkv
  Tensor v{};  // (Hkv, Lk, Dv)
};

/// What the keys of a group are to a model that writes its output step by step.
enum class StepKeys : uint8_t { none, input, output };

/// Attention of one kind: a tab of the page.
struct PageGroup {
  std::string name{};  // of the tab: "Encoder"
  AttentionMap map{};  // the title says what rows and columns are; weights of any rank that a map may have
  /// The word each token belongs to, ascending: tokens of one word can be merged. None: every token is a word.
  std::vector<int32_t> query_words{}, key_words{};
  std::vector<PageVectors> vectors{};  // one a layer, or none; a layer without (q undefined) has no numbers to show
  double scale = 0;                    // of the scores; 0: 1 / sqrt(D)
  Tensor mask{};                       // (Lq, Lk) boolean, true may be attended; undefined: everything may
  std::vector<std::string> value_labels{};  // Lk, where values have names of their own; else those of the keys
  std::string note{};                       // shown above the group
  /// Row first_step + i is where the model looked at step i of the page: in the input, or in what it had written.
  StepKeys step_keys = StepKeys::none;
  int64_t first_step = 0;
  bool example = false;  // a textbook example: offered apart from the model's own attention
};

/// One token of the output, in the order they were produced.
struct PageStep {
  std::string token{};
  std::vector<std::pair<std::string, double>> candidates{};  // the likeliest tokens of this step with their probability
};

struct Page {
  std::string title{};
  std::string text{};  // below the title, for instance the sentence and its translation
  std::vector<PageGroup> groups{};
  std::vector<PageStep> steps{};  // shown with the groups that have step_keys, at most one of each kind
  /// The same attention of another text: compared[i] stands beside groups[i], with as many layers and heads. Its
  /// weights, labels and words are taken, nothing else. None: no such view.
  std::vector<PageGroup> compared{};
  std::string compared_title{}, compared_text{};
};

struct PageOptions {
  /// A row of at most `keys` keys is stored whole. Of a longer one the largest weights are stored, until they hold
  /// `mass` of its sum or are `keys` of them; the rest is a number that the page shows. keys is in 1..255.
  double mass = 0.995;
  int64_t keys = 48;
};

/// One page that needs nothing but itself: script, style and data are in it, and a Content-Security-Policy forbids
/// every request. Labels are shown as text, with control characters escaped. Rows that do not sum to 1 are shown and
/// flagged, weights below 0 or not finite are left out and flagged. Weights are stored in 8 bits, or 16 where every row
/// is whole, relative to the largest of their row: the sum of what is stored is exact.
/// Throws ShapeError as render_terminal does, and for a page without groups and for words, vectors, masks, steps,
/// value labels and compared groups that do not fit the weights.
std::string render_html(const Page& page, const PageOptions& options = {});

// ---------------------------------------------------------------------------------------------- training

/// A number at one time of a training.
struct ReportPoint {
  int64_t update = 0;
  double minutes = 0;  // of training
  double value = 0;
};

struct ReportCurve {
  std::string name{};
  std::vector<ReportPoint> points{};  // by ascending update
};

/// Curves that share an axis.
struct ReportFigure {
  std::string name{};
  std::string note{};  // small, below
  std::vector<ReportCurve> curves{};
  bool logarithmic = false;  // at first; the reader may choose
};

/// Attention of one kind in one sentence.
struct ReportKind {
  std::string name{};   // "Encoder"
  std::string title{};  // what rows and columns are
  std::vector<std::string> query_labels{}, key_labels{};
};

/// What the model attended to at one time.
struct ReportMoment {
  int64_t update = 0;
  std::vector<Tensor> weights{};  // of each kind: (N, H, Lq, Lk) floating; N and H stay the same over time
};

struct ReportSentence {
  std::string text{};  // above its maps
  std::vector<ReportKind> kinds{};
  std::vector<ReportMoment> moments{};  // by ascending update
};

struct TrainingReport {
  std::string title{};
  std::string text{};  // below the title
  std::vector<std::pair<std::string, std::string>> facts{};
  std::vector<ReportFigure> figures{};
  std::vector<ReportSentence> sentences{};
};

/// One page, as render_html writes them: curves, and small maps of every head with a slider over the moments. A curve
/// of more than 1000 points is drawn as means of points that follow each other; values that are not finite are left
/// out. Weights are stored in 8 bits. A weight below (0.5 / 255)^2 of the largest of its row is 0 on the page.
/// Throws ShapeError for points or moments that go back, and for weights that do not fit the labels, the other moments
/// or their kinds.
std::string render_report(const TrainingReport& report);

}  // namespace heed::inline v0
