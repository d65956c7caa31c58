#!/usr/bin/env python3
"""Compares the table of families in a document with what a run of scripts/test-models has shown:

    families.py DOCUMENT MADE TRAINED READ [--write]

MADE and TRAINED are folders of cases, each with results.json, which conformance_models_test wrote of them; READ is what
compare_reading.py wrote. A cell is what some case has shown and none has failed. --write puts the table in.
"""
import argparse
import collections
import json
import pathlib
import sys

BEGIN, END = "<!-- families: what scripts/test-models shows -->\n", "<!-- families end -->\n"
COLUMNS = ["logits, states, maps", "gradients", "used", "saved", "trained", "loads in transformers"]
# What a test shows of the models that were made; the class of models is told by the folder's task.
SHOWN = {"StatesMapsAndLogits": ("logits, states, maps", "yes"), "LossAndGradients": ("gradients", "yes"),
         "SavedAsItCame": ("saved", "yes"), "ContinuesGreedily": ("used", "generates"),
         "TranslatesGreedilyAndByBeams": ("used", "translates"), "TranscribesGreedily": ("used", "transcribes"),
         "PreparesPictures": ("used", "classifies")}


def passed(folder):
    """(test, facts of its case) of all that ran and held."""
    for suite in json.loads((folder / "results.json").read_text())["testsuites"]:
        for test in suite["testsuite"]:
            if test["result"] == "COMPLETED" and "failures" not in test:
                case = folder / json.loads(test["value_param"])
                if (case / "model.gguf").exists():
                    continue
                yield test["name"].split("/")[0], json.loads((case / "expected.json").read_text())


def shown(made, trained, read):
    families = collections.defaultdict(dict)
    for test, facts in passed(made):
        if test in SHOWN:
            column, word = SHOWN[test]
            families[facts["model_type"]][column] = word
    for model_type in json.loads(read.read_text()):
        families[model_type]["used"] = "classifies, fills, embeds"
    for test, facts in passed(trained):
        if test == "StatesMapsAndLogits":
            row = families[facts["model_type"]]
            row["loads in transformers"] = "yes"
            if facts["written_by"] == "train":
                row["trained"] = "yes"
    return families


def table(families):
    lines = ["| model_type | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for model_type in sorted(families):
        lines.append(f"| {model_type} | " + " | ".join(families[model_type].get(c, "no") for c in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in "document", "made", "trained", "read":
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    a = parser.parse_args()
    before, rest = a.document.read_text().split(BEGIN)
    written, after = rest.split(END)
    now = table(shown(a.made, a.trained, a.read))
    if a.write:
        a.document.write_text(before + BEGIN + now + END + after)
    elif now != written:
        sys.exit(f"{a.document} has\n{written}and this run has shown\n{now}"
                 "Mend what is missing, or write the table by families.py --write.")


if __name__ == "__main__":
    main()
