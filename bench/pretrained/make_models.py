#!/usr/bin/env python3
"""Models of true shapes with random weights, in transformers' layout: what the comparison runs, since weights are not
needed to know how long they take.

    bench/pretrained/make_models.py DIRECTORY [NAME ...]
"""
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers  # noqa: E402


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config())


def llama():
    """The shape of Llama 3.2 1B."""
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, head_dim=64, max_position_embeddings=8192, rope_theta=500000.0, rms_norm_eps=1e-5,
        tie_word_embeddings=True))


def minilm():
    """The shape of all-MiniLM-L6."""
    return transformers.BertModel(transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536), add_pooling_layer=False)


def bert():
    return transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=2))


MODELS = {"gpt2": (gpt2, torch.float32), "gpt2-bf16": (gpt2, torch.bfloat16), "llama-1b-bf16": (llama, torch.bfloat16),
          "minilm-l6": (minilm, torch.float32), "bert-base": (bert, torch.float32)}


def main(directory, names):
    for name in names or MODELS:
        make, dtype = MODELS[name]
        place = pathlib.Path(directory) / name
        if (place / "config.json").exists():
            continue
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)
        make().save_pretrained(place)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
