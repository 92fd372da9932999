"""Text without secrets: keys that are known, and whatever looks like one. Used wherever text leaves the program."""

import re
from collections.abc import Iterable

__all__ = ["HIDDEN", "redact"]

HIDDEN = "[hidden]"
_LOOKS_SECRET = re.compile(
    r"\b(sk-[\w-]{8,}|AIza[\w-]{20,}|gh[opsu]_\w{16,}|github_pat_\w{16,}|xai-\w{16,}|gsk_\w{16,}|AKIA[A-Z0-9]{12,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}[\w.-]*)|(?<=[Bb]earer )[\w.~+/-]{8,}=*"
)
# `api_key=…`, `PASSWORD: …`, `--token …`, `https://user:…@host`
_CALLED_SECRET = re.compile(
    r"""(?ix) (?P<name> (?:api[_-]?key|token|secret|passw(?:or)?d|passwd|credential)\w{0,20} ["']? [=:\s]{1,3} ["']?
    | ://[^/\s:@]{0,100}: ) (?P<secret> [^\s"'&,;@]+ )"""
)


def redact(text: str, known: Iterable[str] = (), *, named: bool = False) -> str:
    """The text, with keys hidden. `named`: also whatever is called a key, a token or a password."""
    for key in sorted(known, key=len, reverse=True):
        if len(key) >= 6:
            text = text.replace(key, HIDDEN)
    text = _LOOKS_SECRET.sub(HIDDEN, text)
    return _CALLED_SECRET.sub(lambda found: found["name"] + HIDDEN, text) if named else text
