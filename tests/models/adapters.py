#!/usr/bin/env python3
"""Compares heed with PEFT on random adapters, as PEFT saves them, of random models of every family:

    adapters.py PROBE DIRECTORY [--seed N] [--each N]

Logits have to be equal to 1e-4, also those of the merged model that heed saves and transformers loads. Every adapter that
PEFT makes has to load, but for those with lora_bias. --each makes 24 / N adapters of each family; those of ALWAYS are
made in every run. Each key of adapter_config.json is left out or changed in the file of one adapter (KEYS): the logits are
those of PEFT, or heed refuses.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import sys
import warnings

import peft
import torch
import transformers

import fidelity

# Layers of each family by their names in transformers, heads, and embeddings.
LINEAR = {"gpt2": ["c_attn", "c_proj", "c_fc"], "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
          "bert": ["query", "key", "value", "dense"], "distilbert": ["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"],
          "mpnet": ["q", "k", "v", "o", "dense"], "t5": ["q", "k", "v", "o", "wi", "wo"],
          "vit": ["q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2"],
          **{f: ["query", "key", "value", "dense"] for f in ("roberta", "xlm-roberta")},
          **{f: ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"] for f in ("marian", "bart", "m2m_100", "whisper")},
          **{f: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
             for f in ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text")}}
EMBEDDING = {"gpt2": "wte", "t5": "shared", **{f: "word_embeddings" for f in fidelity.ENCODERS},
             **{f: "shared" for f in ("marian", "bart", "m2m_100")}}
HEADS = {"causal": "lm_head", "text_classes": "score", "seq2seq": "lm_head", "image": "classifier", "speech": "proj_out"}


TIED = {"tie_word_embeddings": True}
FEATURES = {"task_type": "FEATURE_EXTRACTION"}
ENCODER_OF_T5 = transformers.T5EncoderModel
# (family, task of the base, class that the adapters are made over or None: that of the task, changes of the base's
# config.json, whether the base stores its tied table under the head's name alone, options)
ALWAYS = [
    *((family, task, None, {}, False, {"target_modules": LINEAR[family][:1], "bias": "all", "modules_to_save": saved})
      for family, task, saved in (("bert", "text_classes", ["classifier"]), ("roberta", "text_classes", ["classifier"]),
                                  ("gpt2", "causal", ["ln_f"]), ("vit", "image", ["classifier", "layernorm"]))),
    *((family, task, None, TIED, moved, {"target_modules": LINEAR[family][:1], "modules_to_save": saved})
      for family, task, saved in (("llama", "causal", ["lm_head"]), ("gpt2", "causal", ["lm_head"]),
                                  ("llama", "causal", ["embed_tokens"]), ("llama", "causal", ["lm_head", "embed_tokens"]),
                                  ("bart", "seq2seq", ["lm_head"]), ("marian", "seq2seq", ["lm_head"]),
                                  ("bert", "masked", ["decoder"]), ("whisper", "speech", ["proj_out"]))
      for moved in (False, True)),
    ("t5", "seq2seq", None, {}, False, {"target_modules": ["q"], "modules_to_save": ["lm_head"]}),
    # A full name is a target whatever the layers.
    *((family, task, None, {}, False, {"target_modules": targets, "layers_to_transform": [1]})
      for family, task, targets in (("t5", "seq2seq", ["q", "lm_head", "shared"]), ("llama", "causal", ["q_proj", "lm_head"]))),
    *(("t5", task, ENCODER_OF_T5, {}, False, {**FEATURES, **options}) for task in ("seq2seq", "encoder") for options in (
        {"target_modules": ["q", "v"]}, {"target_modules": "all-linear", "bias": "all"},
        {"target_modules": ["q"], "modules_to_save": ["shared"]})),
    *((family, task, transformers.AutoModel, {}, False, {**FEATURES, "target_modules": LINEAR[family]})
      for family, task in (("bert", "masked"), ("bert", "states"), ("mpnet", "masked"), ("roberta", "masked"), ("llama", "causal"),
                           ("gpt2", "causal"), ("bart", "seq2seq"), ("t5", "seq2seq"), ("vit", "image")))]


# For each key of adapter_config.json: values that PEFT loads, and values of which heed refuses the adapter, naming the key.
KEYS = {
    "task_type": ([None, "FEATURE_EXTRACTION"], []), "peft_type": ([], ["LOHA"]), "auto_mapping": ([{"base_model_class": "X"}], []),
    "peft_version": (["0.1"], []), "base_model_name_or_path": (["x", None], []), "revision": (["main"], []),
    "inference_mode": ([False], []), "r": ([], [3]), "target_modules": (["all-linear", "All-Linear", [*LINEAR["llama"], "other"]],
                                                                [["q_proj"], [], None, ".*q_proj", ["all-linear"]]),
    "exclude_modules": ([[], ["score"], "all-linear"], [["q_proj"], ".*q_proj"]), "lora_alpha": ([1, 9], []), "lora_dropout": ([0.5], []), "fan_in_fan_out": ([True], []),
    "bias": (["lora_only"], []), "use_rslora": ([True], []), "modules_to_save": ([[]], [["q_proj"]]),
    "init_lora_weights": ([True, "gaussian", "orthogonal"], ["pissa", "pissa_niter_4", "olora", "corda", "loftq"]),
    "layers_to_transform": ([[0, 1]], [[0], 1]), "layers_pattern": ([None, []], []), "rank_pattern": ([{"nothing": 3}], []),
    "alpha_pattern": ([{"q_proj": 5}, {"layers.1.*": 7}], []), "megatron_config": ([None], []), "megatron_core": (["x"], []),
    "trainable_token_indices": ([], [[1, 2]]), "loftq_config": ([{}], []), "eva_config": ([None], []), "corda_config": ([None], []),
    "lora_ga_config": ([None], []), "use_dora": ([], [True]), "velora_config": ([None], []), "alora_invocation_tokens": ([], [[5]]),
    "use_qalora": ([], [True]), "qalora_group_size": ([8], []), "monteclora_config": ([None], []),
    "layer_replication": ([], [[[0, 2], [1, 2]]]), "runtime_config": ([{"ephemeral_gpu_offload": False}], []),
    "lora_bias": ([], [True]), "target_parameters": ([[]], [["x"]]), "use_bdlora": ([None], []), "arrow_config": ([None], []),
    "kasa_config": ([None], []), "ensure_weight_tying": ([], [True])}
NEEDED = {"peft_type", "r", "target_modules"}  # heed refuses a file without them
# Each of these has to be in an adapter that is equal.
OPTIONS = ["use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "bias", "modules_to_save", "layers_to_transform", "of embeddings"]


def head_of(family, task):
    if family in fidelity.ENCODERS and task in ("text_classes", "token_classes"):
        return "classifier"
    return {"answers": "qa_outputs"}.get(task, HEADS.get(task))


def choices(family, task, draw):
    linear = LINEAR[family]
    options = {"r": draw.choice([1, 2, 5]), "lora_alpha": draw.choice([1, 4, 7]), "init_lora_weights": False,
               "target_modules": draw.sample(linear, draw.randint(1, len(linear)))}
    if draw.random() < 0.2:
        options["target_modules"] = "all-linear"
    elif draw.random() < 0.2:
        options["target_modules"] = ".*\\.1\\..*(" + "|".join(linear) + ")"
    else:
        if draw.random() < 0.2:
            options["target_modules"].append(EMBEDDING.get(family, "embed_tokens"))
        if draw.random() < 0.2 and head_of(family, task) in ("lm_head", "proj_out"):
            options["target_modules"].append(head_of(family, task))
        if draw.random() < 0.2:
            options["layers_to_transform"] = [draw.randrange(2)]
        if draw.random() < 0.2:
            options["modules_to_save"] = [draw.choice([head_of(family, task) or linear[0], EMBEDDING.get(family, "embed_tokens")])]
    for flag in ("use_rslora", "use_dora", "lora_bias"):
        if draw.random() < 0.15:
            options[flag] = True
    if draw.random() < 0.25:
        options["rank_pattern"] = {linear[0]: 3, "1\\..*" + linear[-1]: 2}
    if draw.random() < 0.25:
        options["alpha_pattern"] = {linear[0]: 9.5}
    if draw.random() < 0.2:
        options["bias"] = draw.choice(["all", "lora_only"])
    return options


def values_of(out, task):
    if task == "answers":
        return torch.stack([out.start_logits, out.end_logits], -1)
    return out.logits if "logits" in out else out.last_hidden_state


class Comparison:
    def __init__(self, probe, directory):
        self.probe, self.directory = probe, directory
        self.wrong, self.refusals, self.covered = [], collections.Counter(), collections.Counter()

    def __call__(self, family, task, over, changes, moved, options, draw, counts):
        """`over`: the class that PEFT adapts, or None for that of the task."""
        model = fidelity.Model(family, task, dict(changes), self.directory / "base")
        kind, work = over or fidelity.class_of(task, family), self.directory / "adapters"
        shutil.rmtree(work, ignore_errors=True)
        try:
            model.make(draw, fidelity.ties_of(*fidelity.TIED[family][0], "moved") if moved else None)
            inputs = model.inputs()
            if over is ENCODER_OF_T5:
                inputs.pop("decoder_input_ids", None)
            elif over and "decoder_input_ids" not in inputs and family in ("bart", "t5"):
                inputs["decoder_input_ids"] = torch.tensor([model.target])
            torch.manual_seed(draw.randrange(1 << 30))
            adapted = peft.get_peft_model(
                kind.from_pretrained(model.directory, dtype=torch.float64, attn_implementation="eager"),
                peft.LoraConfig(**options)).eval()
            with torch.no_grad():
                for _, parameter in adapted.named_parameters():
                    if parameter.requires_grad:
                        parameter.add_(torch.randn_like(parameter) * 0.1)
                want = values_of(adapted.base_model(**inputs), task).double().flatten().numpy()
            adapted.save_pretrained(work)
        except (fidelity.Refused, ValueError, TypeError, RuntimeError, NotImplementedError, KeyError, AttributeError):
            counts["not legal"] += 1
            return
        saved = self.directory / "merged"
        shutil.rmtree(saved, ignore_errors=True)
        asked = {**model.asked(), "model": str(work), "base": str(model.directory), "save": str(saved)}
        if over:
            asked["states"] = True
        if over is ENCODER_OF_T5:
            del asked["target"]
        got, what = self.probe(**asked), f"{family} {task}, {options}, {model.changes}"
        if "refused" in got:
            counts["refused"] += 1
            self.refusals[family, got["refused"].split("/")[-1][:200], str(options)] += 1
            if not options.get("lora_bias"):
                self.wrong.append(f"{what}: refused: {got['refused']}")
            return
        with torch.no_grad():
            out = kind.from_pretrained(saved, dtype=torch.float64, attn_implementation="eager").eval()(**inputs)
        difference = max(fidelity.differ(got["logits"], want),
                         fidelity.differ(got["logits"], values_of(out, task).double().flatten().numpy()))
        counts["equal" if difference <= fidelity.TOLERANCE else "different"] += 1
        if difference <= fidelity.TOLERANCE:
            self.covered.update(list(options))
            self.covered["of embeddings"] += EMBEDDING.get(family, "embed_tokens") in options["target_modules"]
        if not difference <= fidelity.TOLERANCE:
            self.wrong.append(f"{what}: {difference:.2g} of the largest value")
        if not over and task in HEADS and task != "text_classes":
            self.check_ties(saved, options, what)

    def check_ties(self, saved, options, what):
        """config.json says that tables which differ are not tied. T5's class does not read it."""
        config = json.loads((saved / "config.json").read_text())
        of_tables = {"lm_head", "proj_out", "embed_tokens", "decoder"} & set(options.get("modules_to_save") or [])
        if of_tables and config["model_type"] != "t5" and config.get("tie_word_embeddings") is not False:
            self.wrong.append(f"{what}: the merged config.json does not say that tables are apart")


