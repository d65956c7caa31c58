"""heed attention on every flag, held to the formula in plain Python, and to ONNX's own cases."""
import itertools
import json
import math
import random
import struct
import unittest

from program import LETTERS, ProgramTest, SHARED, npy

INF = math.inf


# ------------------------------------------------------------------------------------------------ arrays as nested lists

def filled(shape, value):
    """A nested list; `value` is called for every element."""
    return [filled(shape[1:], value) for _ in range(shape[0])] if shape else value()


def zeros(*shape):
    return filled(shape, lambda: 0.0)


def nested(shape, flat):
    it = iter(flat)
    return filled(shape, lambda: next(it))


def flat(x):
    return [y for part in x for y in flat(part)] if isinstance(x, list) else [x]


def get(x, *index):
    for i in index:
        x = x[i]
    return x


def round_to(storage, x):
    if isinstance(x, list):
        return [round_to(storage, y) for y in x]
    if storage == "bf16":
        bits, = struct.unpack("<I", struct.pack("<f", x))
        return struct.unpack("<f", struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]
    letter = {"f16": "e", "f32": "f", "f64": "d"}[storage]
    return struct.unpack("<" + letter, struct.pack("<" + letter, x))[0]


def pack(x):
    """(B, H, L, D) -> (B, L, H*D)"""
    return [[[y for head in entry for y in head[i]] for i in range(len(entry[0]))] for entry in x]


# ------------------------------------------------------------------------------------------------ the formula

class Case:
    """Everything that the formula needs, in double: q (B, Hq, Lq, D), k and v (B, Hkv, Lk, .) with the past in front."""

    def __init__(self, q, k, v, sizes):
        self.q, self.k, self.v = q, k, v
        self.B, self.Hq, self.Hkv, self.Lq, self.Lk, self.D, self.Dv = sizes
        self.past = 0
        self.lengths = [self.Lk] * self.B
        self.causal = None  # "top-left", "bottom-right" or a number
        self.window = (-1, -1)
        self.mask, self.mask_shape, self.boolean = None, (), False
        self.sums = "f64"  # what the sum of score and mask is kept in
        self.alibi = self.sinks = None
        self.scale = 1 / math.sqrt(self.D) if self.D else 1
        self.softcap = 0
        self.keep = None  # [b][h][i][j]: whether dropout keeps it
        self.dropout = 0
        self.grad_out = self.grad_lse = None

    def offset(self, b):
        if self.causal == "bottom-right":
            return self.lengths[b] - self.Lq
        return self.causal if isinstance(self.causal, int) else self.past

    def mask_index(self, b, h, i, j):
        """Where the mask has the pair; None past its end."""
        full = (b, h, i, j)[4 - len(self.mask_shape):]
        if self.mask_shape[-1] > 1 and j >= self.mask_shape[-1]:
            return None
        return tuple(0 if size == 1 else at for size, at in zip(self.mask_shape, full))

    def run(self):
        B, Hq, Lq, Lk = self.B, self.Hq, self.Lq, self.Lk
        self.out = zeros(B, Hq, Lq, self.Dv)
        self.lse = zeros(B, Hq, Lq)
        self.stages = [zeros(B, Hq, Lq, Lk) for _ in range(4)]
        self.grads = {"q": zeros(B, Hq, Lq, self.D), "k": zeros(B, self.Hkv, Lk, self.D),
                      "v": zeros(B, self.Hkv, Lk, self.Dv), "mask": zeros(*self.mask_shape), "sinks": zeros(Hq)}
        for b, h, i in itertools.product(range(B), range(Hq), range(Lq)):
            self.row(b, h, i)
        return self

    def hidden(self, b, h, i, j):
        o = self.offset(b)
        left, right = self.window
        if j >= self.lengths[b] or (self.causal is not None and j > i + o):
            return True
        if (left >= 0 and j < i + o - left) or (right >= 0 and j > i + o + right):
            return True
        if self.mask is None:
            return False
        at = self.mask_index(b, h, i, j)
        return at is None or (self.boolean and not get(self.mask, *at))

    def row(self, b, h, i):
        g = h // (self.Hq // self.Hkv)
        q, keys, values = self.q[b][h][i], self.k[b][g], self.v[b][g]
        scores, slopes = [], []
        for j in range(self.Lk):
            s = sum(x * y for x, y in zip(q, keys[j])) * self.scale
            self.stages[0][b][h][i][j] = s
            slope = 1.0
            if self.softcap:
                t = math.tanh(s / self.softcap)
                s, slope = self.softcap * t, 1 - t * t
            self.stages[1][b][h][i][j] = s
            if self.hidden(b, h, i, j):
                s = -INF
            else:
                if self.mask is not None and not self.boolean:
                    s = round_to(self.sums, s + get(self.mask, *self.mask_index(b, h, i, j)))
                if self.alibi:
                    s -= self.alibi[h] * abs(i + self.offset(b) - j)
            self.stages[2][b][h][i][j] = s
            scores.append(s)
            slopes.append(slope)
        logits = scores + ([self.sinks[h]] if self.sinks else [])
        top = max(logits, default=-INF)
        total = sum(math.exp(s - top) for s in logits) if top > -INF else 0.0
        lse = top + math.log(total) if total else -INF
        self.lse[b][h][i] = lse
        weights = [math.exp(s - top) / total if s > -INF else 0.0 for s in scores]
        self.stages[3][b][h][i] = weights
        factor = [1.0] * self.Lk
        if self.keep:
            factor = [kept / (1 - self.dropout) for kept in self.keep[b][h][i]]
        for j, w in enumerate(weights):
            if w:
                for c in range(self.Dv):
                    self.out[b][h][i][c] += w * factor[j] * values[j][c]
        if self.grad_out is None or lse == -INF:
            return
        go = self.grad_out[b][h][i]
        shift = sum(x * y for x, y in zip(go, self.out[b][h][i])) - (self.grad_lse[b][h][i] if self.grad_lse else 0)
        if self.sinks:
            self.grads["sinks"][h] -= math.exp(self.sinks[h] - top) / total * shift
        for j, w in enumerate(weights):
            if scores[j] == -INF:
                continue
            for c in range(self.Dv):
                self.grads["v"][b][g][j][c] += w * factor[j] * go[c]
            ds = w * (sum(x * y for x, y in zip(go, values[j])) * factor[j] - shift)
            if self.mask is not None and not self.boolean:
                at = self.mask_index(b, h, i, j)
                get(self.grads["mask"], *at[:-1])[at[-1]] += ds
            ds *= slopes[j] * self.scale
            for d in range(self.D):
                self.grads["q"][b][h][i][d] += ds * keys[j][d]
                self.grads["k"][b][g][j][d] += ds * q[d]


