"""Models of other makers in a page: that heed.wasm sees what the program sees, under node."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest
import zlib

import tiny_models
from program import SHARED, ProgramTest, safetensors

MODELS = SHARED / "conformance/models"
ROOT = pathlib.Path(__file__).resolve().parents[2]
NODE = shutil.which("node")
READ = [NODE, ROOT / "wasm/test/read_lines.mjs", ROOT / "wasm/heed.wasm"]
ODD = [" ", "a", "  two  spaces ", "\u00c5ngstr\u00f6m caf\u00e9 cafe\u0301 na\u00efve", "\ufb01ne \u2460 \u00bd \uff21", "don't we'll IT'S 1234567",
       "\u4e2d\u6587 \u3053\u3093 \ud55c\uad6d\uc5b4", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1ea\U0001f1f8\U0001f1ee", "\u202eright\u202c to \u05d0\u05d1 \u0627\u0644",
       "<s> [MASK] </s> <|endoftext|> <pad>", "\u0130I\u03a3\u03a3 \u212a\u017f", "\u00a0\u3000\u2028x\ufeff", "\u2581a\u2581\u2581b", "{\"a\": [1, 2]};\t\\",
       "\u0e01\u0e33\u0e19\u0e49\u0e33 \u0915\u094d\u0937\u093f"]

WORDS = ["the dog's", "\u00e9 the dog the dog", "\U0001f600\u4e2d the dog the dog"]  # offsets in bytes are not those in characters


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.S).group(1))


def unpacked(html, block):
    return zlib.decompress(base64.b64decode(re.search(rf'id="block{block}">([^<]*)<', html).group(1)))


@unittest.skipUnless(NODE, "SKIPPED: needs node, which is not here")
class LiveModels(ProgramTest):
    def page(self, model, text, *arguments):
        done = self.heed("attend", "-m", model, text, "--html", "page.html", *arguments)
        return done, (self.at / "page.html").read_text() if done.returncode == 0 else None

    def files_of(self, model, text, *arguments):
        """A directory with what the page has of a model."""
        done, html = self.page(model, text, "--live", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        directory = self.at / "in-page"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name, block in data_of(html)["live"]["files"]:
            content = unpacked(html, block)
            if name.endswith(".safetensors"):  # bytes at even places, then those at odd ones
                planes, half = content, (len(content) + 1) // 2
                content = bytearray(len(planes))
                content[::2], content[1::2] = planes[:half], planes[half:]
            (directory / name).write_bytes(content)
        return directory

    def in_module(self, directory, texts, beam, generate):
        done = subprocess.run([*READ, directory, str(beam), str(generate)], capture_output=True, timeout=240, check=False,
                              input="".join(text + "\n" for text in texts).encode())
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]

    def assert_near(self, mine, theirs, where):
        """The same texts, and numbers within rounding."""
        self.assertEqual(type(mine) in (int, float), type(theirs) in (int, float), where)
        if isinstance(theirs, (int, float)):
            self.assertAlmostEqual(mine, theirs, delta=2e-3 * max(1, abs(theirs)), msg=where)
        elif isinstance(theirs, dict):
            self.assertEqual(mine.keys(), theirs.keys(), where)
            for key in theirs:
                self.assert_near(mine[key], theirs[key], f"{where} {key}")
        elif isinstance(theirs, list):
            self.assertEqual(len(mine), len(theirs), where)
            for number, (a, b) in enumerate(zip(mine, theirs)):
                self.assert_near(a, b, f"{where} {number}")
        else:
            self.assertEqual(mine, theirs, where)

    def sees_the_same(self, model, texts, beam=4, generate=0):
        """Of the files in the page, which are another model of the same layout, as the program reads them."""
        writes = ["--generate", generate] if generate else []
        files = self.files_of(model, texts[0], "--beam", beam, *writes)
        seen = 0
        for text, mine in zip(texts, self.in_module(files, texts, beam, generate), strict=True):
            done, html = self.page(files, text, "--beam", beam, *writes)
            if html is None:
                self.assertEqual(done.stderr.decode().rstrip("\n"), "heed " + mine.get("error", "?"), text)
                continue
            theirs = data_of(html)
            for steps in (mine.get("steps", []), theirs["steps"]):
                for step in steps:  # which of several that are as likely comes first is a matter of rounding
                    step["candidates"] = [probability for _, probability in step["candidates"]]
            self.assert_near(mine, theirs, f"{model} {text!r}")
            seen += 1
        return seen

    @unittest.skipUnless(MODELS.exists(), "SKIPPED: needs shared/conformance/models, which is not here")
    def test_every_family(self):
        seen = 0
        for directory in sorted(MODELS.iterdir()):
            if not (directory / "expected.json").exists() or directory.name in ("tokenizers", "vit", "whisper"):
                continue
            facts = json.loads((directory / "expected.json").read_text())
            texts = [text["source"] if isinstance(text, dict) else text for text in facts["texts"]]
            generate = 4 if facts["task"] == "causal" else 0
            with self.subTest(directory.name):
                lines = [text for text in texts if "\n" not in text]
                seen += self.sees_the_same(directory, lines + ODD, 4, generate) > 8
        self.assertGreater(seen, 18)

    def test_without_shared_models(self):
        writer, reader = self.at / "gpt2", self.at / "bert"
        self.assertGreater(self.sees_the_same(tiny_models.language_model(writer), WORDS + ODD, 4, 3), 9)
        self.assertGreater(self.sees_the_same(tiny_models.text_encoder(reader, "BertForMaskedLM"), WORDS + ODD), 9)

    def test_the_page_has_what_is_read_and_no_more(self):
        model = tiny_models.language_model(self.at / "gpt2")
        (model / "README.md").write_text("# Read me")
        (model / "special_tokens_map.json").write_text("{}")
        files = self.files_of(model, "the dog")
        self.assertEqual(sorted(os.listdir(files)),
                         ["config.json", "merges.txt", "model.safetensors", "special_tokens_map.json",
                          "tokenizer_config.json", "vocab.json"])
        size = 2 * sum(tensor.stat().st_size for tensor in [model / "model.safetensors"]) // 4
        self.assertLess((files / "model.safetensors").stat().st_size, size + 4096)

    def test_patterns_that_javascript_does_not_have(self):
        model = tiny_models.text_encoder(self.at / "bert")
        pieces = {piece: number for number, piece in enumerate(tiny_models.PIECES)}
        # BertTokenizer would have its own pre-tokenizer.
        (model / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        for pattern, says in [(r"(?:a|b*)+c", "JavaScript has no regular expression such as (?:a|b*)+c"),
                              (r"(?<=a)\s+", None)]:
            (model / "tokenizer.json").write_text(json.dumps({
                "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": pieces},
                "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed"}}))
            files = self.files_of(model, "the dog")
            done = subprocess.run([*READ, files, "1", "0"], input=b"the\n", capture_output=True, timeout=240, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(done.stdout)  # the tokenizer tells when a text is to be read
            self.assertEqual("error" in answer, says is not None, answer)
            if says:
                self.assertIn(says, answer["error"])


class Refusals(ProgramTest):
    def refuses_live(self, code, says, model, text):
        self.refuses(code, says, "attend", "-m", model, text, "--html", "page.html", "--live")

    def test_models_that_read_no_text(self):
        self.refuses_live(2, "a live page takes models of texts", tiny_models.image_encoder(self.at / "vit"), "cat.png")
        if not MODELS.exists():
            self.skipTest("SKIPPED: needs shared/conformance/models, which is not here")
        self.refuses_live(2, "a live page takes models of texts", MODELS / "whisper", "a")

    def test_models_that_are_too_large(self):
        rows = 7_000_000
        model = tiny_models.text_encoder(self.at / "bert", vocab_size=rows)
        wanted = tiny_models.shapes("BertModel", 0)
        wanted["embeddings.word_embeddings.weight"] = (rows, tiny_models.WIDTH)
        header, end = {}, 0
        for name, shape in wanted.items():
            count = 2
            for size in shape:
                count *= size
            header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [end, end + count]}
            end += count
        with open(model / "model.safetensors", "wb") as file:  # zeros that take no place
            file.write(safetensors(header, b""))
            file.truncate(file.tell() + end)
        self.refuses_live(2, "--live: the model has 56001", model, "the dog")

    def test_weights_that_float16_does_not_hold(self):
        model = tiny_models.text_encoder(self.at / "bert")
        whole = (model / "model.safetensors").read_bytes()
        (model / "model.safetensors").write_bytes(whole[:-4] + b"\x00\xa0\x8c\x47")  # 72000.0
        self.refuses_live(1, "too large for f16", model, "the dog")


if __name__ == "__main__":
    unittest.main()
