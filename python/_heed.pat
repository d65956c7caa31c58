# What nanobind's stub of the extension module takes from elsewhere.
__prefix__:
    \from heed._attention import Array, Causal, Index
    \from numpy import dtype as DType
    \from numpy.typing import DTypeLike, NDArray

