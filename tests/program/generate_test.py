"""heed train --text and heed generate with tiny models made here."""
import json
import math
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from program import HEED, ProgramTest, TINY, TrainingTest, corpus, snapshot

# Five words by turns, with characters of two, three and four bytes.
WORDS = ["café", "日本", "😀!", "one", "two"]


def text(lines, seed=1):
    choose = random.Random(seed)
    out = []
    for _ in range(lines):
        at = choose.randrange(len(WORDS))
        out.append("  ".join(WORDS[(at + i) % len(WORDS)] for i in range(choose.randint(2, 6))))
    return "\n".join(out) + "\n"


SHAPE = ["--preset", "tiny", "--d-model", "32", "--feed-forward", "64", "--layers", "1", "--block", "32", "--batch", "8",
         "--dropout", "0", "--seed", "3", "--threads", "1", "--save-minutes", "0"]
CHARACTERS = [*SHAPE, "--vocab-type", "characters"]
SUBWORDS = [*SHAPE, "--vocab-size", "275"]


def train(directory, *arguments):
    subprocess.run([HEED, "train", *map(str, arguments), "--model", directory], check=True, stderr=subprocess.PIPE,
                   timeout=240)


def setUpModule():
    global CHARACTER_MODEL, SUBWORD_MODEL, BYTE_MODEL
    root = pathlib.Path(tempfile.mkdtemp(prefix="heed-generate-"))
    unittest.addModuleCleanup(shutil.rmtree, root)
    (root / "text.txt").write_text(text(600), encoding="utf-8")
    (root / "ascii.txt").write_text("plain words, one line after the other\n" * 100, encoding="utf-8")
    learn = ["--max-updates", "400", "--learning-rate", "0.01", "--warmup", "20"]
    CHARACTER_MODEL, SUBWORD_MODEL, BYTE_MODEL = root / "characters", root / "subwords", root / "bytes"
    train(CHARACTER_MODEL, "--text", root / "text.txt", *CHARACTERS, *learn)
    train(SUBWORD_MODEL, "--text", root / "text.txt", *SUBWORDS, *learn)
    # The vocabulary of another text: all but ASCII is in pieces of one byte.
    train(root / "ascii", "--text", root / "ascii.txt", *SUBWORDS, "--vocab-size", "280", "--max-updates", "1")
    train(BYTE_MODEL, "--text", root / "text.txt", "--vocabulary", root / "ascii/vocabulary.txt", *SHAPE, *learn)


