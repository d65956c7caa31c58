"""heed tokenize from outside."""
import json
import unittest

from program import SHARED, ProgramTest

MODELS = SHARED / "conformance/models"


@unittest.skipUnless(MODELS.exists(), "needs shared/conformance/models, which is not here")
class OtherMakers(ProgramTest):
    def test_ids_of_every_model(self):
        seen = 0
        for directory in sorted(MODELS.iterdir()):
            if not (directory / "expected.json").exists() or directory.name == "tokenizers":
                continue
            facts = json.loads((directory / "expected.json").read_text())
            # Pairs, and translators' two sides, are for encode_pair and --target.
            texts = facts.get("texts", [])
            if not texts or not isinstance(texts[0], str) or "second_texts" in facts or "sentence" in facts:
                continue
            with self.subTest(directory.name):
                lines = self.succeeds("tokenize", "-m", directory, stdin="".join(t + "\n" for t in texts)).splitlines()
                self.assertEqual([list(map(int, line.split())) for line in lines], facts["token_ids"])
                seen += 1
        self.assertGreater(seen, 8)

    def test_there_and_back(self):
        text = "Tom isn't here.\nÑandú 🐦 at 3 o'clock\n\n"
        for name in ("bytelevel-gpt2", "bpe-gemma", "bytelevel-llama3"):
            with self.subTest(name):
                ids = self.succeeds("tokenize", "-m", MODELS / "tokenizers" / name, "--no-special", stdin=text)
                back = self.succeeds("tokenize", "-m", MODELS / "tokenizers" / name, "--decode", stdin=ids)
                self.assertEqual(back, text)

    def test_pieces(self):
        pieces = self.succeeds("tokenize", "-m", MODELS / "tokenizers/wordpiece-uncased", "--pieces", stdin="The dog\n")
        self.assertTrue(pieces.startswith("[CLS]\tthe\t"), pieces)
        self.assertTrue(pieces.endswith("\t[SEP]\n"), pieces)

    def test_what_is_wrong(self):
        model = MODELS / "tokenizers/bytelevel-gpt2"
        self.refuses(1, "9999999", "tokenize", "-m", model, "--decode", stdin="1 9999999\n")
        self.refuses(1, "word", "tokenize", "-m", model, "--decode", stdin="1 word\n")
        self.refuses(1, "nowhere", "tokenize", "-m", "nowhere", stdin="a\n")
        self.write("d/tokenizer.json", "[" * 1_000_000)
        self.refuses(1, "tokenizer.json", "tokenize", "-m", "d", stdin="a\n")


class Own(ProgramTest):
    def test_the_bundled_model(self):
        line = "Hola, mi nombre es Alex.\n"
        ids = self.succeeds("tokenize", "--no-special", stdin=line)
        self.assertRegex(ids, r"^\d+( \d+)+\n$")
        self.assertEqual(self.succeeds("tokenize", "--decode", stdin=ids), line)
        self.assertIn("▁mi", self.succeeds("tokenize", "--pieces", stdin=line).split("\t"))


if __name__ == "__main__":
    unittest.main()
