"""PyTorch: training steps of the models that bench/training measures, eager and compiled."""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.fx.experimental._config
import torch.nn.functional as F
from torch import nn

import protocol

IGNORED = -100
torch.fx.experimental._config.use_duck_shape = False  # equal lengths by chance must not compile anew


def padded(sentences, value):
    longest = max(map(len, sentences))
    return torch.tensor([s + [value] * (longest - len(s)) for s in sentences])


def sinusoidal(length, width):
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position * torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1).float()


# The Multi30k model ---------------------------------------------------------------------------------------------------

class Translator(nn.Module):
    """nn.Transformer with one table for source, target and output, as the paper's: post-norm, without final norms.

    Dropout is on embeddings and on what a sub-layer puts out; nn.Transformer's further ones, of attention weights and
    inside the feed-forward, are off."""

    def __init__(self, file, dropout):
        super().__init__()
        width, heads, hidden = file["d_model"], file["nhead"], file["dim_feedforward"]
        sizes = {"dropout": dropout, "activation": "relu", "batch_first": True, "norm_first": False}
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, hidden, **sizes), file["layers"],
                                        enable_nested_tensor=False)
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, heads, hidden, **sizes), file["layers"])
        self.transformer = nn.Transformer(width, heads, custom_encoder=encoder, custom_decoder=decoder,
                                          batch_first=True)
        for layer in [*encoder.layers, *decoder.layers]:
            layer.dropout = nn.Identity()
            for name in ("self_attn", "multihead_attn"):
                if hasattr(layer, name):
                    getattr(layer, name).dropout = 0.0
        self.embedding = nn.Embedding(file["vocab_size"], width)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", sinusoidal(512, width), persistent=False)

    def embed(self, ids):
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(x + self.positions[:ids.size(1)])

    def forward(self, source, padding, target, causal):
        return self.transformer(self.embed(source), self.embed(target), tgt_mask=causal, tgt_is_causal=True,
                                src_key_padding_mask=padding, memory_key_padding_mask=padding)

    @staticmethod
    def renamed(name):
        return name if name.startswith("embedding") else "transformer." + name


def multi30k(request):
    directory = pathlib.Path(request["directory"])
    file = json.loads((directory / "multi30k.json").read_text(encoding="utf-8"))
    batches = []
    for batch in file["steps"][str(request["tokens"])]["batches"]:
        source = padded([s + [file["eos_id"]] for s in batch["source"]], file["pad_id"])
        target = padded([[file["bos_id"], *s] for s in batch["target"]], file["pad_id"])
        labels = padded([s + [file["eos_id"]] for s in batch["target"]], IGNORED)
        causal = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        batches.append(((source, source == file["pad_id"], target, causal), labels))
    return file, Translator(file, request["dropout"]), batches


# nanoGPT's CPU configuration ------------------------------------------------------------------------------------------

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.in_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)
        self.linear1 = nn.Linear(width, 4 * width, bias=False)
        self.linear2 = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in self.in_proj(self.norm1(x)).chunk(3, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out_proj(attended.transpose(1, 2).flatten(2))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self, file):
        super().__init__()
        width = file["d_model"]
        self.embedding = nn.Embedding(file["vocab_size"], width)
        self.positions = nn.Embedding(file["max_positions"], width)
        self.layers = nn.ModuleList(Block(width, file["nhead"]) for _ in range(file["layers"]))
        self.norm = nn.LayerNorm(width, bias=False)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight[:ids.size(1)]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    @staticmethod
    def renamed(name):
        return name.replace("self_attn.in_proj_weight", "in_proj.weight").replace("self_attn.", "")


def shakespeare(request):
    file = json.loads((pathlib.Path(request["directory"]) / "shakespeare.json").read_text(encoding="utf-8"))
    batches = []
    for texts in file["batches"]:
        ids = torch.tensor(texts)
        batches.append(((ids[:, :-1].contiguous(),), ids[:, 1:].contiguous()))
    return file, LanguageModel(file), batches


# Steps ----------------------------------------------------------------------------------------------------------------

# name: (whether the hidden states and the loss are compiled together, whether the loss is compiled alone)
VARIANTS = {"eager": (False, False), "eager, loss compiled": (False, True), "compiled": (True, False)}


class Task:
    """What a request trains, with heed's weights."""

    def __init__(self, request):
        torch.set_num_threads(request["threads"])
        torch.manual_seed(1)
        kind = request["kind"]
        self.file, self.model, self.batches = {"multi30k": multi30k, "shakespeare": shakespeare}[kind](request)
        with np.load(pathlib.Path(request["directory"]) / f"{kind}.npz") as arrays:
            self.model.load_state_dict({self.model.renamed(n): torch.from_numpy(arrays[n]) for n in arrays.files})
        self.criterion = self.cross_entropy

    def cross_entropy(self, hidden, table, labels):
        return F.cross_entropy(F.linear(hidden, table).flatten(0, 1), labels.flatten(), ignore_index=IGNORED,
                               label_smoothing=self.file.get("label_smoothing", 0.0))

    def loss(self, inputs, labels):
        return self.criterion(self.model(*inputs), self.model.embedding.weight, labels)


def steps(request, whole, loss_alone):
    """One update for each of the batches."""
    task = Task(request)
    several_shapes = len({batch[1].shape for batch in task.batches}) > 1
    if loss_alone:
        task.criterion = torch.compile(task.criterion, dynamic=several_shapes)
    loss_of = torch.compile(task.loss, dynamic=several_shapes) if whole else task.loss
    parameters = list(task.model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=task.file["learning_rate"], betas=(0.9, 0.98), eps=1e-9, fused=True)

    def call():
        for batch in task.batches:
            optimizer.zero_grad(set_to_none=True)
            loss_of(*batch).backward()
            nn.utils.clip_grad_norm_(parameters, task.file["clip_norm"], foreach=True)
            optimizer.step()
    return call


def variants(request):
    for name, (whole, loss_alone) in VARIANTS.items():
        if request.get("quick") and (whole or loss_alone):
            continue  # compiling takes a minute
        call = steps(request, whole, loss_alone)
        call()  # compiles, and fills the caches
        yield name, call, lambda: None


def losses(request):
    task = Task({**request, "dropout": 0.0})
    task.model.eval()
    with torch.no_grad():
        return {"losses": [task.loss(*batch).item() for batch in task.batches]}


if __name__ == "__main__":
    sys.exit(protocol.serve("PyTorch", torch.__version__, lambda request: protocol.fastest(variants(request)),
                            {"losses": losses}))
