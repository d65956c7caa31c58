"""PyTorch: scaled_dot_product_attention in each way that suits a shape, and compiled flex_attention for the sparse."""
import sys

import numpy as np
import torch
import torch.nn.functional as F

import peer

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def forward_only(f, *inputs):
    """(call, result) of f on tensors that need no gradient."""
    kept = [None]

    def call():
        with torch.inference_mode():
            kept[0] = f(*inputs)
    return call, kept


def with_backward(f, inputs, grad_out):
    inputs = [x.detach().requires_grad_() for x in inputs]
    kept = [None]

    def call():
        out = f(*inputs)
        torch.autograd.grad(out, inputs, grad_out)
        kept[0] = out.detach()
    return call, kept


def flex(r, x, dtype):
    """Compiled flex_attention on what it skips best: the band of a window, the blocks of packed sentences."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    torch.set_num_threads(r.threads)
    compiled = torch.compile(flex_attention, dynamic=False)
    if r.lengths:
        q, k, v = (pack(r, t, dtype)[None].transpose(1, 2).contiguous() for t in (x.q, x.k, x.v))
        document = torch.repeat_interleave(torch.arange(r.B), torch.tensor(r.lengths))
        block = create_block_mask(lambda b, h, i, j: document[i] == document[j], None, None, len(document),
                                  len(document), device="cpu")
        return lambda q, k, v: compiled(q, k, v, block_mask=block), (q, k, v)
    block = create_block_mask(lambda b, h, i, j: (j <= i) & (j > i - r.window), None, None, r.Lq, r.Lk, device="cpu")
    tensors = tuple(torch.from_numpy(t).to(dtype) for t in (x.q, x.k, x.v))
    return lambda q, k, v: compiled(q, k, v, block_mask=block), tensors


def pack(r, x, dtype):
    """(B, H, L, D) padded -> (T, H, D)."""
    return torch.cat([torch.from_numpy(x[b, :, :n]).transpose(0, 1) for b, n in enumerate(r.lengths)]).to(dtype)


def split(r, packed):
    """(T, H, D) -> [(H, n, D)]"""
    return [part.transpose(0, 1).float().numpy() for part in packed.split(r.lengths)]


def dense(out):
    return out.float().numpy()


def candidates(r, x):
    """(name, f, inputs, grad_out, how the result becomes an array)"""
    dtype = DTYPES[r.dtype]
    q, k, v, g = (torch.from_numpy(t).to(dtype) for t in (x.q, x.k, x.v, x.g))
    if r.lengths:
        mask = torch.from_numpy(peer.padding(r))[:, None, None, :]
        yield "padded, mask", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), (q, k, v), g, dense
        added = torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf)
        yield "padded, added mask", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, added), (q, k, v), g, dense
        packed = [pack(r, t, dtype) for t in (x.q, x.k, x.v)]
        grad = pack(r, x.g, dtype)

        def sentences(q, k, v):
            parts = zip(*(t.transpose(0, 1)[None].split(r.lengths, 2) for t in (q, k, v)))
            return torch.cat([F.scaled_dot_product_attention(*part) for part in parts], 2)[0].transpose(0, 1)
        yield "a call for each sentence", sentences, packed, grad, lambda out: split(r, out)
        offsets = torch.tensor([0, *np.cumsum(r.lengths)])

        def nested(q, k, v):
            with torch.inference_mode(False), torch.set_grad_enabled(r.backward):
                parts = (torch.nested.nested_tensor_from_jagged(t, offsets).transpose(1, 2) for t in (q, k, v))
                return F.scaled_dot_product_attention(*parts).transpose(1, 2).values()
        yield "nested tensors", nested, packed, grad, lambda out: split(r, out)
    elif r.window >= 0:
        mask = torch.from_numpy(peer.banded(r))
        yield "mask", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask), (q, k, v), g, dense
        added = torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -torch.inf)
        yield "added mask", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, added), (q, k, v), g, dense
        size = r.window
        if r.Lq == r.Lk and r.Lq % size == 0 and r.B == 1:
            i, j = torch.arange(size)[:, None], torch.arange(2 * size)[None, :]
            band = torch.zeros(size, 2 * size, dtype=dtype).masked_fill_(~((j <= i + size) & (j > i)), -torch.inf)
            band = band.expand(r.Lq // size, 1, size, 2 * size).clone()
            band[0, :, :, :size] = -torch.inf

            def blocks(q, k, v):
                q = q[0].unflatten(1, (-1, size)).transpose(0, 1)
                k, v = (F.pad(t[0], (0, 0, size, 0)).unfold(1, 2 * size, size).permute(1, 0, 3, 2) for t in (k, v))
                return F.scaled_dot_product_attention(q, k, v, band).transpose(0, 1).flatten(1, 2)[None]
            yield "blocks of queries with a mask", blocks, (q, k, v), g, dense
    else:
        gqa = r.Hq != r.Hkv

        def sdpa(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=r.causal, enable_gqa=gqa)
        yield "(B, H, L, D)", sdpa, (q, k, v), g, dense
        if r.Lq > 1:
            last = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v, g)]
            yield "(B, L, H, D)", sdpa, last[:3], last[3], dense
        if not gqa and r.backward:
            def aten(q, k, v):
                out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, r.causal)
                torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                    g, q, k, v, out, lse, 0.0, r.causal)
                return out
            yield "the flash kernels without autograd", aten, (q, k, v), None, dense
        if gqa and r.Lq == 1:
            grouped = q.view(r.B, r.Hkv, r.Hq // r.Hkv, r.D)
            yield ("heads of a group as queries", lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
                   (grouped, k, v), g, lambda out: dense(out).reshape(r.B, r.Hq, 1, r.D))

            def products(q, k, v):
                return ((q @ k.transpose(-2, -1)) * r.D**-0.5).softmax(-1) @ v
            yield ("matmul, softmax, matmul", products, (grouped, k, v), g,
                   lambda out: dense(out).reshape(r.B, r.Hq, 1, r.D))
    if (r.lengths or r.window >= 0) and not r.backward and not r.quick:
        f, inputs = flex(r, x, dtype)
        yield ("compiled flex_attention", f, inputs, None,
               (lambda out: split(r, out[0].transpose(0, 1))) if r.lengths else dense)


def variants(r, x):
    torch.set_num_threads(r.threads)
    for name, f, inputs, grad_out, array in candidates(r, x):
        if r.backward and grad_out is not None:
            call, kept = with_backward(f, inputs, grad_out)
        else:
            call, kept = forward_only(f, *inputs)
        yield name, call, lambda kept=kept, array=array: array(kept[0])


if __name__ == "__main__":
    sys.exit(peer.serve("PyTorch", torch.__version__, variants))
