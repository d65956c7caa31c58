"""CTranslate2, whose own converter reads transformers' directories, as a side of bench/pretrained/compare.py."""
import json
import os
import pathlib
import random

os.environ["HF_HUB_OFFLINE"] = "1"
import ctranslate2  # noqa: E402
from protocol import Unsupported, fastest, serve  # noqa: E402

TYPES = {"float32": "float32", "bfloat16": "bfloat16", "int8": "int8"}
held = {}


def generator(directory, dtype, threads):
    key = (directory, dtype)
    if key not in held:
        held.clear()
        to = pathlib.Path(directory + "-ctranslate2-" + dtype)
        if not to.exists():
            ctranslate2.converters.TransformersConverter(directory).convert(str(to), quantization=TYPES[dtype])
        names = json.loads((to / "vocabulary.json").read_text(encoding="utf-8"))
        held[key] = ctranslate2.Generator(str(to), device="cpu", compute_type=TYPES[dtype], inter_threads=1,
                                          intra_threads=threads), names
    return held[key]


def choose(r):
    if r["kind"] not in ("decode", "prompt"):
        raise Unsupported("no such operation")
    model, names = generator(r["directory"], r["dtype"], r["threads"])
    random.seed(1)
    tokens = [[names[random.randrange(30000)] for _ in range(r["length"])] for _ in range(r["texts"])]

    def generate():
        model.generate_batch(tokens, max_length=r["tokens"], min_length=r["tokens"], sampling_topk=1,
                             include_prompt_in_result=False)
    return fastest([("greedy", generate, lambda: None)])


if __name__ == "__main__":
    serve("CTranslate2", ctranslate2.__version__, choose)
