"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the project: each touches the files
that it names.

All of them are followed in one copy. The programs below show that what was added works, and that nothing else
was needed."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.untraced


class Copy:
    """A copy of the project, and what the present recipe has touched in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.touched = Counter[str]()
        """Places by file, as CONTRIBUTING.md names files: relative to the package, or to the project."""
        self.places: dict[str, Counter[str]] = {}
        """The same by recipe."""
        for name in ("src", "docs", "examples", "tests", "bench"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("node_modules", ".*"))
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml"):
            shutil.copy2(ROOT / name, root)

    def _find(self, file: str) -> Path:
        self.touched[file] += 1
        return self.root / (
            file if file.startswith(("tests/", "docs/", "CHANGELOG")) else f"src/toolglot/{file}"
        )

    def create(self, file: str, name: str, text: str) -> None:
        """Write a new file. `file`: as CONTRIBUTING.md says it, with NAME in place of its name."""
        path = self._find(file)
        path = path.with_name(path.name.replace("NAME", name))
        assert not path.exists()
        path.write_text(text, encoding="utf-8")

    def insert(self, file: str, before: str, text: str) -> None:
        path = self._find(file)
        old = path.read_text(encoding="utf-8")
        assert old.count(before) == 1, f"{file} has {before!r} {old.count(before)} times"
        path.write_text(old.replace(before, text + before), encoding="utf-8")

    def add_to_class(self, file: str, name: str, lines: str) -> None:
        """Add a field or a key at the end of those that a class declares."""

        def find_end(tree: ast.Module) -> int:
            (cls,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
            return [node.end_lineno or 0 for node in cls.body if isinstance(node, ast.AnnAssign | ast.Expr)][
                -1
            ]

        self._add_lines(file, find_end, "".join(f"    {line}\n" for line in lines.splitlines()))

    def add_to_table(self, file: str, name: str, row: str) -> None:
        """Add a row at the end of a dict, list or tuple."""
        self._add_lines(file, lambda tree: (find_value(tree, name).end_lineno or 0) - 1, f"    {row}\n")

    def add_to_union(self, file: str, name: str, member: str) -> None:
        path = self._find(file)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        line = (find_value(ast.parse("".join(lines)), name).end_lineno or 0) - 1
        lines[line] = f"{lines[line].rstrip()} | {member}\n"
        path.write_text("".join(lines), encoding="utf-8")

    def _add_lines(self, file: str, find_end: Callable[[ast.Module], int], text: str) -> None:
        path = self._find(file)
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        lines.insert(find_end(ast.parse("".join(lines))), text)
        path.write_text("".join(lines), encoding="utf-8")

    def run(self, *words: str) -> None:
        """Run Python with the package of this copy."""
        # coverage does not watch the copy; bytecode is cached, as it is run often
        dropped = ("COV", "PYTEST", "PYTHONDONT")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        environ["PYTHONPATH"] = f"{self.root}/src{os.pathsep}{self.root}"
        done = subprocess.run(
            [sys.executable, *words], cwd=self.root, env=environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def find_value(tree: ast.Module, name: str) -> ast.expr:
    """Return what a module assigns to a name."""
    for node in tree.body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == name:
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return node.value
    raise AssertionError(f"no module-level {name}")


# ---- the recipes, followed

# CONTRIBUTING.md shows these.
FACADE_ROWS = {
    "FACADE_MODULES": '"acme": "acme",',
    "GENERATIONS": '*_list_rows("acme-code", "", "", (r"^anvil", "acme", "all Acme models")),',
    "MODELS": '"acme": "anvil-1 acme/anvil-2",',
    "the table of models": "| `anvil-1` and all other Acme models | `acme` |",
    "a scenario": '{"interpret": ["open_file", {"path": "a"}], "base": ["read", {"path": "a"}]}',
}
VENDOR_ROW = """_chat_vendor(
        id="acme",
        title="Acme",
        base_url="https://api.acme.example/v1",
        key_env=("ACME_API_KEY",),
        limits=ProviderLimits(as_of="2026-11-19", tools=3, source="Acme's API reference"),
        features=_COMPATIBLE_FEATURES,
        notes=("It is imaginary.",),
    ),"""


def add_vendor(copy: Copy) -> None:
    copy.add_to_table("providers/catalog.py", "_ROWS", VENDOR_ROW)


def add_fact(copy: Copy) -> None:
    row = """Fact(("acme",), r"^anvil-1", {"sampling": "none"}, "Acme's API reference"),"""
    copy.add_to_table("providers/model_facts.py", "FACTS", row)


def add_tool(copy: Copy) -> None:
    text = '''"""The tool `flip_coin`: a random side."""

from random import choices
from typing import Annotated

from pydantic import Field

from toolglot.builtin.tool_state import ToolState
from toolglot.tools.tool import Tool, tool


def create_tools(state: ToolState) -> list[Tool]:
    """Create the tool."""

    @tool(effects="read", action="other", verb="Flip")
    def flip_coin(times: Annotated[int, Field(ge=1, le=9, description="How often (1 to 9, default 1).")] = 1) -> list[str]:
        """Flip a coin. Use it where chance must decide, not for examples."""
        return choices(["heads", "tails"], k=times)

    return [flip_coin]
'''
    copy.create("builtin/NAME.py", "coin", text)


def add_facade(copy: Copy) -> None:
    text = '''"""DATA: the tools of Acme Code."""

from toolglot.facades import rows
from toolglot.facades.table import make_view
from toolglot.facades.view import Facade

__all__ = ["TABLES"]

_VIEWS = (
    make_view(
        "open_file",
        "Open a file. Text is returned as numbered lines; use list_dir for directories.",
        "read",
        {"path!": rows.FILE},
    ),
)
TABLES = (
    Facade(
        id="acme",
        title="Acme Code",
        provider="acme",
        views=_VIEWS,
        hides=frozenset({"patch", "insert"}),
        note="Open files with open_file.",
    ),
)
'''
    copy.create("facades/NAME.py", "acme", text)
    copy.add_to_table("facades/catalog.py", "FACADE_MODULES", FACADE_ROWS["FACADE_MODULES"])
    copy.insert(
        "facades/catalog.py", '*_list_rows("kimi-code", "", "", (', f"{FACADE_ROWS['GENERATIONS']}\n    "
    )
    copy.add_to_table("tests/facades/test_catalog.py", "MODELS", FACADE_ROWS["MODELS"])
    copy.insert("docs/facades.md", "| everything else: ", f"{FACADE_ROWS['the table of models']}\n")
    records = [
        json.loads(FACADE_ROWS["a scenario"]),
        {"expressible": "read", "tool": "open_file", "required": {"path": "<text>"}, "optional": {}},
    ]
    copy.create(
        "tests/facades/scenarios/NAME.jsonl", "acme", "".join(f"{json.dumps(record)}\n" for record in records)
    )
    copy.run("-m", "tests.facades.test_schemas")
    assert (copy.root / "tests/facades/snapshots/acme.json").exists()
    copy.touched["tests/facades/snapshots/NAME.json"] += 1


def add_command(copy: Copy) -> None:
    text = '''"""`toolglot ping`: say that the program works."""

import click

from toolglot.cli.printer import print_line


@click.command()
def ping() -> int:
    """Say that the program works."""
    print_line("pong")
    return 0
'''
    copy.create("cli/NAME.py", "ping", text)
    copy.add_to_table("cli/main.py", "COMMANDS", '"ping": ("ping", "Say that the program works."),')
    test = (
        "from tests.cli.cli_kit import run_cli\n\n\ndef test_ping() -> None:\n    assert "
        'run_cli("ping").out == "pong\\n"\n'
    )
    copy.create("tests/cli/test_NAME.py", "ping", test)
    copy.insert(
        "CHANGELOG.md", "- The package contains its types", "- `toolglot ping` says that the program works.\n"
    )


def add_setting(copy: Copy) -> None:
    field = (
        'eager_start: Annotated[bool, Setting(trust="enable")] = False\n"""Start reading tools before '
        'the reply is complete."""'
    )
    copy.add_to_class("config/settings.py", "PolicySettings", field)


