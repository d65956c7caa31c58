"""heed under torch: attention that torch can differentiate, by the names that torch gives it.

    out = heed.torch.scaled_dot_product_attention(q, k, v, is_causal=True)
    r = heed.torch.attention(q, k, v, window=(64, 0), return_lse=True)    # r.out and r.lse have gradients

    with heed.torch.patch():                                              # or in torch's own place
        model(x).loss.backward()
"""
from . import _operator as _operator  # which torch then knows
from ._attention import attention
from ._flex import flex_attention
from ._multihead import MultiheadAttention
from ._patch import Calls, Patch, patch, patched_calls, unpatch, use_torch_threads
from ._sdpa import scaled_dot_product_attention

use_torch_threads()

__all__ = ["Calls", "MultiheadAttention", "Patch", "attention", "flex_attention", "patch",
           "patched_calls", "scaled_dot_product_attention", "unpatch"]
