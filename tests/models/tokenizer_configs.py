#!/usr/bin/env python3
"""Compares heed with transformers' AutoTokenizer on tokenizer_config.json, special_tokens_map.json, added_tokens.json, the
parts of tokenizer.json and the class that config.json and tokenizer_config.json name:

    tokenizer_configs.py PROBE DIRECTORY --models DIR

Each tokenizer of DIR/tokenizers, and two that are made here, are compared as it is, with one key left
out, with one key changed, and with special tokens drawn at random for all files at once, beside a tokenizer.json and
without it. Ids of texts and pairs, texts decoded from ids, the special ids, and the named tokens that chat templates read
have to be equal, or heed has to refuse a change that MAY_REFUSE lists. Prints the share that is refused.
Each key that transformers' classes read has to be in heed's table of keys (PROBE --config), and each key that heed
applies has to be changed here.
"""
import argparse
import copy
import inspect
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys

import sentencepiece
import transformers
from transformers import tokenization_python, tokenization_utils_base, tokenization_utils_tokenizers
from transformers.convert_slow_tokenizer import import_protobuf
from transformers.models.auto import tokenization_auto
from transformers.models.m2m_100 import tokenization_m2m_100

# The family of each class, which decides what AutoTokenizer makes of it.
MODELS = {"LlamaTokenizer": "llama", "GemmaTokenizer": "gemma", "NllbTokenizer": "m2m_100", "GPT2Tokenizer": "gpt2",
          "PreTrainedTokenizerFast": "llama", "Qwen2Tokenizer": "qwen2", "RobertaTokenizer": "roberta",
          "T5Tokenizer": "t5", "XLMRobertaTokenizer": "xlm-roberta", "BertTokenizer": "bert", "MarianTokenizer": "marian",
          "CodeGenTokenizer": "codegen", "M2M100Tokenizer": "m2m_100", "TokenizersBackend": "mistral"}
NAMED = {"bpe-mistral": "mistral", "bpe-phi3": "phi3"}
FILES = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "vocab.txt",
         "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "target.spm"}
TEXTS = ["", "Hello world.", "  two  spaces ", "The DOG isn't here , is it ?", "\u00c9t\u00e9 caf\u00e9 na\u00efve \u4e2d\u6587 test",
         "a <new> b<x1>c", "<s>a</s> b", "[CLS] a [SEP] [MASK] b", "<|endoftext|>a b", "line\nbreak\ttab", "don't 's 've", "x <mask> y",
         "12345 6.7", "A<unk>b", "<pad>", "\u00bfQu\u00e9?", "a ", "<x2> Hello <x2>", "---", "-----", "__es__ Hello. __de__"]
SECOND = "x <mask> y"
NEW = {"__type": "AddedToken", "content": "<new>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False,
       "special": True}
