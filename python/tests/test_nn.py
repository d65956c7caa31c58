"""Layers on the tape: values and gradients beside NumPy, training, and what is refused."""
import copy
import gc
import pickle
import weakref

import heed
import numpy as np
import pytest
from heed import nn
from heed.nn import functional as F
from test_attention import numbers
from test_threads import same_threads_after  # noqa: F401  a fixture


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
                           "linear: dtypes differ, f64 and f32"),
    "shapes that do not fit": (lambda: F.linear(numbers(2, 3), numbers(4, 2)), heed.ShapeError,
                               "linear: input \\(2, 3\\) does not fit weight \\(4, 2\\)"),
    "no width": (lambda: F.linear(numbers(3, 0), numbers(2, 0)), heed.ShapeError, "input \\(3, 0\\) is 0 wide"),
    "integers": (lambda: F.relu(np.arange(3)), heed.ShapeError, "activation: float32 or float64 is needed, not i64"),
    "half precision": (lambda: F.sum(np.ones(3, np.float16)), heed.ShapeError, "float32 or float64 is needed, not f16"),
    "no array": (lambda: F.softmax([1.0, 2.0]), TypeError, "softmax: x is \\[1.0, 2.0\\]; pass a NumPy array"),
    "None": (lambda: F.relu(None), TypeError, "activation: x is None; pass"),
    "a number added": (lambda: leaf(2) + 1.0, TypeError, "add: b is 1.0; pass a NumPy array"),
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
    "floating ids": (lambda: F.embedding(np.eye(3), np.eye(3)), heed.ShapeError, "ids is f64; pass whole numbers"),
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
                              (lambda grad: (grad[:2],), heed.ShapeError, "a gradient \\(2\\) f64 for a value")):
        with pytest.raises(kind, match=text):
            op(wrong).backward()
    with pytest.raises(ValueError, match="read-only"):
        op(lambda grad: (np.multiply(grad, 2, out=grad),)).backward()
    with pytest.raises(heed.ShapeError, match="custom_op: output is i64; pass float32 or float64"):
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


# ---- Modules

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


def test_parameters_are_found_by_name():
    net = Net()
    names = [name for name, _ in net.named_parameters()]
    assert names[0] == "embedding.weight" and names[-1] == "gain"
    assert {"blocks.0.self_attn.in_proj_weight", "blocks.1.norm2.weight", "blocks.0.linear1.weight",
            "parts.cross.k_proj_weight", "parts.cross.out_proj.bias", "parts.norm.bias"} < set(names)
    assert len(names) == len(set(names)) == len(net.parameters())
    assert not any(name.startswith(("tied", "constant")) for name in names)
    assert net.parameter_count() == sum(p.numpy().size for p in net.parameters())
    assert repr(net) == f"Net of {net.parameter_count()} parameters"


def test_gradients_of_a_composed_model():
    nn.manual_seed(2)
    net = Net().eval()
    net.to("float64")
    check_gradients(lambda: net_loss(net), net.parameters())


def test_training_and_eval_reach_everything():
    net = Net()
    children = [net, *net.blocks, *net.parts.values(), net.blocks[0].self_attn, net.blocks[1].feed_forward.linear1]
    assert all(child.training for child in children)
    assert net.eval() is net and not any(child.training for child in children)
    assert net.train() is net and all(child.training for child in children)
    net.train(False)
    assert net_loss(net, np.float32).item() == net_loss(net, np.float32).item()
    net.train()
    assert net_loss(net, np.float32).item() != net_loss(net, np.float32).item()


def test_trees_that_bite_their_tails():
    net = Net()
    net.parent = net.blocks[0].__class__(8, 2)
    net.self = net
    net.listed = [net, {"again": net}]
    count = len(net.named_parameters())
    assert count == len(Net().named_parameters()) + len(net.parent.named_parameters())
    net.loop = []
    net.loop.append(net.loop)
    with pytest.raises(RecursionError):
        net.parameters()
    del net.loop
    for _ in range(100_000):
        net.listed = [net.listed]
    with pytest.raises(RecursionError):
        net.parameters()
    while net.listed:  # no deep recursion of Python's own
        net.listed = net.listed[0] if isinstance(net.listed[0], list) else None


