"""Models: signatures, documentation, results. The work is done in _heed."""
from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypedDict, Unpack, overload

import numpy as np

from . import _heed, nn
from ._text import Path, Vocabulary
from ._tokenizer import Tokenizer
from ._view import AttentionMap, AttentionPage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
Stop = str | Iterable[str]
Dtype = Literal["float32", "float16", "bfloat16"]


class Translation(NamedTuple):
    """One translation of a text.

    text             what it says
    score            log p / length^length_penalty, summed over the text's sentences
    log_probability  of all its tokens, natural
    tokens           each piece with its log-probability, the end of each sentence, too
    alignment        (source word, target word) from 0, by cross-attention; empty unless alignment=True
    cut              a sentence was longer than the model takes, and what it says behind that is lost
    """

    text: str
    score: float
    log_probability: float
    tokens: list[tuple[str, float]]
    alignment: list[tuple[int, int]]
    cut: bool


class TextScore(NamedTuple):
    """How probable a language model finds a text. The first token has nothing before it; it does not count.

    tokens  that are predicted
    bytes   of these tokens, in UTF-8
    nats    -log p of all of them together, natural
    """

    tokens: int
    bytes: int
    nats: float

    @property
    def nats_per_token(self) -> float:
        return self.nats / self.tokens

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.bytes

    @property
    def perplexity(self) -> float:
        """Of a token: exp(nats_per_token)."""
        return math.exp(self.nats_per_token)


class Reading(NamedTuple):
    """All that a model computed of L tokens, and of T tokens of its decoder. float32.

    logits          (L, V) of a language model or of one that finds masked words, (T, V) of a translator; (L, classes)
                    or (classes) of other heads, (L, 2) of one that finds answers; None without a head
    encoder_states  (layers + 1, L, E): what enters each layer, then the last states; None unless states=True
    decoder_states  the same of a decoder; a language model is one
    weights         (H, Lq, Lk) each, by part and layer from 0: "encoder_0", "decoder_0", "cross_0"
    """

    logits: Floats | None
    encoder_states: Floats | None
    decoder_states: Floats | None
    weights: dict[str, Floats]


