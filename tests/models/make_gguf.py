#!/usr/bin/env python3
"""Makes tiny random models as GGUF files, and what transformers computes with them, for conformance_models_test:

    make_gguf.py DIRECTORY [--seed N] [--each N]

A folder a case: model.gguf, expected.safetensors and expected.json.
"""
import argparse
import json
import pathlib

import gguf
import numpy
import torch
import transformers
from gguf import GGMLQuantizationType as Type

import gguf_writer
import make_cases
from make_cases import Draw, causal_case, ids, padded, stack, write

DTYPES = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K,
          Type.Q6_K]


def sizes(draw, dtype):
    """Rows must be whole blocks; head sizes are even."""
    heads = draw.choice([2, 4, 8])
    block = max(gguf.GGML_QUANT_SIZES[dtype][0], 32)
    return heads, block * draw.choice([1, 2]), block * draw.choice([1, 3])


def decoder(draw, dtype, **more):
    heads, width, inner = sizes(draw, dtype)
    return dict(vocab_size=make_cases.PIECES, hidden_size=width, intermediate_size=inner, num_attention_heads=heads,
                num_key_value_heads=draw.choice([1, 2, heads]), num_hidden_layers=draw.randint(1, 3),
                rms_norm_eps=draw.choice([1e-6, 1e-5]), max_position_embeddings=draw.choice([64, 200]), bos_token_id=1,
                eos_token_id=2, pad_token_id=0, tie_word_embeddings=draw.random() < 0.5, **more)


def llama_rope(draw):
    while "attention_factor" in (rope := make_cases.rope(draw)) or rope["rope_type"] == "dynamic":
        pass
    return rope


def llama(draw, dtype):
    sized = decoder(draw, dtype)
    head_dim = max(gguf.GGML_QUANT_SIZES[dtype][0], 32) // draw.choice([1, 2])
    if head_dim * sized["num_attention_heads"] % gguf.GGML_QUANT_SIZES[dtype][0]:
        head_dim = sized["hidden_size"] // sized["num_attention_heads"]
    return transformers.LlamaConfig(**sized, head_dim=head_dim, rope_parameters=llama_rope(draw),
                                    attention_bias=draw.random() < 0.3)


def qwen2(draw, dtype):
    return transformers.Qwen2Config(**decoder(draw, dtype), rope_parameters=llama_rope(draw) | {"rope_type": "default"})


def qwen3(draw, dtype):
    sized = decoder(draw, dtype)
    return transformers.Qwen3Config(**sized, head_dim=sized["hidden_size"] // sized["num_attention_heads"],
                                    rope_parameters=llama_rope(draw) | {"rope_type": "default"})


