#!/usr/bin/env python3
"""heed's tokenizers beside the package `tokenizers` (written in Rust) on 10 MB of text, one thread each: a table, and
all figures as JSON.

    bench/tokenizers/compare.py [--build build/bench] [--python build/python/venv] [--json FILE] [--quick]
    bench/tokenizers/compare.py --table FILE [--page FILE]        the table of an earlier run

Both give ids and offsets. Turns, rounds and ratios are those of bench/turns.py. The text is that of the recipes' data,
the vocabularies are GPT-2's, bge's (BERT's) and T5's of the conformance set.
"""
import datetime
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import turns  # noqa: E402
from turns import ROOT, Peer, commit, machine, ratio, spread  # noqa: E402

SHARED = pathlib.Path(os.environ.get("HEED_SHARED", ROOT / "../shared")).resolve()
TOKENIZERS = {"GPT-2": "real-gpt-2", "bge (BERT)": "real-bert-bge", "T5": "real-t5-small"}
SIZE = 10_000_000  # bytes


def write_text(path):
    parts = [SHARED / "data" / name for name in ("tinyshakespeare/input.txt", "multi30k/train.en", "multi30k/train.de",
                                                 "spa-eng/train.tsv")]
    text = b"".join(part.read_bytes() for part in parts)
    while len(text) < SIZE:
        text += text
    path.write_text(text[:SIZE].decode("utf-8", errors="ignore"), encoding="utf-8")


def run(arguments):
    peers = [Peer("heed", [arguments.build / "bench/tokenizers/tokenizers_bench"], 1),
             Peer("tokenizers", [arguments.python / "bin/python", ROOT / "bench/tokenizers/tokenizers_peer.py"], 1)]
    result = {"date": datetime.date.today().isoformat(), "commit": commit(), **machine(), "bytes": SIZE,
              "versions": {p.name: p.version for p in peers}, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "text"
        write_text(path)
        for name, directory in TOKENIZERS.items():
            for lines in (False, True):
                request = {"directory": str(SHARED / "conformance/models/tokenizers" / directory), "file": str(path),
                           "lines": lines}
                rounds, budget = (3, 60) if arguments.quick else (9, 300)
                found = turns.rounds_of(peers, request, 0.1, rounds, budget)
                if found.refusals:
                    sys.exit(f"{name}: {found.refusals}")
                times = found.times
                ratios = [b / a for a, b in zip(times["heed"], times["tokenizers"])]
                result["rows"].append({"name": name, "lines": lines, "variants": found.variants,
                                       "megabytes_per_second": {k: spread([SIZE / 1e6 / t for t in v])
                                                                for k, v in times.items()},
                                       "ratio": spread(ratios)})
    for p in peers:
        p.close()
    return result


def table(result):
    lines = ["| 10 MB of text | heed, MB/s | tokenizers, MB/s | heed is faster by |", "|---|---|---|---|"]
    for row in result["rows"]:
        speed = row["megabytes_per_second"]
        how = "line by line" if row["lines"] else "as one"
        lines.append(f"| {row['name']}, {how} | {speed['heed']['median']:.1f} | "
                     f"{speed['tokenizers']['median']:.1f} | {ratio(row['ratio'])} |")
    lines += ["", f"{result['processor']}, one thread, tokenizers {result['versions']['tokenizers']}; {result['date']}, "
                  f"commit {result['commit']}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = turns.parser(__doc__)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "build/python/venv")
    turns.finish(parser.parse_args(), "tokenizers", run, table)
