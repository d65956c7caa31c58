#!/usr/bin/env python3
"""Prints what transformers makes of a conversation by the files of a directory, as src/load/chat_test.cc reads it:

    make_chat_directories.py > tests/models/chat_directories.json

A case has the files, and the text that AutoTokenizer's apply_chat_template() writes, or "error" if transformers refuses
them. "refused" cases are those that heed may refuse: a template that names tokens of a class that heed does not build.
"""
import json
import pathlib
import tempfile

import transformers

TALK = [{"role": "user", "content": "Hi"}]
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "image_token", "sound"]
ALL = "{{ messages[0].content }}" + "".join(f"|{{{{ {name} }}}}" for name in NAMES)
FILE = "PreTrainedTokenizerFast"
MAP, CONFIG, JINJA, MORE = "special_tokens_map.json", "tokenizer_config.json", "chat_template.jinja", "additional_chat_templates/"
TOKEN = {"__type": "AddedToken", "content": "<o>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
WITHOUT_TYPE = {key: value for key, value in TOKEN.items() if key != "__type"}
PADDING = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
           "pad_token": "<p>"}


def tokenizer(kind="WordLevel", **more):
    pieces = ["<unk>", "<s>", "</s>", "a", "b", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "<pad>", "<mask>"]
    model = {"type": kind, "vocab": {piece: i for i, piece in enumerate(pieces)}, "unk_token": "<unk>"}
    if kind == "BPE":
        model["merges"] = []
    if kind == "WordPiece":
        model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    if kind == "Unigram":
        model = {"type": kind, "unk_id": 3, "vocab": [[piece, -1.0] for piece in ["<s>", "<pad>", "</s>", "<unk>", "a", "<mask>"]]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": model, **more}


def cases():
    def case(name, config=None, kind="WordLevel", model="mistral", more=None, **files):
        named = {"mapped": MAP, "jinja": JINJA, "added": "added_tokens.json"}
        return name, {"config.json": {"model_type": model}, "tokenizer.json": tokenizer(kind, **(more or {})),
                      **({CONFIG: config} if config is not None else {}), **{named.get(key, key): value for key, value in files.items()}}

    def of_file(name, config, **more):
        return case(name, {"tokenizer_class": FILE, "chat_template": ALL, **config}, **more)

    yield of_file("no tokens", {})
    yield of_file("texts", {name: f"<{name}>" for name in NAMES})
    yield of_file("null", dict.fromkeys(NAMES))
    yield of_file("an empty text", {"bos_token": ""})
    yield of_file("objects", {"bos_token": TOKEN, "image_token": TOKEN})
    yield of_file("an object without __type", {"bos_token": WITHOUT_TYPE})
    yield of_file("an object without __type for a name of the model", {"image_token": WITHOUT_TYPE})
    yield of_file("a number", {"bos_token": 3})
    yield of_file("both files", {"bos_token": "<a>", "image_token": "<a>"}, mapped={"bos_token": "<m>", "image_token": "<m>"})
    yield of_file("null in the map", {"bos_token": "<a>", "image_token": "<a>"}, mapped={"bos_token": None, "image_token": None})
    yield of_file("null in the configuration", {"bos_token": None}, mapped={"bos_token": "<m>"})
    yield of_file("objects in the map", {}, mapped={"bos_token": WITHOUT_TYPE, "image_token": WITHOUT_TYPE})
    yield of_file("a map beside a list", {"added_tokens_decoder": {}, "bos_token": "<a>"}, mapped={"bos_token": "<m>", "eos_token": "<e>"})
    yield of_file("names in extra_special_tokens", {"extra_special_tokens": {"image_token": "<i>", "sound": "<n>"}})
    yield of_file("objects in extra_special_tokens", {"extra_special_tokens": {"image_token": TOKEN, "sound": TOKEN}})
    yield of_file("names in extra_special_tokens of the map", {}, mapped={"extra_special_tokens": {"image_token": "<i>", "sound": "<n>"}})
    yield of_file("a usual name in extra_special_tokens", {"bos_token": "<a>", "extra_special_tokens": {"bos_token": "<i>"}})
    yield of_file("names in model_specific_special_tokens", {"model_specific_special_tokens": {"image_token": "<i>", "sound": "<n>"}})
    yield of_file("model_specific_special_tokens and a text", {"model_specific_special_tokens": {"sound": "<n>"}, "image_token": "<i>"})
    yield of_file("model_specific_special_tokens and an object", {"model_specific_special_tokens": {"sound": "<n>"}, "image_token": TOKEN})
    yield of_file("a list of tokens", {"additional_special_tokens": ["<x>"], "extra_special_tokens": ["<y>"], "bos_token": "<x>"})
    yield of_file("a name that is an argument", {"extra_special_tokens": {"tools": "<i>"}})
    yield of_file("a name that is a variable", {"extra_special_tokens": {"messages": "<i>"}})
    yield of_file("a name of Jinja", {"extra_special_tokens": {"range": "<i>"}, "chat_template": "{{ range }}"})
    yield of_file("padding", {}, more={"padding": PADDING})
    yield of_file("padding and null", {"pad_token": None}, more={"padding": PADDING})
    yield of_file("padding and a text", {"pad_token": "<a>"}, more={"padding": PADDING})
    image = "{% for m in messages %}{{ image_token }}{% set image_token = 'a' %}{{ image_token }}{% endfor %}{{ image_token }}"
    yield of_file("set by the template", {"chat_template": image})
    yield of_file("refused: set by the template again", {"chat_template": image, "image_token": "<i>"})
    for kind, model, classes in [
            ("BPE", "gpt2", ["GPT2Tokenizer", "RobertaTokenizer", "Qwen2Tokenizer", "GPTNeoXTokenizer", "CodeGenTokenizer"]),
            ("BPE", "llama", ["LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizer"]),
            ("WordPiece", "bert", ["BertTokenizer"]), ("Unigram", "t5", ["T5Tokenizer", "XLMRobertaTokenizer"])]:
        for name in classes:
            config = {"tokenizer_class": name, "chat_template": ALL}
            yield case(name, config, kind=kind, model=model)
            yield case(f"{name}, padding", config, kind=kind, model=model, more={"padding": PADDING})
            yield case(f"{name}, named by the files", {**config, "eos_token": "<e>", "image_token": "<i>", "mask_token": None}, kind=kind,
                       model=model, mapped={"bos_token": "<m>", "pad_token": None})
    yield case("CodeLlamaTokenizer, its own names", {
        "tokenizer_class": "CodeLlamaTokenizer", "chat_template": "{{ prefix_token }}|{{ suffix_token }}|{{ middle_token }}|{{ eot_token }}",
        "suffix_token": "<u>", "middle_token": None, "eot_token": TOKEN}, kind="BPE", model="llama")
    yield case("refused: a class that heed does not build", {"tokenizer_class": "CohereTokenizer", "chat_template": ALL}, kind="BPE",
               model="cohere")
    yield case("a class that heed does not build, named by the files", {
        "tokenizer_class": "CohereTokenizer", "chat_template": "{{ bos_token }}", "bos_token": "<c>"}, kind="BPE", model="cohere")
    yield case("a class that heed does not build, null", {
        "tokenizer_class": "CohereTokenizer", "chat_template": "[{{ mask_token }}]", "mask_token": None}, kind="BPE", model="cohere")
    yield case("no class", {"chat_template": ALL}, kind="BPE", model="qwen2")

    def written(name, template=None, **more):
        return case(name, {"tokenizer_class": FILE, **({} if template is None else {"chat_template": template})}, **more)

    listed = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    yield written("a list", listed)
    yield written("a list with one twice", [*listed, {"name": "default", "template": "again"}])
    yield written("a list without default", listed[:1])
    yield written("an empty list", [])
    yield written("a list of texts", ["d"])
    yield written("an object", {"tool_use": "t", "default": "d"})
    yield written("an object without default", {"tool_use": "t"})
    yield written("a file", "old", jinja="new")
    yield written("a file and a list", listed, jinja="new")
    yield written("more files", "old", **{MORE + "tool_use.jinja": "t"})
    yield written("more files and a file", "old", jinja="new", **{MORE + "tool_use.jinja": "t"})
    yield written("default among more files", "old", jinja="new", **{MORE + "default.jinja": "more", MORE + "a.jinja": "a"})
    yield written("file among more files", "old", jinja="new", **{MORE + "file.jinja": "more"})
    yield written("file and default among more files", "old", **{MORE + "file.jinja": "file", MORE + "default.jinja": "more"})
    yield written("others beside more files", "old", **{MORE + "default.txt": "more"})
    yield written("in the map", "old", jinja="new", mapped={"chat_template": "mapped"})


def written_by_transformers(files):
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            file = pathlib.Path(directory, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content))
        try:
            return {"text": transformers.AutoTokenizer.from_pretrained(directory).apply_chat_template(
                TALK, tokenize=False, add_generation_prompt=True)}
        except Exception as error:  # of any kind: transformers refuses
            return {"error": f"{type(error).__name__}: {error}".split("\n")[0].replace(directory, "DIRECTORY")[:120]}


def main():
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    shown = [{"name": name, "files": files, **written_by_transformers(files)} for name, files in cases()]
    print("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in shown) + "\n]")


if __name__ == "__main__":
    main()
