"""The options of a tool; `Tool` has them as attributes, or in its definition."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from toolglot.approvals import Effect
from toolglot.request import ToolExample
from toolglot.tools.config import Rate
from toolglot.tools.rules import Subject

__all__ = ["Describe", "SchemaToolOptions", "Scope", "ToolOptions"]

Describe = Callable[[dict[str, Any]], str]
Scope = Callable[[dict[str, Any]], Iterable[Subject]]


class SchemaToolOptions(TypedDict, total=False):
    """The options of a tool whose name, description and schema are known."""

    examples: Iterable[ToolExample | Mapping[str, Any]]
    tags: Iterable[str]
    """Words to select tools by."""
    version: str
    strict: bool | None
    namespace: str
    deferred: bool
    """The model is shown it only when it finds it."""
    callers: Iterable[Literal["model", "code"]]
    """Who may call it: the model itself, or code that the model runs. By default, who the provider or the agent lets."""
    output_schema: Mapping[str, Any] | None
    """What a successful call returns; code that calls the tool relies on it."""
    effects: Effect | Iterable[Effect]
    """What it may touch: read, write, execute, network. A tool that declares none may have any effect."""
    inline: bool
    """It returns so quickly that it needs no thread."""
    idempotent: bool
    """Running it twice does no harm, so that it may be retried."""
    polls: bool
    """The same call may return something new each time, so that it is never refused as a repetition."""
    ordered: bool
    """Its calls keep their place: they wait for the calls before them in a turn, and those after wait for them."""
    timeout: float | None
    """Seconds per call."""
    max_uses: int | None
    """Calls per conversation."""
    rate: Rate | None
    """Calls per time."""
    approval: bool | None
    """True always asks, False never, None leaves it to `ToolConfig.approval_effects`."""
    quiet: bool | Callable[[dict[str, Any]], bool]
    """Built in, it does not ask by default, or not with these arguments: its effects stay within toolglot, or in what the user
    has approved already."""
    always_ask: Describe | None
    """Returns why a call with these arguments needs an answer of its own, which no rule and no "always" gives ("it runs
    outside the sandbox"); "" if it does not."""
    scope: Scope | None
    """Returns what a call with these arguments is about, for rules such as `shell(git status *)`; without it, rules with a
    pattern never allow a call."""
    target: Describe | None
    """Returns what a call with these arguments touches, for the approver and the audit log."""
    preview: Describe | None
    """Returns what a call would do, for the approver: the full command, or a diff."""
    max_result: int | None
    """Characters of a result that the model sees."""


class ToolOptions(SchemaToolOptions, total=False):
    """The options of a tool. These three replace what is derived from its function."""

    name: str
    description: str | None
    parameters: Mapping[str, Any] | None
