"""Arrays in and out: nothing copied, the same kind back, and what is refused."""
import array
import ctypes
import pickle
import random

import formula
import heed
import numpy as np
import pytest
from test_attention import inputs, numbers


class Foreign:
    """An array that offers DLPack alone, as other libraries' do."""

    def __init__(self, values, versions=True):
        self.values, self.versions = values, versions

    @property
    def shape(self):
        return self.values.shape

    def __dlpack__(self, **options):
        if not self.versions and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __array_namespace__(self):
        return Namespace


class Namespace:
    @staticmethod
    def from_dlpack(values):
        return Foreign(np.from_dlpack(values))


# ---- Without copies

def test_inputs_are_not_copied():
    """Keys and values of a terabyte, one row broadcast and read-only: a copy of them would have no room."""
    q, k, v = inputs(batch=1, keys=1)
    long_k, long_v = (np.broadcast_to(x, (1, 2, 2**34, x.shape[3])) for x in (k, v))
    assert not long_k.flags.writeable and long_k.nbytes + long_v.nbytes > 1 << 40
    out = heed.attention(q, long_k, long_v, key_lengths=np.array([3]))
    np.testing.assert_allclose(out, formula.attention(q, k, v)[0], rtol=1e-12)
    np.testing.assert_allclose(heed.attention(q, Foreign(long_k), Foreign(long_v), key_lengths=np.array([3])), out)


def test_out_is_written_where_it_lies():
    q, k, v = inputs(np.float32)
    wide = np.full((2, 9, 4, 7), 77, np.float32)  # (B, L, H, Dv), with room to the right
    out = np.swapaxes(wide, 1, 2)[..., :5]
    address = out.ctypes.data
    returned = heed.attention(q, k, v, causal=True, out=out)
    assert returned is out and out.ctypes.data == address
    np.testing.assert_array_equal(out, heed.attention(q, k, v, causal=True))
    assert (wide[..., 5:] == 77).all()
    r = heed.attention(q, k, v, causal=True, out=out, return_lse=True, return_weights=True, return_scores="scaled")
    apart = heed.attention(q, k, v, causal=True, return_lse=True, return_weights=True, return_scores="scaled")
    assert r.out is out
    for name in ("lse", "weights", "scores"):
        np.testing.assert_array_equal(getattr(r, name), getattr(apart, name))


def test_out_of_a_ragged_batch():
    q, k, v = numbers(6, 2, 4), numbers(9, 2, 4), numbers(9, 2, 3)
    options = {"q_offsets": np.array([0, 2, 6]), "k_offsets": np.array([0, 7, 9]), "return_weights": True}
    out = np.empty((6, 2, 3))
    r = heed.attention(q, k, v, out=out, **options)
    assert r.out is out and r.weights.shape == (2, 6, 7)
    np.testing.assert_array_equal(r.weights, heed.attention(q, k, v, **options).weights)


def test_results_own_what_they_hold():
    q, k, v = inputs()
    out = heed.attention(q, k, v)
    kept = out.copy()
    assert out.flags.writeable and not out.flags.owndata
    for _ in range(20):
        heed.attention(q + 1, k, v)  # would write over memory that nobody holds
    np.testing.assert_array_equal(out, kept)


def test_strided_views():
    packed = numbers(2, 9, 3, 4, 8)  # (B, L, of q, k and v, H, D)
    q, k, v = (np.swapaxes(packed[:, :, i], 1, 2) for i in range(3))
    expected = heed.attention(*(np.ascontiguousarray(x) for x in (q, k, v)))
    np.testing.assert_array_equal(heed.attention(q, k, v), expected)
    backwards = heed.attention(q[:, ::-1, ::-1], k[:, ::-1], v[:, ::-1])
    np.testing.assert_array_equal(backwards[:, ::-1, ::-1], expected)


def test_what_a_call_remembers_lives_on():
    """The options of a result keep the mask and the sinks that nobody else holds; lengths are its own."""
    q, k, v = inputs()
    mask, lengths = numbers(9, 13), np.array([13, 5])
    r = heed.attention(q, k, v, mask.copy(), key_lengths=lengths, return_lse=True)
    expected = heed.attention_backward(r.out, q, k, v, r)
    lengths[:] = 1 << 40
    clutter = [numbers(9, 13, seed=i) for i in range(50)]
    for name, values in expected._asdict().items():
        if values is not None:
            np.testing.assert_array_equal(getattr(heed.attention_backward(r.out, q, k, v, r), name), values)
    assert len(clutter) == 50


