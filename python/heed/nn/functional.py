"""The operations of the tape, with torch.nn.functional's names where it has them.

They take Variables and arrays, of one dtype a call, float32 or float64, and give a Variable. None of them holds the
scores of attention. All raise ShapeError for what does not fit, TypeError for what is no array or number.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack, overload

from .. import _heed
from .._attention import Array, Causal
from .._heed import Variable

if TYPE_CHECKING:  # which takes milliseconds
    from numpy.typing import NDArray

__all__ = ["PackedHeads", "activation", "add", "cross_entropy", "custom_op", "dropout", "dropout_add", "embedding",
           "gated", "gelu", "layer_norm", "linear", "linear_cross_entropy", "linear_relu", "log_softmax", "multiply",
           "nll_loss", "packed_attention", "relu", "reshape", "rms_norm", "rotary", "scale",
           "scaled_dot_product_attention", "silu", "softmax", "sum", "swiglu"]

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Reduction = Literal["mean", "sum", "none"]


def linear(x: Array, weight: Array, bias: Array | None = None) -> Variable:
    """x (..., in) times weight (out, in) transposed, plus bias (out): (..., out)."""
    return _heed.nn_linear(x, weight, bias, False)


def linear_relu(x: Array, weight: Array, bias: Array | None = None) -> Variable:
    """max(0, linear(x, weight, bias)) in one pass, forward and backward."""
    return _heed.nn_linear(x, weight, bias, True)


def add(a: Array, b: Array) -> Variable:
    """a + b, of one shape."""
    return _heed.nn_add(a, b)


def multiply(a: Array, b: Array) -> Variable:
    """a * b element by element, of one shape."""
    return _heed.nn_multiply(a, b)


def scale(x: Array, factor: float) -> Variable:
    """factor * x."""
    return _heed.nn_scale(x, factor)


def sum(x: Array) -> Variable:
    """The sum of all elements, shaped (), added up in float64."""
    return _heed.nn_sum(x)


def reshape(x: Array, shape: Sequence[int]) -> Variable:
    """The same elements in another shape, in which one size may be -1."""
    return _heed.nn_reshape(x, shape)


def activation(kind: Activation, x: Array) -> Variable:
    """relu max(x, 0); gelu x Phi(x); gelu_tanh its tanh approximation; silu x sigmoid(x)."""
    return _heed.nn_activation(kind, x)


def relu(x: Array) -> Variable:
    """max(x, 0)."""
    return _heed.nn_activation("relu", x)


def gelu(x: Array) -> Variable:
    """x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016)."""
    return _heed.nn_activation("gelu", x)


def silu(x: Array) -> Variable:
    """x sigmoid(x)."""
    return _heed.nn_activation("silu", x)


def gated(kind: Activation, gate_up: Array, alpha: float = 1.0) -> Variable:
    """activation(alpha * gate) / alpha * up for gate_up (..., 2 * width), gate and then up: (..., width).

    Shazeer 2020, "GLU Variants Improve Transformer", eq. 5 with alpha 1.
    """
    return _heed.nn_gated(kind, gate_up, alpha)


def swiglu(gate_up: Array, alpha: float = 1.0) -> Variable:
    """gated("silu", gate_up, alpha)."""
    return _heed.nn_gated("silu", gate_up, alpha)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, epsilon: float = 1e-5) -> Variable:
    """x (..., width): mean 0 and variance 1 over the last dimension, times weight (width), plus bias (width).

    Ba et al. 2016, eq. 4.
    """
    return _heed.nn_layer_norm(x, weight, bias, epsilon)


def rms_norm(x: Array, weight: Array | None = None, epsilon: float = 1e-5) -> Variable:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last dimension. Zhang and Sennrich 2019, eq. 4."""
    return _heed.nn_rms_norm(x, weight, epsilon)


def softmax(x: Array) -> Variable:
    """Over the last dimension."""
    return _heed.nn_softmax(x, False)


def log_softmax(x: Array) -> Variable:
    """The logarithm of softmax(x), over the last dimension."""
    return _heed.nn_softmax(x, True)


def embedding(ids: Array, weight: Array, factor: float = 1.0) -> Variable:
    """Rows of weight (V, width) for ids (...), whole numbers in 0..V - 1, times factor: (..., width)."""
    return _heed.nn_embedding(ids, weight, factor)


def dropout(x: Array, p: float) -> Variable:
    """Zeroes each element with probability p, in [0, 1), and divides the rest by 1 - p."""
    return _heed.nn_dropout(x, p)


def dropout_add(x: Array, residual: Array, p: float) -> Variable:
    """residual + dropout(x, p) in one pass, of one shape."""
    return _heed.nn_dropout_add(x, residual, p)


def rotary(x: Array, heads: int, head_size: int, *, layout: Literal["half_split", "interleaved"] = "half_split",
           size: int = 0, base: float = 10000.0, positions: Array | None = None) -> Variable:
    """Turns the first `heads` heads of x (B, L, >= heads * head_size) by position; the rest is copied.

    Su et al. 2021, "RoFormer", 3.2.2.

    layout     which dimensions turn together: "half_split" (0, D/2), (1, D/2 + 1), ...; "interleaved" (0, 1), (2, 3)
    size       dimensions of each head that turn, even; 0: all
    base       pair p turns by position * base ** (-2p / size)
    positions  (L) or (B, L), whole numbers; default 0, 1, ...
    """
    return _heed.nn_rotary(x, heads, head_size, layout, size, base, positions)


