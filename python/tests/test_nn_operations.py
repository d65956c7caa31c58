"""The tape and its operations: values and gradients beside NumPy, and what is refused."""
import gc

import heed
import numpy as np
import pytest
from heed import nn
from heed.nn import functional as F
from nn_checks import check_gradients, leaf, probe
from test_attention import numbers


# ---- Variables

def test_arrays_are_shared_where_they_are_dense():
    x = numbers(3, 4).astype(np.float32)
    for array in (x, x[1:], x[:0], np.array(1.5)):
        assert nn.Variable(array).numpy().ctypes.data == array.ctypes.data
        assert nn.Variable(array).shape == array.shape
    for array in (x.T, x[:, 1:], x[::-1], np.broadcast_to(x, (2, 3, 4))):
        copied = nn.Variable(array).numpy()
        assert not np.shares_memory(copied, x)
        np.testing.assert_array_equal(copied, array)
    frozen = x.copy()
    frozen.flags.writeable = False
    assert np.shares_memory(nn.Variable(frozen).numpy(), frozen)


def test_values_leave_without_copies():
    x = numbers(3, 4)
    y = nn.Variable(x)
    for view in (y.numpy(), np.asarray(y), np.from_dlpack(y)):
        assert view.ctypes.data == x.ctypes.data and not view.flags.writeable
    for what in (leaf(3), F.relu(leaf(3))):
        with pytest.raises(heed.ShapeError, match="requires grad, and others record nothing; pass numpy\\(\\) of it"):
            np.concatenate([what, what])
        with pytest.raises(BufferError, match="requires grad"):
            np.from_dlpack(what)
    assert np.array(y, dtype=np.float32).dtype == np.float32 and np.array(y).flags.writeable
    assert y.dtype == np.float64 and y.dtype == "float64"
    assert float(nn.Variable(np.float32(2.5))) == nn.Variable(np.float32(2.5)).item() == 2.5
    assert repr(nn.Variable(np.array([1.5, 2]))) == "Variable(array([1.5, 2. ]))"
    assert repr(leaf(0)) == "Variable(array([], dtype=float64), requires_grad=True)"


def test_torch_tensors_come_and_go():
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    y = nn.Variable(x)
    assert y.numpy().ctypes.data == x.data_ptr()
    back = torch.from_dlpack(F.relu(y))
    assert torch.equal(back, x)
    layer = nn.Linear(3, 4)
    theirs = torch.nn.Linear(3, 4)
    layer.load_state_dict({name: values.detach() for name, values in theirs.state_dict().items()})
    np.testing.assert_allclose(layer(x).numpy(), theirs(x).detach().numpy(), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(F.embedding(torch.tensor([1, 0]), np.eye(2)).numpy(), np.eye(2)[::-1])
    with pytest.raises(heed.ShapeError, match="linear: x requires grad|layer: x requires grad"):
        layer(x.requires_grad_())


def test_weights_of_torch_fit():
    """Names, shapes and values are torch.nn's: the same blocks compute the same."""
    torch = pytest.importorskip("torch")
    x = numbers(2, 5, 8).astype(np.float32)
    for first in (True, False):
        theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=first)
        ours = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0, norm_first=first)
        ours.load_state_dict(theirs.state_dict())
        mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
        expected = theirs(torch.from_numpy(x), src_mask=mask, is_causal=True)
        given = nn.Variable(x, requires_grad=True)
        y = ours(given, causal=True)
        np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)
        (expected * expected).sum().backward()
        F.sum(y * y).backward()
        gradients = {name: p.grad for name, p in theirs.named_parameters()}
        for name, parameter in ours.named_parameters():
            np.testing.assert_allclose(parameter.grad, gradients[name].numpy(), rtol=2e-4, atol=2e-4)


def test_only_parameters_may_be_written_to():
    x = leaf(3)
    x.numpy()[:] = 5
    np.testing.assert_array_equal(x.numpy(), [5, 5, 5])
    for y in (x * 2.0, F.reshape(x, (3, 1)), nn.Variable(numbers(2))):
        with pytest.raises(ValueError, match="read-only"):
            y.numpy()[...] = 1
    source = numbers(3)
    copied = nn.Variable(source, requires_grad=True)
    assert not np.shares_memory(copied.numpy(), source)


def test_views_keep_what_they_show():
    layer = nn.Linear(3, 2)
    weight = layer.weight.numpy()
    record = nn.HeadRecord(want_vectors=True)
    attention = nn.MultiheadAttention(8, 2)
    x = numbers(1, 4, 8).astype(np.float32)
    attention(x, x, x, record=record)
    weights, (q, _, _), part = record.weights, record.vectors, attention.out_proj
    expected = [array.copy() for array in (weight, weights, q, part.weight.numpy())]
    del layer, attention, record
    gc.collect()
    clutter = [nn.Linear(3, 2) for _ in range(50)] + [nn.MultiheadAttention(8, 2) for _ in range(50)]
    for array, values in zip((weight, weights, q, part.weight.numpy()), expected):
        np.testing.assert_array_equal(array, values)
    assert len(clutter) == 100


def test_operators():
    a, b = leaf(2, 3), leaf(2, 3, seed=1)
    x, y = a.numpy(), b.numpy()
    z = numbers(2, 3, seed=2)
    for result, expected in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a * 3, x * 3), (0.5 * a, x / 2), (-a, -x),
                             (a * np.float32(3), x * 3), (np.int64(3) * a, x * 3), (np.float64(3) * a, x * 3),
                             (a / 4, x / 4), (a + z, x + z), (z + a, x + z), (z - a, z - x), (a - z, x - z),
                             (z * a, z * x)):
        assert type(result) is nn.Variable
        np.testing.assert_array_equal(result.numpy(), expected)
    check_gradients(lambda: probe((a + b) * (a - z) / 2 - 3 * (z - b) * a + -b), [a, b])


