"""The code of docs/torch.md runs, from top to bottom."""
import pathlib
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/torch.md"


def test_the_page_runs():
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
