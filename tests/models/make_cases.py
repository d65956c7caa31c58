#!/usr/bin/env python3
"""Makes tiny random models of other makers and what transformers computes with them, for conformance_models_test:

    make_cases.py DIRECTORY [--seed N] [--each N] [--trained HEED]

A folder a case, as ../shared/conformance/models has them: the files of save_pretrained, expected.safetensors and
expected.json. Weights are drawn, stored in a random precision, and computed with in float64, each row by itself.
With --trained the program goes on with their training first, or, of what it does not train, exports them: what it writes
must load without a tensor too few or many.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

import numpy as np
import peft
import PIL.Image
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

PIECES = 90
TRAINED = None  # the program that trains
WRITTEN_BY = {}  # its command, by the folder


class Draw(random.Random):
    def width(self, heads):
        return heads * self.choice([4, 8, 12])

    def layer_types(self, layers):
        return [self.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]


def decoder_sizes(draw, **more):
    heads = draw.choice([2, 3, 4, 6])
    return dict(vocab_size=PIECES, hidden_size=draw.width(heads), num_attention_heads=heads,
                num_key_value_heads=draw.choice([n for n in (1, 2, 3, heads) if heads % n == 0]),
                num_hidden_layers=draw.randint(1, 3), intermediate_size=draw.choice([20, 37, 48]),
                rms_norm_eps=draw.choice([1e-6, 1e-5]), max_position_embeddings=draw.choice([64, 200]),
                tie_word_embeddings=draw.random() < 0.5, pad_token_id=0, bos_token_id=1, eos_token_id=2, **more)


def rope(draw):
    theta = draw.choice([1000.0, 10000.0, 500000.0])
    return draw.choice([
        {"rope_type": "default", "rope_theta": theta},
        {"rope_type": "linear", "rope_theta": theta, "factor": 4.0},
        {"rope_type": "dynamic", "rope_theta": theta, "factor": 2.0},
        {"rope_type": "llama3", "rope_theta": theta, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "rope_theta": theta, "factor": 4.0, "original_max_position_embeddings": 16},
        {"rope_type": "yarn", "rope_theta": theta, "factor": 8.0, "original_max_position_embeddings": 8,
         "beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 1.2},
    ])


def gpt2(draw):
    heads = draw.choice([1, 2, 4])
    return transformers.GPT2Config(
        vocab_size=PIECES, n_embd=draw.width(heads), n_head=heads, n_layer=draw.randint(1, 3), n_positions=40,
        n_inner=draw.choice([None, 24]), activation_function=draw.choice(["gelu_new", "gelu", "relu", "silu"]),
        layer_norm_epsilon=draw.choice([1e-5, 1e-3]), bos_token_id=1, eos_token_id=2)


def llama(draw):
    return transformers.LlamaConfig(**decoder_sizes(draw), head_dim=draw.choice([4, 8, 16]),
                                    attention_bias=draw.random() < 0.4, rope_parameters=rope(draw),
                                    hidden_act=draw.choice(["silu", "gelu", "gelu_pytorch_tanh"]))


def mistral(draw):
    return transformers.MistralConfig(**decoder_sizes(draw), sliding_window=draw.choice([None, 1, 3, 7]),
                                      head_dim=draw.choice([None, 8]), rope_parameters=rope(draw))


def qwen2(draw):
    sizes = decoder_sizes(draw)
    windowed = draw.random() < 0.5
    return transformers.Qwen2Config(**sizes, use_sliding_window=windowed, sliding_window=4, rope_parameters=rope(draw),
                                    max_window_layers=draw.randint(0, 2),
                                    layer_types=draw.choice([None, draw.layer_types(sizes["num_hidden_layers"])])
                                    if windowed else None)


def qwen3(draw):
    return transformers.Qwen3Config(**decoder_sizes(draw), head_dim=draw.choice([4, 8, 16]),
                                    attention_bias=draw.random() < 0.4, rope_parameters=rope(draw))


def phi3(draw):
    sizes = decoder_sizes(draw)
    half = sizes["hidden_size"] // sizes["num_attention_heads"] // 2
    parameters = draw.choice([
        {"rope_type": "default", "rope_theta": 10000.0},
        {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 48,
         "short_factor": [draw.uniform(1, 2) for _ in range(half)],
         "long_factor": [draw.uniform(2, 9) for _ in range(half)]}])
    return transformers.Phi3Config(**sizes, sliding_window=draw.choice([None, 5]), rope_parameters=parameters,
                                   original_max_position_embeddings=48)


def gemma(draw):
    return transformers.GemmaConfig(**decoder_sizes(draw), head_dim=draw.choice([4, 8]), rope_parameters=rope(draw))


def gemma2(draw):
    sizes = decoder_sizes(draw)
    return transformers.Gemma2Config(
        **sizes, head_dim=draw.choice([4, 8]), query_pre_attn_scalar=draw.choice([4, 9]), sliding_window=3,
        attn_logit_softcapping=draw.choice([None, 2.0]), final_logit_softcapping=draw.choice([None, 4.0]),
        layer_types=draw.choice([None, draw.layer_types(sizes["num_hidden_layers"])]))


def gemma3(draw):
    sizes = decoder_sizes(draw)
    types = draw.choice([None, draw.layer_types(sizes["num_hidden_layers"])])
    return transformers.Gemma3TextConfig(**sizes, head_dim=draw.choice([4, 8]), query_pre_attn_scalar=7,
                                         sliding_window=draw.choice([2, 5]), layer_types=types)


def gpt_oss(draw):
    sizes = decoder_sizes(draw)
    turned = draw.choice([rope(draw), {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "truncate": False,
                                       "original_max_position_embeddings": 16}])
    return transformers.GptOssConfig(
        **sizes, head_dim=draw.choice([4, 8]), num_local_experts=1, num_experts_per_tok=1, rope_parameters=turned,
        sliding_window=draw.choice([1, 3, 7]), attention_bias=draw.random() < 0.7, swiglu_limit=draw.choice([0.8, 7.0]),
        swiglu_alpha=draw.choice([1.0, 1.702]),
        layer_types=draw.choice([None, draw.layer_types(sizes["num_hidden_layers"])]))


def encoder_sizes(draw, **more):
    heads = draw.choice([1, 2, 4])
    return dict(vocab_size=PIECES, hidden_size=draw.width(heads), num_attention_heads=heads,
                num_hidden_layers=draw.randint(1, 3), intermediate_size=draw.choice([16, 33]),
                hidden_act=draw.choice(["gelu", "relu", "silu", "gelu_new"]), layer_norm_eps=draw.choice([1e-12, 1e-5]),
                max_position_embeddings=48, num_labels=draw.choice([2, 3, 5]),
                tie_word_embeddings=draw.random() < 0.6, **more)


def bert(draw):
    return transformers.BertConfig(**encoder_sizes(draw), type_vocab_size=draw.choice([1, 2, 3]))


def distilbert(draw):
    heads = draw.choice([1, 2, 4])
    return transformers.DistilBertConfig(vocab_size=PIECES, dim=draw.width(heads), n_heads=heads,
                                         n_layers=draw.randint(1, 3), hidden_dim=24, max_position_embeddings=48,
                                         activation=draw.choice(["gelu", "relu"]), num_labels=draw.choice([2, 4]),
                                         tie_word_embeddings=draw.random() < 0.6)


def roberta(draw):
    return transformers.RobertaConfig(**encoder_sizes(draw), pad_token_id=draw.choice([0, 1, 3]), type_vocab_size=1)


def xlm_roberta(draw):
    return transformers.XLMRobertaConfig(**encoder_sizes(draw), pad_token_id=1, type_vocab_size=1)


def mpnet(draw):
    return transformers.MPNetConfig(**encoder_sizes(draw))  # its code takes 32 buckets, whatever it is told


def vit(draw):
    heads = draw.choice([1, 2, 4])
    return transformers.ViTConfig(
        hidden_size=draw.width(heads), num_attention_heads=heads, num_hidden_layers=draw.randint(1, 3),
        intermediate_size=draw.choice([16, 33]), hidden_act=draw.choice(["gelu", "relu", "silu", "gelu_new"]),
        layer_norm_eps=draw.choice([1e-12, 1e-5]), image_size=draw.choice([8, 13, (9, 14)]),
        patch_size=draw.choice([2, 4, (3, 5)]), num_channels=draw.choice([1, 3]), qkv_bias=draw.random() < 0.6,
        num_labels=draw.choice([2, 3, 5]))


def image_processor(draw):
    many = dict(
        do_resize=draw.random() < 0.8, do_rescale=draw.random() < 0.8, do_normalize=draw.random() < 0.8,
        size=draw.choice([11, {"height": 14, "width": 9}, {"shortest_edge": 10}]), resample=draw.randrange(6),
        rescale_factor=draw.choice([1 / 255, 1 / 127.5]), image_mean=draw.choice([0.4, [0.5, 0.5, 0.5], [0.485, 0.456, 0.406]]),
        image_std=draw.choice([0.3, [0.5, 0.5, 0.5], [0.229, 0.224, 0.225]]), do_center_crop=draw.random() < 0.4,
        crop_size={"height": 7, "width": 8})
    some = {key: value for key, value in many.items() if draw.random() < 0.7}
    some["crop_size"] = many["crop_size"]
    kind = draw.choice([transformers.ViTImageProcessorPil, transformers.DeiTImageProcessorPil])
    if isinstance(some.get("size"), dict) or kind is transformers.DeiTImageProcessorPil:
        some.setdefault("do_resize", True)
    return kind(**some)


def translator_sizes(draw, **more):
    heads = draw.choice([1, 2, 4])
    return dict(vocab_size=PIECES, d_model=draw.width(heads), encoder_attention_heads=heads,
                decoder_attention_heads=heads, encoder_layers=draw.randint(1, 3), decoder_layers=draw.randint(1, 2),
                encoder_ffn_dim=draw.choice([16, 25]), decoder_ffn_dim=draw.choice([16, 30]),
                activation_function=draw.choice(["gelu", "relu", "swish"]), max_position_embeddings=48,
                scale_embedding=draw.random() < 0.5, tie_word_embeddings=draw.random() < 0.6, **more)


def marian(draw):
    return transformers.MarianConfig(**translator_sizes(draw), pad_token_id=PIECES - 1, eos_token_id=0,
                                     decoder_start_token_id=PIECES - 1, forced_eos_token_id=None)


def bart(draw):
    return transformers.BartConfig(**translator_sizes(draw), pad_token_id=1, bos_token_id=0, eos_token_id=2,
                                   decoder_start_token_id=2)


def m2m_100(draw):
    return transformers.M2M100Config(**translator_sizes(draw), pad_token_id=1, bos_token_id=0, eos_token_id=2,
                                     decoder_start_token_id=2)


def t5(draw):
    heads, layers = draw.choice([1, 2, 4]), draw.randint(1, 3)
    return transformers.T5Config(
        vocab_size=PIECES, d_model=draw.width(heads), num_heads=heads, d_kv=draw.choice([4, 6, 8]), d_ff=20,
        num_layers=layers, num_decoder_layers=draw.randint(1, layers), pad_token_id=0, eos_token_id=1,
        feed_forward_proj=draw.choice(["relu", "gated-gelu", "gated-silu"]), decoder_start_token_id=0,
        relative_attention_num_buckets=draw.choice([8, 32]), relative_attention_max_distance=draw.choice([20, 128]),
        tie_word_embeddings=draw.random() < 0.5)


def whisper(draw):
    sizes = translator_sizes(draw)
    del sizes["max_position_embeddings"]
    return transformers.WhisperConfig(**sizes, num_mel_bins=draw.choice([3, 8]), max_source_positions=draw.choice([5, 9]),
                                      max_target_positions=20, pad_token_id=draw.choice([0, 2]), bos_token_id=1,
                                      eos_token_id=2, decoder_start_token_id=3)


CAUSAL = [gpt2, llama, mistral, qwen2, qwen3, phi3, gemma, gemma2, gemma3, gpt_oss]
ENCODERS = [bert, distilbert, roberta, xlm_roberta, mpnet]
IMAGES = [vit]
SPEECH = [whisper]
TRANSLATORS = [marian, bart, m2m_100, t5]
NOT_TRAINED = ["whisper"]
HEADS = [transformers.AutoModelForMaskedLM, transformers.AutoModelForSequenceClassification,
         transformers.AutoModelForTokenClassification, transformers.AutoModelForQuestionAnswering]


def ids(draw, length):
    return [draw.randrange(4, PIECES - 1) for _ in range(length)]


def padded(rows, fill=0):
    longest = max(len(row) for row in rows)
    return torch.tensor([list(row) + [fill] * (longest - len(row)) for row in rows])


def stack(rows):
    """Tensors of one row each, of unlike length, filled up with zeros to one."""
    sizes = [max(row.shape[d] for row in rows) for d in range(rows[0].dim())]
    result = torch.zeros([len(rows)] + sizes, dtype=torch.float32)
    for b, row in enumerate(rows):
        result[(b, *[slice(0, n) for n in row.shape])] = row.float()
    return result


def norms(model, directory, stored_name=lambda name: name):
    """Of the gradients of all that the file has; a class may know a tensor by a second name."""
    names = set()
    for path in directory.glob("model*.safetensors"):
        with safe_open(path, "pt") as file:
            names.update(file.keys())
    return {stored_name(name): p.grad.double().norm().item() for name, p in model.named_parameters()
            if p.grad is not None and stored_name(name) in names}


def write(directory, model, tensors, facts):
    save_file({name: t.contiguous() for name, t in tensors.items()}, directory / "expected.safetensors")
    facts.update(model_type=model.config.model_type, architecture=type(model).__name__)
    if TRAINED:
        facts["written_by"] = WRITTEN_BY[directory]
    (directory / "expected.json").write_text(json.dumps(facts, indent=1))


def save_tokenizer(directory, family):
    """For texts of the words w0 to w89. Only Qwen2's own class, which reads BPE, is taken for its models."""
    if family == "qwen2":
        vocab = ["w", "\u0120", *map(str, range(10)), *(f"w{i}" for i in range(77)), "<|endoftext|>"]
        model = {"type": "BPE", "merges": [f"w {i}" for i in range(10)] + [f"w{i // 10} {i % 10}" for i in range(10, 77)]}
    else:
        vocab = [f"w{i}" for i in range(PIECES)]
        model = {"type": "WordPiece", "unk_token": "w3", "continuing_subword_prefix": "##",
                 "max_input_chars_per_word": 100}
    made = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": None, "decoder": None, "model": model | {"vocab": {t: i for i, t in enumerate(vocab)}}}
    (directory / "tokenizer.json").write_text(json.dumps(made))
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def older_names(directory):
    """A vit of before transformers 5: adapters are named as its file is, and the package's modules are not any more."""
    index = directory / "model.safetensors.index.json"
    names = json.loads(index.read_text())["weight_map"] if index.exists() else \
        safe_open(directory / "model.safetensors", "pt").keys()
    return any("encoder.layer.0.attention.attention" in name for name in names)


