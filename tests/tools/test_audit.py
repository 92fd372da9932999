"""One JSON line for every execution and every refusal, without secrets."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.file_limits import limit_file_size

from toolglot.common.jsontext import loads
from toolglot.engine.simulated import SimulatedTransport
from toolglot.errors import ToolError, UsageError
from toolglot.loop.agent.agent import Agent
from toolglot.loop.limits import RunLimits
from toolglot.simulator.core import Script, Simulator
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import RetryConfig, ToolConfig
from toolglot.tools.executor import ToolExecutor
from toolglot.tools.hooks import Hooks, Veto
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool
from toolglot.values.approvals import ApprovalRequest, Deny
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Reply, Text, ToolCall, ToolResult
from toolglot.values.request import ToolChoice

KEY = "sk-ant-api03-abcdefghijklmnop"


@tool(effects=["read", "network"], inline=True, target=lambda arguments: arguments["url"])
def fetch(url: str) -> str:
    """Fetches a page."""
    if url == "bad":
        raise ToolError("no such page", kind="not_found")
    if url == "busy":
        raise ToolError("busy", retryable=True)
    return f"the page says {KEY}"


class Rig:
    """An executor and its log."""

    def __init__(self, *tools: Tool, to: Any = None, **options: Any) -> None:
        self.raw: list[bytes] = []
        config = options.pop("config", ToolConfig(retry=RetryConfig(base=0.0)))
        log = AuditLog(to if to is not None else self.raw.append)
        self.executor = ToolExecutor(
            ToolRegistry(tools or (fetch,)), config, audit=log, run_id="run1", **options
        )

    def run(self, name: str = "fetch", /, **arguments: Any) -> ToolOutcome:
        return asyncio.run(self.executor.run(ToolCall("c1", name, arguments)))

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [loads(line) for line in self.raw]


def test_what_a_line_says() -> None:
    rig = Rig()
    outcome = rig.run(url="https://example.org/a")
    (line,) = rig.lines
    assert rig.raw[0].endswith(b"\n")
    assert rig.raw[0].count(b"\n") == 1
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line.pop("seconds") == pytest.approx(outcome.seconds, abs=1e-5)
    assert line == {
        "run": "run1",
        "tool": "fetch",
        "call": "c1",
        "ran": True,
        "effects": ["network", "read"],
        "target": "https://example.org/a",
        "arguments": sha256(outcome.call.text.encode()).hexdigest(),
        "outcome": "ok",
        "retries": 0,
        "decided_by": "policy",
        "reason": "it needs no approval",
    }


class No(Hooks):
    """Forbids everything."""

    def before_tool(self, call: ToolCall) -> Veto:
        return Veto("no")


@pytest.mark.parametrize(("options", "name", "arguments", "outcome", "ran"), [
    ({}, "fetch", {"url": "x"}, "ok", True),
    ({}, "fetch", {"url": "bad"}, "not_found", True),
    ({}, "fetch", {"url": "busy"}, "execution", True),
    ({}, "fetch", {}, "validation", False),
    ({}, "nobody", {}, "not_found", False),
    ({"config": ToolConfig(allow=frozenset())}, "fetch", {"url": "x"}, "not_allowed", False),
    ({"config": ToolConfig(max_uses={"fetch": 0})}, "fetch", {"url": "x"}, "limit", False),
    ({"config": ToolConfig(ask=frozenset({"network"}))}, "fetch", {"url": "x"}, "rejected", False),
    ({"hooks": [No()]}, "fetch", {"url": "x"}, "rejected", False),
])  # fmt: skip
def test_one_line_for_whatever_came_of_a_call(
    options: dict[str, Any], name: str, arguments: dict[str, Any], outcome: str, ran: bool
) -> None:
    rig = Rig(**options)
    rig.run(name, **arguments)
    (line,) = rig.lines
    assert (line["tool"], line["outcome"], line["ran"]) == (name, outcome, ran)
    assert line["retries"] == (2 if arguments.get("url") == "busy" else 0)


@pytest.mark.parametrize(("answer", "approved"), [("yes", True), ("always", True), ("no", False)])
def test_a_line_says_what_was_decided(answer: str, approved: bool) -> None:
    def approve(question: ApprovalRequest) -> Any:
        return answer

    rig = Rig(approve=approve, config=ToolConfig(ask=frozenset({"network"})))
    rig.run(url="x")
    assert [line["approved"] for line in rig.lines] == [approved]


def test_nothing_is_said_of_approval_if_nobody_was_asked() -> None:
    rig = Rig()
    rig.run(url="x")
    assert "approved" not in rig.lines[0]


def test_arguments_and_results_are_not_in_the_log() -> None:
    rig = Rig(fetch.replace(target=None))
    outcome = rig.run(url="https://private.example/path")
    assert KEY in outcome.result.text
    assert b"private" not in rig.raw[0]
    assert b"sk-ant" not in rig.raw[0]
    assert rig.lines[0]["target"] == ""


def test_the_same_arguments_have_the_same_hash_and_others_another() -> None:
    rig = Rig()
    for url in ("a", "a", "b"):
        rig.run(url=url)
    first, same, other = (line["arguments"] for line in rig.lines)
    assert first == same != other


def test_odd_text_stays_one_line_of_json() -> None:
    rig = Rig()
    rig.run(url='a\nb\u2028"\ud800\0')
    asyncio.run(rig.executor.run(ToolCall("c\n2", "no\nbody\ud800", None, '{"\ud800')))
    assert [line.count(b"\n") for line in rig.raw] == [1, 1]
    assert rig.lines[0]["target"] == 'a\nb\u2028"\ud800\0'
    assert rig.lines[1]["call"] == "c\n2"


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_call_that_was_cancelled_is_in_the_log(stubborn: bool) -> None:
    """It ran, and may have had effects."""
    started, freed, now = asyncio.Event(), asyncio.Event(), [2.0]

    async def forever() -> None:
        started.set()
        now[0] = 5.0
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise

    rig = Rig(tool(forever), clock=lambda: now[0])
    task = asyncio.create_task(rig.executor.run(ToolCall("c1", "forever", {})))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (line,) = rig.lines
    assert (line["tool"], line["ran"], line["outcome"], line["seconds"]) == (
        "forever",
        True,
        "interrupted",
        3.0,
    )
    freed.set()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert len(rig.lines) == 1


# ---- every path of a run

ASKS, NOT_TODAY = "the tool always asks, and no rule allows it", Deny("not today")


def say_yes(_: ApprovalRequest) -> bool:
    return True


def say_no(_: ApprovalRequest) -> Deny:
    return NOT_TODAY


# options, decision on resume, what the line says
PATHS: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "runs": ({}, None, {"ran": True, "decided_by": "policy", "reason": "it needs no approval"}),
    "approved": ({"approve": say_yes}, None, {"ran": True, "approved": True, "decided_by": "user", "reason": ASKS}),
    "denied": ({"approve": say_no}, None, {"ran": False, "approved": False, "decided_by": "user"}),
    "approved later": ({"approve": None}, True, {"ran": True, "approved": True, "decided_by": "user", "reason": ASKS}),
    "denied later": ({"approve": None}, NOT_TODAY, {"approved": False, "decided_by": "user", "reason": "not today"}),
    "nobody decided": ({"approve": None}, "", {"ran": False, "decided_by": "pending", "outcome": "pending", "reason": ASKS}),
    "the user moved on": ({"approve": None}, "another prompt", {"ran": False, "reason": "cancelled"}),
    "vetoed": ({"hooks": [No()]}, None, {"ran": False, "decided_by": "hook", "reason": "no"}),
    "too often": ({"config": ToolConfig(max_uses={"fetch": 0})}, None, {"ran": False, "reason": "use_limit"}),
    "not offered": ({"config": ToolConfig(tool_choice=ToolChoice("none"))}, None, {"ran": False, "decided_by": "policy"}),
    "no turn left": ({"limits": RunLimits(max_iterations=0)}, None, {"ran": False, "reason": "limit"}),
    "truncated": ({"stop": "length"}, None, {"ran": False, "reason": "truncated"}),
}  # fmt: skip


@pytest.mark.parametrize(("options", "decision", "expected"), PATHS.values(), ids=list(PATHS))
def test_a_line_is_complete_whatever_came_of_a_call(
    options: dict[str, Any], decision: Any, expected: dict[str, Any]
) -> None:
    lines: list[bytes] = []
    options = {**options}
    reply = Reply((ToolCall("1", "fetch", {"url": "https://example.org/a"}),), options.pop("stop", "tools"))
    agent = Agent(
        "simulator",
        tools=[fetch.replace(approval="approve" in options)],
        audit=AuditLog(lines.append),
        transport=SimulatedTransport(Simulator(Script([lambda _: reply, "say done", "say on"]))),
        **options,
    )
    result = agent.run_sync("go")
    if decision == "another prompt":
        agent.run_sync("on")
    elif decision:
        agent.resume_sync({result.requests[0].id: decision})
    assert len(lines) == (2 if decision else 1), (
        "a call that waits has a line, and another one for what came of it"
    )
    line = loads(lines[-1])
    assert (line["tool"], line["effects"], line["target"]) == (
        "fetch",
        ["network", "read"],
        "https://example.org/a",
    )
    assert {key: line[key] for key in expected} == expected
    assert ("approved" in line) == ("approved" in expected)
    assert line["decided_by"] in ("user", "rule", "policy", "hook", "pending")
    assert line["reason"]


async def test_a_call_that_was_stopped_at_its_question_is_in_the_log() -> None:
    lines, asked = list[bytes](), asyncio.Event()

    async def think(_: ApprovalRequest) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    tools, audit = [fetch.replace(approval=True)], AuditLog(lines.append)
    agent = Agent("simulator", tools=tools, approve=think, audit=audit)
    task = asyncio.create_task(agent.run('call fetch {"url": "a"}'))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [line] = map(loads, lines)
    assert (line["tool"], line["target"], line["ran"], line["outcome"]) == ("fetch", "a", False, "cancelled")


def test_the_reason_of_a_decision_is_redacted_and_bounded() -> None:
    def refuse(_: ApprovalRequest) -> Deny:
        return Deny(f"{KEY} " * 1000)

    rig = Rig(approve=refuse, config=ToolConfig(ask={"network"}))
    rig.run(url="x")
    assert KEY.encode() not in rig.raw[0]
    assert len(rig.lines[0]["reason"]) <= 2000


# ---- files


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_appended_to(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"old":1}\n')
    for _ in range(2):
        Rig(to=kind(path)).run(url="x")
    lines = [loads(line) for line in path.read_bytes().splitlines()]
    assert [line.get("tool") for line in lines] == [None, "fetch", "fetch"]


@pytest.mark.skipif(os.name != "posix", reason="needs the modes of files")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "audit.jsonl"
    before = os.umask(mask)
    try:
        rig = Rig(to=path)
        modes = [path.stat().st_mode & 0o777]
        rig.run(url="x")
        modes.append(path.stat().st_mode & 0o777)
        path.unlink()
        rig.run(url="y")  # as after a rotation
        modes.append(path.stat().st_mode & 0o777)
    finally:
        os.umask(before)
    assert modes == [0o600] * 3
    assert [loads(line)["target"] for line in path.read_bytes().splitlines()] == ["y"]


def test_the_mode_of_a_file_that_was_there_is_its_owners_affair(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o640)
    path.chmod(0o640)
    Rig(to=path).run(url="x")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("shared", [True, False], ids=["one log", "a log each"])
def test_threads_never_mix_their_lines(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "audit.jsonl"
    shared_log, start = AuditLog(path), threading.Barrier(8)

    def work(number: int) -> None:
        log = shared_log if shared else AuditLog(path)
        start.wait()
        for n in range(50):
            call = ToolCall(f"{number}-{n}", "t" * 20_000, {})
            outcome = ToolOutcome(call, ToolResult(call.id, (Text(""),)))
            log.write(outcome, run_id="r", target="x", effects=frozenset(), approved=None)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [loads(line) for line in path.read_bytes().splitlines()]
    assert {line["call"] for line in lines} == {f"{number}-{n}" for number in range(8) for n in range(50)}
    assert len(lines) == 400


def test_a_file_that_cannot_be_written_is_reported_before_anything_runs(tmp_path: Path) -> None:
    """A wrong path is a mistake of the caller: it is named when the log is made."""
    with pytest.raises(UsageError, match="audit") as caught:
        AuditLog(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_log_that_fails_on_the_way_does_not_lose_the_result(caplog: pytest.LogCaptureFixture) -> None:
    """The effect is done: the model has to hear of it, and the program's own log says that the line is
    missing.
    """

    def full(line: bytes) -> None:
        raise OSError(28, "No space left on device")

    rig = Rig(to=full)
    with caplog.at_level(logging.ERROR, "toolglot"):
        outcome = rig.run(url="x")
    assert not outcome.result.is_error
    assert "audit" in caplog.text
    assert "No space left on device" in caplog.text
    assert rig.executor.metrics.snapshot()["fetch"].calls == 1


@pytest.mark.skipif(os.name != "posix", reason="needs a limit of the operating system")
def test_a_line_after_a_full_disk_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    rig = Rig(to=path)
    assert not rig.run(url="before").result.is_error
    with limit_file_size(path.stat().st_size + 50):
        assert not rig.run(url="lost").result.is_error
        assert not rig.run(url="lost too").result.is_error
    rig.run(url="after")
    rig.run(url="last")
    half = [line for line in path.read_bytes().split(b"\n") if not line.endswith(b"}")]
    assert [len(line) for line in half] == [50, 0], "half a line, and the end of the file"
    assert [loads(line)["target"] for line in path.read_bytes().split(b"\n") if line not in half] == [
        "before",
        "after",
        "last",
    ]


def test_a_log_is_continued_after_half_a_line_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"old":1}\n{"time":"2026')
    rig = Rig(to=path)
    rig.run(url="x")
    rig.run(url="y")
    old, half, *lines, end = path.read_bytes().split(b"\n")
    assert (old, half, end) == (b'{"old":1}', b'{"time":"2026', b"")
    assert [loads(line)["target"] for line in lines] == ["x", "y"]