PLAIN = {key: value for key, value in NEW.items() if key != "__type"}
LISTED = {"100000": {**PLAIN, "content": "<x2>"}, "99999": {**PLAIN, "lstrip": False, "special": False, "normalized": True}}
CHANGES = {
    "bos_token": ["<new>", "a", None], "eos_token": ["<new>", NEW, None], "unk_token": ["<new>"], "sep_token": ["<new>"],
    "cls_token": ["<new>"], "pad_token": ["<new>", "a", None], "mask_token": ["<new>", NEW, None], "image_token": ["<x1>", NEW],
    "prefix_token": ["<x1>"], "middle_token": ["<x1>"], "suffix_token": ["<x1>"], "eot_token": ["<x1>"], "fill_token": ["<x1>"],
    "additional_special_tokens": [["<x1>"], ["<x1>", NEW], [], None],
    "extra_special_tokens": [["<x1>"], {"image_token": "<x1>"}, [], None],
    "model_specific_special_tokens": [{"image_token": "<x1>"}], "added_tokens_decoder": [LISTED, {}],
    "clean_up_tokenization_spaces": [True, False],
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": [True], "do_lower_case": [True, False],
    "strip_accents": [True, False], "tokenize_chinese_chars": [True, False], "add_prefix_space": [True, False],
    "legacy": [True, False], "add_bos_token": [True, False], "add_eos_token": [True, False], "truncation_side": ["left"],
    "padding_side": ["left"], "model_max_length": [5], "split_special_tokens": [True, False], "errors": ["ignore"],
    "trim_offsets": [False], "use_default_system_prompt": [True], "src_lang": ["fra_Latn", "xyz_Latn", "es", "de"],
    "language_codes": ["m2m100", "wmt21", "none"], "legacy_behaviour": [True],
    "extra_ids": [4], "model_input_names": [["input_ids", "token_type_ids"], ["input_ids"]], "something_else": [1],
    "tokenizer_class": ["PreTrainedTokenizerFast", "GPT2Tokenizer", "GPT2TokenizerFast", "RobertaTokenizer", "BartTokenizer",
                        "Qwen2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer", "LlamaTokenizer", "LlamaTokenizerFast",
                        "CodeLlamaTokenizer", "GemmaTokenizer", "NllbTokenizer", "T5Tokenizer", "XLMRobertaTokenizer", "BertTokenizer",
                        "ElectraTokenizer", "DistilBertTokenizer", "MPNetTokenizer", "UnheardTokenizer"]}
# Applied keys that no id shows.
ELSEWHERE = {"chat_template": "make_chats.py", "separate_vocabs": "Marian's target side: conformance_models_test"}
# Changes that transformers computes and heed may refuse, of these tokenizers (none: of all). A tokenizer as it is must load.
MAY_REFUSE = [
    ("", "split_special_tokens True|(tokenizer_class|model_type) .*|unk_token '<new>'"),
    ("marian", "eos_token .*"),
    ("marian m2m100 m2m100-unlisted", r"added_tokens_decoder .*|added_tokens\.json|model_input_names \['input_ids', 'token_type_ids'\]"),
    # transformers gives new tokens the ids of languages.
    ("m2m100 m2m100-unlisted", "(cls|mask|image|prefix|middle|suffix|eot|fill)_token .*|.*special_tokens .*|special_tokens_map.json .*|only there")]
# What heed may say of random special tokens that it refuses.
DRAWN_REFUSED = r"needs a \w+_token|which a word without tokens becomes|none for what is unknown|has another \w+_token in" \
    r"|is not a token|has the id \d+; heed supports only|is neither in vocab.json nor a language|the vocabulary has no" \
    r"|two of bos_token, pad_token, eos_token and unk_token are"
TYPES = ["llama", "mistral", "phi3", "qwen2", "qwen3", "gpt2", "gpt_oss", "bert", "roberta", "xlm-roberta", "umt5", "gemma3_text"]
# Parts of tokenizer.json, of which a class keeps few.
PARTS = {"normalizer": [None, {"type": "Lowercase"}, {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False,
                                                       "strip_accents": True, "lowercase": False}],
         "pre_tokenizer": [None, {"type": "Whitespace"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
                                                          "split": True}],
         "post_processor": [None], "decoder": [None, {"type": "Fuse"}], "added_tokens": [[]],
         "model.unk_token": [None], "model.fuse_unk": [True, False], "model.ignore_merges": [True], "model.byte_fallback": [False, True],
         "model.max_input_chars_per_word": [3], "model.unk_id": [1]}
CLASSES = [tokenization_auto.tokenizer_class_from_name(name) for name in (
    "GPT2Tokenizer", "CodeGenTokenizer", "GPTNeoXTokenizer", "RobertaTokenizer", "Qwen2Tokenizer", "GemmaTokenizer", "LlamaTokenizer",
    "CodeLlamaTokenizer", "NllbTokenizer", "T5Tokenizer", "XLMRobertaTokenizer", "BertTokenizer", "DistilBertTokenizer",
    "MPNetTokenizer", "MarianTokenizer", "M2M100Tokenizer", "WhisperTokenizer")]
