"""Arguments out of a random generator: arrays of every kind, right and wrong, and what pretends to be one."""
import array
import ctypes
import sys
import types

import ml_dtypes
import numpy as np

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
OTHERS = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.complex64, np.longdouble, ">f4", ">f8", "U3",
          "S4", "V8", "M8[s]", object, [("a", "f4"), ("b", "i4")], ml_dtypes.float8_e4m3fn]


class Own(Exception):
    """What an object of ours raises: it goes through, or becomes part of a refusal."""


def own(*_, **__):
    raise Own("mine")


def unsaid(*_, **__):
    raise Own("\ud800")


# ---- Values, layouts

def values(rng, shape, dtype):
    numbers = np.random.default_rng(rng.getrandbits(32)).standard_normal(shape)
    kind = rng.random()
    if kind < 0.1 and numbers.size:
        numbers.flat[rng.randrange(numbers.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-310])
    elif kind < 0.15:
        numbers = np.full(shape, rng.choice([np.nan, np.inf, -np.inf, 0.0]))
    with np.errstate(all="ignore"):
        try:
            return numbers.astype(dtype)
        except (TypeError, ValueError):
            return np.zeros(shape, dtype)


def laid_out(rng, x):
    """`x` in another layout; mostly one that heed takes."""
    kind = rng.randrange(14)
    if x.ndim and kind == 0:
        x = x[tuple(slice(None, None, rng.choice([1, -1])) for _ in range(x.ndim - 1))]
    elif x.ndim > 1 and kind == 1:  # dimensions in another order
        x = np.ascontiguousarray(x.transpose(order := rng.sample(range(x.ndim), x.ndim))).transpose(np.argsort(order))
    elif x.ndim and kind == 2:  # room between rows
        x = np.concatenate([x, x], axis=rng.randrange(x.ndim))[tuple(slice(n) for n in x.shape)]
    elif x.ndim and kind == 3:  # an innermost stride of 2 or -1
        x = np.repeat(x, 2, axis=-1)[..., ::2] if rng.random() < 0.5 else x[..., ::-1]
    elif x.ndim and x.size and kind == 4:  # one row for many, read-only
        x = np.broadcast_to(x[:1], x.shape)
    elif kind == 5:
        x = x.view()
        x.flags.writeable = False
    elif kind == 6 and x.dtype.hasobject is False:  # between two elements' places
        room = np.zeros(x.nbytes + x.itemsize + 1, np.uint8)[1:1 + x.nbytes]
        x = room.view(x.dtype).reshape(x.shape) if x.nbytes else x
    elif kind == 7:
        x = np.asfortranarray(x)
    return x


# ---- DLPack

class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", DELETER), ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


new_capsule, name_of, is_valid = (getattr(ctypes.pythonapi, "PyCapsule_" + name)
                                  for name in ("New", "GetName", "IsValid"))
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)


