#!/usr/bin/env python3
"""Compares heed with PEFT on random adapters, as PEFT saves them, of random models of every family:

    adapters.py PROBE DIRECTORY [--seed N] [--each N]

Logits have to be equal to 1e-4, also those of the merged model that heed saves and transformers loads. Every adapter that PEFT makes has to load, but for those with lora_bias.
--each makes 24 / N adapters of each family.
"""
import argparse
import collections
import pathlib
import random
import shutil
import sys
import warnings

import numpy as np
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


def loaded_again(kind, saved, model, task, got):
    """How much transformers' result of the merged model that heed saved differs."""
    with torch.no_grad():
        out = kind.from_pretrained(saved, dtype=torch.float64, attn_implementation="eager").eval()(**model.inputs())
    return fidelity.differ(got, np.asarray(values_of(out, task).double()).flatten())


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
    probe = fidelity.Probe(a.probe)
    wrong, refusals = [], collections.Counter()
    for family in LINEAR:
        draw, counts = random.Random(f"{a.seed} {family}"), collections.Counter()
        for _ in range(24 // a.each):
            task = draw.choice(fidelity.tasks_of(family))
            model = fidelity.Model(family, task, {"tie_word_embeddings": True} if draw.random() < 0.3 else {},
                                   a.directory / "base")
            options = choices(family, task, draw)
            shutil.rmtree(a.directory / "adapters", ignore_errors=True)
            try:
                model.make(draw)
                torch.manual_seed(draw.randrange(1 << 30))
                kind = fidelity.class_of(task, family)
                adapted = peft.get_peft_model(
                    kind.from_pretrained(model.directory, dtype=torch.float64, attn_implementation="eager"),
                    peft.LoraConfig(**options)).eval()
                with torch.no_grad():
                    for _, parameter in adapted.named_parameters():
                        if parameter.requires_grad:
                            parameter.add_(torch.randn_like(parameter) * 0.1)
                    out = adapted(**model.inputs())
                values = values_of(out, task)
                adapted.save_pretrained(a.directory / "adapters")
            except (fidelity.Refused, ValueError, TypeError, RuntimeError, NotImplementedError, KeyError, AttributeError):
                counts["not legal"] += 1
                continue
            saved = a.directory / "merged"
            shutil.rmtree(saved, ignore_errors=True)
            got = probe(**{**model.asked(), "model": str(a.directory / "adapters"), "base": str(model.directory),
                           "save": str(saved)})
            if "refused" in got:
                counts["refused"] += 1
                refusals[family, got["refused"].split("/")[-1][:200], str(options)] += 1
                if not options.get("lora_bias"):
                    wrong.append(f"{family} {task}, {options}: refused: {got['refused']}")
                continue
            difference = fidelity.differ(got["logits"], np.asarray(values.double()).flatten())
            difference = max(difference, loaded_again(kind, saved, model, task, got["logits"]))
            counts["equal" if difference <= fidelity.TOLERANCE else "different"] += 1
            if not difference <= fidelity.TOLERANCE:
                wrong.append(f"{family} {task}, {options}, {model.changes}: {difference:.2g} of the largest value")
        if not counts["equal"]:
            wrong.append(f"{family}: nothing was compared")
        print(f"{family}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())), flush=True)
    for (family, why, options), _ in refusals.items():
        print(f"refused: {family}: {why} {options}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
