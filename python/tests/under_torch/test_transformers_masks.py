"""heed.transformers with models of transformers that mask, or choose keys, in a way of their own: the logits of eager."""
import pathlib
import re

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import heed.transformers  # noqa: E402

SMALL = {"vocab_size": 60, "hidden_size": 32, "d_model": 32, "intermediate_size": 32, "encoder_ffn_dim": 32,
         "decoder_ffn_dim": 32, "num_hidden_layers": 4, "encoder_layers": 2, "decoder_layers": 2, "num_layers": 2,
         "num_attention_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
         "max_position_embeddings": 64, "sliding_window": 4, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
         "num_experts_per_tok": 2, "moe_intermediate_size": 16, "kv_lora_rank": 16, "q_lora_rank": 16,
         "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "index_n_heads": 2, "index_head_dim": 16,
         "index_topk": 3, "index_block_size": 4, "index_topk_blocks": 1, "n_group": 1, "topk_group": 1,
         "shared_expert_intermediate_size": 16}
MORE = {"deepseek_v32": {"num_key_value_heads": 4, "first_k_dense_replace": 4}, "glm_moe_dsa": {"num_key_value_heads": 4},
        "minimax_m3_vl_text": {"rotary_dim": 8, "layer_types": ["minimax_m3_sparse"] * 4},
        "gemma4_text": {"head_dim": 8, "global_head_dim": 8, "num_kv_shared_layers": 2, "sliding_window": 64,
                        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 60,
                        "layer_types": ["sliding_attention", "full_attention"] * 2}}
MORE["gemma4_unified_text"] = MORE["gemma4_text"]
DECODERS = ["bigbird_pegasus", "deepseek_v32", "deepseek_v4", "gemma4_text", "gemma4_unified_text", "glm_moe_dsa", "hy_v4",
            "inkling2_text", "minimax_m3_vl_text"]
TRANSLATORS = ["bigbird_pegasus", "nllb-moe", "pegasus_x"]
# The keyword arguments that models of transformers pass to the attention, beyond those of attention_forward().
HARMLESS = {"sliding_window": "the mask has it", "output_attentions": "read by _weights_wanted()",
            "position_ids": "the mask is made of them", "deterministic": "of flash attention, as the next four",
            "cu_seq_lens_q": "", "cu_seq_lens_k": "", "max_length_q": "", "max_length_k": ""}
# Models that ask for the attention by its name, and why heed's has what they look for.
BY_NAME = {"axk2": "indices", "deepseek_v32": "indices", "dots3_note": "indices", "glm_moe_dsa": "indices",
           "hy_v4": "indices", "mistral_large4": "indices", "minimax_m3_vl": "block_indices", "gemma4": "whole masks",
           "gemma4_unified": "whole masks", "glm5_next": "its mask is a floating one", "falcon": "computes itself",
           "gpt2": "scores are upcast in eager alone", "decision_transformer": "as gpt2", "timm_backbone": "sets timm",
           "timm_wrapper": "sets timm", "qwen2_5_omni": "splits sequences"}


def made(name, mapping):
    config_class = transformers.CONFIG_MAPPING[name]
    known = config_class().to_dict() if name not in MORE else SMALL.keys()
    config = config_class(**{**{key: value for key, value in SMALL.items() if key in known}, **MORE.get(name, {})})
    torch.manual_seed(0)
    model = mapping[type(config)](config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return model


def compare(model, arguments, rows=slice(None)):
    logits = []
    for attention in ("eager", "heed"):
        model.set_attn_implementation(attention)
        with torch.no_grad():
            logits.append(model(**arguments).logits[rows])
    torch.testing.assert_close(logits[1], logits[0], rtol=0, atol=2e-4 * float(logits[0].abs().max()))


@pytest.mark.parametrize("name", DECODERS)
def test_decoders(name):
    model = made(name, transformers.MODEL_FOR_CAUSAL_LM_MAPPING)
    tokens = torch.randint(5, 50, (2, 12))
    compare(model, {"input_ids": tokens})
    compare(model, {"input_ids": tokens, "logits_to_keep": 3})
    padded = torch.ones(2, 12, dtype=torch.long)
    padded[1, :3] = 0
    compare(model, {"input_ids": tokens, "attention_mask": padded}, padded.bool())


@pytest.mark.parametrize("name", TRANSLATORS)
def test_translators(name):
    model = made(name, transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING)
    tokens = torch.randint(5, 50, (2, 12))
    compare(model, {"input_ids": tokens, "decoder_input_ids": tokens[:, :7]})


def test_a_sink_for_each_query():
    """Weights sum to what the sinks leave, and gradients are those of the formula."""
    torch.manual_seed(0)
    q, k, v, sinks = (torch.randn(1, 2, 5, n, dtype=torch.float64, requires_grad=True) for n in (8, 8, 8, 1))
    module = torch.nn.Identity()
    out, weights = heed.transformers.attention_forward(module, q, k, v, None, scaling=0.3, is_causal=False, sinks=sinks,
                                                       output_attentions=True)
    expected = torch.softmax(torch.cat([q @ k.transpose(2, 3) * 0.3, sinks], -1), -1)[..., :-1]
    torch.testing.assert_close(weights, expected.detach())
    torch.testing.assert_close(out.transpose(1, 2), expected @ v)
    found = torch.autograd.grad(out.square().sum(), (q, k, v, sinks))
    torch.testing.assert_close(found, torch.autograd.grad((expected @ v).square().sum(), (q, k, v, sinks)))


def test_every_argument_and_name_is_known():
    """What models pass to the attention, and which of them ask for it by name, in the installed transformers."""
    applied = set(heed.transformers.attention_forward.__code__.co_varnames[
        :heed.transformers.attention_forward.__code__.co_argcount])
    unknown, by_name = set(), set()
    for path in pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        text = path.read_text(encoding="utf-8")
        for call in re.findall(r"= attention_interface\(\n(.*?)\n\s*\)\n", text, re.DOTALL):
            for key in re.findall(r"^\s+(\w+)=", call, re.MULTILINE):
                if key not in applied | set(HARMLESS):
                    unknown.add((path.parent.name, key))
        if re.search(r"\b_?attn_impl\w* (==|!=|in|not in) [(\[]?\"", text):
            by_name.add(path.parent.name)
    assert not unknown and by_name == set(BY_NAME), (unknown, by_name ^ set(BY_NAME))
