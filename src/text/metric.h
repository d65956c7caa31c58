// What BLEU and chrF share.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heed/text.h"

namespace heed::inline v0 {

/// Every reference has a line for each hypothesis, and there are some of both. Throws ShapeError.
void check_metric_lines(const char* metric, std::span<const std::string> hypotheses,
                        std::span<const std::vector<std::string>> references);

/// Mean and interval of `score`, a function of which lines there are (some of `lines` again and again), over
/// options.resamples samples: n // 40 of the samples lie below the interval and as many above it (Koehn 2004). The
/// draws are those of NumPy's default_rng(options.seed).choice, so that the numbers are sacreBLEU's.
Confidence bootstrap(size_t lines, const MetricOptions& options,
                     const std::function<double(std::span<const uint32_t> chosen)>& score);

/// A number with `digits` digits after the point, whatever the locale.
std::string fixed(double value, int digits);

/// " (μ = 54.71 ± 3.20)", or nothing where no samples were drawn.
std::string confidence_text(const Confidence& confidence);

/// The begin of a signature: "nrefs:1|bs:1000|seed:12345|case:mixed".
std::string metric_signature(int64_t references, const Confidence& confidence, bool lowercase);

/// The end of a signature, such as "version:heed-0.2.0".
std::string metric_version();

}  // namespace heed::inline v0
