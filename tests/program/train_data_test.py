"""heed train: where its data comes from, how it goes on from its directory alone, recipes, and what it says."""
import fcntl
import gzip
import itertools
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import termios
import unittest

from program import HEED, SANITIZED, SHARED, TINY, TrainingTest, corpus, snapshot

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"
SHORT = [*TINY, "--max-updates", "4", "--validate-every", "2", "--average", "2", "--log-every", "1",
         "--patience", "0", "--schedule", "inverse-square-root"]


class DataTest(TrainingTest):
    RUN = ["train", *SHORT, "--model", "m"]

    def setUp(self):
        super().setUp()
        lines = corpus(300).splitlines(keepends=True)
        self.lines = lines
        self.write("train.tsv", "".join(lines))
        self.write("a.tsv", "".join(lines[:100]))
        self.write("b1.tsv", "".join(lines[100:150]))
        self.write("b2.tsv", "".join(lines[150:]))
        self.write("dev.tsv", corpus(20, seed=2))
        for name, column in [("s", 0), ("t", 1)]:
            self.write(name, "".join(line.rstrip("\n").split("\t")[column] + "\n" for line in lines))
            self.write("dev." + name, "".join(
                line.split("\t")[column] + "\n" for line in corpus(20, seed=2).splitlines()))

    def state(self, directory="m"):
        return (self.at / directory / "training.safetensors").read_bytes()


class Sources(DataTest):
    def same_as_one_file(self, *arguments, **options):
        """However the pairs are named, the training is that on train.tsv."""
        if not (self.at / "one").exists():
            self.train("--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "one")
        said = self.train("--model", "m", *arguments, **options)
        self.assertIn("300 training and 20 validation pairs", said)
        self.assertTrue(self.state() == self.state("one"))
        for file in (self.at / "m").iterdir():
            file.unlink()
        (self.at / "m").rmdir()

    def test_files_patterns_gzip_and_standard_input(self):
        dev = ["--valid-pairs", "dev.tsv"]
        self.same_as_one_file("--pairs", "a.tsv", "--pairs", "b1.tsv", "--pairs", "b2.tsv", *dev)
        self.same_as_one_file("--pairs", "a.tsv", "b1.tsv", "b2.tsv", *dev)
        self.same_as_one_file("--pairs", "a.tsv", "b[12].tsv", *dev)
        self.same_as_one_file("--pairs", "-", *dev, stdin=(self.at / "train.tsv").read_bytes())
        self.write("b.tsv.gz", gzip.compress((self.at / "b1.tsv").read_bytes()) +
                   gzip.compress((self.at / "b2.tsv").read_bytes()))
        self.same_as_one_file("--pairs", "a.tsv", "b.tsv.gz", *dev)
        self.same_as_one_file("--pairs", "-", *dev, stdin=gzip.compress((self.at / "train.tsv").read_bytes()))
        self.same_as_one_file("--source", "s", "--target", "t", "--valid-source", "dev.s", "--valid-target", "dev.t")
        self.write("s.gz", gzip.compress((self.at / "s").read_bytes()))
        self.same_as_one_file("--source", "s.gz", "--target", "-", *dev, stdin=(self.at / "t").read_bytes())
        # The order is that of the command line.
        self.train("--pairs", "b1.tsv", "b2.tsv", "a.tsv", *dev)
        self.assertFalse(self.state() == self.state("one"))

    def test_a_file_is_no_pattern(self):
        self.write("x[1].tsv", "".join(self.lines))
        self.same_as_one_file("--pairs", "x[1].tsv", "--valid-pairs", "dev.tsv")

    def test_several_texts(self):
        text = "".join(f"the {i % 17} cat sat on mat {i % 5}\n" for i in range(400))
        self.write("whole.txt", text)
        self.write("t1.txt", text[:4000].rpartition("\n")[0])  # no newline at its end
        self.write("t2.txt.gz", gzip.compress(text[len(text[:4000].rpartition("\n")[0]) + 1:].encode()))
        run = ["train", "--preset", "tiny", "--vocab-type", "characters", "--max-updates", "2", "--seed", "1",
               "--d-model", "16", "--block", "16", "--text"]
        self.heed(*run, "whole.txt", "--model", "one")
        done = self.heed(*run, "t?.txt*", "--model", "m")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.state() == self.state("one"))
        done = self.heed(*run, "whole.txt", "--valid-text", "t2.txt.gz", "t1.txt", "--model", "v")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_excluded_by_several_files(self):
        words = sorted({line.split("\t")[0] for line in self.lines})[:2]
        for name, word in zip(["x1", "x2"], words):
            self.write(name, word + "\n")
        count = sum(line.split("\t")[0] in words for line in self.lines)
        said = self.train("--pairs", "train.tsv", "--exclude", "x1", "--exclude", "x2")
        self.assertIn(f"left out {count} pairs whose source is in x1, x2", said)

    def test_blank_lines_at_the_end(self):
        self.write("train.tsv", "".join(self.lines) + "\n\n")
        self.write("s", (self.at / "s").read_text() + "\n")
        dev = ["--valid-pairs", "dev.tsv"]
        self.train("--pairs", "a.tsv", "b1.tsv", "b2.tsv", *dev, "--model", "one")
        self.same_as_one_file("--pairs", "train.tsv", *dev)
        self.same_as_one_file("--source", "s", "--target", "t", *dev)

    def test_refused_in_one_line(self):
        run = ["train", *SHORT, "--model", "m"]
        self.write("cut.tsv.gz", gzip.compress((self.at / "a.tsv").read_bytes())[:-20])
        self.write("no.gz", "el perro\tthe dog\n")
        self.write("bomb.tsv.gz", gzip.compress(b"a\ta\n" * (20 << 20)))
        self.write("c.s", "a\nb\n")
        for code, says, arguments in [
                (1, "cut.tsv.gz: the compressed data is cut off", ["--pairs", "cut.tsv.gz"]),
                (1, "no.gz: this is not gzip", ["--pairs", "no.gz"]),
                (1, "bomb.tsv.gz: unpacks to more than 100 times its size", ["--pairs", "bomb.tsv.gz"]),
                (1, "--pairs none*.tsv: no file fits this pattern", ["--pairs", "none*.tsv"]),
                (1, "none.tsv", ["--pairs", "a.tsv", "none.tsv"]),
                (2, "standard input is named twice", ["--pairs", "-", "--valid-pairs", "-"]),
                (2, "--source names 2 files and --target 1", ["--source", "s", "c.s", "--target", "t"]),
                (1, "c.s has 2 lines but t has 300", ["--source", "c.s", "--target", "t"]),
                (1, "standard input holds no sentence pairs", ["--pairs", "-"]),
                (2, "give either --pairs, or --source and --target", ["--pairs", "a.tsv", "--source", "s"]),
                (2, "give both --valid-source and --valid-target", ["--pairs", "a.tsv", "--valid-source", "s"])]:
            with self.subTest(says):
                self.refuses(code, says, *run, *arguments)


