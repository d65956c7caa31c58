// Compiled with and without -ffast-math by tests/attention.cmake.
#include <heed/attention.h>

heed::ScoreMod bias() {
  return heed::score_mod([](auto score, auto at) { return score + 0.5f * static_cast<float>(at.key); });
}
heed::BlockMask causal() {
  return heed::block_mask([](auto at) { return at.key <= at.query; }, 1, 1, 8, 8);
}