class Generate(ProgramTest):
    def generate(self, model, *arguments, **options):
        return self.succeeds("generate", "--model", model, *arguments, **options)

    def test_it_has_learned(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL, BYTE_MODEL]:
            with self.subTest(model.name):
                out = self.generate(model, "one  two  café  日", "--temperature", "0", "--stop", "\n", "--max-tokens", "60")
                words = out.rstrip("\n").split("  ")
                self.assertGreater(len(words), 3, out)
                for before, after in zip(words[:-2], words[1:-1]):
                    self.assertEqual(after, WORDS[(WORDS.index(before) + 1) % 5], out)

    def test_a_byte_order_mark_is_no_text(self):
        for options in [["--temperature", "0"], ["--score"]]:
            self.assertEqual(self.generate(CHARACTER_MODEL, *options, stdin="\ufeffone  two"),
                             self.generate(CHARACTER_MODEL, *options, stdin="one  two"))

    def test_the_seed_decides(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL]:
            one = self.generate(model, "one", "--seed", "1", "--temperature", "2")
            self.assertTrue(one.startswith("one"))
            self.assertEqual(self.generate(model, "one", "--seed", "1", "--temperature", "2"), one)
            self.assertEqual(self.generate(model, "one", "--seed", "1", "--temperature", "2", "--threads", "2"), one)
            self.assertNotEqual(self.generate(model, "one", "--seed", "2", "--temperature", "2"), one)
            self.assertEqual(self.generate(model, "one", "-q", "--seed", "2", "--temperature", "2", "--top-k", "1"),
                             self.generate(model, "one", "--temperature", "0"))
            self.assertEqual(self.generate(model, "one", "--seed", "2", "--top-p", "0.0001"),
                             self.generate(model, "one", "--temperature", "0"))

    def test_samples(self):
        three = self.generate(CHARACTER_MODEL, "one", "--samples", "3", "--max-tokens", "40", "--temperature", "2")
        parts = three.split("---\n")
        self.assertEqual(len(set(parts)), 3)
        self.assertEqual(parts[0], self.generate(CHARACTER_MODEL, "one", "--max-tokens", "40", "--temperature", "2"))
        self.assertTrue(all(part.startswith("one") and part.endswith("\n") for part in parts))

    def test_prompt_from_standard_input(self):
        out = self.generate(CHARACTER_MODEL, "one  two")
        self.assertEqual(self.generate(CHARACTER_MODEL, stdin="one  two\n"), out)
        self.assertEqual(self.generate(CHARACTER_MODEL, stdin="one  two"), out)
        self.assertNotEqual(self.generate(CHARACTER_MODEL, stdin="one  two\n\n"), out)
        self.assertTrue(out.startswith("one  two"))
        self.assertEqual(self.generate(CHARACTER_MODEL, "one  two", "--no-prompt"), out[len("one  two"):])

    def test_files(self):
        out = self.generate(CHARACTER_MODEL, "one  two")
        self.write("prompt.txt", "\ufeffone  two\n")
        self.assertEqual(self.generate(CHARACTER_MODEL, "--input", "prompt.txt"), out)
        self.assertEqual(self.generate(CHARACTER_MODEL, "-i", "-", "-o", "-", stdin="one  two\n"), out)
        self.assertEqual(self.generate(CHARACTER_MODEL, "-i", "prompt.txt", "-o", "out.txt"), "")
        self.assertEqual((self.at / "out.txt").read_text(), out)
        self.assertEqual(self.generate(CHARACTER_MODEL, "one  two", "--output", "/dev/stdout"), out)
        self.refuses(2, "--output prompt.txt is what the command reads", "generate", "--model", CHARACTER_MODEL, "-i",
                     "prompt.txt", "-o", "prompt.txt")
        printed = self.generate(CHARACTER_MODEL, "--score", "--json", "-i", "out.txt")
        self.assertEqual(printed, self.generate(CHARACTER_MODEL, "--score", "--json", stdin=out))
        self.assertEqual(self.generate(CHARACTER_MODEL, "--score", "--json", "-i", "out.txt", "-o", "score.json"), "")
        self.assertEqual((self.at / "score.json").read_text(), printed)
        self.refuses(2, "a prompt and --input are given; give one of them", "generate", "--model", CHARACTER_MODEL,
                     "one", "-i", "prompt.txt")
        for name in [".", "none.txt"]:
            self.refuses(1, f" {name}: ", "generate", "--model", CHARACTER_MODEL, "-i", name, "-o", "new.txt")
        self.refuses(1, "none", "generate", "--model", CHARACTER_MODEL, "one", "-o", "none/out.txt")
        shutil.copytree(CHARACTER_MODEL, self.at / "m")
        self.refuses(2, "--output m/config.json is what the command reads", "generate", "--model", "m", "one", "-o",
                     "m/config.json")

    def test_an_output_is_there_whole_or_not_at_all(self):
        """Cut off while it writes: nobody finds a part, and what was there stays."""
        self.write("old.txt", "what was there\n")
        for name, before in [("old.txt", "what was there\n"), ("new.txt", None)]:
            path, part = self.at / name, f".{name}.heed-*.part"
            process = subprocess.Popen([HEED, "generate", "--model", CHARACTER_MODEL, "one", "--max-tokens", str(10**8),
                                        "-o", name], cwd=self.at, stderr=subprocess.PIPE)
            try:
                while not any(found.stat().st_size > 100 for found in self.at.glob(part)):
                    self.assertIsNone(process.poll(), "it ended")
                    time.sleep(0.01)
            finally:
                process.kill()
                process.communicate()
            self.assertEqual(path.read_text() if path.exists() else None, before)
            self.generate(CHARACTER_MODEL, "one", "-o", name)  # what the killed one left goes with it
            self.assertEqual(list(self.at.glob(part)), [])

    def test_no_prompt_at_all(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL]:
            first = self.generate(model, "", "--temperature", "0", "--max-tokens", "20")
            self.assertIn(re.split("  |\n", first)[0], WORDS)

    def test_max_tokens(self):
        self.assertEqual(self.generate(CHARACTER_MODEL, "one", "--max-tokens", "0"), "one\n")
        self.assertEqual(self.generate(CHARACTER_MODEL, "one ", "--max-tokens", "4", "--temperature", "0"), "one  two\n")

    def test_longer_than_the_model_looks_back(self):
        out = self.generate(CHARACTER_MODEL, "one  " * 100, "--max-tokens", "300", "--no-prompt")
        self.assertGreaterEqual(len(out), 300)

    def test_stop_strings_of_several_tokens_are_not_printed(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL, BYTE_MODEL]:
            greedy = ["one", "--temperature", "0", "--max-tokens", "200", "--no-prompt"]
            whole = self.generate(model, *greedy)
            for stop in ["two  c", "本", "😀", "\n", "café  日"]:
                with self.subTest(f"{model.name} {stop!r}"):
                    self.assertIn(stop, whole)
                    cut = whole[:whole.index(stop)]
                    self.assertEqual(self.generate(model, *greedy, "--stop", stop), cut + "\n" * (not cut.endswith("\n")))
            stops = self.generate(model, *greedy, "--stop", "never", "--stop", "é", "--stop", "本")
            self.assertEqual(stops, whole[:min(whole.index("é"), whole.index("本"))] + "\n")
        # What only may begin a stop string is printed when the text ends.
        self.assertEqual(self.generate(CHARACTER_MODEL, "one ", "--max-tokens", "3", "--temperature", "0", "--stop", "two"),
                         "one  tw\n")

    def test_a_stop_string_is_one_argument(self):
        greedy = ["--temperature", "0", "--max-tokens", "20"]
        whole = self.generate(CHARACTER_MODEL, "one", *greedy)
        self.assertEqual(self.generate(CHARACTER_MODEL, *greedy, "--stop", "\x01", "one", stdin="two"), whole)
        self.assertEqual(self.generate(CHARACTER_MODEL, *greedy, "--stop", "[o,t]", "one"), whole)

    def test_streams_whole_characters(self):
        for model in [BYTE_MODEL, SUBWORD_MODEL, CHARACTER_MODEL]:
            # Packets stay apart however late they are read.
            reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with reader, writer:
                self.assertEqual(self.heed("generate", "--model", model, "one", "--max-tokens", "60", "--seed", "2",
                                           stdout=writer).returncode, 0)
                writer.close()
                parts = []
                while part := reader.recv(1 << 16):
                    parts.append(part.decode())  # raises where a character is cut
            self.assertGreater(len(parts), 25, "it did not come in parts")
            self.assertIn("日本", "".join(parts))

    def test_malformed_bytes_are_replaced(self):
        hot = self.heed("generate", "--model", BYTE_MODEL, "one", "--temperature", "20", "--max-tokens", "2000")
        self.assertEqual(hot.returncode, 0)
        self.assertIn("\ufffd", hot.stdout.decode())
        for piece in ["<unk>", "<s>", "<pad>"]:
            self.assertNotIn(piece, hot.stdout.decode())

    def test_reader_leaves(self):
        done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" generate --model "$1" one --max-tokens 100000000'
                               ' | head -c 20 | wc -c', HEED, CHARACTER_MODEL],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (141, b"20", b""))

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = self.heed("generate", "--model", CHARACTER_MODEL, "one", stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), "standard output")

    def score(self, model, *arguments, **options):
        return json.loads(self.generate(model, "--score", "--json", *arguments, **options))

    def test_score(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL, BYTE_MODEL]:
            with self.subTest(model.name):
                known, unknown = self.score(model, "one  two  café  日本\n"), self.score(model, "two  one  日本  café\n")
                self.assertLess(known["nats_per_byte"], unknown["nats_per_byte"])
                self.assertAlmostEqual(known["nats_per_token"] / known["bits_per_token"], math.log(2))
                self.assertAlmostEqual(known["nats_per_byte"] / known["bits_per_byte"], math.log(2))
                self.assertAlmostEqual(known["perplexity"], math.exp(known["nats_per_token"]))
                self.assertAlmostEqual(known["nats_per_token"] * known["tokens"], known["nats_per_byte"] * known["bytes"])
                self.assertEqual(self.score(model, stdin="one  two  café  日本\n"), known)  # all of it
                self.assertEqual(self.score(model, "one  two  café  日本\n", "--threads", "2"), known)
                # What is likelier is drawn first.
                written = self.generate(model, "one", "--temperature", "0", "--max-tokens", "12")
                drawn = self.generate(model, "one", "--temperature", "9", "--max-tokens", "12")
                self.assertLess(self.score(model, written)["nats_per_byte"], self.score(model, drawn)["nats_per_byte"])
        self.assertEqual((known["tokens"] > 16, known["bytes"]), (True, 24 - 1))

    def test_score_of_a_text_longer_than_the_model_looks_back(self):
        long = self.score(CHARACTER_MODEL, text(200, seed=2))
        self.assertEqual((long["tokens"], long["bytes"]), (len(text(200, seed=2)) - 1, len(text(200, seed=2).encode()) - 1))
        self.assertLess(long["bits_per_byte"], 1.5)  # as good as that of short ones
        lines = self.generate(CHARACTER_MODEL, text(200, seed=2), "--score").splitlines()
        shown = {name: float(value) for name, value in map(str.split, lines)}
        self.assertEqual(shown, {name: round(value, 4) for name, value in long.items()})

    def test_score_of_too_little(self):
        self.refuses(2, "fewer than 2 tokens", "generate", "--model", CHARACTER_MODEL, "--score", "o")
        self.refuses(2, "fewer than 2 tokens", "generate", "--model", CHARACTER_MODEL, "--score", stdin="")
        self.refuses(2, "--score", "generate", "--model", CHARACTER_MODEL, "--json", "one")

    def test_repetition_penalty_and_min_p(self):
        greedy = ["one", "--temperature", "0", "--max-tokens", "40", "--no-prompt"]
        plain = self.generate(CHARACTER_MODEL, *greedy)
        self.assertNotEqual(self.generate(CHARACTER_MODEL, *greedy, "--repetition-penalty", "50"), plain)
        self.assertEqual(self.generate(CHARACTER_MODEL, *greedy, "--repetition-penalty", "1"), plain)
        self.assertEqual(self.generate(CHARACTER_MODEL, "one", "--min-p", "1", "--max-tokens", "40", "--no-prompt"), plain)

    def test_unknown_characters_and_malformed_prompts(self):
        out = self.generate(CHARACTER_MODEL, "onë", says="1 characters of the prompt are unknown")
        self.assertTrue(out.startswith("onë"))
        out = self.generate(BYTE_MODEL, stdin=b"one\xff", says="U+FFFD in 1 place")
        self.assertTrue(out.startswith("one\ufffd"))
        self.generate(BYTE_MODEL, stdin=b"one\0two")

    def test_wrong_use(self):
        for option, value, says in [("--temperature", "-1", "temperature"), ("--temperature", "nan", "temperature"),
                                    ("--top-p", "0", "--top-p"), ("--top-p", "1.5", "--top-p"), ("--min-p", "1.5", "--min-p"),
                                    ("--min-p", "-0.1", "--min-p"), ("--repetition-penalty", "0", "--repetition-penalty"),
                                    ("--top-k", "-1", "--top-k"),
                                    ("--max-tokens", "-1", "--max-tokens"), ("--stop", "", "--stop"),
                                    ("--max-tokens", str(2**63), "--max-tokens"), ("--samples", "0", "--samples"),
                                    ("--seed", "many", "--seed"), ("--seed", "-1", "--seed"),
                                    ("--seed", str(2**64), "--seed")]:
            with self.subTest(f"{option} {value}"):
                self.refuses(2, says, "generate", "--model", CHARACTER_MODEL, "one", option, value)
        self.refuses(2, "--model is missing", "generate", "one")
        self.refuses(2, "--score takes one text", "generate", "--model", CHARACTER_MODEL, "one", "two", "--score")
        self.refuses(2, "leave out the prompt", "generate", "--model", CHARACTER_MODEL, "one", "--interactive")
        self.refuses(2, "--system", "generate", "--model", CHARACTER_MODEL, "one", "--system", "Be kind.")
        self.refuses(2, "'jinja' is not one of", "generate", "--model", CHARACTER_MODEL, "one", "--chat-template", "jinja")
        self.refuses(2, "no token of the model's", "generate", "--model", CHARACTER_MODEL, "one", "--chat-template", "gemma")
        self.refuses(1, "none", "generate", "--model", "none", "one")

    def test_several_prompts(self):
        each = [self.generate(CHARACTER_MODEL, prompt, "--temperature", "0", "--max-tokens", "30")
                for prompt in ("one", "two", "one two")]
        for batch in ("1", "2", "8"):
            self.assertEqual(self.generate(CHARACTER_MODEL, "one", "two", "one two", "--temperature", "0", "--max-tokens",
                                           "30", "--batch", batch), "---\n".join(each))

    def test_talking(self):
        options = ["--model", SUBWORD_MODEL, "--temperature", "0", "--max-tokens", "20", "--chat-template", "plain"]
        whole = self.succeeds("generate", *options, "--interactive", stdin="one\n\ntwo\n")
        first = self.succeeds("generate", *options, "one").removesuffix("\n")
        told = f"User: one\nAssistant: {first}\nUser: two\nAssistant:"
        second = self.succeeds("generate", *options[:-2], "--no-prompt", "--stop", "\nUser:", told).lstrip(" ")
        self.assertEqual(whole, first + "\n" + second)

    def test_model_from_the_environment(self):
        self.assertEqual(self.succeeds("generate", "one", env={"HEED_MODEL": str(CHARACTER_MODEL)}),
                         self.generate(CHARACTER_MODEL, "one"))

    def test_half_precision_export(self):
        self.succeeds("export", "--model", SUBWORD_MODEL, "--to", "half")
        greedy = ["one", "--temperature", "0", "--max-tokens", "20"]
        self.assertEqual(self.generate("half", *greedy), self.generate(SUBWORD_MODEL, *greedy))

    def test_attend(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL]:
            out = self.succeeds("attend", "--model", model, "one  two")
            self.assertTrue(out.startswith("one  two\n"))
            self.assertIn("causal self-attention, layer 1 of 1, mean of 2 heads", out)
            self.assertEqual(self.succeeds("attend", "--model", model, "one  two", "--decoder"), out)
            self.assertIn("head 2", self.succeeds("attend", "--model", model, "one  two", "--head", "2"))
            self.assertEqual(len(self.succeeds("attend", "--model", model, "one", "--statistics").splitlines()), 5)
            for flag in ["--encoder", "--cross", "--target=x"]:
                self.refuses(2, "self-attention alone", "attend", "--model", model, "one", flag)
            self.assertIn("0.", self.succeeds("attend", "--model", model, "one  two", "--top", "2"))
            done = self.heed("attend", "--model", model, "one two", "--compare", "two", "--html", "p.html")
            self.assertEqual((done.returncode, done.stderr), (0, b"wrote p.html\n"))
            self.assertIn('"comparedTitle":"two"', (self.at / "p.html").read_text())
            for measure in ["norms", "rollout", "gradient", "input"]:
                out = self.succeeds("attend", "--model", model, "one  two", "--measure", measure, "--generate", "2")
                self.assertIn(f"causal self-attention, {measure}", out)
            self.assertIn("what comes next\n  layer 1 ", self.succeeds("attend", "--model", model, "one  two", "--lens"))
        self.refuses(2, "the model takes 32", "attend", "--model", CHARACTER_MODEL, "one " * 10)

    def test_attend_to_what_it_writes(self):
        for model in [CHARACTER_MODEL, SUBWORD_MODEL]:
            written = self.succeeds("generate", "--model", model, "--temperature", "0", "--max-tokens", "6", "one").rstrip("\n")
            done = self.heed("attend", "--model", model, "one", "--generate", "6", "--html", "p.html")
            self.assertEqual((done.returncode, done.stderr), (0, b"wrote p.html\n"))
            self.assertEqual(done.stdout, b"")
            done = self.heed("attend", "--model", model, "one", "--generate", "6")
            self.assertTrue(done.stdout.decode().startswith(written), done.stdout.decode())
            page = (self.at / "p.html").read_text()
            data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
            self.assertEqual(len(data["steps"]), 6)
            [group] = [g for g in data["groups"] if g["name"] == "Self-attention"]
            self.assertEqual(group["firstStep"], group["queries"] - 7)
            for step, label in zip(data["steps"], group["keyLabels"][-6:]):
                self.assertEqual(step["token"], label)
                self.assertEqual(step["candidates"][0][0], label, "the likeliest")
        self.refuses(2, "more than the 32 that the model takes", "attend", "--model", CHARACTER_MODEL, "one", "--generate", "30")