class Structure:
    """A structure of DLPack's in memory that we own, and the capsule that hands it on; some lie about themselves."""

    def __init__(self, rng, x, lie):
        versioned = rng.random() < 0.6
        self.values = x
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.sizes = (ctypes.c_int64 * max(x.ndim, 1))(*x.shape)
        self.steps = (ctypes.c_int64 * max(x.ndim, 1))(*(s // max(x.itemsize, 1) for s in x.strides))
        code = {"f": 2, "V": 4, "b": 6, "i": 0, "u": 1, "c": 5}.get(x.dtype.kind, 3)
        self.deleted = 0
        self.structure = (ManagedVersioned if versioned else Managed)()
        s, t = self.structure, self.structure.tensor
        s.deleter = DELETER(self.delete)
        if versioned:
            s.major, s.minor, s.flags = 1, 0, 0 if x.flags.writeable else 1
        t.data, t.device_type, t.ndim, t.code = x.ctypes.data, 1, x.ndim, code
        t.bits, t.lanes, t.shape, t.strides = min(8 * x.itemsize, 255), 1, self.sizes, self.steps
        self.honest = not lie
        if lie:
            self.lie(rng, s, t, versioned)
        self.capsule = new_capsule(ctypes.addressof(s), self.name, None)

    def lie(self, rng, s, t, versioned):
        which = rng.randrange(12 if versioned else 11)
        some = rng.randrange(len(self.sizes))
        if which == 0:
            t.ndim = rng.choice([-1, -2**31, 9, 2**31 - 1])
        elif which == 1:
            t.shape = None
        elif which == 2:
            self.sizes[some] = rng.choice([-1, -2**31, -2**63])
        elif which == 3:
            for d in range(len(self.sizes)):
                self.sizes[d] = 2**40
            t.strides = rng.choice([None, t.strides])
        elif which == 4:
            t.data = None
        elif which == 5:
            t.lanes = rng.choice([0, 2, 65535])
        elif which == 6:
            t.code = rng.choice([3, 5, 7, 77, 255])
        elif which == 7:
            t.bits = rng.choice([0, 1, 4, 8, 24, 128, 255])
            if t.bits > 8 * self.values.itemsize:
                t.bits = 0
        elif which == 8:
            t.device_type = rng.choice([0, 2, 8, -1, 2**31 - 1])
        elif which == 9:
            t.byte_offset = 1
        elif which == 10:
            s.deleter = DELETER()
        else:
            s.major = rng.choice([0, 2, 2**32 - 1])

    def delete(self, _):
        self.deleted += 1

    def check(self):
        """Its owner must have deleted it once where its capsule was taken, and never else."""
        taken = name_of(self.capsule) != self.name
        wanted = int(taken and bool(self.structure.deleter))
        assert self.deleted == wanted, f"deleted {self.deleted} times, not {wanted}"


class Foreign:
    """Has DLPack alone."""

    def __init__(self, give, space=None):
        self.give = give
        if space is not None:
            self.__array_namespace__ = space

    def __dlpack__(self, **options):
        return self.give(**options)

    def __dlpack_device__(self):
        return (1, 0)


def hostile_namespace(rng):
    return rng.choice([own, lambda: np, *(lambda give=give: types.SimpleNamespace(from_dlpack=give)
                                          for give in (own, unsaid, lambda x: 7))])


def hostile_give(rng, x):
    used = np.zeros(x.shape).__dlpack__(max_version=(1, 0))
    np.from_dlpack(Foreign(lambda **_: used))  # what it held was somebody else's, and is freed by now
    capsule = ctypes.py_object(new_capsule(1, b"something", None)).value
    return rng.choice([own, unsaid, lambda: None, lambda **_: None, lambda **_: 7, lambda **_: "dltensor",
                       lambda **_: capsule, lambda **_: used, lambda **_: x, lambda max_version: own(),
                       lambda **_: [].pop(), lambda **_: np.zeros(3).__dlpack__(), lambda **_: sys.exit(3),
                       lambda a, b: None])


class Turned(str):
    """A text whose repr is no text that UTF-8 has."""

    def __repr__(self):
        return "\ud800"


class Sour:
    __repr__ = __float__ = __index__ = __len__ = __bool__ = __getattr__ = own


class SourBuffer(np.ndarray):
    """A kind of NumPy's array with its own idea of everything."""
    __dlpack__ = __array_namespace__ = __array__ = own
    dtype = property(own)
    shape = property(own)


def no_array(rng):
    released = memoryview(bytearray(64))
    released.release()
    return rng.choice([None, 0, -1, 1.5, float("nan"), 2**70, "text", "\ud800", Turned("x"), b"bytes", b"", [1.0, 2.0],
                       {}, (), object(), Sour(), np, np.ndarray, np.float32(3), released, True, False, Ellipsis, len])


def wrapped(rng, x, kept):
    """`x` as something else; what must live and be looked at afterwards goes into `kept`."""
    kind = rng.randrange(9)
    if kind == 0:
        return Foreign(x.__dlpack__, rng.choice([None, lambda: np, hostile_namespace(rng)]))
    if kind in (1, 2, 3):
        structure = Structure(rng, x, lie=kind > 1)
        kept.append(structure)
        return Foreign(lambda **_: structure.capsule, rng.choice([None, hostile_namespace(rng)]))
    if kind == 4:
        return Foreign(hostile_give(rng, x))
    if kind == 5:
        return x.view(SourBuffer) if not x.dtype.hasobject else x
    if kind == 6 and x.dtype.kind in "fi" and x.dtype.itemsize in (4, 8) and x.dtype.isnative:
        return array.array("f" if x.dtype == np.float32 else "d", x.astype(np.float64).ravel().tolist())
    if kind == 7 and "torch" in sys.modules:
        tensor = sys.modules["torch"].Tensor(x)
        tensor.requires_grad = rng.choice([False, False, True, None, 7])
        tensor.is_neg = rng.choice([lambda: False, lambda: False, lambda: True, own])
        if rng.random() < 0.3:
            tensor.give = hostile_give(rng, x)
        return tensor
    try:
        return memoryview(x)
    except (ValueError, TypeError, BufferError):
        return x.tolist()


def pretend_torch():
    """A module that looks like torch to whoever does not look closely."""
    torch, utils, dlpack = (types.ModuleType(name) for name in ("torch", "torch.utils", "torch.utils.dlpack"))

    class Tensor:
        requires_grad = False

        def __init__(self, x):
            self.values, self.give = x, x.__dlpack__

        def is_neg(self):
            return False

        def __dlpack__(self, **options):
            return self.give(**options)

        def __dlpack_device__(self):
            return (1, 0)

    def from_dlpack(array):
        return Tensor(np.from_dlpack(array))

    torch.Tensor, torch.nn = Tensor, types.SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}))
    torch.is_grad_enabled = lambda: False  # nothing is recorded
    torch._C = types.SimpleNamespace()  # of a torch without dispatch keys
    torch.utils, utils.dlpack, dlpack.from_dlpack = utils, dlpack, from_dlpack
    autograd, forward_ad = types.ModuleType("torch.autograd"), types.ModuleType("torch.autograd.forward_ad")
    torch.autograd, autograd.forward_ad, forward_ad._current_level = autograd, forward_ad, -1  # no level is open
    sys.modules.update({"torch": torch, "torch.utils": utils, "torch.utils.dlpack": dlpack, "torch.autograd": autograd,
                        "torch.autograd.forward_ad": forward_ad})
