"""heed translate with a tiny model made here; and model directories that lie."""
import json
import os
import shutil
import tempfile
import pathlib
import struct
import subprocess
import unittest

from program import HEED, ProgramTest, TINY, corpus, safetensors


def setUpModule():
    global MODEL
    root = pathlib.Path(tempfile.mkdtemp(prefix="heed-translate-"))
    unittest.addModuleCleanup(shutil.rmtree, root)
    (root / "train.tsv").write_text(corpus(2000))
    MODEL = root / "model"
    subprocess.run([HEED, "train", "--pairs", root / "train.tsv", "--model", MODEL, *TINY, "--max-updates", "400",
                    "--anneal", "200", "--learning-rate", "0.01", "--warmup", "30", "--dropout", "0",
                    "--validate-every", "300"],
                   check=True, stderr=subprocess.PIPE, timeout=240)


LINES = ["el perro come", "hoy", "el gato es rojo y grande", "la casa", "pan y pelo"]


class Translate(ProgramTest):
    def translate(self, stdin, *arguments, **options):
        return self.succeeds("translate", "--model", MODEL, *arguments, stdin=stdin, **options)

    def one_by_one(self, *arguments):
        return [self.translate(line + "\n", *arguments) for line in LINES]

    def test_a_line_in_a_line_out_in_order(self):
        alone = self.one_by_one()
        self.assertGreater(len(set(alone)), 3)
        self.assertTrue(all(line.endswith("\n") and line.count("\n") == 1 for line in alone))
        self.assertEqual(self.translate("\n".join(LINES) + "\n"), "".join(alone))
        self.assertEqual(self.translate("\n".join(LINES)), "".join(alone))  # the last needs no newline
        many = self.translate(("\n".join(LINES) + "\n") * 500, "--batch", "64", "--beam", "1")  # several windows
        self.assertEqual(many, self.translate("\n".join(LINES), "--beam", "1") * 500)

    def test_it_has_learned(self):
        self.assertEqual(self.translate("perro\ngato y pan\n"), "dog\ncat and bread\n")

    def test_empty_lines_stay_empty(self):
        one = self.translate(LINES[0])
        self.assertEqual(self.translate(f"\n{LINES[0]}\n\n\n{LINES[0]}\n"), f"\n{one}\n\n{one}")
        self.assertEqual(self.translate(""), "")
        self.assertEqual(self.translate("\n"), "\n")
        self.assertEqual(self.translate("   \n"), "\n")

    def test_windows_line_ends(self):
        self.assertEqual(self.translate("\r\n".join(LINES) + "\r\n"), self.translate("\n".join(LINES) + "\n"))

    def test_malformed_utf8(self):
        out = self.translate(b"el perro \xff\xfe\ngato\n", says="U+FFFD in 2 places")
        self.assertEqual(out.count("\n"), 2)
        self.assertTrue(out.endswith(self.translate("gato\n")))

    def test_unknown_characters_and_nul(self):
        out = self.translate("\u4f60\u597d\n\0\n\u2028\ngato\n")
        self.assertEqual(out.count("\n"), 4)
        self.assertTrue(out.endswith(self.translate("gato\n")))

    def test_a_very_long_line(self):
        out = self.translate("perro " * 10000 + "\ngato\n", says="line 1 is longer than the model takes")
        self.assertEqual(out.count("\n"), 2)
        self.assertTrue(out.endswith(self.translate("gato\n")))

    def test_n_best_scores_and_alignment(self):
        text = self.translate("el perro\n\ngato\n", "--n-best", "3", "--scores", "--alignment")
        rows = [line.split("\t") for line in text.splitlines()]
        self.assertEqual([row[0] for row in rows], ["1"] * 3 + ["2"] * 3 + ["3"] * 3)
        for number in range(3):
            scores = [float(row[2]) for row in rows[3 * number:3 * number + 3]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertTrue(all(score <= 0 for score in scores))
        self.assertTrue(all(row[1] == row[3] == "" for row in rows[3:6]))
        best = [rows[0][1], "", rows[6][1]]
        self.assertEqual("\n".join(best) + "\n", self.translate("el perro\n\ngato\n"))
        for row in rows[:3]:
            words = len(row[1].split())
            pairs = [tuple(map(int, pair.split("-"))) for pair in row[3].split()]
            self.assertEqual([target for _, target in pairs], list(range(words)))
            self.assertTrue(all(0 <= source < 2 for source, _ in pairs))

    def test_columns_one_at_a_time(self):
        self.assertRegex(self.translate("gato\n", "--scores"), r"\A[^\t]+\t-?\d+\.\d{4}\n\Z")
        self.assertRegex(self.translate("gato\n", "--alignment"), r"\A[^\t]+\t(0-\d+ ?)*\n\Z")
        self.assertRegex(self.translate("gato\n", "--n-best", "2"), r"\A1\t[^\t]*\n1\t[^\t]*\n\Z")

    def test_max_length(self):
        for line in self.translate("\n".join(LINES), "--max-length", "1").splitlines():
            self.assertLessEqual(len(line.split()), 1)

    def test_threads_change_nothing(self):
        self.assertEqual(self.translate("\n".join(LINES), "--threads", "1", "--scores"),
                         self.translate("\n".join(LINES), "--threads", "2", "--scores"))

    def test_model_from_the_environment(self):
        self.assertEqual(self.succeeds("translate", stdin=LINES[0], env={"HEED_MODEL": str(MODEL)}),
                         self.translate(LINES[0]))

    def test_options_that_do_not_fit(self):
        self.refuses(2, "n_best 6 is not in 1..5", "translate", "--model", MODEL, "--n-best", "6", stdin="gato\n")

    def test_half_precision_export(self):
        self.succeeds("export", "--model", MODEL, "--to", "half")
        self.assertEqual(sorted(p.name for p in (self.at / "half").iterdir()),
                         ["MODEL_CARD.md", "config.json", "model.safetensors", "vocabulary.txt"])
        self.assertLess((self.at / "half/model.safetensors").stat().st_size,
                        0.6 * (MODEL / "model.safetensors").stat().st_size)
        self.assertEqual(self.succeeds("translate", "--model", "half", stdin="perro\n"), "dog\n")

    def test_reader_leaves(self):
        done = subprocess.run(["bash", "-c", 'set -o pipefail; yes perro | head -5000 | "$0" translate --beam 1 --model "$1"'
                               ' | head -1', HEED, MODEL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (141, b"dog\n", b""))

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = self.heed("translate", "--model", MODEL, stdin="perro\n", stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assert_one_line(done.stderr.decode(), "standard output")


class BrokenModel(ProgramTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(MODEL, self.at / "m")

    def refused(self, says, code=1):
        self.refuses(code, says, "translate", "--model", "m", stdin="perro\n")

    def config(self, **changes):
        config = json.loads((MODEL / "config.json").read_text())
        for key, value in changes.items():
            config.pop(key) if value is None else config.update({key: value})
        self.write("m/config.json", json.dumps(config))

    def test_nothing_there(self):
        self.refuses(1, "none", "translate", "--model", "none", stdin="perro\n")
        self.write("file", "x")
        self.refuses(1, "file", "translate", "--model", "file", stdin="perro\n")
        for name in ["config.json", "model.safetensors", "vocabulary.txt"]:
            with self.subTest(name):
                shutil.copytree(MODEL, self.at / "m", dirs_exist_ok=True)
                (self.at / "m" / name).unlink()
                self.refused(name)
                (self.at / "m" / name).mkdir()
                self.refused(name)
                (self.at / "m" / name).rmdir()

    def test_config_numbers(self):
        for key, value in [("d_model", -1), ("d_model", 0), ("d_model", 10**18), ("d_model", 10**30), ("d_model", 1e300),
                           ("d_model", "32"), ("d_model", 32.5), ("nhead", None), ("vocab_size", None),
                           ("num_encoder_layers", -3), ("num_decoder_layers", 10**9), ("dropout", -0.5),
                           ("dropout", 1e300), ("eos_id", -1), ("eos_id", 10**6), ("activation", "tanh"),
                           ("norm_first", 1), ("tie_embeddings", "yes"), ("max_positions", 2**62),
                           ("architecture", "mamba"), ("architecture", None)]:
            with self.subTest(f"{key} {value}"):
                self.config(**{key: value})
                self.refused(key)

    def test_config_keys(self):
        self.config(d_modle=32)
        self.refused('unknown key "d_modle"')
        text = (MODEL / "config.json").read_text()
        self.write("m/config.json", text.replace("{", '{"d_model": 32,', 1))
        self.refused("d_model")

    def test_config_that_is_not_json(self):
        for text in ["", "{", "[]", "null", "{}garbage", '{"d_model": 1e99999}', "\xff", "[" * 100000]:
            with self.subTest(text[:20]):
                self.write("m/config.json", text.encode("latin-1"))
                self.refused("config.json")

    def test_config_of_another_model(self):
        for change in [{"d_model": 64}, {"dim_feedforward": 64}, {"num_encoder_layers": 2}, {"tie_embeddings": False},
                       {"bias": False}, {"norm": "rms_norm"}, {"activation": "swiglu"}, {"positions": "learned"},
                       {"norm_first": False}]:
            with self.subTest(change):
                self.config(**change)
                self.refused("model.safetensors")
        self.config(nhead=5)
        self.refused("nhead")
        self.config(vocab_size=301)
        self.refused("301")

    def test_config_that_asks_for_terabytes(self):
        self.config(d_model=60000, nhead=1, num_encoder_layers=1000, num_decoder_layers=1000)
        self.refused("belong to different models")

    def test_weights_cut_short_or_longer(self):
        whole = (MODEL / "model.safetensors").read_bytes()
        for size in [0, 7, 8, 100, len(whole) - 1]:
            with self.subTest(size):
                self.write("m/model.safetensors", whole[:size])
                self.refused("model.safetensors")
        self.write("m/model.safetensors", whole + b"\0")
        self.refused("model.safetensors")

    def test_weights_that_lie(self):
        for header, data in [({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 4),
                             ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                               "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}}, b"\0" * 6),
                             ({"a": {"dtype": "F32", "shape": [2**62, 2**62], "data_offsets": [0, 4]}}, b"\0" * 4),
                             ({"a": {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]}}, b""),
                             ({}, b"")]:
            with self.subTest(header):
                self.write("m/model.safetensors", safetensors(header, data))
                self.refused("model.safetensors")
        self.write("m/model.safetensors", struct.pack("<Q", 2**63) + b"{}")
        self.refused("model.safetensors")

    def test_weights_of_the_right_size_and_wrong_names(self):
        whole = (MODEL / "model.safetensors").read_bytes()
        self.write("m/model.safetensors", whole.replace(b"embedding.weight", b"embedding.height", 1))
        self.refused("embedding.weight")

    def test_vocabulary(self):
        text = (MODEL / "vocabulary.txt").read_text()
        for broken in ["", "garbage\n", text[:len(text) // 2], text + "another\n"]:
            with self.subTest(broken[:20]):
                self.write("m/vocabulary.txt", broken)
                self.refused("vocabulary.txt")


if __name__ == "__main__":
    unittest.main()
