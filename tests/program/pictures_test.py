"""Models of pictures from outside: heed classify, logits, attend and inspect; and what they refuse."""
import json
import math
import re
import resource
import shutil
import struct
import unittest
import zlib

from program import SANITIZED, SHARED, ProgramTest, npy, png, png_chunk, safetensors
from reading_test import npy_of, npz_of, softmax, tensors_of

MODELS = SHARED / "conformance/models"
VIT, WHISPER = MODELS / "vit", MODELS / "whisper"
LABELS = ["cat", "dog", "bird", "fish", "tree"]
PATCHES, SIDE = 4, 16  # on a side of the picture; pixels of that


def byte_npy(shape, values):
    """An npy of bytes, which program.npy does not make."""
    whole = npy(shape, [], descr="|u1")
    return whole + bytes(values)


def some_bytes(count):
    return bytes((37 * i * i + 11 * i) % 251 for i in range(count))


def few(memory):
    """Runs with so many bytes of memory."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory))}


@unittest.skipUnless(MODELS.exists(), "SKIPPED: needs shared/conformance/models, which is not here")
class Pictures(ProgramTest):
    def setUp(self):
        super().setUp()
        self.expected = tensors_of(VIT / "expected.safetensors")
        # The inputs are normal numbers, and no bytes: they are given as they are.
        shape, values = self.expected["pixel_values"]
        self.per = math.prod(shape[1:])
        for b in range(shape[0]):
            self.write(f"{b}.npy", npy(shape[1:], values[b * self.per:(b + 1) * self.per]))
        self.rgb = some_bytes(SIDE * SIDE * 3)
        self.write("picture.png", png(SIDE, SIDE, self.rgb))

    def close(self, got, want, tolerance=1e-4):
        self.assertEqual(len(got), len(want))
        most = max(abs(x) for x in want)
        self.assertLess(max(abs(a - b) for a, b in zip(got, want)), tolerance * most)


class Classes(Pictures):
    def test_probabilities_are_the_makers(self):
        shape, logits = self.expected["logits"]
        lines = self.succeeds("classify", "-m", VIT, "0.npy", "1.npy", "--json").splitlines()
        self.assertEqual(len(lines), 2)
        for b, line in enumerate(map(json.loads, lines)):
            self.assertEqual(line["picture"], f"{b}.npy")
            want = softmax(logits[b * shape[1]:(b + 1) * shape[1]])
            got = {entry["label"]: entry["score"] for entry in line["labels"]}
            self.close([got[label] for label in LABELS], want)
            self.assertEqual([entry["label"] for entry in line["labels"]], sorted(got, key=got.get, reverse=True))
            columns = self.succeeds("classify", "-m", VIT, f"{b}.npy", "--top", 2).rstrip("\n").split("\t")
            first, second = line["labels"][:2]
            self.assertEqual(columns, [f"{b}.npy", first["label"], f"{first['score']:.4f}", second["label"],
                                       f"{second['score']:.4f}"])

    def test_a_png_is_prepared_as_the_directory_says(self):
        pixels = [(self.rgb[3 * i + c] / 255 - 0.5) / 0.5 for c in range(3) for i in range(SIDE * SIDE)]
        self.write("prepared.npy", npy([3, SIDE, SIDE], pixels))
        self.write("one.npy", npy([1, 3, SIDE, SIDE], pixels, descr="<f8"))
        self.write("bytes.npy", byte_npy([SIDE, SIDE, 3], self.rgb))
        lines = self.succeeds("classify", "-m", VIT, "picture.png", "prepared.npy", "one.npy", "bytes.npy", "--top",
                              5).splitlines()
        self.assertEqual(len({line.split("\t", 1)[1] for line in lines}), 1, lines)

    def test_one_picture_as_an_option_and_into_a_file(self):
        plain = self.succeeds("classify", "-m", VIT, "picture.png")
        self.assertEqual(self.succeeds("classify", "-m", VIT, "-i", "picture.png"), plain)
        self.succeeds("classify", "-m", VIT, "picture.png", "-o", "out.txt")
        self.assertEqual((self.at / "out.txt").read_text(), plain)
        self.refuses(2, "is what the command reads", "classify", "-m", VIT, "picture.png", "0.npy", "-o", "0.npy")

    def test_names_of_files_stay_in_their_column(self):
        name = "a\tb\nc.png"
        shutil.copy(self.at / "picture.png", self.at / name)
        out = self.succeeds("classify", "-m", VIT, name)
        self.assertEqual(out.count("\n"), 1)
        self.assertEqual(out.count("\t"), 2)

    def test_a_model_without_a_head_or_labels(self):
        shutil.copytree(VIT, self.at / "bare")
        config = json.loads((VIT / "config.json").read_text())
        del config["id2label"], config["label2id"]
        (self.at / "bare/config.json").write_text(json.dumps(config))
        self.refuses(1, "classifier.weight", "classify", "-m", "bare", "picture.png")  # 5 classes, not 2
        config["architectures"] = ["ViTModel"]
        (self.at / "bare/config.json").write_text(json.dumps(config))
        self.refuses(2, "has no head", "classify", "-m", "bare", "picture.png")  # as AutoModel, which ignores it
        whole = (VIT / "model.safetensors").read_bytes()
        length, = struct.unpack("<Q", whole[:8])
        header, data, kept = json.loads(whole[8:8 + length]), whole[8 + length:], b""
        for name in sorted(header.keys() - {"__metadata__", "classifier.weight", "classifier.bias"}):
            begin, end = header[name]["data_offsets"]
            header[name]["data_offsets"] = [len(kept), len(kept) + end - begin]
            kept += data[begin:end]
        header = {name: entry for name, entry in header.items() if not name.startswith("classifier.")}
        (self.at / "bare/model.safetensors").write_bytes(safetensors(header, kept))
        self.refuses(2, "a vit, which reads pictures, and has no head", "classify", "-m", "bare", "picture.png")
        self.refuses(2, "leave out --out", "logits", "-m", "bare", "picture.png", "-o", "l.npy")
        self.assertTrue(self.succeeds("attend", "-m", "bare", "picture.png").startswith("self-attention"))


class Arrays(Pictures):
    def test_logits_states_and_weights_are_the_makers(self):
        layers = 2
        for b in range(2):
            self.heed("logits", "-m", VIT, f"{b}.npy", "-o", "l.npy", "--hidden", "h.npy", "--weights", "w.npz")
            shape, values = self.expected["logits"]
            got = npy_of((self.at / "l.npy").read_bytes())
            self.assertEqual(got[0], shape[1:])
            self.close(got[1], values[b * shape[1]:(b + 1) * shape[1]])
            tokens, width = 1 + PATCHES * PATCHES, 32
            states = npy_of((self.at / "h.npy").read_bytes())
            self.assertEqual(states[0], [layers + 1, tokens, width])
            each = tokens * width
            for n in range(layers + 1):  # the last ones are before the last norm
                self.close(states[1][n * each:(n + 1) * each], self.expected[f"hidden.{n}"][1][b * each:(b + 1) * each])
            weights = npz_of(self.at / "w.npz")
            self.assertEqual(sorted(weights), ["encoder_0", "encoder_1"])
            for n in range(layers):
                shape, values = self.expected[f"attention.{n}"]
                self.assertEqual(weights[f"encoder_{n}"][0], shape[1:])
                count = math.prod(shape[1:])
                for x, y in zip(weights[f"encoder_{n}"][1], values[b * count:(b + 1) * count]):
                    self.assertAlmostEqual(x, y, delta=1e-5)

    def test_what_makes_no_sense(self):
        self.refuses(2, "leave out --ids", "logits", "-m", VIT, "--ids", "1 2", "-o", "l.npy")
        self.refuses(2, "leave out --ids", "logits", "-m", VIT, "picture.png", "--target", "a", "-o", "l.npy")
        self.refuses(2, "is what the command reads", "logits", "-m", VIT, "0.npy", "-o", "0.npy")


class Attention(Pictures):
    def weights(self, layer, b=0):
        shape, values = self.expected[f"attention.{layer}"]
        heads, tokens = shape[1], shape[2]
        at = lambda h, i, j: values[((b * heads + h) * tokens + i) * tokens + j]
        return heads, at

    def digits(self, out):
        """The digits of the patches, row by row."""
        rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
        return [[int(d) for d in row[1:]] for row in rows if len(row) == PATCHES + 1]

    def check(self, out, grid):
        top = max(max(row) for row in grid)
        scale = float(out.split("9 from ")[1].split()[0]) / 0.9
        self.assertGreaterEqual(scale, 0.99 * top)
        for got, want in zip(self.digits(out)[-PATCHES:], grid):
            for d, w in zip(got, want):
                self.assertLessEqual(abs(d - min(9, 10 * w / scale)), 1.01)

    def test_the_class_token_looks_unless_a_patch_is_named(self):
        heads, at = self.weights(1)
        mean = lambda i, j: sum(at(h, i, j) for h in range(heads)) / heads
        grid = lambda i, w: [[w(i, 1 + r * PATCHES + c) for c in range(PATCHES)] for r in range(PATCHES)]
        out = self.succeeds("attend", "-m", VIT, "0.npy")
        self.assertIn("self-attention, layer 2 of 2, mean of 4 heads, from the class token", out)
        self.check(out, grid(0, mean))
        self.assertIn(f"note: {mean(0, 0):.3g} of the weight is on the class token", out)
        out = self.succeeds("attend", "-m", VIT, "0.npy", "--patch", "2,3", "--head", 2)
        self.assertIn("head 2, from patch 2,3", out)
        self.check(out, grid(1 + 1 * PATCHES + 2, lambda i, j: at(1, i, j)))

    def test_classes_stand_above(self):
        best, *_ = json.loads(self.succeeds("classify", "-m", VIT, "0.npy", "--json"))["labels"]
        first = self.succeeds("attend", "-m", VIT, "0.npy").splitlines()[0]
        self.assertTrue(first.startswith(f"{best['label']} {best['score']:.3g}"), first)

    def test_maps_of_tokens_as_of_a_text(self):
        self.assertIn("[CLS]", self.succeeds("attend", "-m", VIT, "0.npy", "--encoder", "--head", 1))
        lines = self.succeeds("attend", "-m", VIT, "0.npy", "--top", 1).splitlines()
        self.assertTrue(lines[-1].split()[0] == "4,4", lines[-1])
        self.assertIn("diagonal", self.succeeds("attend", "-m", VIT, "0.npy", "--statistics"))

    def test_colours_lie_over_the_picture(self):
        out = self.succeeds("attend", "-m", VIT, "picture.png", "--color", "always",
                            env={"COLORTERM": "truecolor", "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        blocks = [line for line in out.splitlines() if "\u2580" in line]
        # The picture and the weights, 24 lines at most, two columns of which are as wide as a line is high.
        self.assertEqual({line.count("\u2580") for line in blocks}, {2 * 2 * len(blocks)})
        self.assertGreater(len(set(re.findall(r"38;2;[0-9;]+m", out))), 50)

    def test_pictures(self):
        for more in ([], ["--heads", "all"], ["--all"], ["--patch", "1,1", "--width", "120mm"], ["--encoder"]):
            self.succeeds("attend", "-m", VIT, "picture.png", "--png", "p.png", "--svg", "p.svg", "--pdf", "p.pdf",
                          "--quiet", *more)
            self.assertTrue((self.at / "p.png").read_bytes().startswith(b"\x89PNG"))
            self.assertTrue((self.at / "p.pdf").read_bytes().startswith(b"%PDF"))
            svg = (self.at / "p.svg").read_text()
            self.assertEqual("patches over a picture" in svg, "--encoder" not in more, more)

    def test_a_page(self):
        self.succeeds("attend", "-m", VIT, "picture.png", "--html", "p.html", "--quiet")
        page = (self.at / "p.html").read_text()
        data = json.loads(page.split('id="data">')[1].split("</script>")[0])
        self.assertEqual([g["name"] for g in data["groups"]], ["Self-attention"])
        picture = data["groups"][0]["picture"]
        self.assertEqual({k: picture[k] for k in ("height", "width", "rows", "columns")},
                         {"height": SIDE, "width": SIDE, "rows": PATCHES, "columns": PATCHES})
        self.assertEqual(data["title"], "picture.png")
        self.assertEqual(data["opens"], {"asked": False, "group": 0, "heads": [], "query": -1})
        self.succeeds("attend", "-m", VIT, "picture.png", "--patch", "2,3", "--head", "2", "--html", "p.html", "--quiet")
        opens = json.loads((self.at / "p.html").read_text().split('id="data">')[1].split("</script>")[0])["opens"]
        last = (data["groups"][0]["layers"] - 1) * data["groups"][0]["heads"]
        self.assertEqual(opens, {"asked": True, "group": 0, "heads": [last + 1], "query": 1 + PATCHES + 2})

    def test_what_makes_no_sense(self):
        for more in (["--cross"], ["--decoder"], ["--target", "a"], ["--generate", 2],
                     ["--compare", "b", "--html", "p.html"]):
            with self.subTest(more):
                self.refuses(2, "a vit, which classifies pictures; leave out", "attend", "-m", VIT, "picture.png", *more)
        for patch in ("5,1", "0,1", "1,5"):
            self.refuses(2, "the picture has 4 rows of 4 patches", "attend", "-m", VIT, "picture.png", "--patch", patch)
        for patch in ("1", "a,b", "1,2,3", "1;2", "-1,1"):
            with self.subTest(patch):
                self.assertEqual(self.heed("attend", "-m", VIT, "picture.png", f"--patch={patch}").returncode, 2)
        self.refuses(2, "--patch is one of a picture", "attend", "-m", MODELS / "gpt2", "a", "--patch", "1,1")
        self.refuses(2, "leave out --encoder", "attend", "-m", VIT, "picture.png", "--encoder", "--patch", "1,1")
        self.refuses(2, "is what the command reads", "attend", "-m", VIT, "picture.png", "--png", "picture.png")


class Refused(Pictures):
    def test_files_that_are_no_picture(self):
        whole = (self.at / "picture.png").read_bytes()
        huge = whole[:16] + struct.pack(">II", 100_000, 100_000) + whole[24:]
        nan = [math.nan] * self.per
        cases = {"text.png": (b"hello", 1, "it is no PNG"),
                 "empty.png": (b"", 1, "it is no PNG"),
                 "cut.png": (whole[:len(whole) // 2], 1, "the PNG cannot be read"),
                 "huge.png": (huge, 1, "100000 x 100000"),
                 "nan.npy": (npy([3, SIDE, SIDE], nan), 2, "NaN at (0, 0, 0, 0)"),
                 "inf.npy": (npy([3, SIDE, SIDE], [0.0] * (self.per - 1) + [math.inf]), 2, "at (0, 2, 15, 15)"),
                 "shape.npy": (npy([3, 8, 8], [0.0] * 192), 2, "(3, 8, 8)"),
                 "flat.npy": (npy([self.per], [0.0] * self.per), 2, "give a picture"),
                 "grey.npy": (byte_npy([SIDE, SIDE], bytes(SIDE * SIDE)), 2, "give a picture"),
                 "alpha.npy": (byte_npy([SIDE, SIDE, 4], bytes(SIDE * SIDE * 4)), 2, "give a picture"),
                 "whole.npy": (npy([3, SIDE, SIDE], [1] * self.per, descr="<i8"), 2, "give a picture"),
                 "batch.npy": (npy([2, 3, SIDE, SIDE], [0.0] * 2 * self.per), 2, "give a picture"),
                 "none.npy": (byte_npy([0, 4, 3], b""), 2, "sides must be in"),
                 "text.npy": (b"hello", 1, "text.npy"),
                 "short.npy": (npy([3, SIDE, SIDE], [0.0] * 5), 1, "short.npy")}
        for name, (content, code, says) in cases.items():
            self.write(name, content)
            with self.subTest(name):
                self.refuses(code, says, "classify", "-m", VIT, name)
                self.refuses(code, says, "attend", "-m", VIT, name, "--html", "p.html")
                self.refuses(code, says, "logits", "-m", VIT, name, "-o", "l.npy")
        self.refuses(1, "missing.png", "classify", "-m", VIT, "missing.png")
        self.refuses(1, "heed", "classify", "-m", VIT, ".")
        self.refuses(2, "name PNG or npy files", "classify", "-m", VIT, stdin=b"a")
        self.refuses(2, "name PNG or npy files", "classify", "-m", VIT, "-")

    @unittest.skipIf(SANITIZED, "a sanitizer takes addresses without end")
    def test_a_small_file_takes_no_memory_of_a_large_picture(self):
        lines = zlib.compress(bytes(1 + 3 * 30000) * 1000)
        self.write("wide.png", b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 1000, 8, 2, 0, 0, 0))
                   + png_chunk(b"IDAT", lines) + png_chunk(b"IEND", b""))
        done = self.heed("classify", "-m", VIT, "wide.png", **few(2 << 30))
        self.assertIn(done.returncode, (0, 1), done.stderr.decode())
        self.assertLessEqual(done.stderr.count(b"\n"), 1)

    def test_how_to_prepare_must_be_told(self):
        shutil.copytree(VIT, self.at / "m")
        (self.at / "m/preprocessor_config.json").unlink()
        self.refuses(1, "preprocessor_config.json", "classify", "-m", "m", "picture.png")
        self.succeeds("classify", "-m", "m", "0.npy")
        self.write("m/preprocessor_config.json", '{"image_processor_type": "CLIPImageProcessor"}')
        self.refuses(1, "CLIPImageProcessor", "classify", "-m", "m", "picture.png")
        self.write("m/preprocessor_config.json", '{"size": 8}')
        self.refuses(2, "(1, 3, 8, 8)", "classify", "-m", "m", "picture.png")

    def test_other_commands(self):
        for model, does in ((VIT, "a vit"), (WHISPER, "a whisper")):
            self.assertIn("tensors", self.succeeds("inspect", model))
            for command in (["generate", "a"], ["translate", "a"], ["embed"], ["fill"]):
                with self.subTest(model.name, command=command):
                    name, *text = command
                    self.refuses(2, does, name, "-m", model, *text, stdin=b"a\n")
        self.refuses(1, "tokenizer", "tokenize", "-m", VIT, stdin=b"a\n")
        for command in (["classify"], ["attend", "a"], ["logits", "a", "-o", "l.npy"]):
            self.refuses(2, "a whisper, which writes down speech", *command, "-m", WHISPER, stdin=b"a\n")
        self.write("a.txt", "a\n")
        self.refuses(2, "of one file; give one", "classify", "-m", MODELS / "bert-classifier", "a.txt", "a.txt")
        for command in ("embed", "fill"):
            self.assertEqual(self.heed(command, "-m", MODELS / "bert", "a.txt", "a.txt").returncode, 2)


if __name__ == "__main__":
    unittest.main()
