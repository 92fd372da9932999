"""The UI message stream: the AI SDK's own chat understands it, and its requests become conversations."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.bridges.front_ends import encode_all, leave, parse, run_client, serve_example
from tests.bridges.kit import PNG
from tests.loop.agents import check, make_agent

from toolglot import Allow, Conversation, Deny, MalformedRequest, Media, Text, ToolCall, assistant, tool, user
from toolglot.bridges.event_streams import FrontEndRequest
from toolglot.bridges.vercel import VercelEncoder, encode_events, read_request, rewind
from toolglot.values.events import BlockReady


@pytest.fixture(scope="module")
def bodies() -> dict[str, str]:
    return encode_all(encode_events)


@pytest.fixture(scope="module")
def runs(bodies: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    return {name: parse(body) for name, body in bodies.items()}


def types(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def test_what_happens_in_a_run_is_told(runs: dict[str, list[dict[str, Any]]]) -> None:
    for name, chunks in runs.items():
        assert types(chunks)[0] == "start"
        assert types(chunks)[-1] == "finish", name
        assert types(chunks).count("start-step") == types(chunks).count("finish-step")
    assert [kind for kind in types(runs["parallel"]) if "delta" not in kind] == [
        "start",
        "start-step",
        "reasoning-start",
        "reasoning-end",
        "text-start",
        "text-end",
        "tool-input-start",
        "tool-input-start",
        "data-toolglot-reply",
        "tool-input-available",
        "tool-input-available",
        "tool-output-available",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-end",
        "finish-step",
        "finish",
    ]
    outputs = {
        chunk["toolCallId"]: chunk["output"]
        for chunk in runs["parallel"]
        if chunk["type"] == "tool-output-available"
    }
    assert outputs["c1"] == 3
    assert outputs["c2"]["files"][0]["url"].startswith("data:image/png;base64,")
    assert {"tool-output-error", "data-toolglot-tool-progress"} <= {*types(runs["failure and progress"])}
    assert "tool-approval-request" in types(runs["approval"])
    assert "tool-output-denied" in types(runs["refusal"])
    assert "tool-input-error" in types(runs["invalid"])
    assert "tool-input-available" not in types(runs["invalid"]) + types(runs["approval"])
    assert "data-toolglot-retrying" in types(runs["retry"])
    assert "data-toolglot-model-switched" in types(runs["switch"])
    assert "data-toolglot-context-truncated" in types(runs["truncation"])
    assert "file" in types(runs["media"])
    assert {"type": "data-toolglot-output", "data": {"a": 1}} in runs["output"]
    assert {"type": "data-toolglot-output", "data": {"x": 1, "day": "2026-01-02"}} in runs[
        "output of a class"
    ]
    reasons = {name: chunks[-1]["finishReason"] for name, chunks in runs.items()}
    assert (reasons["length"], reasons["approval"], reasons["error"], reasons["retry"]) == (
        "length",
        "tool-calls",
        "error",
        "stop",
    )
    assert "data-toolglot-stopped-early" in types(runs["length"])
    assert "error" in types(runs["broken stream"])


def test_a_stateless_server_gets_back_what_the_model_needs() -> None:
    @tool
    def look(path: str) -> str:
        """Look at a file."""
        return f"{path}: empty"

    async def converse() -> tuple[list[dict[str, Any]], Conversation]:
        conversation, encoder = Conversation(), VercelEncoder(FrontEndRequest(chat_id="t"), stateless=True)
        chunks: list[dict[str, Any]] = []
        async for event in make_agent("anthropic", tools=[look]).stream(
            'think Hm.\ncall look {"path": "a"}', conversation=conversation
        ):
            chunks += encoder.encode(event)
        return chunks, conversation

    chunks, conversation = asyncio.run(converse())
    call = conversation[1].calls[0]
    part = {
        "type": "tool-look",
        "toolCallId": call.id,
        "state": "output-available",
        "input": call.arguments,
        "output": "a: empty",
    }
    stored = [chunk for chunk in chunks if chunk["type"] == "data-toolglot-reply"]
    parts = [
        {"type": "step-start"},
        {"type": "reasoning", "text": "Hm."},
        part,
        stored[0],
        {"type": "step-start"},
    ]
    messages = [
        {"id": "1", "role": "user", "parts": [{"type": "text", "text": conversation[0].text}]},
        {"id": "2", "role": "assistant", "parts": [*parts, {"type": "text", "text": conversation[3].text}]},
        {"id": "3", "role": "user", "parts": [{"type": "text", "text": "Thanks."}]},
    ]
    request = read_request({"id": "t", "messages": messages, "trigger": "submit-message"})
    assert request.history[1] == conversation[1]
    assert [message.role for message in request.history] == [message.role for message in conversation]
    check([*request.history])
    assert ([message.text for message in request.prompt], request.losses) == (["Thanks."], ())
    assert request.extras == {"trigger": "submit-message"}


def test_requests_become_messages() -> None:
    def part(state: str, **fields: Any) -> dict[str, Any]:
        return {
            "type": "tool-look",
            "toolCallId": f"c-{state}",
            "state": state,
            "input": {"path": "a"},
            **fields,
        }

    image = {
        "type": "file",
        "mediaType": "image/png",
        "url": "data:image/png;base64,aGk=",
        "filename": "a.png",
    }
    link = {"type": "file", "mediaType": "application/pdf", "url": "https://x/y.pdf"}
    parts = [
        part("input-streaming"),
        part("output-available", output={"a": 1}),
        part("output-error", errorText="no"),
        part("output-denied"),
        part("approval-responded", approval={"id": "f1", "approved": True}),
        {
            **part("approval-responded", approval={"id": "f2", "approved": False, "reason": "no"}),
            "type": "dynamic-tool",
            "toolName": "x",
        },
        {"type": "source-url", "url": "https://x"},
    ]
    body = {
        "id": "chat",
        "messages": [
            {"id": "0", "role": "system", "parts": [{"type": "text", "text": "Be brief."}]},
            {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Look:"}, image, link]},
            {"id": "2", "role": "assistant", "parts": parts},
        ],
    }
    edited = read_request({**body, "approvalArguments": {"f1": {"path": "b"}, "f2": {}}})
    assert edited.decisions == {"f1": Allow({"path": "b"}), "f2": Deny("no")}
    request = read_request(body)
    assert (request.chat_id, request.message_id, request.prompt) == ("chat", "2", ())
    assert request.decisions == {"f1": Allow(), "f2": Deny("no")}
    assert [message.role for message in request.history] == ["system", "user", "assistant", "tool"]
    media = [block for block in request.history[1].blocks if isinstance(block, Media)]
    assert [(block.kind, block.data, block.url, block.name) for block in media] == [
        ("image", "aGk=", None, "a.png"),
        ("file", None, "https://x/y.pdf", ""),
    ]
    calls = request.history[2].calls
    assert [call.id for call in calls] == [
        f"c-{state}" for state in ("output-available", "output-error", "output-denied")
    ] + ["c-approval-responded"] * 2
    assert calls[0] == ToolCall("c-output-available", "look", {"path": "a"})
    results = request.history[3].results
    assert [(result.text[:9], result.is_error) for result in results] == [
        ('{"a":1}', False),
        ("no", True),
        ("The user ", True),
    ]
    assert [loss.subject for loss in request.losses] == ["part of type 'source-url'"]
    later = [
        *body["messages"],
        {"id": "3", "role": "user", "parts": [{"type": "text", "text": "Never mind."}]},
    ]
    assert read_request({**body, "messages": later}).decisions == {}
    assert request.history[0].blocks == (Text("Be brief."),)


@pytest.mark.parametrize("body", [
    b"{", b"1", {}, {"messages": "x"}, {"messages": [{"role": "user", "parts": [1]}]}, {"id": [], "messages": []},
    {"messages": [{"role": "user", "content": "of an older version"}]},
    {"messages": [{"role": "user", "parts": [{"type": "file", "url": "data:text/plain,x"}]}]},
    {"messages": [{"role": "user", "parts": [{"type": "file", "url": "data:image/png;base64,@"}]}]},
])  # fmt: skip
def test_a_wrong_body_is_refused(body: Any) -> None:
    with pytest.raises(MalformedRequest):
        read_request(body)


def test_files_of_results_come_back_as_files(runs: dict[str, list[dict[str, Any]]]) -> None:
    outputs = [chunk["output"] for chunk in runs["parallel"] if chunk["type"] == "tool-output-available"]
    outputs.append({"text": "x", "files": ["a.py"]})  # data of a tool
    call: dict[str, Any] = {"type": "tool-draw", "state": "output-available", "input": {}}
    parts = [{**call, "toolCallId": str(number), "output": output} for number, output in enumerate(outputs)]
    results = read_request({"messages": [{"role": "assistant", "parts": parts}]}).history[1].results
    assert [result.content for result in results] == [
        (Text("3"),),
        (Text("a picture"), Media.from_bytes(PNG)),
        (Text('{"text":"x","files":["a.py"]}'),),
    ]


def test_a_file_of_the_provider_is_told() -> None:
    (chunk,) = VercelEncoder(FrontEndRequest(chat_id="t")).encode(
        BlockReady(0, Media("image", "image/png", file_id="f"))
    )
    assert (chunk["type"], chunk["data"]["fileId"]) == ("data-toolglot-provider-file", "f")


def test_only_replies_have_calls_and_reasoning() -> None:
    call: dict[str, Any] = {
        "type": "tool-look",
        "toolCallId": "c",
        "state": "output-available",
        "input": {},
        "output": "x",
    }
    parts = [call, {"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Hi"}]
    messages = [{"role": role, "parts": parts} for role in ("system", "tool", None, "user")]
    request = read_request({"messages": messages})
    assert [(message.role, message.blocks) for message in (*request.history, *request.prompt)] == [
        ("system", (Text("Hi"),)),
        ("user", (Text("Hi"),)),
    ]
    subjects = ["part of type 'tool-look'", "part of type 'reasoning'"]
    roles = ["message with role 'tool'", "message with role None"]
    assert [loss.subject for loss in request.losses] == [*subjects, *roles, *subjects]


def test_the_sdks_own_chat_drives_a_conversation() -> None:
    with serve_example("vercel_server.py") as url:
        prompts = [
            'call get_weather {"city": "Paris"}',
            'think Hm.\ncall send_mail {"to": "a", "text": "b"}',
            '{"approved": true}',
            'call send_mail {"to": "a", "text": "b"}',
            '{"approved": false, "reason": "not now"}',
            "fault overloaded\nsay bye",
            "regenerate",
            "say a long story\nstop length",
            "fault unauthorized",
        ]
        seen = run_client("vercel_client.mjs", "ai", f"{url}/api/chat", *prompts)
    assert [message["role"] for message in seen["messages"]] == [*["user", "assistant"] * 5, "user"]
    parts = [
        part for message in seen["messages"] for part in message["parts"] if part["type"].startswith("tool-")
    ]
    assert [(part["type"], part["state"], part.get("output")) for part in parts] == [
        ("tool-get_weather", "output-available", "Paris: 21 degrees"),
        ("tool-send_mail", "output-available", "sent to a"),
        ("tool-send_mail", "output-denied", None),
    ]
    assert [part["text"] for part in seen["messages"][3]["parts"] if part["type"] == "reasoning"] == ["Hm."]
    assert seen["finishes"][:-1] == [
        "stop",
        "tool-calls",
        "stop",
        "tool-calls",
        "stop",
        "stop",
        "stop",
        "length",
    ]
    assert len(seen["errors"]) == 1
    assert {"data-toolglot-retrying", "data-toolglot-stopped-early", "data-toolglot-error"} <= {
        part["type"] for part in seen["data"]
    }


def test_the_server_forgets_what_the_user_removed() -> None:
    with serve_example("vercel_server.py") as url:
        prompts = [
            "say one",
            "say two",
            "edit say three",
            "regenerate",
            "fault unauthorized",
            "edit say four",
            "say five",
        ]
        seen = run_client("vercel_client.mjs", "ai", f"{url}/api/chat", *prompts)
    texts = [
        part["text"] for message in seen["messages"] for part in message["parts"] if part["type"] == "text"
    ]
    assert texts == ["say one", "one", "say three", "three", "say four", "four", "say five", "five"]
    conversation = Conversation([user("a"), assistant("A"), user("b"), assistant("B")])
    for trigger, prompts, kept in (
        ("regenerate-message", "ab", 2),
        ("regenerate-message", "x", 0),
        ("submit-message", "abc", 4),
    ):
        turns = [
            {"role": role, "parts": [{"type": "text", "text": text}]}
            for text in prompts
            for role in ("user", "assistant")
        ]
        assert len(rewind(conversation, read_request({"messages": turns[:-1], "trigger": trigger}))) == kept


def test_a_reader_that_leaves_interrupts_the_run() -> None:
    agent = make_agent("anthropic")
    asyncio.run(leave(encode_events, agent))
    check(agent.conversation)
    assert not agent._state.is_busy  # pyright: ignore[reportPrivateUsage]


def test_the_sdks_own_chat_accepts_every_run(bodies: dict[str, str], tmp_path: Path) -> None:
    (file := tmp_path / "runs.json").write_text(json.dumps(bodies), encoding="utf-8")
    seen = run_client("vercel_client.mjs", "ai", str(file))
    failed = {name: len(run["errors"]) for name, run in seen.items() if run["errors"]}
    assert failed == {"error": 1, "broken stream": 1}
    parts = seen["parallel"]["messages"][1]["parts"]
    assert [part["type"] for part in parts if part["type"] != "step-start"] == [
        "reasoning",
        "text",
        "tool-add",
        "tool-draw",
        "data-toolglot-reply",
        "text",
    ]
    assert [part["state"] for part in seen["eager"]["messages"][1]["parts"] if "state" in part] == [
        "output-available",
        "done",
        "output-available",
        "done",
    ]