def test_numbers_beside_variables():
    a = leaf(2, 3)
    x = a.numpy()
    for result, expected in ((a - 1, x - 1), (1 - a, 1 - x), (a + 2, x + 2), (2.5 + a, 2.5 + x), (a + np.float64(3), x + 3),
                             (np.float32(3) - a, 3 - x), (leaf() - 1, leaf().numpy() - 1)):
        assert type(result) is nn.Variable and result.dtype == np.float64
        np.testing.assert_array_equal(result.numpy(), expected)
    check_gradients(lambda: probe((a - 1) * (1 - a) + (2 + a)), [a])
    single = nn.Variable(np.ones(3, np.float32)) - 1
    assert single.dtype == np.float32 and not single.requires_grad
    for wrong in (lambda: a + "1", lambda: None - a, lambda: a / a, lambda: a + [1, 2, 3]):
        with pytest.raises(TypeError):
            wrong()


INDICES = [0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(3, 1), (0, 2), (slice(1, None), 1), (..., 0),
           (1, ..., slice(0, 2)), None, (slice(None), None, 1), (), ..., (slice(-2, None), slice(None), slice(None, None, -2)),
           np.int64(2), (2, 2, 1)]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index):
    a = leaf(4, 3, 2)
    part = a[index]
    np.testing.assert_array_equal(part.numpy(), a.numpy()[index])
    assert part.shape == a.numpy()[index].shape and not np.shares_memory(part.numpy(), a.numpy())
    if part.numpy().size:
        check_gradients(lambda: probe(a[index] * a[index]), [a])


def test_rows_of_a_variable():
    a = leaf(3, 2)
    assert [row.shape for row in a] == [(2,)] * 3
    with pytest.raises(TypeError, match="without dimensions has no parts; use item"):
        list(a.sum())
    check_gradients(lambda: probe(a[0] * a[1] - 2 * a[2]), [a])
    for index in (3, -4, (0, 5), (0, 0, 0), (..., ...)):
        with pytest.raises(IndexError, match="index: "):
            a[index]
    for index in ([0, 1], np.array([0]), "x", 1.5, True, (0, [1])):
        with pytest.raises(TypeError, match="nn.functional.embedding"):
            a[index]
    np.testing.assert_array_equal(F.embedding(np.array([2, 0]), a).numpy(), a.numpy()[[2, 0]])  # what the message says


def test_sum_mean_and_detach():
    a = leaf(2, 3)
    assert a.sum().shape == a.mean().shape == ()
    np.testing.assert_allclose([a.sum().item(), a.mean().item()], [a.numpy().sum(), a.numpy().mean()], rtol=1e-14)
    check_gradients(lambda: (a * a).sum() * 2 + a.mean() - (a[0] * 3).mean(), [a])
    a.zero_grad()
    kept = a.detach()
    assert not kept.requires_grad and kept.is_leaf and np.shares_memory(kept.numpy(), a.numpy())
    (a * kept).sum().backward()
    np.testing.assert_array_equal(a.grad, a.numpy())
    with pytest.raises(heed.ShapeError, match="mean: the variable has no elements"):
        leaf(0).mean()
    assert a.sum(axis=None).item() == np.sum(a).item() == a.sum().item()
    for call, given in ((lambda: a.sum(axis=0), "'axis'"), (lambda: a.mean(dim=1), "'dim'"), (lambda: a.sum(0), "0"),
                        (lambda: a.mean(keepdims=True), "'keepdims'")):
        with pytest.raises(TypeError, match=f": {given} is given, and it is over all elements"):
            call()


def test_quotients_are_rounded_once():
    values = np.array([0.0, 1e-308, 3.0, -5.0])
    single = values.astype(np.float32)
    for divisor in (1e-310, 3.0, -7.0):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal((nn.Variable(values) / divisor).numpy(), values / divisor)
        if abs(divisor) > 1:
            np.testing.assert_array_equal((nn.Variable(single) / divisor).numpy(), single / np.float32(divisor))
    a = leaf(3)
    check_gradients(lambda: (a / 3.0 * a).sum(), [a])


def test_a_variable_is_no_number():
    a, factor = leaf(2), leaf()
    for call in (lambda: a / factor, lambda: F.dropout(a, factor)):
        with pytest.raises(TypeError, match="requires grad, and no gradient flows through a number"):
            call()
    np.testing.assert_array_equal((a / factor.detach()).numpy(), a.numpy() / factor.item())


def test_complex_numbers_are_refused():
    a = leaf(2)
    for value in (1j, 2 + 0j, np.complex64(1j), np.complex128(1)):
        for call in (lambda: a + value, lambda: value - a, lambda: a * value, lambda: a / value, lambda: value in a):
            with pytest.raises(TypeError, match="pass a real number"):
                call()


def test_whether_a_value_is_in():
    a = nn.Variable(np.array([[1.0, 2.5], [np.nan, -0.0]], np.float32))
    assert 2.5 in a and 0 in a and 3 not in a and float("nan") not in a
    assert nn.Variable(np.array(2.5)) in a and nn.Variable(np.array(3.0)) not in a
    small = nn.Variable(np.array([0.1, 2.5], np.float32))
    for value in (0.1, np.float32(0.1), np.float64(0.1), 2.5, 2.6, 2):
        assert (value in small) == (value in small.numpy())
    with pytest.raises(TypeError, match="in: value is 'x'; pass a number"):
        "x" in a


