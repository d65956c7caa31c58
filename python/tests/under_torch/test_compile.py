"""torch.compile and torch.export: one graph, eager's results and gradients; what is not part of a graph ends it."""
import shutil

import heed
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402
from heed import mods  # noqa: E402

sdpa, flex = heed.torch.scaled_dot_product_attention, heed.torch.flex_attention
OPERATOR, BACKWARD = torch.ops.heed.attention.default, torch.ops.heed.attention_backward.default


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()


def leaf(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def operands(queries=7, keys=9, kv_heads=2):
    return leaf(2, 4, queries, 4, seed=1), leaf(2, kv_heads, keys, 4, seed=2), leaf(2, kv_heads, keys, 6, seed=3)


def tensors(result):
    if isinstance(result, heed.AttentionResult):
        result = result.out, result.lse, result.weights, result.scores, result.lse_low
    return [x for x in ([result] if isinstance(result, torch.Tensor) else result) if x is not None]


def results(function, leaves, differentiable=None):
    """What the function gives, and the gradients of the squares of its first results, as many as are differentiable."""
    leaves = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_(x.requires_grad) for x in leaves]
    given = tensors(function(*leaves))
    losses = [x.square().sum() for x in given[:differentiable] if x.requires_grad]
    wanted = [x for x in leaves if x.requires_grad]
    return given, torch.autograd.grad(sum(losses), wanted, allow_unused=True) if losses else ()


def same(function, leaves, backend="aot_eager", differentiable=None):
    ours = results(torch.compile(function, fullgraph=True, backend=backend), leaves, differentiable)
    for a, b in zip(results(function, leaves, differentiable), ours, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-10, atol=1e-12)
        assert [None if x is None else x.stride() for x in a] == [None if x is None else x.stride() for x in b]


IDS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
SLOPES = torch.tensor([0.5, 0.25, 0.125, 1.0])
CHAIN = mods.softcap(2.0) | mods.alibi(SLOPES) | mods.documents(IDS) | mods.causal(offset=2)
MASK, SINKS, TABLE = leaf(7, 9, seed=4), leaf(4, seed=5), leaf(4, 9, seed=6)
FUNCTIONS = {  # and what they are given
    "heed.attention": (lambda q, k, v: heed.attention(q, k, v, causal=True), operands()),
    "lse": (lambda q, k, v: heed.attention(q, k, v, None, "bottom_right", scale=0.3, return_lse=True), operands()),
    "options": (lambda q, k, v: heed.torch.attention(q, k, v, window=(3, -1), softcap=2.0, offset=1,
                                                     alibi=SLOPES.double(), key_lengths=torch.tensor([9, 4])),
                operands()),
    "mask and sinks": (lambda q, k, v, mask, sinks: heed.torch.attention(q, k, v, mask, sinks=sinks, return_lse=True),
                       (*operands(), MASK, SINKS)),
    "lse alone": (lambda q, k, v: heed.torch.attention(q, k, v, return_lse=True).lse, operands()),
    "a part of the weights": (lambda q, k, v: heed.torch.attention(
        q.detach(), k.detach(), v.detach(), return_weights=heed.Select(heads=[0, -1], rows=[-1]),
        return_scores="masked"), operands()),
    "ragged": (lambda q, k, v: heed.attention(q, k, v, causal="bottom_right", q_offsets=torch.tensor([0, 2, 2, 6]),
                                              k_offsets=torch.tensor([0, 3, 4, 9])),
               (leaf(6, 4, 4), leaf(9, 2, 4), leaf(9, 2, 3))),
    "dropout": (lambda q, k, v: heed.attention(q, k, v, dropout_p=0.3, seed=2**64 - 3), operands()),
    "sdpa": (lambda q, k, v, mask: sdpa(q, k, v, mask, enable_gqa=True), (*operands(), MASK)),
    "sdpa of three dimensions": (lambda q, k, v: sdpa(q[0], k[0], v[0], is_causal=True), operands(kv_heads=4)),
    "sdpa of another layout": (lambda q, k, v: sdpa(q.transpose(1, 2), k.mT, v), (
        leaf(2, 7, 4, 4, seed=1), leaf(2, 4, 4, 9, seed=2), leaf(2, 4, 9, 6, seed=3))),
    "flex": (lambda q, k, v: flex(q, k, v, enable_gqa=True, return_lse=True), operands()),
    "flex with a chain": (lambda q, k, v: flex(q, k, v, CHAIN, enable_gqa=True), operands()),
    "flex with a chain made in the graph": (lambda q, k, v, table: flex(
        q, k, v, mods.relative_bias(table) | mods.softcap(2) | mods.alibi(SLOPES) | mods.causal(offset=2),
        enable_gqa=True), (*operands(), TABLE)),
    "flex with both": (lambda q, k, v, table: flex(q, k, v, CHAIN | mods.relative_bias(table[0]), enable_gqa=True),
                       (*operands(), TABLE)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_graph(name):
    same(*FUNCTIONS[name])


@pytest.mark.parametrize("name", ["options", "sdpa of another layout", "flex with both"])
def test_inductor(name):
    if not shutil.which("g++"):
        pytest.skip("Inductor needs g++")
    same(*FUNCTIONS[name], backend="inductor")


PADDING = torch.arange(7) >= torch.tensor([[7], [5]])


@pytest.mark.parametrize("options", [{"need_weights": False}, {}, {"attn_mask": MASK.detach()[:, :7] > 1},
                                     {"key_padding_mask": PADDING, "average_attn_weights": False}], ids=str)
def test_multihead(options):
    module = heed.torch.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    x = leaf(2, 7, 8)
    same(lambda x: module(x, x, x, **options), (x,), differentiable=1)
    gradients = []
    for run in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        run(x, x, x, **options)[0].square().sum().backward()
        gradients.append([parameter.grad for parameter in module.parameters()])
        module.zero_grad()
    torch.testing.assert_close(*gradients)


def test_sizes_are_dynamic():
    """One graph for all, also for masks that a decoding loop moves on."""
    module = heed.torch.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)

    def function(q, k, v, mask, chain, x):
        r = heed.attention(q * 2, k, v, mask, "bottom_right", scale=q.shape[-1]**-0.5, return_lse=True)
        return (r.out.sin(), r.lse, sdpa(q, k, v, enable_gqa=True), flex(q, k, v, chain, enable_gqa=True),
                module(x, x, x)[0])
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)

    def compare(n):
        leaves = *operands(n, n + 3), leaf(n, n + 3)
        others = mods.softcap(2.0) | mods.causal(offset=n), leaf(3, n, 8)
        torch.testing.assert_close(results(lambda *x: compiled(*x, *others), leaves),
                                   results(lambda *x: function(*x, *others), leaves))
    compare(17)
    with torch.compiler.set_stance("fail_on_recompile"):
        compare(30)
        compare(75)


