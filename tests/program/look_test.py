"""heed attend on weights of other programs, what it prints of them, and the options of its pictures."""
import io
import json
import pathlib
import random
import re
import resource
import shutil
import struct
import unittest
import zipfile
import zlib

from program import ProgramTest, npy, zeros_npy

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/spa-eng"
TOKENS = ["El", "perro", "come", "pan", "."]


def weights(*shape, seed=1):
    """Rows that sum to 1, flat."""
    count = 1
    for size in shape[:-1]:
        count *= size
    uniform = random.Random(seed).random
    out = []
    for _ in range(count):
        row = [uniform() ** 4 for _ in range(shape[-1])]
        out += [w / sum(row) for w in row]
    return out


def npz(arrays, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in arrays.items():
            archive.writestr(name + ".npy", content)
    return out.getvalue()


class Look(ProgramTest):
    def writes(self, *arguments, files):
        """Runs to its end; only the names of the files are on standard error."""
        done = self.heed("attend", *arguments)
        self.assertEqual((done.returncode, done.stderr.decode()), (0, "".join(f"wrote {name}\n" for name in files)))
        return done.stdout.decode()


def page_data(path):
    text = path.read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


class Weights(Look):
    def setUp(self):
        super().setUp()
        self.write("tokens.txt", "\n".join(TOKENS) + "\n")

    def attend(self, *arguments, **options):
        return self.succeeds("attend", "--from", *arguments, **options)

    def test_each_rank_and_dtype(self):
        for shape in [(5, 5), (3, 5, 5), (2, 3, 5, 5)]:
            values = weights(*shape)
            for descr in ["<f2", "<f4", "<f8", ">f4"]:
                with self.subTest(shape=shape, descr=descr):
                    data = npy(shape, values, "<f4" if descr == ">f4" else descr)
                    if descr == ">f4":
                        head, body = data[:-4 * len(values)], data[-4 * len(values):]
                        data = head.replace(b"<f4", b">f4") + b"".join(body[i:i + 4][::-1] for i in range(0, len(body), 4))
                    self.write("w.npy", data)
                    out = self.attend("w.npy", "--labels", "tokens.txt", "--top", "1")
                    heads = values[-75:] if len(shape) > 2 else values
                    n = len(heads) // 25
                    for i, line in enumerate(out.splitlines()[1:]):
                        mean = [sum(heads[h * 25 + i * 5 + j] for h in range(n)) / n for j in range(5)]
                        best = mean.index(max(mean))
                        name, key, weight = line.split()
                        self.assertEqual((name, key), (TOKENS[i], TOKENS[best]))
                        self.assertAlmostEqual(float(weight), mean[best], delta=2e-3)

    def test_the_chosen_head(self):
        values = weights(2, 3, 5, 5)
        self.write("w.npy", npy((2, 3, 5, 5), values))
        out = self.attend("w.npy", "--top", "5", "--layer", "1", "--head", "3")
        self.assertIn("layer 1 of 2, head 3", out)
        head = values[50:75]
        for i, line in enumerate(out.splitlines()[1:]):
            row = head[5 * i:5 * i + 5]
            words = line.split()
            self.assertEqual([int(k) for k in words[1::2]], sorted(range(5), key=lambda j: -row[j])[:len(words) // 2])
            for key, weight in zip(words[1::2], words[2::2]):
                self.assertAlmostEqual(float(weight), row[int(key)], delta=6e-4)

    def test_map_statistics_pictures_and_page(self):
        self.write("w.npz", npz({"enc": npy((2, 3, 5, 5), weights(2, 3, 5, 5)), "dec": npy((5, 5), weights(5, 5))}))
        out = self.attend("w.npz", "--labels", "tokens.txt", says='shows array "enc", the first of 2')
        self.assertIn("enc, layer 2 of 2, mean of 3 heads", out)
        self.assertIn("perro", out)
        self.assertEqual(len(self.attend("w.npz", "--array", "enc", "--statistics").splitlines()), 7)
        names = ["a.png", "a.svg", "a.pdf", "a.html"]
        self.writes("--from", "w.npz", "--labels", "tokens.txt", "--all",
                    *[word for name in names for word in ("--" + name[2:], name)], files=names)
        self.assertEqual((self.at / "a.png").read_bytes()[:4], b"\x89PNG")
        self.assertIn("perro", (self.at / "a.svg").read_text())
        self.assertEqual((self.at / "a.pdf").read_bytes()[:5], b"%PDF-")
        data = page_data(self.at / "a.html")
        self.assertEqual([(g["name"], g["layers"], g["heads"], g["keyLabels"]) for g in data["groups"]],
                         [("enc", 2, 3, TOKENS), ("dec", 1, 1, TOKENS)])
        self.writes("--from", "w.npz", "--array", "dec", "--array", "enc", "--html", "b.html", files=["b.html"])
        self.assertEqual([g["name"] for g in page_data(self.at / "b.html")["groups"]], ["dec", "enc"])

    def test_the_terminal_beside_files(self):
        """A file is enough: nothing is printed but what was asked for."""
        self.write("w.npy", npy((2, 3, 5, 5), weights(2, 3, 5, 5)))
        map_ = self.attend("w.npy")
        for name in ["a.html", "a.png", "a.svg", "a.pdf"]:
            self.assertEqual(self.writes("--from", "w.npy", "--" + name[2:], name, files=[name]), "")
            self.assertEqual(self.writes("--from", "w.npy", "--" + name[2:], name, "--terminal", files=[name]), map_)
        for more in [["--top", "2"], ["--statistics"]]:
            self.assertEqual(self.writes("--from", "w.npy", *more, "--html", "a.html", files=["a.html"]),
                             self.attend("w.npy", *more))

    def test_the_page_opens_on_what_was_asked_for(self):
        self.write("w.npz", npz({"a": npy((2, 3, 5, 5), weights(2, 3, 5, 5)), "b": npy((5, 5), weights(5, 5))}))
        for more, heads in [([], []), (["--layer", "1", "--head", "2"], [1]), (["--head", "2"], [4]),
                            (["--layer", "1"], [0, 1, 2]), (["--heads", "1,3"], [3, 5]), (["--layer", "1", "--all"], [])]:
            self.writes("--from", "w.npz", *more, "--title", "a title", "--html", "p.html", files=["p.html"])
            data = page_data(self.at / "p.html")
            self.assertEqual((data["opens"], data["title"]), ({"asked": bool(more), "group": 0, "heads": heads, "query": -1}, "a title"),
                             more)

    def test_labels_of_queries_and_keys(self):
        self.write("w.npy", npy((2, 5), weights(2, 5)))
        self.write("q.txt", "uno\r\nשלום\r\n")
        out = self.attend("w.npy", "--query-labels", "q.txt", "--key-labels", "tokens.txt", "--top", "1")
        self.assertEqual([line.split()[0].strip("\u200e") for line in out.splitlines()[1:]], ["uno", "שלום"])
        self.assertEqual(self.attend("w.npy", "--query-labels", "q.txt", "--labels", "tokens.txt", "--top", "1"), out)
        self.write("q.txt", b"\x1b[2J\x07\n\xe2\x80\xaeabc\n")
        for more in [[], ["--top", "2"], ["--all"]]:
            out = self.attend("w.npy", "--query-labels", "q.txt", "--key-labels", "tokens.txt", *more)
            self.assertFalse(set(out) & set("\x1b\x07\u202e"), out)
        self.write("q.txt", b"\xff\nb\n")
        self.attend("w.npy", "--query-labels", "q.txt", "--top", "1", says="U+FFFD in 1 place")

    def test_labels_of_each_array(self):
        self.write("w.npz", npz({"encoder": npy((3, 3), weights(3, 3)), "cross": npy((2, 3), weights(2, 3))}))
        self.write("in.txt", "a\nb\nc\n")
        self.write("out.txt", "x\ny\n")

        def of(*arguments):
            self.writes("--from", "w.npz", *arguments, "--html", "p.html", files=["p.html"])
            return [(g["queryLabels"], g["keyLabels"]) for g in page_data(self.at / "p.html")["groups"]]

        read, written = ["a", "b", "c"], ["x", "y"]
        self.assertEqual(of("--labels", "in.txt", "--query-labels", "cross=out.txt"), [(read, read), (written, read)])
        self.assertEqual(of("--labels", "encoder=in.txt"), [(read, read), ([], [])])
        self.refuses(2, "in.txt has 3 lines for the 2 queries", "attend", "--from", "w.npz", "--labels", "in.txt")
        self.refuses(2, "is what the command reads", "attend", "--from", "w.npz", "--labels", "cross=in.txt", "--html", "in.txt")

    def test_odd_rows_are_flagged(self):
        nan = float("nan")
        self.write("w.npy", npy((4, 2), [0.5, 0.5, 0.2, 0.2, nan, 1, 0, 0]))
        for more in [[], ["--top", "1"], ["--statistics"]]:
            with self.subTest(more):
                out = " ".join(self.attend("w.npy", *more).split())
                for says in ["1 row does not sum to 1 (query 1 sums to 0.4)", "1 row is all zero", "1 weight is not finite"]:
                    self.assertIn("note: " + says, out)
        self.writes("--from", "w.npy", "--html", "p.html", files=["p.html"])
        self.assertEqual(len(page_data(self.at / "p.html")["groups"][0]["notes"]["0"]), 3)

    def test_heads_that_a_mean_hides(self):
        self.write("w.npy", npy((2, 1, 2), [1, 1, 0, 0]))
        done = self.heed("attend", "--from", "w.npy")
        self.assertEqual(done.returncode, 0)
        says = done.stderr.decode()
        self.assertIn("heads: 1 row does not sum to 1 (query 0 sums to 2)", says)
        self.assertIn("heads: 1 row is all zero", says)
        self.assertNotIn("note", done.stdout.decode())

    def test_one_token(self):
        self.write("w.npy", npy((1, 1), [1.0]))
        self.assertIn("1.000", self.attend("w.npy", "--top", "3"))
        self.writes("--from", "w.npy", "--html", "p.html", "--png", "p.png", files=["p.png", "p.html"])

    def test_fortran_order(self):
        values = weights(2, 5)
        turned = [values[i * 5 + j] for j in range(5) for i in range(2)]
        self.write("c.npy", npy((2, 5), values))
        self.write("f.npy", npy((2, 5), turned, fortran=True))
        out = self.attend("f.npy", "--top", "5", "--title", "x", says="Fortran order")
        self.assertEqual(out, self.attend("c.npy", "--top", "5", "--title", "x"))


class Refused(ProgramTest):
    """One clear line, status 2, no file."""

    def attend(self, says, *arguments):
        self.refuses(2, says, "attend", "--from", *arguments, "--html", "p.html", "--png", "p.png")

    def test_shapes_and_dtypes(self):
        for name, content, says in [
                ("a", npy((5,), [0.2] * 5), "has rank 1"), ("b", zeros_npy(1, 1, 1, 2, 2), "has rank 5"),
                ("c", npy((2, 2), [1, 0, 0, 1], "<i4"), "is i32"), ("d", npy((2, 2), [1, 0, 0, 1], "|b1"), "is bool"),
                ("e", zeros_npy(0, 4), "is empty"), ("f", zeros_npy(2, 0, 3, 3), "is empty"),
                ("g", zeros_npy(20000, 1, 1), "is too large"), ("h", zeros_npy(1, 70000), "is too large"),
                ("i", npy((), [1.0]), "has rank 0")]:
            with self.subTest(says, name=name):
                self.write(name + ".npy", content)
                self.attend(says, name + ".npy")
                self.write(name + ".npz", npz({"good": npy((1, 1), [1.0]), "bad one": content}))
                self.attend(says, name + ".npz")
                self.attend('array "bad one"', name + ".npz")
                self.succeeds("attend", "--from", name + ".npz", "--array", "good")

    def test_names_of_arrays_are_data(self):
        one = npy((1, 1), [1.0])
        for n, name in enumerate(["\x1b[31m<script>", "\u202e<script>"]):
            self.write("w.npz", npz({name: npy((5,), [0.2] * 5), "2": one}))
            self.write("v.npz", npz({name: one, "2": one}))
            for code, arguments in [(2, ["w.npz"]), (2, ["w.npz", "--array", "none"]), (0, ["v.npz"]),
                                    (0, ["v.npz", "--top", "1"]), (0, ["v.npz", "--html", f"{n}.html"])]:
                done = self.heed("attend", "--from", *arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                for character in "\x1b\u202e":
                    self.assertNotIn(character, done.stdout.decode() + done.stderr.decode())
            self.assertIn("<script>", page_data(self.at / f"{n}.html")["groups"][0]["name"])
            self.assertNotIn("<script>\"", (self.at / f"{n}.html").read_text())

    def test_damaged_files(self):
        good = npy((8, 8), weights(8, 8))
        self.write("cut.npy", good[:-1])
        self.write("long.npy", good + b"x")
        self.write("none.npy", b"")
        self.write("text.npy", "no array\n")
        self.write("object.npy", good.replace(b"<f4", b"|O8"))
        huge = good.replace(b"(8, 8)", b"(9223372036854775807, 4)").replace(b" " * 22 + b"\n", b"\n")
        self.write("huge.npy", huge)
        self.write("negative.npy", good.replace(b"(8, 8)", b"(-8,8)"))
        archive = npz({"a": good, "b": good})
        self.write("cut.npz", archive[:len(archive) // 2])
        self.write("none.npz", b"")
        self.write("empty.npz", npz({}))
        self.write("text.npz", "no archive\n")
        flipped = bytearray(npz({"a": good}, zipfile.ZIP_STORED))
        flipped[flipped.index(b"\n", 40) + 3] ^= 1  # the checksum no longer fits
        self.write("flipped.npz", bytes(flipped))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("readme.txt", "hello")
        self.write("other.npz", out.getvalue())
        for path in sorted(p.name for p in self.at.iterdir()):
            with self.subTest(path):
                self.attend(path, path)
        self.refuses(1, "missing.npy", "attend", "--from", "missing.npy")
        self.refuses(1, "directory", "attend", "--from", ".")

    def test_bombs(self):
        """Archives that claim, or hold, far more than anyone looks at: refused before they take the memory."""
        header = npy((60000, 60000), [])
        claim = struct.pack("<I", 60000 * 60000 * 4 % 2 ** 32)
        bomb = npz({"a": header + bytes(10000)})
        size = struct.pack("<I", len(header) + 10000)
        self.write("claim.npz", bomb.replace(size, claim))
        self.attend("claim.npz", "claim.npz")
        # 2.9 GB of zeros in 3 MB, a real one: a flushed block of a deflated stream may be repeated.
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        blocks, block = 2800, bytes(1 << 20)
        head = npy((blocks * 8, 1 << 15), [])
        start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
        repeated = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
        packed = start + blocks * repeated + packer.flush()
        total, crc = len(head) + blocks * len(block), zlib.crc32(head)
        for _ in range(blocks):
            crc = zlib.crc32(block, crc)
        name = b"a.npy"
        fields = struct.pack("<HHHIIIIHH", 20, 0, 8, 0x210000, crc, len(packed), total, len(name), 0)
        local = b"PK\x03\x04" + fields + name + packed
        central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
        end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
        self.write("real.npz", local + central + end)
        with zipfile.ZipFile(self.at / "real.npz") as z:
            self.assertEqual(z.infolist()[0].file_size, total)
        self.refuses(2, "too large to look at", "attend", "--from", "real.npz", "--html", "p.html")
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # kilobytes, of any child so far
        self.assertLess(most, 1_000_000)

    def test_labels_that_do_not_match(self):
        self.write("w.npz", npz({"a": npy((2, 3), weights(2, 3))}))
        self.write("two.txt", "a\nb\n")
        self.write("three.txt", "a\nb\nc\n")
        self.write("none.txt", "")
        for arguments, says in [(["--labels", "two.txt"], 'two.txt has 2 lines for the 3 keys of w.npz: array "a"'),
                                (["--labels", "three.txt"], "three.txt has 3 lines for the 2 queries"),
                                (["--query-labels", "none.txt"], "none.txt has 0 lines for the 2 queries"),
                                (["--key-labels", "two.txt"], "two.txt has 2 lines for the 3 keys")]:
            with self.subTest(says):
                self.attend(says, "w.npz", *arguments)
        self.succeeds("attend", "--from", "w.npz", "--labels", "three.txt", "--query-labels", "two.txt")
        self.refuses(1, "missing.txt", "attend", "--from", "w.npz", "--labels", "missing.txt")

    def test_choices_that_exclude_each_other(self):
        self.write("w.npy", npy((2, 2, 2), weights(2, 2, 2)))
        self.write("w.npz", npz({"a": npy((1, 1), [1.0])}))
        for says, arguments in [
                ("give a sentence", []), ("belong to --from", ["text", "--labels", "x"]),
                ("--from needs no model", ["text", "--from", "w.npy"]),
                ("--from needs no model", ["--from", "w.npy", "--compare-model", "x", "--html", "p.html"]),
                ("add --html", ["--from", "w.npy", "--compare", "x"]),
                ("add --html", ["text", "--compare", "x"]), ("add --html", ["text", "--compare-model", "x"]),
                ("one of --compare and --compare-model", ["text", "--compare", "x", "--compare-model", "y", "--html", "p"]),
                ("--compare: it is empty", ["text", "--compare", "", "--html", "p.html"]),
                ("--html: it is empty", ["--from", "w.npy", "--html", ""]),
                ("--heads: it is empty", ["--from", "w.npy", "--heads", ""]),
                ("one of --head, --heads and --all", ["--from", "w.npy", "--head", "1", "--heads", "1"]),
                ("--top looks at one head", ["--from", "w.npy", "--top", "1", "--all"]),
                ("one of --top, --statistics and --lens", ["--from", "w.npy", "--top", "1", "--statistics"]),
                ("head 3 is not in 1..2", ["--from", "w.npy", "--head", "3"]),
                ("head 3 is not in 1..2", ["--from", "w.npy", "--heads", "1-3"]),
                ("is no list", ["--from", "w.npy", "--heads", "2-1"]), ("is no list", ["--from", "w.npy", "--heads", "1,"]),
                ("is no list", ["--from", "w.npy", "--heads", "0"]), ("is no list", ["--from", "w.npy", "--heads", "1 2"]),
                ("layer 2 is not in 1..1", ["--from", "w.npy", "--layer", "2"]),
                ("--top", ["--from", "w.npy", "--top", "0"]), ("among the arrays", ["--from", "w.npy", "--array", "a"]),
                ('no array "b"; it has "a"', ["--from", "w.npz", "--array", "b"]),
                ("is no width", ["--from", "w.npy", "--width", "8 miles"]), ("is no width", ["--from", "w.npy", "--width", "-3mm"]),
                ("out of range", ["--from", "w.npy", "--width", "1mm", "--png", "p.png"]),
                ("--maximum", ["--from", "w.npy", "--maximum", "-1"])]:
            with self.subTest(says, arguments=arguments):
                self.refuses(2, says, "attend", *arguments)

    def test_no_file_takes_the_place_of_another(self):
        self.write("w.npy", npy((2, 2), weights(2, 2)))
        self.write("l.txt", "a\nb\n")
        for says, arguments in [("--svg w.npy is what the command reads", ["--svg", "w.npy"]),
                                ("./p is named twice", ["--png", "p", "--html", "./p"]),
                                ("is what the command reads", ["--labels", "l.txt", "--pdf", str(self.at / "l.txt")])]:
            self.refuses(2, says, "attend", "--from", "w.npy", *arguments)

    def test_nothing_is_written_when_one_file_fails(self):
        self.write("w.npy", npy((4, 4), weights(4, 4)))
        self.refuses(2, "too many for a PNG", "attend", "--from", "w.npy", "--html", "p.html", "--svg", "p.svg",
                     "--png", "p.png", "--width", "200in", "--dpi", "2400")


class Pictures(Look):
    def setUp(self):
        super().setUp()
        self.write("w.npy", npy((2, 4, 6, 6), weights(2, 4, 6, 6)))

    def svg(self, *arguments):
        self.writes("--from", "w.npy", "--svg", "p.svg", *arguments, files=["p.svg"])
        return (self.at / "p.svg").read_text()

    def size(self, svg):
        """Width in points."""
        return float(re.search(r'<svg[^>]* width="([0-9.]+)(pt)?"', svg).group(1))

    def test_width(self):
        for width, points in [("80mm", 80 / 25.4 * 72), ("8cm", 80 / 25.4 * 72), ("3in", 216), ("600px", 216), ("600", 216)]:
            self.assertAlmostEqual(self.size(self.svg("--width", width)), points, delta=0.5, msg=width)
        self.assertAlmostEqual(self.size(self.svg("--width", "600", "--dpi", "100")), 432, delta=0.5)
        self.writes("--from", "w.npy", "--png", "p.png", "--width", "80mm", "--dpi", "300", files=["p.png"])
        self.assertAlmostEqual(int.from_bytes((self.at / "p.png").read_bytes()[16:20], "big"), 945, delta=1)

    def test_font_and_title(self):
        self.assertGreater(self.size(self.svg("--font-size", "16")), 1.5 * self.size(self.svg()))
        self.assertIn("<title>A title</title>", self.svg("--title", "A title"))
        self.assertIn("<title>attention</title>", self.svg("--title", ""))
        self.assertNotEqual(self.svg("--font", "serif"), self.svg())
        self.assertNotEqual(self.svg("--maximum", "1"), self.svg())

    def test_a_row_of_heads(self):
        one, row, column = self.svg("--head", "2"), self.svg("--heads", "2-4"), self.svg("--heads", "2-4", "--columns", "1")
        self.assertGreater(self.size(row), 1.3 * self.size(one))
        self.assertLess(self.size(column), self.size(row) / 1.3)
        self.assertNotEqual(self.svg("--heads", "1,3"), self.svg("--heads", "1,4"))
        self.assertEqual(self.svg("--heads", "all"), self.svg("--heads", "1,2-3,4"))
        out = self.succeeds("attend", "--from", "w.npy", "--heads", "1,4", "--layer", "1")
        self.assertIn("head 4", out)
        self.assertNotIn("head 2", out)

    def test_labels_in_many_scripts(self):
        tokens = ["שלום", "مرحبا", "한국어", "ไทย", "👩‍👩‍👧‍👦", "e" + "\u0301" * 20]
        self.write("t.txt", "\n".join(tokens) + "\n")
        svg = self.svg("--labels", "t.txt")
        for token in tokens:
            self.assertIn(token, svg)


class Examples(Look):
    def test_in_the_terminal_and_as_a_page(self):
        out = self.succeeds("attend", "--examples")
        for name in ["Basic self-attention", "Dictionary on a circle", "Causal mask"]:
            self.assertIn(name, out)
        self.assertIn("PERRO  PERRO 0.427", " ".join(self.succeeds("attend", "--examples", "--top", "1").split("\n")))
        self.assertEqual(self.succeeds("attend", "--examples", "--statistics").count("entropy"), 3)
        self.assertEqual(self.writes("--examples", "--html", "p.html", files=["p.html"]), "")
        data = page_data(self.at / "p.html")
        self.assertEqual([(g["layers"], g["heads"], len(g["vectors"])) for g in data["groups"]], [(1, 1, 1)] * 3)
        self.assertEqual(data["title"], "Three textbook examples")

    def test_what_makes_no_sense(self):
        self.write("w.npy", npy((2, 2), [1, 0, 0, 1]))
        for more in (["text"], ["--model", MODEL], ["--cross"], ["--compare", "x", "--html", "p.html"], ["--patch", "1,1"]):
            self.refuses(2, "--examples needs no model: leave out the text", "attend", "--examples", *more)
        self.refuses(2, "choose one of --examples and --from", "attend", "--examples", "--from", "w.npy")
        self.refuses(2, "leave out --png", "attend", "--examples", "--png", "p.png")
        self.refuses(2, "layer 2 is not in 1..1", "attend", "--examples", "--layer", "2")


class Compare(Look):
    def test_the_page_has_both_texts(self):
        out = self.writes("El perro come.", "--model", MODEL, "--compare", "El gato come.", "--html", "p.html",
                          files=["p.html"])
        self.assertEqual(out, "")
        out = self.writes("El perro come.", "--model", MODEL, "--compare", "El gato come.", "--html", "p.html", "--terminal",
                          files=["p.html"])
        self.assertEqual(out.count("cross-attention, layer"), 2)
        data = page_data(self.at / "p.html")
        self.assertEqual([g["name"] for g in data["compared"]], ["Encoder", "Decoder", "Cross"])
        self.assertEqual(data["comparedTitle"], "El gato come.")
        self.assertTrue(data["comparedText"])
        self.assertIn("gato", "".join(data["compared"][0]["keyLabels"]))
        self.assertEqual(data["predictions"], [], "it is one model")
        self.refuses(2, "the text is empty", "attend", "El perro.", "--model", MODEL, "--compare", " ", "--html", "q.html")

    def test_two_models(self):
        """The same model twice, then with other weights; one that cannot be compared."""
        shutil.copytree(MODEL, self.at / "copy")
        self.writes("El perro come.", "--model", MODEL, "--compare-model", "copy", "--html", "p.html", files=["p.html"])
        data = page_data(self.at / "p.html")
        self.assertEqual((data["comparedTitle"], len(data["compared"])), ("copy", 3))
        self.assertEqual([g["statistics"] for g in data["compared"]], [g["statistics"] for g in data["groups"]])
        self.assertTrue(data["predictions"])
        for token, one, two in data["predictions"]:
            self.assertEqual(one, two, token)
        path = self.at / "copy/model.safetensors"
        content = bytearray(path.read_bytes())
        header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
        begin, end = header["encoder.layers.0.self_attn.in_proj_weight"]["data_offsets"]
        start = 8 + int.from_bytes(content[:8], "little")
        content[start + begin:start + end] = bytes(end - begin)
        path.write_bytes(content)
        out = self.writes("El perro come.", "--model", MODEL, "--compare-model", "copy", "--html", "p.html", "--terminal",
                          files=["p.html"])
        self.assertIn("How probable each token of the first is, in spa-eng and in copy:", out)
        self.assertEqual(out.count("cross-attention, layer"), 2)
        data = page_data(self.at / "p.html")
        self.assertNotEqual(data["compared"][0]["statistics"], data["groups"][0]["statistics"])
        self.assertTrue(any(one != two for _, one, two in data["predictions"]))
        for inside in ("copy/model.safetensors", str(MODEL / "config.json")):
            self.refuses(2, "is what the command reads", "attend", "text", "--compare-model", "copy", "--html", inside)
        self.refuses(1, "none", "attend", "text", "--compare-model", "none", "--html", "q.html")

    def test_other_weights_of_the_same_model(self):
        """Checkpoints are named by their files; what is no such file says so."""
        content = bytearray((MODEL / "model.safetensors").read_bytes())
        (self.at / "same.safetensors").write_bytes(content)
        start = 8 + int.from_bytes(content[:8], "little")
        begin, end = json.loads(content[8:start])["encoder.layers.0.self_attn.in_proj_weight"]["data_offsets"]
        content[start + begin:start + end] = bytes(end - begin)
        (self.at / "checkpoint.safetensors").write_bytes(content)
        for name, same in (("same.safetensors", True), ("checkpoint.safetensors", False)):
            out = self.writes("El perro come.", "--model", MODEL, "--compare-model", name, "--html", "p.html", "--terminal",
                              files=["p.html"])
            self.assertIn(f"in spa-eng and in {name}:", out)
            data = page_data(self.at / "p.html")
            self.assertEqual((data["comparedTitle"], len(data["compared"])), (name, 3))
            self.assertEqual(data["compared"][0]["statistics"] == data["groups"][0]["statistics"], same)
            self.assertEqual(all(one == two for _, one, two in data["predictions"]), same)
        header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        (self.at / "other.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
        (self.at / "broken.safetensors").write_bytes(content[:1000])
        for name, message in (("other", "belong to different models"), ("broken", "broken.safetensors"), ("none", "none")):
            self.refuses(1, message, "attend", "text", "--model", MODEL, "--compare-model", name + ".safetensors",
                         "--html", "q.html")
        self.refuses(2, "is what the command reads", "attend", "text", "--model", MODEL, "--compare-model", "same.safetensors", "--html",
                     "same.safetensors")

    def test_two_files(self):
        one, two = weights(2, 3, 5, 5, seed=1), weights(2, 3, 5, 5, seed=2)
        self.write("one.npy", npy((2, 3, 5, 5), one))
        self.write("two.npy", npy((2, 3, 5, 5), two))
        self.write("tokens.txt", "\n".join(TOKENS) + "\n")
        self.writes("--from", "one.npy", "--compare", "two.npy", "--labels", "tokens.txt", "--html", "p.html", files=["p.html"])
        data = page_data(self.at / "p.html")
        self.assertEqual((data["title"], data["comparedTitle"]), ("one.npy", "two.npy"))
        self.assertEqual(data["compared"][0]["keyLabels"], TOKENS)
        self.assertNotEqual(data["compared"][0]["statistics"], data["groups"][0]["statistics"])
        square = npy((1, 5, 5), weights(1, 5, 5))
        self.write("a.npz", npz({"x": npy((2, 3, 5, 5), one), "y": square}))
        self.write("b.npz", npz({"y": square, "z": square, "x": npy((2, 3, 5, 5), two)}))
        self.writes("--from", "a.npz", "--compare", "b.npz", "--html", "p.html", files=["p.html"])
        data = page_data(self.at / "p.html")
        self.assertEqual([g["name"] for g in data["compared"]], ["x", "y"], "those of the first, in its order")
        self.writes("--from", "a.npz", "--array", "y", "--compare", "b.npz", "--html", "p.html", files=["p.html"])
        self.assertEqual([g["name"] for g in page_data(self.at / "p.html")["compared"]], ["y"])
        self.write("c.npz", npz({"x": square, "y": square}))
        for other, code, says in [("c.npz", 2, "has 1 x 1 layers and heads, the first has 2 x 3"), ("one.npy", 2, "kinds of attention"),
                                  ("none.npz", 1, "none.npz")]:
            self.refuses(code, says, "attend", "--from", "a.npz", "--compare", other, "--html", "q.html")
        self.write("d.npz", npz({"y": square}))
        self.refuses(2, 'no array "x"', "attend", "--from", "a.npz", "--array", "x", "--compare", "d.npz", "--html", "q.html")
        self.refuses(2, "is what the command reads", "attend", "--from", "one.npy", "--compare", "two.npy", "--html", "two.npy")


class WithItsModel(Look):
    """What --live refuses; live_page_test.py looks at the pages."""

    def test_what_makes_no_sense(self):
        text = ["El perro come.", "--model", MODEL, "--live"]
        self.refuses(2, "--live is of the page; add --html FILE", "attend", *text)
        for more in (["--dtype", "int8"], ["--without", "1.1"]):
            self.refuses(2, "puts the model into the page as it is", "attend", *text, *more, "--html", "p.html")
        self.refuses(2, "puts the model into the page as it is", "attend", "--examples", "--live", "--html", "p.html")

    def test_its_files(self):
        self.writes("El perro come.", "--model", MODEL, "--live", "--html", "p.html", files=["p.html"])
        live = page_data(self.at / "p.html")["live"]
        self.assertEqual([name for name, _ in live["files"]], ["config.json", "vocabulary.txt", "model.safetensors"])
        self.assertEqual((live["kind"], live["beam"], live["generate"]), ("translates", 5, 0))
        self.assertIn("creativecommons.org", live["notice"])


class Heads(Look):
    """What --without, --change and --importance do."""
    TEXT = "El perro tiene el pelo suelto."

    def maps(self, *options):
        """Weights of the page: as they are, and changed."""
        self.writes(self.TEXT, *options, "--html", "page.html", files=["page.html"])
        data = page_data(self.at / "page.html")
        return data

    def test_both_outputs_and_probabilities(self):
        plain = self.writes(self.TEXT, files=[])
        out = self.writes(self.TEXT, "--without", "2.1,2.2,2.3,2.4", files=[])
        first, rest = out.split("\n", 1)
        self.assertEqual(first, "as learned: " + plain.split("\n", 1)[0])
        self.assertIn("\nwithout heads 2.1, 2.2, 2.3 and 2.4: ", rest)
        lines = rest[rest.index("How probable"):].splitlines()[1:]
        rows = [line.split() for line in lines[:lines.index("")]]
        self.assertEqual(rows[0][2], "The")
        self.assertTrue(all(0 <= float(p) <= 1 for row in rows for p in row[:2]))
        self.assertTrue(any(row[0] != row[1] for row in rows))

    def test_what_changes_nothing(self):
        out = self.writes(self.TEXT, "--change", "1.1=1", files=[])
        lines = out[out.index("How probable"):].splitlines()[1:]
        for line in lines[:lines.index("")]:
            self.assertEqual(line.split()[0], line.split()[1])

    def test_the_page_compares(self):
        data = self.maps("--change", "1.2=uniform", "--encoder")
        self.assertEqual(data["comparedTitle"], "with head 1.2 uniform")
        self.assertEqual(len(data["compared"]), len(data["groups"]))
        first = data["predictions"][0]
        self.assertEqual(first[0], "The")
        self.assertTrue(all(0 <= p <= 1 for _, one, two in data["predictions"] for p in (one, two)))
        self.assertTrue(any(one != two for _, one, two in data["predictions"]))

    def test_importance(self):
        self.write("pairs.tsv", "El perro tiene el pelo suelto.\tThe dog has loose hair.\nHola.\tHello.\n")
        out = self.writes("--importance", "pairs.tsv", files=[])
        tables = out.split("\n\n")
        self.assertEqual([t.split(",")[0] for t in tables],
                         ["encoder self-attention", "decoder self-attention", "cross-attention"])
        for table, layers in zip(tables, [3, 2, 2]):
            rows = [[float(x) for x in line.split()] for line in table.strip().splitlines()[1:]]
            self.assertEqual([len(row) for row in rows], [4] * layers)
            self.assertTrue(all(x >= 0 for row in rows for x in row))
            self.assertGreater(max(max(row) for row in rows), 0)

    def test_importance_in_the_page(self):
        self.write("pairs.tsv", f"{self.TEXT}\tThe dog has loose hair.\n")
        tables = self.writes("--importance", "pairs.tsv", files=[]).split("\n\n")
        data = self.maps("--importance", "pairs.tsv")
        self.assertEqual((data["opens"]["asked"], data["groups"][data["opens"]["group"]]["name"]), (True, "Cross"))
        for group, table in zip(data["groups"], tables, strict=True):
            numbers = [float(x) for line in table.strip().splitlines()[1:] for x in line.split()]
            for shown, x in zip(group["importance"], numbers, strict=True):
                self.assertAlmostEqual(shown, x, delta=1e-5)
        self.assertNotIn("importance", self.maps()["groups"][0])
        for more, says in [([self.TEXT], "add --html FILE"), (["--from", "w.npy", "--html", "p.html"], "--importance without a text"),
                           ([self.TEXT, "--html", "pairs.tsv"], "is what the command reads"), (["--png", "p.png"], "leave out files to write"),
                           ([self.TEXT, "--html", "p.html", "--dtype", "f16"], "leave out --dtype")]:
            self.refuses(2, says, "attend", "--importance", "pairs.tsv", *more)

    def test_wrong_lists(self):
        for options, says in [(["--without", "2"], "layer.head as in 2.1,3.4"),
                              (["--without", "2.1,"], "layer.head"),
                              (["--without", "0.1"], "layer.head"),
                              (["--without", "9.1"], "head 9.1 is not there: the model has 2 layers"),
                              (["--without", "2.5"], "this one with 4 heads"),
                              (["--without", "2.1", "--change", "2.1=2"], "head 2.1 is named twice"),
                              (["--change", "2.1"], "layer.head=what"),
                              (["--change", "2.1=nan"], "layer.head=what"),
                              (["--change", "2.1=both"], "uniform, previous or own"),
                              (["--change", "2.1=own"], "previous and own are for self-attention"),
                              (["--without", "2.1", "--compare", "x", "--html", "p.html"], "leave out --compare"),
                              (["--without", "2.1", "--compare-model", "x", "--html", "p.html"], "leave out --compare"),
                              (["--importance", "pairs.tsv"], "add --html")]:
            with self.subTest(options):
                done = self.heed("attend", self.TEXT, *options)
                self.assertEqual(done.returncode, 2 if "own" not in options[-1] or "both" in options[-1] else done.returncode)
                self.assertIn(says, done.stderr.decode())
                self.assertEqual(done.stdout, b"")
                self.assertFalse((self.at / "p.html").exists())


class Lens(Look):
    def test_in_the_terminal_and_in_the_page(self):
        text = "El perro come."
        out = self.writes(text, "--lens", files=[])
        translation, table = out.split("\n\n", 1)
        blocks = [block.splitlines() for block in table.rstrip("\n").split("\n\n")]
        self.assertEqual([[line.split()[:2] for line in block[1:]] for block in blocks], [[["layer", "1"], ["layer", "2"]]] * len(blocks))
        self.assertEqual(self.writes(text, "--lens", "--html", "p.html", files=["p.html"]), "")
        data = page_data(self.at / "p.html")
        self.assertEqual(len(data["steps"]), len(blocks))
        for step, block in zip(data["steps"], blocks, strict=True):
            self.assertEqual(len(step["layers"]), 2)
            self.assertEqual(step["layers"][-1], step["candidates"], "the last layer says what the model says")
            for line, layer in zip(block[1:], step["layers"], strict=True):
                self.assertEqual(line.split()[2], layer[0][0])
                self.assertAlmostEqual(float(line.split()[3]), layer[0][1], delta=6e-4)
        self.writes(text, "--html", "p.html", files=["p.html"])
        self.assertEqual({len(step["layers"]) for step in page_data(self.at / "p.html")["steps"]}, {0})
        self.write("w.npy", npy((2, 2), [1, 0, 0, 1]))
        self.refuses(2, "needs no model", "attend", "--from", "w.npy", "--lens")
        self.refuses(2, "choose one of", "attend", text, "--lens", "--top", "2")


class Measures(Look):
    TEXT = "El perro tiene el pelo suelto."

    def values(self, *options):
        """The title of --top and its values, of all queries together."""
        out = self.writes(self.TEXT, "--head", "1", "--top", "20", *options, files=[])
        title, rest = out.split("\n\n", 1)[1].split("\n", 1)
        return title, [float(x) for x in re.findall(r" (\d[\d.e+-]*)", rest)]

    def test_in_the_terminal(self):
        title, shares = self.values("--encoder", "--measure", "rollout")
        self.assertIn("encoder self-attention, rollout", title)
        tokens = round(len(shares) ** 0.5)
        self.assertEqual(len(shares), tokens ** 2)
        self.assertAlmostEqual(sum(shares), tokens, delta=0.03)  # each row sums to 1
        title, norms = self.values("--measure", "norms")
        self.assertIn("cross-attention, norms", title)
        self.assertNotAlmostEqual(sum(norms), sum(self.values()[1]), delta=0.1)
        out = self.writes(self.TEXT, "--measure", "gradient", "--layer", "1", "--head", "2", files=[])
        self.assertIn("below 0 a to i for 1 to 9", " ".join(out.split()))
        self.assertNotIn("note:", out)
        self.writes(self.TEXT, "--measure", "gradient", "--svg", "p.svg", files=["p.svg"])

    def test_in_the_page(self):
        self.assertEqual(self.writes(self.TEXT, "--measure", "norms,rollout,gradient,input", "--html", "p.html", files=["p.html"]), "")
        data = page_data(self.at / "p.html")
        self.assertEqual([(g["name"], g["measure"]) for g in data["groups"]],
                         [(name, "") for name in ("Encoder", "Decoder", "Cross")] +
                         [(name, "norms") for name in ("Encoder", "Decoder", "Cross")] +
                         [(name, "rollout") for name in ("Encoder", "Decoder")] +
                         [(name, "gradient") for name in ("Encoder", "Decoder", "Cross")] +
                         [(name, "input") for name in ("Decoder", "Cross")])
        self.assertEqual([g["shares"] for g in data["groups"]], [True] * 3 + [False] * 10)
        self.assertEqual([g["notes"] for g in data["groups"]], [{}] * 13)
        self.assertEqual(data["opens"], {"asked": True, "group": 5, "heads": [], "query": -1})

    def test_what_cannot_be_measured(self):
        self.write("w.npy", npy((2, 2), [1, 0, 0, 1]))
        for options, says in [(["--measure", "length"], '"length" is no measure; there are norms'),
                              (["--measure", "norms,"], '"" is no measure'),
                              (["--measure", "rollout"], "add --encoder or --decoder"),
                              (["--measure", "input", "--encoder"], "leave out --encoder"),
                              (["--measure", "norms", "--without", "1.1"], "leave out --without"),
                              (["--measure", "norms", "--statistics"], "--statistics, which are of weights"),
                              (["--measure", "norms", "--dtype", "f16"], "in float32")]:
            self.refuses(2, says, "attend", self.TEXT, *options)
        self.refuses(2, "needs no model", "attend", "--from", "w.npy", "--measure", "norms")


if __name__ == "__main__":
    unittest.main()