def assert_as_peft_merges(kind, directory, adapters, merged):
    """Adapters beside their base, as PEFT loads them, against what heed has merged, which is rounded as the base is."""
    classes = kind in (transformers.AutoModelForSequenceClassification, transformers.AutoModelForImageClassification)
    labels = {"num_labels": 2, "ignore_mismatched_sizes": True} if classes else {}
    base = kind.from_pretrained(directory, dtype=torch.float32, **labels)
    want = peft.PeftModel.from_pretrained(base, adapters).merge_and_unload().state_dict()
    got = kind.from_pretrained(merged, dtype=torch.float32).state_dict()
    assert want.keys() == got.keys(), want.keys() ^ got.keys()
    for name, tensor in want.items():
        if tensor.is_floating_point():
            assert torch.allclose(got[name], tensor, rtol=0.01, atol=1e-4), (directory, name)


def take(kind, written, directory):
    """Puts a model that heed has written in the place of the one that it was made of."""
    _, info = kind.from_pretrained(written, output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), (directory, info)
    shutil.rmtree(directory)
    shutil.copytree(written, directory)


def sides(config):
    """Height and width of a vit's pictures."""
    return config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2


def exported(kind, config, directory):
    WRITTEN_BY[directory] = "export"
    save_tokenizer(directory, config.model_type)
    with tempfile.TemporaryDirectory() as made:
        to = pathlib.Path(made) / "model"
        subprocess.run([TRAINED, "export", "--model", directory, "--to", to], check=True)
        take(kind, to, directory)


