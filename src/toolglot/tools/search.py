"""The tool `search_tools`, and the search behind it: Okapi BM25 over tools, in plain Python and without I/O.

A name counts more than a description, and both more than a parameter's description. Words are compared by
their stem; a word that begins like another one, or means the same (`remove`, `delete`), counts less than the
word itself.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from toolglot.common.textutil import pluralize
from toolglot.tools.results import ToolOutput
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.values.definitions import BUILTIN_TAG, ToolDefinition
from toolglot.values.messages import Text, ToolsChanged
from toolglot.wire.json_values import as_dict, as_text

__all__ = ["SEARCH_TOOLS", "ToolIndex", "describe_names", "search_tools_tool"]

SEARCH_TOOLS = "search_tools"

# the usual constants: how soon repetition stops to count, how much a long text is discounted
_K1, _B = 1.2, 0.75
_NAME, _TEXT, _PARAMETER = 3.0, 1.0, 0.5  # weight of a word by where it stands
_SIMILAR, _SYNONYM = 0.4, 0.5  # weight of a word that is not the one that was asked for
_MAX_DESCRIPTION = 2_000  # characters of one description: an essay says no more about what a tool is for
# A run of capitals, a word, a number; other scripts whole, and ideograms one by one, as they have no spaces.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[぀-ヿ㐀-鿿가-힯]|[^\W\d_A-Za-z぀-ヿ㐀-鿿가-힯]+")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be by can for from how i in into is it its me my need of on or our some that "
        "the their this "
        "to tool tools use want what which with you your",
    )
)
_SYNONYM_GROUPS = (
    "add create insert make new open register",
    "delete remove erase drop cancel destroy",
    "update edit change modify rename set",
    "get read fetch show view retrieve load",
    "list show all enumerate",
    "search find look query lookup",
    "send notify message mail email",
    "run execute start launch trigger invoke",
    "stop end kill close terminate",
    "picture image photo",
    "appointment event meeting calendar",
    "ticket issue bug",
    "folder directory",
    "customer client",
    "bill invoice",
    "price cost quote",
    "person user people",
)


def _stem(word: str) -> str:
    """Return a word without its ending; crude, but the same for `issues` and `issue`, `creating` and
    `create`.
    """
    word = word.lower()
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    else:
        for ending in ("ing", "ed", "es", "s"):
            if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
                word = word[: -len(ending)]
                break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@cache
def _load_synonyms() -> dict[str, set[str]]:
    """Return the synonyms of each stem. Few programs search for tools, so this is not done at import."""
    synonyms: dict[str, set[str]] = {}
    for group in _SYNONYM_GROUPS:
        stems = {_stem(word) for word in group.split()}
        for word in stems:
            synonyms.setdefault(word, set()).update(stems - {word})
    return synonyms


def split_words(text: str) -> list[str]:
    """Return the stems of a text's words; `getUserById`, `get_user.by-id` and `get user by id` have the same."""
    return [_stem(word) for word in _WORD.findall(text)]


class ToolIndex:
    """Tools, prepared for search. A tool is found by its name whatever else its words say."""

    def __init__(self, tools: Iterable[ToolDefinition]) -> None:
        self.tools = tuple(tools)
        self._names = ["_".join(split_words(tool.qualified_name)) for tool in self.tools]
        self._name_words = [frozenset(name.split("_")) for name in self._names]
        self._postings: dict[str, list[tuple[int, float]]] = {}  # word -> (index of a tool, weighted count)
        self._lengths: list[float] = []
        for index, tool in enumerate(self.tools):
            weights = _weigh_words(tool)
            self._lengths.append(sum(weights.values()))
            for word, weight in weights.items():
                self._postings.setdefault(word, []).append((index, weight))
        self._average = sum(self._lengths) / len(self._lengths) if self._lengths else 1.0

    def search(self, query: str, limit: int = 5) -> list[ToolDefinition]:
        """Return the tools that fit best, at most `limit`.

        Names that are separated by commas select exactly these, with or without `select:` before them;
        `+word` requires a word of the name. Whatever is called like the query comes first, then what begins
        like it, then the rest by its score.
        """
        query = query.strip()
        names = [name for name in query.removeprefix("select:").split(",") if name.strip()]
        selected = self._select(names)
        is_selection = query.startswith("select:") or len(selected) >= len(names)
        if selected and is_selection:
            return [self.tools[index] for index in selected]
        required = {_stem(word) for part in re.findall(r"\+(\S+)", query) for word in _WORD.findall(part)}
        words = split_words(query)
        telling_words = [word for word in words if word not in _STOP_WORDS]
        scores = self._score(telling_words or words)
        prefix = "_".join(words)
        ranked: list[tuple[int, float, int]] = []
        for index in {*scores, *selected}:
            if not required <= self._name_words[index]:
                continue
            if index in selected:
                rank = 0
            elif prefix and self._names[index].startswith(prefix):
                rank = 1
            else:
                rank = 2
            ranked.append((rank, -scores.get(index, 0.0), index))
        ranked.sort()
        return [self.tools[index] for _, _, index in ranked[:limit]]

    def _select(self, names: Iterable[str]) -> list[int]:
        """Return the tools of these names, in this order; the namespace, case and separators may be missing."""
        selected: dict[int, None] = {}
        for name in names:
            key = "_".join(split_words(name))
            if not key:
                continue
            for index, tool in enumerate(self.tools):
                if key in (self._names[index], "_".join(split_words(tool.name))):
                    selected[index] = None
        return list(selected)

    def _score(self, words: Iterable[str]) -> dict[int, float]:
        scores: dict[int, float] = {}
        for word in dict.fromkeys(words):
            best: dict[int, float] = {}  # a tool counts the best match of a word, not all of them
            for other, factor in self._expand(word):
                postings = self._postings[other]
                rarity = math.log(1 + (len(self.tools) - len(postings) + 0.5) / (len(postings) + 0.5))
                for index, count in postings:
                    norm = _K1 * (1 - _B + _B * self._lengths[index] / self._average)
                    best[index] = max(
                        best.get(index, 0.0), factor * rarity * count * (_K1 + 1) / (count + norm)
                    )
            for index, score in best.items():
                scores[index] = scores.get(index, 0.0) + score
        return scores

    def _expand(self, word: str) -> list[tuple[str, float]]:
        """Return the indexed words that a word of the query can mean, each with its weight."""
        matches = [(word, 1.0)] if word in self._postings else []
        matches += [(other, _SYNONYM) for other in _load_synonyms().get(word, ()) if other in self._postings]
        if len(word) >= 3:
            matches += [
                (other, _SIMILAR) for other in self._postings if other != word and _is_similar(other, word)
            ]
        return matches


