"""A plugin of pytest: every test runs under heed.torch.patch()."""
import heed.torch


def pytest_configure():
    heed.torch.patch()


def pytest_terminal_summary(terminalreporter):
    calls = heed.torch.patched_calls()
    terminalreporter.write_line(f"calls of heed's kernels: {calls.forward} forward, {calls.backward} backward")
