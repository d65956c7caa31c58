// Look at attention: maps in the terminal, as PNG, SVG and PDF, a page for a browser, what a head does in six numbers,
// and a page about a training.
//
// Terminal maps, pages and statistics need Unicode tables and zlib, and read_png libpng. Pictures are drawn by cairo
// and pango, which libheed_pictures brings in the first time one of the render_png/svg/pdf functions is called.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  /// true: rows should sum to 1, and notes report those that do not. false: other values, such as norms and gradients.
  bool shares = true;
};

/// Weights of the patches of a picture: where one token looks in it. Terminal maps and pictures show the picture,
/// faded, with the weights laid over it.
struct PatchMap {
  /// (rows, columns) one head, (H, rows, columns) a row of heads, or (N, H, rows, columns) layers x heads; any floating
  /// dtype. Patches have one size and fill the picture.
  Tensor weights;
  Tensor picture;     // (height, width, 3) u8, red, green and blue
  int64_t from = -1;  // the patch that looks, which pictures frame; -1: none does
  std::string title{};
  std::vector<std::string> head_labels{};  // H of them; none: head 1, head 2, ...
  std::vector<std::string> notes{};        // shown below, a sentence each
};

/// Warnings about a map, a sentence each: rows that do not sum to 1 or are all zero, weights below 0 or not finite. For
/// a map that does not have shares, only values that are not finite. Terminal maps, pictures and pages show the same.
/// Throws ShapeError as render_terminal does.
std::vector<std::string> odd_weights(const AttentionMap& map);

// ---------------------------------------------------------------------------------------------- terminal

enum class TerminalColor : uint8_t { none, palette256, true_color };

struct TerminalOptions {
  int width = 80;  // columns; below 20 counts as 20
  TerminalColor color = TerminalColor::none;
  bool unicode = true;  // false: ASCII only, other characters as \u{1F600}
  double maximum = 0;   // weight at the top of the scale; 0: the largest weight, rounded up to a round number
};

/// The capabilities of the terminal of a file descriptor. Colour needs a terminal, TERM other than empty, "dumb" or
/// "vt...", and NO_COLOR absent or empty; COLORTERM=truecolor|24bit or a TERM ending in "-direct" gives 24 bits.
/// Unicode needs a UTF-8 locale (LC_ALL, LC_CTYPE, LANG). The width is the terminal's, else COLUMNS, else 80.
TerminalOptions detect_terminal(int fd);
/// The capabilities from given facts: `columns` is 0 if unknown, `environment` is like getenv.
TerminalOptions detect_terminal(bool is_terminal, int columns,
                                const std::function<const char*(const char*)>& environment);

/// The map as lines of text, each ended by a newline and none wider than options.width. One head is drawn with its
/// labels: a coloured cell for each weight, or a digit (d stands for d/10 to (d+1)/10 of the scale) without colour;
/// keys that do not fit continue in blocks below. Several heads are drawn as thumbnails without labels, two queries a
/// line where half blocks can be. Control characters in labels come out escaped. Notes below the map say which rows do
/// not sum to 1 and how many weights are not finite. Where a weight is below 0 the scale goes from -maximum to maximum,
/// here, in pictures and in pages: orange below 0 and blue above, one end light and the other dark; without colour
/// letters a to i are below 0 what 1 to 9 are above.
/// Throws ShapeError: a rank other than 2, 3, 4; labels that differ in number from the weights; a dtype that is not
/// floating.
std::string render_terminal(const AttentionMap& map, const TerminalOptions& options = {});

/// One head as the picture and, beside it, the picture with the weights; without colour as a digit for each patch, with
/// the numbers of rows and columns from 1. Several heads as thumbnails of the weights alone.
/// Throws ShapeError: a rank other than 2, 3, 4; a dtype that is not floating; a picture of another shape or dtype, or
/// with less than a pixel for a patch; a patch that is not there.
std::string render_overlay_terminal(const PatchMap& map, const TerminalOptions& options = {});

struct KeyWeight {
  int64_t key = 0;
  double weight = 0;
};

/// For each query of weights (Lq, Lk) its `count` largest weights, largest first, of equal ones the lower key first.
/// Weights that are 0, negative or not finite are left out, so a row may have fewer. Throws ShapeError: a rank other
/// than 2, a dtype that is not floating, a count below 1.
std::vector<std::vector<KeyWeight>> top_keys(const Tensor& weights, int64_t count);

/// The keys that each query of one head, weights (Lq, Lk), attends to most: a line per query with the keys of top_keys
/// and their weights, folded to options.width. A label that several keys have carries its position, from 0: el[4]. With
/// colour, keys stand on the colour of their weight. Notes below as for a map. Throws ShapeError as top_keys and
/// render_terminal do.
std::string render_top(const AttentionMap& map, int64_t count, const TerminalOptions& options = {});

// ---------------------------------------------------------------------------------------------- pictures

enum class LengthUnit : uint8_t { pixels, millimetres };

