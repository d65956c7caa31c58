#!/usr/bin/env python3
"""heed's training steps and translation beside other libraries' on this machine: a table, and all figures as JSON.

    bench/training/compare.py [--build build/bench] [--peers build/peers] [--json FILE] [--quick] [--only REGEX]
    bench/training/compare.py --table FILE [--page FILE]        the table of an earlier run

Turns, rounds and ratios are those of bench/attention/compare.py (bench/turns.py). All libraries read the same batches,
weights and token ids, which training_bench --prepare writes; what they compute is compared before anything is timed: the
loss of each batch without dropout, or the translations. A row whose results differ has no figures.
"""
import datetime
import json
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import turns  # noqa: E402
from turns import ROOT, Peer, commit, machine, ratio, significant, spread  # noqa: E402

PEERS = {"torch": "torch_training_peer.py", "ctranslate2": "ctranslate2_peer.py"}
LOSS_TOLERANCE = 1e-4
AGREEMENT = 0.95  # of translations; beam search counts a sentence's length otherwise, so some differ


# Cases ---------------------------------------------------------------------------------------------------------------

def all_cases(quick):
    cases = [{"group": "training", "name": f"{tokens:,} tokens an update", "unit": "target tokens", "peer": "torch",
              "request": {"kind": "multi30k", "tokens": tokens, "dropout": 0.3}} for tokens in (4096, 8192)]
    cases.append({"group": "training", "name": "nanoGPT for CPUs, 12 texts of 64", "unit": "target tokens",
                  "peer": "torch", "request": {"kind": "shakespeare"}})
    for beam, search in ((1, "greedy"), (5, "beam 5")):
        for batch, at_once, name in ((1, False, "one by one"), (1, True, "one by one, all handed over at once"),
                                     (64, True, "batches of 64")):
            every = (64 if quick else 16) if batch == 1 else (16 if quick else 4)
            cases.append({"group": "translation", "name": f"{search}, {name}", "unit": "sentences",
                          "peer": "ctranslate2", "request": {"kind": "translate", "beam": beam, "batch": batch,
                                                             "at_once": at_once, "every": every}})
    return cases


# Measuring -----------------------------------------------------------------------------------------------------------

class Comparison:
    def __init__(self, arguments, directory):
        self.options, self.directory, n = arguments, directory, arguments.threads
        bench = arguments.build / "bench/training/training_bench"
        shared = ROOT.parent / "shared"
        shared = os.environ.get("HEED_SHARED", shared if shared.exists() else ROOT)  # scripts/get-data makes its data/
        turns.subprocess.run([bench, f"--prepare={directory}", f"--shared={shared}"], check=True)
        self.heed = Peer("heed", [bench, f"--threads={n}", "--serve"], n)
        self.peers = {}
        python = arguments.peers / "bin/python"
        for name, file in PEERS.items() if python.exists() else ():
            try:
                self.peers[name] = Peer(name, [python, ROOT / "bench/peers" / file], n)
            except (RuntimeError, KeyError) as e:
                print(f"left out: {name}: {e}", file=sys.stderr)

    def close(self):
        for p in [self.heed, *self.peers.values()]:
            p.close()

    def file(self, kind):
        name = "spa-eng" if kind == "translate" else kind
        return json.loads((self.directory / f"{name}.json").read_text(encoding="utf-8"))

    def agreement(self, peer, request):
        """What is to be said of the results, and why they may not be compared; None where they may."""
        operation = "translations" if request["kind"] == "translate" else "losses"
        own, theirs = (p.ask({**request, "op": operation}) for p in (self.heed, peer))
        if "error" in own or "error" in theirs:
            return {}, own.get("error") or theirs.get("error")
        if operation == "losses":
            difference = max(abs(a - b) for a, b in zip(own["losses"], theirs["losses"], strict=True))
            found = {"losses": own["losses"], "largest_difference": difference}
            return found, None if difference <= LOSS_TOLERANCE else f"losses differ by {difference:.1e}"
        same = [a == b for a, b in zip(own["ids"], theirs["ids"], strict=True)]
        share = sum(same) / len(same)
        return ({"same_translations": share, "sentences": len(same)},
                None if share >= AGREEMENT else f"{100 * share:.0f} % of the translations are the same")

    def measure(self, c):
        request = {**c["request"], "directory": str(self.directory), "quick": self.options.quick}
        file = self.file(request["kind"])
        row = {**c, "data": file["data"]}
        peers = [self.heed]
        if c["peer"] in self.peers:
            row["agreement"], refusal = self.agreement(self.peers[c["peer"]], request)
            if refusal:
                return {**row, "refusals": {c["peer"]: refusal}}
            peers.append(self.peers[c["peer"]])
        found = turns.rounds_of(peers, request, self.options.seconds, self.options.rounds, self.options.budget,
                                lambda: self.heed.ask({"op": "peak"})["flops"])
        times = found.times
        row |= {"seconds": {p: spread(t) for p, t in times.items()}, "variants": found.variants,
                "trials": found.trials, "refusals": found.refusals}
        if "heed" not in times:
            return row
        own = times["heed"]
        row["speedup"] = {p: spread([b / a for a, b in zip(own, t)]) for p, t in times.items() if p != "heed"}
        if request["kind"] == "translate":
            row["work"] = len(file["source"][::request["every"]])
            return row
        step = file["steps"][str(request["tokens"])] if "steps" in file else file
        row["work"] = step["target_tokens"]
        row["flops"] = spread([step["flop"] / t for t in own])
        row["share_of_peak"] = spread([step["flop"] / t / peak for t, peak in zip(own, found.machine)])
        if request["kind"] == "multi30k":
            row["tape"] = self.tape(request, row, len(step["batches"]))
        return row

    def tape(self, request, row, updates):
        """What of an update is not arithmetic. `outside`: share of the time that no operation accounts for; `empty`:
        time of the same graph with nothing to compute (one token, a vocabulary of 8) as a share of an update's;
        and calls of operator new."""
        profile = self.heed.ask({**request, "op": "profile", "passes": 2})
        memory = self.heed.ask({**request, "op": "memory"})
        empty = turns.statistics.median(self.heed.ask({"kind": "empty graph", "op": "run", "seconds": 0.5})["seconds"])
        return {"outside": profile["rest"], "empty": empty / (row["seconds"]["heed"]["median"] / updates),
                "empty_seconds": empty, "allocations": memory["allocations"] / updates,
                "bytes": memory["bytes"], "shares": profile["shares"]}


