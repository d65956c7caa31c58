"""heed embed, classify, fill and logits from outside."""
import ast
import json
import math
import os
import re
import shutil
import struct
import unittest
import zipfile

import tiny_models
from program import SHARED, TINY, ProgramTest, corpus, snapshot

MODELS = SHARED / "conformance/models"
needs_models = unittest.skipUnless(MODELS.exists(), "SKIPPED: needs shared/conformance/models, which is not here")
LETTERS = {"F32": "f", "I64": "q", "<f4": "f"}


def tensors_of(path):
    """Names to (shape, flat list)."""
    whole = path.read_bytes()
    length, = struct.unpack("<Q", whole[:8])
    tensors = {}
    for name, t in json.loads(whole[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + at for at in t["data_offsets"])
            values = struct.unpack(f"<{math.prod(t['shape'])}{LETTERS[t['dtype']]}", whole[begin:end])
            tensors[name] = t["shape"], list(values)
    return tensors


def npy_of(whole):
    """Shape and flat list of an array of NumPy's."""
    length, = struct.unpack("<H", whole[8:10])
    header = ast.literal_eval(whole[10:10 + length].decode())
    shape = header["shape"]
    return list(shape), list(struct.unpack(f"<{math.prod(shape)}{LETTERS[header['descr']]}", whole[10 + length:]))


def npz_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): npy_of(archive.read(name)) for name in archive.namelist()}


def softmax(scores):
    p = [math.exp(x - max(scores)) for x in scores]
    return [x / sum(p) for x in p]


def row(tensor, b, length, sizes_behind):
    """The first `length` tokens of row b of (B, L, ...), flat."""
    shape, values = tensor
    count = math.prod(shape[1:])
    return values[b * count:b * count + length * sizes_behind]


class Reading(ProgramTest):
    def close(self, got, want, tolerance=1e-4):
        self.assertEqual(len(got), len(want))
        most = max(abs(x) for x in want)
        self.assertLess(max(abs(a - b) for a, b in zip(got, want)), tolerance * most)

    def lines(self, *arguments, **options):
        return [json.loads(line) for line in self.succeeds(*arguments, "--json", **options).splitlines()]

    def vectors(self, model, texts, **options):
        self.succeeds("embed", "-m", model, "-o", "v.npy", stdin="".join(t + "\n" for t in texts), **options)
        (count, width), values = npy_of((self.at / "v.npy").read_bytes())
        self.assertEqual(count, len(texts))
        return [values[n * width:(n + 1) * width] for n in range(count)]


