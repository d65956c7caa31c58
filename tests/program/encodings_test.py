"""Texts that are not UTF-8, lines that are no pairs: every command that reads texts names them, with the remedy."""
import gzip
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import tiny_models
from program import HEED, ProgramTest, SANITIZED, TINY, TrainingTest, corpus, npy

SENTENCES = "¿Dónde está el niño?\nÉl come piñas.\nMañana será otro día, señor.\n"
PAIRS = "".join(f"{line}\tthe dog {i}\n" for i, line in enumerate(SENTENCES.splitlines() * 100))
# Name, bytes of a text, the encoding that the message names and the one for iconv.
ENCODINGS = [("UTF-16", lambda text: text.encode("utf-16"), "UTF-16", "UTF-16"),
             ("UTF-16, big end first", lambda text: b"\xfe\xff" + text.encode("utf-16-be"), "UTF-16", "UTF-16"),
             ("UTF-16 without a mark", lambda text: text.encode("utf-16-le"), "UTF-16", "UTF-16LE"),
             ("UTF-16 without a mark, big end first", lambda text: text.encode("utf-16-be"), "UTF-16", "UTF-16BE"),
             ("UTF-32", lambda text: text.encode("utf-32"), "UTF-32", "UTF-32"),
             ("UTF-32 without a mark", lambda text: text.encode("utf-32-le"), "UTF-32", "UTF-32LE"),
             ("Latin-1", lambda text: text.encode("latin-1"), "not UTF-8", "ISO-8859-1"),
             ("Windows-1252", lambda text: (text + "“a” – “b”\t…\n").encode("cp1252"), "not UTF-8", "WINDOWS-1252")]
TRAIN = ["train", *TINY, "--model", "new", "--max-updates", "1"]


def setUpModule():
    global ROOT, TRANSLATOR, WRITER
    ROOT = pathlib.Path(tempfile.mkdtemp(prefix="heed-encodings-"))
    unittest.addModuleCleanup(shutil.rmtree, ROOT)
    (ROOT / "train.tsv").write_text(corpus(300))
    (ROOT / "text.txt").write_text("the dog sees the cat. " * 100)
    TRANSLATOR, WRITER = ROOT / "translator", ROOT / "writer"
    for model, data in ((TRANSLATOR, ["--pairs", ROOT / "train.tsv", *TINY]),
                        (WRITER, ["--text", ROOT / "text.txt", "--preset", "tiny", "--vocab-type", "characters",
                                  "--d-model", "16", "--block", "16", "--threads", "1"])):
        subprocess.run([HEED, "train", *data, "--model", model, "--max-updates", "2"], check=True,
                       stderr=subprocess.PIPE, timeout=240)


