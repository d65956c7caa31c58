"""Layers from several threads and processes at once: no call waits with the GIL, none ends the process."""
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import heed
import numpy as np
from heed import nn
from heed.nn import functional as F
from test_threads import forked, python, repeated, same_threads_after  # noqa: F401  a fixture


def inputs(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def turns_of_others(work):
    """How often this thread ran while another one did the work."""
    thread = threading.Thread(target=work)
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    return turns


def test_others_run_while_it_computes():
    layer, x = nn.TransformerEncoderLayer(256, 4, dim_feedforward=2048), inputs(16, 256, 256)
    held = []
    assert turns_of_others(lambda: held.append(F.sum(layer(x)))) >= 10
    assert turns_of_others(held[0].backward) >= 10  # two at most where a call held the GIL


def test_forward_passes_run_at_once():
    model = nn.LanguageModel(vocab_size=50, d_model=32, nhead=4, num_layers=2, dim_feedforward=64).eval()
    texts = [list(np.random.default_rng(i).integers(0, 50, 30)) for i in range(40)]
    expected = [model.logits([text]).numpy() for text in texts]
    with ThreadPoolExecutor(4) as pool:
        for result, values in zip(pool.map(lambda text: model.logits([text]).numpy(), texts), expected):
            np.testing.assert_array_equal(result, values)


def test_one_history_and_many_threads():
    """One of the calls gets the gradients, the others are told that the history is gone."""
    x, layer = inputs(8, 16, 64), nn.MultiheadAttention(64, 4)
    for _ in range(20):
        y = layer(x, x, x)
        shared = F.sum(y)
        losses = [shared, shared, F.sum(y), F.sum(F.relu(y))]
        layer.zero_grad()

        def run(loss):
            try:
                loss.backward()
                return True
            except heed.ShapeError as error:
                assert "history" in str(error)
                return False
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(run, losses)) == 1


def test_gradients_of_one_parameter_from_many_threads():
    layer, x = nn.Linear(32, 16), inputs(10, 32)
    F.sum(layer(x)).backward()
    once = layer.weight.grad.copy()
    layer.zero_grad()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: F.sum(layer(x)).backward(), range(64)))
    np.testing.assert_allclose(layer.weight.grad, 64 * once, rtol=1e-4)


def test_everything_at_once(same_threads_after):  # noqa: F811
    """Passes, conversions, optimisers, states and gradients of one model, and the number of threads, from all sides."""
    model = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32)
    x = inputs(2, 5, 16)
    end, unexpected = time.monotonic() + 3, []

    def keep_on(work):
        while time.monotonic() < end:
            try:
                work()
            except heed.ShapeError:  # dtypes that have changed meanwhile, parameters that have moved
                pass
            except Exception as error:
                unexpected.append(error)
                raise

    def optimise():
        optimiser = nn.AdamW(model)
        for _ in range(5):
            optimiser.zero_grad()
            optimiser.step(1e-4, nn.clip_scale(optimiser.gradient_norm(), 1.0))

    def convert():
        for dtype in ("float64", "float32"):
            model.to(dtype)
            time.sleep(0.002)

    work = [optimise, convert, lambda: F.sum(model(x)).backward(),
            lambda: F.sum(model(x.astype(np.float64))).backward(),
            lambda: model.load_state_dict({name: np.copy(v) for name, v in model.state_dict().items()}),
            lambda: [grad.sum() for p in model.parameters() if (grad := p.grad) is not None],
            lambda: F.sum(F.custom_op([model(x)], x, lambda grad: (F.relu(grad).numpy(),))).backward(),
            lambda: heed.set_num_threads(1 + int(time.monotonic() * 1000) % 3)]
    with ThreadPoolExecutor(len(work)) as pool:
        list(pool.map(keep_on, work))
    assert not unexpected


def test_no_grad_and_seeds_are_a_threads_own():
    x = nn.Variable(np.ones(2), requires_grad=True)
    nn.manual_seed(1)
    first = nn.Linear(2, 2).weight.numpy()
    nn.manual_seed(1)
    with nn.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x * 2.0).requires_grad).result()
        pool.submit(nn.manual_seed, 5).result()
    np.testing.assert_array_equal(nn.Linear(2, 2).weight.numpy(), first)


def loss_after_training():
    nn.manual_seed(2)
    layer, x = nn.TransformerEncoderLayer(64, 4, dim_feedforward=256), inputs(8, 32, 64)
    optimiser = nn.AdamW(layer)
    for _ in range(3):
        optimiser.zero_grad()
        loss = F.sum(layer(x) * x)
        loss.backward()
        optimiser.step(0.001)
    return loss.item()


def test_a_forked_process_trains(same_threads_after):  # noqa: F811
    heed.set_num_threads(4)
    expected = loss_after_training()
    forked(lambda: loss_after_training() == expected)


def test_a_forked_process_trains_though_threads_trained_at_the_fork(same_threads_after):  # noqa: F811
    heed.set_num_threads(4)
    expected = loss_after_training()
    with repeated(loss_after_training):
        for _ in range(20):
            forked(lambda: loss_after_training() == expected)


def test_nothing_is_said_at_the_end():
    """Tapes with functions of Python's, parameters and records that outlive everything else end quietly."""
    program = """if True:
        import sys, threading, numpy as np
        from heed import nn
        from heed.nn import functional as F
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.self = nn.MultiheadAttention(8, 2), self
        net, record = Net(), nn.HeadRecord(want_vectors=True)
        x = np.ones((1, 3, 8), np.float32)
        y = net.layer(x, x, x, record=record)
        loss = F.sum(F.custom_op([y], y.numpy(), lambda grad: (grad * (loss is None),)))
        sys.kept = net, record, record.weights, loss, nn.AdamW(net), nn.no_grad()
        sys.kept[-1].__enter__()
        big = nn.Linear(2048, 2048)
        threading.Thread(target=big, args=(np.ones((4096, 2048), np.float32),), daemon=True).start()"""
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
