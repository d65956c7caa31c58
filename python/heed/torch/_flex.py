"""torch's flex_attention, with functions that run inside of heed's kernels."""
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from .. import _attention as heed
from .._heed import BlockMask, ShapeError
from ._attention import attention
from ._sdpa import innermost_one


def flex_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                   score_mod: heed.ScoreFunction | None = None, block_mask: BlockMask | None = None,
                   scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False) -> Any:
    """torch.nn.attention.flex_attention.flex_attention on the CPU, fused, forward and backward, without a compiler.

    query       (B, Hq, L, E); key (B, H, S, E); value (B, H, S, Ev), any strides
    score_mod   one of heed.mods, or several joined by |, with gradients of query, key, value and tables of
                relative_bias; or a Python function of (score, b, h, q_idx, kv_idx), which gets NumPy arrays, runs tile
                by tile and has no gradient unless heed.mods.function() brings it
    block_mask  of heed.block_mask(): whole tiles that it hides are skipped
    scale       factor on the scores; default 1 / sqrt(E)
    enable_gqa  Hq may be a multiple of H

    Returns (B, Hq, L, Ev), with return_lse also (B, Hq, L), the log of the sum of exp of each row's scores. Raises
    ShapeError, and TypeError for a block mask of torch's.
    """
    if block_mask is not None and not isinstance(block_mask, BlockMask):
        raise TypeError(f"flex_attention: block_mask is a {type(block_mask).__name__}; pass heed.block_mask(mask, L, "
                        "S) of its function")
    if not enable_gqa and query.dim() == key.dim() == 4 and query.shape[1] != key.shape[1]:
        raise ShapeError(f"flex_attention: {query.shape[1]} query heads over {key.shape[1]}; pass enable_gqa=True")
    r = attention(innermost_one(query), innermost_one(key), innermost_one(value), scale=scale, score_mod=score_mod,
                  block_mask=block_mask, return_lse=True)
    return (r.out, r.lse) if return_lse else r.out
