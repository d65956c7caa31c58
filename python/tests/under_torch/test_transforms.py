"""attention() in torch.func's transforms, in traces, under dispatch modes and in forward AD: torch's own results, or an
error; never a constant."""
import heed
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import heed.torch  # noqa: E402
from heed import mods  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as torch_sdpa  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

sdpa = heed.torch.scaled_dot_product_attention


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def operands(*lead, queries=3, keys=5, heads=2, seed=0):
    return (numbers(*lead, heads, queries, 4, seed=seed + 1), numbers(*lead, heads, keys, 4, seed=seed + 2),
            numbers(*lead, heads, keys, 6, seed=seed + 3))


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def same(transform, arguments, **options):
    """transform(function)(*arguments) for both functions."""
    with sdpa_kernel(SDPBackend.MATH):
        close(transform(lambda q, k, v, *mask: sdpa(q, k, v, *mask, **options))(*arguments),
              transform(lambda q, k, v, *mask: torch_sdpa(q, k, v, *mask, **options))(*arguments))


# ---- vmap

@pytest.mark.parametrize("in_dims", [0, (0, None, None), (None, 0, 0), (1, 0, 2), (2, None, 0)], ids=str)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=str)
def test_vmap(in_dims, options):
    dims = (in_dims,) * 3 if isinstance(in_dims, int) else in_dims
    arguments = [x[0] if d is None else x.movedim(0, d) for x, d in zip(operands(4, 2), dims)]
    same(lambda f: vmap(f, in_dims=dims), arguments, **options)
    same(lambda f: vmap(f, in_dims=dims, chunk_size=3), arguments, **options)


@pytest.mark.parametrize("shape, dim", [((4, 3, 5), 0), ((3, 5), None), ((4, 2, 1, 3, 5), 0), ((2, 2, 3, 5), None),
                                        ((2, 4, 3, 5), 1), ((4, 1, 5), 0), ((4, 2, 1, 1, 5), 0)])
def test_vmap_of_masks(shape, dim):
    q, k, v = operands(4, 2)
    for mask in (numbers(*shape, seed=9), numbers(*shape, seed=9) > -0.3):
        same(lambda f: vmap(f, in_dims=(0, 0, 0, dim)), (q, k, v, mask))


def test_vmap_of_vmap():
    same(lambda f: vmap(vmap(f), in_dims=(1, 0, 0)), [x.movedim(0, 1) if n == 0 else x
                                                      for n, x in enumerate(operands(3, 2, 2))])


def heeds(**options):
    return lambda q, k, v: heed.attention(q, k, v, **options)


