"""Conversations: signatures and documentation. The work is done in _heed."""
from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from . import _heed
from ._models import LanguageModel, Stop


class ChatMessage(NamedTuple):
    role: Literal["system", "user", "assistant"]
    content: str


Writer = Callable[[Sequence[ChatMessage]], str]


class Chat:
    """A conversation with a language model that was taught to answer, which goes on.

        chat = heed.Chat(heed.LanguageModel("Qwen2-0.5B-Instruct"), temperature=0.7)
        chat.answer("Where does the Danube begin?")
        chat.answer("And where does it end?")               # what was said before is kept, not read again

    template     how a conversation is written: "chatml", "gemma", "llama2", "llama3", "mistral", "phi3", "zephyr", or
                 "plain", a dialogue as a text has it; or a function that makes a text of ChatMessages, up to where the
                 answer begins. Default: the template that the model's directory or GGUF file has, a program in the
                 language of Jinja, which the package jinja2 (3.1.6 or later) runs in its sandbox where it is installed
                 and heed where not; "plain" where there is none
    system       what the model is told first; default: nothing
    max_tokens, min_tokens, temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size, seed, stop
                 as of LanguageModel.generate()

    A conversation that outgrows the model loses its beginning. Raises UsageError for a name that heed does not know, for
    a template whose marks are no tokens of the model's, and where the model's template does not take the conversation;
    ShapeError for options out of range.
    """

    __slots__ = ("_made",)

    def __init__(self, model: LanguageModel, *, template: str | Writer | None = None, system: str = "",
                 max_tokens: int | None = None, min_tokens: int | None = None, temperature: float | None = None,
                 top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
                 repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None, seed: int = 0,
                 stop: Stop = ()) -> None:
        if not isinstance(model, LanguageModel):
            raise TypeError(f"Chat: model is {model!r}; pass a heed.LanguageModel")
        form: Any = template
        if template is None:
            form = _own_template(model._path) if model.model_type and os.path.exists(model._path or "") else "plain"
        elif callable(template):
            form = lambda messages: template([ChatMessage(*parts) for parts in messages])  # noqa: E731
        self._made = model._made.conversation(form, model._path or "", system,
                                              [stop] if isinstance(stop, str) else stop, max_tokens, min_tokens,
                                              temperature, top_k, top_p, min_p, repetition_penalty,
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


def _own_template(path: str | None) -> Any:
    """A function that runs a model's own template by jinja2, as transformers does; None: heed runs it, by itself."""
    source, tokens = _heed.chat_source_of(path)
    if not source:
        return "plain"
    try:
        import jinja2
        import jinja2.ext
        import jinja2.meta
        import jinja2.sandbox
    except ImportError:
        return None
    if [int(part) for part in re.findall(r"\d+", jinja2.__version__)[:3]] < [3, 1, 6]:  # others let programs out
        return None

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body).set_lineno(line)

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
                sort_keys: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    named = {name: token for name, token in tokens.items() if token}

    def write(messages: Sequence[tuple[str, str]]) -> str:
        talk = [{"role": role, "content": content} for role, content in messages]
        try:
            return program.render(messages=talk, tools=None, documents=None, add_generation_prompt=True, **named)
        except jinja2.exceptions.TemplateError as error:
            raise _heed.UsageError(f"chat: the model's template does not take the conversation: {error}") from None

    try:
        program = environment.from_string(source)
        for name in jinja2.meta.find_undeclared_variables(environment.parse(source)):
            if name.endswith("_token") and name not in tokens:
                raise jinja2.exceptions.TemplateError(f"it writes {name}, which no file of the tokenizer names")
    except jinja2.exceptions.TemplateError as error:
        raise _heed.UsageError(f"chat: heed does not run the template of {path}: {error}; pass template=\"plain\", or "
                               "another name") from None
    return write
