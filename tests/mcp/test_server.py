"""Tools as an MCP server, seen by the official client: in this process, in both generations of the protocol."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.subscriptions import ToolsListChanged

from mcp import Client, MCPError
from toolglot import Allow, ApprovalRequest, Media, Tool, ToolConfig, ToolOutput, ToolRegistry, tool
from toolglot.builtin.tools import builtins
from toolglot.errors import ToolError
from toolglot.facades.catalog import FACADE_MODULES, find_facade
from toolglot.mcp import McpServer, McpServers, McpToolServer, serve_http
from toolglot.mcp.serve.types import legal_name
from toolglot.tools.audit import AuditLog
from toolglot.tools.context import CallSuspended, Context
from toolglot.tools.tool import tool_from_definition, tool_from_schema

MODES = ["legacy", "auto"]  # auto: 2026-07-28, as the server offers it
both = pytest.mark.parametrize("mode", MODES)
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(8)
Answer = Callable[[Any, types.ElicitRequestParams], Awaitable[types.ElicitResult]]


def server(*tools: Tool | Callable[..., Any], **options: Any) -> McpToolServer:
    return McpToolServer(ToolRegistry(tools), **options)


@asynccontextmanager
async def connect(served: McpToolServer, mode: Any, **options: Any) -> AsyncGenerator[Client]:
    async with Client(served.sdk, mode=mode, cache=None, **options) as client:
        yield client


async def call(
    served: McpToolServer, mode: str, name: str, arguments: dict[str, Any] | None = None, **options: Any
) -> Any:
    async with connect(served, mode, **options) as client:
        return await client.call_tool(name, arguments or {})


def text(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


def answers(*replies: str, asked: list[str] | None = None, **content: Any) -> Answer:
    queue = [*replies]

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        action: Any = queue.pop(0)
        return types.ElicitResult(action=action, content=content if action == "accept" else None)

    return answer


@tool(effects="read")
def add(first: int, second: int = 1) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": first + second}


def echo(url: str) -> str:
    return url


def echo_path(path: str) -> str:
    return path


def say(arguments: dict[str, Any]) -> str:
    return arguments["name"]


def shout(text: str) -> str:
    return text.upper()


def rewrite(request: ApprovalRequest) -> Allow:
    return Allow(arguments={"path": "b"})


@tool(effects="write", approval=True, preview=lambda arguments: f"delete {arguments['path']}")
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@both
async def test_a_tool_with_its_schema_and_hints(mode: str) -> None:
    output = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    fetch = tool(echo, name="fetch", effects=["read", "network"], idempotent=True)
    shown = add.replace(output_schema=output, examples=[{"first": 1}])
    async with connect(server(shown, delete, fetch), mode) as client:
        listed = {item.name: item for item in (await client.list_tools()).tools}
        assert (await client.call_tool("add", {"first": 2})).structured_content == {"sum": 3}
    assert [*listed] == ["add", "delete", "fetch", "read_result"]
    assert listed["add"].description == 'Add two numbers.\nExample: {"first":1}'
    assert listed["add"].input_schema["required"] == ["first"]
    assert listed["add"].output_schema == output
    hints = {name: item.annotations for name, item in listed.items()}
    read, write, network = (hints[name] for name in ("add", "delete", "fetch"))
    assert read is not None
    assert write is not None
    assert network is not None
    assert (read.read_only_hint, read.destructive_hint, read.open_world_hint) == (True, False, False)
    assert (write.read_only_hint, write.destructive_hint) == (False, True)
    assert (network.read_only_hint, network.open_world_hint, network.idempotent_hint) == (False, True, True)


@both
async def test_results_of_every_kind(mode: str) -> None:
    def everything() -> list[Any]:
        return [
            "text",
            Media.from_bytes(PIXEL),
            Media.from_bytes(b"sound", "audio/wav"),
            Media.from_bytes(b"%PDF-1.7", "application/pdf", name="a.pdf"),
            Media("image", url="https://example.com/a.png"),
        ]

    result = await call(server(everything), mode, "everything")
    kinds = [block.type for block in result.content]
    assert kinds == ["text", "image", "audio", "resource", "resource_link"]
    assert base64.b64decode(result.content[1].data) == PIXEL
    assert (result.content[2].mime_type, result.content[3].resource.mime_type) == (
        "audio/wav",
        "application/pdf",
    )
    assert str(result.content[4].uri) == "https://example.com/a.png"


async def test_structured_content_is_any_json_only_where_the_protocol_allows_it() -> None:
    numbers = tool(lambda: [1, 2], name="numbers", output_schema={"type": "array"})
    served = server(numbers)
    for mode, expected in zip(MODES, (None, [1, 2]), strict=True):
        async with connect(served, mode) as client:
            assert (await client.list_tools()).tools[0].output_schema == (
                None if expected is None else {"type": "array"}
            )
            result = await client.call_tool("numbers", {})
        assert (result.is_error, result.structured_content, text(result)) == (False, expected, "[1,2]")


async def test_structured_output_that_is_too_long_is_an_error_with_the_reason() -> None:
    long = tool(lambda: {"a": "x" * 500}, name="long", output_schema={"type": "object"}, max_result=200)
    served = server(long)
    async with connect(served, "legacy") as client:
        await client.list_tools()
        result = await client.call_tool("long", {})
        assert result.is_error
        assert "too long" in text(result)
        handle = text(result).partition('handle="')[2].partition('"')[0]
        remainder = await client.call_tool("read_result", {"handle": handle})
    assert "this is the end" in text(remainder)
    assert not remainder.is_error


@both
async def test_failures_are_results_and_unknown_tools_are_errors(mode: str) -> None:
    def fail() -> str:
        raise OSError("disk full")

    async with connect(server(add, fail), mode) as client:
        broken = await client.call_tool("fail", {})
        invalid = await client.call_tool("add", {"first": "many"})
        repaired = await client.call_tool("add", {"first": "2"})
        with pytest.raises(MCPError, match="There is no such tool: 'ad'"):
            await client.call_tool("ad", {})
    assert (broken.is_error, text(broken)) == (True, "OSError: disk full")
    assert invalid.is_error
    assert "first" in text(invalid)
    assert text(repaired) == '{"sum":3}'


@both
async def test_names_that_mcp_does_not_allow(mode: str) -> None:
    odd = tool_from_schema("say hello", "Says it.", {"anyOf": [{"required": ["name"]}]}, say)
    spaced = add.replace(name="plus", namespace="math")
    async with connect(server(odd, spaced), mode) as client:
        listed = (await client.list_tools()).tools
        assert [item.name for item in listed[:2]] == [legal_name("say hello"), "math.plus"]
        assert (listed[0].title, listed[0].input_schema["type"]) == ("say hello", "object")
        assert text(await client.call_tool(legal_name("say hello"), {"name": "Ada"})) == "Ada"
        assert text(await client.call_tool("math.plus", {"first": 1})) == '{"sum":2}'


@both
async def test_progress_arrives_in_order_before_the_result(mode: str) -> None:
    def count(context: Context) -> str:
        for number in range(3):
            context.report(f"step {number}")
        return "done"

    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with connect(server(count), mode) as client:
        assert text(await client.call_tool("count", {}, progress_callback=on_progress)) == "done"
        assert seen == [(1, "step 0"), (2, "step 1"), (3, "step 2")]
        assert text(await client.call_tool("count", {})) == "done"  # nobody asked for progress


@both
async def test_a_call_that_is_cancelled_stops_and_others_go_on(mode: str) -> None:
    started, stopped, release = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    async def wait() -> str:
        await release.wait()
        return "done"

    lines: list[bytes] = []
    async with connect(server(hang, wait, audit=AuditLog(lines.append)), mode) as client:
        hanging = asyncio.create_task(client.call_tool("hang", {}))
        waiting = asyncio.create_task(client.call_tool("wait", {}))
        await started.wait()
        hanging.cancel()
        await stopped.wait()
        release.set()
        assert text(await waiting) == "done"
    assert sorted(line.count(b'"outcome":"interrupted"') > 0 for line in lines) == [False, True]


async def test_pages_of_a_list() -> None:
    registry = ToolRegistry(tool_from_schema(f"t{number}", "", {}, say) for number in range(5))
    served = McpToolServer(registry, page_size=2)
    async with connect(served, "legacy") as client:
        names, cursor = list[str](), None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [item.name for item in page.tools]
            if (cursor := page.next_cursor) is None:
                break
        assert names == [*(f"t{number}" for number in range(5)), "read_result"]
        old = (await client.list_tools()).next_cursor
        registry.unregister("t0")
        for invalid in (old, "x", "1:-1", "", f"{registry.version}:{'9' * 5000}"):
            with pytest.raises(MCPError, match="list them again"):
                await client.list_tools(cursor=invalid)


async def test_changes_of_the_registry_reach_clients() -> None:
    registry = ToolRegistry([add])
    served, changed = McpToolServer(registry), asyncio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async with connect(served, "legacy", message_handler=on_message) as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        await client.list_tools()
        await asyncio.to_thread(registry.register, delete)
        await changed.wait()
        assert "delete" in [item.name for item in (await client.list_tools()).tools]
    async with connect(served, "auto") as client, client.listen(tools_list_changed=True) as events:
        registry.unregister("delete")
        assert isinstance(await anext(aiter(events)), ToolsListChanged)
        with pytest.raises(MCPError, match="no such tool"):
            await client.call_tool("delete", {"path": "a"})
    registry.register(delete)  # nobody is left to be told


# ---- approvals


@both
async def test_the_user_of_the_client_is_asked(mode: str) -> None:
    asked, lines = list[str](), list[bytes]()
    served = server(delete, audit=AuditLog(lines.append))
    async with connect(
        served, mode, elicitation_callback=answers("accept", "decline", "cancel", asked=asked)
    ) as client:
        results = [await client.call_tool("delete", {"path": "a.txt"}) for _ in range(3)]
    assert [result.is_error for result in results] == [False, True, True]
    assert text(results[0]) == "deleted a.txt"
    assert "did not approve" in text(results[1])
    assert asked == ["Allow delete? (the tool always asks, and no rule allows it)\n\n> delete a.txt"] * 3
    assert [line.count(b'"approved":true') for line in lines] == [1, 0, 0]


@both
async def test_always_lasts_as_long_as_the_session(mode: str) -> None:
    async with connect(server(delete), mode, elicitation_callback=answers("accept", always=True)) as client:
        for path in ("a", "b"):
            assert text(await client.call_tool("delete", {"path": path})) == f"deleted {path}"


@both
async def test_a_call_is_refused_if_nobody_can_be_asked(mode: str) -> None:
    result = await call(server(delete, approval_hint="Use --yes."), mode, "delete", {"path": "a"})
    assert result.is_error
    assert text(result).startswith(
        "The call needs approval, but no approver is available. It did not run.\nIt was refused because "
    )
    assert text(result).endswith("Use --yes.")
    approved = server(delete, config=ToolConfig(approve=["delete"]))
    assert text(await call(approved, mode, "delete", {"path": "a"})) == "deleted a"


@both
async def test_the_program_may_decide_instead_of_the_user(mode: str) -> None:
    served = server(delete, approve=rewrite)
    assert text(await call(served, mode, "delete", {"path": "a"})).endswith("deleted b")


@both
async def test_what_the_user_approves_hides_nothing(mode: str) -> None:
    asked = list[str]()
    await call(
        server(delete),
        mode,
        "delete",
        {"path": "a\u202etxt\x1b[2K"},
        elicitation_callback=answers("decline", asked=asked),
    )
    assert "\u202e" not in asked[0]
    assert "\x1b" not in asked[0]


FORGERY = (
    "ls? (it only reads files)\n\n$ ls\r\n"
    + 80 * "\n"
    + "Allow delete? (it is harmless)\u2028\x85\x0b\x1b[2Krm -rf x"
)


@pytest.mark.parametrize("name", ["preview", "target", "arguments", "error"])
@both
async def test_nothing_in_a_question_looks_like_another(mode: str, name: str) -> None:
    """Wherever the model's text is shown: only the first line, and lines with a label, begin without a mark."""

    def fail(arguments: dict[str, Any]) -> str:
        raise ToolError(arguments["path"])

    def show(arguments: dict[str, Any]) -> str:
        return arguments["path"]

    kinds: dict[str, Any] = {
        "preview": {"preview": show},
        "target": {"target": show},
        "arguments": {},
        "error": {"preview": fail},
    }
    asked = list[str]()
    deletion = tool(echo_path, name="delete", approval=True, **kinds[name])
    await call(
        server(deletion),
        mode,
        "delete",
        {"path": FORGERY},
        elicitation_callback=answers("decline", asked=asked),
    )
    first, *others = asked[0].splitlines()
    assert first == "Allow delete? (the tool always asks, and no rule allows it)"
    assert all(
        line.startswith(("> ", "Target: ls? (", "There is no preview: ls? (")) for line in others if line
    )
    assert all(len(line) < 400 for line in others if not line.startswith("> "))
    assert "rm -rf x" in asked[0], "all of it is there"