def test_cycles_are_collected():
    net = Net()
    net.self = net
    gone = weakref.ref(net)
    del net
    gc.collect()
    assert gone() is None


def test_modules_that_are_none():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    class Idle(nn.Module):
        pass
    with pytest.raises(TypeError, match="Forgetful is not begun yet; call super\\(\\).__init__\\(\\) first"):
        Forgetful().parameters()
    outer = Idle()
    outer.child = Forgetful()
    with pytest.raises(TypeError, match="Forgetful is not begun yet"):
        outer.train()
    with pytest.raises(AttributeError, match="forward"):
        Idle()(1)
    for method in (nn.Module.parameters, nn.Module.state_dict, nn.Module.eval):
        with pytest.raises(TypeError, match="5 is no module; pass one of heed.nn"):
            method(5)
    outer.child = {"a.b": leaf(2), "a": {"b": leaf(2)}}
    with pytest.raises(heed.ShapeError, match="two parameters are named 'child.a.b'"):
        outer.parameters()


def test_a_subclass_of_a_layer_has_both_kinds_of_parameters():
    class Scaled(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.gain = leaf(1)
    assert [name for name, _ in Scaled().named_parameters()] == ["weight", "bias", "gain"]


def test_state_dict_is_in_place():
    net, other = Net(), Net()
    state = net.state_dict()
    assert np.shares_memory(state["gain"], net.gain.numpy())
    other.load_state_dict(state)
    for name, values in other.state_dict().items():
        np.testing.assert_array_equal(values, state[name])
        assert not np.shares_memory(values, state[name])
    other.load_state_dict({name: values.astype(np.float64) for name, values in state.items()})
    assert other.gain.dtype == np.float32
    state["gain"][:] = 7
    assert net.gain.numpy()[0] == 7


def test_states_that_do_not_fit():
    layer = nn.Linear(3, 2)
    before = layer.weight.numpy().copy()
    good = {"weight": numbers(2, 3), "bias": numbers(2)}
    for change, kind, text in (({"bias": None}, TypeError, "load_state_dict: 'bias' is None"),
                               ({"gain": numbers(2)}, heed.FormatError, "'gain' is not a parameter of this model"),
                               ({"bias": numbers(3)}, heed.FormatError, "'bias' has shape \\(3\\), the model needs"),
                               ({"bias": np.arange(2)}, heed.FormatError, "'bias' is i64, not floating"),
                               ({5: numbers(2)}, TypeError, "a name is 5; pass a dict of arrays by name")):
        with pytest.raises(kind, match=text):
            layer.load_state_dict(good | change)
    with pytest.raises(heed.FormatError, match="'bias' is missing"):
        layer.load_state_dict({"weight": numbers(2, 3)})
    with pytest.raises(TypeError):
        layer.load_state_dict([1])
    np.testing.assert_array_equal(layer.weight.numpy(), before)


def test_to_another_type_and_back():
    layer = nn.Linear(3, 2)
    before = layer.weight.numpy()
    F.sum(layer(np.ones((1, 3), np.float32))).backward()
    layer.to(np.float64)
    assert layer.weight.dtype == np.float64 and layer.weight.grad is None
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    assert layer(np.ones((1, 3))).dtype == np.float64
    layer.to("float32")
    np.testing.assert_array_equal(layer.weight.numpy(), before)


def test_a_parameter_that_moves_while_the_tape_holds_it():
    layer = nn.Linear(3, 2)
    loss = F.sum(layer(np.ones((1, 3), np.float32)))
    layer.to("float64")
    with pytest.raises(heed.ShapeError, match="f64 read as f32"):
        loss.backward()


LAYERS = {
    "Linear": lambda: nn.Linear(3, 2, bias=False),
    "Embedding": lambda: nn.Embedding(4, 3),
    "LayerNorm": lambda: nn.LayerNorm(3, 0.5, bias=False),
    "RMSNorm": lambda: nn.RMSNorm(3, 0.5),
    "Norm": lambda: nn.Norm("rms_norm", 3, 0.5),
    "FeedForward": lambda: nn.FeedForward(3, 4, "geglu_tanh", 0.5),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2, 0.5, kv_heads=1, head_dim=3, kdim=5, vdim=6, scale=2.0),
    "rotary": lambda: nn.MultiheadAttention(4, 2, rotary=True, bias=False),
    "encoder layer": lambda: nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, norm="rms_norm", activation="swiglu",
                                                        norm_epsilon=0.5, rotary=True),
    "decoder layer": lambda: nn.TransformerDecoderLayer(4, 2, dim_feedforward=6, norm_first=True, dropout=0.25),
    "encoder": lambda: nn.TransformerEncoder(4, 2, 2, dim_feedforward=6, final_norm=True, norm_bias=False),
    "decoder": lambda: nn.TransformerDecoder(4, 2, 3, dim_feedforward=6, bias=False),
    "Transformer": lambda: nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=2, positions="rotary"),
    "LanguageModel": lambda: nn.LanguageModel(**TINY, num_layers=2, tie_embeddings=False),
    "one's own": Net,
}


