"""heed in Hugging Face's transformers: importing this module registers "heed" as attention and as mask.

    import heed.transformers
    model.set_attn_implementation("heed")
    maps = model(**inputs, output_attentions=True).attentions     # on the fused path

    with heed.transformers.record(model) as maps:                 # also while it generates
        model.generate(**inputs)
"""
import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found,unused-ignore]
from transformers import (  # type: ignore[import-not-found,unused-ignore]
    AttentionInterface, AttentionMaskInterface, PreTrainedModel)
from transformers.masking_utils import eager_mask, sdpa_mask  # type: ignore[import-not-found,unused-ignore]
from transformers.utils import output_capturing  # type: ignore[import-not-found,unused-ignore]

from ._attention import Select, TopWeights
from .torch._attention import attention
from .torch._sdpa import broadcast, innermost_one, torch_seed

__all__ = ["Map", "attention_forward", "record"]


class Map(NamedTuple):
    """The weights of one call of one attention module."""

    module: str  # "model.layers.0.self_attn"
    weights: torch.Tensor | TopWeights[torch.Tensor]  # (B, Hq, Lq, Lk) of the compute type, or what a Select leaves


class _Recorder(NamedTuple):
    names: dict[int, str]  # of modules by their id()
    select: bool | Select
    maps: list[Map]


_recorders: list[_Recorder] = []


@contextlib.contextmanager
def record(model: PreTrainedModel, select: bool | Select = True) -> Iterator[list[Map]]:
    """Keeps the weights of every call of the model's attention, in a list that grows as they come.

        with heed.transformers.record(model) as maps:
            model.generate(**inputs)
        maps[0].module, maps[0].weights       # "model.layers.0.self_attn", (B, Hq, Lq, Lk)

    select  a heed.Select keeps a part of the weights; default: all

    Each step of generate() adds a map for each module: those of the prompt first, with all its queries, then one query
    at a time. What gradient checkpointing computes again adds none. Raises ValueError for a model whose attention is
    not heed's.
    """
    if model.config._attn_implementation != "heed":
        raise ValueError(f"record: the attention of the model is {model.config._attn_implementation!r}; call "
                         "model.set_attn_implementation('heed')")
    recorder = _Recorder({id(module): name for name, module in model.named_modules()}, select, [])
    _recorders.append(recorder)
    try:
        yield recorder.maps
    finally:
        _recorders[:] = [other for other in _recorders if other is not recorder]


