"""The program on other people's models, from outside."""
import json
import re
import shutil
import unittest

from program import SHARED, ProgramTest

MODELS = SHARED / "conformance/models"


def cases(*tasks):
    for directory in sorted(MODELS.iterdir()):
        if (directory / "expected.json").exists():
            facts = json.loads((directory / "expected.json").read_text())
            if facts.get("task") in tasks and directory.name != "tokenizers":
                yield directory, facts


@unittest.skipUnless(MODELS.exists(), "needs shared/conformance/models, which is not here")
class OtherMakers(ProgramTest):
    def test_language_models_go_on_as_their_makers_would(self):
        seen = 0
        for directory, facts in cases("causal"):
            for line in facts["greedy"]:
                with self.subTest(directory.name, row=line["row"]):
                    # Theirs is decoded by itself, which loses the space in front.
                    text = self.succeeds("generate", "-m", directory, "--temperature", 0, "--max-tokens",
                                         len(line["ids"]), "--no-prompt", facts["texts"][line["row"]])
                    self.assertIn(text.removesuffix("\n"), (line["text"], " " + line["text"]))
                    seen += 1
        self.assertGreater(seen, 15)

    def test_translators_find_what_their_makers_would(self):
        seen = 0
        for directory, facts in cases("seq2seq"):
            language = ["--to", facts["target_language"]] if "target_language" in facts else []
            longest = facts["beam_with"]["max_new_tokens"]
            if any(len(beam["ids"]) >= longest for row in facts["beam"] for beam in row["beams"]):
                continue
            for row in facts["beam"]:
                with self.subTest(directory.name, row=row["row"]):
                    lines = self.succeeds("translate", "-m", directory, "--beam", 4, "--n-best", 4, "--length-penalty", 1,
                                          *language, "--no-split", "--max-length", longest, "--json",
                                          facts["texts"][row["row"]]["source"])
                    found = json.loads(lines)["translations"]
                    self.assertEqual([t["text"] for t in found], [b["text"] for b in row["beams"]])
                    for mine, theirs in zip(found, row["beams"]):
                        self.assertAlmostEqual(mine["score"], theirs["score"], delta=1e-3)
                    seen += 1
        self.assertGreater(seen, 5)

    def test_each_can_be_seen(self):
        seen = 0
        for directory, facts in cases("causal", "masked", "seq2seq", "sequence_classification"):
            with self.subTest(directory.name):
                text = facts["texts"][0]
                text = text["source"] if isinstance(text, dict) else text
                self.assertRegex(self.succeeds("attend", "-m", directory, text), r"attention, layer (\d) of \1, mean of")
                self.assertEqual(self.heed("attend", "-m", directory, text, "--html", "page.html").returncode, 0)
                data = re.search(r'<script type="application/json" id="data">(.*?)</script>',
                                 (self.at / "page.html").read_text(), re.S).group(1)
                self.assertIn([group["name"] for group in json.loads(data)["groups"]],
                              [["Self-attention"], ["Encoder", "Decoder", "Cross"]])
                (self.at / "page.html").unlink()
                self.assertIn("tensors", self.succeeds("inspect", directory))
                seen += 1
        self.assertGreater(seen, 12)

    def test_languages_and_prefixes(self):
        with self.subTest("a language that the model has not"):
            self.refuses(2, "the language xx is no token", "translate", "-m", MODELS / "nllb", "--to", "xx", "a")
        with self.subTest("a model of one language"):
            self.refuses(2, "no language in front", "translate", "-m", MODELS / "marian", "--from", "\u2581a", "a")
        plain = self.succeeds("translate", "-m", MODELS / "t5", "to Spanish: Tom is here.")
        self.assertEqual(self.succeeds("translate", "-m", MODELS / "t5", "--prefix", "to Spanish: ", "Tom is here."), plain)

    def test_the_wrong_kind_of_model(self):
        bert, gpt2, marian = MODELS / "bert", MODELS / "gpt2", MODELS / "marian"
        self.refuses(2, "a bert, which does not go on", "generate", "-m", bert, "a")
        self.refuses(2, "a gpt2, which does not translate", "translate", "-m", gpt2, "a")
        self.refuses(2, "an encoder, which reads a text", "attend", "-m", bert, "--cross", "a")
        self.refuses(2, "leave out --generate", "attend", "-m", marian, "--generate", 3, "a")
        self.refuses(2, "self-attention alone", "attend", "-m", gpt2, "--encoder", "a")

    def test_a_tokenizer_of_another_model(self):
        shutil.copytree(MODELS / "gpt2", self.at / "mixed")
        shutil.copy(MODELS / "qwen2/tokenizer.json", self.at / "mixed/tokenizer.json")
        tokens = json.loads((self.at / "mixed/tokenizer.json").read_text())
        tokens["added_tokens"].append({"id": 5000, "content": "<more>", "single_word": False, "lstrip": False,
                                       "rstrip": False, "normalized": False, "special": True})
        (self.at / "mixed/tokenizer.json").write_text(json.dumps(tokens))
        self.refuses(1, "the tokenizer's ids go to", "generate", "-m", "mixed", "a")

    def test_truncation_and_padding_in_tokenizer_json_change_nothing(self):
        cut = {"max_length": 6, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
        fixed = {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                 "pad_type_id": 0, "pad_token": "[PAD]"}
        self.write("lines", "My brother was not at home when the dog barked.\nHe sleeps.\n")
        for name, *command in (("bert", "tokenize", "lines"), ("sentence-encoder", "embed", "lines"),
                               ("bert", "fill", "My brother was not at [MASK] today."),
                               ("bert-classifier", "classify", "--json", "-i", "lines"),
                               ("qwen2", "generate", "--temperature", 0, "--max-tokens", 5, "My brother was not at home"),
                               ("qwen2", "generate", "--score", "-i", "lines"), ("t5", "translate", "-i", "lines")):
            with self.subTest(name, command=command[0]):
                expected = self.heed(*command, "-m", MODELS / name)
                self.assertEqual(expected.returncode, 0, expected.stderr)
                for blocks in {"truncation": cut}, {"padding": fixed}, {"truncation": cut, "padding": fixed}:
                    shutil.copytree(MODELS / name, self.at / "m")
                    file = self.at / "m/tokenizer.json"
                    file.write_text(json.dumps({**json.loads(file.read_text()), **blocks}))
                    done = self.heed(*command, "-m", "m")
                    self.assertEqual((done.returncode, done.stdout), (0, expected.stdout), (blocks, done.stderr))
                    shutil.rmtree(self.at / "m")

    def test_directories_that_are_no_model(self):
        shutil.copytree(MODELS / "gpt2", self.at / "cut")
        whole = (self.at / "cut/model.safetensors").read_bytes()
        (self.at / "cut/model.safetensors").write_bytes(whole[: len(whole) // 2])
        self.refuses(1, "model.safetensors", "generate", "-m", "cut", "a")
        (self.at / "cut/model.safetensors").unlink()
        self.write("cut/pytorch_model.bin", "PK")
        self.refuses(1, "pytorch_model.bin", "generate", "-m", "cut", "a")
        self.write("other/config.json", '{"model_type": "mamba"}')
        self.refuses(1, "mamba", "generate", "-m", "other", "a")
        self.refuses(1, "config.json", "generate", "-m", MODELS / "tokenizers/bytelevel-gpt2", "a")


if __name__ == "__main__":
    unittest.main()
