"""Multi-head attention for one sentence at a time, input_dim -> hidden_dim, with biases everywhere.

It returns its output and its weights. The layer of seed 003. Batched or not, the arithmetic is the same.
"""
import heed
import numpy as np
from heed import nn
from heed.nn import functional as F


class AttentionLayer(nn.Module):
    def __init__(self, input_dim, n_heads, hidden_dim):
        super().__init__()
        if hidden_dim % n_heads:
            raise heed.ShapeError(f"AttentionLayer: hidden_dim {hidden_dim} is not a multiple of {n_heads} heads; "
                                  "every head takes hidden_dim / n_heads of it")
        self.heads, self.size = n_heads, hidden_dim // n_heads
        self.q, self.k, self.v = (nn.Linear(input_dim, hidden_dim) for _ in range(3))
        self.mixing_proj = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        """x (L, input_dim), one sentence -> (L, hidden_dim) and weights (n_heads, L, L)."""
        output, weights = self.batched(F.reshape(x, (1, *x.shape)))
        return F.reshape(output, output.shape[1:]), weights[0]

    def batched(self, x):
        """x (B, L, input_dim) -> (B, L, hidden_dim) and weights (B, n_heads, L, L)."""
        q, k, v = (F.PackedHeads(part(x), 0, self.heads, self.size) for part in (self.q, self.k, self.v))
        merged, weights = F.packed_attention(q, k, v, return_weights=True)
        return self.mixing_proj(merged), weights


def batching_matters(layer, x):
    """The largest difference between sentences of x (B, L, input_dim) taken one by one and taken together."""
    output, weights = layer.batched(x)
    apart = []
    for b in range(len(x)):
        one, one_weights = layer(x[b])
        apart += [abs(one.numpy() - output.numpy()[b]).max(), abs(one_weights - weights[b]).max()]
    return max(apart)


nn.manual_seed(3)
length, input_dim, n_heads, hidden_dim = 5, 12, 4, 24
layer = AttentionLayer(input_dim, n_heads, hidden_dim)
sentences = np.random.default_rng(3).standard_normal((3, length, input_dim)).astype(np.float32)  # (B, L, input_dim)

output, weights = layer(sentences[0])
print(f"x {sentences[0].shape} -> output {output.shape}, weights {weights.shape}")
print("weights of head 0", weights[0].round(4), sep="\n")
print(f"one by one against batched: {batching_matters(layer, sentences):.1e} apart")
try:
    AttentionLayer(input_dim, 5, hidden_dim)
except heed.ShapeError as error:
    print(f"5 heads: {error}")
