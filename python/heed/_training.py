"""Training: signatures, documentation, results. The work is done in _heed."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from . import _heed
from ._text import Path

Pair = tuple[str, str]
Files = Path | list[Path] | list[str]


class TrainOptions(TypedDict, total=False):
    """The options of train() by name: those of `heed train`, whose help says what each does."""

    # Data
    columns: tuple[int, int]
    labelled: Files
    valid_labelled: Files
    source: Files
    target: Files
    valid_source: Files
    valid_target: Files
    valid_fraction: float
    vocab_type: Literal["subwords", "characters"]
    skip_bad_lines: bool
    exclude: Files
    vocabulary: Path
    separate_vocabularies: bool
    source_vocabulary: Path
    trust: bool
    character_coverage: float
    prefix: str
    source_language: str
    target_language: str
    # Model
    init: Path
    lora: int
    lora_alpha: float
    lora_layers: Literal["attention", "all"]
    preset: Literal["tiny", "small", "base"]
    vocab_size: int
    d_model: int
    heads: int
    kv_heads: int
    encoder_layers: int
    decoder_layers: int
    layers: int
    feed_forward: int
    dropout: float
    attention_dropout: float
    activation_dropout: float
    activation: str
    norm: Literal["layer_norm", "rms_norm"]
    pre_norm: bool
    bias: bool
    positions: Literal["sinusoidal", "learned", "rotary"]
    max_positions: int
    tie_embeddings: bool
    # Training
    seed: int
    batch_tokens: int
    max_length: int
    subword_dropout: float
    batch: int
    block: int
    accumulate: int
    schedule: Literal["linear", "inverse_square_root", "cosine", "constant"]
    learning_rate: float
    min_learning_rate: float
    warmup: int
    anneal: int
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip_norm: float
    label_smoothing: float
    r_drop: float
    validate_every: int
    validate_by: Literal["loss", "bleu"]
    bleu_sentences: int
    average: int
    max_updates: int
    max_epochs: int
    max_minutes: float
    patience: int
    save_minutes: float
    save_every: int
    log_every: int
    # Reports
    html: Path
    html_lines: list[int]
    tensorboard: Path
    timeline: Path
    # Further
    config: Path
    resume: Path


class Validation(NamedTuple):
    """What a validation measured: losses in nats a target token, without dropout and label smoothing."""

    loss: float  #: of the weights as they are
    average_loss: float | None  #: of the mean of the last checkpoints, where there is one
    bleu: float | None  #: 0 to 100, where it was asked for
    average_bleu: float | None  #: of the mean
    better: bool  #: one of the two is the best so far, and is model.safetensors now


class TrainProgress(NamedTuple):
    """How a training goes. After a validation, numbers but `epoch` and `update` are those of the last report, and NaN
    before the first one, which comes after log_every updates."""

    epoch: int  #: 1, 2, ...
    update: int  #: so far
    loss: float  #: in nats a target token, without label smoothing, as that of a Validation; the mean since the last report
    learning_rate: float
    tokens_per_second: float  #: target tokens
    gradient_norm: float
    minutes: float  #: of training in all
    minutes_left: float | None  #: by the limit that comes first, where there is one
    validation: Validation | None  #: after a validation


class TrainResult(NamedTuple):
    """How a training ended. heed.load(out) loads the model."""

    reason: Literal["max_updates", "max_epochs", "max_minutes", "patience"]  #: the limit that was reached
    nothing_done: bool  #: an earlier call had finished already
    epoch: int
    update: int
    minutes: float  #: of all calls together
    best_loss: float | None  #: of the model that was kept, where there were data to validate on
    best_bleu: float | None  #: of it, with validate_by="bleu"
    best_update: int
    average_is_best: bool  #: the model is a mean of checkpoints


def train(*, pairs: Files | Iterable[Pair] | None = None, text: Files | None = None,
          valid: Files | Iterable[Pair] | None = None, out: Path | None = None,
          on_progress: Callable[[TrainProgress], object] | None = None,
          on_message: Callable[[str], object] | None = None, **options: Unpack[TrainOptions]) -> TrainResult:
    """Trains a translator on sentence pairs, or a language model on a text, and keeps it in a directory.

    With init= another maker's model is trained further, all of it or low-rank adapters (docs/tuning.md).

        heed.train(pairs="eng-spa.tsv", valid="dev.tsv", out="my-model", max_minutes=60)
        heed.train(pairs=[("Hola.", "Hello."), ...], out="my-model", on_message=print)
        heed.train(text="book.txt", out="my-writer")
        heed.LanguageModel("my-writer").generate("Once upon a time")
        heed.train(init="bert-base-uncased", labelled="reviews.tsv", out="my-classifier", lora=8)

    pairs        (source, target) of each sentence pair; or files of them, tab-separated, as paths or patterns, also
                 compressed by gzip
    text         files of a text for a language model, likewise
    valid        what to validate on, of the same kind; default: of a text its last tenth, of pairs 2 %, at least 100
                 and at most 2,000 of them (a tenth of fewer than 1,000, none of fewer than 100); valid_fraction=0 for
                 none
    out          the directory: made where it is missing, and gone on with where it holds this training
    on_progress  called with a TrainProgress every log_every updates and after each validation
    on_message   called with each line of the training: on_message=print
    options      those of `heed train` under their names with underscores: max_updates, d_model, learning_rate, seed,
                 schedule="cosine", ...; None is what is not given. --from and --to are source_language and
                 target_language

    Same options, same data: the same files and the same bits as `heed train`. What is not given of size, rate and
    batches is chosen from the data and max_minutes; on_message is told. Threads are those of set_num_threads().

    Ctrl-C (in the main thread) and an exception out of on_progress or on_message end it behind an update: the state is
    saved, then the exception is raised, and the same call goes on from there to the same bits. What is drawn from
    heed's random numbers afterwards does not depend on it. Raises UsageError, ShapeError, FormatError, IoError, and
    TrainingError for a loss that is not finite.
    """
    if unknown := set(options) - set(TrainOptions.__annotations__):
        raise TypeError(f"train: there is no option {min(unknown)!r}; help(heed.TrainOptions) lists them")
    for name, function in (("on_progress", on_progress), ("on_message", on_message)):
        if function is not None and not callable(function):
            raise TypeError(f"train: {name} is {function!r}; pass a function")
    if pairs is not None and text is not None:
        raise _heed.UsageError("train: pairs and text are given; pass one kind of data")
    given, in_memory = _data("pairs", "pairs", pairs)
    valid_given, valid_in_memory = _data("valid", "valid_pairs", valid) if text is None else \
        (_option("valid_text", valid), None)
    given += valid_given + _option("text", text) + _option("model", out)
    for name, value in options.items():
        given += _option(name, value)
    reason, nothing_done, epoch, update, minutes, loss, bleu, best_update, average_is_best = _heed.train(
        given, in_memory, valid_in_memory, None if on_progress is None else _reporter(on_progress), on_message)
    return TrainResult(reason, nothing_done, epoch, update, minutes, loss if loss > 0 else None, _known(bleu),
                       best_update, average_is_best)


def _reporter(on_progress: Callable[[TrainProgress], object]) -> Callable[..., None]:
    def report(epoch: int, update: int, loss: float, learning_rate: float, tokens_per_second: float,
               gradient_norm: float, minutes: float, minutes_left: float, validation: Any) -> None:
        if validation is not None:
            nll, average_nll, bleu, average_bleu, better = validation
            validation = Validation(nll, _known(average_nll), _known(bleu), _known(average_bleu), better)
        on_progress(TrainProgress(epoch, update, loss, learning_rate, tokens_per_second, gradient_norm, minutes,
                                  _known(minutes_left), validation))
    return report


def _known(value: float) -> float | None:
    return value if value >= 0 else None


Option = tuple[str, list[str]]  # a field of the request and its values


def _data(name: str, option: str, value: Any) -> tuple[list[Option], tuple[list[str], list[str]] | None]:
    """Sentence pairs as options that name their files, or themselves: sources and targets."""
    if value is None:
        return [], None
    several = isinstance(value, (list, tuple)) and len(value) > 0
    if isinstance(value[0] if several else value, (str, os.PathLike)):
        return _option(option, value), None
    if not isinstance(value, Iterable) or isinstance(value, bytes):
        raise TypeError(f"train: {name} is {value!r}; pass the path of a file, or (source, target) pairs")
    sides: tuple[list[str], list[str]] = [], []
    for place, pair in enumerate(value):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"train: {name}[{place}] is {pair!r}; pass (source, target), two str")
        for side, text in zip(sides, pair):
            side.append(text)
    return [], sides


def _option(name: str, value: Any) -> list[Option]:
    """The option with its values as text; nothing for None."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        return [(name, [_text(name, value)])]
    values = [_text(name, one) for one in value]
    return [(name, [",".join(values)] if name in ("columns", "html_lines") else values)] if values else []


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        if not value or "\0" in value:
            raise _heed.UsageError(f"train: {name} is {value!r}; pass a value that says something")
        value.encode()  # raises UnicodeEncodeError for half of a surrogate pair
        return value
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__"):
        return repr(value.__float__())
    raise TypeError(f"train: {name} is {value!r}; pass a number, a str or a path")
