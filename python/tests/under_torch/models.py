"""Tiny models of transformers with random weights, and what to call them with."""
import torch
import transformers

SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
TEXT = {**SHAPE, "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 98}
GROUPED = {**TEXT, "num_key_value_heads": 2, "head_dim": 8}
PAIR = {"d_model": 32, "vocab_size": 99, "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 98}


def gpt2():
    return transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=99, pad_token_id=0,
                                   bos_token_id=1, eos_token_id=98)


def bert():
    return transformers.BertConfig(**TEXT)


def llama():
    return transformers.LlamaConfig(**GROUPED)


def gemma2():
    return transformers.Gemma2Config(**GROUPED, sliding_window=4, attn_logit_softcapping=0.5, query_pre_attn_scalar=8)


def gpt_oss():
    return transformers.GptOssConfig(**{**GROUPED, "intermediate_size": 32}, sliding_window=4, num_local_experts=4,
                                     num_experts_per_tok=2)


def t5():
    return transformers.T5Config(**PAIR, d_kv=8, d_ff=37, num_layers=2, num_heads=4)


def marian():
    return transformers.MarianConfig(**PAIR, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                     decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37,
                                     forced_eos_token_id=None)


def vit():
    return transformers.ViTConfig(**SHAPE, image_size=8, patch_size=4)


CONFIGS = {f.__name__: f for f in (gpt2, bert, llama, gemma2, gpt_oss, t5, marian, vit)}
CLASSES = {"gpt2": "GPT2LMHeadModel", "bert": "BertForMaskedLM", "llama": "LlamaForCausalLM",
           "gemma2": "Gemma2ForCausalLM", "gpt_oss": "GptOssForCausalLM", "t5": "T5ForConditionalGeneration",
           "marian": "MarianMTModel", "vit": "ViTForImageClassification"}
WRITE = ("gpt2", "llama", "gemma2", "gpt_oss", "t5", "marian")  # those that generate


def model(name):
    """The same weights each time, no dropout, far from uniform attention."""
    torch.manual_seed(1)
    made = getattr(transformers, CLASSES[name])(CONFIGS[name]()).eval()
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            if parameter.dim() > 1:
                parameter.mul_({"t5": 1, "marian": 4}.get(name, 8))
            if "sinks" in key:
                parameter.copy_(torch.linspace(-1, 2, parameter.numel()))
    return made


def inputs(name, padded=False, decoder_length=7):
    """(arguments, where the logits count). Padded: the second entry has four tokens less, on the side it is used to."""
    generator = torch.Generator().manual_seed(2)
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 8, 8, generator=generator)}, slice(None)
    tokens = torch.randint(3, 90, (2, 12), generator=generator)
    arguments = {"input_ids": tokens}
    real = torch.ones(2, 12, dtype=torch.long)
    if padded:
        real[1, slice(8, None) if name in ("bert", "t5", "marian") else slice(4)] = 0
        arguments["attention_mask"] = real
        arguments["input_ids"] = tokens * real
    if name in ("t5", "marian"):
        arguments["decoder_input_ids"] = torch.randint(3, 90, (2, decoder_length), generator=generator)
        return arguments, slice(None)
    return arguments, real.bool()
