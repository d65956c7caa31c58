"""heed.torch.scaled_dot_product_attention beside torch's own, values and gradients."""
import heed
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as torch_sdpa  # noqa: E402

sdpa = heed.torch.scaled_dot_product_attention


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def same(query, key, value, mask=None, **options):
    """Both results and both gradients of the same numbers."""
    results = []
    for function in (torch_sdpa, sdpa):
        leaves = [x.clone(memory_format=torch.preserve_format).requires_grad_() for x in (query, key, value)]
        if mask is not None and mask.dtype != torch.bool:
            leaves.append(mask.clone().requires_grad_())
        with sdpa_kernel(SDPBackend.MATH):
            out = function(*leaves[:3], leaves[3] if len(leaves) == 4 else mask, **options)
        out.backward(numbers(*out.shape, seed=9))
        results.append((out.detach(), *(x.grad for x in leaves)))
    for theirs, ours in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    return results[1][0]


RANKS = {
    "2": ((3, 4), (5, 4), (5, 6)),
    "3": ((2, 3, 4), (2, 5, 4), (2, 5, 6)),
    "4": ((2, 3, 7, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
    "5": ((2, 1, 3, 7, 4), (2, 1, 3, 5, 4), (2, 1, 3, 5, 6)),
    "6": ((1, 2, 2, 1, 2, 4), (1, 2, 2, 1, 5, 4), (1, 2, 2, 1, 5, 4)),
    "5 of more heads": ((3, 2, 3, 7, 4), (3, 2, 3, 5, 4), (3, 2, 3, 5, 6)),
    "broadcast batches": ((2, 1, 3, 4), (1, 3, 5, 4), (5, 4)),
    "broadcast queries": ((3, 4), (2, 2, 5, 4), (1, 2, 5, 4)),
    "broadcast heads": ((2, 4, 3, 4), (2, 1, 5, 4), (2, 1, 5, 4)),
    "one of all": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
    "no queries": ((2, 3, 0, 4), (2, 3, 5, 4), (2, 3, 5, 6)),
    "no keys": ((2, 3, 3, 4), (2, 3, 0, 4), (2, 3, 0, 6)),
    "no batch": ((0, 3, 3, 4), (0, 3, 5, 4), (0, 3, 5, 6)),
    "no values": ((2, 3, 3, 4), (2, 3, 5, 4), (2, 3, 5, 0)),
    "no heads": ((2, 0, 3, 4), (2, 0, 5, 4), (2, 0, 5, 6)),
}


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.7}, {"scale": -1.0, "is_causal": True}],
                         ids=str)
def test_ranks_and_broadcasting(rank, options):
    same(*(numbers(*shape, seed=i) for i, shape in enumerate(RANKS[rank])), **options)


@pytest.mark.parametrize("rank, shapes", [("4", [(7, 5), (1, 5), (7, 1), (3, 7, 5), (2, 1, 7, 5), (2, 3, 7, 5),
                                                 (1, 1)]),
                                          ("3", [(3, 5), (2, 3, 5), (1, 3, 5)]), ("2", [(3, 5), (1, 5)]),
                                          ("5", [(7, 5), (3, 1, 5), (2, 1, 1, 7, 5), (1, 1, 7, 5)]),
                                          ("5 of more heads", [(2, 3, 7, 5), (2, 1, 7, 5), (1, 3, 1, 5), (2, 1, 1, 5),
                                                               (3, 1, 3, 1, 1), (1, 2, 1, 7, 5), (1, 1, 1, 7, 5)]),
                                          ("6", [(2, 1, 2, 5), (2, 2, 1, 1, 5), (1, 2, 1, 1, 2, 1)])])
def test_masks(rank, shapes):
    operands = [numbers(*shape, seed=i) for i, shape in enumerate(RANKS[rank])]
    for shape in shapes:
        mask = numbers(*shape, seed=7)
        same(*operands, mask)
        same(*operands, mask > -0.3)
        same(*operands, torch.where(mask > -0.3, mask, -torch.inf))


