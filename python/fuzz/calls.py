"""Random calls of the operator, of caches and of models, right and wrong: each ends with results of the right kinds and
shapes, or with an exception of the documented kinds that says which operation refused what.

    python calls.py COUNT [SEED]

scripts/fuzz-python runs it on a module that was built with sanitizers. What fails is said with its seed and number.
"""
import collections
import faulthandler
import mmap
import os
import random
import re
import sys
import tempfile
import warnings

import heed
from arguments import Own, pretend_torch
from cache_case import Cache, Turned
from model_case import Models
from operator_case import Operator

SHARES = {Operator: 6, Cache: 2, Turned: 1, Models: 2}
# What is raised by iterating over a memoryview that is released, and by NumPy's from_dlpack for bfloat16.
THEIRS = re.compile("on released memoryview|Unsupported dtype in DLTensor")


def one(seed, number, counts):
    """A call by itself: the same for the same two numbers."""
    rng = random.Random(f"{seed} {number}")
    case = rng.choices(list(SHARES), list(SHARES.values()))[0](rng)
    try:
        case.run()
        counts["right"] += 1
    except (Own, SystemExit):
        counts["its own"] += 1
    except case.refusals as error:
        counts[type(error).__name__] += 1
        assert case.says.match(str(error)) or isinstance(error, MemoryError), f"{type(error).__name__}: {error}"
    except (ValueError, RuntimeError) as error:
        if not THEIRS.search(str(error)):
            raise
        counts["its own"] += 1
    for structure in case.kept:
        structure.check()


def prepare(seed):
    warnings.simplefilter("ignore")
    faulthandler.enable()
    heed.set_num_threads(2)
    if seed % 2:
        pretend_torch()


def run_all(count, seed, place):
    prepare(seed)
    counts = collections.Counter()
    failed = 0
    for number in range(count):
        place[:8] = number.to_bytes(8, "little")
        try:
            one(seed, number, counts)
        except Exception as error:  # noqa: BLE001  whatever it is, it is no documented one
            failed += 1
            print(f"seed {seed}, call {number}: {type(error).__name__}: {error}", flush=True)
    print(f"seed {seed}, {count} calls:", ", ".join(f"{n} {name}" for name, n in counts.items()), flush=True)
    return failed


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory(prefix="heed-fuzz-") as folder:
        os.chdir(folder)  # where what is saved under a relative name goes
        if len(sys.argv) > 3:  # one call alone, whose exception is shown
            prepare(seed)
            one(seed, int(sys.argv[3]), collections.Counter())
            return
        place = mmap.mmap(-1, 8)  # shared with the child, which may die
        child = os.fork()
        if child == 0:
            os._exit(1 if run_all(count, seed, place) else 0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, 1):
        print(f"seed {seed}, call {int.from_bytes(place[:8], 'little')}: died with status {status}")
    sys.exit(status != 0)


if __name__ == "__main__":
    main()
