"""Attention as its formula reads, in float64."""
import numpy as np


def attention(q, k, v, mask=None, causal=False, *, scale=None, window=None, softcap=0.0, alibi=None, sinks=None,
              key_lengths=None, offset=0):
    """(out, lse, weights, masked scores) of q (B, Hq, Lq, D), k (B, Hkv, Lk, D) and v (B, Hkv, Lk, Dv)."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    (batch, heads, queries, size), keys = q.shape, k.shape[2]
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    scores = q @ np.swapaxes(k, 2, 3) * (1 / np.sqrt(size) if scale is None else scale)
    if softcap:  # None and 0 are off
        scores = softcap * np.tanh(scores / softcap)
    seen = np.full(batch, keys) if key_lengths is None else np.asarray(key_lengths)
    seen = seen[:, None, None, None]
    place = np.arange(queries)[:, None] + (seen - queries if causal == "bottom_right" else offset)
    key = np.arange(keys)
    visible = np.broadcast_to(key < seen, scores.shape)
    if causal:
        visible = visible & (key <= place)
    left, right = (-1 if keys is None else keys for keys in window or (-1, -1))
    if left >= 0:
        visible = visible & (key >= place - left)
    if right >= 0:
        visible = visible & (key <= place + right)
    if alibi is not None:
        scores = scores - np.asarray(alibi, np.float64)[:, None, None] * np.abs(place - key)
    if mask is not None:
        missing = keys - mask.shape[-1] if mask.shape[-1] > 1 else 0
        if mask.dtype == bool:
            visible = visible & np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)])
        else:
            scores = scores + np.pad(np.asarray(mask, np.float64), [(0, 0)] * (mask.ndim - 1) + [(0, missing)],
                                     constant_values=-np.inf)
    scores = np.where(visible, scores, -np.inf)
    sink = np.full(heads, -np.inf) if sinks is None else np.asarray(sinks, np.float64)
    logits = np.concatenate([scores, np.broadcast_to(sink[:, None, None], (batch, heads, queries, 1))], axis=3)
    highest = logits.max(axis=3, keepdims=True)
    shift = np.where(np.isfinite(highest), highest, 0)
    terms = np.exp(logits - shift)
    total = terms.sum(axis=3, keepdims=True)
    weights = terms[..., :-1] / np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        lse = (shift + np.log(total))[..., 0]
    return weights @ v, lse, weights, scores
