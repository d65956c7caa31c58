"""torch.nn.MultiheadAttention, whose weights cost no second path."""
from typing import Any

import torch  # type: ignore[import-not-found,unused-ignore]
from torch.nn.functional import linear  # type: ignore[import-not-found,unused-ignore]

from .._heed import ShapeError
from ._attention import attention
from ._sdpa import is_causal_bias, torch_seed


class MultiheadAttention(torch.nn.MultiheadAttention):  # type: ignore[misc,unused-ignore]
    """torch.nn.MultiheadAttention with heed's attention: the same arguments, parameters, state_dict() and results.

    The weights come out of the same fused call as the output. Three things differ from torch's: a row that may see
    nothing gives 0, not NaN; the weights are those before dropout; they have no gradient, and a backward pass that
    needs one raises RuntimeError.
    """

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                key_padding_mask: torch.Tensor | None = None, need_weights: bool = True,
                attn_mask: torch.Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(output, weights) of query (L, N, E), key (S, N, kdim), value (S, N, vdim); with batch_first (N, L, E) and so
        on; without N of a single entry.

        key_padding_mask      (N, S): boolean, true is left out, or added to the scores
        need_weights          False: None for the weights
        attn_mask             (L, S) or (N * num_heads, L, S), likewise
        average_attn_weights  weights (N, L, S), the mean of the heads; False: (N, num_heads, L, S)
        is_causal             says that attn_mask is the causal one, which then need not be read

        Raises ShapeError for masks that do not fit, RuntimeError for embeddings that do not.
        """
        single = query.dim() == 2
        shared = query is key and key is value
        query, key, value = (t[None] if single else t if self.batch_first else t.transpose(0, 1)
                             for t in (query, key, value))
        if single and key_padding_mask is not None:
            key_padding_mask = key_padding_mask[None]
        if is_causal and attn_mask is None:
            raise ShapeError("MultiheadAttention: is_causal is set without attn_mask; pass the causal mask")
        causal = bool(is_causal) and key_padding_mask is None and not need_weights
        q, k, v = self._project(query, key, value, shared)
        shape = q.shape[0], self.num_heads, q.shape[1], key.shape[1]
        mask = None if causal else _both(_mask("attn_mask", attn_mask, shape),
                                         _mask("key_padding_mask", key_padding_mask, shape))
        k, v, mask = self._extend(k, v, mask)
        q, k, v = (t.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2) for t in (q, k, v))
        options: dict[str, Any] = {"return_weights": need_weights, "return_lse": True}
        if self.training and self.dropout:
            options.update(dropout_p=self.dropout, seed=torch_seed())
        r = attention(q, k, v, mask, causal, **options)
        out = linear(r.out.transpose(1, 2).flatten(2), self.out_proj.weight, self.out_proj.bias)
        out = out[0] if single else out if self.batch_first else out.transpose(0, 1)
        if not need_weights:
            return out, None
        weights = r.weights.mean(dim=1) if average_attn_weights else r.weights
        return out, (weights[0] if single else weights).to(q.dtype)

    def _project(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, shared: bool) -> Any:
        """q, k and v, each (N, L or S, E)."""
        if self._qkv_same_embed_dim and shared:
            return linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        weights = (self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim
                   else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight))
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return map(linear, (query, key, value), weights, biases)

    def _extend(self, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> Any:
        """With the key of add_bias_kv and that of add_zero_attn at the end, which no mask hides."""
        more = []
        if self.bias_k is not None and self.bias_v is not None:
            more.append((self.bias_k, self.bias_v))
        if self.add_zero_attn:
            more.append((k.new_zeros(1, 1, k.shape[2]), v.new_zeros(1, 1, v.shape[2])))
        for last_k, last_v in more:
            k, v = (torch.cat([t, last.to(t.dtype).expand(t.shape[0], 1, -1)], dim=1)
                    for t, last in ((k, last_k), (v, last_v)))
            if mask is not None:
                mask = torch.cat([mask, mask.new_full((*mask.shape[:-1], 1), mask.dtype == torch.bool)], dim=-1)
        return k, v, mask


def _mask(name: str, mask: torch.Tensor | None, shape: tuple[int, ...]) -> torch.Tensor | None:
    """As attention() takes it, true where a key may be attended, four dimensions; `shape` is (N, heads, L, S)."""
    if mask is None:
        return None
    batch, heads, queries, keys = shape
    if is_causal_bias(mask):
        raise ShapeError(f"MultiheadAttention: {name} is a CausalBias, whose memory holds no mask; pass a boolean "
                         "mask, true where a key is hidden")
    fitting = ([(batch, keys)] if name == "key_padding_mask" else [(queries, keys), (batch * heads, queries, keys)])
    if tuple(mask.shape) not in fitting:
        raise ShapeError(f"MultiheadAttention: {name} has shape {tuple(mask.shape)}; pass "
                         f"{' or '.join(map(str, fitting))}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ShapeError(f"MultiheadAttention: {name} is {mask.dtype}; pass bool or a floating type")
    mask = ~mask if mask.dtype == torch.bool else mask
    if name == "key_padding_mask":
        return mask[:, None, None]
    return mask[None, None] if mask.dim() == 2 else mask.reshape(batch, heads, queries, keys)


def _both(a: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    if a.dtype == b.dtype == torch.bool:
        return a & b
    if a.dtype == torch.bool:
        return torch.where(a, b, -torch.inf)
    return torch.where(b, a, -torch.inf) if b.dtype == torch.bool else a + b
