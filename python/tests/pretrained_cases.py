"""The conformance set of other makers' models: directories, and what PyTorch makes of them."""
import json
import os
import pathlib
import struct

import numpy as np

SHARED = pathlib.Path(os.environ.get("HEED_SHARED", pathlib.Path(__file__).resolve().parents[3] / "shared"))
ROOT = SHARED / "conformance/models"
WITHOUT = f"needs the models of {ROOT}, which are not here"
TASKS = {"causal": "LanguageModel", "seq2seq": "Translator", "image": "ImageEncoder", "speech": "SpeechTransformer"}


def read_safetensors(path):
    """Arrays by name; float16 as it is, bfloat16 as float32."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in about["data_offsets"])
        part = data[begin:end]
        if about["dtype"] == "BF16":
            values = (np.frombuffer(part, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(part, {"F32": np.float32, "F16": np.float16, "I64": np.int64}[about["dtype"]])
        tensors[name] = values.reshape(about["shape"])
    return tensors


class Case:
    def __init__(self, name):
        self.directory = ROOT / name
        self.facts = json.loads((self.directory / "expected.json").read_text(encoding="utf-8"))
        self.expected = read_safetensors(self.directory / "expected.safetensors")
        self.kind = TASKS.get(self.facts["task"], "TextEncoder")

    def rows(self, ids, mask):
        """Without what fills up."""
        return [row[there == 1].tolist() for row, there in zip(self.expected[ids], self.expected[mask])]

    def want(self, name, row, length):
        """Row `row` of the first tokens: of (B, L, ...) or, for maps, (B, H, L, L)."""
        one = self.expected[name][row]
        return one[:, :length, :length] if one.ndim == 3 else one[:length]


def difference(got, want):
    """The largest difference, in parts of the largest expected value."""
    assert got.shape == want.shape
    return np.abs(got.astype(np.float64) - want).max() / np.abs(want).max()


def names(*kinds):
    """Of the cases of these classes; none where the set is not here."""
    if not ROOT.is_dir():
        return []
    found = []
    for directory in sorted(ROOT.iterdir()):
        if (directory / "config.json").is_file():
            task = json.loads((directory / "expected.json").read_text(encoding="utf-8"))["task"]
            if TASKS.get(task, "TextEncoder") in kinds:
                found.append(directory.name)
    return found
