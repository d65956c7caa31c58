"""The operator: signatures, documentation, results. The work is done in _heed."""
import sys
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Generic, Literal, NamedTuple, Protocol, SupportsIndex, TypedDict, TypeVar, Unpack, overload

from . import _heed
from ._score_mod import ScoreMod


class Array(Protocol):
    """NumPy's arrays, torch's tensors on the CPU, whatever else DLPack describes."""

    @property
    def shape(self) -> Any: ...


A = TypeVar("A", bound=Array)
Causal = bool | Literal[0, 1, "top_left", "top-left", "bottom_right", "bottom-right"] | None
Index = SupportsIndex | slice | EllipsisType | tuple[SupportsIndex | slice | EllipsisType | None, ...] | None
Stage = Literal["scaled", "softcap", "masked", "weights"]
ScoreFunction = ScoreMod | Callable[..., Any]


class Select(NamedTuple):
    """The part of the weights that return_weights asks for; the default is all of them.

    heads  query heads, from the end where negative
    rows   queries, likewise; not for ragged batches
    top_p  below 1: of each row only the fewest largest weights whose sum reaches it, into .top instead of .weights
    """

    heads: Sequence[int] | None = None
    rows: Sequence[int] | None = None
    top_p: float = 1.0


class TopWeights(NamedTuple, Generic[A]):
    """Compressed rows: row r, of all (B, heads, rows) in order, has the entries offsets[r] .. offsets[r + 1] - 1, the
    largest weight first.

    offsets  (rows + 1) int64
    keys     int64
    weights  of the compute type
    """

    offsets: A
    keys: A
    weights: A


class Options(TypedDict, total=False):
    """The options of attention() by name; its documentation says what they are."""

    scale: float | None
    window: tuple[int | None, int | None] | None
    softcap: float | None
    alibi: Array | None
    sinks: Array | None
    score_mod: ScoreFunction | None
    block_mask: _heed.BlockMask | None
    key_lengths: Array | None
    offset: int
    q_offsets: Array | None
    k_offsets: Array | None
    dropout_p: float
    seed: int


class AttentionResult(Generic[A]):
    """What attention() returns where more than `out` was asked for; what was not is None.

    out      (B, Hq, Lq, Dv), the dtype of q; ragged (Tq, Hq, Dv)
    lse      (B, Hq, Lq), the log of the sum of exp of each row's scores, -inf where a row sees nothing; ragged (Hq, Tq)
    weights  (B, Hq, Lq, Lk), the softmax before dropout; ragged (Hq, Tq, longest Lk), 0 past an entry's keys; with a
             Select of them as many heads and rows as it has
    scores   (B, Hq, Lq, Lk), of the stage that was asked for; ragged (Hq, Tq, longest Lk), -inf past an entry's keys
    top      the largest weights, TopWeights, where a Select has top_p below 1
    lse_low  shaped like lse, and there with it: what its rounding leaves, so that lse + lse_low is the logarithm, also
             next to a mask of -1e9. merge() and attention_backward() use it

    lse, lse_low, weights and scores are float64 for float64 operands, else float32. It remembers its options for
    attention_backward().
    """

    __slots__ = ("out", "lse", "weights", "scores", "top", "lse_low", "_options")

    def __init__(self, out: A, lse: A | None = None, weights: A | None = None, scores: A | None = None,
                 top: TopWeights[A] | None = None, options: Any = None, lse_low: A | None = None) -> None:
        self.out = out
        self.lse = lse
        self.weights = weights
        self.scores = scores
        self.top = top
        self.lse_low = lse_low
        self._options = options

    def __repr__(self) -> str:
        parts = [f"{name} {tuple(value.shape)}" for name in self.__slots__[:4]
                 if (value := getattr(self, name)) is not None]
        if self.top is not None:
            parts.append(f"top {tuple(self.top.keys.shape)}")
        return f"AttentionResult({', '.join(parts)})"


class AttentionGradients(NamedTuple, Generic[A]):
    """Gradients shaped like what they belong to: q, k and v of their dtypes, the others of the compute type.

    score_mod has one for each table of mods.relative_bias, in the order of the functions.
    """

    q: A
    k: A
    v: A
    mask: A | None
    sinks: A | None
    score_mod: tuple[A, ...] = ()


@overload
def attention(q: A, k: A, v: A, mask: Array | None = None, causal: Causal = False, *, out: A | None = None,
              return_lse: Literal[False] = False, return_scores: None = None, return_weights: Literal[False] = False,
              **options: Unpack[Options]) -> A: ...