GENERIC = ("TokenizersBackend", "PythonBackend", "PreTrainedTokenizerFast", "MistralCommonBackend")


def make_m2m100(source, to, listed=True):
    """A directory of M2M100Tokenizer as the published models have it, with the pieces of another tokenizer. `listed`:
    with a list of its languages as special tokens."""
    to.mkdir(parents=True)
    shutil.copy(source / "sentencepiece.bpe.model", to)
    model = sentencepiece.SentencePieceProcessor(model_file=str(to / "sentencepiece.bpe.model"))
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(model.id_to_piece(i) for i in range(model.get_piece_size()))]
    (to / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(dict.fromkeys(pieces))}))
    languages = [f"__{code}__" for code in tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]]
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (to / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "M2M100Tokenizer", "src_lang": "fr", "tgt_lang": None, "language_codes": "m2m100",
         "num_madeup_words": 8, **tokens}))
    (to / "special_tokens_map.json").write_text(json.dumps(
        {**tokens, **({"additional_special_tokens": languages} if listed else {})}))
    return to


def make_pieces(source, to):
    """A sentencepiece model by itself, for no class of its own, which names its ends in its own way."""
    to.mkdir(parents=True)
    model = import_protobuf().ModelProto()
    model.ParseFromString((source / "tokenizer.model").read_bytes())
    model.trainer_spec.bos_id = -1
    model.trainer_spec.eos_piece = model.pieces[2].piece = "<end>"
    (to / "tokenizer.model").write_bytes(model.SerializeToString())
    (to / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "TokenizersBackend", "add_bos_token": True, "add_eos_token": True}))
    return to


def ask(probe, directory, lines):
    result = subprocess.run([probe, directory], input="".join(json.dumps(line) + "\n" for line in lines).encode(),
                            capture_output=True, check=False)
    return [json.loads(line) for line in result.stdout.decode().splitlines()], result.stderr.decode().strip()


def difference(probe, directory):
    """Nothing where it is equal, "refused" with why, or what differs."""
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    lines = [{"text": text} for text in TEXTS] + [{"text": TEXTS[1], "second": SECOND, "special_ids": True}]
    answers, errors = ask(probe, directory, lines)
    if len(answers) < len(TEXTS) + 1:
        return "refused", errors
    rows = []
    for text, answer in zip(TEXTS, answers):
        for special in (True, False):
            want, got = theirs(text, add_special_tokens=special)["input_ids"], answer["special" if special else "plain"]["ids"]
            if want != got:
                return "different", f"ids of {text!r}, special tokens {special}: {want} and not {got}"
        rows.append(answer["special"]["ids"])
    pair, got = theirs(TEXTS[1], SECOND), answers[-1]
    if pair["input_ids"] != got["special"]["ids"]:
        return "different", f"ids of a pair: {pair['input_ids']} and not {got['special']['ids']}"
    if ("token_type_ids" in pair) != got["types"]:
        return "different", f"model_input_names {list(pair)}, but types is {got['types']}"
    if got["types"] and pair["token_type_ids"] != got["special"]["type_ids"]:
        return "different", f"types of a pair: {pair['token_type_ids']} and not {got['special']['type_ids']}"
    if (theirs.truncation_side == "left") != got["cuts_left"]:
        return "different", f"truncation_side {theirs.truncation_side}"
    if sorted(theirs.all_special_ids) != answers[-1].get("special_ids", []):
        return "different", f"all_special_ids {sorted(theirs.all_special_ids)} and not {answers[-1].get('special_ids')}"
    named = json.loads(subprocess.run([probe, "--named", directory], capture_output=True, check=True).stdout)
    for name, token in theirs.special_tokens_map.items():
        if named["tokens"].get(name) != token and (named["complete"] or name in named["none"] or name in named["tokens"]):
            return "different", f"{name} {token!r} and not {named['tokens'].get(name)!r}"
    if more := set(named["tokens"]) - set(theirs.special_tokens_map):
        return "different", f"named tokens {more}, which transformers does not have"
    decoded, errors = ask(probe, directory, [{"ids": row} for row in rows])
    for row, answer in zip(rows, decoded):
        for skip in (True, False):
            want, got = theirs.decode(row, skip_special_tokens=skip), answer["decoded_skip_special" if skip else "decoded"]
            if want != got:
                return "different", f"text of {row}, skip {skip}: {want!r} and not {got!r}"
    return None