DESCR = {"f16": "<f2", "f32": "<f4", "f64": "<f8"}
# Largest difference, absolute and relative, of a file in that dtype; of 16-bit storage as the result went through it.
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 2e-3, "bf16": 1.6e-2}


class AttentionTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.arguments = []

    def save(self, name, shape, values, dtype="f64"):
        values = values if isinstance(values, list) else [values]
        self.write(name + ".npy", npy(shape, flat(values), DESCR.get(dtype, dtype)))
        return name + ".npy"

    def load(self, name):
        """dtype, shape, values"""
        content = (self.at / (name + ".npy")).read_bytes()
        length, = struct.unpack("<H", content[8:10])
        header = eval(content[10:10 + length])
        count = math.prod(header["shape"])
        letter = LETTERS[header["descr"]]
        return header["descr"], header["shape"], list(struct.unpack(f"<{count}{letter}", content[10 + length:]))

    def attention(self, *more, files=("q", "k", "v")):
        operands = [part for name in files for part in ("--" + name, name + ".npy")]
        return self.succeeds("attention", *operands, *self.arguments, *more)

    def assert_file(self, name, shape, expected, dtype, tolerance):
        descr, got_shape, got = self.load(name)
        self.assertEqual((descr, got_shape), (DESCR[dtype], tuple(shape)), name)
        expected = flat(expected)
        self.assertEqual(len(got), len(expected), name)
        scale = max([1.0] + [abs(x) for x in expected if math.isfinite(x)])
        for i, (x, y) in enumerate(zip(got, expected)):
            if x != y and not abs(x - y) <= tolerance * scale:
                self.fail(f"{name}[{i}] is {x}, not {y}")


