"""torch's own name for attention."""
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from .._attention import Causal
from .._heed import ShapeError, torch_watches
from ._attention import attention


def scaled_dot_product_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                                 attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention, computed by heed, forward and backward.

    query       (..., L, E) on the CPU, of any rank from 2 on, any strides
    key, value  (..., S, E) and (..., S, Ev); leading dimensions broadcast
    attn_mask   broadcasts to (..., L, S): boolean, true takes part, or floating, added to the scores; or
                torch.nn.attention.bias.causal_upper_left(L, S) or causal_lower_right(L, S); not beside is_causal
    dropout_p   probability of dropping a weight, in [0, 1], drawn after torch.manual_seed()
    is_causal   query i sees keys j <= i
    scale       factor on the scores; default 1 / sqrt(E)
    enable_gqa  (..., Hq, L, E) over (..., H, S, E), Hq a multiple of H: query head h reads key head h / (Hq / H)

    Returns (..., L, Ev), of the dtype of query and in its order of dimensions. Raises ShapeError where torch raises
    RuntimeError. Jagged nested tensors (B, H, ragged L, E) with one length for query, key and value are computed
    without padding, without attn_mask and enable_gqa. Beside torch's: the draws of dropout are heed's own.
    """
    query, key, value = _same_kind(query, key, value)
    if query.is_nested or key.is_nested or value.is_nested:
        return _nested(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    rank = max(query.dim(), key.dim(), value.dim())
    if min(query.dim(), key.dim(), value.dim()) < (3 if enable_gqa else 2):
        raise _refused(f"query, key and value have {query.dim()}, {key.dim()} and {value.dim()} dimensions",
                       "pass (..., H, L, E)" if enable_gqa else "pass (..., L, E)")
    if is_causal and attn_mask is not None:
        raise _refused("is_causal is set beside attn_mask", "pass one of them")
    if not 0 <= dropout_p <= 1:
        raise _refused(f"dropout_p is {dropout_p}", "pass a probability in [0, 1]")
    if rank != 4 or not enable_gqa:
        query, key, value = broadcast(query, key, value, 3 if enable_gqa else 2)
    if enable_gqa and key.shape[-3] != value.shape[-3]:
        key, value = _heads_of(query, key), _heads_of(query, value)
    lead, width = query.shape[:-2], query.shape[-1]
    causal: Causal = bool(is_causal)
    if attn_mask is not None:
        if is_causal_bias(attn_mask):
            attn_mask, causal = None, _causal_rule(attn_mask, query.shape[-2], key.shape[-2])
        else:
            attn_mask = _mask(attn_mask, query, (*lead, query.shape[-2], key.shape[-2]))
    if width == 0:  # all scores are 0
        query, key = (torch.nn.functional.pad(x, (0, 1)) for x in (query, key))
        scale = 1.0
    drops = 0 < dropout_p < 1
    out: torch.Tensor = attention(_four_dimensions(query), _four_dimensions(key), _four_dimensions(value), attn_mask,
                                  causal, scale=scale, dropout_p=dropout_p if drops else 0.0,
                                  seed=torch_seed() if drops else 0)
    return (out * 0 if dropout_p == 1 else out).reshape(*lead, *out.shape[-2:])


def _refused(what: str, remedy: str) -> ShapeError:
    return ShapeError(f"scaled_dot_product_attention: {what}; {remedy}")


def _same_kind(*operands: torch.Tensor) -> Any:
    for name, x in zip(("query", "key", "value"), operands):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"scaled_dot_product_attention: {name} is a {type(x).__name__}; pass a torch tensor")
    if torch.is_autocast_enabled("cpu"):
        return (x.to(torch.get_autocast_dtype("cpu")) if x.dtype == torch.float32 else x for x in operands)
    return operands


def broadcast(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, inner: int) -> Any:
    """The three with the same dimensions before the last `inner`."""
    operands = query, key, value
    leads = [x.shape[:-inner] for x in operands]
    if leads[0] == leads[1] == leads[2]:
        return operands
    try:
        lead = torch.broadcast_shapes(*leads)  # type: ignore[no-untyped-call,unused-ignore]
    except RuntimeError:
        shapes = ", ".join(str(tuple(x.shape)) for x in operands)
        raise _refused(f"the leading dimensions of {shapes} do not broadcast",
                       "pass equal ones, or ones of 1; heads may differ with enable_gqa") from None
    return (x.expand(*lead, *x.shape[-inner:]) for x in operands)


def _heads_of(query: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    heads = x.shape[-3]
    if heads == 0 or query.shape[-3] % heads:
        raise _refused(f"{query.shape[-3]} query heads are not a multiple of {heads}",
                       "pass a number that divides them")
    return x.repeat_interleave(query.shape[-3] // heads, dim=-3)


def is_causal_bias(mask: Any) -> bool:
    """Whether it is a CausalBias, by name: importing torch.nn.attention.bias takes seconds."""
    kind = type(mask)
    return (kind is not torch.Tensor and kind.__name__ == "CausalBias"
            and kind.__module__ == "torch.nn.attention.bias")


def _causal_rule(bias: Any, queries: int, keys: int) -> Causal:
    """The rule of a CausalBias, whose memory holds no mask. Raises ShapeError for sizes that are not the call's."""
    variant = getattr(bias, "variant", None)
    if variant not in (1, 2):  # UPPER_LEFT, LOWER_RIGHT
        raise _refused("attn_mask was computed from a CausalBias and has no rule", "pass the CausalBias itself")
    if (bias.seq_len_q, bias.seq_len_kv) != (queries, keys):
        raise _refused(f"attn_mask is a CausalBias of {bias.seq_len_q} queries and {bias.seq_len_kv} keys, and the call "
                       f"has {queries} and {keys}", f"pass one of ({queries}, {keys})")
    return "top_left" if variant == 1 else "bottom_right"


