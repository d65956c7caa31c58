#!/usr/bin/env python3
"""Compares heed with transformers on files that hold other heads than config.json names:

    heads.py PROBE DIRECTORY [--seed N] [--each N] [--families NAME...]

Every family is stored with each of its heads, with a part of it, and without one. "architectures" names each class of the
family in turn, or none. The states are those of AutoModel (of T5's encoder alone: T5EncoderModel) to 1e-4. Logits are
those of the named class if transformers finds all of its tensors, and else heed has to load the model without a head: what
transformers would draw at random is never used. Tensors that no class has are refused. --each takes every Nth model.
"""
import argparse
import json
import pathlib
import random
import sys
import warnings

import torch
import transformers
from safetensors.torch import load_file, save_file

import fidelity

# Classes with heads that heed does not have.
UNKNOWN = {"bert": ["BertForNextSentencePrediction", "BertForMultipleChoice"], "gpt2": ["GPT2ForTokenClassification"],
           "llama": ["LlamaForTokenClassification"], "bart": ["BartForQuestionAnswering"],
           "t5": ["T5ForTokenClassification", "T5ForSequenceClassification", "T5ForQuestionAnswering"],
           "vit": ["ViTForMaskedImageModeling"],
           **{f: [f"{p}ForMultipleChoice"] for f, p in
              (("distilbert", "DistilBert"), ("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"), ("mpnet", "MPNet"))}}
# The class that a command would take if none is named.
DEFAULT = {**{f: transformers.AutoModelForCausalLM for f in fidelity.DECODERS},
           **{f: transformers.AutoModelForMaskedLM for f in fidelity.ENCODERS},
           **{f: transformers.AutoModelForSeq2SeqLM for f in ("bart", "marian", "m2m_100", "t5")},
           "whisper": transformers.AutoModelForSpeechSeq2Seq}


def classes_of(family):
    """The model classes that are stored and named."""
    config = transformers.CONFIG_MAPPING[family]
    tasks = list(dict.fromkeys([*fidelity.tasks_of(family), "states"]))
    known = [fidelity.class_of(t, family)._model_mapping[config] if t != "encoder" else transformers.T5EncoderModel for t in tasks]
    return known, [getattr(transformers, name) for name in UNKNOWN.get(family, [])]


class Case:
    def __init__(self, family, directory):
        self.family, self.directory = family, pathlib.Path(directory)
        self.model = None

    def store(self, kind, tied, draw):
        task = "text_classes" if "SequenceClassification" in kind.__name__ else "seq2seq" if self.family in DEFAULT else "states"
        more = {} if tied is None else {"tie_word_embeddings": tied}
        self.model = fidelity.Model(self.family, task, more, self.directory)
        class_of, fidelity.class_of = fidelity.class_of, lambda *_: Config(kind)
        try:
            self.model.make(draw)
        finally:
            fidelity.class_of = class_of

    def name(self, architectures):
        config = {k: v for k, v in self.model.config.items() if k != "architectures"}
        if architectures:
            config["architectures"] = [architectures]
        (self.directory / "config.json").write_text(json.dumps(config))

    def inputs(self, kind):
        inputs = self.model.inputs()
        decodes = any(part in kind.__name__ for part in ("ConditionalGeneration", "MTModel")) or \
            kind in (transformers.BartModel, transformers.T5Model, transformers.MarianModel, transformers.M2M100Model,
                     transformers.WhisperModel)
        if "decoder_input_ids" in inputs and not decodes:
            del inputs["decoder_input_ids"]
        elif decodes:
            inputs["decoder_input_ids"] = torch.tensor([self.model.target])
        return inputs

    def computed(self, kind, states):
        """What the class computes, or None if the file lacks tensors of it that matter."""
        loaded, info = kind.from_pretrained(self.directory, dtype=torch.float64, attn_implementation="eager",
                                            output_loading_info=True,
                                            **({"experts_implementation": "eager"} if self.family == "gpt_oss" else {}))
        kind = type(loaded)
        pools = kind.__name__ == "BertForSequenceClassification"
        missing = [name for name in info["missing_keys"] if pools or "pooler" not in name]
        # Marian's positions are computed, and no task of heed's reads which sentence follows.
        missing = [name for name in missing if "cls.seq_relationship" not in name and "embed_positions" not in name]
        if missing:
            return None
        with torch.no_grad():
            out = loaded.eval()(**self.inputs(kind), return_dict=True)
        if states:
            values = out.last_hidden_state
        elif "start_logits" in out:
            values = torch.stack([out.start_logits, out.end_logits], -1)
        else:
            values = out.logits if "logits" in out else out.prediction_logits if "prediction_logits" in out else out.last_hidden_state
        return values.double().flatten().numpy()


