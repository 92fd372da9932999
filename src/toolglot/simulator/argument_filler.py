"""Takes values for a JSON Schema from the words of a prompt: quoted texts, names, numbers, dates, paths,
members of enums.

What the prompt does not mention gets a default by type, so that the value always has the schema's shape.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from toolglot.schema.json_schema import Schema, SchemaDocument, allowed_types, drop_keywords
from toolglot.schema.lowering_context import describe_schema
from toolglot.wire.json_values import as_dict, as_list, as_text

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


@lru_cache(maxsize=256)
def split_words(text: str) -> frozenset[str]:
    """Return the words of a text in one form: lower case, names_like_this and namesLikeThis split, singular."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    words = re.findall(r"[^\W_]+", spaced.lower())
    return frozenset(word[:-1] if len(word) > 3 and word[-1] == "s" != word[-2] else word for word in words)


def _find_names(prompt: str, known_words: set[str]) -> list[str]:
    """Return capitalized words; those at the start of a sentence only if there are no others."""
    names: list[str] = []
    leading: list[str] = []
    for match in _NAME.finditer(prompt):
        words = match[0].split()
        starts_sentence = _starts_sentence(prompt[: match.start()])
        # "Compare Paris": the first word is capitalized because of where it stands.
        while words and starts_sentence and split_words(words[0]) <= known_words:
            words = words[1:]
            starts_sentence = False
        name = " ".join(words)
        if split_words(name) <= known_words:
            continue
        if starts_sentence:
            leading.append(name)
        else:
            names.append(name)
    return names or leading


def _starts_sentence(before: str) -> bool:
    """Whether what follows this text begins a sentence."""
    return not before.rstrip(" \t\"'") or before.rstrip()[-1] in ".?!:\n"


def _match_forms(words: list[str], items: Schema) -> list[Any]:
    """Return the schemas of a tuple's items, which the description names in order."""
    forms = as_list(items.get("anyOf"))
    if len(forms) == len(words):
        return forms
    by_words = {describe_schema(form): form for form in forms}
    return [by_words.get(word, items) for word in words]


class ArgumentFiller:
    """The values that one prompt offers. Each is used once, as long as there are others."""

    def __init__(self, prompt: str, known_words: Iterable[str] = ()) -> None:
        self._document = SchemaDocument({})
        self.prompt = prompt.strip()
        self.numbers = [float(text) if "." in text else int(text) for text in _NUMBER.findall(prompt)]
        self.texts = ["".join(groups) for groups in _QUOTED.findall(prompt)]
        if not self.texts:
            self.texts = _find_names(prompt, {*known_words, *split_words(_QUESTION_WORDS)})

    def fill(self, schema: Schema) -> dict[str, Any]:
        """Return an object of the schema."""
        self._document = SchemaDocument(schema)
        return self._fill_object(self._resolve(schema), 0)

    def _fill_object(self, node: Schema, depth: int) -> dict[str, Any]:
        """Fill in what is required, and the enum members that the prompt mentions."""
        if depth >= _MAX_DEPTH:
            return {}
        out: dict[str, Any] = {}
        for name, part in as_dict(node.get("properties")).items():
            inner = self._resolve(part)
            member = self._find_member(inner)
            if member is not None:
                out[name] = member
            elif name in as_list(node.get("required")):
                out[name] = self._fill_value(inner, name, depth + 1)
        return out

    def _fill_value(self, node: Schema, name: str, depth: int) -> Any:
        if "const" in node:
            return node["const"]
        members = as_list(node.get("enum"))
        if members:
            member = self._find_member(node)
            return members[0] if member is None else member
        types = allowed_types(node)
        if not types:
            return self._take_text(node, name)
        match next((type_name for type_name in types if type_name != "null"), "null"):
            case "integer":
                return int(self._take_number(node))
            case "number":
                return self._take_number(node)
            case "boolean":
                return node.get("default", True)
            case "null":
                return None
            case "array":
                return self._fill_array(node, name, depth)
            case "object":
                return self._fill_object(node, depth)
            case _:
                return self._take_text(node, name)

    def _fill_array(self, node: Schema, name: str, depth: int) -> list[Any]:
        """Fill a list or a tuple.

        Where a provider knows no tuples or lengths, they are in the description.
        """
        if depth >= _MAX_DEPTH:
            return []
        text = as_text(node.get("description"))
        items = as_dict(node.get("items"))
        prefix = as_list(node.get("prefixItems"))
        if match := re.search(r"Items in order: (.*?)\.(?!\w)", text):
            prefix = _match_forms(match[1].split(", "), items)
        limits = {words: int(number) for words, number in re.findall(r"(At least|At most) (\d+) items", text)}
        rest = self._resolve(items)
        count = len(prefix) or max(1, self._count_offered(rest.get("type")))
        count = max(count, node.get("minItems", limits.get("At least", 0)))
        count = min(count, node.get("maxItems", limits.get("At most", count)))
        forms = [self._resolve(form) for form in prefix[:count]]
        forms += [rest] * (count - len(forms))
        return [self._fill_value(form, name, depth + 1) for form in forms]

    def _count_offered(self, type_name: Any) -> int:
        """Return how many values of a type the prompt offers."""
        if type_name in ("integer", "number"):
            return len(self.numbers)
        return len(self.texts) if type_name == "string" else 1

    def _find_member(self, node: Schema) -> Any:
        words = split_words(self.prompt)
        members = [member for member in as_list(node.get("enum")) if isinstance(member, str) and member]
        return next((member for member in members if split_words(member) <= words), None)

    def _take_number(self, node: Schema) -> float:
        number = self.numbers[0] if self.numbers else node.get("default", node.get("minimum", 1))
        if len(self.numbers) > 1:
            self.numbers.pop(0)
        return min(max(number, node.get("minimum", number)), node.get("maximum", number))

    def _take_text(self, node: Schema, name: str) -> str:
        hints = f"{name} {as_text(node.get('format'))}".lower()
        for words, pattern in _TEXT_PATTERNS:
            is_hinted = any(word in hints for word in words)
            match = pattern.search(self.prompt)
            if is_hinted and match:
                return match[0].strip()
        if len(self.texts) > 1:
            return self.texts.pop(0)
        if self.texts:
            return self.texts[0]
        return as_text(node.get("default")) or self.prompt or "text"

    def _resolve(self, schema: Any) -> Schema:
        """Return a node without references and unions: the first branch that is not null counts."""
        node = self._document.follow(schema)
        for _ in range(_MAX_DEPTH):
            key = next((key for key in ("anyOf", "oneOf", "allOf") if as_list(node.get(key))), None)
            if key is None:
                break
            branches = [self._document.follow(branch) for branch in node[key]]
            branches = [branch for branch in branches if branch.get("type") != "null"]
            if key != "allOf":
                branches = branches[:1]
            node = drop_keywords(node, key)
            for branch in branches:
                node |= branch
        type_name = node.get("type")
        if isinstance(type_name, str):  # Gemini CLI writes types in upper case, also in JSON Schemas
            return {**node, "type": type_name.lower()}
        return node