def test_astype_carries_gradients():
    a = nn.Variable(numbers(2, 3).astype(np.float32), requires_grad=True)
    wide = a.astype("float64")
    assert wide.dtype == np.float64 and not np.shares_memory(wide.numpy(), a.numpy())
    (wide * wide).sum().backward()
    assert a.grad.dtype == np.float32
    np.testing.assert_array_equal(a.grad, 2 * a.numpy())
    assert a.astype(np.float32).dtype == np.float32 and not a.astype(np.float32).is_leaf
    for dtype in ("float16", np.int32, None):
        with pytest.raises(heed.ShapeError, match="pass 'float32' or 'float64'"):
            a.astype(dtype)


def test_gradients_add_up_until_zero_grad():
    x = leaf(4)
    assert x.grad is None and x.is_leaf and not (x * 2.0).is_leaf
    F.sum(x * x).backward()
    F.sum(x).backward()
    np.testing.assert_allclose(x.grad, 2 * x.numpy() + 1)
    kept = x.grad
    x.zero_grad()
    np.testing.assert_array_equal(kept, np.zeros(4))
    (x * 2.0).backward(numbers(4, seed=3))
    np.testing.assert_array_equal(x.grad, 2 * numbers(4, seed=3))


def test_gradients_given_to_backward_stay_what_they_are():
    x, grad = leaf(3), numbers(3, seed=1)
    grad.flags.writeable = False
    y = x * 1.0
    y.backward(grad)
    (x * 1.0).backward(grad)
    for _ in range(2):  # the second is added to the first
        with pytest.raises(heed.ShapeError, match="history"):
            y.backward(grad)
    np.testing.assert_array_equal(x.grad, 2 * grad)
    np.testing.assert_array_equal(grad, numbers(3, seed=1))


def test_backward_frees_the_history():
    x = leaf(3)
    y = x * x
    loss = F.sum(y)
    loss.backward()
    with pytest.raises(heed.ShapeError, match="history of 'sum' is gone; backward\\(\\) frees it, run the forward"):
        loss.backward()
    with pytest.raises(heed.ShapeError, match="history of 'multiply' is gone"):
        F.sum(y).backward()
    np.testing.assert_array_equal(x.grad, 2 * x.numpy())


def test_backward_refuses_what_has_no_gradient():
    with pytest.raises(heed.ShapeError, match="shape \\(3\\) is not one element; pass the gradient of the output"):
        (leaf(3) * 2.0).backward()
    with pytest.raises(heed.ShapeError, match="nothing to differentiate"):
        F.sum(numbers(3)).backward()
    with nn.no_grad():
        y = F.sum(leaf(3))
    assert not y.requires_grad
    for wrong in (numbers(2), numbers(3).astype(np.float32)):
        with pytest.raises(heed.ShapeError, match="backward: gradient"):
            (leaf(3) * 2.0).backward(wrong)
    with pytest.raises(TypeError, match="backward: grad is 'one'; pass a NumPy array"):
        (leaf(3) * 2.0).backward("one")
    for dtype in (np.int32, np.float16, bool):
        with pytest.raises(heed.ShapeError, match="gradients need float32 or float64"):
            nn.Variable(np.ones(2, dtype), requires_grad=True)


def test_no_grad_nests_and_decorates():
    x = leaf(2)
    context = nn.no_grad()
    with context, context:
        assert not (x * 2.0).requires_grad
    assert (x * 2.0).requires_grad

    @nn.no_grad()
    def double(y):
        return y * 2.0
    assert not double(x).requires_grad and (x * 2.0).requires_grad
    with pytest.raises(KeyError), nn.no_grad():
        raise KeyError
    assert (x * 2.0).requires_grad


def test_a_long_tape_is_no_deep_recursion():
    x = y = leaf(2)
    for _ in range(200_000):
        y = y * 1.0
    del y
    y = x
    for _ in range(100_000):
        y = F.custom_op([y], y.numpy(), lambda grad: (grad,))
    F.sum(y).backward()
    np.testing.assert_array_equal(x.grad, [1, 1])


# ---- Operations

