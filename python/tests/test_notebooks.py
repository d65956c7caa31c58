"""examples/notebooks/: they run from top to bottom and end with something to look at; committed without outputs."""
import ast
import json
import pathlib
import re

import heed
import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parents[2] / "examples/notebooks").glob("*.ipynb"))


def cells(path, kind):
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def evaluated(source, where, names):
    """Runs a cell and gives what its last line shows."""
    body = ast.parse(source, where).body
    shown = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), where, "exec"), names)
    return eval(compile(shown, where, "eval"), names) if shown else None


def test_there_are_notebooks():
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    names = {}
    for cell in cells(path, "code"):
        shown = evaluated("".join(cell["source"]), path.name, names)
    assert isinstance(shown, (heed.AttentionMap, heed.AttentionPage)) and "<iframe" in shown._repr_html_()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_cleared(path):
    """A page is 130 kB, and what is committed would be that of another version: readers run the cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None and cell["metadata"] == {}
    assert path.stat().st_size < 20_000
    assert path.read_text(encoding="utf-8") == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)]+)\)", "".join("".join(cell["source"]) for cell in cells(path, "markdown")))
    assert links and not [link for link in links if not (path.parent / link).exists()]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_numbers_are_held_by_asserts(path):
    assert sum("assert " in "".join(cell["source"]) for cell in cells(path, "code")) >= 4
