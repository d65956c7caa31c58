"""Chat templates of models that heed does not run and jinja2 does: text, conversations, refusals."""
import datetime
import importlib.metadata
import importlib.util
import json
import shutil
import sys

import heed
import heed._chat
import pytest
from pretrained_cases import ROOT, WITHOUT

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=WITHOUT)
with_jinja2 = pytest.mark.skipif(not importlib.util.find_spec("jinja2"), reason="needs the package jinja2")

# Markup is a type of the package markupsafe, which escapes what is added to it. heed has no such type.
MARKUP, WRITTEN = "{{ ('<a>'|safe) + '<b>' }}", "<a>&lt;b&gt;"
TOKENS = {"bos_token": "<s>", "eos_token": {"content": "</s>", "__type": "AddedToken"}}
CONVERSATION = [("system", 'Be "brief" & <kind>, señor.'), ("user", "Who are you?"), ("assistant", "Tom."),
                ("user", "And where?")]
SYSTEM = '{"role": "system", "content": "Be \\"brief\\" & <kind>, señor."}'
TEMPLATES = {  # what follows MARKUP, and what it writes for CONVERSATION
    "roles": ("{% for m in messages %}[{{ m.role }}|{{ m['content'] }}]{% endfor %}",
              '[system|Be "brief" & <kind>, señor.][user|Who are you?][assistant|Tom.][user|And where?]'),
    "tojson": ("{{ messages[0] | tojson }}{{ {'b': [1, true], 'a': none} | tojson(indent=1, sort_keys=true) }}",
               SYSTEM + '{\n "a": null,\n "b": [\n  1,\n  true\n ]\n}'),
    "white space": ("\n  {% for m in messages %}\n  {{ m.role }}\n    {% endfor %}\n{%- if true %}\n.\n{% endif %}\n",
                    "\n  system\n  user\n  assistant\n  user\n.\n"),
    "break and continue": ("{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
                           "{% if loop.last %}{% break %}{% endif %}{{ m.content }}|{% endfor %}",
                           "Who are you?|Tom.|"),
    "generation": ("{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}!"
                   "{% endgeneration %}{% else %}-{% endif %}{% endfor %}", "--Tom.!-"),
    "namespace and dict": ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + loop.index %}"
                           "{% endfor %}{{ ns.n }}{{ dict(a=1) }}", "10{'a': 1}"),
    "tokens": ("{{ bos_token }}{{ messages[1].content }}{{ eos_token }}", "<s>Who are you?</s>"),
    "variables": ("{{ [tools, documents, add_generation_prompt, other is defined] }}", "[None, None, True, False]"),
    "time": ("{{ strftime_now('%Y') }}", str(datetime.date.today().year)),
}


def directory_with(template, path, **more):
    shutil.copytree(ROOT / "gpt2", path)
    (path / "chat_template.jinja").write_text(template, encoding="utf-8")
    config = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8"))
    (path / "tokenizer_config.json").write_text(json.dumps({**config, **TOKENS, **more}), encoding="utf-8")
    return path


@pytest.fixture
def chat(tmp_path):
    """Makes a conversation with a model that has the template."""
    def make(of_model, **options):
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        return heed.Chat(heed.load(directory_with(of_model, path)), max_tokens=12, temperature=0, **options)
    return make


@pytest.fixture
def texts(monkeypatch):
    """The texts that jinja2 writes."""
    written, make = [], heed._chat._writer_of_jinja2

    def recording(*arguments):
        write = make(*arguments)
        return lambda messages: written.append(write(messages)) or written[-1]
    monkeypatch.setattr("heed._chat._writer_of_jinja2", recording)
    return written


@with_jinja2
@pytest.mark.parametrize("name", TEMPLATES)
def test_texts(name, tmp_path):
    template, expected = TEMPLATES[name]
    directory = directory_with(MARKUP + template, tmp_path / "model")
    assert heed._chat._writer_of_jinja2(str(directory), None)(CONVERSATION) == WRITTEN + expected


@with_jinja2
def test_a_conversation(chat, texts):
    """Texts have all messages, and the model continues these texts."""
    def write(messages):
        return WRITTEN + "".join(f"{m.content}\n" for m in messages)
    ours = chat(MARKUP + "{% for m in messages %}{{ m.content }}\n{% endfor %}", system="Be brief.")
    theirs = chat("", template=write, system="Be brief.")
    for said in ("Who are you?", "And where?", "Why?"):
        assert ours.answer(said) == theirs.answer(said)
        assert ours.messages == theirs.messages
    assert texts[-1] == write(ours.messages[:-1]) and len(texts) == 3
    assert [m.role for m in ours.messages] == ["system", *["user", "assistant"] * 3]


@with_jinja2
@pytest.mark.parametrize("first", [2, 4])
def test_jinja2_takes_a_conversation_over(first, chat, texts):
    """heed runs the template while it has fewer than `first` messages, and then does not."""
    content = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    ours = chat(f"{{% if messages|length >= {first} %}}{MARKUP}{{% endif %}}{content}")
    theirs = chat("", template=lambda messages: (WRITTEN if len(messages) >= first else "")
                  + "".join(f"{m.content}\n" for m in messages))
    for turn, said in enumerate(("Who are you?", "And where?", "Why?", "When?")):
        assert ours.answer(said) == theirs.answer(said)
        assert ours.messages == theirs.messages and len(ours.messages) == 2 * turn + 2
    assert len(texts) == 4 - first // 2
    assert texts[-1] == WRITTEN + "".join(f"{m.content}\n" for m in ours.messages[:-1])