def add_flag(copy: Copy) -> None:
    option = """click.option("--max-parallel", type=click.IntRange(min=1), help="Maximum number of calls at once."),
    """
    copy.insert("cli/options.py", 'click.option("--base-url", ', option)
    copy.add_to_class(
        "cli/startup.py", "Flags", 'max_parallel: Annotated[int | None, _Sets("policy.max_parallel")] = None'
    )


def add_event(copy: Copy) -> None:
    text = '''class PluckChanged(Notice, frozen=True, gc=False):
    """The model takes or loses heart."""

    pluck: int

    @property
    def text(self) -> str:
        return f"pluck is now {self.pluck}"


'''
    copy.insert("values/events.py", "RunStop = Literal[", text)
    copy.add_to_union("values/events.py", "RunEvent", "PluckChanged")
    copy.insert("__init__.py", "ApprovalNeeded BlockReady", "PluckChanged ")
    copy.add_to_table("tests/values/test_events.py", "EVENTS", "ev.PluckChanged(7),")


def add_agent_option(copy: Copy) -> None:
    key = 'nickname: Annotated[str, Accepts(str, "a name")]\n"""What the agent is called."""'
    copy.add_to_class("loop/agent/config.py", "AgentOptions", key)
    copy.add_to_class("loop/agent/config.py", "AgentConfig", 'nickname: str = "nobody"')


