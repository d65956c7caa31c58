#!/usr/bin/env python3
"""heed's attention beside other libraries' on this machine: one table on standard output, all figures as JSON.

    bench/attention/compare.py [--build build/bench] [--peers build/peers] [--json FILE] [--quick] [--only REGEX]
    bench/attention/compare.py --avx2 [...]                      all held to AVX2, those that can be
    bench/attention/compare.py --before BUILD [...]              beside the heed of another commit alone, built there
    bench/attention/compare.py --table FILE [--page FILE]        the table of an earlier run

Every library is a process of its own with the same number of threads, pinned to the same CPUs, and stopped while it is
not its turn. Libraries take turns, round by round, and every ratio is taken within a round; the table shows medians and
quartiles over rounds. Peers come from bench/peers/install; what is not there is left out. A peer computes each case in
several ways and the fastest is timed; `variant` in the JSON says which.
"""
import datetime
import json
import math
import os
import pathlib
import random
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import turns  # noqa: E402
from turns import ROOT, Peer, commit, machine, ratio, significant, spread  # noqa: E402

PEERS = ["torch", "onnxruntime", "openvino", "jax"]
# What holds peers to AVX2. ONNX Runtime and OpenVINO have no such switch.
AVX2_PEERS = ["torch", "jax"]
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}
TILE = 64  # heed's, in queries and keys


# Cases ---------------------------------------------------------------------------------------------------------------

def case(group, B, H, L, D, **more):
    return {"group": group, "request": {"B": B, "Hq": H, "Hkv": H, "Lq": L, "Lk": L, "D": D, **more}}


def all_cases():
    draw = random.Random(1)
    sentences = [5, 60] + [draw.randint(5, 60) for _ in range(30)]
    shapes = []
    for length in (512, 2048, 8192):
        for causal in (False, True):
            group = "other" if causal or length < 2048 else "long"
            shapes.append(case(group, 1, 8, length, 64, causal=causal))
    shapes += [
        case("long", 1, 32, 2048, 128),
        case("other", 1, 32, 2048, 128, causal=True),
        case("other", 8, 8, 128, 64),
        case("other", 16, 4, 64, 32),
        case("other", 1, 12, 1024, 64, causal=True),
        case("other", 32, 8, max(sentences), 64, lengths=sentences),
        case("other", 1, 8, 8192, 64, causal=True, window=256),
    ]
    cases = [{**c, "group": f"forward, {c['group']}"} for c in shapes]
    cases += [{"group": "forward + backward", "request": {**c["request"], "backward": True}} for c in shapes]
    for length in (4096, 32768):
        for dtype in ("f32", "f16", "bf16"):
            cases.append({"group": "decode", "request": {"B": 1, "Hq": 32, "Hkv": 8, "Lq": 1, "Lk": length, "D": 128,
                                                         "dtype": dtype}})
    cases += [case("tiny", 1, 1, 1, 8), case("tiny", 1, 1, 1, 8, workspace=False), case("tiny", 1, 1, 8, 8),
              case("tiny", 1, 4, 8, 64)]
    for c in cases:
        c["name"] = name_of(c["request"])
    return cases


def name_of(r):
    lengths = f"{r['Lq']}" if r["Lq"] == r["Lk"] else f"{r['Lq']} on {r['Lk']}"
    name = f"{r['B']}x{r['Hq']}x{lengths}x{r['D']}"
    if r["Hq"] != r["Hkv"]:
        name += f", {r['Hkv']} key heads"
    if r.get("lengths"):
        name = f"{r['B']} sentences of {min(r['lengths'])} to {max(r['lengths'])}, {r['Hq']}x{r['D']}"
    if r.get("window"):
        name += f" window {r['window']}"
    elif r.get("causal"):
        name += " causal"
    if r.get("dtype", "f32") != "f32":
        name += f" {r['dtype']}"
    if r.get("dropout"):
        name += f" dropout {r['dropout']}"
    if r.get("workspace") is False:
        name += " without workspace"
    return name


def pairs(r):
    """Visible (query, key) pairs over all heads."""
    def visible(q, k):
        if not r.get("causal"):
            return q * k
        width = r.get("window", k)
        return sum(min(i + k - q + 1, width) for i in range(q))
    if r.get("lengths"):
        return r["Hq"] * sum(visible(n, n) for n in r["lengths"])
    return r["B"] * r["Hq"] * visible(r["Lq"], r["Lk"])