def attention_forward(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                      attention_mask: torch.Tensor | None, dropout: float = 0.0, scaling: float | None = None,
                      is_causal: bool | None = None, position_bias: torch.Tensor | None = None,
                      softcap: float | None = None, s_aux: torch.Tensor | None = None,
                      sinks: torch.Tensor | None = None, indices: torch.Tensor | None = None,
                      block_indices: torch.Tensor | None = None, cache: Any = None,
                      **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What transformers calls for the attention "heed": query (B, Hq, L, D), key and value (B, Hkv, S, .).

    attention_mask  broadcasts to (B, Hq, L, S), boolean, true may be attended, or added to the scores; it has the
                    sliding window of layers that have one. Without it the rule of the module's is_causal holds
    position_bias   broadcasts likewise; added to the scores, with a gradient
    softcap, s_aux  softcap and sinks of heed.attention()
    sinks           (B, Hq, L, 1), a sink for each query (Inkling 2)
    indices         (B, L, K), the keys that each query attends to, of those that the mask leaves (DeepSeek V3.2)
    block_indices   (B, ., L, K), the blocks of keys, as the module's indexer reads them (MiniMax M3)

    Returns (B, L, Hq, Dv), and the weights (B, Hq, L, S), before dropout, where the model was called with
    output_attentions=True. Raises ValueError for the paged cache of continuous batching, and for a heed.Select of
    weights that have a sink for each query.
    """
    if cache is not None:
        raise ValueError("heed: the paged cache of continuous batching is not supported; call "
                         "model.set_attn_implementation('sdpa') for it")
    query, key, value = map(innermost_one, broadcast(query, key, value, 3))
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if indices is not None:
        chosen = indices.new_zeros((*indices.shape[:2], key.shape[2]), dtype=torch.bool)
        attention_mask = _both(attention_mask, chosen.scatter(-1, indices.long(), True).unsqueeze(1))
    if block_indices is not None:
        positions = kwargs.get("position_ids")
        if positions is None:
            positions = torch.arange(key.shape[2] - query.shape[2], key.shape[2], device=query.device)
        positions = positions.reshape(-1, query.shape[2]).expand(query.shape[0], -1)
        attention_mask = module.indexer.build_block_mask(block_indices, attention_mask, key.shape[2], query.dtype,
                                                         query.device, positions)
        causal = False  # which this mask has
    compute = torch.float64 if query.dtype == torch.float64 else torch.float32
    options: dict[str, Any] = {"scale": scaling, "softcap": softcap or 0.0,
                               "sinks": None if s_aux is None else s_aux.to(compute)}
    if dropout:
        options.update(dropout_p=dropout, seed=torch_seed())
    operands = query, key, value, _with_bias(attention_mask, position_bias), causal
    returned = _weights_wanted(kwargs)
    recorders = [recorder for recorder in _recorders if id(module) in recorder.names]
    if recorders and _in_backward():
        recorders = []
    select = True if returned or not recorders else recorders[0].select
    if sinks is not None and any(recorder.select is not True for recorder in recorders):
        raise ValueError("heed: weights that have a sink for each query are recorded whole only; call record(model)")
    r = attention(*operands, return_lse=True, return_weights=select if returned or recorders else False, **options)
    out, weights = r.out, r.weights
    if sinks is not None:  # what they leave of each row's softmax
        share = torch.sigmoid(r.lse.unsqueeze(-1) - sinks.to(compute))
        out = (out * share).to(out.dtype)
        weights = None if weights is None else weights * share.detach()
    for recorder in recorders:
        with torch.no_grad():
            kept = r if recorder.select == select else attention(*operands, return_weights=recorder.select, **options)
        whole = weights if kept is r else kept.weights
        recorder.maps.append(Map(recorder.names[id(module)], kept.top if whole is None else whole.detach()))
    return out.transpose(1, 2).contiguous(), weights.to(query.dtype) if returned else None


def _in_backward() -> bool:
    """Whether gradient checkpointing computes the call again."""
    return bool(torch._C._current_graph_task_id() != -1)


def _both(mask: torch.Tensor | None, chosen: torch.Tensor) -> torch.Tensor:
    """What both a mask and a boolean one leave."""
    if mask is None:
        return chosen
    return mask & chosen if mask.dtype == torch.bool else mask.masked_fill(~chosen, -torch.inf)


def _with_bias(mask: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor | None:
    if bias is None or mask is None:
        return mask if bias is None else bias
    return torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else mask + bias


def _weights_wanted(kwargs: dict[str, Any]) -> bool:
    """Models pass the wish on to their layers, or leave it to hooks that collect what layers return."""
    collected: Any = output_capturing._active_collector.get()  # type: ignore[no-untyped-call,unused-ignore]
    return bool(kwargs.get("output_attentions")) or any("attentions" in key for key in collected or ())


def _mask(*args: Any, config: Any = None, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Any:
    """What transformers calls for the mask of attention "heed".

    A mask that is no more than causal may be left out: is_causal of the module stands for it, as with "sdpa". A model
    that transformers does not run with "sdpa" may rely on the whole mask that "eager" has: modules with a causal mask
    do not all say is_causal (BigBird-Pegasus), and others join the mask with a floating one (DeepSeek V4).
    """
    if _wants_whole_masks(type(config), getattr(config, "model_type", None)):
        return eager_mask(*args, config=config, dtype=dtype, **kwargs)
    return sdpa_mask(*args, config=config, dtype=dtype, **kwargs)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator,unused-ignore]
def _wants_whole_masks(config: type, model_type: str | None) -> bool:
    if config not in _whole_masks:
        package = config.__module__.rpartition(".")[0]
        models = list(PreTrainedModel.__subclasses__())
        for model in models:
            models += model.__subclasses__()
        _whole_masks[config] = model_type in _CUT_MASKS or model_type not in _CAUSAL_BY_MODULE and any(
            not model._supports_sdpa for model in models if model.__module__.rpartition(".")[0] == package)
    return _whole_masks[config]


_whole_masks: dict[type, bool] = {}
# Models without "sdpa" for other reasons, softcap and sinks, whose masks may be left out.
_CAUSAL_BY_MODULE = frozenset(("gemma2", "gpt_oss"))
# Models that drop queries of a mask, and ask for "sdpa" by its name before.
_CUT_MASKS = frozenset(("gemma4_text", "gemma4_unified_text"))

AttentionInterface.register("heed", attention_forward)
AttentionMaskInterface.register("heed", _mask)
