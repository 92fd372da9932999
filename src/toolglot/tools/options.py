"""The options of a tool, which `Tool` has as attributes or in its definition."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from toolglot.tools.config import Rate
from toolglot.tools.rules import Subject
from toolglot.values.approvals import Effect
from toolglot.values.request import ToolExample

__all__ = ["Action", "Describe", "SchemaToolOptions", "Scope", "ToolOptions"]

Action = Literal["read", "edit", "search", "execute", "fetch", "think", "other"]
Describe = Callable[[dict[str, Any]], str]
Scope = Callable[[dict[str, Any]], Iterable[Subject]]


class SchemaToolOptions(TypedDict, total=False):
    """The options of a tool whose name, description and schema are given."""

    examples: Iterable[ToolExample | Mapping[str, Any]]
    tags: Iterable[str]
    """Words to select tools by."""
    version: str
    strict: bool | None
    namespace: str
    deferred: bool
    """The model must search for the tool before it sees it."""
    callers: Iterable[Literal["model", "code"]]
    """Who may call it: the model itself, or code that the model runs. By default, the provider or the agent decides."""
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
    """For built-in tools: do not ask by default, or not with these arguments, because the effects stay within toolglot or
    within what the user has already approved."""
    confined: bool | Callable[[dict[str, Any]], bool]
    """For built-in tools: whether calls, or calls with these arguments, can change nothing but ordinary files of
    the workspace and have no network, because the tool and the kernel see to that. They need no approval in the
    approval mode `sandboxed`."""
    always_ask: Describe | None
    """Returns why a call with these arguments needs its own approval, whatever rules and earlier "always" answers say ("it
    runs outside the sandbox"); "" if it does not."""
    action: Action | None
    """What a call does, for a person who is watching; by default, what follows from its effects."""
    verb: str | None
    """What stands before the target of a call, for the same person: "Edit", "Search the web:". By default, the tool's name."""
    scope: Scope | None
    """Returns the subjects of a call with these arguments, for rules such as `shell(git status *)`; without it, rules with a
    pattern never allow a call."""
    target: Describe | None
    """Returns what a call with these arguments touches, for the approver and the audit log."""
    preview: Describe | None
    """Returns what a call would do, for the approver: the full command, or a diff."""
    max_result: int | None
    """Maximum characters of a result that the model sees."""


class ToolOptions(SchemaToolOptions, total=False):
    """The options of a tool. `name`, `description` and `parameters` override what is derived from its function."""

    name: str
    description: str | None
    parameters: Mapping[str, Any] | None
