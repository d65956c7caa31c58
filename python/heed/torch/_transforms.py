"""attention() in torch.func's vmap, grad, vjp and jacrev: autograd functions with a rule for vmap, which call the
operators of _operator.py once all transforms are done."""
from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]

from . import _operator
from ._attention import NO_SECOND, NO_TANGENTS, _gradients, batched, gradients

_TENSORS = 10  # of the operator, before its tables: q, k, v, mask, sinks, alibi, key_lengths, q_offsets, k_offsets, seed


class Fixed:
    """The operator's arguments after its tables; no tensors. One leaf for the transforms."""

    __slots__ = ("mask_grad", "options", "wanted")

    def __init__(self, options: tuple[Any, ...], wanted: tuple[Any, ...], mask_grad: bool = False) -> None:
        self.options = options
        self.wanted = wanted  # scores, weights, heads, rows
        self.mask_grad = mask_grad

    @property
    def draws(self) -> bool:
        return bool(self.options[6])  # dropout_p

    @property
    def mods(self) -> str:
        names: str = self.options[7]
        return names


class _Function(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError(NO_TANGENTS)


class _Forward(_Function):
    @staticmethod
    def forward(fixed: Fixed, *tensors: Any) -> Any:
        return _operator.forward(*tensors[:_TENSORS], list(tensors[_TENSORS:]), *fixed.options, *fixed.wanted)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.fixed, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[2])  # lse_low, a rounding error
        ctx.save_for_backward(*output[:3], *tensors)

    @staticmethod
    def backward(ctx: Any, grad_out: Any, grad_lse: Any, _low: Any, grad_scores: Any, grad_weights: Any) -> Any:
        saved = ctx.saved_tensors
        tensors = saved[3:]
        fixed = Fixed(ctx.fixed.options, (), ctx.needs_input_grad[4])
        q, k, v, mask, sinks, *learned = _backward(fixed, grad_out, grad_lse, grad_scores, grad_weights, *saved)
        tables = _operator.spread(learned, fixed.options, tensors[_TENSORS:])
        return (None, q, k, v, mask if fixed.mask_grad else None, None if tensors[4] is None else sinks,
                *(None,) * (_TENSORS - 5), *tables)

    @staticmethod
    def vmap(info: Any, in_dims: Any, fixed: Fixed, *tensors: Any) -> Any:
        samples = _Samples(info.batch_size, in_dims[1:], tensors)
        if fixed.draws and info.randomness == "error":
            raise RuntimeError("attention: dropout in vmap; pass randomness='same' or 'different' to vmap, or dropout_p=0")
        if samples.folds(fixed, 0):
            found = [samples.unfold(x) for x in _forward(fixed, *samples.folded(0, False))]
        else:
            found = samples.each(lambda *one: _forward(fixed, *one))
        return tuple(found), (0,) * len(found)


class _Backward(_Function):
    """From four gradients, out, lse and lse_low, then forward's tensors, to the gradients of q, k, v, mask, sinks and of
    the tables that have one."""

    @staticmethod
    def forward(fixed: Fixed, *tensors: Any) -> Any:
        grads, saved, inputs = tensors[:4], tensors[4:7], tensors[7:]
        *found, tables = _operator.backward(*grads, fixed.mask_grad, *saved, *inputs[:_TENSORS],
                                            list(inputs[_TENSORS:]), *fixed.options)
        return *found, *tables

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def vmap(info: Any, in_dims: Any, fixed: Fixed, *tensors: Any) -> Any:
        samples = _Samples(info.batch_size, in_dims[1:], tensors)
        if samples.folds(fixed, 7) and tensors[7 + 4] is None:  # the sinks' gradient is a sum over entries
            found = [samples.unfold(x) for x in _backward(fixed, *samples.folded(7, fixed.mask_grad))]
            if fixed.mask_grad:
                found[3] = samples.of_mask(found[3], 7)
        else:
            found = samples.each(lambda *one: _backward(fixed, *one))
        return tuple(found), (0,) * len(found)


class _EagerBackward(_Function):
    """The gradients of a call that no transform has followed, in one that follows backward: is_grads_batched."""

    @staticmethod
    def forward(mask_grad: bool, options: Any, *tensors: Any) -> Any:
        grad_out, grad_lse, *saved = tensors
        return tuple(saved[0].new_empty(0) if x is None else x
                     for x in gradients(grad_out, grad_lse, mask_grad, options, *saved))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(NO_SECOND)

    @staticmethod
    def vmap(info: Any, in_dims: Any, mask_grad: bool, options: Any, *tensors: Any) -> Any:
        samples = _Samples(info.batch_size, in_dims[2:], tensors)
        found = samples.each(lambda *one: _eager_backward(mask_grad, options, *one))
        return tuple(found), (0,) * len(found)


