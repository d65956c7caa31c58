"""Others' tests with heed in the place of their attention, beside the same tests without.

    run.py pytorch test/test_transformers.py         PyTorch's, under heed.torch.patch()
    run.py transformers tests                        transformers', heed under the name "sdpa"

Prints the counts, and the tests that fail with heed alone, of which there must be none.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

HERE = pathlib.Path(__file__).parent
LIMIT = 10 << 30  # bytes of memory: one default configuration has more weights than a machine has room
# torch's conftest.py is for older pytests. Scaled positions have nothing to do with attention, and build maps of 20 GB.
COMMANDS = {"pytorch": ("patched", lambda path: [path, "--noconftest", "-k", "cpu or CPU"]),
            "transformers": ("instead", lambda path: [HERE / "transformers_common.py", "-k", "not rope_scaling"])}


def outcomes(arguments, environment):
    """{test: "passed", "failed" or "skipped"}."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        command = ["bash", "-c", f'ulimit -v {LIMIT >> 10}; exec "$@"', "bash", sys.executable, "-B", "-m", "pytest",
                   "-q", "-p", "no:cacheprovider", "--tb=no", f"--junitxml={report}", *arguments]
        log = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1", "HEED_NUM_THREADS": "1",
                                           "HF_HUB_OFFLINE": "1", **environment},
                             cwd=folder, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"pytest ended with {log.returncode}:\n{log.stdout[-3000:]}{log.stderr[-3000:]}")
        print(*(line for line in log.stdout.splitlines() if line.startswith("calls of heed's")), flush=True)
        cases = ElementTree.parse(report).iter("testcase")
        return {f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases}


def outcome(case):
    tags = {child.tag for child in case}
    return "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"


def main(which, path):
    path = pathlib.Path(path).resolve()
    plugin, arguments = COMMANDS[which]
    arguments = [str(x) for x in arguments(path)]
    environment = {"HEED_TESTS": str(path), "PYTHONPATH": str(HERE)}
    plain = outcomes(arguments, environment)
    ours = outcomes([*arguments, "-p", plugin], environment)
    for name, found in (("without heed", plain), ("with heed", ours)):
        counts = {key: list(found.values()).count(key) for key in ("passed", "failed", "skipped")}
        print(f"{which} {name}: " + ", ".join(f"{n} {key}" for key, n in counts.items()))
    news = sorted(test for test, how in ours.items() if how == "failed" and plain.get(test) != "failed")
    lost = sorted(plain.keys() - ours.keys())
    for test in [*news, *lost]:
        print("newly failed:", test)
    return 1 if news or lost or "passed" not in ours.values() else 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