@pytest.mark.filterwarnings("ignore:Lower right")  # rows that see nothing
@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("queries, keys", [(3, 5), (5, 3), (4, 4), (1, 5), (5, 1)])
def test_causal_biases(make, queries, keys):
    bias = make(queries, keys)
    for lead in ((), (3,), (2, 3), (2, 1, 3)):
        operands = [numbers(*lead, n, 4, seed=n + i) for i, n in enumerate((queries, keys, keys))]
        expected = same(*operands, bias._materialize())
        leaves = [x.clone().requires_grad_() for x in operands]
        out = sdpa(*leaves, bias)
        torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
        out.backward(numbers(*out.shape, seed=9))
        others = [x.clone().requires_grad_() for x in operands]
        sdpa(*others, bias._materialize()).backward(numbers(*out.shape, seed=9))
        for ours, theirs in zip(leaves, others):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)
    x = numbers(1, 2, queries, 4)
    heads = numbers(1, 1, keys, 4), numbers(1, 1, keys, 6)
    torch.testing.assert_close(sdpa(x, *heads, bias, scale=0.3, enable_gqa=True),
                               torch_sdpa(x, *heads, bias._materialize(), scale=0.3, enable_gqa=True))


def test_causal_biases_in_a_graph():
    q, k, v = (numbers(1, 2, n, 4, seed=n) for n in (3, 5, 6))
    v = v[:, :, :5]
    for make in (causal_upper_left, causal_lower_right):
        expected = sdpa(q, k, v, make(3, 5))
        torch.testing.assert_close(torch.compile(sdpa, fullgraph=True)(q, k, v, make(3, 5)), expected)
        torch.testing.assert_close(torch.func.vmap(lambda q: sdpa(q, k, v, make(3, 5)))(q[None])[0], expected)


def test_what_is_refused_of_causal_biases():
    q, k, v = (numbers(1, 2, n, 4) for n in (3, 5, 5))
    for make in (causal_upper_left, causal_lower_right):
        with pytest.raises(heed.ShapeError, match=r"CausalBias of 5 queries and 5 keys, and the call has 3 and 5; pass"):
            sdpa(q, k, v, make(5, 5))
        with pytest.raises(heed.ShapeError, match="is_causal is set beside attn_mask"):
            sdpa(q, k, v, make(3, 5), is_causal=True)
        with pytest.raises(heed.ShapeError, match="computed from a CausalBias and has no rule; pass the CausalBias"):
            sdpa(q, k, v, make(3, 5).double())
        for attention in (heed.attention, heed.torch.attention):
            with pytest.raises(heed.ShapeError, match="mask is a .*CausalBias; pass causal='top_left' or"):
                attention(q, k, v, make(3, 5))
        module = heed.torch.MultiheadAttention(4, 1, batch_first=True)
        x, y = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
        with pytest.raises(heed.ShapeError, match="attn_mask is a CausalBias, .*; pass a boolean mask"):
            module(x, y, y, attn_mask=make(3, 5))


def test_rows_that_see_nothing():
    """0 as torch's, and gradients of 0. The lowest number is a number: a row of nothing else is the mean."""
    operands = [numbers(1, 2, 3, 4, seed=i) for i in range(3)]
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[1] = False
    assert (same(*operands, mask)[:, :, 1] == 0).all()
    assert (same(*operands, torch.where(mask, 0.0, -torch.inf).double())[:, :, 1] == 0).all()
    lowest = torch.zeros(3, 3, dtype=torch.float64).masked_fill(~mask, torch.finfo(torch.float64).min)
    torch.testing.assert_close(same(*operands, lowest)[:, :, 1], operands[2].mean(dim=2))


LARGE = [1e3, 1e4, 1e6, 1e7, 1e8, 1e9, 2.0**31, 2.0**32 - 1, 3e9, 1e10, 9e15, 1e18, 1e20, 1e30, 1e37, 1e38, 3e38, 3.4e38]


