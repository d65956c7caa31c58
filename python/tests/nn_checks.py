"""What the tests of heed.nn share: leaves of the tape, gradients beside differences, a composed model."""
import numpy as np
from heed import nn
from heed.nn import functional as F
from test_attention import numbers

TINY = {"vocab_size": 11, "d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0}


def leaf(*shape, seed=0):
    return nn.Variable(numbers(*shape, seed=seed), requires_grad=True)


def check_gradients(loss, leaves, tolerance=1e-7):
    """Gradients of loss() for each leaf, along a random direction, beside a central difference."""
    for variable in leaves:
        variable.zero_grad()
    loss().backward()
    for seed, variable in enumerate(leaves):
        gradient, values = variable.grad.copy(), variable.numpy()
        direction, before, step = numbers(*variable.shape, seed=100 + seed), values.copy(), 1e-6
        at = {}
        with nn.no_grad():
            for sign in (1, -1):
                values[...] = before + sign * step * direction
                at[sign] = loss().item()
        values[...] = before
        slope = (at[1] - at[-1]) / (2 * step)
        np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=tolerance, atol=tolerance)


def probe(y, seed=7):
    """A fixed random functional of y, so that every element counts."""
    return F.sum(y * numbers(*y.shape, seed=seed).astype(y.dtype))


class Net(nn.Module):
    """One of everything that attributes may hold."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.blocks = [nn.TransformerEncoderLayer(8, 2, dim_feedforward=12, dropout=0.1, activation="swiglu",
                                                  norm="rms_norm", norm_first=first) for first in (True, False)]
        self.parts = {"cross": nn.MultiheadAttention(8, 4, kv_heads=2, kdim=5, vdim=3), "norm": nn.LayerNorm(8)}
        self.gain = nn.Variable(np.ones(8, np.float32), requires_grad=True)
        self.constant = nn.Variable(np.ones(8, np.float32))
        self.tied = self.embedding
        self.name, self.sizes = "net", [1, 2]

    def forward(self, ids, keys, values):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, causal=True)
        x = F.add(x, self.parts["cross"](x, keys, values))
        x = self.parts["norm"](x) * F.reshape(F.linear(np.ones((*x.shape[:2], 1), x.dtype),
                                                       F.reshape(self.gain, (8, 1))), x.shape)
        return F.linear(x, self.embedding.weight)


def net_loss(net, dtype=np.float64):
    ids = np.array([[1, 2, 3, 4], [6, 5, 0, 0]])
    keys, values = numbers(2, 3, 5).astype(dtype), numbers(2, 3, 3, seed=1).astype(dtype)
    return F.cross_entropy(net(ids, keys, values), np.array([[2, 3, 4, 5], [5, 0, -100, -100]]))