def gemma(draw, dtype):
    sized = decoder(draw, dtype) | {"tie_word_embeddings": True}
    return transformers.GemmaConfig(**sized, head_dim=sized["hidden_size"] // sized["num_attention_heads"])


def gemma2(draw, dtype):
    sized = decoder(draw, dtype) | {"tie_word_embeddings": True}
    head_dim = sized["hidden_size"] // sized["num_attention_heads"]
    return transformers.Gemma2Config(**sized, head_dim=head_dim, query_pre_attn_scalar=head_dim, sliding_window=3,
                                     attn_logit_softcapping=draw.choice([2.0, 50.0]), final_logit_softcapping=30.0)


def gpt2(draw, dtype):
    heads, width, inner = sizes(draw, dtype)
    return transformers.GPT2Config(vocab_size=make_cases.PIECES, n_embd=width, n_head=heads, n_layer=draw.randint(1, 3),
                                   n_positions=40, n_inner=inner, layer_norm_epsilon=draw.choice([1e-5, 1e-3]),
                                   bos_token_id=1, eos_token_id=2)


def bert(draw, dtype):
    heads, width, inner = sizes(draw, dtype)
    return transformers.BertConfig(vocab_size=make_cases.PIECES, hidden_size=width, num_attention_heads=heads,
                                   num_hidden_layers=draw.randint(1, 3), intermediate_size=inner,
                                   max_position_embeddings=48, type_vocab_size=draw.choice([1, 2]))


def random_blocks(draw, shape, dtype):
    """Of K types, which the package does not quantise to: blocks of random bytes, with factors of a sane size."""
    elements, size = gguf.GGML_QUANT_SIZES[dtype]
    random = numpy.random.default_rng(draw.randrange(1 << 30))
    blocks = random.integers(0, 256, (*shape[:-1], shape[-1] // elements, size), dtype=numpy.uint8)
    at, count, largest = {Type.Q4_K: (0, 2, 4e-4), Type.Q5_K: (0, 2, 2e-4), Type.Q6_K: (208, 1, 1e-4)}[dtype]
    factors = random.uniform(-largest, largest, (*blocks.shape[:-1], count)).astype(numpy.float16)
    blocks[..., at:at + 2 * count] = factors.view(numpy.uint8)
    return blocks.reshape(*shape[:-1], -1)


def stored(draw, kind, config, directory, dtype):
    """Writes a model and returns what the file has, in float64."""
    model = kind.from_config(config, attn_implementation="eager").to(torch.float64).eval()
    for p in model.parameters():
        p.data = torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 and p.mean() > 0.5 else 0)
    model.tie_weights()
    alignment = draw.choice([64, 256]) if draw.random() < 0.3 else None

    def to_bytes(name, values, dtype):
        if dtype in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
            return random_blocks(draw, values.shape, dtype)
        return gguf_writer.quantised(name, values, dtype)

    written = gguf_writer.write(directory / "model.gguf", model, dtype, to_bytes, alignment)
    parameters = dict(model.named_parameters())
    for name, (undo, data, type_there, shape) in written.items():
        kept = undo(gguf.quants.dequantize(data, type_there).reshape(shape).astype(numpy.float64))
        parameters[name].data = torch.from_numpy(numpy.ascontiguousarray(kept))
    model.tie_weights()
    return model


def encoder_case(draw, config, directory, of):
    model = of(draw, transformers.AutoModel, config, directory)
    rows = [ids(draw, n) for n in draw.sample(range(2, 24), 3)]
    types = [[draw.randrange(config.type_vocab_size) for _ in row] for row in rows]
    outputs = [model(torch.tensor([row]), token_type_ids=torch.tensor([of_row]), output_hidden_states=True,
                     output_attentions=True) for row, of_row in zip(rows, types)]
    tensors = {"input_ids": padded(rows), "attention_mask": padded([[1] * len(row) for row in rows]),
               "token_type_ids": padded(types),
               "last_hidden_state": stack([out.last_hidden_state[0] for out in outputs])}
    for layer in range(config.num_hidden_layers):
        tensors[f"attention.{layer}"] = stack([out.attentions[layer][0] for out in outputs])
        tensors[f"hidden.{layer}"] = stack([out.hidden_states[layer][0] for out in outputs])
    write(directory, model, tensors, {"task": "encoder"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=4, help="as make_cases.py has it: for 4, one of each type")
    a = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for architecture in llama, qwen2, qwen3, gemma, gemma2, gpt2, bert:
        for dtype in DTYPES:
            for number in range(max(a.each // 4, 1)):
                draw = Draw(f"{a.seed} {architecture.__name__} {dtype.name} {number}")
                torch.manual_seed(draw.randrange(1 << 30))
                directory = a.directory / f"{architecture.__name__}-gguf-{dtype.name}-{number}"
                directory.mkdir(parents=True)

                def of(*arguments, dtype=dtype):
                    return stored(*arguments, dtype)

                make_case = encoder_case if architecture is bert else causal_case
                make_case(draw, architecture(draw, dtype), directory, of)


if __name__ == "__main__":
    main()