@with_jinja2
def test_a_take_over_that_fails_changes_nothing(chat):
    ours = chat("{{ messages[-1].content }}:{% if messages|length > 2 %}" + MARKUP
                + "{% if messages[-1].content == 'No.' %}{{ raise_exception('say yes') }}{% endif %}{% endif %}")
    ours.answer("Who are you?")
    before = ours.messages
    with pytest.raises(heed.UsageError, match="say yes"):
        ours.answer("No.")
    assert ours.messages == before
    ours.answer("Yes.")
    assert ours.messages[:2] == before and ours.messages[2].content == "Yes." and len(ours.messages) == 4


def without(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)


def with_version(version):
    return lambda monkeypatch: monkeypatch.setattr(importlib.metadata, "version", lambda name: version)


@pytest.mark.parametrize("arrange", [without, *map(with_version, ("3.1.5", "3.0.9", "2.11.3"))],
                         ids=["no package", "3.1.5", "3.0.9", "2.11.3"])
def test_without_a_safe_jinja2(arrange, chat, monkeypatch):
    arrange(monkeypatch)
    with pytest.raises(heed.UsageError, match="chat"):
        chat(MARKUP).answer("Who are you?")
    later = chat("{{ messages[-1].content }}{% if messages|length > 2 %}" + MARKUP + "{% endif %}")
    before = later.answer("Who are you?")
    with pytest.raises(heed.UsageError, match="chat"):
        later.answer("And where?")
    assert [m.content for m in later.messages] == ["Who are you?", before]
    assert chat(MARKUP, template="plain").answer("Who are you?")  # the model's own is not read


@with_jinja2
@pytest.mark.parametrize("version", ["3.1.6", "3.1.10", "3.2", "4.0.0"])
def test_safe_versions(version, chat, monkeypatch):
    with_version(version)(monkeypatch)
    assert chat(MARKUP).answer("Who are you?")


@with_jinja2
@pytest.mark.parametrize("template, text", [
    ("{{ raise_exception('roles must alternate') }}", "roles must alternate"), ("{{ messages[7].content }}", None),
    ("{{ 1 / 0 }}", None), ("{{ 1 + 'a' }}", None), ("{% if %}", None), ("{{ 'a' | no_filter }}", "no_filter"),
    ("{% include 'config.json' %}", None), ("{% extends 'config.json' %}", None)])
def test_templates_that_fail(template, text, chat):
    with pytest.raises(heed.UsageError, match=text) as raised:
        chat(MARKUP + template).answer("Who are you?")
    assert "\n" not in str(raised.value)


@with_jinja2
def test_named_tokens(tmp_path):
    """Those of the files, and those of the tokenizer's class, which heed has to know."""
    named = "|{{ unk_token }}|{{ sep_token }}|{{ image_token }}|{{ mask_token }}"

    def write(number, template, **more):
        return heed._chat._writer_of_jinja2(str(directory_with(MARKUP + template, tmp_path / str(number), **more)), None)(CONVERSATION)
    assert write(1, named, image_token="<i>", tokenizer_class="GPT2Tokenizer") == WRITTEN + "|<|endoftext|>||<i>|"
    assert write(2, named, extra_special_tokens={"image_token": "<i>", "sep_token": "<p>"}, unk_token=None,
                 tokenizer_class="GPT2Tokenizer") == WRITTEN + "||<p>|<i>|"
    other = {"tokenizer_class": "CohereTokenizer"}  # which heed does not build
    assert write(3, "{{ bos_token }}{{ sep_token }}{% set a_token = 1 %}{{ a_token }}", sep_token=None, **other) == WRITTEN + "<s>1"
    for number, template in enumerate(["{{ sep_token }}", "{% if false %}{{ mask_token }}{% endif %}", "{{ image_token }}"], 4):
        with pytest.raises(heed.UsageError, match="_token, which no file"):
            write(number, template, **other)


UNSAFE = ["''.__class__.__mro__", "messages.__class__.__mro__", "messages.append(1)", "messages[0].update(a=1)",
          "messages[0].clear()", "'{0.__class__.__mro__}'.format(1)", "'{a.__class__.__mro__}'.format_map({'a': 1})",
          "(''|attr('__class__')).__mro__", "dict.__init__.__globals__", "dict.__class__.__mro__",
          "dict.update(messages[0], a=1)", "dict.clear(messages[0])",
          "raise_exception.__globals__['json']", "raise_exception.__code__.co_code", "strftime_now.__globals__['json']",
          "lipsum.__globals__['os']", "cycler.__init__.__globals__", "joiner.__init__.__globals__",
          "namespace.__init__.__globals__", "namespace(_a=1)", "namespace({'__class__': 1})",
          "namespace(**{'__init__': 1})", "self.__init__.__globals__", "range(10 ** 9)|list"]


@with_jinja2
@pytest.mark.parametrize("expression", UNSAFE)
def test_the_sandbox(expression, chat):
    with pytest.raises(heed.UsageError):
        chat(MARKUP + "{{ " + expression + " }}").answer("Who are you?")


@with_jinja2
def test_the_sandbox_of_assignments(chat):
    for name in ("_a", "__class__"):
        with pytest.raises(heed.UsageError):
            chat(MARKUP + f"{{% set ns = namespace() %}}{{% set ns.{name} = 1 %}}").answer("Who are you?")
    assert chat(MARKUP + "{% set ns = namespace() %}{% set ns.a = 1 %}").answer("Who are you?")