SINKS, SLOPES = numbers(4, 2, seed=11), torch.tensor([0.5, 0.25], dtype=torch.float64)
TABLE = numbers(2, 9, seed=12)
OTHERS = {
    "lengths": heeds(key_lengths=torch.tensor([5, 2])),
    "alibi": heeds(alibi=SLOPES, causal=True),
    "sinks": heeds(sinks=SINKS[0]),
    "window": heeds(window=(1, None), softcap=2.0, causal="bottom_right"),
    "score function": heeds(score_mod=mods.relative_bias(TABLE) | mods.softcap(2.0)),
    "ragged": lambda q, k, v: heed.attention(*(x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)),
                                             q_offsets=torch.tensor([0, 2, 6]), k_offsets=torch.tensor([0, 7, 10])),
    "lse": lambda q, k, v: heed.torch.attention(q, k, v, return_lse=True).lse,
    "weights": lambda q, k, v: heed.attention(q, k, v, return_weights=heed.Select(heads=[1])).weights,
    "scores": lambda q, k, v: heed.torch.attention(q, k, v, return_scores="masked").scores,
    "flex": lambda q, k, v: heed.torch.flex_attention(q, k, v, mods.causal(offset=1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_vmap_of_other_options(name):
    """One sample after the other."""
    q, k, v = operands(4, 2)
    close(vmap(OTHERS[name])(q, k, v), torch.stack([OTHERS[name](*one) for one in zip(q, k, v)]))


def test_vmap_of_what_heads_and_entries_have():
    q, k, v = operands(4, 2)
    lengths = torch.tensor([[5, 2], [0, 1], [3, 3], [4, 5]])
    close(vmap(lambda q, sinks: heed.attention(q, k[0], v[0], sinks=sinks))(q, SINKS),
          torch.stack([heed.attention(x, k[0], v[0], sinks=s) for x, s in zip(q, SINKS)]))
    close(vmap(lambda q, n: heed.attention(q, k[0], v[0], key_lengths=n))(q, lengths),
          torch.stack([heed.attention(x, k[0], v[0], key_lengths=n) for x, n in zip(q, lengths)]))
    tables = numbers(4, 2, 9, seed=5)

    def biased(q, table):
        return heed.attention(q, k[0], v[0], score_mod=mods.relative_bias(table))
    close(vmap(biased)(q, tables), torch.stack([biased(x, t) for x, t in zip(q, tables)]))


def test_dropout_in_vmap():
    q, k, v = (x.float() for x in operands(4, 1, queries=32, keys=32))
    same_for_all = (q[:1].expand(4, -1, -1, -1, -1), k[:1].expand(4, -1, -1, -1, -1), v[:1].expand(4, -1, -1, -1, -1))

    def dropped(q, k, v):
        return sdpa(q, k, v, dropout_p=0.5)
    torch.manual_seed(0)
    alike = vmap(dropped, randomness="same")(*same_for_all)
    assert all(torch.equal(alike[0], x) for x in alike[1:])
    apart = vmap(dropped, randomness="different")(*same_for_all)
    assert not torch.equal(apart[0], apart[1])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(dropped)(*same_for_all)
    with pytest.raises(RuntimeError, match="attention: dropout in vmap; pass randomness='same'"):
        vmap(lambda q, k, v: heed.attention(q, k, v, dropout_p=0.5, seed=1))(q, k, v)


# ---- Gradients

def squares(f):
    return lambda *x: f(*x).square().sum()


@pytest.mark.parametrize("mask", [None, numbers(3, 5, seed=4), numbers(2, 1, 3, 5, seed=4)], ids=["none", "2", "4"])
def test_grad_vjp_and_jacrev(mask):
    arguments = operands(2) if mask is None else (*operands(2), mask)
    places = tuple(range(len(arguments)))
    same(lambda f: grad(squares(f), argnums=places), arguments)
    same(lambda f: lambda *x: vjp(f, *x)[1](numbers(2, 2, 3, 6, seed=8)), arguments)
    same(lambda f: jacrev(f, argnums=places), arguments)
    same(lambda f: jacrev(f, argnums=places, chunk_size=5), arguments)


@pytest.mark.parametrize("mask", [False, True])
def test_jacrev_of_one_entry(mask):
    arguments = [*operands(1), *([numbers(3, 5, seed=7)] if mask else [])]
    every = tuple(range(len(arguments)))
    same(lambda f: jacrev(f, argnums=every), arguments)
    same(lambda f: vmap(jacrev(f, argnums=every), in_dims=(0, 0, 0, None)[:len(every)]), [
        x[None] if x.dim() == 4 else x for x in arguments])
    for heads in (1, 2):
        q, k, v = operands(1, queries=1, heads=heads)
        close(jacrev(lambda q: heed.attention(q, k, v))(q), jacrev(lambda q: torch_sdpa(q, k, v))(q))


@pytest.mark.parametrize("shape", [(), (3, 5), (2, 1, 3, 5), (2, 2, 3, 5), (1, 5)], ids=str)
def test_gradients_of_each_sample(shape):
    arguments = operands(4, 2) if not shape else (*operands(4, 2), numbers(4, *shape, seed=4))
    same(lambda f: vmap(grad(squares(f), argnums=tuple(range(len(arguments))))), arguments)
    if shape:  # of one mask for all, too
        shared = (*arguments[:3], arguments[3][0])
        same(lambda f: vmap(grad(squares(f), argnums=(0, 1, 2, 3)), in_dims=(0, 0, 0, None)), shared)


def test_gradients_of_a_model_for_each_sample():
    layers = [layer(8, 2, batch_first=True, dtype=torch.float64)
              for layer in (heed.torch.MultiheadAttention, torch.nn.MultiheadAttention)]
    layers[1].load_state_dict(layers[0].state_dict())
    samples, results = numbers(5, 1, 4, 8), []
    for layer in layers:
        parameters = {name: p.detach() for name, p in layer.named_parameters()}

        def loss(parameters, x, layer=layer):
            return functional_call(layer, parameters, (x, x, x), {"need_weights": False})[0].square().sum()
        results.append(vmap(grad(loss), in_dims=(None, 0))(parameters, samples))
    close(*results)


@pytest.mark.parametrize("name", ["alibi", "window", "sinks", "score function", "lengths", "lse", "ragged", "flex"])
def test_gradients_of_other_options(name):
    q, k, v = operands(4, 2)
    places = (0, 1, 2)
    f = squares(lambda *x: torch.where(OTHERS[name](*x).isinf(), 0, OTHERS[name](*x)))
    each = [grad(f, argnums=places)(*one) for one in zip(q, k, v)]
    leaves = [x[0].clone().requires_grad_() for x in (q, k, v)]
    close(each[0], torch.autograd.grad(f(*leaves), leaves))
    close(vmap(grad(f, argnums=places))(q, k, v), tuple(torch.stack(x) for x in zip(*each)))


def test_gradients_of_sinks_and_tables_of_each_sample():
    q, k, v = operands(4, 2)
    tables = numbers(4, 2, 9, seed=5)

    def loss(q, sinks, table):
        return heed.attention(q, k[0], v[0], sinks=sinks, score_mod=mods.relative_bias(table)).square().sum()
    each = [torch.autograd.grad(loss(x, s, t), (s, t)) for x, s, t in
            zip(q, SINKS.clone().requires_grad_(), tables.clone().requires_grad_())]
    close(vmap(grad(loss, argnums=(1, 2)))(q, SINKS, tables), tuple(torch.stack(x) for x in zip(*each)))


def test_batched_gradients_of_an_eager_call():
    q, k, v = (x.requires_grad_() for x in operands(2))
    mask = numbers(3, 5, seed=4).requires_grad_()
    grads = numbers(7, 2, 2, 3, 6, seed=5)
    with sdpa_kernel(SDPBackend.MATH):
        for options in ({}, {"attn_mask": mask}):
            leaves = [q, k, v, *options.values()]
            ours, theirs = (torch.autograd.grad(f(q, k, v, **options), leaves, grads, is_grads_batched=True)
                            for f in (sdpa, torch_sdpa))
            close(ours, theirs)
        for vectorize in (False, True):
            ours, theirs = (torch.autograd.functional.jacobian(f, (q, k, v), vectorize=vectorize)
                            for f in (sdpa, torch_sdpa))
            close(ours, theirs)


def test_batched_gradients_of_what_heads_have():
    """One sample after the other; gradients of lse, sinks and tables, too."""
    q, k, v = (x.requires_grad_() for x in operands(2))
    sinks, table = SINKS[0].clone().requires_grad_(), TABLE.clone().requires_grad_()
    r = heed.torch.attention(q, k, v, sinks=sinks, score_mod=mods.relative_bias(table), return_lse=True)
    leaves, grads = [q, k, v, sinks, table], (numbers(7, *r.out.shape, seed=5), numbers(7, *r.lse.shape, seed=6))

    def gradients(outputs, grads, **options):
        return torch.autograd.grad(outputs, leaves, grads, retain_graph=True, **options)
    for outputs, grads in (((r.out, r.lse), grads), ((r.lse,), grads[1:])):
        each = [gradients(outputs, one) for one in zip(*grads)]
        close(gradients(outputs, grads, is_grads_batched=True), tuple(torch.stack(x) for x in zip(*each)))


def test_what_transforms_refuse():
    q, k, v = operands(2)
    for f in (lambda: jvp(sdpa, (q, k, v), (q, k, v)), lambda: jacfwd(sdpa)(q, k, v),
              lambda: hessian(squares(sdpa))(q, k, v), lambda: vmap(lambda x: jvp(sdpa, (x, k, v), (x, k, v)))(q[None])):
        with pytest.raises(NotImplementedError, match="attention: heed has no forward-mode derivatives"):
            f()
    with pytest.raises(RuntimeError, match="attention: its gradients have no gradients"):
        grad(lambda q: grad(squares(sdpa))(q, k, v).square().sum())(q)
    with pytest.raises(RuntimeError, match="weights and scores have no gradient"):
        grad(lambda q: heed.torch.attention(q, k, v, return_weights=True).weights.square().sum())(q)
    blocks = heed.block_mask(mods.causal(), 3, 5)
    for options in ({"block_mask": blocks}, {"score_mod": lambda score, *_: score}, {"out": torch.empty(2, 2, 3, 6)},
                    {"return_weights": heed.Select(top_p=0.5)}):
        with pytest.raises(heed.ShapeError, match="attention: "):
            vmap(lambda q: heed.attention(q, k, v, **options))(q[None])
    for f in (lambda x: heed.rotary(x), lambda x: heed.attention_backward(x, x, x, x, heed.AttentionResult(x, x)),
              lambda x: heed.KVCache(2, 2, 3, 4).append(x, x)):
        with pytest.raises(heed.ShapeError):
            vmap(f)(q[None])


# ---- Traces and modes

CALLS = {
    "sdpa": lambda q, k, v: sdpa(q, k, v),
    "causal": lambda q, k, v: sdpa(q, k, v, is_causal=True),
    "causal as a number": lambda q, k, v: heed.attention(q, k, v, causal=1),
    "causal of NumPy": lambda q, k, v: heed.torch.attention(q, k, v, causal=np.True_, window=(np.int64(1), None)),
    "attention": lambda q, k, v: heed.attention(q, k, v, window=(1, 1)),
    "lse": lambda q, k, v: heed.torch.attention(q, k, v, softcap=2.0, return_lse=True).lse,
    "weights": lambda q, k, v: heed.attention(q, k, v, causal=True, return_weights=True).weights,
    "flex": lambda q, k, v: heed.torch.flex_attention(q, k, v, mods.softcap(2.0) | mods.causal(offset=1)),
}


def graph_is_right(traced, f, others):
    close(traced(*others), f(*others))
    assert not torch.allclose(f(*others), f(*operands(2)))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(name, mode):
    traced = make_fx(CALLS[name], tracing_mode=mode)(*operands(2))
    assert any("heed" in str(node.target) for node in traced.graph.nodes)
    graph_is_right(traced, CALLS[name], operands(2, seed=20))


def test_make_fx_of_gradients():
    def gradients(q, k, v):
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(sdpa(*leaves).square().sum(), leaves)
    others = operands(2, seed=20)
    close(make_fx(gradients)(*operands(2))(*others), gradients(*others))
    per_sample = vmap(grad(squares(sdpa), argnums=(0, 1, 2)))
    others = operands(3, 2, seed=20)
    close(make_fx(per_sample)(*operands(3, 2))(*others), per_sample(*others))


@pytest.mark.parametrize("name", CALLS)
def test_jit_trace(name):
    traced = torch.jit.trace(CALLS[name], operands(2))
    graph_is_right(traced, CALLS[name], operands(2, seed=20))


def test_jit_trace_of_a_module():
    module = heed.torch.MultiheadAttention(8, 2, batch_first=True).eval()
    traced = torch.jit.trace(module, (numbers(2, 5, 8, dtype=torch.float32),) * 3)
    x, y = (numbers(2, 5, 8, seed=seed, dtype=torch.float32) for seed in (1, 2))
    torch.testing.assert_close(traced(x, y, y), module(x, y, y))


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_dispatch_modes():
    q, k, v = operands(2)
    expected = heed.attention(q, k, v, causal=True)
    with Seen() as seen:
        close(heed.attention(q, k, v, causal=True), expected)
        close(sdpa(q, k, v, is_causal=True), expected)
    assert seen.names.count("heed.attention.default") == 2
    leaves = [x.requires_grad_() for x in (q, k, v)]
    theirs = torch.autograd.grad(heed.attention(*leaves, causal=True).square().sum(), leaves)
    with Seen() as seen:
        close(torch.autograd.grad(heed.attention(*leaves, causal=True).square().sum(), leaves), theirs)
    assert seen.names.count("heed.attention_backward.default") == 1


RESULT = heed.attention(*operands(2), return_lse=True)


def rotated(q, k, v):
    return heed.rotary(q, out=torch.empty_like(q))


def cached(q, k, v):
    return heed.KVCache(2, 2, 8, 4, 6, "float64").attend(k, k, v)


def appended(q, k, v):
    cache = heed.KVCache(2, 2, 8, 4, 6, "float64")
    cache.append(k, v, heed.Rotary())
    return cache.keys


def merged(q, k, v):
    r = heed.attention(q, k, v, return_lse=True)
    return heed.merge(r, RESULT).out


def merged_parts(q, k, v):
    """The tensors that a trace follows come from it alone."""
    one = heed.AttentionResult(v, v[..., 0].contiguous())
    return heed.merge(one, one).out


def gradients(q, k, v):
    return heed.attention_backward(RESULT.out, q, k, v, RESULT).q


# Calls that are no operators of torch's: a constant in a trace, or a tangent of 0, would be wrong without a word.
OUTSIDE = {
    "rotary": lambda q, k, v: heed.rotary(q), "rotary into out": rotated, "KVCache.attend": cached,
    "KVCache.append": appended, "merge": merged, "merge of parts": merged_parts, "attention_backward": gradients,
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("tracer", ["jit.trace", "real", "fake", "symbolic"])
def test_traces_of_what_is_no_operator(name, tracer):
    """The right result of other operands, or an error."""
    f, first, others = OUTSIDE[name], operands(2), operands(2, seed=20)
    expected = f(*others)
    assert not torch.allclose(expected, f(*first))
    try:
        traced = torch.jit.trace(f, first) if tracer == "jit.trace" else make_fx(f, tracing_mode=tracer)(*first)
    except heed.ShapeError as error:
        assert "is a torch tensor in a trace, under a dispatch mode" in str(error) or "FakeTensor" in str(error), error
        return
    close(traced(*others), expected)


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("place", [0, 1, 2], ids="qkv")
def test_forward_ad_of_what_is_no_operator(name, place):
    """An error where a tangent would be lost; the numbers of before where the result does not depend on it."""
    f, given = OUTSIDE[name], operands(2)
    expected = f(*given)
    with forward_ad.dual_level():
        given = [forward_ad.make_dual(x, torch.ones_like(x)) if n == place else x for n, x in enumerate(given)]
        try:
            out = f(*given)
        except (heed.ShapeError, NotImplementedError) as error:
            assert "forward" in str(error) or "tangent" in str(error), error
            return
        close(out, expected)
        uses = {"rotary": "q", "rotary into out": "q", "KVCache.attend": "kv", "KVCache.append": "kv", "merge": "qkv",
                "merge of parts": "v", "attention_backward": "qkv"}
        assert "qkv"[place] not in uses[name]


def test_what_a_mode_cannot_follow():
    q, k, v = operands(2)
    r = heed.attention(q, k, v, return_lse=True)
    with Seen():
        for f in (lambda: heed.merge(r, r), lambda: heed.rotary(q), lambda: heed.KVCache(2, 2, 3, 4).append(q, q),
                  lambda: heed.attention_backward(r.out, q, k, v, r)):
            with pytest.raises(heed.ShapeError, match="is a torch tensor in a trace, under a dispatch mode"):
                f()
        with pytest.raises(heed.ShapeError, match="attention: a trace, a dispatch mode or a transform of torch.func"):
            heed.attention(q, k, v, block_mask=heed.block_mask(mods.causal(), 3, 5))
        with pytest.raises(heed.ShapeError, match="k is a ndarray beside a torch tensor that torch follows"):
            heed.attention(q, k.numpy(), v)
    assert heed.merge(r, r).out.shape == r.out.shape


def test_forward_ad():
    q, k, v = operands(2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, torch.ones_like(q))
        for f in (lambda: heed.attention(dual, k, v), lambda: sdpa(q, forward_ad.make_dual(k, k), v),
                  lambda: heed.attention(q, k, v, sinks=forward_ad.make_dual(SINKS[0], SINKS[0])),
                  lambda: heed.rotary(dual), lambda: heed.attention(dual.requires_grad_(), k, v)):
            with pytest.raises((NotImplementedError, RuntimeError, heed.ShapeError), match="forward|tangent"):
                f()
        close(heed.attention(q, k, v), heed.attention(*operands(2)))  # without tangents


def test_nothing_of_torch_watches():
    assert not heed._heed.torch_watches()
    with Seen():
        assert heed._heed.torch_watches()
    with torch.no_grad(), torch.inference_mode(), torch.autocast("cpu"):
        assert not heed._heed.torch_watches()
