"""Models that read texts, pictures and speech: signatures, documentation, results. The work is done in _heed."""
from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from . import _heed, nn
from ._models import Model, _embedded, _map, _warn_of_name, cut_in_words
from ._view import AttentionMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._attention import Array

    Floats = NDArray[np.float32]
Task = Literal["masked_words", "text_classes", "token_classes", "answers"]


class ScoredLabel(NamedTuple):
    label: str
    score: float  #: its probability; a value as it is, of a model of numbers


class LabelledToken(NamedTuple):
    token: str  #: as it is stored, "##ing"
    label: str
    score: float  #: its probability
    offsets: tuple[int, int]  #: text[begin:end]


class LabelledSpan(NamedTuple):
    label: str  #: without "B-" and "I-"
    score: float  #: mean of its tokens' probabilities
    offsets: tuple[int, int]  #: text[begin:end]


class LabelledText(NamedTuple):
    tokens: list[LabelledToken]  #: without those that were added
    spans: list[LabelledSpan]  #: neighbours of one label together, but for a "B-", which begins another; without "O"
    cut: bool  #: the text was longer than the model takes, and its end has no labels


class Answer(NamedTuple):
    text: str  #: of whole words
    score: float  #: probability of its first token times that of its last
    offsets: tuple[int, int]  #: context[begin:end]


class MaskFilling(NamedTuple):
    id: int
    token: str  #: with the space in front where a word begins
    probability: float
    text: str  #: the whole of it, where other masks are filled with what is likeliest there


