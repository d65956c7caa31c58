"""Score functions and masks in tiles beside what they say, written with NumPy."""
import array
import threading
import warnings

import heed
import numpy as np
import pytest
from heed import mods, nn

B, HQ, HKV, LQ, LK, D = 2, 4, 2, 70, 150, 8
B_, H_, I_, J_ = np.ogrid[:B, :HQ, :LQ, :LK]
SLOPES = np.array([0.5, 0.25, 0.125, 1.0])
TABLE = np.random.default_rng(5).standard_normal((HQ, 21))
IDS_Q, IDS_K = np.arange(LQ) // 20, np.arange(LK) // 40
LENGTHS = np.array([150, 33])


def inputs(dtype=np.float64, seed=0):
    random = np.random.default_rng(seed)
    shapes = (B, HQ, LQ, D), (B, HKV, LK, D), (B, HKV, LK, 5), (B, HQ, LQ, 5)
    return tuple(random.standard_normal(shape).astype(dtype) for shape in shapes)


def raw_scores(q, k):
    keys = np.repeat(np.asarray(k, np.float64), HQ // HKV, axis=1)
    return np.asarray(q, np.float64) @ np.swapaxes(keys, 2, 3) / np.sqrt(D)


def hide(visible):
    return lambda s: np.where(visible, s, -np.inf)


NAMED = {
    "alibi": (mods.alibi(SLOPES), lambda s: s - SLOPES[H_] * np.abs(I_ - J_)),
    "alibi behind a cache": (mods.alibi(SLOPES, offset=9), lambda s: s - SLOPES[H_] * np.abs(I_ + 9 - J_)),
    "softcap": (mods.softcap(0.7), lambda s: 0.7 * np.tanh(s / 0.7)),
    "scale": (mods.scale(-1.5), lambda s: -1.5 * s),
    "relative_bias": (mods.relative_bias(TABLE), lambda s: s + TABLE[H_, np.clip(10 + J_ - I_, 0, 20)]),
    "relative_bias of all heads": (mods.relative_bias(TABLE[0], offset=3),
                                   lambda s: s + TABLE[0][np.clip(7 + J_ - I_, 0, 20)]),
    "causal": (mods.causal(), hide(J_ <= I_)),
    "causal behind a cache": (mods.causal(offset=80), hide(J_ <= I_ + 80)),
    "sliding_window": (mods.sliding_window(3, 2, offset=1), hide((J_ >= I_ - 2) & (J_ <= I_ + 3))),
    "prefix": (mods.prefix(10), hide((J_ < 10) | (J_ <= I_))),
    "dilated": (mods.dilated(3), hide((J_ - I_) % 3 == 0)),
    "documents": (mods.documents(IDS_Q, IDS_K), hide(IDS_Q[I_] == IDS_K[J_])),
    "documents of each entry": (mods.documents(np.stack([IDS_Q, IDS_Q + 1]), np.stack([IDS_K, IDS_K]).astype(np.int32)),
                                hide(IDS_Q[I_] + B_ == IDS_K[J_])),
    "padding": (mods.padding(LENGTHS), hide(J_ < LENGTHS[B_])),
    "joined": (mods.relative_bias(TABLE) | mods.softcap(2) | mods.scale(3) | mods.causal(offset=60) | mods.dilated(2),
               lambda s: np.where((J_ <= I_ + 60) & ((J_ - I_) % 2 == 0),
                                  6 * np.tanh((s + TABLE[H_, np.clip(10 + J_ - I_, 0, 20)]) / 2), -np.inf)),
    "a function": (mods.function(lambda s, b, h, i, j: s * s + b - 0.1 * h * (i - j), lambda s, b, h, i, j: 2 * s),
                   lambda s: s * s + B_ - 0.1 * H_ * (I_ - J_)),
}


def softmax(scores):
    highest = scores.max(-1, keepdims=True)
    terms = np.exp(scores - np.where(np.isfinite(highest), highest, 0))
    total = terms.sum(-1, keepdims=True)
    return terms / np.where(total > 0, total, 1)


@pytest.mark.parametrize("dtype, close", [(np.float64, 1e-12), (np.float32, 3e-5)], ids=["float64", "float32"])
@pytest.mark.parametrize("mod, formula", NAMED.values(), ids=NAMED.keys())
def test_values(mod, formula, dtype, close):
    q, k, v, _ = inputs(dtype)
    scores = formula(raw_scores(q, k))
    r = heed.attention(q, k, v, score_mod=mod, return_scores="masked", return_weights=True)
    np.testing.assert_allclose(r.scores, scores, rtol=close, atol=10 * close)
    np.testing.assert_allclose(r.weights, softmax(scores), rtol=0, atol=close)
    np.testing.assert_allclose(r.out, softmax(scores) @ np.repeat(v, HQ // HKV, 1), rtol=0, atol=10 * close)


@pytest.mark.parametrize("mod", [mod for mod, _ in NAMED.values()], ids=NAMED.keys())
def test_gradients_are_differences(mod):
    q, k, v, grad = inputs()
    r = heed.attention(q, k, v, score_mod=mod, return_lse=True)
    g = heed.attention_backward(grad, q, k, v, r)
    random = np.random.default_rng(1)
    for name, x in (("q", q), ("k", k), ("v", v)):
        step = 1e-6 * random.standard_normal(x.shape)
        moved = {"q": q, "k": k, "v": v}
        sums = []
        for sign in (1, -1):
            moved[name] = x + sign * step
            sums.append(np.sum(grad * heed.attention(moved["q"], moved["k"], moved["v"], score_mod=mod)))
        np.testing.assert_allclose(np.sum(getattr(g, name) * step), (sums[0] - sums[1]) / 2, rtol=1e-6, atol=1e-12)


def test_gradients_of_tables():
    q, k, v, grad = inputs()
    tables = [TABLE, np.linspace(-1, 1, 5), TABLE[:, :3]]

    def mod(a, b, c):
        return (mods.relative_bias(a) | mods.softcap(3) | mods.relative_bias(b, offset=2) | mods.scale(0.5)
                | mods.relative_bias(c) | mods.causal(offset=30))

    r = heed.attention(q, k, v, score_mod=mod(*tables), return_lse=True)
    g = heed.attention_backward(grad, q, k, v, r)
    assert [x.shape for x in g.score_mod] == [(4, 21), (1, 5), (4, 3)]
    random = np.random.default_rng(2)
    for n, (table, found) in enumerate(zip(tables, g.score_mod, strict=True)):
        step = 1e-6 * random.standard_normal(table.shape)
        up, down = list(tables), list(tables)
        up[n], down[n] = table + step, table - step
        difference = np.sum(grad * (heed.attention(q, k, v, score_mod=mod(*up))
                                    - heed.attention(q, k, v, score_mod=mod(*down)))) / 2
        np.testing.assert_allclose(np.sum(found.reshape(table.shape) * step), difference, rtol=1e-6, atol=1e-12)
    assert heed.attention_backward(grad, q, k, v, heed.attention(q, k, v, return_lse=True)).score_mod == ()


MASKS = {name: mod for name, (mod, _) in NAMED.items() if mod.hides}


@pytest.mark.parametrize("mod", MASKS.values(), ids=MASKS.keys())
def test_block_masks(mod):
    q, k, v, grad = inputs()
    blocks = heed.block_mask(mod, LQ, LK, batch=B, heads=HQ)
    assert blocks.shape == (B, HQ, LQ, LK) and 0 <= blocks.sparsity < 1
    expected = heed.attention(q, k, v, score_mod=mod, return_lse=True)
    r = heed.attention(q, k, v, block_mask=blocks, return_lse=True)
    np.testing.assert_allclose(r.out, expected.out, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(heed.attention_backward(grad, q, k, v, r).k,
                               heed.attention_backward(grad, q, k, v, expected).k, rtol=1e-10, atol=1e-12)


def test_a_block_mask_of_a_function():
    q, k, v, _ = inputs()
    asked = []

    def near(b, h, i, j):
        asked.append(b)
        return (abs(i - j) < 20 + 5 * h) & (j != b)

    blocks = heed.block_mask(near, LQ, LK, batch=B, heads=HQ)
    calls = len(asked)
    scores = np.where((abs(I_ - J_) < 20 + 5 * H_) & (J_ != B_), raw_scores(q, k), -np.inf)
    r = heed.attention(q, k, v, block_mask=blocks, return_weights=True)
    np.testing.assert_allclose(r.weights, softmax(scores), atol=1e-12)
    assert len(asked) == calls
    assert repr(blocks).startswith("heed.BlockMask(2, 4, 70, 150; ")
    for batch, heads in ((1, 1), (B, 1), (1, HQ)):  # 1: the same for all entries, for all heads
        one = heed.block_mask(lambda b, h, i, j: j <= i + b + h, LQ, LK, batch=batch, heads=heads)
        scores = np.where(J_ <= I_ + B_ % batch + H_ % heads, raw_scores(q, k), -np.inf)
        r = heed.attention(q, k, v, block_mask=one, return_weights=True)
        np.testing.assert_allclose(r.weights, softmax(scores), atol=1e-12)
    assert heed.block_mask(lambda b, h, i, j: True, 5, 7).sparsity == 0
    assert heed.block_mask(lambda b, h, i, j: i < 0, 5, 7).sparsity == 1
    assert heed.block_mask(lambda b, h, i, j: True, 0, 7, batch=3).shape == (3, 1, 0, 7)


def test_a_plain_function_warns_once_and_has_no_gradient():
    q, k, v, grad = inputs()

    def square(score, b, h, i, j):
        assert score.shape[0] == i.shape[0] and score.shape[1] == j.shape[1] and i.shape[1] == j.shape[0] == 1
        return score ** 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        r = heed.attention(q, k, v, score_mod=square, return_lse=True)
        heed.attention(q, k, v, score_mod=square)
    assert len(caught) == 1 and "heed.mods" in str(caught[0].message)
    expected = heed.attention(q, k, v, score_mod=mods.function(square, lambda s, *at: 2 * s))
    np.testing.assert_array_equal(r.out, expected)
    with pytest.raises(heed.ShapeError, match="has no derivative; pass heed.mods.function"):
        heed.attention_backward(grad, q, k, v, r)


def test_what_a_function_raises_the_call_raises():
    q, k, v, _ = inputs()

    def fails(score, b, h, i, j):
        raise LookupError("not there")

    for _ in range(3):
        with pytest.raises(LookupError, match="not there"):
            heed.attention(q, k, v, score_mod=mods.function(fails))
    once = mods.function(lambda s, *at: s[:, :1, None] if s.shape[1] > 1 else s)
    with pytest.raises(heed.ShapeError, match=r"score_mod: the function gave .* of the shape of its indices, here"):
        heed.attention(q, k, v, score_mod=once)
    with pytest.raises(heed.ShapeError, match="the function gave 'text'"):
        heed.attention(q, k, v, score_mod=mods.function(lambda s, *at: "text"))
    interrupted = mods.function(lambda *at: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        heed.attention(q, k, v, score_mod=interrupted)


def test_functions_from_several_threads():
    q, k, v, _ = inputs()
    mod = mods.function(lambda s, b, h, i, j: s - 0.01 * j) | mods.softcap(5)
    expected = heed.attention(q, k, v, score_mod=mod)
    wrong = []

    def run():
        for _ in range(5):
            if not np.array_equal(heed.attention(q, k, v, score_mod=mod), expected):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_tables_of_every_kind():
    q, k, v, _ = inputs()
    expected = heed.attention(q, k, v, score_mod=mods.relative_bias(TABLE[0]))
    row = TABLE[0].copy()
    for table in (memoryview(row), array.array("d", row), nn.Variable(row), OnlyDlpack(row)):
        assert np.array_equal(heed.attention(q, k, v, score_mod=mods.relative_bias(table)), expected)


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_tables_are_copied():
    q, k, v, _ = inputs()
    tables = TABLE.copy(), SLOPES.copy(), IDS_K.copy(), LENGTHS.copy()
    bias, slopes, ids, lengths = tables
    chain = mods.relative_bias(bias) | mods.alibi(slopes) | mods.documents(ids) | mods.padding(lengths)
    before = heed.attention(q, k, v, score_mod=chain)
    for table in tables:
        table[:] = 1
    assert np.array_equal(heed.attention(q, k, v, score_mod=chain | mods.scale(1)), before)


def test_ragged_batches():
    offsets = np.array([0, 30, 30, 70])
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((70, heads, 8)) for heads in (4, 2, 2))
    mod = mods.relative_bias(TABLE) | mods.padding(np.array([20, 5, 40]))
    out = heed.attention(q, k, v, q_offsets=offsets, k_offsets=offsets, score_mod=mod)
    for b, keys in ((0, 20), (2, 40)):
        part = slice(offsets[b], offsets[b + 1])
        one = heed.attention(*(np.ascontiguousarray(np.swapaxes(x[part], 0, 1))[None] for x in (q, k, v)),
                             score_mod=mods.relative_bias(TABLE), key_lengths=np.array([keys]))
        np.testing.assert_allclose(out[part], np.swapaxes(one[0], 0, 1), rtol=1e-12)


REFUSED = [
    (lambda: mods.alibi(np.ones((2, 2))), r"mods.alibi: slopes is \(2, 2\); pass \(Hq\)"),
    (lambda: mods.alibi(np.arange(4)), "slopes is int64; pass floating numbers"),
    (lambda: mods.alibi(np.zeros(0)), "slopes is empty"),
    (lambda: mods.softcap(0), "cap is 0; pass a number above 0"),
    (lambda: mods.softcap(float("nan")), "cap is nan; pass a finite number"),
    (lambda: mods.relative_bias(np.zeros(4)), r"table is \(4\); pass \(2 n \+ 1\)"),
    (lambda: mods.relative_bias(np.float64(1)), r"table is .*; pass \(2 n \+ 1\)"),
    (lambda: mods.sliding_window(-1), "left is -1; pass 0 to 2"),
    (lambda: mods.dilated(0), "step is 0; pass 1 to 2"),
    (lambda: mods.causal(offset=1 << 40), "offset is 1099511627776; pass -1073741824 to 2"),
    (lambda: mods.documents(np.zeros((1, 1, 1), np.int64)), r"pass \(Lq\) and \(Lk\)"),
    (lambda: mods.documents(np.zeros(3)), "query_ids is float64; pass int32 or int64"),
    (lambda: mods.documents(np.array([1 << 40])), "holds 1099511627776; pass numbers that fit in int32"),
    (lambda: heed.block_mask(mods.softcap(1), 5, 5), r"softcap\(1\) does more than hide"),
    (lambda: heed.block_mask(mods.causal(), -1, 5), "queries is -1; it must be from 0"),
    (lambda: heed.block_mask(mods.causal(), 5, 1 << 40), "keys is 1099511627776"),
    (lambda: heed.block_mask(mods.padding(np.array([1, 2])), 5, 5), "numbers for 2 entries, and the call has 1"),
    (lambda: heed.block_mask(mods.padding(np.zeros(0, np.int64)), 5, 5), "numbers for 0 entries, and the call has 1"),
    (lambda: heed.block_mask(mods.documents(np.zeros((0, 5), np.int64)), 5, 5), "numbers for 0 entries"),
    (lambda: heed.block_mask(mods.documents(np.zeros(0, np.int64), IDS_K), 5, 5), "numbers for 0 queries"),
    (lambda: heed.block_mask(mods.documents(IDS_Q), 71, 5), "numbers for 70 queries, and the call has 71"),
    (lambda: heed.block_mask(lambda *at: 1, 1 << 30, 1 << 30), "more than 16 GiB; use heed.mods"),
    (lambda: heed.block_mask(lambda *at: 1, 1 << 58, 0), "queries is 288230376151711744; it must be from 0"),
    (lambda: heed.attention(*inputs()[:3], score_mod=mods.alibi(np.ones(3))),
     "numbers for 3 heads, and the call has 4"),
    (lambda: heed.attention(*inputs()[:3], score_mod=mods.documents(IDS_Q)),
     "numbers for 70 keys, and the call has 150"),
    (lambda: heed.attention(*inputs()[:3], block_mask=heed.block_mask(mods.causal(), 70, 149)), "a block_mask of"),
]


@pytest.mark.parametrize("call, message", REFUSED)
def test_refused(call, message):
    with pytest.raises(heed.ShapeError, match=message):
        call()


@pytest.mark.parametrize("call, message", [
    (lambda: mods.softcap("20"), "cap is '20'; pass a number"),
    (lambda: mods.function(3), "f is 3; pass a function of"),
    (lambda: mods.function(abs, 3), "derivative is 3; pass a function of"),
    (lambda: mods.causal() | 3, "unsupported operand"),
    (lambda: heed.block_mask(3, 5, 5), "mask is 3; pass a mask of heed.mods or a function"),
    (lambda: heed.attention(*inputs()[:3], score_mod=3), "score_mod is 3; pass one of heed.mods or a function"),
    (lambda: heed.attention(*inputs()[:3], block_mask=mods.causal()), r"pass the result of heed.block_mask\(\)"),
])
def test_no_function(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_repr():
    assert repr(mods.alibi(SLOPES) | mods.softcap(20) | mods.causal(offset=3)) == (
        "heed.mods: alibi(4 slopes) | softcap(20) | causal(3)")
