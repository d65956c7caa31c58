"""Mistakes that people make at the command line: each is refused or said, and names its remedy."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import tiny_models
from program import HEED, TINY, ProgramTest, TrainingTest, corpus, zeros_npy

BUNDLED = pathlib.Path(__file__).resolve().parents[2] / "models/spa-eng"
TINY_TEXT = ["--preset", "tiny", "--d-model", "32", "--feed-forward", "32", "--vocab-type", "characters", "--block", "16",
             "--batch", "4", "--threads", "1"]
TEXT = "the dog sees the cat. a house is red.\n" * 60


def setUpModule():
    global TRANSLATOR, WRITER, BERT
    root = pathlib.Path(tempfile.mkdtemp(prefix="heed-mistakes-"))
    unittest.addModuleCleanup(shutil.rmtree, root)
    (root / "train.tsv").write_text(corpus(300))
    (root / "text.txt").write_text(TEXT)
    TRANSLATOR, WRITER, BERT = root / "translator", root / "writer", root / "bert"
    for model, data in (TRANSLATOR, ["--pairs", root / "train.tsv", *TINY]), (WRITER, ["--text", root / "text.txt", *TINY_TEXT]):
        subprocess.run([HEED, "train", "--model", model, *data, "--max-updates", "3"], check=True, stderr=subprocess.PIPE)
    tiny_models.text_encoder(BERT, "BertForMaskedLM")


class OutputOverInput(ProgramTest):
    """No command replaces the text that it reads, by whatever name."""
    SAYS = "is what the command reads"

    def names(self):
        self.write("text.txt", "el perro\n")
        (self.at / "link").symlink_to("text.txt")
        os.link(self.at / "text.txt", self.at / "hard")
        return "text.txt", "./text.txt", "link", "hard", str(self.at / "text.txt")

    def test_a_file(self):
        for output in self.names():
            for command in (["translate", "-m", TRANSLATOR], ["generate", "-m", WRITER], ["generate", "-m", WRITER, "--score"],
                            ["tokenize", "-m", TRANSLATOR], ["embed", "-m", TRANSLATOR], ["fill", "-m", BERT],
                            ["score", "-r", "text.txt"]):
                with self.subTest(command=command[0], output=output):
                    self.refuses(2, self.SAYS, *command, "-i", "text.txt", "-o", output)
            self.refuses(2, self.SAYS, "prepare", "--text", "text.txt", "--to", output)
            self.refuses(2, self.SAYS, "translate", "-m", TRANSLATOR, "hoy", "--force", "text.txt", "-o", output)

    def test_standard_input(self):
        self.names()
        for command in (["translate", "-m", TRANSLATOR], ["translate", "-m", TRANSLATOR, "hoy", "-"],
                        ["generate", "-m", WRITER], ["tokenize", "-m", TRANSLATOR], ["embed", "-m", TRANSLATOR],
                        ["score", "-r", "text.txt"]):
            with self.subTest(command), open(self.at / "text.txt", "rb") as text:
                done = subprocess.run([HEED, *map(str, command), "-o", "hard"], stdin=text, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, cwd=self.at, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, b""))
                self.assert_one_line(done.stderr.decode(), self.SAYS)
        self.assertEqual((self.at / "text.txt").read_text(), "el perro\n")

    def test_standard_output(self):
        """What is appended to the file that is read would be read again, without end."""
        self.names()
        for command in (["translate", "-m", TRANSLATOR], ["generate", "-m", WRITER], ["tokenize", "-m", TRANSLATOR],
                        ["embed", "-m", TRANSLATOR], ["score", "-r", "text.txt"]):
            with self.subTest(command), open(self.at / "text.txt", "ab") as output:
                done = subprocess.run([HEED, *map(str, command), "-i", "link"], stdin=subprocess.DEVNULL, stdout=output,
                                      stderr=subprocess.PIPE, cwd=self.at, timeout=60, check=False)
                self.assertEqual(done.returncode, 2)
                self.assert_one_line(done.stderr.decode(), ", which the command reads; write to another file")
        self.assertEqual((self.at / "text.txt").read_text(), "el perro\n")

    def test_other_files_pass(self):
        self.names()
        self.assertEqual(self.succeeds("translate", "-m", TRANSLATOR, "-i", "text.txt", "-o", "out.txt"), "")
        self.assertEqual(self.succeeds("translate", "-m", TRANSLATOR, "-i", "text.txt", "-o", "out.txt"), "")
        self.assertEqual((self.at / "out.txt").read_text(), self.succeeds("translate", "-m", TRANSLATOR, "-i", "text.txt"))


class TextsAndFiles(ProgramTest):
    """One in the place of the other."""

    def test_a_text_that_is_the_name_of_a_file(self):
        self.write("notes.txt", "el perro\n")
        self.write("my notes", "el perro\n")
        cat = '"$(cat notes.txt)"'
        for command, how in ((["translate", "-m", TRANSLATOR, "notes.txt"], "-i notes.txt"),
                             (["translate", "-m", TRANSLATOR, "my notes"], "-i 'my notes'"),
                             (["translate", "-m", TRANSLATOR, "hoy", "notes.txt"], "-i notes.txt"),
                             (["generate", "-m", WRITER, "--max-tokens", 1, "notes.txt"], "-i notes.txt"),
                             (["attend", "-m", TRANSLATOR, "notes.txt"], cat),
                             (["attend", "-m", TRANSLATOR, "hoy", "--target", "notes.txt"], cat),
                             (["attend", "-m", WRITER, "notes.txt"], cat),
                             (["logits", "-m", WRITER, "notes.txt", "--out", "logits.npy", "--quiet"], None)):
            with self.subTest(command):
                done = self.heed(*command)
                self.assertEqual(done.returncode, 0, done.stderr.decode())
                says = [line for line in done.stderr.decode().splitlines() if "is the name of a file" in line]
                self.assertEqual(len(says), 1 if how else 0)
                if how:
                    self.assertTrue(says[0].endswith(f"; to read the file, give {how}"), says)
        self.assertEqual(self.heed("translate", "-m", TRANSLATOR, "notes.txt", "-q").stderr, b"")
        self.assertIn(b"is the name of a file", self.heed("logits", "-m", WRITER, "notes.txt", "--out", "logits.npy").stderr)
        self.succeeds("translate", "-m", TRANSLATOR, "el perro")
        self.succeeds("translate", "-m", TRANSLATOR, ".")  # a directory

    def test_the_advice_works(self):
        self.write("notes.txt", "el perro\n")
        said = self.heed("translate", "-m", TRANSLATOR, "notes.txt").stderr.decode()
        option = said.rsplit("give ", 1)[1].split()
        self.assertEqual(self.succeeds("translate", "-m", TRANSLATOR, *option),
                         self.succeeds("translate", "-m", TRANSLATOR, "el perro"))

    def test_a_file_that_is_a_text(self):
        for command in (["embed", "-m", TRANSLATOR], ["tokenize", "-m", TRANSLATOR], ["fill", "-m", BERT]):
            for text in ("A cat sat.", "Hello.", "Hello?", "It's [MASK] and " * 40):
                with self.subTest(command=command[0], text=text):
                    self.refuses(1, "To give a text itself, leave it out and put this before the command: echo "
                                 f"{shlex.quote(text) if len(text) < 60 else 'TEXT'} |", *command, text)
            for name in ("none.txt", "no/text", "none"):
                done = self.heed(*command, name)
                self.assertEqual(done.returncode, 1)
                self.assertNotIn("a text itself", done.stderr.decode())
        self.refuses(1, "No such file", "embed", "-m", TRANSLATOR, "--similarity", "a dog", stdin="x\n")
        self.refuses(1, "leave out --input: heed translate ... 'a dog'", "translate", "-m", TRANSLATOR, "-i", "a dog")
        self.refuses(1, "leave out --input: heed generate ... 'a dog'", "generate", "-m", WRITER, "-i", "a dog")


class WithoutEffect(ProgramTest):
    """Options that others leave nothing to do are refused, or said to have no effect."""

    def test_shortest_and_longest(self):
        for command in (["translate", "-m", TRANSLATOR, "hoy", "--min-length", 9, "--max-length", 3],
                        ["generate", "-m", WRITER, "a", "--min-tokens", 9, "--max-tokens", 3]):
            shortest, longest = command[4], command[6]
            self.refuses(2, f"{shortest} 9 is more than the longest text, 3 tokens; give a smaller {shortest} or a larger "
                         f"{longest}", *command)
        self.refuses(2, "--min-tokens 300 is more than the longest text, 256 tokens unless you choose it", "generate", "-m",
                     WRITER, "a", "--min-tokens", 300)
        self.succeeds("translate", "-m", TRANSLATOR, "hoy", "--min-length", 3, "--max-length", 3)
        self.succeeds("translate", "-m", TRANSLATOR, "hoy", "--min-length", 9)

    def test_a_directory_may_say_what_it_likes(self):
        tiny_models.language_model(self.at / "gpt2")
        generate = ["generate", "-m", "gpt2", "a"]
        for settings in ({"min_new_tokens": 20, "max_new_tokens": 4}, {"do_sample": False, "top_k": 5, "temperature": 0.5}):
            (self.at / "gpt2/generation_config.json").write_text(json.dumps({"max_new_tokens": 4, **settings}))
            self.succeeds(*generate)
            self.succeeds(*generate, "--max-tokens", 3)
            self.refuses(2, "--samples 2 would be the same text several times", *generate, "--samples", 2)
            self.refuses(2, "--min-tokens 9 is more than the longest text, 4 tokens unless you choose it", *generate,
                         "--min-tokens", 9)
            self.succeeds(*generate, "--min-tokens", 9, "--max-tokens", 10)
            self.succeeds(*generate, "--samples", 2, "--temperature", 1)
        (self.at / "gpt2/generation_config.json").write_text(json.dumps({"max_length": 12, "min_new_tokens": 40}))
        self.succeeds(*generate)
        self.succeeds(*generate, "--min-tokens", 3)
        self.refuses(2, "--min-tokens 12 is more than the longest text, 11 tokens unless you choose it", *generate,
                     "--min-tokens", 12)

    def test_what_is_of_draws_or_of_the_search(self):
        translate, generate = ["translate", "-m", TRANSLATOR, "hoy"], ["generate", "-m", WRITER, "a", "--max-tokens", 3]
        self.refuses(2, "--seed is for sampling", *translate, "--seed", 3)
        self.succeeds(*translate, "--seed", 3, "--sample")
        self.refuses(2, "--length-penalty", *translate, "--sample", "--length-penalty", 1)
        self.succeeds(*translate, "--sample", "--length-penalty", 1, "-n", 2)
        self.refuses(2, "--n-best 2 would be one translation several times", *translate, "--sample", "--temperature", 0, "-n", 2)
        self.refuses(2, "--n-best 2 would be one translation several times", *translate, "--sample", "--top-k", 1, "-n", 2)
        self.refuses(2, "--samples 2 would be the same text several times: with --temperature 0", *generate, "--temperature", 0,
                     "--samples", 2)
        self.refuses(2, "--samples 2 would be the same text several times: with --top-k 1", *generate, "--top-k", 1,
                     "--samples", 2)
        self.assertEqual(self.succeeds(*generate, "--samples", 2).count("---\n"), 1)
        for option, value in ("--seed", 3), ("--top-k", 4), ("--top-p", 0.5), ("--min-p", 0.5):
            self.refuses(2, "is for sampling, and", *generate, "--temperature", 0, option, value)
            self.succeeds(*generate, option, value)
        self.succeeds(*generate, "--temperature", 0)

    def test_a_third_party_model_replaces_nothing(self):
        """A directory with a config.json may be a project of another kind."""
        for name in ("gpt2", "other"):
            tiny_models.language_model(self.at / name)
        self.write("app/config.json", '{"name": "my app"}')
        self.write("app/README.md", "mine")
        for command in (["export", "-m", "gpt2"], ["average", "gpt2", "other"]):
            self.refuses(2, "--to app has files", *command, "--to", "app", "--overwrite")
            self.refuses(2, "--to other has files" if command[0] == "export" else "--to other is one of the models",
                         *command, "--to", "other", "--overwrite")
        self.assertEqual({path.name: path.read_text() for path in (self.at / "app").iterdir()},
                         {"config.json": '{"name": "my app"}', "README.md": "mine"})

    def test_what_is_of_writing(self):
        self.write("given.txt", "dog\n")
        for option, value in ("--max-tokens", 3), ("--temperature", 1), ("--stop", "x"), ("--samples", 2), ("--seed", 1):
            self.refuses(2, f"{option}", "generate", "-m", WRITER, "--score", "the dog sees", option, value)
        for option, value in ("--beam", 3), ("--max-length", 3), ("--min-length", 3), ("--no-repeat-ngram", 2):
            self.refuses(2, f"{option}", "translate", "-m", TRANSLATOR, "hoy", "--force", "given.txt", option, value)

    def test_pictures_and_arrays(self):
        for option, value in (("--width", "80mm"), ("--dpi", 100), ("--font-size", 9), ("--font", "Serif")):
            self.refuses(2, f"{option} is of pictures", "attend", "-m", TRANSLATOR, "hoy", option, value)
        self.refuses(2, "--columns is of a row of heads", "attend", "-m", TRANSLATOR, "hoy", "--columns", 2, "--svg", "x.svg")
        self.refuses(2, "--beam is of a search", "attend", "-m", TRANSLATOR, "hoy", "--target", "dog", "--beam", 2)
        for name in "qkv":
            self.write(name + ".npy", zeros_npy(2, 4))
        files = ["attention", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]
        self.refuses(2, "--qk-output requires --scores", *files, "--qk-output", 1)
        self.succeeds(*files, "--seed", 3, says="--seed has no effect without --dropout")
        self.write("r.txt", "a\n")
        self.succeeds("score", "-r", "r.txt", "--seed", 3, stdin="a\n", says="--seed has no effect without --confidence")
        self.refuses(2, "--model is of the section translation", "bench", "--only", "attention", "-m", TRANSLATOR)

    def test_prepare(self):
        self.write("text.txt", TEXT)
        self.write("pairs.tsv", corpus(20))
        vocabulary = TRANSLATOR / "vocabulary.txt"
        self.refuses(2, "--vocab-size is of a vocabulary that is learned", "prepare", "--pairs", "pairs.tsv", "--to", "t",
                     "--vocabulary", vocabulary, "--vocab-size", 400)
        self.refuses(2, "--vocab-size is of subwords", "prepare", "--text", "text.txt", "--to", "t", "--vocab-type",
                     "characters", "--vocab-size", 400)
        self.refuses(2, "--columns is of --pairs", "prepare", "--text", "text.txt", "--to", "t", "--columns", "2,1")


    def test_train(self):
        self.write("text.txt", TEXT)
        self.write("pairs.tsv", corpus(50))
        pairs, text = ["train", "--model", "m", "--pairs", "pairs.tsv"], ["train", "--model", "m", "--text", "text.txt"]
        for option, value in ("--vocab-size", 300), ("--character-coverage", 0.99):
            self.refuses(2, f"{option} is of subwords", *text, "--vocab-type", "characters", option, value)
        self.refuses(2, "--min-learning-rate is what --schedule linear and cosine end at", *pairs, "--schedule", "constant",
                     "--min-learning-rate", 1e-5)
        self.refuses(2, "--columns is of --pairs", "train", "--model", "m", "--source", "text.txt", "--target", "text.txt",
                     "--columns", "2,1")
        self.succeeds(*pairs, "--dump-config", "--schedule", "cosine", "--min-learning-rate", 1e-5)


@unittest.skipUnless((BUNDLED / "model.safetensors").exists(), "there is no bundled model")
class NBest(ProgramTest):
    def test_each_text_once(self):
        """The search finds "Don't." twice, in different pieces."""
        for line in "No.", "Hola. No.", "¿Qué? No. Sí.":
            for beam in [], ["-b", 1], ["-b", 5]:
                with self.subTest(line=line, beam=beam):
                    rows = [row.split("\t") for row in
                            self.succeeds("translate", line, "-m", BUNDLED, "--scores", "-n", 5, *beam).splitlines()]
                    texts, scores = [row[1] for row in rows], [float(row[2]) for row in rows]
                    self.assertEqual(len(set(texts)), len(texts))
                    self.assertEqual(scores, sorted(scores, reverse=True))
                    self.assertTrue(all(texts) and 2 < len(texts) <= 5, texts)
                    best = self.succeeds("translate", line, "-m", BUNDLED, "--scores", "-b", 5).rstrip("\n").split("\t")
                    self.assertEqual(best, rows[0][1:])
        listed = json.loads(self.succeeds("translate", "No.", "-m", BUNDLED, "-n", 5, "--json"))["translations"]
        self.assertEqual(len({t["text"] for t in listed}), len(listed))

    def test_a_blank_line_has_one(self):
        self.assertEqual(self.succeeds("translate", "-m", BUNDLED, "-n", 3, stdin="\n"), "1\t\n")

    def test_draws_may_repeat(self):
        drawn = self.succeeds("translate", "No.", "-m", BUNDLED, "-n", 20, "--sample").splitlines()
        self.assertEqual(len(drawn), 20)
        self.assertLess(len(set(drawn)), 20)


class Messages(ProgramTest):
    def test_a_model_that_the_environment_names(self):
        says = "HEED_MODEL is nope, which does not exist; set it to the directory of a model, unset it, or give --model DIR"
        for command in (["translate", "x"], ["generate", "x"], ["attend", "x"], ["tokenize"], ["embed"], ["fill"], ["classify"],
                        ["logits", "x", "--out", "x.npy"], ["serve"], ["bench", "--only", "translation"]):
            with self.subTest(command):
                self.refuses(1, says, *command, env={"HEED_MODEL": "nope"})
        self.succeeds("translate", "hoy", "-m", TRANSLATOR, env={"HEED_MODEL": "nope"})
        self.write("notes.txt", "")
        self.refuses(1, "HEED_MODEL notes.txt: Not a directory", "translate", "hoy", env={"HEED_MODEL": "notes.txt"})
        (self.at / "empty").mkdir()
        self.refuses(1, "HEED_MODEL empty: ", "translate", "hoy", env={"HEED_MODEL": "empty"})

    def test_a_size_of_the_vocabulary(self):
        self.write("text.txt", TEXT)
        self.write("pairs.tsv", corpus(300))
        for size, says in (99999, "--vocab-size 99999: the text gives at most "), (2, "--vocab-size 2: "):
            for data in ["--text", "text.txt"], ["--pairs", "pairs.tsv"]:
                self.refuses(2, says, "prepare", *data, "--to", "t", "--vocab-size", size)
                done = self.heed("train", *data, "--model", "m", "--preset", "tiny", "--vocab-size", size, "-q")
                self.assertEqual(done.returncode, 2)
                self.assert_one_line(done.stderr.decode(), says)

    def test_inspect_what_is_no_model(self):
        self.write("README.md", "# A text\n\nwith words.\n")
        self.write("page.bin", "<html>" + " " * 1000)
        self.write("empty.txt", "")
        self.write("data.pt", b"PK\x03\x04" + bytes(100))
        kinds = "; give a model's directory, or a .safetensors, .gguf, .npy or .npz file"
        for name in "README.md", "page.bin", "empty.txt":
            self.refuses(1, f"{name}: not a file of tensors{kinds}", "inspect", name)
        self.refuses(1, f"data.pt: this is a zip archive (PyTorch's .pt and .bin are such, and .npz){kinds}", "inspect", "data.pt")
        shutil.copy(TRANSLATOR / "model.safetensors", self.at / "weights.bin")
        self.assertIn("safetensors", self.succeeds("inspect", "weights.bin"))

    def test_heads_that_are_not_there(self):
        for option, value in ("--without", "9.9"), ("--change", "9.9=uniform"):
            self.refuses(2, f"{option} {value}: head 9.9 is not there: the model has 1 layer", "attend", "-m", TRANSLATOR, "hoy",
                         option, value, "--html", "x.html")
        self.refuses(2, "--without 9.9: head 9.9 is not there", "attend", "-m", TRANSLATOR, "hoy", "--head", 1, "--without",
                     "9.9", "--html", "x.html")

    def test_the_width_of_a_picture(self):
        self.refuses(2, "--width 80 is out of range: 0.4 inches (a number without mm, cm or in is in pixels); give 0.5 to 200 inches", "attend",
                     "-m", TRANSLATOR, "hoy", "--width", 80, "--png", "x.png")
        self.refuses(2, "--width 9000mm is out of range: 354 inches; give 0.5 to 200 inches", "attend", "-m", TRANSLATOR, "hoy", "--width",
                     "9000mm", "--svg", "x.svg")

    def test_endings_of_other_formats(self):
        for option, name in (("--png", "x.svg"), ("--svg", "x.png"), ("--pdf", "x.png"), ("--html", "x.pdf")):
            self.refuses(2, f"{option} {name}: the name ends in {name[1:]}, and what is written is {option[2:]}", "attend", "-m",
                         TRANSLATOR, "hoy", option, name)
        for name in "qkv":
            self.write(name + ".npy", zeros_npy(2, 4))
        self.refuses(2, "--out o.npz: the name ends in .npz, and what is written is npy", "attention", "--q", "q.npy", "--k",
                     "k.npy", "--v", "v.npy", "--out", "o.npz")
        self.refuses(2, "--json x.html: ", "bench", "--only", "attention", "--json", "x.html")
        self.refuses(2, "--output v.npz: lines of numbers are written", "embed", "-m", TRANSLATOR, "-o", "v.npz", stdin="a\n")
        self.write("pairs.tsv", corpus(50))
        for option, name in ("--html", "x.png"), ("--timeline", "x.html"):
            self.refuses(2, f"{option} {name}: ", "train", "--pairs", "pairs.tsv", "--model", "m", option, name)

    def test_a_key_of_a_configuration(self):
        self.write("pairs.tsv", corpus(50))
        for key, hint in (("warmpu", "did you mean warmup?"), ("max_epochs", "did you mean max-epochs?"),
                          ("epochs", "did you mean max-epochs?"), ("qqqqq", "heed train --help-all lists them")):
            self.write("c.toml", f"{key} = 3\n")
            self.refuses(1, f"c.toml: line 1: there is no option '{key}'; {hint}", "train", "--config", "c.toml", "--pairs",
                         "pairs.tsv", "--model", "m")


class Trainings(TrainingTest):
    RUN = ["train", "--pairs", "train.tsv", "--model", "m", *TINY, "--log-every", "1"]

    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(300))
        self.write("text.txt", TEXT)

    def test_data_of_the_other_kind(self):
        for name, model in ("translator", TRANSLATOR), ("writer", WRITER):
            shutil.copytree(model, self.at / name)
            self.succeeds("export", "--model", model, "--to", name + "-alone")
        pairs, text = ["--pairs", "train.tsv"], ["--text", "text.txt"]
        of_pairs, of_text = "learns from pairs; give --pairs instead of --text", "learns from a text; give --text instead of pairs"
        for model, data, says in ("translator", text, of_pairs), ("writer", pairs, of_text):
            self.refuses(2, f"--model {model} holds a ", "train", *data, "--model", model)
            self.refuses(2, f"{says}, or another --model", "train", *data, "--model", model)
            self.refuses(2, f"{says}, or another --model", "train", *data, "--model", model + "-alone")
            self.refuses(2, f"{says}, or another --init", "train", *data, "--init", model, "--model", "new")

    def test_a_model_without_its_training(self):
        self.succeeds("export", "--model", TRANSLATOR, "--to", "alone")
        begin = "by --init alone"
        self.refuses(2, "--resume alone: it holds a model without its training (training.json); begin a new training with this "
                     f"model {begin}, the data and another --model", "train", "--resume", "alone")
        self.refuses(2, begin, "train", "--pairs", "train.tsv", "--model", "alone")
        done = self.heed("train", "--pairs", "train.tsv", "--init", "alone", "--model", "new", "--max-updates", "2")  # the advice
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.refuses(1, "--resume train.tsv is not a directory", "train", "--resume", "train.tsv")
        self.write("others/mine.txt", "x")
        self.refuses(2, "--resume others holds files that heed did not make", "train", "--resume", "others")
        (self.at / "empty").mkdir()
        self.refuses(1, "begin one with --model empty", "train", "--resume", "empty")

    def test_nothing_to_validate_on(self):
        self.write("empty.tsv", "")
        self.refuses(1, "--valid-pairs: the files hold nothing to validate on", *self.RUN, "--valid-pairs", "empty.tsv")
        self.refuses(1, "--valid-source: the files hold nothing to validate on", *self.RUN, "--valid-source", "empty.tsv",
                     "--valid-target", "empty.tsv")
        self.refuses(1, "empty.tsv is empty; give another validation text", "train", "--text", "text.txt", "--model", "m",
                     *TINY_TEXT, "--valid-text", "empty.tsv")

    def test_training_data_to_validate_on(self):
        shutil.copy(self.at / "train.tsv", self.at / "copy.tsv")
        (self.at / "link.tsv").symlink_to("train.tsv")
        self.write("half.tsv", corpus(150) + corpus(40, seed=9))
        self.write("others.tsv", corpus(60, seed=7))
        says = "validation pairs are training pairs, too"
        for name in "train.tsv", "copy.tsv", "link.tsv", "half.tsv":
            self.assertIn(says, self.train("--valid-pairs", name, "--max-updates", "1"))
            shutil.rmtree(self.at / "m")
        self.assertNotIn(says, self.train("--valid-pairs", "others.tsv", "--max-updates", "1"))
        done = self.heed("train", "--text", "text.txt", "--valid-text", "text.txt", "--model", "w", *TINY_TEXT, "--max-updates", 1)
        self.assertIn("the validation text is part of the training text", done.stderr.decode())

    def test_nothing_to_leave_out(self):
        source = (self.at / "train.tsv").read_text().splitlines()[0].split("\t")[0]
        self.write("empty.txt", "")
        self.write("columns.tsv", "\n".join((self.at / "train.tsv").read_text().splitlines()[:3]) + "\n")
        self.write("other.txt", "zzz\n")
        self.write("one.txt", source + "\n")
        for name, says in (("empty.txt", "left out no pairs: empty.txt has no lines"),
                           ("columns.tsv", "left out no pairs: no source is a line of columns.tsv, whose lines have columns"),
                           ("other.txt", "left out no pairs: no source is a line of other.txt"), ("one.txt", "left out ")):
            self.assertIn(says, self.train("--exclude", name, "--max-updates", "1"))
            shutil.rmtree(self.at / "m")
            done = self.heed("prepare", "--pairs", "train.tsv", "--to", "t", "--exclude", name, "--vocab-size", 300)
            self.assertIn(says, done.stderr.decode())

    def test_minutes_that_are_over(self):
        """The last validation ends the minutes early; a second run does not use the rest."""
        self.train("--max-minutes", "0.03", "--max-updates", "0")
        before = self.model()
        for _ in range(2):
            said = self.heed("train", "--resume", "m").stderr.decode()
            self.assertRegex(said, r"finished already: --max-minutes reached after \d+ updates")
            self.assertIn("; to continue, train with --resume m and a larger --max-minutes", said)
            self.assertNotIn("goes on after update", said)
        self.assertEqual(self.model(), before)
        self.assertIn("goes on after update", self.heed("train", "--resume", "m", "--max-minutes", "0.05").stderr.decode())

    def test_a_loss_that_rises(self):
        says = r"the loss rose from [\d.e+]+ to [\d.e+]+, so the training has failed; start over .* lower --learning-rate"
        self.assertRegex(self.train("--learning-rate", "1000", "--warmup", "0", "--max-updates", "30"), says)
        shutil.rmtree(self.at / "m")
        self.assertIsNone(re.search(says, self.train("--max-updates", "30")))


if __name__ == "__main__":
    unittest.main()