def _is_similar(other: str, word: str) -> bool:
    """Return whether one word begins with the other: `repo` and `repository`, `config` and `configuration`."""
    return other.startswith(word) or (len(other) >= 4 and word.startswith(other))


def _weigh_words(tool: ToolDefinition) -> Counter[str]:
    weights: Counter[str] = Counter()

    def add(text: str, weight: float) -> None:
        for word in split_words(text[:_MAX_DESCRIPTION]):
            if word not in _STOP_WORDS:
                weights[word] += weight  # pyright: ignore[reportArgumentType]  # a Counter can hold any number

    add(tool.qualified_name, _NAME)
    add(tool.description, _TEXT)
    add(" ".join(tool.tags), _TEXT)
    for name, schema in as_dict((tool.parameters or {}).get("properties")).items():
        add(str(name), _TEXT)
        add(as_text(as_dict(schema).get("description")), _PARAMETER)
    return weights


# ---- the tool

_MAX_LOADED = 20  # tools of one search: more would fill the context that deferring them keeps free
_MAX_OTHERS = 20  # names of further matches
_MAX_NAMES = 600  # characters of names in the description, which some providers limit
_DESCRIPTION = (
    "Find and load tools that are not shown yet. Describe what you need in a few words, such as 'create "
    "calendar event'; "
    "'select:NAME,NAME' loads tools by their names, and '+word' requires a word of the name. "
    "The tools that are found can be called from then on. Search before you say that something cannot be "
    "done."
)


def describe_names(tools: Iterable[ToolDefinition]) -> str:
    """Return what can be found: the names, or how many there are of each kind, by namespace or the name's
    first word.
    """
    names = [tool.qualified_name for tool in tools]
    listing = ", ".join(names)
    if len(listing) > _MAX_NAMES:
        groups = Counter(re.split(r"[._/-]", name, maxsplit=1)[0] for name in names)
        parts = [f"{group} ({count})" if count > 1 else group for group, count in groups.most_common()]
        while len(listing := ", ".join(parts)) > _MAX_NAMES:
            parts[-2:] = ["…"]
    return f"{pluralize(len(names), 'tool')} can be found: {listing}."


def search_tools_tool(tools: Iterable[ToolDefinition]) -> Tool:
    """Make the tool with which a model finds deferred tools, under the names that it knows them by."""
    tools = tuple(tools)

    @cache
    def make_index() -> ToolIndex:
        return ToolIndex(tools)

    def search_tools(query: str, limit: int = 5) -> ToolOutput:
        matches = make_index().search(query, _MAX_LOADED + _MAX_OTHERS)
        count = len(matches) if query.strip().startswith("select:") else max(1, min(limit, _MAX_LOADED))
        loaded = matches[:count][:_MAX_LOADED]
        others = [tool.qualified_name for tool in matches[count:]][:_MAX_OTHERS]
        names = tuple(tool.qualified_name for tool in loaded)
        data = {"loaded": [*names], "others": others, "total": len(tools)}
        if not loaded:
            text = (
                f"No tool matches {query!r:.200}. Try other words: what it does, or where it belongs. "
                f"{describe_names(tools)}"
            )
            return ToolOutput(text, data)
        lines = [f"Loaded {pluralize(len(loaded), 'tool')}, which can be called from now on:"]
        lines += [
            f"- {name}: {tool.description.strip().partition(chr(10))[0][:200]}"
            for name, tool in zip(names, loaded, strict=True)
        ]
        if others:
            lines.append(f"Also found, but not loaded: {', '.join(others)}. To load some: select:NAME,NAME")
        return ToolOutput((Text("\n".join(lines)), ToolsChanged(loaded=names)), data)

    properties = {
        "query": {
            "type": "string",
            "description": "What the tool should do, in a few words; or select:NAME,NAME.",
        },
        "limit": {
            "type": "integer",
            "description": f"Tools to load at most, 1 to {_MAX_LOADED} (default 5).",
        },
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["query"],
        "additionalProperties": False,
    }
    text = f"{_DESCRIPTION} {describe_names(tools)}"
    definition = ToolDefinition(SEARCH_TOOLS, text, schema, tags=frozenset({BUILTIN_TAG}), finds_tools=True)
    return tool_from_definition(definition, search_tools, effects="read", inline=True, idempotent=True)
