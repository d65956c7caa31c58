#include "kernels/positions.h"

#include <cmath>

namespace heed::inline v0 {

template <class T>
void sinusoidal_positions(T* table, int64_t begin, int64_t length, int64_t width) {
  for (int64_t j = 0; j < width; ++j) {
    const double wavelength = std::pow(10000.0, static_cast<double>(j - j % 2) / static_cast<double>(width));
    for (int64_t p = 0; p < length; ++p) {
      const double angle = static_cast<double>(begin + p) / wavelength;
      table[p * width + j] = static_cast<T>(j % 2 ? std::cos(angle) : std::sin(angle));
    }
  }
}

template void sinusoidal_positions(float*, int64_t, int64_t, int64_t);
template void sinusoidal_positions(double*, int64_t, int64_t, int64_t);

}  // namespace heed::inline v0