class Formula(AttentionTest):
    """Random combinations of all flags."""

    def choose(self, seed):
        r = self.r = random.Random(seed)
        normal = lambda: r.gauss(0, 1)
        dtype = self.dtype = r.choice(["f32", "f32", "f64", "f16"])
        keys = self.keys = "f16" if dtype == "f32" and r.random() < 0.4 else dtype  # what k and v are saved as
        rank = self.rank = r.choice([2, 3, 4, 4, "packed", "packed"])
        B = r.randint(1, 3) if rank in (4, "packed") else 1
        Hkv = 1 if rank == 2 else r.randint(1, 3)
        Hq = 1 if rank == 2 else Hkv * r.randint(1, 3)
        Lq, new, D, Dv = r.choice([0, 1, 3, 5]), r.choice([0, 1, 4, 7]), r.choice([1, 3, 8]), r.choice([1, 4, 9])
        if seed % 25 == 0:  # several tiles of 64 queries by 64 keys
            B, Lq, new = min(B, 2), r.choice([2, 70]), 131
        past = self.past = r.choice([None, None, 0, 2, 5])
        Lk = new + (past or 0)
        self.storage = r.choice([None, None, "f32", "f16", "bf16"]) if dtype != "f64" else None
        q, k, v = (round_to(saved, filled(shape, normal))
                   for saved, shape in [(dtype, (B, Hq, Lq, D)), (keys, (B, Hkv, Lk, D)), (keys, (B, Hkv, Lk, Dv))])
        self.files = {"q": q, "k": k, "v": v}
        held = self.storage or ("f32" if dtype == "f16" else dtype)
        c = Case(*(round_to(held, x) for x in (q, k, v)), (B, Hq, Hkv, Lq, Lk, D, Dv))
        c.past = past or 0
        if past is None and r.random() < 0.3:
            c.lengths = [r.randint(0, Lk) for _ in range(B)]
            integers = r.choice(["<i4", "<i8"])
            self.flag("key-lengths", (B,), c.lengths, integers)
        kind = r.choice([None, None, "top-left", "bottom-right", "offset"])
        if kind == "offset":
            c.causal = r.randint(-2, 4)
            self.arguments += ["--causal-offset", c.causal]
        elif kind:
            c.causal = kind
            self.arguments += ["--causal", kind]
        if r.random() < 0.3:
            c.window = (r.randint(-1, 4), r.randint(-1, 4))
            self.arguments += ["--window", "%d,%d" % c.window]
        if r.random() < 0.6:
            self.choose_mask(c)
        if r.random() < 0.3:
            c.alibi = round_to(dtype, filled((Hq,), r.random))
            self.flag("alibi", (Hq,), c.alibi, dtype)
        if r.random() < 0.3:
            c.sinks = round_to(dtype, filled((Hq,), normal))
            self.flag("sinks", (Hq,), c.sinks, dtype)
        if r.random() < 0.3:
            c.softcap = r.choice([0.5, 3])
            self.arguments += ["--softcap", c.softcap]
        if r.random() < 0.3:
            c.scale = r.choice([0.25, 1.5])
            self.arguments += ["--scale", c.scale]
        if self.storage:
            self.arguments += ["--storage", self.storage]
        if rank == "packed":
            self.arguments += ["--q-heads", Hq, "--kv-heads", Hkv]
        if r.random() < 0.2:
            self.arguments += ["--reference"]
        for name, x, heads in (("q", q, Hq), ("k", k, Hkv), ("v", v, Hkv)):
            if name != "q" and past is not None:
                shape = (B, heads, past, D if name == "k" else Dv)
                self.flag({"k": "past-key", "v": "past-value"}[name], shape,
                          [[head[:past] for head in entry] for entry in x], keys)
                x = [[head[past:] for head in entry] for entry in x]
            self.save(name, *self.as_file(x, (B, heads, Lq if name == "q" else new, Dv if name == "v" else D)),
                      dtype if name == "q" else keys)
        c.grad_out = round_to(self.storage or dtype, round_to(dtype, filled((B, Hq, Lq, Dv), normal)))
        self.flag("grad-out", *self.as_file(c.grad_out, (B, Hq, Lq, Dv)), dtype)
        if r.random() < 0.5:
            c.grad_lse = round_to("f32" if dtype == "f16" else dtype, filled((B, Hq, Lq), normal))
            self.flag("grad-lse", self.leading(c) + (Lq,), c.grad_lse, "f32" if dtype == "f16" else dtype)
        return c

    def flag(self, name, shape, values, dtype):
        self.arguments += ["--" + name, self.save(name, shape, values, dtype)]

    def choose_mask(self, c):
        r, full = self.r, (c.B, c.Hq, c.Lq, c.Lk)
        shape = [r.choice([1, size]) for size in full][4 - r.randint(1, 4):]
        if c.Lk > 2 and r.random() < 0.3:
            shape[-1] = r.randint(2, c.Lk - 1)
        c.mask_shape = tuple(shape)
        c.boolean = r.random() < 0.5
        if c.boolean:
            c.mask = filled(shape, lambda: r.random() < 0.7)
            self.flag("mask", shape, c.mask, "|b1")
        else:
            c.mask = round_to(self.dtype, filled(shape, lambda: -INF if r.random() < 0.2 else r.gauss(0, 1)))
            self.flag("mask", shape, c.mask, self.dtype)

    def leading(self, c):
        return {2: (), 3: (c.Hq,)}.get(self.rank, (c.B, c.Hq))

    def as_file(self, x, shape):
        B, H, L, D = shape
        if self.rank == "packed":
            return (B, L, H * D), pack(x)
        return shape if self.rank == 4 else shape[4 - self.rank:], x

    def check(self, c):
        past = self.past or 0
        stage = self.r.randint(0, 3)
        self.arguments += ["--qk-output", stage]
        for name in ("out", "lse", "weights", "scores", "grad-q", "grad-k", "grad-v", "present-key", "present-value"):
            self.arguments += ["--" + name, name + ".out.npy"]
        optional = {"grad-past-key": self.past is not None, "grad-past-value": self.past is not None,
                    "grad-sinks": c.sinks, "grad-mask": c.mask is not None and not c.boolean}
        for name, wanted in optional.items():
            if wanted:
                self.arguments += ["--" + name, name + ".out.npy"]
        self.attention()
        c.run()
        lead, dtype = self.leading(c), self.dtype
        near = TOLERANCE[dtype]
        held = max(near, TOLERANCE.get(self.storage, 0))
        self.assert_file("out.out", *self.as_file(c.out, (c.B, c.Hq, c.Lq, c.Dv)), dtype, held)
        self.assert_file("lse.out", lead + (c.Lq,), c.lse, "f64" if dtype == "f64" else "f32", min(near, 2e-5))
        self.assert_file("weights.out", lead + (c.Lq, c.Lk), c.stages[3], dtype, near)
        self.assert_file("scores.out", lead + (c.Lq, c.Lk), c.stages[stage], dtype, near)
        self.assert_file("grad-q.out", *self.as_file(c.grads["q"], (c.B, c.Hq, c.Lq, c.D)), dtype, 2 * held)
        for name, size in (("k", c.D), ("v", c.Dv)):
            shape = (c.B, c.Hkv, c.Lk, size)
            word = {"k": "key", "v": "value"}[name]
            grad = c.grads[name]
            fresh = [[head[past:] for head in entry] for entry in grad]
            of_keys = 2 * max(held, TOLERANCE[self.keys])
            self.assert_file(f"grad-{name}.out", *self.as_file(fresh, (c.B, c.Hkv, c.Lk - past, size)), self.keys, of_keys)
            self.assert_file(f"present-{word}.out", shape, self.files[name], self.keys, 0)
            if self.past is not None:
                self.assert_file(f"grad-past-{word}.out", (c.B, c.Hkv, past, size),
                                 [[head[:past] for head in entry] for entry in grad], self.keys, of_keys)
        if c.sinks:
            self.assert_file("grad-sinks.out", (c.Hq,), c.grads["sinks"], dtype, 2 * held)
        if optional["grad-mask"]:
            self.assert_file("grad-mask.out", c.mask_shape, c.grads["mask"], dtype, 2 * held)

    def test_random_combinations(self):
        for seed in range(300):
            with self.subTest(seed=seed):
                self.arguments = []
                c = self.choose(seed)
                try:
                    self.check(c)
                except AssertionError as e:
                    raise AssertionError(f"{e}\nheed attention {' '.join(map(str, self.arguments))}")

    def test_large_masks(self):
        """Whole rows of any finite number, and of two, which programs write to hide keys. Scores are small integers, so
        that no order of summing rounds them."""
        sizes = [1e3, 1e4, 1e6, 1e8, 1e9, 2.0 ** 32 - 1, 3e9, 1e18, 1e20, 1e30, 1e37, 2e38, 3e38, 3.4e38]
        r = random.Random(3)
        for dtype, largest in ("f32", 3.4028234663852886e38), ("f64", 1.7976931348623157e308):
            whole = [sign * size for size in [*sizes, largest] for sign in (-1, 1)]
            rows = [[x] * 5 for x in whole] + [[x, 0, x, x, x] for x in whole] + [[x, x, -INF, x, 0.5 * x] for x in whole]
            B, H, Lq, Lk, D, Dv = 1, 2, len(rows), 5, 3, 2
            few = lambda: float(r.randint(-2, 2))
            operands = {"q": (B, H, Lq, D), "k": (B, H, Lk, D), "v": (B, H, Lk, Dv), "grad-out": (B, H, Lq, Dv)}
            values = {name: filled(shape, few) for name, shape in operands.items()}
            for name, shape in operands.items():
                self.save(name, shape, values[name], dtype)
            c = Case(values["q"], values["k"], values["v"], (B, H, H, Lq, Lk, D, Dv))
            c.scale, c.sums, c.grad_out = 1, dtype, values["grad-out"]
            c.mask, c.mask_shape = round_to(dtype, rows), (Lq, Lk)
            c.sinks = None
            self.save("mask", (Lq, Lk), c.mask, dtype)
            c.run()
            for how in [], ["--reference"]:
                with self.subTest(dtype=dtype, how=how):
                    names = {"out": c.out, "lse": c.lse, "weights": c.stages[3], "grad-mask": c.grads["mask"],
                             **{f"grad-{x}": c.grads[x] for x in "qkv"}}
                    self.attention("--mask", "mask.npy", "--scale", 1, "--grad-out", "grad-out.npy", *how,
                                   *(part for name in names for part in ("--" + name, name + ".out.npy")))
                    near = {"f32": 2e-5, "f64": 1e-11}[dtype]
                    for name, expected in names.items():
                        _, shape, got = self.load(name + ".out")
                        if name == "lse":  # of any size: each beside its own
                            for x, y in zip(got, flat(expected)):
                                self.assertTrue(x == y or abs(x - y) <= near * max(1.0, abs(y)), (x, y))
                            continue
                        self.assert_file(name + ".out", shape, expected, dtype, near)

    def test_dropout(self):
        """With the identity for values the result shows what was kept; every other call with the seed keeps the same."""
        r = random.Random(7)
        normal = lambda: r.gauss(0, 1)
        B, H, Lq, Lk, D, Dv = 2, 4, 5, 16, 4, 3
        q, k, v = filled((B, H, Lq, D), normal), filled((B, 2, Lk, D), normal), filled((B, 2, Lk, Dv), normal)
        self.arguments = ["--dropout", 0.25, "--seed", 11]
        for name, x, shape in (("q", q, (B, H, Lq, D)), ("k", k, (B, 2, Lk, D)), ("v", v, (B, 2, Lk, Dv))):
            self.save(name, shape, x)
        identity = [[float(i == j) for j in range(Lk)] for i in range(Lk)]
        self.save("identity", (B, 2, Lk, Lk), [[identity] * 2] * B)
        self.succeeds("attention", "--q", "q.npy", "--k", "k.npy", "--v", "identity.npy", *self.arguments, "--out",
                      "kept.npy")
        c = Case(q, k, v, (B, H, 2, Lq, Lk, D, Dv))
        c.dropout = 0.25
        kept = self.load("kept")[2]
        share = sum(x != 0 for x in kept) / len(kept)
        self.assertTrue(0.65 < share < 0.85, share)
        c.keep = nested((B, H, Lq, Lk), [float(x != 0) for x in kept])
        c.grad_out = filled((B, H, Lq, Dv), normal)
        self.flag("grad-out", (B, H, Lq, Dv), c.grad_out, "f64")
        self.attention("--out", "out.npy", "--weights", "w.npy", "--lse", "l.npy", "--grad-q", "gq.npy", "--grad-k",
                       "gk.npy", "--grad-v", "gv.npy")
        c.run()
        self.assert_file("out", (B, H, Lq, Dv), c.out, "f64", 1e-11)
        self.assert_file("w", (B, H, Lq, Lk), c.stages[3], "f64", 1e-11)
        self.assert_file("l", (B, H, Lq), c.lse, "f64", 1e-11)
        self.assert_file("gq", (B, H, Lq, D), c.grads["q"], "f64", 1e-11)
        self.assert_file("gk", (B, 2, Lk, D), c.grads["k"], "f64", 1e-11)
        self.assert_file("gv", (B, 2, Lk, Dv), c.grads["v"], "f64", 1e-11)

    def test_ragged(self):
        for seed in range(40):
            with self.subTest(seed=seed):
                self.check_ragged(random.Random(seed))

    def check_ragged(self, r):
        self.r, self.arguments = r, []
        normal = lambda: r.gauss(0, 1)
        dtype = r.choice(["f32", "f64", "f16"])
        B, Hkv, D, Dv = r.randint(0, 4), r.randint(1, 2), 4, 3
        Hq = Hkv * r.randint(1, 2)
        ends = [list(itertools.accumulate([r.choice([0, 1, 2, 5]) for _ in range(B)], initial=0)) for _ in "qk"]
        Tq, Tk = ends[0][-1], ends[1][-1]
        tokens = {"q": (Tq, Hq, D), "k": (Tk, Hkv, D), "v": (Tk, Hkv, Dv), "grad-out": (Tq, Hq, Dv)}
        values = {name: round_to(dtype, filled(shape, normal)) for name, shape in tokens.items()}
        for name, shape in tokens.items():
            self.save(name, shape, values[name], dtype)
        self.flag("q-offsets", (B + 1,), ends[0], "<i8")
        self.flag("k-offsets", (B + 1,), ends[1], "<i8")
        causal = r.choice([None, "top-left", "bottom-right"])
        if causal:
            self.arguments += ["--causal", causal]
        sinks = r.choice([None, round_to(dtype, filled((Hq,), normal))])
        window = r.choice([None, (1, 1), (2, -1)])
        if window:
            self.arguments += ["--window", "%d,%d" % window]
        alibi = r.choice([None, round_to(dtype, filled((Hq,), r.random))])
        if alibi:
            self.flag("alibi", (Hq,), alibi, dtype)
        grad_lse = round_to("f32" if dtype == "f16" else dtype, filled((Hq, Tq), normal))
        self.flag("grad-lse", (Hq, Tq), grad_lse, "f32" if dtype == "f16" else dtype)
        outputs = ["out", "lse", "weights", "grad-q", "grad-k", "grad-v"]
        if sinks:
            self.flag("sinks", (Hq,), sinks, dtype)
            outputs.append("grad-sinks")
        self.attention("--grad-out", "grad-out.npy",
                       *[part for name in outputs for part in ("--" + name, name + ".out.npy")])
        widest = max([b - a for a, b in zip(ends[1], ends[1][1:])], default=0)
        got = {name: [] for name in ("out", "q", "k", "v")}
        lse, weights, grad_sinks = [[] for _ in range(Hq)], [[] for _ in range(Hq)], [0.0] * Hq

        def entry(name, ends, b):  # (1, H, L, D)
            rows, heads = values[name][ends[b]:ends[b + 1]], tokens[name][1]
            return [[[row[h] for row in rows] for h in range(heads)]]

        for b in range(B):
            Lq, Lk = ends[0][b + 1] - ends[0][b], ends[1][b + 1] - ends[1][b]
            c = Case(entry("q", ends[0], b), entry("k", ends[1], b), entry("v", ends[1], b),
                     (1, Hq, Hkv, Lq, Lk, D, Dv))
            c.causal, c.window, c.alibi, c.sinks = causal, window or (-1, -1), alibi, sinks
            c.grad_out = entry("grad-out", ends[0], b)
            c.grad_lse = [[row[ends[0][b]:ends[0][b + 1]] for row in grad_lse]]
            c.run()
            for name, x in (("out", c.out), *((n, c.grads[n]) for n in "qkv")):
                got[name] += [[head[i] for head in x[0]] for i in range(len(x[0][0]))]
            for h in range(Hq):
                lse[h] += c.lse[0][h]
                weights[h] += [row + [0.0] * (widest - Lk) for row in c.stages[3][0][h]]
                grad_sinks[h] += c.grads["sinks"][h]
        near = TOLERANCE[dtype]
        self.assert_file("out.out", tokens["grad-out"], got["out"], dtype, near)
        self.assert_file("lse.out", (Hq, Tq), lse, "f64" if dtype == "f64" else "f32", min(near, 2e-5))
        self.assert_file("weights.out", (Hq, Tq, widest), weights, dtype, near)
        for name in "qkv":
            self.assert_file(f"grad-{name}.out", tokens[name], got[name], dtype, 2 * near)
        if sinks:
            self.assert_file("grad-sinks.out", (Hq,), grad_sinks, dtype, 2 * near)


