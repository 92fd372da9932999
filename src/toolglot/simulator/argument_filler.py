"""Values for a JSON Schema, taken from the words of a prompt: quoted texts, names, numbers, dates, paths, members of enums.

Law: what the prompt does not say is a default by type, so that the value always has the schema's shape.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

from toolglot.wire.json_values import Doc, as_dict, as_list, as_text

__all__ = ["ArgumentFiller", "split_words"]

_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w-])")
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)|`([^`]+)`")
_NAME = re.compile(r"[^\W\d_a-z][\w'\u2019-]*(?:[ \t]+[^\W\d_a-z][\w'\u2019-]*)*")
_TEXT_PATTERNS = (  # words in a parameter's name or format -> what it looks like
    (("date", "day", "when"), re.compile(r"\b\d{4}-\d{2}-\d{2}\b")),
    (("url", "uri", "link"), re.compile(r"https?://\S+[^\s.,;?!)]")),
    (("mail",), re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+\b")),
    (("path", "file", "dir"), re.compile(r"(?:[\w.~-]*/)+[\w.-]*|\b[\w-]+\.\w{1,5}\b")),
    (("expression", "formula", "equation"), re.compile(r"[\d(][\d\s.+*/()^-]*[\d)]")),
)
_MAX_DEPTH = 6  # of schemas within schemas
_QUESTION_WORDS = """
    what which who when where why how is are was were do does did can could will would should please tell give show find get
    look add compute calculate search read write list run make create send check use the a an i and in of for to with
"""


def split_words(text: str) -> frozenset[str]:
    """The words of a text in one form: lower case, names_like_this and namesLikeThis split, plurals cut."""
    return _split_cached(text) if len(text) < 500 else _split(text)


def _split(text: str) -> frozenset[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    words = re.findall(r"[^\W_]+", spaced.lower())
    return frozenset(word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in words)


_split_cached = lru_cache(maxsize=1024)(_split)


class ArgumentFiller:
    """What one prompt offers. Every value is used once, as long as there are others."""

    def __init__(self, prompt: str, known_words: Iterable[str] = ()) -> None:
        self.prompt = prompt.strip()
        self.numbers = [float(text) if "." in text else int(text) for text in _NUMBER.findall(prompt)]
        self.texts = ["".join(groups) for groups in _QUOTED.findall(prompt)] or self._find_names(
            prompt, {*known_words, *split_words(_QUESTION_WORDS)}
        )

    @staticmethod
    def _find_names(prompt: str, known_words: set[str]) -> list[str]:
        """Capitalised words; the first word of a sentence only where there is no other."""
        inside: list[str] = []
        leading: list[str] = []
        for match in _NAME.finditer(prompt):
            words = match[0].split()
            starts = not prompt[: match.start()].rstrip(" \t\"'") or prompt[: match.start()].rstrip()[-1] in ".?!:\n"
            while words and starts and split_words(words[0]) <= known_words:
                words, starts = words[1:], False
            if words and not split_words(" ".join(words)) <= known_words:
                (leading if starts else inside).append(" ".join(words))
        return inside or leading

    def fill_object(self, schema: Doc, root: Doc | None = None, depth: int = 0) -> dict[str, Any]:
        """An object of the schema: what is required, and what the prompt names."""
        root = schema if root is None else root
        schema = _resolve(schema, root)
        required = {as_text(name) for name in as_list(schema.get("required"))}
        out: dict[str, Any] = {}
        for name, part in as_dict(schema.get("properties")).items():
            inner = _resolve(as_dict(part), root)
            member = self._find_member(inner)
            if name in required:
                out[name] = member if member is not None else self.fill_value(inner, name, root, depth + 1)
            elif member is not None:
                out[name] = member
        return out

    def fill_value(self, schema: Doc, name: str, root: Doc, depth: int = 0) -> Any:
        """A value of the schema."""
        schema = _resolve(schema, root)
        if "const" in schema:
            return schema["const"]
        if members := as_list(schema.get("enum")):
            member = self._find_member(schema)
            return members[0] if member is None else member
        kinds = as_list(schema.get("type")) or [schema.get("type")]
        kind = next((as_text(one) for one in kinds if one != "null"), "null" if kinds == ["null"] else "")
        match kind:
            case "integer" | "number":
                return self._take_number(schema, is_integer=kind == "integer")
            case "boolean":
                return schema.get("default", True)
            case "null":
                return None
            case "array":
                return self._fill_array(schema, name, root, depth)
            case "object":
                return self.fill_object(schema, root, depth) if depth < _MAX_DEPTH else {}
            case _ if "properties" in schema and depth < _MAX_DEPTH:
                return self.fill_object(schema, root, depth)
            case _:
                return self._take_text(schema, name)

    def _find_member(self, schema: Doc) -> Any:
        words = split_words(self.prompt)
        return next(
            (one for one in as_list(schema.get("enum")) if isinstance(one, str) and one and split_words(one) <= words), None
        )

    def _take_number(self, schema: Doc, *, is_integer: bool) -> int | float:
        value = self.numbers[0] if self.numbers else schema.get("default", schema.get("minimum", 1))
        if len(self.numbers) > 1:
            self.numbers.pop(0)
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        value = min(max(value, least), most)
        return int(value) if is_integer else value

    def _fill_array(self, schema: Doc, name: str, root: Doc, depth: int) -> list[Any]:
        items = _resolve(as_dict(schema.get("items")), root)
        if depth >= _MAX_DEPTH:
            return []
        numeric = items.get("type") in ("integer", "number")
        offered = len(self.numbers) if numeric else len(self.texts) if items.get("type") == "string" else 1
        count = max(1, offered, schema.get("minItems", 0))
        return [self.fill_value(items, name, root, depth + 1) for _ in range(min(count, schema.get("maxItems", count)))]

    def _take_text(self, schema: Doc, name: str) -> str:
        hints = f"{name} {as_text(schema.get('format'))}".lower()
        for words, shape in _TEXT_PATTERNS:
            if any(word in hints for word in words) and (match := shape.search(self.prompt)):
                return match[0].strip()
        if self.texts:
            return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return as_text(schema.get("default")) or self.prompt or "text"


def _resolve(schema: Doc, root: Doc) -> Doc:
    """A schema without references and choices: the first branch that is not null counts."""
    for _ in range(_MAX_DEPTH):
        if reference := as_text(schema.get("$ref")):
            target: Any = root
            for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
                target = as_dict(target).get(step)
            schema = {**as_dict(target), **{key: value for key, value in schema.items() if key != "$ref"}}
            continue
        for word in ("anyOf", "oneOf", "allOf"):
            branches = [cast(Doc, one) for one in as_list(schema.get(word)) if isinstance(one, dict)]
            branches = [one for one in branches if one.get("type") != "null"]
            if branches:
                rest = {key: value for key, value in schema.items() if key != word}
                merged = branches if word == "allOf" else branches[:1]
                schema = {**rest, **{key: value for one in merged for key, value in one.items()}}
                break
        else:
            return schema
    return schema
