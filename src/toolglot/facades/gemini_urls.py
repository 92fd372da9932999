"""Web pages as Gemini CLI asks for them: the URLs are in a prompt."""

import re
from typing import Any

from toolglot.errors import ToolError
from toolglot.facades.view import Arguments

__all__ = ["MAX_URLS", "fetch_from_base", "fetch_to_base"]

MAX_URLS = 20
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
