"""Looking at attention: what is printed, drawn, written and counted, and what is refused."""
import copy
import ctypes
import html.parser
import os
import pathlib
import pickle
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from fcntl import ioctl

import heed
import numpy as np
import pytest

SOURCE, OUTPUT = "El perro tiene pelo .".split(), "The dog has hair".split()


def weights(*shape, dtype=np.float64, seed=0):
    w = np.random.default_rng(seed).exponential(size=shape)
    return (w / w.sum(axis=-1, keepdims=True)).astype(dtype)


def cross(*heads, **more):
    return heed.AttentionMap(weights(*heads, len(OUTPUT), len(SOURCE)), queries=OUTPUT, keys=SOURCE, **more)


def drawing(map, **options):
    """The SVG without the numbers by which cairo tells its surfaces apart."""
    return re.sub(r"\b(surface|source|glyph|image|mask|clip)-?[0-9-]+", r"\1", map.svg(**options))


def python(program, cwd, **environment):
    return subprocess.run([sys.executable, "-c", program], cwd=cwd, env=os.environ | environment, capture_output=True,
                          text=True, timeout=120, check=False)


# ---- In the terminal

STAIRS = heed.AttentionMap(np.array([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]), queries=["a", "the", "é"],
                           keys=["a", "the", "é"], title="causal")
PRINTED = """\
causal
     a  the  é
  a  9   0   0
the  5   5   0
  é  2   3   5
scale: 0 below 0.1, 9 from 0.9"""


def test_printed():
    assert str(STAIRS) == PRINTED
    assert repr(STAIRS) == "AttentionMap('causal', (3, 3))"
    assert str(STAIRS) == PRINTED  # no terminal here
    assert STAIRS.text() == PRINTED + "\n"
    assert str(STAIRS.top(2)) == "causal\n  a  a 1.000\nthe  a 0.500    the 0.500\n  é  é 0.500    the 0.300"


def test_columns():
    wide = heed.AttentionMap(weights(3, 60))
    for width in (20, 50, 200):
        lines = wide.text(width=width).splitlines()
        assert max(map(len, lines)) <= width and len(lines) > 60 * 2 / width * 3
    assert wide.text(width=3) == wide.text(width=20)


def test_large_maps_are_printed_small():
    for large in (heed.AttentionMap(weights(300, 500)), heed.AttentionMap(weights(20, 12, 30, 30))):
        lines = str(large).splitlines()
        assert len(lines) <= 101 and max(map(len, lines)) <= 80
        assert len(large.text().splitlines()) > 300
    assert "a cell shows the largest of 17 queries x 28 keys" in str(heed.AttentionMap(weights(300, 500)))
    assert re.search(r"\n\.\.\. \d+ more lines$", str(large))


def in_terminal(program, columns, **environment):
    """What `program` prints on a terminal that many columns wide."""
    parent, child = pty.openpty()
    ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", program], stdin=child, stdout=child, stderr=child,
                               env=os.environ | environment)
    os.close(child)
    printed = b""
    try:
        while some := os.read(parent, 65536):
            printed += some
    except OSError:  # the other end is closed
        pass
    os.close(parent)
    assert process.wait(timeout=60) == 0, printed.decode()
    return printed.decode().replace("\r\n", "\n")


def test_in_a_terminal():
    program = "import heed, numpy; map = heed.AttentionMap(numpy.full((2, 60), 1 / 60)); print({}(map))"
    colours = {"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": "", "PYTHONIOENCODING": "utf-8"}
    for columns in (40, 100):
        assert in_terminal(program.format("repr"), columns, **colours) == "AttentionMap('', (2, 60))\n"
        plain = in_terminal(program.format("str"), columns, **colours | {"NO_COLOR": "1"})
        assert "\x1b" not in plain and columns - 12 < max(map(len, plain.splitlines())) <= columns
    assert "\x1b[48;5;" in in_terminal(program.format("str"), 80, **colours)
    assert "\x1b[48;2;" in in_terminal(program.format("str"), 80, **colours | {"COLORTERM": "truecolor"})
    assert "\x1b" not in in_terminal(program.format("str"), 80, **colours | {"NO_COLOR": "1"})
    assert "\x1b[48;5;" in in_terminal(program.format("str").replace("(map))", "(map.top(2)))"), 80, **colours)


