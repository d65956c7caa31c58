"""ONNX Runtime: com.microsoft.MultiHeadAttention and GroupQueryAttention, and ONNX's own Attention."""
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

import peer

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(bool): TensorProto.BOOL}


def session(r, op, domain, names, feeds, outputs, attributes):
    """names: the inputs in order, "" for one left out; feeds: name -> array; outputs: name -> array to write into, in
    order. An output may be a feed as well: caches are then written in place."""
    node = helper.make_node(op, names, [f"{name}_out" for name in outputs], domain=domain, **attributes)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node], "attention", [value(name, KINDS[a.dtype], a.shape) for name, a in feeds.items()],
        [value(f"{name}_out", KINDS[a.dtype], None) for name, a in outputs.items()])
    model = helper.make_model(graph, ir_version=11, opset_imports=[helper.make_opsetid("", 23),
                                                                   helper.make_opsetid("com.microsoft", 1)])
    options = ort.SessionOptions()
    options.intra_op_num_threads = r.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    loaded = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = loaded.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(a) for name, a in feeds.items()}
    for name, v in values.items():
        binding.bind_ortvalue_input(name, v)
    for name, a in outputs.items():
        values.setdefault(name, ort.OrtValue.ortvalue_from_numpy(a))
        binding.bind_ortvalue_output(f"{name}_out", values[name])
    first = values[next(iter(outputs))]
    return lambda: loaded.run_with_iobinding(binding), lambda: first.numpy().astype(np.float32)


def variants(r, x):
    if r.backward:
        raise peer.Unsupported("forward only")
    if r.dtype == "bf16":
        raise peer.Unsupported("no bfloat16 on the CPU")
    kind = np.float32 if r.dtype == "f32" else np.float16
    q, k, v = (t.astype(kind) for t in (x.q, x.k, x.v))

    def packed(t):  # (B, H, L, D) -> (B, L, H * D)
        return np.ascontiguousarray(np.swapaxes(t, 1, 2)).reshape(r.B, t.shape[2], -1)

    def unpacked(out):
        return np.swapaxes(out.reshape(r.B, r.Lq, r.Hq, r.D), 1, 2)

    def heads_last(call, result):
        return call, lambda: unpacked(result())

    def attempt(name, make):
        """Building may fail, too; then the variant's call does."""
        try:
            call, result = make()
        except Exception as e:
            message = str(e)

            def call():
                raise peer.Unsupported(message)
            result = None
        return name, call, result

    attributes = {"num_heads": r.Hq}
    if r.causal and r.window < 0:
        attributes["unidirectional"] = 1
    if r.Hq == r.Hkv:
        names, extra = ["q", "k", "v"], {}
        if r.lengths:
            names, extra = ["q", "k", "v", "", "m"], {"m": np.array(r.lengths, np.int32)}
        elif r.window >= 0:
            names = ["q", "k", "v", "", "", "m"]
            extra = {"m": np.where(peer.banded(r), 0, np.finfo(kind).min).astype(kind)[None, None]}
        out = {"out": np.zeros((r.B, r.Lq, r.Hq * r.D), kind)}
        yield attempt("MultiHeadAttention", lambda: heads_last(*session(
            r, "MultiHeadAttention", "com.microsoft", names,
            {"q": packed(q), "k": packed(k), "v": packed(v), **extra}, out, attributes)))
        yield attempt("MultiHeadAttention, keys (B, H, L, D)", lambda: heads_last(*session(
            r, "MultiHeadAttention", "com.microsoft", names, {"q": packed(q), "k": k, "v": v, **extra}, out,
            attributes)))
        if r.lengths:
            yield attempt("MultiHeadAttention, mask (B, Lk)", lambda: heads_last(*session(
                r, "MultiHeadAttention", "com.microsoft", ["q", "k", "v", "", "m"],
                {"q": packed(q), "k": packed(k), "v": packed(v), "m": peer.padding(r).astype(np.int32)}, out,
                attributes)))
    # ONNX's Attention, opset 23
    names, extra = ["q", "k", "v"], {}
    if r.lengths or r.window >= 0:
        names = ["q", "k", "v", "m"]
        open_ = (np.repeat(peer.padding(r)[:, None, None, :], r.Lq, 2) if r.lengths
                 else peer.banded(r)[None, None])
        extra = {"m": np.where(open_, 0, np.finfo(kind).min).astype(kind)}
    yield attempt("Attention", lambda: session(
        r, "Attention", "", names, {"q": q, "k": k, "v": v, **extra}, {"out": np.zeros_like(q)},
        {"is_causal": int(r.causal and r.window < 0)}))
    if r.Hq != r.Hkv and r.Lq == 1:
        grouped = q.reshape(r.B, r.Hkv, r.Hq // r.Hkv, r.D)

        def as_queries():
            call, result = session(r, "Attention", "", names, {"q": grouped, "k": k, "v": v},
                                   {"out": np.zeros_like(grouped)}, {"is_causal": 0})
            return call, lambda: result().reshape(r.B, r.Hq, 1, r.D)
        yield attempt("Attention, heads of a group as queries", as_queries)
    if not r.lengths and (r.causal or r.Lq == 1):
        options = {"num_heads": r.Hq, "kv_num_heads": r.Hkv}
        if r.window >= 0:
            options["local_window_size"] = r.window
        past = r.Lk - r.Lq
        new = [packed(t[:, :, past:]) for t in (k, v)]
        if past == 0:
            feeds = {"q": packed(q), "nk": new[0], "nv": new[1]}
            names = ["q", "nk", "nv", "", "", "n", "total"]
            outputs = {"out": np.zeros((r.B, r.Lq, r.Hq * r.D), kind), "pk": np.zeros_like(k), "pv": np.zeros_like(v)}
        else:
            feeds = {"q": packed(q), "nk": new[0], "nv": new[1], "pk": k, "pv": v}  # a full cache, written in place
            names = ["q", "nk", "nv", "pk", "pv", "n", "total"]
            outputs = {"out": np.zeros((r.B, r.Lq, r.Hq * r.D), kind), "pk": k, "pv": v}
        feeds |= {"n": np.full(r.B, r.Lk - 1, np.int32), "total": np.array([r.Lk], np.int32)}
        yield attempt("GroupQueryAttention", lambda: heads_last(*session(
            r, "GroupQueryAttention", "com.microsoft", names, feeds, outputs, options)))


if __name__ == "__main__":
    sys.exit(peer.serve("ONNX Runtime", ort.__version__, variants))