def trained(draw, kind, config, directory):
    """Some updates of a directory's model, of all weights or of adapters; returns what it is then."""
    WRITTEN_BY[directory] = "train"
    save_tokenizer(directory, config.model_type)
    sentences = [" ".join(f"w{i}" for i in ids(draw, draw.randint(3, 9))) for _ in range(24)]
    lines, option, after = sentences, ["--block", "8", "--text"], kind
    if kind is transformers.AutoModelForSeq2SeqLM:
        lines, option = [s + "\t" + t for s, t in zip(sentences, reversed(sentences))], ["--pairs"]
    elif config.model_type == "vit":
        lines, option, after = [], ["--labelled"], transformers.AutoModelForImageClassification
    elif kind is not transformers.AutoModelForCausalLM:
        lines, option = [draw.choice("ab") + "\t" + s for s in sentences], ["--labelled"]
        after = transformers.AutoModelForSequenceClassification
    adapters = draw.choice([[], ["--lora", "2"], ["--lora", "3", "--lora-layers", "all"]])
    with tempfile.TemporaryDirectory() as made:
        data, to = pathlib.Path(made) / "data", pathlib.Path(made) / "model"
        if config.model_type == "vit":
            for i in range(8):
                np.save(pathlib.Path(made) / f"{i}.npy", torch.randn(config.num_channels, *sides(config)).numpy())
                lines.append(f"{draw.choice('ab')}\t{made}/{i}.npy")
        data.write_text("\n".join(lines) + "\n")
        subprocess.run([TRAINED, "train", "--quiet", "--init", directory, "--model", to, *option, data, *adapters,
                        "--learning-rate", "0.01", "--max-updates", "3", "--threads", "1"], check=True)
        if adapters:
            subprocess.run([TRAINED, "export", "--model", to, "--to", to.with_name("merged")], check=True)
            if not older_names(directory):
                assert_as_peft_merges(after, directory, to, to.with_name("merged"))
            to = to.with_name("merged")
        take(after, to, directory)
    return after


