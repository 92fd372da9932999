"""Live arguments: a JSON object that grows while its text streams.

Law: a fragment costs what is in it, however long the text already is. Values appear in `value` as soon as they are whole; the
text that is being written now is `open`, with its path. Text that is not JSON stops the scan and nothing else: see `broken`.
"""

import re
from typing import Any

from toolglot.jsontext import loads

__all__ = ["PartialArguments"]

_SPECIAL = re.compile(r'["\\]')
_SCALAR_END = re.compile(r"[\s,\]}]")
_SPACE = re.compile(r"[\s,:]*")


class PartialArguments:
    """Feed it the fragments of a call's arguments."""

    def __init__(self) -> None:
        self.value: Any = None
        """What is whole so far; text that is still open is not in it."""
        self.broken = False
        self._stack: list[Any] = []  # the containers that are open
        self._keys: list[Any] = []  # the key or index in each of them
        self._pieces: list[str] = []  # of the open string or scalar
        self._in: str = ""  # "" between values, "string", "scalar"
        self._escaped = False

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the text goes that is being written now."""
        return tuple(key for key in self._keys if key is not None)

    @property
    def open(self) -> str:
        """The text that is being written now, as it is in the JSON."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._in == "string" else ""

    def feed(self, fragment: str) -> None:
        """More of the text."""
        at = 0
        while at < len(fragment) and not self.broken:
            if self._in == "string":
                at = self._string(fragment, at)
            elif self._in == "scalar":
                at = self._scalar(fragment, at)
            else:
                at = self._between(fragment, at)

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            self._pieces.append(text[at])
            return at + 1
        match = _SPECIAL.search(text, at)
        if match is None:
            self._pieces.append(text[at:])
            return len(text)
        if match[0] == "\\":
            self._escaped = True
            self._pieces.append(text[at : match.end()])
            return match.end()
        self._pieces.append(text[at : match.start()])
        self._whole('"' + "".join(self._pieces) + '"')
        return match.end()

    def _scalar(self, text: str, at: int) -> int:
        match = _SCALAR_END.search(text, at)
        end = match.start() if match else len(text)
        self._pieces.append(text[at:end])
        if match:
            self._whole("".join(self._pieces))
        return end

    def _between(self, text: str, at: int) -> int:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if at == len(text):
            return at
        match text[at]:
            case "{" | "[" if self._awaits_key():
                self.broken = True
            case "{" | "[" as bracket:
                self._put({} if bracket == "{" else [], opens=True)
            case "}" | "]":
                if not self._stack:
                    self.broken = True
                else:
                    self._stack.pop()
                    self._keys.pop()
                    self._next()
            case '"':
                self._in = "string"
            case _:
                self._in = "scalar"
                return at
        return at + 1

    def _whole(self, token: str) -> None:
        self._in, self._pieces = "", []
        try:
            value = loads(token)
        except ValueError:
            self.broken = True
            return
        if self._awaits_key():
            if isinstance(value, str):
                self._keys[-1] = value
            else:
                self.broken = True
        else:
            self._put(value, opens=False)

    def _awaits_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1], dict) and self._keys[-1] is None

    def _put(self, value: Any, *, opens: bool) -> None:
        if not self._stack:
            if self.value is not None:
                self.broken = True
                return
            self.value = value
        elif isinstance(self._stack[-1], dict):
            self._stack[-1][self._keys[-1]] = value
        else:
            self._stack[-1].append(value)
        if opens:
            self._stack.append(value)
            self._keys.append(None if isinstance(value, dict) else 0)
        else:
            self._next()

    def _next(self) -> None:
        """A value is whole: the next key of an object is not known yet, the next index of an array is."""
        if self._stack:
            self._keys[-1] = None if isinstance(self._stack[-1], dict) else len(self._stack[-1])
