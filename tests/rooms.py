#!/usr/bin/env python3
"""Checks that includes point downward between the rooms, that each foreign library stays behind its seam, that JSON
begins as an object or an array (src/io/json.h says why), and that no two headers give a type the same name: a linker would
take the functions of one for both.

    rooms.py ROOT

Tests and benchmarks may include what they like.
"""
import pathlib
import re
import sys

# What a room stands on; it may include these and whatever they stand on.
BELOW = {
    "core": [],
    "ranks": ["core"],
    "simd": ["core"],
    "attention": ["simd"],
    "kernels": ["simd"],
    "io": ["core"],
    "text": ["core"],
    "tokenizer": ["text"],
    "view": ["core"],
    "mpi": ["ranks", "attention"],
    "serve": ["core"],
    "served": ["pages", "serve"],
    "autograd": ["kernels", "attention", "ranks"],
    "nn": ["autograd"],
    "models": ["nn"],
    "train": ["models", "io", "ranks"],
    "pretrained": ["models", "io"],
    "jinja": ["text"],
    "load": ["train", "tokenizer", "pretrained", "jinja"],
    "pages": ["load", "view"],
    "recipe": ["pages", "mpi"],
    "cli": ["recipe", "served"],
}

# The room that a public header belongs to.
HEADERS = {
    "communicator": "ranks", "tree_sum": "ranks", "mpi": "mpi", "split": "ranks", "attention_over_ranks": "mpi",
    "error": "core", "tensor": "core", "executor": "core", "kinds": "core", "attention": "attention",
    "kv_cache": "attention", "attention_operator": "attention", "rotary": "attention", "score_mod": "attention",
    "dual": "attention", "workspace": "attention", "checked": "core", "file_kind": "core", "finite": "core",
    "timeline": "core", "model_files": "core", "cpp20": "core",
    "random": "autograd", "autograd": "autograd", "functional": "autograd", "profile": "autograd", "nn": "nn",
    "models": "models", "text_encoder": "models", "image_encoder": "models", "speech_transformer": "models",
    "config_fields": "models", "io": "io", "event_file": "io", "optim": "train", "train": "train", "task": "train",
    "labelled": "train", "lora": "train", "pretrained": "pretrained", "text": "text", "tokenizer": "tokenizer",
    "view": "view", "label": "view", "pages": "pages", "head_changes": "pages", "weights_file": "pages", "http_server": "serve", "served_model": "served", "load": "load", "paths": "load", "recipe": "recipe", "adapters": "load", "attended": "load", "text_reader": "load",
    "picture_reader": "load",
    "corpus": "load", "token_file": "load", "translator": "load", "text_generator": "load", "chat": "load",
    "heed": "cli",
}

# Where a foreign library may be included.
SEAMS = {
    "mpi.h": ["src/mpi/message_passing.cc"],
    "tbb/": ["src/core/executor.cc"],
    "hwy/": ["src/simd/", "src/attention/", "src/kernels/"],
    "sentencepiece": ["src/text/"],
    "utf8proc": ["src/text/", "src/tokenizer/", "src/view/"],
    "pcre2.h": ["src/tokenizer/regex.cc"],
    "cairo": ["src/view/drawing.cc"],
    "pango": ["src/view/drawing.cc"],
    "CLI/": ["src/cli/"],
    "httplib.h": ["src/serve/http_library.cc"],
    "zip.h": ["src/io/"],
    "zlib.h": ["src/view/packing.cc", "src/view/png_orientation.cc", "src/io/directory.cc", "src/io/gzip.cc"],
    "nlohmann/": ["src/io/", "src/pretrained/", "src/tokenizer/json.cc", "src/train/", "src/cli/", "src/recipe/", "src/view/page.cc",
                  "src/view/report.cc", "src/serve/worker.cc", "src/served/", "src/load/translation_json.cc"],
}

NULL_JSON = re.compile(r"^\s*(?:const )?(?:nlohmann::(?:ordered_)?json|Json) +\w+(?:;|\{\};| = nullptr;)", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : [^{;]*)? \{", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def reachable(room):
    rooms, todo = {room}, [room]
    while todo:
        for below in BELOW[todo.pop()]:
            if below not in rooms:
                rooms.add(below)
                todo.append(below)
    return rooms


def room_of(include):
    """The room an include leads to, None for foreign ones."""
    parts = include.split("/")
    if parts[0] == "heed" and len(parts) == 2:
        return HEADERS.get(parts[1].removesuffix(".h"), parts[1])
    return parts[0] if parts[0] in BELOW and len(parts) == 2 else None


def complaints(root):
    files = 0
    types = {}  # the header of each; kernels and the program have namespaces of their own
    for path in sorted([*root.glob("include/heed/*.h"), *root.glob("src/*/*.h"), *root.glob("src/*/*.cc")]):
        name = path.relative_to(root).as_posix()
        if re.search(r"(_test|_bench)\.cc$|/testing\.h$", name):
            continue
        files += 1
        public = name.startswith("include/")
        room = room_of("heed/" + path.name) if public else path.parent.name
        if room not in BELOW:
            yield f"{name}: {room} has no room; add it to BELOW or HEADERS in tests/{pathlib.Path(__file__).name}"
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".h" and room != "cli" and not name.endswith("-inl.h"):
            for declared in TYPE.findall(text):
                if types.setdefault(declared, name) != name:
                    yield f"{name}: {types[declared]} has a {declared}, too; name one of them otherwise"
        for declared in NULL_JSON.findall(text):
            yield f"{name}: `{declared.strip()}` begins as null; make it json::object() or json::array()"
        for include in INCLUDE.findall(text):
            target = room_of(include)
            if target is not None and target not in reachable(room):
                yield f"{name}: {room} includes {include} of {target}, which does not lie below it"
            if target is not None and public and not include.startswith("heed/"):
                yield f"{name}: a public header includes the private {include}"
            if target not in (None, "cli") and room == "cli" and not include.startswith("heed/"):
                yield f"{name}: the program includes the private {include}"
            for foreign, places in SEAMS.items():
                if include.startswith(foreign) and not any(name.startswith(place) for place in places):
                    yield f"{name}: {include} belongs behind {' or '.join(places)}"
    for path in sorted([*root.glob("python/**/*.h"), *root.glob("python/**/*.cc"), *root.glob("wasm/*.cc")]):
        for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
            target = room_of(include)
            if target is not None and not include.startswith("heed/"):
                yield f"{path.relative_to(root)}: a front end includes the private {include}"
    if files < 10:
        yield f"only {files} files under {root}"


if __name__ == "__main__":
    found = list(complaints(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)
