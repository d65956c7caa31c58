// What BLEU and chrF share.
#pragma once

#include <span>
#include <string>

#include "heed/text.h"

namespace heed::inline v0 {

void check_metric_lines(const char* metric, std::span<const std::string> hypotheses,
                        std::span<const std::string> references);

/// A number with `digits` digits after the point, whatever the locale.
std::string fixed(double value, int digits);

/// The end of a signature, such as "version:heed-0.1.0".
std::string metric_version();

}  // namespace heed::inline v0
