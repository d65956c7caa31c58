"""heed train killed, interrupted, out of space, out of numbers: what it leaves, and that it goes on."""
import json
import os
import resource
import signal
import time
import unittest

from program import TINY, TrainingTest, corpus, snapshot

RUN = ["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--columns", "1,2", "--model", "m", *TINY,
       "--max-updates", "40", "--validate-every", "10", "--average", "2", "--save-every", "3", "--log-every", "5"]


class TrainTest(TrainingTest):
    RUN = RUN

    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(300))
        self.write("dev.tsv", corpus(20, seed=2))


class Resume(TrainTest):
    # A run without an end cannot end before the signal comes, however busy the machine is; where it had got to says how
    # long the whole run is that it must equal.
    ENDLESS = ["--max-updates", "1000000", "--patience", "0"]

    def expect_the_same_as_a_whole_run(self, *options):
        state = json.loads((self.at / "m/training.json").read_text())
        end = ["--max-updates", str(state["update"] + 7), "--patience", "0", *options]
        self.assertIn("goes on after update", self.train(*end))
        self.train("--model", "whole", *end)
        self.assertTrue(self.model() == self.model("whole"))

    def test_killed_at_any_moment(self):
        # Before the first file, before the first update, and on: each run writes these lines, wherever it begins.
        lines = [None, "parameters", *["words/s", "validation:"] * 4]
        for number, line in enumerate(lines):
            process = self.start(*self.ENDLESS, "--threads", str(1 + number % 2))
            if line:
                self.until_line(process, line)
            time.sleep(number * 0.007)
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
        self.expect_the_same_as_a_whole_run("--threads", "2")
        self.assertEqual(sorted(p.name for p in (self.at / "m").iterdir()),
                         sorted(p.name for p in (self.at / "whole").iterdir()))
        self.assertEqual(sorted(p.name for p in self.at.iterdir()), ["dev.tsv", "m", "train.tsv", "whole"])

    def test_killed_after_updates(self):
        for update in ["update 5 ", "goes on after", "goes on after"]:
            process = self.start(*self.ENDLESS)
            self.until_line(process, update)
            time.sleep(0.05)
            process.kill()
            process.communicate()
            self.assertEqual(process.returncode, -signal.SIGKILL)
        self.expect_the_same_as_a_whole_run()

    def test_signals_save_and_leave(self):
        seldom = ["--save-every", "0", "--log-every", "1"]
        for number, code in [(signal.SIGTERM, 143), (signal.SIGINT, 130)]:
            process = self.start(*self.ENDLESS, *seldom)
            self.until_line(process, "update 7 " if number == signal.SIGTERM else "goes on after")
            process.send_signal(number)
            rest = process.communicate()[1]
            self.assertEqual(process.returncode, code)
            self.assertIn("saved after update", rest.splitlines()[-1])
        self.expect_the_same_as_a_whole_run(*seldom)

    def test_finished_is_finished(self):
        self.train()
        before = snapshot(self.at)
        self.assertIn("finished already", self.train())
        self.assertTrue(snapshot(self.at) == before)

    def test_other_shape_or_options(self):
        self.train("--max-updates", "4")
        self.refuses(2, "--d-model 32, not 64", *RUN, "--d-model", "64")
        error = self.train("--learning-rate", "0.5", code=1)
        self.assertIn("began with --learning-rate 0.001, not 0.5", error.splitlines()[-1])

    def test_begins_from_another_model(self):
        self.train("--max-updates", "30")
        init = ["train", "--pairs", "train.tsv", "--model", "n", "--init", "m", "--max-updates", "1", "--learning-rate",
                "1e-9", "--warmup", "0"]
        done = self.heed(*init)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        source = "".join(line.split("\t")[0] + "\n" for line in (self.at / "dev.tsv").read_text().splitlines())
        self.assertEqual(self.succeeds("translate", "--model", "n", stdin=source),
                         self.succeeds("translate", "--model", "m", stdin=source))
        again = ["train", "--quiet", "--pairs", "train.tsv", "--model", "o", "--preset", "tiny", "--init"]
        self.refuses(1, "tensor 'embedding.weight' has shape", *again, "m", "--d-model", "64")
        self.refuses(1, "nowhere", *again, "nowhere")

    def test_two_at_once(self):
        process = self.start("--max-updates", "100000", "--patience", "0")
        self.until_line(process, "update 5 ")
        error = self.train("--max-updates", "100000", "--patience", "0", code=1)
        process.kill()
        process.communicate()
        self.assertIn("another run", error.splitlines()[-1])


