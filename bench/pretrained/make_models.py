#!/usr/bin/env python3
"""Models of true shapes with random weights, in transformers' layout, and for llama.cpp as GGUF files beside them: what
the comparison runs, since weights are not needed to know how long they take.

    bench/pretrained/make_models.py DIRECTORY [NAME ...]
"""
import os
import pathlib
import random
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/models"))
import gguf_writer  # noqa: E402
import tokenizers  # noqa: E402
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


def write_tokenizer(place, size):
    """Byte pairs, as many as the model has words for: programs read them before the first token."""
    draw = random.Random(0)
    end = "<|endoftext|>"
    words = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    known, merges = set(words), []
    while len(words) + 1 < size:
        left, right = draw.choice(words), draw.choice(words)
        if len(left + right) <= 12 and left + right not in known:
            known.add(left + right)
            words.append(left + right)
            merges.append((left, right))
    model = tokenizers.models.BPE({word: i for i, word in enumerate([*words, end])}, merges)
    pairs = tokenizers.Tokenizer(model)
    pairs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = tokenizers.decoders.ByteLevel()
    transformers.PreTrainedTokenizerFast(tokenizer_object=pairs, bos_token=end, eos_token=end, unk_token=end) \
        .save_pretrained(place)


MODELS = {"gpt2": (gpt2, torch.float32), "gpt2-bf16": (gpt2, torch.bfloat16), "llama-1b-bf16": (llama, torch.bfloat16),
          "minilm-l6": (minilm, torch.float32), "bert-base": (bert, torch.float32)}
GGUF_FILES = {"gpt2": ["F32"], "gpt2-bf16": ["BF16", "Q8_0"], "llama-1b-bf16": ["BF16", "Q8_0"]}


def main(directory, names):
    for name in names or MODELS:
        make, dtype = MODELS[name]
        place = pathlib.Path(directory) / name
        if not (place / "config.json").exists():
            torch.manual_seed(0)
            torch.set_default_dtype(dtype)
            make().save_pretrained(place)
        if name in GGUF_FILES and not (place / "tokenizer.json").exists():
            write_tokenizer(place, transformers.AutoConfig.from_pretrained(place).vocab_size)
        for kind in GGUF_FILES.get(name, []):
            file, partial = place.with_name(f"{name}-{kind}.gguf"), place.with_name(f"{name}-{kind}.gguf.partial")
            if not file.exists():
                model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=dtype)
                gguf_writer.write(partial, model, gguf_writer.Type[kind])
                partial.rename(file)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
