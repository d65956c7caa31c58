#include "recipe/held_out.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_set>

#include "recipe/choose.h"

namespace heed::inline v0 {
namespace {

std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

void hold_out_by_default(TrainingSettings& a, TextPairs& texts, TextPairs& validation, const Say& say) {
  const int64_t all = std::ssize(texts.source);
  const double fraction = default_valid_fraction(all);
  if (fraction > 0) {
    try {
      validation = hold_out(texts, fraction, /*most=*/2 * fraction);
    } catch (const UsageError&) {  // very many pairs have one source
    }
  }
  const bool held = !validation.source.empty();
  a.set("valid_fraction", held ? shortest(fraction) : "0");
  if (held)
    say("holds out " + std::to_string(validation.source.size()) + " of " + std::to_string(all) +
        " pairs for validation; " + a.named("valid_fraction", "0") + " trains on all of them");
  else if (fraction > 0)
    say("no validation: nearly all of " + std::to_string(all) + " pairs have one source; " + a.name("valid_pairs") +
        " names others");
  else
    say("no validation: " + std::to_string(all) + " pairs are too few to hold some out; " + a.name("valid_pairs") +
        " names others, " + a.named("valid_fraction", "0.1") + " takes a tenth");
}

}  // namespace

void hold_out_validation(TrainingSettings& a, TextPairs& texts, TextPairs& validation, const Say& say) {
  if (!a.valid_pairs().empty() || a.given.valid_pairs_in_memory) return;
  if (!a.given.valid_fraction) return hold_out_by_default(a, texts, validation, say);
  if (a.valid_fraction == 0) return;
  try {
    validation = hold_out(texts, a.valid_fraction);
  } catch (const UsageError& e) {
    throw UsageError(a.name("valid_fraction") + ": " + e.what());
  }
}

void expect_validation(const std::string& option, bool named, bool empty) {
  if (named && empty)
    throw FormatError(option + ": the files hold nothing to validate on; give others, or leave it out");
}

void warn_of_overlap(const TextPairs& training, const TextPairs& validation, const Say& say) {
  if (validation.source.empty()) return;
  const auto joined = [](const TextPairs& pairs, size_t i) { return pairs.source[i] + '\t' + pairs.target[i]; };
  std::unordered_set<std::string> held;
  for (size_t i = 0; i < validation.source.size(); ++i) held.insert(joined(validation, i));
  std::unordered_set<std::string> found;
  for (size_t i = 0; i < training.source.size(); ++i)
    if (std::string pair = joined(training, i); held.contains(pair)) found.insert(std::move(pair));
  if (2 * found.size() < held.size()) return;
  say(std::to_string(found.size()) + " of " + std::to_string(held.size()) +
      " different validation pairs are training pairs, too: the validation says little of other texts; give others, " +
      "or leave the validation data out to hold some pairs out");
}

void warn_of_overlap(const TrainingSettings& a, const TextParts& texts, const Say& say) {
  const std::string &text = texts.training, &part = texts.validation;
  // std::string::find may take the product of both lengths.
  if (!a.given.valid_text.empty() && ::memmem(text.data(), text.size(), part.data(), part.size()))
    say("the validation text is part of the training text: the validation says little of other texts; give another, " +
        std::string("or leave it out to hold the end of the text out"));
}

}  // namespace heed::inline v0
