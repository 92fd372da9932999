"""What a model may call in its reply.

Providers do not always keep to it, so it is checked again when the reply comes back.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

from toolglot.errors import ToolError
from toolglot.loop.model_view import ModelView
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL
from toolglot.values.messages import Reply, ToolCall
from toolglot.values.request import Request, ToolDefinition

__all__ = ["Offer"]

_NO_TOOLS = "The call did not run: no tool may be called in this reply. Answer without tools."
_NOT_OFFERED = "The call did not run: the tool {!r} is not available in this reply. Available: {}."
_ONE_CALL = (
    "The call did not run: only one call is allowed at a time. Make it again when you have the "
    "result of the other one."
)


class Offer:
    """The tools, the tool choice and the number of calls of one request.

    `head`: its tools before a hook changed them; `all_tools`: also those that messages have added.
    """

    def __init__(
        self,
        request: Request,
        view: ModelView,
        head: tuple[ToolDefinition, ...],
        all_tools: tuple[ToolDefinition, ...],
    ) -> None:
        choice = request.tool_choice
        self._request, self._view, self._head, self._all_tools = request, view, head, all_tools
        self.is_single = request.parallel is False
        self._is_none = choice is not None and choice.mode == "none"
        self._is_limited = request.tools is not head or bool(choice and choice.names)
        self.is_open = not (self._is_none or self.is_single or self._is_limited)
        """Whether everything may be called, which needs no check."""

    @cached_property
    def _all_names(self) -> frozenset[str]:
        return _names_of(self._all_tools)

    @cached_property
    def _names(self) -> frozenset[str]:
        """What may be called: tools of the request, and those that messages have added."""
        declared = _names_of(self._head)
        added = [tool for tool in self._all_tools if tool.qualified_name not in declared]
        tools = [*self._request.tools, *added]
        choice = self._request.tool_choice
        if choice is not None and choice.names:
            tools = [tool for tool in tools if choice.includes(tool) or tool.name == FINAL_ANSWER_TOOL]
        return _names_of(tools)

    def check(self, call: ToolCall) -> ToolError | None:
        """Return why a call was not on offer; None if it was, or if no such tool exists."""
        if call.name == FINAL_ANSWER_TOOL:
            return None
        if self._is_none:
            return _refuse(_NO_TOOLS)
        if not self._is_limited:
            return None
        names = {call.qualified_name}
        known_names = self._all_names
        facade = self._view.facade
        if not names & self._all_names and facade is not None:  # an alias or the base name of a built-in tool
            names = {*facade.shown_names(call)}
            # A hidden form may stand for a base tool that the model is not shown at all, such as a listing.
            known_names = self._all_names | facade.base_tools
        if names & self._names or not names & known_names:
            return None
        return _refuse(_NOT_OFFERED.format(call.name, ", ".join(sorted(self._names)[:12]) or "none"))

    def find_refusals(self, reply: Reply) -> Iterator[tuple[int, ToolError]]:
        """Yield the calls that must not run, by index, each with the reason."""
        if self.is_open:
            return
        has_call = False
        for index, call in enumerate(reply.calls):
            error = self.check(call)
            is_second = has_call and call.name != FINAL_ANSWER_TOOL
            if error is None and self.is_single and is_second:
                error = ToolError(_ONE_CALL, kind="not_allowed", code="one_call_at_a_time")
            if error is None:
                has_call = True
            else:
                yield index, error


def _names_of(tools: Iterable[ToolDefinition]) -> frozenset[str]:
    return frozenset(tool.qualified_name for tool in tools)


def _refuse(text: str) -> ToolError:
    return ToolError(text, kind="not_allowed", code="tool_not_offered")