class HeldOut(DataTest):
    def test_part_of_the_pairs(self):
        # Each source several times; the parts are told by the counts and by what a run on them gives.
        lines = [f"uno {i} a\tone {i}\n" for i in range(60) for _ in range(3)]
        self.write("many.tsv", "".join(lines))
        said = self.train("--pairs", "many.tsv", "--valid-fraction", "0.1")
        kept, held = map(int, re.search(r"(\d+) training and (\d+) validation pairs", said).groups())
        self.assertEqual((kept, held), (162, 18))  # whole sources: 6 of 60, three pairs each
        # The same ones whatever the order, and for each seed: losses on them, of the same first model, are equal.
        self.write("turned.tsv", "".join(reversed(lines)))
        for name, arguments in [("a", ["--pairs", "many.tsv"]), ("b", ["--pairs", "turned.tsv"])]:
            self.train("--model", name, *arguments, "--valid-fraction", "0.1", "--learning-rate", "1e-12", "--warmup",
                       "0", "--max-updates", "1", "--dropout", "0")
        loss = [json.loads((self.at / name / "train.log.jsonl").read_text().splitlines()[-1])["nll"] for name in "ab"]
        self.assertAlmostEqual(loss[0], loss[1], places=4)

    def counts(self, said):
        return tuple(map(int, re.search(r"(\d+) training and (\d+) validation pairs", said).groups()))

    def test_where_nothing_is_said(self):
        """2 %, at least 100 and at most 2,000 pairs; of fewer than 1,000 a tenth, of fewer than 100 none."""
        few = [*SHORT, "--max-updates", "1", "--bleu-sentences", "2"]
        for pairs, held in [(99, 0), (100, 10), (300, 30), (999, 100), (1000, 100), (4000, 100), (10000, 200),
                            *([] if SANITIZED else [(150000, 2000)])]:
            self.write("many.tsv", "".join(f"uno {i}\tone {i}\n" for i in range(pairs)))
            with self.subTest(pairs):
                said = self.train(*few, "--pairs", "many.tsv", "--model", f"m{pairs}")
                self.assertEqual(self.counts(said), (pairs - held, held))
                self.assertIn(f"holds out {held} of {pairs} pairs for validation; --valid-fraction 0 trains on all" if held
                              else "no validation: 99 pairs are too few to hold some out; --valid-pairs names", said)
                # The training keeps what was chosen.
                toml = (self.at / f"m{pairs}/train.toml").read_text()
                fraction = float(re.search("^valid-fraction = (.*)$", toml, re.M)[1])
                self.assertEqual(round(fraction * pairs), held)
                again = self.train(*few, "--pairs", "many.tsv", "--model", f"m{pairs}", "--max-updates", "2")
                self.assertEqual(self.counts(again), (pairs - held, held))

    def test_what_ends_it(self):
        for more in (["--valid-fraction", "0"], ["--valid-pairs", "dev.tsv"]):
            said = self.train("--pairs", "train.tsv", *more, "--model", more[0])
            self.assertNotIn("holds out", said)
            self.assertEqual(self.counts(said)[0], 300)
        # One source for nearly all: none is held out.
        self.write("one.tsv", "uno\tone\n" * 200 + corpus(5))
        said = self.train("--pairs", "one.tsv", "--model", "one")
        self.assertEqual(self.counts(said), (205, 0))

    def test_a_training_of_before_goes_on_without(self):
        """Of earlier versions train.toml says nothing of a fraction, and they held out nothing."""
        whole = self.train("--pairs", "train.tsv", "--valid-fraction", "0", "--model", "whole", "--max-updates", "6")
        self.assertEqual(self.counts(whole), (300, 0))
        for name, command in [("by-command", ["train", *SHORT, "--pairs", "train.tsv", "--model", "by-command"]),
                              ("by-resume", ["train", "--resume", "by-resume"])]:
            self.train("--pairs", "train.tsv", "--valid-fraction", "0", "--model", name)
            kept = self.at / name / "train.toml"
            kept.write_text("".join(line for line in kept.read_text().splitlines(keepends=True)
                                    if not line.startswith("valid-fraction")))
            again = self.heed(*command, "--max-updates", "6")
            self.assertEqual(again.returncode, 0, again.stderr.decode())
            self.assertEqual(self.counts(again.stderr.decode()), (300, 0))
            self.assertTrue(self.state(name) == self.state("whole"))

    def test_refused(self):
        for columns in ("1,4294967298", "1,99999999999", "2,-1", "1,2,3", "1", "1,2x"):
            self.refuses(2, f"--columns {columns}: give the columns of source and target", "train", *SHORT, "--model", "m",
                         "--pairs", "train.tsv", "--columns", columns)
        run = ["train", *SHORT, "--model", "m", "--pairs", "train.tsv", "--valid-fraction"]
        self.refuses(2, "give either pairs to validate on, or --valid-fraction", *run, "0.1", "--valid-pairs", "dev.tsv")
        self.refuses(2, "--valid-fraction: the part held out for validation has 0 of 300 pairs", *run, "0.0001")