def test_where_output_has_no_unicode():
    program = "import heed, numpy; print(heed.AttentionMap(numpy.eye(2), queries=['é', 'a']))"
    assert "\\u{E9}" in python(program, ".", PYTHONIOENCODING="ascii").stdout
    assert "é" in python(program, ".", PYTHONIOENCODING="utf-8").stdout
    assert python("import sys; sys.stdout = None\nimport heed, numpy\nstr(heed.AttentionMap(numpy.eye(2)))",
                  ".").returncode == 0


# ---- Numbers

@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_top_is_that_of_sorting(dtype):
    map = heed.AttentionMap(weights(6, 9, dtype=dtype), keys=list("abcdefghi"))
    top = map.top(4)
    assert len(top) == 6
    for row, found in zip(map.weights, top):
        order = np.argsort(-row, kind="stable")[:4]
        assert found == [("abcdefghi"[key], float(row[key])) for key in order]
    assert map.top() == [row[:3] for row in top]
    assert [len(row) for row in map.top(100)] == [9] * 6
    assert heed.AttentionMap(map.weights).top(1)[0] == [(str(np.argmax(map.weights[0])), float(map.weights[0].max()))]
    assert heed.AttentionMap(np.array([[0.0, np.nan, 1, -1]])).top(4) == [[("2", 1.0)]]


def expected_statistics(w):
    """The six numbers of a head, as view.h defines them."""
    queries, keys = w.shape
    i, j = np.arange(queries)[:, None], np.arange(keys)
    mean = lambda values: np.mean(values) if len(values) else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(w > 0, w * np.log(w), 0).sum(1)
    return (mean(w[i == j]), mean(entropy), mean((w * np.abs(i - j)).sum(1)), mean(w[i - 1 == j]), mean(w[i + 1 == j]),
            mean(w[:, 0]))


def test_statistics_are_those_of_their_formulas():
    for shape in ((5, 7), (7, 5), (3, 4, 4), (2, 3, 6, 5), (1, 1)):
        map = heed.AttentionMap(weights(*shape))
        statistics = map.statistics()
        assert statistics.shape == shape[:-2]
        assert statistics.dtype.names == ("diagonal_mass", "entropy", "mean_distance", "previous_mass", "next_mass",
                                          "first_mass")
        for place in np.ndindex(shape[:-2]):
            np.testing.assert_allclose(statistics[place].tolist(), expected_statistics(map.weights[place]), rtol=1e-12)
    assert heed.AttentionMap(np.eye(4)).statistics()["diagonal_mass"] == 1
    assert np.isnan(heed.AttentionMap(np.full((2, 2), np.nan)).statistics()["entropy"])
    assert heed.AttentionMap(np.ones((0, 3, 4, 5))).statistics().shape == (0, 3)


# ---- Parts

def test_parts_are_views_with_their_labels():
    map = cross(2, 3, title="Cross", heads=["x", "y", "z"])
    assert map.weights.shape == (2, 3, 4, 5) and map.queries == tuple(OUTPUT) and map.keys == tuple(SOURCE)
    layer, head = map[1], map[-1, -2]
    assert layer.title == "Cross, layer 2" and layer.heads == ("x", "y", "z")
    assert head.title == "Cross, layer 2, y" and head.heads == () and layer[1].title == head.title
    np.testing.assert_array_equal(head.weights, map.weights[1, 1])
    assert np.shares_memory(head.weights, map.weights) and head.keys == map.keys
    assert str(layer[1]) == str(head) and cross(2, 3)[0, 2].title == "layer 1, head 3"
    assert cross(3)[np.int64(2)].title == "head 3"
    assert [part.title for part in map] == ["Cross, layer 1", "Cross, layer 2"]  # which IndexError ends
    for place, error, text in (
            (2, IndexError, "there is no layer 2 of 2"), ((0, -4), IndexError, "no head -4 of 3"),
            ((0, 0, 0), heed.ShapeError, "a row of heads; pass at most 2 places"), ("0", TypeError, "layer is '0'"),
            (slice(1), TypeError, "layer is slice"), ((0, None), TypeError, "head is None")):
        with pytest.raises(error, match=text):
            map[place]
    with pytest.raises(heed.ShapeError, match="one head; pass at most 0 places"):
        head[0]


def test_weights_are_not_copied():
    w = weights(3, 4, 5)
    map = heed.AttentionMap(w)
    assert map.weights is w
    before = str(map)
    w[:] = w[::-1].copy()
    assert str(map) != before


