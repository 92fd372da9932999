"""Live arguments: a JSON object that grows while its text streams.

A fragment costs what is in it, however long the text already is. Values appear in `value` as soon as they are
complete; the string that is being written is `open_text`, at `path`; `preview` has both. Text that is not
JSON only stops the scan: see `is_broken`.
"""

import re
from contextlib import suppress
from typing import Any, cast

from toolglot.common.jsontext import loads

_STRING_SPECIAL = re.compile(r'["\\]')
_SCALAR_END = re.compile(r"[\s,\]}]")
_SEPARATORS = re.compile(r"[\s,:]*")
# What can be decoded of a string that is not complete: not half an escape, nor the first half of a character.
_DECODABLE = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?![dD][89abAB])[^\\]{4}|\\u[dD][89abAB]..\\u[^\\]{4})*+", re.DOTALL
)


class PartialArguments:
    """The arguments of a call while they stream: feed it the text of each `ToolCallDelta`."""

    def __init__(self) -> None:
        self.value: Any = None
        """What is complete so far; a string that is still open is not in it."""
        self.is_broken = False
        self._stack: list[Any] = []  # the open containers
        self._keys: list[Any] = []  # the current key or index in each of them
        self._pieces: list[str] = []  # of the open string or scalar, as they are in the JSON text
        self._decoded = self._undecoded = ""  # of the pieces that `open_text` has seen
        self._seen_count = 0
        self._inside: str = ""  # "" between values, "string", "scalar"
        self._is_escaped = False

    @property
    def path(self) -> tuple[str | int, ...]:
        """Where the value that is being written belongs."""
        return tuple(key for key in self._keys if key is not None)

    @property
    def open_text(self) -> str:
        """The string that is being written; "" if none is."""
        if self._inside != "string" or self._awaits_key():
            return ""
        # only what is new, so that polling stays cheap
        raw = self._undecoded + "".join(self._pieces[self._seen_count :])
        self._seen_count = len(self._pieces)
        end = match.end() if (match := _DECODABLE.match(raw)) else 0
        with suppress(ValueError):
            self._decoded, raw = self._decoded + loads(f'"{raw[:end]}"'), raw[end:]
        self._undecoded = raw
        return self._decoded

    @property
    def preview(self) -> Any:
        """The arguments as they are now: `value` with the string that is being written in its place."""
        if self._inside != "string" or self._awaits_key():
            return self.value
        preview: Any = self.open_text
        for container, key in zip(reversed(self._stack), reversed(self._keys), strict=True):
            is_object = isinstance(container, dict)
            preview = (
                {**cast(dict[str, Any], container), key: preview}
                if is_object
                else [*container[:key], preview]
            )
        return preview

    def feed(self, fragment: str) -> None:
        """Add a fragment of the text."""
        at = 0
        while at < len(fragment) and not self.is_broken:
            if self._inside == "string":
                at = self._scan_string(fragment, at)
            elif self._inside == "scalar":
                match = _SCALAR_END.search(fragment, at)
                end = match.start() if match else len(fragment)
                self._pieces.append(fragment[at:end])
                if match:
                    self._finish_token("".join(self._pieces))
                at = end
            else:
                at = self._scan_structure(fragment, at)

    def _scan_string(self, text: str, at: int) -> int:
        if self._is_escaped:  # a fragment may end between a backslash and its character
            self._is_escaped = False
            self._pieces.append(text[at])
            return at + 1
        match = _STRING_SPECIAL.search(text, at)
        end = match.start() if match else len(text)
        self._pieces.append(text[at:end])
        if match and match[0] == "\\":
            self._is_escaped = True
            self._pieces.append("\\")
        elif match:
            self._finish_token('"' + "".join(self._pieces) + '"')
        return match.end() if match else end

    def _scan_structure(self, text: str, at: int) -> int:
        separators = _SEPARATORS.match(text, at)
        at = separators.end() if separators else at
        if at == len(text):
            return at
        match text[at]:
            case "{" | "[" if self._awaits_key():
                self.is_broken = True
            case "{" | "[" as bracket:
                self._insert({} if bracket == "{" else [], opens=True)
            case "}" | "]":
                if not self._stack:
                    self.is_broken = True
                else:
                    self._stack.pop()
                    self._keys.pop()
                    self._advance()
            case '"':
                self._inside = "string"
            case _:
                self._inside = "scalar"
                return at
        return at + 1

    def _finish_token(self, token: str) -> None:
        self._inside, self._pieces = "", []
        self._decoded, self._undecoded, self._seen_count = "", "", 0
        try:
            value = loads(token)  # also decodes escapes
        except ValueError:
            self.is_broken = True
            return
        if self._awaits_key():
            if isinstance(value, str):
                self._keys[-1] = value
            else:
                self.is_broken = True
        else:
            self._insert(value, opens=False)

    def _awaits_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1], dict) and self._keys[-1] is None

    def _insert(self, value: Any, *, opens: bool) -> None:
        if not self._stack:
            if self.value is not None:
                self.is_broken = True
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
            self._advance()

    def _advance(self) -> None:
        """Move on after a value: the next key of an object is not known yet, the next index of an array is."""
        if self._stack:
            self._keys[-1] = None if isinstance(self._stack[-1], dict) else len(self._stack[-1])
