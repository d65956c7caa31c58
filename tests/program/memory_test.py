"""Commands with too little memory: each works or ends with one line, none hangs, and nothing is half-written.
HEED_TEST_SAMPLES is the number of allocations of each command that fail in a process of their own, default 8; copies of
the process make about ten times as many fail. HEED_TEST_ALL=1 lets every single allocation fail in a copy, and takes every
limit from 40 MB in steps of 10."""
import os
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile
import unittest

import tiny_models
from program import HEED, TINY, ProgramTest, corpus, png, snapshot, zeros_npy

ALL = os.environ.get("HEED_TEST_ALL") == "1"
SAMPLES = int(os.environ.get("HEED_TEST_SAMPLES", "8"))
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
    "inspect as JSON": (["inspect", "m", "--json"], []),
    "score as JSON": (["score", "--reference", "dev.en", "-i", "dev.en", "--json"], []),
    "score a text": (["generate", "-m", "w", "--score", "--json", "el perro"], []),
    "attention": (["attention", "--q", "q.npy", "--k", "q.npy", "--v", "q.npy", "--causal", "top-left", "--out", "new.npy",
                   "--weights", "w.npy"], ["new.npy", "w.npy"]),
    "export": (["export", "-m", "m", "--to", "new", "--dtype", "f16"], ["new"]),
    "average": (["average", "m", "m2", "--to", "new"], ["new"]),
    "train": (["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "new", *TINY, "--d-model", "16",
               "--feed-forward", "16", "--max-updates", "2", "--validate-every", "1", "--html", "new.html", "--quiet"],
              ["new", "new.html"]),
    "prepare": (["prepare", "--pairs", "train.tsv", "--to", "new", "--vocab-size", "300", "--quiet"], ["new"]),
    "train a text": (["train", "--text", "train.tsv", "--model", "new", *TEXT, "--quiet"], ["new"]),
    "bench": (["bench", "--only", "attention", "--seconds", "0.01", "--json", "new.json"], ["new.json"]),
    "tokenize": (["tokenize", "-m", "m"], []),
    "embed": (["embed", "-m", "m", "-o", "new.npy"], ["new.npy"]),
    "similarity": (["embed", "-m", "words", "--similarity", "dev.en"], []),
    "classify": (["classify", "-m", "classes", "--json"], []),
    "classify a picture": (["classify", "-m", "vit", "cat.png"], []),
    "attend to a picture": (["attend", "-m", "vit", "cat.png", "--html", "new.html", "--png", "new.png", "-q"],
                            ["new.html", "new.png"]),
    "fill": (["fill", "-m", "words", "--mask", "perro"], []),
    "logits": (["logits", "-m", "m", "el perro", "--target", "the dog", "--out", "new.npy", "--weights", "new.npz", "-q"],
               ["new.npy", "new.npz"]),
    "completion": (["completion", "bash"], []),
    "help": (["help", "translate"], []),
}
# Runs that many cores or fonts do not make larger: they work with so many megabytes, and with more.
ENOUGH = 250
# Every which allocation fails in a copy: few of a translation's are inside sentencepiece, where a failure once was a crash.
# With HEED_TEST_SAMPLES=40, one of 97, of a translation one of 7.
EVERY, OFTENER = 1 + 96 * 40 // SAMPLES, {"translate": 1 + 6 * 40 // SAMPLES, "prepare": 1 + 400 * 40 // SAMPLES,
                                          "train": 1 + 996 * 40 // SAMPLES}
FRUGAL = ["translate", "translate paragraphs", "generate", "score", "inspect", "export", "average", "train", "prepare",
          "tokenize", "embed", "classify", "fill", "logits", "completion", "help"]


