"""heed train with files and little else: it chooses the rest, says so, ends with the minutes, and goes on."""
import json
import pathlib
import re
import signal
import unittest

from program import TINY, TrainingTest, corpus

RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"
# However small the corpus, a model of this size takes milliseconds an update.
SMALL = ["--d-model", "32", "--feed-forward", "32", "--log-every", "1"]


class DefaultsTest(TrainingTest):
    DATA = ["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--model", "m"]
    RUN = [*DATA, *SMALL]

    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(300))
        self.write("dev.tsv", corpus(20, seed=2))
        self.write("text.txt", corpus(300).replace("\t", " "))

    def run_once(self, *arguments):
        done = self.heed(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stderr.decode()

    def chosen(self, said):
        """Names and values, from the lines that begin the log."""
        begin = [line for line in said.splitlines() if "holds out" not in line]
        lines = [line for line in begin if "chosen --" in line]
        self.assertEqual(begin[:len(lines)], lines)
        for line in lines:
            self.assertRegex(line, r"heed train: chosen (--[a-z-]+ \S+ )*--[a-z-]+ [^\s:]+: \S.*")
        return dict(re.findall(r"(--[a-z-]+) ([^\s:]+)", " ".join(line.split(": ")[1] for line in lines)))

    def rates(self, directory="m"):
        log = map(json.loads, (self.at / directory / "train.log.jsonl").read_text().splitlines())
        return [line["learning_rate"] for line in log if line["type"] == "train"]

    def kept(self, name, directory="m"):
        return re.search(f"^{name} ?= ?\"?([^\"\n]*)", (self.at / directory / "train.toml").read_text(), re.M)[1]


class Minutes(DefaultsTest):
    def test_nothing_but_files_and_minutes(self):
        said = self.run_once(*self.DATA, "--max-minutes", "0.05")
        chosen = self.chosen(said)
        for option in ["--vocab-size", "--d-model", "--heads", "--feed-forward", "--encoder-layers", "--decoder-layers",
                       "--dropout", "--batch-tokens", "--learning-rate", "--warmup", "--validate-every"]:
            self.assertIn(option, chosen)
        self.assertEqual(chosen["--schedule"], "linear")
        self.assertIn("finished: --max-minutes reached", said)
        self.succeeds("translate", "--model", "m", stdin="el perro\n")

    def test_of_a_text(self):
        for kind in ["subwords", "characters"]:
            said = self.run_once("train", "--text", "text.txt", "--vocab-type", kind, "--max-minutes", "0.03", "--model",
                                 kind)
            chosen = self.chosen(said)
            for option in ["--layers", "--block", "--batch", "--learning-rate", "--schedule"]:
                self.assertIn(option, chosen)
            self.assertEqual("--vocab-size" in chosen, kind == "subwords")
            self.assertIn("finished: --max-minutes reached", said)
            self.succeeds("generate", "--model", kind, "el", "--max-tokens", "3")

    def test_killed_the_same_command_goes_on(self):
        # The clock would choose otherwise the second time, and so would another number of threads.
        run = ["--max-minutes", "600", "--save-every", "1"]
        process = self.start(*run)
        self.until_line(process, "update 5 ")
        process.kill()
        process.communicate()
        before = json.loads((self.at / "m/training.json").read_text())
        process = self.start(*run, "--threads", "1")
        said = []
        for line in process.stderr:
            said.append(line)
            if "update" in line and "goes on" not in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 143)
        self.assertIn("goes on after update", "".join(said))
        self.assertNotIn("chosen", "".join(said))
        after = json.loads((self.at / "m/training.json").read_text())
        self.assertEqual(before["recipe"], after["recipe"])
        self.assertGreater(after["seconds"], before["seconds"])
        # What is left may be shortened, and the directory alone is enough.
        self.assertIn("--max-minutes reached", self.run_once("train", "--resume", "m", "--max-minutes", "0.001"))

    def test_a_small_vocabulary_goes_on(self):
        self.write("train.tsv", "el\tthe\n" * 300)
        said = self.train("--max-minutes", "0.01")
        self.assertIn("the text gives no more than", said)
        self.assertRegex(self.train("--max-minutes", "0.01"), "finished already|goes on after")  # as the clock has it