class Config:
    """A class by the calls that fidelity.Model makes of an Auto class."""

    def __init__(self, kind):
        self.kind = kind

    def from_config(self, config):
        return self.kind(config)


def damaged(directory, draw, body):
    """Takes one tensor of the head away."""
    tensors = load_file(directory / "model.safetensors")
    of_head = sorted(name for name in tensors if not any(name.endswith(b) for b in body))
    if not of_head:
        return ""
    name = draw.choice(of_head)
    del tensors[name]
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return name


def add_tensor(directory, name):
    tensors = load_file(directory / "model.safetensors")
    save_file({**tensors, name: torch.zeros(3)}, directory / "model.safetensors", metadata={"format": "pt"})


class Comparison:
    def __init__(self, probe):
        self.probe, self.wrong, self.compared, self.headless = probe, [], 0, 0

    def __call__(self, case, kind, known, what):
        """`kind`: the class that is named, or None."""
        body = transformers.AutoModel
        if case.family == "t5" and (kind is transformers.T5EncoderModel or not any(
                "decoder.block" in name for name in load_file(case.directory / "model.safetensors"))):
            body = transformers.T5EncoderModel
        states = case.computed(body, states=True)
        if states is None:  # the file holds no model of this family
            return
        bare = kind is None or kind.__name__.endswith("Model") and not kind.__name__.endswith(("LMHeadModel", "MTModel"))
        logits = None
        if kind is not transformers.T5EncoderModel and body is not transformers.T5EncoderModel:
            try:
                logits = case.computed(DEFAULT[case.family], False) if bare and case.family in DEFAULT else \
                    case.computed(kind, False) if kind in known else None
            except RuntimeError:  # tensors of another shape; heed does not look at those of a part of a head
                return None if "without" in what else self.expect_refused(case, what, "the configuration asks for")
        self.expect(case, {"states": True}, states, f"{what}: states")
        self.headless += logits is None
        self.expect(case, {"states": False}, states if logits is None else logits,
                    f"{what}: " + ("no head" if logits is None else "logits"))

    def expect(self, case, asked, want, what):
        self.compared += 1
        got = self.probe(**{**case.model.asked(), **asked})
        if "refused" in got:
            self.wrong.append(f"{what}: refused: {got['refused']}")
        elif not (difference := fidelity.differ(got["logits"], want)) <= fidelity.TOLERANCE:
            self.wrong.append(f"{what}: {difference:.2g} of the largest value")

    def expect_refused(self, case, what, why="has no place"):
        got = self.probe(**case.model.asked())
        self.compared += 1
        if why not in got.get("refused", ""):
            self.wrong.append(f"{what}: it is not refused: {got.get('refused', '')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=1, help="take every Nth model")
    parser.add_argument("--families", nargs="*", default=list(fidelity.FAMILIES))
    a = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    transformers.logging.disable_progress_bar()
    compare = Comparison(fidelity.Probe(a.probe))
    for family in a.families:
        draw, number, before = random.Random(f"{a.seed} {family}"), 0, compare.compared
        known, unknown = classes_of(family)
        case = Case(family, a.directory / "model")
        for tied in [True, False] if family not in ("vit", "t5") else [None]:
            case.store(transformers.AutoModel._model_mapping[transformers.CONFIG_MAPPING[family]], tied, draw)
            body = {name.split(".", 1)[-1] for name in load_file(case.directory / "model.safetensors")}
            for stored in [*known, *unknown]:
                for how in "whole", "damaged", "unknown tensor":
                    number += 1
                    if number % a.each:
                        continue
                    case.store(stored, tied, draw)
                    what = f"{family}, tied {tied}, stored {stored.__name__} ({how}"
                    if how == "damaged":
                        gone = damaged(case.directory, draw, body)
                        if not gone:
                            continue
                        what += f", without {gone}"
                    if how == "unknown tensor":
                        add_tensor(case.directory, draw.choice(["other_head.weight", "lm_head.adapter.weight"]))
                        compare.expect_refused(case, what + ")")
                        continue
                    for named in [None, *known, *unknown]:
                        case.name(named and named.__name__)
                        compare(case, named, known, f"{what}), named {named and named.__name__}")
        print(f"{family}: {compare.compared - before} compared", flush=True)
    print(f"{compare.compared} compared, {compare.headless} models without the head that was asked for")
    print("\n".join(compare.wrong))
    return 1 if compare.wrong or not compare.headless else 0


if __name__ == "__main__":
    sys.exit(main())