def _mask(mask: torch.Tensor, query: torch.Tensor, scores: tuple[int, ...]) -> torch.Tensor:
    """As heed takes it: right-aligned to (B, H, L, S)."""
    if not isinstance(mask, torch.Tensor):
        raise TypeError(f"scaled_dot_product_attention: attn_mask is a {type(mask).__name__}; pass a torch tensor")
    if mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise _refused(f"attn_mask is {mask.dtype}, query {query.dtype}",
                       "pass a mask of bool, float32 or query's dtype")
    if mask.dim() > len(scores) or any(m not in (1, s) for m, s in zip(mask.shape[::-1], scores[::-1])):
        raise _refused(f"attn_mask has shape {tuple(mask.shape)}", f"pass one that broadcasts to {scores}")
    if query.dtype == torch.float64 and mask.dtype == torch.float32:
        mask = mask.double()
    if mask.dim() >= 4 and len(scores) > 4:  # what is before the heads becomes one dimension, of scores too
        if any(m != 1 for m in mask.shape[:-3]):
            mask = mask.expand(*scores[:-3], *mask.shape[-3:])
        mask = mask.flatten(0, -4)
    return mask


def _nested(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, dropout_p: float, is_causal: bool,
            scale: float | None, enable_gqa: bool) -> torch.Tensor:
    """Of jagged tensors: their values are a ragged batch."""
    operands = query, key, value
    if not all(x.is_nested and x.layout == torch.jagged and x.dim() == 4 and x._ragged_idx == 2  # type: ignore[attr-defined,unused-ignore]
               and x.lengths() is None for x in operands):  # type: ignore[attr-defined,unused-ignore]
        raise _refused("query, key and value are not all jagged nested tensors (B, H, ragged L, E) without holes",
                       "pass such ones, dense tensors, or their values with q_offsets and k_offsets to heed.attention")
    if mask is not None or enable_gqa:
        raise _refused("attn_mask and enable_gqa are not for nested tensors", "pass dense tensors")
    drops = 0 < dropout_p < 1
    q, k, v = (innermost_one(x.values().transpose(0, 1)) for x in operands)  # (T, H, E)
    offsets: Any = query.offsets()  # type: ignore[attr-defined,unused-ignore]
    out = attention(q, k, v, None, bool(is_causal), scale=scale, q_offsets=offsets, k_offsets=key.offsets(),  # type: ignore[attr-defined,unused-ignore]
                    dropout_p=dropout_p if drops else 0.0, seed=torch_seed() if drops else 0)
    out = out * 0 if dropout_p == 1 else out
    return torch.nested.nested_tensor_from_jagged(out.transpose(0, 1), offsets, jagged_dim=2)


def _four_dimensions(x: torch.Tensor) -> torch.Tensor:
    """(..., L, E) -> (B, H, L, E)."""
    if x.dim() != 4:
        x = x.flatten(0, -4) if x.dim() > 4 else x[(None,) * (4 - x.dim())]
    return innermost_one(x)


def innermost_one(x: torch.Tensor) -> torch.Tensor:
    """With an innermost stride of 1, copied where it has another."""
    return x if x.stride(-1) == 1 else x.clone(memory_format=torch.contiguous_format)


def torch_seed() -> Any:
    """Of heed's dropout, drawn from torch's default generator: an integer, which a graph does not know beforehand."""
    seed = torch.randint(2**63 - 1, ())
    return seed if torch.compiler.is_compiling() or torch_watches() else int(seed)
