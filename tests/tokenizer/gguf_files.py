"""Tokenizers of tokenizer.json files, as llama.cpp's converter puts them into GGUF files."""
import copy
import json

import gguf

# tokenizer.ggml.model and .pre of tokenizers that a GGUF file can hold, by the beginning of their names.
KINDS = {"bpe-llama": ("llama", "default"), "bpe-phi3": ("llama", "default"), "bpe-gemma": ("llama", "default"),
         "bytelevel-gpt2": ("gpt2", "gpt-2"), "real-phi-2": ("gpt2", "gpt-2"),
         "bytelevel-llama3": ("gpt2", "llama-bpe"), "bytelevel-qwen2": ("gpt2", "qwen2"), "wordpiece-": ("bert", "default")}




def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
BYTES_OF_WORDS = {**BYTES, "use_regex": True}
# llama.cpp's for files without tokenizer.ggml.pre.
DEFAULT = sequence(split(r"[\p{P}\$\+<=>\^~\|]+"),
                   split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"), split(r"\p{N}+"),
                   split("[0-9][0-9][0-9]"), BYTES)
# tokenizer.ggml.pre, and the normalizer and the pre-tokenizer in the tokenizer.json of its models.
WORDS = {
    "mpt": ({"type": "NFC"}, BYTES_OF_WORDS),
    "command-r": ({"type": "NFC"}, sequence({"type": "Digits", "individual_digits": True}, BYTES_OF_WORDS)),
    "smollm": (None, sequence({"type": "Digits", "individual_digits": True}, BYTES_OF_WORDS)),
    "falcon": (None, sequence({"type": "Punctuation", "behavior": "Contiguous"}, BYTES_OF_WORDS,
                              {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))),
    "tekken": (None, sequence(split(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"), BYTES)),
    "deepseek-coder": (None, sequence(
        split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
        {"type": "Digits", "individual_digits": True}, BYTES)),
    "default": (None, DEFAULT),
    "": (None, DEFAULT)}


def with_words(content, pre):
    """A byte-level tokenizer.json that cuts as the models of this tokenizer.ggml.pre do."""
    changed = copy.deepcopy(content)
    changed["normalizer"], changed["pre_tokenizer"] = WORDS[pre]
    changed["model"]["ignore_merges"] = pre == "tekken"
    return changed


def kind_of(name):
    return next((kind for beginning, kind in KINDS.items() if name.startswith(beginning)), None)


def as_told(content):
    """The tokenizer.json as a GGUF file tells it: how a token is found in a text is not among its facts."""
    told = copy.deepcopy(content)
    for token in told["added_tokens"]:
        token.update(normalized=False, lstrip=False, rstrip=False, single_word=False)
    processor = told["post_processor"]
    for part in processor.get("processors", [processor]):
        if part["type"] == "ByteLevel":
            part["trim_offsets"] = False
    # Added tokens are pieces. Gemma's runs of spaces have merges in its own file.
    ids = {token["content"]: token["id"] for token in told["added_tokens"]}
    told["model"]["vocab"].update(ids)
    if runs := sorted(text for text in ids if set(text) == {"\u2581"}):
        told["model"]["merges"][:0] = [[run[:i], run[i:]] for run in runs for i in range(1, len(run))]
    return told


def phantom(token, is_control):
    if is_control:
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


def write(content, kind, path):
    model, pre = kind
    ids = dict(content["model"]["vocab"])
    added = {token["content"]: token for token in content["added_tokens"]}
    ids.update({text: token["id"] for text, token in added.items()})
    tokens = [f"[PAD{i}]" for i in range(max(ids.values()) + 1)]
    types = [gguf.TokenType.UNUSED] * len(tokens)
    for text, at in ids.items():
        tokens[at], types[at] = text, gguf.TokenType.NORMAL
        if text in added:
            types[at] = gguf.TokenType.CONTROL if added[text]["special"] else gguf.TokenType.USER_DEFINED
        if model == "llama":
            if text == content["model"]["unk_token"]:
                types[at] = gguf.TokenType.UNKNOWN
            elif len(text) == 6 and text.startswith("<0x"):
                types[at] = gguf.TokenType.BYTE
            elif types[at] == gguf.TokenType.USER_DEFINED:
                tokens[at] = text.replace("\u2581", " ")
        elif model == "bert":
            tokens[at] = phantom(text, types[at] == gguf.TokenType.CONTROL)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if model == "llama":
        writer.add_token_scores([0.0 if types[i] != gguf.TokenType.NORMAL else -float(i) for i in range(len(tokens))])
        prepends = "Prepend" in json.dumps(content["normalizer"])
        writer.add_add_space_prefix(prepends)
        writer.add_add_bos_token("SpecialToken" in content["post_processor"]["single"][0])
        writer.add_unk_token_id(ids[content["model"]["unk_token"]])
    elif model == "gpt2":
        writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge)
                                 for merge in content["model"]["merges"]])
    first = next((ids[name] for name in ("<s>", "<bos>", "<|begin_of_text|>", "[CLS]") if name in ids), None)
    if first is not None:
        writer.add_bos_token_id(first)
    if model == "bert":
        writer.add_sep_token_id(ids["[SEP]"])
        writer.add_unk_token_id(ids["[UNK]"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
