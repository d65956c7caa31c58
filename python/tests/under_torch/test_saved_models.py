"""Other makers' models that heed changed and saved: transformers loads them, and computes the same."""
import json
import pathlib
import sys

import heed
import numpy as np
import pytest
from heed import nn

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pretrained_cases import ROOT, WITHOUT, Case, difference, names  # noqa: E402  of python/tests

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WITHOUT)


def changed(model):
    """Each number becomes another one, as training makes them."""
    model.module.to("float32")
    random = np.random.default_rng(5)
    for values in model.module.state_dict().values():
        values *= 1 + 0.1 * random.standard_normal(values.shape).astype(np.float32)


def heeds(model, case):
    """Logits or states of the first row."""
    module = model.module
    with nn.no_grad():
        if case.kind == "ImageEncoder":
            return module.logits(case.expected["pixel_values"]).numpy()
        if case.kind == "SpeechTransformer":
            target = case.rows("decoder_input_ids", "decoder_attention_mask")[0]
            return module.logits(case.expected["input_features"][:1], nn.TokenBatch.pad([target], 0)).numpy()
    ids = case.rows("input_ids", "attention_mask")[0]
    if case.kind == "Translator":
        return model.read(ids, case.rows("decoder_input_ids", "decoder_attention_mask")[0]).logits[None]
    reading = model.read(ids, states=True)
    return (reading.encoder_states[-1] if reading.logits is None else reading.logits)[None]


def theirs(model, case):
    if case.kind == "ImageEncoder":
        given = {"pixel_values": case.expected["pixel_values"]}
    elif case.kind == "SpeechTransformer":
        given = {"input_features": case.expected["input_features"][:1]}
    else:
        given = {"input_ids": np.array([case.rows("input_ids", "attention_mask")[0]])}
    if case.kind in ("Translator", "SpeechTransformer"):
        given["decoder_input_ids"] = np.array([case.rows("decoder_input_ids", "decoder_attention_mask")[0]])
    with torch.no_grad():
        result = model(**{name: torch.from_numpy(np.array(values)) for name, values in given.items()})
    return (result.logits if "logits" in result else result.last_hidden_state).numpy()


@pytest.mark.parametrize("name", names("LanguageModel", "Translator", "TextEncoder", "ImageEncoder",
                                       "SpeechTransformer"))
def test_transformers_loads_what_heed_saved(name, tmp_path):
    case, model = Case(name), heed.load(ROOT / name)
    before = heeds(model, case)
    changed(model)
    model.save(tmp_path / "saved")
    again = heed.load(tmp_path / "saved")  # in the dtype of the file
    wanted = heeds(again, case)
    assert difference(wanted, before) > 1e-3
    architecture = json.loads((tmp_path / "saved/config.json").read_text(encoding="utf-8"))["architectures"][0]
    other = getattr(transformers, architecture).from_pretrained(tmp_path / "saved", attn_implementation="eager",
                                                                dtype=torch.float32).eval()
    assert difference(theirs(other, case), wanted) < 1e-4


@pytest.mark.parametrize("name", names("LanguageModel", "TextEncoder"))
def test_tokenizers_are_saved_with_them(name, tmp_path):
    case, model = Case(name), heed.load(ROOT / name)
    model.save(tmp_path / "saved")
    other = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for text in ("We will see her.", "Go home!", "¿Dónde está el niño?", "naïve \U0001f415\u200d\U0001f9ba x", ""):
        wanted, encoding = other(text, return_offsets_mapping=True), model.tokenizer.encode(text)
        assert encoding.ids == wanted["input_ids"]
        assert encoding.offsets == wanted["offset_mapping"]  # in characters