class ModelCard(TrainTest):
    def card(self, directory="m"):
        return (self.at / directory / "MODEL_CARD.md").read_text()

    def test_scores_are_those_of_the_model_and_options_make_it_again(self):
        self.assertIn("wrote m/MODEL_CARD.md", self.train("--max-updates", "120"))
        pairs = [line.split("\t") for line in (self.at / "dev.tsv").read_text().splitlines()]
        self.write("reference", "".join(target + "\n" for _, target in pairs))
        translated = self.succeeds("translate", "--model", "m", stdin="".join(source + "\n" for source, _ in pairs))
        card = self.card().replace("\\|", "|")
        for flags in [[], ["--lowercase"]]:
            score, chrf, signature, _ = self.succeeds("score", "--reference", "reference", *flags,
                                                      stdin=translated).splitlines()
            self.assertIn(score + "; " + signature.split(": ")[1], card)
            if not flags:
                self.assertIn(chrf + "; ", card)
        self.assertIn("300 sentence pairs", card)
        self.assertIn("120 in ", card)
        options = card.split("```toml\n")[1].split("```")[0]
        self.write("run.toml", options)
        again = self.heed("train", "--config", "run.toml", "--model", "again")
        self.assertEqual(again.returncode, 0, again.stderr.decode())
        self.assertTrue(self.model() == self.model("again"))

    def test_none_until_the_end_and_carried_along(self):
        process = self.start("--max-updates", "1000000", "--patience", "0")
        self.until_line(process, "update 10 ")
        process.terminate()
        process.communicate()
        self.assertFalse((self.at / "m/MODEL_CARD.md").exists())
        end = ["--max-updates", str(json.loads((self.at / "m/training.json").read_text())["update"] + 1)]
        self.train(*end)
        self.succeeds("export", "--model", "m", "--to", "half")
        card = self.card()
        self.assertEqual(card, self.card("half"))
        (self.at / "m/MODEL_CARD.md").unlink()  # as if killed just before it was written
        self.assertIn("wrote m/MODEL_CARD.md", self.train(*end))
        self.assertEqual(card, self.card())

    def test_names_of_files_do_not_break_it(self):
        name = "a|b```\n# c"
        self.write(name + ".tsv", corpus(300))
        self.train("--pairs", name + ".tsv", "--model", name, "--max-updates", "2")
        card = self.card(name)
        headings = [line for line in card.split("## Options")[0].splitlines() if line.startswith("#")]
        self.assertEqual(headings, ["# a|b``` # c", "## Model", "## Data", "## Training",
                                    "## Scores on the validation pairs"])
        self.assertIn("````toml", card)


