"""May this call run? One verdict for all reasons; each refusal is a sentence that the model can act on.

In order: is the model going round in circles · is the tool allowed · was it used too often · is it called too fast · does
somebody have to approve it. The guard remembers one conversation; time is given.
"""

import re
from collections import Counter, deque
from typing import Any, Literal, cast

import msgspec

from toolglot.jsontext import dumps
from toolglot.messages import ToolCall, ToolErrorKind, ToolResult
from toolglot.tools.config import ToolConfig
from toolglot.tools.tool import Rate, Tool

__all__ = ["LOOP_TOOLS", "ToolPolicy", "Verdict"]

_HISTORY_SIZE = 24  # calls that are looked back on for circles
_MAX_DENIALS = 3  # a model that does not listen is asked for its last words


class Verdict(msgspec.Struct, frozen=True):
    """allow, ask (somebody has to approve) or deny, with the reason."""

    action: Literal["allow", "ask", "deny"]
    kind: ToolErrorKind = "not_allowed"
    reason: str = ""


_ALLOW, _ASK = Verdict("allow"), Verdict("ask")
ToolKey = tuple[str, str]  # namespace, name
LOOP_TOOLS = frozenset({"final_answer", "read_result"})  # tools that the loop itself adds


class _PastCall:
    """A call that was made: by which tool, with which result. What it means is found out only where that is asked for."""

    __slots__ = ("_key", "call", "result", "writes")

    def __init__(self, call: ToolCall, tool: Tool | None, result: ToolResult) -> None:
        self.call, self.result, self.writes = call, result.content, _can_write(tool)
        self._key: bytes | None = None

    @property
    def key(self) -> bytes:
        if self._key is None:
            self._key = _call_key(self.call)
        return self._key


class ToolPolicy:
    """Judges the calls of one conversation."""

    def __init__(self, config: ToolConfig) -> None:
        self.config = config
        self.uses: Counter[ToolKey] = Counter()
        self._start_times: dict[ToolKey, deque[float]] = {}
        self._recent: list[_PastCall] = []
        self._always_allowed: set[ToolKey] = set()
        self._denials = 0
        self._warned = False  # whether the model was told in this turn

    @property
    def is_exhausted(self) -> bool:
        """Whether the model goes on in circles although it was told."""
        return self._denials >= _MAX_DENIALS

    def begin_prompt(self) -> None:
        """The user spoke: whatever is called now was asked for."""
        self._recent.clear()
        self._denials = 0

    def begin_turn(self) -> None:
        """The model has seen the results so far."""
        self._warned = False

    def allow_always(self, tool: Tool) -> None:
        """No more questions about this tool."""
        self._always_allowed.add(_tool_key(tool))

    def copy_usage(self, other: "ToolPolicy") -> None:
        """What was counted and allowed in another conversation counts in this one."""
        self.uses, self._start_times, self._always_allowed = other.uses.copy(), other._start_times, other._always_allowed.copy()

    def check_allowed(self, tool: Tool) -> Verdict | None:
        """Whether a tool may not be used at all."""
        config = self.config
        if tool.name in LOOP_TOOLS or (config.enabled and (config.allowed_tools is None or tool.name in config.allowed_tools)):
            return None
        return Verdict("deny", "not_allowed", f"the tool {tool.name!r} is not allowed here")

    def check_repetition(self, call: ToolCall, tool: Tool | None) -> Verdict | None:
        """Whether a call is one too many of its kind. `tool`: None where there is none of its name."""
        if not (why := self._describe_repetition(call, tool)):
            return None
        if not self._warned:
            self._warned = True
            self._denials += 1
        return Verdict("deny", "limit", why)

    def evaluate(self, tool: Tool, now: float) -> Verdict:
        """Whether a call may run. `now`: seconds of a clock that never goes back."""
        config, name = self.config, _tool_key(tool)
        most = tool.max_uses if tool.max_uses is not None else config.max_uses.get(tool.name)
        if most is not None and self.uses[name] >= most:
            return Verdict("deny", "limit", f"the tool {tool.name!r} may be used {most} times in a conversation, and was")
        if tool.rate is not None and (wait := self._rate_delay(tool, tool.rate, now)):
            calls, seconds = tool.rate.calls, tool.rate.seconds
            return Verdict("deny", "limit", f"at most {calls} calls in {seconds:g} s; try again in {wait:.1f} s")
        return _ASK if self.needs_approval(tool) else _ALLOW

    def needs_approval(self, tool: Tool) -> bool:
        """Whether somebody has to approve the calls of a tool."""
        asked = tool.approval or (tool.approval is None and bool(tool.effects & self.config.approval_effects))
        return asked and _tool_key(tool) not in self._always_allowed

    def record_start(self, tool: Tool, now: float) -> None:
        """A call runs."""
        self.uses[_tool_key(tool)] += 1
        self._denials = 0  # it does something else
        if tool.rate is not None:
            self._start_times.setdefault(_tool_key(tool), deque()).append(now)

    def record_result(self, call: ToolCall, tool: Tool | None, result: ToolResult) -> None:
        """A call has this result, whether it ran or not."""
        if self.config.max_repeats:
            self._recent.append(_PastCall(call, tool, result))
            if len(self._recent) > max(_HISTORY_SIZE, 8 * self.config.max_repeats):
                del self._recent[0]

    def _rate_delay(self, tool: Tool, rate: Rate, now: float) -> float:
        times = self._start_times.setdefault(_tool_key(tool), deque())
        while times and times[0] <= now - rate.seconds:
            times.popleft()
        if len(times) < rate.calls:
            return 0.0
        return times[0] + rate.seconds - now if times else rate.seconds

    def _describe_repetition(self, call: ToolCall, tool: Tool | None) -> str:
        """Why a call is one too many of its kind; "" where it is not."""
        most = 0 if tool is not None and tool.polls else self.config.max_repeats
        if not most or sum(made.call.name == call.name for made in self._recent) < most:
            return ""
        results = self._previous_results(_call_key(call), since_last_write=not _can_write(tool))
        if not results:
            return ""
        same = results.count(results[-1])
        if same >= most:
            return f"this call was made {same} times with the same arguments and the same result; do something else, or answer"
        if len(results) >= 3 * most:  # results that differ: somebody may be waiting for something, but not for ever
            return f"this call was made {len(results)} times with the same arguments; do something else, or answer"
        return ""

    def _previous_results(self, key: bytes, *, since_last_write: bool) -> list[Any]:
        """What a call gave so far. `since_writing`: since something new was written, as things may look different then."""
        results: list[Any] = []
        seen: set[bytes] = set()
        for made in self._recent:
            if since_last_write and made.writes and made.key not in seen:
                results = []
            seen.add(made.key)
            if made.key == key:
                results.append(made.result)
        return results


def _tool_key(tool: Tool) -> ToolKey:
    return tool.namespace, tool.name


def _can_write(tool: Tool | None) -> bool:
    return tool is None or "write" in tool.effects


_WHITESPACE = re.compile(r"\s+")


def _call_key(call: ToolCall) -> bytes:
    """What a call means, so that calls that differ only in case, white space or order of fields are one."""
    try:
        meant = dumps(_normalize(call.arguments if call.arguments is not None else call.raw or ""))
    except RecursionError:  # nested too deeply to be compared by meaning
        meant = (call.raw or str(id(call))).encode("utf-8", "surrogatepass")
    return f"{call.namespace}\0{call.name}\0".encode("utf-8", "surrogatepass") + meant


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