# ---- Kinds

def test_foreign_arrays_come_back_as_what_they_are():
    for dtype in (np.float16, np.float32, np.float64):
        q, k, v = inputs(dtype)
        expected = heed.attention(q, k, v, return_lse=True)
        for versions in (True, False):
            foreign = [Foreign(x, versions) for x in (q, k, v)]
            r = heed.attention(*foreign, return_lse=True)
            assert type(r.out) is type(r.lse) is Foreign
            np.testing.assert_array_equal(r.out.values, expected.out)
            g = heed.attention_backward(r.out, *foreign, r)
            expected_g = heed.attention_backward(expected.out, q, k, v, expected)
            np.testing.assert_array_equal(g.k.values, expected_g.k)
            out = Foreign(np.empty_like(expected.out), versions)
            if not versions:  # such memory may be anyone's
                with pytest.raises(heed.ShapeError, match="out does not say whether it may be written to; pass"):
                    heed.attention(*foreign, out=out)
                continue
            assert heed.attention(*foreign, out=out) is out
            np.testing.assert_array_equal(out.values, expected.out)


def exchange_table(lends):
    """A type's __dlpack_c_exchange_api__, as dmlc.github.io/dlpack describes it, behind a table of a later version.

    Not all types lend structures that nobody owns.
    """
    new_capsule, pointer_of, rename = (getattr(ctypes.pythonapi, "PyCapsule_" + name)
                                       for name in ("New", "GetPointer", "SetName"))
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    names = b"dltensor_versioned", b"used_dltensor_versioned", b"dlpack_exchange_api"

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
    def from_object(array, to):
        capsule = array.values.__dlpack__(max_version=(1, 0))
        to[0] = pointer_of(capsule, names[0])
        rename(capsule, names[1])
        array.taken.append(array)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    def to_object(managed, to):
        class Capsule:
            __dlpack_device__ = staticmethod(lambda: (1, 0))
            __dlpack__ = staticmethod(lambda **_: new_capsule(managed, names[0], None))
        array = (Lent if lends else Exchanged)(np.from_dlpack(Capsule))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
        to[0] = id(array)
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    def lend(array, to):
        array.lent = array.values.__dlpack__(max_version=(1, 0))  # for as long as the array is there
        ctypes.memmove(to, pointer_of(array.lent, names[0]) + 32, 48)  # its DLTensor
        array.taken.append(array)
        return 0

    class Table(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p),
                    ("allocate", ctypes.c_void_p), ("from_object", type(from_object)), ("to_object", type(to_object)),
                    ("lend", type(lend)), ("stream", ctypes.c_void_p)]
    known = Table(1, 3, None, None, from_object, to_object, lend if lends else type(lend)(), None)
    later = Table(2, 0, ctypes.addressof(known), None)
    return new_capsule(ctypes.addressof(later), names[2], None), (known, later, names)


class Exchanged:
    """An array whose type offers DLPack in C alone."""
    __dlpack_c_exchange_api__, kept = exchange_table(lends=False)
    taken = []

    def __init__(self, values):
        self.values = values


class Lent(Exchanged):
    __dlpack_c_exchange_api__, kept = exchange_table(lends=True)


@pytest.mark.parametrize("kind", [Exchanged, Lent])
def test_exchange_in_c(kind):
    for dtype in (np.float16, np.float32, np.float64):
        q, k, v = inputs(dtype)
        expected = heed.attention(q, k, v, return_lse=True)
        exchanged = [kind(x) for x in (q, k, v)]
        kind.taken.clear()
        r = heed.attention(*exchanged, return_lse=True)
        assert kind.taken == exchanged and type(r.out) is type(r.lse) is kind
        np.testing.assert_array_equal(r.out.values, expected.out)
        out = kind(np.empty_like(expected.out))
        assert heed.attention(*exchanged, out=out) is out
        np.testing.assert_array_equal(out.values, expected.out)
        out.values.flags.writeable = False
        with pytest.raises(heed.ShapeError, match="attention: out is read-only; pass"):
            heed.attention(*exchanged, out=out)