class Others(DefaultsTest):
    def test_without_any_limit_there_is_an_end(self):
        process = self.start()
        self.until_line(process, "update 3 ")
        process.kill()
        process.communicate()
        self.assertGreater(int(self.kept("max-epochs")), 1)
        self.assertEqual(self.kept("schedule"), "linear")

    def test_epochs_are_the_same_bits_however_fast(self):
        said = self.train("--max-epochs", "3")
        self.assertEqual(self.chosen(said)["--schedule"], "linear")
        self.assertIn("--max-epochs reached", said)
        self.train("--max-epochs", "3", "--threads", "2", "--model", "n")
        self.assertTrue(self.model() == self.model("n"))
        rates = self.rates()
        self.assertLess(rates[-1], max(rates) / 5)

    def test_updates_may_be_raised_later(self):
        chosen = self.chosen(self.train("--max-updates", "3"))
        self.assertNotIn("--schedule", chosen)
        self.assertIn("goes on after update 3", self.train("--max-updates", "6"))

    def test_what_is_given_stays(self):
        config = self.write("given.toml", "dropout = 0.25\nheads = 2\n")
        chosen = self.chosen(self.train("--config", config, "--learning-rate", "0.001", "--max-updates", "1"))
        for option in ["--dropout", "--subword-dropout", "--heads", "--learning-rate", "--d-model", "--feed-forward"]:
            self.assertNotIn(option, chosen)
        self.assertEqual(json.loads((self.at / "m/config.json").read_text())["dropout"], 0.25)

    def test_a_preset_is_fixed(self):
        tiny = ["train", "--pairs", "train.tsv", *TINY]
        for limit, schedule in [("--max-updates", "inverse-square-root"), ("--max-epochs", "inverse-square-root"),
                                ("--max-minutes", "linear")]:
            value = "0.01" if limit == "--max-minutes" else "1"
            self.assertNotIn("chosen", self.run_once(*tiny, limit, value, "--model", "m" + limit))
            self.assertEqual(self.kept("schedule", "m" + limit), schedule)

    def test_recipes_choose_everything_themselves(self):
        for side, column in [("s", 0), ("t", 1)]:
            self.write(side, "".join(line.split("\t")[column] + "\n"
                                     for line in (self.at / "train.tsv").read_text().splitlines()))
        pairs = ["--pairs", "train.tsv", "--valid-pairs", "dev.tsv", "--columns", "1,2"]
        files = ["--source", "s", "--target", "t", "--valid-source", "s", "--valid-target", "t"]
        smaller = [*SMALL, "--max-updates", "1"]
        for recipe, data in [("spa-eng", [*pairs, "--vocab-size", "300"]), ("multi30k", [*files, "--vocab-size", "300"]),
                             ("tinyshakespeare", ["--text", "text.txt"])]:
            said = self.run_once("train", "--config", RECIPES / f"{recipe}.toml", *data, *smaller, "--model", recipe)
            self.assertNotIn("chosen", said)

    def test_a_training_of_before_there_were_choices(self):
        # It kept no options and had those of the preset, which were the defaults.
        rest = ["--encoder-layers", "1", "--decoder-layers", "1", "--vocab-size", "300"]
        self.train("--preset", "small", *rest, "--max-updates", "2")
        (self.at / "m/train.toml").unlink()
        said = self.train(*rest, "--max-updates", "4")
        self.assertIn("goes on after update 2", said)
        self.assertNotIn("chosen", said)

    def test_from_another_model(self):
        self.train("--max-updates", "2")
        chosen = self.chosen(self.run_once("train", "--pairs", "train.tsv", "--init", "m", "--model", "n",
                                           "--max-updates", "1"))
        for option in ["--vocab-size", "--d-model", "--encoder-layers"]:
            self.assertNotIn(option, chosen)
        self.assertIn("--learning-rate", chosen)


if __name__ == "__main__":
    unittest.main()
