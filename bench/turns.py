"""What the comparisons share: processes that take turns, the machine's name, spreads, tables."""
import argparse
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
MARKERS = "<!-- table: {} -->", "<!-- /table -->"
VERBOSE = False


# Processes -----------------------------------------------------------------------------------------------------------

class Peer:
    """A process that answers requests, stopped between them so that threads that spin disturb nobody."""

    def __init__(self, name, command, threads):
        self.name, self.command, self.threads = name, [str(c) for c in command], threads
        self.start()
        hello = self.ask({"op": "hello"})
        if "name" not in hello:
            raise RuntimeError(f"{name}: {hello['error']}")
        self.label, self.version = hello["name"], hello["version"]

    def start(self):
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads), "OPENBLAS_NUM_THREADS": str(self.threads),
                       "PYTHONDONTWRITEBYTECODE": "1"}
        cpus = set(sorted(os.sched_getaffinity(0))[:self.threads])
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=None if VERBOSE else subprocess.DEVNULL, encoding="utf-8",
                                        env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cpus))

    def ask(self, request):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps({**request, "threads": self.threads}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self.process.wait()
            self.start()
            return {"error": f"the process ended with status {status}"}
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def spread(values):
    """Median and quartiles."""
    if len(values) == 1:
        return {"median": values[0], "lower": values[0], "upper": values[0]}
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "lower": lower, "upper": upper}


def rounds_of(peers, request, seconds, rounds, budget, machine=None):
    """Rounds of turns. They end early where they would take more than `budget` seconds, but not before the third.

    times: seconds of each round, {peer: [median of a turn, ...]}; variants: {peer: the one that was timed}; trials:
    {peer: {variant: seconds of the trial that chose it}}; refusals: {peer: why}; machine: what machine() gave."""
    times, variants, trials, refusals, measured = {}, {}, {}, {}, []
    active = list(peers)
    begin = 0.0
    for number in range(rounds):
        if number == 1:
            begin = time.monotonic()  # the first round prepares
        if number >= 3 and (time.monotonic() - begin) * number / (number - 1) > budget:
            break
        if machine:
            measured.append(machine())
        for p in list(active):
            if number >= 3 and times[p.name][0] > max(1.0, 4 * times.get("heed", times[p.name])[0]):
                continue  # far behind: three rounds tell
            answer = p.ask({**request, "op": "run", "seconds": seconds})
            if "seconds" in answer:
                times.setdefault(p.name, []).append(statistics.median(answer["seconds"]))
                variants[p.name] = answer.get("variant")
                trials[p.name] = answer.get("variants")
            else:
                refusals[p.name] = answer.get("unsupported") or answer.get("error")
                active.remove(p)
    return types.SimpleNamespace(times=times, variants=variants, trials=trials, refusals=refusals, machine=measured)


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {"processor": model, "system": platform.system() + " " + platform.machine(),
            "cpus": len(os.sched_getaffinity(0))}


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              encoding="utf-8", check=False).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def significant(x):
    """Three digits, never as a power of ten."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def ratio(s):
    return f"{s['median']:.2f} ({s['lower']:.2f}-{s['upper']:.2f})" if s else "-"


# Command line --------------------------------------------------------------------------------------------------------

def parser(description):
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/bench")
    p.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--json", type=pathlib.Path, help="write all figures there")
    p.add_argument("--table", type=pathlib.Path, help="print the table of this file and measure nothing")
    p.add_argument("--page", type=pathlib.Path, help="with --table: write it between the page's two markers")
    p.add_argument("--quick", action="store_true", help="two minutes: fewer rounds, no long cases")
    p.add_argument("--verbose", action="store_true", help="show what peers print")
    return p


def keep(arguments, result):
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def finish(arguments, name, run, table):
    """Measures, or renders what was measured; `name` is the table's on the page."""
    global VERBOSE
    VERBOSE = arguments.verbose
    if arguments.table:
        rendered = table(json.loads(arguments.table.read_text(encoding="utf-8")))
        if not arguments.page:
            print(rendered, end="")
            return
        begin = MARKERS[0].format(name)
        before, _, rest = arguments.page.read_text(encoding="utf-8").partition(begin)
        _, end, after = rest.partition(MARKERS[1])
        if not end:
            sys.exit(f"{arguments.page} must have the two markers of the table once: {begin} and {MARKERS[1]}")
        arguments.page.write_text(f"{before}{begin}\n{rendered}{MARKERS[1]}{after}", encoding="utf-8")
        return
    result = run(arguments)
    keep(arguments, result)
    print(table(result), end="")
