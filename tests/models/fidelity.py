#!/usr/bin/env python3
"""Compares heed with transformers on every key of config.json, of every family:

    fidelity.py PROBE DIRECTORY [--seed N] [--each N] [--random N] [--families NAME...]

Keys are those of transformers' config classes and those that its code reads while it loads and computes. Each has to be
in heed's table of the family, with the same default. Then models with random weights are made: with all defaults, with
one key left out, with one key changed to another value that transformers takes, with tied tensors under each of their
names, and --random with several of these at once. Logits have to be equal to 1e-4, or heed has to refuse. A refusal
fails, too, unless MAY_REFUSE lists the change. --each takes every Nth model (1: all), and those of MUST_LOAD always.
Models lie in DIRECTORY, one at a time. Prints the share that is refused, by family.
"""
import argparse
import collections
import copy
import inspect
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys

import numpy as np
import peft
import sentence_transformers
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import processing_utils

import compare_generation
import compare_reading

PIECES = 60
TOLERANCE = 1e-4
# Defaults too large to compute with; that heed has them is compared without a model.
SIZES = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer",
         "n_head", "dim", "n_layers", "n_heads", "hidden_dim", "d_model", "d_ff", "d_kv", "num_layers", "num_heads",
         "encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "encoder_ffn_dim",
         "decoder_ffn_dim", "image_size", "patch_size", "num_local_experts", "num_key_value_heads", "head_dim",
         "decoder_vocab_size", "num_experts", "n_inner", "num_mel_bins", "max_source_positions"}
# What no file says: code, internals, and what only another class has.
NOT_KEYS = {"attribute_map", "sub_configs", "sub_configs_defaults", "model_type", "base_model_tp_plan", "base_model_pp_plan",
            "base_model_ep_plan", "base_model_fsdp_plan", "default_theta", "default_rope_type", "has_no_defaults_at_init",
            "ignore_keys_at_rope_validation", "keys_to_ignore_at_inference", "base_config_key", "is_composition",
            "extra_files", "extra_config_files", "is_heterogeneous", "get_text_config", "to_dict", "to_json_string",
            "standardize_rope_params", "validate_rope", "nested_rope_parameter_keys", "convert_rope_params_to_dict"}
ACTIVATION_KEYS = {"hidden_act", "hidden_activation", "activation", "activation_function", "dense_act_fn"}
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu", "gelu_pytorch_tanh", "gelu_fast", "swish", "quick_gelu", "relu2", "gelu_10",
               "gelu_accurate", "gelu_python", "tanh", "sigmoid", "mish", "relu6", "linear"]


def decoder(**more):
    return dict(dict(vocab_size=PIECES, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=False, rms_norm_eps=1e-5),
                **more)


def seq2seq(**more):
    return dict(dict(vocab_size=PIECES, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                     decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=24, max_position_embeddings=24,
                     pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2), **more)


def encoder(**more):
    return dict(dict(vocab_size=PIECES, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20,
                     max_position_embeddings=40, pad_token_id=1), **more)


def yarn(**more):
    return {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, **more}


ROPE = [{"rope_type": "linear", "factor": 2.0, "rope_theta": 777.0}, {"type": "linear", "factor": 3.0},
        {"rope_type": "default", "rope_theta": 333.0}, {"rope_type": "dynamic", "factor": 2.0},
        yarn(), yarn(beta_fast=16.0, beta_slow=2.0), yarn(mscale=0, mscale_all_dim=0), yarn(mscale=0.7, mscale_all_dim=1.0),
        yarn(attention_factor=1.3), yarn(truncate=False), yarn(beta_fast=0),
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8, "rope_theta": 5000.0},
        {"rope_type": "default", "partial_rotary_factor": 0.5}, {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}]
LONGROPE = [{"rope_type": kind, "short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 3.0, 4.0], "rope_theta": 5000.0,
             "original_max_position_embeddings": 20, **more}
            for kind, more in (("longrope", {}), ("su", {}), ("longrope", {"factor": 2.0}), ("yarn", {"attention_factor": 1.1}))]
