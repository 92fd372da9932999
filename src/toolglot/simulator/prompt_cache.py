"""The provider's prompt cache: how much of a prompt it has seen before, by real prefixes.

A prompt is what the model reads, in this order: tools, instructions, conversation. A token is four
characters. Where caching is automatic, prefixes are compared in steps of some tokens, or at the end of each
part. Where it follows marks, only prefixes that end at a mark are kept, and found again if they end at a mark
or up to 20 parts before one.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from toolglot.common.jsontext import dumps_text
from toolglot.providers.profile import Profile
from toolglot.wire import spec
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["CacheUse", "PromptCache", "count_prompt"]

_CHARS_PER_TOKEN = 4
_MAX_PREFIXES = 50_000  # that are kept; the oldest are dropped
_LOOKBACK = 20  # parts before a mark in which Anthropic looks for a prefix
_UNITS = {"s": 1, "m": 60, "h": 3600}
_MARKS = ("cache_control", "prompt_cache_breakpoint")
# The fields of a request that the model reads, in the order of the prompt. Anthropic: another choice of tools
# or another way of thinking keeps tools and system, and loses the messages.
_PROMPT_FIELDS = {
    spec.ANTHROPIC_MESSAGES: ("tools", "system", "tool_choice", "thinking", "messages"),
    spec.OPENAI_CHAT: ("tools", "response_format", "messages"),
    spec.OPENAI_RESPONSES: ("tools", "instructions", "text", "input"),
    spec.GEMINI: ("systemInstruction", "tools", "contents"),
}


class _Rule(msgspec.Struct, frozen=True):
    """How one provider caches. `step`: automatic, in steps of so many tokens; 0: at the end of each part."""

    profiles: str
    model: str
    minimum: int
    step: int = 0
    follows_marks: bool = False


# The first row that matches profile and model. Minima: platform.claude.com and ai.google.dev (2026-10),
# OpenAI's guide on prompt caching; the steps of DeepSeek and xAI as recorded. Ollama reports nothing.
_RULES = (
    _Rule(
        r"anthropic|openrouter|copilot", r"claude-(opus-4[.-][5-9]|haiku-4[.-]5)", 4096, follows_marks=True
    ),
    _Rule(r"anthropic|openrouter|copilot", r"claude-(3-5-|3-)?haiku", 2048, follows_marks=True),
    _Rule(r"anthropic|openrouter|copilot", r"claude", 1024, follows_marks=True),
    _Rule(r"anthropic.*", r"", 1024, follows_marks=True),
    _Rule(r"gemini|vertex", r"gemini-2\.5", 2048),
    _Rule(r"gemini|vertex", r"", 4096),
    _Rule(r"deepseek|xai", r"", 64, step=64),
    _Rule(r"(?!ollama).*", r"", 1024, step=128),
)
# OpenAI's models that report what was written to the cache, and obey `prompt_cache_options` and breakpoints.
_REPORTS_WRITES = re.compile(r"gpt-(5\.([6-9]|\d\d)|[6-9])")


class CacheUse(msgspec.Struct, frozen=True):
    """The tokens of a prompt: all of them, those read from the cache, and those written to it."""

    tokens: int
    cached: int = 0
    written: int = 0


class _Part(msgspec.Struct):
    text: str
    ttl: str | None = None
    """None: no mark; "": a mark with the default time to live."""


class _Prefix(msgspec.Struct, frozen=True):
    """The beginning of a prompt up to the end of a part, or of a step."""

    part: int
    tokens: int
    key: bytes


def count_prompt(wire: str, body: Doc) -> int:
    """Return the number of tokens of a request's prompt."""
    return _count_tokens(_split_prompt(wire, body))


