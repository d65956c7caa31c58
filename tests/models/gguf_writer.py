"""A model of transformers as a GGUF file. Names, turned matrices, permuted rows and facts are those of llama.cpp's
converter; bytes are written and quantised by the package gguf.
"""
import gguf
import numpy
import torch
import transformers
from gguf import GGMLQuantizationType as Type

ALWAYS_FLOAT32 = ("position_embd.weight", "token_types.weight")


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


def quantised(name, values, dtype):
    return gguf.quants.quantize(values, dtype)


def put(writer, name, values, dtype, to_bytes):
    """Writes a tensor and returns its bytes and their type."""
    if values.ndim == 1 or name in ALWAYS_FLOAT32:
        dtype, to_bytes = Type.F32, quantised
    data = to_bytes(name, numpy.ascontiguousarray(values, dtype=numpy.float32), dtype)
    writer.add_tensor(name, data, raw_dtype=dtype)
    return data, dtype


def facts(writer, config):
    of = config.to_dict()

    def first(*names):
        return next(of[name] for name in names if of.get(name) is not None)

    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(first("n_positions", "max_position_embeddings"))
    writer.add_embedding_length(config.hidden_size)
    widths = [of[name] for name in ("n_inner", "intermediate_size") if of.get(name)]
    writer.add_feed_forward_length(widths[0] if widths else 4 * config.hidden_size)  # as GPT-2 has it
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
    tokens += [f"t{number}" for number in range(len(tokens), config.vocab_size)]
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


def write(path, model, dtype, to_bytes=quantised, alignment=None):
    """Matrices are of the type; to_bytes(name, values, dtype) makes their bytes. Returns, by the names of transformers,
    how each tensor is turned back, its bytes, their type and the shape that they had."""
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    if alignment:
        writer.add_custom_alignment(alignment)
    facts(writer, config)
    vocabulary(writer, config)
    arch = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == config.model_type)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    written = {}
    for name, parameter in model.named_parameters():
        if name.startswith("pooler."):  # which the converter leaves out
            continue
        there = names.get_name(name.removeprefix("transformer."), try_suffixes=(".weight", ".bias")) or \
            names.get_name(name, try_suffixes=(".weight", ".bias"))
        change, undo = changes(config, name)
        values = change(parameter.detach().double().numpy())
        written[name] = (undo, *put(writer, there, values, dtype, to_bytes), values.shape)
    if (config.to_dict().get("rope_parameters") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", frequencies(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written