def keys_of_transformers():
    """The keys that transformers' classes read in tokenizer_config.json."""
    keys = {"tokenizer_class"}
    bases = (tokenization_utils_base.PreTrainedTokenizerBase, tokenization_utils_tokenizers.TokenizersBackend,
             tokenization_python.PythonBackend)
    for base in bases:
        for name in ("__init__", "_from_pretrained", "convert_to_native_format", "_patch_mistral_regex"):
            if name in vars(base):
                source = inspect.getsource(getattr(base, name))
                keys |= set(re.findall(r'kwargs\.(?:pop|get|setdefault)\(\s*"(\w+)"', source))
                keys |= set(re.findall(r'"(\w+)" (?:not )?in (?:init_|local_)?kwargs\b', source))
    keys |= set(re.findall(r'"(\w+)" in tokenizer_config\b', inspect.getsource(bases[0].from_pretrained)))
    keys |= set(re.findall(r'tokenizer_config\.get\("(\w+)"', inspect.getsource(tokenization_auto.AutoTokenizer.from_pretrained)))
    for tokenizer in CLASSES:
        keys |= {name for name, parameter in inspect.signature(tokenizer.__init__).parameters.items()
                 if name != "self" and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)}
    return keys | set(bases[0].SPECIAL_TOKENS_ATTRIBUTES)


def check_table(probe):
    """What heed's table lacks."""
    table = json.loads(subprocess.run([probe, "--config"], capture_output=True, check=True).stdout)
    uses = {key: use for key, use, _ in table["keys"]}
    wrong = [f"transformers reads {key}, which is not in kConfigKeys" for key in sorted(keys_of_transformers() - set(uses))]
    wrong += [f"{key} is applied and not in CHANGES" for key, use in uses.items()
              if use == "applied" and key not in CHANGES and key not in ELSEWHERE]
    wrong += [f"{key} has no reason or value" for key, use, why in table["keys"] if use != "applied" and not why]
    names = {name.removesuffix("Fast") for name in table["classes"]} | {"TokenizersBackend"}
    ours = {model: name for name, models in table["classes"].items() for model in models}
    for model, name in tokenization_auto.TOKENIZER_MAPPING_NAMES.items():
        want = "TokenizersBackend" if name in GENERIC else (name or "").removesuffix("Fast")
        if want in names and ours.get(model) != want:
            wrong.append(f"the class of {model} is {want} and not {ours.get(model)}")
    if set(table["overruled"]) != tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS:
        wrong.append("kOverruled is not MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS")
    for alias, name in table["aliases"].items():
        found = tokenization_auto.tokenizer_class_from_name(alias).__name__
        if ("TokenizersBackend" if found in GENERIC else found) != name:
            wrong.append(f"{alias} is {found} and not {name}")
    print(f"tokenizer_config.json: {len(uses)} keys, {sum(use == 'applied' for use in uses.values())} of them applied")
    return wrong


