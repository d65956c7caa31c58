"""Random calls of caches of keys and values, and of rotary positions."""
import re

import heed
import numpy as np
from arguments import FLOATS, no_array, own
from case import REFUSALS, Case, expect


class Turned(Case):
    """heed.rotary()."""

    refusals = REFUSALS
    says = re.compile(r"(rotary|tensor)\b")

    def __init__(self, rng):
        super().__init__(rng)
        self.batch, self.heads, self.length = rng.choice([0, 1, 2]), rng.choice([0, 1, 3]), rng.choice([0, 1, 2, 7])
        self.size = rng.choice([2, 4, 8, 10, 34])

    def positions(self):
        shape = self.rng.choice([(self.length,), (self.batch, self.length)])
        if self.rng.random() < self.wrong:
            return self.array(shape, self.rng.choice([np.int32, np.int64]))
        return np.array([self.rng.randrange(40) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)

    def turning(self):
        """The options of a Rotary."""
        rng = self.rng
        pairs = self.size // 2
        options = self.some({"positions": self.positions, "layout": lambda: self.one_of("half_split", "interleaved"),
                             "size": lambda: self.number(None, 2, self.size),
                             "base": lambda: self.number(10000.0, 100, 2.5)}, [0, 1, 1, 2, 3])
        if rng.random() < 0.3:
            shape = rng.choice([(40, pairs), (self.batch, self.length, pairs)])
            options |= {name: self.array(shape, rng.choice([np.float32, np.float64])) for name in ("cos", "sin")}
        if rng.random() < self.wrong:
            options[rng.choice(["cos", "sin", "size", "base"])] = None
        return options

    def run(self):
        rng, dtype = self.rng, self.rng.choice(FLOATS)
        x = self.array((self.batch, self.heads, self.length, self.size), dtype)
        options = self.turning()
        if rng.random() < 0.3:
            options["inverse"] = self.one_of(False, True)
        if rng.random() < 0.3:
            options["out"] = rng.choice([x, self.array((self.batch, self.heads, self.length, self.size), dtype)])
        y = heed.rotary(x, options.pop("positions", None), **options)
        if options.get("out") is not None:
            assert y is options["out"]
        elif type(x) is np.ndarray:
            expect(y, x.shape, x.dtype)


class Cache(Turned):
    """A cache and several calls of it; one that raises leaves it as it was."""

    says = re.compile(r"(KVCache|attention|rotary|tensor|mods\.\w+)\b|unsupported operand type")

    def run(self):
        self.value_size = self.rng.choice([None, None, 0, 5])
        self.dtype = self.rng.choice(["float32", "float64", "float16", "bfloat16"])
        sizes = [self.number(self.batch), self.number(self.heads), self.number(0, 3, 20), self.number(self.size),
                 self.number(self.value_size)]
        cache = heed.KVCache(*sizes, dtype=self.dtype if self.rng.random() > self.wrong else no_array(self.rng))
        self.small = all(n is None or n < 2**40 for n in sizes)
        calls = [self.append, self.attend, self.attend, self.clear, self.truncate, self.reserve, self.reorder]
        for _ in range(self.rng.choice([1, 3, 6])):
            before = self.seen(cache)
            try:
                self.rng.choice(calls)(cache)
            except Exception:
                assert self.seen(cache) == before, f"{before} became {self.seen(cache)}"
                raise

    def seen(self, cache):
        """What must not change; cache.keys would be of the kind of array that came last, which may be an odd one."""
        own, like = cache._cache, np.zeros(0, cache.dtype)
        shown = self.small and own.capacity < 2**40  # NumPy takes no larger size, also where another is 0
        return (own.length, own.capacity, own.dtype,
                [(x.shape, x.tobytes()) for x in (own.keys(like), own.values(like))] if shown else None)

    def entries(self):
        """k and v."""
        width = self.size if self.value_size is None else self.value_size
        return [self.array((self.batch, self.heads, self.length, size), self.rng.choice(FLOATS))
                for size in (self.size, width)]

    def rotary(self):
        rng = self.rng
        if rng.random() < 0.6:
            return {}
        return {"rotary": heed.Rotary(**self.turning()) if rng.random() > self.wrong else no_array(rng)}

    def append(self, cache):
        before = len(cache)
        k, v = self.entries()
        cache.append(k, v, **self.rotary())
        if type(k) is np.ndarray and k.ndim == 4:
            assert len(cache) == before + k.shape[2]

    def attend(self, cache):
        rng = self.rng
        k, v = self.entries()
        q = self.array((self.batch, self.heads * rng.choice([1, 1, 2]), self.length, self.size), rng.choice(FLOATS))
        keys = len(cache) + self.length
        compute = np.float64 if self.dtype == "float64" else np.float32
        makers = {
            "mask": lambda: self.array((self.length, keys), rng.choice([np.bool_, compute])),
            "causal": lambda: self.one_of(True, False, "bottom_right"),
            "scale": lambda: self.number(None, 0.5),
            "window": lambda: (self.number(0, 3, -1), self.number(0, -1)),
            "softcap": lambda: self.number(0.0, 20),
            "alibi": lambda: self.array((self.heads,), compute),
            "sinks": lambda: self.array((self.heads,), compute),
            "score_mod": lambda: rng.choice([heed.mods.softcap(3) | heed.mods.causal(offset=self.number(0, len(cache))),
                                             lambda score, *_: score, own if self.wrong else None]),
            "key_lengths": lambda: self.array((self.batch,), np.int64),
            "return_lse": lambda: self.one_of(True),
            "return_weights": lambda: self.one_of(True, heed.Select([0], [-1], self.number(1.0, 0.5))),
        }
        options = self.some(makers, [0, 0, 1, 2, 4]) | self.rotary()
        r = cache.attend(q, k, v, **options)
        if type(q) is np.ndarray and type(v) is np.ndarray:
            expect(r.out if isinstance(r, heed.AttentionResult) else r, (*q.shape[:-1], v.shape[-1]), q.dtype)

    def clear(self, cache):
        cache.clear()
        assert len(cache) == 0

    def truncate(self, cache):
        length = self.number(0, len(cache), len(cache) // 2)
        cache.truncate(length)
        assert len(cache) == length

    def reserve(self, cache):
        cache.reserve(self.number(0, 5, 64))

    def reorder(self, cache):
        entries = [self.number(*range(self.batch)) if self.batch else 0 for _ in range(self.batch)]
        cache.reorder(entries if self.rng.random() > self.wrong else no_array(self.rng))
