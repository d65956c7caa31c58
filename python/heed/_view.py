"""Looking at attention: maps in the terminal, as pictures and as pages. The work is done in _heed."""
import operator
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypedDict, Unpack

import numpy as np

from . import _heed
from ._attention import Array, AttentionResult

_STATISTICS = ("diagonal_mass", "entropy", "mean_distance", "previous_mass", "next_mass", "first_mass")
_LARGEST_HEAD = 64 * 64  # weights that are printed one by one
_LONGEST_SHOWN = 100  # lines
_UNTRUSTED = "Trust this notebook to see its maps of attention."  # all that is left of a frame until then
_MILLIMETRES = {"mm": 1.0, "cm": 10.0, "in": 25.4}


class PictureOptions(TypedDict, total=False):
    """How svg(), png(), pdf() and save() draw.

    width       of the whole picture: pixels, or "80mm", "8cm", "3in"; default: as wide as it wants to be
    dpi         pixels to the inch, for PNG and for widths in pixels; default 200
    font_size   points (1/72 inch); default 8
    font        a family; default "sans-serif"
    query_axis  the name beside the axis, "" for none; default "query"
    key_axis    likewise; default "key"
    columns     heads in a row, for (H, Lq, Lk); default up to 4
    maximum     weight at the top of the scale; default: the largest, rounded up to a round number
    """

    width: float | str
    dpi: float
    font_size: float
    font: str
    query_axis: str
    key_axis: str
    columns: int
    maximum: float


_PICTURE_OPTIONS = tuple(PictureOptions.__annotations__)
_OVERLAY_OPTIONS = tuple(name for name in _PICTURE_OPTIONS if not name.endswith("_axis"))


