"""attention() in torch's graph: gradients of every option by differences, and what is refused."""
import heed
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402


def leaf(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def operands(heads=4, kv_heads=2, queries=3, keys=5):
    return (leaf(2, heads, queries, 4, seed=1), leaf(2, kv_heads, keys, 4, seed=2), leaf(2, kv_heads, keys, 3, seed=3))


SLOPES = torch.tensor([0.5, 0.25, 0.125, 1.0], dtype=torch.float64)
OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"causal": True},
    "causal behind a cache": {"causal": True, "offset": 1},
    "causal bottom right": {"causal": "bottom_right"},
    "window": {"window": (1, 1)},
    "softcap": {"softcap": 0.7},
    "alibi": {"alibi": SLOPES, "causal": True},
    "boolean mask": {"mask": torch.arange(15).reshape(3, 5) % 4 != 1},
    "key lengths": {"key_lengths": torch.tensor([5, 2])},
    "offset": {"offset": 2, "window": (2, -1)},
    "dropout": {"dropout_p": 0.4, "seed": 7},
    "all": {"causal": "bottom_right", "window": (3, -1), "softcap": 2.0, "alibi": SLOPES, "dropout_p": 0.2,
            "key_lengths": torch.tensor([5, 4])},
}


def gradcheck(function, *leaves):
    assert torch.autograd.gradcheck(function, leaves, eps=1e-6, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_gradients_of_out_and_lse(name, kv_heads):
    def function(q, k, v):
        r = heed.torch.attention(q, k, v, return_lse=True, **OPTIONS[name])
        return r.out, torch.where(r.lse.isinf(), 0, r.lse)
    gradcheck(function, *operands(kv_heads=kv_heads))


@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (4, 3, 5), (3, 5), (5,), (2, 1, 3, 5), (2, 4, 1, 5), (1, 1, 1, 5),
                                   (2, 1, 1, 1), (3, 1)])
def test_gradients_of_masks_and_sinks(shape):
    def function(q, k, v, mask, sinks):
        r = heed.torch.attention(q, k, v, mask, sinks=sinks, softcap=3.0, return_lse=True)
        return r.out, r.lse
    gradcheck(function, *operands(), leaf(*shape, seed=4), leaf(4, seed=5))


def test_a_mask_with_fewer_keys_is_refused():
    with pytest.raises(heed.ShapeError, match=r"does not broadcast to .* = \(2, 4, 3, 5\); pass \(Lq, Lk\) = \(3, 5\)"):
        heed.torch.attention(*operands(), leaf(2, 4, 3, 4))


@pytest.mark.parametrize("shape", [(9,), (1, 9), (4, 9), (4, 3), (1,)])
def test_gradients_of_tables(shape):
    """Of relative biases, in a chain with others of their kind."""
    constant = heed.mods.relative_bias(torch.linspace(-1, 1, 7, dtype=torch.float64))

    def function(q, k, v, table, shared):
        chain = heed.mods.relative_bias(table, offset=1) | heed.mods.softcap(2.0) | constant
        return heed.attention(q, k, v, score_mod=chain | heed.mods.relative_bias(shared) | heed.mods.causal(offset=1))
    gradcheck(function, *operands(), leaf(*shape, seed=4), leaf(5, seed=5))
    gradcheck(lambda table: function(*(x.detach() for x in operands()), table, torch.zeros(3).double()),
              leaf(*shape, seed=4))


def test_a_table_in_torchs_graph():
    """Its numbers are those of the call, its gradient of its own dtype; without a graph it is as any other."""
    q, k, v = (leaf(1, 2, 6, 4, seed=s, dtype=torch.float32) for s in range(3))
    table = torch.zeros(9, dtype=torch.bfloat16, requires_grad=True)
    chain = heed.mods.relative_bias(table) | heed.mods.causal()
    assert repr(chain) == "heed.mods: relative_bias((9)) | causal(0)" and not chain.hides
    plain = heed.attention(q, k, v, causal=True)
    out = heed.attention(q, k, v, score_mod=chain)
    torch.testing.assert_close(out, plain)
    with torch.no_grad():
        table += torch.arange(9)
    biased = heed.attention(q, k, v, score_mod=heed.mods.relative_bias(torch.arange(9.0)) | heed.mods.causal())
    r = heed.torch.attention(q, k, v, score_mod=chain, return_lse=True)
    torch.testing.assert_close(r.out, biased)
    r.lse.sum().backward()
    assert table.grad.dtype == torch.bfloat16 and table.grad.shape == (9,)
    torch.testing.assert_close(table.grad.sum(), torch.tensor(12.0).bfloat16())  # each of 12 rows of weights has sum 1
    with torch.no_grad():
        torch.testing.assert_close(heed.attention(q, k, v, score_mod=chain), biased)
        table.zero_()
        torch.testing.assert_close(heed.attention(q, k, v, score_mod=chain), plain)
        kept = heed.mods.relative_bias(table)
        table += 3 * torch.arange(9)
    torch.testing.assert_close(heed.attention(q, k, v, score_mod=kept | heed.mods.causal()), plain)  # a copy
    out = heed.attention(q, k, v, score_mod=chain)
    with torch.no_grad():
        table.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_of_a_ragged_batch():
    offsets = {"q_offsets": torch.tensor([0, 2, 2, 6]), "k_offsets": torch.tensor([0, 3, 4, 9])}

    def function(q, k, v):
        r = heed.torch.attention(q, k, v, causal="bottom_right", return_lse=True, **offsets)
        return r.out, torch.where(r.lse.isinf(), 0, r.lse)
    gradcheck(function, leaf(6, 4, 4, seed=1), leaf(9, 2, 4, seed=2), leaf(9, 2, 3, seed=3))


