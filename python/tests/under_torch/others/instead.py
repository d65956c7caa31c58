"""A plugin of pytest: heed's attention under the name "sdpa", which is the default of transformers."""
import heed.transformers
from transformers import AttentionInterface

calls = 0


def attention_forward(*operands, **options):
    global calls
    calls += 1
    return heed.transformers.attention_forward(*operands, **options)


def pytest_configure():
    AttentionInterface.register("sdpa", attention_forward)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"calls of heed's attention: {calls}")
