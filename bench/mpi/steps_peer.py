"""PyTorch's DistributedDataParallel over gloo: what steps_bench.cc does, a process a rank.

    steps_peer.py DIRECTORY TOKENS DROPOUT VARIANT UPDATES      with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set
"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch_training_peer import IGNORED, Task  # noqa: E402


class Loss(nn.Module):
    """The sum over a batch's tokens, divided by `mean` tokens: averaged over ranks, the mean over all of them."""

    def __init__(self, task):
        super().__init__()
        self.task, self.model = task, task.model

    def forward(self, inputs, labels, mean):
        return self.task.loss(inputs, labels) * ((labels != IGNORED).sum() / mean)


def main():
    directory, tokens, dropout, variant, updates = sys.argv[1:]
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    task = Task({"kind": "multi30k", "directory": directory, "tokens": int(tokens), "dropout": float(dropout),
                 "threads": 1})
    if variant == "loss compiled":
        task.criterion = torch.compile(task.criterion, dynamic=True)
    model = DistributedDataParallel(Loss(task), gradient_as_bucket_view=True)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=task.file["learning_rate"], betas=(0.9, 0.98), eps=1e-9, fused=True)
    counts = [(labels != IGNORED).sum().item() for _, labels in task.batches]
    seconds, losses = [], []
    begin = time.perf_counter()
    for update in range(int(updates)):
        numbers = [(ranks * update + other) % len(counts) for other in range(ranks)]
        inputs, labels = task.batches[numbers[rank]]
        optimizer.zero_grad(set_to_none=True)
        loss = model(inputs, labels, sum(counts[n] for n in numbers) / ranks)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, task.file["clip_norm"], foreach=True)
        optimizer.step()
        losses.append(loss.item())  # its share
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
    sums = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(sums)
    losses = (sums / ranks).tolist()
    if rank == 0:
        print(json.dumps({"seconds": seconds, "losses": losses, "version": torch.__version__}))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