BY_TYPE = [{"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}},
           {"full_attention": {"rope_type": "default"}, "sliding_attention": None}, {"rope_type": "linear", "factor": 2.0},
           {"full_attention": yarn(rope_theta=3000.0), "sliding_attention": {"rope_type": "default"}}]
MIXED = [["sliding_attention", "full_attention"], ["full_attention", "full_attention"], ["full_attention", "sliding_attention"]]

# Of each model_type: sizes that all its models have, and values of keys whose type does not tell them.
FAMILIES = {
    "gpt2": (dict(vocab_size=PIECES, n_embd=16, n_layer=2, n_head=2, n_positions=24), {"n_inner": [20]}),
    "llama": (decoder(), {}),
    "mistral": (decoder(sliding_window=5), {}),
    "qwen2": (decoder(sliding_window=3, max_window_layers=1), {"use_sliding_window": [True]}),
    "qwen3": (decoder(sliding_window=3, max_window_layers=1, head_dim=8), {"use_sliding_window": [True]}),
    "phi3": (decoder(pad_token_id=0, eos_token_id=2), {"rope_parameters": LONGROPE, "rope_scaling": LONGROPE}),
    "gemma": (decoder(head_dim=8), {}),
    "gemma2": (decoder(head_dim=8, sliding_window=3, query_pre_attn_scalar=9), {}),
    "gemma3_text": (decoder(head_dim=8, sliding_window=3, query_pre_attn_scalar=9, sliding_window_pattern=2),
                    {"rope_parameters": BY_TYPE}),
    "gpt_oss": (decoder(head_dim=8, num_local_experts=1, num_experts_per_tok=1, sliding_window=3), {}),
    "bert": (encoder(pad_token_id=0), {}),
    "distilbert": (dict(vocab_size=PIECES, dim=16, n_layers=2, n_heads=2, hidden_dim=20, max_position_embeddings=40), {}),
    "roberta": (encoder(), {}), "xlm-roberta": (encoder(), {}), "mpnet": (encoder(), {}),
    "marian": (seq2seq(), {"decoder_vocab_size": [PIECES, 50]}),
    "bart": (seq2seq(), {}), "m2m_100": (seq2seq(), {}),
    "t5": (dict(vocab_size=PIECES, d_model=16, d_kv=6, d_ff=20, num_layers=2, num_heads=2),
           {"feed_forward_proj": ["gated-gelu", "gated-silu", "gelu", "silu", "gated-relu", "gated-gelu_new"],
            "num_decoder_layers": [1, 3]}),
    "vit": (dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20, image_size=12, patch_size=4),
            {"image_size": [[8, 12]], "patch_size": [[4, 6]], "head_dim": [6]}),
    "whisper": (dict(vocab_size=PIECES, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                     decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=24, num_mel_bins=4,
                     max_source_positions=6, max_target_positions=20, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                     decoder_start_token_id=3), {}),
}
LABELS = {"num_labels": [1, 3, 4], "id2label": [{"0": "a", "1": "b", "2": "c"}]}
# Of keys of any family, where the type of the default does not tell.
VALUES = {"rope_parameters": ROPE, "rope_scaling": ROPE, "rope_theta": [500.0], "partial_rotary_factor": [0.5], "is_causal": [False],
          "layer_types": MIXED, "sliding_window": [None, 1, 4], "head_dim": [8, 12], "original_max_position_embeddings": [12],
          "attn_logit_softcapping": [None, 3.0], "final_logit_softcapping": [None, 3.0], "rope_local_base_freq": [300.0],
          "sliding_window_pattern": [3], "use_bidirectional_attention": [True], "num_key_value_heads": [None, 1, 4],
          "eos_token_id": [[2, 3]], "dtype": ["float16"], "torch_dtype": ["bfloat16"], "quantization_config": [],
          "per_layer_config": [{"0": {"intermediate_size": 12}}], "architectures": [], "scale_decoder_outputs": [False, True],
          "tie_word_embeddings": [False, True], "transformers_version": ["4.2.0"], "task_specific_params": [{"a": {"prefix": "b"}}],
          "name_or_path": ["x"], "attn_implementation": ["eager"], "classifier_dropout": [0.3], "embedding_size": [8],
          "problem_type": ["single_label_classification", "multi_label_classification"], **LABELS}