class OtherModels(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("train.tsv", corpus(300))
        self.write("text.txt", text(100))

    def test_each_command_names_the_other(self):
        train(self.at / "translator", "--pairs", self.at / "train.tsv", *TINY, "--max-updates", "1")
        self.refuses(2, "translator holds a translator, not a language model; heed translate runs it", "generate",
                     "--model", "translator", "one")
        self.refuses(2, "holds a language model, which does not translate; heed generate", "translate", "--model",
                     CHARACTER_MODEL, stdin="gato\n")
        self.refuses(2, "holds a translator", "train", "--text", "text.txt", *CHARACTERS, "--model", "translator")
        shutil.copytree(CHARACTER_MODEL, self.at / "writer")
        self.refuses(2, "holds a language model", "train", "--pairs", "train.tsv", *TINY, "--model", "writer")
        self.refuses(2, "no piece that ends a sentence", "train", "--quiet", "--pairs", "train.tsv", *TINY, "--model", "new",
                     "--vocabulary", "writer/vocabulary.txt")

    def test_broken_directories(self):
        for name, change, says in [
                ("config.json", lambda b: b.replace(b'"language_model"', b'"mamba"'), "architecture"),
                ("config.json", lambda b: b.replace(b'"num_layers": 1', b'"num_layers": 2'), "model.safetensors"),
                ("config.json", lambda b: b.replace(b'"num_layers": 1', b'"num_layers": 0'), "num_layers"),
                ("config.json", lambda b: b.replace(b'"num_kv_heads": 0', b'"num_kv_heads": 7'), "num_kv_heads"),
                ("config.json", lambda b: b.replace(b'"num_layers"', b'"num_encoder_layers"'), "num_layers"),
                ("config.json", lambda b: b.replace(b'"d_model": 32', b'"d_model": 65536'), "belong to different models"),
                ("vocabulary.txt", lambda b: b.replace(b"characters", b"words"), "vocabulary.txt"),
                ("vocabulary.txt", lambda b: b[:-3], "vocabulary.txt"),
                ("model.safetensors", lambda b: b[:-1], "model.safetensors"),
                ("model.safetensors", lambda b: b.replace(b"embedding.weight", b"embedding.height"), "embedding.weight")]:
            with self.subTest(f"{name} {says}"):
                shutil.copytree(CHARACTER_MODEL, self.at / "m", dirs_exist_ok=True)
                before = (self.at / "m" / name).read_bytes()
                self.assertNotEqual(change(before), before)
                (self.at / "m" / name).write_bytes(change(before))
                self.refuses(1, says, "generate", "--model", "m", "one")

    def test_weights_that_are_not_numbers(self):
        shutil.copytree(CHARACTER_MODEL, self.at / "m")
        path = self.at / "m/model.safetensors"
        content = path.read_bytes()
        header = 8 + int.from_bytes(content[:8], "little")
        path.write_bytes(content[:header] + b"\xff" * (len(content) - header))
        done = self.heed("generate", "--model", "m", "one")
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), "damaged")


