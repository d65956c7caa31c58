"""What torch.compile, torch.export, traces, dispatch modes and transforms follow in the place of attention(), whose
inside they cannot see."""
import functools
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]

from torch.autograd import forward_ad  # type: ignore[import-not-found,unused-ignore]

from .. import _attention as heed
from .._heed import ShapeError
from .._score_mod import ScoreMod
from . import _attention, _operator
from ._attention import NO_TANGENTS, refuse_gradients

_REASON = ("heed: out=, a block_mask, a Python function, top_p below 1, weights of a ragged batch and arrays that are "
           "no torch tensors cannot be part of a graph")


@functools.partial(torch.compiler.disable, reason=_REASON)
def outside(*operands: Any, **options: Any) -> Any:
    return heed.attention(*operands, **options)


@functools.partial(torch.compiler.disable, reason=_REASON)
def outside_torch(*operands: Any, **options: Any) -> Any:
    return _attention.attention(*operands, **options)


_SPELLED = "top_left", "top-left", "bottom_right", "bottom-right"  # the causal rules


def attention(eager: Any, *operands: Any, **options: Any) -> Any:
    """The operator; `eager`, outside of the graph, where something cannot be an operator's argument."""
    if not _fits(*operands, **options):
        return eager(*operands, **options)
    return _call(_operator.forward, *operands, **options)


def followed(*operands: Any, **options: Any) -> Any:
    """The operator in a trace, under a dispatch mode or in a transform of torch.func. Raises ShapeError for what cannot
    be an operator's argument, NotImplementedError for dual tensors."""
    if not _fits(*operands, **options):
        raise ShapeError("attention: a trace, a dispatch mode or a transform of torch.func follows this call, and cannot "
                         "take out=, a block_mask, a Python function, top_p below 1, weights of a ragged batch or arrays "
                         "that are no torch tensors; leave them out, or call it outside of these")
    if torch._C._are_functorch_transforms_active():
        from . import _transforms
        return _call(_transforms.forward, *operands, **options)
    if forward_ad._current_level >= 0:
        tables = (table for part in _parts(options.get("score_mod")) for table in part.tables)
        unpack: Any = forward_ad.unpack_dual
        for x in (*operands, *options.values(), *tables):
            if isinstance(x, torch.Tensor) and unpack(x).tangent is not None:
                raise NotImplementedError(NO_TANGENTS)
    return _call(_operator.forward, *operands, **options)


def _fits(q: Any, k: Any, v: Any, mask: Any = None, causal: Any = False, *, score_mod: Any = None,
          block_mask: Any = None, q_offsets: Any = None, k_offsets: Any = None, alibi: Any = None, sinks: Any = None,
          key_lengths: Any = None, out: Any = None, return_scores: Any = None, return_weights: Any = False,
          **others: Any) -> bool:
    arrays = mask, alibi, sinks, key_lengths, q_offsets, k_offsets
    ragged = q_offsets is not None or k_offsets is not None
    largest = isinstance(return_weights, heed.Select) and return_weights.top_p < 1
    return (out is None and block_mask is None and not largest
            and (causal is None or causal in (_SPELLED if isinstance(causal, str) else (False, True))
                 and isinstance(causal, (str, int, np.bool_, np.integer)))
            and not (ragged and (return_weights or return_scores is not None))
            and (score_mod is None or isinstance(score_mod, ScoreMod))
            and all(part.name != "function" for part in _parts(score_mod))
            and all(isinstance(x, torch.Tensor) for x in (q, k, v))
            and all(x is None or isinstance(x, torch.Tensor) for x in arrays))


def _call(forward: Any, q: Any, k: Any, v: Any, mask: Any = None, causal: Any = False, *, scale: Any = None,
          window: Any = None, softcap: Any = 0.0, alibi: Any = None, sinks: Any = None, score_mod: Any = None,
          block_mask: None = None, key_lengths: Any = None, offset: Any = 0, q_offsets: Any = None,
          k_offsets: Any = None, dropout_p: Any = 0.0, seed: Any = 0, out: None = None, return_lse: Any = False,
          return_scores: Any = None, return_weights: Any = False) -> Any:
    parts = _parts(score_mod)
    if torch.is_grad_enabled():
        refuse_gradients({"alibi": alibi})
        for part in parts:
            if part.name == "alibi":
                refuse_gradients({"score_mod": part.tables[0]})
    if not dropout_p:
        seed = None
    elif not isinstance(seed, torch.Tensor):
        seed = torch.tensor(seed - 2**64 if seed >= 2**63 else seed)
    tables = [torch.as_tensor(part.tables[0] if table is None else table) for part in parts for table in part.tables]
    select = return_weights if isinstance(return_weights, heed.Select) else heed.Select()
    if window is not None:
        window = [-1 if keys is None else keys for keys in window]
    result, lse, low, scores, weights = forward(
        q, k, v, mask, sinks, alibi, key_lengths, q_offsets, k_offsets, seed, tables,
        causal in _SPELLED[:2] if isinstance(causal, str) else bool(causal), causal in _SPELLED[2:], scale, window,
        0.0 if softcap is None else softcap, offset, dropout_p, ",".join(part.name for part in parts),
        [x for part in parts for x in part.places], [x for part in parts for x in part.factors], return_scores,
        bool(return_weights), select.heads, select.rows)
    if not (return_lse or return_weights or return_scores is not None):
        return result
    return heed.AttentionResult(result, lse if return_lse else None, weights if return_weights else None,
                                None if return_scores is None else scores, lse_low=low if return_lse else None)


def _parts(score_mod: Any) -> Any:
    return score_mod._parts if isinstance(score_mod, ScoreMod) else ()