# Changes that transformers computes and heed may refuse: of these families (none: of all), by the name of the plan. The
# refusal names the key, or what the third entry says.
MAY_REFUSE = [
    ("", rf'({"|".join(sorted(ACTIVATION_KEYS))}) "(sigmoid|mish|relu6|linear)"'),
    ("", rf'({"|".join(sorted(SIZES))}|max_position_embeddings|num_experts_per_tok) 0|swiglu_(alpha|limit) 0.0'),
    ("", "compression_config .*|is_encoder_decoder .*"),
    ("bart marian m2m_100 whisper", "is_decoder .*"), ("gemma gemma2", "use_bidirectional_attention true"),
    ("gpt2", "add_cross_attention true"), ("gpt_oss", "num_local_experts 2"),
    ("gpt_oss", "alias num_experts beside", "num_local_experts"), ("mpnet", "relative_attention_num_buckets .*"),
    ("t5", "relative_attention_num_buckets 33", "33 buckets"), ("", r"\w+_token_id (true|0\.5)"),
    ("t5", r"is_gated_act (1|0\.5)"), ("t5", "alias num_hidden_layers( beside)?", "tensor .decoder.block.2")]
# Changes that, where they are drawn, transformers must compute: a change in transformers would leave nothing to compare.
MUST_BE_LEGAL = [
    ("", r".* (moved|equal|other), tied .*"),
    ("llama mistral qwen2 qwen3", r"rope_(scaling|parameters) (?!.*linear.*partial).*"), ("phi3", "rope_scaling .*"),
    ("gemma", 'hidden_(act|activation) "relu"'), ("llama mistral phi3", "partial_rotary_factor .*"),
    ("gpt2", 'activation_function "tanh"'), ("bert", 'hidden_act "gelu_accurate"'), ("t5", "feed_forward_proj .*")]
# Changes that must be there, be computed by transformers, and give equal logits.
MUST_LOAD = {
    "gpt2": ["scale_attn_by_inverse_layer_idx true", "scale_attn_weights false",
             *(f'activation_function "{name}"' for name in ("relu2", "quick_gelu", "gelu_10"))],
    "llama": ["mlp_bias true", "attention_bias true", *(f'hidden_act "{name}"' for name in ("relu2", "quick_gelu", "gelu_10")),
              "num_labels 4"],
    "mistral": ["num_labels 4"], "qwen2": ["num_labels 4"],
    "gemma3_text": ["use_bidirectional_attention true", "attn_logit_softcapping 3.0"], "phi3": ["partial_rotary_factor 0.5"],
    "bert": ["is_decoder true", "num_labels 4", "num_labels 1"], "roberta": ["is_decoder true", "num_labels 4"],
    "t5": ['feed_forward_proj "gated-relu"', 'feed_forward_proj "gated-silu"', "tie_word_embeddings false"],
    "bart": ["tie_word_embeddings false", "num_labels 4"], "marian": ["tie_word_embeddings false"],
    "m2m_100": ["tie_word_embeddings false"], "vit": ["num_labels 4"]}
TASKS = {"causal": transformers.AutoModelForCausalLM, "masked": transformers.AutoModelForMaskedLM,
         "seq2seq": transformers.AutoModelForSeq2SeqLM, "image": transformers.AutoModelForImageClassification,
         "speech": transformers.AutoModelForSpeechSeq2Seq, "states": transformers.AutoModel,
         "text_classes": transformers.AutoModelForSequenceClassification,
         "token_classes": transformers.AutoModelForTokenClassification,
         "answers": transformers.AutoModelForQuestionAnswering}
