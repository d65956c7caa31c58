#!/usr/bin/env python3
"""Other people's models in heed beside PyTorch, llama.cpp, CTranslate2, ONNX Runtime and OpenVINO: a table, and all
figures as JSON.

    bench/peers/install                          the peers, into build/peers
    bench/pretrained/compare.py [--build build/bench] [--peers build/peers] [--models build/models] [--json FILE] [--quick]
    bench/pretrained/compare.py --only REGEX --onto FILE --json FILE    these rows in the place of an earlier run's
    bench/pretrained/compare.py --table FILE [--page FILE]        the table of an earlier run

Turns, rounds and ratios are those of bench/turns.py. Weights are random, of true shapes (make_models.py); which tokens
come does not change what it costs. Decoding reads every weight once a token: its limit is memory's bandwidth, which
this machine's read test gives in the same run; that of prompts, sentences and training is the multiply-adds.
"""
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import turns  # noqa: E402
from turns import ROOT, Peer, commit, machine, ratio, significant, spread  # noqa: E402

PEERS = ["torch", "llamacpp", "ctranslate2", "onnxruntime", "openvino"]


def cases():
    """Numbers that a token goes through in the layers, and in the output's matrix where a prediction is made there."""
    gpt2, gpt2_head = 85_056_000, 50257 * 768
    llama, llama_head = 973_146_112, 128256 * 2048
    for model, body, head, size, dtype, title in (
            ("gpt2", gpt2, gpt2_head, 4, "float32", "GPT-2 124M, float32"),
            ("gpt2-bf16", gpt2, gpt2_head, 2, "bfloat16", "GPT-2 124M, bfloat16"),
            ("llama-1b-bf16", llama, llama_head, 2, "bfloat16", "Llama 1B, bfloat16"),
            ("gpt2-bf16", gpt2, gpt2_head, 34 / 32, "int8", "GPT-2 124M, int8"),
            ("llama-1b-bf16", llama, llama_head, 34 / 32, "int8", "Llama 1B, int8")):
        for kind, texts, length, tokens, what in (("decode", 1, 16, 32, "one text, 32 tokens"),
                                                  ("decode", 8, 16, 32, "8 texts at once, 32 tokens each"),
                                                  ("prompt", 1, 512, 1, "a prompt of 512 tokens")):
            yield {"name": f"{title}: {what}", "model": model, "body": body, "head": head, "size": size,
                   "request": {"kind": kind, "texts": texts, "length": length, "tokens": tokens, "dtype": dtype}}
    for length in (16, 128):
        yield {"name": f"MiniLM-L6: 64 sentences of {length} tokens", "model": "minilm-l6", "body": 10_646_784, "head": 0,
               "request": {"kind": "encode", "texts": 64, "length": length, "dtype": "float32"}}
    yield {"name": "BERT-base: a step of training, 8 x 128", "model": "bert-base", "body": 85_054_464, "head": 0,
           "request": {"kind": "train", "texts": 8, "length": 128, "dtype": "float32"}}
    yield {"name": "GPT-2 124M: a step of training, 4 x 1024", "model": "gpt2", "body": gpt2, "head": gpt2_head,
           "request": {"kind": "train", "texts": 4, "length": 1024, "dtype": "float32"}}


def need(case):
    """Which limit of the machine holds, and what the model needs of it at the least; attention is left out."""
    r = case["request"]
    tokens = r.get("tokens", 0)
    if r["kind"] == "decode" and r["texts"] == 1:
        return "bandwidth", (case["body"] + case["head"]) * case["size"] * tokens
    predictions = r["length"] if r["kind"] == "train" else tokens
    products = r["texts"] * (case["body"] * (r["length"] + max(tokens - 1, 0)) + case["head"] * predictions)
    return "peak", 2 * products * (3 if r["kind"] == "train" else 1)


