"""heed.torch.patch(): torch's own calls in heed's kernels, their results beside torch's, and how it is undone."""
import pathlib
import shutil
import subprocess
import sys
import threading

import heed
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as sdpa  # noqa: E402

FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(shape=(2, 4, 70, 16), keys=90, kv_heads=None, dtype=torch.float64):
    kv = (shape[0], kv_heads or shape[1], keys, shape[3])
    return [numbers(*s, seed=i, dtype=dtype) for i, s in enumerate((shape, kv, kv))]


class Counted:
    """Holds that each call of the block ran in heed's kernels."""

    def __init__(self, forward, backward):
        self.expected = (forward, backward)

    def __enter__(self):
        self.before = heed.torch.patched_calls()

    def __exit__(self, error, *_):
        after = heed.torch.patched_calls()
        if error is None:
            assert (after.forward - self.before.forward, after.backward - self.before.backward) == self.expected


def results(function, leaves, calls=(1, 1)):
    leaves = [x.detach().requires_grad_() for x in leaves]
    with Counted(*calls):
        out = function(*leaves)
        out.backward(numbers(*out.shape, seed=9, dtype=out.dtype))
    return [out.detach(), *(x.grad for x in leaves)]


def same(function, leaves, close=1e-11, calls=(1, 1)):
    theirs = results(function, leaves, (0, 0))
    with heed.torch.patch():
        ours = results(function, leaves, calls)
    for a, b in zip(theirs, ours):
        assert a.dtype == b.dtype and a.stride() == b.stride()
        torch.testing.assert_close(b, a, rtol=close, atol=close)
    for a, b in zip(theirs, results(function, leaves, (0, 0))):
        assert torch.equal(a, b)  # as if it had not been


MASKS = {"bool": numbers(70, 90) > -0.5, "of keys": numbers(90) * 0 > numbers(90),
         "per head": numbers(1, 4, 70, 90) > 0, "per entry": numbers(2, 1, 70, 90) > 0, "float": numbers(70, 90),
         "float per entry and head": numbers(2, 4, 70, 90), "float of keys": numbers(2, 1, 1, 90),
         "one number": numbers(1, 1), "of queries": numbers(70, 1), "turned": numbers(90, 70).mT,
         "expanded": numbers(70, 1).expand(70, 90),
         "hides": numbers(70, 90).masked_fill(numbers(70, 90) > 0, -torch.inf)}
OPTIONS = {"plain": {}, "causal": {"is_causal": True}, "scale": {"scale": 0.3},
           **{f"mask {name}": {"attn_mask": mask if mask.dim() > 1 else mask[None]} for name, mask in MASKS.items()}}


@pytest.mark.parametrize("name", OPTIONS)
def test_results_are_torchs(name):
    same(lambda q, k, v: sdpa(q, k, v, **OPTIONS[name]), operands())


@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)])
def test_dtypes(dtype, close):
    for options in ({}, {"is_causal": True}, {"attn_mask": numbers(70, 90, dtype=dtype)},
                    {"attn_mask": numbers(70, 90) > 0}, {"attn_mask": numbers(70, 90, dtype=torch.float32)}):
        same(lambda q, k, v: sdpa(q, k, v, **options), operands(dtype=dtype), close)


def test_a_mask_of_float32_beside_float64():
    """By the formula: torch 2.13's own kernel takes such a mask and gives other numbers."""
    q, k, v = operands()
    mask = numbers(70, 90, dtype=torch.float32)
    with heed.torch.patch(), Counted(1, 0):
        torch.testing.assert_close(sdpa(q, k, v, mask), (q @ k.mT / 4 + mask.double()).softmax(-1) @ v)


def test_layouts():
    packed = numbers(2, 70, 3, 4, 16)  # (B, L, of query, key and value, H, E)
    same(lambda x: sdpa(*(x[:, :, i].transpose(1, 2) for i in range(3)), is_causal=True), [packed])
    turned = [numbers(2, 7, 4, 16, seed=i) for i in range(3)]
    same(lambda q, k, v: sdpa(*(x.transpose(1, 2) for x in (q, k, v))), turned)
    same(lambda q, k, v: sdpa(q, k[:, :1].expand(2, 4, 90, 16), v), operands())
    with heed.torch.patch():
        q, k, v = (numbers(2, 3, 8, 5, seed=i).mT for i in range(3))  # sdpa() would not pass these on
        assert FLASH(q, k, v)[0].stride() == torch.empty_like(q).stride()
        torch.testing.assert_close(FLASH(q, k, v), FLASH(*(x.contiguous() for x in (q, k, v))))