class Onnx(AttentionTest):
    """The operator Attention's own cases, through the command line."""

    def test_cases(self):
        folder = SHARED / "conformance/onnx"
        if not (folder / "index.json").exists():
            self.skipTest("needs shared/conformance/onnx, which is not here")
        cases = [c for c in json.loads((folder / "index.json").read_text()) if c["op"] == "Attention"]
        self.assertGreater(len(cases), 30)
        for case in cases:
            with self.subTest(case["name"]):
                self.check(case, (folder / (case["name"] + ".safetensors")).read_bytes())

    def check(self, case, content):
        length, = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        dtypes = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "|b1", "I32": "<i4", "I64": "<i8"}

        def tensor(name):
            info = header[name]
            begin, end = info["data_offsets"]
            descr = dtypes[info["dtype"]]
            values = struct.unpack(f"<{math.prod(info['shape'])}{LETTERS[descr]}",
                                   content[8 + length + begin:8 + length + end])
            return info["shape"], list(values), descr

        attributes, arguments = case["attrs"], []
        flags = ["q", "k", "v", "mask", "past-key", "past-value", "key-lengths"]
        for n, flag in enumerate(flags):
            if f"in.{n}" in header:
                arguments += ["--" + flag, self.save(flag, *tensor(f"in.{n}"))]
        if attributes.get("is_causal"):
            arguments += ["--causal", "bottom-right" if "in.6" in header else "top-left"]
        for attribute, flag in (("scale", "scale"), ("softcap", "softcap"), ("q_num_heads", "q-heads"),
                                ("kv_num_heads", "kv-heads"), ("qk_matmul_output_mode", "qk-output")):
            if attribute in attributes:
                arguments += ["--" + flag, attributes[attribute]]
        outputs = ["out", "present-key", "present-value", "scores"]
        wanted = [(n, flag) for n, flag in enumerate(outputs) if f"out.{n}" in header]
        for _, flag in wanted:
            arguments += ["--" + flag, flag + ".out.npy"]
        self.succeeds("attention", *arguments)
        for n, flag in wanted:
            shape, values, descr = tensor(f"out.{n}")
            dtype = next(name for name, d in DESCR.items() if d == descr)
            self.assert_file(flag + ".out", shape, values, dtype, TOLERANCE[dtype])


