"""What users write, as mypy --strict and help() see it."""
import inspect
import pathlib
import subprocess
import sys

import heed

PROGRAM = '''
from typing import Any, assert_type

import heed
import numpy as np
from numpy.typing import NDArray

x: NDArray[np.float32] = np.zeros((1, 2, 3, 4), np.float32)
assert_type(heed.attention(x, x, x), NDArray[np.float32])
assert_type(heed.attention(x, x, x, x > 0, "bottom_right", scale=1.0, window=(3, 0), out=x), NDArray[np.float32])
r = heed.attention(x, x, x, causal=True, return_lse=True)
assert_type(r, heed.AttentionResult[NDArray[np.float32]])
assert_type(r.lse, NDArray[np.float32] | None)
assert_type(heed.attention(x, x, x, return_weights=True).out, NDArray[np.float32])
assert_type(heed.attention(x, x, x, return_scores="masked", seed=3).out, NDArray[np.float32])
g = heed.attention_backward(x, x, x, x, r)
assert_type(g.k, NDArray[np.float32])
assert_type(heed.merge(r, r).out, NDArray[np.float32])
assert_type(heed.explain(x, x, x, dropout_p=0.5), str)
try:
    heed.set_num_threads(heed.get_num_threads())
except heed.ShapeError as error:
    text: str = str(error)
'''
WRONG = '''
import heed
import numpy as np

x = np.zeros((1, 2, 3, 4))
heed.attention(x, x, x, causal="left")
heed.attention(x, x, x, scale="big")
heed.attention(x, x, x, is_causal=True)
heed.attention(1, x, x)
heed.set_num_threads("two")
'''


def mypy(directory, program):
    path = pathlib.Path(directory) / "program.py"
    path.write_text(program, encoding="utf-8")
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", path.name], cwd=directory, capture_output=True,
                          text=True, timeout=240, check=False)


def test_a_users_file_passes_mypy(tmp_path):
    done = mypy(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_what_is_wrong(tmp_path):
    done = mypy(tmp_path, WRONG)
    wrong = {line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line}
    assert wrong == {"6", "7", "8", "9", "10"}, done.stdout


def test_the_installed_package_passes_mypy(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "-p", "heed"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_public_is_documented():
    for name in heed.__all__:
        thing = getattr(heed, name)
        assert inspect.getdoc(thing) and inspect.getdoc(thing) != inspect.getdoc(ValueError), name
    documented = inspect.getdoc(heed.attention)
    for option in inspect.signature(heed.attention).parameters:
        assert option in documented, option
