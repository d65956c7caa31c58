# What nanobind's stub of the extension module takes from elsewhere.
__prefix__:
    \from heed._attention import Array, Causal
    \from numpy import dtype as DType
    \from numpy.typing import DTypeLike, NDArray
    \from types import EllipsisType
    \
    \Index = int | slice | EllipsisType | tuple[int | slice | EllipsisType | None, ...] | None