@pytest.mark.parametrize("name", LAYERS)
def test_pickle_and_copy(name):
    module = LAYERS[name]().eval()
    module.to("float64")
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert type(again) is type(module) and not again.training and again.parameters()[0].dtype == np.float64
        state = again.state_dict()
        assert list(state) == list(module.state_dict())
        for key, values in module.state_dict().items():
            np.testing.assert_array_equal(values, state[key])
            assert not np.shares_memory(values, state[key])
        assert again.__reduce__()[1][2] == module.__reduce__()[1][2]  # the same arguments


def test_copies_compute_the_same():
    for make, loss in ((Net, lambda net: net_loss(net, np.float32)),
                       (LAYERS["Transformer"], lambda model: model.loss([[4]], [[5]])),
                       (LAYERS["encoder layer"], lambda layer: probe(layer(np.ones((1, 3, 4), np.float32))))):
        module = make()
        other = pickle.loads(pickle.dumps(module))
        assert other.training
        nn.manual_seed(4)
        expected = loss(module).item()
        nn.manual_seed(4)
        assert loss(other).item() == expected
    copied = copy.deepcopy(net := Net())
    assert copied.tied is copied.embedding is not net.embedding
    assert copied.embedding.weight.same(copied.tied.weight) and not copied.embedding.weight.same(net.embedding.weight)


def test_variables_are_pickled_without_history():
    x = pickle.loads(pickle.dumps(leaf(3)))
    np.testing.assert_array_equal(x.numpy(), leaf(3).numpy())
    assert x.requires_grad and not copy.deepcopy(nn.Variable(numbers(2))).requires_grad
    with pytest.raises(heed.ShapeError, match="history cannot be kept; pickle numpy\\(\\) of it"):
        pickle.dumps(x * 2.0)


def test_initial_values_follow_the_seed():
    states = []
    for seed in (5, 5, 6):
        nn.manual_seed(seed)
        states.append(nn.Linear(3, 2).weight.numpy())
    np.testing.assert_array_equal(states[0], states[1])
    assert (states[0] != states[2]).any() and abs(states[0]).max() <= 1 / np.sqrt(3)


# ---- Layers

def heads_of(x, heads):
    """(B, L, H * D) -> (B, H, L, D)"""
    return np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"head_dim": 5}, {"bias": False, "out_bias": False},
                                     {"scale": 0.3}])