X, WEIGHT, BIAS = (5, 6), (4, 6), (4,)
OPERATIONS = {
    "linear": (lambda x, w, b: F.linear(x, w, b), lambda x, w, b: x @ w.T + b, [X, WEIGHT, BIAS]),
    "linear without bias": (F.linear, lambda x, w: x @ w.T, [(2, 3, 6), WEIGHT]),
    "linear_relu": (F.linear_relu, lambda x, w, b: np.maximum(x @ w.T + b, 0), [X, WEIGHT, BIAS]),
    "add": (F.add, np.add, [X, X]),
    "multiply": (F.multiply, np.multiply, [X, X]),
    "scale": (lambda x: F.scale(x, -0.5), lambda x: -0.5 * x, [X]),
    "sum": (F.sum, np.sum, [X]),
    "reshape": (lambda x: F.reshape(x, [3, -1, 2]), lambda x: x.reshape(3, 5, 2), [X]),
    "relu": (F.relu, lambda x: np.maximum(x, 0), [X]),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x)), [X]),
    "gelu_tanh": (lambda x: F.activation("gelu_tanh", x),
                  lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))), [X]),
    "swiglu": (F.swiglu, lambda x: x[:, :3] / (1 + np.exp(-x[:, :3])) * x[:, 3:], [X]),
    "gated": (lambda x: F.gated("relu", x, 2.0), lambda x: np.maximum(x[:, :3], 0) * x[:, 3:], [X]),
    "layer_norm": (F.layer_norm, lambda x, w, b: (x - x.mean(1, keepdims=True))
                   / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b, [X, (6,), (6,)]),
    "rms_norm": (F.rms_norm, lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * w, [X, (6,)]),
    "softmax": (F.softmax, lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), [X]),
    "log_softmax": (F.log_softmax, lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)), [X]),
    "embedding": (lambda w: F.embedding(np.array([[0, 3], [3, 1]]), w, 2.0), lambda w: 2 * w[[[0, 3], [3, 1]]],
                  [WEIGHT]),
    "dropout of nothing": (lambda x: F.dropout(x, 0.0), lambda x: x, [X]),
    "dropout_add of nothing": (lambda x, y: F.dropout_add(x, y, 0.0), np.add, [X, X]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_their_formulas(name):
    operation, formula, shapes = OPERATIONS[name]
    leaves = [leaf(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    result = operation(*leaves)
    np.testing.assert_allclose(result.numpy(), formula(*(x.numpy() for x in leaves)), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(operation(*(x.numpy() for x in leaves)).numpy(), result.numpy())  # arrays
    check_gradients(lambda: probe(operation(*leaves)), leaves)
    single = operation(*(x.numpy().astype(np.float32) for x in leaves))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.numpy(), result.numpy(), rtol=2e-5, atol=2e-5)


def test_gelu_is_x_times_the_normal_distribution():
    np.testing.assert_allclose(F.gelu(np.array([-1.0, 0, 2])).numpy(), [-0.15865525393145707, 0, 1.9544997361036416],
                               rtol=1e-12)


def test_strided_weights_are_read_by_their_strides():
    """Kernels read dense memory; arrays of any strides become that."""
    x, w, b = numbers(5, 6), numbers(6, 4), np.broadcast_to(np.float64(2), 4)
    np.testing.assert_allclose(F.linear(x, w.T, b).numpy(), x @ w + 2)
    np.testing.assert_allclose(F.embedding(np.arange(4), w.T).numpy(), w.T)
    np.testing.assert_allclose(F.layer_norm(x, b[[0] * 6], np.zeros(12)[::2]).numpy(), 2 * F.layer_norm(x).numpy())


def test_rotary_turns_pairs():
    x, angle = numbers(1, 3, 4), np.arange(3)[None, :, None] * np.array([1, 0.01])
    turned = F.rotary(x, 1, 4).numpy()
    even, odd = x[..., :2], x[..., 2:]
    np.testing.assert_allclose(turned[..., :2], even * np.cos(angle) - odd * np.sin(angle), rtol=1e-12)
    there = F.rotary(x, 1, 4, positions=np.array([2, 0, 1]))
    np.testing.assert_allclose(there.numpy()[:, 1], x[:, 1])
    y = leaf(2, 3, 10)
    check_gradients(lambda: probe(F.rotary(y, 2, 4, layout="interleaved", base=100.0, size=2)), [y])
    with pytest.raises(heed.ShapeError, match="do not fit width 4"):
        F.rotary(x, 2 ** 40, 2 ** 40)


def test_attention_on_the_tape():
    q, k, v, mask = leaf(2, 4, 5, 3), leaf(2, 2, 7, 3, seed=1), leaf(2, 2, 7, 4, seed=2), leaf(5, 7, seed=3)
    options = {"window": (3, 2), "softcap": 2.0, "key_lengths": np.array([7, 4])}
    y = F.scaled_dot_product_attention(q, k, v, mask, **options)
    expected = heed.attention(q.numpy(), k.numpy(), v.numpy(), mask.numpy(), **options)
    np.testing.assert_array_equal(y.numpy(), expected)
    check_gradients(lambda: probe(F.scaled_dot_product_attention(q, k, v, mask, **options)), [q, k, v, mask])
    check_gradients(lambda: probe(F.scaled_dot_product_attention(q, k, v, causal="bottom_right")), [q, k, v])
    with pytest.raises(TypeError, match="there is no option 'seed'; those are scale, window"):
        F.scaled_dot_product_attention(q, k, v, seed=1)


def test_masks_of_attention_on_the_tape_have_all_keys():
    q, k, v = leaf(2, 4, 5, 3), leaf(2, 2, 7, 3, seed=1), leaf(2, 2, 7, 4, seed=2)
    packed = [F.PackedHeads(leaf(2, length, size), size=size) for length, size in ((5, 3), (7, 3), (7, 4))]
    text = r"does not broadcast to \(B, Hq, Lq, Lk\) = \(2, [14], 5, 7\); pass \(Lq, Lk\) = \(5, 7\)"
    for mask in (np.ones((5, 6), bool), numbers(6), nn.Variable(numbers(5, 6)), leaf(5, 6)):
        with pytest.raises(heed.ShapeError, match=text):
            F.scaled_dot_product_attention(q, k, v, mask)
    for mask in (np.ones((5, 6), bool), numbers(6)):
        with pytest.raises(heed.ShapeError, match=text):
            F.packed_attention(*packed, mask)
    for mask in (np.ones((5, 1), bool), leaf(5, 1), numbers(1), np.array(0.5)):  # which broadcast
        assert F.scaled_dot_product_attention(q, k, v, mask).shape == (2, 4, 5, 4)
    assert F.packed_attention(*packed, np.ones((5, 1), bool)).shape == (2, 5, 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("learned", [False, True])
def test_large_masks_on_the_tape(dtype, learned):
    """Rows of any finite number, beside softmax in float64 of the sums that the dtype has. Scores are small integers."""
    draw = np.random.default_rng(4)
    sizes = np.array([1e3, 1e4, 1e6, 1e8, 1e9, 2.0 ** 32 - 1, 3e9, 1e18, 1e20, 1e30, 1e37, 2e38, 3e38, np.finfo(dtype).max])
    rows = np.concatenate([-sizes, sizes, [0]]).astype(dtype)
    mask = np.concatenate([np.repeat(rows[:, None], 5, axis=1), np.stack([rows, *[0 * rows] * 2, rows, rows / 2], axis=1)])
    q, k, v = (draw.integers(-2, 3, shape).astype(dtype) for shape in ((1, 2, len(mask), 3), (1, 2, 5, 3), (1, 2, 5, 4)))
    grad = draw.integers(-2, 3, (*q.shape[:3], 4)).astype(dtype)
    sums = (q @ np.swapaxes(k, 2, 3) + mask).astype(np.float64)
    weights = np.exp(sums - sums.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    of_weights = grad @ np.swapaxes(v, 2, 3).astype(np.float64)
    ds = weights * (of_weights - (of_weights * weights).sum(axis=3, keepdims=True))
    expected = [weights @ v, ds @ k, np.swapaxes(ds, 2, 3) @ q, np.swapaxes(weights, 2, 3) @ grad, ds.sum(axis=(0, 1))]
    near = {"rtol": 0, "atol": 200 * np.finfo(dtype).eps}

    leaves = [nn.Variable(x.copy(), requires_grad=True) for x in (q, k, v)]
    added = nn.Variable(mask.copy(), requires_grad=True) if learned else mask
    y = F.scaled_dot_product_attention(*leaves, added, scale=1.0)
    F.sum(y * grad).backward()
    found = [y.numpy(), *(x.grad for x in leaves), *([added.grad] if learned else [])]
    for one, exact in zip(found, expected):
        np.testing.assert_allclose(one, exact, **near)
    if learned:
        return

    def rows_of(x):
        return np.ascontiguousarray(np.swapaxes(x, 1, 2)).reshape(1, x.shape[2], -1)

    def heads_of(x):
        return np.swapaxes(x.reshape(1, x.shape[1], 2, -1), 1, 2)
    leaves = [nn.Variable(rows_of(x), requires_grad=True) for x in (q, k, v)]
    y, shares = F.packed_attention(*(F.PackedHeads(x, 0, 2, x.shape[2] // 2) for x in leaves), mask, scale=1.0,
                                   return_weights=True)
    F.sum(y * rows_of(grad)).backward()
    np.testing.assert_allclose(shares, weights, **near)
    for one, exact in zip([y.numpy(), *(x.grad for x in leaves)], expected):
        np.testing.assert_allclose(heads_of(one), exact, **near)


def test_a_layer_under_large_masks():
    """Beside a number whose rounding takes the whole score all keys are alike, whatever the number is."""
    layer, x = nn.MultiheadAttention(8, 2), numbers(2, 5, 8).astype(np.float32)
    target = numbers(2, 5, 8, seed=2).astype(np.float32)
    found = []
    for hidden in -1e9, -3e9, -1e20, -1e30, 1e20, -3.4e38, np.finfo(np.float32).min:
        mask = np.zeros((5, 5), np.float32)
        mask[1] = mask[3] = hidden
        layer.zero_grad()
        record = nn.HeadRecord()
        F.sum(layer(x, x, x, mask, record=record) * target).backward()
        np.testing.assert_allclose(record.weights[:, :, [1, 3]], 0.2, rtol=1e-6)
        found.append([record.weights.copy(), *(p.grad.copy() for p in layer.parameters())])
    for one in found:
        for array, other in zip(one, found[2]):
            assert np.isfinite(array).all()
            np.testing.assert_allclose(array, other, rtol=0, atol=2e-6 * max(1.0, np.abs(other).max()))


def test_packed_attention():
    x = leaf(2, 5, 13)
    heads = F.PackedHeads(x, 0, 2, 3), F.PackedHeads(x, 6, 1, 3), F.PackedHeads(x, 9, 1, 4)
    y, weights = F.packed_attention(*heads, causal=True, return_weights=True)
    assert y.shape == (2, 5, 8) and weights.shape == (2, 2, 5, 5)
    np.testing.assert_allclose(weights.sum(3), 1)
    check_gradients(lambda: probe(F.packed_attention(*heads, causal=True)), [x])
    whole = F.PackedHeads(x, 0, 1, 13)  # softmax(x x^T) x
    check_gradients(lambda: probe(F.packed_attention(whole, whole, whole, scale=0.1)), [x])
    with pytest.raises(heed.ShapeError, match="value heads of size 4 at offset 10 do not fit \\(2, 5, 13\\)"):
        F.packed_attention(*heads[:2], F.PackedHeads(x, 10, 1, 4))
    with pytest.raises(heed.ShapeError, match="do not fit"):
        F.packed_attention(*heads[:2], F.PackedHeads(x, 0, 2 ** 40, 2 ** 40))
    with pytest.raises(TypeError, match="packed_attention: k is a tuple; pass PackedHeads"):
        F.packed_attention(heads[0], tuple(heads[1]), heads[2])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses(smoothing):
    x, weight, bias, factors = leaf(5, 6), leaf(4, 6, seed=1), leaf(4, seed=2), np.array([0.5, 2, 1, 3])
    targets = np.array([1, -100, 3, 0, 1])
    counted, rows = targets != -100, np.arange(5)
    logits = x.numpy() @ weight.numpy().T + bias.numpy()
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    each = -(1 - smoothing) * log_p[rows, targets * counted] - smoothing / 4 * log_p.sum(1)

    def losses(**options):
        return F.cross_entropy(F.linear(x, weight, bias), targets, label_smoothing=smoothing, **options)
    np.testing.assert_allclose(losses().item(), each[counted].mean())
    np.testing.assert_allclose(losses(reduction="sum").item(), each[counted].sum())
    np.testing.assert_allclose(losses(reduction="none").numpy(), np.where(counted, each, 0))
    fused = F.linear_cross_entropy(x, weight, bias, targets, label_smoothing=smoothing)
    np.testing.assert_allclose(fused.item(), losses().item())
    same = F.nll_loss(F.log_softmax(logits), targets, label_smoothing=smoothing)
    np.testing.assert_allclose(same.item(), losses().item())
    if smoothing == 0:
        of_rows = factors[targets * counted] * counted
        np.testing.assert_allclose(losses(weight=factors).item(), (of_rows * each).sum() / of_rows.sum())
    for loss in (losses, lambda: losses(weight=factors), lambda: probe(losses(reduction="none")),
                 lambda: F.linear_cross_entropy(x, weight, bias, targets, label_smoothing=smoothing)):
        check_gradients(loss, [x, weight, bias])


def test_dropout_is_drawn_from_the_generator():
    x = leaf(2000)
    x.numpy()[:] = 1
    nn.manual_seed(4)
    first, second = F.dropout(x, 0.3), F.dropout(x, 0.3)
    nn.manual_seed(4)
    np.testing.assert_array_equal(F.dropout(x, 0.3).numpy(), first.numpy())
    assert (first.numpy() != second.numpy()).any()
    assert 0.25 < (first.numpy() == 0).mean() < 0.35 and set(first.numpy()) == {0, 1 / 0.7}
    F.sum(first).backward()
    np.testing.assert_array_equal(x.grad, first.numpy())


def test_ids_are_the_operations_own():
    """What is done to an array of ids after the call reaches neither memory nor gradients."""
    weight, ids, targets = leaf(5, 3), np.array([1, 2], np.int32), np.array([0, 2], np.int32)
    loss = F.cross_entropy(F.embedding(ids, weight), targets)
    expected = F.cross_entropy(F.embedding(ids.copy(), weight), targets.copy())
    expected.backward()
    kept = weight.grad.copy()
    weight.zero_grad()
    ids[:] = targets[:] = 2 ** 31 - 1
    loss.backward()
    np.testing.assert_array_equal(weight.grad, kept)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16, np.uint64])
def test_ids_of_any_width(kind):
    np.testing.assert_array_equal(F.embedding(np.array([[2, 0]], kind), np.eye(3)).numpy(), np.eye(3)[[[2, 0]]])


REFUSED = {
    "dtypes that differ": (lambda: F.linear(numbers(2, 3), np.ones((4, 3), np.float32)), heed.ShapeError,
                           "linear: dtypes differ, float64 and float32"),
    "shapes that do not fit": (lambda: F.linear(numbers(2, 3), numbers(4, 2)), heed.ShapeError,
                               "linear: input \\(2, 3\\) does not fit weight \\(4, 2\\)"),
    "no width": (lambda: F.linear(numbers(3, 0), numbers(2, 0)), heed.ShapeError, "input \\(3, 0\\) is 0 wide"),
    "integers": (lambda: F.relu(np.arange(3)), heed.ShapeError, "activation: float32 or float64 is needed, not int64"),
    "half precision": (lambda: F.sum(np.ones(3, np.float16)), heed.ShapeError, "float32 or float64 is needed, not float16"),
    "no array": (lambda: F.softmax([1.0, 2.0]), TypeError, "softmax: x is \\[1.0, 2.0\\]; pass a NumPy array"),
    "None": (lambda: F.relu(None), TypeError, "activation: x is None; pass"),
    "a text added": (lambda: leaf(2) + "1.0", TypeError, "add: b is '1.0'; pass a NumPy array"),
    "text": (lambda: leaf(2) * "2", TypeError, "multiply: b is '2'"),
    "a text divided by": (lambda: leaf(2) / "2", TypeError, "divide: divisor is '2'; pass a number"),
    "no dimension": (lambda: F.softmax(np.array(1.0)), heed.ShapeError, "needs at least one dimension"),
    "nine dimensions": (lambda: F.relu(np.ones((1,) * 9)), heed.ShapeError, "has 9 dimensions; pass at most 8"),
    "nine sizes": (lambda: F.reshape(numbers(2), [1] * 9), heed.ShapeError, "more than 8 dimensions"),
    "another size": (lambda: F.reshape(numbers(2), (3,)), heed.ShapeError, "does not reshape to \\(3\\)"),
    "a negative size": (lambda: F.reshape(numbers(4), (-2, -2)), heed.ShapeError, "negative size"),
    "two open sizes": (lambda: F.reshape(numbers(4), (-1, -1)), heed.ShapeError, "more than one size open"),
    "a huge size": (lambda: F.reshape(numbers(4), (1 << 70,)), heed.ShapeError, "reshape: shape is "),
    "ids outside": (lambda: F.embedding(np.array([3]), np.eye(3)), heed.ShapeError, "id 3 is not in 0..2"),
    "negative ids": (lambda: F.embedding(np.array([-1]), np.eye(3)), heed.ShapeError, "id -1 is not in 0..2"),
    "floating ids": (lambda: F.embedding(np.eye(3), np.eye(3)), heed.ShapeError, "ids is float64; pass whole numbers"),
    "wide ids": (lambda: F.embedding(np.array([2 ** 40]), np.eye(3)), heed.ShapeError, "numbers that 32 bits hold"),
    "no weight table": (lambda: F.embedding(np.array([0]), np.ones(3)), heed.ShapeError, "not \\(vocabulary, width\\)"),
    "an odd gate": (lambda: F.swiglu(numbers(2, 3)), heed.ShapeError, "last dimension of \\(2, 3\\) is odd"),
    "alpha 0": (lambda: F.swiglu(numbers(2, 4), 0.0), heed.ShapeError, "alpha is 0.0"),
    "an activation": (lambda: F.activation("tanh", numbers(2)), heed.ShapeError,
                      "there is no 'tanh'; pass one of relu, gelu, gelu_tanh, silu"),
    "a probability": (lambda: F.dropout(numbers(2), 1.0), heed.ShapeError, "probability 1.0+ is not in \\[0, 1\\)"),
    "a number": (lambda: F.scale(numbers(2), "2"), TypeError, "scale: factor is '2'; pass a number"),
    "targets": (lambda: F.cross_entropy(numbers(2, 3), np.array([0])), heed.ShapeError, "do not match the rows"),
    "a target outside": (lambda: F.cross_entropy(numbers(1, 3), np.array([3])), heed.ShapeError, "id 3 is not in 0..2"),
    "a reduction": (lambda: F.cross_entropy(numbers(1, 3), np.array([0]), reduction="max"), heed.ShapeError,
                    "reduction is 'max'; pass 'mean', 'sum' or 'none'"),
    "a layout": (lambda: F.rotary(numbers(1, 2, 4), 1, 4, layout="pairs"), heed.ShapeError, "layout is 'pairs'"),
    "a norm's weight": (lambda: F.layer_norm(numbers(2, 3), numbers(2)), heed.ShapeError, "the input is 3 wide"),
    "dtype of a parameter": (lambda: nn.Linear(2, 2).to("float16"), heed.ShapeError, "pass 'float32' or 'float64'"),
    "None as a dtype": (lambda: nn.Linear(2, 2).to(None), heed.ShapeError, "pass 'float32' or 'float64'"),
    "a seed": (lambda: nn.manual_seed(-1), heed.ShapeError, "seed is -1; pass 0 to 2\\^63 - 1"),
    "a layer of nothing": (lambda: nn.Linear(0, 3), heed.ShapeError, "in_features is 0; it must be 1 or more"),
    "a layer of too much": (lambda: nn.Linear(2 ** 40, 2 ** 40), heed.ShapeError, "more than|does not fit in memory"),
    "heads": (lambda: nn.MultiheadAttention(10, 3), heed.ShapeError, "10 is not a multiple of 3 heads"),
    "endless heads": (lambda: nn.MultiheadAttention(4, 2, head_dim=2 ** 62), heed.ShapeError, "pass at most 2\\^30"),
    "a feed-forward": (lambda: nn.FeedForward(2, 3, "tanh"), heed.ShapeError, "there is no 'tanh'; give one of relu"),
    "a norm": (lambda: nn.Norm("batch", 3), heed.ShapeError, "norm is 'batch'; pass 'layer_norm' or 'rms_norm'"),
    "an option": (lambda: nn.TransformerEncoderLayer(8, 2, depth=3), TypeError,
                  "TransformerEncoderLayer: there is no option 'depth'; those are kv_heads, dim_feedforward"),
    "an option's type": (lambda: nn.TransformerEncoderLayer(8, 2, bias=1), TypeError, "bias is 1; pass True or False"),
    "layers": (lambda: nn.TransformerEncoder(8, 2, -1), heed.ShapeError, "num_layers is -1; it must be in 1..1000"),
    "a model's option": (lambda: nn.Transformer(vocab_size=5, width=3), TypeError, "there is no option 'width'; those"),
    "a model's range": (lambda: nn.Transformer(vocab_size=5, d_model=0), heed.ShapeError, "d_model is 0; it must be"),
    "a model's type": (lambda: nn.LanguageModel(vocab_size="5"), TypeError, "vocab_size is '5'; pass an integer"),
    "a model's id": (lambda: nn.Transformer(vocab_size=5, pad_id=2 ** 32), heed.ShapeError, "pad_id is 4294967296"),
    "a record of another kind": (lambda: attend(record=nn.AttentionRecord()), TypeError,
                                 "record is a .*AttentionRecord; pass a HeadRecord"),
    "a head that is not there": (lambda: attend(record=nn.HeadRecord(heads=[2])), heed.ShapeError, "2"),
    "a negative row": (lambda: attend(record=nn.HeadRecord(rows=[-1])), heed.ShapeError, "-1"),
    "a causal rule": (lambda: attend(causal="left"), heed.ShapeError, "causal is 'left'; pass False, True"),
    "lengths of keys": (lambda: attend(key_lengths=np.array([9])), heed.ShapeError, "key_lengths"),
    "a mask": (lambda: attend(mask=np.ones((5, 5), bool)), heed.ShapeError, "mask"),
    "a learned mask": (lambda: attend(mask=leaf(3, 3)), heed.ShapeError, "mask gives no memory: .* requires grad"),
    "no place for gradients": (lambda: heed.attention(*[leaf(1, 1, 2, 3)] * 3), heed.ShapeError,
                               "q gives no memory: Variable: it requires grad, and others record nothing; pass numpy"),
    "a schedule": (lambda: nn.LearningRate("step"), heed.ShapeError, "schedule is 'step'; pass 'inverse_square_root'"),
    "an optimiser of nothing": (lambda: nn.AdamW(nn.Module()), heed.ShapeError, "the module has no parameters"),
    "an optimiser of a list": (lambda: nn.AdamW([leaf(2)]), TypeError, "is no module; pass one of heed.nn"),
    "beta": (lambda: nn.AdamW(nn.Linear(2, 2), beta1=1.0), heed.ShapeError, "beta1 is 1.0+; it must be in \\[0, 1\\)"),
}


def attend(**options):
    x = numbers(1, 3, 8).astype(np.float32)
    return nn.MultiheadAttention(8, 2)(x, x, x, **options)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()


def test_empty_arrays_are_computed():
    for x in (numbers(0, 6), numbers(3, 0, 6)):
        w, b = leaf(4, 6), leaf(4, seed=1)
        y = F.linear(x, w, b)
        assert y.shape == (*x.shape[:-1], 4)
        F.sum(F.softmax(F.layer_norm(y))).backward()
        np.testing.assert_array_equal(w.grad, np.zeros((4, 6)))
    assert F.cross_entropy(numbers(0, 3), np.zeros(0, np.int32)).item() == 0


# ---- Operations of one's own

def tanh(x):
    y = np.tanh(x.numpy())
    return F.custom_op([x], y, lambda grad: (grad * (1 - y * y),))


def test_an_operation_of_ones_own():
    x = leaf(3, 4)
    np.testing.assert_array_equal(tanh(x).numpy(), np.tanh(x.numpy()))
    check_gradients(lambda: probe(tanh(x * 2.0) * tanh(x)), [x])
    single = nn.Variable(np.array([0.5], np.float32), requires_grad=True)
    F.custom_op([single], single.numpy() * 3, lambda grad: [np.float64(3) * grad.astype(np.float64)]).backward()
    assert single.grad == np.float32(3)  # converted


def test_gradients_of_ones_own_are_copied():
    """The tape adds to gradients in place: what a function returns stays what it is."""
    constant = np.ones(3)
    constant.flags.writeable = False
    x = leaf(3)
    y = x * 1.0
    F.sum(y * 2.0 + F.custom_op([y], y.numpy(), lambda grad: (constant,))).backward()
    np.testing.assert_array_equal(x.grad, [3, 3, 3])
    np.testing.assert_array_equal(constant, [1, 1, 1])


def test_an_operation_without_a_gradient():
    x = leaf(3)
    F.sum(F.custom_op([x], x.numpy(), lambda grad: (None,)) + x).backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])
    assert not F.custom_op([numbers(2)], numbers(2), lambda grad: 1 / 0).requires_grad


def test_backward_of_ones_own_that_fails():
    x = leaf(3)

    def op(backward, output=None):
        return F.sum(F.custom_op([x], x.numpy() if output is None else output, backward))
    with pytest.raises(ZeroDivisionError):
        op(lambda grad: 1 / 0).backward()
    for wrong, kind, text in ((lambda grad: grad, TypeError, "backward returned .*; return a tuple of 1"),
                              (lambda grad: (grad, grad), TypeError, "return a tuple of 1, a gradient or None"),
                              (lambda grad: None, TypeError, "backward returned None"),
                              (lambda grad: ("x",), TypeError, "a gradient is 'x'; pass a NumPy array"),
                              (lambda grad: (grad[:2],), heed.ShapeError, "a gradient \\(2\\) float64 for a value")):
        with pytest.raises(kind, match=text):
            op(wrong).backward()
    with pytest.raises(ValueError, match="read-only"):
        op(lambda grad: (np.multiply(grad, 2, out=grad),)).backward()
    with pytest.raises(heed.ShapeError, match="custom_op: output is int64; pass float32 or float64"):
        op(lambda grad: (grad,), np.arange(3))
    with pytest.raises(TypeError):
        F.custom_op([x], x.numpy(), "backward")
    x.zero_grad()
    op(lambda grad: (grad,)).backward()  # all of it works again
    np.testing.assert_array_equal(x.grad, [1, 1, 1])


def test_backward_inside_backward_is_refused():
    x = leaf(3)
    loss = None

    def again(grad):
        loss.backward()
    loss = F.sum(F.custom_op([x], x.numpy(), again))
    with pytest.raises(heed.ShapeError, match="backward: called inside an operation's backward"):
        loss.backward()

    def moves(grad):
        layer.to("float64")
    layer = nn.Linear(2, 2)
    with pytest.raises(heed.ShapeError, match="cannot move to other memory inside an operation's backward"):
        F.sum(F.custom_op([x], x.numpy(), moves)).backward()


def test_operations_inside_backward():
    x = leaf(3)
    F.sum(F.custom_op([x], x.numpy(), lambda grad: (F.relu(grad).numpy() * (x.grad is None),))).backward()
    np.testing.assert_array_equal(x.grad, [1, 1, 1])
