"""Whether a call may run. Each refusal is a sentence that the model can act on.

In this order: does the model repeat itself · is the tool allowed · has it reached its limit of uses · is it
called too often · does somebody have to approve it. The policy remembers one conversation; the rules come
with the caller, and the time is passed in.
"""

import re
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Literal, cast

import msgspec

from toolglot.common.jsontext import dumps
from toolglot.errors import ToolError, ToolErrorKind
from toolglot.tools.audit import DecidedBy
from toolglot.tools.caller import Caller
from toolglot.tools.config import Rate, ToolConfig
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.rules import Rule, RuleSet, find_subjects
from toolglot.tools.tool import Tool
from toolglot.tools.tool_changes import describe_changes, describe_tool
from toolglot.values.approvals import Effect
from toolglot.values.definitions import BUILTIN_TAG, MCP_TAG
from toolglot.values.messages import ToolCall

__all__ = [
    "LOOP_TOOLS",
    "NO_APPROVAL",
    "REPEATED_CALL",
    "RUN_CODE",
    "ToolPolicy",
    "Verdict",
    "allow_only_readers",
    "describe_approval_rules",
    "find_allowed",
    "is_confined",
]

_MAX_VERDICTS = 500  # tools whose verdict is remembered: a server may replace its tools every second
_HISTORY_SIZE = 48  # calls that are searched for repetitions
_MAX_DENIALS = 3  # a model that keeps repeating itself after so many refusals is asked for its final answer
RUN_CODE = "run_code"
"""The tool that runs code, which calls other tools."""
# tools that the loop itself adds
LOOP_TOOLS = frozenset({"final_answer", "read_result", "search_tools", RUN_CODE})
REPEATED_CALL = "repeated_call"  # the error code of a call that is refused because it repeats
_EFFECT_VERBS: dict[Effect, str] = {
    "read": "read",
    "write": "change files",
    "execute": "run commands",
    "network": "use the network",
}
_NOBODY_TO_ASK = "nobody can be asked for approval (in Python, pass approve=…"
_OTHER_WAYS = ", a rule in ToolConfig(approve=[…]), or ToolConfig(ask=()) to allow everything"
_MODE_WAY = ", ToolConfig(mode='sandboxed')"
_MCP_WAYS = ", a rule in ToolConfig(approve=[…]), or McpServer(trust=True) for a server that you trust"
# tools that ask by default; other tools are the program's own
_ASKING_TAGS = frozenset({BUILTIN_TAG, MCP_TAG})
_READ: frozenset[Effect] = frozenset({"read"})
_WHITESPACE = re.compile(r"\s+")
_OWN_NAMES_ONLY = PolicyNames()


def find_allowed(config: ToolConfig, tools: Iterable[str], names: PolicyNames) -> frozenset[str] | None:
    """Return which of these tools a model may be shown and call; None: all of them, and those that are added
    later.
    """
    allowed, rules = config.allow, RuleSet((), config.deny, names)
    if allowed is None and all(rule.pattern for rule in rules.deny):
        return None
    if allowed is not None:
        tools = [tool for tool in tools if names.is_listed(tool, allowed)]
    return frozenset(tool for tool in tools if rules.find_complete_denial(tool) is None)


def allow_only_readers(
    config: ToolConfig, tools: Iterable[Tool], policy_names: PolicyNames = _OWN_NAMES_ONLY
) -> ToolConfig:
    """Return the rules with all tools forbidden but those whose sole effect is to read."""
    readers, others = set[str](), set[str]()
    for tool in tools:
        (readers if tool.effects == _READ else others).add(tool.name)
    # Tools are allowed by name, which a reader and a writer can share if they are in namespaces.
    names, allowed = readers - others, config.allow
    if allowed is not None:
        names = {name for name in names if policy_names.is_listed(name, allowed)}
    return msgspec.structs.replace(config, allow=frozenset(names))


