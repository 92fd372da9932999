"""AG-UI: every event is one of the protocol, its own client understands them, and its requests become
conversations.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event, RunAgentInput
from pydantic import TypeAdapter
from tests.bridges.front_ends import encode_all, leave, parse, run_client, serve_example
from tests.loop.agents import check, make_agent

from toolglot import (
    Allow,
    Conversation,
    Deny,
    MalformedRequest,
    Media,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    tool,
)
from toolglot.bridges.ag_ui import AgUiEncoder, encode_events, read_request
from toolglot.bridges.event_streams import FrontEndRequest
from toolglot.values.events import ReplyStarted, RunEvent

EVENT: TypeAdapter[Any] = TypeAdapter(Event)


@pytest.fixture(scope="module")
def bodies() -> dict[str, str]:
    return encode_all(encode_events)


@pytest.fixture(scope="module")
def runs(bodies: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    return {name: parse(body) for name, body in bodies.items()}


def test_every_event_is_one_of_the_protocol(runs: dict[str, list[dict[str, Any]]]) -> None:
    for name, events in runs.items():
        for event in events:
            parsed = EVENT.validate_python(event)
            assert not parsed.model_extra, (name, event)
            assert parsed.model_dump(mode="json", by_alias=True) == event, name
        assert events[0]["type"] == "RUN_STARTED"
        assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR"), name


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event.get("name") or event["type"] for event in events]


def test_what_happens_in_a_run_is_told(runs: dict[str, list[dict[str, Any]]]) -> None:
    parallel = runs["parallel"]
    assert [kind for kind in types(parallel) if "CONTENT" not in kind and "ARGS" not in kind] == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "REASONING_ENCRYPTED_VALUE",
        "TOOL_CALL_RESULT",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    contents = {
        event["toolCallId"]: event["content"] for event in parallel if event["type"] == "TOOL_CALL_RESULT"
    }
    assert contents["c1"] == "3"
    assert [part["type"] for part in contents["c2"]] == ["text", "image"]
    failed = next(event for event in runs["failure and progress"] if event.get("metadata"))
    assert failed["metadata"] == {"toolglot": {"error": "execution"}}
    assert "toolglot.tool_progress" in types(runs["failure and progress"])
    (interrupt,) = runs["approval"][-1]["outcome"]["interrupts"]
    assert interrupt["metadata"]["toolglot"]["arguments"] == {"path": "a"}
    if "code" in runs:  # calls that code makes belong to the call that runs it
        assert "toolglot.inner_call" in types(runs["code"])
        assert [item["toolCallId"] for item in runs["code"][-1]["outcome"]["interrupts"]] == ["c1"]
    assert "toolglot.retrying" in types(runs["retry"])
    assert "toolglot.model_switched" in types(runs["switch"])
    assert "toolglot.context_truncated" in types(runs["truncation"])
    stopped = runs["length"][-2]
    assert (stopped["name"], stopped["value"]["stop"]) == ("toolglot.stopped_early", "length")
    assert "toolglot.media" in types(runs["media"])
    assert runs["output"][-1]["result"] == {"a": 1}
    assert runs["output of a class"][-1]["result"] == {"x": 1, "day": "2026-01-02"}
    assert runs["error"][-1]["code"] == "AuthenticationFailed"
    assert types(runs["broken stream"])[-1] == "RUN_ERROR"


def test_an_exception_says_nothing_to_strangers(caplog: pytest.LogCaptureFixture) -> None:
    async def crash() -> AsyncGenerator[RunEvent]:
        yield ReplyStarted("", "")
        raise RuntimeError("the password is 123")

    async def read() -> bytes:
        return b"".join([frame async for frame in encode_events(crash(), FrontEndRequest(chat_id="c"))])

    assert b"internal_error" in (sent := asyncio.run(read()))
    assert b"123" not in sent
    assert "the password is 123" in caplog.text


def test_a_stateless_server_gets_back_what_the_model_needs() -> None:
    @tool
    def look(path: str) -> str:
        """Look at a file."""
        return f"{path}: empty"

    async def converse() -> tuple[list[dict[str, Any]], Conversation]:
        conversation = Conversation()
        encoder = AgUiEncoder(FrontEndRequest(chat_id="t", run_id="r"), stateless=True)
        events: list[dict[str, Any]] = []
        async for event in make_agent("anthropic", tools=[look]).stream(
            'think Hm.\ncall look {"path": "a"}', conversation=conversation
        ):
            events += encoder.encode(event)
        return events, conversation

    events, conversation = asyncio.run(converse())
    call = conversation[1].calls[0]
    stored = [event for event in events if event["type"] == "REASONING_ENCRYPTED_VALUE"]
    body = {
        "threadId": "t",
        "runId": "r2",
        "messages": [
            {"id": "1", "role": "user", "content": conversation[0].text},
            {"id": "2", "role": "reasoning", "content": "Hm."},
            {
                "id": "r-1",
                "role": "assistant",
                "encryptedValue": stored[0]["encryptedValue"],
                "toolCalls": [
                    {"id": call.id, "type": "function", "function": {"name": "look", "arguments": call.text}}
                ],
            },
            {"id": "4", "role": "tool", "toolCallId": call.id, "content": "a: empty"},
            {"id": "5", "role": "assistant", "content": conversation[3].text},
            {"id": "6", "role": "user", "content": "Thanks."},
        ],
    }
    request = read_request(RunAgentInput.model_validate(body))
    assert request.history[1] == conversation[1]
    assert [message.role for message in request.history] == [message.role for message in conversation]
    check([*request.history])
    assert [message.text for message in request.prompt] == ["Thanks."]


def test_a_client_cannot_name_files_of_the_provider() -> None:
    part = {"type": "image", "source": {"type": "file", "value": "file-1"}}
    request = read_request(
        {"messages": [{"id": "1", "role": "user", "content": [{"type": "text", "text": "Hi"}, part]}]}
    )
    assert (request.prompt[0].blocks, len(request.losses)) == ((Text("Hi"),), 1)


def test_reasoning_without_a_reply_is_left_out() -> None:
    items = [("user", "Hi"), ("reasoning", "Hm."), ("user", "Hello?"), ("assistant", "Yes.")]
    messages = [
        {"id": str(number), "role": role, "content": text} for number, (role, text) in enumerate(items)
    ]
    request = read_request({"messages": messages})
    assert [message.blocks for message in request.history] == [
        (Text("Hi"),),
        (Text("Hello?"),),
        (Text("Yes."),),
    ]
    assert [loss.subject for loss in request.losses] == ["reasoning"]


def test_requests_become_messages() -> None:
    image = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
    link = {
        "type": "document",
        "source": {"type": "url", "value": "https://x/y.pdf", "mimeType": "application/pdf"},
    }
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{broken"}}
    body: dict[str, Any] = {
        "threadId": "t",
        "runId": "r",
        "state": {"a": 1},
        "context": [{"description": "User", "value": "Ada"}],
        "tools": [{"name": "confirm", "description": "Ask.", "parameters": {}}],
        "forwardedProps": {"x": 1},
        "messages": [
            {"id": "0", "role": "developer", "content": "Be brief."},
            {"id": "1", "role": "user", "content": [{"type": "text", "text": "Look:"}, image, link]},
            {"id": "2", "role": "assistant", "content": "Well.", "toolCalls": [call]},
            {"id": "3", "role": "tool", "toolCallId": "c1", "content": "", "error": "no such file"},
            {"id": "4", "role": "activity", "activityType": "PLAN", "content": {}},
            {"id": "5", "role": "user", "content": "Again."},
        ],
        "resume": [
            {
                "interruptId": "f1",
                "status": "resolved",
                "payload": {"approved": True, "editedArgs": {"path": "b"}},
            },
            {"interruptId": "f2", "status": "resolved", "payload": {"approved": False, "reason": "no"}},
            {"interruptId": "f3", "status": "cancelled"},
            {"interruptId": "f4", "status": "resolved", "payload": True},
            {"interruptId": "f5", "status": "resolved", "payload": {"approved": "yes"}},
        ],
    }
    RunAgentInput.model_validate(body)
    request = read_request(body)
    assert (request.chat_id, request.run_id, request.state, request.extras) == (
        "t",
        "r",
        {"a": 1},
        {"context": body["context"], "forwardedProps": {"x": 1}},
    )
    assert [message.role for message in request.history] == ["system", "system", "user", "assistant", "tool"]
    assert request.history[0].text.endswith("User: Ada")
    assert [block.kind for block in request.history[2].blocks if isinstance(block, Media)] == [
        "image",
        "file",
    ]
    assert request.history[3].blocks == (Text("Well."), ToolCall("c1", "look", raw="{broken"))
    assert request.history[4].results[0].is_error
    assert [loss.subject for loss in request.losses] == ["message with role 'activity'"]
    assert request.tools == (ToolDefinition("confirm", "Ask.", {"type": "object"}),)
    assert request.decisions == {
        "f1": Allow({"path": "b"}),
        "f2": Deny("no"),
        "f3": Deny(),
        "f4": Allow(),
        "f5": Deny(),  # whatever is not clearly a yes is a no
    }


@pytest.mark.parametrize("body", [
    b"{", b"[]", {"messages": [1]}, {"messages": "x"}, {"threadId": 1},
    {"messages": [{"role": "assistant", "toolCalls": [{"id": "1"}]}]},
    {"messages": [{"id": "a", "role": "assistant", "toolCalls": 5}, {"id": "a-1", "role": "assistant"}]},
    {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, {"messages": [{"role": "user", "content": 3}]},
])  # fmt: skip
def test_a_wrong_body_is_refused(body: Any) -> None:
    with pytest.raises(MalformedRequest):
        read_request(body)


def test_the_protocols_own_client_drives_a_conversation() -> None:
    with serve_example("ag_ui_server.py") as url:
        prompts = [
            'call get_weather {"city": "Paris"}',
            'think Hm.\ncall send_mail {"to": "a", "text": "b"}',
            '{"approved": true, "editedArgs": {"to": "c", "text": "b"}}',
            'call send_mail {"to": "a", "text": "b"}',
            '{"approved": false, "reason": "not now"}',
            "fault overloaded\nsay bye",
            "fault unauthorized",
            "say still here",
        ]
        seen = run_client("ag_ui_client.mjs", "@ag-ui/client", f"{url}/", *prompts)
    roles = [message["role"] for message in seen["messages"]]
    answered = ["user", "assistant", "tool", "assistant"]
    failed = ["user", "assistant", "user"]
    assert roles == [*answered, "user", "reasoning", *answered[1:], *answered, *failed, "user", "assistant"]
    results = [message["content"] for message in seen["messages"] if message["role"] == "tool"]
    assert results[0] == "Paris: 21 degrees"
    assert results[1].endswith("sent to c")
    assert "not now" in results[2]
    assert [len(run["interrupts"]) for run in seen["runs"]] == [0, 1, 0, 1, 0, 0, 0, 0]
    failures = [[failure.get("code") for failure in run["failures"]] for run in seen["runs"]]
    assert failures == [[]] * 6 + [["AuthenticationFailed"], []]
    assert any(event.get("name") == "toolglot.retrying" for event in seen["runs"][5]["events"])


def test_a_reader_that_leaves_interrupts_the_run() -> None:
    agent = make_agent("anthropic")
    asyncio.run(leave(encode_events, agent))
    check(agent.conversation)
    assert not agent._state.is_busy  # pyright: ignore[reportPrivateUsage]


def test_the_protocols_own_client_accepts_every_run(bodies: dict[str, str], tmp_path: Path) -> None:
    (file := tmp_path / "runs.json").write_text(json.dumps(bodies), encoding="utf-8")
    seen = run_client("ag_ui_client.mjs", "@ag-ui/client", str(file))
    failed = {
        name: [failure.get("code") for failure in run["failures"]]
        for name, run in seen.items()
        if run["failures"]
    }
    assert failed == {"error": ["AuthenticationFailed"], "broken stream": ["ConnectionLost"]}
    for name, run in seen.items():
        assert len(run["events"]) == len(parse(bodies[name])), name
    parallel = seen["parallel"]["messages"]
    assert [message["role"] for message in parallel] == [
        "reasoning",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert parallel[1]["content"] == "Both."
    assert [call["id"] for call in parallel[1]["toolCalls"]] == ["c1", "c2"]
    assert "encryptedValue" in parallel[1]
    (reply,) = (message for message in seen["calls in one piece"]["messages"] if message.get("toolCalls"))
    assert [json.loads(call["function"]["arguments"]) for call in reply["toolCalls"]] == [
        {"a": 1, "b": 2},
        {},
    ]
    interleaved = seen["interleaved"]["messages"]
    request = read_request({"messages": [{"id": "1", "role": "user", "content": "Go."}, *interleaved]})
    check([*request.history])
    texts = [block.text for block in request.history[1].blocks if isinstance(block, Text | Thinking)]
    assert texts == ["Hm.", "First.", "So.", "Second."]
    assert [call.id for call in request.history[1].calls] == ["c1", "c2"]
    assert all(
        "signature" in (block.opaque or {})
        for block in request.history[1].blocks
        if isinstance(block, Thinking)
    )
