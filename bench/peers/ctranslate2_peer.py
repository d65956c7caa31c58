"""CTranslate2: translation with heed's own weights, converted to its format, in float32."""
import json
import pathlib
import sys
import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

import protocol

NORMS = {"norm1": "self_attention", "norm2": "ffn"}
DECODER_NORMS = {"norm1": "self_attention", "norm2": "attention", "norm3": "ffn"}


def read_safetensors(path):
    """{name: float32 array}; the format: length of the header, header in JSON, data."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    types = {"F16": np.float16, "F32": np.float32}
    return {name: np.frombuffer(data[end:][slice(*entry["data_offsets"])], types[entry["dtype"]])
            .reshape(entry["shape"]).astype(np.float32) for name, entry in header.items() if name != "__metadata__"}


def sinusoidal(length, width):
    angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], 2).reshape(length, width).astype(np.float32)


def convert(model, to):
    """Writes heed's model directory `model` as CTranslate2 reads it. Pieces are named by their ids."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    weights = read_safetensors(model / "model.safetensors")
    if not (config["norm_first"] and config["tie_embeddings"] and config["activation"] == "relu" and config["bias"]):
        raise protocol.Unsupported("a model of another shape than the bundled one")
    layers = config["num_encoder_layers"], config["num_decoder_layers"]
    spec = TransformerSpec.from_config(layers, config["nhead"], pre_norm=True)

    def linear(into, name, rows=slice(None)):
        into.weight, into.bias = weights[name + "weight"][rows], weights[name + "bias"][rows]

    def norm(into, name):
        into.gamma, into.beta = weights[name + ".weight"], weights[name + ".bias"]

    def both(into, name, norms):
        parts = {"self_attention": into.self_attention.layer_norm, "ffn": into.ffn.layer_norm}
        if hasattr(into, "attention"):
            parts["attention"] = into.attention.layer_norm
        for own, theirs in norms.items():
            norm(parts[theirs], name + own)
        linear(into.self_attention.linear[0], name + "self_attn.in_proj_")
        linear(into.self_attention.linear[1], name + "self_attn.out_proj.")
        linear(into.ffn.linear_0, name + "linear1.")
        linear(into.ffn.linear_1, name + "linear2.")

    width = config["d_model"]
    for side, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        embeddings = side.embeddings[0] if name == "encoder" else side.embeddings
        embeddings.weight = weights["embedding.weight"]
        side.position_encodings.encodings = sinusoidal(config["max_positions"], width)
        norm(side.layer_norm, name + ".norm")
    for i, layer in enumerate(spec.encoder.layer):
        both(layer, f"encoder.layers.{i}.", NORMS)
    for i, layer in enumerate(spec.decoder.layer):
        name = f"decoder.layers.{i}."
        both(layer, name, DECODER_NORMS)
        linear(layer.attention.linear[0], name + "multihead_attn.in_proj_", slice(0, width))
        linear(layer.attention.linear[1], name + "multihead_attn.in_proj_", slice(width, None))
        linear(layer.attention.linear[2], name + "multihead_attn.out_proj.")
    spec.decoder.projection.weight = weights["embedding.weight"]

    pieces = [str(i) for i in range(config["vocab_size"])]
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token, spec.config.bos_token = "1", str(config["bos_id"])
    spec.config.eos_token = str(config["eos_id"])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    spec.optimize(quantization="float32")
    spec.save(str(to))


def translator(model, inter, intra):
    with tempfile.TemporaryDirectory() as directory:
        convert(pathlib.Path(model), directory)
        return ctranslate2.Translator(directory, "cpu", compute_type="float32", inter_threads=inter,
                                      intra_threads=intra)


def sentences(request):
    file = json.loads((pathlib.Path(request["directory"]) / "spa-eng.json").read_text(encoding="utf-8"))
    chosen = sorted(file["source"][::request["every"]], key=len)
    return file["model"], [[str(i) for i in ids] for ids in chosen]


def call_of(request, inter, intra):
    model, source = sentences(request)
    t = translator(model, inter, intra)
    # The longest output that heed permits; sorted by length, so that the last source is the longest.
    options = {"beam_size": request["beam"], "length_penalty": 1, "max_decoding_length": 2 * (len(source[-1]) + 1) + 10}
    if request["batch"] == 1 and not request["at_once"]:
        return lambda: [t.translate_batch([s], **options)[0] for s in source]
    return lambda: t.translate_batch(source, max_batch_size=request["batch"], **options)


def variants(request):
    n = request["threads"]
    for inter, intra in {(1, n), (n if request["at_once"] else 1, 1)}:
        yield f"{inter} translator(s) of {intra} thread(s)", call_of(request, inter, intra), lambda: None


def translations(request):
    return {"ids": [[int(piece) for piece in r.hypotheses[0]] for r in call_of(request, 1, request["threads"])()]}


if __name__ == "__main__":
    sys.exit(protocol.serve("CTranslate2", ctranslate2.__version__,
                            lambda request: protocol.fastest(variants(request)), {"translations": translations}))
