"""A language model of random numbers, written file by file, and what it computes, in NumPy."""
import json
import math
import struct

import heed
import numpy as np

CONFIG = {"architecture": "language_model", "vocab_size": 0, "d_model": 16, "nhead": 2, "num_kv_heads": 0,
          "num_layers": 2, "dim_feedforward": 24, "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0,
          "activation": "relu", "norm": "layer_norm", "norm_first": True, "bias": True, "positions": "learned",
          "max_positions": 40, "tie_embeddings": True}
TEXT = "hello world, the quick brown fox jumps over the lazy dog.\n"


def parameters(config):
    """Names and shapes."""
    width, hidden = config["d_model"], config["dim_feedforward"]
    yield "embedding.weight", (config["vocab_size"], width)
    yield "positions.weight", (config["max_positions"], width)
    for layer in range(config["num_layers"]):
        for name, shape in {"self_attn.in_proj_weight": (3 * width, width), "self_attn.in_proj_bias": (3 * width,),
                            "self_attn.out_proj.weight": (width, width), "self_attn.out_proj.bias": (width,),
                            "linear1.weight": (hidden, width), "linear1.bias": (hidden,),
                            "linear2.weight": (width, hidden), "linear2.bias": (width,),
                            "norm1.weight": (width,), "norm1.bias": (width,),
                            "norm2.weight": (width,), "norm2.bias": (width,)}.items():
            yield f"layers.{layer}.{name}", shape
    yield "norm.weight", (width,)
    yield "norm.bias", (width,)


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.tobytes() for t in tensors.values()))


def language_model(directory):
    """Writes one whose vocabulary are the characters of TEXT."""
    vocabulary = heed.Vocabulary.characters(TEXT)
    config = CONFIG | {"vocab_size": len(vocabulary)}
    random = np.random.default_rng(3)
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    vocabulary.save(directory / "vocabulary.txt")
    write_safetensors(directory / "model.safetensors", {
        name: (random.standard_normal(shape) * (0.4 if len(shape) == 2 else 0.7)).astype(np.float32)
        for name, shape in parameters(config)})


def hidden_states(model, ids):
    """(L, E) float64: Radford et al. 2019, norms before the sub-layers."""
    p = {name: value.astype(np.float64) for name, value in model.state_dict().items()}
    heads, length = CONFIG["nhead"], len(ids)

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * p[f"{name}.weight"] + p[f"{name}.bias"]

    def attention(x, name):
        q, k, v = (part.reshape(length, heads, -1).swapaxes(0, 1) for part in
                   np.split(x @ p[f"{name}.in_proj_weight"].T + p[f"{name}.in_proj_bias"], 3, axis=-1))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1]) + np.triu(np.full((length, length), -np.inf), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        out = (weights @ v).swapaxes(0, 1).reshape(length, -1)
        return out @ p[f"{name}.out_proj.weight"].T + p[f"{name}.out_proj.bias"], weights

    x = p["embedding.weight"][ids] + p["positions.weight"][:length]
    maps = []
    for layer in range(CONFIG["num_layers"]):
        name = f"layers.{layer}"
        out, weights = attention(norm(x, f"{name}.norm1"), f"{name}.self_attn")
        x = x + out
        inner = np.maximum(norm(x, f"{name}.norm2") @ p[f"{name}.linear1.weight"].T + p[f"{name}.linear1.bias"], 0)
        x = x + inner @ p[f"{name}.linear2.weight"].T + p[f"{name}.linear2.bias"]
        maps.append(weights)
    return norm(x, "norm"), np.stack(maps)


def logits(model, ids):
    """(L, V) float64."""
    return hidden_states(model, ids)[0] @ model.state_dict()["embedding.weight"].astype(np.float64).T