@overload
def attention(q: A, k: A, v: A, mask: Array | None = None, causal: Causal = False, *, out: A | None = None,
              return_lse: Literal[True], return_scores: Stage | None = None, return_weights: bool | Select = False,
              **options: Unpack[Options]) -> AttentionResult[A]: ...
@overload
def attention(q: A, k: A, v: A, mask: Array | None = None, causal: Causal = False, *, out: A | None = None,
              return_lse: bool = False, return_scores: Stage, return_weights: bool | Select = False,
              **options: Unpack[Options]) -> AttentionResult[A]: ...
@overload
def attention(q: A, k: A, v: A, mask: Array | None = None, causal: Causal = False, *, out: A | None = None,
              return_lse: bool = False, return_scores: Stage | None = None, return_weights: Literal[True] | Select,
              **options: Unpack[Options]) -> AttentionResult[A]: ...
def attention(q: A, k: A, v: A, mask: Array | None = None, causal: Causal = False, *, scale: float | None = None,
              window: tuple[int | None, int | None] | None = None, softcap: float | None = 0.0,
              alibi: Array | None = None, sinks: Array | None = None, score_mod: ScoreFunction | None = None,
              block_mask: _heed.BlockMask | None = None, key_lengths: Array | None = None, offset: int = 0,
              q_offsets: Array | None = None, k_offsets: Array | None = None, dropout_p: float = 0.0, seed: int = 0,
              out: A | None = None, return_lse: bool = False, return_scores: Stage | None = None,
              return_weights: bool | Select = False, **unknown: object) -> A | AttentionResult[A]:
    """softmax(scores) V, fused: extra memory grows with Lq + Lk, not with Lq * Lk.

        out = heed.attention(q, k, v, causal=True, softcap=50.0)
        r = heed.attention(q, k, v, window=(256, 0), return_weights=True)       # r.out, r.weights

    scores = scale * Q K^T, then softcap, score_mod, mask and ALiBi, what hides (causal rule, window, key_lengths,
    block_mask), sinks; then softmax, dropout, times V.

    q (B, Hq, Lq, D), k (B, Hkv, Lk, D) and v (B, Hkv, Lk, Dv), Hq a multiple of Hkv; ragged q (Tq, Hq, D),
    k (Tk, Hkv, D) and v (Tk, Hkv, Dv). All float32, float64, float16 or bfloat16, or q float32 over k and v in one of
    the halves; any strides with the innermost 1. Nothing is copied. float64 is computed in float64, the rest in float32
    (the compute type). Query i stands at key position i + o; o is offset, or n - Lq where causal is "bottom_right".

    mask           broadcasts to (B, Hq, Lq, Lk) from the right. Boolean: true may be attended. Floating (of q's dtype
                   or the compute type): added to the score, -inf hides. Every finite number is added, the lowest one
                   too. Default: none
    causal         False, 0 or None; True, 1 or "top_left": query i sees keys j <= i + offset; "bottom_right": j <= i + n - Lq
                   with n the keys of the entry, so that the last query sees the last key. A hyphen is taken for "_"
    scale          factor on q . k; default 1 / sqrt(D) ("Attention Is All You Need", 3.2.1)
    window         (left, right): keys i + o - left <= j <= i + o + right, -1 or None is unlimited; default: none
    softcap        s -> softcap * tanh(s / softcap) before any mask; 0, the default, or None is off (Gemma 2, arXiv
                   2408.00118)
    alibi          (Hq), the compute type: adds -slope * |i + o - j| (Press et al. 2022); default: none
    sinks          (Hq), the compute type: one more logit in every row's denominator and lse, without a value behind it
    score_mod      changes scores between softcap and mask: one of heed.mods, or several joined by |, which run inside
                   of the kernels; or a Python function of (score, b, h, q_idx, kv_idx) as flex_attention has it, called
                   with NumPy arrays for each tile, slowly and without a gradient; default: none
    block_mask     what heed.block_mask() made: tiles of 64 x 64 that it hides are skipped; default: none
    key_lengths    (B) int32 or int64: keys at or past it are hidden and not read; default: all Lk
    offset         key position of query 0, for causal True, window and alibi: the length of a cache in front; default 0
    q_offsets,     (B + 1) int32 or int64, from 0 to Tq and Tk: a ragged batch, whose entry b has the rows
    k_offsets      offsets[b] .. offsets[b + 1] - 1; both or neither
    dropout_p      probability of dropping a weight, in [0, 1); the kept are divided by 1 - dropout_p; default 0
    seed           of the dropout: the same seed drops the same weights, for any number of threads; default 0
    out            memory for the result, shaped like it, of q's dtype, the innermost stride 1, apart from what is read
    return_lse     also .lse and .lse_low, which attention_backward() and merge() need
    return_scores  also .scores: "scaled", after "softcap", "masked" (after all that adds or hides) or "weights"
    return_weights also .weights, the output that grows with Lq * Lk; or a Select, which wants a part of them

    Returns (B, Hq, Lq, Dv), ragged (Tq, Hq, Dv), in the kind of array that q is: NumPy's, torch's or another with
    __dlpack__; `out` itself where it is given. With a return_ option an AttentionResult. A row that may see nothing
    gives 0, lse -inf. Raises ShapeError, and TypeError for what is no array or number.

    torch tensors that require grad stay differentiable, and traces, modes and transforms of torch follow the call:
    heed.torch.attention.
    """
    if unknown:
        raise TypeError(_unknown_option(next(iter(unknown))))
    try:
        if return_lse is False and return_scores is None and return_weights is False:
            # cast() would cost a call.
            return _heed.attention(q, k, v, out, mask, causal, scale, window,  # type: ignore[return-value]
                                   softcap, alibi, sinks, score_mod, block_mask, key_lengths, offset, q_offsets,
                                   k_offsets, dropout_p, seed)
        options = _heed.Options(mask, causal, scale, window, softcap, alibi, sinks, score_mod, block_mask, key_lengths,
                                offset, q_offsets, k_offsets, dropout_p, seed)
        return _result(options,
                       *_heed.attention_recorded(q, k, v, options, out, return_lse, return_scores, return_weights))
    except (_heed.RequiresGrad, _heed.Watched) as error:
        if out is not None:
            raise
        _refuse_mixed(error, q, k, v)
        followed = isinstance(error, _heed.Watched)
    from .torch import _attention, _traced
    run: Any = _traced.followed if followed else _attention.attention
    result: A | AttentionResult[A] = run(
        q, k, v, mask, causal, scale=scale, window=window, softcap=softcap, alibi=alibi, sinks=sinks,
        score_mod=score_mod, block_mask=block_mask, key_lengths=key_lengths, offset=offset, q_offsets=q_offsets,
        k_offsets=k_offsets, dropout_p=dropout_p, seed=seed, return_lse=return_lse, return_scores=return_scores,
        return_weights=return_weights)
    return result


