"""Tiny models as other makers write them, with random weights. Standard library only."""
import json
import pathlib
import random
import struct

from program import safetensors

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", "##s", "the", "dog", "cat", "barks", "sleeps", "where",
          "is", "tom", "in", "paris", "house", "red"]
WIDTH, HIDDEN, HEADS, LAYERS, POSITIONS = 8, 16, 2, 2, 24


def text_encoder(directory, architecture="BertModel", labels=("negative", "neutral", "positive"), seed=1, **config):
    """A BERT with the head that the name of its class says."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    names = {str(number): label for number, label in enumerate(labels)}
    (directory / "config.json").write_text(json.dumps({
        "architectures": [architecture], "model_type": "bert", "vocab_size": len(PIECES), "hidden_size": WIDTH,
        "intermediate_size": HIDDEN, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "id2label": names, **config}))
    (directory / "vocab.txt").write_text("".join(piece + "\n" for piece in PIECES))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    write_tensors(directory / "model.safetensors", shapes(architecture, len(labels)), seed)
    return directory


def image_encoder(directory, labels=("cat", "dog", "bird"), seed=2):
    """A ViT that classifies pictures of 16 x 16 pixels, in patches of 4 x 4."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({
        "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": WIDTH,
        "intermediate_size": HIDDEN, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "image_size": 16,
        "patch_size": 4, "id2label": {str(number): label for number, label in enumerate(labels)}}))
    (directory / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 16, "width": 16}}))
    wanted = {"vit.embeddings.cls_token": (1, 1, WIDTH), "vit.embeddings.position_embeddings": (1, 17, WIDTH),
              "vit.embeddings.patch_embeddings.projection.weight": (WIDTH, 3, 4, 4),
              "vit.embeddings.patch_embeddings.projection.bias": (WIDTH,),
              "classifier.weight": (len(labels), WIDTH), "classifier.bias": (len(labels),)}
    for name in ["vit.layernorm"] + [f"vit.encoder.layer.{layer}.layernorm_{where}"
                                     for layer in range(LAYERS) for where in ("before", "after")]:
        wanted.update({name + ".weight": (WIDTH,), name + ".bias": (WIDTH,)})
    for layer in range(LAYERS):
        at = f"vit.encoder.layer.{layer}."
        for part, out, width in [("attention.attention.query", WIDTH, WIDTH), ("attention.attention.key", WIDTH, WIDTH),
                                 ("attention.attention.value", WIDTH, WIDTH), ("attention.output.dense", WIDTH, WIDTH),
                                 ("intermediate.dense", HIDDEN, WIDTH), ("output.dense", WIDTH, HIDDEN)]:
            wanted.update({at + part + ".weight": (out, width), at + part + ".bias": (out,)})
    write_tensors(directory / "model.safetensors", wanted, seed)
    return directory


def language_model(directory, seed=3, **config):
    """A GPT-2 of bytes, which a regular expression cuts into words first."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    # A byte as a character that can be seen.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + at) for at, byte in enumerate(others)}
    merges = [("t", "h"), ("th", "e"), ("o", "g"), ("d", "og"), (letters[32], "dog"), (letters[32], "the")]
    pieces = [letters[byte] for byte in range(256)] + ["".join(pair) for pair in merges] + ["<|endoftext|>"]
    (directory / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (directory / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in merges))
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    (directory / "config.json").write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": len(pieces), "n_embd": WIDTH,
        "n_head": HEADS, "n_layer": LAYERS, "n_positions": 64, "n_inner": HIDDEN, **config}))
    wanted = {"wte.weight": (len(pieces), WIDTH), "wpe.weight": (64, WIDTH)}
    for layer in range(LAYERS):
        at = f"h.{layer}."
        for part, width, out in [("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                 ("mlp.c_fc", WIDTH, HIDDEN), ("mlp.c_proj", HIDDEN, WIDTH)]:
            wanted.update({at + part + ".weight": (width, out), at + part + ".bias": (out,)})
    for name in ["ln_f"] + [f"h.{layer}.ln_{which}" for layer in range(LAYERS) for which in (1, 2)]:
        wanted.update({name + ".weight": (WIDTH,), name + ".bias": (WIDTH,)})
    write_tensors(directory / "model.safetensors", wanted, seed)
    return directory


def shapes(architecture, labels):
    """Names of a BERT's tensors and their shapes."""
    all_shapes = {"embeddings.word_embeddings.weight": (len(PIECES), WIDTH),
                  "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
                  "embeddings.token_type_embeddings.weight": (2, WIDTH)}

    def linear(name, out, width):
        all_shapes.update({name + ".weight": (out, width), name + ".bias": (out,)})

    def norm(name):
        all_shapes.update({name + ".weight": (WIDTH,), name + ".bias": (WIDTH,)})
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(at + "attention.self." + part, WIDTH, WIDTH)
        linear(at + "attention.output.dense", WIDTH, WIDTH)
        norm(at + "attention.output.LayerNorm")
        linear(at + "intermediate.dense", HIDDEN, WIDTH)
        linear(at + "output.dense", WIDTH, HIDDEN)
        norm(at + "output.LayerNorm")
    if not architecture.endswith("Model"):
        all_shapes = {"bert." + name: shape for name, shape in all_shapes.items()}
    if architecture.endswith("ForMaskedLM"):
        linear("cls.predictions.transform.dense", WIDTH, WIDTH)
        norm("cls.predictions.transform.LayerNorm")
        all_shapes["cls.predictions.bias"] = (len(PIECES),)
    elif architecture.endswith("ForSequenceClassification"):
        linear("bert.pooler.dense", WIDTH, WIDTH)
        linear("classifier", labels, WIDTH)
    elif architecture.endswith("ForTokenClassification"):
        linear("classifier", labels, WIDTH)
    elif architecture.endswith("ForQuestionAnswering"):
        linear("qa_outputs", 2, WIDTH)
    return all_shapes


def write_tensors(path, wanted, seed):
    draw = random.Random(seed)
    header, data = {}, b""
    for name, shape in wanted.items():
        count = 1
        for size in shape:
            count *= size
        middle = 1 if "LayerNorm.weight" in name or (".ln_" in name or name.startswith("ln_")) and "weight" in name else 0
        values = struct.pack(f"<{count}f", *(draw.gauss(middle, 0.5) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    pathlib.Path(path).write_bytes(safetensors(header, data))


def sentence_modules(directory, modes=("mean",), normalize=True, **config):
    """The files of sentence-transformers beside a model."""
    directory = pathlib.Path(directory)
    kind = "sentence_transformers.models."
    modules = [("", kind + "Transformer"), ("1_Pooling", kind + "Pooling")]
    if normalize:
        modules.append(("2_Normalize", kind + "Normalize"))
    (directory / "modules.json").write_text(json.dumps(
        [{"idx": i, "name": str(i), "path": path, "type": name} for i, (path, name) in enumerate(modules)]))
    (directory / "1_Pooling").mkdir(exist_ok=True)
    flags = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens", "sqrt": "mean_sqrt_len_tokens",
             "weighted": "weightedmean_tokens", "last": "lasttoken"}
    (directory / "1_Pooling/config.json").write_text(json.dumps(
        {"word_embedding_dimension": WIDTH, **{"pooling_mode_" + flag: name in modes for name, flag in flags.items()}}))
    (directory / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False,
                                                                     **config}))