def plans_of(source):
    """(what, tokenizer_config.json, special_tokens_map.json, other files, model_type)"""
    given = json.loads((source / "tokenizer_config.json").read_text())
    table = source / "special_tokens_map.json"
    mapped = json.loads(table.read_text()) if table.exists() else None
    model = NAMED.get(source.name, MODELS[given["tokenizer_class"]])
    yield "as it is", given, mapped, {}, model
    yield "without tokenizer_config.json", None, mapped, {}, model
    for key in given:
        yield f"{key} left out", {k: v for k, v in given.items() if k != key}, mapped, {}, model
    for key, values in CHANGES.items():
        for value in values:
            yield f"{key} {value!r}", {**given, key: value}, mapped, {}, model
    for key, value in [("pad_token", "<new>"), ("mask_token", PLAIN), ("additional_special_tokens", ["<x1>"]),
                       ("extra_special_tokens", ["<x1>", PLAIN]), ("image_token", "<x1>")]:
        yield f"special_tokens_map.json with {key}", given, {**(mapped or {}), key: value}, {}, model
        if key == "additional_special_tokens":
            yield "only there", {k: v for k, v in given.items() if k != key}, {**(mapped or {}), key: value}, {}, model
    yield "added_tokens.json", given, mapped, {"added_tokens.json": {"<x2>": 100000, "<new>": 99999}}, model
    for other in TYPES:
        yield f"model_type {other}", given, mapped, {}, other
    unnamed = {key: value for key, value in given.items() if key != "tokenizer_class"}
    for other in TYPES:
        yield f"model_type {other}, no class", unnamed, mapped, {}, other
    if (source / "tokenizer.json").exists():
        whole = json.loads((source / "tokenizer.json").read_text())
        for part, values in PARTS.items():
            for value in values:
                changed = copy.copy(whole)
                if part.startswith("model."):
                    changed["model"] = {**whole["model"], part.removeprefix("model."): value}
                else:
                    changed[part] = value
                yield f"{part} {value!r}", given, mapped, {"tokenizer.json": changed}, model