def stored(draw, kind, config, directory, **how):
    """Saves a model in some precision and returns what the file has, in float64."""
    model = kind.from_config(config)
    for p in model.parameters():
        if p.requires_grad:  # sinusoids stay
            p.data = torch.randn_like(p) * 0.3 + (1 if p.dim() == 1 and p.mean() > 0.5 else 0)
    model.tie_weights()
    precision = draw.choice([torch.float32, torch.float16, torch.bfloat16])
    model.to(precision).save_pretrained(directory, max_shard_size=draw.choice(["50KB", "5GB"]), **how)
    if TRAINED and config.model_type in NOT_TRAINED:
        exported(kind, config, directory)
    elif TRAINED:
        kind = trained(draw, kind, config, directory)
    return kind.from_pretrained(directory, dtype=torch.float64, attn_implementation="eager",
                                experts_implementation="eager").eval()


def causal_case(draw, config, directory, of=stored):
    model = of(draw, transformers.AutoModelForCausalLM, config, directory)
    rows = [ids(draw, n) for n in draw.sample(range(2, 24), 3)]
    outputs, loss, count = [], 0, sum(len(row) - 1 for row in rows)
    for row in rows:
        row = torch.tensor([row])
        out = model(row, output_hidden_states=True, output_attentions=True)
        outputs.append((out, model.base_model(row).last_hidden_state))
        loss = loss + torch.nn.functional.cross_entropy(out.logits[0, :-1], row[0, 1:], reduction="sum") / count
    loss.backward()
    tensors = {"input_ids": padded(rows), "attention_mask": padded([[1] * len(row) for row in rows]),
               "last_hidden_state": stack([last[0] for _, last in outputs]),
               "logits": stack([out.logits[0] for out, _ in outputs])}
    for layer in range(len(outputs[0][0].attentions)):
        tensors[f"attention.{layer}"] = stack([out.attentions[layer][0] for out, _ in outputs])
        tensors[f"hidden.{layer}"] = stack([out.hidden_states[layer][0] for out, _ in outputs])
    greedy = []
    for number, row in enumerate(rows):
        new = model.generate(torch.tensor([row]), max_new_tokens=6, do_sample=False, pad_token_id=0,
                             use_cache=False)[0, len(row):]
        greedy.append({"row": number, "ids": new.tolist()})
    write(directory, model, tensors, {"task": "causal", "loss": loss.item(), "gradient_norms": norms(model, directory),
                                      "greedy": greedy, "greedy_with": {"max_new_tokens": 6}})