DECODERS = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text", "gpt_oss"]
ENCODERS = ["bert", "distilbert", "roberta", "xlm-roberta", "mpnet"]


def tasks_of(family):
    if family in DECODERS:
        return ["causal", "text_classes", "states"]
    if family in ENCODERS:
        return ["masked", "text_classes", "token_classes", "answers", "states"]
    return {"vit": ["image", "states"], "whisper": ["speech"], "bart": ["seq2seq", "text_classes"],
            "t5": ["seq2seq", "encoder"]}.get(family, ["seq2seq"])


def class_of(task, family):
    return transformers.T5EncoderModel if task == "encoder" else TASKS[task]


class Refused(Exception):
    """By transformers: the values are not legal together."""


class Probe:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, **asked):
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the probe ended with {self.process.wait()} at {asked}")
        return json.loads(line)


# ------------------------------------------------------------------------------------------------- keys and tables

def fields_of(family):
    """Keys of the config class, with defaults where a class has one."""
    kind = transformers.CONFIG_MAPPING[family]
    made = kind()
    keys = {name: getattr(made, name, None) for name in getattr(kind, "__dataclass_fields__", {})}
    for name in inspect.signature(kind.__init__).parameters:
        if name not in ("self", "args", "kwargs"):
            keys.setdefault(name, getattr(made, name, None))
    return {k: v for k, v in keys.items() if not k.startswith("_") and k not in NOT_KEYS}, kind.attribute_map


def raw_default(family, key):
    """What the class has for an absent key, before it derives anything from others."""
    field = transformers.CONFIG_MAPPING[family].__dataclass_fields__[key]
    return field.default


def reads_of(family, work):
    """Names that the model's code asks a config for while it is made and computes."""
    read = set()
    kind = transformers.CONFIG_MAPPING[family]
    plain = transformers.PreTrainedConfig.__getattribute__

    def watched(self, name):
        if "/models/" in sys._getframe(1).f_code.co_filename and "/modeling_" in sys._getframe(1).f_code.co_filename:
            read.add(name)
        return plain(self, name)
    transformers.PreTrainedConfig.__getattribute__ = watched
    try:
        for task in tasks_of(family):
            model = Model(family, task, {}, work)
            model.make(random.Random(1))
            model.expected()
    finally:
        transformers.PreTrainedConfig.__getattribute__ = plain
    generation = set(transformers.GenerationConfig().to_dict()) | {"decoder_start_token_id", "forced_decoder_ids"}
    known = fields_of(family)[0]
    return {name for name in read if not name.startswith("_") and name not in NOT_KEYS and not callable(getattr(kind, name, None))
            and (name not in generation or name in known)}


