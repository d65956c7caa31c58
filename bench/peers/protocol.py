"""The protocol of bench/serve/serve.h for peers in Python: a request a line in, an answer a line out."""
import itertools
import json
import sys
import time

import numpy as np

SHORTEST = 20e-6  # seconds; shorter calls are timed several at once
TRIAL = 0.1       # seconds that a variant gets to show how fast it is


class Unsupported(Exception):
    pass


def repetitions(call, budget):
    def timed(calls):
        start = time.perf_counter()
        for _ in itertools.repeat(None, calls):
            call()
        return (time.perf_counter() - start) / calls
    first = timed(1)  # wakes the threads and the caches; long calls need no second one for that
    times = [first] if first > 2 * budget else []
    once = first if first > SHORTEST else timed(10)
    calls = 1 if once > SHORTEST else int(SHORTEST / once) + 1
    spent = 0.0
    while not times or spent < budget:
        times.append(timed(calls))
        spent += times[-1] * calls
    return times


def fastest(variants):
    """(name, call, {name: seconds}) of the fastest of (name, call, check); check() raises where the result is wrong."""
    best, seconds, refusals, seen = None, float("inf"), [], {}
    for name, call, check in variants:
        try:
            start = time.perf_counter()
            call()
            first = time.perf_counter() - start
            check()
            # Seconds are enough to compare what takes seconds.
            seen[name] = first if first > 1 else float(np.median(repetitions(call, TRIAL)))
        except Exception as e:  # a variant that does not exist for this shape; the others may
            refusals.append(f"{name}: {str(e).strip().splitlines()[0][:160] if str(e).strip() else type(e).__name__}")
            continue
        if seen[name] < seconds:
            best, seconds = (name, call), seen[name]
    for refusal in refusals:
        print(f"  refused: {refusal}", file=sys.stderr)
    if best is None:
        raise Unsupported("; ".join(refusals) or "no such operation")
    return (*best, seen)


def serve(name, version, choose, more=None):
    """choose(request) gives what `fastest` gives; more maps further operations to what answers them."""
    out, sys.stdout = sys.stdout, sys.stderr  # libraries print as they like
    key = chosen = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["op"] == "hello":
                answer = {"name": name, "version": version}
            elif request["op"] == "run":
                case = {k: v for k, v in request.items() if k not in ("op", "seconds")}
                if case != key:
                    key, chosen = case, None
                    chosen = choose(case)
                if chosen is None:
                    raise Unsupported("as before")
                answer = {"seconds": repetitions(chosen[1], request["seconds"]), "variant": chosen[0],
                          "variants": chosen[2]}
            elif request["op"] in (more or {}):
                answer = more[request["op"]](request)
            else:
                answer = {"error": f"unknown op {request['op']}"}
        except Unsupported as e:
            answer = {"unsupported": str(e)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)