class Model:
    """What all kinds of models share. heed.load() loads a model of any kind, a class one of its own kind."""

    __slots__ = ("_made", "_config", "_path", "_base")
    _kind = ""  # the class of heed's that a model is of

    def __init__(self, path: Path, trust: bool = False, dtype: Dtype | Literal["int8"] | None = None,
                 base: Path | None = None) -> None:
        """Loads the model of a directory, or of a GGUF file: heed.load() says how, and what it raises.

        Raises UsageError for a model of another kind.
        """
        if not self._kind:
            raise TypeError("Model: it is what all models share; use heed.load(path), or a class such as heed.Translator")
        made = _heed.load(path, trust, dtype, base)
        if made.kind() != self._kind:
            raise _heed.UsageError(f"{self._kind}: {os.fsdecode(path)} holds a {made.kind()}; use heed.{made.kind()}, "
                                   "or heed.load for a model of any kind")
        self._take(made, path, base)

    @classmethod
    def _of(cls, made: _heed.Model, path: Path | None = None, base: Path | None = None) -> Self:
        """Of the compiled part."""
        model = cls.__new__(cls)
        model._take(made, path, base)
        return model

    def _take(self, made: _heed.Model, path: Path | None, base: Path | None) -> None:
        self._made = made
        self._config = _read(made.config())
        self._path, self._base = (None if place is None else os.path.abspath(os.fsdecode(place)) for place in (path, base))

    @property
    def config(self) -> dict[str, Any]:
        """What config.json says: the shape of the model. A copy. Of a GGUF file what it says, in config.json's keys."""
        return dict(self._config)

    @property
    def model_type(self) -> str:
        """Of another maker's model, "gpt2" for one; "" of heed's own."""
        return self._made.model_type()

    @property
    def module(self) -> nn.Module:
        """The model on the tape, on token ids: to compute with gradients, to train it, to record what it attends to.

        It shares all with the model, which computes with what training made of it after module.eval(). Matrices in half
        precision are for reading alone: call module.to("float32") before training.
        """
        return self._made.module()

    @property
    def tokenizer(self) -> Tokenizer:
        """Of what the model writes.

        Raises UsageError for a model of pictures, FormatError for a tokenizer that heed does not read.
        """
        return Tokenizer(self._made.tokenizer())

    @property
    def num_parameters(self) -> int:
        """Numbers in all parameters together."""
        return self._made.num_parameters()

    @property
    def vocabulary(self) -> Vocabulary:
        """Of what the model writes, of heed's own models. Raises UsageError for others, which have a tokenizer."""
        return Vocabulary(_own(self._made).vocabulary())

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The parameters by name: read-only arrays on the model's own memory, which they keep alive.

        float32; of a model that was saved in half precision its matrices are float16, or bfloat16 by the package
        ml_dtypes, without which that is an ImportError. Of matrices kept as "int8", copies of the numbers they stand for.
        """
        return {name: array.view(_bfloat16()) if is_bfloat16 else array
                for name, array, is_bfloat16 in self._made.parameters()}

    def save(self, directory: Path, dtype: Dtype | None = None, *, overwrite: bool = False) -> None:
        """Writes config.json, model.safetensors and the vocabularies, all at once, for heed.load() and the program.

        A third-party model is written in the layout that it came in, in its dtypes and with its tokenizer's files, for
        transformers, too.

        dtype      of heed's own models: "float32", the default, "float16" or "bfloat16"
        overwrite  True: replace the weights and config.json of the directory that this model was loaded from; its
                   other files stay. A model of heed's own also replaces another one of heed's own, unless that has a
                   README.md or a licence, which heed does not remove. Default False: the directory must be new or empty

        Raises UsageError for another directory and for a model of a GGUF file, ShapeError for another dtype,
        FormatError for values that do not fit into it, IoError.
        """
        self._made.save(directory, dtype, overwrite)

    def read(self, ids: Iterable[int], target: Iterable[int] | None = None, *, states: bool = False,
             weights: bool = False) -> Reading:
        """All that the model computes of a row of ids, which it takes as it is, special tokens included.

        ids     as reading_ids() gives them
        target  of a translator, which needs it: what its decoder takes, from the token that begins it
        states  also the hidden states of all layers
        weights also the attention of all layers and heads

        Raises ShapeError for ids outside the vocabulary and more of them than the model takes, UsageError for a model
        that reads no text.
        """
        logits, encoder, decoder, maps = _heed.read_ids(self._made, ids, target, states, weights)
        return Reading(logits, encoder, decoder, dict(maps))

    def make_adapters(self, rank: int = 8, alpha: float = 16.0,
                      layers: Literal["attention", "all"] = "attention") -> nn.LowRankAdapters:
        """Low-rank adapters (Hu et al. 2021, "LoRA") of another maker's model: few numbers to train instead of all.

        rank, alpha  W + (alpha / rank) B A, where A has `rank` rows
        layers       "attention": those of queries and values; "all": all linear layers of its stacks

        What is drawn depends on heed.nn.manual_seed(). A head that tells classes is trained whole. Raises UsageError
        for heed's own models and for one in half precision, ShapeError for options out of range.
        """
        return _heed.make_adapters(self._made, layers, rank, alpha)

    def save_adapters(self, adapters: nn.LowRankAdapters, directory: Path) -> None:
        """Writes adapters alone in the layout of PEFT, for heed.load() and for PEFT: small, beside a model that stays.

        The directory is new or empty, and names that of the model. Raises UsageError for another one, IoError.
        """
        _heed.save_adapters(self._made, adapters, self._path, directory)

    def reading_ids(self, text: str) -> list[int]:
        """The ids that the model reads of a text, with its special tokens; of a language model those in front alone."""
        return _heed.reading_ids(self._made, text)

    if not TYPE_CHECKING:  # for checkers a model has the attributes of its class alone
        def __getattr__(self, name: str) -> Any:
            kinds = [] if name.startswith("_") else _kinds_with(name)
            if not kinds:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"{name}: the model is {_heed.what_it_does(self._made)}; {name} is of a " +
                                 " or a ".join(f"heed.{kind}" for kind in kinds))

    def __repr__(self) -> str:
        if self.model_type:
            return f"{type(self).__name__}({self.model_type}, {self.num_parameters:,} parameters)"
        kind = {name: self._config[name] for name in ("vocab_size", "d_model", "nhead")}
        return f"{type(self).__name__}({self.num_parameters:,} parameters, " + \
            ", ".join(f"{name} {value}" for name, value in kind.items()) + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.model_type:
            raise TypeError(f"pickle: a {self.model_type} of another maker stays in its directory; pass the path, "
                            f"{self._path}, and call heed.load() there")
        return _restored, (self._made.config(), self._made.vocabulary_texts(), self._made.parameters())


class TranslateOptions(TypedDict, total=False):
    """The options of Translator.translate() by name; its documentation says what they are."""

    beam: int | None
    length_penalty: float | None
    max_length: int | None
    min_length: int | None
    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    alignment: bool
    sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int | None
    batch: int
    split: bool | None
    prefix: str
    source_language: str
    target_language: str


class Translator(Model):
    """An encoder-decoder that translates.

        model = heed.Translator("models/spa-eng")
        model.translate("¿Dónde está la biblioteca?")         # "Where's the library?"
        model.translate(["Hola.", "Adiós."])                  # a list
        model.translate("Hola.", n_best=3)                    # three heed.Translation

    Models may be used in several threads at once; heed's own can be pickled and copied.
    """

    __slots__ = ()
    _kind = "Translator"

    @property
    def module(self) -> nn.Transformer:
        """The model on the tape: Model.module."""
        module = self._made.module()
        assert isinstance(module, nn.Transformer)
        return module

    @property
    def source_vocabulary(self) -> Vocabulary:
        """Of what the model reads; often the same as `vocabulary`."""
        return Vocabulary(_own(self._made).source_vocabulary())

    @property
    def source_tokenizer(self) -> Tokenizer:
        """Of what the model reads; often the same as `tokenizer`."""
        return Tokenizer(self._made.source_tokenizer())

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is texts, too
            self, text: str, *, n_best: None = None, **options: Unpack[TranslateOptions]) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
            self, text: str, *, n_best: int, **options: Unpack[TranslateOptions]) -> list[Translation]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: None = None,
                  **options: Unpack[TranslateOptions]) -> list[str]: ...
    @overload
    def translate(self, text: Iterable[str], *, n_best: int,
                  **options: Unpack[TranslateOptions]) -> list[list[Translation]]: ...
    def translate(self, text: str | Iterable[str], *, n_best: int | None = None, beam: int | None = None,
                  length_penalty: float | None = None, max_length: int | None = None, min_length: int | None = None,
                  repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None,
                  alignment: bool = False, sample: bool | None = None, temperature: float | None = None,
                  top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
                  seed: int | None = None, batch: int = 32, split: bool | None = None, prefix: str = "",
                  source_language: str = "", target_language: str = "") \
            -> str | list[str] | list[Translation] | list[list[Translation]]:
        """Translates a text, or each of several: a str gives a str, others a list.

        n_best                up to so many translations of each text, best first, as heed.Translation with scores and
                              tokens; with different texts, unless drawn; default: the text of the best one alone
        beam                  hypotheses kept, at least n_best; 1 is greedy; default 5
        length_penalty        score = log p / length^length_penalty: more, longer translations; default 1.4
        max_length            longest translation in tokens; 0, the default, for twice the source and 10
        min_length            shortest one; default 0
        repetition_penalty    scores of tokens that are in the translation are divided by it (multiplied, where
                              negative); default 1: nothing
        no_repeat_ngram_size  no row of so many tokens is written twice; default 0: any may be
        alignment             also which word comes from which, with n_best
        sample                draw translations instead of searching, with the next five options, which need it, and
                              without beam; default False
        temperature           scores are divided by it; 0: the most probable token; default 1
        top_k                 draw among so many of the most probable tokens; 0, the default: all
        top_p                 draw among the fewest tokens that reach this probability together; default 1
        min_p                 draw among those with this share of the greatest probability; default 0: all
        seed                  of the draws, which are functions of it, of the place of the text and of the step;
                              default 0
        batch                 sentences decoded together at most; default 32
        split                 True: the sentences of a text are translated one by one; False: as one text. Default:
                              False for BART and T5, which also summarise; True for other models
        prefix                in front of each sentence: "translate English to German: " for T5
        source_language, target_language  of models of many languages, as their tokenizer names them: "spa_Latn", or
                              "es" for "__es__" and Marian's ">>es<<". A text that begins with ">>es<<" has its own

        These are the defaults of heed's own models. A third-party model is searched, or drawn from, as its
        generation_config.json says where an option is not given.

        Blank texts stay as they are. The GIL is released, and Ctrl-C ends it. Raises ShapeError for options out of
        range; UsageError for options that have no effect (beam or, for one translation, length_penalty with
        sample=True, temperature without it, top_k with temperature 0), for a language that the model does not have and
        for what its generation_config.json asks for and heed does not have; TypeError for what is no text.
        """
        if alignment is True and n_best is None:
            raise _heed.UsageError("translate: alignment comes with Translation objects; pass n_best, too")
        call = _heed.TranslateCall(beam, length_penalty, max_length, min_length, repetition_penalty,
                                   no_repeat_ngram_size, n_best, alignment, sample, temperature, top_k, top_p, min_p,
                                   seed, batch, split, prefix, source_language, target_language)
        one = isinstance(text, str)
        _warn_of_name("translate", text)
        found: Any = self._made.translate([text] if one else text, call, n_best is not None)
        if n_best is not None:
            found = [[Translation(*parts) for parts in best] for best in found]
        result: str | list[str] | list[Translation] | list[list[Translation]] = found[0] if one else found
        return result

    @overload
    def score(  # type: ignore[overload-overlap]
            self, text: str, translation: str, *, length_penalty: float | None = None, alignment: bool = False,
            batch: int = 32, prefix: str = "", source_language: str = "",
            target_language: str = "") -> Translation: ...
    @overload
    def score(self, text: Iterable[str], translation: Iterable[str], *, length_penalty: float | None = None,
              alignment: bool = False, batch: int = 32, prefix: str = "", source_language: str = "",
              target_language: str = "") -> list[Translation]: ...
    def score(self, text: str | Iterable[str], translation: str | Iterable[str], *, length_penalty: float | None = None,
              alignment: bool = False, batch: int = 32, prefix: str = "", source_language: str = "",
              target_language: str = "") -> Translation | list[Translation]:
        """How probable the model finds a translation of a text; or of several texts, one of each.

        Options as of translate(). Texts are taken whole. Raises ShapeError where the numbers of texts differ,
        FormatError for a translation that is longer than the model takes.
        """
        one = isinstance(text, str) and isinstance(translation, str)
        texts, given = ([text], [translation]) if one else (text, translation)
        found = [Translation(*parts)
                 for parts in self._made.score_translations(texts, given, length_penalty, alignment, batch, prefix,
                                                            source_language, target_language)]
        return found[0] if one else found

    def logits(self, source: Iterable[int], target: Iterable[int]) -> Floats:
        """(L + 1, V) float32, the scores of every piece before the softmax: row i is of what comes in place of
        target[i], the last row of what comes behind the L ids of target.

        source  ids of source_vocabulary, as its encode() gives them; the end is added here. Of another maker's model
                those of source_tokenizer.encode(), with the end
        target  ids of what it writes; the beginning is added here

        Raises ShapeError for ids outside the vocabularies, and for more than the model takes.
        """
        logits: Floats = self._made.logits_of_pair(source, target)
        return logits

    @overload
    def embed(self, text: str, *, tokens: bool = False) -> Floats: ...  # type: ignore[overload-overlap]
    @overload
    def embed(self, text: Iterable[str], *, tokens: Literal[False] = False) -> Floats: ...
    @overload
    def embed(self, text: Iterable[str], *, tokens: Literal[True]) -> list[Floats]: ...
    def embed(self, text: str | Iterable[str], *, tokens: bool = False) -> Floats | list[Floats]:
        """(E) float32, the mean over a text's tokens of what the encoder makes of them; of B texts (B, E).

        With tokens=True the hidden states themselves, (L, E), one row for each of source_vocabulary.tokenize(text); of
        several texts a list. Of another maker's model one for each of reading_ids(text), and they all count in the
        mean. Raises ShapeError for a text without tokens, and for more than the model takes.
        """
        _warn_of_name("embed", text)
        return _embedded(self, text, tokens)

    def attend(self, text: str, translation: str | None = None, *, beam: int | None = None) -> AttentionPage:
        """What attended to what while the text was translated, or the given translation read.

        .maps has "Encoder", "Decoder" and "Cross", each an AttentionMap of all layers and heads, (N, H, Lq, Lk): the
        source among itself, what is written among itself, and what each token that is written looked at in the source.
        .title is the text, .text the translation. The text is taken whole, not split into sentences.

        translation  instead of the model's own
        beam         hypotheses; default as of translate()

        Raises UsageError for a text without tokens, ShapeError for more than the model takes.
        """
        translated, groups = self._made.attended_translating(text, translation, beam)
        return AttentionPage({group[0]: _map(*group) for group in groups}, text, translated)


class LanguageModel(Model):
    """A decoder-only Transformer that continues texts.

        model = heed.LanguageModel("my-writer")
        model.generate("Once upon a time", max_tokens=100, temperature=0.8)
        for piece in model.generate("Once upon a time", stream=True):
            print(piece, end="", flush=True)

    Models may be used in several threads at once; heed's own can be pickled and copied.
    """

    __slots__ = ()
    _kind = "LanguageModel"

    @property
    def module(self) -> nn.LanguageModel:
        """The model on the tape: Model.module."""
        module = self._made.module()
        assert isinstance(module, nn.LanguageModel)
        return module

    @overload
    def generate(self, prompt: str, *, max_tokens: int | None = None, min_tokens: int | None = None,
                 temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                 min_p: float | None = None, repetition_penalty: float | None = None,
                 no_repeat_ngram_size: int | None = None, seed: int | None = None, stop: Stop = (),
                 stream: Literal[False] = False) -> str: ...
    @overload
    def generate(self, prompt: str, *, max_tokens: int | None = None, min_tokens: int | None = None,
                 temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                 min_p: float | None = None, repetition_penalty: float | None = None,
                 no_repeat_ngram_size: int | None = None, seed: int | None = None, stop: Stop = (),
                 stream: Literal[True]) -> Iterator[str]: ...
    def generate(self, prompt: str, *, max_tokens: int | None = None, min_tokens: int | None = None,
                 temperature: float | None = None, top_k: int | None = None, top_p: float | None = None,
                 min_p: float | None = None, repetition_penalty: float | None = None,
                 no_repeat_ngram_size: int | None = None, seed: int | None = None, stop: Stop = (),
                 stream: bool = False) -> str | Iterator[str]:
        """What the model makes follow a text, without it.

        prompt                the text; one without tokens counts as a newline
        max_tokens            longest continuation; default 256
        min_tokens            shortest one; default 0
        temperature           scores are divided by it; 0: always the most probable token; default 0.8
        top_k                 draw among so many of the most probable tokens; 0: all; default 40
        top_p                 draw among the fewest tokens that reach this probability together; default 0.95
        min_p                 draw among those with this share of the greatest probability; default 0: all
        repetition_penalty    scores of tokens that are in the text are divided by it (multiplied, where negative);
                              default 1: nothing
        no_repeat_ngram_size  no row of so many tokens is written that is in the text already; default 0: any may be
        seed                  the same seed gives the same text; default 0
        stop                  a text or several that end what is written, and are no part of it
        stream                an iterator over the text, in whole characters as soon as they are certain; the model
                              computes while one waits for the next, and ends where nobody asks for more

        These are the defaults of heed's own models and of GGUF files. Another model writes as its
        generation_config.json says where an option is not given; without do_sample in it the most probable tokens.

        The GIL is released, and Ctrl-C ends it. Raises ShapeError for options out of range, UsageError for options that
        have no effect (top_k with temperature 0, seed where the most probable tokens are taken) and for what the
        generation_config.json asks for and heed does not have, RuntimeError where a logit is not finite.
        """
        _warn_of_name("generate", prompt)
        made = self._made.continued(prompt, [stop] if isinstance(stop, str) else stop, max_tokens, min_tokens,
                                    temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size, seed)
        if not isinstance(stream, bool):
            raise TypeError(f"generate: stream is {stream!r}; pass True or False")
        return _pieces(made) if stream else made.next(True)

    @overload
    def score(self, text: str) -> TextScore: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, text: Iterable[str]) -> list[TextScore]: ...
    def score(self, text: str | Iterable[str]) -> TextScore | list[TextScore]:
        """How probable the model finds a text, or each of several. Raises ShapeError for one of fewer than 2 tokens."""
        if isinstance(text, str):
            return TextScore(*self._made.score_text(text))
        return [TextScore(*self._made.score_text(one)) for one in _several("score: texts", text)]

    def logits(self, ids: Iterable[int]) -> Floats:
        """(L, V) float32, the scores of every piece before the softmax: row i is of what follows ids[: i + 1].

        Raises ShapeError for no ids, ids outside the vocabulary, and more than the model takes.
        """
        logits: Floats = self._made.logits(ids)
        return logits

    @overload
    def embed(self, text: str, *, tokens: bool = False) -> Floats: ...  # type: ignore[overload-overlap]
    @overload
    def embed(self, text: Iterable[str], *, tokens: Literal[False] = False) -> Floats: ...
    @overload
    def embed(self, text: Iterable[str], *, tokens: Literal[True]) -> list[Floats]: ...
    def embed(self, text: str | Iterable[str], *, tokens: bool = False) -> Floats | list[Floats]:
        """(E) float32, the mean over a text's tokens of their last hidden states; of B texts (B, E).

        With tokens=True the hidden states themselves, (L, E), one row for each of reading_ids(text); of several texts a
        list. Raises ShapeError for a text without tokens, and for more than the model takes.
        """
        _warn_of_name("embed", text)
        return _embedded(self, text, tokens)

    def attend(self, text: str, *, max_tokens: int = 0) -> AttentionMap:
        """What attended to what in the text, and in so many tokens that the model writes behind it, the likeliest each.

        A map of all layers and heads, (N, H, L, L); its labels are the tokens. Raises UsageError for a text without
        tokens, ShapeError for more than the model takes.
        """
        _, [group] = self._made.attended_reading(text, max_tokens)
        return _map(*group)


def _kinds_with(name: str) -> list[str]:
    """The kinds of models that have a method or a property."""
    from ._encoders import ImageEncoder, SpeechTransformer, TextEncoder
    return [kind.__name__ for kind in (Translator, LanguageModel, TextEncoder, ImageEncoder, SpeechTransformer)
            if name in vars(kind)]


def _map(_: str, title: str, weights: Any, queries: list[str], keys: list[str]) -> AttentionMap:
    return AttentionMap(weights, queries, keys, title)


def _own(made: _heed.Model) -> _heed.Model:
    if kind := made.model_type():
        raise _heed.UsageError(f"vocabulary: a {kind} of another maker has none; use tokenizer")
    return made


def _restored(config: str, vocabularies: list[str], parameters: list[Any]) -> Translator | LanguageModel:
    made = _heed.restored(config, vocabularies, parameters)
    return Translator._of(made) if made.kind() == "Translator" else LanguageModel._of(made)


def _pieces(made: _heed.Text) -> Iterator[str]:
    while piece := made.next(False):
        yield piece


def _embedded(model: Model, text: Any, tokens: Any) -> Floats | list[Floats]:
    if not isinstance(tokens, bool):
        raise TypeError(f"embed: tokens is {tokens!r}; pass True or False")
    one = isinstance(text, str)
    texts = [text] if one else text
    if model.model_type and not tokens:
        vectors: Floats = _pooled(model, texts)
        return vectors[0] if one else vectors
    states: list[Floats] = model._made.hidden_states(texts)
    if tokens:
        return states[0] if one else states
    if one:
        mean: Floats = states[0].mean(axis=0)
        return mean
    if not states:
        return np.empty((0, model.config["d_model"]), np.float32)
    return np.stack([each.mean(axis=0) for each in states])


def _pooled(model: Model, texts: Any) -> Any:
    """(N, E), as the modules of the directory say."""
    modules = _heed.load_sentence_modules(model._path) if os.path.isdir(model._path or "") else _heed.SentenceModules()
    vectors, cut = _heed.embed_texts(model._made, texts, modules)
    if cut:
        warnings.warn("embed: " + cut_in_words(cut), stacklevel=4)
    return vectors


def cut_in_words(cut: list[int]) -> str:
    """What a warning says of texts that were cut, by their indices."""
    if len(cut) == 1:
        return f"text {cut[0]} is longer than the model takes; its end does not count"
    others = "1 other" if len(cut) == 2 else f"{len(cut) - 1} others"
    return f"text {cut[0]} and {others} are longer than the model takes; their ends do not count"


_TEXT_FILES = (".csv", ".json", ".jsonl", ".md", ".txt", ".tsv", ".png", ".jpg", ".jpeg", ".pdf", ".html")


def _warn_of_name(operation: str, text: Any) -> None:
    """A text that is the name of a file is more likely a mistake than a text."""
    if isinstance(text, str) and text.lower().endswith(_TEXT_FILES) and os.path.isfile(text):
        warnings.warn(f"{operation}: the text is {text!r}, which is the name of a file; pass open({text!r}).read() for "
                      "its content", stacklevel=3)


def _read(config: str) -> dict[str, Any]:
    import json  # a millisecond, for those who load a model
    return dict(json.loads(config))


def _several(what: str, texts: Any) -> Iterable[Any]:
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"{what} is {texts!r}; pass a str or a list of str")
    return texts


def _bfloat16() -> Any:
    try:
        from ml_dtypes import bfloat16
    except ImportError as error:
        raise ImportError("state_dict: the model holds bfloat16, which NumPy has by the package ml_dtypes; install it"
                          ) from error
    return bfloat16
