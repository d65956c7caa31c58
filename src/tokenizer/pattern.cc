#include "tokenizer/pattern.h"

namespace heed::inline v0 {

Pattern::Finder::Finder(const Pattern& pattern) : pattern_(pattern) {
  if (pattern.regex_) regex_.emplace(*pattern.regex_);
}

void Pattern::Finder::find(std::string_view text, std::vector<Part>* parts) {
  parts->clear();
  size_t last = 0;
  const auto add = [&](size_t begin, size_t end) {
    if (last < begin) parts->push_back({last, begin, false});
    parts->push_back({begin, end, true});
    last = end;
  };
  if (regex_) {
    regex_->begin(text);
    for (std::pair<size_t, size_t> match; !text.empty() && regex_->next(&match);) add(match.first, match.second);
  } else if (!pattern_.text_.empty()) {
    const std::string& wanted = pattern_.text_;
    for (size_t at = 0; (at = text.find(wanted, at)) != std::string_view::npos; at += wanted.size())
      add(at, at + wanted.size());
  }
  if (last < text.size()) parts->push_back({last, text.size(), false});
}

}  // namespace heed::inline v0
