"""torch's own samples of scaled_dot_product_attention, which ship inside of it, under heed.torch.patch()."""
import heed
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # that torch's tests need
import heed.torch  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as sdpa  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

SAMPLES, = (op for op in op_db if op.name == "nn.functional.scaled_dot_product_attention")
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 1e-2}


def fused(sample):
    """Whether torch chooses the kernel that the patch replaces."""
    options = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, **sample.kwargs}
    choice = torch._fused_sdp_choice(sample.input, *sample.args, options.pop("attn_mask"), options.pop("dropout_p"),
                                     options.pop("is_causal"), **options)
    return choice == int(torch.nn.attention.SDPBackend.FLASH_ATTENTION)


def run(function, sample, dtype=None):
    """The result and the gradients, in the numbers of the sample or the same ones in another dtype."""
    leaves = [x.detach().to(dtype or x.dtype).clone().requires_grad_() for x in (sample.input, *sample.args)]
    options = {key: x.to(dtype) if dtype and isinstance(x, torch.Tensor) and x.is_floating_point() else x
               for key, x in sample.kwargs.items()}
    torch.manual_seed(0)
    out = function(*leaves, **options)
    out.sum().backward()
    return [out.detach(), *(x.grad for x in leaves)]


def no_farther(ours, theirs, exact, dtype):
    """Rounding costs no more than twice what it costs torch, and what torch's own tests of attention allow."""
    for a, b, c in zip(ours, theirs, exact, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if c.numel():
            size = max(float(c.abs().max()), 1.0)
            error, allowed = ((x.double() - c).abs().max().item() / size for x in (a, b))
            assert error <= 2 * allowed + CLOSE[dtype]


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_samples_under_the_patch(dtype):
    samples = list(SAMPLES.sample_inputs("cpu", dtype, requires_grad=True))
    expected, ran = sum(map(fused, samples)), heed.torch.patched_calls()
    assert len(samples) >= 20 and expected >= 4
    for sample in samples:
        theirs = run(sdpa, sample)
        with heed.torch.patch():
            ours = run(sdpa, sample)
        if fused(sample):
            no_farther(ours, theirs, run(sdpa, sample, torch.float64), dtype)
        else:
            assert all(map(torch.equal, ours, theirs))
    now = heed.torch.patched_calls()
    assert (now.forward - ran.forward, now.backward - ran.backward) == (expected, expected)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_samples_by_heeds_own_function(dtype):
    samples = [s for s in SAMPLES.sample_inputs("cpu", dtype) if not s.kwargs.get("dropout_p")]
    assert len(samples) >= 10
    # In halves torch runs some of these in float32 from end to end; the gradients of a fused backward start at the
    # rounded result.
    compared = 1 if dtype.itemsize == 2 else None
    for sample in samples:
        ours, theirs = run(heed.torch.scaled_dot_product_attention, sample), run(sdpa, sample)
        no_farther(ours[:compared], theirs[:compared], run(sdpa, sample, torch.float64)[:compared], dtype)