def encoder_case(draw, config, directory):
    head = draw.choice(HEADS + [transformers.AutoModel] if TRAINED else HEADS)
    if head is transformers.AutoModelForQuestionAnswering:
        config.num_labels = 2
    model = stored(draw, head, config, directory)
    rows = [ids(draw, n) for n in draw.sample(range(2, 24), 3)]
    types = [[draw.randrange(getattr(config, "type_vocab_size", 1)) for _ in row] for row in rows]
    has_types = config.model_type in ("bert", "roberta", "xlm-roberta")
    outputs, losses, labels = [], [], []
    for row, of_row in zip(rows, types):
        more = {"token_type_ids": torch.tensor([of_row])} if has_types else {}
        out = model(torch.tensor([row]), output_hidden_states=True, output_attentions=True, **more)
        logits = torch.stack([out.start_logits, out.end_logits], -1) if "start_logits" in out else out.logits
        outputs.append((out, logits[0]))
        if logits.dim() == 2:
            labels.append(draw.randrange(logits.shape[-1]))
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor([labels[-1]]), reduction="sum"))
        else:
            labels.append([draw.randrange(logits.shape[-1]) for _ in row])
            losses.append(torch.nn.functional.cross_entropy(logits[0], torch.tensor(labels[-1]), reduction="sum"))
    count = len(rows) if outputs[0][1].dim() == 1 else sum(map(len, rows))
    loss = sum(losses) / count
    loss.backward()
    tensors = {"input_ids": padded(rows), "attention_mask": padded([[1] * len(row) for row in rows]),
               "labels": torch.tensor(labels) if outputs[0][1].dim() == 1 else padded(labels, -100),
               "last_hidden_state": stack([out.hidden_states[-1][0] for out, _ in outputs]),
               "logits": stack([logits for _, logits in outputs])}
    if has_types:
        tensors["token_type_ids"] = padded(types)
    for layer in range(len(outputs[0][0].attentions)):
        tensors[f"attention.{layer}"] = stack([out.attentions[layer][0] for out, _ in outputs])
        tensors[f"hidden.{layer}"] = stack([out.hidden_states[layer][0] for out, _ in outputs])
    write(directory, model, tensors, {"task": "encoder", "loss": loss.item(), "gradient_norms": norms(model, directory)})