def test_grouped_queries():
    for kv_heads in (1, 2, 4):
        same(lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), operands(kv_heads=kv_heads))


def test_no_queries_no_keys_no_numbers():
    with heed.torch.patch():
        for shape, keys in (((2, 4, 0, 16), 3), ((2, 4, 3, 16), 0), ((0, 4, 3, 16), 3), ((2, 4, 3, 0), 3),
                            ((2, 0, 3, 4), 3)):
            q, k, v = operands(shape, keys)
            out, lse = FLASH(q, k, v)
            assert out.shape == shape and lse.shape == shape[:3] and (out == 0).all()
            for grad, x in zip(FLASH_BACKWARD(torch.ones_like(out), q, k, v, out, lse, 0.0, False), (q, k, v)):
                assert grad.shape == x.shape and (grad == 0).all()


def test_large_masks():
    """torch's operator keeps the rounded lse alone."""
    sizes = [1e3, 1e4, 1e7, 1e9, 2.0**32 - 1, 3e9, 1e20, 1e30, 3e38]
    mask = torch.tensor([sign * x for x in sizes for sign in (1, -1)])[:, None].expand(-1, 90).clone()
    mask = torch.cat([mask, torch.zeros(70 - len(mask), 90)])
    q, k, v = (x.float().clamp(-2, 2).round() for x in operands())
    leaves = [x.requires_grad_() for x in (q, k, v)]
    with heed.torch.patch(), Counted(1, 1):
        out = sdpa(*leaves, mask, scale=1.0)
        ours = torch.autograd.grad(out.sum() + out[:, :, 0].square().sum(), leaves)
    weights = (q @ k.mT + mask).double().softmax(-1)
    exact = weights @ v.double()
    theirs = torch.autograd.grad(exact.sum() + exact[:, :, 0].square().sum(), leaves)
    torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_rows_that_see_nothing():
    mask = numbers(70, 90) > 0
    mask[[0, 3, 69]] = False
    same(lambda q, k, v: sdpa(q, k, v, mask), operands())
    q, k, v = (x.requires_grad_() for x in operands())
    with heed.torch.patch(), Counted(1, 0):
        half_patched = sdpa(q, k, v, mask)
    with Counted(0, 1):
        plain = sdpa(q, k, v, mask)
        heed.torch.patch()
        plain_grads = torch.autograd.grad(plain.sum(), (q, k, v))
        heed.torch.unpatch()
    for a, b in zip(torch.autograd.grad(half_patched.sum(), (q, k, v)), plain_grads):
        torch.testing.assert_close(a, b)


def test_what_runs_elsewhere_still_runs():
    q, k, v = operands()
    same(lambda q, k, v: sdpa(q, k, v), [q, k, v[..., :5]], calls=(0, 0))
    same(lambda q, k, v: sdpa(q, k, v), [q[0], k[0], v[0]], calls=(0, 0))
    with heed.torch.patch(), Counted(0, 0):
        assert sdpa(q, k, v, dropout_p=0.5).shape == q.shape


def test_threads_are_torchs_and_change_no_bit():
    before = torch.get_num_threads()
    q, k, v = (x.requires_grad_() for x in operands((2, 4, 300, 16), 300, dtype=torch.float32))
    try:
        with heed.torch.patch():
            runs = []
            for threads in (1, 2, 3, 7):
                torch.set_num_threads(threads)
                out = sdpa(q, k, v, is_causal=True)
                runs.append((out, *torch.autograd.grad(out.sum(), (q, k, v))))
    finally:
        torch.set_num_threads(before)
    for run in runs[1:]:
        assert all(map(torch.equal, run, runs[0]))


