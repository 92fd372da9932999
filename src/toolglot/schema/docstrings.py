"""Reads a function's docstring in Google, NumPy or Sphinx style, detected automatically.

The description is the text without the sections about parameters and errors; what is returned stays, as a last sentence.
"""

import re
from collections.abc import Callable, Iterator
from inspect import cleandoc
from textwrap import dedent

__all__ = ["parse_docstring"]

_PARAMETERS = frozenset(
    {"args", "arguments", "params", "parameters"}
    | {f"{kind} {noun}" for kind in ("keyword", "other") for noun in ("args", "arguments", "params", "parameters")}
)
_RETURNS = frozenset({"return", "returns", "yield", "yields"})
_EXAMPLES = frozenset({"example", "examples"})
# What a function raises or has inside is of no use to a model.
_DROPPED = frozenset(
    {"raises", "exceptions", "warns", "receives", "attributes", "functions", "methods", "classes", "modules", "deprecated"}
)
_KNOWN = _PARAMETERS | _RETURNS | _EXAMPLES | _DROPPED
_GOOGLE_TITLE = re.compile(r"([A-Za-z][\w ]{1,30}):")
_GOOGLE_ITEM = re.compile(r"\\?\*{0,2}(\w+)(?: *\([^\n]*?\))?: *(.*)", re.DOTALL)
_NUMPY_ITEM = re.compile(r"(\*{0,2}\w+(?: *, *\*{0,2}\w+)*)(?: *:.*)?")
_SPHINX_FIELD = re.compile(r":([a-z]+)(?: +([^:\n]+))?: *(.*)")
_SPHINX_PARAMETERS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_SPHINX_DROPPED = frozenset(
    {"type", "rtype", "raise", "raises", "except", "exception", "var", "ivar", "cvar", "vartype", "meta"}
)
# `dict[str, int]: the counts`; a sentence with a colon in it is no type.
_RETURN_TYPE = re.compile(r"\A[\w.]+(?:\[[^\]]*\])?(?: *\| *[\w.]+(?:\[[^\]]*\])?)*: +(?=\S)")


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and those of its parameters by name."""
    text = cleandoc(text or "")
    lines = text.splitlines()
    parts: list[str] = []
    parameters: dict[str, str] = {}
    read_sections = _choose_style(lines)
    if read_sections is None:
        return text, {}
    for title, body in read_sections(lines):
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


def _choose_style(lines: list[str]) -> Callable[[list[str]], Iterator[tuple[str, str]]] | None:
    """The reader of the first style whose marks the docstring has; None if it has no sections."""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.strip().lower() in _KNOWN and re.fullmatch(r"-{3,}", following.strip()):
            return _numpy_sections
        field = _SPHINX_FIELD.match(line)
        if field and (field[1] in _RETURNS or (field[1] in _SPHINX_PARAMETERS | _SPHINX_DROPPED and field[2])):
            return _sphinx_sections
        title = _GOOGLE_TITLE.fullmatch(line.rstrip())
        if title and title[1].lower() in _KNOWN and following.startswith((" ", "\t")):
            return _google_sections
    return None


def _google_sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Titles and bodies; text outside of sections has the title ""."""
    title, body = "", list[str]()
    for number, line in enumerate([*lines, ""]):
        header = _GOOGLE_TITLE.fullmatch(line.rstrip())
        is_header = (
            header is not None
            and (header[1][0].isupper() or header[1] in _KNOWN)
            and any(following.startswith((" ", "\t")) for following in lines[number + 1 : number + 2])
        )
        if is_header or (title and line.strip() and not line.startswith((" ", "\t"))):
            yield title, dedent("\n".join(body))
            title, body = (header[1], []) if is_header and header else ("", [line])
        else:
            body.append(line)
    yield title, dedent("\n".join(body))


def _numpy_sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    title, body = "", list[str]()
    underlines = {number for number, line in enumerate(lines) if number and re.fullmatch(r"-{3,}", line.strip())}
    for number, line in enumerate(lines):
        if number + 1 in underlines:
            yield title, "\n".join(body)
            title, body = line.strip(), []
        elif number not in underlines:
            body.append(line)
    yield title, "\n".join(body)


def _sphinx_sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each field of the list is a section: `parameter` with its name as the first line, `returns`, or one that is dropped."""
    title, body = "", list[str]()
    for line in lines:
        field = _SPHINX_FIELD.match(line)
        # Text at the left margin ends the list after a blank line, as a directive does anywhere; else it continues the field.
        is_outside = line.startswith("..") or (title and not body[-1].strip() and line.strip() and not line[0].isspace())
        if field or (title and is_outside):
            yield title, "\n".join(body)
            if field is None:
                title, body = "", [line]
            elif field[1] in _SPHINX_PARAMETERS and field[2]:
                title, body = "parameter", [field[2].split()[-1].lstrip("\\*"), field[3]]
            else:
                title, body = ("returns" if field[1] in _RETURNS else "raises"), [field[3]]
        else:
            body.append(line)
    yield title, "\n".join(body)


def _split_items(body: str) -> list[str]:
    """A section's items: each starts at the left margin, its further lines are indented."""
    items: list[list[str]] = []
    for line in body.strip("\n").splitlines():
        if line.strip() and not line.startswith((" ", "\t")):
            items.append([line])
        elif items:
            items[-1].append(line)
    return ["\n".join(lines) for lines in items]


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
