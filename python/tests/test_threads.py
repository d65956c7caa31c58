"""The GIL, threads, processes, and what importing heed brings."""
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import heed
import numpy as np
import pytest
from test_attention import inputs


@pytest.fixture(autouse=True)
def same_threads_after():
    before = heed.get_num_threads()
    yield
    heed.set_num_threads(before)


def python(program, **environment):
    return subprocess.run([sys.executable, "-c", program], env=os.environ | environment, capture_output=True, text=True,
                          timeout=120, check=False)


def test_same_bits_for_any_number_of_threads():
    q, k, v = inputs(np.float32, queries=300, keys=300, size=64)
    results = []
    for threads in (1, 2, 7):
        heed.set_num_threads(threads)
        assert heed.get_num_threads() == threads
        r = heed.attention(q, k, v, causal=True, return_lse=True)
        results.append((r.out, r.lse, *heed.attention_backward(r.out, q, k, v, r)[:3]))
    for result in results[1:]:
        for one, other in zip(results[0], result):
            np.testing.assert_array_equal(one, other)


def test_number_of_threads_is_checked():
    for number in (-1, 5000, 1 << 70):
        with pytest.raises(heed.ShapeError, match="pass 0 to 4096|not in 0..4096"):
            heed.set_num_threads(number)
    for number in ("2", None, 1.5):
        with pytest.raises(TypeError, match="pass an integer"):
            heed.set_num_threads(number)
    heed.set_num_threads(0)
    assert heed.get_num_threads() == os.cpu_count()


def test_calls_at_once_while_the_number_of_threads_changes():
    q, k, v = inputs(np.float32, queries=100, keys=100, size=32)
    expected = heed.attention(q, k, v)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(heed.attention, q, k, v) for _ in range(200)]
        for threads in range(1, 40):
            heed.set_num_threads(1 + threads % 4)
        for call in calls:
            np.testing.assert_array_equal(call.result(), expected)


def test_others_run_while_it_computes():
    q, k, v = inputs(np.float32, batch=1, heads=8, kv_heads=8, queries=4096, keys=4096, size=64)
    thread = threading.Thread(target=heed.attention, args=(q, k, v))
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns >= 10  # two at most where the call held the GIL


def forked(passes):
    """Fails unless passes() is true in a forked process."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if passes() else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the forked process hangs")
    assert os.waitstatus_to_exitcode(ended[1]) == 0


def test_a_forked_process_computes():
    q, k, v = inputs(np.float32, queries=300, keys=300, size=64)
    heed.set_num_threads(4)
    expected = heed.attention(q, k, v)
    forked(lambda: np.array_equal(heed.attention(q, k, v), expected))


@contextlib.contextmanager
def repeated(call):
    """Runs call() in two threads again and again."""
    ended = threading.Event()

    def run():
        while not ended.is_set():
            call()
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_forked_process_computes_though_threads_computed_at_the_fork():
    """The child has none of them, and must wait neither for them nor for locks that they held."""
    q, k, v = inputs(np.float32, queries=300, keys=300, size=64)
    heed.set_num_threads(4)
    expected = heed.attention(q, k, v)
    with repeated(lambda: heed.attention(q, k, v)):
        for _ in range(30):
            forked(lambda: np.array_equal(heed.attention(q, k, v), expected))


def test_environment_sets_the_number_of_threads():
    program = "import heed; print(heed.get_num_threads())"
    assert python(program, HEED_NUM_THREADS="3").stdout == "3\n"
    assert python(program, HEED_NUM_THREADS="").stdout == f"{os.cpu_count()}\n"
    for wrong, text in (("many", "HEED_NUM_THREADS is 'many'; set it to a number"), ("99999", "not in 0..4096")):
        failed = python(program, HEED_NUM_THREADS=wrong)
        assert failed.returncode != 0 and text in failed.stderr


def test_importing_brings_numpy_and_nothing_else():
    program = """if True:
        import sys, typing, os, numpy
        before = set(sys.modules)
        import heed
        brought = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(*brought - sys.stdlib_module_names)"""
    assert python(program).stdout.split() == ["heed"]


def test_nothing_is_said_at_the_end():
    """Results that outlive everything else, and a call that still runs, end quietly."""
    program = """if True:
        import sys, threading, numpy, heed
        x = numpy.zeros((1, 1, 3, 8))
        sys.kept = heed.attention(x, x, x, return_lse=True)
        y = numpy.zeros((1, 8, 8192, 64), numpy.float32)
        threading.Thread(target=heed.attention, args=(y, y, y), daemon=True).start()"""
    done = python(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
