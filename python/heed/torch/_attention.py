"""The operator with a place in torch's graph."""
from collections.abc import Callable
from typing import Any, Unpack

import torch  # type: ignore[import-not-found,unused-ignore]

from .. import _attention as heed
from .._heed import ShapeError


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None,
              causal: heed.Causal = False, *, return_lse: bool = False, return_scores: heed.Stage | None = None,
              return_weights: bool | heed.Select = False, **options: Unpack[heed.Options]) -> Any:
    """heed.attention() of torch tensors, with gradients of q, k, v, an additive mask, the sinks and lse.

    Takes what heed.attention() takes, but for `out`, and returns what it returns: (B, Hq, Lq, Dv), its dimensions in
    memory in the order of those of q, or an AttentionResult whose out and lse may both be differentiated, once. Its
    weights and scores have no gradient: a backward pass that needs one raises RuntimeError.
    """
    for name, x in {"q": q, "k": k, "v": v}.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"attention: {name} is a {type(x).__name__}; pass a torch tensor, or call heed.attention")
    sinks = options.get("sinks")
    wanted: dict[str, Any] = {"return_lse": return_lse, "return_scores": return_scores,
                              "return_weights": return_weights, **options}
    if not (isinstance(return_weights, heed.Select) and return_weights.top_p < 1):  # which takes no room beforehand
        wanted["out"] = _room(q, v)
    if not torch.is_grad_enabled() or not (q.requires_grad or k.requires_grad or v.requires_grad
                                           or _requires_grad(mask) or any(map(_requires_grad, options.values()))):
        return heed.attention(q, k, v, mask, causal, **wanted)
    for name, value in options.items():
        if name != "sinks" and _requires_grad(value):
            raise ShapeError(f"attention: {name} requires grad, and heed has no gradient of it; pass detach() of it")
    out, lse, weights, scores, top, remembered = _attention(q, k, v, mask, sinks, causal, wanted)
    if not (return_lse or return_weights or return_scores is not None):
        return out
    return heed.AttentionResult(out, lse if return_lse else None, weights, scores, top, remembered)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _room(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor | None:
    """Memory for the result with the dimensions in the order of those of q; None where that is heed's own order."""
    if q.is_contiguous() or q.dim() == 0 or v.dim() == 0:
        return None
    order = sorted(range(q.dim() - 1), key=q.stride, reverse=True)
    return torch.empty_permuted((*q.shape[:-1], v.shape[-1]), (*order, q.dim() - 1), dtype=q.dtype, device=q.device)


class _Attention(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None,
                sinks: torch.Tensor | None, causal: heed.Causal, wanted: dict[str, Any]) -> Any:
        r = heed.attention(q, k, v, mask, causal, **{**wanted, "sinks": sinks, "return_lse": True})
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, mask, sinks, r.out, r.lse)
        ctx.options = r._options
        return r.out, r.lse, r.weights, r.scores, r.top, r._options

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_lse: Any, grad_weights: Any, grad_scores: Any, *_: Any) -> Any:
        if grad_weights is not None or grad_scores is not None:
            raise RuntimeError("attention: weights and scores have no gradient; detach() them, or compute the loss "
                               "from out and lse")
        mask_grad = ctx.needs_input_grad[3]
        return *_gradients(grad_out, grad_lse, mask_grad, ctx.options, *ctx.saved_tensors), None, None


class _Gradients(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    """A function of its own, so that who differentiates it is told that it has no gradient."""

    @staticmethod
    def forward(ctx: Any, grad_out: Any, grad_lse: Any, mask_grad: bool, options: Any, q: torch.Tensor,
                k: torch.Tensor, v: torch.Tensor, mask: Any, sinks: Any, out: torch.Tensor, lse: torch.Tensor) -> Any:
        grad_out = torch.zeros_like(out) if grad_out is None else grad_out
        if grad_out.stride(-1) != 1:
            grad_out = grad_out.contiguous()
        if grad_lse is not None:
            grad_lse = grad_lse.contiguous()
        r = heed.AttentionResult(out, lse, options=options)
        g = heed.attention_backward(grad_out, q, k, v, r, grad_lse, mask_grad=mask_grad)
        return g.q, g.k, g.v, None if g.mask is None else g.mask.to(mask.dtype), g.sinks

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("attention: its gradients have no gradients; call backward() once, and see that the loss "
                           "holds no gradient of an attention's operands")


_attention: Callable[..., Any] = _Attention.apply
_gradients: Callable[..., Any] = _Gradients.apply
