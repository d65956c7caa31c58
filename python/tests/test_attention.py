"""The operator beside its formula: values, gradients, ragged batches, dropout, parts joined."""
import formula
import heed
import numpy as np
import pytest

CLOSE = {np.float16: 2e-3, np.float32: 2e-5, np.float64: 1e-12}


def inputs(dtype=np.float64, batch=2, heads=4, kv_heads=2, queries=9, keys=13, size=8, value_size=5, seed=0):
    random = np.random.default_rng(seed)
    shapes = (batch, heads, queries, size), (batch, kv_heads, keys, size), (batch, kv_heads, keys, value_size)
    return tuple(random.standard_normal(shape).astype(dtype) for shape in shapes)


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape)


OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.3},
    "negative scale": {"scale": -1},
    "causal": {"causal": True},
    "causal behind a cache": {"causal": True, "offset": 3},
    "causal bottom right": {"causal": "bottom_right"},
    "window": {"window": (2, 1)},
    "window to the left": {"window": (3, -1), "causal": True},
    "window as a list": {"window": [0, 4], "offset": 2},
    "window without an end": {"window": (2, None)},
    "window without a beginning": {"window": (None, 0)},
    "window without a beginning, after a cache": {"window": (None, 1), "offset": 3},
    "window on neither side": {"window": (None, None)},
    "no softcap": {"softcap": None},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi": np.array([0.5, 0.25, 0.125, 1.0])},
    "alibi behind a cache": {"alibi": np.array([0.5, 0.25, 0.125, 1.0]), "offset": 4, "causal": True},
    "sinks": {"sinks": np.array([0.5, -1.0, -np.inf, 2.0])},
    "boolean mask": {"mask": numbers(2, 1, 9, 13) > 0},
    "boolean mask of keys": {"mask": numbers(2, 1, 1, 13) > -0.5},
    "additive mask": {"mask": numbers(4, 9, 13)},
    "additive mask of keys": {"mask": numbers(13)},
    "mask that hides": {"mask": np.where(numbers(9, 13) > 0, 0.0, -np.inf)},
    "key lengths": {"key_lengths": np.array([13, 4])},
    "key lengths in int32, none seen": {"key_lengths": np.array([0, 7], np.int32)},
    "key lengths, causal bottom right": {"key_lengths": np.array([11, 13]), "causal": "bottom_right"},
    "together": {"mask": numbers(9, 13), "causal": "bottom_right", "softcap": 2, "window": (6, -1),
                 "sinks": np.arange(4.0), "alibi": np.full(4, 0.1), "scale": 0.5},
}


def of_compute_type(options, dtype):
    """Floating options as the operator takes them beside operands of `dtype`."""
    compute = np.float64 if dtype == np.float64 else np.float32
    return {name: value.astype(compute) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value
            for name, value in options.items()}


@pytest.mark.parametrize("dtype", CLOSE, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_values(options, dtype):
    q, k, v = inputs(dtype)
    options = of_compute_type(options, dtype)
    out, lse, weights, scores = formula.attention(q, k, v, **options)
    close = {"rtol": CLOSE[dtype], "atol": CLOSE[dtype]}

    plain = heed.attention(q, k, v, **options)
    assert type(plain) is np.ndarray and plain.dtype == dtype
    np.testing.assert_allclose(plain, out, **close)

    r = heed.attention(q, k, v, **options, return_lse=True, return_weights=True, return_scores="masked")
    np.testing.assert_array_equal(r.out, plain)
    compute = np.float64 if dtype == np.float64 else np.float32
    assert r.lse.dtype == r.weights.dtype == r.scores.dtype == compute
    np.testing.assert_allclose(r.lse, lse, **close)
    np.testing.assert_allclose(r.weights, weights, **close)
    np.testing.assert_allclose(r.scores, scores, **close)


def test_stages_of_the_scores():
    q, k, v = inputs()
    mask = numbers(9, 13)
    raw = q @ np.swapaxes(np.repeat(k, 2, 1), 2, 3) / np.sqrt(8)
    capped = 0.5 * np.tanh(raw / 0.5)
    weights = formula.attention(q, k, v, mask, softcap=0.5)[2]
    expected = {"scaled": raw, "softcap": capped, "masked": capped + mask, "weights": weights}
    for stage, values in expected.items():
        r = heed.attention(q, k, v, mask, softcap=0.5, return_scores=stage)
        np.testing.assert_allclose(r.scores, values, rtol=1e-12, atol=1e-12)
        assert r.lse is None and r.weights is None


def test_half_precision_keys_beside_single_precision_queries():
    q, k, v = inputs(np.float32)
    k, v = k.astype(np.float16), v.astype(np.float16)
    out = heed.attention(q, k, v)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, formula.attention(q, k, v)[0], rtol=2e-5, atol=2e-5)


