"""ONNX Runtime as a side of bench/pretrained/compare.py: sentences through an encoder, exported by PyTorch."""
import os
import pathlib
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import onnxruntime  # noqa: E402
import torch  # noqa: E402
from pretrained_torch_peer import model_of, texts_of  # noqa: E402
from protocol import Unsupported, fastest, serve  # noqa: E402


class States(torch.nn.Module):
    """The encoder by position alone, as an export calls it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


def choose(r):
    if r["kind"] != "encode":
        raise Unsupported("encoders alone")
    model, ids = model_of(r["directory"]).eval(), texts_of(r)
    mask = torch.ones_like(ids)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = r["threads"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        torch.onnx.export(States(model), (ids, mask), str(path), input_names=["ids", "mask"], dynamo=False, opset_version=17)
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {"ids": ids.numpy(), "mask": mask.numpy()}
    feeds = {name.name: feeds[name.name] for name in session.get_inputs()}
    return fastest([("all optimisations", lambda: session.run(None, feeds), lambda: None)])


if __name__ == "__main__":
    serve("ONNX Runtime", onnxruntime.__version__, choose)