def test_multihead_attention_is_its_formula(options):
    layer = nn.MultiheadAttention(8, 4, **options)
    layer.to("float64")
    for parameter in layer.parameters():
        parameter.numpy()[...] = numbers(*parameter.shape, seed=parameter.numpy().size)
    x, mask, lengths = numbers(2, 5, 8), numbers(5, 5) > -1, np.array([5, 3])
    size, kv = options.get("head_dim", 2), options.get("kv_heads", 4)
    packed = x @ layer.in_proj_weight.numpy().T + (0 if layer.in_proj_bias is None else layer.in_proj_bias.numpy())
    q, k, v = np.split(packed, [4 * size, (4 + kv) * size], axis=2)
    r = heed.attention(heads_of(q, 4), heads_of(k, kv), heads_of(v, kv), mask, causal=True, key_lengths=lengths,
                       scale=options.get("scale"), return_weights=True)
    merged = np.swapaxes(r.out, 1, 2).reshape(2, 5, -1)
    bias = 0 if layer.out_proj.bias is None else layer.out_proj.bias.numpy()
    record = nn.HeadRecord(want_vectors=True)
    y = layer(x, x, x, mask, True, key_lengths=lengths, record=record)
    np.testing.assert_allclose(y.numpy(), merged @ layer.out_proj.weight.numpy().T + bias, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(record.weights, r.weights, rtol=1e-12, atol=1e-12)
    for vectors, expected in zip(record.vectors, (heads_of(q, 4), heads_of(k, kv), heads_of(v, kv))):
        np.testing.assert_allclose(vectors, expected, rtol=1e-12, atol=1e-12)
        assert not vectors.flags.writeable
    apart = layer(x, x.copy(), x.copy(), mask, True, key_lengths=lengths)  # three products instead of one
    np.testing.assert_allclose(apart.numpy(), y.numpy(), rtol=1e-12, atol=1e-12)
    single = layer(x[0], x[0], x[0], causal=True)
    np.testing.assert_allclose(single.numpy(), layer(x[:1], x[:1], x[:1], causal=True).numpy()[0], rtol=1e-12)
    part = nn.HeadRecord(heads=[3, 0], rows=[1])
    layer(x, x, x, mask, True, key_lengths=lengths, record=part)
    np.testing.assert_allclose(part.weights, r.weights[:, [3, 0]][:, :, [1]], rtol=1e-12, atol=1e-12)
    check_gradients(lambda: probe(layer(x, x, x, mask, True, key_lengths=lengths)), layer.parameters())


def test_rotary_attention_goes_by_positions():
    layer = nn.MultiheadAttention(8, 2, rotary=True)
    x = numbers(1, 4, 8).astype(np.float32)
    y = layer(x, x, x).numpy()
    np.testing.assert_array_equal(layer(x, x, x, positions=np.arange(4)).numpy(), y)
    np.testing.assert_allclose(layer(x, x, x, positions=np.arange(4) + 9).numpy(), y, atol=1e-5)  # relative ones
    assert abs(layer(x, x, x, positions=np.array([3, 1, 2, 0])).numpy() - y).max() > 1e-4
    with pytest.raises(heed.ShapeError, match="rotary positions are for self-attention"):
        layer(x, x, x.copy())


def test_stacks_are_their_layers():
    encoder = nn.TransformerEncoder(8, 2, 2, final_norm=True, dim_feedforward=16)
    decoder = nn.TransformerDecoder(8, 2, 2, dim_feedforward=16, norm_first=True)
    for stack in (encoder, decoder):
        stack.to("float64")
        stack.eval()
    x, memory, lengths = numbers(2, 3, 8), numbers(2, 4, 8, seed=1), np.array([4, 2])
    record, one = nn.AttentionRecord(), nn.HeadRecord()
    y = encoder(memory, key_lengths=lengths, record=record)
    z = encoder.layers[0](memory, key_lengths=lengths, record=one)
    np.testing.assert_array_equal(one.weights, record.encoder[0])
    np.testing.assert_array_equal(encoder.norm(encoder.layers[1](z, key_lengths=lengths)).numpy(), y.numpy())
    record = nn.AttentionRecord(layers=[1], want_vectors=True)
    self_record, cross_record = nn.HeadRecord(), nn.HeadRecord()
    out = decoder(x, y, causal=True, memory_key_lengths=lengths, record=record)
    h = decoder.layers[0](x, y, causal=True, memory_key_lengths=lengths)
    h = decoder.layers[1](h, y, causal=True, memory_key_lengths=lengths, record=self_record, cross_record=cross_record)
    np.testing.assert_array_equal(h.numpy(), out.numpy())
    assert record.decoder[0] is None and record.encoder == [] and decoder.norm is None
    np.testing.assert_array_equal(record.decoder[1], self_record.weights)
    np.testing.assert_array_equal(record.cross[1], cross_record.weights)
    assert record.cross_vectors[0] is None and record.cross_vectors[1][1].shape == (2, 2, 4, 4)
    assert (record.cross[1][1, :, :, 2:] == 0).all() and (np.triu(record.decoder[1], 1) == 0).all()
    check_gradients(lambda: probe(decoder(x, encoder(memory), causal=True)),
                    encoder.parameters() + decoder.parameters())


def test_positions():
    rows = nn.SinusoidalPositions(6).rows(300, 2, "float64")
    angle = np.arange(300, 302)[:, None] / 10000 ** (np.array([0, 2, 4]) / 6)
    np.testing.assert_allclose(rows[:, ::2], np.sin(angle), rtol=1e-9)
    np.testing.assert_allclose(rows[:, 1::2], np.cos(angle), rtol=1e-9)
    for wrong in ((-1, 2), (0, -1), (2 ** 62, 1)):
        with pytest.raises(heed.ShapeError, match="pass numbers from 0"):
            nn.SinusoidalPositions(6).rows(*wrong)


# ---- Models

SOURCES, TARGETS = [[4, 5, 6], [7, 8]], [[8, 7], [6, 5, 4, 9]]


@pytest.mark.parametrize("options", [{}, {"positions": "learned", "norm": "rms_norm", "activation": "geglu"},
                                     {"positions": "rotary", "source_vocab_size": 9, "tie_embeddings": False}])
def test_gradients_of_a_transformer(options):
    model = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=1, max_positions=6, **options)
    assert model.config | TINY | options == model.config
    model.to("float64")
    check_gradients(lambda: model.loss(SOURCES, TARGETS, label_smoothing=0.1), model.parameters(), 2e-7)


