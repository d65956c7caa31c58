"""Kinds of tensors: which heed takes, and which it refuses."""
import heed
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask  # noqa: E402
from torch.testing._internal.two_tensor import TwoTensor  # noqa: E402


def operands():
    return [torch.randn(1, 2, n, 8, generator=torch.Generator().manual_seed(n)) for n in (3, 5, 5)]


CALLS = {
    "attention": lambda q, k, v: heed.attention(q, k, v),
    "torch.attention": lambda q, k, v: heed.torch.attention(q, k, v),
    "sdpa": lambda q, k, v: heed.torch.scaled_dot_product_attention(q, k, v),
    "flex": lambda q, k, v: heed.torch.flex_attention(q, k, v),
    "mask": lambda q, k, v: heed.attention(*operands(), q[0, 0, :1, :5]),
    "rotary": lambda q, k, v: heed.rotary(q),
    "cache": lambda q, k, v: heed.KVCache(1, 2, 5, 8).append(k, v),
}
fake = FakeTensorMode()


class Subclass(torch.Tensor):
    pass


REFUSED = {
    "subclass": (lambda x: x.as_subclass(Subclass), "is a .*Subclass; pass a plain torch.Tensor"),
    "wrapper": (lambda x: TwoTensor(x, x.clone()), "is a .*TwoTensor; pass a plain torch.Tensor"),
    "fake": (fake.from_tensor, "is a .*FakeTensor; pass a plain torch.Tensor"),
    "meta": (lambda x: x.to("meta"), "gives no memory: .* on meta; pass a dense array on the CPU"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", [torch.nn.Buffer, lambda x: torch.nn.Parameter(x, requires_grad=False)],
                         ids=["Buffer", "Parameter"])
def test_parameters_and_buffers(call, kind):
    expected, result = (CALLS[call](*tensors) for tensors in (operands(), map(kind, operands())))
    assert type(result) is type(expected) and (result is None or torch.equal(result, expected))


def test_parameters_that_learn():
    parameters = [torch.nn.Parameter(x) for x in operands()]
    heed.attention(*parameters).sum().backward()
    leaves = [x.requires_grad_() for x in operands()]
    heed.attention(*leaves).sum().backward()
    for parameter, leaf in zip(parameters, leaves):
        assert torch.equal(parameter.grad, leaf.grad)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", REFUSED)
def test_kinds_that_are_refused(call, kind):
    make, text = REFUSED[kind]
    with pytest.raises(heed.ShapeError, match=text):
        CALLS[call](*map(make, operands()))


def test_fake_tensors_in_their_mode():
    with fake:
        for call in ("attention", "torch.attention", "sdpa", "flex"):
            assert CALLS[call](*map(fake.from_tensor, operands())).shape == (1, 2, 3, 8)


def test_the_patch_takes_subclasses():
    sdpa = torch.nn.functional.scaled_dot_product_attention
    expected = sdpa(*operands())
    with heed.torch.patch():
        for kind in ("subclass", "wrapper"):
            before = heed.torch.patched_calls().forward
            result = sdpa(*map(REFUSED[kind][0], operands()))
            assert heed.torch.patched_calls().forward > before
            torch.testing.assert_close(result.a if kind == "wrapper" else result.as_subclass(torch.Tensor), expected)
        assert sdpa(*map(REFUSED["meta"][0], operands())).is_meta


def test_block_masks_of_torch_are_refused():
    q, k, v = operands()
    theirs = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 3, 5, "cpu")
    for call in (heed.attention, heed.torch.attention, heed.torch.flex_attention):
        with pytest.raises(TypeError, match="(?s)block_mask is .*BlockMask.*; pass .*heed.block_mask"):
            call(q, k, v, block_mask=theirs)
    for call in (heed.attention, heed.torch.scaled_dot_product_attention):
        with pytest.raises(TypeError, match="mask is .*BlockMask.*; pass a"):
            call(q, k, v, theirs)
