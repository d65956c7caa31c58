"""Attention: softmax(scores) V and its gradients, fused, on NumPy's arrays and whatever else has DLPack.

    out = heed.attention(q, k, v, causal=True)                       # q (B, Hq, Lq, D), k and v (B, Hkv, Lk, .)
    r = heed.attention(q, k, v, causal=True, return_lse=True)        # r.out, r.lse
    g = heed.attention_backward(grad, q, k, v, r)                    # g.q, g.k, g.v

Models: translators, language models and readers of texts, heed's own and other makers', with their tokenizers.

    model = heed.load("models/spa-eng")                              # or "bert-base-uncased", or "model.gguf"
    model.translate("¿Dónde está la biblioteca?")

What does not fit is an exception that says the rule and the remedy. Calls release the GIL and share one pool of
threads: HEED_NUM_THREADS when heed is imported, set_num_threads() later.
"""
import importlib
import os
from typing import TYPE_CHECKING, Any

from . import mods
from ._attention import (AttentionGradients, AttentionResult, Select, TopWeights, attention, attention_backward,
                         block_mask, explain, get_num_threads, merge, set_num_threads)
from ._bundled import bundled_model
from ._cache import KVCache, Rotary, rotary
from ._heed import (BlockMask, FormatError, IoError, ShapeError, TrainingError, UnsupportedTemplateError,
                    UntrustedError, UsageError, version as __version__)

if TYPE_CHECKING:
    from . import nn
    from ._chat import Chat, ChatMessage
    from ._encoders import (Answer, ImageEncoder, LabelledSpan, LabelledText, LabelledToken, MaskFilling, ScoredLabel,
                            SpeechTransformer, TextEncoder)
    from ._load import load
    from ._models import LanguageModel, Model, Reading, TextScore, Translation, Translator
    from ._text import BleuScore, ChrfScore, Confidence, Vocabulary, bleu, chrf
    from ._tokenizer import Encoding, Tokenizer, load_tokenizer
    from ._training import TrainOptions, TrainProgress, TrainResult, Validation, train
    from ._view import AttentionMap, AttentionPage, PatchMap, PictureOptions, TopKeys, read_png

__all__ = ["Answer", "AttentionGradients", "AttentionMap", "AttentionPage", "AttentionResult", "BleuScore", "BlockMask",
           "Chat", "ChatMessage", "ChrfScore", "Confidence", "Encoding", "FormatError", "ImageEncoder", "IoError",
           "KVCache", "LabelledSpan", "LabelledText", "LabelledToken", "LanguageModel", "MaskFilling", "Model",
           "PatchMap", "PictureOptions", "Reading", "Rotary", "ScoredLabel", "Select", "ShapeError", "SpeechTransformer",
           "TextEncoder", "TextScore", "Tokenizer", "TopKeys", "TopWeights", "TrainOptions", "TrainProgress",
           "TrainResult", "TrainingError", "Translation", "Translator", "UnsupportedTemplateError", "UntrustedError",
           "UsageError", "Validation", "Vocabulary", "attention", "attention_backward", "bleu", "block_mask",
           "bundled_model", "chrf", "explain", "get_num_threads", "load", "load_tokenizer", "merge", "mods", "nn",
           "read_png", "rotary", "set_num_threads", "train"]

# Imported when they are first asked for: together they take as long as the rest.
_LATER = {name: place for place, names in {
    "nn": ("nn",),
    "_chat": ("Chat", "ChatMessage"),
    "_encoders": ("Answer", "ImageEncoder", "LabelledSpan", "LabelledText", "LabelledToken", "MaskFilling",
                  "ScoredLabel", "SpeechTransformer", "TextEncoder"),
    "_load": ("load",),
    "_models": ("LanguageModel", "Model", "Reading", "TextScore", "Translation", "Translator"),
    "_text": ("BleuScore", "ChrfScore", "Confidence", "Vocabulary", "bleu", "chrf"),
    "_tokenizer": ("Encoding", "Tokenizer", "load_tokenizer"),
    "_training": ("TrainOptions", "TrainProgress", "TrainResult", "Validation", "train"),
    "_view": ("AttentionMap", "AttentionPage", "PatchMap", "PictureOptions", "TopKeys", "read_png"),
}.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'heed' has no attribute {name!r}")
    module = importlib.import_module("." + _LATER[name], __name__)
    globals()[name] = value = module if name == "nn" else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


# As users write them, in tracebacks and in pickles.
for _public in (BlockMask, FormatError, IoError, ShapeError, TrainingError, UnsupportedTemplateError, UntrustedError,
                UsageError):
    _public.__module__ = "heed"

if _threads := os.environ.get("HEED_NUM_THREADS"):
    if not _threads.isdecimal():
        raise ValueError(f"HEED_NUM_THREADS is {_threads!r}; set it to a number, 0 for one thread per hardware thread")
    set_num_threads(int(_threads))
