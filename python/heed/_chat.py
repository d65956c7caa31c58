"""Conversations: signatures and documentation. The work is done in _heed."""
from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple

from . import _heed
from ._models import LanguageModel, Stop


class ChatMessage(NamedTuple):
    role: Literal["system", "user", "assistant"]
    content: str


class Chat:
    """A conversation with a language model that was taught to answer, which goes on.

        chat = heed.Chat(heed.load("Qwen2-0.5B-Instruct"), temperature=0.7)
        chat.answer("Where does the Danube begin?")
        chat.answer("And where does it end?")               # what was said before is kept, not read again

    template     how a conversation is written: "chatml", "gemma", "llama2", "llama3", "mistral", "phi3", "zephyr", or
                 "plain", a dialogue as a text has it. Default: the one that the model's directory asks for, known by
                 its marks, since heed does not run the program in it
    system       what the model is told first; default: nothing
    max_tokens, min_tokens, temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size, seed, stop
                 as of LanguageModel.generate()

    A conversation that outgrows the model loses its beginning. Raises UsageError for a template that heed does not
    know, and for one whose marks are no tokens of the model's; ShapeError for options out of range.
    """

    __slots__ = ("_made",)

    def __init__(self, model: LanguageModel, *, template: str | None = None, system: str = "",
                 max_tokens: int | None = None, min_tokens: int | None = None, temperature: float | None = None,
                 top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
                 repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None, seed: int = 0,
                 stop: Stop = ()) -> None:
        if not isinstance(model, LanguageModel):
            raise TypeError(f"Chat: model is {model!r}; pass a heed.LanguageModel")
        if template is None:
            known = model.model_type and os.path.isdir(model._path or "")
            template = _heed.chat_template_of(model._path) if known else "plain"
        self._made = model._made.conversation(template, system, [stop] if isinstance(stop, str) else stop, max_tokens,
                                              min_tokens, temperature, top_k, top_p, min_p, repetition_penalty,
                                              no_repeat_ngram_size, seed)

    def answer(self, text: str) -> str:
        """What the model answers. The GIL is released; Ctrl-C ends it, and what was said until then stays."""
        return self._made.answer(text)

    @property
    def messages(self) -> list[ChatMessage]:
        """What was said so far."""
        return [ChatMessage(*parts) for parts in self._made.messages()]

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("pickle: a Chat stays with its model; keep its messages")
