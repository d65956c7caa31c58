"""scripts/get-data against homes made here: file:// folders, and a server that misbehaves."""
import contextlib
import functools
import gzip
import hashlib
import heapq
import http.server
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/get-data"
DATA = pathlib.Path(os.environ["HEED_SHARED"]) / "data"
HAVE = all((DATA / name).is_dir() for name in ("spa-eng", "multi30k", "tinyshakespeare"))
ABOUT = b"** Info **\nDate of this file:\n  2026-01-02\n"
# The first 8 hex digits of sha256, modulo 1000, by sha256sum and the shell's arithmetic.
PAIRS = [("Hug Tom.", 38), ("We tried.", 31), ("Go.", 486), ("Calm down.", 23)]


def zipped(path, pairs, about=ABOUT):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_about.txt", about)
        archive.writestr("spa.txt", pairs)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with `answer(self)`."""

    def __init__(self, answer, *arguments):
        self.answer = answer
        super().__init__(*arguments)

    def do_GET(self):
        with contextlib.suppress(ConnectionError):  # of clients that are killed
            self.answer(self)

    def log_message(self, *_):
        pass


class GetData(unittest.TestCase):
    def setUp(self):
        self.at = pathlib.Path(tempfile.mkdtemp(prefix="heed-get-data-"))
        self.addCleanup(shutil.rmtree, self.at, ignore_errors=True)
        self.home = self.at / "home"
        self.home.mkdir()

    def command(self, *arguments, home=None):
        home = home or self.home.as_uri()
        return [SCRIPT, "--to", self.at / "data", *(f"--from={name}={home}" for name in
                                                     ("spa-eng", "multi30k", "tinyshakespeare")), *arguments]

    def get(self, *arguments, home=None, wrapper=()):
        return subprocess.run([*wrapper, *self.command(*arguments, home=home)], capture_output=True, text=True,
                              timeout=120, check=False)

    def refuses(self, says, *arguments, code=1, **options):
        """One line, nothing under a final name, nothing temporary left."""
        done = self.get(*arguments, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(self.files(), [])

    def files(self):
        data = self.at / "data"
        return sorted(str(p.relative_to(data)) for p in data.rglob("*")) if data.exists() else []

    def serve(self, answer):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, answer))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    @unittest.skipUnless(HAVE, "needs shared/data, which is not here")
    def test_the_data_of_the_recipes(self):
        """Homes as they were: every file comes out with the bytes that the recipes were run on, and without a word."""
        whole = (DATA / "spa-eng/_about.txt").read_bytes()
        # The archive's order is that of the English side's length; lines of one part stay in theirs.
        parts = [(DATA / f"spa-eng/{part}.tsv").read_bytes().splitlines(keepends=True) for part in ("dev", "train")]
        merged = heapq.merge(*parts, key=lambda line: line.index(b"\t"))
        zipped(self.home / "spa-eng.zip", b"".join(merged), whole)
        for name in ("train.en", "train.de", "val.en", "val.de"):
            (self.home / f"{name}.gz").write_bytes(gzip.compress((DATA / "multi30k" / name).read_bytes(), 1))
        shutil.copy(DATA / "tinyshakespeare/input.txt", self.home)
        done = self.get()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("data/spa-eng: lines of train.tsv 113,294, dev.tsv 2,448", done.stdout)
        names = [f for f in self.files() if (self.at / "data" / f).is_file()]
        self.assertEqual(len(names), 8)
        for name in names:
            self.assertEqual((self.at / "data" / name).read_bytes(), (DATA / name).read_bytes(), name)

    def test_the_recipes_look_where_it_puts_them(self):
        known = runpy.run_path(str(SCRIPT))["KNOWN"]
        recipes = SCRIPT.parents[1] / "recipes"
        named = {path for recipe in recipes.glob("*.toml")
                 for path in re.findall(r'^[a-z-]+ *= *"([^"]*data/[^"]*)"', recipe.read_text(), re.MULTILINE)}
        self.assertGreater(len(named), 6)
        made = {f"../data/{name}/{file}" for name, files in known.items() for file in files}
        self.assertLessEqual(named, made)

    def test_the_split(self):
        """Each sentence where its number says, in the file's order, whatever else its line carries."""
        for english, n in PAIRS:
            self.assertEqual(int(hashlib.sha256(english.encode()).hexdigest()[:8], 16) % 1000, n, english)
        edges = {}  # a sentence for each number at an edge of the rule
        for i in range(100_000):
            edges.setdefault(int(hashlib.sha256(b"Sentence %d." % i).hexdigest()[:8], 16) % 1000, f"Sentence {i}.")
        lines = [f"{edges[n]}\tFrase {n}.\tCC-BY 2.0 (France) Attribution: tatoeba.org" for n in (39, 0, 40, 999, 19, 20)]
        lines += [f"{edges[40]}\tOtra.", f"{PAIRS[0][0]}\tAbraza a Tom."]
        zipped(self.home / "spa-eng.zip", "\r\n".join(lines) + "\r\n")
        done = self.get("--accept-changed", "spa-eng")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        for part in ("the home has moved on, and was split by the same rule", "train.tsv, dev.tsv, _about.txt"):
            self.assertIn(part, done.stderr)
        data = self.at / "data/spa-eng"
        self.assertEqual((data / "train.tsv").read_text(),
                         f"{edges[40]}\tFrase 40.\n{edges[999]}\tFrase 999.\n{edges[40]}\tOtra.\n")
        self.assertEqual((data / "dev.tsv").read_text(),
                         f"{edges[39]}\tFrase 39.\n{edges[20]}\tFrase 20.\nHug Tom.\tAbraza a Tom.\n")
        self.assertEqual((data / "_about.txt").read_bytes(), ABOUT)
        self.assertEqual(self.files(), ["spa-eng", "spa-eng/_about.txt", "spa-eng/dev.tsv", "spa-eng/train.tsv"])

    def test_what_is_there_stays(self):
        """A second run asks no home; a set that lacks a file, or holds something else, is not touched."""
        zipped(self.home / "spa-eng.zip", "Go.\tVe.\n")
        self.assertEqual(self.get("--accept-changed", "spa-eng").returncode, 0)
        (self.home / "spa-eng.zip").unlink()
        self.assertEqual(self.get("spa-eng").returncode, 0)
        (self.at / "data/spa-eng/dev.tsv").unlink()
        done = self.get("spa-eng")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there is no dev.tsv in it; move it away and run this again", done.stderr)
        self.assertEqual((self.at / "data/spa-eng/train.tsv").read_text(), "Go.\tVe.\n")

    def test_one_set_fails_the_others_are_brought(self):
        zipped(self.home / "spa-eng.zip", "Go.\tVe.\n")
        (self.home / "input.txt").write_bytes(b"First Citizen:\n")
        done = self.get("--accept-changed")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line for line in done.stderr.splitlines() if "train.en.gz" in line], [
            f"get-data: {self.home.as_uri()}/train.en.gz: [Errno 2] No such file or directory: "
            f"'{self.home}/train.en.gz'; run this again, or pass another home with --from"])
        self.assertEqual(self.files(), ["spa-eng", "spa-eng/_about.txt", "spa-eng/dev.tsv", "spa-eng/train.tsv",
                                        "tinyshakespeare", "tinyshakespeare/input.txt"])
        for name in ("train.en", "train.de", "val.en", "val.de"):
            (self.home / f"{name}.gz").write_bytes(gzip.compress(b"A man.\n"))
        done = self.get("--accept-changed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.at / "data/multi30k/val.de").read_bytes(), b"A man.\n")

    def test_other_checksums_are_refused(self):
        """Unless they are accepted; then each later run says that they differ."""
        (self.home / "input.txt").write_bytes(b"First Citizen:\n")
        self.refuses("input.txt of tinyshakespeare are not the files that the recipes' figures are of: their checksums "
                     "differ; pass --accept-changed to use them", "tinyshakespeare")
        self.assertFalse((self.at / "data").exists())
        for arguments in (["--accept-changed"], []):
            done = self.get(*arguments, "tinyshakespeare")
            self.assertEqual(done.returncode, 0)
            self.assertIn("other than the files of 2018", done.stderr)

    def test_a_directory_is_a_home(self):
        (self.home / "input.txt").write_bytes(b"First Citizen:\n")
        done = self.get("--accept-changed", "tinyshakespeare", home=str(self.home) + "/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.at / "data/tinyshakespeare/input.txt").read_bytes(), b"First Citizen:\n")
        self.assertIn("a URL or a local directory", self.get("--help").stdout)

    def test_only_the_directories_that_it_made_go(self):
        self.refuses("No such file", "tinyshakespeare")
        self.assertFalse((self.at / "data").exists())
        (self.at / "data").mkdir()
        self.refuses("No such file", "tinyshakespeare")
        self.assertTrue((self.at / "data").exists())

    def test_what_is_too_large(self):
        """Answers and archives without an end take no more memory than their limits."""
        def endless(handler):
            handler.send_response(200)
            handler.end_headers()
            while True:
                handler.wfile.write(b"First Citizen:\n" * 10000)
        limited = ["prlimit", f"--as={1 << 30}"]
        says = "is larger than 67,108,864 bytes"
        self.refuses(says, "tinyshakespeare", home=self.serve(endless), wrapper=limited)
        with open(self.home / "input.txt", "wb") as file:
            file.truncate(1 << 34)
        self.refuses(says, "tinyshakespeare", home=str(self.home), wrapper=limited)
        with zipfile.ZipFile(self.home / "spa-eng.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("_about.txt", ABOUT)
            with archive.open("spa.txt", "w", force_zip64=True) as member:
                for _ in range(300):
                    member.write(bytes(1 << 20))
        self.refuses("spa.txt: is larger than 268,435,456 bytes", "spa-eng", wrapper=limited)
        with gzip.open(self.home / "train.en.gz", "wb", 1) as file:
            for _ in range(300):
                file.write(bytes(1 << 20))
        self.refuses("train.en.gz: is larger than 268,435,456 bytes", "multi30k", wrapper=limited)

    def test_a_home_on_the_web(self):
        """Asked under a name that is no library's own, which some homes refuse, and by the file's plain path."""
        def only(handler):
            if handler.path != "/data/input.txt" or "urllib" in handler.headers["User-Agent"]:
                return handler.send_error(404)
            handler.send_response(200)
            handler.end_headers()
            return handler.wfile.write(b"First Citizen:\n")
        done = self.get("--accept-changed", "tinyshakespeare", home=self.serve(only) + "/data/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.at / "data/tinyshakespeare/input.txt").read_bytes(), b"First Citizen:\n")

    def test_homes_that_are_not(self):
        self.refuses("No such file", "tinyshakespeare")
        self.refuses("Connection refused", "tinyshakespeare", home="http://127.0.0.1:9")
        self.refuses("nothing/input.txt: No such file", "tinyshakespeare", home="nothing")
        self.refuses("unknown url type", "tinyshakespeare", home="nothing://here")
        for answer, says in ((404, "input.txt: 404 "), (403, "look where it is now, and pass that with --from")):
            self.refuses(says, "tinyshakespeare", home=self.serve(lambda h, answer=answer: h.send_error(answer)))

    def test_other_things_under_their_names(self):
        (self.home / "input.txt").write_bytes(b"<!DOCTYPE html><title>Log in</title>")
        self.refuses("is a web page, not the data", "tinyshakespeare")
        (self.home / "input.txt").write_bytes(b"")
        self.refuses("is empty, not the data", "tinyshakespeare")
        (self.home / "input.txt").write_bytes(b"First\xff")
        self.refuses("is not text in UTF-8, at byte 5", "tinyshakespeare")
        (self.home / "train.en.gz").write_bytes(b"<html>")
        self.refuses("is not a gzip file", "multi30k")
        (self.home / "train.en.gz").write_bytes(gzip.compress(b"A man walks.\n" * 99)[:-9])
        self.refuses("is not a gzip file", "multi30k")
        for name, lines in (("train.en", 2), ("train.de", 3), ("val.en", 1), ("val.de", 1)):
            (self.home / f"{name}.gz").write_bytes(gzip.compress(b"A man.\n" * lines))
        self.refuses("train.en has 2 lines and train.de 3; they belong together", "multi30k")
        (self.home / "spa-eng.zip").write_bytes(b"<html>")
        self.refuses("is not the archive of spa.txt and _about.txt", "spa-eng")
        with zipfile.ZipFile(self.home / "spa-eng.zip", "w") as archive:
            archive.writestr("fra.txt", "Go.\tVa !\n")
        self.refuses("is not the archive of spa.txt and _about.txt", "spa-eng")
        zipped(self.home / "spa-eng.zip", "Go.\tVe.\nGo.\n")
        self.refuses("line 2 of spa.txt has no tab", "spa-eng")
        zipped(self.home / "spa-eng.zip", "Go.\tVe.\n" * 999)
        whole = bytearray((self.home / "spa-eng.zip").read_bytes())
        whole[whole.index(b"spa.txt") + 12] ^= 0xFF
        (self.home / "spa-eng.zip").write_bytes(whole)
        self.refuses("is not the archive of spa.txt and _about.txt", "spa-eng")

    def test_archives_damaged_anywhere(self):
        for how in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with zipfile.ZipFile(self.home / "spa-eng.zip", "w", how) as archive:
                archive.writestr("spa.txt", "Go.\tVe.\n" * 999)
                archive.writestr("_about.txt", "from a test\n")
            whole = (self.home / "spa-eng.zip").read_bytes()
            for at in [30, 47, 60, len(whole) - 120, len(whole) - 100, len(whole) - 15]:
                with self.subTest(f"{how}, byte {at}"):
                    (self.home / "spa-eng.zip").write_bytes((whole[:at] + b"\xff" * 12 + whole[at + 12:])[:len(whole)])
                    done = self.get("spa-eng", "--accept-changed")
                    self.assertEqual(done.returncode, 1, done)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertNotIn("Traceback", done.stderr)

    def test_a_file_in_the_place_of_a_set(self):
        zipped(self.home / "spa-eng.zip", "Go.\tVe.\n" * 999)
        (self.home / "input.txt").write_text("First Citizen:\n")
        (self.at / "data").mkdir()
        (self.at / "data/spa-eng").write_text("mine")
        done = self.get("--accept-changed", "spa-eng", "tinyshakespeare")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Not a directory; move what is there away", done.stderr.splitlines()[0])
        self.assertEqual(self.files(), ["spa-eng", "tinyshakespeare", "tinyshakespeare/input.txt"])  # the other is brought
        self.assertEqual((self.at / "data/spa-eng").read_text(), "mine")

    def test_a_download_that_stops(self):
        def half(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b"First Citizen:\n")
        self.refuses("15 bytes read, 985 more expected", "tinyshakespeare", home=self.serve(half))

    def test_killed(self):
        """A kill in a download leaves nothing under the final name; the next run brings it, past what was left."""
        asked, end = threading.Event(), threading.Event()
        self.addCleanup(end.set)

        def stall(handler):
            if "val.de" in handler.path:
                asked.set()
                end.wait(60)
            content = gzip.compress(b"A man.\n")
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content)
        home = self.serve(stall)
        with subprocess.Popen(self.command("--accept-changed", "multi30k", home=home), stderr=subprocess.DEVNULL) as process:
            self.assertTrue(asked.wait(60))
            other = self.get("multi30k", home=home)
            self.assertEqual(other.returncode, 1)
            self.assertIn("another get-data brings it", other.stderr)
            process.send_signal(signal.SIGKILL)
        self.assertFalse((self.at / "data/multi30k").exists())
        (self.at / "data/.multi30k.part/train.en").write_bytes(b"half")
        end.set()
        done = self.get("--accept-changed", "multi30k", home=home)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.at / "data/multi30k/train.en").read_bytes(), b"A man.\n")
        self.assertEqual(len(self.files()), 5)

    def test_no_room(self):
        (self.home / "input.txt").write_bytes(b"First Citizen:\n" * 100)
        self.refuses("input.txt: File too large", "--accept-changed", "tinyshakespeare", wrapper=["prlimit", "--fsize=1000"])
        (self.at / "data").write_bytes(b"")
        done = self.get("tinyshakespeare")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn("Not a directory", done.stderr)

    def test_wrong_use(self):
        for arguments in (["spaeng"], ["--from=spa-eng"], ["--from=x=file:///"]):
            done = self.get(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(arguments[0].split("=", 1)[-1], done.stderr)
            self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