def test_a_result_of_attention():
    q = np.random.default_rng(0).standard_normal((1, 2, 4, 8))
    r = heed.attention(q, q, q, return_weights=True)
    map = heed.AttentionMap(r, queries=OUTPUT, keys=OUTPUT)
    assert map.weights.shape == (2, 4, 4) and np.shares_memory(map.weights, r.weights)
    offsets = np.array([0, 4])
    ragged = heed.attention(*[q[0].swapaxes(0, 1)] * 3, q_offsets=offsets, k_offsets=offsets, return_weights=True)
    np.testing.assert_allclose(heed.AttentionMap(ragged).weights, map.weights, rtol=1e-12)
    with pytest.raises(heed.ShapeError, match=r"has no weights; call attention\(\) with return_weights=True"):
        heed.AttentionMap(heed.attention(q, q, q, return_lse=True))
    two = np.concatenate([q, q])
    with pytest.raises(heed.ShapeError, match=r"has 2 entries.*pass r.weights\[0\]"):
        heed.AttentionMap(heed.attention(two, two, two, return_weights=True))


def test_other_arrays():
    w = weights(4, 5, dtype=np.float32)
    expected = str(heed.AttentionMap(w))
    for same in (np.asfortranarray(w), w.T.copy().T, np.repeat(w, 2, axis=1)[:, ::2], w[::-1, ::-1].copy()[::-1, ::-1]):
        map = heed.AttentionMap(same)
        assert str(map) == expected and drawing(map) == drawing(heed.AttentionMap(w))
        assert map.html() == heed.AttentionMap(w).html()
    assert str(heed.AttentionMap(w.astype(np.float16))) == expected
    assert heed.AttentionMap(np.broadcast_to(np.float32(0.25), (2, 3, 4))).top is not None
    for memory in (memoryview(w), (ctypes.c_float * 5 * 4).from_buffer(w)):
        map = heed.AttentionMap(memory)
        assert str(map) == expected and np.shares_memory(map.weights, w)
    assert heed.AttentionMap(memoryview(weights(3, 2, 2)))[1].weights.shape == (2, 2)
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    assert heed.AttentionMap(w.astype(bfloat16)).top(1)[0][0][1] == float(w.astype(bfloat16)[0].max())


def test_torch():
    torch = pytest.importorskip("torch")
    w = torch.from_numpy(weights(2, 3, 4, 5))
    map = heed.AttentionMap(w, queries=OUTPUT, keys=SOURCE)
    assert map.weights is w and map[1, 2].weights.data_ptr() == w[1, 2].data_ptr()
    same = heed.AttentionMap(w.numpy(), queries=OUTPUT, keys=SOURCE)
    assert str(map) == str(same) and map.html() == same.html() and map[0, 1].top(2) == same[0, 1].top(2)
    np.testing.assert_array_equal(map.statistics(), same.statistics())
    assert "largest of" in str(heed.AttentionMap(torch.full((100, 100), 0.01)))
    with pytest.raises(heed.ShapeError, match="AttentionMap: weights requires grad.*detach"):
        heed.AttentionMap(torch.ones(2, 2, requires_grad=True))


def test_it_travels():
    map = cross(3, title="Cross")
    for other in (pickle.loads(pickle.dumps(map)), copy.deepcopy(map), copy.copy(map)):
        assert str(other) == str(map) and other.html() == map.html()
    top = map[0].top(2)
    assert pickle.loads(pickle.dumps(top)) == top and str(copy.deepcopy(top)) == str(top)
    page = heed.AttentionPage({"a": map}, title="t", text="x")
    assert pickle.loads(pickle.dumps(page)).html() == page.html()


# ---- What the weights are made of

def made_of():
    """Two layers of four heads over two of keys: (map, q, k, v), each with the layers in front."""
    q, k, v = (np.random.default_rng(n).standard_normal((2, heads, 6, size), np.float32)
               for n, (heads, size) in enumerate(((4, 8), (2, 8), (2, 5))))
    r = heed.attention(q, k, v, causal=True, scale=0.5, return_weights=True)
    return heed.AttentionMap(r.weights, vectors=(q, k, v), scale=0.5, mask=np.tri(6, dtype=bool)), q, k, v


