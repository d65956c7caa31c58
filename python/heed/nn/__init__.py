"""Layers on a tape: build a model, train it, look at its attention, with NumPy alone.

    from heed import nn
    from heed.nn import functional as F

    layer = nn.MultiheadAttention(256, 8)
    record = nn.HeadRecord()
    y = layer(x, x, x, causal=True, record=record)     # x (B, L, E), a NumPy array or a Variable
    F.sum(y).backward()                                # layer.in_proj_weight.grad, record.weights

Operations and layers take arrays and Variables and give Variables, whose values numpy() shows without a copy. All is
float32 or, after module.to("float64"), float64. Each has its gradient; the tape records while some input requires one.

Calls release the GIL. Random numbers (first values of parameters, dropout) are those of this thread's generator, which
manual_seed() starts anew; results are the same bits for any number of threads.
"""
from __future__ import annotations

import contextlib
import types
from typing import Any

from .. import _heed
from .._heed import (AdamW, AttentionRecord, Embedding, FeedForward, HeadRecord, Hypothesis, ImageEncoder,
                     LanguageModel, LayerNorm, LearningRate, Linear, LowRankAdapters, Module, MultiheadAttention, Norm,
                     RMSNorm, SinusoidalPositions, SpeechTransformer, TextEncoder, TokenBatch, Transformer,
                     TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer, Variable)

__all__ = ["AdamW", "AttentionRecord", "Embedding", "FeedForward", "HeadRecord", "Hypothesis", "ImageEncoder",
           "LanguageModel", "LayerNorm", "LearningRate", "Linear", "LowRankAdapters", "Module", "MultiheadAttention",
           "Norm", "RMSNorm", "SinusoidalPositions", "SpeechTransformer", "TextEncoder", "TokenBatch", "Transformer",
           "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "Variable",
           "clip_scale", "functional", "manual_seed", "no_grad"]

for _name in __all__:
    if isinstance(_class := getattr(_heed, _name, None), type):
        _class.__module__ = "heed.nn"  # as users write them


def _module_of(kind: type[Module], *parts: Any) -> Module:
    """What pickle and copy call."""
    module = kind.__new__(kind)
    _heed.restore_module(module, *parts)
    return module


class no_grad(contextlib.ContextDecorator):
    """While it lasts, this thread records nothing: with nn.no_grad(): ..., or @nn.no_grad() over a function."""

    def __init__(self) -> None:
        self._held: list[_heed.NoGrad] = []

    def __enter__(self) -> None:
        self._held.append(_heed.NoGrad())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: types.TracebackType | None) -> None:
        self._held.pop()


def manual_seed(seed: int) -> None:
    """Starts this thread's generator anew: first values of parameters and dropout follow. 0 at the start."""
    _heed.manual_seed(seed)


def clip_scale(norm: float, limit: float) -> float:
    """What to multiply gradients with so that their norm is at most `limit`; 1 when the limit is 0.

    optimiser.step(rate, clip_scale(optimiser.gradient_norm(), 1.0))
    """
    return _heed.clip_scale(norm, limit)


from . import functional  # noqa: E402  needs the names above