class _Samples:
    """Tensors of so many samples, each along its dimension, or the same for all where that is None."""

    def __init__(self, count: int, dims: Any, tensors: Any) -> None:
        self.count, self.dims, self.tensors = count, dims, tensors

    def each(self, f: Callable[..., Any]) -> list[torch.Tensor]:
        """The results of f, one sample after the other."""
        found = [f(*(x if d is None else x.select(d, n) for x, d in zip(self.tensors, self.dims)))
                 for n in range(self.count)]
        return [torch.stack(parts) for parts in zip(*found)]

    def folds(self, fixed: Fixed, first: int) -> bool:
        """Whether entries of all samples make one larger batch. `first`: the place of q."""
        sinks, alibi, _, q_offsets = range(first + 4, first + 8)
        return (not fixed.mods and not fixed.draws and self.tensors[q_offsets] is None and self.dims[sinks] is None
                and self.dims[alibi] is None)

    def folded(self, first: int, mask_grad: bool) -> list[Any]:
        mask, sinks, alibi = range(first + 3, first + 6)
        entries = self._entries(first)
        made: list[Any] = []
        for n, (x, d) in enumerate(zip(self.tensors, self.dims)):
            if x is None or n in (sinks, alibi):
                made.append(x)
            elif n == mask:
                own = x.dim() - (d is not None)  # dimensions of a sample's
                if d is None and not mask_grad and (own < 4 or x.shape[0] == 1):
                    made.append(x)
                else:
                    x = self._leading(x, d)
                    x = x.reshape(self.count, *(1,) * (4 - own), *x.shape[1:])
                    made.append(x.expand(-1, entries, -1, -1, -1).flatten(0, 1))
            else:
                made.append(self._leading(x, d).flatten(0, 1))
        return made

    def unfold(self, x: torch.Tensor) -> torch.Tensor:
        """(samples * B, ...) -> (samples, B, ...); what is not wanted has no elements."""
        if x.dim() == 1 and x.shape[0] == 0:
            return x.new_empty(self.count, 0)
        return x.reshape(self.count, x.shape[0] // self.count, *x.shape[1:])

    def of_mask(self, gradient: torch.Tensor, first: int) -> torch.Tensor:
        """(samples, B, h, l, s) -> (samples, ...) as each sample's mask is."""
        x, d = self.tensors[first + 3], self.dims[first + 3]
        shape = x.shape if d is None else (*x.shape[:d], *x.shape[d + 1:])
        if len(shape) < 4 or shape[0] == 1:
            gradient = gradient.sum(1)
        return gradient.reshape(self.count, *shape)

    def _entries(self, first: int) -> int:
        q, d = self.tensors[first], self.dims[first]
        return int(q.shape[1 if d == 0 else 0])

    def _leading(self, x: torch.Tensor, d: int | None) -> torch.Tensor:
        return x.expand(self.count, *x.shape) if d is None else x.movedim(d, 0)


def forward(*arguments: Any) -> Any:
    """As the operator."""
    tensors, tables, options = arguments[:_TENSORS], arguments[_TENSORS], arguments[_TENSORS + 1:]
    return _forward(Fixed(options[:-4], options[-4:]), *tensors, *tables)


def gradients_of_eager(ctx: Any, grad_out: Any, grad_lse: Any) -> tuple[Any, ...]:
    """Of what ctx of an eager call has saved: those of its inputs."""
    saved = ctx.saved_tensors
    if batched(grad_out) or batched(grad_lse):
        found = _of_batched(lambda *grads: _gradients(*grads, ctx.needs_input_grad[3], ctx.options, *saved),
                            grad_out, grad_lse)
    else:
        found = _eager_backward(ctx.needs_input_grad[3], ctx.options, grad_out, grad_lse, *saved)
    mask, sinks, tables = saved[3], saved[4], saved[8:]
    has = (True, True, True, ctx.needs_input_grad[3] and mask is not None, sinks is not None, None, None,
           *(x is not None for x in tables))
    return tuple(x if wanted else None for x, wanted in zip((*found[:5], None, None, *found[5:]), has))


def _of_batched(f: Callable[..., Any], *grads: Any) -> tuple[Any, ...]:
    """f of each sample of the gradients that batched() finds, one after the other. Nested batches raise ShapeError."""
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    # (samples, ...), or (1, ...) where all samples share the gradient
    outer = [None if x is None else torch._remove_batch_dim(x, level, 1, 0) for x in grads]
    count = max(x.shape[0] for x in outer if x is not None)
    found = [f(*(None if x is None else x[n if x.shape[0] > 1 else 0] for x in outer)) for n in range(count)]
    return tuple(None if parts[0] is None else torch._add_batch_dim(torch.stack(parts), 0, level)
                 for parts in zip(*found))


_forward: Callable[..., Any] = _Forward.apply
_backward: Callable[..., Any] = _Backward.apply
_eager_backward: Callable[..., Any] = _EagerBackward.apply
