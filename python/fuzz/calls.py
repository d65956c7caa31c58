"""Random calls of the operator, right and wrong: each ends with arrays of the right shapes, or with an exception of the
documented kinds that says which operation refused what.

    python calls.py COUNT [SEED]

scripts/fuzz-python runs it on a module that was built with sanitizers. What fails is said with its seed and number.
"""
import ctypes
import faulthandler
import mmap
import os
import random
import re
import sys
import warnings

import heed
import numpy as np
from arguments import FLOATS, OTHERS, Own, laid_out, no_array, pretend_torch, values, wrapped

REFUSALS = (heed.ShapeError, TypeError, MemoryError)
SAYS = re.compile(r"(attention|attention_backward|merge|explain|tensor)\b")


class Call:
    """The sizes of a call and how often its arguments are wrong."""

    def __init__(self, rng):
        self.rng = rng
        self.kept = []  # what is looked at when the call and its results are gone
        self.wrong = rng.choice([0, 0, 0.03, 0.15])
        self.ragged = rng.random() < 0.2
        self.dtype = rng.choice(FLOATS)
        self.batch, self.kv_heads, self.group = (rng.choice([0, 1, 1, 2, 3]) for _ in range(3))
        self.heads = self.kv_heads * self.group
        self.queries, self.keys = rng.choice([0, 1, 2, 5, 17]), rng.choice([0, 1, 3, 8, 40])
        self.size, self.value_size = rng.choice([1, 3, 8, 16, 33]), rng.choice([0, 1, 5, 16])

    def compute(self):
        return np.float64 if self.dtype == np.float64 else np.float32

    def array(self, shape, dtype):
        """An array of this shape and dtype, mostly; something else with the probability of being wrong."""
        rng = self.rng
        if rng.random() < self.wrong:
            shape = rng.choice([(), (0,), (1,) * 10, (2,) * 8, shape[:-1], (*shape, 1), (1, *shape), shape[::-1],
                                tuple(n + 1 for n in shape), tuple(rng.choice([0, 1, 2]) for _ in shape),
                                tuple(1 for _ in shape)])
        if rng.random() < self.wrong:
            dtype = rng.choice(FLOATS + OTHERS)
        if rng.random() < self.wrong / 3:
            return no_array(rng)
        x = values(rng, shape, dtype)
        if self.wrong:
            x = laid_out(rng, x)
        if rng.random() < self.wrong / 30 and x.ndim == 4 and x.size:  # more rows than any memory holds
            x = np.broadcast_to(x[:, :, :1], (*x.shape[:2], 2**45, x.shape[3]))
        return wrapped(rng, x, self.kept) if rng.random() < self.wrong else x

    def number(self, *right):
        if self.rng.random() < self.wrong:
            return self.rng.choice([no_array(self.rng), -1, 0, 1e308, -0.5, float("inf"), float("nan"), 2**63, -2**63,
                                    2**58, 10**400, np.int64(3), np.float64(0.5), np.array(1.0), 3 + 4j])
        return self.rng.choice(right)

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

    def options(self):
        rng, options = self.rng, {}
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
        }
        for name in rng.sample(list(makers), rng.choice([0, 0, 1, 2, 4])):
            options[name] = makers[name]()
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

    def wanted(self, operands):
        """Where the result goes, and what else is returned."""
        rng, wanted = self.rng, {}
        if rng.random() < 0.2:
            wanted["out"] = self.out(*operands)
        for name, choices in (("return_lse", [True]), ("return_weights", [True]),
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
    for maps in (r.weights, r.scores):
        if maps is not None:
            expect(maps, (*rows, maps.shape[-1] if ragged else k.shape[-2]), compute)


def expect(array, shape, dtype):
    assert type(array) is np.ndarray and array.shape == shape and array.dtype == dtype, \
        f"{type(array)} {getattr(array, 'shape', None)} {getattr(array, 'dtype', None)}, not {shape} {dtype}"


def one(seed, number, counts):
    """A call by itself: the same for the same two numbers."""
    call = Call(random.Random(f"{seed} {number}"))
    try:
        call.run()
        counts["right"] += 1
    except (Own, SystemExit):
        counts["its own"] += 1
    except REFUSALS as error:
        counts[type(error).__name__] += 1
        assert SAYS.match(str(error)) or isinstance(error, MemoryError), f"{type(error).__name__}: {error}"
    for structure in call.kept:
        structure.check()


def run_all(count, seed, place):
    warnings.simplefilter("ignore")
    faulthandler.enable()
    heed.set_num_threads(2)
    if seed % 2:
        pretend_torch()
    counts = dict.fromkeys(["right", "its own", "ShapeError", "TypeError", "MemoryError"], 0)
    failed = 0
    for number in range(count):
        place[:8] = number.to_bytes(8, "little")
        try:
            one(seed, number, counts)
        except Exception as error:  # noqa: BLE001  whatever it is, it is no documented one
            failed += 1
            print(f"seed {seed}, call {number}: {type(error).__name__}: {error}", flush=True)
    print(f"seed {seed}, {count} calls:", ", ".join(f"{n} {name}" for name, n in counts.items()), flush=True)
    return failed


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    if len(sys.argv) > 3:  # one call alone, whose exception is shown
        if seed % 2:
            pretend_torch()
        one(seed, int(sys.argv[3]), dict.fromkeys(["right", "its own", "ShapeError", "TypeError", "MemoryError"], 0))
        return
    place = mmap.mmap(-1, 8)  # shared with the child, which may die
    child = os.fork()
    if child == 0:
        os._exit(1 if run_all(count, seed, place) else 0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, 1):
        print(f"seed {seed}, call {int.from_bytes(place[:8], 'little')}: died with status {status}")
    sys.exit(status != 0)


if __name__ == "__main__":
    main()
