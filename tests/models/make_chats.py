#!/usr/bin/env python3
"""Prints what transformers makes of conversations by chat templates, as src/load/chat_test.cc reads it:

    make_chats.py > tests/models/chats.json
    make_chats.py --random N [--seed S] > FILE       programs drawn at random, and what jinja2 makes of them; and the
                                                     templates in the code of the installed transformers

A case has a template, the tokens that it may name, and conversations with their texts; "error" where the template, or
Jinja, refuses one. The templates here are written in the manner of those of published models, which have licences of
their own. For the same reason the templates of transformers' tests are not copied; its package does not contain them.
"""
import argparse
import ast
import json
import pathlib
import random
import warnings

import transformers
from transformers.utils.chat_template_utils import render_jinja_template

CHATML = """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
TEMPLATES = {
    "chatml": CHATML,
    "chatml, trimmed": CHATML.replace("message['content']", "message['content'] | trim"),
    "chatml, without a newline": CHATML.replace(" + '\\n'}}", "}}"),
    "chatml, with a system text": """\
{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou answer in one sentence.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or \
(message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "tools and thoughts": """\
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and \
not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "headers": """\
{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] \
+ '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + \
content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ \
'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}""",
    "headers with a date": """\
{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system's message is taken out, so that it can be put first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- raise_exception("no calls") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "turns": """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}\
{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}\
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}\
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""",
    "turns with parts": """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '

' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
""",
    "instructions": """\
{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('roles must alternate') }}{% endif %}{% if message['role'] == 'user' %}\
{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}\
{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}""",
    "instructions without a space": """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- endif %}
{%- endfor %}
""",
    "instructions with a system text": """\
{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}\
{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}\
{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + \
message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}\
{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}\
{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "bars": """\
{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}\
{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}\
{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}""",
    "bars that are put together": """\
{% for message in messages %}{% if message['role'] == 'system' and 'tools' in message and message['tools'] is not none %}\
{{ '<|' + message['role'] + '|>' + message['content'] + '<|tool|>' + message['tools'] + '<|/tool|>' + '<|end|>' }}\
{% else %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}""",
    "a separator": """\
{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + \
'<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content'] + \
'<|im_end|><|im_start|>assistant<|im_sep|>'}}{% elif (message['role'] == 'assistant') %}{{message['content'] + '<|im_end|>'}}\
{% endif %}{% endfor %}""",
    "lines": """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
