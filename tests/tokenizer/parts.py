#!/usr/bin/env python3
"""Every part that a tokenizer.json can have, with each of its parameters at more than one value, beside the package
`tokenizers`: the same ids, offsets and decoded texts, or refused. Prints the share that is refused, by kind.

    parts.py PROBE --made DIR [--models DIR] [--texts 200] [--seed 1] [--characters]

The tables of Precompiled are those of the models.
Fails where a result differs, where what is refused is not in REFUSED, and where the package has a part that is not here.
"""
import argparse
import base64
import collections
import inspect
import json
import os
import pathlib
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import differential

# Parts that heed does not support (docs/models.md, Limitations).
REFUSED = {"pre_tokenizers.UnicodeScripts", "models.BPE dropout"}

LETTERS = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-_| \u2581\u0120\u00e9\u00e4\u0301\u4e2d")
PAIRS = [("t", "h"), ("th", "e"), ("i", "n"), ("a", "b"), ("ab", "c"), (" ", "t"), ("\u2581", "a"), ("a", "a"), ("aa", "aa"),
         (".", "."), ("e", "\u0301"), ("1", "2")]


def numbered(tokens):
    return {token: i for i, token in enumerate(dict.fromkeys(tokens))}


MERGED = numbered(["<unk>", "[CLS]", "[SEP]", *LETTERS, *(a + b for a, b in PAIRS)])
PIECES = numbered(["[UNK]", "[CLS]", "[SEP]", *LETTERS, *("##" + letter for letter in LETTERS), "the", "##ing", "and", "@@x",
                   *("@@" + letter for letter in LETTERS)])
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ENDED = numbered(["<unk>", *(a + letter + b for letter in LETTERS for a in ("", "##") for b in ("", "</w>")), "th", "the</w>"])
UNIGRAMS = [("<unk>", 0.0)] + [(letter, -5.0 - i * 0.01) for i, letter in enumerate(LETTERS)] + [
    ("the", -3.0), ("th", -4.0), ("\u2581the", -2.0), ("aaa", -6.0), ("aa", -6.5)]


def bpe(**options):
    return models.BPE(vocab=MERGED, merges=PAIRS, **{"unk_token": "<unk>", **options})


def each_model():
    yield "BPE", bpe()
    yield "BPE unk_token", models.BPE(vocab=MERGED, merges=PAIRS)
    yield "BPE dropout", bpe(dropout=0.5)
    yield "BPE fuse_unk", bpe(fuse_unk=True)
    yield "BPE byte_fallback", models.BPE(vocab=numbered([*MERGED, *BYTES]), merges=PAIRS, unk_token="<unk>", byte_fallback=True)
    yield "BPE ignore_merges", models.BPE(vocab=numbered([*MERGED, "thea", "abca"]), merges=PAIRS, unk_token="<unk>",
                                          ignore_merges=True)
    yield "BPE continuing_subword_prefix", models.BPE(vocab=ENDED, merges=[("t", "##h")], unk_token="<unk>",
                                                      continuing_subword_prefix="##")
    yield "BPE end_of_word_suffix", models.BPE(vocab=ENDED, merges=[("t", "h"), ("th", "e</w>")], unk_token="<unk>",
                                               end_of_word_suffix="</w>")
    yield "Unigram", models.Unigram(UNIGRAMS, unk_id=0)
    yield "Unigram unk_id", models.Unigram(UNIGRAMS[1:] + UNIGRAMS[:1], unk_id=len(UNIGRAMS) - 1)
    yield "Unigram byte_fallback", models.Unigram(UNIGRAMS + [(byte, -20.0) for byte in BYTES], unk_id=0, byte_fallback=True)
    yield "WordPiece", models.WordPiece(vocab=PIECES, unk_token="[UNK]")
    yield "WordPiece unk_token", models.WordPiece(vocab=PIECES, unk_token="[CLS]")
    yield "WordPiece max_input_chars_per_word", models.WordPiece(vocab=PIECES, unk_token="[UNK]", max_input_chars_per_word=3)
    yield "WordPiece continuing_subword_prefix", models.WordPiece(vocab=PIECES, unk_token="[UNK]", continuing_subword_prefix="@@")
    yield "WordLevel", models.WordLevel(vocab=MERGED, unk_token="<unk>")
    yield "WordLevel unk_token", models.WordLevel(vocab=PIECES, unk_token="[UNK]")


