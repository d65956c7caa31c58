#!/usr/bin/env python3
"""Prints what transformers' generate() writes with small models by settings of generation_config.json, as
tests/conformance/generation_test.cc reads it:

    make_searches.py MODELS > tests/models/searches.json

MODELS is ../shared/conformance/models.
"""
import json
import pathlib
import sys
import tempfile

import compare_generation as settings
import torch
import transformers


def rows(model, given):
    """The ids that follow each prompt, with the end."""
    found = []
    for ids in given:
        with torch.no_grad():
            written = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
        written = written[0].tolist()
        found.append({"given": ids, "ids": written[1 if model.config.is_encoder_decoder else len(ids):]})
    return found


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    models, cases = pathlib.Path(sys.argv[1]), []
    copy = pathlib.Path(tempfile.mkdtemp()) / "copy"
    for names, kind, all_settings, texts in (
            (settings.TRANSLATORS, transformers.AutoModelForSeq2SeqLM, settings.SEARCHES, settings.LINES[:3]),
            (settings.DECODERS, transformers.AutoModelForCausalLM, settings.GREEDY, settings.PROMPTS[:2])):
        for name in names:
            model, tokenizer = settings.load(models / name, kind)
            given = [tokenizer(text)["input_ids"] for text in texts]
            for more in all_settings.values():
                settings.copy_of(models / name, copy, more)
                settings.set_from(model, copy)
                fields = json.loads((copy / "generation_config.json").read_text())
                cases.append({"model": name, "fields": fields, "rows": rows(model, given)})
    print("[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases) + "\n]")


if __name__ == "__main__":
    main()
