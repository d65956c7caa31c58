"""The operator and its gradients, as docs/cpp.md begins."""
import heed
import numpy as np

rng = np.random.default_rng(0)
q = rng.standard_normal((2, 8, 128, 64)).astype(np.float32)  # (B, Hq, Lq, D)
k = rng.standard_normal((2, 2, 160, 64)).astype(np.float32)  # (B, Hkv, Lk, D), Hq a multiple of Hkv
v = rng.standard_normal((2, 2, 160, 32)).astype(np.float32)  # (B, Hkv, Lk, Dv)
r = heed.attention(q, k, v, causal="bottom_right", return_lse=True, return_weights=True)  # r.weights (B, Hq, Lq, Lk)
g = heed.attention_backward(r.out, q, k, v, r)
print(r.out.shape, g.k.shape)
