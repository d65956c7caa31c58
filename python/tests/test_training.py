"""Training: the program's files and bits, progress, Ctrl-C and going on, bad input."""
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import tomllib

import heed
import numpy as np
import pytest
from test_types import mypy

WORDS = {"el": "the", "perro": "dog", "gato": "cat", "come": "eats", "ve": "sees", "pan": "bread", "un": "a",
         "rojo": "red", "grande": "big", "casa": "house"}
TINY = {"vocab_size": 290, "d_model": 16, "heads": 2, "feed_forward": 24, "batch_tokens": 200, "learning_rate": 0.01,
        "warmup": 5, "max_updates": 12, "validate_every": 6, "average": 2, "log_every": 3, "seed": 7, "dropout": 0.1}
TINY_PAIRS = TINY | {"encoder_layers": 1, "decoder_layers": 1}
TINY_TEXT = {name: value for name, value in TINY.items() if name != "batch_tokens"} | \
    {"layers": 1, "block": 16, "batch": 4}


def corpus(count, seed):
    draw = random.Random(seed)
    sources = [[draw.choice(list(WORDS)) for _ in range(draw.randint(2, 6))] for _ in range(count)]
    return [(" ".join(words), " ".join(WORDS[word] for word in words)) for words in sources]


PAIRS, VALID = corpus(200, 1), corpus(20, 2)