def run(arguments):
    os.environ.setdefault("HEED_MODEL", str(ROOT / "models/spa-eng"))
    with tempfile.TemporaryDirectory() as directory:
        comparison = Comparison(arguments, pathlib.Path(directory))
        try:
            result = {
                "date": datetime.date.today().isoformat(), "commit": commit(), **machine(),
                "threads": arguments.threads, "build": comparison.heed.version, "quick": arguments.quick,
                "versions": {name: f"{p.label} {p.version}" for name, p in comparison.peers.items()},
                "peak_flops": comparison.heed.ask({"op": "peak"})["flops"],
                "rows": [],
            }
            wanted = re.compile(arguments.only)
            for c in all_cases(arguments.quick):
                label = f"{c['group']}: {c['name']}"
                if wanted.search(label):
                    start = time.monotonic()
                    result["rows"].append(comparison.measure(c))
                    print(f"{label}  ({time.monotonic() - start:.0f} s)", file=sys.stderr)
        finally:
            comparison.close()
    return result


# The table -----------------------------------------------------------------------------------------------------------

def rate(row, name):
    return f"{row['work'] / row['seconds'][name]['median']:,.0f}"


def refused(row):
    return "; ".join(f"{name}: {why}" for name, why in row["refusals"].items())


def training_table(result, rows):
    lines = [f"| training step, {result['threads']} threads | target tokens/s | useful GFLOP/s | of the peak | "
             f"{result['versions'].get('torch', 'PyTorch')}, target tokens/s | times as fast |",
             "|---|--:|--:|--:|--:|--:|"]
    for row in rows:
        if "flops" not in row:
            lines.append(f"| {row['name']} | {refused(row)} | | | | |")
            continue
        other = f"{rate(row, 'torch')} ({row['variants']['torch']})" if "torch" in row["seconds"] else "-"
        lines.append(f"| {row['name']} | {rate(row, 'heed')} | {significant(row['flops']['median'] / 1e9)} | "
                     f"{100 * row['share_of_peak']['median']:.0f} % | {other} | {ratio(row['speedup'].get('torch'))} |")
    lines.append("")
    tapes = [row for row in rows if "tape" in row]
    if tapes:
        lines += ["| of an update | " + " | ".join(row["name"] for row in tapes) + " |", "|---|" + "--:|" * len(tapes)]

        def tape_line(what, cell):
            lines.append(f"| {what} | " + " | ".join(cell(row["tape"]) for row in tapes) + " |")
        tape_line("outside operations: batches, walking the tape", lambda t: f"{100 * t['outside']:.2f} %")
        tape_line("the same graph with nothing to compute", lambda t: f"{100 * t['empty']:.2f} %")
        tape_line("calls of operator new", lambda t: f"{t['allocations']:,.0f}")
        lines.append("")
    return lines


def translation_table(result, rows):
    lines = [f"| translation, {result['threads']} threads | sentences/s | "
             f"{result['versions'].get('ctranslate2', 'CTranslate2')}, sentences/s | times as fast | same output |",
             "|---|--:|--:|--:|--:|"]
    for row in rows:
        if "work" not in row:
            lines.append(f"| {row['name']} | {refused(row)} | | | |")
            continue
        other = f"{rate(row, 'ctranslate2')} ({row['variants']['ctranslate2']})"  \
            if "ctranslate2" in row["seconds"] else "-"
        same = f"{100 * row['agreement']['same_translations']:.0f} %" if "agreement" in row else "-"
        lines.append(f"| {row['name']} | {rate(row, 'heed')} | {other} | {ratio(row['speedup'].get('ctranslate2'))} | "
                     f"{same} |")
    return [*lines, ""]


def table(result):
    lines = []
    for group, render in (("training", training_table), ("translation", translation_table)):
        rows = [row for row in result["rows"] if row["group"] == group]
        if rows:
            lines += render(result, rows)
    data = " and ".join(dict.fromkeys(row["data"] for row in result["rows"]))
    lines.append(
        "Times as fast: the other's time over heed's in the same round, median (quartiles) over rounds. Data: "
        f"{data}. {result['processor']}, {result['threads']} threads, multiply-add peak "
        f"{result['peak_flops'] / 1e9:.0f} GFLOP/s; {result['build']}; {result['date']}, commit {result['commit']}.")
    return "\n".join(lines) + "\n"


def main():
    parser = turns.parser(__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="the cases whose `group: name` it finds")
    parser.add_argument("--rounds", type=int, help="default 7, quick 3")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn, at least one call")
    parser.add_argument("--budget", type=float, default=90, help="seconds after which a case has no more rounds than 3")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 7)
    turns.finish(arguments, "training", run, table)


if __name__ == "__main__":
    main()