class Verdict(msgspec.Struct, frozen=True):
    """What happens with a call, and which rule or default decided it."""

    action: Literal["run", "ask", "refuse"]
    reason: str = ""
    code: str = ""
    """The error code of a refusal."""
    decided_by: DecidedBy = "policy"
    each_time: bool = False
    """Only an answer to this very call lets it run: no rule, no earlier "always", no --yes."""


NO_APPROVAL = Verdict("run", "it needs no approval")


class _PastCall(msgspec.Struct, gc=False):
    """A call and its result. The key is computed only when calls of the same name are compared."""

    call: ToolCall
    content: Any
    can_write: bool
    key: bytes | None = None

    def compute_key(self) -> bytes:
        if self.key is None:
            self.key = _call_key(self.call)
        return self.key


class ToolPolicy:
    """Decides on the calls of one conversation."""

    __slots__ = (
        *(
            "_always_allowed",
            "_changed",
            "_denials",
            "_recent",
            "_rules",
            "_start_times",
            "_verdicts",
            "_warned",
        ),
        *("can_allow_always", "uses"),
    )

    def __init__(self, *, can_allow_always: bool = True) -> None:
        self._rules: tuple[Caller, RuleSet] | None = None
        self._verdicts: dict[Tool, Verdict] = {}
        """Verdicts under these rules that do not depend on a call's arguments."""
        self.can_allow_always = can_allow_always
        """Whether "always" means more than "yes": not where calls come from clients that cannot be told
        apart."""
        self.uses: dict[tuple[str, str], int] = {}
        """Calls that were started, by namespace and name of the tool."""
        self._start_times: dict[tuple[str, str], list[float]] = {}
        self._recent: list[_PastCall] = []
        self._always_allowed: dict[tuple[str, str], dict[str, str]] = {}
        """Tools, with what they said about themselves when the user always allowed them."""
        self._changed: set[tuple[str, str]] = set()
        """Those that said something else since then: they are no longer allowed, even if they change back."""
        self._denials = 0
        self._warned = False  # whether the model was told in this turn

    @property
    def is_exhausted(self) -> bool:
        """Whether the model keeps repeating itself although it was told to stop."""
        return self._denials >= _MAX_DENIALS

    def begin_prompt(self) -> None:
        """Forget what was called before: the user spoke, and may want the same again."""
        self._recent.clear()
        self._denials = 0

    def begin_turn(self) -> None:
        """Note that the model has seen the results so far."""
        self._warned = False

    def allow_always(self, tool: Tool) -> None:
        """Ask for no more approvals of this tool, as long as it stays what it is."""
        if not self.can_allow_always:
            return
        self._verdicts.clear()
        self._always_allowed[tool.key] = describe_tool(tool)
        self._changed.discard(tool.key)

    def is_always_allowed(self, tool: Tool) -> bool:
        """Whether the user has always allowed a tool of this name; it may have changed since."""
        return tool.key in self._always_allowed

    def forget_always(self, tool: Tool) -> None:
        """Ask for approvals of this tool again."""
        self._verdicts.clear()
        self._always_allowed.pop(tool.key, None)

    # ---- decisions; `name` is what the model calls the tool

    def check_repetition(self, call: ToolCall, tool: Tool | None, max_repeats: int) -> ToolError | str:
        """Look for calls with the same arguments.

        Returns a reminder for the result ("": there is no need), then a refusal.

        `tool` is None if none has its name. No harness refuses a repeated call; a model that ignores
        reminders wastes money.
        """
        limit = 0 if tool is not None and tool.polls else max_repeats
        if not limit or len(self._recent) < limit:
            return ""
        if sum(past.call.name == call.name for past in self._recent) < limit:
            return ""
        results = self._previous_results(_call_key(call), since_last_write=not _can_write(tool))
        same_count = results.count(results[-1]) if results else 0
        reason = f"this call was made {same_count} times with the same arguments and the same result"
        if same_count < limit:
            if len(results) < 3 * limit:  # results that differ may be what it polls for, but not forever
                return ""
            reason = f"this call was made {len(results)} times with the same arguments"
        if same_count < 2 * limit and len(results) < 4 * limit:
            return f"Reminder: {reason} before. Do something else, or answer."
        if not self._warned:
            self._warned = True
            self._denials += 1
        return _refusal(f"{reason}; do something else, or answer", REPEATED_CALL)

    def check_allowed(self, tool: Tool, name: str, caller: Caller) -> None:
        """Raises ToolError for a tool that may not be used at all."""
        config = caller.config
        if not config.deny and config.allow is None and config.enabled:
            return
        if (rule := self._rules_for(caller).find_complete_denial(tool.name)) is not None:
            verdict = _deny(rule)
            raise ToolError(
                f"The call did not run: {verdict.reason}.",
                kind="not_allowed",
                code=verdict.code,
                details=verdict,
            )
        allowed = config.allow
        if not config.enabled or (allowed is not None and not caller.names.is_listed(tool.name, allowed)):
            raise _refusal(f"the tool {name!r} is not allowed here", "tool_not_allowed", "not_allowed")

    def check_limits(self, tool: Tool, name: str, caller: Caller, now: float) -> None:
        """Raises ToolError for a tool that was used too often. `now`: seconds of a monotonic clock."""
        limit, limits = tool.max_uses, caller.config.max_uses
        if limit is None and limits:
            limit = min(caller.names.find_limits(tool.name, limits), default=None)
        if limit is not None and self.uses.get(tool.key, 0) >= limit:
            raise _refusal(
                f"the tool {name!r} has reached its limit of {limit} uses per conversation", "use_limit"
            )
        if (rate := _find_rate(tool, caller)) is None:
            return
        start_times = self._start_times.get(tool.key, ())
        times = self._start_times[tool.key] = [time for time in start_times if time > now - rate.seconds]
        if len(times) >= rate.calls:
            delay = times[0] + rate.seconds - now if times else rate.seconds
            message = f"at most {rate.calls} calls in {rate.seconds:g} s; try again in {delay:.1f} s"
            raise _refusal(message, "rate_limit")

    def judge(self, tool: Tool, caller: Caller, arguments: dict[str, Any] | None = None) -> Verdict:
        """Decide on a call.

        `arguments`: as they will be used; without them, the verdict is about the tool in general.
        """
        rules = self._rules_for(caller)
        has_functions = not (isinstance(tool.quiet, bool) and isinstance(tool.confined, bool))
        if arguments is None or tool.scope is not None or tool.always_ask is not None or has_functions:
            return self._judge(tool, caller, rules, arguments)
        verdict = self._verdicts.get(tool)
        if verdict is None:
            verdict = self._judge(tool, caller, rules, arguments)
            if len(self._verdicts) >= _MAX_VERDICTS:
                self._verdicts.clear()
            self._verdicts[tool] = verdict
        return verdict

    def _judge(self, tool: Tool, caller: Caller, rules: RuleSet, arguments: dict[str, Any] | None) -> Verdict:
        subjects = None
        has_rules = bool(rules.approve or rules.deny)
        if has_rules and arguments is not None and tool.scope is not None:
            subjects = find_subjects(tool.scope, arguments)
        denial, is_certain = rules.find_denial(tool.name, subjects) or (None, False)
        if is_certain:
            return _deny(denial)
        must_ask, is_quiet = _ask_tool(tool, arguments)
        if must_ask:
            return _ask(tool, caller, must_ask, each_time=True)
        if denial is not None and arguments is not None:
            return _ask(tool, caller, f"{denial} may deny it", each_time=True)
        asking = _effects_to_approve(tool, caller.config, is_quiet=is_quiet)
        if tool.approval is False or (tool.approval is None and not asking):
            return NO_APPROVAL
        if is_confined(tool, caller.config, arguments):
            return Verdict("run", "it stays in the sandbox")
        approvals, problem = rules.find_approval(tool.name, subjects)
        if approvals:
            verb = "allow" if len(approvals) > 1 else "allows"
            return Verdict("run", f"{' and '.join(map(str, approvals))} {verb} it", decided_by="rule")
        change = ""
        if (before := self._always_allowed.get(tool.key)) is not None:
            change = self._find_change(tool, before)
            if not change:
                return Verdict("run", "you always allow this tool", decided_by="user")
        other_ways = _MCP_WAYS if MCP_TAG in tool.tags else _OTHER_WAYS
        if would_be_confined(tool, caller.config, arguments):
            other_ways = _MODE_WAY + other_ways
        reason = f"{change}{_why_ask(tool, asking)}, and {problem or 'no rule allows it'}"
        return _ask(tool, caller, reason, other_ways=other_ways)

    def _find_change(self, tool: Tool, before: dict[str, str]) -> str:
        """Return how a tool has changed since the user always allowed it, for a question; "" if it has not."""
        now = describe_tool(tool)
        if now != before:
            self._changed.add(tool.key)
            self._verdicts.clear()
            return f"it has changed since you always allowed it ({describe_changes(before, now)}); "
        return (
            "it has changed since you always allowed it, and changed back; "
            if tool.key in self._changed
            else ""
        )

    def _rules_for(self, caller: Caller) -> RuleSet:
        """Return the rules of a caller's configuration.

        One conversation seldom has more than one at a time.
        """
        if self._rules is not None:
            known, rules = self._rules
            if known is caller:
                return rules
            if (known.config, known.names, known.can_ask) == (caller.config, caller.names, caller.can_ask):
                self._rules = caller, rules
                return rules
        rules = RuleSet(caller.config.approve, caller.config.deny, caller.names)
        self._rules = caller, rules
        self._verdicts.clear()
        return rules

    # ---- what happened

    def record_start(self, tool: Tool, caller: Caller, now: float) -> None:
        """Count a call that runs."""
        self.uses[tool.key] = self.uses.get(tool.key, 0) + 1
        self._denials = 0  # the model does something else
        if _find_rate(tool, caller) is not None:
            self._start_times.setdefault(tool.key, []).append(now)

    def record_result(self, call: ToolCall, tool: Tool | None, content: Any, max_repeats: int) -> None:
        """Remember what a call returned, whether it ran or not."""
        # a loop of a program is not the model's; but what it has changed may look different now
        if call.caller:
            if tool is not None and _can_write(tool):
                self._recent.clear()
        elif max_repeats:
            self._recent.append(_PastCall(call, content, _can_write(tool)))
            if len(self._recent) > max(_HISTORY_SIZE, 8 * max_repeats):
                del self._recent[0]

    def _previous_results(self, key: bytes, *, since_last_write: bool) -> list[Any]:
        """Return earlier results of a call; only those after the last new write, as things may look different
        since.
        """
        results: list[Any] = []
        seen: set[bytes] = set()
        for past in self._recent:
            past_key = past.compute_key()
            if since_last_write and past.can_write and past_key not in seen:
                results = []
            seen.add(past_key)
            if past_key == key:
                results.append(past.content)
        return results


