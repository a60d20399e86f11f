"""Chat templates: the messages of a conversation become one text, by a template of Jinja.

BERT generates no text, but classifiers of conversations read theirs in such a form. A tokenizer
keeps the templates of its files, and `apply_chat_template` renders them as transformers does:

```
chat_template.jinja                     the template, or the one called "default" of several
additional_chat_templates/NAME.jinja    the others
tokenizer_config.json, "chat_template"  in older repositories: a template, or a list of
                                        {"name": ..., "template": ...}
```

A template comes with a checkpoint, so it runs in Jinja's sandbox and sees plain values only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from minibert.util.checks import type_of
from minibert.util.errors import ArgumentError
from minibert.util.extras import need

TEMPLATE_FILE = "chat_template.jinja"
TEMPLATE_FOLDER = "additional_chat_templates"

ChatTemplates = str | dict[str, str] | None
"""A template, several by name, or none."""

_REASONING = ("reasoning_content", "thinking", "reasoning")
# Noncharacters of Unicode, which no text has. A final space shows whether a template strips texts.
_BEGIN, _END, _CONTINUE = "\ufdd0begin\ufdd1", "\ufdd0end\ufdd1", "\ufdd0continue\ufdd1 "
_MARKS = "generation_marks"  # the variable that has the marks
_OLDEST_SAFE = (3, 1, 6)  # there are ways out of the sandbox of older versions


class RenderedChat(NamedTuple):
    """A conversation as a text.

    Attributes:
        text: The text.
        generated: The spans `[start, end)` of what stands between `{% generation %}` and
            `{% endgeneration %}`.
    """

    text: str
    generated: list[tuple[int, int]]


# ---- files


def parse_templates(value: Any) -> ChatTemplates:
    """Return the templates that an argument or a field of tokenizer_config.json holds.

    Args:
        value: A template, a dict of name -> template, a list of `{"name": ..., "template": ...}`,
            or None.

    Raises:
        ValueError: It is anything else.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(x, Mapping) for x in value):
        value = {entry.get("name"): entry.get("template") for entry in value}
    if isinstance(value, Mapping) and all(isinstance(x, str) for y in value.items() for x in y):
        return dict(value)
    raise ArgumentError(
        "chat_template", f"should be a template or a dict of name -> template, not {value!r:.80}."
    )


def template_files(templates: ChatTemplates) -> dict[str, str]:
    """Return the files that hold templates: name -> content.

    Raises:
        ValueError: The name of a template cannot be the name of a file.
    """
    if templates is None:
        return {}
    if isinstance(templates, str):
        return {TEMPLATE_FILE: templates}
    files = {}
    for name, template in templates.items():
        if not re.fullmatch(r"[^\W_][\w.-]*", name):
            raise ArgumentError(
                "chat_template",
                f"has a template called {name!r:.80}. It is saved as a file of that name, which "
                "may have letters, digits, '_', '-' and '.'.",
            )
        filename = f"{TEMPLATE_FOLDER}/{name}.jinja"
        if name == "default":
            filename = TEMPLATE_FILE
        files[filename] = template
    return files


def template_field(templates: ChatTemplates) -> dict[str, Any]:
    """Return the templates as older repositories have them in tokenizer_config.json."""
    if templates is None:
        return {}
    if isinstance(templates, str):
        return {"chat_template": templates}
    entries = [{"name": name, "template": text} for name, text in templates.items()]
    return {"chat_template": entries}


# ---- rendering


def choose_template(templates: ChatTemplates, chosen: str | None, has_tools: bool) -> str:
    """Return the template to use.

    Args:
        templates: Those of the tokenizer.
        chosen: The name of one of them, or a template. None: "tool_use" where there are tools, else
            "default".
        has_tools: Whether the conversation has tools.

    Raises:
        ValueError: There is no template, or none of these names.
    """
    if not isinstance(templates, dict):
        template = chosen if chosen is not None else templates
        if template is None:
            raise ValueError(
                "The tokenizer has no chat template. Assign tokenizer.chat_template, or pass "
                "chat_template=. A text without roles needs none: tokenizer(text)."
            )
        return template
    if chosen is not None:
        return templates.get(chosen, chosen)
    if has_tools and "tool_use" in templates:
        return templates["tool_use"]
    if "default" in templates:
        return templates["default"]
    raise ArgumentError(
        "chat_template", f"should be one of {', '.join(sorted(templates))}: none is the default."
    )