def integers(*shape, seed=0, dtype=torch.float32):
    return numbers(*shape, seed=seed).clamp(-2, 2).round().to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_large_masks(dtype):
    """Beside torch's softmax in float64 of the sums in the compute type: gradients of a loss that leaves the rows out, and
    of one that has them."""
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    mask = torch.tensor([sign * x for x in LARGE for sign in (1, -1)], dtype=compute)[:, None].expand(-1, 5).clone()
    mask = torch.cat([mask, mask.where(torch.arange(5) % 2 == 0, 0)])
    q, k, v = (integers(1, 2, n, 4, seed=i, dtype=dtype) for i, n in enumerate((len(mask), 5, 5)))
    grad = integers(1, 2, len(mask), 4, seed=7, dtype=dtype)
    sums = (q.to(compute) @ k.to(compute).mT + mask).double()
    weights = sums.softmax(-1)
    results = heed.attention(q, k, v, mask, scale=1, return_weights=True, return_lse=True)
    epsilon = torch.finfo(compute).eps
    torch.testing.assert_close(results.weights.double(), weights, rtol=0, atol=50 * epsilon)
    near = {"rtol": 0, "atol": 3000 * torch.finfo(dtype).eps}
    for rows in (slice(None), slice(0, 1)):
        leaves = [x.clone().requires_grad_() for x in (q, k, v, mask)]
        out = sdpa(*leaves, scale=1)
        of_rows = torch.zeros_like(grad)
        of_rows[:, :, rows] = grad[:, :, rows]
        out.backward(of_rows)
        g, values = of_rows.double(), v.double()
        ds = weights * (g @ values.mT - ((g @ values.mT) * weights).sum(-1, keepdim=True))
        for x, exact in zip(leaves, (ds @ k.double(), ds.mT @ q.double(), weights.mT @ g, ds.sum((0, 1)))):
            torch.testing.assert_close(x.grad.double(), exact, **near)


def test_a_row_that_no_loss_uses():
    """What left padding under a causal mask leaves: nothing of it reaches a gradient."""
    for hidden in (-1e4, -1e9, -3e9, -1e20, -1e30, -3.4e38, torch.finfo(torch.float32).min):
        leaves = [numbers(1, 1, n, 8, seed=n, dtype=torch.float32).requires_grad_() for n in (3, 5, 6)]
        q, k, v = leaves[0], leaves[1], leaves[2][:, :, :5]
        mask = torch.zeros(3, 5)
        mask[1] = hidden
        ours = torch.autograd.grad(sdpa(q, k, v, mask)[:, :, [0, 2]].sum(), leaves)
        with sdpa_kernel(SDPBackend.MATH):
            theirs = torch.autograd.grad(torch_sdpa(q, k, v, mask)[:, :, [0, 2]].sum(), leaves)
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_empty_batches_and_lengths():
    for shape in ((0, 2, 3, 4), (1, 2, 0, 4)):
        x = torch.randn(shape, requires_grad=True)
        sdpa(x, x, x).sum().backward()
        assert x.grad.shape == shape
        heed.attention(x, x, x).sum().backward()
        empty = torch.from_numpy(np.zeros(shape, np.float32))
        assert heed.attention(empty, empty, empty).shape == shape
    none = torch.from_numpy(np.zeros((1, 2, 0, 4), np.float32))
    assert (heed.attention(torch.zeros(1, 2, 3, 4), none, none) == 0).all()