# What other libraries call the same.
_CALLED_ELSEWHERE = {
    "is_causal": "causal", "attn_mask": "mask", "attention_mask": "mask", "attn_bias": "mask", "bias": "mask",
    "dropout": "dropout_p", "softmax_scale": "scale", "sm_scale": "scale", "scaling": "scale", "window_size": "window",
    "sliding_window": "window", "soft_cap": "softcap", "logits_soft_cap": "softcap", "alibi_slopes": "alibi",
    "s_aux": "sinks", "seqlens_k": "key_lengths", "key_padding_mask": "key_lengths", "cu_seqlens_q": "q_offsets",
    "cu_seqlens_k": "k_offsets", "query": "q", "key": "k", "value": "v", "need_weights": "return_weights",
    "return_attn_probs": "return_weights", "return_attention_scores": "return_scores"}


def _unknown_option(name: str) -> str:
    import difflib
    known = [*Options.__annotations__, "mask", "causal", "out", "return_lse", "return_scores", "return_weights"]
    near = [_CALLED_ELSEWHERE[name]] if name in _CALLED_ELSEWHERE else difflib.get_close_matches(name, known, 1)
    if name == "enable_gqa":
        return "attention: there is no option 'enable_gqa'; leave it out: q may have more heads than k and v"
    return f"attention: there is no option {name!r}; " + \
        (f"use {near[0]}" if near else "help(heed.attention) lists them")


def _in_a_graph(*operands: Any, **options: Any) -> Any:
    from .torch import _traced
    return _traced.attention(_traced.outside, *operands, **options)


attention._torchdynamo_inline = _in_a_graph  # type: ignore[attr-defined]  # what torch.compile follows instead


def attention_backward(grad: A, q: A, k: A, v: A, r: AttentionResult[A], grad_lse: A | None = None, *,
                       mask_grad: bool = True) -> AttentionGradients[A]:
    """Gradients of sum(grad * out) + sum(grad_lse * lse).

    grad       shaped like r.out, of its dtype
    q, k, v    those of the forward call
    r          its result, with return_lse=True; the options are those that it remembers
    grad_lse   shaped like r.lse, of its dtype; default 0
    mask_grad  False: no gradient of an additive mask, which takes one more pass over the scores

    Returns .q, .k and .v, shaped like them and of their dtypes; .mask, of an additive mask, summed over the dimensions
    it broadcasts along; .sinks (Hq). None where the call had no such mask or no sinks. .score_mod has the gradient of
    each table of mods.relative_bias. Raises ShapeError, also for a score_mod without a derivative, and TypeError for
    what is no array or no result.
    """
    lse = _lse("attention_backward", "r", r)
    if r._options is None:
        raise _heed.ShapeError("attention_backward: r is a merged result or comes out of a graph of torch's, and "
                               "remembers no options; pass the result of attention()")
    return AttentionGradients(*_heed.attention_backward(grad, q, k, v, r.out, lse, r.lse_low, r._options, grad_lse,
                                                        mask_grad))


