"""Vocabularies and metrics: signatures and documentation. The work is done in _heed."""
import os
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, overload

from . import _heed

Path = str | os.PathLike[str]


class Vocabulary:
    """The pieces that a model's texts are made of: byte-pair encoding with bytes as the last resort, or characters.

        vocabulary = heed.Vocabulary.train(texts, 2000)
        ids = vocabulary.encode("No sé qué decir.")
        vocabulary.decode(ids)                              # "No sé qué decir."

    len() is the number of pieces. Ids of a vocabulary that heed made: 0 pad, 1 unknown, 2 begin, 3 end, 4 to 259 the
    bytes, then the pieces; one of characters has 0 unknown and the characters. pad_id, unk_id, bos_id and eos_id are
    None where there is no such piece. All methods may be called in several threads at once; vocabularies are pickled
    and compared by what they hold.
    """

    __slots__ = ("_made", "_pieces")

    def __init__(self, made: _heed.Vocabulary) -> None:
        """Of the compiled part; load(), train() and characters() make one."""
        if not isinstance(made, _heed.Vocabulary):
            raise TypeError("Vocabulary: use Vocabulary.load(), Vocabulary.train() or Vocabulary.characters()")
        self._made = made
        self._pieces: list[str] | None = None

    @classmethod
    def load(cls, path: Path, trust: bool = False) -> "Vocabulary":
        """Of a file: heed's vocabulary.txt, or with trust=True a sentencepiece .model.

        Such a model reaches sentencepiece's own parser, which malicious files can corrupt. Raises IoError, FormatError,
        and UntrustedError without `trust`.
        """
        return cls(_heed.load_vocabulary(path, trust))

    @classmethod
    def train(cls, texts: Iterable[str], size: int = 8000, *, fewer_will_do: bool = False,
              character_coverage: float = 0.9995,
              spaces: Literal["collapse", "keep", "verbatim"] = "collapse") -> "Vocabulary":
        """Learns the pieces of texts; pass those of both languages for one vocabulary of both.

        size                pieces in all: 4 special ones, 256 bytes, the characters, the rest; default 8000
        fewer_will_do       fewer than `size`, where the texts give no more; else that is a ShapeError
        character_coverage  share of the characters that get a piece, 0.98 to 1; the rest become bytes
        spaces              "collapse" drops those at the ends and makes runs one, for sentences; "keep" keeps each;
                            "verbatim" changes nothing, for language models

        A function of the texts, in any order. Raises ShapeError.
        """
        return cls(_heed.train_vocabulary(texts, size, fewer_will_do, character_coverage, spaces))

    @classmethod
    def characters(cls, text: str) -> "Vocabulary":
        """Each character of the text is a piece, and all others are unknown. Raises ShapeError for an empty text."""
        return cls(_heed.vocabulary_of_characters(text))

    def save(self, path: Path) -> None:
        """Writes a file for load(), whole or not at all. Raises IoError."""
        self._made.save(path)

    @overload
    def encode(self, text: str) -> list[int]: ...  # type: ignore[overload-overlap]  # a str is texts, too
    @overload
    def encode(self, text: Iterable[str]) -> list[list[int]]: ...
    def encode(self, text: str | Iterable[str]) -> list[int] | list[list[int]]:
        """The ids of a text's pieces, without begin and end; of several texts a list for each."""
        if isinstance(text, str):
            return self._made.encode([text])[0]
        return self._made.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Special pieces are skipped. Raises ShapeError for ids outside 0 .. len() - 1."""
        return self._made.decode(ids)

    def tokenize(self, text: str) -> list[str]:
        """The pieces of a text, with "\u2581" for a space in front and "<0xHH>" for a byte."""
        return self._made.tokenize(text)

    @property
    def pieces(self) -> list[str]:
        """All pieces, in the order of their ids."""
        if self._pieces is None:
            self._pieces = self._made.pieces()
        return list(self._pieces)

    @property
    def pad_id(self) -> int | None:
        return self._special(0)

    @property
    def unk_id(self) -> int | None:
        return self._special(1)

    @property
    def bos_id(self) -> int | None:
        return self._special(2)

    @property
    def eos_id(self) -> int | None:
        return self._special(3)

    def _special(self, place: int) -> int | None:
        found = self._made.special_ids()[place]
        return found if found >= 0 else None

    def __len__(self) -> int:
        return len(self._made)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._made is other._made or self._made.to_text() == other._made.to_text()

    def __hash__(self) -> int:
        return hash((len(self), *self._made.special_ids()))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {'characters' if self._made.of_characters() else 'pieces'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _vocabulary_of, (self._made.to_text(),)


def _vocabulary_of(text: str) -> Vocabulary:
    return Vocabulary(_heed.vocabulary_from_text(text))


class Confidence(NamedTuple):
    """95 % of resampled corpora score within mean - half_width .. mean + half_width."""

    mean: float
    half_width: float


class BleuScore(NamedTuple):
    """BLEU of a corpus. str() is sacreBLEU's line, float() the score."""

    score: float  #: 0 to 100
    precisions: tuple[float, ...]  #: of 1- to 4-grams, 0 to 100, smoothed
    brevity_penalty: float
    hypothesis_length: int  #: in tokens
    reference_length: int  #: in tokens
    confidence: Confidence | None  #: where resamples were asked for
    signature: str
    line: str

    def __str__(self) -> str:
        return self.line

    def __float__(self) -> float:
        return self.score


class ChrfScore(NamedTuple):
    """chrF2 of a corpus. str() is sacreBLEU's line, float() the score."""

    score: float  #: 0 to 100
    confidence: Confidence | None  #: where resamples were asked for
    signature: str
    line: str

    def __str__(self) -> str:
        return self.line

    def __float__(self) -> float:
        return self.score


References = Iterable[str] | Iterable[Iterable[str]]


def bleu(hypotheses: Iterable[str], references: References, *, lowercase: bool = False, resamples: int = 0,
         seed: int = 12345) -> BleuScore:
    """BLEU of a corpus (Papineni et al. 2002), as sacreBLEU has it by default: 13a tokens, exponential smoothing.

    hypotheses  the translations
    references  the right ones, as many; or several such lists, one for each translator
    lowercase   compare without regard to case
    resamples   for a confidence interval by bootstrap (Koehn 2004): 1000 is usual; 0, the default, for none
    seed        of the resamples

    Raises ShapeError where the numbers of texts differ or are 0.
    """
    s = _heed.bleu(hypotheses, _reference_lists(references), lowercase, resamples, seed)
    return BleuScore(s.score, tuple(s.precisions), s.brevity_penalty, s.hypothesis_length, s.reference_length,
                     _confidence(s.confidence()), s.signature(), s.format())


def chrf(hypotheses: Iterable[str], references: References, *, lowercase: bool = False, resamples: int = 0,
         seed: int = 12345) -> ChrfScore:
    """chrF2 of a corpus (Popovi\u0107 2015), as sacreBLEU has it by default: n-grams of up to 6 characters, recall
    weighs twice as much as precision. Arguments and errors as of bleu()."""
    s = _heed.chrf(hypotheses, _reference_lists(references), lowercase, resamples, seed)
    return ChrfScore(s.score, _confidence(s.confidence()), s.signature(), s.format())


def _reference_lists(references: Any) -> list[Any]:
    if isinstance(references, (str, bytes)) or not isinstance(references, Iterable):
        return [references]  # refused where it is read
    lists = list(references)
    return [lists] if not lists or isinstance(lists[0], str) else lists


def _confidence(found: Any) -> Confidence | None:
    return None if found is None else Confidence(*found)