@needs_models
class OtherMakers(Reading):
    def test_sentences(self):
        for name in ("sentence-encoder", "sentence-encoder-cls"):
            with self.subTest(name):
                facts = json.loads((MODELS / name / "expected.json").read_text())
                shape, want = tensors_of(MODELS / name / "expected.safetensors")["sentence_embedding"]
                done = self.heed("embed", "-m", MODELS / name, stdin="".join(t + "\n" for t in facts["texts"]))
                self.assertEqual(done.stderr.decode(),
                                 "heed embed: line 2 is longer than the model takes and was cut\n")
                lines = [list(map(float, line.split())) for line in done.stdout.decode().splitlines()]
                self.assertEqual([len(line) for line in lines], [shape[1]] * shape[0])
                for n, line in enumerate(lines):
                    self.close(line, want[n * shape[1]:(n + 1) * shape[1]])

    def test_classes(self):
        name = "bert-classifier"
        facts = json.loads((MODELS / name / "expected.json").read_text())
        shape, logits = tensors_of(MODELS / name / "expected.safetensors")["logits"]
        labels = json.loads((MODELS / name / "config.json").read_text())["id2label"]
        text = "".join(a + ("\t" + b if b else "") + "\n" for a, b in zip(facts["texts"], facts["second_texts"]))
        for n, line in enumerate(self.lines("classify", "-m", MODELS / name, stdin=text)):
            want = softmax(logits[n * shape[1]:(n + 1) * shape[1]])
            got = {x["label"]: x["score"] for x in line["labels"]}
            self.assertEqual(sorted(got), sorted(labels.values()))
            self.close([got[labels[str(c)]] for c in range(len(want))], want)

    def test_masked_words(self):
        """Rows of the set that are what a text becomes; in others a mask stands for [SEP], too."""
        compared = 0
        for name in ("bert", "distilbert", "roberta", "mpnet"):
            model = MODELS / name
            expected = tensors_of(model / "expected.safetensors")
            (count, length), ids = expected["input_ids"]
            there = expected["attention_mask"][1]
            pieces = expected["logits"][0][2]
            first, last = map(int, self.succeeds("tokenize", "-m", model, stdin="\n").split())
            mask = "<mask>" if name in ("roberta", "mpnet") else "[MASK]"
            mask_id = int(self.succeeds("tokenize", "-m", model, "--no-special", stdin=mask + "\n"))
            for b in range(count):
                row_ids = [i for i, t in zip(ids[b * length:], there[b * length:(b + 1) * length]) if t]
                text = self.succeeds("tokenize", "-m", model, "--decode",
                                     stdin=" ".join(map(str, (i for i in row_ids if i not in (first, last)))) + "\n")
                if list(map(int, self.succeeds("tokenize", "-m", model, stdin=text).split())) != row_ids:
                    continue
                with self.subTest(name, row=b):
                    logits = row(expected["logits"], b, len(row_ids), pieces)
                    masks = self.lines("fill", "-m", model, "--top", "3", stdin=text)[0]["masks"]
                    places = [t for t, i in enumerate(row_ids) if i == mask_id]
                    self.assertEqual(len(masks), len(places))
                    for place, found in zip(places, masks):
                        p = softmax(logits[place * pieces:(place + 1) * pieces])
                        best = sorted(range(pieces), key=lambda i: -p[i])[:3]
                        self.assertEqual([f["id"] for f in found], best)
                        self.close([f["probability"] for f in found], [p[i] for i in best], 3e-4)
                        compared += 1
        self.assertGreater(compared, 8)

    def test_logits_states_and_maps(self):
        for name, decodes in (("gpt2", False), ("llama", False), ("bert", False), ("marian", True), ("t5", True)):
            with self.subTest(name):
                expected = tensors_of(MODELS / name / "expected.safetensors")
                for b in range(2):
                    self.compare_row(name, decodes, expected, b)

    def compare_row(self, name, decodes, expected, b):
        def ids(which, mask):
            (_, length), values = expected[which]
            there = expected[mask][1]
            return [i for i, t in zip(values[b * length:], there[b * length:(b + 1) * length]) if t]
        source = ids("input_ids", "attention_mask")
        more = []
        length = len(source)
        if decodes:
            target = ids("decoder_input_ids", "decoder_attention_mask")
            more = ["--target-ids", " ".join(map(str, target))]
            length = len(target)
        self.succeeds("logits", "-m", MODELS / name, "--ids", " ".join(map(str, source)), *more, "-q", "--out", "l.npy",
                      "--hidden", "h.npz", "--weights", "w.npz")
        shape, logits = npy_of((self.at / "l.npy").read_bytes())
        self.assertEqual(shape, [length, expected["logits"][0][2]])
        self.close(logits, row(expected["logits"], b, length, shape[1]))
        states, maps = npz_of(self.at / "h.npz"), npz_of(self.at / "w.npz")
        main = "encoder" if name == "bert" else "decoder"
        (layers, count, width), values = states[main]
        self.assertEqual(count, length)
        self.close(values[-count * width:], row(expected["last_hidden_state"], b, count, width))
        prefix = "decoder_" if decodes else ""
        self.close(values[:count * width], row(expected[prefix + "hidden.0"], b, count, width))
        wanted = {f"{main}_{n}" for n in range(layers - 1)}
        if decodes:
            wanted |= {f"cross_{n}" for n in range(layers - 1)}
            wanted |= {f"encoder_{n}" for n in range(states["encoder"][0][0] - 1)}
        self.assertEqual(set(maps), wanted)
        (heads, queries, keys), weights = maps[f"{main}_0"]
        (_, _, rows, columns), want = expected[prefix + "attention.0"]
        for h in range(heads):
            for q in range(queries):
                at = ((b * heads + h) * rows + q) * columns
                for x, y in zip(weights[(h * queries + q) * keys:][:keys], want[at:at + keys]):
                    self.assertAlmostEqual(x, y, delta=1e-4)

    def test_every_model_has_vectors(self):
        for name in ("gpt2", "gemma2", "marian", "t5", "bart", "mpnet"):
            with self.subTest(name):
                one, two, again = self.vectors(MODELS / name, ["We will see her.", "Go home!", "We will see her."])
                self.close(one, again, 1e-5)
                self.assertNotEqual(one, two)


