"""Self-attention, one step at a time: from y = softmax(X X^T) X, which has no parameters, to a Transformer block.

Each step is run on a sequence and on the same sequence in another order: up to the last step, attention sees a set.
"""
import numpy as np
from heed import nn
from heed.nn import functional as F

# In another order the sums over keys round differently: results agree within this many units of rounding, 2^-24 of the
# largest output in float32 and 2^-53 in float64. Rows of weights sum to 1 within as many.
ROUNDING = 32


def one_head(x):
    return F.PackedHeads(x, size=x.shape[2])


def basic(x):
    """Row i of the output is the average of all rows, each weighted by how well it matches row i."""
    return F.packed_attention(one_head(x), one_head(x), one_head(x), scale=1.0, return_weights=True)


class QueriesKeysValues(nn.Module):
    """Three matrices, so that a row can ask for one thing, be found by another, and say a third."""

    def __init__(self, k, scale):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(k, k, bias=False) for _ in range(3))
        self.scale = scale

    def forward(self, x):
        q, k, v = (one_head(part(x)) for part in (self.to_q, self.to_k, self.to_v))
        return F.packed_attention(q, k, v, scale=self.scale, return_weights=True)


def attend(heads, x):
    record = nn.HeadRecord()
    y = heads(x, x, x, record=record)
    return y, record.weights


def post_norm(block, x):
    """The paper's block: each norm comes after the residual sum (Vaswani et al. 2017, 3.1)."""
    y, weights = attend(block.self_attn, x)
    h = block.norm1(F.add(x, y))
    return block.norm2(h + block.feed_forward(h)), weights


def pre_norm(block, x):
    """Norms before the sub-layers leave the sum itself alone, which trains more easily (Xiong et al. 2020)."""
    y, weights = attend(block.self_attn, block.norm1(x))
    h = F.add(x, y)
    return h + block.feed_forward(block.norm2(h)), weights


def steps(k, heads, dtype):
    """Every step for vectors of size k; the heads of the later ones have size k / heads."""
    qkv, scaled = QueriesKeysValues(k, scale=1.0), QueriesKeysValues(k, scale=None)
    narrow = nn.MultiheadAttention(k, heads)
    block = nn.TransformerEncoderLayer(k, heads, dim_feedforward=4 * k, dropout=0.0)
    for module in (qkv, scaled, narrow, block):
        module.to(dtype)
    positions = nn.SinusoidalPositions(k)
    return {
        "softmax(X X^T) X": basic,
        "queries, keys, values": qkv,
        "scores / sqrt(k)": scaled,
        "narrow heads": lambda x: attend(narrow, x),
        "block, post-norm": lambda x: post_norm(block, x),
        "block, pre-norm": lambda x: pre_norm(block, x),
        "positions, block": lambda x: post_norm(block, x + positions.rows(0, x.shape[1], dtype)),
    }


def order_matters(layer, x, order):
    """How far layer(x[order]) is from layer(x)[order], in units of the largest output."""
    y, other = layer(x)[0].numpy(), layer(np.ascontiguousarray(x[:, order]))[0].numpy()
    return abs(other - y[:, order]).max() / abs(y).max()


def rows_off_one(layer, x):
    """The largest |1 - sum| over the rows of weights."""
    return abs(1 - layer(x)[1].astype(np.float64).sum(axis=-1)).max()


length, k, heads = 7, 32, 4
order = [3, 0, 6, 2, 5, 1, 4]
for dtype in ("float32", "float64"):
    nn.manual_seed(4)
    x = np.random.default_rng(4).standard_normal((1, length, k)).astype(dtype)
    print(f"{dtype}               rows sum to 1 within   order matters by")
    for name, layer in steps(k, heads, dtype).items():
        print(f"{name:24} {rows_off_one(layer, x):17.1e} {order_matters(layer, x, order):18.1e}")
print(f"In another order the sums over keys round differently; the bound is {ROUNDING} units of rounding,\n"
      f"{ROUNDING * 2.0 ** -24:.1e} in float32 and {ROUNDING * 2.0 ** -53:.1e} in float64. Only positions make the "
      "order count.")