VIT_NAMES = [("layers.", "encoder.layer."), ("q_proj", "attention.query"), ("k_proj", "attention.key"),
             ("v_proj", "attention.value"), ("attention.o_proj", "attention.output.dense"),
             ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense")]


def image_case(draw, config, directory):
    older = draw.random() < 0.6  # names, which transformers 5 writes unless it is told not to
    # The first has gradients to compare, whatever is drawn.
    kind = transformers.AutoModelForImageClassification
    if draw.number > 0:
        kind = draw.choice([kind, transformers.AutoModel])
    model = stored(draw, kind, config, directory, save_original_format=older)
    classifies = hasattr(model, "classifier")
    pixels = torch.randn(2, config.num_channels, *sides(config), dtype=torch.float32)
    out = model(pixels.double(), output_hidden_states=True, output_attentions=True)
    base = model.base_model(pixels.double()).last_hidden_state
    facts, tensors = {"task": "image"}, {"pixel_values": pixels, "last_hidden_state": base.float()}
    if classifies:
        labels = torch.tensor([draw.randrange(model.config.num_labels) for _ in pixels])
        loss = torch.nn.functional.cross_entropy(out.logits, labels)
        loss.backward()

        def stored_name(name):
            for now, then in VIT_NAMES if older else []:
                name = name.replace(now, then)
            return name
        tensors.update(labels=labels, logits=out.logits.float())
        facts.update(loss=loss.item(), gradient_norms=norms(model, directory, stored_name))
    for layer in range(len(out.attentions)):
        tensors[f"attention.{layer}"] = out.attentions[layer].float()
        tensors[f"hidden.{layer}"] = out.hidden_states[layer].float()
    processor = image_processor(draw)
    processor.save_pretrained(directory)
    file = directory / "preprocessor_config.json"
    saved = json.loads(file.read_text())
    if set(saved["size"]) == {"height", "width"} and draw.random() < 0.5:  # as older files have it
        file.write_text(json.dumps({**saved, "size": [saved["size"]["height"], saved["size"]["width"]]}))
    for number in range(3):
        shape = (draw.randint(16, 60), draw.randint(16, 60), 3)
        picture = np.random.default_rng(draw.randrange(1 << 30)).integers(0, 256, shape, dtype=np.uint8)
        tensors[f"picture.{number}"] = torch.from_numpy(picture)
        tensors[f"prepared.{number}"] = processor(PIL.Image.fromarray(picture), return_tensors="pt").pixel_values.float()
    write(directory, model, tensors, facts)


def translator_case(draw, config, directory):
    model = stored(draw, transformers.AutoModelForSeq2SeqLM, config, directory)
    if config.model_type in ("marian", "m2m_100"):  # whose written padding has no position
        model.generation_config.bad_words_ids = [[config.pad_token_id]]
        model.generation_config.save_pretrained(directory)
    sources = [ids(draw, n) + [config.eos_token_id] for n in draw.sample(range(2, 14), 2)]
    labels = [ids(draw, n) + [config.eos_token_id] for n in draw.sample(range(2, 14), 2)]
    targets = [[config.decoder_start_token_id] + row[:-1] for row in labels]
    outputs, loss, count = [], 0, sum(map(len, labels))
    for source, target, label in zip(sources, targets, labels):
        out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target]),
                    output_hidden_states=True, output_attentions=True)
        outputs.append(out)
        loss = loss + torch.nn.functional.cross_entropy(out.logits[0], torch.tensor(label), reduction="sum") / count
    loss.backward()
    tensors = {"input_ids": padded(sources), "attention_mask": padded([[1] * len(row) for row in sources]),
               "decoder_input_ids": padded(targets), "labels": padded(labels, -100),
               "decoder_attention_mask": padded([[1] * len(row) for row in targets]),
               "encoder_last_hidden_state": stack([out.encoder_last_hidden_state[0] for out in outputs]),
               "last_hidden_state": stack([out.decoder_hidden_states[-1][0] for out in outputs]),
               "logits": stack([out.logits[0] for out in outputs])}
    for side, layers in ("encoder", config.encoder_layers if config.model_type != "t5" else config.num_layers), \
                        ("decoder", config.decoder_layers if config.model_type != "t5" else config.num_decoder_layers):
        for layer in range(layers):
            of = {f"{side}_attention.{layer}": f"{side}_attentions", f"{side}_hidden.{layer}": f"{side}_hidden_states"}
            if side == "decoder":
                of[f"cross_attention.{layer}"] = "cross_attentions"
            for name, field in of.items():
                tensors[name] = stack([getattr(out, field)[layer][0] for out in outputs])
    facts = {"task": "translation", "loss": loss.item(), "gradient_norms": norms(model, directory), "greedy": [], "beam": [],
             "greedy_with": {"num_beams": 1, "max_new_tokens": 8},
             "beam_with": {"num_beams": 3, "max_new_tokens": 8, "length_penalty": draw.choice([0.6, 1.0, 1.5])}}
    for number, source in enumerate(sources):
        asked = dict(inputs=torch.tensor([source]), do_sample=False, min_length=0, use_cache=False)
        new = model.generate(**asked, **facts["greedy_with"])[0, 1:]
        facts["greedy"].append({"row": number, "ids": new.tolist()})
        found = model.generate(**asked, **facts["beam_with"], num_return_sequences=3, output_scores=True,
                               return_dict_in_generate=True)
        beams = []
        for row, score in zip(found.sequences[:, 1:].tolist(), found.sequences_scores.tolist()):
            end = row.index(config.eos_token_id) + 1 if config.eos_token_id in row else len(row)
            beams.append({"ids": row[:end], "score": score})
        facts["beam"].append({"row": number, "beams": beams})
    write(directory, model, tensors, facts)


