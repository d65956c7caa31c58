"""Other makers' models: what PyTorch makes of them, saved as they came, trained, bad input."""
import copy
import json
import multiprocessing
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import threading

import heed
import numpy as np
import pytest
from heed import nn
from heed.nn import functional as F
from pretrained_cases import ROOT, WITHOUT, Case, difference, names, read_safetensors
from test_types import mypy

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WITHOUT)
KINDS = ("LanguageModel", "Translator", "TextEncoder", "ImageEncoder", "SpeechTransformer")


def load(name):
    return heed.load(ROOT / name)


# ---- What PyTorch makes of them

@pytest.mark.parametrize("name", names(*KINDS))
def test_every_directory_is_loaded_as_what_it_is(name):
    case, model = Case(name), load(name)
    assert type(model).__name__ == case.kind and isinstance(model, heed.Model)
    assert model.model_type == case.facts["model_type"] == model.config["model_type"]
    assert isinstance(model.module, getattr(nn, "Transformer" if case.kind == "Translator" else case.kind))
    assert model.module is model.module and not model.module.training
    assert model.num_parameters == sum(np.prod(parameter.shape, dtype=int) for parameter in model.module.parameters())
    assert repr(model) == f"{case.kind}({model.model_type}, {model.num_parameters:,} parameters)"
    if case.kind == "ImageEncoder":
        with pytest.raises(heed.UsageError, match="reads no text"):
            model.tokenizer
    else:
        assert len(model.tokenizer) > 100 and repr(model.tokenizer) == f"Tokenizer({len(model.tokenizer)} tokens)"


@pytest.mark.parametrize("name", names("LanguageModel", "Translator", "TextEncoder"))
def test_tokenizers_give_the_ids_of_their_makers(name):
    case, model = Case(name), load(name)
    tokenizer = heed.load_tokenizer(ROOT / name)
    seconds = case.facts.get("second_texts") or [None] * len(case.facts["texts"])
    for text, second, ids in zip(case.facts["texts"], seconds, case.facts["token_ids"]):
        if case.kind == "Translator":
            assert model.source_tokenizer.encode(text["source"]).ids == ids == tokenizer.encode(text["source"]).ids
            text = text["source"]
        elif second is not None:
            assert tokenizer.encode_pair(text, second).ids == ids
        else:
            assert model.tokenizer.encode(text).ids == ids == tokenizer.encode(text).ids == model.reading_ids(text)
        encoding = tokenizer.encode(text)
        stood_for = {place for begin, end in encoding.offsets for place in range(begin, end)}
        assert {place for place, character in enumerate(text) if character != " "} <= stood_for <= set(range(len(text)))
        assert all(offsets == (0, 0) for offsets, added in zip(encoding.offsets, encoding.added) if added)


@pytest.mark.parametrize("name", names("LanguageModel", "TextEncoder"))
def test_states_maps_and_logits_of_texts(name):
    case, model = Case(name), load(name)
    decoder = case.kind == "LanguageModel"
    for row, ids in enumerate(case.rows("input_ids", "attention_mask")):
        if case.expected.get("token_type_ids", np.zeros((9, 9)))[row].any():
            continue  # a pair: below
        reading = model.read(ids, states=True, weights=True)
        states = reading.decoder_states if decoder else reading.encoder_states
        assert difference(states[-1], case.want("last_hidden_state", row, len(ids))) < 1e-4
        for layer in range(len(states) - 1):
            assert difference(states[layer], case.want(f"hidden.{layer}", row, len(ids))) < 1e-4
            maps = reading.weights[f"{'decoder' if decoder else 'encoder'}_{layer}"]
            assert np.abs(maps - case.want(f"attention.{layer}", row, len(ids))).max() < 1e-5
        if "logits" in case.expected:
            logits = case.expected["logits"][row]
            assert difference(reading.logits, logits if logits.ndim == 1 else logits[:len(ids)]) < 1e-4
        if decoder:
            np.testing.assert_array_equal(model.logits(ids), reading.logits)


def test_logits_of_a_pair_of_texts():
    case, model = Case("bert-classifier"), load("bert-classifier")
    ids = case.rows("input_ids", "attention_mask")
    with nn.no_grad():
        logits = model.module.logits(nn.TokenBatch.pad(ids, 0), case.expected["token_type_ids"]).numpy()
    assert difference(logits, case.expected["logits"]) < 1e-4
    p = np.exp(case.expected["logits"].astype(np.float64))
    p /= p.sum(-1, keepdims=True)
    for found, wanted in zip(model.classify(case.facts["texts"], case.facts["second_texts"]), p):
        assert [one.label for one in found] == [model.labels[i] for i in np.argsort(-wanted)]
        np.testing.assert_allclose([one.score for one in found], sorted(wanted)[::-1], atol=1e-4)
    assert model.classify(case.facts["texts"][1], case.facts["second_texts"][1])[0].score == pytest.approx(
        p[1].max(), abs=1e-4)
    assert model.task == "text_classes" and len(model.labels) == p.shape[1]


@pytest.mark.parametrize("name", names("Translator"))
def test_states_maps_and_logits_of_translators(name):
    case, model = Case(name), load(name)
    targets = case.rows("decoder_input_ids", "decoder_attention_mask")
    for row, ids in enumerate(case.rows("input_ids", "attention_mask")):
        target = targets[row]
        reading = model.read(ids, target, states=True, weights=True)
        assert difference(reading.logits, case.want("logits", row, len(target))) < 1e-4
        assert difference(reading.encoder_states[-1], case.want("encoder_last_hidden_state", row, len(ids))) < 1e-4
        assert difference(reading.decoder_states[-1], case.want("last_hidden_state", row, len(target))) < 1e-4
        for map_name, maps in reading.weights.items():
            part, layer = map_name.split("_")
            wanted = case.expected[f"{part}_attention.{layer}"][row][:, :maps.shape[1], :maps.shape[2]]
            assert np.abs(maps - wanted).max() < 1e-5
        np.testing.assert_array_equal(model.logits(ids, target[1:]), reading.logits)