class Encodings(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(300))
        self.write("lines.txt", "el perro\n" * 3)
        self.write("text.txt", "the dog sees the cat. " * 100)
        self.write("w.npy", npy((3, 3), [1, 0, 0, 0, 1, 0, 0, 0, 1]))

    def commands(self, name):
        """Every way in which a command reads the text `name`, and whether it is of pairs. None: standard input."""
        text = ["train", "--preset", "tiny", "--vocab-type", "characters", "--d-model", "16", "--block", "16", "--model",
                "new", "--max-updates", "1"]
        of_pairs = [[*TRAIN, "--pairs", name], [*TRAIN, "--pairs", "train.tsv", "--valid-pairs", name],
                    ["prepare", "--to", "new.tokens", "--pairs", name],
                    [*TRAIN, "--init", "bert", "--labelled", name, "--columns", "2,1"]]
        of_lines = [[*TRAIN, "--source", name, "--target", name], [*TRAIN, "--pairs", "train.tsv", "--exclude", name],
                    [*text, "--text", name], [*text, "--text", "text.txt", "--valid-text", name],
                    ["prepare", "--to", "new.tokens", "--text", name],
                    ["translate", "-m", TRANSLATOR, "-i", name],
                    ["translate", "-m", TRANSLATOR, "-i", "lines.txt", "--force", name],
                    ["generate", "-m", WRITER, "-i", name], ["generate", "-m", WRITER, "-i", name, "--score"],
                    ["score", "-i", "lines.txt", "-r", name], ["score", "-r", "lines.txt", "-i", name],
                    ["tokenize", "-m", TRANSLATOR, name], ["embed", "-m", TRANSLATOR, name],
                    ["embed", "-m", TRANSLATOR, "lines.txt", "--similarity", name],
                    ["classify", "-m", "sentiment", name], ["fill", "-m", "masks", name],
                    ["attend", "--from", "w.npy", "--labels", name]]
        return [(c, True) for c in of_pairs] + [(c, False) for c in of_lines]

    @staticmethod
    def crossed(commands):
        """Each encoding with each command; under a sanitizer each of both once at least."""
        if SANITIZED:
            return [(ENCODINGS[i % len(ENCODINGS)], commands[i % len(commands)])
                    for i in range(max(len(ENCODINGS), len(commands)))]
        return [(encoding, command) for encoding in ENCODINGS for command in commands]

    def make_models(self):
        tiny_models.text_encoder(self.at / "sentiment", "BertForSequenceClassification")
        tiny_models.text_encoder(self.at / "masks", "BertForMaskedLM")
        tiny_models.text_encoder(self.at / "bert")

    def test_every_input(self):
        self.make_models()
        for (kind, encoded, says, iconv), (command, of_pairs) in self.crossed(self.commands("bad.txt")):
            if of_pairs and "--labelled" in command and says == "not UTF-8":
                continue  # TINY has options that this one has not: what is wrong with the text comes first, or not
            with self.subTest(f"{kind}: {' '.join(map(str, command))}"):
                self.write("bad.txt", encoded(PAIRS if of_pairs else SENTENCES))
                if "--labelled" in command:
                    command = ["train", "--init", "bert", "--labelled", "bad.txt", "--columns", "2,1", "--model", "new"]
                done = self.heed(*command)
                self.assertEqual(done.returncode, 2 if "--labels" in command else 1, done.stderr)
                last = done.stderr.decode().splitlines()[-1]
                self.assertIn("bad.txt: ", last)
                self.assertIn(says, last)
                self.assertIn(f"iconv -f {iconv} -t UTF-8 bad.txt > bad.utf8.txt", last)
                self.assertFalse((self.at / "new").exists() or (self.at / "new.tokens").exists())

    def test_standard_input(self):
        self.make_models()
        commands = [["translate", "-m", TRANSLATOR], ["generate", "-m", WRITER], ["generate", "-m", WRITER, "--score"],
                    ["score", "-r", "lines.txt"], ["tokenize", "-m", TRANSLATOR], ["embed", "-m", TRANSLATOR],
                    ["classify", "-m", "sentiment"], ["fill", "-m", "masks"], [*TRAIN, "--pairs", "-"]]
        for (kind, encoded, says, iconv), command in self.crossed(commands):
            with self.subTest(f"{kind}: {' '.join(map(str, command))}"):
                text = encoded(PAIRS if "--pairs" in command else SENTENCES)
                done = self.heed(*command, stdin=text)
                self.assertEqual(done.returncode, 1, done.stderr)
                last = done.stderr.decode().splitlines()[-1]
                self.assertIn("standard input: ", last)
                self.assertIn(says, last)
                self.assertTrue(last.endswith(f"iconv -f {iconv} -t UTF-8"), last)

    def test_the_command_converts(self):
        for name in ("an odd 'name'.tsv", "packed.tsv.gz"):
            text = PAIRS.encode("latin-1")
            self.write(name, gzip.compress(text) if name.endswith(".gz") else text)
            said = self.heed(*TRAIN, "--pairs", name).stderr.decode()
            command = said[said.rindex(" by ") + 4:].strip()
            subprocess.run(["bash", "-c", command], cwd=self.at, check=True)
            converted = name.removesuffix(".gz").replace(".tsv", ".utf8.tsv")
            self.assertEqual((self.at / converted).read_text(encoding="utf-8"), PAIRS)

    def test_no_text_at_all(self):
        self.write("bad.txt", bytes(range(256)) * 50)
        self.refuses(1, "it is no text", "translate", "-m", TRANSLATOR, "-i", "bad.txt")

    def test_a_few_damaged_bytes_pass(self):
        """They are replaced and counted, and so is what may stand in a text: NUL, a mark of UTF-8."""
        self.assertEqual(len(self.succeeds("translate", "-m", TRANSLATOR, "--beam", "1",
                                           stdin=b"\xef\xbb\xbfel perro\nel g\xe1to y la c\xe1s\xe1\n",
                                           says="U+FFFD in 3 places; a text in Latin-1").splitlines()), 2)
        many = "Él come piñas. " * 20 + "\n"
        self.succeeds("tokenize", "-m", TRANSLATOR, stdin=many.encode() + b"\xff" * 30 + b"\n", says="30 places")
        self.succeeds("tokenize", "-m", TRANSLATOR, stdin=b"el\0perro y el gato come pan hoy\n")


