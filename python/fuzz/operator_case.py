"""Random calls of the operator: attention, its gradients and merges, with score functions and masks in tiles."""
import re

import heed
import numpy as np
from arguments import FLOATS, no_array, own
from case import REFUSALS, Case, expect


class Operator(Case):
    """The sizes of a call."""

    refusals = REFUSALS
    says = re.compile(r"(attention|attention_backward|merge|explain|tensor|block_mask|score_mod|mods\.\w+)\b|"
                      r"unsupported operand type|len\(\) takes|Cannot interpret")  # len and ndarray are called, too

    def __init__(self, rng):
        super().__init__(rng)
        self.ragged = rng.random() < 0.2
        self.dtype = rng.choice(FLOATS)
        self.batch, self.kv_heads, self.group = (rng.choice([0, 1, 1, 2, 3]) for _ in range(3))
        self.heads = self.kv_heads * self.group
        self.queries, self.keys = rng.choice([0, 1, 2, 5, 17]), rng.choice([0, 1, 3, 8, 40])
        self.size, self.value_size = rng.choice([1, 3, 8, 16, 33]), rng.choice([0, 1, 5, 16])

    def compute(self):
        return np.float64 if self.dtype == np.float64 else np.float32

    def operands(self):
        if self.ragged:
            shapes = ((self.queries, self.heads, self.size), (self.keys, self.kv_heads, self.size),
                      (self.keys, self.kv_heads, self.value_size))
        else:
            shapes = ((self.batch, self.heads, self.queries, self.size),
                      (self.batch, self.kv_heads, self.keys, self.size),
                      (self.batch, self.kv_heads, self.keys, self.value_size))
        stored = self.rng.choice(FLOATS) if self.dtype == np.float32 else self.dtype
        return [self.array(shape, dtype) for shape, dtype in zip(shapes, (self.dtype, stored, stored))]

    def offsets(self, total):
        cuts = sorted(self.rng.randrange(total + 1) for _ in range(max(self.batch, 1) - 1))
        offsets = np.array([0, *cuts, total], self.rng.choice([np.int32, np.int64]))
        if self.rng.random() < self.wrong:
            offsets[self.rng.randrange(offsets.size)] = self.rng.choice([-1, 2**31 - 1, 1, total + 1])
        return self.array(offsets.shape, offsets.dtype) if self.rng.random() < self.wrong else offsets

    def ids(self, shape, most):
        """Small whole numbers, as lengths and documents have them."""
        if self.rng.random() < self.wrong:
            return self.array(shape, self.rng.choice([np.int32, np.int64]))
        numbers = [self.rng.randrange(most + 1) for _ in range(int(np.prod(shape)))]
        return np.array(numbers, self.rng.choice([np.int32, np.int64])).reshape(shape)

    def masking(self):
        """A named score function that only hides."""
        rng, mods = self.rng, heed.mods
        offset = {"offset": self.number(0, 1, 5, -3)} if rng.random() < 0.3 else {}
        batch = rng.choice([(), (self.batch,)])
        return rng.choice([
            lambda: mods.causal(**offset),
            lambda: mods.sliding_window(self.number(0, 1, 7), self.number(0, 2), **offset),
            lambda: mods.prefix(self.number(0, 1, 30), **offset),
            lambda: mods.dilated(self.number(1, 2, 7), **offset),
            lambda: mods.documents(self.ids((*batch, self.queries), 2), self.ids((*batch, self.keys), 2)),
            lambda: mods.padding(self.ids((self.batch,), self.keys)),
        ])()

    def scoring(self):
        """A named score function of any kind, or one of Python's."""
        rng, mods = self.rng, heed.mods
        return rng.choice([
            self.masking,
            lambda: mods.alibi(self.array((self.heads,), self.compute()), offset=self.number(0, 3, -2)),
            lambda: mods.softcap(self.number(0.5, 20, 30.0)),
            lambda: mods.scale(self.number(0.5, 1, -2.0)),
            lambda: mods.relative_bias(self.array(rng.choice([(5,), (1,), (self.heads, 3)]), self.compute()),
                                       offset=self.number(0, 3, -2)),
            lambda: mods.function(self.function(), self.one_of(None, self.function())),
        ])()

    def joined(self, make):
        mods = make()
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            mods = mods | (make() if self.rng.random() > self.wrong else no_array(self.rng))
        return mods

    def function(self):
        """A function of Python's that gives scores, or what a mask is not made of."""
        rng = self.rng
        if rng.random() < self.wrong:
            odd = no_array(rng)
            return rng.choice([own, lambda score, *_: odd, lambda score, *_: score[:, :1][:0], lambda: 1, odd])
        return rng.choice([lambda score, *_: score, lambda score, b, h, q, kv: 1.0 * (kv - q) + b + h,
                           lambda score, *_: 2.5, lambda score, b, h, q, kv: kv <= q])

    def tiles(self):
        """A mask in tiles, of named functions or of one of Python's."""
        rng = self.rng
        odd = no_array(rng)
        mask = self.joined(self.masking if rng.random() > self.wrong else self.scoring) if rng.random() < 0.6 else \
            rng.choice([lambda b, h, q, kv: kv <= q, lambda *_: True, lambda b, h, q, kv: (q + kv + b + h) % 3 == 0])
        if rng.random() < self.wrong:
            mask = rng.choice([odd, own, lambda *_: odd])
        return heed.block_mask(mask, self.number(self.queries), self.number(self.keys),
                               batch=self.number(self.batch, self.batch, 1), heads=self.number(self.heads, 1))

    def score_mod(self):
        if self.rng.random() < self.wrong:
            return self.one_of(self.function())
        return self.joined(self.scoring) if self.rng.random() < 0.9 else self.function()

    def options(self):
        rng = self.rng
        makers = {
            "mask": lambda: self.array((*rng.choice([(), (1,), (self.heads,), (self.batch, 1)]),
                                        *rng.choice([(1, self.keys), (self.queries, self.keys), (self.queries, 2)])),
                                       rng.choice([np.bool_, self.dtype, self.compute()])),
            "causal": lambda: rng.choice([True, "bottom_right"]) if rng.random() > self.wrong else no_array(rng),
            "scale": lambda: self.number(None, 0.5, 1.0, -2.0),
            "window": lambda: (self.number(0, 1, 7, -1), self.number(0, 2, -1)) if rng.random() > self.wrong
            else rng.choice([no_array(rng), (1,), [1, 2, 3], "ab", (None, None)]),
            "softcap": lambda: self.number(0.0, 1, 30.0),
            "alibi": lambda: self.array((self.heads,), self.compute()),
            "sinks": lambda: self.array((self.heads,), self.compute()),
            "key_lengths": lambda: self.array((self.batch,), rng.choice([np.int32, np.int64])),
            "offset": lambda: self.number(0, 1, 5, -3),
            "dropout_p": lambda: self.number(0.0, 0.1, 0.9),
            "seed": lambda: self.number(0, 1, 2**64 - 1),
            "score_mod": self.score_mod,
            "block_mask": lambda: self.tiles() if rng.random() > self.wrong else no_array(rng),
        }
        options = self.some(makers, [0, 0, 1, 2, 4])
        if self.ragged or rng.random() < self.wrong / 5:
            options |= {"q_offsets": self.offsets(self.queries), "k_offsets": self.offsets(self.keys)}
        if options and rng.random() < self.wrong / 5:
            options[rng.choice(list(options))] = None
        return options

    def out(self, q, k, v):
        rng = self.rng
        rows = (self.queries, self.heads) if self.ragged else (self.batch, self.heads, self.queries)
        shape = (*rows, self.value_size)
        if rng.random() < self.wrong:  # what is read, or parts of it
            return rng.choice([q, k, v, *(x[..., :1] for x in (q, k, v) if isinstance(x, np.ndarray) and x.ndim)])
        if rng.random() < self.wrong:  # memory that overlaps itself
            strides = (0,) * (len(shape) - 1) + (np.dtype(self.dtype).itemsize,)
            return np.lib.stride_tricks.as_strided(np.zeros(64, self.dtype), shape, strides)
        return self.array(shape, self.dtype)

    def select(self):
        rng = self.rng
        lists = [self.one_of(None, [rng.choice([0, 1, 2, -1, -3]) for _ in range(rng.choice([0, 1, 2]))])
                 for _ in range(2)]
        return heed.Select(*lists, self.number(1.0, 1.0, 0.9, 0.2))

    def wanted(self, operands):
        """Where the result goes, and what else is returned."""
        rng, wanted = self.rng, {}
        if rng.random() < 0.2:
            wanted["out"] = self.out(*operands)
        for name, choices in (("return_lse", [True]), ("return_weights", [True, self.select()]),
                              ("return_scores", ["scaled", "softcap", "masked", "weights"])):
            if rng.random() < 0.4:
                wanted[name] = rng.choice(choices) if rng.random() > self.wrong else no_array(rng)
        return wanted

    def run(self):
        """One call, and what may be done with its result."""
        operands, options = self.operands(), self.options()
        if self.rng.random() < 0.1:
            assert isinstance(heed.explain(*operands, **options), str)
            return
        options |= self.wanted(operands)
        r = heed.attention(*operands, **options)
        known = all(type(x) is np.ndarray for x in operands)
        recorded = isinstance(r, heed.AttentionResult)
        if known:
            expect_result(r if recorded else heed.AttentionResult(r, None, None, None, None), *operands, options)
        if recorded:
            if self.rng.random() < self.wrong:
                setattr(r, self.rng.choice(["out", "lse"]), self.array((2, 3), self.compute()))
            self.rng.choice([self.backward, self.merge])(r, operands, known)

    def backward(self, r, operands, known):
        grad = self.array(r.out.shape, self.dtype) if known and type(r.out) is np.ndarray else r.out
        grad_lse = self.array(r.lse.shape, self.compute()) if type(r.lse) is np.ndarray else None
        gradients = heed.attention_backward(grad, *operands, r, self.rng.choice([None, grad_lse]))
        if known:
            for gradient, x in zip(gradients, operands):
                expect(gradient, x.shape, x.dtype)

    def merge(self, r, operands, known):
        merged = heed.merge(r, r if self.rng.random() > self.wrong else no_array(self.rng))
        if known and type(r.out) is np.ndarray:
            expect(merged.out, r.out.shape, r.out.dtype)


