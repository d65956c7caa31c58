"""Tokenizers: signatures and documentation. The work is done in _heed."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, overload

from . import _heed
from ._text import Path


class Encoding(NamedTuple):
    """What a text, or a pair of texts, became: T tokens.

    ids       (T)
    type_ids  which segment a token belongs to, for models that have segments
    offsets   (begin, end) in characters: text[begin:end] is what a token stands for; (0, 0) of one that was added
    added     True for a special token that stands in no text, such as [CLS]
    """

    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int]]
    added: list[bool]


class Tokenizer:
    """Turns text into ids and back, as a model wants it; model.tokenizer and heed.load_tokenizer() make one.

        tokenizer = heed.load_tokenizer("bert-base-uncased")
        encoding = tokenizer.encode("The dog sleeps.")
        encoding.ids, encoding.offsets
        tokenizer.decode(encoding.ids)                      # "the dog sleeps."

    Ids, offsets and decoded texts are those of the package tokenizers for the same tokenizer.json. len() is one more
    than the largest id. All methods may be called in several threads at once.
    """

    __slots__ = ("_made",)

    def __init__(self, made: _heed.Tokenizer) -> None:
        """Of the compiled part; load_tokenizer() makes one."""
        if not isinstance(made, _heed.Tokenizer):
            raise TypeError("Tokenizer: use heed.load_tokenizer(path)")
        self._made = made

    @overload
    def encode(self, text: str, *, special_tokens: bool = True) -> Encoding: ...  # type: ignore[overload-overlap]
    @overload
    def encode(self, text: Iterable[str], *, special_tokens: bool = True) -> list[Encoding]: ...
    def encode(self, text: str | Iterable[str], *, special_tokens: bool = True) -> Encoding | list[Encoding]:
        """The tokens of a text; of several texts a list.

        special_tokens  those that the model wants around a text are added; such that are written in it are found in
                        either case

        Raises TypeError for what is no text, RuntimeError where a regular expression of the tokenizer needs more steps
        than permitted.
        """
        one = isinstance(text, str)
        encoded = [Encoding(*parts) for parts in self._made.encode([text] if one else text, special_tokens)]
        return encoded[0] if one else encoded

    def encode_pair(self, first: str, second: str, *, special_tokens: bool = True) -> Encoding:
        """Two texts as one row, as models read a sentence and its premise. Offsets are in each token's own text."""
        return Encoding(*self._made.encode_pair(first, second, special_tokens))

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids, by default without special tokens. Ids that name no token add nothing."""
        return self._made.decode(ids, skip_special)

    def token(self, id: int) -> str | None:
        """A token as it is stored, "\u0120the" or "##ing"; None where the id names none."""
        return self._made.token(id)

    def written(self, id: int) -> str:
        """A token as a reader wants it: what it adds to a text behind others; "" where the id names none."""
        return self._made.written(id)

    def id_of(self, token: str) -> int | None:
        """The id of a token as it is stored; None where there is none."""
        return self._made.id_of(token)

    def special(self, id: int) -> bool:
        """Whether decode() leaves it out."""
        return self._made.special(id)

    @property
    def unknown(self) -> int | None:
        """The id of what stands for characters that there is no token for."""
        return self._made.unknown()

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("pickle: a Tokenizer stays in its directory; pass the path, and call heed.load_tokenizer() "
                        "there")


def load_tokenizer(path: Path, side: Literal["source", "target"] = "source") -> Tokenizer:
    """The tokenizer of a model's directory, heed's own or another maker's, or that in a GGUF file.

    Of a directory tokenizer.json, else source.spm and target.spm with vocab.json (Marian), else vocab.json with
    merges.txt, else vocab.txt, else a sentencepiece model; and heed's own vocabulary.txt.

    side  of a translator: of what it reads, or of what it writes

    Raises IoError, and FormatError where there is none or one breaks its format.
    """
    return Tokenizer(_heed.load_tokenizer(path, side))
