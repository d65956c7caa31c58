"""JAX on XLA's CPU back end: jax.nn.dot_product_attention, compiled. Threads are those of the CPUs it is pinned to."""
import sys

import jax
import jax.numpy as jnp
import numpy as np

import peer

DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}


def variants(r, x):
    scores = 4 * r.B * r.Hq * r.Lq * r.Lk
    if scores > 1 << 30:
        raise peer.Unsupported(f"it would hold {scores / 1e9:.1f} GB of scores")
    q, k, v, g = (jnp.asarray(np.swapaxes(t, 1, 2), DTYPES[r.dtype]) for t in (x.q, x.k, x.v, x.g))
    options = {"is_causal": r.causal, "implementation": "xla"}
    if r.window >= 0:
        options["local_window_size"] = (r.window - 1, 0)
    if r.lengths:
        options["key_value_seq_lengths"] = jnp.asarray(r.lengths, jnp.int32)

    def forward(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, **options)

    def both(q, k, v, g):
        out, backward = jax.vjp(forward, q, k, v)
        return out, *backward(g)
    compiled = jax.jit(both if r.backward else forward)
    inputs = (q, k, v, g) if r.backward else (q, k, v)
    kept = [None]

    def call():
        kept[0] = jax.block_until_ready(compiled(*inputs))

    def result():
        out = kept[0][0] if r.backward else kept[0]
        return np.swapaxes(np.asarray(out, np.float32), 1, 2)
    yield "dot_product_attention", call, result


if __name__ == "__main__":
    sys.exit(peer.serve("JAX", jax.__version__, variants))
