"""A GPT-2 in Hugging Face's layout as a GGUF file, as llama.cpp's converter writes it."""
import json
import struct

import numpy as np
from pretrained_cases import read_safetensors

LAYER = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
         "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
OUTSIDE = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def fact(name, kind, value):
    written = {UINT32: lambda: struct.pack("<I", value), FLOAT32: lambda: struct.pack("<f", value),
               STRING: lambda: text(value)}[kind]()
    return text(name) + struct.pack("<I", kind) + written


def facts(name, kind, values):
    written = b"".join(text(value) if kind == STRING else struct.pack("<i", value) for value in values)
    return text(name) + struct.pack("<IIQ", ARRAY, kind, len(values)) + written


def tensors_of(directory):
    """By GGUF's names; matrices of Conv1D turned."""
    for name, values in read_safetensors(directory / "model.safetensors").items():
        parts = name.removeprefix("transformer.").split(".")
        kind = parts[-1]
        if parts[0] == "h" and (layer := LAYER.get(".".join(parts[2:-1]))):
            turned = values.T if values.ndim == 2 else values
            yield f"blk.{parts[1]}.{layer}.{kind}", np.ascontiguousarray(turned, np.float32)
        elif parts[0] in OUTSIDE:
            yield f"{OUTSIDE[parts[0]]}.{kind}", values.astype(np.float32)


def write_gpt2(directory, path):
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((directory / "tokenizer.json").read_text(encoding="utf-8"))
    ids = dict(tokenizer["model"]["vocab"]) | {one["content"]: one["id"] for one in tokenizer["added_tokens"]}
    tokens = [f"[unused{i}]" for i in range(config["vocab_size"])]
    for token, id in ids.items():
        tokens[id] = token
    special = {one["id"] for one in tokenizer["added_tokens"] if one["special"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    known = [fact("general.architecture", STRING, "gpt2"),
             fact("gpt2.block_count", UINT32, config["n_layer"]),
             fact("gpt2.context_length", UINT32, config["n_positions"]),
             fact("gpt2.embedding_length", UINT32, config["n_embd"]),
             fact("gpt2.feed_forward_length", UINT32, config.get("n_inner") or 4 * config["n_embd"]),
             fact("gpt2.attention.head_count", UINT32, config["n_head"]),
             fact("gpt2.attention.layer_norm_epsilon", FLOAT32, config["layer_norm_epsilon"]),
             fact("tokenizer.ggml.model", STRING, "gpt2"), fact("tokenizer.ggml.pre", STRING, "gpt-2"),
             facts("tokenizer.ggml.tokens", STRING, tokens),
             facts("tokenizer.ggml.token_type", INT32, [3 if i in special else 1 for i in range(len(tokens))]),
             facts("tokenizer.ggml.merges", STRING, merges)]
    header, data = b"", b""
    held = list(tensors_of(directory))
    for name, values in held:
        sizes = values.shape[::-1]
        header += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, 0, len(data))
        data += values.tobytes() + b"\0" * (-values.nbytes % ALIGNMENT)
    start = struct.pack("<4sIQQ", b"GGUF", 3, len(held), len(known)) + b"".join(known) + header
    path.write_bytes(start + b"\0" * (-len(start) % ALIGNMENT) + data)
