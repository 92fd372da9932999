"""Every field of a public struct, and every key of a public TypedDict, says what it is, in editors and the reference."""

import ast
import inspect
from pathlib import Path
from typing import Any, is_typeddict

import msgspec
import pytest

import toolglot

KINDS = [getattr(toolglot, name) for name in toolglot.__all__]
RECORDS = [
    kind
    for kind in KINDS
    if inspect.isclass(kind) and (issubclass(kind, msgspec.Struct) or is_typeddict(kind))
]


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_field_has_a_docstring(kind: type[Any]) -> None:
    """The docstring of a field is the string that follows it."""
    file = inspect.getsourcefile(kind)
    assert file is not None
    nodes = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
    body = next(node.body for node in nodes if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    undocumented: list[str] = []
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        is_documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if not is_documented and not statement.target.id.startswith("_"):
            undocumented.append(statement.target.id)
    assert not undocumented, f"say what these fields of {kind.__name__} are"


def test_there_are_records_to_check() -> None:
    assert {toolglot.RunResult, toolglot.EngineOptions, toolglot.Request, toolglot.ToolResult} <= {*RECORDS}