def test_logits_of_pictures():
    case, model = Case("vit"), load("vit")
    assert difference(model.logits(case.expected["pixel_values"]), case.expected["logits"]) < 1e-4
    record = nn.AttentionRecord()
    with nn.no_grad():
        states = model.module.hidden(case.expected["pixel_values"], record).numpy()
    assert difference(states, case.expected["last_hidden_state"]) < 1e-4
    for layer, maps in enumerate(record.encoder):
        assert np.abs(maps - case.expected[f"attention.{layer}"]).max() < 1e-5
    picture = np.random.default_rng(1).integers(0, 256, (40, 50, 3), np.uint8)
    pixels = model.prepare(picture)
    assert pixels.dtype == np.float32 and pixels.shape == (1, *case.expected["pixel_values"].shape[1:])
    [logits] = model.logits(pixels)
    found = model.classify(picture)
    assert [one.label for one in found] == [model.labels[i] for i in np.argsort(-logits)]
    assert sum(one.score for one in found) == pytest.approx(1)
    map = model.attend(picture)
    record = nn.AttentionRecord()
    with nn.no_grad():
        model.module.hidden(pixels, record)
    np.testing.assert_array_equal(map.weights, np.concatenate(record.encoder))
    rows, columns = map.patches
    assert map.keys == map.queries and map.keys[0] == "[CLS]" and map.keys[-1] == f"{rows},{columns}"
    assert map.picture.shape == (*pixels.shape[2:], 3) and map.picture.dtype == np.uint8
    assert map[0].over_picture((1, 2)).weights.shape == (map.weights.shape[1], rows, columns)


def test_logits_of_speech():
    case, model = Case("whisper"), load("whisper")
    mel = case.expected["input_features"]
    for row, target in enumerate(case.rows("decoder_input_ids", "decoder_attention_mask")):
        record = nn.AttentionRecord()
        with nn.no_grad():
            memory = model.module.encode(mel[row:row + 1], record)
            states = model.module.decode(nn.TokenBatch.pad([target], 0), memory, record)
            logits = model.module.logits_of(states).numpy()[0]
            again = model.module.logits(mel[row:row + 1], nn.TokenBatch.pad([target], 0)).numpy()[0]
        assert difference(memory.numpy()[0], case.expected["encoder_last_hidden_state"][row]) < 1e-4
        assert difference(logits, case.want("logits", row, len(target))) < 1e-4
        np.testing.assert_array_equal(logits, again)
        for layer, maps in enumerate(record.cross):
            assert np.abs(maps[0] - case.expected[f"cross_attention.{layer}"][row][:, :len(target)]).max() < 1e-5
        # Each token is the likeliest behind those before it.
        written = model.transcribe(mel[row:row + 1], target[:2], max_tokens=4, stop=[])
        with nn.no_grad():
            batch = nn.TokenBatch.pad([[*target[:2], *written]], 0)
            likeliest = model.module.logits(mel[row:row + 1], batch).numpy()[0].argmax(-1)
        assert written == likeliest[1:-1].tolist() and len(written) == 4
        stopped = model.transcribe(mel[row:row + 1], target[:2], max_tokens=4, stop=[written[2]])
        assert stopped == written[:written.index(written[2])]


@pytest.mark.parametrize("name", names("LanguageModel"))
def test_texts_go_on_as_those_of_their_makers(name):
    case, model = Case(name), load(name)
    for wanted in case.facts["greedy"]:
        text, most = case.facts["texts"][wanted["row"]], case.facts["greedy_with"]["max_new_tokens"]
        written = model.generate(text, max_tokens=most, temperature=0)
        assert written.strip() == wanted["text"].strip()
        stop = model._made.stop()
        ids = model.module.generate(model.reading_ids(text), max_tokens=most, temperature=0, stop=stop)
        assert ids == [id for id in wanted["ids"] if id not in stop]
        assert "".join(model.generate(text, max_tokens=most, temperature=0, stream=True)) == written


@pytest.mark.parametrize("name", names("Translator"))
def test_translations_are_those_of_their_makers(name):
    case, model = Case(name), load(name)
    language = {"target_language": case.facts["target_language"]} if "target_language" in case.facts else {}
    for wanted in case.facts["greedy"]:
        text = case.facts["texts"][wanted["row"]]["source"]
        found = model.translate(text, beam=1, max_length=case.facts["greedy_with"]["max_new_tokens"], split=False,
                                **language)
        assert found == wanted["text"]
    for wanted in case.facts["beam"]:
        text = case.facts["texts"][wanted["row"]]["source"]
        options = case.facts["beam_with"]
        found = model.translate(text, beam=options["num_beams"], n_best=options["num_beams"], split=False,
                                length_penalty=options["length_penalty"], max_length=options["max_new_tokens"],
                                **language)
        assert [one.text for one in found] == [beam["text"] for beam in wanted["beams"]]
        np.testing.assert_allclose([one.score for one in found], [beam["score"] for beam in wanted["beams"]], atol=1e-4)
        scored = model.score(text, found[0].text, **language)
        assert scored.text == found[0].text and np.isfinite(scored.score)


def test_search_is_as_the_directory_says(tmp_path):
    text = Case("marian").facts["texts"][0]["source"]
    shutil.copytree(ROOT / "marian", tmp_path / "marian")
    config = tmp_path / "marian/generation_config.json"
    settings = json.loads(config.read_text(encoding="utf-8")) | {"num_beams": 3, "length_penalty": 0.5}
    config.write_text(json.dumps(settings), encoding="utf-8")
    model = heed.load(tmp_path / "marian")
    assert model.translate(text, n_best=1) == model.translate(text, n_best=1, beam=3, length_penalty=0.5)
    assert model.translate(text, n_best=1) != model.translate(text, n_best=1, beam=3, length_penalty=1.0)


