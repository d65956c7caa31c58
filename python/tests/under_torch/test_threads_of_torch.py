"""import heed.torch: torch's tensors are computed on torch's threads, with the same bits."""
import subprocess
import sys
import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch")

SCRIPT = textwrap.dedent("""
    import os, sys
    import heed, numpy as np, torch

    def threads():
        return len(os.listdir("/proc/self/task"))

    torch.set_num_threads(3)
    heed.set_num_threads(5)
    rng = np.random.default_rng(1)
    q, k, v, g = (torch.from_numpy(rng.standard_normal((2, 8, 300, 64), np.float32)) for _ in range(4))
    torch.randn(1000, 1000) @ torch.randn(1000, 1000)
    q.exp_().clamp_(-1, 1)
    torch.rand(1 << 20).exp()
    before = threads()
    if sys.argv[1] == "torch":
        import heed.torch
    r = heed.attention(q, k, v, causal=True, return_lse=True, return_weights=True)
    d = heed.attention_backward(g, q, k, v, r)
    plain = heed.attention(q, k, v, causal=True)
    print(threads() - before)
    sys.stdout.flush()
    for x in (r.out, r.lse, r.weights, d.q, d.k, d.v, plain):
        sys.stdout.buffer.write(x.numpy().tobytes())
""")


def run(how):
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    begun, _, numbers = done.stdout.partition(b"\n")
    return int(begun), numbers


def test_no_second_pool_begins_and_bits_are_the_same():
    of_torch, numbers = run("torch")
    of_heed, same = run("heed")
    assert numbers == same and len(np.frombuffer(numbers, np.float32)) > 10**6
    assert of_torch == 0 and of_heed > 0