def merge(a: AttentionResult[A], b: AttentionResult[A]) -> AttentionResult[A]:
    """Joins two results of the same queries over disjoint keys, both with lse: .out, .lse and .lse_low of all keys
    together.

    Exact but for rounding; a row that saw nothing in one of them is the other's. With sinks, pass them to one of the
    two calls only. Raises ShapeError, also where a result has no lse_low and a lse that has lost the sum (past 2^13 in
    float32), and TypeError for what is no result.
    """
    lse, lse2 = _lse("merge", "a", a), _lse("merge", "b", b)
    out, lse, low = _heed.merge(a.out, lse, a.lse_low, b.out, lse2, b.lse_low)
    return AttentionResult(out, lse, lse_low=low)


def explain(q: Array, k: Array, v: Array, mask: Array | None = None, causal: Causal = False, *,
            scale: float | None = None, window: tuple[int | None, int | None] | None = None,
            softcap: float | None = 0.0, alibi: Array | None = None, sinks: Array | None = None,
            score_mod: ScoreFunction | None = None,
            block_mask: _heed.BlockMask | None = None, key_lengths: Array | None = None, offset: int = 0,
            q_offsets: Array | None = None, k_offsets: Array | None = None, dropout_p: float = 0.0,
            seed: int = 0) -> str:
    """One line: which implementation, tile sizes and SIMD target run for this call, and why others were refused.

    Takes what attention() takes, but for what it returns. HEED_EXPLAIN=1 prints it on standard error at each call.
    """
    options = _heed.Options(mask, causal, scale, window, softcap, alibi, sinks, score_mod, block_mask, key_lengths,
                            offset, q_offsets, k_offsets, dropout_p, seed)
    return _heed.explain(q, k, v, options)


def block_mask(mask: ScoreFunction, queries: int, keys: int, *, batch: int = 1, heads: int = 1) -> _heed.BlockMask:
    """A mask in tiles of 64 x 64 for attention(block_mask=): empty tiles are skipped, full ones taken as they are.

    mask     one of heed.mods that only hides (causal, sliding_window, documents, ...), or several joined by |; or a
             Python function of (b, h, q_idx, kv_idx) -> bool, true where the pair may be attended, called with NumPy
             arrays of indices; a bit is kept for each pair
    queries  Lq; keys Lk
    batch    entries that the mask tells apart, or 1; heads likewise

    Raises ShapeError for sizes below 0, masks that do more than hide, or with numbers for other sizes.
    """
    return _heed.block_mask(mask, queries, keys, batch, heads)


def set_num_threads(num_threads: int) -> None:
    """The number of threads of all calls that begin after it; 0 means one per hardware thread, the default.

    Results are the same bits for any number. Raises ShapeError outside 0..4096.
    """
    _heed.set_num_threads(num_threads)


def get_num_threads() -> int:
    """The number of threads that a call uses at most."""
    return _heed.get_num_threads()


def _result(options: Any, out: Any, lse: Any, low: Any, weights: Any, scores: Any, offsets: Any, keys: Any,
            top: Any) -> AttentionResult[Any]:
    largest = None if offsets is None else TopWeights(offsets, keys, top)
    return AttentionResult(out, lse, weights, scores, largest, options, low)


def _refuse_mixed(error: Exception, *operands: Any) -> None:
    """Where torch has to follow the call, its operands are all torch's."""
    tensor = sys.modules["torch"].Tensor
    for name, x in zip("qkv", operands):
        if not isinstance(x, tensor):
            raise type(error)(f"attention: {name} is a {type(x).__name__} beside a torch tensor that torch follows or "
                              "that requires grad; pass torch tensors, or detach() of that one") from None


def _lse(operation: str, name: str, r: Any) -> Any:
    if not isinstance(r, AttentionResult):
        raise TypeError(f"{operation}: {name} is a {type(r).__name__}; pass the result of attention() with "
                        "return_lse=True")
    if r.lse is None:
        raise _heed.ShapeError(f"{operation}: {name} has no lse; call attention() with return_lse=True")
    return r.lse
