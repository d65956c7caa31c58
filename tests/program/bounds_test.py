"""Small files and requests that ask for much memory: each is refused in one line, or works, in a small address space.
SECURITY.md has the bounds."""
import gzip
import json
import struct
import unittest
import zipfile
import zlib

import tiny_models
from program import SANITIZED, TINY, ProgramTest, npy, png, png_chunk

SPACE = 700 << 20  # bytes of addresses; the program begins with about 150 MB of them


def tokenizer_json(**parts):
    """A tokenizer of one letter, with these parts."""
    model = {"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
             "vocab": {"a": 0}}
    return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                       "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model, **parts})


def replace(pattern, content, times=1):
    one = {"type": "Replace", "pattern": {"String": pattern}, "content": content}
    return {"type": "Sequence", "normalizers": [one] * times}


class Bounds(ProgramTest):
    def bounded(self, *arguments, **options):
        wrapper = [] if SANITIZED else ["prlimit", f"--as={SPACE}"]  # a sanitizer takes terabytes of addresses
        return self.heed(*arguments, wrapper=wrapper, **options)

    def refused(self, says, *arguments, code=1, **options):
        done = self.bounded(*arguments, **options)
        self.assertEqual(done.returncode, code, (done.stdout[:200], done.stderr[:500]))
        self.assert_one_line(done.stderr.decode(), says)
        self.assertLess(len(done.stderr), 1000)


