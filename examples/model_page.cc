// Attention of a model of one's own as a page that opens in any browser: weights of every layer and head, and the
// vectors that they were computed from.
//   model_page FILE.html
#include <cstdio>
#include <string>

#include "heed/io.h"
#include "heed/nn.h"
#include "heed/random.h"
#include "heed/view.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "model_page FILE.html\n");
    return 2;
  }
  try {
    using namespace heed;
    constexpr int64_t kTokens = 6, kWidth = 16, kHeads = 4;
    manual_seed(7);
    MultiheadAttention layer(kWidth, kHeads);
    const Variable x(normal({1, kTokens, kWidth}, 0, 1));

    // What the layer compares is recorded while it runs; nothing is computed twice.
    HeadRecord record{.want_vectors = true};
    {
      const NoGrad no_grad;
      layer(x, x, x, {.causal = Causal::top_left}, &record);
    }
    const HeadVectors& vectors = record.vectors;

    Page page{.title = "A layer of my own", .text = "six random tokens, four heads, causal"};
    PageGroup& group = page.groups.emplace_back();
    group.name = "Self-attention";
    group.map.weights = record.weights;  // (1, heads, tokens, tokens)
    group.map.title = "rows are queries, columns are keys";
    for (int64_t i = 0; i < kTokens; ++i) group.map.query_labels.push_back("token " + std::to_string(i));
    group.map.key_labels = group.map.query_labels;
    group.vectors = {{.q = vectors.q.select(0, 0), .k = vectors.k.select(0, 0), .v = vectors.v.select(0, 0)}};
    group.mask = Tensor::full({kTokens, kTokens}, 1, DType::boolean);
    for (int64_t i = 0; i < kTokens; ++i)
      for (int64_t j = i + 1; j < kTokens; ++j) group.mask.at<bool>(i, j) = false;

    const std::string html = render_html(page);
    write_file_atomically(argv[1], html);
    std::printf("%zu bytes in %s\n", html.size(), argv[1]);
  } catch (const heed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
