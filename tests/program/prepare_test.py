"""heed prepare: tokens give the training of their texts, in memory that does not grow with them, and what is damaged,
hostile or not heed's is refused in one line."""
import gzip
import os
import pathlib
import random
import resource
import signal
import subprocess
import time
import unittest

from program import HEED, SANITIZED, TINY, TrainingTest, corpus

SHORT = ["--max-updates", "6", "--validate-every", "3", "--average", "2", "--log-every", "1", "--patience", "0"]
TEXT = ["--preset", "tiny", "--d-model", "16", "--block", "16", "--batch", "4", "--max-updates", "4", "--seed", "1",
        "--threads", "1"]


def peak_of(process):
    """The most memory in KiB that a process held beside the pages of files."""
    peak = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, int(status.split("RssAnon:")[1].split()[0]))
        except (OSError, IndexError):
            pass
        time.sleep(0.002)
    return peak


class PrepareTest(TrainingTest):
    RUN = ["train", *TINY, *SHORT, "--valid-pairs", "dev.tsv"]

    def setUp(self):
        super().setUp()
        self.lines = corpus(300).splitlines(keepends=True)
        self.write("train.tsv", "".join(self.lines))
        self.write("dev.tsv", corpus(20, seed=2))

    def prepare(self, *arguments, to="corpus.tokens", **options):
        done = self.heed("prepare", *arguments, "--to", to, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(done.stdout, b"")
        return done.stderr.decode()

    def same(self, one, other):
        for name in ["model.safetensors", "training.safetensors", "vocabulary.txt", "config.json"]:
            self.assertTrue((self.at / one / name).read_bytes() == (self.at / other / name).read_bytes(), name)


class Tokens(PrepareTest):
    def test_pairs_train_as_their_texts(self):
        said = self.prepare("--pairs", "train.tsv", "--vocab-size", "300")
        self.assertRegex(said, r"^wrote corpus.tokens: 300 pairs, [\d,]+ source and [\d,]+ target tokens, 300 "
                               r"pieces\n$")
        of_texts = self.train("--pairs", "train.tsv", "--model", "texts")
        of_tokens = self.train("--pairs", "corpus.tokens", "--model", "tokens")
        self.same("texts", "tokens")
        self.assertIn("300 training and 20 validation pairs", of_tokens)
        self.assertEqual(of_texts.count("\n"), of_tokens.count("\n"))
        card = (self.at / "tokens/MODEL_CARD.md").read_text()
        self.assertRegex(card, r"corpus.tokens: 300 sentence pairs, [\d,]+ source and [\d,]+ target tokens")

    def test_vocabularies_of_each_side(self):
        self.prepare("--pairs", "train.tsv", "--vocab-size", "290", "--separate-vocabularies")
        self.train("--pairs", "train.tsv", "--model", "texts", "--separate-vocabularies", "--vocab-size", "290")
        self.train("--pairs", "corpus.tokens", "--model", "tokens")
        self.same("texts", "tokens")
        self.assertTrue((self.at / "tokens/source_vocabulary.txt").exists())

    def test_what_is_chosen_is_chosen_by_the_same_rules(self):
        self.prepare("--pairs", "train.tsv")
        run = ["train", "--valid-pairs", "dev.tsv", "--max-updates", "3", "--seed", "3", "--subword-dropout", "0",
               "--pairs"]
        for data, model in [("train.tsv", "texts"), ("corpus.tokens", "tokens")]:
            done = self.heed(*run, data, "--model", model)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.same("texts", "tokens")

    def test_a_given_vocabulary_goes_on_to_other_data(self):
        self.train("--pairs", "train.tsv", "--model", "m")
        self.write("more.tsv", corpus(100, seed=5))
        self.prepare("--pairs", "-", "--vocabulary", "m/vocabulary.txt", stdin=(self.at / "more.tsv").read_bytes())
        for data, model in [("more.tsv", "texts"), ("corpus.tokens", "tokens")]:
            self.train("--pairs", data, "--model", model, "--init", "m")
        self.same("texts", "tokens")

    def test_a_text_trains_as_it_does_itself(self):
        text = "".join(f"the {i % 17} cat sat ñ on mat {i % 5}\n" for i in range(400))
        self.write("a.txt", text[:5000])
        self.write("b.txt.gz", gzip.compress(text[5000:].encode()))
        self.write("dev.txt", text[:900])
        for kind in (["--vocab-size", "300"], ["--vocab-type", "characters"]):
            with self.subTest(kind):
                self.prepare("--text", "[ab].txt*", *kind)
                for data, model in [(["[ab].txt*", *kind], "texts"), (["corpus.tokens"], "tokens")]:
                    done = self.heed("train", *TEXT, "--valid-text", "dev.txt", "--model", model + kind[1],
                                     "--text", *data)
                    self.assertEqual(done.returncode, 0, done.stderr.decode())
                self.same("texts" + kind[1], "tokens" + kind[1])
        done = self.heed("train", *TEXT, "--text", "corpus.tokens", "--model", "unwatched")
        self.assertIn("no validation: of tokens no part is held out", done.stderr.decode())
        self.assertEqual(done.returncode, 0)

    def test_thousand_files(self):
        for i in range(1000):
            self.write(f"part-{i:03}.tsv", self.lines[i % 300])
        self.write("all.tsv", "".join(self.lines[i % 300] for i in range(1000)))

        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

        self.prepare("--pairs", "part-*.tsv", "--vocab-size", "300", preexec_fn=few_files)
        for data, model in [("part-*.tsv", "parts"), ("all.tsv", "all"), ("corpus.tokens", "tokens")]:
            self.train("--pairs", data, "--model", model, preexec_fn=few_files)
        self.same("parts", "all")
        self.same("tokens", "all")
        self.assertIn("part-019.tsv and 980 more: 1,000 sentence pairs", (self.at / "parts/MODEL_CARD.md").read_text())

    def test_sources_left_out(self):
        self.write("out.txt", self.lines[0].split("\t")[0] + "\n")
        said = self.prepare("--pairs", "train.tsv", "--vocab-size", "300", "--exclude", "out.txt")
        self.assertRegex(said, r"left out [1-9]\d* pairs whose source is in out.txt")
        self.train("--pairs", "train.tsv", "--exclude", "out.txt", "--model", "texts")
        self.train("--pairs", "corpus.tokens", "--model", "tokens")
        self.same("texts", "tokens")

    def test_stopped_and_gone_on_with(self):
        self.prepare("--pairs", "train.tsv", "--vocab-size", "300")
        long = ["--pairs", "corpus.tokens", "--max-updates", "300", "--validate-every", "100"]
        self.train(*long, "--model", "whole")
        process = self.start(*long, "--model", "m")
        self.until_line(process, "update 20 ")
        process.terminate()
        process.communicate(timeout=60)
        self.assertIn("goes on after update", self.heed("train", "--resume", "m").stderr.decode())
        self.same("m", "whole")


class Refused(PrepareTest):
    def test_wrong_use(self):
        self.prepare("--pairs", "train.tsv", "--vocab-size", "300")
        self.write("book.txt", "the cat sat on the mat\n" * 50)
        self.prepare("--text", "book.txt", "--vocab-size", "280", to="text.tokens")
        self.write("notes.txt", "mine\n")
        self.train("--pairs", "train.tsv", "--vocab-size", "310", "--model", "m")
        os.mkfifo(self.at / "pipe")
        prepare, train = ["prepare", "--to", "new.tokens"], [*self.RUN, "--model", "new", "--pairs", "corpus.tokens"]
        for code, says, arguments in [
                (2, "give --pairs, or --source and --target, or --text", prepare),
                (2, "give --pairs, or --source and --target, or --text", [*prepare, "--pairs", "a", "--text", "b"]),
                (2, "--to is missing; usage: heed prepare --pairs FILE ... --to FILE [OPTIONS]", ["prepare", "--pairs", "train.tsv"]),
                (2, "give both --source and --target", [*prepare, "--source", "train.tsv"]),
                (2, "notes.txt is there and holds no tokens of heed's",
                 ["prepare", "--pairs", "train.tsv", "--to", "notes.txt"]),
                (2, "m is there and holds no tokens", ["prepare", "--pairs", "train.tsv", "--to", "m"]),
                (2, "pipe is there and holds no tokens", ["prepare", "--pairs", "train.tsv", "--to", "pipe"]),
                (2, "/dev/null is there and holds no tokens", ["prepare", "--pairs", "train.tsv", "--to", "/dev/null"]),
                (1, "none/new.tokens", ["prepare", "--pairs", "train.tsv", "--to", "none/new.tokens", "--vocabulary",
                                        "m/vocabulary.txt"]),
                (2, "train.tsv is what the command reads", ["prepare", "--pairs", "train.tsv", "--to", "train.tsv"]),
                (2, "standard input can be read once", [*prepare, "--pairs", "-"]),
                (2, "pipe can be read once", [*prepare, "--pairs", "pipe"]),
                (1, "--pairs none*: no file fits this pattern", [*prepare, "--pairs", "none*"]),
                (1, "corpus.tokens: tokens that heed prepare made", [*prepare, "--pairs", "corpus.tokens"]),
                (1, "nothing to prepare", [*prepare, "--pairs", "/dev/null"]),
                (1, "column 7 is needed", [*prepare, "--pairs", "train.tsv", "--columns", "1,7"]),
                (2, "--exclude is for sentence pairs", [*prepare, "--text", "book.txt", "--exclude", "notes.txt"]),
                (2, "--vocab-type is for --text", [*prepare, "--pairs", "train.tsv", "--vocab-type", "characters"]),
                (1, "corpus.tokens: tokens that heed prepare made", [*train, "train.tsv"]),
                (1, "corpus.tokens: tokens that heed prepare made",
                 [*self.RUN, "--model", "new", "--pairs", "train.tsv", "--valid-pairs", "corpus.tokens"]),
                (2, "--exclude needs texts", [*train, "--exclude", "notes.txt"]),
                (2, "--subword-dropout needs texts", [*train, "--subword-dropout", "0.1"]),
                (2, "--valid-fraction needs texts",
                 ["train", *TINY, "--model", "new", "--pairs", "corpus.tokens", "--valid-fraction", "0.1"]),
                (2, "--html needs texts",
                 ["train", *TINY, "--model", "new", "--pairs", "corpus.tokens", "--html", "page.html"]),
                (2, "was prepared with one vocabulary", [*train, "--separate-vocabularies"]),
                (2, "corpus.tokens was prepared with another vocabulary than m/vocabulary.txt; prepare it with",
                 [*train, "--vocabulary", "m/vocabulary.txt"]),
                (2, "another vocabulary than m/vocabulary.txt", [*train, "--init", "m"]),
                (2, "m has a model with --vocab-size 310, not 300",
                 [*self.RUN, "--model", "m", "--pairs", "corpus.tokens"]),
                (1, "text.tokens: the tokens of a text, for a language model",
                 [*self.RUN, "--model", "new", "--pairs", "text.tokens"]),
                (1, "corpus.tokens: sentence pairs, for a translator",
                 ["train", *TEXT, "--model", "new", "--text", "corpus.tokens"])]:
            with self.subTest(says, arguments=arguments):
                self.refuses(code, says, *arguments)

    def test_damaged_files(self):
        self.prepare("--pairs", "train.tsv", "--vocab-size", "300")
        whole = (self.at / "corpus.tokens").read_bytes()
        choose = random.Random(3)
        for size in [11, 16, 40, len(whole) // 2, len(whole) - 33, len(whole) - 1]:
            with self.subTest(size=size):
                self.write("cut.tokens", whole[:size])
                self.refuses(1, "cut.tokens", *self.RUN, "--pairs", "cut.tokens", "--model", "new")
        for at in [16, 1015, *(choose.randrange(16, len(whole) - 40) for _ in range(8))]:
            with self.subTest(at=at):
                self.write("flipped.tokens", whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1:])
                done = self.heed(*self.RUN, "--quiet", "--pairs", "flipped.tokens", "--model", f"m{at}")
                self.assertEqual(done.returncode, 1)
                self.assert_one_line(done.stderr.decode(), "flipped.tokens")

    def test_no_space(self):
        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

        self.refuses(1, "write new.tokens: File too large; raise the limit of a file's size", "prepare", "--pairs", "train.tsv",
                     "--vocab-size", "300", "--to", "new.tokens", preexec_fn=no_space)

    def test_killed(self):
        """What is there afterwards is the file of before or the whole new one; the next run clears away."""
        self.write("more.tsv", corpus(20000))
        self.prepare("--pairs", "train.tsv", "--vocab-size", "300")
        before = (self.at / "corpus.tokens").read_bytes()
        run = ["prepare", "--pairs", "more.tsv", "--vocab-size", "300", "--to"]
        began = time.monotonic()
        self.prepare(*run[1:-1], to="whole.tokens")
        took, after = time.monotonic() - began, (self.at / "whole.tokens").read_bytes()
        choose, killed = random.Random(4), 0
        for _ in range(12):
            process = subprocess.Popen([HEED, *run, "corpus.tokens"], cwd=self.at, stderr=subprocess.DEVNULL)
            time.sleep(choose.uniform(0, took))
            process.kill()
            killed += process.wait() != 0
            there = (self.at / "corpus.tokens").read_bytes()
            self.assertTrue(there in (before, after))
        self.assertGreater(killed, 2)
        self.prepare(*run[1:-1])
        self.assertTrue((self.at / "corpus.tokens").read_bytes() == after)
        self.assertEqual([name for name in os.listdir(self.at) if ".part" in name], [])


class Memory(PrepareTest):
    @unittest.skipIf(SANITIZED, "SKIPPED: a sanitizer keeps what was freed")
    def test_does_not_grow_with_the_corpus(self):
        self.train("--pairs", "train.tsv", "--model", "m")
        some = corpus(20000).splitlines()
        with open(self.at / "some.tsv", "w", encoding="utf-8") as file:  # about 200 bytes a line
            for i in range(0, len(some), 8):
                sides = [line.split("\t") for line in some[i:i + 8]]
                file.write(" ".join(s for s, _ in sides) + "\t" + " ".join(t for _, t in sides) + "\n")
        size, peaks = (self.at / "some.tsv").stat().st_size, {}
        for times in (5, 50):
            (self.at / "some.tokens").unlink(missing_ok=True)
            run = [HEED, "prepare", "--vocabulary", "m/vocabulary.txt", "--to", "some.tokens", "--threads", "1",
                   "--quiet", "--pairs", *["some.tsv"] * times]
            prepared = subprocess.Popen(run, cwd=self.at)
            peaks[times] = [peak_of(prepared)]
            self.assertEqual(prepared.returncode, 0)
            trained = subprocess.Popen([HEED, "train", *TINY, "--max-updates", "30", "--quiet", "--pairs",
                                        "some.tokens", "--model", f"m{times}"], cwd=self.at)
            peaks[times].append(peak_of(trained))
            self.assertEqual(trained.returncode, 0)
        more = 45 * size / 1024
        self.assertGreater(more, 15000)
        for few, many in zip(peaks[5], peaks[50]):
            self.assertLess(many - few, more / 3, peaks)  # of a window's pairs, lengths are kept


if __name__ == "__main__":
    unittest.main()