def test_jagged_tensors():
    def jagged(width, seed):
        parts = [numbers(n, 2 * width, seed=seed + n) for n in (3, 1, 5)]
        return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    q, k, v = jagged(4, 0), jagged(4, 10), jagged(4, 20)
    k, v = (torch.nested.nested_tensor_from_jagged(x.values(), q.offsets()) for x in (k, v))
    for options in ({}, {"is_causal": True}, {"scale": 0.3}):
        heads = [x.unflatten(-1, (2, 4)).transpose(1, 2) for x in (q, k, v)]
        out = sdpa(*heads, **options)
        assert out.is_nested and out.shape[:2] == (3, 2)
        out = out.transpose(1, 2).values()
        [gradient] = torch.autograd.grad(out.square().sum(), (q,), retain_graph=True)
        # torch's, of each entry: its own nested tensors take no causal rule with heads of 4.
        entries = [[part.detach().unflatten(-1, (2, 4)).transpose(0, 1)[None].requires_grad_() for part in parts]
                   for parts in zip(*(x.unbind() for x in (q, k, v)))]
        with sdpa_kernel(SDPBackend.MATH):
            theirs = [torch_sdpa(*entry, **options) for entry in entries]
        gradients = torch.autograd.grad(sum(x.square().sum() for x in theirs), [entry[0] for entry in entries])
        torch.testing.assert_close(out, torch.cat([x[0].transpose(0, 1) for x in theirs]))
        torch.testing.assert_close(gradient.values(), torch.cat([x[0].transpose(0, 1).flatten(1) for x in gradients]))
    strided = torch.nested.nested_tensor([numbers(2, n, 4) for n in (3, 5)])
    with pytest.raises(heed.ShapeError, match="are not all jagged nested tensors"):
        sdpa(strided, strided, strided)
    for x in (strided, heads[0]):
        with pytest.raises((heed.ShapeError, TypeError), match="attention: q is "):
            heed.attention(x, x, x)


def test_grouped_queries():
    for shape, key, value in (((2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)), ((6, 3, 4), (3, 5, 4), (3, 5, 4)),
                              ((2, 1, 6, 3, 4), (2, 2, 1, 5, 4), (1, 2, 1, 5, 4)),
                              ((2, 6, 3, 4), (2, 3, 5, 4), (2, 2, 5, 4))):
        for options in ({}, {"is_causal": True}, {"mask": numbers(3, 5) > -0.5}):
            same(numbers(*shape), numbers(*key, seed=1), numbers(*value, seed=2), enable_gqa=True, **options)


def test_head_size_of_zero():
    same(numbers(2, 3, 0), numbers(2, 5, 0), numbers(2, 5, 4), scale=2.0)
    same(numbers(2, 3, 0), numbers(2, 5, 0), numbers(2, 5, 4), is_causal=True)


def test_strides():
    packed = numbers(2, 7, 3, 4, 8)  # (B, L, of query, key and value, H, E)
    same(*(packed[:, :, i].transpose(1, 2) for i in range(3)), is_causal=True)
    same(numbers(2, 3, 4, 7).mT, numbers(2, 3, 4, 5).mT, numbers(2, 3, 6, 5).mT)
    same(numbers(2, 3, 7, 8)[..., ::2], numbers(2, 3, 5, 4)[:, :, ::1], numbers(2, 3, 1, 6).expand(2, 3, 5, 6))
    same(numbers(2, 3, 7, 5)[..., 2:3], numbers(2, 3, 5, 1), numbers(2, 3, 5, 4)[..., 1:2])


def test_layout_is_that_of_the_query():
    for lead in ((2,), (1,), (2, 2)):
        query = numbers(*lead, 5, 3, 4).transpose(-2, -3)
        for width in (4, 6):
            value = numbers(*lead, 5, 3, width).transpose(-2, -3)
            assert sdpa(query, query, value).transpose(-2, -3).is_contiguous()
            assert sdpa(query.requires_grad_(), query, value).transpose(-2, -3).is_contiguous()
            query.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    q, k, v = (numbers(2, 3, 70, 16, seed=i) for i in range(3))
    close = 2e-6 if dtype == torch.float32 else 2e-2
    for mask in (None, numbers(70, 70, seed=4).float(), numbers(70, 70, seed=4).to(dtype), numbers(70, 70) > 0):
        exact = torch_sdpa(q, k, v, mask if mask is None or mask.dtype == torch.bool else mask.double())
        out = sdpa(*(x.to(dtype) for x in (q, k, v)), mask)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), exact, rtol=close, atol=close)