def flop(r):
    """Two products forward, five more backward (the scores again, and four gradients)."""
    return 2 * pairs(r) * r["D"] * (7 if r.get("backward") else 2)


def cache_bytes(r):
    return 2 * r["B"] * r["Hkv"] * r["Lk"] * r["D"] * (4 if r.get("dtype", "f32") == "f32" else 2)


def tiles(r):
    """Tiles with a visible pair, of one head; r is square."""
    n = -(-r["Lq"] // TILE)
    if not r.get("causal"):
        return n * n
    width = r.get("window", r["Lk"])
    return sum(i - max(0, (i * TILE - width + 1) // TILE) + 1 for i in range(n))


# Measuring -----------------------------------------------------------------------------------------------------------

class Comparison:
    def __init__(self, arguments):
        bench = arguments.build / "bench/attention"
        n = arguments.threads
        self.options = arguments
        self.avx2 = arguments.avx2
        own = [bench / "attention_bench", *(["--avx2"] if self.avx2 else []), "--serve"]
        self.heed = Peer("heed", [*own, f"--threads={n}"], n)
        self.serial = None
        if n > 1 and not arguments.before:
            self.serial = Peer("heed, 1 thread", [*own, "--threads=1"], 1)
        self.peers = []
        if arguments.before:
            before = arguments.before / "bench/attention/attention_bench"
            self.peers.append(Peer("before", [before, *own[1:], f"--threads={n}"], n))
            return
        if (bench / "blas_baseline").exists() and not self.avx2:
            self.peers.append(Peer("blas", [bench / "blas_baseline", f"--threads={n}"], n))
        python = arguments.peers / "bin/python"
        for name in (AVX2_PEERS if self.avx2 else PEERS) if python.exists() else []:
            try:
                self.peers.append(Peer(name, [python, ROOT / f"bench/peers/{name}_peer.py"], n))
            except RuntimeError as e:
                print(f"left out: {e}", file=sys.stderr)

    def close(self):
        for p in [self.heed, self.serial, *self.peers]:
            if p:
                p.close()

    def measure(self, c):
        r, decode, tiny = c["request"], c["group"] == "decode", c["group"] == "tiny"
        machine = ((lambda: self.heed.ask({"op": "bandwidth", "bytes": cache_bytes(r)})["bytes"]) if decode else
                   (lambda: self.heed.ask({"op": "peak"})["flops"]))
        serial = [self.serial] if self.serial and not tiny else []
        peers = [p for p in self.peers if r.get("workspace") is not False]
        found = turns.rounds_of([self.heed, *serial, *peers], {**r, "quick": self.options.quick}, self.options.seconds,
                                self.options.rounds, self.options.budget, machine)
        times, measured = found.times, found.machine
        row = {**c, "seconds": {p: spread(t) for p, t in times.items()}, "variants": found.variants,
               "refusals": found.refusals}
        if "heed" not in times:
            return row
        own = times["heed"]
        row["speedup"] = {p: spread([b / a for a, b in zip(own, t)]) for p, t in times.items() if p != "heed"}
        if decode:
            row["bytes_per_second"] = spread([cache_bytes(r) / t for t in own])
            row["share_of_bandwidth"] = spread([cache_bytes(r) / t / m for t, m in zip(own, measured)])
        else:
            row["flops"] = spread([flop(r) / t for t in own])
            row["share_of_peak"] = spread([flop(r) / t / m for t, m in zip(own, measured)])
        return row

    def in_turns(self, kinds, rounds):
        """{kind: seconds of each round} of heed alone, in turns; empty where heed refuses one."""
        times = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, r in kinds.items():
                answer = self.heed.ask({**r, "op": "run", "seconds": self.options.seconds})
                if "seconds" not in answer:
                    print(f"{name}: {answer}", file=sys.stderr)
                    return {}
                times[name].append(statistics.median(answer["seconds"]))
        return times

    def proportion(self, backward):
        """Time a tile that is not empty, causal and windowed over full."""
        length = 2048 if self.options.quick else 8192
        full = {"B": 1, "Hq": 8, "Hkv": 8, "Lq": length, "Lk": length, "D": 64, "backward": backward}
        causal = {**full, "causal": True}
        kinds = {"full": full, "causal": causal, "window 256": {**causal, "window": 256}}
        times = self.in_turns(kinds, 3 if self.options.quick or backward else 5)
        suffix = ", forward + backward" if backward else ""
        return {f"{name}{suffix}": spread([a / tiles(kinds[name]) * tiles(full) / b for a, b in zip(t, times["full"])])
                for name, t in times.items() if name != "full"}

    def storage(self):
        """How many times faster decoding is on a cache of half the bytes."""
        result = {}
        for length in (4096, 32768):
            r = {"B": 1, "Hq": 32, "Hkv": 8, "Lq": 1, "Lk": length, "D": 128}
            times = self.in_turns({dtype: {**r, "dtype": dtype} for dtype in ("f32", "f16", "bf16")},
                                  self.options.rounds)
            for dtype in ("f16", "bf16") if times else ():
                result[f"{dtype}, {length:,} keys"] = spread([a / b for a, b in zip(times["f32"], times[dtype])])
        return result

    def memory(self):
        r = {"B": 1, "Hq": 1, "Hkv": 1, "Lq": 65536, "Lk": 65536, "D": 64, "causal": True}
        return {name: self.heed.ask({**r, "backward": backward, "op": "memory"}).get("bytes")
                for name, backward in (("forward", False), ("forward + backward", True))}


def run(arguments):
    comparison = Comparison(arguments)
    try:
        result = {
            "date": datetime.date.today().isoformat(), "commit": commit(), **machine(), "threads": arguments.threads,
            "build": comparison.heed.version, "quick": arguments.quick,
            "versions": {p.name: p.label if p.name == "blas" else f"{p.label} {p.version}" for p in comparison.peers},
            "blas": next((p.version for p in comparison.peers if p.name == "blas"), None),
            "peak_flops": comparison.heed.ask({"op": "peak"})["flops"],
            "read_bandwidth": comparison.heed.ask({"op": "bandwidth", "bytes": 1 << 28})["bytes"],
            "rows": [],
        }
        wanted = re.compile(arguments.only)
        for c in all_cases():
            label = f"{c['group']}: {c['name']}"
            if not wanted.search(label):
                continue
            # A quick run leaves out what takes seconds a call.
            if arguments.quick and (flop(c["request"]) > 4e10 or c["request"]["Lq"] > 4096):
                continue
            start = time.monotonic()
            result["rows"].append(comparison.measure(c))
            print(f"{label}  ({time.monotonic() - start:.0f} s)", file=sys.stderr)
        if arguments.before:
            return result
        if wanted.search("proportion"):
            result["proportion"] = comparison.proportion(False)
            if not arguments.quick:
                result["proportion"] |= comparison.proportion(True)
        if wanted.search("storage"):
            result["storage"] = comparison.storage()
        if wanted.search("memory") and not arguments.quick:
            result["memory_bytes"] = comparison.memory()
    finally:
        comparison.close()
    return result


# The table -----------------------------------------------------------------------------------------------------------

def percent(s):
    return f"{100 * s['median']:.0f} %"


def best_peer(row):
    """Speedup over the fastest peer, by the median."""
    others = [s["median"] for p, s in row.get("speedup", {}).items() if p != "heed, 1 thread"]
    return min(others) if others else None


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(result):
    """Rows of what is reached: the figure of each kind of case that says most."""
    rows = [row for row in result["rows"] if "speedup" in row]

    def of(group, keep=lambda row: True):
        return [row for row in rows if row["group"] == group and keep(row)]

    def least_share(picked, key):
        return f"{100 * min(row[key]['median'] for row in picked):.0f} %"

    def over_best(picked):
        bests = [b for b in map(best_peer, picked) if b]
        return (f"geometric mean {geometric_mean(bests):.2f}, least {min(bests):.2f}, faster on "
                f"{sum(b > 1 for b in bests)} of {len(bests)}") if bests else "-"

    lines = []
    for size in (64, 128):
        picked = of("forward, long", lambda row: row["request"]["D"] == size)
        if picked:
            lines.append((f"forward, full, 2,048 keys or more, D = {size}: share of the multiply-add peak, least",
                          least_share(picked, "share_of_peak")))
    for group, what in (("forward, long", "forward, full, 2,048 keys or more"),
                        ("forward, other", "forward, causal, windowed, ragged and small"),
                        ("forward + backward", "forward + backward"), ("decode", "decode")):
        if of(group):
            lines.append((f"{what}: over the best peer", over_best(of(group))))
    decode = of("decode", lambda row: row["request"]["dtype"] == "f32")
    if decode:
        lines.append(("decode, float32: share of the read bandwidth, least", least_share(decode, "share_of_bandwidth")))
    serial = [row for row in rows if row["seconds"]["heed"]["median"] > 0.01 and row["group"] != "decode" and
              "heed, 1 thread" in row["speedup"]]
    if serial:
        lines.append((f"{result['threads']} threads over 1, calls over 10 ms: least",
                      f"{min(row['speedup']['heed, 1 thread']['median'] for row in serial):.2f}"))
    return ["| reached | |", "|---|--:|", *(f"| {what} | {figure} |" for what, figure in lines), ""] if lines else []


def table(result):
    lines = summary(result)
    names = result["versions"]
    groups = list(dict.fromkeys(row["group"] for row in result["rows"]))
    for group in groups:
        rows = [row for row in result["rows"] if row["group"] == group]
        peers = [p for p in names if any(p in row.get("speedup", {}) for row in rows)]
        threads = any("heed, 1 thread" in row.get("speedup", {}) for row in rows)
        rate_unit = "GB/s" if group == "decode" else "GFLOP/s"
        unit, factor = ("us", 1e6) if group == "tiny" else ("ms", 1e3)
        head = [group, unit, rate_unit, "of the read bandwidth" if group == "decode" else "of the peak"]
        head += [names[p] for p in peers] + ([f"{result['threads']} threads over 1"] if threads else [])
        lines += ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
        for row in rows:
            if "speedup" not in row:
                lines.append(f"| {row['name']} | {row['refusals'].get('heed')} |" + " |" * (len(head) - 2))
                continue
            rate = row["bytes_per_second" if group == "decode" else "flops"]
            part = row["share_of_bandwidth" if group == "decode" else "share_of_peak"]
            cells = [row["name"], significant(factor * row["seconds"]["heed"]["median"]),
                     significant(rate["median"] / 1e9), percent(part), *(ratio(row["speedup"].get(p)) for p in peers)]
            if threads:
                cells.append(ratio(row["speedup"].get("heed, 1 thread")))
            lines.append("| " + " | ".join(cells) + " |")
        bests = [b for b in map(best_peer, rows) if b]
        if bests and group != "tiny":
            lines += ["", f"Over the best peer of each row: geometric mean {geometric_mean(bests):.2f}, "
                          f"least {min(bests):.2f}."]
        lines.append("")
    if result.get("proportion"):
        lines += ["| time a tile that is not empty, over full attention's | |", "|---|--:|"]
        lines += [f"| {name} | {ratio(s)} |" for name, s in result["proportion"].items()] + [""]
    if result.get("storage"):
        lines += ["| decoding, times as fast as with a float32 cache | |", "|---|--:|"]
        lines += [f"| {name} | {ratio(s)} |" for name, s in result["storage"].items()] + [""]
    if result.get("memory_bytes"):
        lines += ["| memory at L = 65,536, D = 64, one head, beyond inputs and outputs | |", "|---|--:|"]
        held = {name: b for name, b in result["memory_bytes"].items() if b is not None}
        lines += [f"| {name} | {b / 1e6:.1f} MB |" for name, b in held.items()] + [""]
    lines.append(
        "Times are heed's. Columns of libraries: their time over heed's in the same round, median (quartiles); above 1 "
        f"heed is faster. {result['processor']}, {result['threads']} threads, multiply-add peak "
        f"{result['peak_flops'] / 1e9:.0f} GFLOP/s and read bandwidth {result['read_bandwidth'] / 1e9:.1f} GB/s on "
        f"256 MiB; {result['build']}; {result['date']}, commit {result['commit']}.")
    return "\n".join(lines) + "\n"


def main():
    parser = turns.parser(__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="the cases whose `group: name` it finds")
    parser.add_argument("--rounds", type=int, help="default 9, quick 3")
    parser.add_argument("--seconds", type=float, help="of a turn, at least one call; default 0.1, quick 0.03")
    parser.add_argument("--budget", type=float, default=15, help="seconds after which a case has no more rounds than 3")
    parser.add_argument("--before", type=pathlib.Path, metavar="BUILD",
                        help="a build directory of another commit: its heed is the only peer")
    parser.add_argument("--avx2", action="store_true", help="hold heed and its peers to AVX2")
    arguments = parser.parse_args()
    if arguments.avx2:
        os.environ.update(AVX2)
    arguments.rounds = arguments.rounds or (3 if arguments.quick else 9)
    arguments.seconds = arguments.seconds or (0.03 if arguments.quick else 0.1)
    turns.finish(arguments, "attention, AVX2" if arguments.avx2 else "attention", run, table)


if __name__ == "__main__":
    main()