def speech_case(draw, config, directory):
    model = stored(draw, transformers.AutoModelForSpeechSeq2Seq, config, directory)
    mel = torch.randn(2, config.num_mel_bins, 2 * config.max_source_positions, dtype=torch.float32)
    targets = [[config.decoder_start_token_id] + ids(draw, n) for n in draw.sample(range(1, 12), 2)]
    labels = [row[1:] + [config.eos_token_id] for row in targets]
    outputs, loss, count = [], 0, sum(map(len, labels))
    for row, (target, label) in enumerate(zip(targets, labels)):
        out = model(input_features=mel[row:row + 1].double(), decoder_input_ids=torch.tensor([target]),
                    output_hidden_states=True, output_attentions=True)
        outputs.append(out)
        loss = loss + torch.nn.functional.cross_entropy(out.logits[0], torch.tensor(label), reduction="sum") / count
    loss.backward()
    tensors = {"input_features": mel, "decoder_input_ids": padded(targets), "labels": padded(labels, -100),
               "decoder_attention_mask": padded([[1] * len(row) for row in targets]),
               "encoder_last_hidden_state": stack([out.encoder_last_hidden_state[0] for out in outputs]),
               "last_hidden_state": stack([out.decoder_hidden_states[-1][0] for out in outputs]),
               "logits": stack([out.logits[0] for out in outputs])}
    for side, layers in ("encoder", config.encoder_layers), ("decoder", config.decoder_layers):
        for layer in range(layers):
            of = {f"{side}_attention.{layer}": f"{side}_attentions", f"{side}_hidden.{layer}": f"{side}_hidden_states"}
            if side == "decoder":
                of[f"cross_attention.{layer}"] = "cross_attentions"
            for name, field in of.items():
                tensors[name] = stack([getattr(out, field)[layer][0] for out in outputs])
    greedy, prompt = [], [config.decoder_start_token_id, *ids(draw, 2)]
    for row in range(2):
        text = list(prompt)
        for _ in range(6):
            logits = model(input_features=mel[row:row + 1].double(), decoder_input_ids=torch.tensor([text])).logits
            text.append(logits[0, -1].argmax().item())
        greedy.append({"row": row, "ids": text[len(prompt):]})
    write(directory, model, tensors, {"task": "speech", "loss": loss.item(), "gradient_norms": norms(model, directory),
                                      "greedy": greedy, "greedy_with": {"prompt": prompt, "max_new_tokens": 6}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=4, help="cases of each family")
    parser.add_argument("--trained", metavar="HEED", help="the program, which trains them first")
    a = parser.parse_args()
    global TRAINED
    TRAINED = a.trained
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for make_case, families in ((causal_case, CAUSAL), (encoder_case, ENCODERS), (image_case, IMAGES),
                                (speech_case, SPEECH), (translator_case, TRANSLATORS)):
        for family in families:
            for number in range(a.each):
                draw = Draw(f"{a.seed} {family.__name__} {number}")
                draw.number = number
                torch.manual_seed(draw.randrange(1 << 30))
                directory = a.directory / f"{family.__name__}-{number}"
                directory.mkdir(parents=True)
                make_case(draw, family(draw), directory)


if __name__ == "__main__":
    main()