class Tokenizers(Bounds):
    GROWS = "the tokenizer makes more than"

    def tokenizes(self, text="a\n", **parts):
        self.write("t/tokenizer.json", tokenizer_json(**parts))
        return self.bounded("tokenize", "--model", "t", stdin=text)

    def refuses_text(self, says, text="a\n", **parts):
        self.write("t/tokenizer.json", tokenizer_json(**parts))
        self.refused(says, "tokenize", "--model", "t", stdin=text)

    def test_normalizers(self):
        byte_level = {"type": "Sequence", "normalizers": [{"type": "ByteLevel"}] * 40}
        for text, normalizer in [("a\n", replace("a", "aa", 40)), ("a\n", replace("a", "aa", 64)),
                                 ("a\n", replace("a", "a" * 1000, 4)), ("a" * 1000 + "\n", replace("a", "b" * 10**6)),
                                 ("\u00e9\n", byte_level),
                                 ("a\n", {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "b" * 10**5}]})]:
            with self.subTest(str(normalizer)[:80]):
                self.refuses_text(self.GROWS, text, normalizer=normalizer)

    def test_each_part_between_added_tokens_counts(self):
        """What each of them may become is no constant that their number multiplies."""
        self.refuses_text(self.GROWS, "<s>a" * 1000 + "\n", normalizer={"type": "Prepend", "prepend": "b" * 1000},
                          added_tokens=[{"content": "<s>", "special": True}])

    def test_texts_that_grow_as_unicode_has_it(self):
        """U+FDFA becomes 18 letters, and the letters' bytes two characters each."""
        forms = {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "ByteLevel"}]}
        done = self.tokenizes("\ufdfa" * 900 + "\n", normalizer=forms)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_pre_tokenizers(self):
        split = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
        def marks(mark):  # a word that begins with it gets no second one
            return {"type": "Metaspace", "replacement": mark, "prepend_scheme": "always", "split": False}
        grows = {"type": "Sequence", "pretokenizers": [marks("_"), split, marks("#"), split] * 20}
        self.refuses_text(self.GROWS, pre_tokenizer=grows)
        self.refuses_text(self.GROWS, "\u00e9\n", pre_tokenizer={
            "type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "add_prefix_space": False}] * 40})

    def test_models(self):
        """Each letter with a suffix of a thousand bytes, all of which are tokens."""
        vocab = {f"<0x{byte:02X}>": byte for byte in range(256)}
        model = {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True, "end_of_word_suffix": "s" * 1000,
                 "continuing_subword_prefix": "p" * 1000}
        self.refuses_text(self.GROWS, "b" * 1000 + "\n", model=model)
        self.refuses_text("has a continuing_subword_prefix of 5000 bytes", model={**model, "continuing_subword_prefix": "p" * 5000})
        self.refuses_text("a token of 5000 bytes; at most 4096", model={**model, "vocab": {"v" * 5000: 0}})

    def test_templates(self):
        tokens = {"<s>": {"id": "<s>", "ids": [0] * 20000, "tokens": ["<s>"] * 20000}}
        special, text = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
        for says, single in [("adds more than 256 tokens to a text", [special] * 20000), ("adds more than 256", [special, text]),
                             ("repeats texts more than 4 times", [text] * 20000)]:
            self.refuses_text(says, post_processor={"type": "TemplateProcessing", "single": single, "pair": [text],
                                                    "special_tokens": tokens})
        empty = {"<s>": {"id": "<s>", "ids": [], "tokens": []}}
        self.refuses_text("has more than 256 pieces", post_processor={
            "type": "TemplateProcessing", "single": [special] * 20000, "pair": [text], "special_tokens": empty})

    def test_added_tokens_and_numbers_of_parts(self):
        added = [{"content": f"a{i}", "normalized": True} for i in range(3000)]
        self.refuses_text(self.GROWS, added_tokens=added, normalizer=replace("a", "b" * 1000))
        self.refuses_text("is part 129 of the tokenizer", normalizer=replace("b", "c", 5000))
        regex = {"type": "Replace", "pattern": {"Regex": "\\b" * 30000}, "content": ""}
        self.refuses_text("too many classes of characters", normalizer=regex)

    def test_decoders(self):
        self.write("t/tokenizer.json", tokenizer_json(decoder={"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 40}))
        self.refused(self.GROWS, "tokenize", "--model", "t", "--decode", stdin="0 0 0\n")

    def test_whitespace_of_added_tokens(self):
        """A run of spaces, each of which is a token that takes the whitespace beside it: in the time of one pass."""
        for side in ["lstrip", "rstrip"]:
            done = self.tokenizes(" " * 200_000 + "\n", added_tokens=[{"content": " ", side: True}])
            self.assertEqual(done.returncode, 0, done.stderr[:300])
        both = [{"content": "<r>", "rstrip": True}, {"content": " ", "lstrip": True}]
        self.assertEqual(self.tokenizes("<r>    \n", added_tokens=both).returncode, 0)

    def test_long_words_and_long_tokens(self):
        """In the time of the text times the longest token."""
        vocab = {"a": 0, **{"##" + "a" * size: size for size in range(1, 4000, 13)}}
        done = self.tokenizes("a" * 100_000 + "b\n", model={"type": "WordPiece", "unk_token": "a", "vocab": vocab,
                                                          "continuing_subword_prefix": "##",
                                                          "max_input_chars_per_word": 10**9})
        self.assertEqual(done.returncode, 0, done.stderr[:300])


class Files(Bounds):
    def test_npz(self):
        """1 MB that unpacks to 1 GiB."""
        header = npy([1, 1, 16384, 16384], [])
        with zipfile.ZipFile(self.at / "b.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("weights.npy", "w", force_zip64=True) as member:
                member.write(header)
                for _ in range(1024):
                    member.write(bytes(1 << 20))
        self.refused("bytes unpacked; at most 10", "attend", "--from", "b.npz", "--html", "x.html", code=2)
        self.assertFalse((self.at / "x.html").exists())
        with zipfile.ZipFile(self.at / "c.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("w.npy", npy([1, 1, 2000, 2000], [0.0] * 4_000_000))  # 16 MB of 16 kB
        done = self.bounded("attend", "--from", "c.npz", "--html", "x.html", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_gzip(self):
        with gzip.open(self.at / "p.tsv.gz", "wb", 9) as file:
            for _ in range(200):
                file.write((b"el perro " * 28 + b"\tdog\n") * (1 << 12))
        self.refused("unpacks to more than 100 times its size", "train", "--pairs", "p.tsv.gz", "--model", "m", *TINY)

    def test_png(self):
        """80 bytes that say 33 million pixels."""
        head = struct.pack(">IIBBBBB", 5792, 5792, 8, 6, 0, 0, 0)
        self.write("p.png", b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", zlib.compress(b"")) +
                   png_chunk(b"IEND", b""))
        tiny_models.image_encoder(self.at / "vit")
        self.refused("does not fit a file of", "classify", "-m", "vit", "p.png")

    def test_preparation_of_pictures(self):
        tiny_models.image_encoder(self.at / "vit")
        self.write("p.png", png(8, 8, bytes(range(192))))
        how = json.loads((self.at / "vit/preprocessor_config.json").read_text())
        how["size"] = {"height": 32767, "width": 32767}
        self.write("vit/preprocessor_config.json", json.dumps(how))
        self.refused("are made on the way", "classify", "-m", "vit", "p.png", code=2)

    def test_json(self):
        """Lists of lists, and many small values: a multiple of the file."""
        for text, says in [("[" * 500_000, "nested deeper"), ("[" + "0," * 300_000 + "0]", "it is not a JSON object"),
                           ("{" + ",".join(f'"{i:x}":0' for i in range(100_000)) + "}", ""),
                           ('{"a":[' + "{}," * 300_000 + "{}]}", ""), ('{"a":[' + '"",' * 300_000 + '""]}', "")]:
            self.write("m/config.json", text)
            done = self.bounded("inspect", "m")
            self.assertIn(done.returncode, [0, 1], done.stderr[:300])
            done = self.bounded("translate", "-m", "m", stdin="a\n")
            self.assertEqual(done.returncode, 1)
            self.assertLess(len(done.stderr), 1000)

    def test_options_in_toml(self):
        for toml in [".".join(["a"] * 400_000) + " = 1", "[" + ".".join(["a"] * 400_000) + "]", "a = " + "[" * 900_000,
                     "a = [" + "1," * 400_000 + "]"]:
            self.write("c.toml", toml)
            done = self.bounded("train", "--config", "c.toml", "--model", "m")
            self.assertEqual(done.returncode, 1, done.stderr[:300])
            self.assertLess(len(done.stderr), 1000)

    def test_long_words_of_the_command_line(self):
        """Messages name them, and looking for options in a message must not recurse."""
        word = "a" * 130_000
        for arguments in [["translate", "-m", word, "Hola"], ["train", "--pairs", word, "--model", "m"],
                          ["translate", "--" + word], [word]]:
            done = self.bounded(*arguments)
            self.assertIn(done.returncode, [1, 2], done.stderr[:300])


if __name__ == "__main__":
    unittest.main()