class TextEncoder(Model):
    """A model that reads a text at once, as BERT does.

        model = heed.TextEncoder("bert-base-uncased")
        model.fill("The dog [MASK].")                       # [[MaskFilling(...), ...]]
        model.embed(["The dog sleeps.", "A cat."])          # (2, E)
        heed.TextEncoder("a-classifier").classify("Very good.")    # [ScoredLabel(label='positive', score=0.98), ...]

    `task` says which of fill(), classify(), label_tokens() and answer() its head is for; the others raise UsageError.
    Models may be used in several threads at once. The GIL is released, and Ctrl-C ends calls.
    """

    __slots__ = ()
    _kind = "TextEncoder"

    @property
    def module(self) -> nn.TextEncoder:
        """The model on the tape: Model.module."""
        module = self._made.module()
        assert isinstance(module, nn.TextEncoder)
        return module

    @property
    def task(self) -> Task | None:
        """What its head is for; None without one."""
        task: Task | None = _heed.head_task(self._made)
        return task

    @property
    def labels(self) -> list[str]:
        """The names of the classes of its head."""
        return _heed.labels(self._made)

    @overload
    def embed(self, text: str, *, tokens: bool = False) -> Floats: ...  # type: ignore[overload-overlap]
    @overload
    def embed(self, text: Iterable[str], *, tokens: Literal[False] = False) -> Floats: ...
    @overload
    def embed(self, text: Iterable[str], *, tokens: Literal[True]) -> list[Floats]: ...
    def embed(self, text: str | Iterable[str], *, tokens: bool = False) -> Floats | list[Floats]:
        """(E) float32, a text's vector; of B texts (B, E).

        Of a directory of sentence-transformers as its modules.json says; else the mean of the last states of all
        tokens. A text that is longer than the model takes is cut at its end, with a warning; one without tokens is a
        vector of zeros.

        With tokens=True the last states themselves, (L, E), one row for each of reading_ids(text); of several texts a
        list. Raises ShapeError then for a text without tokens, and for more than the model takes.
        """
        _warn_of_name("embed", text)
        return _embedded(self, text, tokens)

    @overload
    def classify(  # type: ignore[overload-overlap]
            self, text: str, second: str | None = None) -> list[ScoredLabel]: ...
    @overload
    def classify(self, text: Iterable[str], second: Iterable[str | None] | None = None) -> list[list[ScoredLabel]]: ...
    def classify(self, text: str | Iterable[str], second: str | Iterable[str | None] | None = None) \
            -> list[ScoredLabel] | list[list[ScoredLabel]]:
        """All classes of a text, the most probable first; of several texts a list.

        second  of a model of pairs: the second text, or for several texts a list with a text or None for each

        What is longer than the model takes is cut, with a warning: of a pair the longer text.
        """
        one = isinstance(text, str)
        _warn_of_name("classify", text)
        found = _heed.classify_texts(self._made, [text] if one else text, [second] if one else second)
        _warn("classify", [cut for _, cut in found])
        classes = [[ScoredLabel(*parts) for parts in labels] for labels, _ in found]
        return classes[0] if one else classes

    @overload
    def label_tokens(self, text: str) -> LabelledText: ...  # type: ignore[overload-overlap]
    @overload
    def label_tokens(self, text: Iterable[str]) -> list[LabelledText]: ...
    def label_tokens(self, text: str | Iterable[str]) -> LabelledText | list[LabelledText]:
        """The class of each token of a text, and of neighbours of one class together; of several texts a list."""
        one = isinstance(text, str)
        _warn_of_name("label_tokens", text)
        found = [LabelledText([LabelledToken(*parts) for parts in tokens], [LabelledSpan(*parts) for parts in spans],
                              cut) for tokens, spans, cut in _heed.label_tokens(self._made, [text] if one else text)]
        return found[0] if one else found

    @overload
    def answer(  # type: ignore[overload-overlap]
            self, question: str, context: str, *, top: int = 1, longest: int = 15, window: int = 384,
            in_common: int = 128) -> list[Answer]: ...
    @overload
    def answer(self, question: Iterable[str], context: Iterable[str], *, top: int = 1, longest: int = 15,
               window: int = 384, in_common: int = 128) -> list[list[Answer]]: ...
    def answer(self, question: str | Iterable[str], context: str | Iterable[str], *, top: int = 1, longest: int = 15,
               window: int = 384, in_common: int = 128) -> list[Answer] | list[list[Answer]]:
        """Where a context answers a question, best first; of several questions, with a context each, a list.

        top        answers to a question, at most; none in a context without tokens
        longest    tokens of an answer
        window     tokens of question and context that are read at once, or as many as the model takes
        in_common  of the context, with the window before

        Raises ShapeError for options that are not 1 or more, FormatError for a question that leaves no room.
        """
        one = isinstance(question, str) and isinstance(context, str)
        _warn_of_name("answer", context)
        questions, contexts = ([question], [context]) if one else (question, context)
        found = [[Answer(*parts) for parts in answers]
                 for answers in _heed.find_answers(self._made, questions, contexts, top, longest, window, in_common)]
        return found[0] if one else found

    @overload
    def fill(  # type: ignore[overload-overlap]
            self, text: str, *, top: int = 5, mask: str | None = None) -> list[list[MaskFilling]]: ...
    @overload
    def fill(self, text: Iterable[str], *, top: int = 5,
             mask: str | None = None) -> list[list[list[MaskFilling]]]: ...
    def fill(self, text: str | Iterable[str], *, top: int = 5, mask: str | None = None) \
            -> list[list[MaskFilling]] | list[list[list[MaskFilling]]]:
        """For each mask of a text what may stand there, the most probable first; of several texts a list.

        top   tokens for a mask
        mask  how texts write one; default: as the tokenizer has it, "[MASK]" or "<mask>"

        A text without a mask gives an empty list. Raises FormatError for a text longer than the model takes.
        """
        one = isinstance(text, str)
        _warn_of_name("fill", text)
        found = [[[MaskFilling(*parts) for parts in words] for words in masks]
                 for masks in _heed.fill_masks(self._made, [text] if one else text, top, mask)]
        return found[0] if one else found

    def attend(self, text: str) -> AttentionMap:
        """What attends to what in the text: a map of all layers and heads, (N, H, L, L); its labels are the tokens.

        Raises UsageError for a text without tokens, ShapeError for more than the model takes.
        """
        _, [group] = self._made.attended_reading(text, 0)
        return _map(*group)