def expect_result(r, q, k, v, options):
    if options.get("out") is not None:
        assert r.out is options["out"]
    else:
        expect(r.out, (*q.shape[:-1], v.shape[-1]), q.dtype)
    ragged = q.ndim == 3
    rows = (q.shape[1], q.shape[0]) if ragged else q.shape[:-1]
    compute = np.float64 if q.dtype == np.float64 else np.float32
    if r.lse is not None:
        expect(r.lse, rows, compute)
    chosen = selected(rows, options.get("return_weights"), ragged)
    for maps, shape in ((r.weights, chosen), (r.scores, rows)):
        if maps is not None:
            expect(maps, (*shape, maps.shape[-1] if ragged else k.shape[-2]), compute)
    if r.top is not None:
        count = int(r.top.offsets[-1])
        expect(r.top.offsets, (int(np.prod(chosen)) + 1,), np.int64)
        expect(r.top.keys, (count,), np.int64)
        expect(r.top.weights, (count,), compute)


def selected(rows, select, ragged):
    """The rows that a Select chooses: (B, heads, rows), ragged (heads, rows)."""
    if not isinstance(select, heed.Select):
        return rows
    heads = rows[-2] if select.heads is None else np.size(select.heads)
    return (heads, rows[-1]) if ragged else (rows[0], heads, rows[-1] if select.rows is None else np.size(select.rows))
