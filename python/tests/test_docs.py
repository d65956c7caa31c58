"""The Python code of README.md and of these pages runs from top to bottom, except blocks marked as not run."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/from_pytorch.md", "docs/python.md", "docs/tutorial.md"])
def test_the_page_runs(page, monkeypatch):
    monkeypatch.chdir(ROOT)  # it names the bundled model
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^(<!-- docs: not run -->\n)?```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert any(not left_alone for left_alone, _ in blocks)
    names = {}
    for left_alone, block in blocks:
        code = compile(block, page, "exec")
        if not left_alone:
            exec(code, names)
