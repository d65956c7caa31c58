"""The operator with a place in torch's graph."""
from collections.abc import Callable
from typing import Any, Unpack

import torch  # type: ignore[import-not-found,unused-ignore]

from .. import _attention as heed
from .._heed import ShapeError, Watched, torch_watches
from .._score_mod import ScoreMod


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
              causal: heed.Causal = False, *, return_lse: bool = False, return_scores: heed.Stage | None = None,
              return_weights: bool | heed.Select = False, **options: Unpack[heed.Options]) -> Any:
    """heed.attention() of torch tensors, with gradients of q, k, v, an additive mask, the sinks, tables of
    mods.relative_bias and lse.

    Takes what heed.attention() takes, but for `out`, and returns what it returns: (B, Hq, Lq, Dv), its dimensions in
    memory in the order of those of q, or an AttentionResult whose out and lse may both be differentiated, once. Its
    weights and scores have no gradient: a backward pass that needs one raises RuntimeError. Works under torch.compile,
    torch.export, torch.jit.trace, make_fx and other dispatch modes, and in torch.func's vmap, grad, vjp and jacrev, also
    nested. Forward-mode derivatives (jvp, dual tensors) raise.
    """
    if not (isinstance(q, torch.Tensor) and isinstance(k, torch.Tensor) and isinstance(v, torch.Tensor)):
        name, x = next((n, x) for n, x in zip("qkv", (q, k, v)) if not isinstance(x, torch.Tensor))
        raise TypeError(f"attention: {name} is a {type(x).__name__}; pass a torch tensor, or call heed.attention")
    if torch.compiler.is_compiling():
        from . import _traced
        return _traced.attention(_traced.outside_torch, q, k, v, mask, causal, return_lse=return_lse,
                                 return_scores=return_scores, return_weights=return_weights, **options)
    returned: Any = {"return_lse": return_lse, "return_scores": return_scores, "return_weights": return_weights}
    if torch._C._are_functorch_transforms_active():
        return _followed(q, k, v, mask, causal, **returned, **options)
    wanted: dict[str, Any] = {**returned, **options}
    if not (isinstance(return_weights, heed.Select) and return_weights.top_p < 1):  # which takes no room beforehand
        wanted["out"] = room(q, v)
    tables: list[Any] = []
    waits = q.requires_grad or k.requires_grad or v.requires_grad or requires_grad(mask)
    if options:
        waits = waits or any(map(requires_grad, options.values()))
        if isinstance(score_mod := options.get("score_mod"), ScoreMod) and score_mod._learned:
            tables = [x if isinstance(x, torch.Tensor) else None for x in score_mod._learned]
            waits = waits or any(map(requires_grad, tables))
    if not (waits and torch.is_grad_enabled()):
        try:
            return heed.attention(q, k, v, mask, causal, **wanted)
        except Watched:
            return _followed(q, k, v, mask, causal, **returned, **options)
    if torch_watches():
        return _followed(q, k, v, mask, causal, **returned, **options)
    if options:
        refuse_gradients(options)
    wanted["return_lse"] = True
    out, lse, low, weights, scores, top, remembered = _attention(q, k, v, mask, options.get("sinks"), causal, wanted,
                                                                 *tables)
    if not (return_lse or return_weights or return_scores is not None):
        return out
    return heed.AttentionResult(out, lse if return_lse else None, weights, scores, top, remembered,
                                low if return_lse else None)


def _followed(*operands: Any, **options: Any) -> Any:
    from . import _traced
    return _traced.followed(*operands, **options)


def batched(value: Any) -> bool:
    """Whether a gradient holds those of many samples. torch.autograd.grad(is_grads_batched=True) and
    jacobian(vectorize=True) batch by a class of tensors that is older than torch.func."""
    return value is not None and bool(torch._C._functorch.is_legacy_batchedtensor(value))


def requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def refuse_gradients(options: Any) -> None:
    for name, value in options.items():
        if name != "sinks" and requires_grad(value):
            raise ShapeError(f"attention: {name} requires grad, and heed has no gradient of it; pass detach() of it")


def room(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor | None:
    """Memory for the result with the dimensions in the order of those of q; None where that is heed's own order."""
    if q.is_contiguous() or q.dim() == 0 or v.dim() == 0:
        return None
    order = sorted(range(q.dim() - 1), key=q.stride, reverse=True)
    return torch.empty_permuted((*q.shape[:-1], v.shape[-1]), (*order, q.dim() - 1), dtype=q.dtype, device=q.device)


def gradients(grad_out: Any, grad_lse: Any, mask_grad: bool, options: Any, q: torch.Tensor, k: torch.Tensor,
              v: torch.Tensor, mask: Any, sinks: Any, out: torch.Tensor, lse: torch.Tensor, low: torch.Tensor,
              *tables: Any) -> tuple[Any, ...]:
    """Those of q, k, v, mask, sinks and the tables of score_mod, None for what has none."""
    grad_out = torch.zeros_like(out) if grad_out is None else grad_out
    if grad_out.stride(-1) != 1:
        grad_out = grad_out.contiguous()
    if grad_lse is not None:
        grad_lse = grad_lse.contiguous()
    lse, low = lse.contiguous(), low.contiguous()  # vmap repeats those of one entry by a stride of 0
    r = heed.AttentionResult(out, lse, options=options, lse_low=low)
    g = heed.attention_backward(grad_out, q, k, v, r, grad_lse, mask_grad=mask_grad)
    of_tables = [None if table is None else x.reshape(table.shape).to(table.dtype)
                 for x, table in zip(g.score_mod, tables)]
    return g.q, g.k, g.v, None if g.mask is None else g.mask.to(mask.dtype), g.sinks, *of_tables


class _Attention(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None,
                sinks: torch.Tensor | None, causal: heed.Causal, wanted: dict[str, Any], *tables: Any) -> Any:
        r = heed.attention(q, k, v, mask, causal, **wanted)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(r.lse_low)  # a rounding error
        ctx.save_for_backward(q, k, v, mask, sinks, r.out, r.lse, r.lse_low, *tables)
        ctx.options = r._options
        return r.out, r.lse, r.lse_low, r.weights, r.scores, r.top, r._options

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_lse: Any, _low: Any, grad_weights: Any, grad_scores: Any,
                 *_: Any) -> Any:
        if grad_weights is not None or grad_scores is not None:
            raise RuntimeError(NO_GRADIENT)
        if torch_watches() or batched(grad_out) or batched(grad_lse):  # or a mode that forward has not been under
            from . import _transforms
            return _transforms.gradients_of_eager(ctx, grad_out, grad_lse)
        grads = _gradients(grad_out, grad_lse, ctx.needs_input_grad[3], ctx.options, *ctx.saved_tensors)
        return *grads[:5], None, None, *grads[5:]


class _Gradients(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    """A function of its own, so that who differentiates it is told that it has no gradient."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Any:
        return gradients(*arguments)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(NO_SECOND)


NO_SECOND = ("attention: its gradients have no gradients; call backward() once, and see that the loss holds no gradient of "
             "an attention's operands")
NO_TANGENTS = ("attention: heed has no forward-mode derivatives (jvp, jacfwd, hessian, dual tensors); use reverse mode: "
               "torch.func.vjp, jacrev or grad")
NO_GRADIENT = "attention: weights and scores have no gradient; detach() them, or compute the loss from out and lse"
_attention: Callable[..., Any] = _Attention.apply
_gradients: Callable[..., Any] = _Gradients.apply
