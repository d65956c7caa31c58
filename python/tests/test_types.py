"""What users write, as mypy --strict and help() see it."""
import inspect
import pathlib
import subprocess
import sys
from typing import Any

import heed
import pytest

PROGRAM = '''
from typing import Any, assert_type

import heed
import numpy as np
from numpy.typing import NDArray

x: NDArray[np.float32] = np.zeros((1, 2, 3, 4), np.float32)
assert_type(heed.attention(x, x, x), NDArray[np.float32])
assert_type(heed.attention(x, x, x, x > 0, "bottom_right", scale=1.0, window=(3, 0), out=x), NDArray[np.float32])
heed.attention(x, x, x, causal=None)
heed.attention(x, x, x, causal="top-left")
heed.attention(x, x, x, causal="top_left")
heed.attention(x, x, x, causal="bottom-right")
r = heed.attention(x, x, x, causal=True, return_lse=True)
assert_type(r, heed.AttentionResult[NDArray[np.float32]])
assert_type(r.lse, NDArray[np.float32] | None)
assert_type(heed.attention(x, x, x, return_weights=True).out, NDArray[np.float32])
assert_type(heed.attention(x, x, x, return_scores="masked", seed=3).out, NDArray[np.float32])
g = heed.attention_backward(x, x, x, x, r)
assert_type(g.k, NDArray[np.float32])
assert_type(heed.merge(r, r).out, NDArray[np.float32])
assert_type(heed.explain(x, x, x, dropout_p=0.5), str)
map = heed.AttentionMap(r, queries=["a"], keys="b c".split(), title="t")
assert_type(map[0], heed.AttentionMap)
assert_type(map[0].top(2)[0], list[tuple[str, float]])
assert_type(map.png(width="80mm", dpi=300), bytes)
map.save("x.svg", columns=2)
heed.AttentionPage({"Encoder": map}, text="t").save("x.html")
entropy: Any = map.statistics()["entropy"]
translator = heed.Translator("models/spa-eng")
assert_type(translator, heed.Translator)
assert_type(translator.translate("Hola."), str)
assert_type(translator.translate(["Hola."]), list[str])
assert_type(heed.LanguageModel("writer", dtype="int8").generate("a"), str)
assert_type(heed.TextEncoder("bert", trust=True).embed(["a"]), NDArray[np.float32])
heed.ImageEncoder("vit").classify(heed.read_png("cat.png"))
heed.SpeechTransformer("whisper")
loaded = heed.load("models/spa-eng")
if isinstance(loaded, heed.Translator):
    assert_type(loaded.translate("Hola."), str)
try:
    heed.set_num_threads(heed.get_num_threads())
except heed.ShapeError as error:
    text: str = str(error)
'''
LAYERS = '''
from typing import Any, assert_type

import numpy as np
from heed import nn
from heed.nn import functional as F
from numpy.typing import NDArray

x = np.zeros((1, 3, 8), np.float32)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = [nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, norm="rms_norm") for _ in range(2)]
        self.gain = nn.Variable(x, requires_grad=True)

    def forward(self, x: NDArray[np.float32]) -> nn.Variable:
        y = F.multiply(x, self.gain)
        for block in self.blocks:
            y = block(y, causal=True)
        return y * 2.0 - x


net = Net()
assert_type(net.eval(), Net)
assert_type(net.named_parameters(), list[tuple[str, nn.Variable]])
assert_type(net.state_dict(), dict[str, NDArray[Any]])
net.load_state_dict({name: np.copy(values) for name, values in net.state_dict().items()})
record = nn.HeadRecord(want_vectors=True, heads=[0])
attention = nn.MultiheadAttention(8, 2, kv_heads=1, scale=0.5)
assert_type(attention(x, x, x, x > 0, "bottom_right", key_lengths=np.array([3]), record=record), nn.Variable)
assert_type(record.weights, NDArray[Any] | None)
heads = F.PackedHeads(x, heads=2, size=4)
assert_type(F.packed_attention(heads, heads, heads, causal=True), nn.Variable)
assert_type(F.packed_attention(heads, heads, heads, return_weights=True), tuple[nn.Variable, NDArray[Any]])
optimiser = nn.AdamW(net, weight_decay=0.1)
with nn.no_grad():
    optimiser.step(nn.LearningRate("cosine", total=100).at(3), nn.clip_scale(optimiser.gradient_norm(), 1.0))
loss = F.cross_entropy(attention.out_proj(x), np.array([0, 1, 2]), reduction="sum")
loss.backward()
assert_type(loss.grad, NDArray[Any] | None)
model = nn.LanguageModel(vocab_size=5, d_model=8, nhead=2, num_layers=1, dim_feedforward=8)
assert_type(model.loss([[1, 2], [3, 4, 0]]), nn.Variable)
assert_type(model.eval().generate([1], temperature=0.5), list[int])
assert_type(F.custom_op([loss], x, lambda grad: (grad,)), nn.Variable)
'''
WRONG_LAYERS = '''
import numpy as np
from heed import nn
from heed.nn import functional as F

x = np.zeros((1, 3, 8), np.float32)
F.relu("x")
F.activation("tanh", x)
F.linear(x)
nn.Linear(2.5, 3)
nn.MultiheadAttention(8, 2)(x, x, x, causal="left")
nn.Transformer(vocab_size=5, width=3)
nn.TransformerEncoderLayer(8, 2, bias="no")
nn.Variable(x).backward(1.0)
F.scaled_dot_product_attention(x, x, x, seed=1)
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
heed.AttentionMap(x, queries=[1])
heed.AttentionMap(x).save("x.png", size=3)
'''


def mypy(directory, program):
    path = pathlib.Path(directory) / "program.py"
    path.write_text(program, encoding="utf-8")
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", path.name], cwd=directory, capture_output=True,
                          text=True, timeout=240, check=False)


@pytest.mark.parametrize("program", [PROGRAM, LAYERS])
def test_a_users_file_passes_mypy(tmp_path, program):
    done = mypy(tmp_path, program)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("program, first, last", [(WRONG, 6, 12), (WRONG_LAYERS, 7, 15)])
def test_mypy_finds_what_is_wrong(tmp_path, program, first, last):
    done = mypy(tmp_path, program)
    wrong = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert wrong == set(range(first, last + 1)), done.stdout


def test_the_installed_package_passes_mypy(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "-p", "heed"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_public_is_documented():
    for module in (heed, heed.nn, heed.nn.functional):
        for name in module.__all__:
            thing = getattr(module, name)
            assert inspect.getdoc(thing) and inspect.getdoc(thing) != inspect.getdoc(ValueError), name
    documented = inspect.getdoc(heed.attention)
    for name, option in inspect.signature(heed.attention).parameters.items():
        assert name in documented or option.kind is option.VAR_KEYWORD, name


def test_help_names_the_types_of_arguments():
    calls = [heed.attention, heed.nn.functional.packed_attention]
    for kind in (heed.Translator, heed.LanguageModel, heed.TextEncoder, heed.ImageEncoder, heed.Tokenizer, heed.Vocabulary):
        calls += [call for name, call in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]
    for call in calls:
        signature = inspect.signature(call)
        for parameter in signature.parameters.values():
            assert parameter.annotation not in ("Any", Any), (call.__qualname__, parameter.name)
        assert signature.return_annotation not in ("Any", Any), call.__qualname__
