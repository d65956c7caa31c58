"""Rotary positions, caches of keys and values, and parts of the weights."""
import threading

import heed
import numpy as np
import pytest


def numbers(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def turned(x, positions, base=10000.0, size=None, interleaved=False):
    size = x.shape[-1] if size is None else size
    pairs = np.arange(size // 2)
    angle = np.asarray(positions)[..., None] * base ** (-2 * pairs / size)
    first, second = (2 * pairs, 2 * pairs + 1) if interleaved else (pairs, pairs + size // 2)
    y = x.copy()
    y[..., first] = x[..., first] * np.cos(angle) - x[..., second] * np.sin(angle)
    y[..., second] = x[..., second] * np.cos(angle) + x[..., first] * np.sin(angle)
    return y


@pytest.mark.parametrize("options", [{}, {"size": 4}, {"base": 500.0}, {"layout": "interleaved"}],
                         ids=lambda options: str(options))
def test_rotary(options):
    x = numbers(2, 3, 7, 8)
    positions = np.array([5, 0, 1, 2, 9, 100, 3])
    expected = turned(x, positions, options.get("base", 1e4), options.get("size"), "layout" in options)
    y = heed.rotary(x, positions, **options)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(heed.rotary(y, positions, **options, inverse=True), x, rtol=1e-12, atol=1e-13)
    assert heed.rotary(x, positions, **options, out=x) is x
    np.testing.assert_array_equal(x, y)


def test_rotary_by_tables_and_for_each_entry():
    x = numbers(2, 3, 4, 6, dtype=np.float32)
    positions = np.array([[0, 1, 2, 3], [7, 7, 0, 2]], np.int32)
    angle = np.arange(8)[:, None] * 10000.0 ** (-np.arange(3) / 3)
    expected = heed.rotary(x, positions)
    np.testing.assert_allclose(expected[1], turned(x[1], positions[1]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(heed.rotary(x, positions, cos=np.cos(angle), sin=np.sin(angle)), expected, atol=1e-6)
    looked_up = angle[positions]
    np.testing.assert_allclose(heed.rotary(x, cos=np.cos(looked_up), sin=np.sin(looked_up)), expected, atol=1e-6)


@pytest.mark.parametrize("call, message", [
    (lambda: heed.rotary(numbers(2, 3, 4)), "rotary"),
    (lambda: heed.rotary(numbers(1, 1, 4, 6), size=5), "size"),
    (lambda: heed.rotary(numbers(1, 1, 4, 6), size=0), "size is 0; pass an even number"),
    (lambda: heed.rotary(numbers(1, 1, 4, 6), layout="both"), "layout is 'both'; pass 'half_split' or 'interleaved'"),
    (lambda: heed.rotary(numbers(1, 1, 4, 6), layout="\ud800"), "layout is '.ud800'; pass 'half_split'"),
    (lambda: heed.rotary(numbers(1, 1, 4, 6), np.arange(5)), "positions"),
    (lambda: heed.rotary(numbers(1, 1, 4, 6), cos=np.ones((4, 3))), "sin"),
])
def test_rotary_refuses(call, message):
    with pytest.raises(heed.ShapeError, match=message):
        call()


def test_rotary_writes_where_each_element_has_a_place():
    x = numbers(2, 3, 4, 6)
    expected, memory = heed.rotary(x), np.zeros(1000)

    def view(shape, strides, memory=memory):
        return np.lib.stride_tricks.as_strided(memory, shape, [8 * s for s in strides])
    for strides in (72, 24, 6, 1), (72, 6, 18, 1), (200, 60, 10, 1):
        out = view(x.shape, strides)
        assert heed.rotary(x, out=out) is out
        np.testing.assert_array_equal(out, expected)
    memory[:] = 7
    for strides, dimension in ((72, 24, 0, 1), 2), ((72, 0, 6, 1), 1), ((0, 24, 6, 1), 0):
        with pytest.raises(heed.ShapeError, match=f"rotary: out is broadcast along dimension {dimension} and cannot"):
            heed.rotary(x, out=view(x.shape, strides))
    for strides in (72, 24, 5, 1), (72, 23, 6, 1), (71, 24, 6, 1):
        with pytest.raises(heed.ShapeError, match=r"rotary: out of shape \(2, 3, 4, 6\) has strides .* may share memory"):
            heed.rotary(x, out=view(x.shape, strides))
    assert (memory == 7).all()
    memory[:] = numbers(1000)
    before = memory.copy()
    for first, strides in (6, (72, 24, 6, 1)), (0, (72, 6, 18, 1)):
        with pytest.raises(heed.ShapeError, match="rotary: out shares memory with x, which is read"):
            heed.rotary(view(x.shape, (72, 24, 6, 1)), out=view(x.shape, strides, memory[first:]))
    np.testing.assert_array_equal(memory, before)
    same = view(x.shape, (0, 24, 6, 1))  # read only: every entry alike
    np.testing.assert_array_equal(heed.rotary(same), heed.rotary(same.copy()))
    with pytest.raises(heed.ShapeError, match="out is broadcast"):
        heed.rotary(same, out=same)
    table = memory[:12].reshape(4, 3)
    with pytest.raises(heed.ShapeError, match="rotary: out shares memory with cos"):
        heed.rotary(x, cos=table, sin=np.ones((4, 3)), out=view(x.shape, (72, 24, 6, 1)))


def test_rotary_into_a_torch_tensor():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(numbers(2, 3, 4, 6))
    for out in torch.zeros(1, 3, 4, 6, dtype=x.dtype).expand(2, 3, 4, 6), torch.zeros(300, dtype=x.dtype).as_strided(
            (2, 3, 4, 6), (72, 24, 5, 1)):
        with pytest.raises(heed.ShapeError, match="pass separate memory"):
            heed.rotary(x, out=out)
    out = torch.zeros(2, 4, 3, 6, dtype=x.dtype).transpose(1, 2)
    torch.testing.assert_close(heed.rotary(x, out=out), heed.rotary(x), rtol=0, atol=0)


@pytest.mark.parametrize("rotary", [None, heed.Rotary(layout="interleaved")], ids=["plain", "rotary"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_step_by_step_is_all_at_once(dtype, rotary):
    q, k, v = (numbers(2, heads, 11, 8, dtype=dtype, seed=heads) for heads in (4, 2, 2))
    turn = (lambda x: heed.rotary(x, layout="interleaved")) if rotary else lambda x: x
    expected = heed.attention(turn(q), turn(k), v, causal=True)
    cache = heed.KVCache(2, 2, 16, 8, dtype=dtype)
    cache.append(k[:, :, :5], v[:, :, :5], rotary)
    assert len(cache) == 5 and cache.capacity == 16 and cache.dtype == dtype
    close = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3}[dtype]
    for first, last in ((5, 6), (6, 9), (9, 11)):
        part = slice(first, last)
        out = cache.attend(q[:, :, part], k[:, :, part], v[:, :, part], rotary=rotary)
        assert type(out) is np.ndarray and out.dtype == dtype
        np.testing.assert_allclose(out, expected[:, :, part], rtol=close, atol=close)
    np.testing.assert_allclose(cache.keys, turn(k), rtol=close, atol=close)
    np.testing.assert_array_equal(cache.values, v)
    assert repr(cache) == f"heed.KVCache(11 of 16 positions, {dtype})"


def test_what_a_cache_can_do():
    k, v = numbers(2, 1, 4, 6, seed=1), numbers(2, 1, 4, 3, seed=2)
    cache = heed.KVCache(2, 1, 4, 6, 3, "float64")
    cache.append(k, v)
    view = cache.keys
    cache.reorder([1, 1])
    np.testing.assert_array_equal(cache.keys, k[[1, 1]])
    cache.truncate(2)
    assert cache.keys.shape == (2, 1, 2, 6) and view.shape == (2, 1, 4, 6)
    cache.reserve(9)
    assert cache.capacity >= 9 and len(cache) == 2
    np.testing.assert_array_equal(cache.values, v[[1, 1], :, :2])
    np.testing.assert_array_equal(view, k)  # memory of before, still alive
    cache.clear()
    assert len(cache) == 0

    r = cache.attend(numbers(2, 3, 2, 6), k[:, :, :2], v[:, :, :2], return_lse=True,
                     return_weights=heed.Select(heads=[-1]), score_mod=heed.mods.softcap(2))
    assert r.lse.shape == (2, 3, 2) and r.weights.shape == (2, 1, 2, 2) and r.weights[0, 0, 0, 1] == 0
    with pytest.raises(heed.ShapeError):
        heed.attention_backward(r.out, numbers(2, 3, 2, 6), k[:, :, :2], v[:, :, :2], r)


def test_weights_next_to_large_masks():
    for hidden in (-1e9, -1e20, -1e30):
        cache = heed.KVCache(1, 1, 5, 4)
        x = numbers(1, 1, 5, 4).astype(np.float32)
        r = cache.attend(x, x, x, np.full(5, hidden, np.float32), False, return_weights=True)
        np.testing.assert_allclose(r.weights, 0.2, rtol=1e-5)


def test_bottom_right_is_top_left_at_the_length():
    q, k, v = numbers(2, 1, 2, 4, seed=1), numbers(2, 1, 2, 4, seed=2), numbers(2, 1, 2, 4, seed=3)
    results = []
    for causal in (True, "bottom_right"):
        cache = heed.KVCache(2, 1, 5, 4, dtype="float64")
        cache.append(numbers(2, 1, 3, 4, seed=4), numbers(2, 1, 3, 4, seed=5))
        results.append(cache.attend(q, k, v, causal=causal, key_lengths=np.array([5, 3])))
    np.testing.assert_array_equal(*results)


def test_a_cache_refuses_and_stays_as_it_was():
    k, v = numbers(1, 2, 3, 4), numbers(1, 2, 3, 4)
    cache = heed.KVCache(1, 2, 4, 4, dtype="float64")
    cache.append(k, v)
    before = cache.keys.copy()
    q = numbers(1, 2, 1, 4)
    one = slice(0, 1)

    def fails(*at):
        raise LookupError("not there")

    calls = [
        (heed.ShapeError, "do not fit a capacity of 4", lambda: cache.append(k, v)),
        (heed.ShapeError, "this cache takes", lambda: cache.append(k[:, :1, one], v[:, :1, one])),
        (heed.ShapeError, "each new query is a new key", lambda: cache.attend(numbers(1, 2, 2, 4), k[:, :, one],
                                                                              v[:, :, one])),
        (heed.ShapeError, "numbers for 3 heads", lambda: cache.attend(q, k[:, :, one], v[:, :, one],
                                                                   score_mod=heed.mods.alibi(np.ones(3)))),
        (LookupError, "not there", lambda: cache.attend(q, k[:, :, one], v[:, :, one],
                                                        score_mod=heed.mods.function(fails))),
        (heed.ShapeError, "length 4; pass 0 to 3", lambda: cache.truncate(4)),
        (heed.ShapeError, "entry 1 of 1; count from 0", lambda: cache.reorder([1])),
        (TypeError, "KVCache: source is 1.5; pass a list of entries", lambda: cache.reorder(1.5)),
        (TypeError, "rotary is a int; pass a heed.Rotary", lambda: cache.append(k[:, :, one], v[:, :, one], 3)),
        (TypeError, "positions is 'many'; pass an integer", lambda: cache.reserve("many")),
    ]
    for kind, message, call in calls:
        with pytest.raises(kind, match=message):
            call()
        assert len(cache) == 3
        np.testing.assert_array_equal(cache.keys, before)
    for dtype in ("int8", "\ud800"):
        with pytest.raises(heed.ShapeError, match="dtype is '.*'; pass 'float32'"):
            heed.KVCache(1, 1, 1, 1, dtype=dtype)
    with pytest.raises((heed.ShapeError, MemoryError)):
        heed.KVCache(1 << 30, 1 << 30, 1 << 30, 8)


def test_threads_take_turns():
    cache = heed.KVCache(1, 1, 400, 4)
    k = numbers(1, 1, 1, 4, dtype=np.float32)

    def run():
        for _ in range(100):
            cache.attend(k, k, k)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(cache) == 400


def test_selected_weights():
    q, k, v = numbers(2, 4, 9, 8, seed=1), numbers(2, 2, 13, 8, seed=2), numbers(2, 2, 13, 8, seed=3)
    whole = heed.attention(q, k, v, return_weights=True).weights
    r = heed.attention(q, k, v, return_weights=heed.Select(heads=[3, 0], rows=[-1]))
    np.testing.assert_array_equal(r.weights, whole[:, [3, 0]][:, :, [-1]])
    assert r.top is None
    out = np.empty((2, 4, 9, 8))
    r = heed.attention(q, k, v, return_weights=heed.Select(rows=np.array([2, 4])), out=out)
    assert r.out is out
    np.testing.assert_array_equal(r.weights, whole[:, :, [2, 4]])
    assert heed.attention(q, k, v, return_weights=heed.Select(heads=[])).weights.shape == (2, 0, 9, 13)
    last = np.array([-1])
    heed.attention(q, k, v, return_weights=heed.Select(rows=last))
    assert last[0] == -1

    top = heed.attention(q, k, v, return_weights=heed.Select(heads=[0], rows=[-1], top_p=0.9)).top
    assert top.offsets.tolist()[0] == 0 and top.offsets.shape == (3,)
    for b in range(2):
        part = slice(top.offsets[b], top.offsets[b + 1])
        row = whole[b, 0, -1]
        order = np.argsort(-row)
        fewest = int(np.searchsorted(np.cumsum(row[order]), 0.9)) + 1
        assert top.keys[part].tolist() == order[:fewest].tolist()
        np.testing.assert_array_equal(top.weights[part], row[order[:fewest]])
    assert "top (" in repr(heed.attention(q, k, v, return_weights=heed.Select(top_p=0.5)))


@pytest.mark.parametrize("select, message", [
    (heed.Select(heads=[4]), "Select.heads has 4; q has 4 heads; pass -4 to 3"),
    (heed.Select(rows=[-10]), "Select.rows has -10; q has 9 rows; pass -9 to 8"),
    (heed.Select(heads=[0.5]), r"Select.heads is \[0.5\]; pass a list of integers"),
    (heed.Select(top_p=0), "top_p is 0; pass a share"),
    (heed.Select(top_p=float("nan")), "top_p is nan; pass a share"),
])
def test_select_refuses(select, message):
    with pytest.raises(heed.ShapeError, match=message):
        heed.attention(numbers(2, 4, 9, 8), numbers(2, 2, 13, 8), numbers(2, 2, 13, 8), return_weights=select)


def test_mask_gradients_only_where_wanted():
    q, k, v = numbers(1, 2, 5, 4), numbers(1, 2, 5, 4, seed=1), numbers(1, 2, 5, 4, seed=2)
    r = heed.attention(q, k, v, mask=numbers(5, 5), return_lse=True)
    assert heed.attention_backward(r.out, q, k, v, r).mask.shape == (5, 5)
    assert heed.attention_backward(r.out, q, k, v, r, mask_grad=False).mask is None