struct PictureOptions {
  double width = 0;  // of the whole picture; 0: chosen from the content
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

/// The picture, and a panel for each head in which the weights lie over it. Axes have no names; `columns` counts the
/// picture itself as a panel, which (N, H, rows, columns) leaves out. Throws likewise, and as the terminal's.
std::string render_overlay_png(const PatchMap& map, const PictureOptions& options = {});
std::string render_overlay_svg(const PatchMap& map, const PictureOptions& options = {});
std::string render_overlay_pdf(const PatchMap& map, const PictureOptions& options = {});

/// The most pixels of a picture that read_png takes.
inline constexpr uint64_t kMostPixels = uint64_t{1} << 25;
/// Reads a PNG file: (H, W, 3) u8, red, green and blue, as transformers' pipelines do with Pillow: the image is turned
/// upright by the orientation in its EXIF or XMP metadata; transparency is dropped, so transparent pixels show the
/// color that is stored for them; 16-bit colors keep their upper 8 bits; grey and palette images become colors; color
/// profiles are ignored. Takes at most 1 GiB of memory. Throws IoError, FormatError for a file that is not a PNG,
/// damaged, too large or grey with 16 bits (which Pillow clips to 255), and MemoryError.
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

/// Queries, keys and values of the heads of one layer, for the view that shows the computation in numbers.
struct PageVectors {
  Tensor q{};  // (H, Lq, D)
  Tensor k{};  // (Hkv, Lk, D); H is a multiple of Hkv
  Tensor v{};  // (Hkv, Lk, Dv)
};

/// The role of a group's keys in a model that generates its output step by step.
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
  /// (height, width, 3) u8: tokens are patches of this picture, and the page lays weights over it. The last
  /// picture_rows * picture_columns queries, and keys, are the patches, row by row; undefined: tokens are no patches.
  Tensor picture{};
  int64_t picture_rows = 0, picture_columns = 0;
  /// The measure shown: "norms", "rollout", "gradient", "input" or any other name; empty: weights. Groups of one name
  /// and several measures are one tab with a choice; the first of them is that of the weights.
  std::string measure{};
  /// (N, H) floating, 0 or more: how much the model depends on each head, a bar on its map. Undefined: not known.
  Tensor importance{};
};

/// One token of the output, in the order they were produced.
struct PageStep {
  std::string token{};
  std::vector<std::pair<std::string, double>> candidates{};  // the likeliest tokens of this step with their probability
  /// The candidates of each layer (logit lens), from the first layer on; empty: not shown.
  std::vector<std::vector<std::pair<std::string, double>>> layers{};
};

/// A token, and how probable it is to the model behind Page::groups and to the one behind Page::compared.
struct PagePrediction {
  std::string token{};
  double first = 0, second = 0;  // 0 to 1
};

/// The initial view of a page, unless its address sets another one.
struct PageOpening {
  int64_t group = -1;            // -1: the story of what is clearest; the first, where heads or a query are given
  std::vector<int64_t> heads{};  // of the group, layer * H + head; none: every head as a small map
  int64_t query = -1;            // the one looked at; -1: none
};

/// The task of a page's model for a text typed into the page.
enum class LiveKind : uint8_t { translates, continues, reads };

/// The model of a page itself, so that the page reads other texts, too: in the browser, without a request
/// (docs/decisions/0012-live-page.md). Without files the page asks the server that it came from: it posts {"text",
/// "beam", "generate"} to "attend" beside it, and takes what render_json() gives or {"error"}.
struct LiveModel {
  /// The files of a model's directory, as load() of a DirectorySnapshot reads them: name and content.
  std::vector<std::pair<std::string, std::string>> files{};
  LiveKind kind = LiveKind::translates;
  std::string text{};    // the text of the page
  int64_t beam = 5;      // of translations
  int64_t generate = 0;  // tokens that a language model generates after a text
  std::string notice{};  // shown where a text is typed: whom the model is owed to
};

struct Page {
  std::string title{};
  std::string text{};  // below the title, for instance the sentence and its translation
  std::vector<PageGroup> groups{};
  std::vector<PageStep> steps{};  // shown with the groups that have step_keys, at most one of each kind
  /// The attention for another text, or for the same text in another model: compared[i] is shown beside groups[i] and
  /// has as many layers and heads. Its weights, labels and words are taken, nothing else. None: no such view.
  std::vector<PageGroup> compared{};
  std::vector<PagePrediction> predictions{};  // of one output, in its order, where two models are compared
  std::string compared_title{}, compared_text{};
  PageOpening opening{};
  std::optional<LiveModel> live{};  // which permits the page to run WebAssembly, in a worker of its own, and no more
};

struct PageOptions {
  /// A row of at most `keys` keys is stored whole. Of a longer one the largest weights are stored, until they hold
  /// `mass` of its sum or are `keys` of them; the rest is a number that the page shows. keys is in 1..255.
  double mass = 0.995;
  int64_t keys = 48;
};

/// One page that needs nothing but itself: script, style and data are in it, and a Content-Security-Policy forbids
/// every request. Labels are shown as text, with control characters escaped; tokens without labels are numbered from 1,
/// as all that is numbered in the page. Rows that do not sum to 1 and weights below 0 or not finite are shown and
/// flagged; of a long row the largest in size are stored. Weights are stored in 8 bits, or 16 where every row is whole,
/// relative to the largest of their row: the sum of what is stored, of the sizes where a weight is below 0, is exact.
/// Throws ShapeError as render_terminal does, and for a page without groups and for words, vectors, masks, steps,
/// value labels, compared groups, predictions, importance and an opening that do not fit the weights.
std::string render_html(const Page& page, const PageOptions& options = {});

/// The data of a page's script: ASCII JSON, which refers to blocks of bytes by number.
struct PageData {
  std::string json;
  std::vector<std::string> blocks;
};
/// The data that render_html() puts into the page, without `live`, for a page that is already open. Throws as
/// render_html().
PageData page_data(const Page& page, const PageOptions& options = {});
/// The data of render_html() as one JSON object, for a page that requests it over HTTP: each of "blocks" is zlib data
/// in base64. Throws as render_html().
std::string render_json(const Page& page, const PageOptions& options = {});

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

/// The attention of the model at one time of the training.
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
