"""The command line itself: help, versions, wrong use, configuration files, and outputs that cannot be written."""
import os
import subprocess
import unittest

from program import HEED, ProgramTest, TINY, corpus

COMMANDS = ["train", "translate", "score", "attend", "attention", "inspect", "bench", "export",
            "generate"]


class Help(ProgramTest):
    def test_every_command_shows_an_example(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.succeeds(command, "--help")
                self.assertIn("Example", text)
                self.assertIn(f"heed {command}", text)
                self.assertIn("--threads", text)
                self.assertIn("--seed", text)
        overview = self.succeeds("--help")
        for command in COMMANDS:
            self.assertIn(command, overview)

    def test_version(self):
        self.assertRegex(self.succeeds("--version"), r"\Aheed \d+\.\d+\.\d+\n\Z")


class WrongUse(ProgramTest):
    def test_no_command(self):
        self.refuses(2, "heed: ")

    def test_unknown_command(self):
        self.refuses(2, "transalte", "transalte")

    def test_unknown_option(self):
        for command in COMMANDS:
            with self.subTest(command):
                self.refuses(2, "--frobnicate", command, "--frobnicate")

    def test_value_out_of_range(self):
        self.refuses(2, "--beam", "translate", "--beam", "0")
        self.refuses(2, "--beam", "translate", "--beam", "many")
        self.refuses(2, "--threads", "translate", "--threads", "-1")
        self.refuses(2, "--columns", "train", "--pairs", "x.tsv", "--model", "m", "--columns", "2;1")
        self.refuses(2, "--pairs", "train", "--model", "m")
        self.refuses(2, "--model", "train", "--pairs", "x.tsv")

    def test_missing_option(self):
        self.refuses(2, "--reference", "score")
        self.refuses(2, "--k", "attention", "--q", "q.npy")


class Config(ProgramTest):
    def dump(self, *arguments):
        return self.succeeds("train", "--dump-config", *arguments)

    @staticmethod
    def values(text):
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return dict(line.split("=", 1) for line in lines)

    def test_round_trip(self):
        first = self.dump("--preset", "tiny", "--learning-rate", "0.0025", "--pairs", "a b.tsv", "--columns", "2,1",
                          "--norm", "rms_norm", "--epsilon", "1e-9", "--tie-embeddings", "false")
        self.write("all.toml", first)
        self.assertEqual(self.dump("--config", "all.toml"), first)
        values = self.values(first)
        self.assertEqual(values["d-model"], "64")  # from the preset
        self.assertEqual(values["pairs"], '"a b.tsv"')

    def test_command_line_over_config_over_preset(self):
        self.write("some.toml", 'preset = "tiny"\nd-model = 48\nheads = 3\nlearning-rate = 0.5\n')
        values = self.values(self.dump("--config", "some.toml", "--d-model", "96"))
        self.assertEqual(values["d-model"], "96")
        self.assertEqual(values["heads"], "3")
        self.assertEqual(values["feed-forward"], "128")
        self.assertEqual(float(values["learning-rate"]), 0.5)

    def test_unknown_key(self):
        self.write("wrong.toml", "learning-rat = 0.1\n")
        self.refuses(1, "learning-rat", "train", "--config", "wrong.toml", "--dump-config")
        self.write("section.toml", "[optimiser]\nlearning-rate = 0.1\n")
        self.refuses(1, "optimiser.learning-rate", "train", "--config", "section.toml", "--dump-config")

    def test_wrong_value(self):
        self.write("wrong.toml", 'd-model = "wide"\n')
        self.refuses(2, "d-model", "train", "--config", "wrong.toml", "--dump-config")
        self.refuses(1, "none.toml", "train", "--config", "none.toml", "--dump-config")

    def test_committed_recipe(self):
        recipe = os.path.join(os.path.dirname(__file__), "../../recipes/spa-eng.toml")
        values = self.values(self.dump("--config", os.path.abspath(recipe)))
        self.assertEqual(values["columns"], '"2,1"')
        self.assertEqual(values["d-model"], "256")
        self.assertEqual(values["pre-norm"], "true")


class Output(ProgramTest):
    """What is read by somebody who leaves, and what cannot be written."""

    def setUp(self):
        super().setUp()
        self.write("r.txt", "a\nb\n")

    def test_reader_leaves(self):
        for arguments in (["score", "--reference", "r.txt"], ["train", "--dump-config"]):
            with self.subTest(arguments[0]):
                read, write = os.pipe()
                os.close(read)
                done = self.heed(*arguments, stdin="a\nb\n", stdout=write)
                os.close(write)
                self.assertEqual((done.returncode, done.stderr), (141, b""))

    def test_full_disk(self):
        for arguments in (["score", "--reference", "r.txt"], ["train", "--dump-config"]):
            with self.subTest(arguments[0]), open("/dev/full", "wb") as full:
                done = self.heed(*arguments, stdin="a\nb\n", stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assert_one_line(done.stderr.decode(), "standard output")


class Score(ProgramTest):
    REFERENCE = ("The harbour was quiet, and 3.5 boats lay at anchor.\nShe said: \"don't wait for the 10-year report!\"\n"
                 "¿Dónde está la llave del buzón azul?\nΟΔΟΣ ΣΟΦΙΑΣ 12\nA\n"
                 "We sold 1,200 kilos of tea &amp; coffee in 2019-2020.\n")
    HYPOTHESES = ("The harbor was quiet and 3.5 boats lay at an anchor .\n"
                  "she said : \"do not wait for the 10-year report!\"\n¿Donde está la llave azul del buzón?\n"
                  "οδος σοφιας 12\n\nWe sold 1200 kilos of tea & coffee in 2019-2020\n")

    def test_numbers_are_sacrebleus(self):
        self.write("r.txt", self.REFERENCE)
        text = self.succeeds("score", "--reference", "r.txt", stdin=self.HYPOTHESES)
        self.assertEqual(text.splitlines()[:2],
                         ["BLEU = 54.69 82.0/62.2/47.5/40.0 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)",
                          "chrF2 = 73.65"])
        self.assertIn("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:heed-", text)
        text = self.succeeds("score", "--lowercase", "--reference", "r.txt", stdin=self.HYPOTHESES)
        self.assertEqual(text.splitlines()[:2],
                         ["BLEU = 59.57 88.0/68.9/52.5/42.9 (BP = 0.980 ratio = 0.980 hyp_len = 50 ref_len = 51)",
                          "chrF2 = 80.14"])
        self.assertIn("case:lc", text)

    def test_windows_line_ends(self):
        self.write("r.txt", self.REFERENCE.replace("\n", "\r\n"))
        self.assertIn("BLEU = 54.69", self.succeeds("score", "--reference", "r.txt", stdin=self.HYPOTHESES))

    def test_unequal_counts(self):
        self.write("r.txt", "a\nb\n")
        self.refuses(1, "r.txt has 2 lines but standard input has 3", "score", "--reference", "r.txt", stdin="a\nb\nc\n")

    def test_nothing(self):
        self.write("r.txt", "")
        self.refuses(1, "no lines", "score", "--reference", "r.txt")

    def test_unreadable(self):
        self.refuses(1, "none.txt", "score", "--reference", "none.txt")
        self.refuses(1, "directory", "score", "--reference", ".")

    def test_malformed_utf8(self):
        self.write("r.txt", "a b c d\n")
        self.succeeds("score", "--reference", "r.txt", stdin=b"a b c \xff\n", says="U+FFFD in 1 place")


if __name__ == "__main__":
    unittest.main()
