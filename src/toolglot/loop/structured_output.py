"""The answer in a given shape.

Natively, if the wire enforces a schema and still calls tools; otherwise through a tool that takes the answer
as its parameters. Either way it is validated here, and an invalid answer is returned to the model with the
reason.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

from toolglot.common.jsontext import dumps_text
from toolglot.providers.profile import Profile
from toolglot.schema import dialects
from toolglot.schema.arguments import find_issues
from toolglot.schema.lower import lower
from toolglot.schema.lowering_result import restore
from toolglot.schema.output import OutputType
from toolglot.schema.tolerant_json import tolerant_loads
from toolglot.tools.results import escape_nested_surrogates
from toolglot.tools.tool import Tool, tool_from_schema
from toolglot.values.events import ToolOutcome
from toolglot.values.losses import Repair
from toolglot.values.messages import Message, Reply, user
from toolglot.values.request import Schema
from toolglot.wire.spec import SPECS

__all__ = ["FINAL_ANSWER_TOOL", "StructuredOutput"]

FINAL_ANSWER_TOOL = "final_answer"
_MAX_ATTEMPTS = 3


class StructuredOutput:
    """The structured output of one run."""

    def __init__(self, shape: "type[Any] | Schema") -> None:
        self._type = None if isinstance(shape, dict) else OutputType(shape)
        self._inner_schema: Schema = self._type.schema if self._type else cast(Schema, shape)
        # Providers only accept an object with named properties as the root: any other value is wrapped into
        # one.
        self._is_wrapped = not (
            self._inner_schema.get("type") == "object" and self._inner_schema.get("properties")
        )
        self.schema: Schema = _wrap(self._inner_schema) if self._is_wrapped else self._inner_schema
        self.output: Any = None
        self.is_complete = False
        self.failures = 0  # answers that were not accepted
        self.problem = ""  # what is wrong with the last of too many
        self.repairs: tuple[Repair, ...] = ()  # of the output
        self._checked_count = 0

        def accept(**answer: Any) -> str:
            value = answer["value"] if self._is_wrapped else answer
            self._accept(value)
            return "Accepted."

        description = (
            "Give the final answer. Call this exactly once, when everything else is done; do not "
            "answer in plain text."
        )
        self._answer_tool = tool_from_schema(
            FINAL_ANSWER_TOOL, description, self.schema, accept, inline=True, effects="read", approval=False
        )

    @property
    def is_over(self) -> bool:
        """Whether the output is there, or the model has failed to give it too often."""
        return self.is_complete or bool(self.problem)

    def answer_tool(self, profile: Profile, *, with_tools: bool) -> Tool | None:
        """Return the tool that takes the answer; None if the wire enforces the schema."""
        is_native = profile.json_output == "schema" and (
            not with_tools or SPECS[profile.wire].output_with_tools
        )
        return None if is_native else self._answer_tool

    def check_reply(self, reply: Reply, profile: Profile) -> Message | None:
        """Return the complaint to send; None if the output is there, or after too many failures."""
        if self.is_over:
            return None
        problem = ""
        for answer in self._read_answers(reply.text, profile):
            if self.is_complete:
                break
            try:
                self._accept(answer)
            except ValueError as e:
                problem = problem or str(e)
        problem = problem or "it is not JSON"
        if not self.is_complete:
            self._count_failure(problem)
        if self.is_over:
            return None
        hint = (
            f"Call {FINAL_ANSWER_TOOL} with the answer, or answer with JSON that matches "
            f"{dumps_text(self.schema)}"
        )
        return user(f"The answer does not have the requested shape: {problem}\n{hint}")

    def _read_answers(self, text: str, profile: Profile) -> Iterator[Any]:
        """Yield what a text can mean, the most likely first.

        Models that are not constrained may leave out the wrapper.
        """
        with suppress(ValueError):
            answer = tolerant_loads(text)[0]
            if isinstance(answer, dict) and (dialect := SPECS[profile.wire].output_dialect):
                lowered = lower(self.schema, getattr(dialects, dialect), tool_name="output")
                answer = restore(cast(dict[str, Any], answer), lowered)
            if self._is_wrapped and isinstance(answer, dict) and "value" in answer:
                yield answer["value"]
            yield answer
        if self._is_wrapped:
            yield text.strip()

    def reopen(self) -> None:
        """Expect another answer: the user has sent a message after this one. Until then, this one is kept."""
        self.is_complete, self.failures, self.problem = False, 0, ""

    def check_outcomes(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Count failed calls of the answer tool."""
        new, self._checked_count = outcomes[self._checked_count :], len(outcomes)
        for outcome in new:
            if outcome.call.name == FINAL_ANSWER_TOOL and outcome.result.is_error:
                self._count_failure(outcome.result.text)

    def _count_failure(self, problem: str) -> None:
        self.failures += 1
        if self.failures >= _MAX_ATTEMPTS:
            self.problem = f"the model did not give it in {_MAX_ATTEMPTS} attempts: {problem}"

    def _accept(self, answer: Any) -> None:
        escaped = escape_nested_surrogates(answer)
        output = escaped
        if self._type is not None:
            output = self._type.validate(escaped)
        elif issues := find_issues(escaped, self._inner_schema):
            raise ValueError("; ".join(map(str, issues[:5])))
        if escaped != answer:
            self.repairs = (
                Repair(
                    "text", "output", "half a character, which cannot be encoded, is written as its escape"
                ),
            )
        self.output, self.is_complete = output, True


def _wrap(schema: Schema) -> Schema:
    """Return the schema of an object whose only property is `value`; definitions stay at the root, where
    references look.
    """
    inner = {key: item for key, item in schema.items() if key != "$defs"}
    wrapper: Schema = {
        "type": "object",
        "properties": {"value": inner},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {**wrapper, "$defs": schema["$defs"]} if "$defs" in schema else wrapper