class ResumeAlone(DataTest):
    RUN = ["train", *SHORT, "--model", "m", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv"]

    def test_nothing_else_is_needed(self):
        self.train("--model", "whole")
        process = self.start("--max-updates", "100000")
        self.until_line(process, "update 3 ")
        process.terminate()
        rest = process.communicate()[1]
        self.assertIn("train with --resume m to continue", rest.splitlines()[-1])
        done = json.loads((self.at / "m/training.json").read_text())["update"]
        end = str(done + 5)
        # From another directory, which has been moved, and with options that may change.
        (self.at / "m").rename(self.at / "moved")
        (self.at / "elsewhere").mkdir()
        again = self.heed("train", "--resume", "../moved", "--max-updates", end, "--threads", "2",
                          wrapper=["env", "-C", str(self.at / "elsewhere")])
        self.assertEqual(again.returncode, 0, again.stderr.decode())
        self.assertIn(f"goes on after update {done} ", again.stderr.decode())
        self.train("--model", "whole", "--max-updates", end)
        self.assertTrue(self.state("moved") == self.state("whole"))
        # What was changed is kept: nothing is left to do.
        before = snapshot(self.at / "moved")
        again = self.heed("train", "--resume", "moved")
        self.assertIn(b"finished already", again.stderr)
        self.assertEqual(snapshot(self.at / "moved"), before)

    def test_before_the_first_save(self):
        process = self.start("--save-every", "0", "--validate-every", "100000", "--max-updates", "100000")
        self.until_line(process, "update 1 ")
        process.kill()
        process.communicate()
        self.assertFalse((self.at / "m/training.json").exists())
        again = self.heed("train", "--resume", "m", "--max-updates", "4", "--validate-every", "2")
        self.assertEqual(again.returncode, 0, again.stderr.decode())
        self.train("--model", "whole")
        self.assertTrue(self.state() == self.state("whole"))

    def test_options_that_decide_the_weights_stay(self):
        self.train()
        before = snapshot(self.at)
        for option, value, says in [("--learning-rate", "0.5", "began with --learning-rate 0.001, not 0.5"),
                                    ("--accumulate", "2", "began with --accumulate 1, not 2"),
                                    ("--validate-by", "bleu", "began with --validate-by loss, not bleu of 20"),
                                    ("--average", "7", "began with --average 2, not 7")]:
            done = self.heed("train", "--resume", "m", option, value, "--max-updates", "8")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(says, done.stderr.decode().splitlines()[-1])
        self.assertEqual(snapshot(self.at), before)
        self.refuses(2, "--d-model 32, not 64", "train", "--resume", "m", "--d-model", "64")

    def test_what_is_no_training(self):
        self.refuses(1, "there is no training to resume; begin one with --model none", "train", "--resume", "none")
        self.train()
        self.refuses(2, "give --resume, to continue in this directory, or --model", "train", "--resume", "m", "--model", "n")
        self.refuses(2, "--preset chooses the shape of a new model", "train", "--resume", "m", "--preset", "tiny")
        (self.at / "m/train.toml").unlink()  # as older versions left it
        self.refuses(1, "this training kept no options (train.toml), as those of older versions; give its whole command "
                        "once more, with --model m", "train", "--resume", "m")
        self.train("--max-updates", "6")
        self.assertEqual(self.heed("train", "--resume", "m", "--max-updates", "8").returncode, 0)

    def test_outputs_that_the_directory_names(self):
        """It may come from somebody else: nothing outside of it is written but what heed wrote before."""
        self.train("--html", "report.html", "--tensorboard", "runs", "--max-updates", "4")
        self.assertEqual(self.heed("train", "--resume", "m", "--max-updates", "6").returncode, 0)
        (self.at / "m/link.html").symlink_to(self.at / "mine.html")
        kept = (self.at / "m/train.toml").read_text()
        self.write("mine.html", "<p>mine")
        (self.at / "other").mkdir()
        for option, path in [("html", "mine.html"), ("html", "new.html"), ("html", "m/link.html"), ("html", "m/../new.html"),
                             ("timeline", "trace.json"), ("tensorboard", "other"), ("tensorboard", "none")]:
            with self.subTest(path):
                lines = [line for line in kept.splitlines() if not line.startswith(option + " ")]
                self.write("m/train.toml", "\n".join(lines) + f'\n{option} = "{self.at / path}"\n')
                self.refuses(2, f"asks for --{option} {os.path.normpath(self.at / path)}, which is outside of the directory", "train", "--resume", "m",
                             "--max-updates", "8")
        self.assertEqual(self.heed("train", "--resume", "m", "--max-updates", "8", "--tensorboard", "none").returncode, 0)
        # Within the directory, but a pipe, for which nobody may wait.
        os.mkfifo(self.at / "m/pipe")
        for option in ("html", "timeline", "pairs", "valid-pairs"):
            lines = [line for line in kept.splitlines() if not line.startswith(option + " ")]
            self.write("m/train.toml", "\n".join(lines) + f'\n{option} = ["{self.at / "m/pipe"}"]\n')
            self.refuses(2, f"m/pipe for --{option}, which is no regular file", "train", "--resume", "m", "--max-updates", "8")
        os.unlink(self.at / "m/pipe")
        self.write("m/train.toml", kept + 'timeline = "trace.json"\n')
        done = subprocess.run([HEED, "train", "--resume", ".", "--max-updates", "9"], cwd=self.at / "m", capture_output=True)
        self.assertEqual(done.returncode, 2)  # among the files of the model, and known to be within
        self.assertIn(b"stands among the files of the model", done.stderr)
        for name in ("config.json", "vocabulary.txt"):
            (self.at / "m" / name).rename(self.at / "aside")
            os.mkfifo(self.at / "m" / name)
            done = self.heed("train", "--resume", "m", "--max-updates", "9")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"m/{name}: it is a pipe; this has to be a regular file", done.stderr.decode())
            os.unlink(self.at / "m" / name)
            (self.at / "aside").rename(self.at / "m" / name)
        self.write("m/train.toml", kept.replace(str(self.at / "report.html"), str(self.at / "m/report.html")))
        self.assertEqual(self.heed("train", "--resume", "m", "--max-updates", "10").returncode, 0)
        self.assertTrue((self.at / "m/report.html").exists())

    def test_language_model_and_init(self):
        self.write("text.txt", "".join(f"the {i % 17} cat sat on mat {i % 5}\n" for i in range(400)))
        run = ["train", "--preset", "tiny", "--text", "text.txt", "--vocab-type", "characters", "--d-model", "16",
               "--block", "16"]
        self.heed(*run, "--model", "first", "--max-updates", "2")
        done = self.heed("train", "--text", "text.txt", "--init", "first", "--model", "m", "--max-updates", "3",
                         "--schedule", "constant")
        self.assertEqual(done.returncode, 0, done.stderr)
        for file in (self.at / "first").iterdir():
            file.unlink()
        done = self.heed("train", "--resume", "m", "--max-updates", "5")  # what it began with is not needed any more
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"goes on after update 3", done.stderr)