def each_normalizer():
    for flag in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"):
        for value in (True, False):
            yield f"BertNormalizer {flag}", normalizers.BertNormalizer(**{flag: value})
    yield "BertNormalizer strip_accents", normalizers.BertNormalizer(strip_accents=None, lowercase=False)
    for name in ("ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents"):
        yield name, getattr(normalizers, name)()
    yield "Prepend", normalizers.Prepend("\u2581")
    yield "Prepend prepend", normalizers.Prepend("ab")
    yield "Replace", normalizers.Replace("a", "the")
    yield "Replace pattern", normalizers.Replace(Regex("[0-9]{2}|\\s+"), " ")
    yield "Sequence", normalizers.Sequence([normalizers.Lowercase(), normalizers.NFD(), normalizers.StripAccents()])
    for left in (True, False):
        for right in (True, False):
            yield "Strip", normalizers.Strip(left, right)


def character_maps(models):
    """The different tables of Precompiled normalizers in the models' tokenizer.json."""
    maps = set()
    for path in sorted(models.glob("tokenizers/*/tokenizer.json")):
        normalizer = json.loads(path.read_text(encoding="utf-8"))["normalizer"] or {}
        for part in normalizer.get("normalizers", [normalizer]):
            if part.get("type") == "Precompiled":
                maps.add(part["precompiled_charsmap"])
    return sorted(maps)


BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")


def each_pre_tokenizer():
    for name in ("BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit"):
        yield name, getattr(pre_tokenizers, name)()
    for flag in ("add_prefix_space", "trim_offsets", "use_regex"):
        for value in (True, False):
            yield f"ByteLevel {flag}", pre_tokenizers.ByteLevel(**{flag: value})
    yield "CharDelimiterSplit", pre_tokenizers.CharDelimiterSplit("a")
    yield "CharDelimiterSplit delimiter", pre_tokenizers.CharDelimiterSplit("\u00e9")
    yield "Digits", pre_tokenizers.Digits(individual_digits=True)
    yield "Digits", pre_tokenizers.Digits(individual_digits=False)
    yield "FixedLength", pre_tokenizers.FixedLength(length=5)
    yield "FixedLength length", pre_tokenizers.FixedLength(length=1)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield "Metaspace", pre_tokenizers.Metaspace("\u2581", scheme, split)
    yield "Metaspace replacement", pre_tokenizers.Metaspace("_")
    for behavior in BEHAVIORS:
        yield "Punctuation", pre_tokenizers.Punctuation(behavior)
        for invert in (True, False):
            yield "Split", pre_tokenizers.Split("aa", behavior, invert)
            yield "Split pattern", pre_tokenizers.Split(Regex("\\s+|\\p{Lu}"), behavior, invert)
    yield "Sequence", pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])


def each_processor():
    sep, cls = ("[SEP]", 2), ("[CLS]", 1)
    yield "BertProcessing", processors.BertProcessing(sep, cls)
    for trim in (True, False):
        yield "ByteLevel trim_offsets", processors.ByteLevel(trim_offsets=trim)
        for prefix in (True, False):
            yield "RobertaProcessing", processors.RobertaProcessing(sep, cls, trim, prefix)
    template = processors.TemplateProcessing(single="[CLS]:1 $A:2 [SEP]", pair="$B:1 [SEP] $A:3 [CLS]:4", special_tokens=[sep, cls])
    yield "TemplateProcessing", template
    yield "Sequence", processors.Sequence([processors.ByteLevel(), template])


