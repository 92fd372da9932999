"""Document 003: Gemini works on files; the conversation of the document, with its `*.rs`."""

from pathlib import Path
from typing import Any

import pytest
from tests.handover.harness import list_refusals, make_engine, make_transport
from tests.wire.reply_reading import read, read_whole

from toolglot import AuditLog, Orchestrator, Rate, ToolConfig, coding_tools, find_facade
from toolglot.builtin.tools import BuiltinOptions, builtins
from toolglot.common.jsontext import dumps, loads
from toolglot.errors import TruncatedStream
from toolglot.providers.catalog import resolve_profile
from toolglot.simulator.core import Script
from toolglot.values.messages import Reply, Text, ToolCall
from toolglot.values.request import Request
from toolglot.wire.codec import decode_request, encode_request

from .kit import call, find_results, load_payload, make_agent

RUST_FILES = ("src/main.rs", "src/api.rs", "src/lib.rs")
ALLOWED = ToolConfig(ask=())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    for name in RUST_FILES:
        (root / name).write_text("fn main() {}\n")
    (root / "Cargo.toml").write_text("[package]\n")
    return root


def run_calls(project: Path, *calls: ToolCall, **options: Any) -> list[Any]:
    tools = coding_tools(project, options=BuiltinOptions(), state_dir=project.parent / "state")
    settings: dict[str, Any] = {"config": ALLOWED, **options}
    agent, transport = make_agent("gemini", *calls, tools=tools, facade="neutral", **settings)
    agent.run_sync("go")
    assert list_refusals(transport.sent) == []
    return find_results(agent.conversation)


def test_the_three_tools_are_shown_with_their_parameters() -> None:
    shown = {tool.name: tool for tool in find_facade("neutral").definitions}
    for expected in load_payload("003_tools"):
        parameters: Any = shown[expected["name"]].parameters
        assert expected["parameters"].keys() <= parameters["properties"].keys()
        assert parameters.get("required", []) == expected["required"]
        for name, schema in expected["parameters"].items():
            if "enum" in schema:
                assert parameters["properties"][name]["enum"] == schema["enum"]


def test_the_documents_conversation(project: Path) -> None:
    request, response, answered = (
        load_payload(f"003_{name}") for name in ("request", "response", "function_response")
    )
    prompt = request["contents"][0]["parts"][0]["text"]
    function_call = response["candidates"][0]["content"]["parts"][0]["functionCall"]
    tool_call = call(function_call["name"], function_call["args"])
    agent, transport = make_agent(
        "gemini", tool_call, answer="Three files.", tools=coding_tools(project), facade="neutral"
    )
    assert agent.run_sync(prompt).text == "Three files."
    first, second = (sent.body for sent in transport.sent)
    assert first["contents"] == request["contents"]
    # The field is named functionDeclarations in JSON; the document's name, that of the protos, is read as
    # well.
    assert [*request["tools"][0]] == ["function_declarations"]
    request["tools"][0]["function_declarations"] = first["tools"][0]["functionDeclarations"]
    assert decode_request("gemini", request).tools == decode_request("gemini", first).tools
    assert {"list_files", "read_file", "write_file"} <= {
        tool["name"] for tool in first["tools"][0]["functionDeclarations"]
    }
    called, result = second["contents"][-2:]
    expected_call, expected_result = answered["contents"]
    assert called == expected_call
    # Google's protos say "must be either 'user' or 'model'", so the result goes in a user content, not in a
    # function one; list_files returns an array, which stands below `output`, because a response must be an
    # object.
    assert (result["role"], expected_result["role"]) == ("user", "function")
    sent, expected = result["parts"][0]["functionResponse"], expected_result["parts"][0]["functionResponse"]
    assert sent["name"] == expected["name"]
    assert sorted(sent["response"]["output"]) == sorted(expected["response"]["files"])
    assert list_refusals(transport.sent) == []


def test_the_documents_response_is_read() -> None:
    response = load_payload("003_response")
    [tool_call] = read_whole("gemini", response).reply.calls
    assert (tool_call.name, tool_call.arguments) == ("list_files", {"pattern": "*.rs"})
    # A stream ends with a finishReason, which the document leaves out: without it the reply counts as cut
    # off.
    with pytest.raises(TruncatedStream):
        read("gemini", b"data: " + dumps(response) + b"\n\n")
    response["candidates"][0]["finishReason"] = "STOP"
    [streamed] = read("gemini", b"data: " + dumps(response) + b"\n\n").reply.calls
    assert streamed.arguments == tool_call.arguments


def test_the_documents_history_is_read_and_sent_again() -> None:
    body = {
        "contents": [
            *load_payload("003_request")["contents"],
            *load_payload("003_function_response")["contents"],
        ]
    }
    request = decode_request("gemini", body)
    [result] = [result for message in request.messages for result in message.results]
    assert result.data == {"files": [*RUST_FILES]}
    sent = encode_request(
        Request(messages=request.messages), resolve_profile("gemini", "gemini-2.5-pro")
    ).body
    assert [content["role"] for content in sent["contents"]] == ["user", "model", "user"]
    assert sent["contents"][2]["parts"][0]["functionResponse"]["response"] == {"files": [*RUST_FILES]}


