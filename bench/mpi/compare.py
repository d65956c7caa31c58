#!/usr/bin/env python3
"""heed over ranks: what is sent, what a model of the network says of it, and training steps beside PyTorch's.

    bench/mpi/compare.py [--build build/bench] [--python build/python/venv] [--json FILE] [--quick]
    bench/mpi/compare.py --table FILE [--page FILE] [--plot FILE]        the tables and the plot of an earlier run
    bench/mpi/compare.py --check                                         whether docs/ has those of bench/results/

Bytes and messages are counted and held against formulas (model.py). mpi_bench measures updates and attention over links
of known latency and bandwidth, with sleeps for what would be computed. Steps are those of the Multi30k model of
bench/training, two batches an update: one process on two threads, two ranks of one thread each, and PyTorch's
DistributedDataParallel over gloo, whole runs in turns, each process on a processor of its own. The losses of all are
compared before anything is timed.
"""
import datetime
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import model  # noqa: E402
import plot  # noqa: E402
import turns  # noqa: E402
from turns import ROOT, commit, machine, significant, spread  # noqa: E402

TOKENS, DROPOUT = "4096", "0.3"
LOSS_TOLERANCE = 1e-3  # after a few updates
ONE, TWO, TORCH = "one process, two threads", "two ranks", "DistributedDataParallel"
TORCH_VARIANTS = {"eager": TORCH, "loss compiled": TORCH + ", loss compiled"}
# Under any user, and on as many processors as there are.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


# Measuring: steps ----------------------------------------------------------------------------------------------------

class Steps:
    """Runs of a few updates; each gives seconds and losses of all of them."""

    def __init__(self, arguments, directory):
        self.options, self.directory = arguments, directory
        self.bench = arguments.build / "bench/mpi/steps_bench"
        self.python = arguments.python / "bin/python"
        shared = ROOT.parent / "shared"
        shared = os.environ.get("HEED_SHARED", shared if shared.exists() else ROOT)
        subprocess.run([arguments.build / "bench/training/training_bench", f"--prepare={directory}",
                        f"--shared={shared}"], check=True)
        self.ways = {ONE: self.one, TWO: self.two}
        if self.python.exists():
            variants = ["eager"] if arguments.quick else TORCH_VARIANTS
            self.ways |= {TORCH_VARIANTS[v]: lambda dropout, updates, v=v: self.torch(v, dropout, updates)
                          for v in variants}

    def heed(self, before, threads, dropout, updates):
        done = subprocess.run([*before, self.bench, self.directory, TOKENS, dropout, str(threads), str(updates)],
                              env={**os.environ, **MPI_ENVIRONMENT}, stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)

    def one(self, dropout, updates):
        return self.heed([], 2, dropout, updates)

    def two(self, dropout, updates):
        return self.heed([self.options.mpirun, "-np", "2"], 1, dropout, updates)

    def torch(self, variant, dropout, updates):
        for _ in range(3):  # another process may have taken the port
            answer = self.try_torch(variant, dropout, updates)
            if answer:
                return answer
        raise RuntimeError("DistributedDataParallel ended with an error; --verbose shows it")

    def try_torch(self, variant, dropout, updates):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        cpus = sorted(os.sched_getaffinity(0))
        command = [self.python, ROOT / "bench/mpi/steps_peer.py", self.directory, TOKENS, dropout, variant,
                   str(updates)]
        ranks = []
        for rank in range(2):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                           "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
            ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                          stderr=None if turns.VERBOSE else subprocess.DEVNULL,
                                          preexec_fn=lambda cpu=cpus[rank % len(cpus)]: os.sched_setaffinity(0, {cpu})))
        outputs = [r.communicate()[0] for r in ranks]
        return None if any(r.returncode for r in ranks) else json.loads(outputs[0])

    def disagreement(self):
        """The largest difference of losses of any two ways, without dropout."""
        losses = [way("0", 6)["losses"] for way in self.ways.values()]
        return max(abs(a - b) for other in losses for a, b in zip(losses[0], other, strict=True))

    def measure(self):
        found = {"tokens": int(TOKENS), "disagreement": self.disagreement()}
        if found["disagreement"] > LOSS_TOLERANCE:
            return found
        warm, updates = 4, 8 if self.options.quick else 16
        times = {name: [] for name in self.ways}
        for number in range(2 if self.options.quick else 5):
            for name, way in self.ways.items():
                answer = way(DROPOUT, warm + updates)
                times[name].append(statistics.median(answer["seconds"][warm:]))
                if "version" in answer:
                    found["torch"] = answer["version"]
            print(f"steps, round {number + 1}", file=sys.stderr)
        found["seconds"] = {name: spread(t) for name, t in times.items()}
        found["speedup"] = {name: spread([b / a for a, b in zip(times[TWO], t)])
                            for name, t in times.items() if name != TWO}
        return found


def run(arguments):
    options = ["--quick"] if arguments.quick else []
    network = subprocess.run([arguments.build / "bench/mpi/mpi_bench", *options], stdout=subprocess.PIPE, check=True)
    with tempfile.TemporaryDirectory() as directory:
        steps = Steps(arguments, directory).measure()
    return {"date": datetime.date.today().isoformat(), "commit": commit(), **machine(), "quick": arguments.quick,
            "network": json.loads(network.stdout), "steps": steps}


