"""A Python type as the type of structured output: its JSON Schema, and the validation of a model's answer."""

import sys
from typing import Any, get_type_hints

from toolglot.errors import UsageError
from toolglot.schema.derive import strip_titles
from toolglot.schema.json_schema import Schema

__all__ = ["OutputType"]


class OutputType:
    """A type that answers are parsed into. pydantic does the work; it is imported with the first one."""

    def __init__(self, output_type: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(_replace_typeddict(output_type))
            self.schema: Schema = strip_titles(self._adapter.json_schema())
        except (PydanticUserError, TypeError) as e:
            raise UsageError(f"{output_type!r} cannot be an output type: {str(e).partition(chr(10))[0]}") from None

    def validate(self, answer: Any) -> Any:
        """Return the answer as a value of the type. Raises ValueError with a message for the model."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(answer)
        except ValidationError as e:
            # Five are enough to act on: a wrong list item can raise hundreds.
            errors = [f"{'.'.join(map(str, error['loc'])) or 'the answer'}: {error['msg']}" for error in e.errors()[:5]]
            raise ValueError("; ".join(errors)) from None


def _replace_typeddict(output_type: Any) -> Any:
    """Rebuild a TypedDict: before Python 3.12 pydantic only accepts the one of typing_extensions."""
    from typing_extensions import TypedDict, is_typeddict

    if not is_typeddict(output_type) or type(output_type).__module__ == "typing_extensions" or sys.version_info >= (3, 12):
        return output_type
    fields = {name: _replace_typeddict(hint) for name, hint in get_type_hints(output_type, include_extras=True).items()}
    rebuilt: Any = TypedDict(output_type.__name__, fields, total=output_type.__total__)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues, reportUnknownVariableType]
    rebuilt.__doc__ = output_type.__doc__
    return rebuilt