def check_tables(tables, work):
    """Every key that is read is in a table, with its default."""
    missing = []

    def expect(table, keys, what):
        missing.extend(f"{what}: {key}" for key in sorted(keys) if key not in table)

    for family in FAMILIES:
        table = tables["models"][family]
        fields, aliases = fields_of(family)
        expect(table, set(fields) | set(aliases) | reads_of(family, work), family)
        for name, canonical in aliases.items():
            if table.get(name, {}).get("text") != canonical:
                missing.append(f"{family}: {name} is another name of {canonical}")
        for key, rule in table.items():
            if rule["kind"] != "applied" or key == "model_type" or key not in transformers.CONFIG_MAPPING[family].__dataclass_fields__:
                continue
            theirs = raw_default(family, key)
            made = fields[key]
            if key == "rope_parameters" and made:
                made = {k: v for k, v in made.items() if k != "rope_theta"}  # the table lists it separately
            if rule["value"] != theirs and not (theirs is None and rule["value"] in (None, made)):
                missing.append(f"{family}: {key} is {rule['value']!r} by default, in transformers {theirs!r}")
    expect(tables["rope"], transformers.modeling_rope_utils.RopeParameters.__annotations__.keys() - {"mrope_section"}, "rope")
    expect(tables["image_processor"], processing_utils.ImagesKwargs.__annotations__, "preprocessor_config.json")
    expect(tables["adapter"], (f for f in peft.LoraConfig.__dataclass_fields__), "adapter_config.json")
    generation = tables["generation"]
    expect(generation, transformers.GenerationConfig().__dict__.keys() - {"_original_object_hash"}, "generation_config.json")
    for table, kinds in ((compare_generation.APPLIED, ("applied", "refused")), (compare_generation.REFUSED, ("refused", "refused_value")),
                         (compare_generation.HARMLESS, ("harmless", "applied", "refused", "refused_value"))):
        missing += [f"compare_generation.py: {key} is {generation[key]['kind']} in heed" for key in table
                    if generation.get(key, {}).get("kind") not in kinds]
    compared = {*compare_generation.APPLIED, *compare_generation.REFUSED, *compare_generation.OLD, *compare_generation.HARMLESS}
    missing += [f"compare_generation.py does not compare {key}" for key, rule in generation.items()
                if rule["kind"] != "harmless" and key not in compared]
    files = sentence_transformers.SentenceTransformer
    source = inspect.getsource(files._load_config_modules)
    expect(tables["module"], set(re.findall(r'module_config(?:\[|\.get\()"(\w+)"', source)) | {"idx"}, "modules.json")
    source += inspect.getsource(files._parse_model_config) + inspect.getsource(files.__mro__[1]._parse_model_config)
    made = files(modules=[sentence_transformers.base.modules.Normalize()], device="cpu", truncate_dim=3)
    expect(tables["prompts"], set(re.findall(r'model_config\.get\("(\w+)"', source)) | set(made._get_model_config()),
           "config_sentence_transformers.json")
    modules = {"sentence_transformer": sentence_transformers.base.modules.Transformer,
               "pooling": sentence_transformers.sentence_transformer.modules.Pooling,
               "dense": sentence_transformers.base.modules.Dense, "normalize": sentence_transformers.base.modules.Normalize}
    for name, module in modules.items():
        expect(tables[name], module.config_keys, name)
    changed = {"module": {key.split(".")[-1] for key in compare_reading.SETTINGS["modules.json"]},
               "image_processor": compare_reading.PICTURES,
               **{name: compare_reading.SETTINGS[file] for name, file in
                  (("sentence_transformer", "sentence_bert_config.json"), ("pooling", "1_Pooling/config.json"),
                   ("dense", "2_Dense/config.json"), ("normalize", "3_Normalize/config.json"),
                   ("prompts", "config_sentence_transformers.json"))}}
    for name, keys in changed.items():
        expect(keys, tables[name], f"compare_reading.py does not change, of {name}")
    return missing


# ---------------------------------------------------------------------------------------------------------- models

