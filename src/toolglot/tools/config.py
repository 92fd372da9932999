"""How tools are run; immutable data."""

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from toolglot.common.value_checks import OptionMeta, check_values
from toolglot.tools.rules import parse_rule
from toolglot.values.approvals import ApprovalMode, Effect
from toolglot.values.request import ToolChoice, parse_tool_choice

__all__ = ["Rate", "RetryConfig", "ToolConfig", "ToolErrorHandling"]

ToolErrorHandling = Literal["continue", "abort", "retry"]
"""continue: tell the model. abort: end the run with the error. retry: retry the call if it may be retried,
then continue."""
ANY_EFFECT: frozenset[Effect] = frozenset({"read", "write", "execute", "network"})
"""The effects of a tool that declares none."""
Count = Annotated[int, Meta(ge=0)]
Amount = Annotated[float, Meta(ge=0)]


class RetryConfig(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """Exponential backoff: wait `base` seconds, then `factor` times as long, at most `max_delay`; minus up to
    `jitter`.
    """

    max_retries: Annotated[int, Meta(ge=0)] = 2
    """Maximum retries after the first attempt."""
    base: Annotated[float, Meta(ge=0)] = 0.5
    """Seconds before the first retry."""
    factor: Annotated[float, Meta(ge=1)] = 2.0
    """Each delay is this many times the previous one."""
    max_delay: Annotated[float, Meta(ge=0)] = 8.0
    """Maximum delay in seconds."""
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.25
    """The fraction of a delay that is random."""
    max_wait: Annotated[float, Meta(ge=0)] = 120.0
    """Do not retry if a provider asks to wait for more seconds than this."""

    def __post_init__(self) -> None:
        check_values(self)

    def delay(self, attempt: int, random_fraction: float) -> float:
        """Return the seconds to wait after an attempt (the first is 0). `random_fraction`: in [0, 1)."""
        try:
            delay = min(self.max_delay, self.base * self.factor**attempt)
        except OverflowError:
            delay = self.max_delay
        return delay * (1 - self.jitter * random_fraction)


class Rate(msgspec.Struct, metaclass=OptionMeta, frozen=True):
    """At most `calls` calls in `seconds` seconds."""

    calls: Annotated[int, Meta(ge=0)]
    """Maximum calls in the period."""
    seconds: Annotated[float, Meta(gt=0)] = 60.0
    """The length of the period."""

    def __post_init__(self) -> None:
        check_values(self)

    @property
    def calls_per_second(self) -> float:
        """The average, by which limits are compared."""
        return self.calls / self.seconds


class ToolConfig(msgspec.Struct, metaclass=OptionMeta, frozen=True, kw_only=True):
    """How the calls of a model run: which may, when somebody is asked, and limits for each.

    None: no limit.
    """

    enabled: bool = True
    """False: no tools at all."""
    tool_choice: ToolChoice | str | None = None
    """For the first request of a run; later requests use auto, so that a forced choice cannot loop. A word is
    a mode (`required`) or the name of the one tool that must be called."""
    parallel: bool | None = None
    """False asks the model to make one call at a time."""
    timeout: Amount | None = 120.0
    """Maximum seconds per call; a tool's own `timeout` takes precedence."""
    answer_timeout: Amount | None = None
    """Maximum seconds that a call waits for an answer from elsewhere; a tool's own takes precedence."""
    max_parallel: Annotated[int, Meta(ge=1)] = 8
    """Maximum calls that run in parallel."""
    allow: Collection[str] | None = None
    """Names or patterns of the tools that may run, ours or a model's; others are not shown to the model."""
    ask: Collection[Effect] | None = None
    """Effects that need approval; a tool's own `approval` takes precedence. None: built-in tools and those of
    MCP servers need it to write, to run commands and to use the network; without an approver (`approve=`),
    such calls are refused. Empty: only calls that leave the sandbox need it, and commands where no sandbox
    works."""
    mode: ApprovalMode = "ask"
    """ask: as `ask` says. sandboxed: built-in tools need no approval to run commands in the sandbox without
    network, and to change files of the workspace that are not protected; for everything else they do. `ask`
    takes precedence if it is set."""
    approve: Sequence[str] = ()
    """Rules for calls that run without approval: `shell(git status *)`, `write(src/**)`,
    `web_open(docs.python.org)`, or a tool's name."""
    deny: Sequence[str] = ()
    """Rules for calls that are refused; they take precedence over `approve`. Tools that are denied altogether
    are not shown to the model."""
    max_uses: dict[str, int] = {}
    """Maximum calls per conversation, by tool; a tool's own `max_uses` takes precedence."""
    rates: dict[str, Rate] = {}
    """Maximum calls per conversation in a period of time, by tool; a tool's own `rate` takes precedence."""
    on_error: ToolErrorHandling = "continue"
    """What happens when a tool raises an exception: continue (tell the model), abort (end the run), or
    retry."""
    retry: RetryConfig = RetryConfig()
    """How often, and after how long, a failed call is repeated."""
    max_result: Annotated[int, Meta(ge=100)] = 60_000
    """Maximum characters of a result that the model sees; it can read the rest with `read_result`."""
    max_repeats: Count = 3
    """How often a call may be repeated with the same result before a reminder is added to its results; after
    twice as many repetitions, the call is refused. 0: never."""
    eager_start: bool = False
    """Start read-only tools while the reply is still streaming."""

    def __post_init__(self) -> None:
        if isinstance(self.tool_choice, str):
            force_setattr(self, "tool_choice", parse_tool_choice(self.tool_choice))
        check_values(self)
        for rule in (*self.approve, *self.deny):
            parse_rule(rule)
