"""What torch.compile and torch.export follow in the place of attention(), whose inside they cannot see."""
import functools
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from .. import _attention as heed
from .._score_mod import ScoreMod
from . import _attention, _operator

_REASON = ("heed: out=, a block_mask, a Python function, top_p below 1, weights of a ragged batch and arrays that are no "
           "torch tensors cannot be part of a graph")


@functools.partial(torch.compiler.disable, reason=_REASON)
def outside(*operands: Any, **options: Any) -> Any:
    return heed.attention(*operands, **options)


@functools.partial(torch.compiler.disable, reason=_REASON)
def outside_torch(*operands: Any, **options: Any) -> Any:
    return _attention.attention(*operands, **options)


def attention(eager: Any, q: Any, k: Any, v: Any, mask: Any = None, causal: Any = False, *,
              scale: Any = None, window: Any = None, softcap: Any = 0.0, alibi: Any = None, sinks: Any = None, score_mod: Any = None,
              block_mask: Any = None, key_lengths: Any = None, offset: Any = 0, q_offsets: Any = None,
              k_offsets: Any = None, dropout_p: Any = 0.0, seed: Any = 0, return_lse: Any = False,
              return_scores: Any = None, return_weights: Any = False, **others: Any) -> Any:
    """The operator; `eager`, outside of the graph, where something cannot be an operator's argument."""
    select = return_weights if isinstance(return_weights, heed.Select) else heed.Select()
    arrays = {"alibi": alibi, "key_lengths": key_lengths, "q_offsets": q_offsets, "k_offsets": k_offsets}
    ragged = q_offsets is not None or k_offsets is not None
    if (others or block_mask is not None or not _has_numbers(score_mod) or select.top_p < 1
            or not (isinstance(causal, bool) or causal == "bottom_right")
            or (ragged and (return_weights or return_scores is not None))
            or not all(isinstance(x, torch.Tensor) for x in (q, k, v))
            or not all(x is None or isinstance(x, torch.Tensor) for x in (mask, sinks, *arrays.values()))):
        return eager(
            q, k, v, mask, causal, **arrays, scale=scale, window=window, softcap=softcap, sinks=sinks,
            score_mod=score_mod, block_mask=block_mask, offset=offset, dropout_p=dropout_p, seed=seed,
            return_lse=return_lse, return_scores=return_scores, return_weights=return_weights, **others)
    parts = () if score_mod is None else score_mod._parts
    if torch.is_grad_enabled():
        _attention.refuse_gradients(arrays)
        for part in parts:
            if part.name == "alibi":
                _attention.refuse_gradients({"score_mod": part.tables[0]})
    if not dropout_p:
        seed = None
    elif not isinstance(seed, torch.Tensor):
        seed = torch.tensor(seed - 2**64 if seed >= 2**63 else seed)
    out, lse, scores, weights = torch.ops.heed.attention(
        q, k, v, mask, sinks, *arrays.values(), seed, [_tensor(x, part) for part in parts for x in part.tables],
        causal is True, causal == "bottom_right", scale, window, softcap, offset, dropout_p,
        [part.name for part in parts], [x for part in parts for x in part.places],
        [x for part in parts for x in part.factors], return_scores, bool(return_weights), select.heads, select.rows)
    if not (return_lse or return_weights or return_scores is not None):
        return out
    return heed.AttentionResult(out, lse if return_lse else None, weights if return_weights else None,
                                None if return_scores is None else scores)


def _has_numbers(score_mod: Any) -> bool:
    return score_mod is None or (isinstance(score_mod, ScoreMod)
                                 and all(part.name != "function" for part in score_mod._parts))


def _tensor(table: Any, part: Any) -> torch.Tensor:
    return torch.as_tensor(part.tables[0] if table is None else table)
