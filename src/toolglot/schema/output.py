"""A Python type for structured output: its JSON Schema, and validation of a model's answer."""

from contextlib import suppress
from inspect import isroutine
from typing import Any, cast

from toolglot.errors import UsageError
from toolglot.schema.arguments import Issue, check_schema, find_issues
from toolglot.schema.coerce import coerce
from toolglot.schema.derive import strip_titles
from toolglot.schema.json_schema import Schema
from toolglot.schema.typed_dicts import replace_typed_dicts

__all__ = ["OutputType", "check_output_type"]

_UNDEFINED = ("class-not-fully-defined", "undefined-annotation")  # codes of pydantic's errors


class _UndefinedName(UsageError):
    """A type that names another one which is not defined, or not yet."""


class OutputType:
    """A type into which answers are parsed, by pydantic, which is imported on first use."""

    def __init__(self, output_type: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        if isroutine(output_type):
            raise UsageError(
                f"{output_type!r} cannot be an output type: it is a function; pass a type, or a JSON Schema"
            )
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(replace_typed_dicts(output_type))
            self.schema: Schema = strip_titles(self._adapter.json_schema())
        except (PydanticUserError, TypeError) as e:
            code = getattr(e, "code", None)
            if code == "schema-for-unknown-type":
                reason = "pydantic does not know it; pass a type, or a JSON Schema"
                raise UsageError(f"{output_type!r} cannot be an output type: {reason}") from None
            kind = _UndefinedName if code in _UNDEFINED else UsageError
            raise kind(f"{output_type!r} cannot be an output type: {str(e).partition(chr(10))[0]}") from None

    def validate(self, answer: Any) -> Any:
        """Return the answer as a value of the type. Raises ValueError with a message for the model."""
        from pydantic import ValidationError

        try:
            value = self._adapter.validate_python(answer)
        except ValidationError as e:
            # Five are enough to act on: a wrong list item can raise hundreds.
            lines: list[str] = []
            for error in e.errors()[:5]:
                place = ".".join(map(str, error["loc"])) or "the answer"
                lines.append(f"{place}: {error['msg']}")
            raise ValueError("; ".join(lines)) from None
        if not _contains_boolean(answer):
            return value
        issues = self._find_misread_booleans(answer)
        if issues:
            raise ValueError("; ".join(issues[:5]))
        return value

    def _find_misread_booleans(self, answer: Any) -> list[str]:
        """Return where a boolean stands for a value of another type: pydantic reads true as the number 1."""
        try:
            coerced, _ = coerce(answer, self.schema)
            issues = find_issues(coerced, self.schema)
        except UsageError:  # a schema of the caller's own making, which only pydantic understands
            return []
        return [str(issue) for issue in issues if _is_about_boolean(issue)]


def check_output_type(output_type: Any) -> None:
    """Raise UsageError for what is neither a type nor a JSON Schema.

    What a type refers to may be defined later than the agent that has it; only a run needs it.
    """
    if isinstance(output_type, dict):
        try:
            check_schema(cast(Schema, output_type))
        except UsageError as e:
            raise UsageError(f"output_type: {e}") from None
        return
    with suppress(_UndefinedName):
        OutputType(output_type)


def _is_about_boolean(issue: Issue) -> bool:
    if isinstance(issue.received, bool):
        return True
    return issue.keyword in ("anyOf", "oneOf") and _contains_boolean(issue.received)


def _contains_boolean(value: Any) -> bool:
    match value:
        case bool():
            return True
        case dict():
            return any(map(_contains_boolean, cast(dict[str, Any], value).values()))
        case list():
            return any(map(_contains_boolean, cast(list[Any], value)))
        case _:
            return False
