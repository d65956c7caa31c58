"""What heed 0.1 wrote at commit 27424a6, before docs/decisions/0007-saving.md: earlier/ has a translator and a writer with
their trainings, translations.tsv what it translated with a beam of 3, written.txt what it wrote behind "el pe"."""
import pathlib
import shutil
import unittest

from program import ProgramTest, corpus

EARLIER = pathlib.Path(__file__).parent / "earlier"
SHAPE = ["--preset", "tiny", "--d-model", "16", "--feed-forward", "32", "--heads", "2", "--dropout", "0", "--seed", "3",
         "--threads", "1", "--save-minutes", "0", "--learning-rate", "0.01"]
OF_PAIRS = ["train", "--pairs", "train.tsv", "--valid-pairs", "dev.tsv", *SHAPE, "--vocab-size", "300", "--max-positions",
            "64", "--batch-tokens", "256", "--encoder-layers", "1", "--decoder-layers", "1", "--warmup", "50",
            "--validate-every", "200", "--average", "2"]
OF_TEXT = ["train", "--text", "text.txt", "--vocab-type", "characters", *SHAPE, "--layers", "1", "--kv-heads", "1", "--batch",
           "4", "--block", "32", "--schedule", "constant", "--warmup", "20", "--validate-every", "300"]


class Earlier(ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ["translator", "writer"]:
            shutil.copytree(EARLIER / name, self.at / name)
        self.write("train.tsv", corpus(60))
        self.write("dev.tsv", corpus(8, seed=2))
        self.write("text.txt", "el perro come pan hoy. la gata duerme en casa.\n" * 60)

    def test_translates_the_same_tokens(self):
        lines = (EARLIER / "translations.tsv").read_text().splitlines()
        sources, translations = zip(*(line.split("\t") for line in lines))
        for model, options in [("translator", []), ("half", []), ("translator", ["--threads", "2", "--batch", "3"])]:
            if model == "half":
                self.succeeds("export", "--model", "translator", "--to", "half")
            text = self.succeeds("translate", "--model", model, "--beam", "3", "--length-penalty", "1", "--no-split",
                                 *options, stdin="\n".join(sources) + "\n")
            self.assertEqual(text.splitlines(), list(translations))

    def test_writes_the_same_tokens(self):
        text = self.succeeds("generate", "--model", "writer", "--temperature", "0", "--max-tokens", "60", "el pe")
        self.assertEqual(text, (EARLIER / "written.txt").read_text())

    def test_inspects(self):
        for name in ["translator", "writer"]:
            self.succeeds("inspect", name)

    def test_goes_on(self):
        for run, model, done in [(OF_PAIRS, "translator", 400), (OF_TEXT, "writer", 600)]:
            more = [*run, "--model", model, "--max-updates", str(done + 3)]
            went = self.heed(*more)
            self.assertEqual(went.returncode, 0, went.stderr.decode())
            self.assertIn(f"goes on after update {done}", went.stderr.decode())
            went = self.heed("train", "--resume", model, "--max-updates", str(done + 5))  # it has its options now
            self.assertEqual(went.returncode, 0, went.stderr.decode())
            self.assertIn(f"goes on after update {done + 3}", went.stderr.decode())

    def test_what_it_did_not_keep(self):
        self.refuses(1, "this training kept no options (train.toml), as those of older versions; give its whole command",
                     "train", "--resume", "translator")
        self.refuses(1, "this run began with --learning-rate 0.01, not 0.02; give the same to resume", *OF_PAIRS, "--quiet",
                     "--learning-rate", "0.02", "--max-updates", "500", "--model", "translator")


if __name__ == "__main__":
    unittest.main()
