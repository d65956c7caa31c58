"""Rotary positions, and keys and values of earlier positions."""
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, cast

from . import _heed
from ._attention import A, Array, AttentionResult, Causal, ScoreFunction, Select, _result

Layout = Literal["half_split", "interleaved"]


class Rotary(NamedTuple):
    """How rotary() and a KVCache turn queries and keys (Su et al. 2021, "RoFormer", 3.2.2 and 3.4.2).

    positions  (L) or (B, L) int32 or int64; default 0, 1, ..., of a cache those behind what it holds
    layout     which two dimensions turn together: "half_split" (0, D / 2), (1, D / 2 + 1), ..., or "interleaved"
               (0, 1), (2, 3), ...
    size       dimensions of each head that turn, even, at most D; default all
    base       pair p turns by position * base^(-2 p / size)
    cos, sin   tables instead of base, floating: (positions, size / 2), a row for each position id; or (B, L, size / 2),
               looked up already, without positions. Both or neither
    """

    positions: Array | None = None
    layout: Layout = "half_split"
    size: int | None = None
    base: float = 10000.0
    cos: Array | None = None
    sin: Array | None = None


def rotary(x: A, positions: Array | None = None, *, layout: Layout = "half_split", size: int | None = None,
           base: float = 10000.0, cos: Array | None = None, sin: Array | None = None, inverse: bool = False,
           out: A | None = None) -> A:
    """x (B, H, L, D), floating, with each position's pairs of dimensions turned; the options are those of Rotary.

    inverse turns back, which is also the gradient. `out`, shaped like x, receives the result, and may be x itself.
    Raises ShapeError, and TypeError for what is no array or number.
    """
    return cast(A, _heed.rotary(x, _heed.Rotary(positions, layout, size, base, cos, sin), inverse, out))


class KVCache(Generic[A]):
    """Keys and values of earlier positions, in memory of a capacity that only reserve() changes.

    KVCache(batch, kv_heads, capacity, head_size, value_size=None, dtype="float32"): keys (B, Hkv, capacity, D) and
    values (B, Hkv, capacity, Dv), Dv as D where value_size is None; dtype "float32", "float64", "float16" or
    "bfloat16". A call that raises leaves it as it was. Calls of several threads come one after another. Raises
    ShapeError.
    """

    __slots__ = ("_cache", "_like")

    def __init__(self, batch: int, kv_heads: int, capacity: int, head_size: int, value_size: int | None = None,
                 dtype: str = "float32") -> None:
        self._cache = _heed.KVCache(batch, kv_heads, capacity, head_size, value_size, dtype)
        self._like: Any = None

    def __len__(self) -> int:
        """Positions that it holds, of every entry."""
        return self._cache.length

    @property
    def capacity(self) -> int:
        """Positions that it has room for."""
        return self._cache.capacity

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return self._cache.dtype

    @property
    def keys(self) -> A:
        """(B, Hkv, length, D), a view, of the kind of array that was appended last."""
        return cast(A, self._cache.keys(self._like))

    @property
    def values(self) -> A:
        """(B, Hkv, length, Dv), likewise."""
        return cast(A, self._cache.values(self._like))

    def append(self, k: A, v: A, rotary: Rotary | None = None) -> None:
        """Appends k (B, Hkv, L, D), turned by `rotary`, and v (B, Hkv, L, Dv), of any floating dtype."""
        self._cache.append(k, v, _rotary(rotary))
        self._like = k

    def attend(self, q: A, k: A, v: A, mask: Array | None = None, causal: Causal = True, *, scale: float | None = None,
               window: tuple[int | None, int | None] | None = None, softcap: float | None = 0.0,
               alibi: Array | None = None,
               sinks: Array | None = None, score_mod: ScoreFunction | None = None, key_lengths: Array | None = None,
               rotary: Rotary | None = None, return_lse: bool = False,
               return_weights: bool | Select = False) -> A | AttentionResult[A]:
        """Appends k and v, then attends to all: q (B, Hq, L, D) stands right behind what was there.

        With `rotary`, q and k are turned by their positions first. Masks run over all keys, (B, Hq, L, length). The
        other options are attention()'s, of which `offset` is the length before. causal True and "bottom_right" are the
        same here: new query i sees keys up to the length before + i, whatever key_lengths say. Computes in float64 for a float64
        cache, else in float32. Returns the result, of q's dtype, or with a return_ option an AttentionResult, without
        a backward.
        """
        options = _heed.Options(mask, causal, scale, window, softcap, alibi, sinks, score_mod, None, key_lengths, 0,
                                None, None, 0.0, 0)
        out, lse, low, weights, *top = self._cache.attend(q, k, v, options, _rotary(rotary), return_lse,
                                                          return_weights)
        self._like = k
        if return_lse is False and return_weights is False:
            return cast(A, out)
        return _result(None, out, lse, low, weights, None, *top)

    def clear(self) -> None:
        """Forgets all positions."""
        self._cache.clear()

    def truncate(self, length: int) -> None:
        """Forgets positions from `length` on."""
        self._cache.truncate(length)

    def reserve(self, positions: int) -> None:
        """Makes room for as many in all; where memory must move, for twice the capacity at least."""
        self._cache.reserve(positions)

    def reorder(self, source: Sequence[int]) -> None:
        """Keeps entry source[i] as entry i, as beam search does: entries may repeat or vanish."""
        self._cache.reorder(source)

    def __repr__(self) -> str:
        return f"heed.KVCache({len(self)} of {self.capacity} positions, {self.dtype})"


def _rotary(rotary: Rotary | None) -> Any:
    if rotary is None:
        return None
    if not isinstance(rotary, Rotary):
        raise TypeError(f"KVCache: rotary is a {type(rotary).__name__}; pass a heed.Rotary")
    return _heed.Rotary(*rotary)