def test_a_transformer_is_its_parts():
    model = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=2).eval()
    source = nn.TokenBatch.pad([ids + [3] for ids in SOURCES], pad_id=0)
    target = nn.TokenBatch.pad([[2] + ids for ids in TARGETS], pad_id=0)
    assert len(source) == 2 and not source.is_packed and source.ids.tolist() == [[4, 5, 6, 3], [7, 8, 3, 0]]
    assert source.lengths.tolist() == [4, 3]
    record = nn.AttentionRecord()
    memory = model.encode(source, record)
    states = model.decode(target, memory, source, record)
    logits = model.logits(source, target)
    np.testing.assert_array_equal(F.linear(states, model.output_weight).numpy(), logits.numpy())
    assert [len(record.encoder), len(record.decoder), len(record.cross)] == [1, 2, 2]
    assert record.cross[0].shape == (2, 2, 5, 4) and (record.cross[0][1, :, :, 3] == 0).all()
    labels = np.array([TARGETS[0] + [3, -100, -100], TARGETS[1] + [3]])
    np.testing.assert_allclose(model.loss(SOURCES, TARGETS).item(), F.cross_entropy(logits, labels).item(), rtol=1e-5)
    packed = nn.TokenBatch.pack([[4, 5], [6]])
    assert packed.is_packed and packed.ids.tolist() == [[4, 5, 6]] and model.encode(packed).shape == (1, 3, 8)
    with pytest.raises(heed.ShapeError, match="packed tokens are not recorded; give a padded batch"):
        model.encode(SOURCES, record)
    with pytest.raises(heed.ShapeError, match="one of source and target is packed"):
        model.decode(TARGETS, memory, source)


def test_gradients_of_a_language_model():
    model = nn.LanguageModel(**TINY, num_layers=2, num_kv_heads=1, max_positions=6, tie_embeddings=False)
    model.to("float64")
    check_gradients(lambda: model.loss([[1, 2, 3], [4, 5, 6, 7]]), model.parameters(), 2e-7)
    text = nn.TokenBatch.pad([[1, 2, 3], [4, 5, 6]], pad_id=0)
    logits = model.logits(text).numpy()
    np.testing.assert_allclose(F.linear(model.hidden(text), model.output_weight).numpy(), logits)
    model.eval()
    log_p = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    np.testing.assert_allclose(model.log_probabilities([4, 5, 6]), [log_p[1, 0, 5], log_p[1, 1, 6]], rtol=1e-5)
    assert model.generate([4, 5, 6], max_tokens=1, temperature=0) == [logits[1, 2].argmax()]
    assert len(model.generate([1], max_tokens=9, seed=3)) == 9
    assert model.generate([1], max_tokens=9, seed=3) == model.generate(np.array([1]), max_tokens=9, seed=3)