def add_run_option(copy: Copy) -> None:
    copy.add_to_class(
        "loop/conversation_state.py",
        "RunOptions",
        'mood: Annotated[str | None, Accepts((str, NoneType), "a word")]\n"""How the run feels."""',
    )
    copy.add_to_class("loop/conversation_state.py", "RunSettings", "mood: str | None = None")


RECIPES = {
    "A vendor": add_vendor,
    "A fact about a model": add_fact,
    "A built-in tool": add_tool,
    "A facade": add_facade,
    "A command": add_command,
    "A setting": add_setting,
    "A flag": add_flag,
    "An event": add_event,
    "An option of an agent": add_agent_option,
    "An option of a run": add_run_option,
}
# What is found where after `make docs`.
DOCUMENTED = {
    "A vendor": {
        "README.md": "| Acme | `acme` |",
        "docs/providers.md": "## Acme",
        "docs/keys.md": "`ACME_API_KEY`",
    },
    "A built-in tool": {
        "docs/tools.md": "`flip_coin`",
        "docs/tool-reference.md": "How often (1 to 9, default 1).",
    },
    "A facade": {"docs/facades.md": "| `acme` |", "docs/tool-reference.md": "## acme: Acme Code"},
    "A command": {"docs/cli.md": "## toolglot ping"},
    "A setting": {
        "docs/configuration.md": "| `policy.eager_start`<br>`TOOLGLOT_POLICY_EAGER_START` | `false` | only "
        "stricter |"
    },
    "A flag": {"docs/cli.md": "--max-parallel"},
    "An event": {
        "docs/run.md": "| `PluckChanged` | `pluck` | The model takes or loses heart. |",
        "docs/reference/index.md": "[`PluckChanged`]",
        "src/toolglot/__init__.pyi": "import PluckChanged as PluckChanged",
    },
}
# Programs that use what was added.
PROGRAMS = {
    "A vendor": """
        from toolglot import Agent, create_engine
        assert create_engine("acme:m", key="k").profile.base_url == "https://api.acme.example/v1"
        assert Agent("simulator:acme/m").run_sync("say Hi.").text == "Hi."
    """,
    "A built-in tool": """
        import tempfile
        from toolglot import Agent, coding_tools, list_facades
        tools = coding_tools(tempfile.mkdtemp())
        for facade in list_facades():
            agent = Agent("simulator", tools=tools, facade=facade.id, code_mode=False)
            assert "flip_coin" in [tool.name for tool in agent.view().visible_tools], facade.id
        good, bad = agent.run_sync('call flip_coin {"times": 2} call flip_coin {"times": 0}').outcomes
        assert not good.result.is_error and bad.result.is_error, (good, bad)
    """,
    "A fact about a model": """
        from toolglot.providers.catalog import resolve_profile
        assert [resolve_profile("acme", model).sampling for model in ("anvil-1", "anvil-2")] == ["none", "all"]
    """,
    "A facade": """
        import pathlib, tempfile
        from toolglot import Agent, coding_tools
        directory = tempfile.mkdtemp()
        pathlib.Path(directory, "a").write_text("hello")
        agent = Agent("simulator:compatible/anvil-1", tools=coding_tools(directory))
        assert "Open files with open_file." in str(agent.view().model_view.system_messages(""))
        (outcome,) = agent.run_sync('call open_file {"path": "a"}').outcomes
        assert outcome.call.name == "read" and "hello" in outcome.result.text
    """,
    "A command": """
        from click.testing import CliRunner
        from toolglot.cli.main import app
        assert CliRunner().invoke(app, ["ping"]).output == "pong\\n"
        assert "Say that the program works." in CliRunner().invoke(app, ["--help"]).output
    """,
    "A setting": """
        import os
        from toolglot import UsageError, from_config
        assert from_config("simulator").config.eager_start is False
        os.environ["TOOLGLOT_POLICY_EAGER_START"] = "yes"
        assert from_config("simulator").config.eager_start is True
        os.environ["TOOLGLOT_POLICY_EAGER_START"] = "perhaps"
        try:
            from_config("simulator")
        except UsageError as e:
            assert "TOOLGLOT_POLICY_EAGER_START" in str(e), e
        else:
            raise AssertionError("it is true or false")
    """,
    "A flag": """
        from click.testing import CliRunner
        from toolglot.cli.main import app
        from toolglot.cli.startup import Flags, prepare
        with prepare(Flags(max_parallel=3)) as cli_setup:
            assert cli_setup.create_agent(approve=None).config.max_parallel == 3
        assert "calls at once" in CliRunner().invoke(app, ["run", "--help"]).output
        assert CliRunner().invoke(app, ["run", "-m", "simulator", "--max-parallel", "3", "say Hi."]).exit_code == 0
        assert CliRunner().invoke(app, ["run", "-m", "simulator", "--max-parallel", "0", "say Hi."]).exit_code == 2
    """,
    "An event": """
        from typing import get_args
        from toolglot import PluckChanged, RunEvent
        assert PluckChanged in get_args(RunEvent) and PluckChanged(7).text == "pluck is now 7"
    """,
    "An option of an agent": """
        from inspect import signature
        from toolglot import Agent, UnknownName, UsageError, from_config
        assert Agent()._setup.config.nickname == "nobody" and Agent(nickname="Ann")._setup.config.nickname == "Ann"
        assert from_config(nickname="Ann")._setup.config.nickname == "Ann"
        assert "nickname" in signature(Agent).parameters
        for options, message in ({"nickname": 5}, "a name"), ({"nickname_": "Ann"}, "did you mean 'nickname'"):
            try:
                Agent(**options)
            except UsageError as e:
                assert message in str(e), e
            else:
                raise AssertionError(options)
    """,
    "An option of a run": """
        from inspect import signature
        from toolglot import Agent, UsageError
        agent = Agent()
        agent.run_sync("say Hi.", mood="calm")
        assert agent._state.settings.mood == "calm"
        assert all("mood" in signature(method).parameters for method in (agent.run, agent.run_sync, agent.stream))
        for options, message in ({"mood": 5}, "mood: pass a word, not int"), ({"moot": "calm"}, "did you mean 'mood'"):
            try:
                agent.run_sync("say Hi.", **options)
            except UsageError as e:
                assert message in str(e), e
            else:
                raise AssertionError(options)
    """,
}
# The project's own tests of what the recipes add to: they fail if a step is missing.
OWN_TESTS = (
    "tests/cli/test_commands.py::test_recipe_of_a_command",
    "tests/cli/test_commands.py::test_every_command_is_in_the_table",
    "tests/cli/test_ping.py",
    "tests/cli/test_startup.py::TestPrecedence::test_every_flag_is_an_option_and_every_option_a_flag",
    "tests/config/test_trust_rules.py::test_a_setting_declares_everything_on_its_field",
    "tests/config/test_trust_rules.py::test_every_setting_is_documented",
    "tests/engine/test_factory.py",
    "tests/facades/test_catalog.py",
    "tests/facades/test_schemas.py",
    "tests/loop/test_run_options.py::test_every_option_is_a_setting_of_the_run",
    "tests/providers/test_catalog.py",
    "tests/test_architecture.py",
    "tests/test_public.py",
    "tests/values/test_events.py",
)
CONSUMERS = ("acp/presenter.py", "bridges/ag_ui.py", "bridges/vercel.py", "cli/chat/screen.py", "cli/run.py")
TYPED = """
from toolglot import Agent, PluckChanged

agent = Agent(nickname="Ann")
agent.run_sync("Hi", mood="calm")
PluckChanged(7)
Agent(nickname=5)
agent.run_sync("Hi", mood=5)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The project after all recipes and `make docs`."""
    copy = Copy(tmp_path_factory.mktemp("copy"))
    for name, follow in RECIPES.items():
        copy.touched = copy.places[name] = Counter()
        follow(copy)
    copy.run("docs/generate.py")
    return copy


