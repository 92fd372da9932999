"""The source reads like other Python libraries: names, sizes, comments, descriptions of tools.

Limits follow the figures of h11, httpx, llm and pydantic-ai. A failure lists the names to change.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard, cast

import msgspec
import pytest

import toolglot
from toolglot.builtin.tools import builtins
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import FACADE_MODULES, find_facade

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "toolglot"
TESTS = ROOT / "tests"
PARTICIPLE = re.compile(
    r"\w{3,}ed|said|told|given|kept|made|found|known|shown|written|meant|left|cut|held|chosen|spoken|bound|lost|sent|taken|seen"
    r"|understood|ran|built"
)
NOT_PARTICIPLES = {"feed", "embed", "speed", "need", "seed", "exceed", "proceed", "shared"}
VAGUE = {
    "found",
    "said",
    "one",
    "own",
    "told",
    "given",
    "more",
    "rest",
    "made",
    "what",
    "why",
    "place",
    "most",
}
COMMENTED = ("wire", "schema", "engine", "builtin/shell")
# Dense functions that are left. One with more than 8 decisions, and more than four per five statements, is
# dense.
DENSE_LIST = Path(__file__).with_name("dense_functions.txt")
DECISIONS = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(msgspec.Struct):
    """One source file, parsed."""

    path: str
    lines: int
    comments: int
    """Only counted in the packages that must have some."""
    tree: ast.Module
    nodes: list[ast.AST]
    """All nodes of its tree, which every test looks at."""

    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function) and not node.name.startswith("__")]


@cache
def modules() -> list[Module]:
    parsed: list[Module] = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(SOURCE).as_posix()
        tokens = tokenize.generate_tokens(io.StringIO(text).readline) if name.startswith(COMMENTED) else ()
        comments = sum(token.type == tokenize.COMMENT for token in tokens)
        tree = ast.parse(text)
        parsed.append(Module(name, text.count("\n"), comments, tree, list(ast.walk(tree))))
    return parsed


@cache
def functions() -> list[tuple[Module, Function]]:
    return [(module, function) for module in modules() for function in module.functions()]


@pytest.mark.parametrize(("folder", "share"), [(SOURCE, 0.02), (TESTS, 0.015)], ids=["src", "tests"])
def test_functions_are_named_with_verbs(folder: Path, share: float) -> None:
    functions = [(path, node) for path, node in names_in(folder) if isinstance(node, Function)]
    names = [
        f"{path}:{function.lineno} {function.name}"
        for path, function in functions
        if PARTICIPLE.fullmatch(first := function.name.strip("_").split("_")[0])
        and first not in NOT_PARTICIPLES
    ]
    assert len(names) < share * len(functions), (
        "past participles as function names, use a verb:\n" + "\n".join(names)
    )


@pytest.mark.parametrize(("folder", "share"), [(SOURCE, 0.005), (TESTS, 0.015)], ids=["src", "tests"])
def test_locals_say_what_they_hold(folder: Path, share: float) -> None:
    stores = [(path, node) for path, node in names_in(folder) if isinstance(node, ast.Name)]
    vague = [f"{path}:{node.lineno} {node.id}" for path, node in stores if node.id in VAGUE]
    assert len(vague) < share * len(stores), "vague names, say what the value is:\n" + "\n".join(vague)


@cache
def names_in(folder: Path) -> list[tuple[str, Function | ast.Name]]:
    """Return what code names itself: its functions, and the variables that it assigns to."""
    names: list[tuple[str, Function | ast.Name]] = []
    for path in sorted(folder.rglob("*.py")):
        relative = path.relative_to(folder).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.append((relative, node))
            elif isinstance(node, Function) and not node.name.startswith("__"):
                names.append((relative, node))
    return names


def test_short_helpers_earn_their_name() -> None:
    """A callback cannot be inlined; a helper that is called once can."""
    idle: list[str] = []
    for module in modules():
        uses = Counter(used_name(node) for node in module.nodes)
        calls = Counter(used_name(node.func) for node in module.nodes if isinstance(node, ast.Call))
        for function in module.functions():
            is_single = function.name.startswith("_") and uses[function.name] == calls[function.name] == 1
            if is_single and not ast.get_docstring(function) and line_count(function) < 3:
                idle.append(f"{module.path}:{function.lineno} {function.name}")
    assert not idle, (
        "called once, with neither a docstring nor three lines: inline them, or say what they do:\n"
        + "\n".join(idle)
    )


def used_name(node: ast.AST) -> str:
    """Return the name that an expression reads, if it is a name or an attribute."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def line_count(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def test_comments_explain_the_hard_packages() -> None:
    chosen = [module for module in modules() if module.path.startswith(COMMENTED)]
    density = 100 * sum(module.comments for module in chosen) / sum(module.lines for module in chosen)
    assert density >= 4, (
        f"{density:.1f} comments per 100 lines in {', '.join(COMMENTED)}: say why the odd lines are there"
    )


