"""The blocks "truncation" and "padding" of tokenizer.json, left there by the program that saved it, change nothing, but
for the side on which texts that are too long are cut."""
import json
import shutil

import heed
import numpy as np
import pytest
from pretrained_cases import ROOT, WITHOUT

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WITHOUT)
TEXTS = ["My brother was not at home when the dog barked.", "He sleeps."]
CUT = {"max_length": 6, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
FIXED = {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
         "pad_token": "[PAD]"}
LONGEST = {**FIXED, "strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 8}
BLOCKS = {"truncation": {"truncation": CUT, "padding": None}, "padding": {"truncation": None, "padding": FIXED},
          "both": {"truncation": {**CUT, "strategy": "OnlyFirst", "stride": 2}, "padding": LONGEST}}
CALLS = {  # by a model's directory: what a call gives, as arrays, texts and numbers
    "bert": lambda model: [model.embed(TEXTS), *model.embed(TEXTS, tokens=True),
                           model.fill("My brother was not at [MASK] today.")],
    "sentence-encoder": lambda model: [model.embed(TEXTS), model.embed(TEXTS[0])],
    "bert-classifier": lambda model: [model.classify(TEXTS), model.classify(TEXTS, TEXTS[::-1])],
    "qwen2": lambda model: [model.embed(TEXTS), model.score(TEXTS),
                            model.generate(TEXTS[0], max_tokens=5, temperature=0)],
    "t5": lambda model: [model.embed(TEXTS), model.translate(TEXTS)],
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", CALLS)
def test_blocks_of_the_saving_program_change_nothing(name, block, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(ROOT / name, directory)
    path = directory / "tokenizer.json"
    parts = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**parts, **BLOCKS[block]}), encoding="utf-8")
    model, expected = heed.load(directory), heed.load(ROOT / name)
    for ours, theirs in zip(CALLS[name](model), CALLS[name](expected), strict=True):
        assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs
    for text in TEXTS:
        ids = heed.load_tokenizer(ROOT / name).encode(text).ids
        assert heed.load_tokenizer(directory).encode(text).ids == ids
        if name != "t5":
            assert model.tokenizer.encode(text).ids == model.reading_ids(text) == ids


def test_the_side_that_is_cut(tmp_path):
    """As in transformers, the block names it if tokenizer_config.json does not."""
    directory = tmp_path / "model"
    shutil.copytree(ROOT / "sentence-encoder", directory)
    for name, changes in (("tokenizer.json", {"truncation": {**CUT, "direction": "Left"}}),
                          ("sentence_bert_config.json", {"max_seq_length": 6})):
        path = directory / name
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")
    path = directory / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings.pop("truncation_side", None)
    vectors = []
    for side in ({}, {"truncation_side": "left"}, {"truncation_side": "right"}):
        path.write_text(json.dumps({**settings, **side}), encoding="utf-8")
        with pytest.warns(UserWarning, match="longer than the model takes"):
            vectors.append(heed.load(directory).embed(TEXTS[0]))
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])
