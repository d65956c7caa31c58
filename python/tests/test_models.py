"""Models: translating, going on with texts, what is inside them, copies, bad input, threads."""
import copy
import itertools
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import heed
import numpy as np
import pytest
import tiny_models
from test_threads import forked
from test_types import mypy

BUNDLED = pathlib.Path(__file__).resolve().parents[2] / "models/spa-eng"
LINES = ["Hola, mi nombre es Alex.", "¿Dónde está la biblioteca?", "",
         "No sé qué decir. El perro tiene el pelo suelto."]


@pytest.fixture(scope="module")
def translator():
    return heed.load(BUNDLED)


@pytest.fixture(scope="module")
def writer_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "writer"
    tiny_models.language_model(directory)
    return directory


@pytest.fixture(scope="module")
def writer(writer_directory):
    return heed.load(str(writer_directory))


# ---- Loading

def test_a_class_loads_a_model_of_its_kind(translator, writer, writer_directory):
    loaded = heed.Translator(BUNDLED)
    assert type(loaded) is heed.Translator and loaded.translate(LINES) == translator.translate(LINES)
    other = heed.LanguageModel(writer_directory, dtype="float16")
    assert type(other) is heed.LanguageModel and other.state_dict()["embedding.weight"].dtype == np.float16
    assert repr(heed.LanguageModel(writer_directory)) == repr(writer)

    class Mine(heed.Translator):
        __slots__ = ()

        def shout(self, text):
            return self.translate(text).upper()

    assert Mine(BUNDLED).shout("Hola.") == translator.translate("Hola.").upper()
    assert pickle.loads(pickle.dumps(loaded)).translate("Hola.") == translator.translate("Hola.")


# ---- Translators

def test_translates_what_the_program_translates(translator):
    assert translator.translate("Hola, mi nombre es Alex.") == "Hi, my name is Alex."


def test_a_text_gives_a_text_and_several_a_list(translator):
    one_by_one = [translator.translate(line) for line in LINES]
    assert translator.translate(LINES) == one_by_one == translator.translate(line for line in LINES)
    assert one_by_one[2] == "" and translator.translate([]) == []
    short = translator.translate(LINES, beam=1, batch=1, max_length=3)
    assert all(len(after) < len(before) for before, after in zip(one_by_one, short) if before)


def test_translations_with_their_scores(translator):
    best, second = translator.translate(LINES[0], n_best=2, alignment=True)
    assert best.text == translator.translate(LINES[0]) and second.text != best.text
    assert best.score > second.score and not best.cut
    assert best.log_probability == pytest.approx(sum(log_p for _, log_p in best.tokens), abs=1e-5)
    assert best.score == pytest.approx(best.log_probability / len(best.tokens) ** 1.4)
    pieces = [piece for piece, _ in best.tokens]
    assert pieces == [*translator.vocabulary.tokenize(best.text), "</s>"]
    assert best.alignment == [(word, word) for word in range(5)]  # Hi, my name is Alex.
    per_line = translator.translate(LINES, n_best=1)
    assert [line[0].text for line in per_line] == translator.translate(LINES)
    assert per_line[0][0].alignment == []


def test_given_translations_are_scored_as_those_found(translator):
    found = translator.translate(LINES[0], n_best=2, alignment=True)
    scored = translator.score([LINES[0]] * 2, [t.text for t in found], alignment=True)
    for one, other in zip(found, scored):
        assert other.score == pytest.approx(one.score, abs=1e-5) and other.alignment == one.alignment
    assert translator.score(LINES[0], found[1].text).text == found[1].text