def test_arrays_of_ctypes():
    """Their buffers have no strides."""
    x = (ctypes.c_double * 8 * 4 * 2 * 1)()
    q = np.asarray(x)
    q[:] = inputs(batch=1, heads=2, queries=4, size=8)[0]
    np.testing.assert_array_equal(np.asarray(heed.attention(x, x, x)), heed.attention(q, q, q))


def test_bfloat16_of_ml_dtypes():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    q, k, v = (x.astype(bfloat16) for x in inputs())
    r = heed.attention(q, k, v, return_lse=True)
    assert r.out.dtype == bfloat16 and r.lse.dtype == np.float32
    expected = formula.attention(*(x.astype(np.float64) for x in (q, k, v)))
    np.testing.assert_allclose(r.out.astype(np.float64), expected[0], rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(r.lse, expected[1], rtol=1e-4)
    out = np.zeros_like(r.out)
    heed.attention(q, k, v, out=out)
    np.testing.assert_array_equal(out, r.out)
    assert heed.attention_backward(r.out, q, k, v, r).q.dtype == bfloat16


def test_torch():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        q, k, v = (torch.from_numpy(x).to(dtype) for x in inputs())
        r = heed.attention(q, k, v, causal=True, return_lse=True)
        assert type(r.out) is torch.Tensor and r.out.dtype == dtype
        expected = formula.attention(*(x.double().numpy() for x in (q, k, v)), causal=True)[0]
        close = {torch.float64: 1e-12, torch.float32: 2e-5}.get(dtype, 1e-2)
        np.testing.assert_allclose(r.out.double().numpy(), expected, rtol=close, atol=close)
        out = torch.empty_like(r.out)
        assert heed.attention(q, k, v, causal=True, out=out) is out and torch.equal(out, r.out)
        assert type(heed.attention_backward(r.out, q, k, v, r).k) is torch.Tensor
    x = torch.zeros(1, 1, 1, 8).expand(1, 1, 2**40, 8)
    assert heed.attention(x[:, :, :1], x, x, key_lengths=torch.tensor([3])).shape == (1, 1, 1, 8)
    with pytest.raises(heed.ShapeError, match="attention: q requires grad.*detach"):
        heed.attention(torch.zeros(1, 1, 1, 8, requires_grad=True), x, x, out=torch.zeros(1, 1, 1, 8))
    one = torch.zeros(1, 1, 1, 8)

    class Subclass(torch.Tensor):
        pass
    for strange in (torch.empty(1, 1, 1, 8, device="meta"), one.to_sparse(), torch._neg_view(one),
                    one.as_subclass(Subclass), torch._subclasses.FakeTensorMode().from_tensor(one)):
        with pytest.raises(heed.ShapeError, match="attention: q .*pass"):
            heed.attention(strange, one, one)
    parameter = torch.nn.Parameter(one, requires_grad=False)
    assert type(heed.attention(parameter, one, one)) is torch.Tensor


def test_jax():
    jax = pytest.importorskip("jax")
    for dtype in (jax.numpy.float32, jax.numpy.bfloat16):
        q, k, v = (jax.numpy.asarray(x, dtype) for x in inputs())
        r = heed.attention(q, k, v, return_lse=True)
        assert isinstance(r.out, jax.Array) and r.out.dtype == dtype and isinstance(r.lse, jax.Array)
        expected = formula.attention(*(np.asarray(x, np.float64) for x in (q, k, v)))[0]
        np.testing.assert_allclose(np.asarray(r.out, np.float64), expected, rtol=1e-2, atol=1e-2)
    with pytest.raises(heed.ShapeError, match="attention: out is read-only"):
        heed.attention(*(jax.numpy.asarray(x, jax.numpy.float32) for x in (q, k, v)),
                       out=jax.numpy.zeros((2, 4, 9, 5), jax.numpy.float32))
    with pytest.raises(heed.ShapeError, match="attention: out does not say whether it may be written to; pass"):
        heed.attention(q, k, v, out=jax.numpy.zeros((2, 4, 9, 5), jax.numpy.bfloat16))


# ---- What is refused

X = numbers(1, 2, 4, 8)
READ_ONLY = np.zeros((1, 2, 4, 8))
READ_ONLY.flags.writeable = False
NO_PLACE = np.zeros(8 * 64 + 1, np.uint8)[1:].view(np.float64).reshape(1, 2, 4, 8)
UNEVEN = np.zeros((1, 2, 4, 8), [("a", "f8"), ("b", "f4")])["a"]
MISFITS = [
    ({"q": None}, TypeError, "q is None; pass a NumPy array"),
    ({"q": "queries"}, TypeError, "q is 'queries'; pass a NumPy array"),
    ({"q": [[1.0]]}, TypeError, "q is .*; pass a NumPy array"),
    ({"q": 1.0}, TypeError, "q is 1.0; pass"),
    ({"q": np.ndarray}, TypeError, "q is .*ndarray.*; pass"),
    ({"q": Foreign}, TypeError, "q is .*Foreign.*; pass"),
    ({"q": b"bytes"}, heed.ShapeError, "q is uint8; pass float32, float64, float16 or bfloat16, convert with astype()"),
    ({"q": array.array("d", [1])}, heed.ShapeError, r"q has shape \(1\), not the four dimensions"),
    ({"q": np.array(1.0)}, heed.ShapeError, r"q has shape \(\), not the four dimensions"),
    ({"q": np.zeros((1,) * 10)}, heed.ShapeError, "q has 10 dimensions; pass at most 8"),
    ({"q": X.astype(int)}, heed.ShapeError, "q is int64; pass float32, float64, float16 or bfloat16, convert with astype()"),
    ({"q": X.astype(complex)}, heed.ShapeError, "q has elements of the format 'Zd'"),
    ({"q": X.astype(np.longdouble)}, heed.ShapeError, "q has elements of the format 'g'"),
    ({"q": X.astype(object)}, heed.ShapeError, "q has elements of the format 'O'"),
    ({"q": X.astype(">f8")}, heed.ShapeError, "q has elements of the format '>d'.*machine's byte order"),
    ({"q": X.astype("datetime64[s]")}, heed.ShapeError, "q gives no memory"),
    ({"q": X.astype(str)}, heed.ShapeError, "q has elements of the format"),
    ({"q": NO_PLACE}, heed.ShapeError, "q begins in the middle of an element's place"),
    ({"q": UNEVEN}, heed.ShapeError, "q has strides that are no multiples"),
    ({"q": X.astype(np.float32)}, heed.ShapeError, "k is float64 and q is float32; convert one with astype()"),
    ({"q": X[..., ::2], "k": X[..., :4]}, heed.ShapeError, "innermost stride of q is 2"),
    ({"q": numbers(1, 3, 4, 8)}, heed.ShapeError, "3 query heads are not a multiple of 2 key heads; pass"),
    ({"k": Foreign(X.astype(complex))}, heed.ShapeError, "k has elements that heed does not know"),
    ({"k": X[:, :, :, :4]}, heed.ShapeError, "head size of q is 8 and of k 4"),
    ({"mask": [[True]]}, TypeError, "mask is .*; pass a NumPy array"),
    ({"mask": np.zeros((5, 4), bool)}, heed.ShapeError, "does not broadcast"),
    ({"mask": np.zeros((4, 4), np.int64)}, heed.ShapeError, "the mask is int64"),
    ({"causal": "left"}, heed.ShapeError, "causal is 'left'; pass False, True"),
    ({"causal": 2}, heed.ShapeError, "causal is 2; pass"),
    ({"causal": "bottom_right", "offset": 1}, heed.ShapeError, "offset is 1; pass 0"),
    ({"scale": "big"}, TypeError, "scale is 'big'; pass a number"),
    ({"scale": np.nan}, heed.ShapeError, "scale is nan"),
    ({"softcap": -1}, heed.ShapeError, "softcap is -1"),
    ({"softcap": "2"}, TypeError, "softcap is .2.; pass a number"),
    ({"window": 5}, TypeError, r"window is 5; pass \(left, right\)"),
    ({"window": (1, 2, 3)}, TypeError, r"pass \(left, right\)"),
    ({"window": (1.5, 2)}, TypeError, r"window\[0\] is 1.5; pass an integer"),
    ({"window": (-2, 0)}, heed.ShapeError, r"the window is \(-2, 0\)"),
    ({"alibi": np.zeros(3)}, heed.ShapeError, "alibi has shape"),
    ({"sinks": np.zeros(2, np.float32)}, heed.ShapeError, "sinks is float32; pass float64"),
    ({"key_lengths": np.array([5])}, heed.ShapeError, r"key_lengths\[0\] is 5; pass 0 to Lk = 4"),
    ({"key_lengths": np.array([1.0])}, heed.ShapeError, "key_lengths are float64; pass int32 or int64"),
    ({"offset": 1 << 80}, heed.ShapeError, "offset is 1208925819614629174706176; pass at most 2"),
    ({"offset": 0.5}, TypeError, "offset is 0.5; pass an integer"),
    ({"q_offsets": np.array([0, 4])}, heed.ShapeError, "not the three dimensions"),
    ({"dropout_p": 1}, heed.ShapeError, r"dropout_p is 1; pass a probability in \[0, 1\)"),
    ({"seed": -1}, heed.ShapeError, "seed is -1; pass 0 to"),
    ({"seed": 1 << 64}, heed.ShapeError, "seed is 18446744073709551616; pass 0 to"),
    ({"return_scores": "all"}, heed.ShapeError, "return_scores is 'all'; pass None, 'scaled'"),
    ({"return_scores": True}, heed.ShapeError, "return_scores is True; pass None, 'scaled'"),
    ({"return_lse": X}, TypeError, "return_lse is .*; pass True or False"),
    ({"return_weights": 1}, TypeError, "return_weights is 1; pass True, False or a heed.Select"),
    ({"out": READ_ONLY}, heed.ShapeError, "out is read-only"),
    ({"out": Foreign(READ_ONLY)}, heed.ShapeError, "out is read-only"),
    ({"out": np.zeros((1, 2, 4, 7))}, heed.ShapeError, r"out has shape \(1, 2, 4, 7\)"),
    ({"out": np.zeros((1, 2, 4, 8), np.float32)}, heed.ShapeError, "out is float32"),
    ({"out": X}, heed.ShapeError, "out shares memory with q, which is read"),
    ({"out": np.broadcast_to(X, (1, 2, 4, 8))[:, ::-1]}, heed.ShapeError, "read-only|shares memory"),
]


@pytest.mark.parametrize("changed, error, text", MISFITS, ids=[str(i) for i in range(len(MISFITS))])
def test_misfits_are_refused(changed, error, text):
    with pytest.raises(error, match="attention: .*" + text) as caught:
        heed.attention(**({"q": X, "k": X, "v": X} | changed))
    if error is heed.ShapeError:
        assert isinstance(caught.value, ValueError) and type(caught.value).__module__ == "heed"
        assert type(pickle.loads(pickle.dumps(caught.value))) is heed.ShapeError


def test_errors_are_of_python_s_own_kinds():
    assert issubclass(heed.ShapeError, ValueError) and issubclass(heed.FormatError, ValueError)
    assert issubclass(heed.IoError, OSError)


def test_unknown_names_are_refused():
    with pytest.raises(TypeError, match="is_causal"):
        heed.attention(X, X, X, is_causal=True)


def test_backward_and_merge_refuse_what_is_no_result():
    r = heed.attention(X, X, X, return_weights=True)
    with pytest.raises(heed.ShapeError, match="r has no lse; call attention.* with return_lse=True"):
        heed.attention_backward(X, X, X, X, r)
    with pytest.raises(heed.ShapeError, match="merge: b has no lse"):
        heed.merge(heed.attention(X, X, X, return_lse=True), r)
    with pytest.raises(TypeError, match="r is a ndarray; pass the result of attention"):
        heed.attention_backward(X, X, X, X, X)
    r = heed.attention(X, X, X, return_lse=True)
    with pytest.raises(heed.ShapeError, match="r is a merged result"):
        heed.attention_backward(X, X, X, X, heed.merge(r, r))
    with pytest.raises(heed.ShapeError, match="attention_backward: grad has shape"):
        heed.attention_backward(X[:, :, :2], X, X, X, r)
    with pytest.raises(heed.ShapeError, match="attention_backward: grad_lse is float32"):
        heed.attention_backward(X, X, X, X, r, np.zeros((1, 2, 4), np.float32))
    with pytest.raises(TypeError, match="attention_backward: grad is None"):
        heed.attention_backward(None, X, X, X, r)


def test_what_does_not_fit_into_memory():
    row = np.broadcast_to(np.zeros(8), (1, 1, 2**40, 8))
    with pytest.raises(MemoryError):
        heed.attention(row, X[:, :1], X[:, :1])


def capsule_of(tensor, name):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(tensor), name, None)


