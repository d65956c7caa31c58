"""Score functions that run inside of the kernels, forward and backward, for attention(score_mod=).

`a | b` is a first, then b:

    heed.attention(q, k, v, score_mod=heed.mods.relative_bias(table) | heed.mods.softcap(20) | heed.mods.causal())

What hides a pair makes its score -inf, which no other function should follow that makes it finite again: masks go
last. Masks alone may also become a heed.block_mask, which skips whole tiles. Positions of queries and keys are counted
within an entry, from 0; `offset` is the key position of query 0, the length of a cache in front. All raise ShapeError
for values out of range, and TypeError for what is no array or number.
"""
from collections.abc import Callable
from typing import Any

from . import _heed
from ._attention import Array
from ._score_mod import Part, ScoreMod, learns

__all__ = ["ScoreMod", "alibi", "causal", "dilated", "documents", "function", "padding", "prefix", "relative_bias",
           "scale", "sliding_window", "softcap"]


def alibi(slopes: Array, *, offset: int = 0) -> ScoreMod:
    """score - slopes[h] * |i + offset - j|, slopes (Hq) floating (Press et al. 2022, "Train short, test long", 3)."""
    return _made("alibi", (slopes,), (offset,))


def softcap(cap: float) -> ScoreMod:
    """cap * tanh(score / cap), cap above 0 (Gemma 2, arXiv 2408.00118, 2)."""
    return _made("softcap", factors=(cap,))


def scale(factor: float) -> ScoreMod:
    """factor * score."""
    return _made("scale", factors=(factor,))


def relative_bias(table: Array, *, offset: int = 0) -> ScoreMod:
    """score + table[h, n + j - i - offset], table (2 n + 1) or (Hq, 2 n + 1) floating: one number for each distance
    from -n to n; farther keys have that of the end (Raffel et al. 2020, 2.1, without its buckets).

    attention_backward() gives the table's gradient, (1 or Hq, 2 n + 1), in .score_mod. A torch tensor that requires
    grad is not copied as other tables are: each call takes its numbers of that moment, and torch gets its gradient.
    """
    return _made("relative_bias", (table,), (offset,))


def causal(*, offset: int = 0) -> ScoreMod:
    """Hides keys j > i + offset."""
    return _made("causal", places=(offset,))


def sliding_window(left: int, right: int = 0, *, offset: int = 0) -> ScoreMod:
    """Hides all but the keys i + offset - left to i + offset + right; both from 0 on."""
    return _made("sliding_window", places=(left, right, offset))


def prefix(length: int, *, offset: int = 0) -> ScoreMod:
    """Hides keys j > i + offset, but for the first `length`, which everyone sees."""
    return _made("prefix", places=(length, offset))


def dilated(step: int, *, offset: int = 0) -> ScoreMod:
    """Hides all keys but those whose distance from i + offset is a multiple of `step`, which is 1 at least."""
    return _made("dilated", places=(step, offset))


def documents(query_ids: Array, key_ids: Array | None = None) -> ScoreMod:
    """Hides keys of other documents: pairs whose ids differ.

    query_ids  (Lq) or (B, Lq) int32 or int64, for as many queries at most
    key_ids    (Lk) or (B, Lk), likewise; default: query_ids
    """
    return _made("documents", (query_ids, key_ids))


def padding(lengths: Array) -> ScoreMod:
    """Hides keys j >= lengths[b], lengths (B) int32 or int64."""
    return _made("padding", (lengths,))


def function(f: Callable[..., Any], derivative: Callable[..., Any] | None = None) -> ScoreMod:
    """A Python function f(score, b, h, q_idx, kv_idx) -> score, called for each tile of scores, one at a time.

    score          (queries, keys) of a tile at most 64 x 64, float32 or float64, as the call computes
    b, h           the entry and the query head, int
    q_idx, kv_idx  (queries, 1) and (1, keys) int64
    derivative     called likewise: d f / d score; attention_backward() needs it

    Both give what broadcasts to score's shape. What they raise, the call raises.
    """
    return ScoreMod([Part("function", native=_heed.function(f, derivative))])


def _made(name: str, tables: tuple[Any, ...] = (), places: tuple[Any, ...] = (),
          factors: tuple[Any, ...] = ()) -> ScoreMod:
    """With copies of the tables, which nobody changes; one whose gradient torch waits for stays in torch's graph."""
    tables = tuple(map(_readable, tables))
    part = Part(name, tables, places, factors)
    try:
        native = part.made()
        tables = tuple(map(_copy, tables))
    except _heed.RequiresGrad:
        if not learns(part):
            raise
        native = None
        part.detached().made()  # refuses what does not fit
    except _heed.Watched:  # a table in a trace or a transform: the call that follows is part of it
        native = None
    return ScoreMod([Part(name, tables, tuple(map(int, places)), tuple(map(float, factors)), native)])


def _readable(table: Any) -> Any:
    """An array that can be read twice: an object with DLPack alone may give its memory only once."""
    import numpy as np
    try:
        known = table is None or isinstance(table, np.ndarray) or hasattr(table, "clone") or not hasattr(table, "__dlpack__")
        return table if known else np.from_dlpack(table)
    except Exception:  # what NumPy cannot read, heed may, or refuses with its own message
        return table


def _copy(table: Any) -> Any:
    import numpy as np
    if table is None:
        return None
    if hasattr(table, "clone"):  # torch's
        return table.clone()
    copied = np.array(table)
    if copied.dtype == object:
        raise TypeError(f"heed.mods: NumPy cannot read a table of type {type(table).__name__}; pass a NumPy array")
    return copied


def _made_in_a_graph(name: str, tables: tuple[Any, ...] = (), places: tuple[Any, ...] = (),
                     factors: tuple[Any, ...] = ()) -> ScoreMod:
    return ScoreMod([Part(name, tables, places, factors)])


_made._torchdynamo_inline = _made_in_a_graph  # type: ignore[attr-defined]  # torch.compile cannot see into _heed
