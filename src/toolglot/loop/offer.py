"""What a model may call in its reply. Providers do not always keep to it, so it is checked again when the reply comes back."""

from collections.abc import Iterator

from toolglot.errors import ToolError
from toolglot.loop.model_view import ModelView
from toolglot.loop.structured_output import FINAL_ANSWER_TOOL
from toolglot.values.messages import Reply, ToolCall
from toolglot.values.request import Request, ToolDefinition

__all__ = ["Offer"]

_NO_TOOLS = "The call did not run: no tool may be called in this reply. Answer without tools."
_NOT_OFFERED = "The call did not run: the tool {!r} is not available in this reply. Available: {}."
_ONE_CALL = "The call did not run: only one call is allowed at a time. Make it again when you have the result of the other one."


class Offer:
    """The tools, the tool choice and the number of calls of one request.

    `head`: its tools before a hook changed them; `all_tools`: also those that messages have added.
    """

    def __init__(
        self, request: Request, view: ModelView, head: tuple[ToolDefinition, ...], all_tools: tuple[ToolDefinition, ...]
    ) -> None:
        choice = request.tool_choice
        self._view, self.is_single = view, request.parallel is False
        self._is_none = choice is not None and choice.mode == "none"
        self._is_limited = request.tools is not head or bool(choice and choice.names)
        self.is_open = not (self._is_none or self.is_single or self._is_limited)
        """Whether everything may be called, which needs no check."""
        if self._is_limited:
            self._all_names = {tool.qualified_name for tool in all_tools}
            declared = {tool.qualified_name for tool in head}
            added = (tool for tool in all_tools if tool.qualified_name not in declared)
            self._names = {
                tool.qualified_name
                for tool in (*request.tools, *added)
                if not (choice and choice.names) or choice.includes(tool) or tool.name == FINAL_ANSWER_TOOL
            }

    def check(self, call: ToolCall) -> ToolError | None:
        """Return why a call was not on offer; None if it was, or if no such tool exists."""
        if call.name == FINAL_ANSWER_TOOL:
            return None
        text = _NO_TOOLS
        if not self._is_none:
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
            text = _NOT_OFFERED.format(call.name, ", ".join(sorted(self._names)[:12]) or "none")
        return ToolError(text, kind="not_allowed", code="tool_not_offered")

    def find_refusals(self, reply: Reply) -> Iterator[tuple[int, ToolError]]:
        """Yield the calls that must not run, by index, each with the reason."""
        has_call = False
        for index, call in enumerate(() if self.is_open else reply.calls):
            error = self.check(call)
            if error is None and self.is_single and has_call and call.name != FINAL_ANSWER_TOOL:
                error = ToolError(_ONE_CALL, kind="not_allowed", code="one_call_at_a_time")
            has_call = has_call or error is None
            if error is not None:
                yield index, error