""",
    "macros": """\
{%- macro header(role, sign="#") -%}
{{ sign }} {{ role | capitalize }}
{%- endmacro -%}
{%- macro body(text, indent='  ') %}{{ '\\n' }}{% for line in text.split('\\n') %}{{ indent }}{{ line }}{{ '\\n' }}{% endfor %}\
{%- endmacro %}
{%- for message in messages %}
    {{- header(message.role, sign='##' if loop.first else '#') }}
    {{- body(text=message.content) }}
    {% generation %}{{ loop.index }}/{{ loop.length }} {% endgeneration %}
    {%- if message.role == 'assistant' and loop.index > 3 %}{% break %}{% endif %}
{%- endfor %}
{{- header('end') ~ 1 ~ none ~ true }}
""",
    "spaces": """\
  {# a comment #}
first {{- ' a ' -}}   second
   {% if true %}
 third
   {% endif %}   fourth {%+ if true %} fifth{% endif +%}
 sixth {#- gone -#}   seventh
{%- for m in messages -%}
  {{ m.role }}
  {% endfor %}
	{%- set x = [1, 2, 3] %}
{{ x | length }}{{ x[0] }}{{ x[-1] }}{{ x[1:] | join('+') }}{{ x[::-1] | join(',') }}
{{ 'a' 'b' }}

end
""",
    "a raised error": "{{ raise_exception('never') }}",
    "an undefined value": "{{ messages[0].nothing.at_all }}",
}
# Constructs in which an interpreter easily differs from Jinja.
CONSTRUCTS = [
    "{% for c in [0, 1] %}{% if messages|selectattr('role', 'equalto', 'nobody') %}yes{% else %}no{% endif %}{% endfor %}",
    "{% for m in messages|selectattr('role', 'equalto', 'user') %}{{ loop.index }}/{{ loop.length }}{{ m.content }}{% endfor %}",
    "{{ messages|selectattr('role', 'equalto', 'user')|length }}", "{{ messages|selectattr('role', 'equalto', 'user')|list|length }}",
    "{{ (messages|reverse)[0].role }}", "{{ messages|map(attribute='role')|reverse|first }}", "{{ messages|map(attribute='role')|tojson }}",
    "{{ messages|map(attribute='role')|last }}", "{{ messages|map(attribute='role')|unique|join(', ') }}",
    "{{ 'user' in messages|map(attribute='role') }}", "{{ ', '.join(messages|map(attribute='role')) }}",
    "{{ messages|map(attribute='role') is defined }}", "{{ ('abc'|map('upper'))|list|join }}{{ messages[0]|items|first|first }}",
    "{{ \"it's a foo_bar a1b-c (d\"|title }} {{ \"it's a foo_bar a1b-c (d\".title() }}",
    "{{ ['A', 'a', 'b', 1, true, none]|unique|join(',') }}{{ ['É', 'é']|unique|join }}",
    "{{ 0.00001 }} {{ 0.0001 }} {{ 0.001 }} {{ 1000000000000000000.0 * 1 }} {{ 123456789.0 }} {{ 100000000.0 * 1 }} {{ 10000000000000000.0 }} {{ 9999999999999998.0 }}",
    "{{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 8 / 2 }} {{ -0.0 }} {{ [0.0001, 2000000.0]|tojson }} {{ 12345678901234567890.5 }}",
    "{{ '<a>'|safe }}{{ messages[0].content|safe }}",
    "{% for a in [1, 2] %}{% for b in [] %}{% else %}{% break %}{% endfor %}x{% endfor %}",
    "{% for a in [1, 2] %}{% for b in [1] %}{% continue %}{% else %}{{ loop.index }}{% continue %}{% endfor %}x{% endfor %}",
    "{% for a in [1, 2] %}{% if a == 2 %}{% break %}{% endif %}{{ a }}{% else %}none{% endfor %}",
    "{% for a in [1, 2] %}{% break %}{% else %}none{% endfor %}{% for a in [] %}{% else %}empty{% endfor %}",
    "{% for a in [1, 2] if a > 1 %}{{ loop.first }}{{ loop.previtem }}{{ loop.nextitem is defined }}{{ loop.revindex }}{% endfor %}",
    "{% if nothing is defined %}{% set bos_token = 1 %}{% endif %}{{ bos_token }}{% for i in [1] %}{{ bos_token }}{% endfor %}",
    "{% if messages %}{% set bos_token = 1 %}{% else %}{% set bos_token = 2 %}{% endif %}{% for i in [1] %}{{ bos_token }}{% endfor %}",
    "{% for i in [1] %}{{ eos_token }}{% endfor %}{% if messages %}{% set eos_token = 1 %}{% endif %}{{ eos_token }}",
    "{% for i in [1, 2] %}{% if i == 2 %}{% set eos_token = i %}{% endif %}{{ eos_token }}{% endfor %}{{ eos_token }}",
    "{% for i in [1, 2] %}{% if i == 1 %}{% for j in [1] %}{% if i %}{% set eos_token = 4 %}{% endif %}{{ eos_token }}{% endfor %}{% endif %}{{ eos_token }}{% endfor %}",
    "{% if tools %}{% set bos_token = 1 %}{% elif documents %}{% set bos_token = 2 %}{% elif messages %}{% else %}{% set bos_token = 3 %}{% endif %}{{ bos_token }}",
    "{% if messages %}{{ bos_token }}{% set bos_token = 1 %}{% elif tools %}{% set bos_token = 2 %}{% else %}{% set bos_token = 3 %}{% endif %}",
    "{% set tools = 5 %}{% for i in [1] %}{{ tools }}{% endfor %}", "{% set eos_token = 'e' %}{{ eos_token }}",
    "{{ x }}{% for i in [1] %}{{ x }}{% endfor %}{% set x = 2 %}{% for i in [1] %}{{ x }}{% set x = 3 %}{{ x }}{% endfor %}{{ x }}",
    "{% for i in [1, 2] %}{% for j in [1] %}{{ y }}{% endfor %}{% set y = i %}{% endfor %}{{ y }}",
    "{{ bos_token }}{% if messages %}{% set bos_token = bos_token ~ 1 %}{% endif %}{% for m in messages %}{{ bos_token }}{% endfor %}",
    "{% if messages|length > 1 %}{% set n = 1 %}{% elif messages|length > 2 %}{% set n = 2 %}{% else %}{% set n = 3 %}{% endif %}{{ n }}",
    "\u3000{%- if true %}a{% endif %}", "a\u3000{{- 'b' -}}\u3000 c", "\n\u3000{% if true %}a{% endif %}",
    "{{ nothing is callable }}{{ range is callable }}", "{{ (1, 2) == (1, 2) }}{{ [1, 2] == [1, 2.0] }}{{ {'a': (1,)} == {'a': (1,)} }}",
    "{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith(['c']) }}", "{{ 'abc'.startswith(['a']) }}", "{{ ', '.join([1, 2]) }}",
    "{{ [1, 2]|join(', ') }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b='x') %}{{ a }}{{ b }}{{ tools }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=1) }}{{ m() }}", "{{ ([1] + (2,))|join }}",
    "{{ ((1,) + (2,))|join(',') }}{{ (1, 2)[1:]|tojson }}", "{{ messages[0].get(key='role') }}", "{{ 'xa'.strip(chars='x') }}",
    "{{ 'a,b,c'.split(sep=',', maxsplit=1)|join('|') }}", "{{ 'abc'.replace('b', 'x', none) }}",
    "{% set d = {'b': 1, 'a': [2]} %}{{ d.keys()|list|tojson }}{{ d.items()|list|tojson }}{{ d.values()|first }}{{ 'a' in d.keys() }}{{ d.items()|length }}{{ d.items() is sequence }}{{ d.keys() is iterable }}",
    "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{% endfor %}",
    "{{ d|tojson }}", "{{ range(3)|tojson }}", "{{ {'a': 1}.keys()|tojson }}", "{{ range(5)[1:]|join(',') }}{{ range(4)|last }}{{ range(3)|length }}{{ range(0)|first is defined }}",
    "{{ range(200000)|length }}", "{{ range(5, none)|list|tojson }}", "{{ 1 is in [1] }}{{ none is in [none] }}{{ nothing in [nothing] }}{{ 1 in {'a': 1} }}",
    "{{ [1] in {'a': 1} }}", "{{ 'abc'[-1] }}{{ 'abc'[5] }}{{ 'aé🙂'[-2] }}{{ 'aé🙂'[1] }}{{ 'aé🙂'[1:] }}{{ 'aé🙂'[-2:-1] }}{{ 'abc'[3:1] }}",
    "{{ [1, {'a': '\\u0001\\n\\\\\"é<'}, [], {}, 1.5, none, true]|tojson }}{{ [1, {'a': []}, {'b': [2]}]|tojson(indent=2) }}",
    "{{ namespace(_a=1) is defined }}", "{% set ns = namespace(a=1, b=[]) %}{% for m in messages %}{% set ns.a = ns.a + 1 %}{% set ns.b = ns.b + [m.role] %}{% endfor %}{{ ns.a }}{{ ns.b|join }}{{ ns.c is defined }}",
    "{{ messages[0]['content']['x'] }}{{ messages['x'] }}{{ messages[99] is defined }}{{ none.x }}", "{{ messages|foo }}",
    "{% for x in [] %}{{ x|foo }}{% endfor %}", "{% for x in [] %}{{ x is foo }}{% endfor %}", "{{ 1 is defined is defined }}",
    "{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x }}", "{% for m in messages %}{% generation %}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "{% for m in messages %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{{ '\\x41\\u00e9\\n\\q' }}",
    "{{ dict(a=1)|items|list|length }}{{ dict(a=1).a }}", "{{ 9007199254740993 == 9007199254740993 }}{{ true == 1 }}{{ 1 == 1.0 }}{{ 'a' == 1 }}{{ none == nothing }}",
    "{% set ns = namespace(i=0) %}{% macro n() %}{% set ns.i = ns.i + 1 %}{{ ns.i }}{% endmacro %}{{ n() ~ n() }} {{ n() < n() }} {{ n()|replace(n(), n()) }} "
    "{{ n() is eq(n()) }} {{ n() in n() }} {{ [n(), n()]|join }} {{ dict(a=n(), b=n())|tojson }} {{ {n(): n()}|tojson }} {{ 'abcdefghijklmnopqrstuvw'[n()|length:n()|length + 1] }} {{ n() ~ (n() if n() else n()) }}",
]
# Constructs that transformers takes and heed refuses, rather than do them in part.
REFUSED = [
    "{% set x = messages|selectattr('role', 'equalto', 'user') %}{% for m in x %}a{% endfor %}{% for m in x %}b{% endfor %}",
    "{{ ('<a>'|safe) + '<b>' }}", "{{ '\\é' }}", "{{ true.real }}{{ 1 .real }}", "{{ {'a': 1}.keys()[0] }}|", "{{ messages.append is defined }}",
    "{{ messages[0].get is defined }}", "{{ (1, 2) == [1, 2] }}", "{{ range(3) == [0, 1, 2] }}", "{% for i in [1] %}{{ loop is mapping }}{{ loop|length }}{% endfor %}",
    "{% set ns = namespace(a=1) %}{{ ns == ns }}", "{{ lipsum is defined }}{{ cycler is defined }}{{ joiner is defined }}",
    "{% macro m(a) %}{{ varargs }}{{ a }}{% endmacro %}{{ m(1) }}", "{% for i in [1] %}{{ bos_token }}{% endfor %}{% set bos_token = 2 %}",
    "{% macro m() %}{{ bos_token }}{% endmacro %}{{ m() }}{% set bos_token = 2 %}",
    "{{ 1 < 2 < 3 }}", "{% set ns = namespace(a=1) %}{% set x = [ns]|map(attribute='a') %}{% set ns.a = 2 %}{{ x|first }}",
    "{% macro m(a=b, b=1) %}{{ a }}{% endmacro %}{% set b = 5 %}{{ m() }}", "{{ [{'a': {'b': 1}}]|map(attribute='a.b')|first }}",
    "{{ [['x']]|map(attribute='0')|first }}", "{{ 9007199254740993 == 9007199254740992.0 }}", "{{ 'abc'[::-1] }}", "{{ messages }}",
    "{{ ['a', 'b']|join(none) }}", "{{ 'abc'|replace('b', 'x', count=1) }}", "{{ messages[none] is defined }}",
]
# A token that is None is undefined in a template.
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "", "unk_token": "<unk>", "sep_token": None,
          "image_token": "<img>"}


def talk(*parts):
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": roles[part[0]], "content": part[1:]} for part in parts]


TALKS = [talk("uHi"), talk("sBe kind.", "u Hi \n"), talk("uHi", "aHello", "uBye"),
         talk("s Be kind. ", "uHi", "a <think>\nhm\n</think>\n\nHello ", "uline\nline", "aé 🙂", "uBye")]


def installed():
    """Chat templates in the code of the installed transformers, by file and line."""
    root = pathlib.Path(transformers.__file__).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "{%" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if "for message in messages" in text and "add_generation_prompt" in text and ">>>" not in text and "Example" not in text:
                found[f"{file.relative_to(root)}:{node.lineno}"] = node.value
    return found


def rendered(template, tokens, messages):
    try:
        named = {name: token for name, token in tokens.items() if token is not None}
        return {"text": render_jinja_template([messages], chat_template=template, add_generation_prompt=True, **named)[0][0]}
    except Exception as error:  # of Jinja, and of Python's operations in a template
        return {"error": f"{type(error).__name__}: {error}"[:200]}


class Drawn:
    """A program at random, of what heed runs and a little more."""

    def __init__(self, draw):
        self.draw, self.depth, self.loops, self.names = draw, 0, 0, ["x", "y", "messages"]

    def one_of(self, *makers):
        maker = self.draw.choice(makers)
        return maker() if callable(maker) else maker

    def text(self):
        word = self.draw.choice(["a", "B c", " ", "", "<|x|>", "é", "1", " a\\n", "ab ab", "\\t", "user"])
        quote = self.draw.choice("'\"")
        return quote + word + quote

    def number(self):
        return self.draw.choice(["0", "1", "2", "3", "7", "10", "0.5", "100000000.0", "0.00001"])

    def name(self):
        return self.draw.choice(self.names)

    def deeper(self, make, shallow):
        if self.depth > 3:
            return shallow()
        self.depth += 1
        made = make()
        self.depth -= 1
        return made

    def expression(self):
        e = self.expression
        atom = lambda: self.one_of(self.text, self.number, self.name, "true", "none", "m.content", "m['role']",  # noqa: E731
                                   "messages[0].role", "nothing", "bos_token", "pad_token", "image_token", "loop.index", "loop.last")
        return self.deeper(lambda: self.one_of(
            atom, atom, lambda: f"({e()} {self.draw.choice(['+', '-', '*', '~', '//', '%', '==', '!=', '<', '>=', 'in', 'not in', 'and', 'or'])} {e()})",
            lambda: f"{e()} ~ {e()}", lambda: f"not {atom()}", lambda: f"({e()} if {e()} else {e()})",
            lambda: f"({e()})|{self.draw.choice(['trim', 'length', 'upper', 'lower', 'string', 'first', 'last', 'list', 'tojson', 'tojson(indent=1)', 'capitalize', 'title', 'reverse', 'unique', 'items', 'safe', 'join', 'select', 'reject', 'int'])}",
            lambda: f"({e()})|{self.draw.choice(['map', 'select', 'reject'])}({self.draw.choice(['upper', 'string', 'length', 'none', 'defined', 'first', 'list'])!r})",
            lambda: f"({e()})|map(attribute={self.draw.choice(['role', 'content', 'x', 'items'])!r})",
            lambda: f"({e()})|{self.draw.choice(['selectattr', 'rejectattr'])}('role'{self.draw.choice(['', ', %s, %s' % (repr('equalto'), repr('user')), ', %s' % repr('defined')])})",
            lambda: f"({e()})|default({e()})", lambda: f"({e()})|join({self.text()})", lambda: f"({e()})|replace({self.text()}, {self.text()})",
            lambda: f"({e()}) is {self.draw.choice(['', 'not '])}{self.draw.choice(['defined', 'none', 'string', 'mapping', 'iterable', 'number', 'integer', 'boolean', 'true', 'sequence', 'odd', 'divisibleby 2', 'equalto(1)', 'callable', 'true', 'in messages', 'in [1]', 'float'])}",
            lambda: f"({e()})[{self.one_of(self.number, '-1', self.text, ':2', '1:', '::-1', '-2:', '::2')}]",
            lambda: f"({e()}).{self.draw.choice(['role', 'content', 'strip()', 'lstrip()', 'rstrip(', 'split(', 'startswith(', 'endswith(', 'upper()', 'items()', 'keys()', 'x', 'count(', 'find(', 'splitlines()'])}",
            lambda: f"[{e()}, {e()}]", lambda: f"({e()}, {e()})", lambda: f"{self.text()}.join({e()})", lambda: f"dict(a={e()})", lambda: "{'k': " + e() + ", 'l': " + e() + "}", lambda: f"range({self.number()})",
            lambda: f"messages|map(attribute='role')|list|join('-')",
            lambda: f"messages|selectattr('role', 'equalto', {self.text()})|list|length"), atom)

    def closed(self):
        made = self.expression()
        for call in "rstrip(", "split(", "startswith(", "endswith(", "count(", "find(":
            made = made.replace(call, call + self.text() + ")")
        return made

    def tag(self, what):
        left, right = self.draw.choice(["{%", "{%", "{%-", "{%+"]), self.draw.choice(["%}", "%}", "-%}", "+%}"])
        return f"{left} {what} {right}"

    def statement(self):
        return self.deeper(lambda: self.one_of(
            lambda: self.draw.choice(["a", " ", "\n", "  \n  ", "b\n", "\t"]), self.output, self.output, self.set, self.branch, self.loop,
            lambda: self.draw.choice(["{# c #}", "{#- c #}", "{# c -#}", "\u3000", "\n\u2003"]), self.capture), self.output)

    def capture(self):
        which = self.draw.choice(["set x", "set y", "generation"])
        return self.tag(which) + self.body() + self.tag("end" + which.split()[0])

    def output(self):
        return self.draw.choice(["{{ ", "{{- "]) + self.closed() + self.draw.choice([" }}", " -}}"])

    def set(self):
        return self.tag(f"set {self.draw.choice(['x', 'y', 'z', 'x', 'bos_token', 'messages', 'tools', 'image_token'])} = {self.closed()}")

    def body(self):
        return "".join(self.statement() for _ in range(self.draw.randint(1, 3)))

    def branch(self):
        other = ""
        while self.draw.random() < 0.4:
            other += self.tag(f"elif {self.closed()}") + self.body()
        if self.draw.random() < 0.5:
            other += self.tag("else") + self.body()
        return self.tag(f"if {self.closed()}") + self.body() + other + self.tag("endif")

    def loop(self):
        self.loops += 1
        self.names.append("m")
        over = self.one_of("messages", "messages[1:]", "messages[::-1]", "[1, 2, 3]", "range(4)", self.closed)
        condition = f" if {self.closed()}" if self.draw.random() < 0.2 else ""
        more = self.one_of("", "", "{{ loop.index }}", "{{ loop.last }}", lambda: self.tag("if loop.index0 > 1") + self.tag(self.draw.choice(["break", "continue"])) + self.tag("endif"))
        made = self.tag(f"for m in {over}{condition}") + self.body() + more
        self.names.pop()
        self.loops -= 1
        if self.draw.random() < 0.3:
            made += self.tag("else") + self.body()
            if self.loops and self.draw.random() < 0.3:
                made += self.tag(self.draw.choice(["break", "continue"]))
        return made + self.tag("endfor")

    def program(self):
        macro = ""
        if self.draw.random() < 0.2:
            macro = self.tag("macro f(x, y=1)") + self.body() + self.tag("endmacro")
        made = macro + "".join(self.statement() for _ in range(self.draw.randint(1, 6)))
        return made + (self.draw.choice(["{{ f() }}", "{{ f(1, y='a') }}", "{{ f(x=messages) }}"]) if macro else "")


def drawn_program(draw):
    """Most programs at random fail: only some of these are kept."""
    program = Drawn(draw).program()
    while "error" in rendered(program, TOKENS, TALKS[-1]) and draw.random() < 0.8:
        program = Drawn(draw).program()
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    draw = random.Random(a.seed)
    warnings.filterwarnings("ignore", category=SyntaxWarning)  # of programs at random, such as true['a']
    if a.random:
        cases = [("", drawn_program(draw), [draw.choice(TALKS)]) for _ in range(a.random)]
        templates = installed()
        assert len(templates) >= 3, f"transformers has fewer templates than 5.23: {list(templates)}"
        cases += [(name, template, TALKS) for name, template in templates.items()]
    else:
        cases = [(name, template, TALKS) for name, template in TEMPLATES.items()]
        cases += [("construct", template, TALKS[-1:]) for template in CONSTRUCTS]
        cases += [("refused construct", template, TALKS[-1:]) for template in REFUSED]
    shown = [{"name": name, "template": template, "tokens": TOKENS,
              "talks": [{"messages": messages, **rendered(template, TOKENS, messages)} for messages in talks]}
             for name, template, talks in cases]
    print("[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in shown) + "\n]")


if __name__ == "__main__":
    main()
