"""How results and failures read in every facade: real calls in a sample workspace, and rendering from data
and codes.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.handover.harness import make_engine, make_transport

from toolglot import Agent, RunLimits, ToolConfig
from toolglot.builtin.tools import builtins
from toolglot.facades.catalog import find_facade
from toolglot.facades.view import RenderContext
from toolglot.simulator.core import Script
from toolglot.values.failures import EditFailed, InvalidArgument, LineOutOfRange, MissingPath, SessionNotFound
from toolglot.values.messages import Reply, Text, ToolCall, ToolResult

from .scenarios import FACADES, Arguments, bind, is_updating, load, save, scenarios, view_of

DETAILS: dict[str, type[msgspec.Struct]] = {
    "edit_failed": EditFailed,
    "line_out_of_range": LineOutOfRange,
    "path_not_found": MissingPath,
    "session_not_found": SessionNotFound,
}
# What differs from run to run.
VOLATILE = [
    (re.compile(r"\b\d+(?:\.\d+)?( s\b| seconds)"), r"#\1"),
    (re.compile(r"((?:PID|PGID|pid)[: ]+)\d+"), r"\1#"),
    (re.compile(r"(Chunk ID: )[0-9a-f]{6}"), r"\1#"),
    (re.compile(r'("duration_seconds":)[\d.]+'), r"\1#"),
    (re.compile(r"/state/shell/\S+/output-\w+\.txt"), "/state/output.txt"),
]


def make_workspace(root: Path) -> None:
    (root / "lib").mkdir(parents=True)
    (root / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    (root / "lib" / "b.txt").write_text("hello\n")
    (root / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 2501)))
    (root / "empty.txt").write_text("")
    (root / "pixel.png").write_bytes(bytes.fromhex("89504e470d0a1a0a") + b"\0" * 20)


@pytest.mark.parametrize("facade_id", FACADES)
def test_real_calls_read_as_the_model_expects(facade_id: str, tmp_path: Path) -> None:
    records = load(facade_id)
    calls = [record for record in records if "call" in record]
    if not calls:
        pytest.skip("its tools are those of another facade")
    root = tmp_path / "workspace"
    make_workspace(root)
    # Said by a script, because the simulated model calls no tools that it was not offered.
    replies = [
        Reply((ToolCall(f"c{number}", *record["call"]),), "tools") for number, record in enumerate(calls)
    ]
    replies.append(Reply((Text("Done."),)))
    tools = builtins(
        root, state_dir=tmp_path / "state", ask_user=lambda questions: ["yes" for _ in questions]
    )
    agent = Agent(
        make_engine("anthropic", make_transport(Script(replies)), model="claude-opus-4-8"),
        tools=tools.tools,
        facade=facade_id,
        approve=lambda request: True,
        config=ToolConfig(ask=(), max_repeats=0),
        limits=RunLimits(max_iterations=100),
    )
    try:
        outcomes = agent.run_sync("Go on.").outcomes
    finally:
        tools.close()
    assert len(outcomes) == len(calls)
    for record, outcome in zip(calls, outcomes, strict=True):
        text = outcome.result.text.replace(str(tmp_path), "")
        for pattern, replacement in VOLATILE:
            text = pattern.sub(replacement, text)
        if "mentions" in record:  # the message is the base tool's, whose own tests cover its wording
            assert outcome.result.is_error is record["error"], text
            assert all(mention in text for mention in record["mentions"]), text
            continue
        if is_updating():
            record["text"], record["error"] = text, outcome.result.is_error
        assert (text, outcome.result.is_error) == (record["text"], record["error"]), record["call"]
    if is_updating():
        save(facade_id, records)


def make_context(record: Arguments) -> RenderContext:
    code, details = record.get("code", ""), record.get("details")
    return RenderContext(
        native=record.get("native", {}),
        base=record.get("base", {}),
        text=record.get("message", ""),
        data=record.get("data"),
        kind=record.get("kind"),
        code=code,
        details=msgspec.convert(details, DETAILS[code]) if details is not None else None,
    )


def check_text(facade_id: str, record: Arguments, key: str, text: str) -> None:
    if is_updating():
        records = load(facade_id)
        for candidate in records:
            if {**candidate, "text": ""} == {**record, "text": ""}:
                candidate["text"] = text
        save(facade_id, records)
    else:
        assert text == record["text"], record[key]


@pytest.mark.parametrize(("facade_id", "record"), scenarios("render"))
def test_a_result_is_rendered_from_its_data(facade_id: str, record: Arguments) -> None:
    renderer = view_of(facade_id, record["render"]).cases[record.get("case", "")].result
    assert renderer is not None
    check_text(facade_id, record, "render", renderer(make_context(record)))


@pytest.mark.parametrize(("facade_id", "record"), scenarios("fail"))
def test_a_failure_is_rendered_from_its_code(facade_id: str, record: Arguments) -> None:
    case = view_of(facade_id, record["fail"]).cases[record.get("case", "")]
    renderer = case.failure or find_facade(facade_id).failure
    text = renderer(make_context(record)) if renderer is not None else record["message"]
    check_text(facade_id, record, "fail", text)


@pytest.mark.parametrize("facade_id", FACADES)
def test_no_renderer_depends_on_data_of_a_failure_that_has_none(facade_id: str) -> None:
    """Any failure of any tool can be rendered from its message alone."""
    for view in find_facade(facade_id).views:
        for case in view.cases.values():
            renderer: Any = case.failure or find_facade(facade_id).failure
            if renderer is not None:
                context = RenderContext(native={}, base={}, text="It failed.", kind="execution")
                assert "It failed." in renderer(context), (view.name, case.base)


@pytest.mark.parametrize(
    ("facade_id", "name", "arguments", "parameter", "native"),
    [
        ("claude-code", "Read", {"file_path": "a"}, "start_line", "offset"),
        ("claude-code-2.0", "BashOutput", {"bash_id": "1"}, "handle", "bash_id"),
        ("gemini-cli", "run_shell_command", {"command": "ls"}, "cwd", "dir_path"),
        ("codex", "exec_command", {"cmd": "ls"}, "cwd", "workdir"),
        ("openai-hosted", "shell", {"commands": ["ls"]}, "timeout", "timeout_ms"),
        ("neutral", "read_file", {"path": "a"}, "tail_lines", "tail_lines"),
    ],
)
def test_an_invalid_argument_has_its_native_name(
    facade_id: str, name: str, arguments: Arguments, parameter: str, native: str
) -> None:
    call = bind(facade_id).interpret(ToolCall("c1", name, arguments))
    result = ToolResult(
        "c1", (Text("."),), is_error=True, error_kind="validation", error_code="invalid_argument"
    )
    assert call.render is not None
    text = call.render(result, {}, InvalidArgument(parameter, "is too large")).text
    assert f"{native} is too large" in text