class BadLines(TrainingTest):
    RUN = TRAIN

    def setUp(self):
        super().setUp()
        self.lines = corpus(300).splitlines(keepends=True)
        self.write("bad.tsv", "".join([*self.lines[:100], "\n", *self.lines[100:200], "no columns\n"]).encode()
                   + b"el p\xe9rro\tthe dog\n" + "".join(self.lines[200:]).encode())
        self.write("good.tsv", "".join(self.lines))

    def test_are_named(self):
        advice = "; --skip-bad-lines leaves such lines out\n"
        self.refuses(1, "bad.tsv: line 101 is empty; each line is a pair" + advice, *TRAIN, "--pairs", "bad.tsv")
        self.write("short.tsv", "a\tb\nno columns\n")
        self.refuses(1, "short.tsv: line 2 has 1 column but column 2 is needed; columns are separated by one tab" + advice,
                     *TRAIN, "--pairs", "short.tsv")
        self.refuses(1, "line 2 has 1 column", "prepare", "--pairs", "short.tsv", "--to", "t")

    def test_are_left_out_and_counted(self):
        said = self.train("--pairs", "bad.tsv", "--skip-bad-lines", "--valid-fraction", "0")
        self.assertIn("left out 3 bad lines: 1 empty, 1 without all columns, 1 not UTF-8; the first is bad.tsv: line 101",
                      said)
        self.assertIn("300 training and 0 validation pairs", said)
        self.train("--pairs", "good.tsv", "--valid-fraction", "0", "--model", "good")
        self.assertTrue(self.model("new") == self.model("good"))
        self.assertIn("skip-bad-lines = true", (self.at / "new/train.toml").read_text())  # a resumed one does the same
        again = self.heed("train", "--resume", "new", "--max-updates", "2")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_of_two_files(self):
        sides = [[line.rstrip("\n").split("\t")[side].encode() + b"\n" for line in self.lines] for side in (0, 1)]
        sides[0].insert(7, b"el g\xe1to\n")
        sides[1].insert(7, b"the cat\n")
        sides[0].insert(20, b"el pan\n")
        sides[1].insert(20, b"the br\xe9ad\n")
        for name, side in zip("st", sides):
            self.write(name, b"".join(side))
        said = self.train("--source", "s", "--target", "t", "--skip-bad-lines", "--valid-fraction", "0")
        self.assertIn("left out 2 bad lines: 2 not UTF-8; the first is s: line 8", said)
        self.train("--pairs", "good.tsv", "--valid-fraction", "0", "--model", "good")
        self.assertTrue(self.model("new") == self.model("good"))

    def test_of_a_text(self):
        text = ["train", "--preset", "tiny", "--vocab-type", "characters", "--d-model", "16", "--block", "16",
                "--max-updates", "1", "--threads", "1", "--text"]
        good = "the dog sees the cat.\n" * 100
        self.write("text.txt", good.encode() + b"the d\xf6g\n" + good.encode())
        self.write("good.txt", good + good)
        done = self.heed(*text, "text.txt", "--skip-bad-lines", "--model", "new")
        self.assertIn(b"left out 1 bad line: 1 not UTF-8; the first is text.txt: line 101", done.stderr)
        self.heed(*text, "good.txt", "--model", "good")
        self.assertTrue(self.model("new") == self.model("good"))

    def test_prepared(self):
        done = self.heed("prepare", "--pairs", "bad.tsv", "--skip-bad-lines", "--vocab-size", "300", "--to", "bad.tokens")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"left out 3 bad lines", done.stderr)
        self.heed("prepare", "--pairs", "good.tsv", "--vocab-size", "300", "--to", "good.tokens")
        self.assertEqual((self.at / "bad.tokens").read_bytes(), (self.at / "good.tokens").read_bytes())


if __name__ == "__main__":
    unittest.main()
