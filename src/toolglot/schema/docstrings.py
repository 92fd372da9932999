"""What a docstring tells about a function: Google, NumPy and Sphinx styles, found out by themselves.

The description is the text without the sections about parameters and errors; what is returned stays, as a last sentence.
griffe is loaded with the first docstring that has sections.
"""

import re
from inspect import cleandoc
from typing import Any

__all__ = ["parse_docstring"]

# A line that opens a section: `Args:`, a row of dashes, `:param x:`.
_SECTION = re.compile(r"^[ \t]*(?:[A-Z][A-Za-z ]{1,30}:|-{3,}|:[a-z]+(?: [^:\n]+)?:.*)[ \t]*$", re.MULTILINE)


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The description of a function, and of its parameters by name."""
    text = cleandoc(text or "")
    if not _SECTION.search(text):
        return text, {}
    from griffe import Docstring, infer_docstring_style

    whole = Docstring(text)
    style = infer_docstring_style(whole)[0]
    parts: list[str] = []
    parameters: dict[str, str] = {}
    for section in whole.parse(style, warnings=False) if style else ():
        _read_section(section, parts, parameters)
    return ("\n\n".join(part for part in parts if part), parameters) if style else (text, {})


def _read_section(section: Any, parts: list[str], parameters: dict[str, str]) -> None:
    match section.kind.value:
        case "text":
            parts.append(section.value.strip())
        case "parameters" | "other parameters":
            parameters.update({item.name.lstrip("*"): _unwrap_lines(item.description) for item in section.value})
        case "returns" | "yields":
            said = "; ".join(_unwrap_lines(item.description) for item in section.value if item.description.strip())
            parts.append(f"Returns: {said}" if said else "")
        case "admonition":
            parts.append(f"{section.title}: {section.value.contents.strip()}")
        case "examples":
            parts.append("Examples:\n" + "\n".join(str(content).strip() for _, content in section.value))
        case _:
            pass


def _unwrap_lines(text: str) -> str:
    """Wrapped lines as one; paragraphs stay apart."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