def each_decoder():
    yield "BPEDecoder", decoders.BPEDecoder()
    yield "BPEDecoder suffix", decoders.BPEDecoder("e")
    for name in ("ByteFallback", "ByteLevel", "Fuse"):
        yield name, getattr(decoders, name)()
    for cleanup in (True, False):
        yield "CTC", decoders.CTC("a", "b", cleanup)
        yield "WordPiece", decoders.WordPiece("##", cleanup)
        yield "WordPiece prefix", decoders.WordPiece("t", cleanup)
    for scheme in ("always", "first", "never"):
        yield "Metaspace", decoders.Metaspace("\u2581", scheme)
        yield "Metaspace replacement", decoders.Metaspace("a", scheme)
    yield "Replace", decoders.Replace("a", "xy")
    yield "Replace pattern", decoders.Replace(Regex("[a-d]+"), "-")
    yield "Sequence", decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    for left in (0, 1, 2):
        for right in (0, 1):
            yield "Strip", decoders.Strip("a", left, right)


def each_added_token():
    for content in ("<x>", " the", "A", "the"):
        for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
            for value in (True, False):
                yield f"{flag}", AddedToken(content, **{flag: value})


def each_pair_of_added_tokens():
    """Two tokens that want the same white space."""
    for left, right in (("rstrip", "lstrip"), ("rstrip", "single_word"), ("lstrip", "lstrip"), ("rstrip", "rstrip")):
        for space in (" ", "  ", "\t"):
            yield f"{left} beside {right}", [AddedToken("the", **{left: True}), AddedToken(space, **{right: True})]


def classes_of(module, of):
    return {name for name, value in vars(module).items()
            if inspect.isclass(value) and issubclass(value, of) and value is not of}


def each_tokenizer(maps):
    """(kind, what, tokenizer)"""
    for what, model in each_model():
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        yield "models", what, tokenizer
    for what, normalizer in each_normalizer():
        tokenizer = Tokenizer(bpe())
        tokenizer.normalizer = normalizer
        yield "normalizers", what, tokenizer
    for what, pre_tokenizer in each_pre_tokenizer():
        tokenizer = Tokenizer(bpe())
        tokenizer.pre_tokenizer = pre_tokenizer
        yield "pre_tokenizers", what, tokenizer
    for what, processor in each_processor():
        tokenizer = Tokenizer(bpe())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
        tokenizer.post_processor = processor
        yield "processors", what, tokenizer
    for what, decoder in each_decoder():
        tokenizer = Tokenizer(models.WordPiece(vocab=PIECES, unk_token="[UNK]") if "WordPiece" in what else bpe())
        tokenizer.decoder = decoder
        yield "decoders", what, tokenizer
    for what, token in each_added_token():
        tokenizer = Tokenizer(bpe())
        tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.add_tokens([token])
        yield "added_tokens", what, tokenizer
    for what, tokens in each_pair_of_added_tokens():
        tokenizer = Tokenizer(bpe())
        tokenizer.add_tokens(tokens)
        yield "pairs_of_added_tokens", what, tokenizer
    for text in maps:
        tokenizer = Tokenizer(bpe())
        tokenizer.normalizer = normalizers.Precompiled(base64.b64decode(text))
        yield "normalizers", "Precompiled", tokenizer


def check_characters(probe, made):
    """Characters that the package and heed cut at, leave out or replace differently."""
    words = models.WordPiece(vocab={"[UNK]": 0, "a": 1, "b": 2, "ab": 3}, unk_token="[UNK]")
    in_bytes = models.BPE(vocab=numbered(["<unk>", *BYTES]), merges=[], unk_token="<unk>", byte_fallback=True)
    flags = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)
    parts = {"BertPreTokenizer": (None, pre_tokenizers.BertPreTokenizer()), "Punctuation": (None, pre_tokenizers.Punctuation()),
             **{flag: (normalizers.BertNormalizer(**{**flags, flag: True}), None) for flag in flags},
             **{name: (getattr(normalizers, name)(), None) for name in ("NFC", "NFD", "NFKC", "NFKD", "StripAccents")}}
    codes = (*range(1, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200))
    texts = [f"a{chr(code)}b" for code in codes]
    wrong = []
    for name, (normalizer, pre_tokenizer) in parts.items():
        package = Tokenizer(words if pre_tokenizer or name in flags else in_bytes)
        if normalizer:
            package.normalizer = normalizer
        if pre_tokenizer:
            package.pre_tokenizer = pre_tokenizer
        path = made / f"characters-{name}" / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        package.save(str(path))
        answers, errors = differential.ask(probe, path, [{"text": text} for text in texts])
        wrong += [f"{name}, every character: {errors.strip()[-200:]}"] if len(answers) < len(texts) else []
        differ = [text for text, answer, encoding in zip(texts, answers, package.encode_batch(texts))
                  if answer["plain"]["ids"] != encoding.ids]
        wrong += [f"{name}: {len(differ)} characters differ, as U+{ord(differ[0][1]):04X}"] if differ else []
    return wrong


