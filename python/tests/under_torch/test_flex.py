"""heed.torch.flex_attention beside torch's, which has a forward on the CPU, and its gradients by differences."""
import heed
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention as torch_flex  # noqa: E402

TABLE = torch.linspace(-1, 2, 9, dtype=torch.float64)
SLOPES = torch.tensor([0.5, 0.25, 0.125, 1.0], dtype=torch.float64)
IDS = torch.tensor([0, 0, 0, 1, 1, 2, 2])
MODS = {  # heed's by name, and the function that torch takes
    "none": (None, None),
    "softcap": (heed.mods.softcap(2.0), lambda s, b, h, i, j: 2 * torch.tanh(s / 2)),
    "alibi": (heed.mods.alibi(SLOPES), lambda s, b, h, i, j: s - SLOPES[h] * (i - j).abs()),
    "relative bias": (heed.mods.relative_bias(TABLE), lambda s, b, h, i, j: s + TABLE[(j - i).clamp(-4, 4) + 4]),
    "causal": (heed.mods.causal(), lambda s, b, h, i, j: torch.where(j <= i, s, -torch.inf)),
    "documents": (heed.mods.documents(IDS), lambda s, b, h, i, j: torch.where(IDS[i] == IDS[j], s, -torch.inf)),
    "joined": (heed.mods.softcap(2.0) | heed.mods.alibi(SLOPES) | heed.mods.causal(),
               lambda s, b, h, i, j: torch.where(j <= i, 2 * torch.tanh(s / 2) - SLOPES[h] * (i - j).abs(),
                                                 -torch.inf)),
}


def leaves(kv_heads=4):
    shapes = (2, 4, 7, 4), (2, kv_heads, 7, 4), (2, kv_heads, 7, 4)
    return [torch.randn(*s, generator=torch.Generator().manual_seed(i), dtype=torch.float64).requires_grad_()
            for i, s in enumerate(shapes)]


@pytest.mark.filterwarnings("ignore")  # torch warns that its own is slow without a compiler
@pytest.mark.parametrize("name", MODS)
def test_results_are_torchs(name):
    ours, theirs = MODS[name]
    for kv_heads in (4, 2):
        q, k, v = (x.detach() for x in leaves(kv_heads))
        options = {"scale": 0.7, "enable_gqa": kv_heads != 4, "return_lse": True}
        expected = torch_flex(q, k, v, score_mod=theirs, **options)
        torch.testing.assert_close(heed.torch.flex_attention(q, k, v, ours, **options), expected)
        assert torch.equal(heed.torch.flex_attention(q, k, v, ours, scale=0.7, enable_gqa=kv_heads != 4),
                           heed.torch.flex_attention(q, k, v, ours, **options)[0])


@pytest.mark.parametrize("name", MODS)
def test_gradients(name):
    def function(q, k, v):
        return heed.torch.flex_attention(q, k, v, MODS[name][0], return_lse=True)
    assert torch.autograd.gradcheck(function, leaves(), eps=1e-6, atol=1e-8, rtol=1e-6)


def test_block_masks():
    q, k, v = (torch.randn(1, 2, 200, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = heed.block_mask(heed.mods.sliding_window(30), 200, 200)
    out = heed.torch.flex_attention(q, k, v, block_mask=mask)
    place = torch.arange(200)
    distance = place[:, None] - place
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, (distance >= 0) & (distance <= 30))
    torch.testing.assert_close(out, expected)
    for a, b in zip(torch.autograd.grad(out.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v))):
        torch.testing.assert_close(a, b)


@pytest.mark.filterwarnings("ignore")
def test_functions_of_torchs_block_masks():
    """heed.block_mask() takes the function that torch's create_block_mask() takes."""
    q, k, v = (torch.randn(2, 3, n, 8) for n in (200, 150, 150))
    for mask in (lambda b, h, i, j: i >= j, lambda b, h, i, j: (i - j < 70) & (j % (h + 2) != b)):
        theirs = create_block_mask(mask, 2, 3, 200, 150, "cpu")
        torch.testing.assert_close(
            heed.torch.flex_attention(q, k, v, block_mask=heed.block_mask(mask, 200, 150, batch=2, heads=3)),
            torch_flex(q, k, v, block_mask=theirs))


def test_a_python_function():
    q, k, v = (x.detach() for x in leaves())
    out = heed.torch.flex_attention(q, k, v, lambda score, b, h, i, j: score * 2 + (i - j) * 0.5)
    i = torch.arange(7)
    torch.testing.assert_close(out, (q @ k.mT + (i[:, None] - i) * 0.5).softmax(-1) @ v)


def test_what_is_refused():
    q, k, v = leaves(kv_heads=2)
    with pytest.raises(heed.ShapeError, match="4 query heads over 2; pass enable_gqa=True"):
        heed.torch.flex_attention(q, k, v)
    with pytest.raises(TypeError, match="block_mask is a BlockMask; pass heed.block_mask"):
        theirs = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 128, 128, "cpu")
        heed.torch.flex_attention(q, k, v, block_mask=theirs, enable_gqa=True)
    out = heed.torch.flex_attention(q, k, v, lambda score, b, h, i, j: score, enable_gqa=True)
    with pytest.raises(heed.ShapeError, match="no derivative; pass heed.mods.function"):
        out.sum().backward()