class AttentionOptions(TypedDict, total=False):
    """The options of heed.attention() that the tape takes; its documentation says what they are."""

    scale: float | None
    window: tuple[int, int] | None
    softcap: float
    alibi: Array | None
    sinks: Array | None
    key_lengths: Array | None
    offset: int
    q_offsets: Array | None
    k_offsets: Array | None
    dropout_p: float


def scaled_dot_product_attention(q: Array, k: Array, v: Array, mask: Array | None = None, causal: Causal = False,
                                 **options: Unpack[AttentionOptions]) -> Variable:
    """heed.attention() on the tape: q (B, Hq, Lq, D), k (B, Hkv, Lk, D), v (B, Hkv, Lk, Dv) -> (B, Hq, Lq, Dv).

    An additive mask that is a Variable and requires grad gets one. dropout_p draws from this thread's generator.
    """
    learned = mask if isinstance(mask, Variable) and mask.requires_grad else None
    return _heed.nn_attention(q, k, v, _options(None if learned is not None else mask, causal, options), learned)


class PackedHeads(NamedTuple):
    """Heads packed in the last dimension of x (B, L, width): head h is x[:, :, offset + h * size:][:, :, :size]."""

    x: Array
    offset: int = 0
    heads: int = 1
    size: int = 1


@overload
def packed_attention(q: PackedHeads, k: PackedHeads, v: PackedHeads, mask: Array | None = None,
                     causal: Causal = False, *, return_weights: Literal[False] = False,
                     **options: Unpack[AttentionOptions]) -> Variable: ...
@overload
def packed_attention(q: PackedHeads, k: PackedHeads, v: PackedHeads, mask: Array | None = None,
                     causal: Causal = False, *, return_weights: Literal[True],
                     **options: Unpack[AttentionOptions]) -> tuple[Variable, NDArray[Any]]: ...
def packed_attention(q: PackedHeads, k: PackedHeads, v: PackedHeads, mask: Array | None = None,
                     causal: Causal = False, *, return_weights: bool = False,
                     **options: Unpack[AttentionOptions]) -> Variable | tuple[Variable, NDArray[Any]]:
    """Attention straight from projections, nothing transposed: (B, Lq, q.heads * v.size).

    With return_weights also the softmax before dropout, (B, q.heads, Lq, Lk). With q_offsets and k_offsets every x is
    (1, T, width), its rows those of a ragged batch, and there are no weights. A mask gets no gradient here.
    """
    for name, heads in (("q", q), ("k", k), ("v", v)):
        if not isinstance(heads, PackedHeads):
            raise TypeError(f"packed_attention: {name} is a {type(heads).__name__}; pass PackedHeads")
    y, weights = _heed.nn_packed_attention(q, k, v, _options(mask, causal, options), return_weights)
    return y if weights is None else (y, weights)


def cross_entropy(logits: Array, targets: Array, *, ignore_index: int = -100, label_smoothing: float = 0.0,
                  weight: Array | None = None, reduction: Reduction = "mean") -> Variable:
    """Of logits (rows..., V) and targets (rows...), whole numbers in 0..V - 1 or ignore_index, which counts nothing.

    label_smoothing  e: (1 - e) nll + e / V * sum_j -log p_j
    weight           (V): a factor on the term of each class
    reduction        "mean" over the rows that count, or by their targets' weights; "sum"; "none": shaped like targets

    Returns a Variable shaped (); 0 where no row counts.
    """
    return _heed.nn_cross_entropy(logits, targets, ignore_index, label_smoothing, weight, reduction, False)


def nll_loss(log_probabilities: Array, targets: Array, *, ignore_index: int = -100, label_smoothing: float = 0.0,
             weight: Array | None = None, reduction: Reduction = "mean") -> Variable:
    """cross_entropy() of rows that are logarithms of probabilities already, as log_softmax() gives them."""
    return _heed.nn_cross_entropy(log_probabilities, targets, ignore_index, label_smoothing, weight, reduction, True)


def linear_cross_entropy(x: Array, weight: Array, bias: Array | None, targets: Array, *, ignore_index: int = -100,
                         label_smoothing: float = 0.0, r_drop: float = 0.0) -> Variable:
    """The mean of cross_entropy(linear(x, weight, bias), targets) without the (rows, V) logits in memory.

    r_drop: alpha of R-Drop (Liang et al. 2021); the second half of the rows is the first half's once more then.
    """
    return _heed.nn_linear_cross_entropy(x, weight, bias, targets, ignore_index, label_smoothing, r_drop)


def custom_op(inputs: Sequence[Array], output: Array,
              backward: Callable[[NDArray[Any]], Sequence[Array | None]]) -> Variable:
    """Records an operation of your own, computed with NumPy or whatever you like.

    inputs    what it was computed from, Variables or arrays
    output    its result, float32 or float64
    backward  called once, when some input wants a gradient, with that of the output, read-only and shaped like it;
              returns a tuple with one gradient for each input, shaped like it, or None

    Keep the output in backward as an array, not as the Variable that is returned: that one would keep itself alive.
    """
    return _heed.nn_custom_op(inputs, output, backward)


def _options(mask: Any, causal: Any, given: AttentionOptions) -> _heed.Options:
    options: dict[str, Any] = {"scale": None, "window": None, "softcap": 0.0, "alibi": None, "sinks": None,
                               "key_lengths": None, "offset": 0, "q_offsets": None, "k_offsets": None,
                               "dropout_p": 0.0}
    if unknown := given.keys() - options.keys():
        raise TypeError(f"attention: there is no option {min(unknown)!r}; those are {', '.join(options)}")
    return _heed.Options(mask, causal, **options | given, score_mod=None, block_mask=None, seed=0)
