"""Reads the body of a call that was written as text: finds its end in a stream, then parses it."""

import ast
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from toolglot.common.jsontext import is_portable
from toolglot.schema.coerce import coerce
from toolglot.schema.json_schema import Schema
from toolglot.schema.tolerant_json import tolerant_loads
from toolglot.wire.json_values import as_dict, as_text, join_surrogates
from toolglot.wire.text_calls.forms import Head, TagStyle

Tools = Mapping[str, Schema]
"""The tools that a request offers: name on the wire -> schema."""

_CALL_KEYS = frozenset({"name", "arguments", "parameters", "type", "function", "id"})
_INSIDE = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}
_JSON_MARKS, _PYTHON_MARKS = re.compile(r'[{}\[\]"]'), re.compile(r"[{}\[\]()\"']")
_MAX_SPACE = 64  # between the last parameter and the end of the call


class TextCall(NamedTuple):
    """A call that was found in text. `id`: "" if its form has none."""

    name: str
    arguments: dict[str, Any]
    id: str = ""


class ValueEndFinder:
    """Finds the end of a JSON or Python value, over any number of pieces."""

    def __init__(self, marks: re.Pattern[str]) -> None:
        self._marks = marks
        self._depth = 0
        self._quote = ""  # the one that opened the string that is being read
        self._is_escaped = False

    def feed(self, text: str) -> int:
        """Return the position after the value, -1 if it goes on."""
        position = int(self._is_escaped)  # the first character is escaped by the last one of the piece before
        self._is_escaped = False
        while match := self._find_mark(text, position):
            mark = match[0]
            position = match.end()
            if mark == "\\":
                self._is_escaped = position == len(text)
                position += 1
            elif mark in "\"'":
                self._quote = "" if self._quote else mark
            else:
                self._depth += 1 if mark in "{[(" else -1
                if self._depth <= 0:
                    return position
        return -1

    def _find_mark(self, text: str, position: int) -> re.Match[str] | None:
        """Find what comes next: inside of a string, its end or an escape; outside, a bracket or a quotation
        mark.
        """
        marks = _INSIDE[self._quote] if self._quote else self._marks
        return marks.search(text, position)


class TagsEndFinder:
    """Finds the end of a call whose parameters are tags.

    A value may hold the end as text: it must follow a parameter.
    """

    def __init__(self, style: TagStyle) -> None:
        self._first = re.compile(rf"\s{{0,{_MAX_SPACE}}}(?:{style.end})")
        self._later = re.compile(rf"{re.escape(style.closing)}\s{{0,{_MAX_SPACE}}}(?:{style.end})")
        self._window = ""
        # Characters that the end may need: as many are kept of what was read. `end` is a choice of fixed
        # texts, so that the pattern is at least as long as each of them.
        self._size = len(style.closing) + _MAX_SPACE + len(style.end)
        self._is_start = True

    def feed(self, text: str) -> int:
        """Return the position after the end, -1 if the call goes on."""
        before = len(self._window)
        text = self._window + text
        match = self._first.match(text) if self._is_start else None
        match = match or self._later.search(text)
        self._is_start = self._is_start and len(text) <= self._size
        self._window = text if self._is_start else text[-self._size :]
        if match is None:
            return -1
        return match.end() - before


def make_end_finder(head: Head) -> ValueEndFinder | TagsEndFinder:
    """Return what finds the end of the body after a head."""
    if head.form.tags is not None:
        return TagsEndFinder(head.form.tags)
    marks = _PYTHON_MARKS if head.form.body == "python" else _JSON_MARKS
    return ValueEndFinder(marks)


def find_tool(name: str, tools: Tools) -> str:
    """Return the offered tool that a name means, "" if there is none.

    Kimi and Harmony: `functions.NAME:0`.
    """
    if name in tools:
        return name
    base = name.removeprefix("functions.").partition(":")[0]
    return base if base in tools else ""


def parse_body(head: Head, body: str, tools: Tools) -> list[TextCall] | None:
    """Return the calls; None if they cannot be read, or if one is not of an offered tool.

    The caller has checked that the head's name, which every form with tags has, is that of an offered tool.
    """
    form = head.form
    name = find_tool(head.name, tools)
    body = join_surrogates(body)
    if form.body == "python":
        return _parse_python(body, tools)
    if form.tags is not None:
        arguments = _parse_tags(body, form.tags, tools[name])
    else:
        try:
            value: Any = tolerant_loads(body or "{}")[0]
        except ValueError:
            return None
        if form.body == "calls":
            return _read_calls(value, tools, bare=form.is_bare)
        arguments = cast(dict[str, Any], value) if isinstance(value, dict) else None
    if arguments is None:
        return None
    id = head.name if ":" in head.name else ""  # Kimi's ids are `functions.NAME:0`
    return [TextCall(name, arguments, id)]