def test_gradients_of_lse_alone_and_of_broadcast_sums():
    q, k, v = operands()
    lse = heed.torch.attention(q, k, v, return_lse=True).lse
    lse.sum().backward()  # the gradient of out is absent, that of lse has strides of 0
    scores = q.detach() @ k.detach().repeat_interleave(2, dim=1).mT / 2
    torch.testing.assert_close(q.grad, scores.softmax(-1) @ k.detach().repeat_interleave(2, dim=1) / 2)
    assert v.grad.count_nonzero() == 0


def test_attention_takes_what_requires_grad():
    q, k, v = operands()
    for options in ({}, {"return_weights": True}, {"sinks": leaf(4), "causal": True}):
        r = heed.attention(q, k, v, return_lse=True, **options)
        assert type(r) is heed.AttentionResult and r.out.requires_grad and r.lse.requires_grad
    out = heed.attention(q, k, v, causal=True)
    plain = heed.attention(q.detach(), k.detach(), v.detach(), causal=True)
    assert out.grad_fn is not None and torch.equal(out, plain)
    with torch.no_grad():
        assert not heed.attention(q, k, v, causal=True, return_lse=True).lse.requires_grad
    grad = torch.ones_like(plain)
    out.backward(grad)
    r = heed.attention(q.detach(), k.detach(), v.detach(), causal=True, return_lse=True)
    g = heed.attention_backward(grad, q.detach(), k.detach(), v.detach(), r)
    assert torch.equal(q.grad, g.q) and torch.equal(k.grad, g.k) and torch.equal(v.grad, g.v)


def test_gradients_have_the_dtypes_of_their_operands():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        q, k, v = (leaf(1, 2, 3, 4, seed=s, dtype=dtype) for s in range(3))
        mask, sinks = leaf(3, 3, dtype=dtype), leaf(2, dtype=torch.float32)
        heed.torch.attention(q, k, v, mask, sinks=sinks).float().pow(2).sum().backward()
        assert [x.grad.dtype for x in (q, k, v, mask, sinks)] == [dtype] * 4 + [torch.float32]


def test_a_step_of_training_finds_what_it_looks_for():
    """Gradients point the right way: attention learns to copy the value of the key that is its query."""
    x = torch.eye(6).reshape(1, 1, 6, 6)
    weight = torch.zeros(6, 6, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(200):
        loss = (heed.attention(x @ weight, x, x) - x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 1e-3


def test_what_is_refused():
    q, k, v = operands()
    out = heed.torch.attention(q, k, v)
    for loss in (out.sum(), out.pow(2).sum()):
        first, = torch.autograd.grad(loss, q, create_graph=True)
        with pytest.raises(RuntimeError, match="attention: its gradients have no gradients"):
            first.sum().backward()
    with pytest.raises(heed.ShapeError, match="alibi requires grad, and heed has no gradient of it; pass detach"):
        heed.attention(q, k, v, alibi=leaf(4))
    with pytest.raises(heed.ShapeError, match="attention: q requires grad, and nothing is recorded .*pass detach"):
        heed.attention(q, k, v, out=torch.empty(2, 4, 3, 3, dtype=torch.float64))
    with pytest.raises(heed.ShapeError, match="attention_backward: q requires grad"):
        heed.attention_backward(out.detach(), q, k, v, heed.torch.attention(q, k, v, return_lse=True))
    weights = heed.torch.attention(q, k, v, return_weights=True).weights
    with pytest.raises(RuntimeError, match="weights and scores have no gradient; detach"):
        weights.sum().backward()
    mask = leaf(3, 5)
    out = heed.torch.attention(q, k, v, mask)
    mask.data.zero_()
    with torch.no_grad():
        mask.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    with pytest.raises(heed.ShapeError, match="query heads are not a multiple"):
        heed.torch.attention(leaf(2, 3, 3, 4), k, v)
    with pytest.raises(heed.ShapeError, match="q is a ndarray beside a torch tensor .* that requires grad; pass torch"):
        heed.attention(*(x.detach().numpy() for x in (q, k, v)), mask)
    with pytest.raises(heed.ShapeError, match="k is a ndarray beside a torch tensor .* that requires grad; pass torch"):
        heed.attention(q, k.detach().numpy(), v)
    with pytest.raises(TypeError):
        heed.torch.attention(q, k, v, is_causal=True)
    with pytest.raises(heed.ShapeError, match=r"relative_bias: table is \(4\); pass \(2 n \+ 1\)"):
        heed.mods.relative_bias(leaf(4))
    with pytest.raises(heed.ShapeError, match="alibi: slopes requires grad, .*pass detach"):
        heed.mods.alibi(leaf(4))
    table = heed.mods.relative_bias(leaf(3, 5))
    with pytest.raises(heed.ShapeError, match=r"relative_bias\(\(3, 5\)\) has numbers for 3 heads, and the call has 4"):
        heed.attention(q, k, v, score_mod=table)
    with pytest.raises(heed.ShapeError, match="relative_bias: table requires grad, .*pass detach"):
        heed.explain(*(x.detach() for x in (q, k, v)), score_mod=table)
