"""The public names: complete, sorted, and loaded only when they are used."""

import ast
import collections.abc
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast, get_args, get_type_hints

import pytest

import toolglot
import toolglot.mcp
from toolglot import errors
from toolglot.loop.agent.config import AgentOptions
from toolglot.values import events


@pytest.mark.parametrize("package", [toolglot, toolglot.mcp], ids=["toolglot", "toolglot.mcp"])
def test_all_names_are_there_for_the_interpreter_and_for_type_checkers(package: ModuleType) -> None:
    tree = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    declared = {str(alias.asname): str(node.module) for node in imports for alias in node.names}
    assert sorted(declared) == package.__all__
    for name, module in declared.items():
        assert getattr(package, name) is getattr(import_module(module), name)
    assert dir(toolglot) == toolglot.__all__


def test_all_errors_and_all_events_of_a_run_are_there() -> None:
    tree = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ToolglotError)
    }
    event_names = {event.__name__ for event in get_args(events.RunEvent)}
    assert tree | event_names <= {*toolglot.__all__}


def test_events_have_the_same_names_in_json() -> None:
    for event in get_args(events.RunEvent):
        assert event.__struct_config__.tag == event.__name__
        assert event.__struct_encode_fields__ == event.__struct_fields__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Toolz"):
        _ = toolglot.Toolz  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


@pytest.mark.parametrize(("name", "words"), [
    ("tool", "unknown agent option 'tool'; did you mean 'tools'?"),
    ("instructions", "unknown agent option 'instructions'; known: "
                     f"{', '.join(sorted(AgentOptions.__annotations__)[:30])}"),
])  # fmt: skip
@pytest.mark.parametrize("model", ["simulator", "anthropic:claude-sonnet-4-5"])
def test_an_unknown_option_of_an_agent_is_named_beside_the_known_ones(
    model: str, name: str, words: str
) -> None:
    with pytest.raises(errors.UnknownName, match=re.escape(words)):
        toolglot.Agent(model, **cast(Any, {name: None}))


def test_import_loads_nothing_else() -> None:
    code = (
        "import sys, toolglot; print([name for name in sys.modules if name.startswith(('toolglot', "
        "'msgspec'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['toolglot']"


# Types that users get from a method and pass on, or never see.
INTERNAL = {
    "AgentSetup", "AskModel", "BaseCall", "BoundArguments", "CallTools", "CancelFlag", "GivenAnswers",
    "ConversationState",
    "Done", "Encoding", "Expired", "InnerTools",
    "EngineState", "HeadCache", "HistoryRules", "HookChain", "InterpretedCall", "LoweredSchema",
    "NeedApproval", "PlainFunction", "ReplyDecoder", "ResultStore", "RunState",
    "SimulatedResponse", "SuspensionRecord", "UrlParameters", "WaitingRecord",
}  # fmt: skip


def test_types_in_public_signatures_are_public() -> None:
    """Whoever annotates a variable, a field or a function of their own finds the type in `toolglot`."""
    private: set[str] = set()
    for name in toolglot.__all__:
        value = getattr(toolglot, name)
        members = (
            [member for key, member in vars(value).items() if key == "__init__" or key[0] != "_"]
            if isinstance(value, type)
            else []
        )
        for member in (value, *members):
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            if isinstance(function, FunctionType | type):
                names = vars(collections.abc) | {name: getattr(toolglot, name) for name in toolglot.__all__}
                names |= vars(sys.modules[function.__module__])
                private |= {
                    leaf.__name__
                    for hint in get_type_hints(function, names).values()
                    for leaf in leaves(hint)
                }
    assert {name for name in private if not name.startswith("_")} - {*toolglot.__all__} == INTERNAL


def leaves(hint: Any) -> Iterator[Any]:
    """The classes of this package in a type."""
    parts = cast(list[Any], hint) if isinstance(hint, list) else get_args(hint)
    if isinstance(hint, type) and hint.__module__.startswith("toolglot"):
        yield hint
    for part in parts:
        yield from leaves(part)


def test_an_agent_has_few_public_names() -> None:
    """What comes later adds `map` and `map_sync`, and nothing else."""
    agent = toolglot.Agent()
    assert {name for name in dir(agent) if name[0] != "_"} == {
        *("model", "conversation", "config", "tools"),
        *("run", "run_sync", "stream", "stream_sync", "resume", "resume_sync", "resume_stream"),
        *("deliver", "has_pending_run", "list_pending", "list_pending_sync"),
        *("as_tool", "hand_off"),
        *("switch", "add_tools", "remove_tools", "save", "load", "restore", "undo"),
        *("context_usage", "preview_request", "view", "close", "aclose"),
    }


def test_help_opens_with_what_the_package_is(capsys: pytest.CaptureFixture[str]) -> None:
    summary, *_ = str(toolglot.__doc__).splitlines()
    assert summary.startswith("Let models of any provider call tools")
    code = [line[4:] for line in str(toolglot.__doc__).splitlines() if line.startswith("    ")]
    exec("\n".join(code), {})
    assert capsys.readouterr().out == "Paris: 21 degrees\n"