def test_functions_can_be_read_in_one_sitting() -> None:
    long = [
        f"{module.path}:{f.lineno} {f.name}: {line_count(f)} lines"
        for module, f in functions()
        if line_count(f) > 100
    ]
    assert not long, "at most 100 lines in a function:\n" + "\n".join(long)


def test_no_function_becomes_dense() -> None:
    """The listed functions are the ones left to unfold: the list may only become shorter."""
    dense = {line for module in modules() for line in find_dense_functions(module)}
    lines = DENSE_LIST.read_text(encoding="utf-8").splitlines()
    listed = {line for line in lines if line and not line.startswith("#")}
    assert dense - listed == set(), "a reader decides too much in these functions: unfold them"
    assert listed - dense == set(), f"these are not dense any more: remove them from {DENSE_LIST.name}"


def test_conditional_expressions_are_not_nested() -> None:
    nested = [
        f"{module.path}:{node.lineno}"
        for module in modules()
        for node in module.nodes
        if is_nested_conditional(node)
    ]
    assert not nested, (
        "conditional expressions within others: use if and else, or a function with early returns"
    )


def find_dense_functions(module: Module) -> Iterator[str]:
    for name, function in qualified_functions(module.tree, ""):
        decisions, statements = count_decisions(function), count_statements(function)
        if decisions > 8 and 5 * decisions > 4 * statements:
            yield f"{module.path} {name}"
        if decisions > 20:
            yield f"{module.path} {name}: over 20 decisions"


def qualified_functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
        is_named = isinstance(child, Function | ast.ClassDef)
        yield from qualified_functions(child, f"{prefix}{child.name}." if is_named else prefix)


def count_decisions(function: Function) -> int:
    """Count what a reader has to decide; layout does not matter."""
    count = 0
    for node in ast.walk(function):
        if isinstance(node, DECISIONS):
            count += 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def count_statements(function: Function) -> int:
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
    return sum(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in statements
    )


def is_nested_conditional(node: ast.AST) -> TypeGuard[ast.IfExp]:
    return isinstance(node, ast.IfExp) and any(
        isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node
    )


@pytest.mark.parametrize("facade_id", FACADE_MODULES)
def test_every_tool_and_parameter_is_described(facade_id: str, tmp_path: Path) -> None:
    state = builtins(tmp_path, state_dir=tmp_path / "state")
    state.close()
    facade = BoundFacade(find_facade(facade_id), "", [tool.name for tool in state.all_tools])
    missing: list[str] = []
    for definition in facade.visible_tools(tuple(tool.definition for tool in state.all_tools)):
        missing += [] if definition.description else [definition.name]
        missing += [f"{definition.name}.{path}" for path in find_undescribed(definition.parameters or {}, "")]
    assert not missing, "write a description with unit, range and default:\n" + "\n".join(missing)


def find_undescribed(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the parameters of an object schema that have no description, also those of nested objects."""
    for name, parameter in schema.get("properties", {}).items():
        if not parameter.get("description"):
            yield f"{prefix}{name}"
        nested = parameter.get("items", parameter)
        if isinstance(nested, dict):
            yield from find_undescribed(cast(dict[str, Any], nested), f"{prefix}{name}.")


def test_the_glossary_has_public_names() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    glossary = text[text.index("## Glossary") : text.index("## Layout")]
    names = set(re.findall(r"`([A-Z]\w+)`", glossary))
    defined = {node.name for module in modules() for node in module.nodes if isinstance(node, ast.ClassDef)}
    assert names - defined - set(toolglot.__all__) == set(), (
        "the glossary of docs/architecture.md has names that do not exist"
    )
    public = {
        name
        for name in toolglot.__all__
        if isinstance(value := getattr(toolglot, name), type) and is_concept(value)
    }
    assert public - names == set(), "explain these public names in the glossary of docs/architecture.md"


def is_concept(value: type) -> bool:
    """Whether a public class needs an entry of its own: errors and events are explained by their docstrings."""
    return not issubclass(value, BaseException) and value.__module__ != "toolglot.values.events"


def test_modules_of_tests_have_names_of_their_own() -> None:
    # pytest imports those in directories without __init__.py by these names alone, and collects nothing if
    # two are equal.
    modules = (
        path for path in (ROOT / "tests").rglob("test_*.py") if not (path.parent / "__init__.py").exists()
    )
    names = Counter(path.name for path in modules)
    assert [name for name, count in names.items() if count > 1] == []
