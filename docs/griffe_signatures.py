"""What the API reference shows of attributes: their types and defaults, not the code that computes them.

Griffe, which reads the code for mkdocstrings, takes the right side of every assignment for a default.
`zensical.toml` loads this extension of it.
"""

import ast
import re
from dataclasses import replace
from typing import Any

from griffe import (
    Attribute,
    Class,
    Docstring,
    Expr,
    ExprBinOp,
    ExprCall,
    ExprName,
    ExprSubscript,
    Extension,
    Function,
    Module,
)

_PRIVATE_TYPE = re.compile(r"\b_[A-Z]\w{2,}")  # shorter ones are type variables
_SYNC_DOC = (
    "Like [`{0}`][{1}.{0}], for callers without an event loop. Ctrl-C leaves a valid conversation."
)


class ReadableSignatures(Extension):
    """Rewrites what classes show."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Visit a class when its attributes and methods are known."""
        for name, member in list(cls.members.items()):
            if isinstance(member, Function):
                tidy_function(member)
            if not isinstance(member, Attribute):
                continue
            if is_call_of(member.value, "blocking"):
                cls.set_member(name, make_sync(member, cls))
                continue
            if member.annotation is None:
                member.annotation = infer_type(member.value, cls)
            if "class-attribute" not in member.labels and not is_literal(member.value):
                member.value = None  # an expression in `__init__`
            member.annotation = resolve_private(remove_checks(member.annotation), cls)

    def on_module_members(self, *, mod: Module, **_: Any) -> None:
        """Visit a module when its functions are known."""
        for member in mod.members.values():
            if isinstance(member, Function):
                tidy_function(member)


def tidy_function(function: Function) -> None:
    """Show values instead of private constants, and no overloads that only type checkers need."""
    function.overloads = [
        overload
        for overload in function.overloads or ()
        if not any(
            _PRIVATE_TYPE.search(str(parameter.annotation)) for parameter in overload.parameters
        )
    ]
    for parameter in function.parameters:
        if isinstance(parameter.default, ExprName) and parameter.default.name.startswith("_"):
            constant = function.module.members.get(parameter.default.name)
            if isinstance(constant, Attribute):
                parameter.default = constant.value


def make_sync(member: Attribute, cls: Class) -> Function:
    """Make the method that `blocking(METHOD)` returns."""
    assert isinstance(member.value, ExprCall)
    method = cls.members[str(member.value.arguments[0])]
    assert isinstance(method, Function)
    function = Function(
        member.name,
        parameters=method.parameters,
        returns=method.returns,
        lineno=member.lineno,
        endlineno=member.endlineno,
        parent=cls,
    )
    function.docstring = Docstring(_SYNC_DOC.format(method.name, cls.path), parent=function)
    return function


def infer_type(value: str | Expr | None, cls: Class) -> str | Expr | None:
    """Return the type of what is assigned: a parameter, a cast, a new object, or a literal."""
    if isinstance(value, ExprName) and "__init__" in cls.members:
        initializer = cls.members["__init__"]
        assert isinstance(initializer, Function)
        parameter = next((each for each in initializer.parameters if each.name == value.name), None)
        return parameter.annotation if parameter else None
    if is_call_of(value, "cast"):
        assert isinstance(value, ExprCall)
        return value.arguments[0]
    if isinstance(value, ExprCall) and str(value.function)[:1].isupper():
        return value.function
    return (
        type(ast.literal_eval(str(value))).__name__
        if is_literal(value) and str(value) != "None"
        else None
    )


def remove_checks(annotation: str | Expr | None) -> str | Expr | None:
    """Remove what only the checks of options read: `Annotated[T, Accepts(…)]` is T."""
    if not isinstance(annotation, ExprSubscript) or str(annotation.left) != "Annotated":
        return annotation
    kind, *rest = getattr(annotation.slice, "elements", [annotation.slice])
    return kind if any(is_call_of(part, "Accepts") for part in rest) else annotation


def resolve_private(annotation: str | Expr | None, cls: Class) -> str | Expr | None:
    """Replace private names of types, such as `_Count`, by what they stand for."""
    if isinstance(annotation, ExprBinOp):
        sides = [resolve_private(side, cls) for side in (annotation.left, annotation.right)]
        return replace(annotation, left=sides[0], right=sides[1])
    if not isinstance(annotation, ExprName) or not annotation.name.startswith("_"):
        return annotation
    alias = cls.module.members.get(annotation.name)
    return alias.value if isinstance(alias, Attribute) else annotation


def is_call_of(value: str | Expr | None, name: str) -> bool:
    """Whether an expression is a call of a function of this name."""
    return isinstance(value, ExprCall) and str(value.function) == name


def is_literal(value: str | Expr | None) -> bool:
    """Whether an expression is a number, a string, True, False or None."""
    try:
        return isinstance(ast.literal_eval(str(value)), str | int | float | None)
    except (SyntaxError, ValueError):
        return False
