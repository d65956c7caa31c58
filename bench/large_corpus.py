#!/usr/bin/env python3
"""What a corpus larger than memory costs: makes sentence pairs, prepares them, trains on them, and says how long that
takes and how much memory is held beside the pages of files (RssAnon).

    bench/large_corpus.py build/bench/src/cli/heed --bytes 1e9 --in /var/tmp

Needs about 1.8 times as many bytes below --in, and removes all of it.
"""
import argparse
import itertools
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time


def words(count, letters, choose):
    """Words of two to four syllables; the first ones are short."""
    syllables = [c + v for c in letters for v in "aeiou"]
    longer = ["".join(choose.choices(syllables, k=choose.choice([2, 3, 3, 4]))) for _ in range(2 * count)]
    return list(dict.fromkeys(longer))[:count]


def write_pairs(path, size):
    """Sentences of 4 to 30 words, of a distribution as Zipf's; the target says word by word what the source says."""
    choose = random.Random(1)
    pairs = list(zip(words(50000, "bcdfglmnprst", choose), words(50000, "hjkpqrvwxyz", choose)))
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(pairs) + 1)))
    written = 0
    with open(path, "w", encoding="utf-8", buffering=1 << 20) as file:
        while written < size:
            drawn, at = choose.choices(pairs, cum_weights=weights, k=200000), 0
            while at < len(drawn):
                length = choose.randint(4, 30)
                sentence = drawn[at:at + length]
                at += length
                written += file.write(" ".join(w[0] for w in sentence) + "\t" + " ".join(w[1] for w in sentence) + "\n")
    return written


def run(*command, until=None):
    """Seconds, those until a line of standard error holds `until`, and the most RssAnon in MiB."""
    began, first, peak = time.monotonic(), None, 0
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
    lines = []

    def listen():
        nonlocal first
        for line in process.stderr:
            lines.append(line)
            if until and first is None and until in line:
                first = time.monotonic() - began

    listener = threading.Thread(target=listen)
    listener.start()
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
            peak = max(peak, int(status.split("RssAnon:")[1].split()[0]) / 1024)
        except (OSError, IndexError):
            pass
        time.sleep(0.01)
    listener.join()
    if process.returncode:
        sys.exit("".join(lines))
    return time.monotonic() - began, first, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heed", type=pathlib.Path)
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--in", dest="place", default=tempfile.gettempdir(), help="directory for the corpus")
    a = parser.parse_args()
    at = pathlib.Path(tempfile.mkdtemp(prefix="heed-corpus-", dir=a.place))
    try:
        size = write_pairs(at / "pairs.tsv", a.bytes)
        seconds, _, peak = run(a.heed, "prepare", "--pairs", at / "pairs.tsv", "--to", at / "pairs.tokens",
                               "--vocab-size", 8000)
        tokens = (at / "pairs.tokens").stat().st_size
        print(f"prepare: {size / 1e6:.0f} MB of pairs in {seconds:.0f} s, {size / 1e6 / seconds:.1f} MB/s, "
              f"{peak:.0f} MiB; the tokens take {tokens / 1e6:.0f} MB", flush=True)
        train = [a.heed, "train", "--pairs", at / "pairs.tokens", "--preset", "tiny", "--log-every", 1,
                 "--batch-tokens", 2000, "--model", at / "model", "--max-updates"]
        seconds, first, peak = run(*train, a.updates, until=" update 1 ")
        print(f"train: the first update is done after {first:.1f} s, {a.updates} after {seconds:.1f} s; {peak:.0f} MiB")
        seconds, first, peak = run(*train, 2 * a.updates, until=f" update {a.updates + 1} ")
        print(f"goes on: the next update is done after {first:.1f} s; {peak:.0f} MiB")
    finally:
        shutil.rmtree(at)


if __name__ == "__main__":
    main()