@pytest.mark.parametrize("name", ["sentence-encoder", "sentence-encoder-cls"])
def test_vectors_of_sentences(name):
    case, model = Case(name), load(name)
    texts = case.facts["texts"]
    with pytest.warns(UserWarning, match="longer than the model takes"):
        vectors = model.embed(texts)
    wanted = case.expected["sentence_embedding"].astype(np.float64)
    assert (1 - (vectors * wanted).sum(-1) < 1e-6).all()
    np.testing.assert_allclose(model.embed(texts[0]), vectors[0], atol=1e-6)
    states = model.embed(texts[0], tokens=True)
    assert difference(states, case.want("last_hidden_state", 0, len(states))) < 1e-4
    assert model.task is None and model.embed([]).shape == (0, vectors.shape[1])
    with pytest.raises(heed.UsageError, match="has no head"):
        model.fill("[MASK]")


@pytest.mark.parametrize("name", ["gpt2", "t5", "mpnet"])
def test_vectors_of_others_are_means_of_their_states(name):
    case, model = Case(name), load(name)
    texts = [text if isinstance(text, str) else text["source"] for text in case.facts["texts"]]
    states = model.embed(texts, tokens=True)
    for text, one in zip(texts, states):
        ids = model.reading_ids(text)
        reading = model.read(ids, [0] if name == "t5" else None, states=True)
        last = reading.decoder_states[-1] if name == "gpt2" else reading.encoder_states[-1]
        np.testing.assert_allclose(one, last, atol=1e-5)
    np.testing.assert_allclose(model.embed(texts), [one.mean(0) for one in states], atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta", "mpnet"])
def test_masks_are_filled_with_what_is_likeliest(name):
    model = load(name)
    assert model.task == "masked_words"
    mask = "<mask>" if model.tokenizer.id_of("<mask>") is not None else "[MASK]"
    text = f"We {mask} see her."
    [filled] = model.fill(text, top=3)
    ids = model.reading_ids(text)
    row = model.read(ids).logits[ids.index(model.tokenizer.id_of(mask))].astype(np.float64)
    p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    assert [one.id for one in filled] == np.argsort(-p)[:3].tolist()
    np.testing.assert_allclose([one.probability for one in filled], sorted(p)[:-4:-1], atol=1e-5)
    assert len({one.text for one in filled}) == 3 and all(mask not in one.text for one in filled)
    assert [one.token for one in filled] == [model.tokenizer.written(one.id) for one in filled]
    assert model.fill([text], top=3) == [[filled]]
    [other] = model.fill(text.replace(mask, "*"), top=3, mask="*")
    assert other == filled
    assert model.fill("We see her.") == []
    assert model.fill(["We see her.", text], top=3) == [[], [filled]]


# ---- What attends to what

@pytest.mark.parametrize("name", ["bert", "llama"])
def test_attention_of_a_text(name):
    model = load(name)
    attended = model.attend("We will see her.")
    reading = model.read(model.reading_ids("We will see her."), weights=True)
    np.testing.assert_array_equal(attended.weights, np.stack(list(reading.weights.values())))
    assert len(attended.queries) == len(model.reading_ids("We will see her."))


def test_attention_of_a_translation():
    page = load("marian").attend("We will see her tomorrow.")
    assert list(page.maps) == ["Encoder", "Decoder", "Cross"] and page.text == load("marian").translate(
        "We will see her tomorrow.")


# ---- Conversations

def test_a_conversation_goes_on(tmp_path):
    model = load("gpt2")
    chat = heed.Chat(model, system="Be brief.", max_tokens=5, temperature=0)
    first = chat.answer("Who are you?")
    second = chat.answer("And where?")
    assert chat.messages == [("system", "Be brief."), ("user", "Who are you?"), ("assistant", first),
                             ("user", "And where?"), ("assistant", second)]
    again = heed.Chat(model, template="plain", system="Be brief.", max_tokens=5, temperature=0)
    assert [again.answer("Who are you?"), again.answer("And where?")] == [first, second]
    with pytest.raises(heed.UsageError, match="chat"):
        heed.Chat(model, template="none")
    with pytest.raises(heed.UsageError, match="no token of the model's"):
        heed.Chat(model, template="chatml")
    with pytest.raises(TypeError, match="pass a heed.LanguageModel"):
        heed.Chat(load("bert"))
    with pytest.raises(TypeError, match="pickle: a Chat"):
        pickle.dumps(chat)


def with_template(directory, template):
    shutil.copytree(ROOT / "gpt2", directory)
    (directory / "chat_template.jinja").write_text(template)
    return heed.load(directory)


UNSUPPORTED = {"when it is parsed": "{% with x = messages[-1].content %}{{ x }}{% endwith %}:",
               "when it is run": "{{ '%s:' % messages[-1].content }}"}


@pytest.mark.parametrize("template", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_jinja2_runs_what_heed_does_not(template, tmp_path):
    pytest.importorskip("jinja2", minversion="3.1.6")
    model = with_template(tmp_path / "model", template)
    chat = heed.Chat(model, max_tokens=5, temperature=0)
    same = heed.Chat(model, template=lambda messages: messages[-1].content + ":", max_tokens=5, temperature=0)
    for said in ("Who are you?", "And where?"):
        assert chat.answer(said) == same.answer(said)
    assert chat.messages == same.messages


@pytest.mark.parametrize("template", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_without_jinja2_the_error_says_so(template, tmp_path, monkeypatch):
    monkeypatch.setattr("heed._chat._writer_of_jinja2", lambda path, base: None)
    model = with_template(tmp_path / "model", template)
    with pytest.raises(heed.UnsupportedTemplateError, match="heed does not run the template .*name one of chatml"):
        heed.Chat(model, max_tokens=5).answer("Who are you?")


# The kind of the error decides, whatever its text says.
@pytest.mark.parametrize("template", [
    "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", "{{ 'a' * 999999999 }}",
    "{{ raise_exception('chat: heed does not run the template') }}"])
def test_jinja2_runs_no_template_that_heed_refuses(template, tmp_path, monkeypatch):
    monkeypatch.setattr("heed._chat._writer_of_jinja2", lambda path, base: pytest.fail("jinja2 was asked"))
    model = with_template(tmp_path / "model", template)
    with pytest.raises(heed.UsageError) as raised:
        heed.Chat(model, max_tokens=5).answer("Who are you?")
    assert type(raised.value) is heed.UsageError


# ---- Saved as they came

@pytest.mark.parametrize("name", names(*KINDS))
def test_saved_and_loaded_again(name, tmp_path):
    model = load(name)
    model.save(tmp_path / "saved")
    again = heed.load(tmp_path / "saved")
    assert again.config == model.config and type(again) is type(model)
    pytest.importorskip("ml_dtypes")
    state, other = model.state_dict(), again.state_dict()
    assert state.keys() == other.keys()
    for parameter, values in state.items():
        if model.model_type.startswith("gemma") and "norm" in parameter:
            np.testing.assert_allclose(values, other[parameter], rtol=2e-7)  # 1 + weight, the factor, rounds
        else:
            assert values.dtype == other[parameter].dtype and (values == other[parameter]).all()
    before, after = ({file: values for path in sorted(directory.glob("model*.safetensors"))
                      for file, values in read_safetensors(path).items()}
                     for directory in (ROOT / name, tmp_path / "saved"))
    assert after.keys() <= before.keys()
    for tensor, values in after.items():
        assert values.dtype == before[tensor].dtype
        np.testing.assert_allclose(values, before[tensor], rtol=0, atol=2e-7)
    with pytest.raises(heed.UsageError, match=r"save: .*saved has files \(.*for one\); give a new or an empty directory"):
        model.save(tmp_path / "saved")
    with pytest.raises(heed.UsageError, match="keeps the dtypes that it came in; leave it out"):
        model.save(tmp_path / "other", dtype="float16")


def test_saving_over_a_model(tmp_path, monkeypatch):
    old, new = tmp_path / "old", load("gpt2")
    shutil.copytree(ROOT / "marian", old)
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    for overwrite in (False, True):  # another model's
        with pytest.raises(heed.UsageError, match=r"save: .*old has files \(.*for one\); give a new or an empty directory"):
            new.save(old, overwrite=overwrite)
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    again = heed.load(old)  # trained further and saved where it came from
    again.module.named_parameters()[-1][1].numpy()[:] += 1
    for name in ("NOTICE", "README.md", "generation_config.json", "notes.txt"):
        (old / name).write_text("{}")  # since it was loaded
    with pytest.raises(heed.UsageError, match="save: .*old holds the model that was loaded; pass overwrite=True"):
        again.save(old)
    again.save(old, overwrite=True)
    assert {path.name for path in old.iterdir() if not path.name.startswith(".")} == {
        *before, "NOTICE", "README.md", "generation_config.json", "notes.txt"}
    assert (old / "README.md").read_text() == (old / "generation_config.json").read_text() == "{}"
    name = again.module.named_parameters()[-1][0]
    np.testing.assert_array_equal(heed.load(old).state_dict()[name], again.state_dict()[name])
    # A relative path is that of the directory at loading.
    monkeypatch.chdir(tmp_path)
    model = heed.load("old")
    shutil.copytree(ROOT / "gpt2", tmp_path / "below/old")
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(heed.UsageError, match="give a new or an empty directory"):
        model.save("old", overwrite=True)
    model.save("../old", overwrite=True)
    (old / "pytorch_model.bin").touch()
    with pytest.raises(heed.UsageError, match="holds pytorch_model.bin, weights of the old model"):
        again.save(old, overwrite=True)


def test_shards_are_replaced_by_one_file(tmp_path):
    sharded = next(path.parent for path in sorted(ROOT.glob("*/model.safetensors.index.json")))
    shutil.copytree(sharded, tmp_path / "m")
    model = heed.load(tmp_path / "m")
    model.save(tmp_path / "m", overwrite=True)
    assert [path.name for path in (tmp_path / "m").glob("model*")] == ["model.safetensors"]
    assert heed.load(tmp_path / "m").num_parameters == model.num_parameters


@pytest.mark.parametrize("call", [pickle.dumps, copy.deepcopy])
def test_what_stays_in_its_directory(call):
    model = load("gpt2")
    with pytest.raises(TypeError, match=r"pass the path, .*models/gpt2, and call heed.load\(\) there"):
        call(model)
    with pytest.raises(TypeError, match=r"pass the path, and call heed.load_tokenizer\(\) there"):
        call(model.tokenizer)
    for module in (model.module, load("bert").module, load("vit").module, load("whisper").module, load("t5").module,
                   model.make_adapters()):
        with pytest.raises(TypeError, match="pickle: the module is of another maker's model"):
            call(module)


# ---- Training

@pytest.mark.parametrize("name", names("LanguageModel"))
def test_loss_is_that_of_pytorch(name):
    case, model = Case(name), load(name)
    module = model.module
    module.to("float32")
    loss = module.loss(case.rows("input_ids", "attention_mask"))
    assert loss.item() == pytest.approx(case.facts["loss"], abs=1e-5)
    loss.backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_gradients_are_those_of_pytorch():
    case, model = Case("llama"), load("llama")
    model.module.to("float32")
    model.module.loss(case.rows("input_ids", "attention_mask")).backward()
    gradients = {name: parameter.grad for name, parameter in model.module.named_parameters()}
    wanted = {name.removeprefix("grad."): value for name, value in case.expected.items() if name.startswith("grad.")}
    compared = 0
    for name, value in wanted.items():
        if name == "model.norm.weight":
            assert difference(gradients["norm.weight"], value) < 1e-3
            compared += 1
        if name.endswith("input_layernorm.weight"):
            layer = name.split(".")[2]
            assert difference(gradients[f"layers.{layer}.norm1.weight"], value) < 1e-3
            compared += 1
    assert compared == 2


def trained(module, loss_of, steps=8, rate=3e-3):
    optimiser = nn.AdamW(module)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = loss_of()
        loss.backward()
        optimiser.step(rate)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ["gpt2", "marian", "bert", "vit", "whisper"])
def test_training_goes_on_in_the_model_and_is_saved(name, tmp_path):
    case, model = Case(name), load(name)
    model.module.to("float32")
    before = {parameter: values.copy() for parameter, values in model.state_dict().items()}
    expected = case.expected

    def loss(module=model.module):
        if name == "gpt2":
            return module.loss(case.rows("input_ids", "attention_mask"))
        if name == "marian":
            targets = [[id for id in row if id >= 0][:-1] for row in expected["labels"].tolist()]
            return module.loss(case.rows("input_ids", "attention_mask"), targets)
        if name == "bert":
            logits = module.logits(nn.TokenBatch.pad(case.rows("input_ids", "attention_mask"), 0))
            return F.cross_entropy(logits, expected["labels"])
        if name == "vit":
            return F.cross_entropy(module.logits(expected["pixel_values"]), np.array([0, 1]))
        targets = case.rows("decoder_input_ids", "decoder_attention_mask")
        return F.cross_entropy(module.logits(expected["input_features"], nn.TokenBatch.pad(targets, 0)),
                               expected["decoder_input_ids"])

    if "loss" in case.facts:
        assert loss().item() == pytest.approx(case.facts["loss"], abs=1e-5)
    losses = trained(model.module.train(), loss)
    assert losses[-1] < 0.9 * losses[0]
    model.module.eval()
    changed = model.state_dict()
    assert any((changed[parameter] != values).any() for parameter, values in before.items())
    model.save(tmp_path / "tuned")
    again = heed.load(tmp_path / "tuned")
    again.module.to("float32")
    rounding = 1e-3 if case.facts["weights"] == "F16" else 1e-6
    with nn.no_grad():
        assert loss(again.module).item() == pytest.approx(loss().item(), rel=rounding)


def test_a_model_in_training_is_not_read(tmp_path):
    model, translator, encoder = load("gpt2"), load("marian"), load("bert")
    for one in (model, translator, encoder):
        one.module.train()
    stream = load("gpt2").generate("We", stream=True)
    assert next(stream)
    for call in (lambda: model.generate("We"), lambda: model.score("We see"), lambda: model.logits([1]),
                 lambda: model.embed("We"), lambda: model.attend("We"), lambda: translator.translate("We"),
                 lambda: translator.score("We", "Es"), lambda: translator.attend("We"),
                 lambda: encoder.fill("[MASK]"), lambda: encoder.read([3]), lambda: encoder.embed("We"),
                 lambda: translator.logits([1], [1])):
        with pytest.raises(heed.ShapeError, match=r"the model is in training; call eval\(\) first"):
            call()
    model.module.eval()
    assert model.generate("We", max_tokens=3)


def test_half_precision_is_for_reading():
    model = load("llama")
    with pytest.raises(heed.ShapeError, match="a weight in bfloat16 is for inference; .* convert it with astype"):
        model.module.loss([[5, 6, 7]]).backward()
    with pytest.raises(heed.UsageError, match=r'bfloat16; call model.module.to\("float32"\) first'):
        model.make_adapters()


@pytest.mark.parametrize("name, layers", [("gpt2", "attention"), ("llama", "all"), ("t5", "attention"),
                                          ("bert-classifier", "attention")])
def test_low_rank_adapters(name, layers, tmp_path):
    case, model = Case(name), load(name)
    module = model.module
    module.to("float32")
    before = {parameter: values.copy() for parameter, values in model.state_dict().items()}
    nn.manual_seed(3)
    adapters = model.make_adapters(rank=2, alpha=4, layers=layers)
    assert (adapters.rank, adapters.alpha) == (2, 4.0)
    assert adapters.parameter_count() < 0.2 * model.num_parameters
    assert any(parameter.endswith(".lora_A.weight") for parameter in adapters.state_dict())
    rows = case.rows("input_ids", "attention_mask")

    def loss():
        if name == "t5":
            targets = [[id for id in row if id >= 0][:-1] for row in case.expected["labels"].tolist()]
            return module.loss(nn.TokenBatch.pad(rows, 0), nn.TokenBatch.pad(targets, 0))
        if name == "bert-classifier":
            return F.cross_entropy(module.logits(nn.TokenBatch.pad(rows, 0), case.expected["token_type_ids"]),
                                   case.expected["labels"])
        return module.loss(rows)

    assert adapters.eval()(loss).item() == pytest.approx(case.facts["loss"], abs=1e-5)  # B begins with 0
    losses = trained(adapters.train(), lambda: adapters(loss), rate=1e-2)
    assert losses[-1] < losses[0]
    adapters.eval()
    adapters.apply()
    after = model.state_dict()
    assert any((after[parameter] != values).any() for parameter, values in before.items())
    model.save_adapters(adapters, tmp_path / "adapters")
    again = heed.load(tmp_path / "adapters")
    assert type(again) is type(model)
    for parameter, values in again.state_dict().items():
        np.testing.assert_allclose(values, after[parameter], atol=1e-6)
    config = tmp_path / "adapters/adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": "maker/model"}))
    with pytest.raises(heed.IoError, match="is not a directory"):
        heed.load(tmp_path / "adapters")
    for parameter, values in heed.load(tmp_path / "adapters", base=ROOT / name).state_dict().items():
        np.testing.assert_allclose(values, after[parameter], atol=1e-6)
    with pytest.raises(heed.UsageError, match="has files"):
        model.save_adapters(adapters, tmp_path / "adapters")
    with pytest.raises(heed.UsageError, match="save_adapters: the model has no layer"):
        load("vit").save_adapters(adapters, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(TypeError, match="return the loss, a Variable"):
        adapters(lambda: 3.0)


def test_heed_train_goes_on_with_another_makers(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("We will see her. I don't know what to do. Go home!\n" * 20, encoding="utf-8")
    for name, options in (("whole", {}), ("adapted", {"lora": 2})):
        heed.train(text=text, out=tmp_path / name, init=ROOT / "gpt2", max_updates=2, block=16, **options)
        model = heed.load(tmp_path / name)
        assert model.model_type == "gpt2" and model.generate("We", max_tokens=3)


# ---- GGUF

def test_a_gguf_file(tmp_path):
    import tiny_gguf
    case = Case("gpt2")
    tiny_gguf.write_gpt2(ROOT / "gpt2", tmp_path / "model.gguf")
    model = heed.load(tmp_path / "model.gguf")
    assert type(model) is heed.LanguageModel and model.model_type == "gpt2"
    assert model.config["n_embd"] == load("gpt2").config["n_embd"]
    for row, ids in enumerate(case.rows("input_ids", "attention_mask")):
        assert difference(model.logits(ids), case.want("logits", row, len(ids))) < 1e-4
    assert model.tokenizer.encode(case.facts["texts"][0]).ids == case.facts["token_ids"][0]
    assert heed.load_tokenizer(tmp_path / "model.gguf").encode("Go home!").ids == case.facts["token_ids"][2]
    assert model.embed("We will").shape == (model.config["n_embd"],)
    assert heed.Chat(model, max_tokens=2).answer("We") is not None
    with pytest.raises(heed.UsageError, match="GGUF"):
        model.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists() or not list((tmp_path / "saved").iterdir())


def test_texts_that_are_cut_are_counted():
    model, long = load("bert"), "We will see. " * 500
    for texts, says in (([long], "embed: text 0 is longer than the model takes; its end does not count"),
                        (["We", long, long], "embed: text 1 and 1 other are longer than the model takes; their ends"),
                        ([long] * 3, "embed: text 0 and 2 others are longer than the model takes; their ends")):
        with pytest.warns(UserWarning, match=says):
            model.embed(texts)


# ---- Bad input

def with_nan(directory, part):
    """A NaN as element 5 of the first tensor whose name has `part`: (its name, the file, where it is)."""
    for path in sorted(directory.glob("model*.safetensors")):
        content = bytearray(path.read_bytes())
        length = int.from_bytes(content[:8], "little")
        for name, info in json.loads(content[8:8 + length]).items():
            if part in name:
                size = {"F32": 4, "F16": 2, "BF16": 2}[info["dtype"]]
                begin = 8 + length + info["data_offsets"][0] + 5 * size
                content[begin:begin + size] = {"F32": b"\0\0\xc0\x7f", "F16": b"\0\x7e", "BF16": b"\xc0\x7f"}[info["dtype"]]
                path.write_bytes(content)
                return name, path, np.unravel_index(5, info["shape"])
    raise AssertionError(part)


@pytest.mark.parametrize("kind, part, call", [
    ("gpt2", "attn.c_attn.weight", lambda model: model.generate("We will", max_tokens=2)),  # transposed, three in one
    ("bert", "attention.self.key.weight", lambda model: model.fill("We [MASK].")),  # joined with others
    ("t5", "DenseReluDense.wo.weight", lambda model: model.translate("We will see.")),
    ("vit", "output.dense.weight", lambda model: model.classify(np.zeros((9, 9, 3), np.uint8)))])
def test_weights_that_are_not_finite_are_named_as_in_their_file(kind, part, call, tmp_path):
    shutil.copytree(ROOT / kind, tmp_path / "m")
    name, path, place = with_nan(tmp_path / "m", part)
    text = f"{path}: tensor '{name}' holds NaN at ({', '.join(map(str, place))})"
    with pytest.raises(RuntimeError, match=re.escape(text)):
        call(heed.load(tmp_path / "m"))


def test_numbers_of_a_training_are_named_as_the_module_has_them(tmp_path):
    model = load("gpt2")
    name, parameter = model.module.named_parameters()[-1]
    parameter.numpy()[0] = np.nan
    with pytest.raises(RuntimeError, match=f"; tensor '{name}' holds NaN"):
        model.generate("We will", max_tokens=2)

@pytest.mark.parametrize("call, error, text", [
    (lambda g, m, b: g.vocabulary, heed.UsageError, "vocabulary: a gpt2 of another maker has none; use tokenizer"),
    (lambda g, m, b: m.source_vocabulary, heed.UsageError, "use tokenizer"),
    (lambda g, m, b: g.read([]), heed.ShapeError, "no tokens"),
    (lambda g, m, b: g.read([1 << 40]), heed.ShapeError, "pass an id"),
    (lambda g, m, b: g.read([99999]), heed.ShapeError, "99999"),
    (lambda g, m, b: g.read([1] * 100000), heed.ShapeError, "takes at most"),
    (lambda g, m, b: g.read([1], [1]), heed.UsageError, "a target is for the decoder"),
    (lambda g, m, b: g.read([1], states=1), TypeError, "read: states is 1; pass True or False"),
    (lambda g, m, b: g.read("We"), TypeError, "pass a list of ids"),
    (lambda g, m, b: m.read([1]), heed.ShapeError, "the target has no tokens"),
    (lambda g, m, b: m.translate("We", target_language="zz"), heed.UsageError, "zz"),
    (lambda g, m, b: m.translate("We", prefix=3), TypeError, "translate: prefix is 3; pass a str"),
    (lambda g, m, b: m.translate("We", beam=0), heed.ShapeError, r"beam 0 is not in 1\.\.1000"),
    (lambda g, m, b: b.fill(3), TypeError, "fill: texts is 3; pass a list of str"),
    (lambda g, m, b: b.fill("[MASK]", top=0), heed.ShapeError, "top"),
    (lambda g, m, b: b.classify("We"), heed.UsageError, "classify"),
    (lambda g, m, b: b.answer("We", "see"), heed.UsageError, "answer"),
    (lambda g, m, b: b.label_tokens("We"), heed.UsageError, "name one that classifies tokens"),
    (lambda g, m, b: b.embed("We", tokens=2), TypeError, "pass True or False"),
    (lambda g, m, b: b.attend(""), heed.UsageError, "the text is empty"),
    (lambda g, m, b: b.tokenizer.encode(3), TypeError, "encode: texts is 3; pass a list of str"),
    (lambda g, m, b: b.tokenizer.encode("\ud800"), UnicodeEncodeError, "surrogates"),
    (lambda g, m, b: b.tokenizer.encode("a", special_tokens=1), TypeError, "pass True or False"),
    (lambda g, m, b: b.tokenizer.encode_pair("a", None), TypeError, "encode_pair: second is None"),
    (lambda g, m, b: b.tokenizer.decode(["a"]), TypeError, r"decode: ids\[0\] is 'a'"),
    (lambda g, m, b: b.tokenizer.token("a"), TypeError, "token: id"),
    (lambda g, m, b: heed.Tokenizer(3), TypeError, "use heed.load_tokenizer"),
    (lambda g, m, b: heed.TextEncoder(g._made), TypeError, "load: path is "),
    (lambda g, m, b: heed.TextEncoder(g._path), heed.UsageError, "TextEncoder: .* holds a LanguageModel; use"),
    (lambda g, m, b: heed.load_tokenizer(ROOT), (heed.FormatError, heed.IoError), "."),
    (lambda g, m, b: heed.load_tokenizer(ROOT / "bert", side="left"), heed.ShapeError, "'source' or 'target'"),
    (lambda g, m, b: g.make_adapters(rank=0), heed.ShapeError, "rank is 0"),
    (lambda g, m, b: g.make_adapters(alpha=float("nan")), heed.ShapeError, "alpha"),
    (lambda g, m, b: g.make_adapters(layers="none"), heed.ShapeError, "'attention' or 'all'"),
    (lambda g, m, b: load("vit").classify(np.zeros((3, 3))), heed.ShapeError, "prepare"),
    (lambda g, m, b: load("vit").classify("x.png"), TypeError,
     r"classify: picture is 'x.png', the name of a file; pass heed.read_png\('x.png'\)$"),
    (lambda g, m, b: load("vit").classify(pathlib.Path("x.jpg")), TypeError,
     r"the name of a file; pass PIL.Image.open\('x.jpg'\).convert\('RGB'\)$"),
    (lambda g, m, b: load("vit").prepare(b"x.npy"), TypeError, r"pass numpy.load\('x.npy'\)$"),
    (lambda g, m, b: load("vit").attend("x.png"), TypeError, r"attend: .*; pass heed.read_png\('x.png'\)$"),
    (lambda g, m, b: load("vit").logits("x.png"), TypeError, r"pass model.prepare\(heed.read_png\('x.png'\)\)$"),
    (lambda g, m, b: load("vit").embed("We"), AttributeError,
     "embed: the model is a vit, which classifies pictures; embed is of a heed.Translator or a heed.LanguageModel or a "),
    (lambda g, m, b: b.translate("We"), AttributeError, "finds masked words; translate is of a heed.Translator$"),
    (lambda g, m, b: g.fill("We"), AttributeError, "a gpt2, which continues texts; fill is of a heed.TextEncoder$"),
    (lambda g, m, b: m.generate("We"), AttributeError, "which translates; generate is of a heed.LanguageModel$"),
    (lambda g, m, b: g.nothing, AttributeError, "'LanguageModel' object has no attribute 'nothing'"),
    (lambda g, m, b: b.embed(pathlib.Path("x.txt")), TypeError, r"pass the text of the file, open\(.*x.txt.*\).read\(\)"),
    (lambda g, m, b: g.generate(pathlib.Path("x.txt")), TypeError, r"pass the text of the file, open\(.*\).read\(\)"),
    (lambda g, m, b: g.generate("We", temperature=0, top_k=3), heed.UsageError, "top_k is for sampling, and temperature 0"),
    (lambda g, m, b: m.translate("We", sample=True, num_beams=2), TypeError, "num_beams"),
    (lambda g, m, b: load("whisper").transcribe(np.zeros((1, 2, 3), np.float32), [1], top_k=3), heed.UsageError,
     "transcribe: top_k is for sampling, and temperature 0"),
    (lambda g, m, b: load("vit").logits(np.zeros((1, 3, 4, 4), np.float32)), heed.ShapeError, "."),
    (lambda g, m, b: load("vit").read([1]), heed.UsageError, "classifies pictures"),
    (lambda g, m, b: load("vit").reading_ids("We"), heed.UsageError, "reads no text"),
    (lambda g, m, b: load("whisper").transcribe(np.zeros((1, 2, 3), np.float32), [1]), heed.ShapeError, "."),
    (lambda g, m, b: load("whisper").transcribe(Case("whisper").expected["input_features"][:1], []), heed.ShapeError,
     "prompt"),
    (lambda g, m, b: nn.TextEncoder(), TypeError, "constructor"),
    (lambda g, m, b: b.module.hidden([[99999]]), heed.ShapeError, "99999"),
    (lambda g, m, b: b.module.apply_head(np.zeros(3, np.float32), [[1, 2]]), heed.ShapeError, "."),
    (lambda g, m, b: b.module.apply_head(np.zeros((1, 2, 3), np.float32), [[1, 2]]), heed.ShapeError, "."),
    (lambda g, m, b: load("bert-classifier").module.apply_head(np.zeros(3, np.float32), [[1, 2]]), heed.ShapeError,
     "."),
    (lambda g, m, b: load("bert-classifier").module.apply_head(np.zeros((1, 2, 32), np.float32), [[1] * 9] * 3),
     heed.ShapeError, "."),
    (lambda g, m, b: load("vit").module.apply_head(np.zeros(3, np.float32)), heed.ShapeError, "."),
    (lambda g, m, b: load("vit").module.apply_head(np.zeros((0, 0, 0), np.float32)), heed.ShapeError, "."),
    (lambda g, m, b: load("whisper").module.decode(nn.TokenBatch.pad([[1]], 0), np.zeros((), np.float32)),
     heed.ShapeError, "."),
    (lambda g, m, b: load("whisper").module.decode([[1]], np.zeros((1, 2, 32), np.float32)), heed.ShapeError, "packed"),
    (lambda g, m, b: b.module.hidden([[1, 2]], np.zeros((1, 3), np.int32)), heed.ShapeError, "."),
    (lambda g, m, b: b.module.hidden([[1, 2]], np.full((1, 2), 9, np.int32)), heed.ShapeError, "."),
])
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(load("gpt2"), load("marian"), load("bert"))


def test_broken_directories_are_refused(tmp_path):
    for name, content in (("config.json", '{"model_type": "gpt2"'), ("config.json", '{"model_type": "none"}'),
                          ("model.safetensors", "")):
        directory = tmp_path / f"{name}-{len(content)}"
        shutil.copytree(ROOT / "gpt2", directory)
        (directory / name).write_text(content, encoding="utf-8")
        with pytest.raises(heed.FormatError, match=name):
            heed.load(directory)


def test_a_broken_tokenizer_is_refused_where_it_is_used(tmp_path):
    shutil.copytree(ROOT / "gpt2", tmp_path / "gpt2")
    (tmp_path / "gpt2/tokenizer.json").write_text("{}", encoding="utf-8")
    model, whole = heed.load(tmp_path / "gpt2"), load("gpt2")
    ids = whole.reading_ids("We will see her.")
    np.testing.assert_array_equal(model.read(ids).logits, whole.read(ids).logits)
    for use in (lambda: model.tokenizer, lambda: model.generate("We"), lambda: model.embed("We"),
                lambda: heed.Chat(model, template="plain").answer("We")):
        with pytest.raises(heed.FormatError, match="tokenizer.json"):
            use()


# ---- Threads and processes

def test_a_model_reads_while_another_thread_moves_its_parameters():
    model = load("gpt2")
    expected = model.generate("We", max_tokens=20, temperature=0)
    done = threading.Event()

    def move():
        while not done.is_set():
            nn.AdamW(model.module)

    thread = threading.Thread(target=move)
    thread.start()
    try:
        for _ in range(30):
            assert model.generate("We", max_tokens=20, temperature=0) == expected
            assert np.isfinite(model.embed("We will see")).all()
    finally:
        done.set()
        thread.join()


def _written(path):
    return heed.load(path).generate("We", max_tokens=5, temperature=0)


def test_other_processes_load_by_the_path():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_written, [ROOT / "gpt2"]) == _written(ROOT / "gpt2")


def test_a_module_keeps_its_model():
    program = ("import heed, sys, gc\nmodule = heed.load(sys.argv[1]).module\ngc.collect()\n"
               "adapters = heed.load(sys.argv[1]).make_adapters()\ngc.collect()\n"
               "adapters.apply()\nprint(module.generate([1, 2], max_tokens=3, temperature=0))")
    done = subprocess.run([sys.executable, "-c", program, str(ROOT / "gpt2")], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0 and done.stdout.startswith("["), done.stderr


# ---- Types

PROGRAM = """
from typing import Any, assert_type

import heed
import numpy as np
from heed import nn
from numpy.typing import NDArray

model = heed.load("a directory")
assert_type(model, heed.Translator | heed.LanguageModel | heed.TextEncoder | heed.ImageEncoder |
            heed.SpeechTransformer)
assert_type(model.config, dict[str, Any])
assert_type(model.tokenizer.encode("a"), heed.Encoding)
assert_type(model.tokenizer.encode(["a"])[0].offsets, list[tuple[int, int]])
if isinstance(model, heed.TextEncoder):
    assert_type(model.module, nn.TextEncoder)
    assert_type(model.classify("a"), list[heed.ScoredLabel])
    assert_type(model.classify(["a"], [None]), list[list[heed.ScoredLabel]])
    assert_type(model.fill("a", top=2), list[list[heed.MaskFilling]])
    assert_type(model.answer(["a"], ["b"]), list[list[heed.Answer]])
    assert_type(model.label_tokens("a").spans, list[heed.LabelledSpan])
    assert_type(model.embed(["a"]), NDArray[np.float32])
    model.attend("a").save("a.html")
elif isinstance(model, heed.ImageEncoder):
    assert_type(model.logits(np.zeros((1, 3, 4, 4))), NDArray[np.float32])
    assert_type(model.classify(np.zeros((4, 4, 3), np.uint8))[0].label, str)
    assert_type(model.attend(heed.read_png("a.png"))[1].over_picture((3, 4)), heed.PatchMap)
elif isinstance(model, heed.SpeechTransformer):
    assert_type(model.transcribe(np.zeros((1, 80, 3000)), [1], stop=[2]), list[int])
    assert_type(model.module.encode(np.zeros((1, 80, 3000))), nn.Variable)
elif isinstance(model, heed.LanguageModel):
    assert_type(model.module, nn.LanguageModel)
    assert_type(heed.Chat(model, system="a").answer("b"), str)
    adapters = model.make_adapters(rank=4)
    assert_type(adapters(lambda: nn.Variable(np.zeros(1))), nn.Variable)
    model.save_adapters(adapters, "b")
    assert_type(model.read([1], weights=True).weights, dict[str, NDArray[np.float32]])
else:
    assert_type(model.translate("a", target_language="b"), str)
    assert_type(model.source_tokenizer.decode([1]), str)
    model.save("b")
assert_type(heed.load_tokenizer("a", side="target").id_of("b"), int | None)
"""


def test_users_files_are_checked(tmp_path):
    done = mypy(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr
