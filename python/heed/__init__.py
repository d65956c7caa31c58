"""Attention: softmax(scores) V and its gradients, fused, on NumPy's arrays and whatever else has DLPack.

    out = heed.attention(q, k, v, causal=True)                       # q (B, Hq, Lq, D), k and v (B, Hkv, Lk, .)
    r = heed.attention(q, k, v, causal=True, return_lse=True)        # r.out, r.lse
    g = heed.attention_backward(grad, q, k, v, r)                    # g.q, g.k, g.v

What does not fit is an exception that says the rule and the remedy. Calls release the GIL and share one pool of
threads: HEED_NUM_THREADS when heed is imported, set_num_threads() later.
"""
import os

from ._attention import (AttentionGradients, AttentionResult, attention, attention_backward, explain,
                         get_num_threads, merge, set_num_threads)
from ._heed import FormatError, IoError, ShapeError, version as __version__

__all__ = ["AttentionGradients", "AttentionResult", "FormatError", "IoError", "ShapeError", "attention",
           "attention_backward", "explain", "get_num_threads", "merge", "set_num_threads"]

for _public in (FormatError, IoError, ShapeError):  # as users write them, in tracebacks and in pickles
    _public.__module__ = "heed"

if _threads := os.environ.get("HEED_NUM_THREADS"):
    if not _threads.isdecimal():
        raise ValueError(f"HEED_NUM_THREADS is {_threads!r}; set it to a number, 0 for one thread per hardware thread")
    set_num_threads(int(_threads))
