"""Reads a function's docstring in Google, NumPy or Sphinx style, detected automatically.

The description is the text without the sections about parameters and errors; what is returned stays, as a
last sentence.
"""

import re
from collections.abc import Iterator
from inspect import cleandoc
from textwrap import dedent

__all__ = ["parse_docstring"]

_PARAMETERS = frozenset(
    {"args", "arguments", "params", "parameters", "attributes"}
    | {
        f"{kind} {noun}"
        for kind in ("keyword", "other")
        for noun in ("args", "arguments", "params", "parameters")
    }
)
_RETURNS = frozenset({"return", "returns", "yield", "yields"})
_EXAMPLES = frozenset({"example", "examples"})
# What a function raises or has inside is of no use to a model.
_DROPPED = frozenset(
    {"raises", "exceptions", "warns", "receives", "functions", "methods", "classes", "modules", "deprecated"}
)
_KNOWN = "|".join(_PARAMETERS | _RETURNS | _EXAMPLES | _DROPPED)
# A title and the indented lines below it; a title that is not known must begin with a capital.
_GOOGLE_SECTION = re.compile(
    rf"^([A-Z][\w ]{{1,30}}|{_KNOWN}):[ \t]*\n(?=[ \t])((?:[ \t].*(?:\n|\Z)|\n)+)", re.MULTILINE
)
_NUMPY_TITLE = re.compile(r"^(.*\S.*)\n[ \t]*-{3,}[ \t]*(?:\n|\Z)", re.MULTILINE)
_GOOGLE_ITEM = re.compile(r"\\?\*{0,2}(\w+)(?: *\([^\n]*?\))?: *(.*)", re.DOTALL)
_NUMPY_ITEM = re.compile(r"(\*{0,2}\w+(?: *, *\*{0,2}\w+)*)(?: *:.*)?")
_SPHINX_FIELD = re.compile(r":([a-z]+)(?: +([^:\n]+))?: *(.*)")
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_SPHINX_DROPPED = frozenset(
    {"type", "rtype", "raise", "raises", "except", "exception", "var", "ivar", "cvar", "vartype", "meta"}
)
# `dict[str, int]: the counts`; a sentence with a colon in it is no type.
_RETURN_TYPE = re.compile(r"\A[\w.]+(?:\[[^\]]*\])?(?: *\| *[\w.]+(?:\[[^\]]*\])?)*: +(?=\S)")
# What shows the style: a known title, or a field that is not just a word between colons.
_GOOGLE_MARK = re.compile(rf"^(?:{_KNOWN}):[ \t]*\n[ \t]", re.MULTILINE | re.IGNORECASE)
_NUMPY_MARK = re.compile(rf"^[ \t]*(?:{_KNOWN})[ \t]*\n[ \t]*-{{3,}}[ \t]*$", re.MULTILINE | re.IGNORECASE)
_SPHINX_MARK = re.compile(
    rf"^:(?:(?:{'|'.join(_RETURNS)})(?: +[^:\n]+)?|(?:{'|'.join(_SPHINX_PARAMETERS | _SPHINX_DROPPED)}) "
    r"+[^:\n]+):",
    re.MULTILINE,
)


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a function or class, and those of its parameters or attributes by name."""
    text = cleandoc(text or "")
    styles = (
        (_NUMPY_MARK, _numpy_sections),
        (_SPHINX_MARK, _sphinx_sections),
        (_GOOGLE_MARK, _google_sections),
    )
    # The first mark in the text decides.
    marks = [
        (mark.start(), read_sections) for pattern, read_sections in styles if (mark := pattern.search(text))
    ]
    if not marks:
        return text, {}
    read_sections = min(marks, key=lambda mark: mark[0])[1]
    parts: list[str] = []
    parameters: dict[str, str] = {}
    for title, body in read_sections(text):
        kind = title.lower()
        if not title:
            parts.append(body.strip())
        elif kind == "parameter":  # one item of a Sphinx field list: its name is the first line
            name, _, description = body.partition("\n")
            parameters[name] = _unwrap_lines(description)
        elif kind in _PARAMETERS:
            parameters.update(_read_parameters(body, is_numpy=read_sections is _numpy_sections))
        elif kind in _RETURNS:
            returned = "; ".join(filter(None, _read_returns(body, is_numpy=read_sections is _numpy_sections)))
            parts.append(f"Returns: {returned}" if returned else "")
        elif kind in _EXAMPLES:
            parts.append(f"Examples:\n{body.strip()}")
        elif kind not in _DROPPED:
            parts.append(f"{title}: {body.strip()}")
    return "\n\n".join(part for part in parts if part), parameters


def _google_sections(text: str) -> Iterator[tuple[str, str]]:
    """Titles and bodies; text outside of sections has the title ""."""
    pieces = _GOOGLE_SECTION.split(text)
    yield "", pieces[0]
    for title, body, after in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        yield title, dedent(body)
        yield "", after


def _numpy_sections(text: str) -> Iterator[tuple[str, str]]:
    before, *pieces = _NUMPY_TITLE.split(text)
    yield "", before
    for title, body in zip(pieces[::2], pieces[1::2], strict=True):
        yield title.strip(), body


def _sphinx_sections(text: str) -> Iterator[tuple[str, str]]:
    """Each field of the list is a section: `parameter` with its name as the first line, `returns`, or one
    that is dropped.
    """
    title = ""
    body: list[str] = []
    for line in text.splitlines():
        field = _SPHINX_FIELD.match(line)
        if field is None and not (title and _ends_field(line, body[-1])):
            body.append(line)
            continue
        yield title, "\n".join(body)
        if field is None:
            title = ""
            body = [line]
        elif field[1] in _SPHINX_PARAMETERS and field[2]:
            title = "parameter"
            body = [field[2].split()[-1].lstrip("\\*"), field[3]]
        else:
            title = "returns" if field[1] in _RETURNS else "raises"
            body = [field[3]]
    yield title, "\n".join(body)


def _ends_field(line: str, previous: str) -> bool:
    """Whether a line is outside the field before it: a directive, or text at the left margin after a blank
    line.
    """
    if line.startswith(".."):
        return True
    is_text = bool(line.strip())
    return is_text and not previous.strip() and not line[0].isspace()


def _split_items(body: str) -> list[str]:
    """A section's items: each starts at the left margin, its further lines are indented."""
    return re.split(r"\n(?=\S)", body.strip("\n"))


def _read_parameters(body: str, *, is_numpy: bool) -> Iterator[tuple[str, str]]:
    for item in _split_items(body):
        head, _, indented = item.partition("\n")
        if not is_numpy and (match := _GOOGLE_ITEM.fullmatch(item)):
            yield match[1], _unwrap_lines(match[2])
        elif is_numpy and (match := _NUMPY_ITEM.fullmatch(head)):
            for name in match[1].split(","):
                yield name.strip().lstrip("*"), _unwrap_lines(dedent(indented))


def _read_returns(body: str, *, is_numpy: bool) -> Iterator[str]:
    if not is_numpy:
        yield _unwrap_lines(_RETURN_TYPE.sub("", body.strip(), count=1))
        return
    for item in _split_items(body):
        yield _unwrap_lines(dedent(item.partition("\n")[2]))  # the first line is a type


def _unwrap_lines(text: str) -> str:
    """Join wrapped lines; keep paragraphs apart."""
    paragraphs = re.split(r"\n[ \t]*\n", text.strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