def describe_approval_rules(config: ToolConfig) -> Any:
    """Return what of a configuration decides on approvals, as data: an approval counts only under the rules
    of its time.
    """
    effects = None if config.ask is None else sorted(config.ask)
    rules = effects, config.approve, config.deny
    # The default mode adds nothing: approvals from before there were modes still count.
    return rules if config.mode == "ask" else (*rules, config.mode)


def _find_rate(tool: Tool, caller: Caller) -> Rate | None:
    rates = caller.config.rates
    if tool.rate is not None or not rates:
        return tool.rate
    return min(caller.names.find_limits(tool.name, rates), key=attrgetter("calls_per_second"), default=None)


def _ask_tool(tool: Tool, arguments: dict[str, Any] | None) -> tuple[str | None, bool]:
    """Return why a call needs approval each time, as its tool says, and whether it needs none for its
    effects.
    """
    try:
        must_ask = tool.always_ask(arguments) if arguments is not None and tool.always_ask is not None else ""
        if isinstance(tool.quiet, bool):
            return must_ask, tool.quiet
        return must_ask, arguments is not None and tool.quiet(arguments)
    except Exception as e:
        return f"the tool cannot say whether it needs approval ({e!r:.200})", False


def _why_ask(tool: Tool, effects: frozenset[Effect]) -> str:
    if tool.approval:
        return "the tool always asks"
    verbs = [verb for effect, verb in _EFFECT_VERBS.items() if effect in effects]
    return f"it can {' and '.join(verbs)}"


