"""The command heed: becomes the compiled program. Beside the package, so that neither heed nor NumPy is imported."""
import os
import signal
import sys


def main() -> None:
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and by what it becomes
        signal.signal(ignored, signal.SIG_DFL)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "heed", "heed")
    os.execv(program, ["heed", *sys.argv[1:]])
