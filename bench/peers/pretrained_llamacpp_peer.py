"""llama.cpp, by way of llama-cpp-python, which is built for this processor, as a side of bench/pretrained/compare.py. Its
files are those that make_models.py writes beside the directories."""
import pathlib
import random

import llama_cpp as llama
from protocol import Unsupported, fastest, serve

TYPES = {"float32": "F32", "bfloat16": "BF16", "int8": "Q8_0"}
LONGEST = 1024  # tokens of all texts together
loaded = {}  # the model's path, the model and its texts: one at a time, since they are large
llama.llama_backend_init()
quiet = llama.llama_log_callback(lambda level, text, data: None)
llama.llama_log_set(quiet, None)


def model_of(path):
    if loaded.get("path") != path:
        if "path" in loaded:
            llama.llama_model_free(loaded["model"])
            loaded.clear()
        model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not model:
            raise Unsupported(f"cannot load {path.name}")
        loaded.update(path=path, model=model)
    return loaded["model"]


class Texts:
    """Texts that are decoded together."""

    def __init__(self, model, r):
        options = llama.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = LONGEST
        options.n_seq_max = r["texts"]
        options.kv_unified = True
        options.n_threads = options.n_threads_batch = r["threads"]
        self.context = llama.llama_init_from_model(model, options)
        self.batch = llama.llama_batch_init(LONGEST, 0, 1)
        self.sampler = llama.llama_sampler_init_greedy()
        random.seed(1)
        self.prompts = [[random.randrange(30000) for _ in range(r["length"])] for _ in range(r["texts"])]
        self.tokens = r["tokens"]

    def read(self, rows, position):
        """Tokens of each text from a position on; returns the most probable next one of each."""
        batch, n, last = self.batch, 0, []
        for text, row in enumerate(rows):
            for at, token in enumerate(row):
                batch.token[n], batch.pos[n], batch.n_seq_id[n], batch.seq_id[n][0] = token, position + at, 1, text
                batch.logits[n] = at == len(row) - 1
                n += 1
            last.append(n - 1)
        batch.n_tokens = n
        if llama.llama_decode(self.context, batch) != 0:
            raise Unsupported("llama_decode failed")
        return [[llama.llama_sampler_sample(self.sampler, self.context, i)] for i in last]

    def generate(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        rows, position = self.read(self.prompts, 0), len(self.prompts[0])
        for _ in range(self.tokens - 1):
            rows, position = self.read(rows, position), position + 1

    def free(self):
        llama.llama_sampler_free(self.sampler)
        llama.llama_batch_free(self.batch)
        llama.llama_free(self.context)


def choose(r):
    if r["kind"] not in ("decode", "prompt"):
        raise Unsupported("no such operation")
    if "texts" in loaded:
        loaded.pop("texts").free()
    model = model_of(pathlib.Path(r["directory"] + "-" + TYPES[r["dtype"]] + ".gguf"))
    loaded["texts"] = texts = Texts(model, r)
    return fastest([("greedy", texts.generate, lambda: None)])


if __name__ == "__main__":
    serve("llama.cpp", "llama-cpp-python " + llama.__version__, choose)
