"""Attention as two operators of torch's, forward and backward, which the graphs of torch.compile and torch.export hold.

Eager calls do not come here: torch takes longer to call an operator than heed to compute a small attention.
"""
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from .. import _heed
from .._attention import Select
from .._score_mod import Part, joined, learned, learns, parts_of
from ._attention import NO_GRADIENT, gradients, room

# Score functions are the names and numbers of their parts. The names are one string, separated by commas: torch.jit.trace
# takes no lists of strings. What is not wanted comes out without elements. No argument may be called "out": Inductor leaves
# such an argument out of the calls that it writes.
_TENSORS = """Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? sinks, Tensor? alibi, Tensor? key_lengths,
    Tensor? q_offsets, Tensor? k_offsets, Tensor? seed"""
_OPTIONS = """Tensor[] tables, bool causal, bool bottom_right, float? scale, SymInt[]? window, float softcap,
    SymInt offset, float dropout_p, str mods, SymInt[] places, float[] factors"""
_FORWARD = f"""({_TENSORS}, {_OPTIONS}, str? scores, bool weights, SymInt[]? heads, SymInt[]? rows) -> (
    Tensor out, Tensor lse, Tensor lse_low, Tensor scores, Tensor weights)"""
_BACKWARD = f"""(Tensor? grad_out, Tensor? grad_lse, Tensor? grad_scores, Tensor? grad_weights, bool mask_grad,
    Tensor result, Tensor lse, Tensor lse_low, {_TENSORS}, {_OPTIONS}) -> (
    Tensor q, Tensor k, Tensor v, Tensor mask, Tensor sinks, Tensor[] tables)"""
_TABLES, _MODS, _WANTED = 10, 18, 21  # places of arguments


def _forward(*arguments: Any) -> Any:
    (q, k, v), (stage, wanted, heads, rows) = arguments[:3], arguments[_WANTED:]
    with torch.no_grad():
        out, lse, low, weights, scores, *_ = _heed.attention_recorded(
            q, k, v, _options(*arguments[3:_WANTED]), room(q, v), True, stage,
            Select(heads, rows) if wanted else False)
    return out, lse, low, *(lse.new_empty(0) if x is None else x for x in (scores, weights))


def _forward_shapes(*arguments: Any) -> Any:
    (q, k, v), q_offsets, (stage, wanted, heads, rows) = arguments[:3], arguments[7], arguments[_WANTED:]
    out = room(q, v)
    if out is None:
        out = q.new_empty((*q.shape[:-1], v.shape[-1]))
    shape = q.shape[:-1] if q_offsets is None else (q.shape[1], q.shape[0])
    lse = q.new_empty(shape, dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
    scores, weights = lse.new_empty(0), lse.new_empty(0)
    if stage is not None:
        scores = lse.new_empty((*shape, k.shape[-2]))
    if wanted:
        weights = lse.new_empty((q.shape[0], q.shape[1] if heads is None else len(heads),
                                 q.shape[2] if rows is None else len(rows), k.shape[-2]))
    return out, lse, torch.empty_like(lse), scores, weights


def _backward(grad_out: Any, grad_lse: Any, grad_scores: Any, grad_weights: Any, mask_grad: bool, out: torch.Tensor,
              lse: torch.Tensor, low: torch.Tensor, *arguments: Any) -> Any:
    for grad in (grad_scores, grad_weights):  # zeros, in a graph, for what no loss depends on
        if grad is not None and grad.any():
            raise RuntimeError(NO_GRADIENT)
    with torch.no_grad():
        grads = gradients(grad_out, grad_lse, mask_grad, _options(*arguments[3:]), *arguments[:5], out, lse, low,
                          *learned(_parts(arguments)))
    return *(out.new_empty(0) if x is None else x for x in grads[:5]), list(grads[5:])


def _backward_shapes(grad_out: Any, grad_lse: Any, grad_scores: Any, grad_weights: Any, mask_grad: bool,
                     out: torch.Tensor, lse: torch.Tensor, low: torch.Tensor, *arguments: Any) -> Any:
    q, k, v, mask, sinks = arguments[:5]
    own = q, k, v, mask if mask_grad else None, sinks
    return *(out.new_empty(0) if x is None else x.new_empty(x.shape) for x in own), [
        table.new_empty(table.shape) for table in learned(_parts(arguments))]


def _remember(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[2])  # lse_low, a rounding error
    ctx.save_for_backward(*output[:3], *inputs[:_TABLES], *inputs[_TABLES])
    ctx.others = inputs[_TABLES + 1:]


def _differentiate(ctx: Any, grad_out: Any, grad_lse: Any, _low: Any, *grads: Any) -> Any:
    out, lse, low, *tensors = ctx.saved_tensors
    options = ctx.others[:_WANTED - _TABLES - 1]
    arguments = *tensors[:_TABLES], tensors[_TABLES:], *options
    q, k, v, mask, sinks, of_tables = backward(grad_out, grad_lse, *grads, ctx.needs_input_grad[3], out, lse, low,
                                               *arguments)
    tables = spread(of_tables, options, tensors[_TABLES:])
    # torch wants an empty list for an empty list.
    none: list[Any] = [[] if isinstance(x, list) and not x else None for x in ctx.others]
    return (q, k, v, mask if ctx.needs_input_grad[3] else None, None if arguments[4] is None else sinks,
            *(None,) * 5, tables, *none)


def spread(of_learned: Any, options: Any, tables: Any) -> list[Any]:
    """The gradients of the tables that have one in the places of all, None for the rest."""
    left = iter(of_learned)
    mods = options[_MODS - _TABLES - 1:_WANTED - _TABLES - 1]
    return [next(left) if learns(part) else None for part in _parts_of(mods[0], tables, *mods[1:]) for _ in part.tables]


def _options(mask: Any, sinks: Any, alibi: Any, key_lengths: Any, q_offsets: Any, k_offsets: Any, seed: Any,
             tables: Any, causal: bool, bottom_right: bool, scale: Any, window: Any, softcap: Any, offset: Any,
             dropout_p: Any, mods: Any, places: Any, factors: Any) -> Any:
    score_mod = joined(_parts_of(mods, tables, places, factors)) if mods else None
    return _heed.Options(mask, "bottom_right" if bottom_right else causal, scale, window, softcap, alibi, sinks,
                         score_mod, None, key_lengths, offset, q_offsets, k_offsets, dropout_p,
                         0 if seed is None else int(seed) % 2**64)


def _parts(arguments: Any) -> list[Part]:
    return _parts_of(arguments[_MODS], arguments[_TABLES], *arguments[_MODS + 1:_WANTED])


def _parts_of(names: str, tables: Any, places: Any, factors: Any) -> list[Part]:
    return parts_of(names.split(",") if names else [], tables, places, factors)


forward: Any = torch.library.custom_op("heed::attention", _forward, mutates_args=(), device_types="cpu",
                                       schema=_FORWARD)
backward: Any = torch.library.custom_op("heed::attention_backward", _backward, mutates_args=(), device_types="cpu",
                                        schema=_BACKWARD)
forward.register_fake(_forward_shapes)
backward.register_fake(_backward_shapes)
forward.register_autograd(_differentiate, setup_context=_remember)
