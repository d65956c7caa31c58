"""Layers record themselves on a tape, as docs/cpp.md has it."""
import numpy as np
from heed import nn
from heed.nn import functional as F

nn.manual_seed(1)
layer = nn.MultiheadAttention(embed_dim=256, num_heads=8)
x = np.random.default_rng(0).standard_normal((4, 10, 256)).astype(np.float32)  # (B, L, E)
record = nn.HeadRecord()                                                       # keeps the weights: (B, heads, L, L)
y = layer(x, x, x, causal=True, record=record)
F.sum(y).backward()
gradient = layer.in_proj_weight.grad                                           # (3 * E, E)
print(y.shape, gradient.shape, record.weights.shape)
