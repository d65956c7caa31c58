#!/usr/bin/env python3
"""Compares heed with transformers' AutoTokenizer on the keys of tokenizer_config.json and special_tokens_map.json:

    tokenizer_configs.py PROBE DIRECTORY --models DIR

Each tokenizer of DIR/tokenizers as it is, with one key left out, and with one key changed, beside a tokenizer.json and
without it. Ids, and texts decoded from ids, have to be equal, or heed has to refuse. Prints the share that is refused.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import transformers

# The family of each class, which decides what AutoTokenizer makes of it.
MODELS = {"LlamaTokenizer": "llama", "GemmaTokenizer": "gemma", "NllbTokenizer": "m2m_100", "GPT2Tokenizer": "gpt2",
          "PreTrainedTokenizerFast": "llama", "Qwen2Tokenizer": "qwen2", "RobertaTokenizer": "roberta",
          "T5Tokenizer": "t5", "XLMRobertaTokenizer": "xlm-roberta", "BertTokenizer": "bert", "MarianTokenizer": "marian",
          "CodeGenTokenizer": "codegen"}
NAMED = {"bpe-mistral": "mistral", "bpe-phi3": "phi3"}
FILES = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model",
         "spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm"}
TEXTS = ["", "Hello world.", "  two  spaces ", "The DOG isn't here , is it ?", "\u00c9t\u00e9 caf\u00e9 na\u00efve \u4e2d\u6587 test",
         "a <new> b<x1>c", "<s>a</s> b", "[CLS] a [SEP] [MASK] b", "<|endoftext|>a b", "line\nbreak\ttab", "don't 's 've", "x <mask> y",
         "12345 6.7", "A<unk>b", "<pad>", "\u00bfQu\u00e9?"]
NEW = {"content": "<new>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False, "special": True}
CHANGES = {
    "bos_token": ["<new>", "a"], "eos_token": ["<new>", NEW], "unk_token": ["<new>"], "sep_token": ["<new>"],
    "cls_token": ["<new>"], "pad_token": ["<new>", "a"], "mask_token": ["<new>", NEW], "image_token": ["<x1>"],
    "additional_special_tokens": [["<x1>"], ["<x1>", NEW]], "extra_special_tokens": [["<x1>"], {"image_token": "<x1>"}],
    "clean_up_tokenization_spaces": [True, False], "do_lower_case": [True, False], "strip_accents": [True, False],
    "tokenize_chinese_chars": [True, False], "add_prefix_space": [True, False], "legacy": [True, False],
    "add_bos_token": [True, False], "add_eos_token": [True, False], "truncation_side": ["left"], "padding_side": ["left"],
    "model_max_length": [5], "split_special_tokens": [True, False], "errors": ["ignore"], "trim_offsets": [False],
    "use_default_system_prompt": [True], "src_lang": ["fra_Latn"], "legacy_behaviour": [True], "extra_ids": [4],
    "something_else": [1]}


def ask(probe, directory, lines):
    result = subprocess.run([probe, directory], input="".join(json.dumps(line) + "\n" for line in lines).encode(),
                            capture_output=True, check=False)
    return [json.loads(line) for line in result.stdout.decode().splitlines()], result.stderr.decode().strip()


def difference(probe, directory):
    """Nothing where it is equal, "refused" with why, or what differs."""
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    answers, errors = ask(probe, directory, [{"text": text} for text in TEXTS])
    if len(answers) < len(TEXTS):
        return "refused", errors
    rows = []
    for text, answer in zip(TEXTS, answers):
        for special in (True, False):
            want, got = theirs(text, add_special_tokens=special)["input_ids"], answer["special" if special else "plain"]["ids"]
            if want != got:
                return "different", f"ids of {text!r}, special tokens {special}: {want} and not {got}"
        rows.append(answer["special"]["ids"])
    decoded, errors = ask(probe, directory, [{"ids": row} for row in rows])
    for row, answer in zip(rows, decoded):
        for skip in (True, False):
            want, got = theirs.decode(row, skip_special_tokens=skip), answer["decoded_skip_special" if skip else "decoded"]
            if want != got:
                return "different", f"text of {row}, skip {skip}: {want!r} and not {got!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--refusals", action="store_true")
    a = parser.parse_args()
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    wrong, refusals = [], []
    for source in sorted((a.models / "tokenizers").iterdir()):
        given = json.loads((source / "tokenizer_config.json").read_text())
        table = source / "special_tokens_map.json"
        mapped = json.loads(table.read_text()) if table.exists() else None
        plans = [("as it is", given, mapped), ("without tokenizer_config.json", None, mapped)]
        plans += [(f"{key} left out", {k: v for k, v in given.items() if k != key}, mapped) for key in given if key != "tokenizer_class"]
        plans += [(f"{key} {value!r}", {**given, key: value}, mapped) for key, values in CHANGES.items() for value in values]
        plans += [(f"special_tokens_map.json with {key}", given, {**(mapped or {}), key: value}) for key, value in
                  [("pad_token", "<new>"), ("mask_token", NEW), ("additional_special_tokens", ["<x1>"])]]
        counts = {"equal": 0, "refused": 0, "different": 0, "not legal": 0}
        has_json = (source / "tokenizer.json").exists()
        for number, (what, config, special) in enumerate(plans):
            for bare in (False, True) if has_json and len(list(source.glob("*"))) > 3 else (False,):
                if number > 1 and (number + bare) % a.each != a.seed % a.each:
                    continue
                to = a.directory / "tokenizer"
                shutil.rmtree(to, ignore_errors=True)
                to.mkdir(parents=True)
                for file in source.iterdir():
                    if file.name in FILES and not (bare and file.name == "tokenizer.json"):
                        shutil.copy(file, to)
                (to / "config.json").write_text(json.dumps(
                    {"model_type": NAMED.get(source.name, MODELS[given["tokenizer_class"]])}))
                (to / "tokenizer_config.json").unlink()
                if config is not None:
                    (to / "tokenizer_config.json").write_text(json.dumps(config))
                if special is not None:
                    (to / "special_tokens_map.json").write_text(json.dumps(special))
                try:
                    found = difference(a.probe, to)
                except (ValueError, TypeError, KeyError, AttributeError, OSError, ImportError) as e:  # transformers refuses
                    counts["not legal"] += 1
                    if number == 0:
                        print(f"{source.name}: transformers refuses it as it is: {e}")
                    continue
                counts[found[0] if found else "equal"] += 1
                name = f"{source.name}{', bare' if bare else ''}, {what}"
                if found and found[0] == "refused":
                    refusals.append(f"refused: {name}: {found[1][-200:]}")
                elif found:
                    wrong.append(f"wrong: {name}: {found[1]}")
        tried = counts["equal"] + counts["refused"] + counts["different"]
        print(f"{source.name}: {counts['equal']} equal, {counts['refused']} refused "
              f"({100 * counts['refused'] / max(tried, 1):.0f} %), {counts['different']} differ", flush=True)
    print("\n".join((refusals if a.refusals else []) + wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