def read_recipes() -> dict[str, set[str]]:
    """Return the files that CONTRIBUTING.md names in parentheses behind the title of each recipe."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Recipes")[2]
    titles = re.findall(r"^\*\*(An? [\w -]+)\*\*[^(:]*\(([^)]*)\)", text, re.MULTILINE)
    return {title: set(re.findall(r"`([^`]+)`", files)) for title, files in titles}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_names_the_files_that_it_touches(name: str, copy: Copy) -> None:
    assert read_recipes()[name] == {file for file in copy.places[name] if not is_common(file)}


def is_common(file: str) -> bool:
    """Whether every change has it, so that no recipe needs to say so: a test of what is new, a line in
    CHANGELOG.md.
    """
    return file == "CHANGELOG.md" or file.rpartition("/")[2] == "test_NAME.py"


def test_every_recipe_names_its_files() -> None:
    """Also those that are not followed here. A file or directory with NAME is new."""
    text = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .partition("## Recipes")[2]
        .partition("**A release**")[0]
    )
    recipes = read_recipes()
    assert {*re.findall(r"^\*\*(An? [\w -]+)\*\*", text, re.MULTILINE)} == {*recipes} == {*RECIPES, "A wire"}
    for title, files in recipes.items():
        known = [file for file in files if "NAME" not in file]
        assert files, title
        assert [
            file for file in known if not ((ROOT / "src/toolglot" / file).exists() or (ROOT / file).exists())
        ] == [], title


def test_the_rows_that_are_shown_are_those_that_work() -> None:
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    for row in (*FACADE_ROWS.values(), VENDOR_ROW.rstrip(",")):
        assert " ".join(row.split()) in text


@pytest.mark.parametrize("name", RECIPES)
def test_what_was_added_works(name: str, copy: Copy) -> None:
    copy.run("-c", f"if True:{PROGRAMS[name]}")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_what_was_added_is_documented(name: str, copy: Copy) -> None:
    for page, text in DOCUMENTED[name].items():
        assert text in (copy.root / page).read_text(encoding="utf-8"), page


def test_the_tests_of_the_project_find_no_step_missing(copy: Copy) -> None:
    copy.run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *OWN_TESTS)


@pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")
def test_type_checkers_know_new_options_and_name_who_forgets_an_event(copy: Copy, tmp_path: Path) -> None:
    """A notice is shown by everybody as it is.

    Any other event is an error in each consumer that does not handle it.
    """
    other = Copy.__new__(Copy)
    other.root, other.touched = tmp_path, Counter()
    shutil.copytree(copy.root / "src", tmp_path / "src")
    other.insert(
        "values/events.py", "RunStop = Literal[", "class Forgotten(_Event, frozen=True):\n    pass\n\n\n"
    )
    other.add_to_union("values/events.py", "RunEvent", "Forgotten")
    (tmp_path / "typed.py").write_text(TYPED, encoding="utf-8")
    settings = {
        "include": ["typed.py", *(f"src/toolglot/{name}" for name in CONSUMERS)],
        "extraPaths": ["src"],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    report = json.loads(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout)
    errors = [
        (Path(item["file"]).relative_to(tmp_path).as_posix(), item) for item in report["generalDiagnostics"]
    ]
    assert {file.removeprefix("src/toolglot/") for file, _ in errors} == {"typed.py", *CONSUMERS}
    assert [item["range"]["start"]["line"] for file, item in errors if file == "typed.py"] == [6, 7]
    assert all(
        "Forgotten" in item["message"] and "Pluck" not in item["message"]
        for file, item in errors
        if file != "typed.py"
    )