def start_seconds(heed, directory, runs):
    times = []
    with tempfile.TemporaryDirectory() as place:
        for _ in range(runs + 1):
            begin = time.perf_counter()
            subprocess.run([heed, "logits", "--model", directory, "--ids", "1 2 3", "--out", f"{place}/l.npy",
                            "--quiet"], check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
    return spread(times[1:])  # the first one reads from disk


def alone(peers, names):
    """Those that train, and with the memory of the machine to themselves: what they and others still hold is given up."""
    for p in peers:
        p.close()
    left = [p for p in peers if p.name in names]
    for p in left:
        p.start()
    return left


def recording(heed, directory, rounds):
    """How much longer a text takes whose maps are kept: rounds of turns of the same process."""
    request = {"op": "run", "seconds": 0.1, "texts": 1, "length": 16, "tokens": 64, "dtype": "float32",
               "directory": str(directory.resolve())}
    ratios = []
    for _ in range(rounds):
        plain, recorded = (statistics.median(heed.ask({**request, "kind": kind})["seconds"])
                           for kind in ("decode", "record"))
        ratios.append(recorded / plain)
    return spread(ratios)


def joined(earlier, rows):
    """The rows of an earlier run, each with its commit, but for those that have been measured anew."""
    anew = {row["name"]: row for row in rows}
    return [anew.get(row["name"], {**row, "commit": row.get("commit", earlier["commit"])}) for row in earlier["rows"]]


def run(arguments):
    earlier = json.loads(arguments.onto.read_text(encoding="utf-8")) if arguments.onto else None
    if earlier and (earlier["processor"], earlier["threads"]) != (machine()["processor"], arguments.threads):
        sys.exit(f"{arguments.onto} is of another processor, or of other threads; measure all rows")
    n = arguments.threads
    python = arguments.peers / "bin/python"
    subprocess.run([python, ROOT / "bench/pretrained/make_models.py", arguments.models], check=True)
    heed = Peer("heed", [arguments.build / "bench/pretrained/pretrained_bench"], n)
    peers = [heed] + [Peer(p, [python, ROOT / f"bench/peers/pretrained_{p}_peer.py"], n) for p in PEERS]
    result = {"date": datetime.date.today().isoformat(), "commit": commit(), **machine(), "threads": n,
              "quick": arguments.quick, "versions": {p.name: p.version for p in peers}, "rows": []}
    try:
        result["recording"] = recording(heed, arguments.models / "gpt2", 3 if arguments.quick else 9)
        result["start"] = start_seconds(arguments.build / "src/cli/heed", arguments.models / "gpt2",
                                        5 if arguments.quick else 31)
        for case in cases():
            if not re.search(arguments.only, case["name"]):
                continue
            begin = time.monotonic()
            if case["request"]["kind"] == "train":
                peers = alone(peers, {"heed", "torch"})
            request = {**case["request"], "directory": str((arguments.models / case["model"]).resolve())}
            found = turns.rounds_of(peers, request, 0.1, 3 if arguments.quick else 9, 60 if arguments.quick else 300)
            times = found.times
            # Once every peer rests: one that has just been started is still reading its libraries.
            limits = {"peak": heed.ask({"op": "peak"})["flops"],
                      "bandwidth": heed.ask({"op": "bandwidth", "bytes": 1 << 30})["bytes"]}
            if "heed" not in times:
                sys.exit(f"{case['name']}: {found.refusals['heed']}")
            others = [p for p in times if p != "heed"]
            best = min(others, key=lambda p: statistics.median(times[p])) if others else None
            result["rows"].append({
                **case, "limits": limits, "seconds": {p: spread(t) for p, t in times.items()}, "best": best,
                "speedup": spread([b / a for a, b in zip(times["heed"], times[best])]) if best else None,
                "refusals": found.refusals})
            print(f"{case['name']}  ({time.monotonic() - begin:.0f} s)", file=sys.stderr)
            # Half an hour is not to be lost.
            turns.keep(arguments, {**result, "rows": joined(earlier, result["rows"])} if earlier else result)
    finally:
        for p in peers:
            p.close()
    return {**result, "rows": joined(earlier, result["rows"])} if earlier else result


def table(result):
    labels = {"torch": "PyTorch", "llamacpp": "llama.cpp", "ctranslate2": "CTranslate2",
              "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
    lines = ["| model | heed, ms | of the limit | best peer, ms | heed is faster by |", "|---|---|---|---|---|"]
    # The machine's best: what it reads a second depends on how large its pages of memory happen to be.
    limits = {limit: max(row["limits"][limit] for row in result["rows"]) for limit in ("peak", "bandwidth")}
    for row in result["rows"]:
        limit, amount = need(row)
        share = amount / row["seconds"]["heed"]["median"] / limits[limit]
        seconds, best = row["seconds"], row["best"]
        peer = f"{labels[best]} {significant(1e3 * seconds[best]['median'])}" if best else "-"
        lines.append(f"| {row['name']} | {significant(1e3 * seconds['heed']['median'])} | "
                     f"{100 * share:.0f} % | {peer} | {ratio(row['speedup'])} |")
    start = result["start"]
    lines += ["", f"From the start of the program to the logits of GPT-2 124M, float32, on a warm file: "
                  f"{1e3 * start['median']:.0f} ms ({1e3 * start['lower']:.0f}-{1e3 * start['upper']:.0f}). "
                  f"A text whose maps are all kept takes {ratio(result['recording'])} times as long.",
              "", f"{result['processor']}, {result['threads']} threads, multiply-add peak {limits['peak'] / 1e9:.0f} GFLOP/s, "
                  f"memory read at {limits['bandwidth'] / 1e9:.1f} GB/s; "
                  + ", ".join(f"{labels.get(p, p)} {v}" for p, v in result["versions"].items() if p != "heed")
                  + f"; {result['date']}, commit {result['commit']}."]
    anew = [row["name"] for row in result["rows"] if "commit" not in row]
    before = sorted({row["commit"] for row in result["rows"] if "commit" in row})
    if before:
        lines[-1] += f" Rows{' but for ' + '; '.join(anew) if anew else ''} are of commit {', '.join(before)}."
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = turns.parser(__doc__)
    parser.add_argument("--models", type=pathlib.Path, default=ROOT / "build/models")
    parser.add_argument("--only", default="", help="cases whose name has this regular expression")
    parser.add_argument("--onto", type=pathlib.Path, help="JSON of an earlier run, which keeps its other rows")
    turns.finish(parser.parse_args(), "pretrained", run, table)