def compare_keys(probe, directory, seed):
    """Each value of KEYS by itself, in the file of an adapter of llama; PEFT reads the same file. Returns what is wrong."""
    model, work = fidelity.Model("llama", "causal", {}, directory / "base"), directory / "adapters"
    model.make(random.Random(f"{seed} keys"))
    given = {"dtype": torch.float64, "attn_implementation": "eager"}
    torch.manual_seed(seed)
    adapted = peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(model.directory, **given), peft.LoraConfig(
        r=2, init_lora_weights=False, target_modules=LINEAR["llama"]))
    shutil.rmtree(work, ignore_errors=True)
    adapted.save_pretrained(work)
    file = work / "adapter_config.json"
    saved, wrong = json.loads(file.read_text()), []
    wrong += [f"adapter_config.json: no value of {field} is compared" for field in peft.LoraConfig.__dataclass_fields__ if field not in KEYS]
    for key, (values, refused) in KEYS.items():
        for value in [...] + values + refused:
            config = {k: v for k, v in {**saved, key: value}.items() if v is not ...}
            file.write_text(json.dumps(config))
            what = f"adapter_config.json, {key} " + ("left out" if value is ... else json.dumps(value))
            got = probe(**{**model.asked(), "model": str(work), "base": str(model.directory)})
            try:
                base = transformers.AutoModelForCausalLM.from_pretrained(model.directory, **given)
                with torch.no_grad():
                    want = peft.PeftModel.from_pretrained(base, work).eval()(**model.inputs()).logits.double().flatten().numpy()
            except Exception as e:
                want = f"{type(e).__name__}: {e}"
            if "refused" in got:
                allowed = key in NEEDED if value is ... else value in refused and key in got["refused"]
                if not allowed and not (value in values and isinstance(want, str)):
                    wrong.append(f"{what}: refused: {got['refused']}; PEFT: {want if isinstance(want, str) else 'loads it'}")
            elif isinstance(want, str):
                print(f"{what}: PEFT does not load it: {want[:100]}")
            elif not fidelity.differ(got["logits"], want) <= fidelity.TOLERANCE:
                wrong.append(f"{what}: {fidelity.differ(got['logits'], want):.2g} of the largest value")
            elif value is not ... and value in refused:
                wrong.append(f"{what}: heed loads it; list it so")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    compare = Comparison(fidelity.Probe(a.probe), a.directory)
    for number, (family, task, over, changes, moved, options) in enumerate(ALWAYS):
        counts = collections.Counter()
        compare(family, task, over, changes, moved, {"r": 2, "init_lora_weights": False, **options},
                random.Random(f"{a.seed} always {number}"), counts)
        if not counts["equal"]:
            compare.wrong.append(f"{family} {task}, {options}: nothing was compared")
    print(f"{len(ALWAYS)} of every run", flush=True)
    for family in LINEAR:
        draw, counts = random.Random(f"{a.seed} {family}"), collections.Counter()
        for _ in range(24 // a.each):
            task = draw.choice(fidelity.tasks_of(family))
            changes = TIED if draw.random() < 0.3 else {}
            compare(family, task, None, changes, False, choices(family, task, draw), draw, counts)
        if not counts["equal"]:
            compare.wrong.append(f"{family}: nothing was compared")
        print(f"{family}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())), flush=True)
    compare.wrong += [f"{option}: no adapter with it is equal" for option in OPTIONS if not compare.covered[option]]
    compare.wrong += compare_keys(compare.probe, a.directory, a.seed)
    wrong, refusals = compare.wrong, compare.refusals
    for (family, why, options), _ in refusals.items():
        print(f"refused: {family}: {why} {options}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
