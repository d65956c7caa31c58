"""What the tests of the built program share: running it, and files made by hand. Standard library only."""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

HEED = os.environ["HEED_PROGRAM"]
SANITIZED = os.environ.get("HEED_SANITIZED") == "1"  # what takes seconds takes minutes there
SHARED = pathlib.Path(os.environ.get("HEED_SHARED", "../shared"))


class ProgramTest(unittest.TestCase):
    """Each test has a directory of its own, self.at, in which the program runs."""

    def setUp(self):
        self.at = pathlib.Path(tempfile.mkdtemp(prefix="heed-program-"))
        self.addCleanup(shutil.rmtree, self.at, ignore_errors=True)

    def heed(self, *arguments, stdin=b"", wrapper=(), env=None, **options):
        """Runs the program to its end; standard output and error are bytes."""
        if isinstance(stdin, str):
            stdin = stdin.encode()
        # A sanitized program that draws would list what it does not look at (fontconfig) on standard error.
        environment = {"LSAN_OPTIONS": "print_suppressions=0", **os.environ, **(env or {})}
        environment.pop("HEED_MODEL", None) if not env else None
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run([*wrapper, HEED, *map(str, arguments)], input=stdin, stderr=subprocess.PIPE,
                              cwd=self.at, env=environment, timeout=240, **options)

    def succeeds(self, *arguments, **options):
        """Standard output as text; standard error must be silent unless `says` is given, one line holding that."""
        says = options.pop("says", None)
        done = self.heed(*arguments, **options)
        error = done.stderr.decode()
        self.assertEqual(done.returncode, 0, error)
        if says is None and arguments[:1] in (("export",), ("average",)) and not {"--quiet", "-h", "--help", "--help-all"} & {
                *map(str, arguments)}:
            self.assertRegex(error, r"\Awrote [^\n]+\n\Z")
        elif says is None:
            self.assertEqual(error, "")
        else:
            self.assert_one_line(error, says)
        return done.stdout.decode() if done.stdout is not None else ""

    def refuses(self, code, says, *arguments, **options):
        """Exit status `code`, nothing on standard output, one line on standard error, and no file made or changed."""
        before = snapshot(self.at)
        done = self.heed(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertFalse(done.stdout)
        self.assert_one_line(done.stderr.decode(), says)
        self.assertEqual(snapshot(self.at), before)

    def assert_one_line(self, text, says):
        self.assertTrue(text.startswith("heed"), text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertIn(says, text)

    def write(self, name, content):
        path = self.at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


class TrainingTest(ProgramTest):
    """Runs `RUN`, a heed train that writes the directory m unless told otherwise."""
    RUN = []

    def start(self, *arguments, **options):
        return subprocess.Popen([HEED, *self.RUN, *arguments], cwd=self.at, stderr=subprocess.PIPE, text=True, **options)

    def train(self, *arguments, code=0, **options):
        done = self.heed(*self.RUN, *arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode()

    def model(self, directory="m"):
        return (self.at / directory / "model.safetensors").read_bytes()

    def until_line(self, process, part):
        for line in process.stderr:
            if part in line:
                return
        self.fail(f"ended with {process.wait()} before '{part}'")


def snapshot(directory):
    """Names and contents of all files."""
    return {str(p.relative_to(directory)): p.read_bytes() if p.is_file() else None for p in directory.rglob("*")}


# NumPy's names of types and those of the module struct.
LETTERS = {"<f2": "e", "<f4": "f", "<f8": "d", "|b1": "?", "<i4": "i", "<i8": "q"}


def npy(shape, values, descr="<f4", fortran=False):
    header = repr({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)})
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    letter = LETTERS.get(descr, "Q")
    data = struct.pack(f"<{len(values)}{letter}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def zeros_npy(*shape, **options):
    count = 1
    for size in shape:
        count *= size
    return npy(shape, [0.0] * count, **options)


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rgb):
    """A PNG of bytes, red, green and blue."""
    lines = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(lines)) + png_chunk(b"IEND", b""))


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# Words that translate one to one, so that a tiny model learns something within a second.
WORDS = [("perro", "dog"), ("pelo", "hair"), ("casa", "house"), ("rojo", "red"), ("grande", "big"), ("el", "the"),
         ("es", "is"), ("y", "and"), ("gato", "cat"), ("come", "eats"), ("pan", "bread"), ("hoy", "today")]


def corpus(count, seed=1):
    """Pairs of sentences as the text of a TSV file: Spanish, English."""
    choose = random.Random(seed)
    lines = []
    for _ in range(count):
        words = [choose.choice(WORDS) for _ in range(choose.randint(1, 6))]
        lines.append(" ".join(w[0] for w in words) + "\t" + " ".join(w[1] for w in words))
    return "\n".join(lines) + "\n"


# A model that takes milliseconds an update.
TINY = ["--preset", "tiny", "--d-model", "32", "--feed-forward", "32", "--vocab-size", "300", "--max-positions", "64",
        "--batch-tokens", "256", "--seed", "3", "--threads", "1", "--save-minutes", "0"]
