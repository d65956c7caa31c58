"""heed.load()."""
from __future__ import annotations

from typing import Literal

from . import _heed
from ._encoders import ImageEncoder, SpeechTransformer, TextEncoder
from ._models import Dtype, LanguageModel, Translator
from ._text import Path

_KINDS: dict[str, type[Translator | LanguageModel | TextEncoder | ImageEncoder | SpeechTransformer]] = {
    kind.__name__: kind for kind in (Translator, LanguageModel, TextEncoder, ImageEncoder, SpeechTransformer)}


def load(path: Path, trust: bool = False, dtype: Dtype | Literal["int8"] | None = None, base: Path | None = None) \
        -> Translator | LanguageModel | TextEncoder | ImageEncoder | SpeechTransformer:
    """The model of a directory, or of a GGUF file, as what it is: isinstance() tells.

    A program that knows the kind calls its class: heed.Translator("models/spa-eng") is a Translator for type checkers,
    too, and refuses a model of another kind.

    heed's own, as heed train, save() and the program make them, are Translators and LanguageModels. Those of other
    makers, in the layout of Hugging Face's hub, may be all five; docs/models.md names the families. Adapters in the
    layout of PEFT are merged into their base: the directory `base`, None: the one that adapter_config.json names.

    Everything is checked before memory is taken. trust=True takes a vocabulary that heed did not make: it reaches
    sentencepiece's parser, which malicious files can corrupt. Matrices are kept as dtype, None: as the file has them;
    "int8" are blocks of 32 numbers with a factor. Raises IoError, FormatError, UntrustedError. A third-party tokenizer
    that heed does not read raises FormatError when it is first used, not here.
    """
    made = _heed.load(path, trust, dtype, base)
    return _KINDS[made.kind()]._of(made, path, base)
