"""What the tests of pages in a browser have in common: pages that are made, the truth about them, and the browser."""
import csv
import io
import json
import math
import os
import pathlib
import random
import subprocess

import browser

MAKER = os.environ["HEED_PAGE_MAKER"]
MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/spa-eng"


def softmax(scores):
    largest = max(scores)
    if largest == -math.inf:
        return [0.0] * len(scores)
    exps = [math.exp(s - largest) for s in scores]
    return [e / sum(exps) for e in exps]


class Group:
    """Layers x heads of attention from random vectors; rows() is the truth that the page must show."""

    def __init__(self, name, queries, keys, layers=2, heads=3, size=4, causal=False, seed=1, sharp=2.0, **more):
        normal = random.Random(seed).gauss
        self.name, self.queries, self.keys, self.size, self.more = name, queries, keys, size, more
        self.layers, self.heads = layers, heads
        matrix = lambda rows, factor: [[normal(0, factor) for _ in range(size)] for _ in range(rows)]
        n = layers * heads
        self.q = [matrix(len(queries), sharp) for _ in range(n)]
        self.k = [matrix(len(keys), 1) for _ in range(n)]
        self.v = [matrix(len(keys), 1) for _ in range(n)]
        self.causal = causal
        self.weights = [[softmax([self.score(head, i, j) for j in range(len(keys))]) for i in range(len(queries))]
                        for head in range(n)]

    def dot(self, head, i, j):
        return sum(a * b for a, b in zip(self.q[head][i], self.k[head][j]))

    def score(self, head, i, j):
        return -math.inf if self.causal and j > i else self.dot(head, i, j) / math.sqrt(self.size)

    def json(self):
        flat = lambda x: [y for part in x for y in flat(part)] if isinstance(x, list) else [x]
        per_layer = lambda x, l: flat(x[l * self.heads:(l + 1) * self.heads])
        shape = lambda n: [self.heads, n, self.size]
        vectors = [{"q": {"shape": shape(len(self.queries)), "values": per_layer(self.q, l)},
                    "k": {"shape": shape(len(self.keys)), "values": per_layer(self.k, l)},
                    "v": {"shape": shape(len(self.keys)), "values": per_layer(self.v, l)}} for l in range(self.layers)]
        return {"name": self.name, "queries": self.queries, "keys": self.keys, "title": self.name + " attention",
                "weights": {"shape": [self.layers, self.heads, len(self.queries), len(self.keys)],
                            "values": flat(self.weights)}, "vectors": vectors, **self.more}


SOURCE = ["El", "per", "ro", "tiene", "pelo", ".", "</s>"]
SOURCE_WORDS = [0, 1, 1, 2, 3, 4, 5]
OUTPUT = ["The", "dog", "has", "h", "air", "</s>"]
OUTPUT_WORDS = [0, 1, 2, 3, 3, 4]
ENCODER = Group("Encoder", SOURCE, SOURCE, query_words=SOURCE_WORDS, key_words=SOURCE_WORDS)
CROSS = Group("Cross", OUTPUT, SOURCE, seed=2, query_words=OUTPUT_WORDS, key_words=SOURCE_WORDS, step_keys="input")
DECODER = Group("Decoder", ["<s>", *OUTPUT[:-1]], ["<s>", *OUTPUT[:-1]], seed=3, causal=True, step_keys="output")
STEPS = [{"token": t, "candidates": [[t, 0.75], ["other", 0.2]]} for t in OUTPUT]
PAGE = {"title": "El perro tiene pelo.", "text": "The dog has hair", "steps": STEPS,
        "groups": [ENCODER.json(), CROSS.json(), DECODER.json()]}

OTHER_SOURCE = ["El", "ga", "to", "tiene", "pan", ".", "</s>"]  # as many as SOURCE
OTHER_OUTPUT = ["The", "big", "cat", "has", "h", "bread", "</s>"]  # one more than OUTPUT
OTHER_ENCODER = Group("Encoder", OTHER_SOURCE, OTHER_SOURCE, seed=7)
OTHER_CROSS = Group("Cross", OTHER_OUTPUT, OTHER_SOURCE, seed=8)
BOTH = {**PAGE, "compared": [OTHER_ENCODER.json(), OTHER_CROSS.json()], "compared_title": "El gato tiene pan.",
        "compared_text": "The big cat has bread"}


def made(page):
    done = subprocess.run([MAKER], input=json.dumps(page).encode(), capture_output=True, timeout=120, check=False)
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return done.stdout


class Browser(browser.Browser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.at / "page.html"
        cls.page.write_bytes(made(PAGE))

    def view(self, name):
        self.one(f"#views [data-value={name}]").click()
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == name)

    def tool(self, label):
        """Ticks the box with this label."""
        [box] = [e for e in self.all("#tools label") if label in e.text]
        box.click()

    def table(self):
        """The CSV of the view: a list of dictionaries."""
        return list(csv.DictReader(io.StringIO(self.saved("CSV").decode("utf-8-sig"), newline="")))
