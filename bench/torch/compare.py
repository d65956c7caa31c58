#!/usr/bin/env python3
"""heed under torch beside torch itself on this machine: a table, and all figures as JSON.

    bench/torch/compare.py [--build build/bench] [--python build/python/venv] [--json FILE] [--quick] [--only REGEX]
    bench/torch/compare.py --table FILE [--page FILE]        the table of an earlier run

Turns, rounds and ratios are those of bench/attention/compare.py (bench/turns.py), whose shapes these are as far as they
reach the kernels that heed.torch.patch() replaces. heed's C++ benchmark takes part, so that the same run tells how much
of its advantage torch's users see.
"""
import datetime
import importlib.util
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import turns  # noqa: E402
from turns import ROOT, Peer, commit, machine, ratio, significant, spread  # noqa: E402

WAYS = ["torch", "patched", "heed", "heed, NumPy", "eager"]


# Cases ---------------------------------------------------------------------------------------------------------------

def attention_cases():
    specification = importlib.util.spec_from_file_location("attention", ROOT / "bench/attention/compare.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for c in module.all_cases():
        r = c["request"]
        if r["Hq"] == r["Hkv"] and "lengths" not in r and "window" not in r and c["group"] != "tiny":
            group = "forward + backward" if r.get("backward") else "forward"
            yield {"group": group, "name": c["name"], "request": {"kind": "attention", **r}, "ways": WAYS[:2]}


def all_cases():
    cases = list(attention_cases())
    cases += [{"group": "call", "name": "x".join(map(str, shape)), "request": {"kind": "call", "shape": shape},
               "ways": WAYS[:4]} for shape in ([1, 1, 1, 8], [1, 4, 8, 64])]
    for family, name in (("gpt2", "GPT-2"), ("llama", "Llama, 4 query heads a key head")):
        for what, training, maps in (("forward", False, False), ("training step", True, False),
                                     ("forward with all maps", False, True)):
            cases.append({"group": "model", "name": f"{name}: {what}",
                          "request": {"kind": "model", "family": family, "tokens": 1024, "training": training,
                                      "maps": maps},
                          "ways": ["eager", "heed"] if maps else ["torch", "patched", "heed"]})
    return cases


# Measuring -----------------------------------------------------------------------------------------------------------

def run(arguments):
    n = arguments.threads
    native = Peer("C++", [arguments.build / "bench/attention/attention_bench", "--serve", f"--threads={n}"], n)
    peers = {way: Peer(way, [arguments.python / "bin/python", ROOT / "bench/torch/under_torch_peer.py", way], n)
             for way in WAYS}
    result = {"date": datetime.date.today().isoformat(), "commit": commit(), **machine(), "threads": n,
              "build": native.version, "torch": peers["torch"].version, "quick": arguments.quick, "rows": []}
    try:
        for c in all_cases():
            label = f"{c['group']}: {c['name']}"
            r = c["request"]
            if not re.search(arguments.only, label) or (arguments.quick and r.get("Lq", 0) > 2048):
                continue
            start = time.monotonic()
            taking_part = [peers[way] for way in c["ways"]]
            if r["kind"] == "attention":
                taking_part.insert(0, native)
            found = turns.rounds_of(taking_part, r, arguments.seconds, arguments.rounds, arguments.budget)
            first = "eager" if r.get("maps") else "torch"
            row = {**c, "seconds": {p: spread(t) for p, t in found.times.items()}, "refusals": found.refusals}
            row["speedup"] = {p: spread([b / a for a, b in zip(t, found.times[first])])
                              for p, t in found.times.items() if p != first}
            if "C++" in found.times:
                row["of_native"] = spread([a / b for a, b in zip(found.times["C++"], found.times["patched"])])
            result["rows"].append(row)
            print(f"{label}  ({time.monotonic() - start:.0f} s)", file=sys.stderr)
    finally:
        for p in [native, *peers.values()]:
            p.close()
    return result


# The table -----------------------------------------------------------------------------------------------------------

def table(result):
    lines = []
    for group in dict.fromkeys(row["group"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["group"] == group]
        ways = [way for way in ("C++", *WAYS) if any(way in row["speedup"] for row in rows)]
        native = any("of_native" in row for row in rows)
        unit, factor = ("us", 1e6) if group == "call" else ("ms", 1e3)
        first = "torch" if group != "model" else "sdpa; eager with maps"
        head = [group, f"{first}, {unit}", *ways, *(["of C++"] if native else [])]
        lines += ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
        for row in rows:
            base = row["seconds"].get("torch") or row["seconds"]["eager"]
            cells = [row["name"], significant(factor * base["median"]), *(ratio(row["speedup"].get(w)) for w in ways)]
            if native:
                cells.append(f"{100 * row['of_native']['median']:.0f} %")
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    lines.append(f"Times are torch's own. Columns: torch's time over that of the way in the same round, median "
                 f"(quartiles); above 1 it is faster. {result['processor']}, {result['threads']} threads, "
                 f"torch {result['torch']}; "
                 f"{result['build']}; {result['date']}, commit {result['commit']}.")
    return "\n".join(lines) + "\n"


def main():
    parser = turns.parser(__doc__)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "build/python/venv", help="with heed and torch")
    parser.add_argument("--only", default="", metavar="REGEX", help="the cases whose `group: name` it finds")
    parser.add_argument("--rounds", type=int, help="default 9, quick 3")
    parser.add_argument("--seconds", type=float, help="of a turn, at least one call; default 0.1, quick 0.03")
    parser.add_argument("--budget", type=float, default=15, help="seconds after which a case has no more rounds than 3")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 9)
    arguments.seconds = arguments.seconds or (0.03 if arguments.quick else 0.1)
    turns.finish(arguments, "torch", run, table)


if __name__ == "__main__":
    main()