def test_signatures_list_all_fields():
    for model, small in ((nn.Transformer, TINY | {"num_encoder_layers": 1, "num_decoder_layers": 1}),
                         (nn.LanguageModel, TINY | {"num_layers": 1})):
        signature = model.__init__.__doc__
        for name, value in model(**small).config.items():
            assert f"{name}: " in signature, name
            assert name in small or f"{name}: {type(value).__name__} = {value!r}" in signature, name


MODELS_REFUSE = {
    "translate in training": (lambda m, l: m.translate(SOURCES), "the model is in training; call eval\\(\\) first"),
    "generate in training": (lambda m, l: l.generate([1]), "the model is in training; call eval\\(\\) first"),
    "a beam": (lambda m, l: m.eval().translate(SOURCES, beam=0), "beam"),
    "a temperature": (lambda m, l: l.eval().generate([1], temperature=-1), "temperature"),
    "an empty prompt": (lambda m, l: l.eval().generate([]), "prompt is empty"),
    "an id": (lambda m, l: l.loss([[1, 99]]), "id 99 is not in 0..10"),
    "a wide id": (lambda m, l: l.loss([[1, 2 ** 40]]), "pass ids of the vocabulary"),
    "an empty text": (lambda m, l: l.loss([[]]), "text 0 is empty"),
    "sources without targets": (lambda m, l: m.loss([[1]], []), "1 sources and 0 targets"),
    "a long text": (lambda m, l: l.loss([list(range(9)) * 200]), "the model takes 1024"),
    "a memory": (lambda m, l: m.decode(TARGETS, numbers(1, 3, 7).astype(np.float32), SOURCES), "linear|attention"),
}


@pytest.mark.parametrize("name", MODELS_REFUSE)
def test_models_refuse(name):
    call, text = MODELS_REFUSE[name]
    model = nn.Transformer(**TINY, num_encoder_layers=1, num_decoder_layers=1)
    with pytest.raises(heed.ShapeError, match=text):
        call(model, nn.LanguageModel(**TINY, num_layers=1))


def test_ids_that_are_none():
    model = nn.LanguageModel(**TINY, num_layers=1)
    for wrong in (5, [5], ["ab"], [[1.5]], [None], None, "text"):
        with pytest.raises(TypeError):
            model.loss(wrong)
    assert model.loss([]).item() == 0


# ---- Training

def test_adamw_is_its_formula():
    layer = nn.Linear(3, 2)
    layer.to("float64")
    optimiser = nn.AdamW(layer, beta1=0.8, beta2=0.9, epsilon=1e-6, weight_decay=0.1)
    values = {name: p.numpy().copy() for name, p in layer.named_parameters()}
    m, v = ({name: np.zeros_like(x) for name, x in values.items()} for _ in range(2))
    for step in range(1, 4):
        optimiser.zero_grad()
        F.sum(layer(numbers(4, 3, seed=step)) * numbers(4, 2, seed=9)).backward()
        gradients = {name: p.grad for name, p in layer.named_parameters()}
        norm = np.sqrt(sum((g * g).sum() for g in gradients.values()))
        np.testing.assert_allclose(optimiser.gradient_norm(), norm)
        scale = nn.clip_scale(norm, 0.5)
        assert scale == 0.5 / norm and nn.clip_scale(0.4, 0.5) == nn.clip_scale(9, 0) == 1
        for name, x in values.items():
            g = gradients[name] * scale
            m[name], v[name] = 0.8 * m[name] + 0.2 * g, 0.9 * v[name] + 0.1 * g * g
            x -= 0.01 * (0.1 * x if x.ndim > 1 else 0)
            x -= 0.01 * m[name] / (1 - 0.8 ** step) / (np.sqrt(v[name] / (1 - 0.9 ** step)) + 1e-6)
        optimiser.step(0.01, scale)
        for name, p in layer.named_parameters():
            np.testing.assert_allclose(p.numpy(), values[name], rtol=1e-12)
    assert optimiser.steps == 3