class ImageEncoder(Model):
    """A model that reads pictures, as the Vision Transformer does.

        model = heed.ImageEncoder("vit-base-patch16-224")
        model.classify(PIL.Image.open("cat.png").convert("RGB"))[:3]
    """

    __slots__ = ()
    _kind = "ImageEncoder"

    @property
    def module(self) -> nn.ImageEncoder:
        """The model on the tape: Model.module."""
        module = self._made.module()
        assert isinstance(module, nn.ImageEncoder)
        return module

    @property
    def labels(self) -> list[str]:
        """The names of its classes, by number."""
        return _heed.labels(self._made)

    def prepare(self, picture: Array) -> Floats:
        """A picture, red, green and blue in (height, width, 3) bytes, as the model takes it: (1, 3, height, width).

        preprocessor_config.json of the directory says how it is resized, cut and normalised. Raises IoError,
        FormatError for that file, ShapeError for another shape or dtype.
        """
        pixels: Floats = _heed.prepare_image(_array("prepare", picture), _heed.load_image_preparation(self._path))
        return pixels

    def logits(self, pixels: Array) -> Floats:
        """(B, classes) float32 of pixels (B, channels, height, width), as prepare() gives them.

        Raises UsageError for a model without classes, ShapeError for pictures of another size.
        """
        if isinstance(pixels, (str, bytes, os.PathLike)):
            raise TypeError(f"logits: pixels is {pixels!r}, the name of a file; pass model.prepare({_read(pixels)})")
        with nn.no_grad():
            return self.module.logits(pixels).numpy().astype(np.float32, copy=False)

    def classify(self, picture: Array) -> list[ScoredLabel]:
        """All classes of a picture, as prepare() takes it, the most probable first.

        Raises UsageError for a model without classes, RuntimeError where a score is not finite.
        """
        pixels = self.prepare(_array("classify", picture))
        return [ScoredLabel(*parts) for parts in _heed.classify_picture(self._made, pixels)]

    def attend(self, picture: Array) -> AttentionMap:
        """What attends to what in a picture, as prepare() takes it: a map of all layers and heads, (N, H, L, L).

        Tokens are [CLS] and the patches, row by row: "3,4" is row 3, column 4. The map has the picture as the model
        took it, so that its page lies over it; over_picture() draws that, too.
        """
        weights, tokens, shown, patches = _heed.attended_picture(
            self._made, _array("attend", picture), _heed.load_image_preparation(self._path))
        return AttentionMap(weights, tokens, tokens, picture=shown, patches=patches)


class SpeechTransformer(Model):
    """A model that reads the spectrum of speech and writes it down, as Whisper does.

        model = heed.SpeechTransformer("whisper-tiny")
        ids = model.transcribe(mel, [50258, 50259, 50359, 50363])   # the start, English, transcribe, no times
        model.tokenizer.decode(ids)

    heed reads no sound: a log-mel spectrum is what WhisperFeatureExtractor of transformers makes of it.
    """

    __slots__ = ()
    _kind = "SpeechTransformer"

    @property
    def module(self) -> nn.SpeechTransformer:
        """The model on the tape: Model.module."""
        module = self._made.module()
        assert isinstance(module, nn.SpeechTransformer)
        return module

    def transcribe(self, mel: Array, prompt: Iterable[int], *, max_tokens: int = 224, temperature: float = 0.0,
                   top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0, seed: int = 0,
                   stop: Iterable[int] | None = None, never: Iterable[int] = (),
                   never_first: Iterable[int] = ()) -> list[int]:
        """The ids of what is said in a spectrum, behind the prompt and without what stops them.

        mel          (1, bins, frames) float32, as many frames as the model takes
        prompt       what the text begins with, one id at least: the start, language, task
        max_tokens   that are written behind it; default 224
        temperature, top_k, top_p, min_p, seed  as of LanguageModel.generate(); by default the likeliest ids
        stop         ids that end the text; default: those of generation_config.json
        never        ids that are not written; never_first: not as the first one

        Raises ShapeError for another shape and options out of range, RuntimeError where a logit is not finite.
        """
        ends = self._made.stop() if stop is None else stop
        return self.module.transcribe(mel, prompt, max_tokens=max_tokens, temperature=temperature, top_k=top_k,
                                      top_p=top_p, min_p=min_p, seed=seed, stop=ends, never=never,
                                      never_first=never_first)


def _warn(operation: str, cut: list[bool]) -> None:
    if any(cut):
        warnings.warn(f"{operation}: " + cut_in_words([i for i, one in enumerate(cut) if one]), stacklevel=3)


def _read(name: str | bytes | os.PathLike[Any]) -> str:
    """How the picture of a file is read in Python."""
    path = os.fsdecode(name)
    if path.lower().endswith(".png"):
        return f"heed.read_png({path!r})"
    if path.lower().endswith(".npy"):
        return f"numpy.load({path!r})"
    return f"PIL.Image.open({path!r}).convert('RGB')"


def _array(operation: str, picture: Any) -> Any:
    """A picture as an array. The name of a file is none."""
    if isinstance(picture, (str, bytes, os.PathLike)):
        raise TypeError(f"{operation}: picture is {picture!r}, the name of a file; pass {_read(picture)}")
    return np.asarray(picture)
