"""OpenVINO as a side of bench/pretrained/compare.py: sentences through an encoder, from PyTorch's model."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"
import openvino  # noqa: E402
import torch  # noqa: E402
from pretrained_torch_peer import model_of, texts_of  # noqa: E402
from protocol import Unsupported, fastest, serve  # noqa: E402


def choose(r):
    if r["kind"] != "encode":
        raise Unsupported("encoders alone")
    model, ids = model_of(r["directory"]).eval(), texts_of(r)
    mask = torch.ones_like(ids)
    converted = openvino.convert_model(model, example_input={"input_ids": ids, "attention_mask": mask})
    compiled = openvino.Core().compile_model(converted, "CPU", {
        "INFERENCE_NUM_THREADS": r["threads"], "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
    inputs = [ids.numpy(), mask.numpy()]
    return fastest([("latency", lambda: compiled(inputs), lambda: None)])


if __name__ == "__main__":
    serve("OpenVINO", openvino.__version__, choose)