class Memory(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(60))
        self.write("dev.tsv", corpus(8, seed=2))
        self.write("dev.en", "the dog\nthe house is red\n" * 4)
        self.write("q.npy", zeros_npy(2, 70, 16))
        self.write("in.txt", "el perro. y la casa.\n")
        for arguments in (["--pairs", "train.tsv", "--model", "m", *TINY, "--d-model", "16", "--feed-forward", "16"],
                          ["--text", "train.tsv", "--model", "w", *TEXT]):
            done = self.heed("train", *arguments, "--max-updates", "2", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        shutil.copytree(self.at / "m", self.at / "m2")
        tiny_models.text_encoder(self.at / "words", "BertForMaskedLM")
        tiny_models.text_encoder(self.at / "classes", "BertForSequenceClassification")
        tiny_models.image_encoder(self.at / "vit")
        self.write("cat.png", png(8, 8, bytes(range(192))))
        self.before = snapshot(self.at)

    def run_one(self, name, *more, env=None, limit=None, timeout=60):
        """Runs it; what it wrote is checked and removed."""
        def set_limit():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        arguments, writes = RUNS[name]
        with open(self.at / "in.txt", "rb") as text:
            done = subprocess.run([HEED, *arguments, *more], stdin=text, cwd=self.at, capture_output=True,
                                  env={**os.environ, **(env or {})}, timeout=timeout,
                                  preexec_fn=set_limit if limit else None)
        after = snapshot(self.at)
        changed = [p for p in after if p not in self.before or after[p] != self.before[p]]
        self.check(name, done.returncode, done.stderr.decode(), changed, self.before.keys() - after.keys())
        for path in sorted(after.keys() - self.before.keys(), key=len, reverse=True):
            self.assertIn(path.split("/")[0], writes)
            target = self.at / path
            target.rmdir() if target.is_dir() else target.unlink()
        return done

    def check(self, name, status, error, changed, removed):
        """`changed` and `removed`: files that a run with too little memory made or changed, and removed."""
        self.assertIn(status, (0, 1, 127), error)
        if status:
            self.assertEqual(error.count("\n"), 1, error)
            # The loader speaks for itself where it cannot map a library.
            self.assertTrue(error.startswith("heed") or "error while loading shared libraries" in error, error)
        if status and "train" not in name:  # a training keeps what it had saved
            self.assertFalse([p for p in (*changed, *removed) if p in self.before], error)
        # What throws where nothing catches (a thread of sentencepiece's, a destructor of the JSON library's) ends as a
        # kill does, which saving_test.py is about: the next writer clears away.
        if "nothing caught" not in error:
            self.assertFalse([p for p in changed if ".heed-" in p], "left behind")


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
    def setUp(self):
        super().setUp()
        memory = "/dev/shm"  # where files are made and removed ten times as fast
        self.beside = pathlib.Path(tempfile.mkdtemp(prefix="heed-", dir=memory if os.access(memory, os.W_OK) else None))
        self.addCleanup(shutil.rmtree, self.beside, ignore_errors=True)

    def test_one_fails(self):
        self.sample("SHIM_FAIL")

    def test_all_fail_from_one_on(self):
        self.sample("SHIM_FROM")

    def test_each_one_fails(self):
        self.each()

    def test_all_fail_from_each_one_on(self):
        self.each(SHIM_ALL="1")

    def sample(self, how):
        """A process for each, with as many threads as the machine has, and with the processes that it begins. Those of
        the beginning lie elsewhere in the program than those of the work."""
        choose, file = random.Random(7), self.beside / "count"
        for name in RUNS:
            done = self.run_one(name, env={"LD_PRELOAD": SHIM, "SHIM_COUNT": str(file)})
            self.assertEqual(done.returncode, 0)
            count = int(file.read_text())
            self.assertGreater(count, 1000)
            for n in sorted({*choose.sample(range(1, 400), 3 * SAMPLES // 8),
                             *(choose.randint(1, count) for _ in range(5 * SAMPLES // 8))}):
                with self.subTest(name, n=n):
                    self.run_one(name, env={"LD_PRELOAD": SHIM, how: str(n)})

    def each(self, **how):
        """One thread, so that a copy of the process can go on from each."""
        log = self.beside / "log"
        for name, (arguments, _) in RUNS.items():
            more = [] if arguments[0] in ("completion", "help") or "--threads" in arguments else ["--threads", "1"]
            every = 1 if ALL else OFTENER.get(name, EVERY)
            done = self.run_one(name, *more, timeout=None, env={
                "LD_PRELOAD": SHIM, "SHIM_EACH": str(every), "SHIM_LOG": str(log), "SHIM_ROOM": str(self.beside / "room"),
                **how})
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            tried, left_out = 0, 0
            for line in log.read_text().splitlines():
                number, status, *rest = line.split("\t")
                if status == "left out":
                    left_out += 1
                    continue
                tried += 1
                with self.subTest(name, n=int(number)):
                    changed, error = rest
                    error = error.replace("\\n", "\n").replace("\\t", "\t")
                    files = changed.split(",") if changed else []
                    self.check(name, os.waitstatus_to_exitcode(int(status)), error,
                               [f for f in files if f[0] != "-"], [f[1:] for f in files if f[0] == "-"])
            log.unlink()
            self.assertGreater(tried, 1000 // every)
            print(f"{name}: {tried} allocations, {left_out} left out", flush=True)


if __name__ == "__main__":
    unittest.main()
