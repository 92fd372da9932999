"""The type parameters of public classes.

Their defaults (PEP 696) make a bare `Tool` or `Context` mean one of anything. They are for type checkers
only: `typing` has them from Python 3.13 on, and importing `typing_extensions` takes longer than the rest of
the package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters", default=...)
    Returned = TypeVar("Returned", default=Any)
    Needs = TypeVar("Needs", default=Any, contravariant=True)  # what a tool takes as the data of its Context
    NeedsOf = TypeVar("NeedsOf", default=Any)  # the same, of a function
    Data = TypeVar("Data", default=Any)
    OutputValue = TypeVar("OutputValue", default=Any)
    OtherData = TypeVar("OtherData", default=Any)  # of an agent that a class method creates
    OtherOutput = TypeVar("OtherOutput", default=Any)
else:
    from typing import ParamSpec, TypeVar

    Parameters = ParamSpec("Parameters")
    Returned, Data, OutputValue = TypeVar("Returned"), TypeVar("Data"), TypeVar("OutputValue")
    Needs, NeedsOf = TypeVar("Needs", contravariant=True), TypeVar("NeedsOf")
    OtherData, OtherOutput = TypeVar("OtherData"), TypeVar("OtherOutput")
