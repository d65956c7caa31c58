"""Every program of examples/python runs and prints what its counterpart in C++ prints."""
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"
PRINTS = {
    "attention": r"^\(2, 8, 128, 32\) \(2, 2, 160, 64\)$",
    "attention_layer": r"output \(5, 24\), weights \(4, 5, 5\).*batched: [0-9.]+e(-0[789]|\+00).*24 is not a multiple",
    "basic_self_attention": r"float64.*pre-norm +\S+ +[0-9.]+e-1[5-9]\npositions, block +[0-9.e-]+ +[1-9]\.\de-01",
    "causal_mask": r"0\.31793058 +0\.68206942 +0\.00000000.*another v.*-0\.58386373, and v begins -2\.09988025",
    "circle_embedding": r"0\.411603261466872.*0\.375556006639227.*0\.212840731893902.*0\.4274.*0\.3820.*0\.19056",
    "custom_operation": r"derivative 1\.9320, by differences 1\.9320.*step 600: mean square error 0\.0[0-4]",
    "language_model": r"loss 0\.0\d+, after 4, 5 come \[6, 7, 8\]",
    "layers": r"^\(4, 10, 256\) \(768, 256\) \(4, 8, 10, 10\)$",
    "recorded_part": r"^\(1, 2, 1, 5\) layer 3, head 4, last token: \[[0-9. ]+\]$",
    "wide_attention": r"float64: .* outputs [0-9.]+e-1[5-9] apart, gradients [0-9.]+e-1[4-9]",
}


def test_every_example_is_here():
    assert PRINTS.keys() == {path.stem for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", PRINTS)
def test_example(name, tmp_path):
    done = subprocess.run([sys.executable, "-B", EXAMPLES / f"{name}.py"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(PRINTS[name], done.stdout, re.DOTALL), done.stdout
