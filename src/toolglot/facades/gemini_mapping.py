"""Conversions between Gemini CLI's arguments and those of the base tools."""

import re
from typing import Any

from msgspec import UNSET

from toolglot.errors import ToolError
from toolglot.facades.elision import find_elision
from toolglot.facades.view import Arguments

__all__ = [
    "DEFAULT_INSTRUCTION",
    "MAX_URLS",
    "count_to_base",
    "delay_from_base",
    "delay_to_base",
    "delay_to_seconds",
    "end_line_from_base",
    "fetch_from_base",
    "fetch_to_base",
    "instruction_to_base",
    "is_process_id",
    "legacy_end_line",
    "question_from_base",
    "question_to_base",
    "reject_elision",
]

MAX_URLS = 20
MAX_DELAY = 3600
DEFAULT_INSTRUCTION = "Make this change."
"""The instruction of an edit in history that had none; the parameter is required."""


def legacy_end_line(native: Arguments) -> Any:
    """The end line of a call with the older `offset` and `limit`."""
    return native.get("offset", 0) + native["limit"] if "limit" in native else UNSET


def end_line_from_base(base: Arguments) -> Any:
    """The last line, also of a call that gave a number of lines."""
    if "max_lines" in base and not base.keys() & {"end_line", "tail_lines"}:
        return base.get("start_line", 1) + base["max_lines"] - 1
    return base.get("end_line", UNSET)


def count_to_base(native: Arguments) -> Any:
    """How many occurrences are replaced: one, all, or an expected number."""
    expected = native.get("expected_replacements", 1)
    return "all" if native.get("allow_multiple") else "one" if expected == 1 else expected


def instruction_to_base(native: Arguments) -> Any:
    """The instruction, unless it is the one that stands for none."""
    return UNSET if native.get("instruction") in (None, "", DEFAULT_INSTRUCTION) else native["instruction"]


def reject_elision(content: str) -> str:
    """The content of a file. Raises ToolError if a line of it stands for omitted text."""
    if line := find_elision(content):
        raise ToolError(
            f"write_file: 'content' has the line {line!r}, which stands for omitted text; write the complete file",
            kind="validation",
        )
    return content


def delay_to_seconds(value: float) -> float:
    """A delay in milliseconds as seconds, within bounds."""
    return min(max(value / 1000, 0), MAX_DELAY)


def delay_to_base(native: Arguments) -> Any:
    """The delay of a background process."""
    return delay_to_seconds(native["delay_ms"]) if native.get("is_background") and "delay_ms" in native else UNSET


def delay_from_base(base: Arguments) -> Any:
    """The same in milliseconds."""
    if not base.get("background") or base.get("yield_after") is None:
        return UNSET
    return round(base["yield_after"] * 1000)


def is_process_id(base: Arguments) -> bool:
    """Whether a session can be named by a PID."""
    handle = str(base.get("handle", "")).strip()
    return handle.isascii() and handle.isdigit()


_URL = re.compile(r"https?://[^\s<>\"'`]+", re.IGNORECASE)
_GITHUB_BLOB = re.compile(r"^https://github\.com/([^/]+/[^/]+)/blob/", re.IGNORECASE)
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def find_urls(prompt: str) -> list[str]:
    """The URLs in a text, each once, without the punctuation of the sentence they are in."""
    return list(dict.fromkeys(_strip_punctuation(url) for url in _URL.findall(prompt)))[:MAX_URLS]


def _strip_punctuation(url: str) -> str:
    while url:
        last = url[-1]
        # A closing bracket belongs to the URL if it closes one inside of it.
        is_unpaired = last in _BRACKETS and url.count(_BRACKETS[last]) < url.count(last)
        if last not in ".,;:!?*" and not is_unpaired:
            break
        url = url[:-1]
    return url


def fetch_to_base(native: Arguments) -> Arguments:
    """The pages that a prompt names. Raises ToolError if there are none."""
    prompt: str = native.get("prompt") or native.get("url", "")
    urls = find_urls(prompt)
    if not urls:
        raise ToolError(
            "web_fetch: 'prompt' has no URL; include at least one that starts with http:// or https://", kind="validation"
        )
    raw = [_GITHUB_BLOB.sub(r"https://raw.githubusercontent.com/\1/", url) for url in urls]
    target: Any = raw[0] if len(raw) == 1 else raw
    return {"target": target} if prompt == " ".join(urls) else {"target": target, "question": prompt}


def fetch_from_base(base: Arguments) -> Arguments | None:
    """A prompt that names the pages."""
    target: Any = base.get("target") or []
    targets: list[str] = [target] if isinstance(target, str) else target
    question: str = base.get("question") or ""
    if not targets or not all(find_urls(url) == [url] for url in targets):
        return None
    missing = [url for url in targets if url not in find_urls(question)]
    return {"prompt": " ".join(filter(None, (*missing, question)))}


def question_to_base(question: Arguments) -> Arguments:
    """One question for the user."""
    base: Arguments = {"question": question["question"], "header": question["header"], "kind": question["type"]}
    if question["type"] == "choice":
        options = question.get("options") or ()
        base["options"] = [{"label": option["label"], "description": option["description"]} for option in options]
        base["multi"] = bool(question.get("multiSelect"))
    return base


def question_from_base(question: Arguments) -> Arguments:
    """The same in native form."""
    kind = question.get("kind", "choice")
    native: Arguments = {"question": question["question"], "header": question.get("header", ""), "type": kind}
    if kind == "choice":
        options = question.get("options") or ()
        native["options"] = [{"label": option["label"], "description": option.get("description", "")} for option in options]
        native["multiSelect"] = bool(question.get("multi"))
    return native