def drawn_plan(draw, source):
    """Special tokens in all files, some of them several times, with other attributes, in all forms."""
    given = json.loads((source / "tokenizer_config.json").read_text())
    table = source / "special_tokens_map.json"
    mapped = json.loads(table.read_text()) if table.exists() else {}
    model = NAMED.get(source.name, MODELS[given["tokenizer_class"]])
    contents = ["<new>", "<x1>", "<x2>", "Dog", "</s>", "a", "<N>"]

    def flags():
        token = {"content": draw.choice(contents)}
        for key in ("lstrip", "rstrip", "normalized", "single_word", "special"):
            if draw.random() < 0.5:
                token[key] = draw.random() < 0.5
        return token

    def token(map_=False):
        if draw.random() < 0.4:
            return draw.choice(contents)
        made = flags()
        return made if map_ or draw.random() < 0.05 else {**made, "__type": "AddedToken"}

    def tokens():
        return [token() for _ in range(draw.randint(0, 3))]

    def names():
        return {draw.choice(["image_token", "bos_token", "sound", "pad_token"]): token() for _ in range(draw.randint(0, 2))}

    config, others = dict(given), {}
    if draw.random() < 0.7:
        config.pop("added_tokens_decoder", None)
    for key in draw.sample(["bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "image_token", "cls_token"], 3):
        for file in (config, mapped):
            if draw.random() < 0.4:
                file[key] = draw.choice([None, token(file is mapped)])
            elif draw.random() < 0.2:
                file.pop(key, None)
    for key, values in [("extra_special_tokens", [tokens, names]), ("additional_special_tokens", [tokens]),
                        ("model_specific_special_tokens", [names])]:
        for file in (config, mapped):
            if draw.random() < 0.3 and not (file is mapped and key == "model_specific_special_tokens"):
                file[key] = draw.choice([None, draw.choice(values)()]) if draw.random() < 0.3 else draw.choice(values)()
    if draw.random() < 0.3:
        config["added_tokens_decoder"] = {str(draw.randint(0, 4) + 90000): flags() for _ in range(draw.randint(0, 4))}
    if draw.random() < 0.2:
        others["added_tokens.json"] = {draw.choice(contents): 100000 + i for i in range(2)}
    if (source / "tokenizer.json").exists() and draw.random() < 0.8:
        whole = json.loads((source / "tokenizer.json").read_text())
        whole["added_tokens"] += [
            {"id": 100000 + i, **dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized", "special"), False), **flags()}
            for i in range(draw.randint(0, 3))]
        if draw.random() < 0.3:
            whole["padding"] = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                                "pad_type_id": 0, "pad_token": draw.choice(contents)}
        if draw.random() < 0.3:
            whole["truncation"] = {"direction": draw.choice(["Left", "Right"]), "max_length": 512, "strategy": "LongestFirst",
                                   "stride": 0}
        others["tokenizer.json"] = whole
    return config, mapped if mapped or draw.random() < 0.5 else None, others, model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drawn", type=int, default=20, help="directories with random special tokens of each tokenizer")
    parser.add_argument("--refusals", action="store_true")
    parser.add_argument("names", nargs="*", help="directories, all of them if none is named")
    a = parser.parse_intermixed_args()
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    wrong, refusals = check_table(a.probe), []
    made = [make_m2m100(a.models / "tokenizers/unigram-xlm-roberta", a.directory / name, listed)
            for name, listed in (("m2m100", True), ("m2m100-unlisted", False))]
    pieces = make_pieces(a.models / "tokenizers/bpe-mistral", a.directory / "pieces")
    for source in [*sorted((a.models / "tokenizers").iterdir()), *made, pieces]:
        if a.names and source.name not in a.names:
            continue
        counts = {"equal": 0, "refused": 0, "different": 0, "not legal": 0, "foreign": 0}
        has_json = (source / "tokenizer.json").exists()
        draw = random.Random(f"{a.seed} {source.name}")
        drawn = [(f"drawn {number}", *drawn_plan(draw, source)) for number in range(a.drawn)]
        for number, (what, config, special, others, model) in enumerate([*plans_of(source), *drawn]):
            for bare in (False, True) if has_json and len(list(source.glob("*"))) > 3 else (False,):
                if (number > 1 and not what.startswith("drawn") and (number + bare) % a.each != a.seed % a.each) or (bare and "tokenizer.json" in others):
                    continue
                to = a.directory / "tokenizer"
                shutil.rmtree(to, ignore_errors=True)
                to.mkdir(parents=True)
                for file in source.iterdir():
                    if file.name in FILES and not (bare and file.name == "tokenizer.json"):
                        shutil.copy(file, to)
                (to / "tokenizer_config.json").unlink()
                written = {**others, "config.json": {"model_type": model}, "tokenizer_config.json": config,
                           "special_tokens_map.json": special}
                for name, content in written.items():
                    if content is not None:
                        (to / name).write_text(json.dumps(content))
                name = f"{source.name}{', bare' if bare else ''}, {what}"
                try:
                    found = difference(a.probe, to)
                except BaseException as e:  # transformers refuses, by any exception; tokenizers panics with a BaseException
                    if isinstance(e, (KeyboardInterrupt, subprocess.SubprocessError, OSError)) and "vocab" not in str(e):
                        raise
                    counts["not legal"] += 1
                    if number == 0:
                        wrong.append(f"wrong: {name}: transformers refuses it: {e}")
                    continue
                foreign = found and found[0] == "refused" and re.match("tokenizer_class|model_type", what)
                counts["foreign" if foreign else found[0] if found else "equal"] += 1
                may = what.startswith("drawn") and found and re.search(DRAWN_REFUSED, found[1]) or any(source.name in (names or source.name).split() and re.fullmatch(pattern, what) for names, pattern in MAY_REFUSE)
                if found and found[0] == "refused" and not may:
                    wrong.append(f"wrong: {name}: refused: {found[1][-200:]}")
                elif found and found[0] == "refused":
                    refusals.append(f"refused: {name}: {found[1][-200:]}")
                elif found:
                    wrong.append(f"wrong: {name}: {found[1]}")
        tried = counts["equal"] + counts["refused"] + counts["different"]
        print(f"{source.name}: {counts['equal']} equal, {counts['refused']} refused "
              f"({100 * counts['refused'] / max(tried, 1):.0f} %), {counts['different']} differ, "
              f"{counts['not legal']} not legal, "
              f"{counts['foreign']} refused with the class of another kind of model", flush=True)
        if not counts["equal"]:
            wrong.append(f"wrong: {source.name}: nothing was compared")
    print("\n".join((refusals if a.refusals else []) + wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
