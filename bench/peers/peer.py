"""What every peer of attention shares: made inputs, and the check of what a peer computed.

A peer is a program that calls serve(name, version, variants). variants(request, inputs) yields (name, call, result):
call() runs the operation once, result() gives the output of the last call as a float32 array (B, Hq, Lq, D), or of a
ragged batch a list of arrays (Hq, n, D). The fastest variant whose output is right is the one that is timed.
"""
import types

import numpy as np

import protocol
from protocol import Unsupported


def parse(request):
    default = {"B": 1, "Hq": 1, "Hkv": 1, "Lq": 1, "Lk": 1, "D": 1, "causal": False, "window": -1, "backward": False,
               "dtype": "f32", "lengths": [], "threads": 1, "quick": False}
    return types.SimpleNamespace(**{**default, **request})


def make_inputs(r):
    """q, k, v and the gradient of the output, float32, (B, H, L, D); ragged batches are padded with zeros."""
    generator = np.random.default_rng(1)

    def noise(heads, length):
        x = generator.uniform(-1, 1, (r.B, heads, length, r.D)).astype(np.float32)
        for b, n in enumerate(r.lengths):
            x[b, :, n:] = 0
        return x
    return types.SimpleNamespace(q=noise(r.Hq, r.Lq), k=noise(r.Hkv, r.Lk), v=noise(r.Hkv, r.Lk), g=noise(r.Hq, r.Lq))


def visible(r, i, length_q, length_k):
    """First and last + 1 key that query i may see."""
    end = i + length_k - length_q + 1 if r.causal else length_k
    return (0 if r.window < 0 else max(0, end - r.window)), end


def banded(r):
    """(Lq, Lk) boolean: true where a key may be attended."""
    i = np.arange(r.Lq)[:, None] + r.Lk - r.Lq
    j = np.arange(r.Lk)[None, :]
    open_ = np.ones((r.Lq, r.Lk), bool)
    if r.causal:
        open_ &= j <= i
    if r.window >= 0:
        open_ &= j > i - r.window
    return open_


def padding(r):
    """(B, Lk) boolean: true where there is a token."""
    return np.arange(r.Lk)[None, :] < np.array(r.lengths)[:, None]


def error_of(r, x, out):
    """Largest difference from the formula in float64, over some rows of the first and the last head."""
    worst = 0.0
    for b, h in {(0, 0), (r.B - 1, r.Hq - 1)}:
        n_q, n_k = (r.lengths[b], r.lengths[b]) if r.lengths else (r.Lq, r.Lk)
        kv = h // (r.Hq // r.Hkv)
        for i in {0, n_q // 2, n_q - 1}:
            begin, end = visible(r, i, n_q, n_k)
            scores = x.k[b, kv, begin:end].astype(np.float64) @ x.q[b, h, i].astype(np.float64) / np.sqrt(r.D)
            weights = np.exp(scores - scores.max())
            expected = weights @ x.v[b, kv, begin:end].astype(np.float64) / weights.sum()
            worst = max(worst, float(np.abs(np.asarray(out[b][h][i], np.float64) - expected).max()))
    return worst


def checked(r, x, variants):
    for name, call, result in variants(r, x):
        def check(result=result):
            error = error_of(r, x, result()) if result else 0.0
            if not error < (5e-4 if r.dtype == "f32" else 3e-2):
                raise Unsupported(f"wrong by {error:.1e}")
        yield name, call, check


def serve(name, version, variants):
    def choose(request):
        r = parse(request)
        return protocol.fastest(checked(r, make_inputs(r), variants))
    protocol.serve(name, version, choose)
