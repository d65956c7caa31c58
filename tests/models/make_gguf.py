#!/usr/bin/env python3
"""Makes tiny random models as GGUF files, and what transformers computes with them, for conformance_models_test:

    make_gguf.py DIRECTORY [--seed N] [--each N]

A folder a case: model.gguf, expected.safetensors and expected.json. Names, turned matrices, permuted rows and facts are
those of llama.cpp's converter; bytes are written and dequantised by the package gguf.
"""
import argparse
import json
import pathlib

import gguf
import numpy
import torch
import transformers
from gguf import GGMLQuantizationType as Type

import make_cases
from make_cases import Draw, causal_case, ids, padded, stack, write

DTYPES = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K,
          Type.Q6_K]
ALWAYS_FLOAT32 = ("position_embd.weight", "token_types.weight")


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


# ------------------------------------------------------------------------------------------------ writing a file

def pairs(rows, heads):
    """Llama's rows of queries and keys, from halves of a head to pairs."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def halves(rows, heads):
    return rows.reshape(heads, rows.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def changes(config, name):
    """What is done to a tensor on its way into the file, and how that is undone."""
    if config.model_type == "llama" and ".q_proj" in name:
        return lambda x: pairs(x, config.num_attention_heads), lambda x: halves(x, config.num_attention_heads)
    if config.model_type == "llama" and ".k_proj" in name:
        return lambda x: pairs(x, config.num_key_value_heads), lambda x: halves(x, config.num_key_value_heads)
    if config.model_type in ("gemma", "gemma2") and name.endswith("norm.weight"):
        return lambda x: x + 1, lambda x: x - 1
    if config.model_type == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
        return lambda x: x.T, lambda x: x.T
    return lambda x: x, lambda x: x


def random_blocks(draw, shape, dtype):
    """Of K types, which the package does not quantise to: blocks of random bytes, with factors of a sane size."""
    elements, size = gguf.GGML_QUANT_SIZES[dtype]
    random = numpy.random.default_rng(draw.randrange(1 << 30))
    blocks = random.integers(0, 256, (*shape[:-1], shape[-1] // elements, size), dtype=numpy.uint8)
    at, count, largest = {Type.Q4_K: (0, 2, 4e-4), Type.Q5_K: (0, 2, 2e-4), Type.Q6_K: (208, 1, 1e-4)}[dtype]
    factors = random.uniform(-largest, largest, (*blocks.shape[:-1], count)).astype(numpy.float16)
    blocks[..., at:at + 2 * count] = factors.view(numpy.uint8)
    return blocks.reshape(*shape[:-1], -1)


def put(writer, draw, name, values, dtype):
    """Writes a tensor and returns what heed has of it: what is quantised becomes float16."""
    if values.ndim == 1 or name in ALWAYS_FLOAT32:
        dtype = Type.F32
    values = numpy.ascontiguousarray(values, dtype=numpy.float32)
    if dtype in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
        data = random_blocks(draw, values.shape, dtype)
    else:
        data = gguf.quants.quantize(values, dtype)
    writer.add_tensor(name, data, raw_dtype=dtype)
    there = gguf.quants.dequantize(data, dtype).reshape(values.shape)
    return there if dtype in (Type.F32, Type.F16, Type.BF16) else there.astype(numpy.float16).astype(numpy.float32)


def facts(writer, config):
    of = config.to_dict()

    def first(*names):
        return next(of[name] for name in names if of.get(name) is not None)

    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(first("n_positions", "max_position_embeddings"))
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(first("n_inner", "intermediate_size"))
    writer.add_head_count(config.num_attention_heads)
    if config.model_type in ("gpt2", "bert"):
        writer.add_layer_norm_eps(first("layer_norm_epsilon", "layer_norm_eps"))
        if config.model_type == "bert":
            writer.add_causal_attention(False)
        return
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_head_count_kv(config.num_key_value_heads)
    if config.model_type != "qwen2":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if config.model_type == "gemma2":
        writer.add_sliding_window(config.sliding_window)
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        return
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if config.model_type == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def vocabulary(writer, config):
    """As many tokens as the model has; llama.cpp reads no model without."""
    letters = ["\u010a", "\u0120"] + [chr(c) for c in range(ord("!"), ord("~"))]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] if config.model_type == "bert" else ["<pad>", "<s>", "</s>", "<unk>"]
    tokens = (special + ["ab"] + letters)[:config.vocab_size]
    writer.add_tokenizer_model("bert" if config.model_type == "bert" else "gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * 4 + [gguf.TokenType.NORMAL] * (len(tokens) - 4))
    writer.add_token_merges(["a b"])
    if config.model_type == "bert":
        writer.add_token_type_count(config.type_vocab_size)
        writer.add_bos_token_id(2)
        writer.add_sep_token_id(3)
    else:
        writer.add_bos_token_id(config.bos_token_id)
        writer.add_eos_token_id(config.eos_token_id)


def frequencies(config):
    """What Llama 3's scaling divides the frequencies by."""
    scaled, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = config.rope_parameters["rope_theta"] ** -(torch.arange(0, config.head_dim, 2) / config.head_dim)
    return (plain / scaled).numpy().astype(numpy.float32)


def stored(draw, kind, config, directory, dtype):
    """Writes a model and returns what the file has, in float64."""
    model = kind.from_config(config, attn_implementation="eager").to(torch.float64).eval()
    for p in model.parameters():
        p.data = torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 and p.mean() > 0.5 else 0)
    model.tie_weights()
    architecture = config.model_type
    arch = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    writer = gguf.GGUFWriter(directory / "model.gguf", architecture)
    if draw.random() < 0.3:
        writer.add_custom_alignment(draw.choice([64, 256]))
    facts(writer, config)
    vocabulary(writer, config)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        if name.startswith("pooler."):  # which the converter leaves out
            continue
        there = names.get_name(name.removeprefix("transformer."), try_suffixes=(".weight", ".bias")) or \
            names.get_name(name, try_suffixes=(".weight", ".bias"))
        change, undo = changes(config, name)
        kept = undo(put(writer, draw, there, change(parameter.detach().numpy()), dtype).astype(numpy.float64))
        parameter.data = torch.from_numpy(numpy.ascontiguousarray(kept))
    if (config.to_dict().get("rope_parameters") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", frequencies(config))
    model.tie_weights()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
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