def _ask(
    tool: Tool, caller: Caller, reason: str, *, each_time: bool = False, other_ways: str = ""
) -> Verdict:
    """Return the verdict about a call that needs a decision.

    Where nobody can make it, built-in tools are refused.
    """
    if caller.can_ask or tool.approval or caller.config.ask or not _ASKING_TAGS & tool.tags:
        return Verdict("ask", reason, each_time=each_time)
    return Verdict("refuse", f"{reason}; {_NOBODY_TO_ASK}{other_ways})", code="approval_required")


def _effects_to_approve(tool: Tool, config: ToolConfig, *, is_quiet: bool) -> frozenset[Effect]:
    """Return the effects of a call that need approval."""
    if config.ask is not None:
        return tool.effects.intersection(config.ask)
    if is_quiet or not _ASKING_TAGS & tool.tags:
        return frozenset()
    return tool.effects - {"read"}


def is_confined(tool: Tool, config: ToolConfig, arguments: dict[str, Any] | None) -> bool:
    """Whether the approval mode lets a call run. What a server says about its tool counts for nothing."""
    if config.mode != "sandboxed" or config.ask is not None or tool.approval is not None:
        return False
    if BUILTIN_TAG not in tool.tags or MCP_TAG in tool.tags:
        return False
    if isinstance(tool.confined, bool):
        return tool.confined
    try:
        return arguments is not None and tool.confined(arguments) is True
    except Exception:  # a tool that cannot say so confines nothing
        return False