def render_chat(
    template: str,
    messages: Any,
    variables: Mapping[str, Any],
    marks_generated: bool = False,
    continued_field: str | None = None,
) -> RenderedChat:
    """Render one conversation.

    Args:
        template: The template.
        messages: A list of dicts, such as `{"role": "user", "content": "Hi"}`. Entries that are
            None count as missing.
        variables: What the template sees besides `messages`.
        marks_generated: Find the spans of `{% generation %}`.
        continued_field: The text ends after this field of the last message, such as "content".

    Raises:
        TypeError: A message is not a dict, or a value is not plain.
        ValueError: The template cannot be rendered, or there is nothing to continue.
    """
    if not isinstance(messages, list | tuple) or not all(isinstance(x, Mapping) for x in messages):
        raise TypeError(
            "A conversation should be a list of messages, each a dict such as "
            f'{{"role": "user", "content": "Hi"}}, but is {messages!r:.80}.'
        )
    if not messages:
        raise ArgumentError("conversation", "is empty. It needs at least one message.")
    chat = [_message(message) for message in messages]
    if continued_field is not None:
        _mark_end(chat[-1], continued_field)
    jinja = need("jinja2", "", "apply_chat_template()")
    known = _plain(variables, "A variable of the template")
    known[_MARKS] = None
    if marks_generated:
        known[_MARKS] = (_BEGIN, _END)
    try:
        text = _compile(template).render({**known, "messages": chat})
    except jinja.TemplateError as error:
        line = getattr(error, "lineno", None)
        place = f" in line {line}" if line else ""
        raise ValueError(f"The chat template fails{place}: {error.message}") from None
    if continued_field is not None:
        text = _cut_at_end(text, continued_field)
    return _without_marks(text)


def token_mask(offsets: Iterable[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return 1 for each token that overlaps one of the spans of a text, else 0.

    Args:
        offsets: The span of each token. Special tokens and padding have an empty one.
        spans: Spans `[start, end)` of the text.
    """
    return [
        int(any(start < end_of_span and end > begin for begin, end_of_span in spans))
        for start, end in offsets
    ]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of plain values, without Nones, and its reasoning under every name."""
    values = {name: value for name, value in message.items() if value is not None}
    plain: dict[str, Any] = _plain(values, "A message")
    reasoning = [plain[name] for name in _REASONING if name in plain]
    if reasoning:
        return {"thinking": reasoning[0], **plain, "reasoning_content": reasoning[0]}
    return plain


def _plain(value: Any, owner: str) -> Any:
    """Return a copy made of dicts, lists, strings, numbers and None, which have no other methods.

    Raises:
        TypeError: There is another kind of value.
    """
    if isinstance(value, Mapping):
        return {_plain(name, owner): _plain(entry, owner) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, owner) for entry in value]
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a scalar of NumPy or torch
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    # of a subclass, such as an enum, the value alone
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(
        f"{owner} should have strings, numbers, lists and dicts as values, not {type_of(value)}."
    )


def _mark_end(message: dict[str, Any], field: str) -> None:
    """Mark the end of the text that is to be continued.

    Raises:
        ValueError: The message has no such text.
    """
    content = message.get(field)
    if isinstance(content, list):
        blocks = [x for x in content if isinstance(x, dict) and isinstance(x.get("text"), str)]
        if blocks:
            blocks[-1]["text"] += _CONTINUE
            return
    if not isinstance(content, str):
        raise ArgumentError(
            "continue_final_message", f"needs a text in {field!r:.40} of the last message."
        )
    fields = _REASONING if field in _REASONING else (field,)
    for name in fields:
        if message.get(name) == content:
            message[name] = content + _CONTINUE


def _cut_at_end(text: str, field: str) -> str:
    """Return a text up to its mark, without white space where the template strips texts."""
    mark = _CONTINUE.strip()
    end = text.rfind(mark)
    if end < 0:
        raise ArgumentError(
            "continue_final_message",
            f"ends the text after {field!r:.40} of the last message, which the template leaves "
            "out.",
        )
    if text.startswith(_CONTINUE, end):
        return text[:end]
    return text[:end].rstrip()


def _without_marks(text: str) -> RenderedChat:
    """Take the marks of what was generated out of a text."""
    parts = [""]
    length = 0
    begin = 0
    spans = []
    for part in re.split(f"({_BEGIN}|{_END})", text):
        if part == _BEGIN:
            begin = length
        elif part == _END:
            spans.append((begin, length))
        else:
            parts.append(part)
            length += len(part)
    return RenderedChat("".join(parts), spans)


@lru_cache(maxsize=16)
def _compile(template: str) -> Any:
    """Return a template of Jinja, in a sandbox that has what chat templates use.

    Raises:
        ImportError: Jinja is older than 3.1.6.
        jinja2.TemplateError: The template has a mistake.
    """
    jinja = need("jinja2", "", "apply_chat_template()")
    sandbox = need("jinja2.sandbox", "", "apply_chat_template()")
    extensions = need("jinja2.ext", "", "apply_chat_template()")
    version = tuple(int(number) for number in re.findall(r"\d+", jinja.__version__)[:3])
    if version < _OLDEST_SAFE:
        raise ImportError(
            f"apply_chat_template() needs jinja2 3.1.6 or newer, whose sandbox is safe, not "
            f"{jinja.__version__}: pip install -U jinja2"
        )

    class Generation(extensions.Extension):  # type: ignore[misc, name-defined]
        """`{% generation %}...{% endgeneration %}`, around what a model has written."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            """Parse the block into a call of `_mark`."""
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            marks = jinja.nodes.Name(_MARKS, "load")
            call = self.call_method("_mark", [marks])
            return jinja.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _mark(self, marks: tuple[str, str] | None, caller: Any) -> str:
            text: str = caller()
            if not marks:
                return text
            return f"{marks[0]}{text}{marks[1]}"

    def raise_exception(message: str) -> NoReturn:
        raise jinja.TemplateError(message)

    def to_json(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, extensions.loopcontrols]
    )
    environment.filters["tojson"] = to_json  # Jinja's own escapes the characters of HTML
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)