def test_schedules():
    root = nn.LearningRate(peak=2.0, warmup=4)
    np.testing.assert_allclose([root.at(s) for s in (1, 4, 16)], [0.5, 2, 1])
    cosine = nn.LearningRate("cosine", 1.0, floor=0.2, warmup=0, total=10)
    np.testing.assert_allclose([cosine.at(5), cosine.at(10)], [0.6, 0.2])
    linear = nn.LearningRate("linear", 1.0, warmup=0)
    np.testing.assert_allclose([linear.at(1, 0.25), linear.at(9, 1.0)], [0.75, 0])
    np.testing.assert_allclose(nn.LearningRate("constant", 1.0, warmup=0, total=10, anneal=4).at(8), 0.5)


def test_an_optimiser_notices_that_parameters_moved():
    layer = nn.Linear(3, 2)
    first = nn.AdamW(layer)
    first.step(0.1)
    second = nn.AdamW(layer)
    second.step(0.1)
    with pytest.raises(heed.ShapeError, match="parameter 'weight' has moved since"):
        first.step(0.1)
    layer.to("float64")
    with pytest.raises(heed.ShapeError, match="make the optimiser anew"):
        second.step(0.1)


def trained(threads=None, updates=30, net=None, optimiser=None):
    """A net after some updates, with its optimiser and losses."""
    if threads:
        heed.set_num_threads(threads)
    if net is None:
        nn.manual_seed(3)
        net = Net()
        optimiser = nn.AdamW(net, weight_decay=0.01)
    rate, losses = nn.LearningRate("constant", 0.01, warmup=5), []
    for update in range(updates):
        optimiser.zero_grad()
        loss = net_loss(net, np.float32)
        loss.backward()
        optimiser.step(rate.at(update + 1), nn.clip_scale(optimiser.gradient_norm(), 1.0))
        losses.append(loss.item())
    return net, optimiser, losses


def test_training_gives_the_same_bits_for_any_number_of_threads(same_threads_after):  # noqa: F811
    nets = []
    for threads in (1, 2):
        net, _, losses = trained(threads)
        assert losses[-1] < 0.5 * losses[0]
        nets.append((net.state_dict(), losses))
    assert nets[0][1] == nets[1][1]
    for name, values in nets[0][0].items():
        np.testing.assert_array_equal(values, nets[1][0][name])


def test_a_model_of_some_size_has_the_same_bits_for_any_number_of_threads(same_threads_after):  # noqa: F811
    results = []
    for threads in (1, 2):
        heed.set_num_threads(threads)
        nn.manual_seed(1)
        model = nn.LanguageModel(vocab_size=300, d_model=64, nhead=4, num_layers=2, dim_feedforward=256,
                                 max_positions=256)
        optimiser = nn.AdamW(model)
        rng = np.random.default_rng(1)
        for _ in range(3):
            optimiser.zero_grad()
            model.loss(rng.integers(0, 300, (4, 200))).backward()
            optimiser.step(0.001)
        results.append(model.state_dict())
    for name, values in results[0].items():
        np.testing.assert_array_equal(values, results[1][name])


def test_training_goes_on_from_a_state():
    whole, _, losses = trained(updates=12)
    net, optimiser, _ = trained(updates=6)
    state = {name: np.copy(x) if name != "steps" else x for name, x in optimiser.state_dict().items()}
    assert state["steps"] == 6 and "m.gain" in state and "v.embedding.weight" in state
    other = Net()
    other.load_state_dict(net.state_dict())
    resumed = nn.AdamW(other, weight_decay=0.01)
    resumed.load_state_dict(state)
    assert resumed.steps == 6
    # Six draws of dropout were taken by the first six updates, and those of Net() in between.
    nn.manual_seed(9)
    trained(updates=3, net=net, optimiser=optimiser)
    nn.manual_seed(9)
    trained(updates=3, net=other, optimiser=resumed)
    for name, values in net.state_dict().items():
        np.testing.assert_array_equal(values, other.state_dict()[name])
    assert len(losses) == 12 and whole.parameter_count() == net.parameter_count()
    for change, kind, text in (({"steps": None}, heed.FormatError, "'steps' of the state is None; pass an int"),
                               ({"m.gain": numbers(2)}, heed.FormatError, "'m.gain' has shape \\(2\\)"),
                               ({"m.gone": numbers(2)}, heed.FormatError, "'m.gone'")):
        with pytest.raises(kind, match=text):
            resumed.load_state_dict(state | change)
    assert resumed.steps == 9
