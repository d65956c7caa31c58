"""OpenVINO's CPU plugin: ScaledDotProductAttention, in float32 where float32 is asked."""
import sys

import numpy as np
import openvino as ov
from openvino import opset13 as ops

import peer

core = ov.Core()


def variants(r, x):
    if r.backward:
        raise peer.Unsupported("forward only")
    if r.dtype == "bf16":
        raise peer.Unsupported("no bfloat16 arrays to hand over")
    kind = np.float32 if r.dtype == "f32" else np.float16
    group = r.Hq // r.Hkv
    arrays = [t.astype(kind) for t in (x.q, x.k, x.v)]
    if group > 1:
        if r.Lq != 1:
            raise peer.Unsupported("grouped heads with several queries")
        arrays[0] = arrays[0].reshape(r.B, r.Hkv, group, r.D)  # the heads of a group as queries
    nodes = [ops.parameter(a.shape, kind) for a in arrays]
    mask = None
    if r.lengths:
        mask = np.where(peer.padding(r), 0, -np.inf).astype(kind)[:, None, None, :]
    elif r.window >= 0:
        mask = np.where(peer.banded(r), 0, -np.inf).astype(kind)[None, None]
    inputs = nodes if mask is None else [*nodes, ops.constant(mask)]
    node = ops.scaled_dot_product_attention(*inputs, causal=r.causal and mask is None)
    compiled = core.compile_model(ov.Model([node], nodes), "CPU", {
        "INFERENCE_NUM_THREADS": r.threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for i, a in enumerate(arrays):
        request.set_input_tensor(i, ov.Tensor(a))

    def result():
        return request.get_output_tensor().data.astype(np.float32).reshape(r.B, r.Hq, r.Lq, r.D)
    yield "ScaledDotProductAttention", request.infer, result


if __name__ == "__main__":
    sys.exit(peer.serve("OpenVINO", ov.__version__.split("-")[0], variants))