class Broken:
    def __init__(self, result):
        self.result = result

    def __dlpack__(self, **options):
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


class Managed(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def test_memory_of_a_device_is_refused():
    tensor = Managed(device=2, code=2, bits=32, lanes=1)
    with pytest.raises(heed.ShapeError, match="q is on another device .*; pass it on the CPU"):
        heed.attention(Broken(capsule_of(tensor, b"dltensor")), X, X)


def test_shapes_that_no_memory_has():
    for sizes in [(-1, 1, 1, 8), (2**40, 2**40, 1, 8)]:
        shape, data = (ctypes.c_int64 * 4)(*sizes), ctypes.c_double()
        tensor = Managed(data=ctypes.addressof(data), device=1, ndim=4, code=2, bits=64, lanes=1,
                         shape=ctypes.addressof(shape))
        with pytest.raises(heed.ShapeError, match=r"attention: q has the shape \(.*, 1, 8\), which no memory has"):
            heed.attention(Broken(capsule_of(tensor, b"dltensor")), X, X)


def test_interrupts_inside_of_dlpack_are_no_errors_of_arrays():
    for stop in KeyboardInterrupt, SystemExit:
        with pytest.raises(stop):
            heed.attention(Broken(stop()), X, X)


def test_a_namespace_without_dlpack():
    class Nameless(Foreign):
        def __array_namespace__(self):
            return None
    assert type(heed.attention(Nameless(X.copy()), X, X)) is np.ndarray


def test_arrays_that_break_dlpack():
    for result in (None, 5, "capsule", capsule_of(ctypes.c_int(), b"something else"), ValueError("no"), KeyError("x")):
        with pytest.raises((heed.ShapeError, TypeError), match="attention: q"):
            heed.attention(Broken(result), X, X)


VALUES = [
    None, 0, 1, -1, 3, 1 << 70, 0.5, np.nan, np.inf, "x", "bottom_right", "masked", True, False, (1, 2), (), [3, -1],
    b"12345678", object(), np.float32(1), np.array(2.0), np.zeros(()), np.zeros(0), np.zeros((0, 2, 4, 8)), X,
    X.astype(np.float32), X.astype(np.float16), X > 0, X[..., ::-1], X[:, ::-1], X[:, :1], X[0], X[0, 0], X[0, 0, 0],
    np.zeros((1,) * 12), np.array([4]), np.array([0, 1]), np.array([0, 4], np.int32), np.array([3, 1, -5]),
    np.full((4, 4), np.nan), np.broadcast_to(X[:, :, :1], X.shape), READ_ONLY, NO_PLACE, Foreign(X.copy()), Broken(3),
    np.full(2, np.inf), np.arange(2.0)]
NAMES = ["q", "k", "v", "mask", "causal", "scale", "window", "softcap", "alibi", "sinks", "key_lengths", "offset",
         "q_offsets", "k_offsets", "dropout_p", "seed", "out", "return_lse", "return_scores", "return_weights"]


def test_random_calls_return_or_raise():
    choose = random.Random(1)
    returned = raised = 0
    for _ in range(20_000):
        call = {"q": X, "k": X, "v": X} | {choose.choice(NAMES): choose.choice(VALUES)
                                           for _ in range(choose.choice((1, 1, 2, 3)))}
        if isinstance(call.get("out"), np.ndarray) and call["out"].flags.writeable:
            call["out"] = call["out"].copy()  # X is everybody's
        try:
            r = heed.attention(**call)
            if isinstance(r, heed.AttentionResult) and r.lse is not None:
                heed.attention_backward(r.out, call["q"], call["k"], call["v"], r)
            returned += 1
        except (heed.ShapeError, TypeError) as error:
            assert "attention" in str(error) or "tensor" in str(error)
            raised += 1
    assert returned > 300 and raised > 10_000