def _read_calls(value: Any, tools: Tools, *, bare: bool) -> list[TextCall] | None:
    """Read one call, or a list of them. None if any is not one."""
    calls: list[TextCall] = []
    items: list[Any] = cast(list[Any], value) if isinstance(value, list) else [value]
    for item in items:
        call = _read_call(item, tools, bare=bare)
        if call is None:
            return None
        calls.append(call)
    return calls


def _read_call(value: Any, tools: Tools, *, bare: bool) -> TextCall | None:
    """Read an object with name and arguments, which some models put under `function`, as in OpenAI's format."""
    call = as_dict(value)
    if bare and not (call.keys() <= _CALL_KEYS):
        return None  # other data, which only looks similar
    inner = as_dict(call.get("function")) or call
    name = inner.get("name", inner.get("function"))
    tool = find_tool(name, tools) if isinstance(name, str) else ""
    key = "arguments" if "arguments" in inner else "parameters"
    if not tool or (bare and key not in inner):
        return None
    arguments = inner.get(key)
    if isinstance(arguments, str):  # encoded twice (Granite 4)
        try:
            arguments, _ = tolerant_loads(arguments)
        except ValueError:
            return None
    if not isinstance(arguments, dict | None):
        return None
    return TextCall(tool, cast(dict[str, Any], arguments or {}), as_text(call.get("id")))


def _parse_tags(body: str, style: TagStyle, schema: Schema) -> dict[str, Any] | None:
    """Read parameters that are tags. Their values are text, which the schema gives a type."""
    texts = _split_tags(body, style, as_dict(schema.get("properties")))
    if texts is None:
        return None
    return coerce(texts, schema)[0]


def _split_tags(body: str, style: TagStyle, properties: Schema) -> dict[str, str] | None:
    """Return the parameters' names and texts."""
    if end := re.search(rf"(?:{style.end})\Z", body):
        body = body[: end.start()].rstrip()
    opening = re.compile(style.opening)
    # A value may hold the closing tag as text: the one that counts is followed by another parameter or by the
    # end.
    closing = re.compile(rf"{re.escape(style.closing)}\s*(?={style.opening}|\Z)")
    texts: dict[str, str] = {}
    position = len(body) - len(body.lstrip())
    while position < len(body):
        match = opening.match(body, position)
        if match is None:
            return None
        name = match[1].strip()
        end = closing.search(body, match.end())
        if end is None or name in texts:
            return None
        stop = end.start()
        position = end.end()
        if style.trims:
            unclosed = _find_next_parameter(body, match.end(), stop, opening, properties)
            if unclosed is not None:
                stop = position = unclosed
        text = body[match.end() : stop]
        if style.trims:
            text = text.removeprefix("\n").removesuffix("\n")
        texts[name] = text
    return texts


def _find_next_parameter(
    body: str, start: int, stop: int, opening: re.Pattern[str], properties: Schema
) -> int | None:
    """Return where another parameter begins inside a value: on a line of its own, without the closing tag
    before it.

    Qwen3-Coder leaves such tags out.
    """
    for match in opening.finditer(body, start, stop):
        begins_line = body[match.start() - 1] == "\n"
        if begins_line and match[1] in properties and match[0] not in body[stop:]:
            return match.start()
    return None


def _parse_python(body: str, tools: Tools) -> list[TextCall] | None:
    """Read a list of Python calls with keyword arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            node = ast.parse(body.strip(), mode="eval").body
        if not isinstance(node, ast.List):
            return None
        calls: list[TextCall] = []
        for call in node.elts:
            # positional arguments have no names to send them by
            if not isinstance(call, ast.Call) or call.args:
                return None
            values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
            # Tuples become lists; bytes, sets and infinity are no JSON.
            arguments = json.loads(json.dumps(values, allow_nan=False))
            calls.append(TextCall(find_tool(ast.unparse(call.func), tools), arguments))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    for call in calls:
        if not call.name or not is_portable(call.arguments):
            return None
    return calls or None