def _count_tokens(parts: Iterable[_Part]) -> int:
    return max(1, sum(len(part.text) for part in parts) // _CHARS_PER_TOKEN)


class PromptCache:
    """The prefixes of all prompts so far, by profile and model.

    `clock` returns seconds; without one nothing expires.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or (lambda: 0.0)
        # prefix -> (expires at, time to live)
        self._expiry: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def use(self, profile: Profile, body: Doc) -> CacheUse:
        """Look a prompt up, and keep what the provider would keep of it."""
        parts = list(_split_prompt(profile.wire, body))
        tokens = _count_tokens(parts)
        rule = _find_rule(profile, tokens)
        if rule is None:
            return CacheUse(tokens)
        marks = {index: part.ttl for index, part in enumerate(parts) if part.ttl is not None}
        options = as_dict(body.get("prompt_cache_options"))
        obeys_options = _REPORTS_WRITES.search(profile.model) is not None
        is_explicit = obeys_options and options.get("mode") == "explicit"
        if rule.follows_marks or is_explicit:
            if not marks:
                return CacheUse(tokens)
            parts = parts[: max(marks) + 1]
        readable = _list_prefixes(parts, rule, profile)
        writable = readable
        if rule.follows_marks:
            writable = [prefix for prefix in writable if prefix.part in marks]
            readable = [prefix for prefix in readable if _is_near_mark(prefix, marks)]
        # Before anything of this prompt is kept.
        cached = [prefix for prefix in readable if self._is_kept(prefix.key)]
        default_ttl = as_text(options.get("ttl")) or "5m"
        for prefix in writable:
            self._keep(prefix.key, marks.get(prefix.part) or default_ttl)
        for prefix in cached:  # reading renews
            self._keep(prefix.key, "")
        written = 0
        if rule.follows_marks or obeys_options:  # others do not report it
            written = max(0, _longest(writable) - _longest(cached))
        return CacheUse(tokens, _longest(cached), written)

    def _is_kept(self, digest: bytes) -> bool:
        """Whether the prefix is cached and has not expired."""
        return self._expiry.get(digest, (-1.0, 0.0))[0] >= self._clock()

    def _keep(self, digest: bytes, ttl: str) -> None:
        match = re.fullmatch(r"(\d+)([smh])", ttl)
        seconds = int(match[1]) * _UNITS[match[2]] if match else self._expiry.get(digest, (0.0, 300.0))[1]
        self._expiry[digest] = (self._clock() + seconds, seconds)
        self._expiry.move_to_end(digest)
        if len(self._expiry) > _MAX_PREFIXES:
            self._expiry.popitem(last=False)


def _find_rule(profile: Profile, tokens: int) -> _Rule | None:
    """Return how the provider caches prompts; None if it does not cache one of this length."""
    for rule in _RULES:
        if re.fullmatch(rule.profiles, profile.id) and re.search(rule.model, profile.model):
            return rule if tokens >= rule.minimum else None
    return None


def _list_prefixes(parts: list[_Part], rule: _Rule, profile: Profile) -> list[_Prefix]:
    """Return the prefixes of a prompt that are long enough to be cached."""
    hashes = _hash_steps(parts, rule.step) if rule.step else _hash_parts(parts)
    seed = f"{profile.id}\0{profile.model}".encode()
    prefixes = [
        _Prefix(index, length, sha256(seed + digest).digest()[:16]) for index, length, digest in hashes
    ]
    return [prefix for prefix in prefixes if prefix.tokens >= rule.minimum]


def _is_near_mark(prefix: _Prefix, marks: Mapping[int, str]) -> bool:
    """Whether a lookup that starts at a mark finds the prefix."""
    return any(mark - _LOOKBACK <= prefix.part <= mark for mark in marks)


def _longest(prefixes: list[_Prefix]) -> int:
    return max((prefix.tokens for prefix in prefixes), default=0)


def _hash_parts(parts: list[_Part]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (part, tokens up to its end, hash of all that) for each part."""
    digest, length = sha256(), 0
    for index, part in enumerate(parts):
        digest.update(part.text.encode("utf-8", "surrogatepass"))
        length += len(part.text)
        yield index, length // _CHARS_PER_TOKEN, digest.digest()


def _hash_steps(parts: list[_Part], step: int) -> Iterator[tuple[int, int, bytes]]:
    digest, text, size = sha256(), "".join(part.text for part in parts), step * _CHARS_PER_TOKEN
    for number in range(len(text) // size):
        digest.update(text[number * size : (number + 1) * size].encode("utf-8", "surrogatepass"))
        yield number, (number + 1) * step, digest.digest()


def _split_prompt(wire: str, body: Doc) -> Iterator[_Part]:
    tools = {as_text(tool.get("name")): tool for tool in iter_dicts(body.get("tools"))}
    parts: list[_Part] = []
    for field in _PROMPT_FIELDS.get(wire, ("tools", "messages")):
        value = body.get(field)
        items = as_list(value) if isinstance(value, list) else [value]
        for item in items:
            if item is not None:
                parts += _split_item(item, tools)
    mark = as_dict(body.get("cache_control"))
    if parts and mark:  # on the whole request: the last part is marked
        parts[-1].ttl = as_text(mark.get("ttl"))
    yield from parts


def _split_item(item: Any, tools: Mapping[str, Doc]) -> Iterator[_Part]:
    """Yield a message as its head and the parts of its content, and anything else whole.

    Deferred tools are not read.
    """
    doc = as_dict(item)
    if doc.get("defer_loading"):
        return
    if doc.get("type") == "namespace":
        visible = [tool for tool in iter_dicts(doc.get("tools")) if not tool.get("defer_loading")]
        item = {**doc, "tools": visible}
    field = next((name for name in ("content", "parts") if isinstance(doc.get(name), list)), None)
    if field is None:
        yield _make_part(item, tools)
        return
    yield _make_part({key: value for key, value in doc.items() if key != field}, tools)
    for content in doc[field]:
        yield _make_part(content, tools)


def _make_part(content: Any, tools: Mapping[str, Doc]) -> _Part:
    text = dumps_text(content)
    ttls: list[str] = []
    if any(f'"{name}"' in text for name in (*_MARKS, "tool_reference")):
        text = dumps_text(_take_marks(content, tools, ttls))
    return _Part(text, ttls[-1] if ttls else None)


def _take_marks(value: Any, tools: Mapping[str, Doc], ttls: list[str]) -> Any:
    """Return a value without marks, whose times to live go to `ttls`, and with definitions in place of
    references to tools.
    """
    if isinstance(value, list):
        return [_take_marks(item, tools, ttls) for item in as_list(value)]
    if not isinstance(value, dict):
        return value
    doc = as_dict(value)
    for name in _MARKS:
        if isinstance(doc.get(name), dict):
            ttls.append(as_text(doc[name].get("ttl")))
    if doc.get("type") == "tool_reference":
        name = as_text(doc.get("tool_name") or doc.get("name"))
        definition = tools.get(name, {"name": name})
        return {"tool": {**definition, "defer_loading": None}}
    plain: Doc = {}
    for key, part in doc.items():
        if key not in _MARKS:
            plain[key] = _take_marks(part, tools, ttls)
    return plain