def test_sizes_of_nothing_and_of_one():
    for sizes in ({"batch": 0}, {"queries": 0}, {"value_size": 0}, {"keys": 0}):
        q, k, v = inputs(**sizes)
        out = heed.attention(q, k, v)
        assert out.shape == (*q.shape[:3], v.shape[3])
        assert not out.any()
    q, k, v = inputs(batch=1, heads=1, kv_heads=1, queries=1, keys=1, size=1, value_size=1)
    np.testing.assert_array_equal(heed.attention(q, k, v), v)


OFFSETS = np.array([0, 3, 3, 10]), np.array([0, 5, 7, 20])


def ragged_inputs(dtype=np.float64):
    return numbers(10, 4, 8, seed=2).astype(dtype), numbers(20, 2, 8, seed=3).astype(dtype), \
        numbers(20, 2, 5, seed=4).astype(dtype)


def entries(q, k, v):
    """The entries of a ragged batch, each as a dense one with its rows."""
    for b in range(3):
        rows, keys = (slice(*offsets[b:b + 2]) for offsets in OFFSETS)
        yield rows, keys, *(np.swapaxes(x[part], 0, 1)[None] for x, part in ((q, rows), (k, keys), (v, keys)))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_ragged_batch(kind):
    q, k, v = ragged_inputs()
    r = heed.attention(q, k, v, causal="bottom_right", q_offsets=OFFSETS[0].astype(kind),
                       k_offsets=OFFSETS[1].astype(kind), return_lse=True, return_weights=True)
    assert r.out.shape == (10, 4, 5) and r.lse.shape == (4, 10) and r.weights.shape == (4, 10, 13)
    for rows, keys, *entry in entries(q, k, v):
        out, lse, weights, _ = formula.attention(*entry, causal="bottom_right")
        np.testing.assert_allclose(r.out[rows], np.swapaxes(out[0], 0, 1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(r.lse[:, rows], lse[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(r.weights[:, rows, :keys.stop - keys.start], weights[0], rtol=1e-12, atol=1e-12)


# ---- Gradients

def check_slope(loss, x, gradient, seed):
    """`gradient` along a random direction beside a central difference of the formula's loss at x."""
    direction = numbers(*x.shape, seed=seed)
    step = 1e-6
    slope = (loss(x + step * direction) - loss(x - step * direction)) / (2 * step)
    assert gradient.shape == x.shape
    np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=2e-7, atol=2e-7)


DIFFERENTIABLE = ["plain", "scale", "causal", "causal behind a cache", "causal bottom right", "window to the left",
                  "softcap", "alibi", "additive mask", "additive mask of keys", "boolean mask of keys", "key lengths",
                  "key lengths, causal bottom right", "together"]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("with_lse", [False, True])
def test_gradients(name, with_lse):
    options = {"sinks": np.array([0.5, -1.0, 0.25, 2.0])} | OPTIONS[name]
    x = dict(zip("qkv", inputs(keys=13)))
    grad, grad_lse = numbers(2, 4, 9, 5, seed=5), numbers(2, 4, 9, seed=6)

    def loss(**changed):
        out, lse, *_ = formula.attention(**(x | options | changed))
        return (grad * out).sum() + ((grad_lse * lse).sum() if with_lse else 0)

    r = heed.attention(*x.values(), **options, return_lse=True)
    g = heed.attention_backward(grad, *x.values(), r, *([grad_lse] if with_lse else []))
    for seed, part in enumerate(x):
        check_slope(lambda value, part=part: loss(**{part: value}), x[part], getattr(g, part), seed)
    check_slope(lambda value: loss(sinks=value), options["sinks"], g.sinks, 7)
    mask = options.get("mask")
    if mask is None or mask.dtype == bool:
        assert g.mask is None
    else:
        check_slope(lambda value: loss(mask=value), mask, g.mask, 8)


def test_gradients_of_a_ragged_batch():
    q, k, v = ragged_inputs()
    grad = numbers(10, 4, 5, seed=9)
    r = heed.attention(q, k, v, causal=True, q_offsets=OFFSETS[0], k_offsets=OFFSETS[1], return_lse=True)
    g = heed.attention_backward(grad, q, k, v, r)
    assert g.mask is None and g.sinks is None

    def loss(q=q, k=k, v=v):
        return sum((np.swapaxes(grad[rows], 0, 1) * formula.attention(*entry, causal=True)[0][0]).sum()
                   for rows, _, *entry in entries(q, k, v))
    for seed, (name, x) in enumerate({"q": q, "k": k, "v": v}.items()):
        check_slope(lambda value, name=name: loss(**{name: value}), x, getattr(g, name), seed)


def test_gradients_with_dropout_are_those_of_the_same_draw():
    q, k, v = inputs()
    grad = numbers(2, 4, 9, 5)
    options = {"dropout_p": 0.4, "seed": 11}
    r = heed.attention(q, k, v, **options, return_lse=True)
    g = heed.attention_backward(grad, q, k, v, r)

    def loss(v):  # linear in v, so that the slope is exact
        return (grad * heed.attention(q, k, v, **options)).sum()
    np.testing.assert_allclose(loss(v), (g.v * v).sum(), rtol=1e-12)


# ---- Dropout

def test_dropout_drops_by_seed_and_scales_what_it_keeps():
    q, k, _ = inputs(queries=64, keys=64)
    identity = np.broadcast_to(np.eye(64), (2, 2, 64, 64))  # the result is the weights themselves
    weights = formula.attention(q, k, identity)[2]
    kept = heed.attention(q, k, identity, dropout_p=0.3, seed=5)
    dropped = kept == 0
    assert 0.28 < dropped.mean() < 0.32
    np.testing.assert_allclose(kept[~dropped], (weights / 0.7)[~dropped], rtol=1e-12)
    np.testing.assert_array_equal(kept, heed.attention(q, k, identity, dropout_p=0.3, seed=5))
    assert (dropped != (heed.attention(q, k, identity, dropout_p=0.3, seed=6) == 0)).mean() > 0.3
    heed.attention(q, k, identity, dropout_p=0.3, seed=2**64 - 1)


# ---- Parts of the keys

@pytest.mark.parametrize("cut", [0, 1, 6, 13])
def test_merge(cut):
    q, k, v = inputs()
    mask = numbers(9, 13) > -0.2
    whole, lse, *_ = formula.attention(q, k, v, mask)
    parts = [heed.attention(q, k[:, :, keys], v[:, :, keys], np.ascontiguousarray(mask[:, keys]), return_lse=True)
             for keys in (slice(0, cut), slice(cut, None))]
    merged = heed.merge(*parts)
    np.testing.assert_allclose(merged.out, whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(merged.lse, lse, rtol=1e-12, atol=1e-12)


def test_merge_of_ragged_batches():
    q, k, v = ragged_inputs()
    whole = heed.attention(q, k, v, q_offsets=OFFSETS[0], k_offsets=OFFSETS[1], return_lse=True)
    first, second = np.array([0, 2, 4, 9]), np.array([0, 3, 3, 11])  # the first keys of each entry, the others
    places = [np.concatenate([np.arange(*OFFSETS[1][b:b + 2])[:first[b + 1] - first[b]] for b in range(3)])]
    places.append(np.setdiff1d(np.arange(20), places[0]))
    parts = [heed.attention(q, k[place], v[place], q_offsets=OFFSETS[0], k_offsets=offsets, return_lse=True)
             for place, offsets in zip(places, (first, second))]
    merged = heed.merge(*parts)
    np.testing.assert_allclose(merged.out, whole.out, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(merged.lse, whole.lse, rtol=1e-12, atol=1e-12)
    assert merged.lse.shape == (4, 10)


# ---- Large masks

LARGE = [1e3, 1e4, 1e6, 1e7, 1e8, 1e9, 2.0**31, 2.0**32 - 1, 3e9, 1e10, 9e15, 1e18, 1e20, 1e24, 1e30, 1e37, 1e38,
         2.36e38, 3e38, 3.4e38, float(np.finfo(np.float32).max)]


def large_mask(dtype, keys=13):
    """A row of nothing else for each magnitude and sign, and rows where every third key has 0."""
    rows = [np.full(keys, sign * x) for x in LARGE for sign in (1, -1)]
    mixed = [np.where(np.arange(keys) % 3 == 0, 0, row) for row in rows]
    return np.stack(rows + mixed).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def test_large_masks(dtype):
    """Weights, results and gradients are those of the softmax of the sums of score and mask, in the compute type."""
    mask = large_mask(dtype)
    random = np.random.default_rng(3)
    q, k, v, grad = (random.integers(-2, 3, shape).astype(dtype) for shape in
                     ((1, 2, len(mask), 4), (1, 2, 13, 4), (1, 2, 13, 5), (1, 2, len(mask), 5)))
    sums = ((q @ np.swapaxes(k, 2, 3)).astype(dtype) + mask).astype(np.float64)  # the scores are small integers
    terms = np.exp(sums - sums.max(axis=3, keepdims=True))
    weights = terms / terms.sum(axis=3, keepdims=True)
    dv = np.swapaxes(weights, 2, 3) @ grad
    dp = grad @ np.swapaxes(v, 2, 3).astype(np.float64)
    ds = weights * (dp - (weights * dp).sum(axis=3, keepdims=True))
    near = dict(rtol=0, atol=50 * np.finfo(dtype).eps)
    r = heed.attention(q, k, v, mask, scale=1, return_lse=True, return_weights=True)
    np.testing.assert_allclose(r.weights, weights, **near)
    np.testing.assert_allclose(r.out, weights @ v, **near)
    for result in (r, heed.AttentionResult(r.out, r.lse, options=r._options)):  # the second has no lse_low
        g = heed.attention_backward(grad, q, k, v, result)
        np.testing.assert_allclose(g.v, dv, rtol=0, atol=50 * np.finfo(dtype).eps * np.abs(dv).max())
        np.testing.assert_allclose(g.q, ds @ k, rtol=0, atol=50 * np.finfo(dtype).eps * 20)
        np.testing.assert_allclose(g.k, np.swapaxes(ds, 2, 3) @ q, rtol=0, atol=50 * np.finfo(dtype).eps * 200)
        np.testing.assert_allclose(g.mask, ds.sum(axis=(0, 1)), rtol=0, atol=50 * np.finfo(dtype).eps * 20)
    parts = [heed.attention(q, k[:, :, keys], v[:, :, keys], np.ascontiguousarray(mask[:, keys]), scale=1,
                            return_lse=True) for keys in (slice(0, 4), slice(4, None))]
    merged = heed.merge(*parts)
    np.testing.assert_allclose(merged.out, weights @ v, **near)
    assert merged.lse_low.shape == merged.lse.shape
    if dtype == np.float32:
        parts[0].lse_low = None
        with pytest.raises(heed.ShapeError, match="merge: a has a lse of .* lost the sum"):
            heed.merge(*parts)


def test_large_masks_of_half_precision_operands():
    for dtype in (np.float16,):
        q, k, v = (x.astype(dtype) for x in inputs(heads=2, kv_heads=2, batch=1))
        for hidden in (-65504.0, -1e9, -1e20):
            r = heed.attention(q, k, v, np.full((9, 13), hidden, np.float32), return_weights=True)
            scores = np.float32(1 / np.sqrt(8)) * (q.astype(np.float32) @ np.swapaxes(k.astype(np.float32), 2, 3))
            sums = (scores + np.float32(hidden)).astype(np.float64)
            terms = np.exp(sums - sums.max(axis=3, keepdims=True))
            np.testing.assert_allclose(r.weights, terms / terms.sum(axis=3, keepdims=True), atol=1e-3)
            if hidden < -1e8:
                np.testing.assert_allclose(r.weights, 1 / 13, atol=1e-6)


def test_large_scores_of_equal_keys():
    random = np.random.default_rng(1)
    for size in (1e3, 1e7, 1e10, 1e18):
        q = (random.standard_normal((1, 1, 3, 64)) * np.sqrt(size)).astype(np.float32)
        k = np.repeat((random.standard_normal((1, 1, 1, 64)) * np.sqrt(size)).astype(np.float32), 3, axis=2)
        v = random.standard_normal((1, 1, 3, 2)).astype(np.float32)
        r = heed.attention(q, k, v, return_lse=True, return_weights=True)
        np.testing.assert_allclose(r.weights, 1 / 3, rtol=1e-5)
        g = heed.attention_backward(np.ones_like(r.out), q, k, v, r)
        np.testing.assert_allclose(g.v, 1, rtol=1e-5)


def test_the_lowest_number_is_a_number():
    """A key that it masks is out, a row of nothing else is the mean, as in other libraries."""
    q, k, v = (x.astype(np.float32) for x in inputs(heads=2, kv_heads=2))
    mask = np.zeros((9, 13), np.float32)
    mask[2] = mask[:, 3] = np.finfo(np.float32).min
    mask[4, 5] = np.finfo(np.float32).max
    out = heed.attention(q, k, v, mask)
    np.testing.assert_allclose(out[:, :, 2], v.mean(axis=2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out[:, :, 4], v[:, :, 5])
    others = [0, 1, 3, 5, 6, 7, 8]
    hidden = heed.attention(q, k, v, np.where(mask == np.finfo(np.float32).min, -np.inf, mask).astype(np.float32))
    np.testing.assert_array_equal(out[:, :, others], hidden[:, :, others])


# ---- What is refused, and what is taken

# Calls that are refused, with what their messages say to pass instead.
ADVICE = {
    "a mask of fewer keys": ({"mask": np.ones((3, 4), bool)}, r"pass \(Lq, Lk\) = \(9, 13\)",
                             {"mask": np.ones((9, 13), bool)}),
    "a mask of other queries": ({"mask": np.ones((3, 13), bool)}, "dimensions, from the right, are 1 or those sizes$",
                                {"mask": np.ones((1, 13), bool)}),
    "a mask of more keys": ({"mask": np.ones((9, 14), bool)}, r"\(B, Hq, Lq, Lk\) = \(2, 4, 9, 13\); pass",
                            {"mask": np.ones((2, 4, 9, 13), bool)}),
    "a mask of integers": ({"mask": np.ones((9, 13), int)}, "pass bool .* or float64 like q",
                           {"mask": np.ones((9, 13), bool)}),
    "key_lengths for others": ({"key_lengths": np.array([3])}, r"pass one length an entry, \(2\)",
                               {"key_lengths": np.array([3, 4])}),
    "key_lengths of floats": ({"key_lengths": np.array([3.0, 4])}, "pass int32 or int64",
                              {"key_lengths": np.array([3, 4], np.int32)}),
    "alibi for others": ({"alibi": np.zeros(2)}, r"pass \(Hq\) = \(4\)", {"alibi": np.zeros(4)}),
    "alibi of another dtype": ({"alibi": np.zeros(4, np.float32)}, r"pass float64, convert with astype\(\)",
                               {"alibi": np.zeros(4, np.float32).astype(np.float64)}),
    "heads that are not there": ({"return_weights": heed.Select(heads=[4])}, "Select.heads has 4; q has 4 heads; pass -4 to 3",
                                 {"return_weights": heed.Select(heads=[-4, 3])}),
    "rows that are not there": ({"return_weights": heed.Select(rows=[-10])}, "q has 9 rows; pass -9 to 8",
                                {"return_weights": heed.Select(rows=[-9, 8])}),
    "a share of 0": ({"return_weights": heed.Select(top_p=0)}, r"Select.top_p is 0; pass a share of the weights in \(0, 1\]",
                     {"return_weights": heed.Select(top_p=1)}),
    "an offset beside bottom_right": ({"causal": "bottom_right", "offset": 2}, "or causal=True with this offset",
                                      {"causal": True, "offset": 2}),
    "a window of three": ({"window": 3}, r"pass \(left, right\)", {"window": (3, -1)}),
    "dropout of all": ({"dropout_p": 1}, r"dropout_p is 1; pass a probability in \[0, 1\)", {"dropout_p": 0.9}),
    "out of another shape": ({"out": np.zeros((2, 4, 9, 1))}, r"attention: out has shape .*; pass .* = \(2, 4, 9, 5\)",
                             {"out": np.zeros((2, 4, 9, 5))}),
    "out of another dtype": ({"out": np.zeros((2, 4, 9, 5), np.float32)}, "out is float32; pass memory of float64",
                             {"out": np.zeros((2, 4, 9, 5))}),
    "strided out": ({"out": np.zeros((2, 4, 9, 10))[..., ::2]}, "of out is 2, which must be 1; pass contiguous memory",
                    {"out": np.zeros((2, 4, 9, 5))}),
    "a part of the weights beside out": ({"out": np.zeros((2, 4, 9, 5)), "return_weights": heed.Select(top_p=0.5)},
                                         r"call attention\(\) without out", {"return_weights": heed.Select(top_p=0.5)}),
}


@pytest.mark.parametrize("wrong, text, right", ADVICE.values(), ids=ADVICE)
def test_advice_works(wrong, text, right):
    q, k, v = inputs()
    with pytest.raises((heed.ShapeError, TypeError), match=text):
        heed.attention(q, k, v, **wrong)
    heed.attention(q, k, v, **right)


def test_advice_on_operands_works():
    q, k, v = inputs()
    with pytest.raises(heed.ShapeError, match=r"make them equal, with broadcast_to\(\) where one is shared"):
        heed.attention(q, k[:1], v[:1])
    heed.attention(q, np.broadcast_to(k[:1], k.shape), np.broadcast_to(v[:1], v.shape))
    with pytest.raises(heed.ShapeError, match=r"\(B, Hq, Lq, D\); add the missing ones with reshape$"):
        heed.attention(q[0], k[:1], v[:1])
    heed.attention(q[0].reshape(1, *q[0].shape), k[:1], v[:1])
    with pytest.raises(heed.ShapeError, match=r"\(B, Hq, Lq, D\); select from the others, or join them$"):
        heed.attention(q[None], k, v)
    heed.attention(q[None][0], k, v)
    with pytest.raises(heed.ShapeError, match=r"call np.ascontiguousarray\(\) first"):
        heed.attention(q.transpose(0, 1, 3, 2), k, v)
    r = heed.attention(q, k, v, return_lse=True)
    with pytest.raises(heed.ShapeError, match="r.out has shape .*; pass the result of the same q, k and v"):
        heed.attention_backward(q[:, :, :3], q[:, :, :3], k, v, r)

def test_a_mask_has_all_keys():
    q, k, v = inputs()
    for mask in (np.ones((9, 12), bool), np.zeros((2, 1, 9, 6))):
        with pytest.raises(heed.ShapeError, match=r"does not broadcast to .*; pass \(Lq, Lk\) = \(9, 13\), or a shape"):
            heed.attention(q, k, v, mask)
    cache = heed.KVCache(1, 1, 4, 8, dtype="float64")
    x = numbers(1, 1, 3, 8)
    cache.append(x, x)
    one = x[:, :, :1]
    with pytest.raises(heed.ShapeError, match=r"KVCache: a mask of shape \(3\) .*; pass \(Lq, Lk\) = \(1, 4\)"):
        cache.attend(one, one, one, np.zeros(3))
    assert len(cache) == 3


def test_memory_whose_rows_overlap_is_not_written():
    q, k, v = (x.astype(np.float32) for x in inputs(batch=1, heads=1, kv_heads=1, queries=5, value_size=4))
    memory = np.zeros(100, np.float32)

    def of(*strides):
        return np.lib.stride_tricks.as_strided(memory, (1, 1, 5, 4), tuple(4 * s for s in strides))
    for strides in ((20, 20, 1, 1), (20, 20, 3, 1), (0, 0, 2, 1)):
        with pytest.raises(heed.ShapeError, match="attention: out .*memory"):
            heed.attention(q, k, v, out=of(*strides))
    for strides in ((20, 20, 4, 1), (0, 0, 9, 1), (1, 1, 4, 1)):
        out = of(*strides)
        np.testing.assert_array_equal(heed.attention(q, k, v, out=out), heed.attention(q, k, v))


def test_empty_arrays_of_any_strides():
    empty = np.lib.stride_tricks.as_strided(np.zeros(1), (0, 2, 3, 4), (0, 0, 0, 0))
    r = heed.attention(empty, empty, empty, return_lse=True)
    assert r.out.shape == (0, 2, 3, 4)
    g = heed.attention_backward(empty, empty, empty, empty, r)
    assert g.q.shape == g.k.shape == (0, 2, 3, 4)
    none = np.lib.stride_tricks.as_strided(np.zeros(1), (1, 2, 0, 4), (0, 0, 0, 0))
    assert (heed.attention(np.ones((1, 2, 3, 4)), none, none) == 0).all()
    assert heed.rotary(empty).shape == empty.shape


def test_explain_names_what_runs():
    q, k, v = inputs(np.float32, queries=128, keys=128)
    assert "fused" in heed.explain(q, k, v, causal=True).split(";")[0]
    assert heed.explain(q, k, v) != heed.explain(q[:, :, :1], k, v)


def test_results_say_what_they_hold():
    r = heed.attention(*inputs(), return_lse=True)
    assert repr(r) == "AttentionResult(out (2, 4, 9, 5), lse (2, 4, 9))"


@pytest.mark.parametrize("spellings", [(False, None, np.False_, 0, np.int64(0)),
                                       (True, "top_left", "top-left", np.True_, 1, np.int64(1), np.uint8(1)),
                                       ("bottom_right", "bottom-right")])
def test_spellings_of_causal(spellings):
    q, k = numbers(1, 2, 5, 4), numbers(1, 2, 7, 4)
    expected = heed.attention(q, k, k, causal=spellings[0])
    for causal in spellings:
        np.testing.assert_array_equal(heed.attention(q, k, k, causal=causal), expected)
        np.testing.assert_array_equal(heed.attention(q, k, k, causal=causal, return_lse=True).out, expected)
        assert heed.explain(q, k, k, causal=causal) == heed.explain(q, k, k, causal=spellings[0])
        layer = heed.nn.MultiheadAttention(8, 2)
        x = numbers(1, 5, 8).astype(np.float32)
        np.testing.assert_array_equal(layer(x, x, x, causal=causal).numpy(), layer(x, x, x, causal=spellings[0]).numpy())
        cache, other = (heed.KVCache(1, 2, 5, 4, dtype="float64") for _ in range(2))
        np.testing.assert_array_equal(cache.attend(q, q, q, causal=causal), other.attend(q, q, q, causal=spellings[0]))
    for wrong in ("left", "topleft", 2, -1, 2**70, 0.0, 1.0, np.int64(2), np.array([1, 1]), "True", [True]):
        with pytest.raises(heed.ShapeError, match="pass False, True or 'top_left'"):
            heed.attention(q, k, k, causal=wrong)


@pytest.mark.parametrize("name, here", [("is_causal", "causal"), ("attn_mask", "mask"), ("dropout", "dropout_p"),
                                        ("sm_scale", "scale"), ("windows", "window"), ("soft_cap", "softcap")])
def test_names_of_other_libraries(name, here):
    x = numbers(1, 1, 2, 4)
    with pytest.raises(TypeError, match=f"attention: there is no option '{name}'; use {here}$"):
        heed.attention(x, x, x, **{name: 1})
    with pytest.raises(TypeError, match="'enable_gqa'; leave it out"):
        heed.attention(x, x, x, enable_gqa=True)
    with pytest.raises(TypeError, match=r"'frobnicate'; help\(heed.attention\) lists them"):
        heed.attention(x, x, x, frobnicate=1)