def test_dropout_follows_torchs_generator():
    q, k, v = (numbers(1, 2, 64, 8, seed=i, dtype=torch.float32) for i in range(3))
    torch.manual_seed(5)
    first, second = sdpa(q, k, v, dropout_p=0.5), sdpa(q, k, v, dropout_p=0.5)
    torch.manual_seed(5)
    assert torch.equal(sdpa(q, k, v, dropout_p=0.5), first) and not torch.equal(first, second)
    state = torch.get_rng_state()
    plain = sdpa(q, k, v)
    assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn for nothing
    ones = torch.ones(1, 1, 1000, 1)
    kept = sdpa(torch.zeros(1, 1, 1000, 1), ones, ones, dropout_p=0.3)  # each row the share of kept over 0.7
    assert abs(kept.mean() - 1) < 0.01 and 0.015 < kept.std() < 0.03  # sqrt(0.3 / 0.7 / 1000) = 0.0207
    assert (sdpa(q, k, v.requires_grad_(), dropout_p=1.0) == 0).all() and not torch.equal(plain, first)


def test_autocast():
    q, k, v = (numbers(1, 2, 5, 4, seed=i, dtype=torch.float32) for i in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        assert sdpa(q, k.bfloat16(), v).dtype == torch_sdpa(q, k.bfloat16(), v).dtype == torch.bfloat16


X = numbers(1, 2, 3, 4)
REFUSED = [
    ((numbers(4), X, X), {}, "1, 4 and 4 dimensions; pass"),
    ((X, X, X, X[0, 0, :, :3] > 0), {"is_causal": True}, "is_causal is set beside attn_mask; pass one"),
    ((X, X, X), {"dropout_p": 1.5}, "dropout_p is 1.5; pass a probability"),
    ((X, X, X), {"dropout_p": float("nan")}, "dropout_p is nan; pass"),
    ((numbers(1, 4, 3, 4), X, X), {}, "leading dimensions .* do not broadcast; pass"),
    ((numbers(1, 3, 3, 4), X, X), {"enable_gqa": True}, "3 query heads are not a multiple of 2"),
    ((numbers(1, 3, 3, 4), X, X[:, :1]), {"enable_gqa": True}, "3 query heads are not a multiple of 2"),
    ((X[0, 0], X[0, 0], X[0, 0]), {"enable_gqa": True}, r"dimensions; pass \(..., H, L, E\)"),
    ((X, X, X, torch.zeros(3, 2).double()), {}, r"attn_mask has shape \(3, 2\); pass one that broadcasts"),
    ((X, X, X, torch.zeros(1, 1, 1, 3, 3)), {}, "attn_mask has shape"),
    ((X, X, X, torch.zeros(3, 3, dtype=torch.int32)), {}, "attn_mask is torch.int32, query torch.float64; pass"),
    ((X, X[..., :3], X), {}, "head size of q is 4 and of k 3"),
    ((X, X.float(), X), {}, "k is float32 and q is float64; convert one with astype"),
    ((X.long(), X.long(), X.long()), {}, "pass"),
    ((X.to("meta"), X, X), {}, "pass"),
]


@pytest.mark.parametrize("operands, options, text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(operands, options, text):
    with pytest.raises(heed.ShapeError, match=text):
        sdpa(*operands, **options)


def test_what_is_no_tensor():
    with pytest.raises(TypeError, match="key is a ndarray; pass a torch tensor"):
        sdpa(X, np.zeros((1, 2, 3, 4)), X)
    with pytest.raises(TypeError, match="attn_mask is a list; pass a torch tensor"):
        sdpa(X, X, X, [[True]])
    with pytest.raises(TypeError, match="q is a ndarray; pass a torch tensor, or call heed.attention"):
        heed.torch.attention(np.zeros((1, 2, 3, 4)), X, X)
