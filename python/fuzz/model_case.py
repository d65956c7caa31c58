"""Random calls of two tiny models that were trained a little, each written and loaded once a process."""
import copy
import functools
import pathlib
import pickle
import random
import re
import tempfile

import heed
import numpy as np
from arguments import no_array, own
from case import REFUSALS, Case, expect

WORDS = ["el", "perro", "gato", "come", "pan", "rojo", "una", "casa"]
TINY = {"vocab_size": 290, "d_model": 8, "heads": 2, "feed_forward": 12, "learning_rate": 0.01, "max_updates": 4,
        "seed": 7}


@functools.cache
def models():
    """(directory, translator, writer); the directory lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="heed-fuzz-")
    at, draw = pathlib.Path(folder.name), random.Random(1)
    lines = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(2, 6))) for _ in range(60)]
    (at / "book.txt").write_text("\n".join(lines), encoding="utf-8")
    heed.train(pairs=[(line, line[::-1]) for line in lines], out=at / "translator", encoder_layers=1, decoder_layers=1,
               batch_tokens=200, max_positions=24, **TINY)
    heed.train(text=at / "book.txt", out=at / "writer", layers=1, block=16, batch=4, max_positions=24, **TINY)
    return folder, heed.load(at / "translator"), heed.load(at / "writer")


class Models(Case):
    refusals = (*REFUSALS, heed.UsageError, heed.FormatError, heed.IoError, heed.UntrustedError, UnicodeEncodeError)
    says = re.compile(r"(load|save|translate|translation|score|logits|embed|attend|generate|Transformer|LanguageModel)"
                      r"\b|open |create |'utf-8' codec can't encode")

    def __init__(self, rng):
        super().__init__(rng)
        self.folder, self.translator, self.writer = models()

    def text(self):
        rng = self.rng
        if rng.random() < self.wrong:
            return rng.choice([no_array(rng), "\ud800", "a\0b", "\n\n", "x" * 400, "日本語 🎉", "e\u0301\u200d"])
        return " ".join(rng.choice(WORDS) for _ in range(rng.choice([0, 1, 1, 3, 5])))

    def texts(self):
        """One text or several."""
        rng = self.rng
        if rng.random() < 0.6:
            return self.text()
        if rng.random() < self.wrong:
            return rng.choice([(own() for _ in range(2)), {"el": 1}, iter(["el", None]), [["el"]], np.array(["el"])])
        return [self.text() for _ in range(rng.choice([0, 1, 3]))]

    def count(self, *right):
        """A number of what is computed: none so large that it takes for ever."""
        if self.rng.random() < self.wrong:
            return self.rng.choice([no_array(self.rng), -1, -2**63, 2**64, 1.5, float("nan"), np.int64(2), 10**400])
        return self.rng.choice(right)

    def ids(self, vocabulary):
        rng = self.rng
        if rng.random() < self.wrong:
            return rng.choice([no_array(rng), [-1], [2**31], [2**31 - 1], [2**70], [1.5], ["el"], iter([1, None]),
                               np.array([1, 2]), np.array([1.0]), range(400)])
        return [rng.randrange(len(vocabulary)) for _ in range(rng.choice([0, 1, 3, 7]))]

    def sampling(self):
        return {"temperature": lambda: self.number(1.0, 0, 0.7, 100), "top_k": lambda: self.number(0, 1, 5),
                "top_p": lambda: self.number(1.0, 0.9, 0.1), "min_p": lambda: self.number(0.0, 0.05, 1),
                "seed": lambda: self.number(0, 7, 2**64 - 1)}

    def run(self):
        self.rng.choice([self.translate, self.translate, self.generate, self.generate, self.score, self.score_text,
                         self.logits, self.embed, self.attend, self.attend_writing, self.files, self.copies])()

    def translate(self):
        makers = {"beam": lambda: self.number(1, 2, 5), "length_penalty": lambda: self.number(1.4, 0, -1),
                  "max_length": lambda: self.count(0, 1, 6), "batch": lambda: self.number(32, 1),
                  "n_best": lambda: self.number(None, 1, 3), "alignment": lambda: self.one_of(True, False),
                  "split": lambda: self.one_of(True, False), "sample": lambda: self.one_of(True, False)}
        options = self.some(makers, [0, 1, 2, 4])
        if options.get("sample") is True:
            options |= self.some(self.sampling(), [0, 1, 2])
        texts = self.texts()
        found = self.translator.translate(texts, **options)
        kind = str if options.get("n_best") is None else list
        assert type(found) is (kind if isinstance(texts, str) else list), type(found)
        for one in [found] if isinstance(texts, str) else found:
            assert type(one) is kind
            if kind is list:
                assert len(one) <= options["n_best"] and all(type(best) is heed.Translation for best in one)

    def generate(self):
        makers = self.sampling() | {
            "max_tokens": lambda: self.count(0, 1, 8, 40), "repetition_penalty": lambda: self.number(1.0, 1.2, 3),
            "stop": lambda: self.rng.choice([self.texts(), "", "a"]), "stream": lambda: self.one_of(True, False)}
        options = {"max_tokens": 20} | self.some(makers, [0, 1, 2, 4])
        written = self.writer.generate(self.text(), **options)
        if options.get("stream") is True:
            pieces = [next(written, "") for _ in range(self.rng.choice([0, 2, 50]))]
            written = "".join(pieces)
        assert type(written) is str

    def score(self):
        texts, translations = self.texts(), self.texts()
        options = self.some({"length_penalty": lambda: self.number(1.4, 0), "batch": lambda: self.number(1, 32),
                             "alignment": lambda: self.one_of(True, False)}, [0, 0, 1, 2])
        found = self.translator.score(texts, translations, **options)
        one = isinstance(texts, str) and isinstance(translations, str)
        assert all(type(each) is heed.Translation for each in ([found] if one else found))

    def score_text(self):
        texts = self.texts()
        found = self.writer.score(texts)
        assert all(type(each) is heed.TextScore for each in ([found] if isinstance(texts, str) else found))

    def logits(self):
        if self.rng.random() < 0.5:
            ids = self.ids(self.writer.vocabulary)
            expect(self.writer.logits(ids), (len(ids), len(self.writer.vocabulary)), np.float32)
        else:
            source, target = self.ids(self.translator.source_vocabulary), self.ids(self.translator.vocabulary)
            expect(self.translator.logits(source, target), (len(target) + 1, len(self.translator.vocabulary)),
                   np.float32)

    def embed(self):
        model, texts = self.rng.choice([self.translator, self.writer]), self.texts()
        options = self.some({"tokens": lambda: self.one_of(True, False)}, [0, 1])
        found = model.embed(texts, **options)
        width = model.config["d_model"]
        if options.get("tokens") is True:
            for each in [found] if isinstance(texts, str) else found:
                expect(each, (each.shape[0], width), np.float32)
        else:
            expect(found, (width,) if isinstance(texts, str) else (found.shape[0], width), np.float32)

    def attend(self):
        page = self.translator.attend(self.text(), self.rng.choice([None, self.text()]),
                                      **self.some({"beam": lambda: self.number(1, 5)}, [0, 1]))
        assert list(page.maps) == ["Encoder", "Decoder", "Cross"]

    def attend_writing(self):
        shown = self.writer.attend(self.text(), **self.some({"max_tokens": lambda: self.count(0, 1, 8)}, [0, 1]))
        assert type(shown) is heed.AttentionMap

    def files(self):
        """Paths that hold a model, something else, or nothing."""
        rng, at = self.rng, pathlib.Path(self.folder.name)
        path = rng.choice([at / "writer", str(at / "translator"), bytes(at / "writer"), at, at / "book.txt",
                           at / "none", at / "writer" / "config.json", at / "book.txt" / "below", "", "\ud800",
                           no_array(rng)])
        if rng.random() < 0.6:
            heed.load(path, **self.some({"trust": lambda: self.one_of(True, False)}, [0, 1]))
        else:
            path = rng.choice([at / "copy", at / "copy", path])
            if path not in (at / "writer", str(at / "translator"), bytes(at / "writer")):  # those stay as they are
                rng.choice([self.translator, self.writer]).save(
                    path, **self.some({"dtype": lambda: self.one_of("float32", "float16", "bfloat16")}, [0, 1]))

    def copies(self):
        model = self.rng.choice([self.translator, self.writer])
        other = self.rng.choice([copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])(model)
        assert repr(other) == repr(model) and other.config == model.config
        for name, array in other.state_dict().items():
            np.testing.assert_array_equal(array, model.state_dict()[name])