def arguments(q, k, v, mask=None, sinks=None, alibi=None, key_lengths=None, offsets=(None, None), seed=None, tables=(),
              causal=False, bottom_right=False, window=None, softcap=0.0, offset=0, dropout_p=0.0, chain=("", (), ())):
    return (q, k, v, mask, sinks, alibi, key_lengths, *offsets, seed, list(tables), causal, bottom_right, None, window,
            softcap, offset, dropout_p, chain[0], *map(list, chain[1:]))


BIASED = ("relative_bias,softcap,relative_bias", [0, 1], [2.0])
ARGUMENTS = {
    "plain": arguments(*operands()),
    "layout": arguments(leaf(2, 7, 4, 4).transpose(1, 2), *operands()[1:], causal=True),
    "mask and sinks": arguments(*operands(), MASK, SINKS, softcap=2.0),
    "tables": arguments(*operands(), tables=[TABLE, leaf(5)], chain=BIASED),
    "lengths": arguments(*operands(), None, None, SLOPES.double(), torch.tensor([9, 4]), window=[3, -1], offset=1,
                         causal=True),
    "ragged": arguments(leaf(6, 4, 4), leaf(9, 2, 4), leaf(9, 2, 3), offsets=(torch.tensor([0, 2, 2, 6]),
                                                                              torch.tensor([0, 3, 4, 9]))),
    "dropout": arguments(*operands(), seed=torch.tensor(5), dropout_p=0.3),
    "halves": arguments(*(x.detach().bfloat16().requires_grad_() for x in (*operands(), MASK)), SINKS.detach().float()),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_opcheck(name):
    torch.library.opcheck(OPERATOR, (*ARGUMENTS[name], None, False, None, None))
    plain = [x.detach() if isinstance(x, torch.Tensor) else [t.detach() for t in x] if i == 10 else x
             for i, x in enumerate(ARGUMENTS[name])]
    if name != "ragged":
        torch.library.opcheck(OPERATOR, (*plain, "masked", True, [0, -1], None))
    out, lse, low, *_ = OPERATOR(*plain, None, False, None, None)
    torch.library.opcheck(BACKWARD, (out, lse.isfinite().to(lse.dtype), None, None, plain[3] is not None, out, lse, low,
                                     *plain))


def test_weights_have_no_gradient():
    def function(q, k, v):
        r = heed.torch.attention(q, k, v, return_weights=True)
        return r.out, r.weights
    same(function, operands(), differentiable=1)
    out, weights = torch.compile(function, fullgraph=True, backend="aot_eager")(*operands())
    with pytest.raises(RuntimeError, match="weights and scores have no gradient; detach"):
        (out.sum() + weights.square().sum()).backward()


def test_dropout_follows_torchs_generator():
    q, k, v = (leaf(1, 2, 64, 8, seed=seed) for seed in range(3))
    compiled = torch.compile(lambda q, k, v: sdpa(q, k, v, dropout_p=0.5), fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    first, second = compiled(q, k, v), compiled(q, k, v)
    torch.manual_seed(1)
    eager = sdpa(q, k, v, dropout_p=0.5)
    assert torch.equal(first, eager) and not torch.equal(first, second)
    for a, b in zip(torch.autograd.grad(first.sum(), (q, k, v)), torch.autograd.grad(eager.sum(), (q, k, v))):
        assert torch.equal(a, b)


def plain(function):
    return lambda *operands: function(*(x.detach() for x in operands))


BLOCKS, ROOM = heed.block_mask(mods.causal(), 7, 9), torch.empty(2, 4, 7, 6, dtype=torch.float64)
TWICE = mods.function(lambda score, *_: score * 2, lambda score, *_: 2)
OUTSIDE = {
    "block mask": lambda q, k, v: flex(q, k, v, block_mask=BLOCKS, enable_gqa=True).sin(),
    "function": lambda q, k, v: flex(q, k, v, TWICE | mods.causal(), enable_gqa=True).sin(),
    "out": plain(lambda q, k, v: heed.attention(q, k, v, out=ROOM) * 2),
    "largest": plain(lambda q, k, v: heed.attention(q, k, v, return_weights=heed.Select(top_p=0.5)).top.weights),
    "NumPy": plain(lambda *x: torch.from_numpy(heed.attention(*(t.numpy() for t in x)))),
    "weights of a ragged batch": lambda *_: heed.attention(
        *(torch.arange(24.0).reshape(6, 2, 2),) * 3, q_offsets=torch.tensor([0, 2, 6]),
        k_offsets=torch.tensor([0, 2, 6]), return_weights=True).weights,
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_not_part_of_a_graph(name):
    """Ends it, with a reason where one is asked for, and gives the same."""
    expected = results(OUTSIDE[name], operands())
    ours = results(torch.compile(OUTSIDE[name], backend="aot_eager"), operands())
    torch.testing.assert_close(ours, expected, rtol=0, atol=0)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="heed: out=, a block_mask, .* cannot be part of a graph"):
        torch.compile(OUTSIDE[name], backend="aot_eager", fullgraph=True)(*operands())


def test_what_is_refused():
    def compiled(function):
        torch._dynamo.reset()
        return torch.compile(function, backend="aot_eager")
    q, k, v = operands()
    for function, error, text in (
            (lambda: heed.attention(q, k, v, causal=3), heed.ShapeError, "causal is 3; pass False, True"),
            (lambda: heed.attention(q, k, v, is_causal=True), TypeError, "is_causal"),
            (lambda: heed.attention(q, k[..., :3], v), heed.ShapeError, "head size of q is 4 and of k 3"),
            (lambda: heed.attention(q, k, v, alibi=leaf(4)), heed.ShapeError, "alibi requires grad"),
            (lambda: flex(q, k, v), heed.ShapeError, "4 query heads over 2; pass enable_gqa=True"),
            (lambda: flex(q, k, v, mods.alibi(SLOPES.clone().requires_grad_()), enable_gqa=True), heed.ShapeError,
             "requires grad"),
            (lambda: flex(q, k, v, mods.softcap(-1.0), enable_gqa=True), heed.ShapeError, "softcap: cap is -1; pass")):
        for run in (function, compiled(function)):
            with pytest.raises(error, match=text):
                run()


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    module = heed.torch.MultiheadAttention(8, 2, batch_first=True)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = module

        def forward(self, x):
            return self.attention(x, x, x)
    size = torch.export.Dim.DYNAMIC
    program = torch.export.export(Model(), (torch.randn(2, 5, 8),), strict=strict, dynamic_shapes=({0: size, 1: size},))
    assert [node.target for node in program.graph.nodes if "heed" in str(node.target)] == [OPERATOR]
    x = torch.randn(3, 9, 8)
    torch.testing.assert_close(program.module()(x), Model()(x))