def would_be_confined(tool: Tool, config: ToolConfig, arguments: dict[str, Any] | None) -> bool:
    """Whether a call needs approval now, but would not in the mode `sandboxed`."""
    if config.mode == "sandboxed" or not is_confined(
        tool, msgspec.structs.replace(config, mode="sandboxed"), arguments
    ):
        return False
    must_ask, _ = _ask_tool(tool, arguments)
    return not must_ask


def _deny(rule: Rule | None) -> Verdict:
    return Verdict("refuse", f"{rule} denies it", code="denied", decided_by="rule")


def _refusal(reason: str, code: str, kind: ToolErrorKind = "limit") -> ToolError:
    return ToolError(f"The call did not run: {reason}.", kind=kind, code=code)


def _can_write(tool: Tool | None) -> bool:
    return tool is None or "write" in tool.effects


def _call_key(call: ToolCall) -> bytes:
    """Return a key that is equal for calls that differ only in case, white space or the order of fields."""
    try:
        written = (call.raw or "") if call.arguments is None else call.arguments
        arguments = dumps(_normalize(written))
    except RecursionError:  # nested too deeply to be compared
        arguments = (call.raw or str(id(call))).encode("utf-8", "surrogatepass")
    return f"{call.namespace}\0{call.name}\0".encode("utf-8", "surrogatepass") + arguments


def _normalize(value: Any) -> Any:
    match value:
        case str():
            return _WHITESPACE.sub(" ", value).strip().casefold()
        case dict():
            fields = cast(dict[str, Any], value)
            return [[key, _normalize(fields[key])] for key in sorted(fields) if fields[key] is not None]
        case list():
            return [_normalize(item) for item in cast(list[Any], value)]
        case _:
            return value