class Recipes(DataTest):
    def test_paths_are_relative_to_the_recipe(self):
        self.write("project/data/train.tsv", corpus(300))
        self.write("project/data/dev.tsv", corpus(20, seed=2))
        self.write("project/recipes/run.toml", 'pairs = ["../data/tra*.tsv"]\nvalid-pairs = "../data/dev.tsv"\n')
        self.train("--config", "project/recipes/run.toml")  # --model of the command line is relative to where one stands
        self.train("--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "one")
        self.assertTrue(self.state() == self.state("one"))

    def test_own_recipes_run_from_anywhere(self):
        for name in ["spa-eng", "multi30k", "tinyshakespeare"]:
            recipe = (RECIPES / f"{name}.toml").read_text()
            self.write("p/recipes/r.toml", recipe)
            for path in re.findall(r'"\.\./(.*)"', recipe):
                source = SHARED / path
                if not source.exists():
                    self.skipTest(f"SKIPPED: {source} is not here")
                with open(source, encoding="utf-8") as file:
                    lines = 20 if "dev" in path or "val" in path else 12000
                    self.write("p/" + path, "".join(itertools.islice(file, lines)))
            done = self.heed("train", "--config", "p/recipes/r.toml", "--model", name, "--max-updates", "1",
                             *([] if name == "tinyshakespeare" else ["--vocab-size", "1000"]))
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            self.assertIn("--max-updates reached", done.stderr.decode())
            if name != "tinyshakespeare":
                self.assertIn("is more than --max-updates: the rate falls from the first update", done.stderr.decode())

    def test_dumped_options_run_again(self):
        odd = "a 'b' \"c\" \\d #é.tsv"
        self.write(odd, "".join(self.lines))
        dump = self.succeeds(*self.RUN, "--pairs", odd, "dev.tsv", "--valid-pairs", "dev.tsv", "--seed",
                             "18446744073709551615", "--learning-rate", "0.0003", "--dump-config")
        self.write("deep/er/run.toml", dump)
        again = self.succeeds("train", "--config", "deep/er/run.toml", "--dump-config")
        self.assertEqual(again, dump)
        self.train("--pairs", odd, "dev.tsv", "--valid-pairs", "dev.tsv", "--seed", "18446744073709551615",
                   "--learning-rate", "0.0003", "--model", "one")
        done = self.heed("train", "--config", "deep/er/run.toml")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertTrue(self.state() == self.state("one"))
        self.write("empty.toml", self.succeeds("train", "--dump-config"))
        self.assertEqual(self.succeeds("train", "--config", "empty.toml", "--dump-config"), (self.at / "empty.toml").read_text())

    def test_malformed_is_refused(self):
        for toml, says in [("pairs = [broken", "r.toml: line 1: "), ("seed = 1\nseed = 2", "r.toml: line 2: "),
                           ("seed = 1 2", "r.toml: line 1: "), ("seed 1", "r.toml: line 1: "),
                           ("[data]\npairs = 'x'", "r.toml: line 1: it begins a table; options stand alone"),
                           ("paris = 'x'", "there is no option 'paris'"),
                           ("seed = 1979-05-27", "'seed' is \"1979-05-27\", which is neither text nor a number"),
                           (".".join(["a"] * 100_000) + " = 1", "r.toml: line 1: the name of an option is one word"),
                           ("[" + ".".join(["a"] * 100_000) + "]", "r.toml: line 1: it begins a table"),
                           ("\xc9\x8c = 1", "r.toml: line 1: it begins with no name"),
                           ("label-smoothing = [1, 2]", "label-smoothing has 2 values; it takes one"),
                           ("label-smoothing = 'x'", "r.toml: "),
                           ("resume = 'm'", "there is no option 'resume'"), ("a = \"\xff", "r.toml: line 1: ")]:
            with self.subTest(toml):
                self.write("r.toml", toml.encode("latin-1"))
                self.refuses(1, says, *self.RUN, "--config", "r.toml")


class Bleu(DataTest):
    RUN = ["train", *TINY, "--model", "m", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--max-updates", "150",
           "--validate-every", "30", "--log-every", "50", "--average", "2", "--learning-rate", "0.01", "--warmup", "20"]

    def log(self, directory="m"):
        lines = [json.loads(line) for line in (self.at / directory / "train.log.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == "validation"]

    def test_is_printed_and_logged(self):
        said = self.train()
        printed = re.findall(r"validation: .*  BLEU ([\d.]+)  ", said)
        self.assertEqual([f"{line['bleu']:.2f}" for line in self.log()], printed)
        self.assertEqual(len(printed), 5)
        self.assertGreater(self.log()[-1]["bleu"], 0)
        # It leaves no trace in the weights.
        said = self.train("--bleu-sentences", "0", "--model", "n")
        self.assertNotIn("BLEU", said)
        self.assertTrue(self.state() == self.state("n"))

    def test_chooses_the_weights(self):
        said = self.train("--validate-by", "bleu")
        best = max(max(line["bleu"], line.get("average_bleu", -1)) for line in self.log())
        self.assertIn(f", BLEU {best:.2f}\n", said)
        source = (self.at / "dev.s").read_text()
        greedy = self.succeeds("translate", "--model", "m", "--beam", "1", stdin=source)
        score = self.succeeds("score", "--reference", "dev.t", stdin=greedy)
        self.assertTrue(score.startswith(f"BLEU = {best:.2f} "), score)

    def test_two_sample_translations_at_each_validation(self):
        said = self.train().splitlines()
        places = [i for i, line in enumerate(said) if "validation: epoch" in line]
        pairs = [line.split("\t") for line in (self.at / "dev.tsv").read_text().splitlines()]
        self.assertEqual(len(places), 5)
        seen = []
        for place in places:
            found = [re.fullmatch(r"heed train: sample: (.*)  =>  (.*)  \(reference: (.*)\)", line)
                     for line in said[place + 1:place + 3]]
            self.assertTrue(all(found))
            self.assertTrue(all([f[1], f[3]] in pairs for f in found))
            seen.append([f[1] for f in found])
        self.assertTrue(all(one == seen[0] for one in seen))  # the same sentences, so that one sees what changes
        self.assertEqual(sum("sample: " in line for line in said), 10)
        # What the last one says is what the weights say: those of the last update are the best, or the mean is.
        if "up to" not in said[-3]:
            greedy = self.succeeds("translate", "--model", "m", "--beam", "1", stdin=seen[0][0] + "\n")
            self.assertIn(f"  =>  {greedy.strip()}  ", "\n".join(said))
        self.assertNotIn("sample: ", self.train("--bleu-sentences", "0", "--model", "n"))

    def test_losses_compare(self):
        """Those of training are printed without label smoothing, as those of the validation are."""
        said = self.train("--label-smoothing", "0.3", "--log-every", "30")
        printed = [float(x) for x in re.findall(r"heed train: epoch \d+  update \d+  loss ([\d.]+)", said)]
        log = [json.loads(line) for line in (self.at / "m/train.log.jsonl").read_text().splitlines()]
        self.assertEqual(printed, [round(line["nll"], 4) for line in log if line["type"] == "train"])
        self.assertGreater(len(printed), 3)

    def test_ends_with_a_command_to_type(self):
        """Which works as it is printed."""
        (self.at / "dev.tsv").write_text("¿qué es el 'pan'?\twhat is 'bread'?\n" + corpus(20, seed=2))
        said = self.train("--model", "my model")
        last = said.splitlines()[-1]
        self.assertEqual(last, "heed train: try it: heed translate --model 'my model' '¿qué es el '\\''pan'\\''?'")
        self.write("bin/heed", f'#!/bin/sh\nexec "{HEED}" "$@"\n').chmod(0o755)
        done = subprocess.run(["bash", "-c", last.split("try it: ")[1]], cwd=self.at, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env={**os.environ, "PATH": f"{self.at}/bin:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stderr, done.stdout.count(b"\n")), (0, b"", 1))
        self.assertEqual(said.splitlines()[-1], self.train("--model", "my model").splitlines()[-1])

    def test_needs_validation_pairs(self):
        self.refuses(2, "--validate-by bleu needs validation pairs", "train", *SHORT, "--model", "m", "--pairs",
                     "train.tsv", "--validate-by", "bleu", "--valid-fraction", "0")
        self.refuses(2, "--bleu-sentences is 0", *self.RUN, "--validate-by", "bleu", "--bleu-sentences", "0")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 2: None, 5: 4}[key & 7]
            size = varint() if size is None else size
            yield key >> 3, message[at:at + size]
            at += size


def events(path):
    """What a file for TensorBoard says: (step, {tag: value} or another field) of each record."""
    data, found = path.read_bytes(), []
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8])
        event, data = data[12:12 + length], data[12 + length:]
        assert struct.unpack("<I", data[:4])[0] == masked(event)
        data = data[4:]
        event = dict(fields(event))
        assert 1.7e9 < struct.unpack("<d", event[1])[0] < 1e10
        if 5 in event:
            values = [dict(fields(value)) for _, value in fields(event[5])]
            found.append((event[2], {v[1].decode(): struct.unpack("<f", v[2])[0] for v in values}))
        else:
            found.append((event[2], {k: v for k, v in event.items() if k > 2}))
    return found


class TensorBoard(DataTest):
    RUN = ["train", *SHORT, "--model", "m", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--tensorboard", "runs/x"]

    def test_checksum(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)  # the check value of the catalogue of CRCs

    def test_says_what_the_log_says(self):
        self.write("runs/x/mine", "stays")
        self.train()
        first, = (self.at / "runs/x").glob("events.out.tfevents.*.heed")
        log = [json.loads(line) for line in (self.at / "m/train.log.jsonl").read_text().splitlines()]
        found = events(first)
        self.assertEqual(found[0], (0, {3: b"brain.Event:2"}))
        self.assertEqual(found[1][0], 1)
        self.assertEqual(dict(fields(found[1][1][7])), {1: 1})
        self.assertEqual(len(found) - 2, len(log))
        for (step, scalars), line in zip(found[2:], log):
            self.assertEqual(step, line["update"])
            if line["type"] == "validation":
                names = {"nll": "loss/validation", "average_nll": "loss/average", "bleu": "bleu/validation"}
            else:
                names = {"nll": "loss/training", "learning_rate": "learning_rate", "gradient_norm": "gradient_norm",
                         "words_per_second": "tokens_per_second"}
            expected = {tag: line[name] for name, tag in names.items() if name in line}
            self.assertEqual(scalars.keys(), expected.keys())
            for tag, value in expected.items():
                self.assertAlmostEqual(scalars[tag], value, delta=abs(value) * 1e-6)
        # A run that goes on adds a file, which says from where on the other ones do not count.
        before = first.read_bytes()
        self.train("--max-updates", "6")
        self.assertEqual(first.read_bytes(), before)
        second, = set((self.at / "runs/x").iterdir()) - {first, self.at / "runs/x/mine"}
        self.assertGreater(second.name, first.name)
        self.assertEqual([step for step, _ in events(second)][1:3], [5, 5])
        self.train("--max-updates", "6")  # nothing was done
        self.assertEqual(len(list((self.at / "runs/x").iterdir())), 3)

    def test_trouble_ends_no_training(self):
        self.write("runs", "a file")
        said = self.train()
        self.assertEqual(said.count("no further events for TensorBoard"), 1)
        self.assertIn("finished", said)


class Talk(DataTest):
    RUN = ["train", *SHORT, "--model", "m", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv"]

    def on_a_terminal(self, *arguments, columns=80):
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        environment.pop("NO_COLOR", None)
        process = subprocess.Popen([HEED, *self.RUN, *arguments], cwd=self.at, stderr=follower, env=environment)
        os.close(follower)
        shown = b""
        while True:
            select.select([leader], [], [], 60)
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other side is closed
                break
            shown += piece
        os.close(leader)
        self.assertEqual(process.wait(), 0)
        return shown.decode()

    def test_a_bar_between_lines_on_a_terminal(self):
        for columns in [80, 40]:
            shown = self.on_a_terminal("--max-updates", "12", "--log-every", "6", "--model", f"m{columns}", columns=columns)
            rows = [re.sub(r"\x1b\[[0-9;]*[mK]", "", row).rstrip("\r") for row in re.split(r"[\n]|\r(?=\x1b\[K)", shown)]
            bars = [row for row in rows if "━" in row]
            self.assertGreater(len(bars), 0)
            for bar in bars:
                self.assertRegex(bar, r"^ *\d+% ")
                if columns == 80:  # the bar alone fills 40
                    self.assertRegex(bar, r"  epoch \d+  update \d+  left \d+:\d\d:\d\d")
            for row in bars + [row for row in rows if "update" in row and "wrote" not in row and "finished" not in row]:
                self.assertLess(len(row), columns, row)
            self.assertIn("\x1b[32m", shown)
            self.assertTrue(rows[-1] == "" or "wrote" in rows[-1], rows[-1])

    def test_colour_is_chosen(self):
        shown = self.on_a_terminal("--color", "never", "--max-updates", "6")
        self.assertIn("━", shown)
        self.assertNotIn("\x1b[32m", shown)
        self.refuses(2, "--color", *self.RUN, "--color", "blue")

    def test_plain_lines_elsewhere(self):
        said = self.train("--color", "always")
        self.assertNotIn("\x1b", said)
        self.assertNotIn("\r", said)
        self.assertNotIn("%", said)
        self.assertEqual(len(re.findall(r"^heed train: epoch 1  update \d+  loss [\d.]+  \d+ words/s  left [\d:]+$", said,
                                        re.MULTILINE)), 4)

    def test_quiet_and_verbose(self):
        self.assertEqual(self.train("--quiet"), "")
        self.assertEqual(self.train("-q", "--exclude", "dev.s", "--model", "n"), "")
        self.assertIn("missing", self.heed("train", "--pairs", "train.tsv", "-q").stderr.decode())
        self.assertRegex(self.train("--verbose", "--model", "o"),
                         r"  sentences \d+  gradient [\d.]+  rate [\d.e-]+  [\d.]+ GFLOP/s  left ")

    def test_a_text_has_blocks(self):
        self.write("text.txt", "".join(f"the {i % 17} cat sat on mat {i % 5}\n" for i in range(400)))
        done = self.heed("train", "--preset", "tiny", "--text", "text.txt", "--vocab-type", "characters", "--d-model",
                         "16", "--block", "16", "--max-updates", "2", "--log-every", "1", "--model", "m", "-v")
        self.assertIn("  blocks 12  ", done.stderr.decode())
        self.assertNotIn("sentences", done.stderr.decode())

    def test_messages_name_what_was_typed(self):
        run = self.RUN
        for option, value, says in [
                ("--batch-tokens", "0", "--batch-tokens is 0; it must be 1 or more"),
                ("--learning-rate", "0", "--learning-rate is 0"), ("--accumulate", "0", "--accumulate is 0"),
                ("--warmup", "-1", "--warmup is -1"), ("--clip-norm", "-1", "--clip-norm is -1"),
                ("--feed-forward", "0", "--feed-forward"), ("--encoder-layers", "-1", "--encoder-layers")]:
            with self.subTest(option):
                self.refuses(2, says, *run, option, value)


if __name__ == "__main__":
    unittest.main()