@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses", "claude", "gemini", "ollama"])
def test_a_list_is_an_array_for_gemini_and_json_text_elsewhere(provider: str, project: Path) -> None:
    arguments = load_payload("003_response")["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]
    agent, transport = make_agent(
        provider, call("list_files", arguments), tools=coding_tools(project), facade="neutral"
    )
    agent.run_sync("List all Rust files")
    [result] = find_results(agent.conversation)
    assert sorted(loads(result.text)) == sorted(RUST_FILES)
    decoded = decode_request(transport.sent[-1].profile.wire, transport.sent[-1].body)
    [again] = [item for message in decoded.messages for item in message.results]
    assert loads(again.text) == loads(result.text)
    if provider == "gemini":
        response = transport.sent[-1].body["contents"][-1]["parts"][0]["functionResponse"]["response"]
        assert response == {"output": loads(result.text)}


def test_writing_appends_or_overwrites_with_a_backup(project: Path) -> None:
    modes = next(tool for tool in load_payload("003_tools") if tool["name"] == "write_file")["parameters"][
        "mode"
    ]["enum"]
    assert modes == ["overwrite", "append"]
    calls = [
        call("read_file", {"path": "src/lib.rs"}, "c0"),
        call("write_file", {"path": "src/lib.rs", "content": "// more\n", "mode": "append"}, "c1"),
        call("write_file", {"path": "src/lib.rs", "content": "new\n", "mode": "overwrite"}, "c2"),
    ]
    tools = builtins(project, state_dir=project.parent / "state")
    transport = make_transport(Script([*(Reply((item,), "tools") for item in calls), Reply((Text("done"),))]))
    engine = make_engine("gemini", transport, model="gemini-2.5-pro")
    agent = Orchestrator(engine, tools=tools.tools, facade="neutral", config=ALLOWED)
    try:
        agent.run_sync("go")
    finally:
        tools.close()
    assert not [result.text for result in find_results(agent.conversation) if result.is_error]
    assert (project / "src/lib.rs").read_text() == "new\n"
    kept = [path.read_bytes() for path in (project.parent / "state").rglob("*") if path.is_file()]
    assert any(b"fn main() {}\n// more\n" in data for data in kept)


def test_what_the_document_rejects_is_rejected(project: Path) -> None:
    limits = load_payload("003_limits")
    (project.parent / "secret.txt").write_text("secret")
    (project / "data.bin").write_bytes(bytes(range(256)))
    (project / "large.txt").write_text("x" * 99 + "\n" + "line\n" * 300_000)
    paths = {
        "..": f"{limits['rejected_paths'][0]}/secret.txt",
        "absolute": "/etc/passwd",
        "binary": "data.bin",
        "large": "large.txt",
    }
    results = run_calls(project, *(call("read_file", {"path": path}, key) for key, path in paths.items()))
    by_id = dict(zip(paths, results, strict=True))
    assert [by_id[key].error_kind for key in ("..", "absolute")] == ["not_allowed", "not_allowed"]
    assert by_id["binary"].is_error
    assert "binary" in by_id["binary"].text
    assert limits["size_limit"] == "1MB"
    assert (project / "large.txt").stat().st_size > 1_000_000 > len(by_id["large"].text)
    assert "start_line" in by_id["large"].text  # how to go on


def test_typical_calls_are_fast(project: Path) -> None:
    calls = [
        call("list_files", {"pattern": "*.rs"}),
        call("read_file", {"path": "src/lib.rs"}),
        call("write_file", {"path": "new.rs", "content": "// new\n", "mode": "append"}),
    ]
    agent, _ = make_agent("gemini", *calls * 5, tools=coding_tools(project), facade="neutral", config=ALLOWED)
    outcomes = agent.run_sync("go").outcomes
    for name in ("glob", "read", "write"):
        # The fastest of several: other programs may be running.
        seconds = [
            outcome.seconds
            for outcome in outcomes
            if outcome.call.name == name and not outcome.result.is_error
        ]
        assert len(seconds) == 5, name
        assert min(seconds) * 1000 < load_payload("003_limits")["typical_ms"], name


def test_calls_are_limited_and_audited(project: Path) -> None:
    arguments = load_payload("003_response")["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]
    calls = [
        call("list_files", {**arguments, "path": "." if number % 2 else "src"}, f"c{number}")
        for number in range(3)
    ]
    config = ToolConfig(ask=(), rates={"glob": Rate(2, 60)})
    audit = AuditLog(project.parent / "audit.jsonl")
    results = run_calls(project, *calls, config=config, audit=audit)
    assert [result.is_error for result in results] == [False, False, True]
    assert len((project.parent / "audit.jsonl").read_bytes().splitlines()) == 3


def test_a_write_can_need_confirmation(project: Path) -> None:
    [write] = [tool for tool in load_payload("003_tools") if tool["name"] == "write_file"]
    asked: list[str] = []

    def refuse(request: Any) -> bool:
        asked.append(request.call.name)
        return False

    arguments = {"path": "new.rs", "content": "x"}
    assert {*write["required"]} == arguments.keys()
    [result] = run_calls(project, call("write_file", arguments), config=ToolConfig(), approve=refuse)
    assert len(asked) == 1
    assert result.is_error
    assert not (project / "new.rs").exists()
