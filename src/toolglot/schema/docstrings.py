"""Reads a function's docstring in Google, NumPy or Sphinx style, detected automatically.

The description is the text without the sections about parameters and errors; what is returned stays, as a last sentence.
griffe is imported with the first docstring that has sections.
"""

import re
from inspect import cleandoc

__all__ = ["parse_docstring"]

# A line that opens a section: `Args:`, a row of dashes, `:param x:`. Without one, griffe (slow to import) is not needed.
_SECTION = re.compile(r"^[ \t]*(?:[A-Z][A-Za-z ]{1,30}:|-{3,}|:[a-z]+(?: [^:\n]+)?:.*)[ \t]*$", re.MULTILINE)


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and those of its parameters by name."""
    text = cleandoc(text or "")
    if not _SECTION.search(text):
        return text, {}
    from griffe import Docstring, infer_docstring_style

    docstring = Docstring(text)
    style = infer_docstring_style(docstring)[0]
    if not style:
        return text, {}
    parts: list[str] = []
    parameters: dict[str, str] = {}
    for section in docstring.parse(style, warnings=False):
        value = section.value
        match section.kind.value:
            case "text":
                parts.append(value.strip())
            case "parameters" | "other parameters":
                parameters.update({item.name.lstrip("*"): _unwrap_lines(item.description) for item in value})
            case "returns" | "yields":
                returned = "; ".join(_unwrap_lines(item.description) for item in value if item.description.strip())
                parts.append(f"Returns: {returned}" if returned else "")
            case "admonition":
                parts.append(f"{section.title}: {value.contents.strip()}")
            case "examples":
                parts.append("Examples:\n" + "\n".join(str(content).strip() for _, content in value))
            case _:  # what a function raises is no use to a model
                pass
    return "\n\n".join(part for part in parts if part), parameters


def _unwrap_lines(text: str) -> str:
    """Join wrapped lines; keep paragraphs apart."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
