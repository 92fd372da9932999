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
from typing import Any, cast

import msgspec
import pytest

import toolglot
from toolglot.builtin.tools import builtins
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import FACADE_MODULES, find_facade

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "toolglot"
PARTICIPLE = re.compile(
    r"\w{3,}ed|said|told|given|kept|made|found|known|shown|written|meant|left|cut|held|chosen|spoken|bound|lost|sent|taken|seen"
    r"|understood|ran|built"
)
NOT_PARTICIPLES = {"feed", "embed", "speed", "need", "seed", "exceed", "proceed", "shared"}
VAGUE = {"found", "said", "one", "own", "told", "given", "more", "rest", "made", "what", "why", "place", "most"}
COMMENTED = ("wire", "schema", "engine", "builtin/shell")
# Tables of data may be long: splitting them would only hide them.
DATA_MODULES: set[str] = set()

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(msgspec.Struct):
    """One source file, parsed."""

    path: str
    lines: int
    comments: int
    """Only counted in the packages that must have some."""
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
        parsed.append(Module(name, text.count("\n"), comments, list(ast.walk(ast.parse(text)))))
    return parsed


@cache
def functions() -> list[tuple[Module, Function]]:
    return [(module, function) for module in modules() for function in module.functions()]


def test_functions_are_named_with_verbs() -> None:
    names = [
        f"{module.path}:{function.lineno} {function.name}"
        for module, function in functions()
        if PARTICIPLE.fullmatch(first := function.name.strip("_").split("_")[0]) and first not in NOT_PARTICIPLES
    ]
    assert len(names) < 0.02 * len(functions()), "past participles as function names, use a verb:\n" + "\n".join(names)


def test_locals_say_what_they_hold() -> None:
    stores = [
        (module.path, node)
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    vague = [f"{path}:{node.lineno} {node.id}" for path, node in stores if node.id in VAGUE]
    assert len(vague) < 0.005 * len(stores), "vague names, say what the value is:\n" + "\n".join(vague)


def test_private_helpers_are_used_more_than_once() -> None:
    single: list[str] = []
    for module in modules():
        uses: Counter[str] = Counter()
        for node in module.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                uses[node.id] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
        private = [function for function in module.functions() if function.name.startswith("_")]
        single += [f"{module.path}:{function.lineno} {function.name}" for function in private if uses[function.name] == 1]
    assert len(single) < 0.15 * len(functions()), f"{len(single)} helpers with a single use, inline them:\n" + "\n".join(single)


def test_comments_explain_the_hard_packages() -> None:
    chosen = [module for module in modules() if module.path.startswith(COMMENTED)]
    density = 100 * sum(module.comments for module in chosen) / sum(module.lines for module in chosen)
    assert density >= 4, f"{density:.1f} comments per 100 lines in {', '.join(COMMENTED)}: say why the odd lines are there"


def test_functions_classes_and_modules_are_small() -> None:
    big = [
        f"{module.path}:{function.lineno} {function.name}: {function.end_lineno - function.lineno + 1} lines"
        for module, function in functions()
        if function.end_lineno and function.end_lineno - function.lineno >= 60
    ]
    big += [
        f"{module.path}: {module.lines} lines" for module in modules() if module.lines > 500 and module.path not in DATA_MODULES
    ]
    for module in modules():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(item, Function) and not item.name.startswith("__") for item in node.body)
                big += [f"{module.path}:{node.lineno} {node.name}: {methods} methods"] if methods > 20 else []
    assert not big, "at most 60 lines in a function, 500 in a module, 20 methods in a class:\n" + "\n".join(big)


@pytest.mark.parametrize("facade_id", FACADE_MODULES)
def test_every_tool_and_parameter_is_described(facade_id: str, tmp_path: Path) -> None:
    state = builtins(tmp_path, state_dir=tmp_path / "state")
    state.close()
    facade = BoundFacade(find_facade(facade_id), "", [tool.name for tool in state.all_tools])
    missing: list[str] = []
    for definition in facade.visible_tools(tuple(tool.definition for tool in state.all_tools)):
        missing += [] if definition.description else [definition.name]
        missing += [f"{definition.name}.{path}" for path in undescribed(definition.parameters or {}, "")]
    assert not missing, "write a description with unit, range and default:\n" + "\n".join(missing)


def undescribed(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the parameters of an object schema that have no description, also those of nested objects."""
    for name, parameter in schema.get("properties", {}).items():
        if not parameter.get("description"):
            yield f"{prefix}{name}"
        nested = parameter.get("items", parameter)
        if isinstance(nested, dict):
            yield from undescribed(cast(dict[str, Any], nested), f"{prefix}{name}.")


def test_the_glossary_has_public_names() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    glossary = text[text.index("## Glossary") : text.index("## Layout")]
    names = set(re.findall(r"`([A-Z]\w+)`", glossary))
    defined = {node.name for module in modules() for node in module.nodes if isinstance(node, ast.ClassDef)}
    assert names - defined - set(toolglot.__all__) == set(), "the glossary of docs/architecture.md has names that do not exist"
    public = {name for name in toolglot.__all__ if isinstance(value := getattr(toolglot, name), type) and is_concept(value)}
    assert public - names == set(), "explain these public names in the glossary of docs/architecture.md"


def is_concept(value: type) -> bool:
    """Whether a public class needs an entry of its own: errors and events are explained by their docstrings."""
    return not issubclass(value, BaseException) and value.__module__ != "toolglot.events"