class Model:
    """A config.json and random weights. `changes`: keys, where Ellipsis is one that is left out."""

    def __init__(self, family, task, changes, directory):
        self.family, self.task, self.directory = family, task, pathlib.Path(directory)
        self.changes = changes
        self.config = {"model_type": family, **FAMILIES[family][0], **changes}
        self.config = {k: v for k, v in self.config.items() if v is not Ellipsis}
        # 1 is the padding of some, inside of the text.
        self.ids = [4, 9, 7, 30, 1, 31, 5, 22, 8, 41, 17, 3, 6]
        if task == "text_classes" and family == "bart":
            self.ids[3] = self.ids[-2] = self.config.get("eos_token_id", 2)
        self.target = [self.config.get("decoder_start_token_id", 0) or 0, 11, 1, 12, 40, 13]

    def make(self, draw, ties=None):
        """Writes the directory; `ties` changes the tensors that are stored."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        (self.directory / "config.json").write_text(json.dumps(self.config))
        kind = class_of(self.task, self.family)
        try:
            config = transformers.AutoConfig.from_pretrained(self.directory)
            torch.manual_seed(draw.randrange(1 << 30))
            model = kind.from_config(config) if kind is not transformers.T5EncoderModel else kind(config)
            with torch.no_grad():
                for name, p in model.named_parameters():
                    if p.requires_grad:
                        p.copy_(torch.randn_like(p) * 0.4 + (1 if p.dim() == 1 and p.mean() > 0.5 else 0))
            model.eval().save_pretrained(self.directory)
        except Exception as e:
            raise Refused(f"{type(e).__name__}: {e}") from e
        self.config.setdefault("architectures", [type(model).__name__])
        (self.directory / "config.json").write_text(json.dumps(self.config))
        if ties:
            tensors = load_file(self.directory / "model.safetensors")
            ties(tensors)
            save_file({k: v.clone().contiguous() for k, v in tensors.items()}, self.directory / "model.safetensors",
                      metadata={"format": "pt"})

    def expected(self):
        kind = class_of(self.task, self.family)
        try:
            model = kind.from_pretrained(self.directory, dtype=torch.float64, attn_implementation="eager",
                                         **({"experts_implementation": "eager"} if self.family == "gpt_oss" else {})).eval()
            with torch.no_grad():
                out = model(**self.inputs(), return_dict=True)
        except Exception as e:
            raise Refused(f"{type(e).__name__}: {e}") from e
        if self.task == "answers":
            values = torch.stack([out.start_logits, out.end_logits], -1)
        else:
            # In a mixture of experts out[0] can be the loss of the routers. Models without a head have states and no logits.
            values = getattr(out, "logits", out[0])
        values = values.double().flatten().numpy()
        if not np.isfinite(values).all():
            raise Refused("not finite")
        return values

    def inputs(self):
        target = torch.tensor([self.target])
        if self.family == "vit":
            return {"pixel_values": torch.from_numpy(self.array("pixels", self.pixels())).double()}
        if self.family == "whisper":
            return {"input_features": torch.from_numpy(self.array("mel", self.mel())).double(), "decoder_input_ids": target}
        more = {"decoder_input_ids": target} if self.task == "seq2seq" else {}
        return {"input_ids": torch.tensor([self.ids]), **more}

    def pixels(self):
        size = self.config.get("image_size", 224)
        height, width = size if isinstance(size, list) else (size, size)
        return 1, self.config.get("num_channels", 3), height, width

    def mel(self):
        return 1, self.config.get("num_mel_bins", 80), 2 * self.config.get("max_source_positions", 1500)

    def array(self, name, shape):
        values = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
        np.save(self.directory / f"{name}.npy", values)
        return values

    def asked(self):
        return {"model": str(self.directory), "states": self.task == "states", "ids": self.ids, "target": self.target,
                "pixels": str(self.directory / "pixels.npy"), "mel": str(self.directory / "mel.npy")}


def differ(got, want):
    got = np.array(got, np.float64)
    if got.shape != want.shape:
        return float("inf")
    return float(np.abs(got - want).max() / max(np.abs(want).max(), 0.1))


# ---------------------------------------------------------------------------------------------------- what is tried

def other_values(family, key, default):
    """Other values of a key, of which transformers takes some."""
    of_family = FAMILIES[family][1]
    base = FAMILIES[family][0].get(key, default)
    if key in of_family or key in VALUES:
        return [v for v in of_family.get(key, VALUES.get(key)) if v != base]
    if key in ACTIVATION_KEYS:
        return [a for a in ACTIVATIONS if a != base]
    if isinstance(base, bool):
        return [not base]
    if isinstance(base, int):
        return [base + 1, base * 2, 0]
    if isinstance(base, float):
        return [base * 2 + 0.01, 0.0]
    if base is None:
        return [True, 1, 0.5]
    return []


TIED = {**{f: [("lm_head.weight", "model.embed_tokens.weight")] for f in DECODERS},
        "gpt2": [("lm_head.weight", "transformer.wte.weight")],
        "bert": [("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
                 ("cls.predictions.decoder.bias", "cls.predictions.bias")],
        "distilbert": [("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight")],
        **{f: [("lm_head.decoder.weight", f"{p}.embeddings.word_embeddings.weight"), ("lm_head.decoder.bias", "lm_head.bias")]
           for f, p in (("roberta", "roberta"), ("xlm-roberta", "roberta"), ("mpnet", "mpnet"))},
        **{f: [("lm_head.weight", "model.shared.weight"), ("model.decoder.embed_tokens.weight", "model.shared.weight"),
               ("model.encoder.embed_tokens.weight", "model.shared.weight")] for f in ("bart", "marian", "m2m_100")},
        "t5": [("lm_head.weight", "shared.weight"), ("decoder.embed_tokens.weight", "shared.weight"),
               ("encoder.embed_tokens.weight", "shared.weight")],
        "whisper": [("proj_out.weight", "model.decoder.embed_tokens.weight")]}
NORM_OFFSET = 0.25


def ties_of(target, source, how):
    """Changes the stored tensors of one tie: `moved` to the target, both `equal`, the target `other`, or `gone`."""
    def change(tensors):
        kept = tensors.get(source, tensors.get(target))
        if kept is None:
            return
        if how == "moved":
            tensors.pop(source, None)
            tensors[target] = kept
        elif how == "equal":
            tensors[source] = tensors[target] = kept
        elif how == "other":
            tensors[source] = kept
            tensors[target] = kept.flip(0) * 1.1 + NORM_OFFSET
    return change


def plans(family):
    """(what, task, changes, ties) of all that is tried on a family, beside random ones."""
    first = tasks_of(family)[0]
    fields, aliases = fields_of(family)
    keys = {**{name: None for name in VALUES if name in TABLES[family]},
            **{name: None for name, rule in TABLES[family].items() if rule["kind"] != "alias"}, **fields}
    for task in tasks_of(family):
        yield "defaults", task, {}, None
    for key in FAMILIES[family][0]:
        if key not in SIZES:
            yield f"{key} left out", first, {key: Ellipsis}, None
    for key, default in keys.items():
        if key in ("model_type", "architectures"):
            continue
        for value in other_values(family, key, default):
            for task in ["text_classes"] if key in (*LABELS, "problem_type") and "text_classes" in tasks_of(family) else [first]:
                yield f"{key} {json.dumps(value)}", task, {key: value}, None
    for alias, canonical in aliases.items():
        base = FAMILIES[family][0].get(canonical)
        if isinstance(base, int):
            yield f"alias {alias}", first, {canonical: Ellipsis, alias: base}, None
            yield f"alias {alias} beside", first, {alias: base * 2}, None
    for target, source in TIED.get(family, []):
        for tied in (True, Ellipsis):
            is_tied = tied is True or getattr(transformers.CONFIG_MAPPING[family](), "tie_word_embeddings", True)
            for how in ("moved", "equal", "other") if is_tied else ("equal", "other"):
                yield f"{target} {how}, tied {tied}", first, {"tie_word_embeddings": tied}, ties_of(target, source, how)


def random_plan(family, draw):
    task = draw.choice(tasks_of(family))
    all_plans = [p for p in plans(family) if p[1] == tasks_of(family)[0] or p[1] == task]
    changes, ties, names = {}, [], []
    for what, _, more, tie in draw.sample(all_plans, draw.randint(2, 6)):
        changes.update(more)
        ties += [tie] if tie else []
        names.append(what)

    def all_ties(tensors):
        for tie in ties:
            tie(tensors)
    return "; ".join(names), task, changes, all_ties if ties and task == tasks_of(family)[0] else None


TABLES = {}


def rules_for(rules, family, what):
    return [rule for rule in rules if family in (rule[0] or family).split() and re.fullmatch(rule[1], what)]


class Comparison:
    def __init__(self, probe, directory):
        self.probe, self.directory = probe, directory
        self.counts = {family: collections.Counter() for family in FAMILIES}
        self.wrong, self.refusals = [], collections.Counter()

    def check_refusal(self, family, plan, why):
        """A change that heed may refuse excuses a refusal that names its key."""
        what, task, _, _ = plan
        for part in what.split("; "):
            for rule in rules_for(MAY_REFUSE, family, part):
                named = rule[2] if len(rule) == 3 else rf"\b{part.split()[0]}\b"
                if re.search(named, why):
                    return
        self.wrong.append(f"{family} {task}, {what}: refused: {why}")

    def __call__(self, family, plan, draw):
        """Whether transformers computes it, so that there is something to compare."""
        what, task, changes, ties = plan
        model = Model(family, task, copy.deepcopy(changes), self.directory / "model")
        try:
            model.make(draw, ties)
            want = model.expected()
        except Refused:
            self.counts[family]["not legal"] += 1
            return False
        got = self.probe(**model.asked())
        if "refused" in got:
            self.counts[family]["refused"] += 1
            self.refusals[family, what if len(what) < 60 else what[:60] + "...", got["refused"].split("config.json: ")[-1][:150]] += 1
            self.check_refusal(family, plan, got["refused"])
            return True
        difference = differ(got["logits"], want)
        self.counts[family]["equal" if difference <= TOLERANCE else "different"] += 1
        if not difference <= TOLERANCE:
            self.wrong.append(f"{family} {task}, {what}: {difference:.2g} of the largest value")
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=1, help="take every Nth model")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N models with several changes, beside the others")
    parser.add_argument("--only-random", action="store_true", help="leave out the others")
    parser.add_argument("--families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--refusals", action="store_true", help="list what is refused")
    a = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    probe = Probe(a.probe)
    tables = probe(tables=True)
    TABLES.update(tables["models"])
    missing = check_tables(tables, a.directory / "reads")
    for line in missing:
        print(f"not in heed's tables, or with another default: {line}")
    compare, found = Comparison(probe, a.directory), []
    for family in [] if a.only_random else a.families:
        for number, plan in enumerate(plans(family)):
            must = plan[0] in MUST_LOAD.get(family, [])
            found += [(family, plan[0])] if must else []
            if number % a.each == a.seed % a.each or plan[0] == "defaults" or must:
                legal = compare(family, plan, random.Random(f"{a.seed} {family} {number}"))
                if not legal and (must or rules_for(MUST_BE_LEGAL, family, plan[0])):
                    compare.wrong.append(f"{family}, {plan[0]}: transformers does not compute it, so nothing was compared")
        compare.wrong += [f"{family}: no model has {what}" for what in MUST_LOAD.get(family, []) if (family, what) not in found]
    draw, made = random.Random(f"random {a.seed}"), 0
    for _ in range(20 * a.random):
        if made == a.random:
            break
        family = draw.choice(a.families)
        made += compare(family, random_plan(family, draw), draw)
    if made < a.random:
        compare.wrong.append(f"transformers computes {made} of {20 * a.random} random models; wanted are {a.random}")
    print("| model_type | equal | refused | share refused | different |\n|---|---|---|---|---|")
    for family in a.families:
        count = compare.counts[family]
        total = count["equal"] + count["refused"] + count["different"]
        print(f"| {family} | {count['equal']} | {count['refused']} | {count['refused'] / max(total, 1):.1%} | {count['different']} |")
    if a.refusals:
        for (family, what, why), count in sorted(compare.refusals.items()):
            print(f"refused {count} times: {family}, {what}: {why}")
    compare.wrong += [f"{family}: nothing was compared" for family in a.families
                      if not a.only_random and not compare.counts[family]["equal"]]
    for line in compare.wrong:
        print(f"wrong: {line}")
    return 1 if compare.wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