# Tables --------------------------------------------------------------------------------------------------------------

def rows(head, lines):
    return ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i == 0 else "--:" for i in range(len(head))) + "|",
            *("| " + " | ".join(line) + " |" for line in lines), ""]


def ms(seconds):
    return significant(1e3 * seconds)


def of_formula(counted, formula):
    return f"{counted:,}" if counted == formula else f"{counted:,}, the formula says {formula:,}"


def link_in_words(link):
    return f"{8e-6 * link.bandwidth:.0f} Mbit/s, {1e3 * link.latency:.2g} ms"


def update_rows(network):
    links = [model.Link.of_ping_pong(rows) for rows in network["links"]]
    parameters, batches = network["parameters"], network["batches"]
    lines = []
    for row in network["updates"]:
        n, sent = row["ranks"], row["sent"]
        least = 2 * (n - 1) / n * 4 * parameters
        cells = [str(n), of_formula(sent["bytes"], model.update_bytes(n, parameters, batches)),
                 of_formula(sent["messages"], model.update_messages(n)), f"{sent['most_bytes'] / least:.4f}"]
        for link, seconds in zip(links, row["seconds"]):
            measured = seconds - row["bare_seconds"]
            predicted = model.update_seconds(link, n, parameters, batches)
            cells += [ms(measured), ms(predicted), f"{predicted / measured:.2f}"]
        lines.append(cells)
    head = ["ranks", "bytes an update, all ranks", "messages", "most of a rank, over 2 (N-1)/N 4 P"]
    for link in links:
        head += [f"{link_in_words(link)}: ms", "model", "over measured"]
    return rows(head, lines)


def call_rows(network):
    link = model.Link.of_ping_pong(network["links"][0])
    lines = []
    for row in network["calls"]:
        n, sent = row["ranks"], row["sent"]
        expected = model.call(row["meeting"], row["forward"], n, network["attention"])
        predicted = link.seconds(expected.rounds, expected.bytes / n) + expected.exposed * row["bare_seconds"]
        lines.append([f"{row['meeting']}, {'forward' if row['forward'] else 'backward'}", str(n),
                      of_formula(sent["bytes"], expected.bytes), of_formula(sent["messages"], expected.messages),
                      ms(row["seconds"]), ms(predicted), f"{predicted / row['seconds']:.2f}"])
    return rows(["attention", "ranks", "bytes, all ranks", "messages", f"{link_in_words(link)}: ms", "model",
                 "over measured"], lines)


def outlook_rows():
    lines = []
    for parameters in model.OUTLOOK_PARAMETERS:
        for name, link in model.OUTLOOK_LINKS.items():
            lines.append([f"{parameters / 1e6:.0f} million parameters, {name}",
                          *(ms(model.update_seconds(link, n, parameters, n)) for n in model.OUTLOOK_RANKS)])
    return rows(["ms of communication an update", *(f"{n:,} ranks" for n in model.OUTLOOK_RANKS)], lines)


def step_rows(steps):
    if "seconds" not in steps:
        return [f"Steps were not timed: losses differ by {steps['disagreement']:.1e}.", ""]
    lines = [[name, ms(s["median"]), turns.ratio(steps["speedup"].get(name))] for name, s in steps["seconds"].items()]
    return rows([f"an update of 2 batches of {steps['tokens']:,} tokens, 2 processors", "ms", "over two ranks'"], lines)


def table(result):
    network, steps = result["network"], result["steps"]
    lines = [*update_rows(network), *call_rows(network), *outlook_rows(), *step_rows(steps)]
    torch = f"torch {steps['torch']}; " if "torch" in steps else ""
    lines.append(f"{result['processor']}, {result['cpus']} processors; {torch}{result['date']}, "
                 f"commit {result['commit']}.")
    return "\n".join(lines) + "\n"


def check(result):
    """Ends with an error where the page or the plot is not that of the result."""
    page, picture = (ROOT / name for name in ("docs/machines.md", "docs/images/ranks.svg"))
    if table(result) not in page.read_text(encoding="utf-8"):
        sys.exit(f"{page} has other tables than bench/results/mpi.json; bring it up to date with --table and --page")
    if plot.svg(result["network"]) != picture.read_text(encoding="utf-8"):
        sys.exit(f"{picture} is not the plot of bench/results/mpi.json; write it with --table and --plot")


def main():
    parser = turns.parser(__doc__)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "build/python/venv", help="with torch")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--plot", type=pathlib.Path, help="with --table: write the plot there, as SVG")
    parser.add_argument("--check", action="store_true", help="whether docs/ has the tables and the plot; no more")
    arguments = parser.parse_args()
    if arguments.check:
        return check(json.loads((ROOT / "bench/results/mpi.json").read_text(encoding="utf-8")))
    if arguments.table and arguments.plot:
        result = json.loads(arguments.table.read_text(encoding="utf-8"))
        arguments.plot.write_text(plot.svg(result["network"]), encoding="utf-8")
    return turns.finish(arguments, "mpi", run, table)


if __name__ == "__main__":
    main()
