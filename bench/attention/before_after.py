#!/usr/bin/env python3
"""What a change does to the speed of attention: this build beside an earlier one's, in turns, round by round.

    git worktree add ../before COMMIT
    (cd ../before && cmake --preset bench && cmake --build --preset bench --target attention_bench)
    bench/attention/before_after.py ../before/build/bench [--only REGEX] [--json FILE]
    bench/attention/before_after.py --table FILE [--page FILE]        the table of an earlier run

The cases are compare.py's, and what only heed computes: half precision with gradients, short sentences, dropout.
"""
import datetime
import pathlib
import re
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import turns  # noqa: E402
from compare import all_cases, case, flop, name_of  # noqa: E402
from turns import Peer, commit, machine, ratio, significant, spread  # noqa: E402


def cases():
    own = []
    for backward in (False, True):
        group = "forward + backward" if backward else "forward, other"
        for dtype in ("f32", "f16", "bf16"):
            own.append(case(group, 400, 4, 10, 64, backward=backward, dtype=dtype))
        own += [case(group, 1, 8, 512, 64, backward=backward, dropout=0.1),
                case(group, 1, 8, 2048, 64, backward=backward, dtype="bf16")]
    for c in own:
        c["name"] = name_of(c["request"])
    return all_cases() + own


def run(arguments):
    def peer(name, build):
        return Peer(name, [build / "bench/attention/attention_bench", f"--threads={arguments.threads}", "--serve"],
                    arguments.threads)
    before, heed = peer("before", arguments.before), peer("heed", arguments.build)
    rows = []
    for c in cases():
        if not re.search(arguments.only, f"{c['group']}: {c['name']}"):
            continue
        found = turns.rounds_of([before, heed], c["request"], arguments.seconds, arguments.rounds, 20,
                                lambda: heed.ask({"op": "peak"})["flops"])
        old, new = found.times["before"], found.times["heed"]
        rows.append({"group": c["group"], "name": c["name"], "before_s": statistics.median(old),
                     "heed_s": statistics.median(new), "faster": spread([a / b for a, b in zip(old, new)]),
                     "of_peak": spread([flop(c["request"]) / t / p for t, p in zip(new, found.machine)])})
        print(f"{c['group']}: {c['name']}: {ratio(rows[-1]['faster'])}", file=sys.stderr)
    for p in (before, heed):
        p.close()
    return {"date": datetime.date.today().isoformat(), "commit": commit(), "before": arguments.name, **machine(),
            "threads": arguments.threads, "rows": rows}


def table(result):
    lines = []
    for group in dict.fromkeys(row["group"] for row in result["rows"]):
        share = group not in ("decode", "tiny")
        lines += [f"| {group} | before, ms | now, ms | {'of the peak | ' if share else ''}times as fast |",
                  f"|---|--:|--:|{'--:|' if share else ''}--:|"]
        for row in result["rows"]:
            if row["group"] == group:
                part = f"{row['of_peak']['median']:.0%} | ".replace("%", " %") if share else ""
                lines.append(f"| {row['name']} | {significant(1e3 * row['before_s'])} | "
                             f"{significant(1e3 * row['heed_s'])} | {part}{ratio(row['faster'])} |")
        lines.append("")
    lines.append(f"Medians (quartiles) of rounds; before is {result['before']}. {result['processor']}, "
                 f"{result['threads']} threads; {result['date']}, commit {result['commit']}.")
    return "\n".join(lines) + "\n"


def main():
    parser = turns.parser(__doc__)
    parser.add_argument("before", type=pathlib.Path, nargs="?", help="the other's build directory")
    parser.add_argument("--name", default="an earlier build", help="what the table calls it")
    parser.add_argument("--only", default="", metavar="REGEX", help="the cases whose `group: name` it finds")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn, at least one call")
    arguments = parser.parse_args()
    if not arguments.before and not arguments.table:
        parser.error("which build is the earlier one?")
    turns.finish(arguments, "before and after", run, table)


if __name__ == "__main__":
    main()
