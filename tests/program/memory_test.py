"""Commands with too little memory: each works or ends with one line, none hangs, and nothing is half-written.
HEED_TEST_ALL=1 lets every single allocation fail instead of a sample, and takes every limit from 40 MB in steps of 10."""
import os
import pathlib
import random
import resource
import shutil
import subprocess
import unittest

from program import HEED, TINY, ProgramTest, corpus, snapshot, zeros_npy

ALL = os.environ.get("HEED_TEST_ALL") == "1"
SHIM = os.environ.get("HEED_SHIM")  # not given under a sanitizer, which brings allocation of its own
TEXT = ["--d-model", "16", "--feed-forward", "32", "--vocab-type", "characters", "--block", "16", "--batch", "2",
        "--max-updates", "2", "--preset", "tiny", "--save-minutes", "0"]
# A small run of each command, and the files that it writes.
RUNS = {
    "translate": (["translate", "-m", "m", "--no-split"], []),
    "translate paragraphs": (["translate", "-m", "m", "-m", "m", "--json", "-b", "2"], []),
    "generate": (["generate", "-m", "w", "--max-tokens", "4", "el"], []),
    "score": (["score", "--reference", "dev.en", "-i", "dev.en", "--confidence"], []),
    "attend": (["attend", "-m", "m", "el perro"], []),
    "page": (["attend", "-m", "m", "el perro", "--html", "new.html"], ["new.html"]),
    "picture": (["attend", "-m", "m", "el perro", "--png", "new.png", "--pdf", "new.pdf"], ["new.png", "new.pdf"]),
    "inspect": (["inspect", "m"], []),
    "attention": (["attention", "--q", "q.npy", "--k", "q.npy", "--v", "q.npy", "--causal", "top-left", "--out", "new.npy",
                   "--weights", "w.npy"], ["new.npy", "w.npy"]),
    "export": (["export", "-m", "m", "--to", "new", "--dtype", "f16"], ["new"]),
    "average": (["average", "m", "m2", "--to", "new"], ["new"]),
    "train": (["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "new", *TINY, "--d-model", "16",
               "--feed-forward", "16", "--max-updates", "2", "--validate-every", "1", "--html", "new.html", "--quiet"],
              ["new", "new.html"]),
    "train a text": (["train", "--text", "train.tsv", "--model", "new", *TEXT, "--quiet"], ["new"]),
    "bench": (["bench", "--only", "attention", "--seconds", "0.01", "--json", "new.json"], ["new.json"]),
    "completion": (["completion", "bash"], []),
    "help": (["help", "translate"], []),
}
# Runs that many cores or fonts do not make larger: they work with so many megabytes, and with more.
ENOUGH = 250
FRUGAL = ["translate", "translate paragraphs", "generate", "score", "inspect", "export", "average", "train",
          "completion", "help"]


class Memory(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(60))
        self.write("dev.tsv", corpus(8, seed=2))
        self.write("dev.en", "the dog\nthe house is red\n" * 4)
        self.write("q.npy", zeros_npy(2, 70, 16))
        for arguments in (["--pairs", "train.tsv", "--model", "m", *TINY, "--d-model", "16", "--feed-forward", "16"],
                          ["--text", "train.tsv", "--model", "w", *TEXT]):
            done = self.heed("train", *arguments, "--max-updates", "2", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        shutil.copytree(self.at / "m", self.at / "m2")
        self.before = snapshot(self.at)

    def run_one(self, name, env=None, limit=None):
        """Runs it; what it wrote is checked and removed."""
        def set_limit():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        arguments, writes = RUNS[name]
        done = subprocess.run([HEED, *arguments], input=b"el perro. y la casa.\n", cwd=self.at, capture_output=True,
                              env={**os.environ, **(env or {})}, timeout=60, preexec_fn=set_limit if limit else None)
        error = done.stderr.decode()
        self.assertIn(done.returncode, (0, 1, 127), error)
        if done.returncode:
            self.assertEqual(error.count("\n"), 1, error)
            # The loader speaks for itself where it cannot map a library.
            self.assertTrue(error.startswith("heed") or "error while loading shared libraries" in error, error)
        after = snapshot(self.at)
        if done.returncode and "train" not in name:  # a training keeps what it had saved
            self.assertEqual({p: after.get(p) for p in self.before}, self.before)
        # What throws where nothing catches (a thread of sentencepiece's, a destructor of the JSON library's) ends as a
        # kill does, which saving_test.py is about: the next writer clears away.
        if "nothing caught" not in error:
            self.assertFalse([p for p in after if ".heed-" in p], "left behind")
        for path in sorted(after.keys() - self.before.keys(), key=len, reverse=True):
            self.assertIn(path.split("/")[0], writes)
            target = self.at / path
            target.rmdir() if target.is_dir() else target.unlink()
        return done


@unittest.skipUnless(SHIM, "SKIPPED: a sanitizer maps terabytes")
class Limits(Memory):
    def test_every_limit(self):
        worked = set()
        for limit in range(40, 410, 10) if ALL else [40, 60, 70, 80, 90, 110, 150, ENOUGH]:
            for name in RUNS:
                with self.subTest(name, limit=limit):
                    done = self.run_one(name, limit=limit * 10**6)
                    if limit >= ENOUGH and name in FRUGAL:
                        self.assertEqual(done.returncode, 0, done.stderr.decode())
                    if done.returncode == 0:
                        worked.add(name)
        if ALL:
            self.assertEqual(worked, set(RUNS))


@unittest.skipUnless(SHIM, "SKIPPED: a sanitizer brings allocation of its own")
class Allocations(Memory):
    def failing(self, count):
        """Which allocations fail: those of the beginning lie elsewhere in the program than those of the work."""
        if ALL:
            return range(1, count + 1)
        choose = random.Random(7)
        return sorted({*choose.sample(range(1, 400), 6), *(choose.randint(1, count) for _ in range(10))})

    def test_one_fails(self):
        self.each("SHIM_FAIL")

    def test_all_fail_from_one_on(self):
        self.each("SHIM_FROM")

    def test_inside_sentencepiece(self):
        # A vocabulary is loaded near the end; without a new handler one in six of these crashed.
        file = self.at.parent / (self.at.name + ".count")
        self.addCleanup(pathlib.Path.unlink, file, missing_ok=True)
        self.run_one("inspect", env={"LD_PRELOAD": SHIM, "SHIM_COUNT": str(file)})
        count = int(file.read_text())
        for n in range(count - 1500, count, 12):
            with self.subTest(n=n):
                self.run_one("inspect", env={"LD_PRELOAD": SHIM, "SHIM_FROM": str(n)})

    def each(self, how):
        for name in RUNS:
            file = self.at.parent / (self.at.name + ".count")
            self.addCleanup(pathlib.Path.unlink, file, missing_ok=True)
            shim = {"LD_PRELOAD": SHIM}
            self.assertEqual(self.run_one(name, env={**shim, "SHIM_COUNT": str(file)}).returncode, 0)
            count = int(file.read_text())
            self.assertGreater(count, 1000)
            for n in self.failing(count):
                with self.subTest(name, n=n):
                    self.run_one(name, env={**shim, how: str(n)})


if __name__ == "__main__":
    unittest.main()
