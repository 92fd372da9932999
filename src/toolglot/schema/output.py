"""A Python type as the shape of an answer: its JSON Schema, and the check that turns an answer into a value of it."""

import sys
from typing import Any, get_type_hints

from toolglot.errors import UsageError
from toolglot.schema.derive import untitled
from toolglot.schema.plain import Schema

__all__ = ["OutputShape"]


class OutputShape:
    """pydantic does the work; it is loaded with the first shape."""

    def __init__(self, shape: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(_readable(shape))
            self.schema: Schema = untitled(self._adapter.json_schema())
        except (PydanticUserError, TypeError) as e:
            raise UsageError(f"{shape!r} cannot be the shape of an answer: {str(e).partition(chr(10))[0]}") from None

    def validate(self, answer: Any) -> Any:
        """The answer as a value of the type. Raises ValueError, in words for the model."""
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(answer)
        except ValidationError as e:
            found = [f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}" for one in e.errors()[:5]]
            raise ValueError("; ".join(found)) from None


def _readable(shape: Any) -> Any:
    """Before Python 3.12 pydantic reads only the TypedDict of typing_extensions."""
    from typing_extensions import TypedDict, is_typeddict

    if not is_typeddict(shape) or type(shape).__module__ == "typing_extensions" or sys.version_info >= (3, 12):
        return shape
    fields = {name: _readable(kind) for name, kind in get_type_hints(shape, include_extras=True).items()}
    made: Any = TypedDict(shape.__name__, fields, total=shape.__total__)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues, reportUnknownVariableType]
    made.__doc__ = shape.__doc__
    return made
