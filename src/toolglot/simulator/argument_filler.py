"""Takes values for a JSON Schema from the words of a prompt: quoted texts, names, numbers, dates, paths, members of enums.

What the prompt does not mention gets a default by type, so that the value always has the schema's shape.
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
_TEXT_PATTERNS = (  # words in a parameter's name or format -> what its value looks like
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
    """Return the words of a text in one form: lower case, names_like_this and namesLikeThis split, singular."""
    return _split_cached(text) if len(text) < 500 else _split(text)


def _split(text: str) -> frozenset[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    words = re.findall(r"[^\W_]+", spaced.lower())
    return frozenset(word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in words)


_split_cached = lru_cache(maxsize=1024)(_split)


class ArgumentFiller:
    """The values that one prompt offers. Each is used once, as long as there are others."""

    def __init__(self, prompt: str, known_words: Iterable[str] = ()) -> None:
        self.prompt = prompt.strip()
        self.numbers = [float(text) if "." in text else int(text) for text in _NUMBER.findall(prompt)]
        self.texts = ["".join(groups) for groups in _QUOTED.findall(prompt)]
        if self.texts:
            return
        # Without quotes: capitalised words; the first word of a sentence only if there is no other.
        known = {*known_words, *split_words(_QUESTION_WORDS)}
        leading: list[str] = []
        for match in _NAME.finditer(prompt):
            words, before = match[0].split(), prompt[: match.start()]
            starts = not before.rstrip(" \t\"'") or before.rstrip()[-1] in ".?!:\n"
            while words and starts and split_words(words[0]) <= known:
                words, starts = words[1:], False
            if words and not split_words(" ".join(words)) <= known:
                (leading if starts else self.texts).append(" ".join(words))
        self.texts = self.texts or leading

    def fill_object(self, schema: Doc, root: Doc | None = None, depth: int = 0) -> dict[str, Any]:
        """Return an object: what is required, and the enum members that the prompt mentions."""
        root = schema if root is None else root
        schema = _resolve(schema, root)
        required = {as_text(name) for name in as_list(schema.get("required"))}
        out: dict[str, Any] = {}
        for name, part in as_dict(schema.get("properties")).items():
            inner = _resolve(as_dict(part), root)
            member = self._find_member(inner)
            if member is not None:
                out[name] = member
            elif name in required:
                out[name] = self.fill_value(inner, name, root, depth + 1)
        return out

    def fill_value(self, schema: Doc, name: str, root: Doc, depth: int = 0) -> Any:
        """Return a value of the schema."""
        schema = _resolve(schema, root)
        if "const" in schema:
            return schema["const"]
        if members := as_list(schema.get("enum")):
            member = self._find_member(schema)
            return members[0] if member is None else member
        types = as_list(schema.get("type")) or [schema.get("type")]
        type_name = next((as_text(name) for name in types if name != "null"), "null" if types == ["null"] else "")
        match type_name:
            case "integer" | "number":
                number = self.numbers[0] if self.numbers else schema.get("default", schema.get("minimum", 1))
                if len(self.numbers) > 1:
                    self.numbers.pop(0)
                number = min(max(number, schema.get("minimum", number)), schema.get("maximum", number))
                return int(number) if type_name == "integer" else number
            case "boolean":
                return schema.get("default", True)
            case "null":
                return None
            case "array":
                return self._fill_array(schema, name, root, depth) if depth < _MAX_DEPTH else []
            case "object":
                return self.fill_object(schema, root, depth) if depth < _MAX_DEPTH else {}
            case _ if "properties" in schema and depth < _MAX_DEPTH:
                return self.fill_object(schema, root, depth)
            case _:
                return self._take_text(schema, name)

    def _find_member(self, schema: Doc) -> Any:
        words = split_words(self.prompt)
        members = [member for member in as_list(schema.get("enum")) if isinstance(member, str) and member]
        return next((member for member in members if split_words(member) <= words), None)

    def _take_text(self, schema: Doc, name: str) -> str:
        hints = f"{name} {as_text(schema.get('format'))}".lower()
        for words, pattern in _TEXT_PATTERNS:
            if any(word in hints for word in words) and (match := pattern.search(self.prompt)):
                return match[0].strip()
        if self.texts:
            return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return as_text(schema.get("default")) or self.prompt or "text"

    def _fill_array(self, schema: Doc, name: str, root: Doc, depth: int) -> list[Any]:
        items = _resolve(as_dict(schema.get("items")), root)
        is_numeric = items.get("type") in ("integer", "number")
        offered = len(self.numbers) if is_numeric else len(self.texts) if items.get("type") == "string" else 1
        count = max(1, offered, schema.get("minItems", 0))
        return [self.fill_value(items, name, root, depth + 1) for _ in range(min(count, schema.get("maxItems", count)))]


def _resolve(schema: Doc, root: Doc) -> Doc:
    """Return a schema without references and unions: the first branch that is not null counts."""
    for _ in range(_MAX_DEPTH):
        if reference := as_text(schema.get("$ref")):
            target: Any = root
            for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
                target = as_dict(target).get(step)
            schema = {**as_dict(target), **{key: value for key, value in schema.items() if key != "$ref"}}
            continue
        for keyword in ("anyOf", "oneOf", "allOf"):
            branches = [cast(Doc, branch) for branch in as_list(schema.get(keyword)) if isinstance(branch, dict)]
            branches = [branch for branch in branches if branch.get("type") != "null"]
            if branches:
                schema = {key: value for key, value in schema.items() if key != keyword}
                for branch in branches if keyword == "allOf" else branches[:1]:
                    schema |= branch
                break
        else:
            return schema
    return schema