@both
async def test_a_reason_with_many_lines_looks_like_no_other_question(mode: str) -> None:
    """A server whose tools are served again writes the reason of its own questions."""
    asked = list[str]()
    deletion = tool(echo_path, name="delete", approval=True, always_ask=lambda arguments: arguments["path"])
    await call(
        server(deletion),
        mode,
        "delete",
        {"path": FORGERY},
        elicitation_callback=answers("decline", asked=asked),
    )
    first, *others = asked[0].splitlines()
    assert first.startswith("Allow delete? (ls? (it only reads files)")
    assert len(first) < 400
    assert all(line.startswith("> ") for line in others if line)


async def test_an_approval_counts_only_for_the_call_that_was_shown() -> None:
    """What the server remembers with the client is sealed: it is bound to the tool and its arguments."""
    async with connect(server(delete), "auto", elicitation_callback=answers()) as client:
        first = await client.session.call_tool("delete", {"path": "a"}, allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        assert first.request_state is not None
        assert "fingerprint" not in first.request_state
        responses: Any = {"approval": types.ElicitResult(action="accept", content={})}
        for arguments, state in (
            ({"path": "b"}, first.request_state),
            ({"path": "a"}, first.request_state[:-4] + "AAAA"),
        ):
            with pytest.raises(MCPError, match="requestState"):
                await client.session.call_tool(
                    "delete", arguments, input_responses=responses, request_state=state
                )
        again = await client.session.call_tool(
            "delete",
            {"path": "a"},
            input_responses={},
            request_state=first.request_state,
            allow_input_required=True,
        )
        # the answer is missing, so the question comes again
        assert isinstance(again, types.InputRequiredResult)
        done = await client.session.call_tool(
            "delete", {"path": "a"}, input_responses=responses, request_state=again.request_state
        )
        assert isinstance(done, types.CallToolResult)
        assert text(done) == "deleted a"
        for state in (first.request_state, again.request_state):  # an answer counts once
            replayed = await client.session.call_tool(
                "delete",
                {"path": "a"},
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
            assert isinstance(replayed, types.InputRequiredResult)


@both
async def test_a_running_tool_asks(mode: str) -> None:
    """As code does whose calls need approval: the tool is suspended, and called again with the decision."""
    released: list[str] = []

    def ask(context: Context) -> str:
        assert context.inner_tools is not None
        ruling = context.inner_tools.rulings.get(())
        if ruling is None:
            request = ApprovalRequest(
                context.call, "ask", frozenset(), "", {"name": "Ada"}, reason="it wants a name"
            )
            raise CallSuspended(request, release=lambda: released.append("released"))
        return f"decided: {ruling.answer}"

    asked = list[str]()
    served = server(ask)
    async with connect(
        served, mode, elicitation_callback=answers("accept", "decline", asked=asked)
    ) as client:
        assert text(await client.call_tool("ask", {})).startswith("decided: Allow")
        assert text(await client.call_tool("ask", {})).startswith("decided: Deny")
    assert "it wants a name" in asked[0]
    refused = await call(served, mode, "ask")
    assert refused.is_error
    assert "cannot ask" in text(refused)
    assert released == ["released"]


async def test_a_call_that_has_started_never_starts_again() -> None:
    """Calls that wait for an answer are bounded. One that was ended is not repeated by a late answer."""
    starts, released = list[str](), list[str]()

    def ask(name: str, context: Context) -> str:
        starts.append(name)
        request = ApprovalRequest(context.call, "ask", frozenset(), "", reason="it wants a name")
        raise CallSuspended(request, release=lambda: released.append(name))

    responses: Any = {"approval": types.ElicitResult(action="accept", content={})}
    async with connect(server(ask), "auto", elicitation_callback=answers()) as client:
        names = [str(number) for number in range(33)]
        asked = [
            await client.session.call_tool("ask", {"name": name}, allow_input_required=True) for name in names
        ]
        assert released == ["0"]
        assert isinstance(asked[0], types.InputRequiredResult)
        with pytest.raises(MCPError, match="may have had effects"):
            await client.session.call_tool(
                "ask", {"name": "0"}, input_responses=responses, request_state=asked[0].request_state
            )
        assert starts == names
    assert sorted(released) == sorted(names)


async def test_a_question_that_is_cancelled_ends_the_call() -> None:
    asked, released = asyncio.Event(), asyncio.Event()

    def ask(context: Context) -> str:
        raise CallSuspended(
            ApprovalRequest(context.call, "ask", frozenset(), "", reason="it wants a name"),
            release=released.set,
        )

    async def wait(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connect(server(ask), "legacy", elicitation_callback=wait) as client:
        call = asyncio.create_task(client.call_tool("ask", {}))
        await asked.wait()
        call.cancel()
        await released.wait()


# ---- what is served


@both
async def test_read_only(mode: str) -> None:
    async with connect(server(add, delete, read_only=True), mode) as client:
        assert [item.name for item in (await client.list_tools()).tools] == ["add", "read_result"]
        refused = await client.call_tool("delete", {"path": "a"})
        assert refused.is_error
        assert "not allowed" in text(refused)


async def test_read_only_excludes_a_writer_that_has_the_name_of_a_reader() -> None:
    readers = [tool(lambda: "", name=name, namespace="a", effects="read") for name in ("item", "other")]
    writer = tool(lambda: "written", name="item", namespace="b", effects="write")
    served = McpToolServer([*readers, writer], read_only=True, approve=lambda request: "yes")
    async with connect(served, "auto") as client:
        assert [item.name for item in (await client.list_tools()).tools] == ["a.other", "read_result"]
        with pytest.raises(MCPError, match=r"no such tool: 'b\.item'"):
            await client.call_tool("b.item", {})


WRITERS: list[tuple[str, dict[str, Any]]] = [
    ("write", {"path": "new", "content": "x"}),
    ("shell", {"command": "touch new"}),
    ("Write", {"file_path": "new", "content": "x"}),
    ("Bash", {"command": "touch new"}),
    ("bash", {"command": "touch new"}),
    ("write_file", {"file_path": "new", "content": "x"}),
    ("run_shell_command", {"command": "touch new"}),
    ("exec_command", {"cmd": "touch new"}),
    ("shell_command", {"command": "touch new"}),
    ("apply_patch", {"input": "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch"}),
    ("str_replace_based_edit_tool", {"command": "create", "path": "new", "file_text": "x"}),
]


@pytest.mark.parametrize("read_only", [True, False])
async def test_read_only_under_every_facade(read_only: bool, tmp_path: Path) -> None:
    """A writer cannot be reached by any name: its own, that of the facade or that of another one."""
    loaded = builtins(tmp_path, state_dir=tmp_path / "state")
    written: set[str] = set()
    try:
        for id in FACADE_MODULES:
            served = McpToolServer(
                loaded.tools, facade=find_facade(id), read_only=read_only, approve=lambda request: "yes"
            )
            async with connect(served, "auto") as client:
                listed = (await client.list_tools()).tools
                hints = [item.annotations is not None and item.annotations.read_only_hint for item in listed]
                assert all(hints) == read_only, id
                for name, arguments in WRITERS:
                    with suppress(MCPError):
                        assert (await client.call_tool(name, arguments)).is_error or not read_only, (id, name)
                    if (tmp_path / "new").exists():
                        written.add(name)
                        (tmp_path / "new").unlink()
    finally:
        loaded.close()
    assert written == (set() if read_only else {name for name, _ in WRITERS})


@both
async def test_built_in_tools_under_the_names_of_a_facade(mode: str, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    loaded = builtins(tmp_path, state_dir=tmp_path / "state")
    try:
        facade = find_facade("claude-code")
        served = McpToolServer(
            [*loaded.tools, add], facade=facade, instructions="Be brief.", approve=lambda request: "yes"
        )
        async with connect(served, mode) as client:
            assert client.instructions is not None
            assert client.instructions.startswith("Be brief.\n\n")
            listed = {item.name: item for item in (await client.list_tools()).tools}
            assert {"Read", "Edit", "Bash", "add"} <= {*listed}
            assert "shell" not in listed
            hints = listed["Read"].annotations, listed["Bash"].annotations
            assert [hint is not None and hint.read_only_hint for hint in hints] == [True, False]
            path = str(tmp_path / "a.txt")
            edit = {"file_path": path, "old_string": "hello", "new_string": "bye"}
            read = await client.call_tool("Read", {"file_path": path})
            assert "hello" in text(read)
            assert read.structured_content is None
            assert not (await client.call_tool("Edit", edit)).is_error
            assert "bye" in text(await client.call_tool("Bash", {"command": "cat a.txt"}))
    finally:
        loaded.close()


@both
async def test_a_freeform_tool_takes_its_text_as_a_parameter(mode: str) -> None:
    from toolglot import ToolDefinition

    patch = tool_from_definition(ToolDefinition("patch", "Applies it.", kind="freeform"), shout)
    async with connect(server(patch), mode) as client:
        assert (await client.list_tools()).tools[0].input_schema["required"] == ["input"]
        assert text(await client.call_tool("patch", {"input": "abc"})) == "ABC"


async def test_every_connection_has_tools_of_its_own() -> None:
    events: list[str] = []

    def make() -> list[Tool]:
        seen: list[str] = []

        def remember(word: str) -> list[str]:
            seen.append(word)
            return seen

        return [tool(remember, effects="read")]

    @contextmanager
    def open_tools() -> Generator[Iterable[Tool]]:
        events.append("open")
        yield make()
        events.append("close")

    served = McpToolServer(make(), open_tools=open_tools)
    for _ in range(2):
        async with connect(served, "legacy") as client:
            assert text(await client.call_tool("remember", {"word": "a"})) == '["a"]'
    assert events == ["open", "close"] * 2
    async with connect(served, "auto") as client:  # requests that cannot be told apart share theirs
        await client.call_tool("remember", {"word": "a"})
        assert text(await client.call_tool("remember", {"word": "b"})) == '["a","b"]'
    assert events == ["open", "close"] * 2


async def test_tools_that_cannot_be_opened_are_an_error_of_one_sentence() -> None:
    from toolglot.errors import UsageError

    @contextmanager
    def open_tools() -> Generator[Iterable[Tool]]:
        raise UsageError("the directory is gone")
        yield ()

    async with connect(McpToolServer([add], open_tools=open_tools), "legacy") as client:
        for _ in range(2):
            with pytest.raises(MCPError, match="the tools cannot be used: the directory is gone"):
                await client.call_tool("add", {"first": 1})


@both
async def test_the_same_call_may_be_repeated(mode: str) -> None:
    """Whether a model goes around in circles is for its own agent to see."""
    async with connect(server(add), mode) as client:
        results = [text(await client.call_tool("add", {"first": 1})) for _ in range(8)]
    assert results == ['{"sum":2}'] * 8


@both
async def test_data_of_failed_results_is_not_structured_content(mode: str) -> None:
    failing = tool(lambda: ToolOutput("no", data={"a": 1}, is_error=True), name="failing")
    result = await call(server(failing), mode, "failing")
    assert (result.is_error, result.structured_content) == (True, None)


@both
async def test_rules_and_limits_apply(mode: str) -> None:
    config = ToolConfig(deny=["delete"], max_uses={"add": 1}, timeout=0.01)

    async def hang() -> None:
        await asyncio.Event().wait()

    async with connect(server(add, delete, hang, config=config), mode) as client:
        results = [await client.call_tool("add", {"first": 1}) for _ in range(2)]
        results += [await client.call_tool("delete", {"path": "a"}), await client.call_tool("hang", {})]
    assert [result.is_error for result in results] == [False, True, True, True]
    for word, result in zip(("limit", "denies", "did not finish"), results[1:], strict=True):
        assert word in text(result)


@both
async def test_tools_of_another_server_can_be_served(mode: str) -> None:
    """Through both servers: what the inner one asks and reports reaches the user of the client."""
    asked, reports = list[str](), list[str | None]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)

    @tool(approval=True, preview=lambda arguments: "erase all")
    def erase(context: Context) -> str:
        context.report("erasing")
        return "erased"

    async with serve_http(server(erase)) as url, McpServers({"inner": McpServer(url=url)}) as servers:
        outer = McpToolServer(servers.tools, config=ToolConfig(approve=["mcp__inner__*"]))
        async with connect(outer, mode, elicitation_callback=answers("accept", asked=asked)) as client:
            result = await client.call_tool("mcp__inner__erase", {}, progress_callback=on_progress)
        assert text(result) == "erased"
        assert "erase all" in asked[0]
        assert "erasing" in (reports[-1] or "")


@both
async def test_many_calls_at_once(mode: str) -> None:
    running, peak = 0, 0

    async def slow(number: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(10):
            await asyncio.sleep(0)
        running -= 1
        return number

    async with connect(server(slow, config=ToolConfig(max_parallel=4)), mode) as client:
        results = await asyncio.gather(
            *(client.call_tool("slow", {"number": number}) for number in range(100))
        )
    assert [text(result) for result in results] == [*map(str, range(100))]
    assert peak == 4