def test_calls_at_once():
    q, k, v = operands(dtype=torch.float32)
    with heed.torch.patch(), Counted(41, 0):
        expected = sdpa(q, k, v)
        wrong = []

        def work():
            for _ in range(10):
                if not torch.equal(sdpa(q, k, v), expected):
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_modules_of_torch():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, dtype=torch.float64)
    same(lambda x: layer(x), [numbers(2, 9, 32)])
    attention = torch.nn.MultiheadAttention(32, 4, batch_first=True, dtype=torch.float64)
    same(lambda x: attention(x, x, x, need_weights=False)[0], [numbers(2, 9, 32)])


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(backend):
    if backend == "inductor" and not shutil.which("g++"):
        pytest.skip("Inductor needs g++")

    def function(q, k, v):
        return sdpa(q * 2, k, v, is_causal=True).sin()
    torch._dynamo.reset()
    with heed.torch.patch():
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        ours = results(compiled, operands(dtype=torch.float32))
        again = results(compiled, operands(dtype=torch.float32))
    theirs = results(function, operands(dtype=torch.float32), (0, 0))
    for a, b, c in zip(theirs, ours, again):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)
        assert torch.equal(b, c)


def test_opcheck():
    with heed.torch.patch():
        for arguments, options in ((operands(), {}), ((*operands(kv_heads=2), 0.0, True), {"scale": 0.2}),
                                   ((*operands(), 0.0, False), {"attn_mask": numbers(70, 90)})):
            leaves = [x.requires_grad_() if isinstance(x, torch.Tensor) else x for x in arguments]
            torch.library.opcheck(FLASH.default, leaves, options)


def test_patches_nest():
    q, k, v = operands()
    with heed.torch.patch(), Counted(2, 0):
        with heed.torch.patch():
            sdpa(q, k, v)
        sdpa(q, k, v)
    with Counted(0, 0):
        sdpa(q, k, v)
    with pytest.raises(RuntimeError, match="unpatch: there is no patch; call patch"):
        heed.torch.unpatch()
    for _ in range(50):
        heed.torch.patch()
        heed.torch.unpatch()


def test_what_is_refused():
    q, k, v = operands()
    misfits = [((q[0], k[0], v[0]), {}, "query has 3 dimensions; pass"), ((q, k, v, 0.5), {}, "dropout_p is not 0"),
               ((q.long(), k.long(), v.long()), {}, "query has elements that heed does not know; pass"),
               ((q, k.float(), v), {}, "k is float32 and q is float64"),
               ((q, k[:, :3], v[:, :3]), {}, "not a multiple"), ((q, k, v[:, :, :5]), {}, "attention: "),
               ((q, k, v), {"attn_mask": numbers(70, 8)}, "the mask has 8 keys, of 90; pass"),
               ((q, k, v), {"attn_mask": numbers(3, 90)}, "attention: .*mask")]
    with heed.torch.patch(), Counted(0, 0):
        for arguments, options, text in misfits:
            with pytest.raises(RuntimeError, match=text):
                FLASH(*arguments, **options)


def test_nothing_is_said():
    program = """if True:
        import torch, heed.torch
        x = torch.zeros(1, 1, 3, 8)
        with heed.torch.patch():
            torch.nn.functional.scaled_dot_product_attention(x, x, x)
        heed.torch.patch()
        assert heed.torch.patched_calls() == (1, 0)"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_functions_of_torch_have_the_types_that_heed_calls(tmp_path):
    """The C interface as heed declares it beside torch's headers."""
    shim = pathlib.Path(__file__).parents[2] / "torch"
    include = pathlib.Path(torch.__file__).parent / "include"
    if not shutil.which("g++") or not include.exists():
        pytest.skip("needs g++ and torch's headers")
    program = tmp_path / "types.cc"
    program.write_text('''
#include <torch/csrc/stable/c/shim.h>
#include <type_traits>
#include "shim.h"
using heed::python::torch::Kernel;
#define SAME(name, ...) static_assert(std::is_same_v<decltype(::name), __VA_ARGS__>);
HEED_TORCH_FUNCTIONS(SAME)
static_assert(std::is_same_v<StableIValue, uint64_t> && heed::python::torch::kStackVersion == TORCH_VERSION_2_10_0);
''', encoding="utf-8")
    command = ["g++", "-std=c++20", "-fsyntax-only", f"-I{shim}", "-isystem", include, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
