// A page of the three examples, and changes of heads in words.
#include <heed/head_changes.h>
#include <heed/pages.h>

#include <cstdio>

int main() {
  const std::string html = heed::render_html({.title = "Examples", .groups = heed::textbook_examples()});
  const std::string words = heed::description_of(heed::read_head_changes("2.1=0.5"));
  std::printf("pages %s\n", words.c_str());
  return html.starts_with("<!doctype html>") && words == "with head 2.1 x 0.5" ? 0 : 1;
}
