#!/usr/bin/env python3
"""Compares heed's tokenizers with the package `tokenizers` on random and hostile texts: ids, type ids, offsets, what was
added, and texts decoded from ids, at once and token by token.

    differential.py PROBE --made DIR [--models DIR] [--texts 20000] [--seed 1] [NAME...]

Every tokenizer.json under DIR, those that a GGUF file can hold out of one, too (NAME-gguf), and tokenizers made here of
parts that those have not. Texts are of characters that
Unicode 3.2 has: the package's own tables differ from part to part (Unicode 8 to 17), and heed's are of Unicode 15.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

import tokenizers

import gguf_files

OLD = unicodedata.ucd_3_2_0

# What has gone wrong before, or might: spaces and breaks of all kinds, marks, joiners, ligatures, capitals that grow,
# digits of other scripts, private and unassigned ones, and what tokenizers write themselves.
HOSTILE = [
    "", " ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\x00", "\x01", "\x1b", "\x1c", "\x7f", "\x85", "\xa0", "\xad",
    "\u1680", "\u180e", "\u2000", "\u200b", "\u200c", "\u200d", "\u200e", "\u2028", "\u2029", "\u202f", "\u205f",
    "\u2060", "\u3000", "\ufeff", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ue000",
    "\u0301", "\u0323", "\u0345", "\u0334", "e\u0301", "\u1e0b\u0323", "q\u0307\u0323", "\u0344", "\u0958", "\u2126",
    "\u212a", "\u017f", "\ufb01", "\ufb03", "\u00df", "\u1e9e", "\u0130", "\u0131", "\u03a3", "\u03c2", "\u01c5",
    "\uac00", "\u1100\u1161", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0bc6\u0bbe", "\u0915\u094d\u0937", "\u0e33",
    "\u4e00", "\uf900", "\U0002f800", "\u3042\u3099", "\uff21", "\uff01", "\u2460", "\u00bd", "\u0663", "\u0967",
    "\u2167", "\u20ac", "\U0001d400", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\u2581", "\u0120", "\u010a", "\u00c4", "##", "##a", "<0x41>", "<0x0A>",
    "<s>", "</s>", "<unk>", "<pad>", "<mask>", " <mask>", "<mask> ", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]",
    "<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<|eot_id|>", "<extra_id_0>", "<bos>", "<start_of_turn>",
    "eng_Latn", "'s", "'S", "'\u017f", "'ll", "'LL", "n't", " n't", "don't", " .", " ,", " ' ", "...", "\u2026", "--",
    "http://a.b/c?d=e&f", "123456789", "1,234.5", "3\u00b2", "\u0661\u0662\u0663", "_", "a_b", "$", "+", "`", "^", "|",
]


def conformance_texts(models):
    texts = set()
    for path in sorted(models.rglob("expected.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        texts.update(case["text"] for case in content.get("cases", []))
    return sorted(texts) or ["The quick brown fox doesn't jump over 13 lazy dogs."]


class Texts:
    def __init__(self, seed, known, tokens):
        self.random = random.Random(seed)
        self.known = [text for text in known if len(text) < 400]
        self.tokens = tokens
        self.characters = [chr(c) for c in range(1, 0x30000)
                           if not 0xD800 <= c < 0xE000 and OLD.category(chr(c)) not in ("Cn", "Co")]
        self.small = [c for c in self.characters if ord(c) < 0x600]

    def piece(self):
        r = self.random
        kind = r.randrange(9)
        if kind == 0:
            return r.choice(HOSTILE)
        if kind == 1:
            return "".join(r.choice(self.small) for _ in range(r.randrange(1, 8)))
        if kind == 2:
            return "".join(r.choice(self.characters) for _ in range(r.randrange(1, 5)))
        if kind == 3:
            text = r.choice(self.known)
            begin = r.randrange(len(text) + 1)
            return text[begin:begin + r.randrange(40)]
        if kind == 4:
            return r.choice(self.tokens)
        if kind == 5:
            return "".join(r.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ  0123.,") for _ in range(r.randrange(12)))
        if kind == 6:
            return r.choice(HOSTILE) * r.randrange(1, 6)
        if kind == 7:
            return r.choice([" ", " ", "  ", "\n", "\t"])
        return r.choice(self.characters) * r.choice([1, 2, 3, 30])

    def text(self):
        return "".join(self.piece() for _ in range(self.random.randrange(1, 9)))


def characters_of(text):
    """The character that each byte of a text belongs to, and one behind the end."""
    places = []
    for i, character in enumerate(text):
        places += [i] * len(character.encode())
    return places + [len(text)]


# ------------------------------------------------------------------------------------------- tokenizers made here

def document(model, normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None, added_tokens=(), **other):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens),
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor,
            "decoder": decoder, "model": model, **other}


def added(id, content, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


def made_tokenizers():
    """Parts and options that the files have not, over small models."""
    letters = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'-_ \u2581\u00e9\u00e4\u0301")
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}
    for letter in letters:
        vocabulary[letter] = len(vocabulary)
    for piece in ["##" + letter for letter in letters] + ["the", "##ing", "and", "##er", "abc", "##bc", "in", "##the"]:
        vocabulary.setdefault(piece, len(vocabulary))
    wordpiece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                 "max_input_chars_per_word": 20, "vocab": vocabulary}

    pairs = [("t", "h"), ("th", "e"), ("i", "n"), ("in", "g"), ("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc"), (" ", "t"),
             ("e", "r"), ("\u2581", "a"), ("a", "a"), ("aa", "aa"), (".", "."), ("..", "."), ("e", "\u0301")]
    bpe_vocabulary = {letter: i for i, letter in enumerate(letters)}
    for left, right in pairs:
        bpe_vocabulary.setdefault(left + right, len(bpe_vocabulary))
    bpe_vocabulary["<unk>"] = len(bpe_vocabulary)

    def bpe(vocab=bpe_vocabulary, merges=pairs, **options):
        return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                "vocab": vocab, "merges": [list(pair) for pair in merges], **options}

    some_bytes = dict(bpe_vocabulary)
    for byte in range(0, 256, 1):
        if byte % 7:
            some_bytes[f"<0x{byte:02X}>"] = len(some_bytes)
    with_ends = {"<unk>": 0}
    for letter in letters:
        for form in (letter, "##" + letter, letter + "</w>", "##" + letter + "</w>"):
            with_ends.setdefault(form, len(with_ends))
    end_merges = [("t", "##h"), ("th", "##e</w>"), ("##i", "##n"), ("##in", "##g</w>"), ("a", "##b"), ("##a", "##a")]
    for left, right in end_merges:
        with_ends.setdefault(left + right[2:], len(with_ends))
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
               "vocab": [["<unk>", 0.0]] + [[letter, -5.0 - i * 0.01] for i, letter in enumerate(letters)] +
               [["the", -3.0], ["ing", -3.5], ["th", -4.0], ["er", -4.0], ["\u2581the", -2.0], ["aaa", -6.0], ["aa", -6.5]]}
    fallback = {**unigram, "byte_fallback": True,
                "vocab": unigram["vocab"] + [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    first = {**metaspace, "prepend_scheme": "first", "split": False}

    def sequence(kind, *parts):
        return {"type": "Sequence", kind: list(parts)}

    def split(pattern, behavior, invert=False):
        return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}

    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 3}}],
                "pair": [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "X", "type_id": 2}},
                         {"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {"X": {"id": "X", "ids": [1, 2], "tokens": ["[CLS]", "[SEP]"]}}}
    tokens = [added(900, "<a>", lstrip=True), added(901, "<b>", rstrip=True), added(902, "<w>", single_word=True),
              added(903, "The", normalized=True), added(904, "<S>", normalized=True, special=True),
              added(905, "[SEP]", special=True), added(906, "<a><b>"), added(907, "\u00c9", normalized=True, lstrip=True)]

    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield f"made-{form}", document(bpe(unk_token="<unk>"), {"type": form}, {"type": "Whitespace"},
                                       added_tokens=tokens)
    yield "made-lowercase", document(wordpiece, sequence(
        "normalizers", {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "NFD"},
        {"type": "StripAccents"}, {"type": "Lowercase"}), {"type": "BertPreTokenizer"},
        {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        {"type": "WordPiece", "prefix": "##", "cleanup": False}, tokens)
    yield "made-bert", document(wordpiece, {"type": "BertNormalizer", "clean_text": False,
                                            "handle_chinese_chars": True, "strip_accents": True, "lowercase": False},
                                sequence("pretokenizers", {"type": "WhitespaceSplit"},
                                         {"type": "Punctuation", "behavior": "MergedWithPrevious"}),
                                template, {"type": "WordPiece", "prefix": "##", "cleanup": True}, tokens)
    yield "made-nmt", document(unigram, sequence(
        "normalizers", {"type": "Nmt"}, {"type": "Replace", "pattern": {"Regex": "[\\s\\h]{2,3}|\\d+\\b"}, "content": " x"},
        {"type": "Strip", "strip_left": False, "strip_right": True}), metaspace, template,
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}, tokens)
    yield "made-strip-first", document(fallback, sequence(
        "normalizers", {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"String": "a"}, "content": ""}), first, None,
        sequence("decoders", {"type": "Replace", "pattern": {"Regex": "\u2581+"}, "content": " "},
                 {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}), tokens)
    yield "made-fallback", document(bpe(some_bytes, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                                    {"type": "Prepend", "prepend": "\u2581x"}, None, template,
                                    sequence("decoders", {"type": "ByteFallback"}), tokens)
    yield "made-no-unknown", document(bpe(byte_fallback=True, ignore_merges=True), None,
                                      {"type": "Digits", "individual_digits": True}, added_tokens=tokens)
    yield "made-ends", document(bpe(with_ends, end_merges, unk_token="<unk>", continuing_subword_prefix="##",
                                    end_of_word_suffix="</w>"), {"type": "Lowercase"},
                                sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": False}), None,
                                {"type": "BPEDecoder", "suffix": "</w>"}, tokens)
    yield "made-byte-normalizer", document(bpe(unk_token="<unk>"), {"type": "ByteLevel"},
                                           {"type": "Punctuation", "behavior": "Contiguous"}, None, None, tokens)
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    yield "made-byte-level", document(bpe(unk_token="<unk>"), None, byte_level,
                                      sequence("processors", byte_level, template), byte_level, tokens)
    yield "made-bytes-split", document(
        bpe(), {"type": "NFKC"}, sequence("pretokenizers", {"type": "Digits", "individual_digits": False}, {**byte_level, "use_regex": False},
                                          split({"String": "\u0120"}, "MergedWithNext")), None, byte_level, tokens)
    yield "made-roberta", document(bpe(unk_token="<unk>"), {"type": "Lowercase"}, byte_level,
                                   {"type": "RobertaProcessing", "sep": ["[SEP]", 905], "cls": ["[CLS]", 1],
                                    "trim_offsets": True, "add_prefix_space": True}, byte_level, tokens)
    number = 0
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            for pattern in ({"Regex": "\\s|\\p{Lu}|(?<=a)b|[^\\w\\s]+"}, {"String": "aa"}, {"Regex": "x*"}):
                number += 1
                yield f"made-split-{number}", document(unigram, None, split(pattern, behavior, invert))
    yield "made-truncated", document(wordpiece, {"type": "Lowercase"}, {"type": "Whitespace"}, template, None, tokens, truncation={
        "direction": "Left", "max_length": 9, "strategy": "LongestFirst", "stride": 0}, padding={
            "strategy": {"Fixed": 12}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 7, "pad_type_id": 5,
            "pad_token": "."})


# ------------------------------------------------------------------------------------------------------- comparing

def questions(texts, count):
    """(text, second or None): one in ten is a pair."""
    for i in range(count):
        yield texts.text(), texts.text() if i % 10 == 9 else None


def ask(probe, path, lines):
    data = "".join(json.dumps(line) + "\n" for line in lines)
    asked = path.parent if path.name == "tokenizer.json" else path
    result = subprocess.run([probe, asked], input=data.encode(), capture_output=True, check=False)
    answers = [json.loads(line) for line in result.stdout.decode().split("\n") if line]
    return answers, result.stderr.decode()


def difference(package, question, answer, decoded, ids):
    text, second = question
    for special in (True, False):
        encoding = (package.encode(text, second, add_special_tokens=special) if second is not None else
                    package.encode(text, add_special_tokens=special))
        got = answer["special" if special else "plain"]
        if got["ids"] != encoding.ids:
            return f"ids, special tokens {special}", encoding.ids, got["ids"]
        if got["type_ids"] != encoding.type_ids:
            return f"type ids, special tokens {special}", encoding.type_ids, got["type_ids"]
        if got["added"] != encoding.special_tokens_mask:
            return f"added, special tokens {special}", encoding.special_tokens_mask, got["added"]
        places = [characters_of(text), characters_of(second or "")]
        offsets = []
        for (begin, end), sequence in zip(got["offsets"], encoding.sequence_ids):
            of = places[sequence or 0]
            offsets.append((of[begin], of[end]) if sequence is not None and end < len(of) else (begin, end))
        if offsets != encoding.offsets:
            return f"offsets, special tokens {special}", encoding.offsets, offsets
    for skip in (False, True):
        expected = package.decode(ids, skip_special_tokens=skip)
        got = decoded["decoded_skip_special" if skip else "decoded"]
        if got != expected:
            return f"decoded, skip_special {skip}, {ids}", expected, got
    if decoded["streamed"] != decoded["decoded"]:
        return f"streamed, {ids}", decoded["decoded"], decoded["streamed"]
    return None


def compare(name, package, path, probe, texts, count):
    asked = list(questions(texts, count))
    lines = [{"text": text} if second is None else {"text": text, "second": second} for text, second in asked]
    answers, errors = ask(probe, path, lines)
    if len(answers) != len(asked):
        print(f"{name}: {errors.strip()[-300:]} after {len(answers)} texts: {asked[len(answers)]!r}")
        return 1
    # Half of the ids are a text's, the others any.
    largest = max(package.get_vocab().values())
    rows = [answer["special"]["ids"] if i % 2 else [texts.random.randrange(largest + 3) for _ in range(i % 13)]
            for i, answer in enumerate(answers)]
    decoded, errors = ask(probe, path, [{"ids": row} for row in rows])
    wrong = 0
    for question, answer, text, row in zip(asked, answers, decoded, rows):
        found = difference(package, question, answer, text, row)
        if found:
            wrong += 1
            if wrong <= 3:
                what, expected, got = found
                print(f"{name}: {question!r}\n  {what}\n  expected {expected!r}\n  got      {got!r}")
    print(f"{name}: {count} texts, {wrong} differ", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path("../shared/conformance/models"))
    parser.add_argument("--made", type=pathlib.Path, required=True, help="a directory for the tokenizers made here")
    parser.add_argument("--texts", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    paths = {}
    for given in sorted((options.models / "tokenizers").glob("*/tokenizer.json")):  # without what stands beside it
        paths[given.parent.name] = path = options.made / given.parent.name / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(given.read_bytes())
    for name, content in made_tokenizers():
        path = options.made / name / "tokenizer.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
        paths[name] = path
    packages = {name: tokenizers.Tokenizer.from_file(str(path)) for name, path in paths.items()}
    for package in packages.values():  # as transformers does when it loads a tokenizer
        package.no_truncation()
        package.no_padding()
    for name, path in list(paths.items()):
        if kind := gguf_files.kind_of(name):
            told = gguf_files.as_told(json.loads(path.read_text(encoding="utf-8")))
            paths[f"{name}-gguf"] = options.made / f"{name}.gguf"
            packages[f"{name}-gguf"] = tokenizers.Tokenizer.from_str(json.dumps(told))
            gguf_files.write(told, kind, paths[f"{name}-gguf"])
        if name == "bytelevel-gpt2":
            for pre in gguf_files.WORDS:
                told = gguf_files.as_told(gguf_files.with_words(json.loads(path.read_text(encoding="utf-8")), pre))
                named = f"{pre or 'no-pre'}-gguf"
                paths[named] = options.made / f"{named}.gguf"
                packages[named] = tokenizers.Tokenizer.from_str(json.dumps(told))
                gguf_files.write(told, ("gpt2", pre), paths[named])
    known = conformance_texts(options.models)
    wrong = 0
    for name, path in paths.items():
        if options.names and name not in options.names:
            continue
        package = packages[name]
        tokens = [token.content for token in package.get_added_tokens_decoder().values()] or ["a"]
        wrong += compare(name, package, path, options.probe, Texts(options.seed, known, tokens), options.texts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
