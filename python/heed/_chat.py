"""Conversations: signatures and documentation. The work is done in _heed."""
from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast

from . import _heed
from ._models import LanguageModel, Stop


class ChatMessage(NamedTuple):
    role: Literal["system", "user", "assistant"]
    content: str


Writer = Callable[[Sequence[ChatMessage]], str]


class Chat:
    """A multi-turn conversation with a chat model.

        chat = heed.Chat(heed.LanguageModel("Qwen2-0.5B-Instruct"), temperature=0.7)
        chat.answer("Where does the Danube begin?")
        chat.answer("And where does it end?")               # what was said before is kept, not read again

    template     how a conversation is written: "chatml", "gemma", "llama2", "llama3", "mistral", "phi3", "zephyr", or
                 "plain", a dialogue as a text has it; or a function that makes a text of ChatMessages, up to where the
                 answer begins. Default: the template that the model's directory or GGUF file has, a program in the
                 language of Jinja, or "plain" where there is none. heed runs the program, within bounds of time and
                 memory. The package jinja2 (3.1.6 or later), where it is installed, runs what heed does not have. It
                 has no such bounds
    system       what the model is told first; default: nothing
    max_tokens, min_tokens, temperature, top_k, top_p, min_p, repetition_penalty, no_repeat_ngram_size, seed, stop
                 as of LanguageModel.generate()

    A conversation that outgrows the model loses its beginning. Raises UsageError for a name that heed does not know, for
    a template whose marks are no tokens of the model's, and where the model's template does not take the conversation
    or exceeds the bounds; UnsupportedTemplateError (a UsageError) for a template that heed does not run, where jinja2 is
    not installed; ShapeError for options out of range.
    """

    __slots__ = ("_made", "_before", "_path", "_base", "_begin")

    def __init__(self, model: LanguageModel, *, template: str | Writer | None = None, system: str = "",
                 max_tokens: int | None = None, min_tokens: int | None = None, temperature: float | None = None,
                 top_k: int | None = None, top_p: float | None = None, min_p: float | None = None,
                 repetition_penalty: float | None = None, no_repeat_ngram_size: int | None = None, seed: int | None = None,
                 stop: Stop = ()) -> None:
        if not isinstance(model, LanguageModel):
            raise TypeError(f"Chat: model is {model!r}; pass a heed.LanguageModel")
        self._before: list[tuple[str, str]] = []  # messages of a conversation that jinja2 took over
        self._path, self._base = model._path or "", model._base

        def begin(form: Any, system: str) -> Any:
            return model._made.conversation(form, self._path, self._base, system, [stop] if isinstance(stop, str) else stop,
                                            max_tokens, min_tokens, temperature, top_k, top_p, min_p,
                                            repetition_penalty, no_repeat_ngram_size, seed)

        self._begin: Any = begin if template is None and model.model_type and os.path.exists(self._path) else None
        if self._begin:
            try:
                self._made = begin(None, system)
            except _heed.UnsupportedTemplateError as error:
                self._made = begin(self._writer_for(error), system)
        elif callable(template):
            self._made = begin(lambda messages: template([ChatMessage(*parts) for parts in messages]), system)
        else:
            self._made = begin(template or "plain", system)

    def answer(self, text: str) -> str:
        """What the model answers. The GIL is released; Ctrl-C ends it, and what was said until then stays."""
        try:
            return cast(str, self._made.answer(text))
        except _heed.UnsupportedTemplateError as error:
            write = self._writer_for(error)
        before = self._before + self._made.messages()
        made = self._begin(lambda messages: write(before + messages), "")
        answer = cast(str, made.answer(text))
        self._made, self._before = made, before
        return answer

    def _writer_for(self, error: Exception) -> Any:
        """A function that runs the model's template by jinja2; raises `error` where jinja2 is not installed."""
        write = _writer_of_jinja2(self._path, self._base)
        if not write:
            raise error
        return write

    @property
    def messages(self) -> list[ChatMessage]:
        """What was said so far."""
        return [ChatMessage(*parts) for parts in self._before + self._made.messages()]

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("pickle: a Chat stays with its model; keep its messages")


def _in_a_line(error: Exception) -> str:
    kind = type(error)
    return " ".join((str(error) if kind.__module__.startswith("jinja2") else f"{kind.__name__}: {error}").split())


def _writer_of_jinja2(path: str, base: str | None) -> Any:
    """A function that runs a model's own template by jinja2, as transformers does; None without a safe jinja2."""
    try:
        # Any: mypy must pass with jinja2 and without it.
        jinja2: Any = importlib.import_module("jinja2")
        for module in ("ext", "meta", "sandbox"):
            importlib.import_module(f"jinja2.{module}")
        version = [int(part) for part in re.findall(r"\d+", importlib.metadata.version("jinja2"))[:3]]
    except ImportError:
        return None
    if version < [3, 1, 6]:  # programs can leave the sandbox of older ones
        return None
    source, tokens, complete, none = _heed.chat_source_of(path, base)

    class Generation(jinja2.ext.Extension):  # type: ignore[misc]
        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

        def _write(self, caller: Any) -> Any:
            return caller()

    class Dict:
        """Makes dictionaries, and keeps the attributes of Python's class from the program."""

        def __call__(self, *given: Any, **named: Any) -> Any:
            return dict(*given, **named)

        def fromkeys(self, *given: Any) -> Any:
            return dict.fromkeys(*given)

    class Namespace(jinja2.utils.Namespace):  # type: ignore[misc]
        """A namespace whose names do not begin with _, as those of Python's own attributes do."""

        def __init__(*given: Any, **named: Any) -> None:  # an entry may be called `self`
            entries = dict(*given[1:], **named)
            for name in entries:
                check_name(name)
            jinja2.utils.Namespace.__init__(given[0], entries)

        def __setitem__(self, name: str, value: Any) -> None:
            check_name(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

    def check_name(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"the name {name!r} of a namespace begins with _")

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format: str) -> str:
        return datetime.datetime.now().strftime(format)

    def to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None,
                sort_keys: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals.update(dict=Dict(), namespace=Namespace, raise_exception=raise_exception,
                               strftime_now=strftime_now)

    def write(messages: Sequence[tuple[str, str]]) -> str:
        talk = [{"role": role, "content": content} for role, content in messages]
        try:
            text = program.render(messages=talk, tools=None, documents=None, add_generation_prompt=True, **tokens)
            return cast(str, text)
        except Exception as error:  # Jinja's, and those of Python's operations
            raise _heed.UsageError("chat: the model's template does not take the conversation: "
                                   f"{_in_a_line(error)}") from None

    try:
        program = environment.from_string(source)
        read = jinja2.meta.find_undeclared_variables(environment.parse(source)) - set(tokens) - none
        unnamed = [name for name in read if name.endswith("_token") and not complete]
    except Exception as error:
        raise _heed.UsageError(f"chat: jinja2 does not run the template of {path}: {_in_a_line(error)}; pass "
                               "template=\"plain\", or another name") from None
    if unnamed:
        raise _heed.UsageError(f"chat: the template of {path} writes {min(unnamed)}, which no file of the tokenizer "
                               "names; pass template=\"plain\", or another name")
    return write