class WrongUse(AttentionTest):
    """Exit status 2, one line that names the rule and a remedy, and nothing written."""

    def setUp(self):
        super().setUp()
        self.plain((1, 4, 3, 8), (1, 2, 5, 8), (1, 2, 5, 6))
        self.zeros("past-k", 1, 2, 2, 8)
        self.zeros("past-v", 1, 2, 2, 6)
        self.zeros("g", 1, 4, 3, 6)
        self.zeros("heads", 4)
        self.save("n", (1,), [5], "<i8")
        self.save("bool", (3, 5), [True] * 15, "|b1")

    def zeros(self, name, *shape, dtype="f32"):
        self.save(name, shape, [0.0] * math.prod(shape), dtype)

    def plain(self, q, k, v, dtype="f32"):
        for name, shape in (("q", q), ("k", k), ("v", v)):
            self.zeros(name, *shape, dtype=dtype)

    def refused(self, says, *arguments):
        self.refuses(2, says, "attention", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", *arguments, "--out", "o.npy")

    def test_accepted(self):
        self.attention("--past-key", "past-k.npy", "--past-value", "past-v.npy", "--grad-out", "g.npy", "--out", "o.npy")

    def test_causal(self):
        self.refused("--causal-offset", "--causal", "top-left", "--causal-offset", 1)
        self.refused("--causal-offset", "--causal-offset", "one")
        self.refused("--causal", "--causal", "bottom")

    def test_window(self):
        for text in ("1", "1,", ",1", "1,2,3", "-2,0", "0,-2", "a,b", "1 2", "1;2"):
            with self.subTest(text):
                self.refused("--window", "--window=" + text)

    def test_packed(self):
        self.refused("--kv-heads", "--q-heads", 4)
        self.refused("--q-heads", "--kv-heads", 2)
        self.refused("(B, L, H*D)", "--q-heads", 4, "--kv-heads", 2)
        self.plain((1, 3, 24), (1, 5, 12), (1, 5, 12))
        self.refused("not a multiple of 5 heads", "--q-heads", 5, "--kv-heads", 1)
        self.refused("--q-heads", "--q-heads", 0, "--kv-heads", 1)
        self.plain((1, 3, 24), (1, 5, 18), (1, 5, 18))
        self.refused("4 query heads are not a multiple of 3", "--q-heads", 4, "--kv-heads", 3)

    def test_past(self):
        self.refused("--past-value", "--past-key", "past-k.npy")
        self.refused("--past-key", "--past-value", "past-v.npy")
        past = ["--past-key", "past-k.npy", "--past-value", "past-v.npy"]
        self.refused("--key-lengths", *past, "--key-lengths", "n.npy")
        self.refused("--past-value", "--grad-out", "g.npy", "--grad-past-value", "x.npy")
        self.zeros("past-v", 1, 2, 3, 6)
        self.refused("", *past)
        self.zeros("past-v", 2, 2, 6)
        self.refused("(B, Hkv, P, .)", *past)
        self.zeros("past-v", 1, 2, 2, 6, dtype="f64")
        self.refused("f64", *past)

    def test_lengths(self):
        for shape, values, descr in [((1,), [6], "<i8"), ((1,), [-1], "<i4"), ((2,), [5, 5], "<i8"),
                                     ((1, 1), [5], "<i8"), ((1,), [5.0], "<f4")]:
            with self.subTest((shape, values, descr)):
                self.save("n", shape, values, descr)
                self.refused("key", "--key-lengths", "n.npy")

    def test_mask(self):
        for shape in [(), (0,), (2, 5), (2, 3, 5), (2, 1, 3, 5), (1, 1, 1, 3, 5), (3, 6), (5, 3)]:
            with self.subTest(shape):
                self.zeros("m", *shape)
                self.refused("mask", "--mask", "m.npy")
        self.zeros("m", 3, 5, dtype="f64")
        self.refused("mask", "--mask", "m.npy")
        self.save("m", (3, 5), [1] * 15, "<i4")
        self.refused("mask", "--mask", "m.npy")
        self.refused("boolean mask", "--mask", "bool.npy", "--grad-out", "g.npy", "--grad-mask", "x.npy")
        self.refused("--mask", "--grad-out", "g.npy", "--grad-mask", "x.npy")

    def test_heads(self):
        self.zeros("three", 3)
        for flag in ("--alibi", "--sinks"):
            self.refused(flag[2:], flag, "three.npy")
            self.zeros("wide", 4, dtype="f64")
            self.refused(flag[2:], flag, "wide.npy")
        self.refused("--sinks", "--grad-out", "g.npy", "--grad-sinks", "x.npy")

    def test_values(self):
        for number in ("-1", "1e39", "1e-46", "inf", "nan"):
            self.refused("softcap", "--softcap=" + number)
        for number in ("1e39", "-3e38", "inf", "nan"):
            self.refused("scale", "--scale=" + number)
        self.refused("dropout", "--dropout", 1)
        self.refused("dropout", "--dropout", -0.5)
        self.refused("--qk-output", "--qk-output", 4, "--scores", "s.npy")
        self.refused("--storage", "--storage", "int8")

    def test_seed(self):
        for seed in ("-1", "12345678901234567890123", "1.5", "one"):
            with self.subTest(seed):
                self.refused("--seed", "--dropout", 0.5, "--seed=" + seed)

    def test_files(self):
        one_file = "are one file"
        self.refused(one_file, "--weights", "o.npy")
        self.refused(one_file, "--weights", "./x/../o.npy")
        self.refused(one_file, "--lse", "q.npy")
        self.refused(one_file, "--past-key", "past-k.npy", "--past-value", "past-v.npy", "--present-key", "past-k.npy")
        (self.at / "link.npy").symlink_to("k.npy")
        (self.at / "hard.npy").hardlink_to(self.at / "v.npy")
        (self.at / "nowhere.npy").symlink_to("o.npy")
        for name in ("link.npy", "hard.npy", "nowhere.npy"):
            self.refused(one_file, "--scores", name)
        flags = ["--present-key", "--present-value", "--weights", "--lse", "--scores"]
        grads = ["--grad-q", "--grad-k", "--grad-v", "--grad-past-key", "--grad-past-value", "--grad-mask",
                 "--grad-sinks"]
        self.zeros("m", 3, 5)
        inputs = {"--mask": "m.npy", "--sinks": "heads.npy", "--alibi": "heads.npy", "--grad-out": "g.npy",
                  "--past-key": "past-k.npy", "--past-value": "past-v.npy"}
        given = [part for pair in inputs.items() for part in pair]
        for flag in flags + grads:
            self.refused(one_file, *given, flag, "o.npy")
            for path in ["q.npy", "k.npy", "v.npy", *inputs.values()]:
                with self.subTest((flag, path)):
                    self.refused(one_file, *given, flag, path)

    def test_storage(self):
        for k, v in (("f32", "f16"), ("f16", "f32"), ("f64", "f64"), ("f16", "f64")):
            self.zeros("k", 1, 2, 5, 8, dtype=k)
            self.zeros("v", 1, 2, 5, 6, dtype=v)
            self.refused("convert")
        self.plain((3, 8), (5, 8), (5, 8), dtype="f64")
        for storage in ("f32", "f16", "bf16"):
            self.refused("--storage " + storage, "--storage", storage)

    def test_gradients(self):
        for name in ("q", "k", "v", "mask", "sinks", "past-key", "past-value", "lse"):
            self.refused("--grad-", f"--grad-{name}", "g.npy")
        self.zeros("g", 1, 4, 3, 8)
        self.refused("grad", "--grad-out", "g.npy", "--grad-q", "x.npy")
        self.zeros("g", 4, 3, 6)
        self.refused("grad-out", "--grad-out", "g.npy", "--grad-q", "x.npy")
        self.zeros("g", 1, 4, 3, 6)
        self.zeros("gl", 1, 4, 4)
        self.refused("--grad-lse", "--grad-out", "g.npy", "--grad-lse", "gl.npy", "--grad-q", "x.npy")

    def test_ragged(self):
        self.plain((5, 4, 8), (6, 2, 8), (6, 2, 6))
        self.save("qo", (3,), [0, 2, 5], "<i8")
        self.save("ko", (3,), [0, 1, 6], "<i8")
        self.zeros("m", 5)
        ragged = ["--q-offsets", "qo.npy", "--k-offsets", "ko.npy"]
        self.attention(*ragged, "--out", "o.npy")
        self.refused("--k-offsets", *ragged[:2])
        self.refused("--q-offsets", *ragged[2:])
        self.refused("--mask", *ragged, "--mask", "m.npy")
        self.refused("--key-lengths", *ragged, "--key-lengths", "n.npy")
        self.refused("--past-key", *ragged, "--past-key", "past-k.npy", "--past-value", "past-v.npy")
        self.refused("--present-key", *ragged, "--present-key", "x.npy")
        self.refused("--q-heads", *ragged, "--q-heads", 4, "--kv-heads", 2)
        for wrong in ([0, 2, 4], [1, 2, 5], [0, 6, 5], [0, 5], [0, 1, 2, 5]):
            with self.subTest(wrong):
                self.save("qo", (len(wrong),), wrong, "<i8")
                self.refused("offsets", *ragged)
        self.plain((1, 5, 4, 8), (1, 6, 2, 8), (1, 6, 2, 6))
        self.save("qo", (3,), [0, 2, 5], "<i8")
        self.refused("(T, H, D)", *ragged)

    def test_an_existing_file_survives(self):
        self.attention("--out", "o.npy")
        self.zeros("g", 1, 4, 3, 8)
        self.refused("grad", "--grad-out", "g.npy", "--grad-q", "o.npy")
        self.refuses(1, "none", "attention", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "none/o.npy",
                     "--weights", "o.npy")


if __name__ == "__main__":
    unittest.main()
