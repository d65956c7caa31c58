"""heed attention and heed inspect on files that do not fit, are broken, or lie."""
import json
import math
import os
import signal
import resource
import unittest

from program import ProgramTest, SHARED, npy, safetensors, zeros_npy


class Attention(ProgramTest):
    FILES = ["attention", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]

    def save(self, q, k, v):
        for name, shape in [("q", q), ("k", k), ("v", v)]:
            self.write(f"{name}.npy", zeros_npy(*shape))

    def refused(self, says, *arguments, code=2, **options):
        self.refuses(code, says, *self.FILES, "--out", "o.npy", "--weights", "w.npy", *arguments, **options)

    def test_shapes_that_do_not_fit(self):
        for q, k, v in [((2, 4), (3, 5), (3, 4)), ((2, 4), (3, 4), (2, 4)), ((2, 2, 4), (3, 4), (3, 4)),
                        ((2, 1, 2, 4), (3, 1, 3, 4), (3, 1, 3, 4)), ((4,), (4,), (4,)),
                        ((1, 1, 1, 2, 4), (1, 1, 1, 3, 4), (1, 1, 1, 3, 4))]:
            with self.subTest((q, k, v)):
                self.save(q, k, v)
                self.refused("attention:")

    def test_heads_that_do_not_divide(self):
        self.save((12, 2, 4), (5, 3, 4), (5, 3, 4))
        self.refused("12 query heads are not a multiple of 5 key heads; pass k and v with 1, 2, 3, 4, 6 or 12 heads")

    def test_mask_that_does_not_broadcast(self):
        self.save((2, 4), (3, 4), (3, 4))
        for shape in [(2, 4), (3, 3), (2, 2, 3)]:
            with self.subTest(shape):
                self.write("m.npy", zeros_npy(*shape))
                self.refused("mask", "--mask", "m.npy")
        self.write("m.npy", zeros_npy(2, 3, descr="<f8"))
        self.refused("mask", "--mask", "m.npy")

    def test_object_npy(self):
        self.save((2, 4), (3, 4), (3, 4))
        self.write("k.npy", zeros_npy(3, 4).replace(b"<f4", b"|O "))
        self.refused("k.npy", code=1)

    def test_broken_npy(self):
        self.save((2, 4), (3, 4), (3, 4))
        good = zeros_npy(3, 4)
        for name, broken in [("empty", b""), ("cut", good[:-1]), ("longer", good + b"\0"), ("magic", b"x" + good[1:]),
                             ("header", good[:20]), ("negative", good.replace(b"(3, 4)", b"(-3,4)")),
                             ("huge", npy((2**62, 8), [0.0] * 12))]:
            with self.subTest(name):
                self.write("k.npy", broken)
                self.refused("k.npy", code=1)

    def test_missing_or_a_directory(self):
        self.save((2, 4), (3, 4), (3, 4))
        (self.at / "k.npy").unlink()
        self.refused("k.npy", code=1)
        (self.at / "k.npy").mkdir()
        self.refused("k.npy", code=1)

    def test_wrong_values(self):
        self.save((2, 4), (3, 4), (3, 4))
        self.refused("--causal", "--causal", "sideways")
        self.refused("--scale", "--scale", "big")
        self.refused("dropout", "--dropout", "1.5")

    def test_fortran_order_is_read_with_a_warning(self):
        self.save((2, 2), (2, 2), (2, 2))
        self.write("v.npy", npy((2, 2), [1, 2, 3, 4], fortran=True))  # rows (1, 3) and (2, 4)
        self.assertEqual(self.succeeds(*self.FILES, says="v.npy is in Fortran order"), "1.5 3.5\n1.5 3.5\n")

    def test_nan_reaches_only_rows_that_attend_to_it(self):
        self.save((2, 2), (2, 2), (2, 2))
        self.write("v.npy", npy((2, 2), [1, 2, math.nan, 4]))
        out = self.succeeds(*self.FILES, "--causal", "top-left", says="v.npy has 1 NaN")
        self.assertEqual(out, "1 2\nnan 3\n")

    def test_output_that_cannot_be_written(self):
        self.save((2, 4), (3, 4), (3, 4))
        self.refuses(1, "none", *self.FILES, "--out", "none/o.npy")
        self.write("sub/x", "")
        self.refuses(1, "sub", *self.FILES, "--out", "sub")

        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

        self.refuses(1, "raise the limit of a file's size", *self.FILES, "--out", "o.npy", preexec_fn=no_space)

    def test_output_of_before_survives_a_full_disk(self):
        self.save((2, 4), (3, 4), (3, 4))
        self.succeeds(*self.FILES, "--out", "o.npy")
        self.test_output_that_cannot_be_written()


class Inspect(ProgramTest):
    def test_shared_cases(self):
        folder = SHARED / "conformance/formats"
        if not (folder / "manifest.json").exists():
            self.skipTest("needs shared/conformance/formats, which is not here")
        counts = {True: 0, False: 0}
        for case in json.loads((folder / "manifest.json").read_text()):
            with self.subTest(case["file"]):
                path = (folder / case["file"]).resolve()
                counts[case["accept"]] += 1
                if case["accept"]:
                    self.assertEqual(self.heed("inspect", path).returncode, 0)
                else:
                    self.refuses(1, path.name, "inspect", path)
        self.assertGreater(min(counts.values()), 5)

    def test_overlap_and_hole(self):
        one = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        self.write("overlap.safetensors", safetensors({"a": one, "b": one}, b"\0" * 4))
        self.refuses(1, "overlap", "inspect", "overlap.safetensors")
        self.write("hole.safetensors", safetensors({"a": one, "b": {**one, "data_offsets": [8, 12]}}, b"\0" * 12))
        self.refuses(1, "hole.safetensors", "inspect", "hole.safetensors")

    def test_nothing_to_inspect(self):
        self.refuses(1, "none", "inspect", "none")
        self.refuses(1, self.at.name, "inspect", self.at)
        self.write("x.txt", "text")
        self.refuses(1, "x.txt", "inspect", "x.txt")


if __name__ == "__main__":
    unittest.main()
