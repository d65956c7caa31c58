"""Chat templates that jinja2 runs for heed write what transformers writes."""
import pathlib
import sys

import heed
import heed._chat
import pytest

transformers = pytest.importorskip("transformers")
pytest.importorskip("jinja2")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pretrained_cases import ROOT, WITHOUT  # noqa: E402  of python/tests
from test_chat_templates import CONVERSATION, MARKUP, TEMPLATES, WRITTEN, directory_with  # noqa: E402

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WITHOUT)


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_are_those_of_transformers(name, tmp_path):
    directory = str(directory_with(MARKUP + TEMPLATES[name][0], tmp_path / "model"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    write = heed._chat._writer_of_jinja2(directory, None)
    for count in (4, 2):
        messages = [{"role": role, "content": content} for role, content in CONVERSATION[:count]]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert text.startswith(WRITTEN) and write(CONVERSATION[:count]) == text
