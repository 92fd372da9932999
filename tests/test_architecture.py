"""docs/architecture.md is true: it names every package and module, and its order of imports is the one that
is checked.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolglot.cli.main import COMMANDS
from toolglot.facades.catalog import FACADE_MODULES

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "toolglot"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "tool"
]["importlinter"]["contracts"]


def find_contract(name: str) -> dict[str, Any]:
    (contract,) = [contract for contract in CONTRACTS if contract["name"] == name]
    return contract


# Modules that are found by a table: the layout describes them together, so that a new one needs no line.
ONE_OF_MANY = {
    *(module for module, _ in COMMANDS.values()),
    *FACADE_MODULES.values(),
    *(
        path.stem
        for path in (SOURCE / "builtin").glob("*.py")
        if "\ndef create_tools(" in path.read_text(encoding="utf-8")
    ),
}

LONG_MODULE = 300
"""Lines."""
LAYERS: list[str] = find_contract("Imports point down only")["layers"]


def read_layout() -> dict[str, set[str]]:
    """Return what the layout names, by top-level package: `name/` is a package, all other names outside
    parentheses modules.
    """
    match = re.search(r"```text\nsrc/toolglot/\n(.*?)```", PAGE, re.DOTALL)
    assert match
    layout: dict[str, set[str]] = {}
    for part in re.split(r"^(?:├── |└── )", match[1], flags=re.MULTILINE)[1:]:
        names = re.findall(r"\w+/?", remove_parentheses(part))
        layout[names[0]] = {*names[1:]} - {"over"}
    return layout


def list_modules() -> dict[str, set[str]]:
    """Return the packages and modules that there are, in the same form. A package has a Python file."""
    modules: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.stem in ("__init__", "__main__"):
            continue
        *packages, module = path.relative_to(SOURCE).with_suffix("").parts
        if not packages:
            modules[module] = set()
            continue
        modules.setdefault(f"{packages[0]}/", set()).update(
            [*(f"{package}/" for package in packages[1:]), module]
        )
    return modules


def test_the_layout_names_every_package_and_module_and_no_others() -> None:
    layout, modules = read_layout(), list_modules()
    assert {*layout} == {*modules}
    missing = {
        package: names for package in modules if (names := modules[package] - layout[package] - ONE_OF_MANY)
    }
    assert not missing, "add them to the layout in docs/architecture.md"
    gone = {package: names for package in modules if (names := layout[package] - modules[package])}
    assert not gone, "the layout in docs/architecture.md names what does not exist"


def test_the_layout_explains_every_long_module() -> None:
    missing: list[str] = []
    for package, names in read_explained().items():
        for path in SOURCE.joinpath(package.rstrip("/")).rglob("*.py"):
            is_long = len(path.read_text(encoding="utf-8").splitlines()) > LONG_MODULE
            if is_long and path.stem not in names | ONE_OF_MANY:
                missing.append(path.relative_to(SOURCE).as_posix())
    assert not missing, "say in the layout in docs/architecture.md what they do, in parentheses"


def read_explained() -> dict[str, set[str]]:
    """Return the modules with an explanation, by top-level package: entries are separated by two spaces."""
    match = re.search(r"```text\nsrc/toolglot/\n(.*?)```", PAGE, re.DOTALL)
    assert match
    explained: dict[str, set[str]] = {}
    for part in re.split(r"^(?:├── |└── )", match[1], flags=re.MULTILINE)[1:]:
        entries = [entry for entry in re.split(r"\s{2,}|\s*[│├└─]+\s*", part) if entry.rstrip().endswith(")")]
        explained[part.split(maxsplit=1)[0]] = {
            name for entry in entries for name in re.findall(r"\w+", remove_parentheses(entry))
        }
    return explained


def remove_parentheses(text: str) -> str:
    return re.sub(r"\([^)]*\)", "", text)


def test_the_table_of_where_to_start_names_modules_that_exist() -> None:
    table = PAGE[PAGE.index("## Where to start") : PAGE.index("## Layout")]
    modules = re.findall(r"`([a-z_]+(?:/\w+)+)`", table)
    assert len(modules) > 25
    assert [name for name in modules if not (SOURCE / f"{name}.py").is_file()] == []


def test_what_decides_never_waits() -> None:
    """As the conventions in CONTRIBUTING.md say."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    match = re.search(
        r"Each decision is made in one place: (.*?)\. What decides never\s+waits", text, re.DOTALL
    )
    assert match
    names = re.findall(r"`(\w+/\w+)`", match[1])
    assert len(names) > 5
    waiting = [
        name
        for name in names
        if re.search(r"^\s*async |\bawait ", (SOURCE / f"{name}.py").read_text(), re.MULTILINE)
    ]
    assert waiting == []


def test_the_order_of_imports_is_the_one_that_is_checked() -> None:
    match = re.search(r"^Imports only go down:\n`(.*?)`", PAGE, re.MULTILINE)
    assert match
    order = [{*layer.split(", ")} for layer in match[1].split(" → ")]
    assert order == [{*re.findall(r"toolglot\.(\w+)", layer)} for layer in LAYERS]
    packages = [name.rstrip("/") for name in list_modules()]
    assert sorted(name for layer in order for name in layer) == sorted(packages), (
        "add the package to the contract"
    )


def test_what_reads_files_is_listed() -> None:
    """Everything below `tools` is without I/O, as another contract has it, except for what the page names."""
    match = re.search(
        r"Below `tools`, only (.*?) read files, the clock\s+or the environment", PAGE, re.DOTALL
    )
    assert match
    pure: list[str] = find_contract("The core does no I/O and reads neither the clock nor the environment")[
        "source_modules"
    ]
    impure = {name for name in list_below_tools() if f"toolglot.{name}" not in pure}
    assert {*re.findall(r"`(\w+)`", match[1])} == {name.removeprefix("common.") for name in impure}


def list_below_tools() -> Iterator[str]:
    (index,) = [index for index, layer in enumerate(LAYERS) if "toolglot.tools" in layer]
    for layer in LAYERS[index + 1 :]:
        for name in re.findall(r"toolglot\.(\w+)", layer):
            yield from (
                [f"common.{module}" for module in list_modules()["common/"]] if name == "common" else (name,)
            )
