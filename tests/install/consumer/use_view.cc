// A map in the terminal, and as a picture: that opens libheed_pictures from the prefix heed was installed to.
#include <heed/view.h>

#include <cstdio>

int main() {
  const heed::AttentionMap map{.weights = heed::Tensor::from({0.9f, 0.1f, 0.25f, 0.75f}, {2, 2}),
                               .query_labels = {"my", "name"},
                               .key_labels = {"mi", "nombre"},
                               .title = ""};
  const std::string text = heed::render_terminal(map);
  const std::string png = heed::render_png(map);
  std::printf("view %zu bytes of PNG\n%s", png.size(), text.c_str());
  const bool drawn = png.compare(0, 4, "\x89PNG") == 0 && png.size() > 500;
  return drawn && text.find("nombre") != std::string::npos ? 0 : 1;
}