def test_draws_follow_their_seed(translator):
    draws = [translator.translate(LINES[:2], sample=True, temperature=2.0, seed=seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert translator.translate(LINES, sample=True, temperature=0) == translator.translate(LINES, beam=1)


def test_translator_logits_are_those_of_its_scores(translator):
    source, target = translator.source_vocabulary.encode("Hola."), translator.vocabulary.encode("Hello.")
    logits = translator.logits(source, np.array(target)).astype(np.float64)
    assert logits.shape == (len(target) + 1, len(translator.vocabulary))
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = [p for _, p in translator.score("Hola.", "Hello.").tokens]
    ids = [*target, translator.vocabulary.eos_id]
    np.testing.assert_allclose(log_p[np.arange(len(ids)), ids], expected, atol=1e-4)


def test_too_long_a_sentence_is_cut_and_says_so(translator):
    assert translator.translate("la casa " * 600, n_best=1, beam=1, max_length=3)[0].cut


# ---- Language models

def test_logits_are_those_of_the_formula(writer):
    ids = writer.vocabulary.encode(tiny_models.TEXT[:30])
    np.testing.assert_allclose(writer.logits(ids), tiny_models.logits(writer, ids), atol=1e-5)


def test_scores_are_those_of_the_formula(writer):
    text = tiny_models.TEXT[:30]
    ids = writer.vocabulary.encode(text)
    logits = tiny_models.logits(writer, ids)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    score = writer.score(text)
    assert score.nats == pytest.approx(-log_p[np.arange(len(ids) - 1), ids[1:]].sum(), rel=1e-5)
    assert (score.tokens, score.bytes) == (29, 29)
    assert score.perplexity == pytest.approx(np.exp(score.nats / 29))
    assert score.bits_per_byte == pytest.approx(score.nats / 29 / np.log(2))
    assert writer.score([text, "hello"]) == [score, writer.score("hello")]


def test_embeddings_are_those_of_the_formula(writer):
    texts = ["hello world", "a fox", *["the lazy dog"] * 40]
    expected = [tiny_models.hidden_states(writer, writer.vocabulary.encode(text))[0] for text in texts]
    for one, other in zip(writer.embed(texts, tokens=True), expected):
        np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_allclose(writer.embed(texts), [states.mean(0) for states in expected], atol=1e-5)
    np.testing.assert_allclose(writer.embed("a fox"), expected[1].mean(0), atol=1e-5)
    assert writer.embed([]).shape == (0, 16) and writer.embed([], tokens=True) == []


def test_embeddings_of_a_translator_leave_out_the_end(translator):
    tokens = translator.embed("Hola, amigo.", tokens=True)
    assert tokens.shape == (len(translator.source_vocabulary.tokenize("Hola, amigo.")), 256)
    np.testing.assert_allclose(translator.embed(["Hola, amigo.", "Adiós."])[0], tokens.mean(0), atol=1e-5)


def test_generates_the_likeliest_tokens_of_the_formula(writer):
    ids = writer.vocabulary.encode("hello")
    never = [writer.vocabulary.unk_id]
    for _ in range(20):
        row = tiny_models.logits(writer, ids)[-1]
        row[never] = -np.inf
        ids.append(int(row.argmax()))
    assert writer.generate("hello", max_tokens=20, temperature=0) == writer.vocabulary.decode(ids[5:])


def test_streams_the_same_text(writer):
    options = {"max_tokens": 60, "temperature": 0.8, "seed": 7}
    whole = writer.generate("hello", **options)
    pieces = list(writer.generate("hello", **options, stream=True))
    assert "".join(pieces) == whole and len(whole) == len(pieces) == 60  # tokens are characters here
    assert whole != writer.generate("hello", **options | {"seed": 8})
    assert list(itertools.islice(writer.generate("hello", **options, stream=True), 3)) == pieces[:3]
    end = whole[5:8]
    for stop in (end, ["<never>", end]):
        assert writer.generate("hello", **options, stop=stop) == whole[:whole.index(end)]
        assert "".join(writer.generate("hello", **options, stop=stop, stream=True)) == whole[:whole.index(end)]
    assert writer.generate("hello", max_tokens=0) == "" and writer.generate("", max_tokens=5) != ""


def test_a_stream_computes_as_it_is_asked(writer):
    stream = writer.generate("hello", max_tokens=1 << 40, stream=True)
    began = time.monotonic()
    text = "".join(itertools.islice(stream, 100))
    assert len(text) == 100 and time.monotonic() - began < 30
    stream.close()
    assert list(stream) == []


def test_a_stream_keeps_its_model(writer_directory):
    stream = heed.load(writer_directory).generate("hello", max_tokens=50, seed=3, stream=True)
    assert "".join(stream) == heed.load(writer_directory).generate("hello", max_tokens=50, seed=3)


# ---- What attends to what

def test_attention_of_a_language_model_is_that_of_the_formula(writer):
    attended = writer.attend("hello world")
    assert type(attended) is heed.AttentionMap and "each token looks" in attended.title
    expected = tiny_models.hidden_states(writer, writer.vocabulary.encode("hello world"))[1]
    np.testing.assert_allclose(attended.weights, expected, atol=1e-5)
    assert "".join(attended.queries) == "".join(attended.keys) == "hello\u2581world"
    longer = writer.attend("hello", max_tokens=4)
    assert longer.weights.shape == (2, 2, 9, 9)
    written = "hello" + writer.generate("hello", max_tokens=4, temperature=0)
    assert "".join(longer.queries).replace("\u2581", " ") == written


def test_attention_of_a_translator(translator):
    page = translator.attend("El perro tiene el pelo suelto.")
    assert page.title == "El perro tiene el pelo suelto."
    assert page.text == translator.translate("El perro tiene el pelo suelto.")
    assert list(page.maps) == ["Encoder", "Decoder", "Cross"]
    encoder, decoder, cross = page.maps.values()
    assert encoder.queries == encoder.keys == cross.keys and cross.keys[-1] == "</s>"
    assert decoder.queries[0] == "<s>" and decoder.queries[1:] == cross.queries[:-1] and cross.queries[-1] == "</s>"
    for attended, layers in zip(page.maps.values(), (3, 2, 2)):
        assert attended.weights.shape == (layers, 4, len(attended.queries), len(attended.keys))
        np.testing.assert_allclose(attended.weights.sum(-1), 1, atol=1e-5)
    assert (np.triu(decoder.weights, 1) == 0).all()
    words = translator.translate("El perro tiene el pelo suelto.", n_best=1, alignment=True)[0].alignment
    assert len(words) == len(page.text.split())
    given = translator.attend("El perro.", "The dog.")
    assert given.text == "The dog." and given.maps["Cross"].queries == ("The", "dog", ".", "</s>")
    assert "<iframe" in given._repr_html_()


# ---- What is inside, and copies

def test_config_is_that_of_the_directory(translator, writer, writer_directory):
    for model, directory in ((translator, BUNDLED), (writer, writer_directory)):
        assert model.config == json.loads((directory / "config.json").read_text(encoding="utf-8"))
    model.config["d_model"] = 0
    assert model.config["d_model"] == 16
    assert repr(writer) == "LanguageModel(5,088 parameters, vocab_size 31, d_model 16, nhead 2)"
    assert repr(translator.vocabulary) == "Vocabulary(3000 pieces)"
    assert writer.num_parameters == sum(value.size for value in writer.state_dict().values()) == 5088


def test_state_dict_is_the_models_memory(writer_directory):
    model = heed.load(writer_directory)
    state = model.state_dict()
    assert {name: value.shape for name, value in state.items()} == dict(tiny_models.parameters(model.config))
    for name, value in model.state_dict().items():
        assert value.ctypes.data == state[name].ctypes.data and value.dtype == np.float32
        assert not value.flags.writeable
        with pytest.raises(ValueError):
            value.flags.writeable = True
    kept = {name: value.copy() for name, value in state.items()}
    del model
    for _ in range(5):
        heed.load(writer_directory)
    for name, value in kept.items():
        np.testing.assert_array_equal(state[name], value)


def test_saving_over_a_model(writer, translator, tmp_path):
    place = tmp_path / "m"
    shutil.copytree(BUNDLED, place)
    for name in ("NOTICE", "README.md", "notes.txt"):
        (place / name).write_text(name)
    with pytest.raises(heed.UsageError, match="save: .*m holds a model; pass overwrite=True to replace it, or name another"):
        writer.save(place)
    again = heed.load(place)  # trained further and saved where it came from: its licence stays
    again.module.to("float32")
    again.module.named_parameters()[-1][1].numpy()[:] += 1
    again.save(place, overwrite=True)
    assert {path.name for path in place.iterdir() if not path.name.startswith(".")} == {
        "NOTICE", "README.md", "config.json", "model.safetensors", "notes.txt", "vocabulary.txt"}
    name = again.module.named_parameters()[-1][0]
    np.testing.assert_array_equal(heed.load(place).state_dict()[name], again.state_dict()[name])
    with pytest.raises(heed.IoError, match=r"(NOTICE|README\.md): it belongs to the model that is replaced, and heed removes no licence"):
        writer.save(place, overwrite=True)
    assert heed.load(place).config == again.config
    for name in ("NOTICE", "README.md"):
        (place / name).unlink()
    writer.save(place, overwrite=True)  # another model: nothing of the old one stays
    assert {path.name for path in place.iterdir() if not path.name.startswith(".")} == {
        "config.json", "model.safetensors", "notes.txt", "vocabulary.txt"}
    assert heed.load(place).config == writer.config
    with pytest.raises(TypeError, match="overwrite is 1; pass True or False"):
        writer.save(place, overwrite=1)


def test_a_text_that_names_a_file(writer, translator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("El perro come.")
    with pytest.warns(UserWarning, match=r"translate: the text is 'text.txt', which is the name of a file; pass open"):
        translator.translate("text.txt")
    with pytest.warns(UserWarning, match="generate: the text is 'text.txt'"):
        writer.generate("text.txt", max_tokens=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translator.translate(open("text.txt").read())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_saved_and_loaded_in_any_dtype(writer, tmp_path, dtype):
    writer.save(tmp_path / "saved", dtype=dtype)
    loaded = heed.load(tmp_path / "saved")
    if dtype == "bfloat16":
        types = pytest.importorskip("ml_dtypes")
        expected = {name: value.astype(types.bfloat16) for name, value in writer.state_dict().items()}
    else:
        expected = {name: value.astype(dtype) for name, value in writer.state_dict().items()}
    for name, value in loaded.state_dict().items():
        matrix = name.endswith("weight") and value.ndim == 2
        assert value.dtype == (expected[name].dtype if matrix else np.float32) and not value.flags.writeable
        np.testing.assert_array_equal(value.astype(np.float32), expected[name].astype(np.float32))
    assert loaded.config == writer.config and loaded.vocabulary == writer.vocabulary


def test_loaded_in_eight_bits():
    whole, eight = heed.load(BUNDLED, dtype="float32"), heed.load(BUNDLED, dtype="int8")
    assert whole.state_dict()["embedding.weight"].dtype == np.float32
    for name, value in eight.state_dict().items():
        exact = whole.state_dict()[name]
        assert value.shape == exact.shape
        if value.ndim == 2 and value.shape[1] % 32 == 0:
            assert value.dtype == np.float32
            blocks, apart = (x.reshape(len(x), -1, 32) for x in (exact, value - exact))
            assert (np.abs(apart) <= 0.0045 * np.abs(blocks).max(-1, keepdims=True)).all() and apart.any()
        else:
            np.testing.assert_array_equal(value, exact)
    assert eight.translate("El perro duerme.") and pickle.loads(pickle.dumps(eight)).translate("El perro duerme.")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pickled_and_copied(writer, tmp_path, dtype):
    writer.save(tmp_path / "saved", dtype=dtype)
    model = heed.load(tmp_path / "saved")
    buffers = []
    apart = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == len(list(tiny_models.parameters(model.config))) and len(apart) < 5000
    for other in (pickle.loads(pickle.dumps(model)), pickle.loads(apart, buffers=buffers), copy.deepcopy(model)):
        assert type(other) is heed.LanguageModel and other.config == model.config
        assert other.generate("hello", max_tokens=30) == model.generate("hello", max_tokens=30)
        if dtype != "bfloat16":
            for name, value in model.state_dict().items():
                assert other.state_dict()[name].dtype == value.dtype
                assert other.state_dict()[name].ctypes.data != value.ctypes.data


def test_a_pickled_translator_translates(translator):
    other = pickle.loads(pickle.dumps(translator))
    assert other.translate(LINES) == translator.translate(LINES)
    assert other.state_dict()["embedding.weight"].dtype == np.float16


def test_bfloat16_without_its_package(writer, tmp_path, monkeypatch):
    writer.save(tmp_path / "saved", dtype="bfloat16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match="ml_dtypes; install it"):
        heed.load(tmp_path / "saved").state_dict()


# ---- Bad input

@pytest.mark.parametrize("call, error, text", [
    (lambda t, w: heed.load("/nowhere/at/all"), heed.IoError, "open directory /nowhere/at/all"),
    (lambda t, w: heed.load(""), heed.IoError, "No such file"),
    (lambda t, w: heed.load("a\0b"), ValueError, "null byte"),
    (lambda t, w: heed.load(7), TypeError, "load: path is 7; pass a path"),
    (lambda t, w: heed.load(BUNDLED, trust="yes"), TypeError, "load: trust is 'yes'; pass True or False"),
    (lambda t, w: heed.load(BUNDLED, dtype="int4"), heed.ShapeError, "load: dtype is 'int4'"),
    (lambda t, w: heed.load(BUNDLED.parent), heed.IoError, "config.json"),
    (lambda t, w: heed.Translator(w._made), TypeError, "load: path is "),
    (lambda t, w: heed.Model(BUNDLED), TypeError, r"use heed.load\(path\), or a class such as heed.Translator"),
    (lambda t, w: heed.LanguageModel(BUNDLED), heed.UsageError,
     "LanguageModel: .*spa-eng holds a Translator; use heed.Translator, or heed.load"),
    (lambda t, w: heed.Translator("nowhere"), heed.IoError, "nowhere"),
    (lambda t, w: t.translate(3), TypeError, "translate: texts is 3; pass a list of str"),
    (lambda t, w: t.translate(b"Hola"), TypeError, "pass a list of str"),
    (lambda t, w: t.translate(["a", None]), TypeError, r"texts\[1\] is None; pass a str"),
    (lambda t, w: t.translate("\ud800"), UnicodeEncodeError, "surrogates"),
    (lambda t, w: t.translate("a", beam=0), heed.ShapeError, r"beam 0 is not in 1\.\.1000"),
    (lambda t, w: t.translate("a", beam=1 << 70), heed.ShapeError, "pass a number of at most 63 bits"),
    (lambda t, w: t.translate("a", beam=1.5), TypeError, "translate: beam is 1.5; pass an integer"),
    (lambda t, w: t.translate("a", n_best=1 << 40), heed.ShapeError, "not in"),
    (lambda t, w: t.translate("", n_best=1 << 60), heed.ShapeError, "not in"),
    (lambda t, w: t.translate("", max_length=-1), heed.ShapeError, "max_length -1 is below 0"),
    (lambda t, w: t.translate("a", length_penalty=float("nan")), heed.ShapeError, "not finite"),
    (lambda t, w: t.translate("a", sample=True, temperature=float("nan")), heed.ShapeError, "temperature is nan"),
    (lambda t, w: t.translate("a", temperature=0.5), heed.UsageError, "pass sample=True"),
    (lambda t, w: t.translate("a", seed=0), heed.UsageError, "translate: seed is for sampling; pass sample=True"),
    (lambda t, w: t.translate("a", sample=False, top_p=0.5), heed.UsageError, "top_p is for sampling; pass sample=True"),
    (lambda t, w: t.translate("a", sample=True, beam=5), heed.UsageError, "beam is for a search, and sample draws"),
    (lambda t, w: t.translate("a", sample=True, length_penalty=1.0), heed.UsageError, "sample draws one; leave it out"),
    (lambda t, w: t.translate("a", sample=True, temperature=0, seed=3), heed.UsageError, "seed is for sampling, and temp"),
    (lambda t, w: w.generate("a", temperature=0, seed=3), heed.UsageError, "generate: seed is for sampling, and temp"),
    (lambda t, w: heed.Chat(w, temperature=0, top_k=3).answer("a"), heed.UsageError, "top_k is for sampling, and temperature 0"),
    (lambda t, w: t.generate("a"), AttributeError, "a translator; generate is of a heed.LanguageModel"),
    (lambda t, w: t.translate("a", alignment=True), heed.UsageError, "pass n_best"),
    (lambda t, w: t.translate("a", batch=0), heed.ShapeError, "batch 0 must be 1 or more"),
    (lambda t, w: t.score("a", ["b"]), TypeError, "score: texts is 'a'; pass a list of str"),
    (lambda t, w: t.score(["a"], ["b", "c"]), heed.ShapeError, "1 lines and 2 translations"),
    (lambda t, w: t.score("a", "b " * 3000), heed.FormatError, "the model takes at most 511"),
    (lambda t, w: t.logits([99999], [5]), heed.ShapeError, r"logits: source has the id 99999; pass ids in 0\.\.2999"),
    (lambda t, w: t.logits([5] * 5000, [5]), heed.ShapeError, "the model takes 512"),
    (lambda t, w: t.embed(" "), heed.ShapeError, "has no tokens"),
    (lambda t, w: t.embed("a", tokens=1), TypeError, "pass True or False"),
    (lambda t, w: t.save("/proc/nowhere"), heed.IoError, "/proc/nowhere"),
    (lambda t, w: t.save("x", dtype="f32"), heed.ShapeError, "pass 'float32', 'float16' or 'bfloat16'"),
    (lambda t, w: t.save(BUNDLED.parents[1] / "python"), heed.UsageError, "files that heed did not make"),
    (lambda t, w: w.generate(3), TypeError, "generate: prompt is 3; pass a str"),
    (lambda t, w: w.generate("a", temperature=float("nan")), heed.ShapeError, "temperature is nan"),
    (lambda t, w: w.generate("a", temperature="hot"), TypeError, "temperature is 'hot'; pass a number"),
    (lambda t, w: w.generate("a", temperature=float("nan"), stream=True), heed.ShapeError, "temperature is nan"),
    (lambda t, w: w.generate("a", max_tokens=-1), heed.ShapeError, "max_tokens is -1"),
    (lambda t, w: w.generate("a", top_k=1 << 80), heed.ShapeError, "pass a number of at most 63 bits"),
    (lambda t, w: w.generate("a", seed=-1), heed.ShapeError, r"pass 0 to 2\^64 - 1"),
    (lambda t, w: w.generate("a", stop=""), heed.ShapeError, "stop is empty"),
    (lambda t, w: w.generate("a", stop=[3]), TypeError, r"stop\[0\] is 3; pass a str"),
    (lambda t, w: w.generate("a", stream=1), TypeError, "pass True or False"),
    (lambda t, w: w.logits([]), heed.ShapeError, "pass one id at least"),
    (lambda t, w: w.logits([-1]), heed.ShapeError, "pass ids in 0..30"),
    (lambda t, w: w.logits(["a"]), TypeError, r"ids\[0\] is 'a'; pass an integer"),
    (lambda t, w: w.logits([1] * 41), heed.ShapeError, "41 tokens, the model takes 40"),
    (lambda t, w: t.attend(" "), heed.UsageError, "the text is empty"),
    (lambda t, w: t.attend("a", ""), heed.ShapeError, "translation is empty"),
    (lambda t, w: t.attend("la " * 600), heed.ShapeError, "the model takes 512"),
    (lambda t, w: w.attend("a" * 50), heed.ShapeError, "50 tokens, the model takes 40"),
    (lambda t, w: w.attend("a", max_tokens=1 << 60), heed.ShapeError, "pass 0 to 40"),
    (lambda t, w: w.score("a"), heed.ShapeError, "fewer than 2 tokens"),
    (lambda t, w: w.score(5), TypeError, "score: texts is 5; pass a str or a list of str"),
])
def test_what_is_refused(translator, writer, call, error, text):
    with pytest.raises(error, match=text):
        call(translator, writer)


def test_broken_files_are_refused(writer_directory, tmp_path):
    for name, content, error in (("config.json", "{", heed.FormatError), ("model.safetensors", "", heed.FormatError),
                                 ("vocabulary.txt", "no", heed.FormatError)):
        directory = tmp_path / name.partition(".")[0]
        directory.mkdir()
        for file in writer_directory.iterdir():
            (directory / file.name).write_bytes(content.encode() if file.name == name else file.read_bytes())
        with pytest.raises(error, match=name):
            heed.load(directory)


def test_errors_are_what_they_say():
    assert issubclass(heed.UsageError, ValueError) and issubclass(heed.UntrustedError, heed.FormatError)
    assert issubclass(heed.UnsupportedTemplateError, heed.UsageError) and issubclass(heed.TrainingError, RuntimeError)


# ---- Types

PROGRAM = """
from collections.abc import Iterator
from typing import Any, assert_type

import heed
import numpy as np
from numpy.typing import NDArray

model = heed.load("a directory")
assert_type(model, heed.Translator | heed.LanguageModel | heed.TextEncoder | heed.ImageEncoder |
            heed.SpeechTransformer)
assert_type(model.state_dict(), dict[str, NDArray[Any]])
assert_type(model.vocabulary.encode("a"), list[int])
assert_type(model.vocabulary.encode(["a"]), list[list[int]])
if isinstance(model, heed.Translator):
    assert_type(model.translate("a"), str)
    assert_type(model.translate(["a"], beam=1), list[str])
    assert_type(model.translate("a", n_best=2, alignment=True), list[heed.Translation])
    assert_type(model.translate(("a", "b"), n_best=1), list[list[heed.Translation]])
    assert_type(model.score("a", "b").score, float)
    assert_type(model.embed(["a"]), NDArray[np.float32])
elif isinstance(model, heed.LanguageModel):
    assert_type(model.generate("a", temperature=0.5, stop="b"), str)
    assert_type(model.generate("a", stream=True), Iterator[str])
    assert_type(model.score(["a"]), list[heed.TextScore])
    assert_type(model.embed(["a"], tokens=True), list[NDArray[np.float32]])
    assert_type(model.logits([1]), NDArray[np.float32])
assert_type(float(heed.bleu(["a"], [["b"], ["c"]])), float)
"""
WRONG = """
import heed

model = heed.load("a directory")
model.translate("a")
if isinstance(model, heed.Translator):
    model.translate("a", beams=3)
    model.save("b", dtype="f32")
heed.bleu(3, ["a"])
heed.Vocabulary.train(["a"], spaces="none")
"""


def test_users_files_are_checked(tmp_path):
    done = mypy(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stdout + done.stderr
    done = mypy(tmp_path, WRONG)
    wrong = {line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line}
    assert wrong == {"5", "7", "8", "9", "10"}, done.stdout


# ---- Threads and signals

def test_threads_translate_at_once(translator, writer):
    expected, written = translator.translate(LINES), writer.generate("hello", max_tokens=40)
    before = heed.get_num_threads()
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(translator.translate, LINES) for _ in range(8)]
        others = [pool.submit(writer.generate, "hello", max_tokens=40) for _ in range(8)]
        for threads in range(1, 12):
            heed.set_num_threads(1 + threads % 4)
            time.sleep(0.01)
        assert all(call.result() == expected for call in calls)
        assert all(call.result() == written for call in others)
    heed.set_num_threads(before)


def test_a_forked_process_translates(translator):
    expected = translator.translate(LINES)
    forked(lambda: translator.translate(LINES) == expected)


@pytest.mark.parametrize("name", ["translate", "score", "embed", "generate"])
def test_others_run_while_it_computes(translator, writer, name):
    many = [f"{line} {number}" for line in LINES for number in range(60)]
    calls = {"translate": lambda: translator.translate(many), "score": lambda: translator.score(many, many),
             "embed": lambda: translator.embed(many), "generate": lambda: writer.generate("a", max_tokens=4000)}
    thread = threading.Thread(target=calls[name])
    turns = 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns >= 10  # two at most where the call held the GIL


@pytest.mark.parametrize("program", [
    "model = heed.load(sys.argv[1])\nwork = lambda: model.translate(['No sé qué decir.'] * 100000)",
    "model = heed.load(sys.argv[2])\nwork = lambda: model.generate('a', max_tokens=1 << 40)",
    "model = heed.load(sys.argv[2])\nwork = lambda: list(model.generate('a', max_tokens=1 << 40, stream=True))",
])
def test_interrupted(program, writer_directory):
    program = "import signal, sys, heed\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" \
        f"{program}\nprint('begins', flush=True)\ntry:\n    work()\n" \
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    child = subprocess.Popen([sys.executable, "-c", program, str(BUNDLED), str(writer_directory)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begins\n"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (out, err, child.returncode) == ("interrupted\n", "", 0)
