"""The package `tokenizers` as a side of compare.py: the same requests as tokenizers_bench.cc's."""
import os
import pathlib
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread, as heed
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import tokenizers  # noqa: E402
from protocol import fastest, serve  # noqa: E402


def load(directory):
    directory = pathlib.Path(directory)
    if (directory / "tokenizer.json").exists():
        return tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    if (directory / "merges.txt").exists():
        return tokenizers.ByteLevelBPETokenizer(str(directory / "vocab.json"), str(directory / "merges.txt"))
    return tokenizers.BertWordPieceTokenizer(str(directory / "vocab.txt"))


def choose(request):
    tokenizer = load(request["directory"])
    text = pathlib.Path(request["file"]).read_text(encoding="utf-8")
    texts = text.split("\n") if request["lines"] else [text]

    def by_one():
        for one in texts:
            tokenizer.encode(one, add_special_tokens=False)

    def in_a_batch():
        tokenizer.encode_batch(texts, add_special_tokens=False)

    return fastest([("encode", by_one, lambda: None), ("encode_batch", in_a_batch, lambda: None)])


if __name__ == "__main__":
    serve("tokenizers", tokenizers.__version__, choose)