def test_vectors_go_with_the_parts():
    map, q, k, v = made_of()
    assert map[1].vectors[1].shape == (2, 6, 8)
    for head in range(4):
        part = map[1, head]
        for found, whole in zip(part.vectors, (q[1, head], k[1, head // 2], v[1, head // 2])):
            np.testing.assert_array_equal(found, whole)
            assert np.shares_memory(found, whole)
        again = heed.attention(*(x[None, None] for x in part.vectors), causal=True, scale=part.scale,
                               return_weights=True)
        np.testing.assert_allclose(part.weights, again.weights[0, 0], rtol=1e-5, atol=1e-7)
    for shown, layers in ((map, 2), (map[0], 1), (map[0, 1], 1), (pickle.loads(pickle.dumps(map)), 2)):
        assert shown.html().count('"valueSize":5') == layers
    assert str(map) == str(heed.AttentionMap(map.weights))


def test_vectors_of_a_result():
    _, q, k, v = made_of()
    r = heed.attention(q[:1], k[:1], v[:1], return_weights=True)
    for map in (heed.AttentionMap(r, vectors=(q[:1], k[:1], v[:1])), heed.AttentionMap(r, vectors=[q[0], k[0], v[0]])):
        assert map.vectors[0].shape == (4, 6, 8) and '"valueSize":5' in map.html()


# ---- Odd weights and labels

def test_odd_weights_are_flagged():
    map = heed.AttentionMap(np.array([[0.5, 0.2], [np.nan, 1], [0, 0], [1.5, -0.5]]))
    for shown in (str(map), map.svg()):
        for note in ("1 row does not sum to 1 (query 0 sums to 0.7)", "1 row is all zero", "1 weight is not finite",
                     "1 weight is below 0"):
            assert note in shown
    assert "does not sum to 1" in map.html()
    assert str(heed.AttentionMap(np.ones((0, 3)))) == "no weights: 0 queries, 3 keys, 1 heads"


def test_labels_are_text_and_nothing_else():
    odd = ["</script><b>", "a\nb", "\x1b[31m", "\u202eabc", '"&quot;', "\ud800", "😀"]
    map = heed.AttentionMap(np.eye(7), queries=odd, keys=np.array(odd[:5] + ["f", "g"]))
    assert map.queries[5] == "\\ud800" and map.queries[6] == "😀"
    page = map.html()
    assert "<b>" not in page and page.count("</script>") == heed.AttentionMap(np.eye(7)).html().count("</script>")
    for shown in (str(map), map.svg(), page, str(map.top(2))):
        assert "\x1b" not in shown and "\u202e" not in shown
    assert len(str(map).splitlines()) == 7 + 7 + 1  # a line for each key, for each query, and the scale
    assert srcdoc_of(map._repr_html_()) == page


# ---- Pages and files

class Frames(html.parser.HTMLParser):
    """The attributes of every element."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def srcdoc_of(shown):
    [(tag, attributes)] = Frames(shown).found
    assert tag == "iframe"
    return attributes["srcdoc"]


def test_a_notebook_shows_the_page_in_a_frame():
    map = cross(2, 3, title="Cross")
    [(tag, attributes)] = Frames(map._repr_html_()).found
    assert tag == "iframe" and attributes["srcdoc"] == map.html()
    assert attributes["sandbox"] == "allow-scripts allow-downloads"  # neither the notebook's origin nor its window
    assert (attributes["width"], attributes["height"]) == ("100%", "620")
    assert 'height="740"' in heed.AttentionMap(weights(10, 3))._repr_html_()
    assert 'height="900"' in heed.AttentionPage({"a": map, "b": heed.AttentionMap(weights(3, 500))})._repr_html_()
    page = map.html()
    assert "default-src 'none'" in page and "Cross" in page
    assert not re.search(r"""(?:src|href)=["']?(?!data:)[^"' >]""", page.partition("<script")[0])


def test_a_page_of_several_maps():
    page = heed.AttentionPage({"Encoder": cross(2, 3), "Cross": cross(2, 1, title="rows")}, title="El perro",
                              text="The dog")
    for name in ("Encoder", "Cross", "El perro", "The dog"):
        assert name in page.html() and name in str(page)
    assert srcdoc_of(page._repr_html_()) == page.html()
    assert list(page.maps) == ["Encoder", "Cross"]
    assert str(page).endswith(str(page.maps["Cross"]))
    assert repr(page) == "AttentionPage({'Encoder': (2, 3, 4, 5), 'Cross': (2, 1, 4, 5)}, 'El perro')"


BEGIN = {"html": b"<!doctype html>", "txt": b"Cross\n", "svg": b"<?xml", "png": b"\x89PNG\r\n", "pdf": b"%PDF"}


def test_files_are_what_their_endings_say(tmp_path):
    map = cross(2, 2, title="Cross")
    made = {"html": map.html().encode(), "txt": map.text().encode(), "png": map.png(), "pdf": map.pdf()}
    for ending, begin in BEGIN.items():
        for name in (f"x.{ending}", f"X.{ending.upper()}"):
            map.save(tmp_path / name)
            content = (tmp_path / name).read_bytes()
            assert content.startswith(begin) and content == made.get(ending, content)
    assert sorted(os.listdir(tmp_path)) == sorted([f"x.{e}" for e in BEGIN] + [f"X.{e.upper()}" for e in BEGIN])
    heed.AttentionPage({"a": map}, title="t").save(str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_bytes().startswith(BEGIN["html"])
    map.save(os.fsencode(tmp_path / "é.txt"))
    map[0, 0].save(tmp_path / "narrow.txt", width=20)
    assert max(len(line) for line in (tmp_path / "narrow.txt").read_text("utf-8").splitlines()) <= 20


def size_of_png(bytes):
    return struct.unpack(">II", bytes[16:24])


def test_how_pictures_are_drawn():
    map = cross(4)
    assert size_of_png(map.png(width=900))[0] == 900
    assert size_of_png(map.png(width="80mm", dpi=254))[0] == 800 == size_of_png(map.png(width="8cm", dpi=254))[0]
    assert size_of_png(map.png(width="4in", dpi=150))[0] == 600 == size_of_png(map.png(width="600px"))[0]
    assert size_of_png(map.png(columns=1))[0] < size_of_png(map.png())[0] < size_of_png(map.png(font_size=16))[0]
    assert "output:" in map.svg(query_axis="output") and "query:" in map.svg()
    assert drawing(map, maximum=1) != drawing(map, maximum=0.5) and drawing(map, font="serif") != drawing(map)
    assert map.png(dpi=100) == map.png(dpi=np.float32(100))


def test_pictures_drawn_at_once_are_those_drawn_alone():
    maps = [heed.AttentionMap(weights(2, 8, 8, seed=n), queries=list("abcdefgh")) for n in range(8)]
    alone = [map.png() + drawing(map).encode() for map in maps]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda map: map.png() + drawing(map).encode(), maps * 2)) == alone * 2


def seen(*heads, before=1):
    """A picture of 2 x 3 patches of 4 x 2 pixels, behind a class token."""
    picture = np.random.default_rng(5).integers(0, 256, (8, 6, 3), np.uint8)
    names = ["[CLS]"] * before + [f"{row},{column}" for row in (1, 2) for column in (1, 2, 3)]
    w = weights(*heads, 6 + before, 6 + before, seed=2)
    return heed.AttentionMap(w, names, names, picture=picture, patches=(2, 3), title="seen")


def test_weights_over_a_picture(tmp_path):
    map = seen(2, 3)
    over = map[1, 2].over_picture((2, 1))
    np.testing.assert_array_equal(over.weights, map.weights[1, 2, 1 + 3, 1:].reshape(2, 3))
    np.testing.assert_array_equal(over.picture, map.picture)
    assert over.patch == (2, 1) and "patch 2,1" in over.title
    assert f"{map.weights[1, 2, 4, 0]:.3g} of the weight" in over.notes[0] and over.notes[0] in over.text()
    np.testing.assert_array_equal(map.over_picture().weights, map.weights[:, :, 0, 1:].reshape(2, 3, 2, 3))
    assert " to " in map.over_picture().notes[0] and map[0].over_picture((1, 1)).weights.shape == (3, 2, 3)
    assert seen(before=0).over_picture((1, 1)).notes == ()
    assert repr(over) == "PatchMap('seen, layer 2, head 3, patch 2,1', (2, 3))"
    assert str(over) == over.text().rstrip("\n") and over.svg().startswith("<?xml")
    assert over.png() != heed.PatchMap(over.weights, over.picture, None, over.title, notes=over.notes).png()  # no frame
    for ending in ("txt", "svg", "png", "pdf"):
        over.save(tmp_path / f"x.{ending}")
        begin = over.text().encode() if ending == "txt" else BEGIN[ending]
        assert (tmp_path / f"x.{ending}").read_bytes().startswith(begin)
    assert size_of_png(over.png(width=900))[0] == 900
    assert heed.read_png(tmp_path / "x.png").shape[1::-1] == size_of_png(over.png())
    assert repr(pickle.loads(pickle.dumps(over))) == repr(over) and copy.copy(map).html() == map.html()
    without = heed.AttentionMap(map.weights, map.queries, map.keys, map.title)
    assert len(map.html()) > len(without.html()) and map[0, 1].patches == (2, 3)


@pytest.mark.parametrize("refused, kind, text", [
    (lambda: cross(2).over_picture(), heed.ShapeError, "has no picture"),
    (lambda: seen().over_picture((3, 1)), heed.ShapeError, "2 rows of 3"),
    (lambda: seen().over_picture((1, 0)), heed.ShapeError, "2 rows of 3"),
    (lambda: seen().over_picture(3), TypeError, "row and column"),
    (lambda: seen(before=0).over_picture(), heed.ShapeError, "all tokens are patches"),
    (lambda: cross(picture=np.zeros((4, 4, 3), np.uint8)), heed.ShapeError, "belong together"),
    (lambda: cross(patches=(1, 2)), heed.ShapeError, "belong together"),
    (lambda: cross(picture=np.zeros((4, 4, 3), np.uint8), patches=(2, 3)), heed.ShapeError, "as many as"),
    (lambda: cross(picture=np.zeros((4, 4, 3), np.uint8), patches=(0, 3)), heed.ShapeError, "as many as"),
    (lambda: cross(picture=np.zeros((4, 4, 3), np.uint8), patches="ab"), TypeError, "two integers"),
    (lambda: cross(picture=np.zeros((4, 4, 3)), patches=(2, 2)), heed.ShapeError, "of float64; pass .* of uint8"),
    (lambda: cross(picture=np.zeros((1, 4, 3), np.uint8), patches=(2, 2)), heed.ShapeError, "."),
    (lambda: cross(picture="cat.png", patches=(2, 2)), (TypeError, heed.ShapeError), "."),
    (lambda: heed.PatchMap(np.zeros(3), np.zeros((4, 4, 3), np.uint8), (1, 1)), heed.ShapeError, "."),
    (lambda: heed.PatchMap(np.zeros((2, 2)), np.zeros((4, 4), np.uint8)), heed.ShapeError, "."),
    (lambda: heed.PatchMap(np.zeros((2, 2), int), np.zeros((4, 4, 3), np.uint8)), heed.ShapeError, "."),
    (lambda: heed.PatchMap(np.zeros((2, 2)), np.zeros((4, 4, 3), np.uint8), heads=["a"]).svg(query_axis="x"), Exception,
     "."),
    (lambda: seen().over_picture().save("x.html"), heed.ShapeError, "does not end in"),
    (lambda: heed.read_png("none.png"), heed.IoError, "none.png"),
    (lambda: heed.read_png(__file__), heed.FormatError, "no PNG"),
    (lambda: heed.read_png(3), TypeError, "."),
])
def test_what_lies_over_no_picture(refused, kind, text):
    with pytest.raises(kind, match=text):
        refused()


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    map = cross(2)
    old = tmp_path / "x.html"
    old.write_text("old", encoding="utf-8")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    program = "import heed, numpy\nheed.AttentionMap(numpy.eye(3)).save('x.html')"
    done = subprocess.run([sys.executable, "-B", "-c", program], cwd=tmp_path, preexec_fn=small_files, timeout=60,
                          capture_output=True, text=True, check=False)
    assert "heed.IoError: write x.html: File too large" in done.stderr
    assert old.read_text(encoding="utf-8") == "old" and os.listdir(tmp_path) == ["x.html"]
    os.mkdir(tmp_path / "folder.png")
    (tmp_path / "dead.svg").symlink_to("nowhere/x.svg")
    for name, text in (("folder.png", "Is a directory"), ("no/x.png", "No such file"), ("x.html/x.png", "Not a dir"),
                       ("dead.svg", "leads nowhere"), ("x" * 300 + ".txt", "File name too long")):
        with pytest.raises(heed.IoError, match=text) as raised:
            map.save(tmp_path / name)
        assert isinstance(raised.value, OSError)
    with pytest.raises(heed.ShapeError, match="picture: dpi 1 is out of range"):
        map.save(tmp_path / "x.png", dpi=1)
    assert sorted(os.listdir(tmp_path)) == ["dead.svg", "folder.png", "x.html"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(heed.IoError, match="check the permissions of the directory"):
        cross(1).save(tmp_path / "x.html")


# ---- Where something is missing

def test_without_the_library_that_draws(tmp_path):
    if not (pathlib.Path(heed.__file__).parent / "libheed_pictures.so.1").exists():
        pytest.skip("the package in a build tree has the library by its run path")
    """Everything but pictures is there, and pictures say what to install."""
    installed = pathlib.Path(heed.__file__).parents[1]
    for name in ("heed", "heed_attention.libs"):  # the second where a wheel brings libraries
        if (installed / name).is_dir():
            shutil.copytree(installed / name, tmp_path / name,
                            ignore=shutil.ignore_patterns("libheed_pictures*", "__pycache__"))
    program = """if True:
        import heed, numpy
        map = heed.AttentionMap(numpy.eye(2))
        print(map, len(map.html()))
        map.save("x.png")"""
    done = python(program, tmp_path)
    assert "heed.IoError: picture: libheed_pictures.so" in done.stderr and "libpangocairo-1.0-0" in done.stderr
    assert "scale:" in done.stdout and not (tmp_path / "x.png").exists()


def test_without_fonts(tmp_path):
    (tmp_path / "fonts.conf").write_text("<fontconfig></fontconfig>", encoding="utf-8")
    program = "import heed, numpy; heed.AttentionMap(numpy.eye(2)).png()"
    done = python(program, tmp_path, FONTCONFIG_FILE=str(tmp_path / "fonts.conf"))
    assert "heed.IoError: picture: no font is installed; install one" in done.stderr


# ---- What is refused

W = weights(2, 4, 5)
Q, K = np.ones((2, 4, 3)), np.ones((1, 5, 3))
MAP = heed.AttentionMap(W)
REFUSED = [
    (lambda: heed.AttentionMap(W, queries=["a"]), ValueError, "1 query labels for 4 queries; pass one for each"),
    (lambda: heed.AttentionMap(W, keys=["a"] * 4), ValueError, "4 key labels for 5 keys"),
    (lambda: heed.AttentionMap(W, heads=["a"]), ValueError, "1 head labels for 2 heads"),
    (lambda: heed.AttentionMap(W[0], heads=["a"] * 2), ValueError, "2 head labels for 1 heads"),
    (lambda: heed.AttentionMap(W > 0), ValueError, "AttentionMap: weights are bool; pass floating ones"),
    (lambda: heed.AttentionMap(W.astype(int)), ValueError, "weights are int64; pass floating ones"),
    (lambda: heed.AttentionMap(W.astype(complex)), ValueError, "pass float32, float64, float16 or bfloat16"),
    (lambda: heed.AttentionMap(W.astype(object)), ValueError, "pass float32, float64, float16 or bfloat16"),
    (lambda: heed.AttentionMap(W.astype(">f8")), ValueError, "in the machine's byte order"),
    (lambda: heed.AttentionMap(W[0, 0]), ValueError, r"weights \(5\) are no map; pass \(Lq, Lk\)"),
    (lambda: heed.AttentionMap(W[None, None]), ValueError, "are no map"),
    (lambda: heed.AttentionMap(np.float64(1)), ValueError, "are no map"),
    (lambda: heed.AttentionMap([[1.0]]), TypeError, r"AttentionMap: weights is \[\[1.0\]\]; pass a NumPy array"),
    (lambda: heed.AttentionMap(None), TypeError, "weights is None; pass"),
    (lambda: heed.AttentionMap("x"), TypeError, "weights is 'x'; pass"),
    (lambda: heed.AttentionMap(W, queries="abcd"), TypeError, "queries is a str; pass a list with a label for each"),
    (lambda: heed.AttentionMap(W, keys=5), TypeError, "keys is a int; pass a list"),
    (lambda: heed.AttentionMap(W, queries=[0, 1, 2, 3]), TypeError, r"queries\[0\] is a int; pass text"),
    (lambda: heed.AttentionMap(W, title=None), TypeError, "title is a NoneType; pass text"),
    (lambda: heed.AttentionMap(W[0, 0], vectors=[W[0, 0]] * 3), ValueError, "are no map; pass"),
    (lambda: heed.AttentionMap(np.float64(1), vectors=[np.float64(1)] * 3), ValueError, "are no map; pass"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K)), TypeError, r"vectors is a tuple; pass \(q, k, v\)"),
    (lambda: heed.AttentionMap(W, vectors=Q), TypeError, r"vectors is a ndarray; pass \(q, k, v\)"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K, "v")), TypeError, "v of vectors is 'v'; pass a NumPy array"),
    (lambda: heed.AttentionMap(W, vectors=(Q, Q, Q)), ValueError, r"vectors \(2, 4, 3\), .* weights \(2, 4, 5\); pass"),
    (lambda: heed.AttentionMap(W, vectors=(Q[0], K[0], K[0])), ValueError, r"pass floating q \(H, Lq, D\), k"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K[:0], K[:0])), ValueError, "pass floating q"),
    (lambda: heed.AttentionMap(W, vectors=(Q > 0, K, K)), ValueError, "pass floating q"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K[..., :2], K)), ValueError, "pass floating q"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K, K), scale=0), ValueError, r"scale is 0; pass what attention\(\) had"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K, K), scale="1"), TypeError, "scale is '1'; pass a number"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K, K), mask=np.ones((5, 4), bool)), ValueError, r"mask \(5, 4\) of bool"),
    (lambda: heed.AttentionMap(W, vectors=(Q, K, K), mask=np.ones((4, 5))), ValueError, r"pass booleans \(4, 5\)"),
    (lambda: heed.AttentionMap(W, scale=1), ValueError, "scale and mask are of the vectors; pass vectors, too"),
    (lambda: MAP.top(), ValueError, r"\(2, 4, 5\) are several heads; choose one, map\[0\]"),
    (lambda: heed.AttentionMap(W[None]).top(), ValueError, r"choose one, map\[0, 0\]"),
    (lambda: MAP[0].top(0), ValueError, "count 0 is below 1"),
    (lambda: MAP[0].top("3"), TypeError, "count is '3'; pass an integer"),
    (lambda: MAP[0].top(1 << 70), ValueError, "pass 1 or more"),
    (lambda: MAP.text(width="80"), TypeError, "width is '80'; pass an integer"),
    (lambda: MAP.svg(dpi=0), ValueError, "dpi 0 is out of range"),
    (lambda: MAP.svg(dpi=float("nan")), ValueError, "dpi nan is out of range"),
    (lambda: MAP.svg(width="1in"), ValueError, "leaves no room beside the labels; pass .* mm or more"),
    (lambda: MAP.svg(width=-1), ValueError, "width in inches .* is out of range"),
    (lambda: MAP.svg(width=float("inf")), ValueError, "width in inches inf is out of range"),
    (lambda: MAP.svg(width="8 miles"), ValueError, "width is '8 miles'; pass a number of pixels, or '80mm'"),
    (lambda: MAP.svg(width=None), TypeError, "width is None; pass a number"),
    (lambda: MAP.svg(font_size=1000), ValueError, "font size .* is out of range"),
    (lambda: MAP.svg(columns=1 << 70), ValueError, "pass 0 to 1024"),
    (lambda: MAP.svg(columns=1 << 40), ValueError, "columns .* is out of range; pass 0 to"),
    (lambda: MAP.svg(columns=-5), ValueError, "columns -1 is out of range"),
    (lambda: MAP.svg(maximum=-1), ValueError, "maximum -1 is no weight"),
    (lambda: MAP.svg(font=8), TypeError, "font is a int; pass text"),
    (lambda: MAP.svg(size=8), TypeError, "there is no option size; pass width, dpi, font_size, font"),
    (lambda: MAP.png(dpi=2400, width=100000), ValueError, "pixels are too many for a PNG; pass a smaller width or dpi"),
    (lambda: MAP.save("x.gif"), ValueError, "'x.gif' does not end in .html, .txt, .svg, .png, .pdf"),
    (lambda: MAP.save("png"), ValueError, "does not end in"),
    (lambda: MAP.save(""), ValueError, "does not end in"),
    (lambda: MAP.save("a\0.png"), ValueError, "zero byte"),
    (lambda: MAP.save(3), TypeError, "path is a int; pass the name of a file"),
    (lambda: MAP.save("x.html", dpi=3), TypeError, "as .html: there is no option dpi; pass none"),
    (lambda: MAP.save("x.txt", dpi=3), TypeError, "as .txt: there is no option dpi; pass width"),
    (lambda: heed.AttentionPage({}), ValueError, "there are no maps; pass one at least"),
    (lambda: heed.AttentionPage([MAP]), TypeError, "maps is a list; pass a dictionary"),
    (lambda: heed.AttentionPage({"a": W}), TypeError, "'a' is a ndarray; pass an AttentionMap"),
    (lambda: heed.AttentionPage({1: MAP}), TypeError, "a name is a int; pass text"),
    (lambda: heed.AttentionPage({"a": MAP}).save("x.png"), ValueError, "does not end in .html;"),
]


@pytest.mark.parametrize("call, error, text", REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_is_refused(call, error, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        call()
    assert os.listdir(tmp_path) == []
