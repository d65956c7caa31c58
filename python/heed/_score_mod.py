"""Score functions as they were called: names and numbers, of which the kernels' are made."""
import functools
import itertools
import operator
from collections.abc import Iterable
from typing import Any

from . import _heed


class Part:
    """One function of a chain, which _heed has by its name."""

    __slots__ = ("factors", "name", "native", "places", "tables")

    def __init__(self, name: str, tables: tuple[Any, ...] = (), places: tuple[int, ...] = (),
                 factors: tuple[float, ...] = (), native: _heed.ScoreMod | None = None) -> None:
        self.name = name
        self.tables = tables
        self.places = places
        self.factors = factors
        self.native = native  # None where it is made anew at each use, of the tables as they are then

    def made(self) -> _heed.ScoreMod:
        if self.native:
            return self.native
        made: _heed.ScoreMod = getattr(_heed, self.name)(*self.tables, *self.places, *self.factors)
        return made

    def detached(self) -> "Part":
        tables = tuple(t.detach() if hasattr(t, "detach") else t for t in self.tables)
        return Part(self.name, tables, self.places, self.factors, self.native)


class ScoreMod:
    """A score function, or several joined by |: the first, then the next."""

    __slots__ = ("_heed_mod", "_learned", "_parts")

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = tuple(parts)
        self._learned = learned(self._parts)
        self._heed_mod: _heed.ScoreMod | None = None  # what the kernels take

    def __or__(self, then: "ScoreMod") -> "ScoreMod":
        return ScoreMod(self._parts + then._parts) if isinstance(then, ScoreMod) else NotImplemented

    def __repr__(self) -> str:
        return repr(self._detached())

    @property
    def hides(self) -> bool:
        """Whether it hides pairs and does nothing else, as block_mask() asks for."""
        return self._detached().hides

    def _made(self) -> _heed.ScoreMod:
        """For the kernels. Raises RequiresGrad where torch waits for the gradient of a table."""
        made = joined(self._parts)
        if all(part.native for part in self._parts):
            self._heed_mod = made
        return made

    def _detached(self) -> _heed.ScoreMod:
        return joined(part.detached() for part in self._parts)


def joined(parts: Iterable[Part]) -> _heed.ScoreMod:
    return functools.reduce(operator.or_, (part.made() for part in parts))


_COUNTS = {  # of tables, places and factors that each takes
    "alibi": (1, 1, 0), "softcap": (0, 0, 1), "scale": (0, 0, 1), "relative_bias": (1, 1, 0), "causal": (0, 1, 0),
    "sliding_window": (0, 3, 0), "prefix": (0, 2, 0), "dilated": (0, 2, 0), "documents": (2, 0, 0),
    "padding": (1, 0, 0)}


def parts_of(names: Iterable[str], tables: Iterable[Any], places: Iterable[int],
             factors: Iterable[float]) -> list[Part]:
    """Of all the names and numbers of a chain, one after the other."""
    tables, places, factors = iter(tables), iter(places), iter(factors)
    parts = []
    for name in names:
        of_tables, of_places, of_factors = _COUNTS[name]
        parts.append(Part(name, tuple(itertools.islice(tables, of_tables)), tuple(itertools.islice(places, of_places)),
                          tuple(itertools.islice(factors, of_factors))))
    return parts


def learns(part: Part) -> bool:
    """Whether attention_backward() has the gradient of its table."""
    return part.name == "relative_bias"


def learned(parts: Iterable[Part]) -> list[Any]:
    """The tables whose gradients are in attention_backward()'s .score_mod, in their order."""
    return [part.tables[0] for part in parts if learns(part)]