class Embed(Reading):
    def test_pooling(self):
        """Of the states that logits gives."""
        model = tiny_models.text_encoder(self.at / "m")
        text, width = "the dog barks .", tiny_models.WIDTH
        self.succeeds("logits", text, "-m", "m", "--hidden", "h.npy", "-q")
        (_, length, _), values = npy_of((self.at / "h.npy").read_bytes())
        states = [values[-(length - n) * width:][:width] for n in range(length)]
        columns = list(zip(*states))
        weights = list(range(1, length + 1))
        pooled = {"cls": states[0], "last": states[-1], "max": [max(c) for c in columns],
                  "mean": [sum(c) / length for c in columns], "sqrt": [sum(c) / length ** 0.5 for c in columns],
                  "weighted": [sum(x * w for x, w in zip(c, weights)) / sum(weights) for c in columns]}
        self.close(self.vectors("m", [text])[0], pooled["mean"])
        for mode, want in pooled.items():
            tiny_models.sentence_modules(model, [mode], normalize=False)
            self.close(self.vectors("m", [text])[0], want)
        tiny_models.sentence_modules(model, ["mean", "cls"], normalize=True)
        want = pooled["cls"] + pooled["mean"]
        length = sum(x * x for x in want) ** 0.5
        self.close(self.vectors("m", ["  the dog barks .  "])[0], [x / length for x in want])
        self.write("m/1_Pooling/config.json", json.dumps({"pooling_mode": ["cls", "mean"]}))  # as newer files have it
        self.close(self.vectors("m", [text])[0], [x / length for x in want])

    def test_lower_case_and_prompt(self):
        model = tiny_models.text_encoder(self.at / "m")
        (model / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": false}')
        want = self.vectors("m", ["the red dog"])[0]
        self.assertNotEqual(self.vectors("m", ["The red DOG"])[0], want)
        tiny_models.sentence_modules(model, normalize=False, do_lower_case=True)
        self.assertEqual(self.vectors("m", ["The red DOG"])[0], want)
        self.write("m/config_sentence_transformers.json",
                   json.dumps({"prompts": {"query": "the ", "other": ""}, "default_prompt_name": "query"}))
        self.assertEqual(self.vectors("m", ["red dog"])[0], want)
        self.write("m/config_sentence_transformers.json", '{"prompts": {}, "default_prompt_name": "query"}')
        plain = self.vectors("m", ["red dog"])[0]  # sentence-transformers gives every model this prompt
        self.assertNotEqual(plain, want)
        self.write("m/config_sentence_transformers.json", '{"prompts": {"other": null}, "default_prompt_name": "other"}')
        self.assertEqual(self.vectors("m", ["red dog"])[0], plain)
        self.write("m/config_sentence_transformers.json", '{"prompts": {}, "default_prompt_name": "other"}')
        self.refuses(1, 'it must name one of "prompts"', "embed", "-m", "m", stdin="red dog\n")

    def test_prompts_by_name(self):
        model = tiny_models.text_encoder(self.at / "m")
        self.refuses(2, "the prompts document, query", "embed", "-m", "m", "--prompt", "none", stdin="red dog\n")
        tiny_models.sentence_modules(model, normalize=False)
        plain, the, where = self.vectors("m", ["red dog", "the red dog", "where is red dog"])
        self.write("m/config_sentence_transformers.json", json.dumps(
            {"prompts": {"query": "the ", "place": "where is ", "plain": ""}, "default_prompt_name": "query"}))
        for options, want in (([], the), (["--prompt", "query"], the), (["--prompt", "place"], where),
                              (["--prompt", "plain"], plain)):
            with self.subTest(options):
                self.succeeds("embed", "-m", "m", *options, "-o", "v.npy", stdin="red dog\n")
                self.close(npy_of((self.at / "v.npy").read_bytes())[1], want, 1e-6)
        self.refuses(2, "document, place, plain, query", "embed", "-m", "m", "--prompt", "none", stdin="red dog\n")

    def test_prompts_that_are_not_pooled(self):
        """The mean of the states after the prompt, which the model reads all the same."""
        model = tiny_models.text_encoder(self.at / "m")
        tiny_models.sentence_modules(model, normalize=False)
        self.write("m/config_sentence_transformers.json",
                   json.dumps({"prompts": {"query": "where is "}, "default_prompt_name": "query"}))
        self.write("m/1_Pooling/config.json", '{"pooling_mode": "mean", "include_prompt": false}')
        self.succeeds("logits", "where is red dog", "-m", "m", "--hidden", "h.npy", "-q")
        (_, length, width), values = npy_of((self.at / "h.npy").read_bytes())
        self.assertEqual(length, 6)  # [CLS], the prompt's two, the text's two, [SEP]
        after = [values[-(length - n) * width:][:width] for n in range(3, length)]
        self.close(self.vectors("m", ["red dog"])[0], [sum(column) / len(after) for column in zip(*after)])

    def test_truncated_vectors(self):
        """The first numbers, not normalised again, as in sentence-transformers."""
        model = tiny_models.text_encoder(self.at / "m")
        texts = ["the dog barks .", "red house"]
        for normalize in (False, True):
            tiny_models.sentence_modules(model, normalize=normalize)
            self.write("m/config_sentence_transformers.json", "{}")
            whole = self.vectors("m", texts)
            for width in (1, 3, tiny_models.WIDTH, tiny_models.WIDTH + 1):
                with self.subTest(normalize=normalize, width=width):
                    self.write("m/config_sentence_transformers.json", json.dumps({"truncate_dim": width}))
                    self.assertEqual(self.vectors("m", texts), [vector[:width] for vector in whole])
        self.write("m/config_sentence_transformers.json", '{"truncate_dim": 0}')
        self.refuses(1, "truncate_dim", "embed", "-m", "m", stdin="red dog\n")

    def test_dense(self):
        model = tiny_models.text_encoder(self.at / "m")
        tiny_models.sentence_modules(model)
        plain = self.vectors("m", ["the dog"])[0]
        listed = json.loads((model / "modules.json").read_text())
        listed.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
        (model / "modules.json").write_text(json.dumps(listed))
        dense = {"in_features": tiny_models.WIDTH, "out_features": 3, "bias": True,
                 "activation_function": "torch.nn.modules.activation.Tanh"}
        self.write("m/3_Dense/config.json", json.dumps(dense))
        tiny_models.write_tensors(model / "3_Dense/model.safetensors",
                                  {"linear.weight": (3, tiny_models.WIDTH), "linear.bias": (3,)}, seed=5)
        layer = tensors_of(model / "3_Dense/model.safetensors")
        weight, bias = layer["linear.weight"][1], layer["linear.bias"][1]
        want = [math.tanh(sum(x * w for x, w in zip(plain, weight[n * len(plain):])) + bias[n]) for n in range(3)]
        self.close(self.vectors("m", ["the dog"])[0], want)
        self.write("m/3_Dense/config.json", json.dumps({**dense, "in_features": 9}))
        self.refuses(1, "its layer is (3, 8)", "embed", "-m", "m", stdin="a\n")
        self.write("m/3_Dense/config.json", json.dumps({**dense, "activation_function": "torch.nn.modules.activation.Mish"}))
        self.refuses(1, "Mish", "embed", "-m", "m", stdin="a\n")
        # sentence-transformers computes Tanh for a class that is not torch's.
        self.write("m/3_Dense/config.json", json.dumps({**dense, "activation_function": "my.module.ReLU"}))
        self.close(self.vectors("m", ["the dog"])[0], want)

    def test_copies_embed_as_the_model_does(self):
        for name, seed in (("m", 5), ("n", 5), ("other", 6)):
            model = tiny_models.text_encoder(self.at / name)
            tiny_models.sentence_modules(model)
            listed = json.loads((model / "modules.json").read_text())
            listed.insert(2, {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
            (model / "modules.json").write_text(json.dumps(listed))
            self.write(name + "/3_Dense/config.json", json.dumps({"in_features": tiny_models.WIDTH, "out_features": 3}))
            tiny_models.write_tensors(model / "3_Dense/model.safetensors",
                                      {"linear.weight": (3, tiny_models.WIDTH), "linear.bias": (3,)}, seed=seed)
        want = self.vectors("m", ["the dog"])
        self.succeeds("export", "-m", "m", "--to", "copy")
        self.assertEqual(self.vectors("copy", ["the dog"]), want)
        self.succeeds("average", "m", "n", "--to", "mean")
        self.assertEqual(self.vectors("mean", ["the dog"]), want)
        self.refuses(2, "other has another 3_Dense/model.safetensors than m", "average", "m", "other", "--to", "x")
        shutil.rmtree(self.at / "n/3_Dense")
        for models in (("m", "n"), ("n", "m")):
            self.refuses(2, "has another ", "average", *models, "--to", "x")
        # Nothing is written into directories that are there, nor through links.
        self.write("mine/1_Pooling/config.json", "{}")
        before = snapshot(self.at / "mine")
        self.refuses(2, "mine/1_Pooling has files (config.json, for one)", "export", "-m", "m", "--to", "mine")
        self.assertEqual(snapshot(self.at / "mine"), before)
        (self.at / "elsewhere").mkdir()
        (self.at / "linked").mkdir()
        (self.at / "linked/1_Pooling").symlink_to(self.at / "elsewhere")
        self.refuses(2, "linked/1_Pooling is a symbolic link, which is not followed", "export", "-m", "m", "--to", "linked")
        self.assertEqual(list((self.at / "elsewhere").iterdir()), [])
        # A path that names no directory beside modules.json is not copied.
        for i, path in enumerate(("1_Pooling", "../other", "/tmp", ".", "config.json", "a" * 300, "none")):
            self.write("m/modules.json", json.dumps([{"path": ""}, {"path": path}, {"path": 3}, 4]))
            self.succeeds("export", "-m", "m", "--to", f"to{i}")
            directories = [p.name for p in (self.at / f"to{i}").iterdir() if p.is_dir()]
            self.assertEqual(directories, ["1_Pooling"] if path == "1_Pooling" else [])
        self.write("m/modules.json", "{")
        self.succeeds("export", "-m", "m", "--to", "broken")
        self.refuses(1, "broken/modules.json: not JSON", "embed", "-m", "broken", stdin="a\n")

    def test_modules_that_are_not_known(self):
        model = tiny_models.text_encoder(self.at / "m")
        whole = '[{"type": "sentence_transformers.models.Transformer", "path": ""}, {"type": "sentence_transformers.%s", "path": "%s"}]'
        for content, says in (("{}", "a Transformer, a Pooling, then"), ("[]", "a Transformer, a Pooling, then"),
                              ("[1, 2]", "not a JSON object"), (whole % ("LSTM", "1"), "LSTM"),
                              (whole % ("Pooling", "../x"), "../x"),
                              (whole % ("Pooling", "1"), '"path" is "1"; there is no such directory; copy it'),
                              (whole.replace("sentence_transformers.models.T", "a.T") % ("Pooling", "1"), "modules of other packages"),
                              (whole.replace('""', '"0"') % ("Pooling", "1"), "itself")):
            self.write("m/modules.json", content)
            self.refuses(1, says, "embed", "-m", "m", stdin="the dog\n")
        tiny_models.sentence_modules(model, max_seq_length=2)
        self.refuses(2, "special tokens fill", "embed", "-m", "m", stdin="the dog\n")
        tiny_models.sentence_modules(model)
        self.write("m/1_Pooling/config.json", '{"pooling_mode": ["mean", "median"]}')
        self.refuses(1, "weightedmean and lasttoken", "embed", "-m", "m", stdin="the dog\n")

    def test_lines_and_arrays(self):
        tiny_models.text_encoder(self.at / "m")
        text = "the dog barks .\n\ncat\n" * 40 + "the red house"
        self.write("texts", text)
        printed = self.succeeds("embed", "texts", "-m", "m")
        self.assertEqual(self.succeeds("embed", "-i", "texts", "-m", "m", "--threads", "2"), printed)
        self.succeeds("embed", "texts", "-m", "m", "-o", "v.npy")
        shape, values = npy_of((self.at / "v.npy").read_bytes())
        self.assertEqual(shape, [121, tiny_models.WIDTH])
        floats = [float(x) for line in printed.splitlines() for x in line.split()]
        self.assertEqual([struct.pack("<f", x) for x in floats], [struct.pack("<f", x) for x in values])
        for _ in range(2):  # a result may stand beside the model, and be replaced
            self.succeeds("embed", "texts", "-m", "m", "-o", "m/v.npy")
        self.assertEqual((self.at / "m/v.npy").read_bytes(), (self.at / "v.npy").read_bytes())
        self.succeeds("embed", "-m", "m", "-o", "none.npy", stdin="")
        self.assertEqual(npy_of((self.at / "none.npy").read_bytes()), ([0, tiny_models.WIDTH], []))
        self.assertEqual(self.succeeds("embed", "-m", "m", stdin=""), "")

    def test_similarity(self):
        tiny_models.text_encoder(self.at / "m")
        others = ["the cat sleeps", "the dog barks .", "where is tom ?", "red house"]
        self.write("others", "".join(t + "\n" for t in others))
        vectors = self.vectors("m", [*others, "the dog ."])

        def cosine(a, b):
            return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
        found = self.succeeds("embed", "-m", "m", "--similarity", "others", "--top", "3",
                              stdin="the dog barks .\nthe dog .\n").splitlines()
        self.assertEqual(found[0], "1\t1.0000\t2\tthe dog barks .")
        want = sorted(((cosine(vectors[4], v), n) for n, v in enumerate(vectors[:4])), reverse=True)[:3]
        for line, (c, n) in zip(found[3:], want):
            columns = line.split("\t")
            self.assertEqual((columns[0], columns[2], columns[3]), ("2", str(n + 1), others[n]))
            self.assertAlmostEqual(float(columns[1]), c, delta=1e-4)
        self.assertEqual(len(found), 6)
        tiny_models.sentence_modules(self.at / "m", normalize=False)
        for name, of in (("cosine", cosine), ("dot", lambda a, b: sum(x * y for x, y in zip(a, b))),
                         ("dot_product", lambda a, b: sum(x * y for x, y in zip(a, b))),
                         ("euclidean", lambda a, b: -math.dist(a, b)),
                         ("manhattan", lambda a, b: -sum(abs(x - y) for x, y in zip(a, b)))):
            with self.subTest(name):
                self.write("m/config_sentence_transformers.json", json.dumps({"similarity_fn_name": name}))
                found = self.succeeds("embed", "-m", "m", "--similarity", "others", "--top", "4", stdin="the dog .\n")
                rows = [line.split("\t") for line in found.splitlines()]
                want = sorted(((of(vectors[4], v), n) for n, v in enumerate(vectors[:4])), reverse=True)
                self.assertEqual([int(row[2]) for row in rows], [n + 1 for _, n in want])
                for row, (similarity, _) in zip(rows, want):
                    self.assertAlmostEqual(float(row[1]), similarity, delta=1e-3)
        self.write("m/config_sentence_transformers.json", '{"similarity_fn_name": "angle"}')
        self.refuses(1, "cosine, dot, euclidean or manhattan", "embed", "-m", "m", "--similarity", "others", stdin="a\n")
        self.write("empty", "")
        self.write("m/config_sentence_transformers.json", "{}")
        self.refuses(1, "empty has no lines", "embed", "-m", "m", "--similarity", "empty", stdin="a\n")
        self.refuses(2, "another name", "embed", "-m", "m", "--similarity", "others", "-o", "v.npy", stdin="a\n")
        self.refuses(2, "both standard input", "embed", "-m", "m", "--similarity", "-", stdin="a\n")
        self.refuses(2, "--similarity", "embed", "-m", "m", "--top", "3", stdin="a\n")

    def test_cut(self):
        tiny_models.text_encoder(self.at / "m")
        long = self.vectors("m", ["the dog " * 11])[0]
        cut = self.vectors("m", ["the dog " * 30], says="line 1 is longer than the model takes and was cut")[0]
        self.assertEqual(long, cut)
        says = "2 lines are longer than the model takes and were cut, line 2 the first"
        self.close(self.vectors("m", ["the", "the dog " * 30, "the dog " * 12], says=says)[1], cut)

    def test_own_models(self):
        self.write("train.tsv", corpus(60))
        for arguments in (["--pairs", "train.tsv", "--model", "t"], ["--text", "train.tsv", "--model", "w"]):
            done = self.heed("train", *arguments, *(TINY if "--pairs" in arguments else [
                "--preset", "tiny", "--d-model", "32", "--feed-forward", "32", "--vocab-size", "300", "--threads", "1"]),
                "--max-updates", "2", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        for model in ("t", "w"):
            one, two = self.vectors(model, ["el perro", "la casa y el gato"])
            self.assertEqual(len(one), 32)
            self.assertNotEqual(one, two)
        self.assertEqual(self.vectors("t", [""]), [[0.0] * 32])
        self.succeeds("logits", "el perro", "--target", "the", "-m", "t", "--hidden", "h.npz", "-q")
        (_, length, width), states = npz_of(self.at / "h.npz")["encoder"]
        last = [states[(n - length) * width:][:width] for n in range(length - 1)]  # without the end
        self.close(self.vectors("t", ["el perro"])[0], [sum(c) / len(last) for c in zip(*last)])
        self.refuses(2, "w holds a language model; name one that", "classify", "-m", "w", stdin="a\n")
        self.refuses(2, "t holds a translator; name one that finds masked", "fill", "-m", "t", stdin="a\n")
        self.succeeds("logits", "el perro", "--target", "the dog", "-m", "t", "--out", "l.npy", "--weights", "w.npz", "-q")
        self.assertEqual(npy_of((self.at / "l.npy").read_bytes())[0][1], 300)
        self.succeeds("attend", "--from", "w.npz", "--array", "cross_0")
        self.succeeds("logits", "the dog", "-m", "w", "--out", "l.npy", "--hidden", "h.npy", "-q")
        self.refuses(2, "leave out --target", "logits", "the", "--target", "dog", "-m", "w", "--out", "x.npy")
        self.refuses(2, "by --target or", "logits", "el", "-m", "t", "--out", "x.npy")
        self.refuses(2, "ends in .npz", "logits", "el", "--target", "a", "-m", "t", "--hidden", "x.npy")


class Classify(Reading):
    def test_classes(self):
        for problem, labels in (("single_label_classification", "abc"), ("multi_label_classification", "ab"),
                                ("regression", "a"), ("single_label_classification", "a")):
            with self.subTest(problem, labels=labels):
                tiny_models.text_encoder(self.at / problem, "BertForSequenceClassification", labels,
                                         problem_type=problem)
                self.succeeds("logits", "the dog barks", "-m", problem, "--out", "l.npy", "-q")
                shape, logits = npy_of((self.at / "l.npy").read_bytes())
                self.assertEqual(shape, [len(labels)])
                each = [1 / (1 + math.exp(-x)) for x in logits]
                all_of_one = softmax(logits) if len(labels) > 1 else each  # as transformers' pipeline
                want = {"s": all_of_one, "m": each, "r": logits}[problem[0]]
                got = self.lines("classify", "-m", problem, stdin="the dog barks\n")[0]["labels"]
                order = sorted(range(len(labels)), key=lambda c: -want[c])
                self.assertEqual([x["label"] for x in got], [labels[c] for c in order])
                self.close([x["score"] for x in got], [want[c] for c in order])
                best = labels[order[0]] + f"\t{want[order[0]]:.4f}"
                self.assertEqual(self.succeeds("classify", "-m", problem, stdin="the dog barks\n"), best + "\n")
                columns = self.succeeds("classify", "-m", problem, "--top", "9", stdin="the dog barks\n").split("\t")
                self.assertEqual(len(columns), 2 * len(labels))

    def test_pairs(self):
        tiny_models.text_encoder(self.at / "m", "BertForSequenceClassification")
        one, pair, other, again = self.lines("classify", "-m", "m",
                                             stdin="the dog\nthe dog\tthe cat\nthe dog the cat\nthe dog\tthe cat\n")
        self.assertEqual(pair["second"], "the cat")
        self.assertEqual(pair["labels"], again["labels"])
        self.assertNotEqual(pair["labels"], other["labels"])
        self.assertNotEqual(pair["labels"], one["labels"])
        self.refuses(1, "line 2 has more than two columns", "classify", "-m", "m", stdin="a\na\tb\tc\n")
        # The longer text of a pair is cut.
        cut, whole = "the dog\t" + "cat " * 50 + "\n", "the dog\t" + "cat " * 19 + "\n"
        labels = self.lines("classify", "-m", "m", stdin=whole)[0]["labels"]
        got = self.lines("classify", "-m", "m", stdin=cut, says="line 1 is longer than the model takes and was cut")
        self.assertEqual(got[0]["labels"], labels)

    def test_tokens(self):
        labels = ["O", "B-PER", "I-PER", "LOC"]
        tiny_models.text_encoder(self.at / "m", "BertForTokenClassification", labels, seed=3)
        text = "Café tom is in paris , where the dogs sleeps ."
        got = self.lines("classify", "-m", "m", stdin=text + "\nthe\n")[0]
        self.succeeds("logits", text, "-m", "m", "--out", "l.npy", "-q")
        (length, count), logits = npy_of((self.at / "l.npy").read_bytes())
        p = [softmax(logits[n * count:(n + 1) * count]) for n in range(1, length - 1)]
        self.assertEqual([t["label"] for t in got["tokens"]], [labels[x.index(max(x))] for x in p])
        self.close([t["score"] for t in got["tokens"]], [max(x) for x in p])
        self.assertEqual(got["tokens"][0]["token"], "[UNK]")
        self.assertEqual(got["tokens"][1]["begin"], 5)  # characters, of which é is one
        self.assertGreater(len({t["label"] for t in got["tokens"]}), 1)
        # The words, put together here.
        words, last = [], None
        for token in got["tokens"]:
            name = re.sub("^[BI]-", "", token["label"])
            if name != "O" and name == last and not token["label"].startswith("B-"):
                words[-1][1], words[-1][3] = token["end"], words[-1][3] + [token["score"]]
            elif name != "O":
                words.append([token["begin"], token["end"], name, [token["score"]]])
            last = name if name != "O" else None
        self.assertEqual([(w["begin"], w["end"], w["label"], w["text"]) for w in got["words"]],
                         [(b, e, n, text[b:e]) for b, e, n, _ in words])
        self.close([w["score"] for w in got["words"]], [sum(s) / len(s) for *_, s in words])
        lines = self.succeeds("classify", "-m", "m", stdin=text + "\nthe\n").split("\n")
        self.assertEqual(lines.index(""), len(got["tokens"]))
        self.assertEqual(lines[1], f"tom\t{got['tokens'][1]['label']}\t{got['tokens'][1]['score']:.4f}")
        self.refuses(2, "leave out --top", "classify", "-m", "m", "--top", "2", stdin="a\n")

    def test_answers(self):
        tiny_models.text_encoder(self.at / "m", "BertForQuestionAnswering", seed=2)
        question, context = "where is tom ?", "the dogs barks . tom is in paris ."
        got = self.lines("classify", "-m", "m", "--top", "40", stdin=question + "\t" + context + "\n")[0]["answers"]
        self.assertEqual(len({(a["begin"], a["end"]) for a in got}), len(got))
        self.assertEqual([a["text"] for a in got], [context[a["begin"]:a["end"]] for a in got])
        self.assertEqual(sorted((a["score"] for a in got), reverse=True), [a["score"] for a in got])
        words = set(context.split())
        self.assertTrue(all(w in words for a in got for w in a["text"].split()), got)
        line = self.succeeds("classify", "-m", "m", stdin=question + "\t" + context + "\n")
        self.assertEqual(line, f"{got[0]['text']}\t{got[0]['score']:.4f}\n")
        shortest = self.lines("classify", "-m", "m", "--top", "40", "--longest-answer", "1",
                              stdin=question + "\t" + context + "\n")[0]["answers"]
        self.assertTrue(all(len(a["text"].split()) == 1 for a in shortest))
        # All of a long text is looked at: what is best in its parts is found.
        long = "the dog sleeps . " * 20 + context
        self.assertGreater(self.lines("classify", "-m", "m", stdin=question + "\t" + long + "\n")[0]["answers"][0]["end"],
                           0)
        self.assertEqual(self.succeeds("classify", "-m", "m", stdin=question + "\t\n"), "\n")
        done = self.heed("classify", "-m", "m", stdin="a\n")
        self.assertEqual((done.returncode, done.stdout), (1, b"\n"))
        self.assert_one_line(done.stderr.decode(), "line 1 has one column")
        lines = self.succeeds("classify", "-m", "m", stdin="the\tdog barks\nthe\nthe\tcat\n", says="line 2 has one column")
        self.assertEqual([bool(line) for line in lines.splitlines()], [True, False, True])
        self.refuses(1, "line 1: the question has 30 tokens", "classify", "-m", "m", stdin="the " * 30 + "\tdog\n")

    def test_what_cannot_classify(self):
        tiny_models.text_encoder(self.at / "plain")
        tiny_models.text_encoder(self.at / "words", "BertForMaskedLM")
        self.refuses(2, "plain holds a bert, which has no head", "classify", "-m", "plain", stdin="a\n")
        self.refuses(2, "words holds a bert, which finds masked words; name one that", "classify", "-m", "words",
                     stdin="a\n")
        self.refuses(2, "--model is missing", "classify", stdin="a\n")
        tiny_models.text_encoder(self.at / "m", "BertForSequenceClassification", problem_type="other")
        self.refuses(1, "multi_label_classification and regression", "classify", "-m", "m", stdin="a\n")
        tiny_models.text_encoder(self.at / "m", "BertForSequenceClassification", id2label={"0": "a", "7": "b"})
        self.refuses(1, 'there is no "1"', "classify", "-m", "m", stdin="a\n")


class Fill(Reading):
    def test_masks(self):
        tiny_models.text_encoder(self.at / "m", "BertForMaskedLM")
        one = self.lines("fill", "-m", "m", "--top", "20", stdin="The [MASK] barks.\n")[0]["masks"][0]
        self.succeeds("logits", "The [MASK] barks.", "-m", "m", "--out", "l.npy", "-q")
        (_, count), logits = npy_of((self.at / "l.npy").read_bytes())
        p = softmax(logits[2 * count:3 * count])
        self.assertEqual([f["id"] for f in one], sorted(range(count), key=lambda i: -p[i]))
        self.close([f["probability"] for f in one], sorted(p, reverse=True))
        by_token = {f["token"].strip(): f["text"] for f in one}
        self.assertEqual(by_token["dog"], "the dog barks.")
        for line, options in (("The <mask> barks.", []), ("The ___ barks.", ["--mask", "___"])):
            self.assertEqual(self.lines("fill", "-m", "m", "--top", "20", *options, stdin=line + "\n")[0]["masks"][0],
                             one)
        columns = self.succeeds("fill", "-m", "m", "--top", "1", stdin="The [MASK] barks.\n")
        self.assertEqual(columns, "\t".join(["1", "1", f"{one[0]['probability']:.4f}", one[0]["token"].strip(),
                                             one[0]["text"]]) + "\n")

    def test_several(self):
        tiny_models.text_encoder(self.at / "m", "BertForMaskedLM")
        first, second = self.lines("fill", "-m", "m", stdin="[MASK] dog [MASK].\n")[0]["masks"]
        self.assertEqual((len(first), len(second)), (5, 5))
        self.assertEqual(first[0]["text"], second[0]["text"])
        self.assertEqual(len({f["text"] for f in second}), len({f["id"] for f in second}))
        lines = self.succeeds("fill", "-m", "m", "--top", "2", stdin="the [MASK]\n[MASK] [MASK]\n").splitlines()
        self.assertEqual([line.split("\t")[:2] for line in lines], [["1", "1"]] * 2 + [["2", "1"]] * 2 + [["2", "2"]] * 2)

    def test_what_is_wrong(self):
        tiny_models.text_encoder(self.at / "m", "BertForMaskedLM")
        self.refuses(1, "line 1 has no mask; write [MASK]", "fill", "-m", "m", stdin="the dog\n\n")
        lines = self.succeeds("fill", "-m", "m", "--top", 1, stdin="[MASK]\nthe dog\na [MASK]\n\n",
                              says="line 2 has no mask; write [MASK] or <mask> where a word is to be found; passed over 2 such")
        self.assertEqual([line.split("\t")[0] for line in lines.splitlines()], ["1", "3"])
        self.refuses(1, "line 1 has no mask; write ___", "fill", "-m", "m", "--mask", "___", stdin="the dog\n")
        self.refuses(1, "line 1 has 42 tokens; the model takes at most 24", "fill", "-m", "m",
                     stdin="[MASK] " * 40 + "\n")
        self.refuses(2, "is what the command reads", "fill", "-m", "m", "-o", "m/vocab.txt", stdin="[MASK]\n")
        # A mask that is a word like others, as MPNet's vocabulary has BERT's, is none.
        self.write("m/tokenizer_config.json", '{"tokenizer_class": "PreTrainedTokenizerFast"}')
        self.write("m/tokenizer.json", json.dumps({"model": {
            "type": "WordPiece", "unk_token": "[UNK]", "vocab": {p: i for i, p in enumerate(tiny_models.PIECES)},
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}, "pre_tokenizer": {"type": "Whitespace"},
            "normalizer": None, "post_processor": None, "decoder": None, "added_tokens": []}))
        self.refuses(1, "no special token [MASK] or <mask>", "fill", "-m", "m", stdin="[MASK] dog\n")


class Logits(Reading):
    def test_what_is_wrong(self):
        tiny_models.text_encoder(self.at / "m", "BertForMaskedLM")
        tiny_models.text_encoder(self.at / "plain")
        out = ["--out", "l.npy", "-m", "m"]
        self.refuses(2, "give a text, or ids", "logits", *out)
        self.refuses(2, "give a text, or ids", "logits", "the", "--ids", "2", *out)
        self.refuses(2, "'dog' is no id", "logits", "--ids", "2 dog", *out)
        self.refuses(2, "no ids", "logits", "--ids", " ", *out)
        self.refuses(2, "has the id 20; the model's ids are 0 to 19", "logits", "--ids", "2,20", *out)
        self.refuses(2, "has 25 tokens; the model takes at most 24", "logits", "--ids", "2 " * 25, *out)
        self.refuses(2, "has 32 tokens; the model takes at most 24", "logits", "the " * 30, *out)
        self.refuses(2, "give --out, --hidden or --weights", "logits", "the", "-m", "m")
        self.refuses(2, "must end in .npy", "logits", "the", "-m", "m", "--out", "l.txt")
        self.refuses(2, "must end in .npz", "logits", "the", "-m", "m", "--weights", "l.npy")
        self.refuses(2, "named twice", "logits", "the", "-m", "m", "--out", "l.npy", "--hidden", "./l.npy")
        self.refuses(2, "leave out --out", "logits", "the", "-m", "plain", "--out", "l.npy", "--hidden", "h.npy")
        self.refuses(2, "leave out --target", "logits", "the", "--target-ids", "3", *out)
        self.refuses(1, "none/l.npy", "logits", "the", "-m", "m", "--out", "none/l.npy")
        self.refuses(1, "nowhere", "logits", "the", "-m", "nowhere", "--out", "l.npy")

    def test_damaged_weights(self):
        model = tiny_models.text_encoder(self.at / "m", "BertForSequenceClassification")
        whole = bytearray((model / "model.safetensors").read_bytes())
        length, = struct.unpack("<Q", whole[:8])
        whole[8 + length:12 + length] = struct.pack("<f", math.nan)  # of [PAD]
        (model / "model.safetensors").write_bytes(whole)
        for arguments in (["embed", "-m", "m"], ["classify", "-m", "m"]):
            self.refuses(1, "embeddings.word_embeddings.weight", *arguments, stdin="the [PAD]\n")
        self.refuses(1, "embeddings.word_embeddings.weight", "logits", "--ids", "0", "-m", "m", "--out", "l.npy")

    @unittest.skipUnless(os.path.exists("/dev/full"), "SKIPPED: no /dev/full")
    def test_full_disk(self):
        tiny_models.text_encoder(self.at / "m", "BertForMaskedLM")
        for arguments in (["embed"], ["fill", "--top", "20"]):
            with open("/dev/full", "wb") as full:
                done = self.heed(*arguments, "-m", "m", stdin="the [MASK]\n" * 900, stdout=full)
            self.assertEqual(done.returncode, 1)
            self.assert_one_line(done.stderr.decode(), "is the disk full?")


if __name__ == "__main__":
    unittest.main()
