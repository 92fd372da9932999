"""A Python type as the shape of an answer: its JSON Schema, and the check that turns an answer into a value of it."""

import sys
from typing import Any, get_type_hints

from toolglot.errors import UsageError
from toolglot.schema.derive import strip_titles
from toolglot.schema.json_schema import Schema

__all__ = ["OutputType"]


class OutputType:
    """pydantic does the work; it is loaded with the first shape."""

    def __init__(self, output_type: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(_replace_typeddict(output_type))
            self.schema: Schema = strip_titles(self._adapter.json_schema())
        except (PydanticUserError, TypeError) as e:
            raise UsageError(f"{output_type!r} cannot be the shape of an answer: {str(e).partition(chr(10))[0]}") from None

    def validate(self, answer: Any) -> Any:
        """The answer as a value of the type. Raises ValueError, in words for the model."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(answer)
        except ValidationError as e:
            found = [f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}" for one in e.errors()[:5]]
            raise ValueError("; ".join(found)) from None


def _replace_typeddict(output_type: Any) -> Any:
    """Before Python 3.12 pydantic reads only the TypedDict of typing_extensions."""
    from typing_extensions import TypedDict, is_typeddict

    if not is_typeddict(output_type) or type(output_type).__module__ == "typing_extensions" or sys.version_info >= (3, 12):
        return output_type
    fields = {name: _replace_typeddict(kind) for name, kind in get_type_hints(output_type, include_extras=True).items()}
    made: Any = TypedDict(output_type.__name__, fields, total=output_type.__total__)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues, reportUnknownVariableType]
    made.__doc__ = output_type.__doc__
    return made