def write_tsv(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def weights(directory):
    return (directory / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    at = tmp_path_factory.mktemp("data")
    write_tsv(at / "train.tsv", PAIRS)
    write_tsv(at / "dev.tsv", VALID)
    (at / "book.txt").write_text("\n".join(source for source, _ in PAIRS), encoding="utf-8")
    return at


@pytest.fixture(scope="module")
def translator(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "translator"
    return out, heed.train(pairs=files / "train.tsv", valid=files / "dev.tsv", out=out, **TINY_PAIRS)


# ---- What the program does

def program():
    """The program `heed` of the same package: bits are those of one build."""
    return str(pathlib.Path(heed.__file__).parent / "heed")


@pytest.mark.parametrize("kind", ["pairs", "text", "open"])
def test_same_files_and_bits_as_the_program(files, tmp_path, kind):
    data = {"pairs": files / "train.tsv", "valid": files / "dev.tsv"} if kind != "text" else \
        {"text": files / "book.txt"}
    options = {"pairs": TINY_PAIRS, "text": TINY_TEXT,
               "open": {"max_updates": 5, "validate_by": "loss", "bleu_sentences": 0}}[kind]
    heed.train(**data, out=tmp_path / "here", **options)
    names = {"valid": "valid-pairs"}
    flags = [f"--{names.get(name, name).replace('_', '-')}={value}" for name, value in (data | options).items()]
    done = subprocess.run([program(), "train", *flags, "--model", tmp_path / "there"], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert weights(tmp_path / "here") == weights(tmp_path / "there")
    files_here, files_there = (sorted(p.name for p in (tmp_path / at).iterdir()) for at in ("here", "there"))
    assert files_here == files_there
    for name in ("config.json", "vocabulary.txt"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    kept = [tomllib.loads((tmp_path / at / "train.toml").read_text(encoding="utf-8")) for at in ("here", "there")]
    assert kept[0] | {"model": ""} == kept[1] | {"model": ""}


def test_what_it_learns_it_translates(tmp_path):
    options = TINY_PAIRS | {"d_model": 48, "feed_forward": 64, "dropout": 0.0, "label_smoothing": 0.0, "pre_norm": True,
                            "batch_tokens": 400, "average": 1, "validate_every": 150}
    sources, targets = zip(*VALID)
    scores = []
    for updates in (1, 300):
        heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / str(updates), **options | {"max_updates": updates})
        scores.append(heed.bleu(heed.load(tmp_path / str(updates)).translate(sources), targets).score)
    assert scores[0] < 5 and scores[1] > 25


def test_pairs_in_memory_are_those_of_a_file(translator, tmp_path):
    out, result = translator
    given = heed.train(pairs=(pair for pair in PAIRS), valid=[list(pair) for pair in VALID], out=tmp_path / "m",
                       **TINY_PAIRS)
    assert weights(tmp_path / "m") == weights(out) and given[:4] == result[:4]
    assert "from memory: 200 sentence pairs" in (tmp_path / "m/MODEL_CARD.md").read_text(encoding="utf-8")


def test_columns_and_files(files, tmp_path, translator):
    swapped = write_tsv(tmp_path / "swapped.tsv", [pair[::-1] for pair in PAIRS[:100]])
    write_tsv(tmp_path / "swapped2.tsv", [pair[::-1] for pair in PAIRS[100:]])
    heed.train(pairs=[swapped, str(tmp_path / "swapped2.tsv")], valid=VALID, columns=(2, 1), out=tmp_path / "m",
               **TINY_PAIRS)
    assert weights(tmp_path / "m") == weights(translator[0])


def test_any_number_of_threads_and_what_is_drawn_after(files, tmp_path, translator):
    before = heed.get_num_threads()
    heed.set_num_threads(3)
    heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / "m", **TINY_PAIRS)
    assert heed.get_num_threads() == 3
    heed.set_num_threads(before)
    assert weights(tmp_path / "m") == weights(translator[0])


# ---- Progress and results

def test_progress(files, tmp_path):
    reports, lines = [], []
    result = heed.train(text=[files / "book.txt"], out=tmp_path / "m", on_progress=reports.append,
                        on_message=lines.append, **TINY_TEXT)
    assert [r.update for r in reports if r.validation is None] == [3, 6, 9, 12]
    assert [r.update for r in reports if r.validation] == [6, 12]
    log = [json.loads(line) for line in (tmp_path / "m/train.log.jsonl").read_text(encoding="utf-8").splitlines()]
    for report, entry in zip(reports, log, strict=True):
        assert (report.epoch, report.update) == (entry["epoch"], entry["update"])
        if report.validation:
            assert report.validation.loss == entry["nll"] and report.validation.bleu is None
            assert report.validation.average_loss == entry.get("average_nll")
        else:
            assert (report.loss, report.learning_rate) == (entry["nll"], entry["learning_rate"])
            assert report.tokens_per_second == entry["words_per_second"] > 0
            assert report.gradient_norm == entry["gradient_norm"] and report.minutes_left >= 0
    assert result.reason == "max_updates" and result.update == 12 and not result.nothing_done
    losses = [x for r in reports if r.validation for x in (r.validation.loss, r.validation.average_loss) if x]
    assert result.best_loss == min(losses) and result.best_bleu is None
    assert any("parameters" in line for line in lines) and any(line.startswith("finished") for line in lines)
    again = heed.train(text=files / "book.txt", out=tmp_path / "m", **TINY_TEXT)
    assert again.nothing_done and again.best_loss == result.best_loss


def test_before_the_first_report(files, tmp_path):
    """A validation that comes before it has figures of its own; those of a report are not there."""
    reports = []
    result = heed.train(text=files / "book.txt", out=tmp_path / "m", on_progress=reports.append,
                        **TINY_TEXT | {"log_every": 100, "max_updates": 6})
    assert [bool(r.validation) for r in reports] == [True] and reports[0].validation.loss > 0
    assert all(math.isnan(x) for x in (reports[0].loss, reports[0].learning_rate, reports[0].tokens_per_second,
                                       reports[0].gradient_norm, reports[0].minutes))
    assert reports[0].update == 6 and result.best_loss == reports[0].validation.loss


def test_pairs_are_held_out(tmp_path):
    lines = []
    result = heed.train(pairs=PAIRS, out=tmp_path / "m", on_message=lines.append, **TINY_PAIRS)
    assert lines[0] == "holds out 20 of 200 pairs for validation; valid_fraction 0 trains on all of them"
    assert any(line.startswith("sample: ") for line in lines) and result.best_loss > 0
    assert not any(line.startswith("try it") for line in lines)  # a command of the program
    none = heed.train(pairs=PAIRS, valid_fraction=0, out=tmp_path / "n", on_message=lines.append, **TINY_PAIRS)
    assert none.best_loss is None and none.best_bleu is None


def test_bad_lines(tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tb\n" * 150 + "\nno columns\n" + "c\td\n" * 150, encoding="utf-8")
    with pytest.raises(heed.FormatError, match=r"train: .*bad.tsv: line 151 is empty.*; skip_bad_lines=True leaves"):
        heed.train(pairs=bad, out=tmp_path / "m", **TINY_PAIRS)
    with pytest.raises(heed.IoError, match="train: pairs .*none.tsv: No such file or directory"):
        heed.train(pairs=tmp_path / "none.tsv", out=tmp_path / "m", **TINY_PAIRS)
    with pytest.raises(heed.UsageError, match="train: columns 1,1: source and target are one column"):
        heed.train(pairs=bad, columns=(1, 1), out=tmp_path / "m", **TINY_PAIRS)
    bad.write_text("a\tb\n" * 20, encoding="utf-16")
    with pytest.raises(heed.FormatError, match="bad.tsv: the text is UTF-16.*iconv -f UTF-16 -t UTF-8 .*bad.tsv > "):
        heed.train(pairs=bad, out=tmp_path / "m", **TINY_PAIRS)
    assert not (tmp_path / "m").exists()


def test_the_trained_model_says_what_was_measured(files, tmp_path):
    result = heed.train(text=files / "book.txt", out=tmp_path / "m", **TINY_TEXT | {"max_positions": 4096})
    model = heed.load(tmp_path / "m")
    text = (files / "book.txt").read_text(encoding="utf-8")
    held_out = model.vocabulary.encode(text[int(len(text) * 0.9):])
    blocks = [held_out[i:i + 17] for i in range(0, len(held_out) - 1, 16)]
    nll = count = 0.0
    for block in blocks:
        logits = model.logits(block[:-1]).astype(np.float64)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        nll -= log_p[np.arange(len(block) - 1), block[1:]].sum()
        count += len(block) - 1
    assert result.best_loss == pytest.approx(nll / count, rel=1e-4)


# ---- Ending and going on

def test_an_exception_out_of_on_progress_ends_it_and_it_goes_on(files, tmp_path, translator):
    def fail(progress):
        if progress.update == 6:
            raise LookupError("enough")
    with pytest.raises(LookupError, match="enough"):
        heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / "m", on_progress=fail, **TINY_PAIRS)
    state = json.loads((tmp_path / "m/training.json").read_text(encoding="utf-8"))
    assert state["update"] == 6
    lines = []
    heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / "m", on_message=lines.append, **TINY_PAIRS)
    assert any("goes on after update 6" in line for line in lines)
    assert weights(tmp_path / "m") == weights(translator[0])


PROGRAM = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
sys.path.insert(0, sys.argv[2])
import heed
import test_training as data

def report(progress):
    print(progress.update, flush=True)

try:
    heed.train(pairs=data.PAIRS, valid=data.VALID, out=pathlib.Path(sys.argv[1]), on_progress=report,
               **data.TINY_PAIRS | {"max_updates": int(sys.argv[3]), "patience": 0})
except KeyboardInterrupt:
    print("interrupted")
"""


def test_interrupted_and_gone_on_with(tmp_path):
    run = [sys.executable, "-c", PROGRAM, str(tmp_path / "m"), str(pathlib.Path(__file__).parent)]
    child = subprocess.Popen([*run, "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while int(child.stdout.readline()) < 30:
        pass
    os.kill(child.pid, signal.SIGINT)
    try:
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (out.splitlines()[-1], err, child.returncode) == ("interrupted", "", 0)
    update = json.loads((tmp_path / "m/training.json").read_text(encoding="utf-8"))["update"]
    assert update >= 30
    end = TINY_PAIRS | {"max_updates": update + 7, "patience": 0}
    for name in ("m", "whole"):
        heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / name, **end)
    assert weights(tmp_path / "m") == weights(tmp_path / "whole")


def test_begins_with_another_model(translator, tmp_path):
    shape = {name: value for name, value in TINY_PAIRS.items()
             if name not in ("vocab_size", "d_model", "heads", "feed_forward", "encoder_layers", "decoder_layers")}
    heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / "m", init=translator[0], **shape)
    assert heed.load(tmp_path / "m").config == heed.load(translator[0]).config


# ---- Bad input

@pytest.mark.parametrize("call, error, text", [
    (lambda at: heed.train(out=at / "m"), heed.UsageError, "give pairs, or source and target, or text"),
    (lambda at: heed.train(pairs=PAIRS), heed.UsageError, "train: out is missing"),
    (lambda at: heed.train(pairs=PAIRS, text="a.txt", out=at / "m"), heed.UsageError, "pass one kind of data"),
    (lambda at: heed.train(pairs=PAIRS, source="a", target="b", out=at / "m"), heed.UsageError, "give one kind"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", on_message=3), TypeError, "on_message is 3; pass a function"),
    (lambda at: heed.train(pairs=3, out=at / "m"), TypeError, "train: pairs is 3; pass the path of a file"),
    (lambda at: heed.train(pairs=[("a", "b"), "cd"], out=at / "m"), TypeError, r"pairs\[1\] is 'cd'; pass \(source"),
    (lambda at: heed.train(pairs=[("a", 3)], out=at / "m"), TypeError, r"train: pairs: targets\[0\] is 3; pass a str"),
    (lambda at: heed.train(pairs=[], out=at / "m"), heed.FormatError, "holds no sentence pairs"),
    (lambda at: heed.train(pairs=at / "none.tsv", out=at / "m"), heed.IoError, "none.tsv"),
    (lambda at: heed.train(pairs="", out=at / "m"), heed.UsageError, "train: pairs is ''"),
    (lambda at: heed.train(pairs=PAIRS, out="a\0b"), heed.UsageError, "train: model is"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", max_update=3), TypeError, "there is no option 'max_update'"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", threads=3), TypeError, "there is no option 'threads'"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", d_model={}), TypeError, "train: d_model is {}"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", d_model="wide"), heed.UsageError, "d_model"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", d_model=1 << 80), heed.UsageError, "d_model: '1208925819614629174706176' is not"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", d_model=10, heads=3), heed.ShapeError, "heads"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", learning_rate=math.nan), heed.UsageError, "learning_rate"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", schedule="up"), heed.UsageError, "schedule"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", batch=3), heed.UsageError, "batch is for language models"),
    (lambda at: heed.train(pairs=PAIRS, out=at / "m", batch_tokens=0, preset="tiny"), heed.ShapeError,
     "train: .*batch_tokens"),
    (lambda at: heed.train(pairs=PAIRS, out="/proc/nowhere/m", preset="tiny"), heed.IoError, "/proc/nowhere"),
    (lambda at: heed.train(pairs=PAIRS, out=at, preset="tiny"), heed.UsageError,
     "train: out .* files that heed did not make"),
    (lambda at: heed.train(pairs=PAIRS, valid=VALID, valid_fraction=0.1, out=at / "m"), heed.UsageError,
     "valid_fraction of the others"),
    (lambda at: heed.train(text=PAIRS, out=at / "m"), TypeError, "train: text is"),
])
def test_what_is_refused(files, call, error, text):
    before = sorted(files.iterdir())
    with pytest.raises(error, match=text):
        call(files)
    assert sorted(files.iterdir()) == before


def test_other_options_do_not_go_on(files, tmp_path):
    heed.train(pairs=PAIRS, out=tmp_path / "m", **TINY_PAIRS)
    kept = weights(tmp_path / "m")
    with pytest.raises(heed.UsageError, match="has a model with d_model 16, not 32"):
        heed.train(pairs=PAIRS, out=tmp_path / "m", **TINY_PAIRS | {"d_model": 32})
    with pytest.raises(heed.FormatError, match="train: .*seed"):
        heed.train(pairs=PAIRS, out=tmp_path / "m", **TINY_PAIRS | {"seed": 8})
    with pytest.raises(heed.FormatError, match="train"):
        heed.train(pairs=PAIRS[1:], out=tmp_path / "m", **TINY_PAIRS)
    assert weights(tmp_path / "m") == kept


def test_a_loss_that_is_not_finite(tmp_path):
    with pytest.raises(heed.TrainingError, match="is not finite in update"):
        heed.train(pairs=PAIRS, out=tmp_path / "m", **TINY_PAIRS | {"learning_rate": 1e30, "clip_norm": 0})


# ---- Threads and types

def test_others_run_and_train_meanwhile(translator, tmp_path):
    def train(name):
        heed.train(pairs=PAIRS, valid=VALID, out=tmp_path / name, **TINY_PAIRS | {"max_updates": 60})
    threads = [threading.Thread(target=train, args=(name,)) for name in "ab"]
    turns = 0
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.001)
        turns += 1
    assert turns >= 10 and weights(tmp_path / "a") == weights(tmp_path / "b")


def test_options_are_those_of_the_program():
    others = {"pairs", "valid_pairs", "text", "valid_text", "model",  # arguments of train() under other names
              "threads", "rank_timeout", "context_ranks"}  # of the process, and of the program alone
    names = {name for name, _ in heed._heed.train_options()} - others
    assert names | {"config", "resume"} == set(heed.TrainOptions.__annotations__)


TYPED = """
import pathlib
from typing import assert_type

import heed

def report(progress: heed.TrainProgress) -> None:
    if progress.validation:
        assert_type(progress.validation.loss, float)

assert_type(heed.train(pairs=[("a", "b")], out="m", max_updates=3, on_progress=report, on_message=print),
            heed.TrainResult)
heed.train(pairs=pathlib.Path("a.tsv"), valid="b.tsv", out=pathlib.Path("m"), columns=(2, 1), schedule="cosine")
heed.train(text=["a.txt", "b.txt"], out="m", block=64)
heed.train(resume="m")
"""


def test_a_users_file_is_checked(tmp_path):
    done = mypy(tmp_path, TYPED)
    assert done.returncode == 0, done.stdout + done.stderr
    done = mypy(tmp_path, 'import heed\nheed.train(pairs="a", out="m", max_update=3)\n'
                          'heed.train(pairs="a", out="m", schedule="up")\n')
    assert done.stdout.count("error:") == 2, done.stdout
