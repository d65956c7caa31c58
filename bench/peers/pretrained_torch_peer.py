"""PyTorch, by way of transformers, as a side of bench/pretrained/compare.py."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"
import random  # noqa: E402

import torch  # noqa: E402
import transformers  # noqa: E402
from protocol import fastest, serve  # noqa: E402

held = {}


def model_of(directory):
    if directory not in held:
        held.clear()
        config = transformers.AutoConfig.from_pretrained(directory)
        held[directory] = getattr(transformers, config.architectures[0]).from_pretrained(directory, dtype="auto")
    return held[directory]


def texts_of(r):
    random.seed(1)
    return torch.tensor([[random.randrange(30000) for _ in range(r["length"])] for _ in range(r["texts"])])


def choose(r):
    torch.set_num_threads(r["threads"])
    model, ids = model_of(r["directory"]), texts_of(r)
    if r["kind"] == "train":
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
        labels = ids if "GPT2" in type(model).__name__ else torch.zeros(r["texts"], dtype=torch.long)

        def step():
            model(input_ids=ids, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return fastest([("eager, fused AdamW", step, lambda: None)])
    model.eval()

    @torch.inference_mode()
    def encode():
        model(input_ids=ids)

    @torch.inference_mode()
    def generate():
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=r["tokens"], min_new_tokens=r["tokens"],
                       do_sample=False, pad_token_id=0)
    return fastest([("eager", encode if r["kind"] == "encode" else generate, lambda: None)])


if __name__ == "__main__":
    serve("PyTorch", torch.__version__, choose)