class TrainText(TrainingTest):
    RUN = ["train", "--text", "text.txt", "--model", "m", *CHARACTERS, "--max-updates", "40", "--validate-every", "10",
           "--average", "2", "--save-every", "3", "--log-every", "5"]
    ENDLESS = ["--max-updates", "1000000", "--patience", "0", "--schedule", "constant"]

    def setUp(self):
        super().setUp()
        self.write("text.txt", text(300))

    def test_killed_and_interrupted_runs_end_the_same(self):
        for number, code in [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143), (signal.SIGINT, 130)]:
            process = self.start(*self.ENDLESS)
            self.until_line(process, "update 5 " if number == signal.SIGKILL else "goes on after")
            process.send_signal(number)
            process.communicate()
            self.assertEqual(process.returncode, code)
        state = json.loads((self.at / "m/training.json").read_text())
        end = [*self.ENDLESS, "--max-updates", str(state["update"] + 7)]
        self.assertIn("goes on after update", self.train(*end, "--threads", "2"))
        self.train("--model", "whole", *end)
        self.assertTrue(self.model() == self.model("whole"))
        before = snapshot(self.at)
        self.assertIn("finished already", self.train(*end))
        self.assertTrue(snapshot(self.at) == before)

    def test_says_what_it_learns_from_and_how_well(self):
        lines = self.train().splitlines()
        self.assertIn("try it: heed generate --model m ", lines.pop())
        self.assertIn("wrote m/MODEL_CARD.md", lines.pop())
        size = len(text(300))
        data = (self.at / "text.txt").read_bytes()
        cut = int(len(data) * (1 - 0.1))
        while data[cut] & 0xC0 == 0x80:
            cut -= 1
        training = len(data[:cut].decode())
        self.assertIn(f"{training} training and {size - training} validation tokens, "
                      f"{len(set(data[:cut].decode())) + 1} pieces", lines[0])
        loss, bits = map(float, re.search(r"validation loss ([\d.]+) \(([\d.]+) bits/byte\)$", lines[-1]).groups())
        predicted = len(data[cut:]) - len(data[cut:].decode()[0].encode())
        self.assertAlmostEqual(bits, loss * (size - training - 1) / predicted / 0.6931471805599453, delta=2e-4)

    def test_validation_text_of_its_own(self):
        self.write("valid.txt", text(50, seed=2))
        self.assertIn(f"{len(text(300))} training and {len(text(50, seed=2))} validation tokens",
                      self.train("--valid-text", "valid.txt", "--max-updates", "1"))
        self.assertNotIn("validation loss",
                         self.train("--valid-fraction", "0", "--max-updates", "1", "--model", "none"))
        for other in ["Ω\n" * 3 + "one\n" * 10, "one\n" * 10 + "Ω\n" * 3]:
            self.write("other.txt", other)
            said = self.train("--valid-text", "other.txt", "--max-updates", "1", "--model", "other")
            self.assertIn("cannot write 3 of 13 lines of the validation text", said)
            self.assertNotIn("bits/byte", said)  # of what was lost nobody knows
            shutil.rmtree(self.at / "other")

    def test_texts_without_spaces(self):
        for size, content in [(280, "".join(f"{i}\n" for i in range(100, 2000))), (262, "\n" * 2000 + "ab"),
                              (272, "日本語" * 500)]:
            self.write("text.txt", content)
            said = self.train("--preset", "tiny", "--vocab-size", str(size), "--model", "n",
                              "--block", "16", "--vocab-type", "subwords", "--max-updates", "2")
            self.assertIn("wrote n/MODEL_CARD.md", said)
            shutil.rmtree(self.at / "n")

    def test_kinds_of_data_exclude_each_other(self):
        self.write("train.tsv", corpus(100))
        for option in ["--pairs", "--source", "--target", "--valid-pairs", "--exclude"]:
            self.refuses(2, f"{option} is for sentence pairs, --text for a language model", *self.RUN, option, "train.tsv")
        self.refuses(2, "--encoder-layers is for sentence pairs", *self.RUN, "--encoder-layers", "2")
        for option, value in [("--valid-text", "text.txt"), ("--block", "8"), ("--layers", "2"), ("--batch", "2"),
                              ("--vocab-type", "characters"), ("--kv-heads", "1")]:
            self.refuses(2, f"{option} is for language models; give --text", "train", "--pairs", "train.tsv", "--model",
                         "m", option, value)
        self.refuses(2, "--text", "train", "--model", "m")

    def test_data_that_does_not_fit(self):
        for name, content, code, says in [("empty", "", 1, "empty.txt is empty"), ("one", "x", 2, "give more text"),
                                          ("short", "short text\n", 2, "a block of 32")]:
            self.write(f"{name}.txt", content)
            done = self.heed(*[f"{name}.txt" if part == "text.txt" else part for part in self.RUN])
            self.assertEqual(done.returncode, code)
            self.assertIn(says, done.stderr.decode().splitlines()[-1])
            self.assertFalse((self.at / "m").exists())  # the next run may choose anew
        self.refuses(1, "none.txt", *self.RUN, "--text", "none.txt")  # besides the other
        self.refuses(1, "directory", *self.RUN, "--text", ".")
        self.refuses(2, "at most", "train", "--text", "text.txt", "--model", "new", *SUBWORDS,
                     "--vocab-size", "100000")
        self.refuses(2, "--kv-heads", *self.RUN, "--kv-heads", "3")
        for option, value in [("--block", "-1"), ("--batch", "0"), ("--batch", str(2**62)),
                              ("--valid-fraction", "1"), ("--valid-fraction", "nan"), ("--layers", "0"),
                              ("--min-learning-rate", "1"), ("--vocab-type", "words")]:
            with self.subTest(option):
                done = self.heed(*self.RUN, option, value)
                self.assertEqual(done.returncode, 2)
                self.assert_one_line(done.stderr.decode(), "")

    def test_other_shape_or_vocabulary(self):
        self.train("--max-updates", "4")
        self.refuses(2, "--layers 1, not 2", *self.RUN, "--layers", "2")
        self.refuses(2, "another kind than subwords", *self.RUN, "--vocab-type", "subwords")
        self.assertIn("block", self.train("--block", "16", "--max-positions", "32", code=1).splitlines()[-1])

    def test_malformed_utf8_and_byte_order_marks(self):
        self.write("text.txt", b"\xef\xbb\xbf" + text(300).encode() + b"one \xff\n")
        self.assertIn("U+FFFD in 1 place", self.train("--max-updates", "1"))
        self.assertNotIn("\ufeff", (self.at / "m/vocabulary.txt").read_text())

    def test_subwords_of_a_text(self):
        done = self.heed("train", "--text", "text.txt", "--model", "m", *SUBWORDS, "--max-updates", "2")
        self.assertEqual(done.returncode, 0)
        self.assertIn("275 pieces", done.stderr.decode())
        card = (self.at / "m/MODEL_CARD.md").read_text()
        for part in ["A language model, trained by heed", "| Width | 32 |", "| Attention heads | 2 |", "275 pieces",
                     "text.txt: ", "Validation | the end of text.txt", "nats a token", "a byte", 'vocab-type = "subwords"']:
            self.assertIn(part, card)
        self.assertTrue((self.at / "m/vocabulary.txt").read_text().startswith("heed-vocabulary 1 bpe spaces=verbatim"))
        self.assertIn("vocabulary  vocabulary.txt, 275 pieces", self.succeeds("inspect", "m"))

    def test_begins_from_another_model(self):
        # Its shape is that of the other, which no preset has.
        done = self.heed("train", "--text", "text.txt", "--model", "m", "--batch", "8", "--init", CHARACTER_MODEL,
                         "--max-updates", "1", "--learning-rate", "1e-9", "--min-learning-rate", "0")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        greedy = ["one", "--temperature", "0", "--max-tokens", "30"]
        self.assertEqual(self.succeeds("generate", "--model", "m", *greedy),
                         self.succeeds("generate", "--model", CHARACTER_MODEL, *greedy))

    def test_dumped_options_are_the_same_run(self):
        first = self.succeeds(*self.RUN, "--dump-config")
        self.write("all.toml", first)
        self.assertEqual(self.succeeds("train", "--config", "all.toml", "--dump-config"), first)
        values = dict(line.split(" = ", 1) for line in first.splitlines() if line and not line.startswith("#"))
        self.assertEqual(values["max-positions"], "32")
        self.assertEqual(values["label-smoothing"], "0")
        self.assertNotIn("encoder-layers", values)
        self.assertNotIn("batch-tokens", values)

    def test_committed_recipe(self):
        recipe = pathlib.Path(__file__).resolve().parents[2] / "recipes/tinyshakespeare.toml"
        dumped = self.succeeds("train", "--config", recipe, "--dump-config")
        values = dict(line.split(" = ", 1) for line in dumped.splitlines() if line and not line.startswith("#"))
        self.assertEqual((values["vocab-type"], values["layers"], values["d-model"], values["bias"]),
                         ('"characters"', "4", "128", "false"))


if __name__ == "__main__":
    unittest.main()
