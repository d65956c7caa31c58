"""Wide multi-head self-attention: every head works in the full width k.

The projections are k -> k * heads, one product each, and a last layer with bias brings the concatenated heads back to
k. The layer of seed 000.
"""
import numpy as np
from heed import nn
from heed.nn import functional as F


class WideAttention(nn.Module):
    def __init__(self, k, heads, by_fourth_roots=False):
        super().__init__()
        self.to_queries, self.to_keys, self.to_values = (nn.Linear(k, k * heads, bias=False) for _ in range(3))
        self.unify_heads = nn.Linear(heads * k, k)
        self.k, self.heads, self.by_fourth_roots = k, heads, by_fourth_roots

    def forward(self, x):
        """x (B, L, k) -> (B, L, k)."""
        q, k = self.to_queries(x), self.to_keys(x)  # (B, L, heads * k)
        scale = None                                # scores are divided by sqrt(k)
        if self.by_fourth_roots:
            q, k, scale = q * self.k ** -0.25, k * self.k ** -0.25, 1.0
        heads = [F.PackedHeads(packed, 0, self.heads, self.k) for packed in (q, k, self.to_values(x))]
        return self.unify_heads(F.packed_attention(*heads, scale=scale))


def library_layer(wide, dtype):
    """The same layer out of the library: heads as wide as the model, the three projections stacked into one product."""
    layer = nn.MultiheadAttention(wide.k, wide.heads, head_dim=wide.k, bias=False)
    layer.to(dtype)
    given = wide.state_dict()
    layer.load_state_dict({
        "in_proj_weight": np.concatenate([given[f"to_{part}.weight"] for part in ("queries", "keys", "values")]),
        "out_proj.weight": given["unify_heads.weight"],
        "out_proj.bias": given["unify_heads.bias"],
    })
    return layer


def gradient_difference(a, b, x):
    """The largest difference between the gradients of two layers of one kind, under the loss sum(y * y)."""
    for layer in (a, b):
        y = layer(x)
        F.sum(y * y).backward()
    return max(abs(p.grad - q.grad).max() for p, q in zip(a.parameters(), b.parameters()))


batch, length, k, heads = 2, 6, 24, 8
nn.manual_seed(0)
once, twice = WideAttention(k, heads), WideAttention(k, heads, by_fourth_roots=True)
print(f"{once.parameter_count()} parameters; narrow heads would have {3 * k * k + k * k + k}")
for dtype in ("float32", "float64"):
    once.to(dtype)
    twice.to(dtype)
    twice.load_state_dict(once.state_dict())
    x = np.random.default_rng(0).standard_normal((batch, length, k)).astype(dtype)  # (B, L, k)
    library = library_layer(once, dtype)
    print(f"{dtype}: q and k each / k^(1/4) against scores / sqrt(k): "
          f"outputs {abs(once(x).numpy() - twice(x).numpy()).max():.1e} apart, "
          f"gradients {gradient_difference(once, twice, x):.1e}")
    print(f"     MultiheadAttention with head_dim = embed_dim: "
          f"{abs(once(x).numpy() - library(x, x, x).numpy()).max():.1e} apart")
