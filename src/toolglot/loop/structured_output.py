"""The answer in a shape that was asked for: natively where the wire can be held to a schema and call tools too, else through a
tool that takes the answer as its parameters. Either way it is checked here, and a wrong one goes back with the reason.
"""

from collections.abc import Sequence
from typing import Any, cast

from toolglot.errors import MalformedReply
from toolglot.events import ToolOutcome
from toolglot.jsontext import dumps_text
from toolglot.messages import Message, Reply, user
from toolglot.providers.profile import Profile
from toolglot.request import Output, Schema, ToolChoice
from toolglot.schema.arguments import find_issues
from toolglot.schema.output import OutputType
from toolglot.schema.tolerant_json import tolerant_loads
from toolglot.tools.tool import Tool, tool_from_schema
from toolglot.wire.spec import SPECS

__all__ = ["FINAL_ANSWER_TOOL", "StructuredOutput"]

FINAL_ANSWER_TOOL = "final_answer"
_MAX_FAILURES = 2


class StructuredOutput:
    """The structured output of one run."""

    def __init__(self, shape: "type[Any] | Schema") -> None:
        self._shape = None if isinstance(shape, dict) else OutputType(shape)
        self.schema: Schema = self._shape.schema if self._shape else cast(Schema, shape)
        self.output: Any = None
        self.is_complete = False
        self._answer_tool = self._make_answer_tool()
        self._failures = self._checked_count = 0

    def answer_tool(self, profile: Profile, *, with_tools: bool) -> Tool | None:
        """The tool that takes the answer, where the wire cannot be held to the schema."""
        native = profile.json_output == "schema" and (not with_tools or SPECS[profile.wire].output_with_tools)
        return None if native else self._answer_tool

    def native_output(self) -> Output:
        """For the request, where the wire can be held to the schema."""
        return Output(self.schema)

    def _make_answer_tool(self) -> Tool:
        is_object = self.schema.get("type") == "object"

        def accept(**answer: Any) -> str:
            self._accept(answer if is_object else answer["value"])
            return "Accepted."

        schema = self.schema if is_object else {"type": "object", "properties": {"value": self.schema}, "required": ["value"]}
        description = "Give the final answer. Call it exactly once, when everything else is done; do not answer in words."
        return tool_from_schema(FINAL_ANSWER_TOOL, description, schema, accept, inline=True, effects="read", approval=False)

    def forced_choice(self, tool: Tool | None) -> ToolChoice | None:
        """A forced choice for a model that answered in words although it was told not to."""
        return ToolChoice("required", (FINAL_ANSWER_TOOL,)) if self._failures and tool else None

    def check_reply(self, reply: Reply) -> Message | None:
        """None where the output is there; otherwise what the model is told. Raises MalformedReply after too many tries."""
        if self.is_complete:
            return None
        try:
            self._accept(tolerant_loads(reply.text)[0])
            return None
        except ValueError as e:
            wrong = str(e)
        self._count_failure(wrong)
        how = f"Call {FINAL_ANSWER_TOOL} with the answer, or answer with JSON of {dumps_text(self.schema)}"
        return user(f"That is not the answer in the shape that was asked for: {wrong}\n{how}")

    def check_outcomes(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Looks at the calls of the final tool that are new. Raises MalformedReply after too many that were wrong."""
        new, self._checked_count = outcomes[self._checked_count :], len(outcomes)
        for outcome in new:
            if outcome.call.name == FINAL_ANSWER_TOOL and outcome.result.is_error:
                self._count_failure(outcome.result.text)

    def _count_failure(self, problem: str) -> None:
        self._failures += 1
        if self._failures > _MAX_FAILURES:
            raise MalformedReply(f"the model did not give the output that was asked for: {problem}")

    def _accept(self, answer: Any) -> None:
        self.output = self._validate(answer)
        self.is_complete = True

    def _validate(self, answer: Any) -> Any:
        if self._shape is not None:
            return self._shape.validate(answer)
        if found := find_issues(answer, self.schema):
            raise ValueError("; ".join(map(str, found[:5])))
        return answer