def check_complete():
    missing = []
    for module, of, found in ((models, models.Model, each_model), (normalizers, normalizers.Normalizer, each_normalizer),
                              (pre_tokenizers, pre_tokenizers.PreTokenizer, each_pre_tokenizer),
                              (processors, processors.PostProcessor, each_processor), (decoders, decoders.Decoder, each_decoder)):
        here = {what.split()[0] for what, _ in found()} | {"Precompiled"}  # which each_tokenizer() adds
        missing += [f"{module.__name__}.{name}" for name in sorted(classes_of(module, of) - here)]
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--made", type=pathlib.Path, required=True)
    shared = pathlib.Path(os.environ.get("HEED_SHARED") or pathlib.Path(__file__).resolve().parents[3] / "shared")
    parser.add_argument("--models", type=pathlib.Path, default=shared / "conformance/models")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--characters", action="store_true", help="also every character by itself")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = [f"the package {tokenizers.__version__} has {name}, which is not here" for name in check_complete()]
    if options.characters:
        wrong += check_characters(options.probe, options.made)
    maps = character_maps(options.models)
    if not maps:
        wrong.append(f"no tokenizer.json below {options.models} has a Precompiled normalizer: none was compared")
    refused, all_of, panics = collections.Counter(), collections.Counter(), collections.Counter()
    for number, (kind, what, package) in enumerate(each_tokenizer(maps)):
        path = options.made / f"part-{number}" / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        package.save(str(path))
        tokens = ["the", " ", "  ", "\t", "the  a", "a  the"] if kind == "pairs_of_added_tokens" else ["<unk>", "the", "<x>"]
        texts = differential.Texts(options.seed + number, ["the a|b aab, 12 The.. \u00e9 e\u0301 \u4e2d abc Abc's"], tokens)
        asked = list(differential.questions(texts, options.texts))
        answers, errors = differential.ask(options.probe, path, [
            {"text": text} if second is None else {"text": text, "second": second} for text, second in asked])
        all_of[kind] += 1
        name = f"{kind}.{what}"
        if not answers:
            refused[kind] += 1
            if name not in REFUSED:
                wrong.append(f"{name} is refused: {errors.strip()[-200:]}")
            continue
        if name in REFUSED:
            wrong.append(f"{name} is not refused: take it out of REFUSED")
            continue
        if len(answers) != len(asked):
            wrong.append(f"{name}: {errors.strip()[-200:]} after {asked[len(answers)]!r}")
            continue
        largest = max(package.get_vocab().values())
        rows = [answer["special"]["ids"] if i % 2 else [texts.random.randrange(largest + 3) for _ in range(i % 13)]
                for i, answer in enumerate(answers)]
        decoded, errors = differential.ask(options.probe, path, [{"ids": row} for row in rows])
        for question, answer, text, row in zip(asked, answers, decoded, rows):
            try:
                found = differential.difference(package, question, answer, text, row)
            except BaseException as e:  # the package fails on some rows, as Strip on a row that is shorter
                if type(e).__name__ != "PanicException":
                    raise
                panics[kind] += 1
                continue
            if found:
                what_differs, expected, got = found
                wrong.append(f"{name} ({path.parent.name}): {question!r}\n  {what_differs}\n  expected {expected!r}\n  got      {got!r}")
                break
    for kind, count in all_of.items():
        print(f"{kind}: {count} tokenizers, {refused[kind]} refused ({100 * refused[kind] / count:.0f} %)"
              + (f", {panics[kind]} texts on which the package fails" if panics[kind] else ""))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
