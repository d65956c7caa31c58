#!/usr/bin/env python3
"""What a change does to heed's speed: this build beside an earlier one's, in turns, round by round.

    git worktree add ../before COMMIT
    (cd ../before && cmake --preset bench && cmake --build --preset bench --target attention_bench training_bench)
    bench/before_after.py attention ../before/build/bench [--only REGEX] [--json FILE]
    bench/before_after.py training ../before/build/bench [--only REGEX] [--json FILE]
    bench/before_after.py attention|training --table FILE [--page FILE]     the table of an earlier run

The cases of attention are attention/compare.py's, and what only heed computes: half precision with gradients, short
sentences, dropout. Those of training are training/compare.py's, steps and translation; this build prepares what both
read. An earlier benchmark leaves out what it does not know of a request (dropout, before 0.2): give its checkout this
one's bench/attention/attention_bench.cc and request.*.
"""
import datetime
import os
import pathlib
import re
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import turns  # noqa: E402
from attention import compare as attention  # noqa: E402
from training import compare as training  # noqa: E402
from turns import ROOT, Peer, commit, machine, ratio, significant, spread  # noqa: E402


def attention_cases():
    own = []
    for backward in (False, True):
        group = "forward + backward" if backward else "forward, other"
        for dtype in ("f32", "f16", "bf16"):
            own.append(attention.case(group, 400, 4, 10, 64, backward=backward, dtype=dtype))
        own += [attention.case(group, 1, 8, 512, 64, backward=backward, dropout=0.1),
                attention.case(group, 1, 8, 2048, 64, backward=backward, dtype="bf16")]
    for c in own:
        c["name"] = attention.name_of(c["request"])
    return attention.all_cases() + own


def training_cases(arguments, directory):
    shared = ROOT.parent / "shared"
    shared = os.environ.get("HEED_SHARED", shared if shared.exists() else ROOT)
    turns.subprocess.run([program(arguments, arguments.build), f"--prepare={directory}", f"--shared={shared}"],
                         check=True)
    return [{**c, "request": {**c["request"], "directory": directory, "quick": arguments.quick}}
            for c in training.all_cases(arguments.quick)]


def program(arguments, build):
    return build / f"bench/{arguments.what}/{arguments.what}_bench"


def measure(arguments, cases):
    def peer(name, build):
        return Peer(name, [program(arguments, build), f"--threads={arguments.threads}", "--serve"], arguments.threads)
    before, heed = peer("before", arguments.before), peer("heed", arguments.build)
    rows = []
    for c in cases:
        if not re.search(arguments.only, f"{c['group']}: {c['name']}"):
            continue
        found = turns.rounds_of([before, heed], c["request"], arguments.seconds, arguments.rounds, arguments.budget,
                                lambda: heed.ask({"op": "peak"})["flops"])
        if found.refusals:
            print(f"{c['group']}: {c['name']}: {found.refusals}", file=sys.stderr)
            continue
        old, new = found.times["before"], found.times["heed"]
        row = {"group": c["group"], "name": c["name"], "before_s": statistics.median(old),
               "heed_s": statistics.median(new), "faster": spread([a / b for a, b in zip(old, new)])}
        if arguments.what == "attention":
            row["of_peak"] = spread([attention.flop(c["request"]) / t / p for t, p in zip(new, found.machine)])
        rows.append(row)
        print(f"{c['group']}: {c['name']}: {ratio(row['faster'])}", file=sys.stderr)
    for p in (before, heed):
        p.close()
    return rows


def run(arguments):
    if arguments.what == "attention":
        rows = measure(arguments, attention_cases())
    else:
        os.environ.setdefault("HEED_MODEL", str(ROOT / "models/spa-eng"))
        with tempfile.TemporaryDirectory() as directory:
            rows = measure(arguments, training_cases(arguments, directory))
    return {"date": datetime.date.today().isoformat(), "commit": commit(), "before": arguments.name, **machine(),
            "threads": arguments.threads, "rows": rows}


def table(result):
    lines = []
    for group in dict.fromkeys(row["group"] for row in result["rows"]):
        rows = [row for row in result["rows"] if row["group"] == group]
        share = "of_peak" in rows[0] and group not in ("decode", "tiny")
        lines += [f"| {group} | before, ms | now, ms | {'of the peak | ' if share else ''}times as fast |",
                  f"|---|--:|--:|{'--:|' if share else ''}--:|"]
        for row in rows:
            part = f"{row['of_peak']['median']:.0%} | ".replace("%", " %") if share else ""
            lines.append(f"| {row['name']} | {significant(1e3 * row['before_s'])} | "
                         f"{significant(1e3 * row['heed_s'])} | {part}{ratio(row['faster'])} |")
        lines.append("")
    lines.append(f"Medians (quartiles) of rounds; before is {result['before']}. {result['processor']}, "
                 f"{result['threads']} threads; {result['date']}, commit {result['commit']}.")
    return "\n".join(lines) + "\n"


def main():
    parser = turns.parser(__doc__)
    parser.add_argument("what", choices=["attention", "training"])
    parser.add_argument("before", type=pathlib.Path, nargs="?", help="the other's build directory")
    parser.add_argument("--name", default="an earlier build", help="what the table calls it")
    parser.add_argument("--only", default="", metavar="REGEX", help="the cases whose `group: name` it finds")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn, at least one call")
    parser.add_argument("--budget", type=float, default=20, help="seconds after which a case has no more rounds than 3")
    arguments = parser.parse_args()
    if not arguments.before and not arguments.table:
        parser.error("which build is the earlier one?")
    turns.finish(arguments, f"{arguments.what}, before and after", run, table)


if __name__ == "__main__":
    main()
