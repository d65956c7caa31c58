"""What every random call is made of: its generator, how often its arguments are wrong, arrays and numbers."""
import heed
import numpy as np
from arguments import FLOATS, OTHERS, laid_out, no_array, values, wrapped

REFUSALS = (heed.ShapeError, TypeError, MemoryError)


class Case:
    def __init__(self, rng):
        self.rng = rng
        self.kept = []  # what is looked at when the call and its results are gone
        self.wrong = rng.choice([0, 0, 0.03, 0.15])

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

    def one_of(self, *right):
        """One of these, mostly."""
        return no_array(self.rng) if self.rng.random() < self.wrong else self.rng.choice(right)

    def some(self, makers, counts):
        """Values of a few of the makers, by name."""
        return {name: makers[name]() for name in self.rng.sample(list(makers), self.rng.choice(counts))}


def expect(array, shape, dtype):
    assert type(array) is np.ndarray and array.shape == shape and array.dtype == dtype, \
        f"{type(array)} {getattr(array, 'shape', None)} {getattr(array, 'dtype', None)}, not {shape} {dtype}"
