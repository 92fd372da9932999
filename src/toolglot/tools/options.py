"""The options of a tool, which `Tool` has as attributes or in its definition."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypedDict, cast, get_args

from toolglot.tools.config import Rate
from toolglot.tools.rules import Subject
from toolglot.values.approvals import Effect
from toolglot.values.request import ToolExample

__all__ = ["Action", "Describe", "SchemaToolOptions", "Scope", "ToolOptions", "find_advice"]

Action = Literal["read", "edit", "search", "execute", "fetch", "think", "other"]
Describe = Callable[[dict[str, Any]], str]
Scope = Callable[[dict[str, Any]], Iterable[Subject]]


class SchemaToolOptions(TypedDict, total=False):
    """The options of a tool whose name, description and schema are given."""

    examples: Iterable[ToolExample | Mapping[str, Any]]
    """Calls that the model is shown: ToolExamples, or dicts with the arguments."""
    tags: Iterable[str]
    """Words to select tools by."""
    version: str
    """The version of the tool, for people and logs."""
    strict: bool | None
    """True: have the provider hold calls to the schema, where it can."""
    namespace: str
    """A group of tools that the name belongs to; tools in different namespaces may have the same name."""
    deferred: bool
    """The model must search for the tool before it sees it."""
    callers: Iterable[Literal["model", "code"]]
    """Who may call it: the model itself, or code that the model runs. By default, the provider or the agent
    decides."""
    output_schema: Mapping[str, Any] | None
    """The schema of a successful result; code that calls the tool relies on it."""
    effects: Effect | Iterable[Effect]
    """What it may do: read, write, execute, network. A tool that declares none may have any effect."""
    inline: bool
    """It returns so quickly that it needs no thread."""
    idempotent: bool
    """Running it twice is harmless, so it may be retried."""
    polls: bool
    """The same call may return something new each time, so it is never refused as a repetition."""
    ordered: bool
    """Its calls run in order: they wait for earlier calls in the turn, and later calls wait for them."""
    timeout: float | None
    """Seconds per call."""
    max_uses: int | None
    """Maximum calls per conversation."""
    rate: Rate | None
    """Maximum calls in a period of time."""
    approval: bool | None
    """True: always ask; False: never ask; None: follow `ToolConfig.ask`."""
    quiet: bool | Callable[[dict[str, Any]], bool]
    """For built-in tools: do not ask by default, or not with these arguments, because the effects stay within
    toolglot or within what the user has already approved."""
    confined: bool | Callable[[dict[str, Any]], bool]
    """For built-in tools: whether calls, or calls with these arguments, can change nothing but ordinary files
    of the workspace and have no network, because the tool and the kernel see to that. They need no approval
    in the approval mode `sandboxed`."""
    always_ask: Describe | None
    """Returns why a call with these arguments needs its own approval, whatever rules and earlier "always"
    answers say ("it runs outside the sandbox"); "" if it does not."""
    action: Action | None
    """What a call does, for a person who is watching; by default, what follows from its effects."""
    verb: str | None
    """What stands before the target of a call, for the same person: "Edit", "Search the web:". By default,
    the tool's name."""
    scope: Scope | None
    """Returns the subjects of a call with these arguments, for rules such as `shell(git status *)`; without
    it, rules with a pattern never allow a call."""
    target: Describe | None
    """Returns what a call with these arguments touches, for the approver and the audit log."""
    preview: Describe | None
    """Returns what a call would do, for the approver: the full command, or a diff."""
    max_result: int | None
    """Maximum characters of a result that the model sees."""


class ToolOptions(SchemaToolOptions, total=False):
    """The options of a tool.

    `name`, `description` and `parameters` override what is derived from its function.
    """

    name: str
    """The name that the model calls; by default, the function's."""
    description: str | None
    """What the tool does, for the model; by default, from the docstring."""
    parameters: Mapping[str, Any] | None
    """The JSON Schema of the arguments; by default, from the type hints."""


# ---- checks of the values, when a tool is made


def _is_function(value: Any) -> bool:
    return value is None or callable(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_flag_or_function(value: Any) -> bool:
    return isinstance(value, bool) or callable(value)


def _is_flag_or_none(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_schema(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


def _are_texts(value: Any) -> bool:
    if isinstance(value, Collection):
        return all(isinstance(item, str) for item in cast(Collection[Any], value))
    return isinstance(value, Iterable)


def _is_seconds(value: Any) -> bool:
    # NaN is not greater than 0 either. A bool is an int to Python.
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0)


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


_FLAG = (_is_flag, "True or False")
_FLAG_OR_NONE = (_is_flag_or_none, "True, False or None")
_FLAG_OR_FUNCTION = (
    _is_flag_or_function,
    "True, False, or a function that takes the arguments as a dict and returns one of them",
)
_TEXT = (_is_text, "a text")
_TEXT_OR_NONE = (_is_text_or_none, "a text, or None")
_DESCRIBE = (_is_function, "a function that takes the arguments as a dict and returns a text")
_SCHEMA = (_is_schema, "a JSON Schema as a dict, or None")
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": _TEXT,
    "description": _TEXT_OR_NONE,
    "parameters": _SCHEMA,
    "examples": (lambda value: isinstance(value, Iterable), "a list of dicts or ToolExamples"),
    "tags": (_are_texts, "a list of texts"),
    "version": _TEXT,
    "strict": _FLAG_OR_NONE,
    "namespace": _TEXT,
    "deferred": _FLAG,
    "callers": (_are_texts, "'model', 'code', or a list of them"),
    "output_schema": _SCHEMA,
    "effects": (_are_texts, f"{', '.join(map(repr, get_args(Effect)))}, or a list of them"),
    "inline": _FLAG,
    "idempotent": _FLAG,
    "polls": _FLAG,
    "ordered": _FLAG,
    "timeout": (_is_seconds, "a number of seconds greater than 0, or None"),
    "max_uses": (_is_count, "a whole number from 0 on, or None"),
    "rate": (lambda value: value is None or isinstance(value, Rate), "a Rate, such as Rate(10, 60), or None"),
    "approval": _FLAG_OR_NONE,
    "quiet": _FLAG_OR_FUNCTION,
    "confined": _FLAG_OR_FUNCTION,
    "always_ask": _DESCRIBE,
    "action": (
        lambda value: value is None or value in get_args(Action),
        f"one of {', '.join(map(repr, get_args(Action)))}",
    ),
    "verb": _TEXT_OR_NONE,
    "scope": (_is_function, "a function that takes the arguments as a dict and returns Subjects"),
    "target": _DESCRIBE,
    "preview": _DESCRIBE,
    "max_result": (
        lambda value: value is None or (_is_count(value) and value > 0),
        "a whole number from 1 on, or None",
    ),
}


def find_advice(option: str, value: Any) -> str:
    """Return what to pass for an option of a tool instead of this value; "" if it takes the value."""
    is_accepted, advice = _CHECKS[option]
    return "" if is_accepted(value) else advice