class AttentionMap:
    """Weights of attention with the words they belong to: printed, a map; at the end of a notebook's cell, a page.

        r = heed.attention(q, k, v, return_weights=True)
        map = heed.AttentionMap(r, queries=words, keys=words)
        map[0]                                               # one head
        map.save("map.html")                                 # or .svg, .png, .pdf, .txt

    weights  (Lq, Lk) one head, (H, Lq, Lk) a row of heads, or (N, H, Lq, Lk) layers x heads: float32, float64, float16
             or bfloat16, any strides, not copied; or the result of attention() with return_weights=True, of one entry
    queries  Lq labels; default: positions from 0
    keys     Lk labels, likewise
    title    what rows and columns are
    heads    H labels; default: head 1, head 2, ...
    vectors  (q, k, v) that the weights are made of, as attention() took them but for the entry: (H, Lq, D),
             (Hkv, Lk, D) and (Hkv, Lk, Dv), of layers with N in front, of one head without H. The page then has a view
             of each row's computation in numbers. Default: none
    scale    of the scores in that view; default 1 / sqrt(D)
    mask     (Lq, Lk) boolean for that view, true may be attended; default: everything
    picture  (height, width, 3) uint8, red, green and blue: the last rows x columns tokens are patches of it, row by row,
             and the page lays weights over it; over_picture() does elsewhere. Default: tokens are no patches
    patches  (rows, columns) of the picture

    .weights is the array itself; the labels are tuples, empty where there are none. Rows that do not sum to 1 and
    weights below 0 or not finite are shown and flagged. Raises ShapeError, and TypeError for what is no array or text.
    """

    __slots__ = ("weights", "queries", "keys", "title", "heads", "vectors", "scale", "mask", "picture", "patches")

    def __init__(self, weights: Array | AttentionResult[Any], queries: Iterable[str] | None = None,
                 keys: Iterable[str] | None = None, title: str = "", heads: Iterable[str] | None = None, *,
                 vectors: tuple[Array, Array, Array] | None = None, scale: float | None = None,
                 mask: Array | None = None, picture: Array | None = None,
                 patches: tuple[int, int] | None = None) -> None:
        self.vectors: Any = None if vectors is None else _three(vectors)
        if isinstance(weights, AttentionResult):
            weights, self.vectors = _of_one_entry(weights, self.vectors)
        self.weights: Any = _indexable(weights)
        self.queries = _labels("queries", queries)
        self.keys = _labels("keys", keys)
        self.title = _text("AttentionMap: title", title)
        self.heads = _labels("heads", heads)
        self.scale = scale
        self.mask: Any = mask
        self.picture: Any = picture if picture is None else np.ascontiguousarray(picture)
        self.patches = patches
        self._check_patches()
        self._map()  # checks them all

    def __getitem__(self, index: int | tuple[int, int]) -> "AttentionMap":
        """map[layer, head], map[layer] of (N, H, Lq, Lk), map[head] of (H, Lq, Lk); from 0, negative from the end.

        A view of the weights. Raises IndexError past the end.
        """
        places = index if isinstance(index, tuple) else (index,)
        kinds = ("layer", "head")[4 - len(self.weights.shape):]
        if len(places) > len(kinds):
            raise _heed.ShapeError(f"AttentionMap: map{list(places)} of weights {tuple(self.weights.shape)}, which are "
                                   f"{'one head' if not kinds else 'a row of heads'}; pass at most {len(kinds)} places")
        weights, vectors = self.weights, self.vectors
        # Of a sentence that says what rows and columns are, the name before it: "Cross-attention: where ...".
        title = self.title.split(":")[0] if self.title.endswith(".") else self.title
        names = [title] if title else []
        for kind, place in zip(kinds, places):
            count = weights.shape[0]
            try:
                place = operator.index(place)
            except TypeError:
                raise TypeError(f"AttentionMap: {kind} is {place!r}; pass an integer") from None
            if not -count <= place < count:
                raise IndexError(f"AttentionMap: there is no {kind} {place} of {count}, counted from 0")
            place = place % count
            weights = weights[place]
            if vectors is not None:  # a head of k and v may serve several of q
                vectors = tuple(x[place * x.shape[0] // count] for x in vectors)
            names.append(self.heads[place] if kind == "head" and self.heads else f"{kind} {place + 1}")
        return AttentionMap(weights, self.queries, self.keys, ", ".join(names),
                            self.heads if len(places) < len(kinds) else (), vectors=vectors, scale=self.scale,
                            mask=self.mask, picture=self.picture, patches=self.patches)

    def over_picture(self, patch: tuple[int, int] | None = None) -> "PatchMap":
        """Where one token looks in the picture: the patch in (row, column), from 1, or the class token in front of all.

        Raises ShapeError for a map without a picture, and for a patch that is not there.
        """
        if self.patches is None:
            raise _heed.ShapeError("AttentionMap.over_picture: the map has no picture; pass picture and patches to it")
        rows, columns = self.patches
        before = self.weights.shape[-1] - rows * columns
        token = 0 if patch is None else before + _patch("AttentionMap.over_picture", patch, rows, columns)
        if patch is None and before == 0:
            raise _heed.ShapeError("AttentionMap.over_picture: all tokens are patches; pass the (row, column) of one")
        row = np.asarray(self.weights)[..., token, :]
        title = ", ".join(part for part in (self.title, "" if patch is None else f"patch {patch[0]},{patch[1]}") if part)
        notes: tuple[str, ...] = ()
        if before:
            elsewhere = row[..., :before].astype(np.float64).sum(-1)
            least, most = (f"{x:.3g}" for x in (elsewhere.min(), elsewhere.max()))
            share = least if least == most else f"{least} to {most}, by head,"
            notes = (f"{share} of the weight is on tokens that are no part of the picture",)
        return PatchMap(row[..., before:].reshape(*row.shape[:-1], rows, columns), self.picture, patch, title, self.heads,
                        notes)

    def __repr__(self) -> str:
        return f"AttentionMap({self.title!r}, {tuple(self.weights.shape)})"

    def __str__(self) -> str:
        """The map in lines, in colour where standard output is a terminal that has some."""
        return self._shown()

    def _repr_html_(self) -> str:
        return _frame(self.html(), max(self.weights.shape[-2:]))

    def text(self, width: int = 80) -> str:
        """The map as lines of at most `width` columns, without colour: a digit d stands for d/10 of the scale."""
        return self._map().text(width, 0, True)

    def html(self) -> str:
        """A page for a browser that needs nothing but itself: every layer and head, to look into."""
        return _heed.page([("", self._map(untitled=True))], self.title, "")

    def svg(self, **options: Unpack[PictureOptions]) -> str:
        """The map as a picture; PictureOptions says how. Raises IoError where cairo and pango are missing."""
        return self._picture("svg", options).decode()

    def png(self, **options: Unpack[PictureOptions]) -> bytes:
        """As svg(); the bytes of a file."""
        return self._picture("png", options)

    def pdf(self, **options: Unpack[PictureOptions]) -> bytes:
        """As svg(); the bytes of a file."""
        return self._picture("pdf", options)

    def save(self, path: str | os.PathLike[str], **options: Unpack[PictureOptions]) -> None:
        """Writes what the ending of the name says: .html, .txt, or with PictureOptions .svg, .png, .pdf.

        The file is there whole or not at all, and what it replaces stays until then. A .txt takes width, in columns.
        Raises ShapeError for another ending, IoError where the file cannot be written.
        """
        kinds: _Kinds = {".html": (self.html, ()), ".txt": (self.text, ("width",)),
                         ".svg": (self.svg, _PICTURE_OPTIONS), ".png": (self.png, _PICTURE_OPTIONS),
                         ".pdf": (self.pdf, _PICTURE_OPTIONS)}
        _save("AttentionMap.save", path, kinds, options)

    def top(self, count: int = 3) -> "TopKeys":
        """For each query of one head its `count` largest weights: (label of the key, weight), largest first.

        What is 0, negative or not finite is left out. Raises ShapeError for several heads: choose one, map[0].
        """
        if len(self.weights.shape) > 2:
            raise _heed.ShapeError(f"AttentionMap.top: weights {tuple(self.weights.shape)} are several heads; choose "
                                   f"one, map[{', '.join('0' * (len(self.weights.shape) - 2))}]")
        return TopKeys(self, count)

    def statistics(self) -> np.ndarray[Any, np.dtype[np.void]]:
        """What each head does, in six numbers: a structured array, () for one head, (H) or (N, H).

        diagonal_mass, previous_mass, next_mass, first_mass: mean weight of the key at the query's own position, one
        before, one after, and of key 0; entropy: mean of -sum w ln w, at most ln Lk; mean_distance: mean of
        sum w |query - key|, in positions. A mean is over the queries that have such a key. A NaN gives NaN.
        """
        out = np.empty((*self.weights.shape[:-2], len(_STATISTICS)))
        self._map().statistics_into(out.reshape(-1, len(_STATISTICS)))
        return out.view([(name, np.float64) for name in _STATISTICS])[..., 0]

    def _map(self, untitled: bool = False) -> _heed.Map:
        map = _heed.Map(self.weights, self.queries, self.keys, "" if untitled else self.title, self.heads)
        if self.vectors is not None:
            q, k, v = self.vectors
            map.add_vectors(q, k, v, self.scale, self.mask)
        elif self.scale is not None or self.mask is not None:
            raise _heed.ShapeError("AttentionMap: scale and mask are of the vectors; pass vectors, too")
        if self.patches is not None:
            map.set_picture(self.picture, *self.patches)
        return map

    def _check_patches(self) -> None:
        if (self.picture is None) != (self.patches is None):
            raise _heed.ShapeError("AttentionMap: picture and patches belong together; pass both")
        if self.patches is None:
            return
        rows, columns = self.patches = _pair("AttentionMap: patches", self.patches)
        if rows < 1 or columns < 1 or rows * columns > min(self.weights.shape[-2:]):
            raise _heed.ShapeError(f"AttentionMap: patches is {self.patches} for weights {tuple(self.weights.shape)}; "
                                   "pass (rows, columns), as many as the last tokens")
        _heed.Patches(np.zeros((rows, columns), np.float32), self.picture, -1, "", (), ()).text(80, 0, True)

    def _picture(self, kind: str, options: PictureOptions) -> bytes:
        _check_options(f"AttentionMap.{kind}", options, _PICTURE_OPTIONS)
        width, millimetres = _width(kind, options.get("width", 0))
        font, query_axis, key_axis = (
            _text(f"AttentionMap.{kind}: {name}", options.get(name, default))
            for name, default in (("font", "sans-serif"), ("query_axis", "query"), ("key_axis", "key")))
        return self._map().picture(kind, width, millimetres, options.get("dpi", 200), options.get("font_size", 8), font,
                                   query_axis, key_axis, options.get("columns", 0), options.get("maximum", 0))

    def _shown(self) -> str:
        map, shape = self._map(), self.weights.shape
        if len(shape) == 2 and shape[0] * shape[1] > _LARGEST_HEAD:  # as small as one of several
            map = _heed.Map(self.weights[None], self.queries, self.keys, self.title, self.heads)
        return _cut(map.text(*_terminal()))


class PatchMap:
    """Weights of the patches of a picture: where one token looks in it. AttentionMap.over_picture() makes one.

        heed.ImageEncoder("vit-base-patch16-224").attend(heed.read_png("cat.png"))[11].over_picture().save("cat.svg")

    weights  (rows, columns) one head, (H, rows, columns) a row of heads, or (N, H, rows, columns) layers x heads, floating
    picture  (height, width, 3) uint8, red, green and blue
    patch    (row, column) of the patch that looks, from 1; default: none of them does
    title    what it shows
    heads    H labels; default: head 1, head 2, ...
    notes    sentences below

    Raises ShapeError, and TypeError for what is no array or text.
    """

    __slots__ = ("weights", "picture", "patch", "title", "heads", "notes")

    def __init__(self, weights: Array, picture: Array, patch: tuple[int, int] | None = None, title: str = "",
                 heads: Iterable[str] | None = None, notes: Iterable[str] = ()) -> None:
        self.weights: Any = _indexable(weights)
        self.picture: Any = np.ascontiguousarray(picture)
        self.title = _text("PatchMap: title", title)
        self.heads = _labels("heads", heads)
        self.notes = _labels("notes", notes)
        self.patch = patch if patch is None else _pair("PatchMap: patch", patch)
        self._made().text(80, 0, True)  # checks them all

    def __repr__(self) -> str:
        return f"PatchMap({self.title!r}, {tuple(self.weights.shape)})"

    def __str__(self) -> str:
        """The map in lines, in colour where standard output is a terminal that has some."""
        return _cut(self._made().text(*_terminal()))

    def _repr_svg_(self) -> str:
        return self.svg()

    def text(self, width: int = 80) -> str:
        """Lines of at most `width` columns, without colour: a digit d stands for d/10 of the scale."""
        return self._made().text(width, 0, True)

    def svg(self, **options: Unpack[PictureOptions]) -> str:
        """The weights over the picture; PictureOptions says how, but for axes, which have no names."""
        return self._drawn("svg", options).decode()

    def png(self, **options: Unpack[PictureOptions]) -> bytes:
        """As svg(); the bytes of a file."""
        return self._drawn("png", options)

    def pdf(self, **options: Unpack[PictureOptions]) -> bytes:
        """As svg(); the bytes of a file."""
        return self._drawn("pdf", options)

    def save(self, path: str | os.PathLike[str], **options: Unpack[PictureOptions]) -> None:
        """Writes what the ending of the name says, as AttentionMap.save() does: .txt, .svg, .png, .pdf."""
        kinds: _Kinds = {".txt": (self.text, ("width",)), ".svg": (self.svg, _OVERLAY_OPTIONS),
                         ".png": (self.png, _OVERLAY_OPTIONS), ".pdf": (self.pdf, _OVERLAY_OPTIONS)}
        _save("PatchMap.save", path, kinds, options)

    def _made(self) -> _heed.Patches:
        looks = -1
        if self.patch is not None and len(self.weights.shape) > 1:
            looks = _patch("PatchMap", self.patch, *self.weights.shape[-2:])
        return _heed.Patches(self.weights, self.picture, looks, self.title, self.heads, self.notes)

    def _drawn(self, kind: str, options: PictureOptions) -> bytes:
        _check_options(f"PatchMap.{kind}", options, _OVERLAY_OPTIONS)
        width, millimetres = _width(kind, options.get("width", 0))
        return self._made().picture(kind, width, millimetres, options.get("dpi", 200), options.get("font_size", 8),
                                    _text(f"PatchMap.{kind}: font", options.get("font", "sans-serif")),
                                    options.get("columns", 0), options.get("maximum", 0))


def read_png(path: str | os.PathLike[str]) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Read a PNG file as (height, width, 3) bytes, red, green and blue, as transformers' pipelines do with Pillow.

    The image is turned upright by the orientation in its EXIF or XMP metadata. Transparency is dropped.
    Raises IoError; FormatError for a file that is not a PNG, is damaged, is grey with 16 bits or has more than
    33,554,432 pixels.
    """
    pixels: np.ndarray[Any, np.dtype[np.uint8]] = _heed.read_png(path)
    return pixels


class TopKeys(list[list[tuple[str, float]]]):
    """What AttentionMap.top() gives: a list for each query. Printed, a line for each."""

    def __init__(self, map: AttentionMap, count: int) -> None:
        rows = map._map().top(count)
        labels = map.keys or range(map.weights.shape[-1])
        super().__init__([(str(labels[key]), weight) for key, weight in row] for row in rows)
        self._map, self._count = map, count

    def __reduce__(self) -> tuple[Any, ...]:
        return TopKeys, (self._map, self._count)

    def __str__(self) -> str:
        return _cut(self._map._map().top_text(self._count, *_terminal()))


class AttentionPage:
    """Several maps on one page, each a tab of it: what a translator has.

        heed.AttentionPage({"Encoder": encoder, "Cross": cross}, title="El perro", text="The dog")

    maps   AttentionMaps by the names of their tabs
    title  of the page
    text   below the title

    .maps is a dictionary of them. Raises ShapeError for no maps, TypeError for what is no map or no text.
    """

    __slots__ = ("maps", "title", "text")

    def __init__(self, maps: Mapping[str, AttentionMap], title: str = "", text: str = "") -> None:
        if not isinstance(maps, Mapping):
            raise TypeError(f"AttentionPage: maps is a {type(maps).__name__}; pass a dictionary, {{'Encoder': map}}")
        for name, map in maps.items():
            if not isinstance(map, AttentionMap):
                raise TypeError(f"AttentionPage: {name!r} is a {type(map).__name__}; pass an AttentionMap")
        if not maps:
            raise _heed.ShapeError("AttentionPage: there are no maps; pass one at least")
        self.maps = {_text("AttentionPage: a name", name): map for name, map in maps.items()}
        self.title = _text("AttentionPage: title", title)
        self.text = _text("AttentionPage: text", text)

    def __repr__(self) -> str:
        maps = ", ".join(f"{name!r}: {tuple(map.weights.shape)}" for name, map in self.maps.items())
        return f"AttentionPage({{{maps}}}, {self.title!r})"

    def __str__(self) -> str:
        """All maps in lines, in colour where standard output is a terminal that has some."""
        head = [line for line in (self.title, self.text) if line]
        return "\n\n".join(["\n".join(head)] * bool(head) +
                           [f"{name}\n{map}" if name else str(map) for name, map in self.maps.items()])

    def _repr_html_(self) -> str:
        return _frame(self.html(), max(max(map.weights.shape[-2:]) for map in self.maps.values()))

    def html(self) -> str:
        """A page for a browser that needs nothing but itself."""
        return _heed.page([(name, map._map()) for name, map in self.maps.items()], self.title, self.text)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page, whole or not at all. Raises ShapeError for a name that does not end in .html, IoError."""
        _save("AttentionPage.save", path, {".html": (self.html, ())}, {})


def _three(vectors: Any) -> tuple[Any, Any, Any]:
    if not isinstance(vectors, (tuple, list)) or len(vectors) != 3:
        raise TypeError(f"AttentionMap: vectors is a {type(vectors).__name__}; pass (q, k, v)")
    return _indexable(vectors[0]), _indexable(vectors[1]), _indexable(vectors[2])


def _indexable(array: Any) -> Any:
    """Bare memory, of which one cannot take parts, as NumPy's array on it; all else as it is."""
    if hasattr(array, "shape") and not isinstance(array, memoryview):
        return array
    try:
        return np.asarray(memoryview(array))
    except TypeError:  # no memory at all: refused where it is read
        return array


def _of_one_entry(r: AttentionResult[Any], vectors: Any) -> tuple[Any, Any]:
    """Weights (Hq, Lq, Lk) of a result for one sequence, and its vectors without the entry."""
    if r.weights is None:
        raise _heed.ShapeError("AttentionMap: the result has no weights; call attention() with return_weights=True")
    shape = tuple(r.weights.shape)
    if len(shape) == 3:
        return r.weights, vectors
    if shape[0] != 1:
        raise _heed.ShapeError(f"AttentionMap: the result has {shape[0]} entries, with labels of their own; pass "
                               "r.weights[0] for the first")
    return r.weights[0], vectors and tuple(x[0] if len(getattr(x, "shape", ())) == 4 else x for x in vectors)


def _pair(what: str, value: Any) -> tuple[int, int]:
    try:
        first, second = value
        return operator.index(first), operator.index(second)
    except (TypeError, ValueError):
        raise TypeError(f"{what} is {value!r}; pass two integers, row and column") from None


def _patch(operation: str, patch: Any, rows: int, columns: int) -> int:
    """The number of a patch, from 0."""
    row, column = _pair(f"{operation}: patch", patch)
    if not (1 <= row <= rows and 1 <= column <= columns):
        raise _heed.ShapeError(f"{operation}: patch is {(row, column)}; pass row and column from 1, of {rows} rows of "
                               f"{columns}")
    return (row - 1) * columns + column - 1


def _text(what: str, value: Any) -> str:
    """`value` where UTF-8 can hold it: half a surrogate pair becomes an escape."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a {type(value).__name__}; pass text")
    return value.encode("utf-8", "backslashreplace").decode()


def _labels(name: str, values: Iterable[str] | None) -> tuple[str, ...]:
    if values is None:
        return ()
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Iterable):
        raise TypeError(f"AttentionMap: {name} is a {type(values).__name__}; pass a list with a label for each")
    return tuple(_text(f"AttentionMap: {name}[{place}]", value) for place, value in enumerate(values))


def _width(kind: str, width: Any) -> tuple[Any, bool]:
    """(number, whether it is millimetres, not pixels)"""
    if not isinstance(width, str):
        return width, False
    length = re.fullmatch(r"(\d+\.?\d*|\.\d+)(px|mm|cm|in)", width)
    if not length:
        raise _heed.ShapeError(f"AttentionMap.{kind}: width is {width!r}; pass a number of pixels, or '80mm', '8cm', "
                               "'3in', '1200px'")
    return float(length[1]) * _MILLIMETRES.get(length[2], 1.0), length[2] != "px"


# By the ending of a name: what makes the content, and the options that it takes.
_Kinds = Mapping[str, tuple[Callable[..., str | bytes], Collection[str]]]


def _check_options(operation: str, options: Mapping[str, Any], known: Collection[str]) -> None:
    for name in options:
        if name not in known:
            raise TypeError(f"{operation}: there is no option {name}; pass {', '.join(known) or 'none'}")


def _save(operation: str, path: str | os.PathLike[str], kinds: _Kinds, options: Mapping[str, Any]) -> None:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{operation}: path is a {type(path).__name__}; pass the name of a file")
    name = os.fsdecode(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in kinds:
        raise _heed.ShapeError(f"{operation}: {name!r} does not end in {', '.join(kinds)}; the ending says what to "
                               "write")
    if "\0" in name:
        raise _heed.ShapeError(f"{operation}: {name!r} holds a zero byte, which no name of a file may")
    make, known = kinds[ending]
    _check_options(f"{operation} as {ending}", options, known)
    content = make(**options)
    _heed.write_file(os.fsencode(name), content if isinstance(content, bytes) else content.encode())


def _frame(page: str, tokens: int) -> str:
    """The page as a part of a notebook: without a network, without a way to the notebook around it."""
    held = page.replace("&", "&amp;").replace('"', "&quot;")
    height = min(max(620, 420 + 32 * tokens), 900)  # shows a head of some tokens whole; the corner below is for pulling
    return (f'<iframe srcdoc="{held}" sandbox="allow-scripts allow-downloads" title="Attention" width="100%" '
            f'height="{height}" style="border: 0; resize: vertical">{_UNTRUSTED}</iframe>')


def _terminal() -> tuple[int, int, bool]:
    """(columns, colours, Unicode) of standard output."""
    columns, color = _heed.terminal()
    if sys.stdout is None or not sys.stdout.isatty():
        color = 0
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return columns, color, encoding.lower().startswith("utf")


def _cut(text: str) -> str:
    """What a terminal's reader can bear; text() and save() give all of it."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) <= _LONGEST_SHOWN:
        return "\n".join(lines)
    return "\n".join(lines[:_LONGEST_SHOWN] + [f"... {len(lines) - _LONGEST_SHOWN} more lines"])
