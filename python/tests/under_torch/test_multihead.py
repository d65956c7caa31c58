"""heed.torch.MultiheadAttention beside torch's."""
import itertools

import heed
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402

N, L, S, E, H = 2, 5, 7, 12, 3


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def both(**options):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(E, H, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(numbers(*parameter.shape, seed=parameter.numel()) * 0.5)
    ours = heed.torch.MultiheadAttention(E, H, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def same(modules, operands, **options):
    results = []
    for module in modules:
        leaves = [x.clone().requires_grad_() for x in operands]
        if all(x is operands[0] for x in operands):
            leaves = leaves[:1] * 3
        out, weights = module(*leaves, **options)
        module.zero_grad()
        out.backward(numbers(*out.shape, seed=9))
        results.append([out, weights, *(x.grad for x in leaves), *(p.grad for p in module.parameters())])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-11)


MASKS = {"none": {}, "bool": {"attn_mask": numbers(L, S) > 0.8}, "float": {"attn_mask": numbers(L, S)},
         "per head": {"attn_mask": numbers(N * H, L, S) > 0.8}, "float per head": {"attn_mask": numbers(N * H, L, S)},
         "padding": {"key_padding_mask": torch.arange(S) >= torch.tensor([[7], [4]])},
         "float padding": {"key_padding_mask": numbers(N, S)}}
MASKS["both"] = {**MASKS["bool"], **MASKS["padding"]}
MASKS["both float"] = {**MASKS["float per head"], **MASKS["float padding"]}
MASKS["mixed"] = {**MASKS["float"], **MASKS["padding"]}
MASKS["mixed the other way"] = {**MASKS["bool"], **MASKS["float padding"]}
BUILDS = {"plain": {}, "no bias": {"bias": False}, "bias_kv": {"add_bias_kv": True}, "zero": {"add_zero_attn": True},
          "dims": {"kdim": 9, "vdim": 11}, "all": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 9, "vdim": 11}}


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("build", BUILDS)
def test_results_are_torchs(build, mask):
    for batch_first, need_weights, average in itertools.product((True, False), repeat=3):
        modules = both(batch_first=batch_first, **BUILDS[build])
        operands = numbers(N, L, E), numbers(N, S, modules[0].kdim, seed=1), numbers(N, S, modules[0].vdim, seed=2)
        if not batch_first:
            operands = [x.transpose(0, 1) for x in operands]
        same(modules, operands, need_weights=need_weights, average_attn_weights=average, **MASKS[mask])


def test_one_tensor_for_all_three():
    for batch_first in (True, False):
        x = numbers(N, L, E)
        causal = torch.nn.Transformer.generate_square_subsequent_mask(N if not batch_first else L, dtype=torch.float64)
        for options in ({}, {"attn_mask": causal}, {"attn_mask": causal, "is_causal": True},
                        {"attn_mask": causal, "is_causal": True, "need_weights": False}):
            same(both(batch_first=batch_first), (x, x, x), **options)
    with torch.no_grad():
        theirs, ours = (module.eval() for module in both(batch_first=True))
        torch.testing.assert_close(ours(x, x, x), theirs(x, x, x))


def test_a_single_entry():
    for options in ({}, {"attn_mask": numbers(H, L, S)}, {"key_padding_mask": torch.arange(S) > 4},
                    {"average_attn_weights": False, "attn_mask": numbers(L, S) > 1}):
        same(both(), (numbers(L, E), numbers(S, E, seed=1), numbers(S, E, seed=2)), **options)


def test_rows_that_see_nothing():
    _, ours = both(batch_first=True)
    mask = torch.zeros(L, S, dtype=torch.bool)
    mask[1] = True
    out, weights = ours(numbers(N, L, E), numbers(N, S, E), numbers(N, S, E), attn_mask=mask)
    assert (weights[:, 1] == 0).all() and not out.isnan().any()


def test_rows_hidden_by_large_numbers():
    """Gradients of a loss that leaves them out are torch's, but for the rounding of float32 sums."""
    for hidden in (-1e9, -1e20, -1e30):
        theirs, ours = both(batch_first=True)
        x, results = numbers(N, L, E).float(), []
        mask = torch.zeros(L, L)
        mask[1] = hidden
        padding = torch.zeros(N, L)
        padding[0, 0] = hidden
        for module in (theirs.float(), ours.float()):
            out, weights = module(x, x, x, attn_mask=mask, key_padding_mask=padding)
            out[:, [0, 2, 3, 4]].square().sum().backward()
            results.append([weights.detach(), *(p.grad for p in module.parameters())])
        for a, b in zip(*results, strict=True):
            assert b.isfinite().all()
            torch.testing.assert_close(b, a, rtol=1e-4, atol=2e-6 * max(1, float(a.abs().max())))


def test_dropout():
    _, ours = both(dropout=0.5)
    x = numbers(L, N, E)
    torch.manual_seed(1)
    first, weights = ours(x, x, x)
    torch.manual_seed(1)
    assert torch.equal(ours(x, x, x)[0], first) and not torch.equal(ours(x, x, x)[0], first)
    ours.eval()
    plain, plain_weights = ours(x, x, x)
    assert torch.equal(weights, plain_weights) and not torch.equal(first, plain)


def test_what_is_refused():
    _, ours = both(batch_first=True)
    x = numbers(N, L, E)
    for options, text in (({"is_causal": True}, "is_causal is set without attn_mask; pass"),
                          ({"attn_mask": numbers(L, S)}, r"attn_mask has shape \(5, 7\); pass \(5, 5\) or \(6, 5, 5\)"),
                          ({"key_padding_mask": numbers(N, S)}, r"key_padding_mask has shape \(2, 7\); pass \(2, 5\)"),
                          ({"attn_mask": torch.zeros(L, L, dtype=torch.int64)}, "attn_mask is torch.int64; pass bool")):
        with pytest.raises(heed.ShapeError, match=text):
            ours(x, x, x, **options)
    with pytest.raises(RuntimeError, match="weights and scores have no gradient"):
        ours(x, x, x)[1].sum().backward()
