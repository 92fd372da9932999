"""Scripts that call tools: what they can do, what they show, and what contains them."""

import asyncio
import gc
import logging
import subprocess
import threading
import time
from typing import Any
from unittest.mock import MagicMock

import pytest
from msgspec.structs import replace
from script_kit import Scripts, needs_javascript, needs_python, needs_sandbox

from toolglot.builtin.code_mode import process, script, worker
from toolglot.builtin.code_mode.declarations import declare_tools, list_script_tools
from toolglot.builtin.code_mode.process import ScriptMessage, ScriptProcess
from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level
from toolglot.tools.audit import AuditLog
from toolglot.tools.config import ToolConfig
from toolglot.tools.hooks import Hooks, Veto
from toolglot.tools.tool import tool
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import ToolFinished, ToolOutcome
from toolglot.values.messages import Media, Text, ToolCall, ToolResult


@tool(effects="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval=True)
def danger(what: str) -> str:
    """Do something that needs approval."""
    return f"did {what}"


@tool(effects="read")
def picture() -> Media:
    """Show a picture."""
    return Media("image", "image/png", data="aGk=")


pytestmark = [needs_javascript, needs_sandbox]


async def test_a_script_calls_tools_and_shows_what_it_wants() -> None:
    lines: list[bytes] = []
    scripts = Scripts([add, danger, picture], audit=AuditLog(lines.append))
    code = """const [x, y] = await Promise.all([tools.add({a: 1, b: 2}), tools.add({a: 3, b: 4})]);
    text(x + y); text({x}); text(undefined); text(await tools.danger({what: "it"}));
    const shown = await tools.picture(); image(shown); forward_output(shown, "as text");
    text(ALL_TOOLS.map(tool => tool.name)); store("n", {deep: [1]}); notify("soon");"""
    texts = [
        "10",
        '{"x":3}',
        "undefined",
        "did it",
        "aGk=",
        "aGk=",
        "as text",
        '["add","danger","picture"]',
        "soon",
    ]
    assert await scripts.run(code) == ["Script completed", *texts]
    assert await scripts.run('text(load("n").deep); text(load("m")); exit(); text("never")') == [
        "Script completed",
        "[1]",
        "undefined",
    ]
    assert [line.count(b'"caller":"call_1"') for line in lines] == [1, 1, 1, 1, 0, 0]  # of the inner calls


async def test_what_a_script_shows_stands_on_lines_of_its_own() -> None:
    result = (
        await Scripts().outcome("text(1); text('two\\n'); text({a: 3}); throw new Error('boom')")
    ).result
    assert result.text.partition("Output:\n")[2] == '1\ntwo\n{"a":3}\nScript error:\nError: boom (line 1)'


async def test_a_script_that_fails_tells_what_it_has_done() -> None:
    scripts = Scripts([add])
    header, error, calls = await scripts.run(
        'await tools.add({a: 1, b: 1});\ntry { await tools.add({a: "?"}) } catch {}\nnull.x'
    )
    assert (header, calls) == ("Script failed", "Calls that it made: add (ok), add (not run)")
    assert error == "Script error:\nTypeError: Cannot read properties of null (reading 'x') (line 3)"
    caught = {
        "await tools.add(5)": "add expects one object with its arguments",
        "tools.add = 1": "Cannot assign to read only property",
        'await import("fs")': "Not supported",
        "image('file:///etc/passwd')": "image expects a data URL",
    }
    code = "".join(f"try {{ {code} }} catch (error) {{ text(error.message) }}\n" for code in caught)
    header, *errors = await scripts.run(code)
    assert [message in error for message, error in zip(caught.values(), errors, strict=True)] == [True] * 4, (
        errors
    )
    failures = {
        "let = = 1": "SyntaxError",
        "await new Promise(() => {})": "waits for something that can never happen",
    }
    for code, message in failures.items():
        header, error, *_ = await scripts.run(code)
        assert header == "Script failed"
        assert message in error, code


async def test_a_script_that_runs_on_is_waited_for_or_stopped() -> None:
    scripts = Scripts([add])
    code = (
        'text("first"); await new Promise(done => setTimeout(done, 400)); text(await tools.add({a: 1, b: 1}))'
    )
    first = await scripts.run(code, seconds=0.0)
    assert first[0] == "Script running with cell ID 1"
    later = await scripts.run(script="1", seconds=20)
    assert [*first[1:], *later] == [
        *first[1:],
        "Script completed",
        *(["first"] if len(first) == 1 else []),
        "2",
    ]
    assert (
        await scripts.run(
            "text(1); yield_control(); await new Promise(done => setTimeout(done, 50)); text(2)"
        )
    )[1:] == ["1"]
    assert await scripts.run(script="2") == ["Script completed", "2"]
    assert (await scripts.run("for (;;) {}", seconds=0.0))[0] == "Script running with cell ID 3"
    assert await scripts.run(script="3", stop=True) == ["Script terminated"]
    missing = (await scripts.outcome(script="3")).result
    assert (missing.is_error, missing.error_code) == (True, "script_not_found")
    wrong: tuple[dict[str, Any], ...] = ({}, {"code": "1", "script": "1"}, {"code": "1", "seconds": -1})
    for arguments in wrong:
        assert (await scripts.outcome(**arguments)).result.error_code == "invalid_argument"


async def test_policies_hold_for_each_call_of_a_script() -> None:
    """Rules, limits, hooks, repetition and approvals: a call of a script is a call."""
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(f"{request.tool} by {request.call.caller}")
        return request.arguments["what"] != "evil"

    class Vetoes(Hooks):
        def before_tool(self, call: ToolCall) -> ToolCall | Veto:
            return Veto("not today") if call.arguments == {"a": 13, "b": 13} else call

    config = ToolConfig(deny=["picture"], max_uses={"add": 6}, max_parallel=2)
    scripts = Scripts([add, danger, picture], config=config, approve=approve, hooks=[Vetoes()])
    code = """const tried = async (call) => { try { return await call() } catch (error) { return error.message.slice(0, 60) } };
    text(await tried(() => tools.danger({what: "good"}))); text(await tried(() => tools.danger({what: "evil"})));
    text(await tried(() => tools.picture())); text(await tried(() => tools.add({a: 13, b: 13})));
    for (let round = 0; round < 5; round++) text(await tried(() => tools.add({a: 1, b: 1})));
    text(await Promise.all([1, 2, 3, 4].map(n => tried(() => tools.add({a: n, b: 10})))));"""
    _, good, evil, picture_text, veto, *others = await scripts.run(code)
    assert (good, asked) == ("did good", ["danger by call_1", "danger by call_1"])
    assert evil.startswith("The user did not approve the call.")
    assert "denies it" in picture_text
    assert veto == "The call did not run: not today"
    assert others[:3] == ["2", "2", "2"]
    assert others[-1].count("limit of 6 uses") + others[-1].count("1") > 0
    assert scripts.executor.host.policy.uses["", "add"] == 6


async def test_a_script_may_poll() -> None:
    """The reminder about equal calls is for models: it would change what a script gets."""

    @tool(effects="read")
    def status() -> dict[str, str]:
        """Tell the state."""
        return {"state": "pending"}

    scripts = Scripts([status])
    code = (
        'for (let round = 0; round < 9; round++) if ((await tools.status({})).state !== "pending") throw '
        "round;"
    )
    assert await scripts.run(code) == ["Script completed"]
    direct = await scripts.executor.run(ToolCall("d", "status", {}))
    assert "Reminder" not in direct.result.text, "the model has not called it before"


@tool(effects="read", output_schema={"type": "array"})
def numbers() -> list[int]:
    """Return many numbers."""
    return list(range(50_000))


@tool(effects="read")
def rows(count: int = 50_000) -> str:
    """Return many lines."""
    return "\n".join(f"row {number}" for number in range(count))


COMPUTE: dict[Any, str] = {
    "javascript": """const lines = await tools.rows({}), found = await tools.numbers({});
        text([lines.split("\\n").length, Array.isArray(found), found.length, found.at(-1)]);""",
    "python": """lines, found = rows(), numbers()
[len(lines.split("\\n")), isinstance(found, list), len(found), found[-1]]""",
}
EXCEED: dict[Any, str] = {
    "javascript": """text((await tools.rows({count: 100})).length);
        try { await tools.rows({count: 100}); text("got it") } catch (error) { text(error.message) }
        text(await tools.rows({count: 1}));""",
    "python": """print(len(rows(count=100)))
try:
    rows(count=100)
    print("got it")
except RuntimeError as error:
    print(error)
print(rows(count=1))""",
}
LANGUAGES = [pytest.param("javascript", marks=needs_javascript), pytest.param("python", marks=needs_python)]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_script_computes_on_whole_results(language: Any) -> None:
    scripts = Scripts([rows, numbers], language)
    computed = await scripts.run(COMPUTE[language], seconds=60)
    assert [computed[0], computed[1].replace(", ", ",").lower()] == [
        "Script completed",
        "[50000,true,50000,49999]",
    ]
    assert len(scripts.executor.host.store) == 0, "the model reads none of it"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_script_that_gets_too_much_is_told_so(language: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MAX_RECEIVED", 1024)
    header, *shown = "\n".join(await Scripts([rows], language).run(EXCEED[language], seconds=60)).split("\n")
    assert header == "Script completed"
    assert shown[0] == "689"
    limits = "the results of a script may have 1.0K together, of which 234B are left"
    assert shown[1] == f"rows ran, but its result has 790B; {limits}: ask for less"
    assert shown[2] == "row 0", "what is small enough still comes"


async def test_what_a_script_computes_on_is_bounded_for_everybody_else() -> None:
    """The model, events, the audit log and telemetry; hooks see all of it, as they decide what the script
    gets.
    """
    seen: list[int] = []
    events: list[Any] = []
    ended: list[int] = []

    class Redacts(Hooks):
        def after_tool(self, outcome: ToolOutcome) -> ToolOutcome | None:
            if outcome.call.name != "rows":
                return None
            seen.append(len(outcome.result.text))
            return replace(
                outcome,
                result=replace(outcome.result, content=(Text(outcome.result.text.replace("w 7", "w X")),)),
            )

    def end_span(outcome: ToolOutcome) -> None:
        ended.append(len(outcome.result.text))

    lines: list[bytes] = []
    config = ToolConfig(max_result=1_000)
    scripts = Scripts([rows], hooks=[Redacts()], audit=AuditLog(lines.append), config=config)
    telemetry = MagicMock(start_tool=MagicMock(return_value=end_span))
    scripts.executor.caller = replace(scripts.executor.caller, telemetry=telemetry)
    code = "const lines = await tools.rows({}); text(lines.length); text(lines.slice(0, 60)); text(lines)"
    call = ToolCall("c", "run_code", {"code": code})
    outcome = await scripts.executor.run(call, emit=events.append)
    whole = sum(len(f"row {number}") for number in range(50_000)) + 49_999
    assert seen == [whole]
    assert f"{whole}\n" in outcome.result.text
    assert "row X" in outcome.result.text
    assert "row 7" not in outcome.result.text
    assert max(len(event.outcome.result.text) for event in events if isinstance(event, ToolFinished)) < 1_300
    assert max(ended) < 1_300
    assert max(map(len, lines)) < 1_000
    assert len(scripts.executor.host.store) == 1, "what the script showed, and nothing else"


def test_images_come_from_data_or_results() -> None:
    """SECURITY.md: the address of an image is fetched by the provider, so a script cannot choose one."""
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
    image = Media("image", url="https://a.example/b.png")

    def show(url: str, detail: str = "") -> Any:
        return script.make_image(
            ScriptMessage("image", url=url, detail=detail), {"https://a.example/b.png": image}
        )

    assert show(f"data:image/jpeg;base64,{png}", "low") == Media("image", "image/png", data=png, detail="low")
    assert show("https://a.example/b.png") is image
    for url in (
        "https://evil.example/?d=SECRET",
        "file:///etc/passwd",
        "data:image/png;base64,!!!",
        "data:text/html\n;base64,aGk=",
        f"data:image/png,{png}",
    ):
        assert show(url).text.startswith("[An image was left out"), url


async def test_ordered_calls_of_a_script_keep_their_place() -> None:
    log: list[str] = []

    @tool(ordered=True, effects="write")
    async def write(name: str) -> str:
        """Write."""
        log.append(f"+{name}")
        await asyncio.sleep(0)
        log.append(f"-{name}")
        return name

    scripts = Scripts([write], config=ToolConfig(ask=()))
    assert await scripts.run('text(await Promise.all(["a", "b", "c"].map(name => tools.write({name}))))') == [
        "Script completed",
        '["a","b","c"]',
    ]
    assert log == ["+a", "-a", "+b", "-b", "+c", "-c"]


def test_the_seconds_of_a_script_are_those_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of a question; and a call that waits for another one does not stop the clock."""
    finished = asyncio.Event()

    def spend(seconds: float) -> None:
        now = (loop := asyncio.get_running_loop()).time
        monkeypatch.setattr(loop, "time", lambda: now() + seconds)

    def approve(request: Any) -> bool:
        spend(100)
        return True

    @tool(ordered=True, effects="read", timeout=1000)
    async def hold() -> str:
        """Take its time."""
        spend(100)
        await finished.wait()
        return "held"

    scripts = Scripts([danger, hold], approve=approve)

    async def run_scripts() -> None:
        assert await scripts.run('text(await tools.danger({what: "it"}))', seconds=50) == [
            "Script completed",
            "did it",
        ]
        first = await scripts.run("text(await Promise.all([tools.hold(), tools.hold()]))", seconds=50)
        assert first == ["Script running with cell ID 2"]
        finished.set()
        assert await scripts.run(script="2", seconds=200) == ["Script completed", '["held","held"]']

    asyncio.run(run_scripts())


def test_a_script_goes_on_when_its_event_loop_has_ended() -> None:
    @tool
    async def linger() -> str:
        """Wait for ever."""
        await asyncio.sleep(1000)
        return ""

    scripts = Scripts([linger])
    code = (
        "const call = tools.linger(); yield_control(); try { await call } catch (error) { "
        "text(error.message) }"
    )
    assert asyncio.run(scripts.run(code)) == ["Script running with cell ID 1"]
    assert asyncio.run(scripts.run(script="1")) == ["Script completed", "The call was interrupted."]


async def test_what_a_script_makes_too_much_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MAX_CALLS", 3)
    monkeypatch.setattr(script, "MAX_STORED", 10)
    scripts = Scripts([add])
    stores = 'store("a", 1); store("a", "long".repeat(9)); store("b", 2); text(load("a"))'
    note = '[store("a"): not kept for later scripts, as the values are too long]'
    assert await scripts.run(stores) == ["Script completed", note, "long" * 9]
    assert await scripts.run('text([load("a"), load("b")]); for (;;) await tools.add({a: 1, b: 1})') == [
        "Script failed",
        "[1,2]",
        "Script error:\nthe script made more than 3 calls and was stopped",
        "Calls that it made: add (ok), add (ok), add (ok)",
    ]


async def test_a_cancelled_call_ends_its_script_and_the_calls_of_it() -> None:
    started, lines = asyncio.Event(), list[bytes]()

    @tool
    async def linger() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.sleep(1000)
        return ""

    scripts = Scripts([linger], audit=AuditLog(lines.append))
    task = asyncio.create_task(scripts.outcome("await tools.linger()", seconds=1000))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [b'"outcome":"interrupted"' in line for line in lines] == [True, True]
    assert (await scripts.outcome(script="1")).result.error_code == "script_not_found"


# ---- attacks


async def test_a_script_cannot_harm_anything_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """SECURITY.md: an endless loop, a memory bomb, prototype pollution and attempts to get out are contained."""
    scripts = Scripts([add])
    pollution = """Object.prototype.toJSON = () => "forged"; Array.prototype.push = null; Array.prototype.map = null;
    Promise.prototype.then = () => { throw 1 }; Object.prototype.then = undefined; JSON.stringify = () => "x"; String = null;
    Object.defineProperty(Array.prototype, 0, {set() { throw 2 }}); Object.prototype.get = () => { throw 3 };
    Object.prototype.error = "e"; Object.prototype.type = "done"; text("alive"); text({a: 1});
    try { text(await tools.add({a: 1, b: 1})) } catch (error) { text(error.message.slice(0, 40)) }"""
    assert await scripts.run(pollution) == [
        "Script completed",
        "alive",
        '"forged"',
        "add expects one object with its argument",
    ]
    assert await scripts.run("text(await tools.add({a: 1, b: 1})); text(typeof Object.prototype.toJSON)") == [
        "Script completed",
        "2",
        "undefined",
    ]
    escapes = """const found = ["process", "require", "console", "fetch", "WebAssembly", "SharedArrayBuffer", "Deno", "Bun"]
      .filter(name => Function("return typeof " + name)() !== "undefined");
    text(found); text(text.constructor.constructor("return typeof globalThis.process")());
    const bridge = Object.getOwnPropertyNames(globalThis).find(name => name.startsWith("bridge_"));
    try { globalThis[bridge] = null } catch (error) { text("fixed") }
    globalThis[bridge]('{"type":"answer","id":1,"value":"1"}'); text("still here");"""
    assert await scripts.run(escapes) == ["Script completed", "[]", "undefined", "fixed", "still here"]
    bombs = (
        "const a = []; for (;;) a.push(new Array(1e6).fill(1.5))",
        "const a = []; for (;;) a.push(new Uint8Array(1e8).fill(1))",
        'for (;;) text("x".repeat(1e6))',
    )
    for header, *_, error in await asyncio.gather(*(Scripts([add]).run(bomb, seconds=60) for bomb in bombs)):
        assert header == "Script failed"
        assert any(
            word in error
            for word in ("memory", "allocation failed", "string length", "stack size", "too much")
        ), error


async def test_an_endless_loop_ends_by_its_own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CPU_SECONDS", 1)
    header, error, *_ = await Scripts([add]).run("for (;;) {}", seconds=60)
    assert (header, "of processor time" in error) == ("Script failed", True)


@pytest.mark.parametrize("level", [SandboxLevel.BUBBLEWRAP, SandboxLevel.LANDLOCK])
def test_the_process_has_no_rights(
    level: SandboxLevel, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """SECURITY.md: even code that breaks out of V8 finds no file, no network and no other program."""
    if probe_level(level, process._find_bubblewrap() if level is SandboxLevel.BUBBLEWRAP else ""):  # pyright: ignore[reportPrivateUsage]
        pytest.skip(f"{level.label} does not work here")
    secret = tmp_path / "secret"
    secret.write_text("s")
    probe = f"""
import os, socket, sys, json
from toolglot.builtin.code_mode import worker as w
channel = w.Channel()
task = json.loads(channel.receive())
w.limit_resources(task)
w.give_up_rights(task, [])
def attempt(name, action):
    try:
        action()
        channel.send(type="text", text=name)
    except BaseException as e:
        pass
attempt("read", lambda: open({str(secret)!r}).read())
attempt("etc", lambda: os.listdir("/etc"))
attempt("write", lambda: open("/tmp/code-mode-out", "w"))
attempt("exec", lambda: os.execv("/bin/sh", ["sh", "-c", "exit 0"]))
attempt("network", lambda: socket.create_connection(("127.0.0.1", 1)) if False else socket.socket())
attempt("ptrace", lambda: open("/proc/1/mem", "rb"))
channel.finish()
os._exit(0)
"""
    monkeypatch.setattr(process, "_START", f"import sys; sys.path += sys.argv[1:]\n{probe}")
    messages: list[ScriptMessage] = []
    ends: list[str] = []
    runner = ScriptProcess(
        "javascript", "", tools=[], stored={}, level=level, on_message=messages.append, on_end=ends.append
    )
    deadline = time.monotonic() + 20
    while not ends and time.monotonic() < deadline:
        time.sleep(0.01)
    runner.kill()
    assert (ends, [message.text for message in messages]) == ([""], [])


async def test_what_a_process_says_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for says, reason in (
        ('print("nonsense", flush=True)', "not a message"),
        ('print(\'{"type": "other"}\', flush=True)', "not a message"),
        ("import os; os._exit(3)", "ended unexpectedly"),
        ("raise SystemError", "ended unexpectedly"),
        ('print("x" * (1 << 20), end="", flush=True)', "too much"),
    ):
        monkeypatch.setattr(process, "_START", says)
        monkeypatch.setattr(process, "MAX_LINE", 1 << 20)
        header, error, *_ = await Scripts([add]).run("1")
        assert (header, reason in error) == ("Script failed", True), error
    assert worker.SLICE_SECONDS < process.CPU_SECONDS


# ---- Python


@needs_python
async def test_python_does_the_same() -> None:
    scripts = Scripts([add, danger], language="python")
    code = (
        'total = 0\nfor n in range(3):\n    total += add(a=n, b=1)\nprint(total)\nstore("t", '
        'total)\ndanger("it")'
    )
    assert await scripts.run(code) == ["Script completed", "6", "did it"]
    assert await scripts.run('[load("t"), [tool["name"] for tool in ALL_TOOLS]]') == [
        "Script completed",
        '[6, ["add", "danger"]]',
    ]
    failures = {
        "import subprocess": "ModuleNotFoundError",
        "x = (": "SyntaxError",
        "x = []\nwhile True: x.append('x' * 1000000)": "memory",
    }
    for code, message in failures.items():
        header, error, *_ = await scripts.run(code, seconds=60)
        assert (header, message in error) == ("Script failed", True), error
    caught = {
        "add(a='?')": "RuntimeError",
        'open("/etc/passwd")': "PermissionError",
        "1 / 0": "ZeroDivisionError",
    }
    code = "".join(
        f"try:\n    {code}\nexcept {name}:\n    print('caught')\n" for code, name in caught.items()
    )
    assert "\n".join(await scripts.run(code)) == "Script completed\ncaught\ncaught\ncaught"


# ---- what the model reads about it


def test_tools_are_declared_in_the_language_of_the_script() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": ["integer", "null"]},
            "kind": {"enum": ["a", "b"]},
            "more-": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"const": 1}]}},
        },
        "required": ["city"],
    }
    output = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "additionalProperties": False}
    tools = [
        ToolDefinition("weather", "Look it up.", schema, namespace="api", output_schema=output),
        ToolDefinition("2nd tool", "Odd.", {}),
        ToolDefinition(
            "weather", "Another.", None, kind="freeform", grammar={"syntax": "lark", "definition": "start: A"}
        ),
        ToolDefinition("late", "Later.", {}, deferred=True),
    ]
    names = [(tool.name, tool.path) for tool, _ in list_script_tools([*tools, tools[1]], "javascript")]
    assert names == [
        ("api__weather", ["api", "weather"]),
        ("_2nd_tool", ["_2nd_tool"]),
        ("weather", ["weather"]),
        ("late", ["late"]),
        ("_2nd_tool_2", ["_2nd_tool_2"]),
    ]
    text = declare_tools(tools, "javascript")
    declaration = """tools.api.weather(args: {
  // Where.
  city: string;
  days?: number | null;
  kind?: "a" | "b";
  "more-"?: Array<string | 1>;
}): Promise<{
  ok?: boolean;
}>"""
    assert declaration in text
    assert "tools.weather(input: string): Promise<string>" in text
    assert ("start: A" in text, "tools.late" in text, "declared in ALL_TOOLS" in text) == (True, False, True)
    python = (
        "def api__weather(city: str, days: int | None = …, kind: Literal['a', 'b'] = …, more-: list[str | "
        "Literal[1]] = …) "
        "-> TypedDict[{'ok': NotRequired[bool]}]:"
    )
    assert python in declare_tools(tools, "python")


def test_results_become_values() -> None:
    def value(**fields: Any) -> Any:
        return script.to_value(ToolResult("id", **fields))

    assert value(content=(), data={"a": 1}) == {"a": 1}
    assert value(content=(Media("image", url="https://a/b.png"),)) == {"image_url": "https://a/b.png"}


async def test_scripts_end_silently_with_their_conversation(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever is at work when a conversation is collected, perhaps another one, must not be told about its
    scripts.
    """
    scripts = Scripts()
    assert (await scripts.run("for (;;) {}", seconds=0.0))[0].startswith("Script running")
    running = scripts.host._scripts["1"]  # pyright: ignore[reportPrivateUsage]
    del scripts
    gc.collect()
    assert running.state == "stopped"
    child = running._process._process  # pyright: ignore[reportPrivateUsage]
    assert child is None or await asyncio.to_thread(child.wait, 10) != 0
    assert [record.message for record in caplog.records if record.levelno >= logging.INFO] == []
    assert capfd.readouterr() == ("", "")


async def test_a_script_may_be_collected_while_its_process_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The garbage collector runs anywhere: also in the thread that starts a process, while that holds the
    lock.
    """
    ended = threading.Event()
    is_known = threading.Event()
    started: list[ScriptProcess] = []
    popen = subprocess.Popen

    def collect(*arguments: Any, **options: Any) -> Any:
        assert is_known.wait(10)
        started[0].kill()  # as the finalizer of its conversation does
        return popen(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", collect)

    def ignore(message: ScriptMessage) -> None:
        pass

    def end(reason: str) -> None:
        ended.set()

    started.append(
        ScriptProcess("javascript", "for (;;) {}", tools=[], stored={}, on_message=ignore, on_end=end)
    )
    is_known.set()
    assert await asyncio.to_thread(ended.wait, 10)