class Trouble(TrainTest):
    def test_nan_keeps_the_last_good_checkpoint(self):
        # Weights grow by a factor of about -9 an update until the loss overflows.
        error = self.train("--weight-decay", "1e4", "--learning-rate", "1e-3", "--schedule", "constant", "--warmup",
                           "0", "--validate-every", "1", "--patience", "0", "--max-updates", "1000", code=1)
        lines = error.splitlines()
        self.assertIn("is not finite in update", lines[-1])
        self.assertIn("is kept", lines[-1])
        self.assertEqual(sum("not finite" in line for line in lines), 1)
        self.succeeds("inspect", "m")
        self.succeeds("translate", "--model", "m", stdin="el perro\n")

    def test_full_disk_keeps_the_last_good_checkpoint(self):
        self.train("--max-updates", "10")
        before = {k: v for k, v in snapshot(self.at).items() if not k.endswith(".jsonl")}
        limit = (self.at / "m/model.safetensors").stat().st_size - 1000

        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        error = self.train(code=1, preexec_fn=no_space)
        self.assertIn("raise the limit of a file's size", error.splitlines()[-1])
        self.assertTrue({k: v for k, v in snapshot(self.at).items() if not k.endswith(".jsonl")} == before)
        self.train("--model", "whole")
        self.train()
        self.assertTrue(self.model() == self.model("whole"))

    def test_full_disk_at_the_start(self):
        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        self.refuses(1, "raise the limit of a file's size", *RUN, preexec_fn=no_space)

    # Even root may not write there without this capability.
    ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def test_read_only_directory(self):
        os.chmod(self.at, 0o555)
        self.addCleanup(os.chmod, self.at, 0o755)
        self.refuses(1, "check the permissions", *RUN, wrapper=self.ORDINARY)

    def test_directory_that_became_read_only(self):
        self.train("--max-updates", "10")
        before = snapshot(self.at)
        for directory in [self.at, self.at / "m"]:
            os.chmod(directory, 0o555)
            self.addCleanup(os.chmod, directory, 0o755)
        error = self.train(code=1, wrapper=self.ORDINARY)
        self.assertIn("check the permissions", error.splitlines()[-1])
        after = snapshot(self.at)
        self.assertEqual({k: v for k, v in after.items() if not k.endswith(".jsonl")},
                         {k: v for k, v in before.items() if not k.endswith(".jsonl")})

    def test_model_is_a_file(self):
        self.write("m", "not a directory")
        self.refuses(1, "m", *RUN)


class Data(TrainTest):
    def test_empty_corpus(self):
        self.write("train.tsv", "")
        self.refuses(1, "train.tsv holds no sentence pairs", *RUN)

    def test_too_small_for_the_vocabulary(self):
        self.refuses(2, "at most", *RUN, "--vocab-size", "100000")

    def test_unequal_files(self):
        self.write("s.txt", "a\nb\nc\n")
        self.write("t.txt", "a\nb\n")
        self.refuses(1, "s.txt has 3 lines but t.txt has 2", "train", "--source", "s.txt", "--target", "t.txt",
                     "--model", "m", *TINY)

    def test_missing_column(self):
        self.write("train.tsv", "a\tb\nc\n")
        self.refuses(1, "train.tsv", *RUN)

    def test_missing_file(self):
        self.refuses(1, "none.tsv", *RUN, "--pairs", "none.tsv")
        self.refuses(1, "none.tsv", *RUN, "--valid-pairs", "none.tsv")
        self.refuses(1, "directory", *RUN, "--pairs", ".")

    def test_heads_that_do_not_divide(self):
        self.refuses(2, "--d-model 32 is not a multiple of --heads 5", *RUN, "--heads", "5")

    def test_numbers_out_of_range(self):
        for option, value in [("--batch-tokens", "0"), ("--d-model", "-8"), ("--d-model", "1000000000000000000"),
                              ("--dropout", "1.5"), ("--learning-rate", "-1"), ("--label-smoothing", "1"),
                              ("--max-updates", "-1"), ("--encoder-layers", "1000000")]:
            with self.subTest(option + " " + value):
                self.refuses(2, "must be", *RUN, option, value)

    def test_vocabulary_of_others_needs_trust(self):
        self.write("v.model", b"\x0a\x05\x0a\x01a\x15\x00\x00\x00\x00")
        self.refuses(1, "--trust", *RUN, "--vocabulary", "v.model")

    def test_malformed_utf8_is_counted(self):
        self.write("train.tsv", corpus(300).encode() + b"perro \xff\tdog\n")
        error = self.train("--max-updates", "1")
        self.assertIn("U+FFFD in 1 place", error)
        self.assertEqual(error.count("U+FFFD"), 1)

    def test_excluded_sentences(self):
        self.write("out.txt", "el perro\nhoy\n")
        self.write("train.tsv", corpus(300) + "el perro\tthe dog\nel perro\tthe dog\n")
        error = self.train("--max-updates", "1", "--exclude", "out.txt")
        self.assertRegex(error, r"left out \d+ pairs whose source is in out.txt")


if __name__ == "__main__":
    unittest.main()
