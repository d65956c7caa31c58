"""Model directories as a whole: averages, ensembles, two vocabularies, damaged weights, and what is not a model."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import tiny_models
from program import HEED, ProgramTest, TINY, TrainingTest, corpus

SHORT = [*TINY, "--max-updates", "40", "--learning-rate", "0.01", "--warmup", "10", "--dropout", "0"]


def run(*arguments):
    subprocess.run([HEED, *map(str, arguments)], check=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE, timeout=240)


def setUpModule():
    global ROOT
    ROOT = pathlib.Path(tempfile.mkdtemp(prefix="heed-models-"))
    unittest.addModuleCleanup(shutil.rmtree, ROOT)
    (ROOT / "train.tsv").write_text(corpus(400))
    (ROOT / "text.txt").write_text("".join(line.split("\t")[1] + "\n" for line in corpus(400).splitlines()))
    run("train", "--pairs", ROOT / "train.tsv", "--model", ROOT / "a", *SHORT)
    run("train", "--pairs", ROOT / "train.tsv", "--model", ROOT / "b", "--init", ROOT / "a", *SHORT, "--seed", "4")
    run("train", "--text", ROOT / "text.txt", "--model", ROOT / "writer", "--preset", "tiny", "--d-model", "32",
        "--feed-forward", "32", "--vocab-size", "300", "--max-updates", "20", "--seed", "3", "--threads", "1")
    run("train", "--pairs", ROOT / "train.tsv", "--valid-fraction", "0", "--model", ROOT / "two", "--separate-vocabularies", *SHORT[:-6],
        "--vocab-size", "290", "--max-updates", "40", "--learning-rate", "0.01", "--warmup", "10")


def read_tensors(path):
    """Names to (dtype, shape, list of floats)."""
    whole = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", whole[:8])
    tensors = {}
    for name, t in json.loads(whole[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            data = whole[8 + length + begin:8 + length + end]
            tensors[name] = t["dtype"], t["shape"], list(struct.unpack(f"<{len(data) // 4}f", data))
    return tensors


def spoil(path, name, place, value):
    """Writes a number into a float32 tensor of a file."""
    whole = bytearray(path.read_bytes())
    length, = struct.unpack("<Q", whole[:8])
    begin = json.loads(whole[8:8 + length])[name]["data_offsets"][0]
    at = 8 + length + begin + 4 * place
    whole[at:at + 4] = struct.pack("<f", value)
    path.write_bytes(whole)


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class ModelsTest(ProgramTest):
    def copy(self, model, name="m"):
        shutil.copytree(ROOT / model, self.at / name)
        return self.at / name


class Average(ModelsTest):
    def test_weights_are_the_mean_in_double(self):
        c = self.copy("b", "c")
        spoil(c / "model.safetensors", "encoder.layers.0.linear1.weight", 5, 3.25)
        self.succeeds("average", ROOT / "a", ROOT / "b", "c", "--to", "mean")
        parts = [read_tensors(d / "model.safetensors") for d in (ROOT / "a", ROOT / "b", c)]
        mean = read_tensors(self.at / "mean/model.safetensors")
        self.assertEqual(mean.keys(), parts[0].keys())
        for name, (dtype, shape, values) in mean.items():
            self.assertEqual((dtype, shape), ("F32", parts[0][name][1]))
            self.assertEqual(values, [float32(sum(row) / 3) for row in zip(*(p[name][2] for p in parts))], name)
        for name in ["config.json", "vocabulary.txt"]:
            self.assertEqual((self.at / "mean" / name).read_bytes(), (ROOT / "a" / name).read_bytes())
        self.assertEqual(sorted(p.name for p in (self.at / "mean").iterdir()),
                         ["MODEL_CARD.md", "config.json", "model.safetensors", "vocabulary.txt"])
        self.assertIn("The mean of the weights of 3 models", (self.at / "mean/MODEL_CARD.md").read_text())
        self.succeeds("translate", "--model", "mean", stdin="el perro\n")
        self.succeeds("inspect", "mean")

    def test_language_models_and_two_vocabularies(self):
        for model in ["writer", "two"]:
            self.copy(model, model)
            self.succeeds("average", ROOT / model, model, "--to", model + "-mean")
            self.assertEqual(read_tensors(self.at / (model + "-mean") / "model.safetensors"),
                             read_tensors(ROOT / model / "model.safetensors"))
            self.succeeds("inspect", model + "-mean")

    def test_dropout_may_differ(self):
        self.copy("b", "b")
        config = json.loads((self.at / "b/config.json").read_text())
        config["dropout"] = 0.375
        (self.at / "b/config.json").write_text(json.dumps(config))
        for first, second in [(ROOT / "a", "b"), ("b", ROOT / "a")]:
            self.succeeds("average", first, second, "--to", "mean", "--overwrite")
            self.assertEqual((self.at / "mean/config.json").read_text() != (ROOT / "a/config.json").read_text(),
                             first == "b")

    def test_refusals(self):
        self.copy("b", "b")
        self.refuses(2, "two directories or more", "average", ROOT / "a", "--to", "x")
        self.refuses(2, "given twice", "average", ROOT / "a", ROOT / "a", "--to", "x")
        self.refuses(2, "is one of the models", "average", ROOT / "a", "b", "--to", "b")
        self.refuses(2, "another architecture", "average", ROOT / "a", ROOT / "writer", "--to", "x")
        self.refuses(2, "another vocab_size", "average", ROOT / "a", ROOT / "two", "--to", "x")
        self.refuses(1, "none", "average", ROOT / "a", "none", "--to", "x")
        (self.at / "b/vocabulary.txt").write_text((ROOT / "a/vocabulary.txt").read_text() + "x\n")
        self.refuses(2, "another vocabulary.txt", "average", ROOT / "a", "b", "--to", "x")
        shutil.copy(ROOT / "a/vocabulary.txt", self.at / "b/vocabulary.txt")
        spoil(self.at / "b/model.safetensors", "embedding.weight", 33, math.nan)
        self.refuses(1, "tensor 'embedding.weight' holds NaN at (1, 1)", "average", ROOT / "a", "b", "--to", "x")


class Ensemble(ModelsTest):
    def translate(self, *models, **options):
        arguments = [part for model in models for part in ("-m", model)]
        return self.succeeds("translate", *arguments, "--scores", "--alignment", stdin="el perro come\nhoy\n", **options)

    def test_several_models_translate_as_one(self):
        self.copy("a", "same")
        a, b, both = self.translate(ROOT / "a"), self.translate(ROOT / "b"), self.translate(ROOT / "a", ROOT / "b")
        self.assertNotEqual(both, a)
        self.assertNotEqual(both, b)
        self.assertEqual(both, self.translate(ROOT / "a", ROOT / "b", env={**os.environ, "OMP_NUM_THREADS": "1"}))
        scores = [float(line.split("\t")[1]) for line in self.translate(ROOT / "a", "same").splitlines()]
        for one, twice in zip([float(line.split("\t")[1]) for line in a.splitlines()], scores):
            self.assertAlmostEqual(one, twice, places=3)
        self.translate(ROOT / "two", ROOT / "two")

    def test_refusals(self):
        for others, says in [(["-m", ROOT / "two"], "need one vocabulary"), (["-m", ROOT / "writer"], "language model"),
                             (["-m", ""], "it is empty")]:
            done = self.heed("translate", "-m", ROOT / "a", *others, stdin="hoy\n")
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assert_one_line(done.stderr.decode(), says)


class NoName(ProgramTest):
    def test_an_empty_model_is_not_the_bundled_one(self):
        for command in [["translate"], ["attend", "hola"], ["generate", "hola"]]:
            self.refuses(2, "it is empty", *command, "--model", "", stdin="hola\n")


class NotFinite(ModelsTest):
    def test_translate_attend_and_generate_stop_and_name_the_tensor(self):
        m = self.copy("a")
        spoil(m / "model.safetensors", "decoder.layers.0.linear1.weight", 32, math.nan)
        says = "tensor 'decoder.layers.0.linear1.weight' holds NaN at (1, 0)"
        self.refuses(1, says, "translate", "--model", "m", stdin="el perro\n")
        self.refuses(1, says, "translate", "--model", "m", "--beam", "1", stdin="el perro\n")
        self.refuses(1, says, "attend", "el perro", "--model", "m")
        self.refuses(1, says, "attend", "el perro", "--target", "dog", "--model", "m")
        w = self.copy("writer", "w")
        spoil(w / "model.safetensors", "layers.0.linear2.weight", 0, math.nan)
        for arguments in [["generate", "the"], ["generate", "the", "--temperature", "0"], ["attend", "the dog"]]:
            done = self.heed(*arguments, "--model", "w")
            self.assertEqual(done.returncode, 1)
            self.assertIn(done.stdout, [b"", b"the"])  # the prompt may stand there already
            self.assert_one_line(done.stderr.decode(), "tensor 'layers.0.linear2.weight' holds NaN at (0, 0)")

    def refused_training(self, says, *arguments):
        done = self.heed("train", *arguments, "--max-updates", 30, "--quiet")
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), says)

    def test_trainings_do_not_begin(self):
        name = "decoder.layers.0.linear1.weight"
        m, says = self.copy("a"), f"tensor '{name}' holds NaN at (1, 0)"
        spoil(m / "model.safetensors", name, 32, math.nan)
        data = ["--pairs", ROOT / "train.tsv", "--valid-fraction", 0]
        self.refused_training(f"m/model.safetensors: {says}; the model is damaged", "--init", "m", "--model", "new",
                              *data)
        self.assertFalse((self.at / "new").exists())

    def test_third_party_models(self):
        for name in ("gpt2", "other"):
            tiny_models.language_model(self.at / name)
        self.succeeds("average", "gpt2", "other", "--to", "mean")
        whole = (self.at / "other/model.safetensors").read_bytes()
        names = json.loads(whole[8:8 + struct.unpack("<Q", whole[:8])[0]])
        name = next(name for name in names if name.endswith("c_fc.weight"))
        spoil(self.at / "other/model.safetensors", name, 0, math.nan)
        says = f"other/model.safetensors: tensor '{name}' holds NaN at (0, 0)"
        for models in (("gpt2", "other"), ("other", "gpt2")):
            self.refuses(1, says + "; the model is damaged: leave it out", "average", *models, "--to", "x")
        self.write("text.txt", "the dog eats the bread\n" * 40)
        for how in [], ["--lora", 2]:
            self.refused_training(says + "; the model is damaged: begin with another copy", "--init", "other", "--model", "new",
                                  "--text", "text.txt", "--block", 8, *how)
            self.assertFalse((self.at / "new").exists())


def numbers(path):
    """Of a float32 .npy file."""
    whole = pathlib.Path(path).read_bytes()
    data = whole[10 + struct.unpack("<H", whole[8:10])[0]:]
    return struct.unpack(f"<{len(data) // 4}f", data)


class Precision(ModelsTest):
    def test_eight_bits_are_near(self):
        logits = {}
        for dtype in ["f32", "f16", "bf16", "int8"]:
            self.succeeds("logits", "-m", ROOT / "writer", "--dtype", dtype, "the dog", "--out", "l.npy", "-q")
            logits[dtype] = numbers(self.at / "l.npy")
        self.succeeds("logits", "-m", ROOT / "writer", "the dog", "--out", "l.npy", "-q")
        self.assertEqual(numbers(self.at / "l.npy"), logits["f32"])  # as the file has it
        largest = max(map(abs, logits["f32"]))
        for dtype, share in [("f16", 2e-3), ("bf16", 2e-2), ("int8", 3e-2)]:
            apart = max(abs(a - b) for a, b in zip(logits[dtype], logits["f32"]))
            self.assertLess(apart, share * largest, dtype)
            self.assertGreater(apart, 0, dtype)

    def test_who_takes_it(self):
        eight = ["--dtype", "int8"]
        self.succeeds("translate", "-m", ROOT / "a", *eight, "el perro")
        self.succeeds("attend", "-m", ROOT / "a", *eight, "el perro")
        self.succeeds("generate", "-m", ROOT / "writer", *eight, "the")
        self.succeeds("embed", "-m", ROOT / "writer", *eight, stdin="the dog\n")
        self.refuses(2, "'int4' is not one of f32, f16, bf16, int8", "generate", "-m", ROOT / "writer", "--dtype",
                     "int4", "the")
        self.refuses(2, "'int8' is not one of f32, f16, bf16", "export", "-m", ROOT / "a", "--to", "b", *eight)
        self.refuses(2, "--dtype", "train", "--text", ROOT / "text.txt", "--model", "m", *eight)
        self.refuses(2, "--dtype", "average", ROOT / "a", ROOT / "b", "--to", "m", *eight)
        self.refuses(2, "--dtype", "attend", "--from", "w.npz", *eight)


class TwoVocabularies(ModelsTest, TrainingTest):
    def test_the_directory(self):
        two = ROOT / "two"
        config = json.loads((two / "config.json").read_text())
        self.assertEqual((config["vocab_size"], config["source_vocab_size"]), (290, 290))
        source, target = ((two / f).read_text() for f in ["source_vocabulary.txt", "vocabulary.txt"])
        self.assertIn("grande\n", source)
        self.assertNotIn("rande\n", target)
        tensors = read_tensors(two / "model.safetensors")
        self.assertEqual(tensors["source_embedding.weight"][1], [290, 32])
        self.assertEqual(tensors["target_embedding.weight"][1], [290, 32])
        self.assertNotIn("output.weight", tensors)  # tied to the target's
        self.assertNotIn("source_vocab_size", (ROOT / "a/config.json").read_text())
        told = self.succeeds("inspect", two)
        self.assertIn("vocabulary  source_vocabulary.txt, 290 pieces", told)
        self.assertIn("vocabulary  vocabulary.txt, 290 pieces", told)

    def test_commands(self):
        two = ROOT / "two"
        out = self.succeeds("translate", "--model", two, "--alignment", stdin="el perro\n")
        self.succeeds("export", "--model", two, "--to", "half")
        self.assertEqual((self.at / "half/source_vocabulary.txt").read_bytes(),
                         (two / "source_vocabulary.txt").read_bytes())
        self.assertEqual(self.succeeds("translate", "--model", "half", stdin="el perro\n"), out.split("\t")[0] + "\n")
        top = self.succeeds("attend", "el perro", "--model", two, "--top", "1")
        self.assertRegex(top, r"·?r?ro 0\.")  # a piece of perro, which the target's vocabulary has not
        self.assertEqual(self.heed("attend", "el perro", "--model", two, "--html", "page.html").returncode, 0)
        self.assertIn("perro", (self.at / "page.html").read_text())
        shutil.copytree(two, self.at / "m")
        (self.at / "m/source_vocabulary.txt").unlink()
        self.refuses(1, "source_vocabulary.txt", "translate", "--model", "m", stdin="el perro\n")
        shutil.copy(ROOT / "a/vocabulary.txt", self.at / "m/source_vocabulary.txt")
        self.refuses(1, "source_vocabulary.txt has 300 pieces, config.json says 290", "translate", "--model", "m",
                     stdin="el perro\n")

    def test_training_goes_on_with_the_same_bits(self):
        common = ["train", "--pairs", ROOT / "train.tsv", *TINY, "--vocab-size", "290", "--save-every", "1"]
        self.RUN = [*common, "--separate-vocabularies", "--max-updates", "20", "--validate-every", "10", "--log-every",
                    "1"]
        self.train("--model", "whole")
        process = self.start("--model", "m")
        self.until_line(process, "update 7 ")
        process.kill()
        process.communicate()
        self.assertFalse((self.at / "m/MODEL_CARD.md").exists())
        self.train("--model", "m")
        self.assertEqual(self.model(), self.model("whole"))
        done = self.heed(*common, "--model", "m")
        self.assertEqual(done.returncode, 2)
        self.assert_one_line(done.stderr.decode(), "--separate-vocabularies true, not false")

    def test_begun_from_another_model(self):
        done = self.heed("train", "--pairs", ROOT / "train.tsv", "--model", "more", "--init", ROOT / "two",
                         "--max-updates", "2", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ["vocabulary.txt", "source_vocabulary.txt"]:
            self.assertEqual((self.at / "more" / name).read_bytes(), (ROOT / "two" / name).read_bytes())

    def test_a_report_shows_each_side_in_its_own_pieces(self):
        done = self.heed("train", "--pairs", ROOT / "train.tsv", "--valid-pairs", ROOT / "train.tsv", "--model", "m",
                         *TINY, "--vocab-size", "290", "--separate-vocabularies", "--max-updates", "2",
                         "--html", "report.html", "--bleu-sentences", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.at / "report.html").exists())


class Ranges(ProgramTest):
    """What training accepts can be loaded."""

    def test_refused_at_the_start_by_the_option(self):
        self.write("train.tsv", corpus(20))
        for option, value in [("--encoder-layers", "0"), ("--decoder-layers", "0"), ("--max-positions", "1"),
                              ("--d-model", "0"), ("--heads", "5000"), ("--feed-forward", "0"), ("--dropout", "1")]:
            with self.subTest(option):
                self.refuses(2, f"{option} is {value}" if option != "--dropout" else "--dropout is 1", "train",
                             "--pairs", "train.tsv", "--model", "m", *TINY, option, value)
        self.refuses(2, "--d-model 33 is not a multiple of --heads 2", "train", "--pairs", "train.tsv", "--model", "m",
                     *TINY, "--d-model", "33")


class WhatIsNoModel(ModelsTest):
    def told(self, says):
        """inspect may list what there is; it says what is wrong and ends with 1."""
        done = self.heed("inspect", "m")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assert_one_line(done.stderr.decode(), says)

    def test_inspect_checks_the_directory(self):
        m = self.copy("a")
        for config in ["", "null", "[]", '{"architectures": ["BertModel"]}']:
            (m / "config.json").write_text(config)
            self.told("m/config.json")
        (m / "config.json").write_text('{"model_type": "bert"}')  # with all defaults
        self.told("there is no tensor 'embeddings.word_embeddings.weight'")
        config = json.loads((ROOT / "a/config.json").read_text())
        for change, says in [({"vocab_size": 299}, "vocabulary.txt has 300 pieces"),
                             ({"num_encoder_layers": 7}, "belong to different models"),
                             ({"eos_id": 0}, "eos_id is 0, as pad_id is")]:
            (m / "config.json").write_text(json.dumps({**config, **change}))
            self.told(says)
        shutil.copy(ROOT / "a/config.json", m)
        for vocabulary in ["", "garbage\n"]:
            (m / "vocabulary.txt").write_text(vocabulary)
            self.told("m/vocabulary.txt: ")
        (m / "vocabulary.txt").unlink()
        self.told("lacks vocabulary.txt")
        self.refuses(2, "path: it is empty", "inspect", "")

    def test_files_of_others(self):
        m = self.copy("a")
        gguf = b"GGUF\3\0\0\0" + b"\0" * 16
        for content, says in [(gguf, "is a GGUF file; heed reads safetensors"),
                              (b"PK\3\4" + b"\x14" * 40, "is a zip archive"),
                              (b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "is a pickle"),
                              (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS")]:
            shutil.copy(ROOT / "a/vocabulary.txt", m)
            self.write("m/model.safetensors", content)
            if content is not gguf:
                self.refuses(1, says, "inspect", "m/model.safetensors")
            self.refuses(1, says, "translate", "--model", "m", stdin="el\n")
            self.write("m/vocabulary.txt", content)
            self.refuses(1, "m/vocabulary.txt: ", "translate", "--model", "m", stdin="el\n")
            self.refuses(1, "m/vocabulary.txt: ", "translate", "--model", "m", "--trust", stdin="el\n")

    def test_pipes_and_devices_are_not_waited_for(self):
        for name in ["config.json", "vocabulary.txt", "model.safetensors"]:
            m = self.copy("a")
            (m / name).unlink()
            os.mkfifo(m / name)
            done = self.heed("translate", "--model", "m", stdin="el\n")
            self.assertEqual(done.returncode, 1)
            self.assert_one_line(done.stderr.decode(), f"m/{name}: not a regular file")
            (m / name).unlink()
            (m / name).symlink_to("/dev/zero")
            self.refuses_quickly(name)
            (m / name).unlink()
            with open(m / name, "wb") as sparse:
                sparse.truncate(3 << 30)
            done = self.heed("translate", "--model", "m", stdin="el\n")
            self.assertEqual(done.returncode, 1)
            self.assert_one_line(done.stderr.decode(), f"m/{name}")
            shutil.rmtree(m)

    def refuses_quickly(self, name):
        done = self.heed("translate", "--model", "m", stdin="el\n")
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), f"m/{name}: not a regular file")


if __name__ == "__main__":
    unittest.main()
