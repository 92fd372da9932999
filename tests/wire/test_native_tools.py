"""Tools that a vendor's models know by themselves: declared by their type where they are known, as functions
elsewhere.
"""

from typing import Any

import pytest
from openai.types.responses import response_input_param, tool_param
from pydantic import TypeAdapter

from toolglot.providers.catalog import resolve_profile
from toolglot.values.messages import (
    Message,
    Origin,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from toolglot.values.request import Request, ToolChoice, ToolDefinition
from toolglot.wire.codec import decode_request, encode_request

Doc = dict[str, Any]
SHELL: Doc = {"type": "shell", "environment": {"type": "local"}}
PATCH: Doc = {"type": "apply_patch"}
BASH: Doc = {"type": "bash_20250124", "name": "bash"}
ANY: Doc = {"type": "object", "properties": {"commands": {"type": "array", "items": {"type": "string"}}}}
TOOLS = (
    ToolDefinition("shell", "Runs.", ANY, typed={"openai-responses": SHELL}),
    ToolDefinition("apply_patch", "Changes.", ANY, typed={"openai-responses": PATCH}),
    ToolDefinition("bash", "Runs.", ANY, typed={"anthropic-messages": BASH}),
)


def body(profile: str, model: str, *messages: Message, choice: ToolChoice | None = None) -> Doc:
    request = Request(model, messages or (user("hi"),), TOOLS, choice)
    return encode_request(request, resolve_profile(profile, model)).body


def tool_types(profile: str, model: str) -> list[str]:
    """The types of the three tools on the wire."""
    tools = body(profile, model)["tools"]
    return [tool.get("type") or "function" for tool in tools]


@pytest.mark.parametrize(("profile", "model", "types"), [
    ("openai-responses", "gpt-5.1", ["shell", "apply_patch", "function"]),
    ("openai-responses", "gpt-5.2-codex", ["shell", "apply_patch", "function"]),
    ("openai-responses", "gpt-6", ["shell", "apply_patch", "function"]),
    ("openai-responses", "gpt-5", ["function"] * 3),
    ("openai-responses", "gpt-4.1", ["function"] * 3),
    ("azure-responses", "gpt-5.1", ["function"] * 3),
    ("openai-chat", "gpt-5.1", ["function"] * 3),
    ("anthropic", "claude-opus-5", ["function", "function", "bash_20250124"]),
    ("anthropic", "claude-sonnet-4-5", ["function", "function", "bash_20250124"]),
    ("anthropic", "claude-3-5-haiku-latest", ["function"] * 3),
])  # fmt: skip
def test_a_tool_is_declared_by_its_type_only_where_the_model_knows_it(
    profile: str, model: str, types: list[str]
) -> None:
    assert tool_types(profile, model) == types


def test_what_is_declared_is_what_the_sdk_takes() -> None:
    for tool in body("openai-responses", "gpt-5.2")["tools"]:
        TypeAdapter[Any](tool_param.ToolParam).validate_python(tool)


def test_a_choice_names_the_type() -> None:
    encoded = body("openai-responses", "gpt-5.2", choice=ToolChoice("required", ("shell",)))
    assert encoded["tool_choice"] == {"type": "shell"}
    both = body("openai-responses", "gpt-5.2", choice=ToolChoice("auto", ("apply_patch", "bash")))
    assert both["tool_choice"]["tools"] == [{"type": "apply_patch"}, {"type": "function", "name": "bash"}]
    assert body("anthropic", "claude-opus-5", choice=ToolChoice("required", ("bash",)))["tool_choice"] == {
        "type": "tool",
        "name": "bash",
    }


OPERATION: Doc = {"type": "delete_file", "path": "a"}
OUTPUT: Doc = {"stdout": "a\n", "stderr": "b", "outcome": {"type": "exit", "exit_code": 3}}
LATE: Doc = {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}


def turn(name: str, arguments: Doc | None, result: ToolResult, raw: str | None = None) -> list[Doc]:
    """The items of one call and its result, which another model made."""
    call = ToolCall("c1", name, arguments, raw)
    return body("openai-responses", "gpt-5.2", user("hi"), assistant([call]), tool_results(result))["input"][
        1:
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "result", "items"),
    [
        (
            "shell",
            {"commands": ["ls"], "max_output_length": 9},
            ToolResult("c1", (Text("told"),), data=[OUTPUT, LATE]),
            [
                {
                    "type": "shell_call",
                    "call_id": "c1",
                    "action": {"commands": ["ls"], "max_output_length": 9},
                    "status": "completed",
                },
                {
                    "type": "shell_call_output",
                    "call_id": "c1",
                    "output": [OUTPUT, LATE],
                    "max_output_length": 9,
                },
            ],
        ),
        (
            "shell",
            {"commands": ["ls"]},
            ToolResult("c1", (Text("told"),), is_error=True, data={"no": "outputs"}),
            [
                {
                    "type": "shell_call",
                    "call_id": "c1",
                    "action": {"commands": ["ls"]},
                    "status": "completed",
                },
                {
                    "type": "shell_call_output",
                    "call_id": "c1",
                    "output": [{"stdout": "told", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
                },
            ],
        ),
        (
            "apply_patch",
            OPERATION,
            ToolResult("c1", (Text("no such file"),), is_error=True),
            [
                {"type": "apply_patch_call", "call_id": "c1", "operation": OPERATION, "status": "completed"},
                {
                    "type": "apply_patch_call_output",
                    "call_id": "c1",
                    "status": "failed",
                    "output": "no such file",
                },
            ],
        ),
    ],
)
def test_calls_of_other_models_become_items_of_the_tool(
    name: str, arguments: Doc, result: ToolResult, items: list[Doc]
) -> None:
    encoded = turn(name, arguments, result)
    assert encoded == items
    TypeAdapter[Any](response_input_param.ResponseInputParam).validate_python(encoded)


@pytest.mark.parametrize(
    ("name", "arguments", "raw"),
    [
        ("shell", {"command": "ls"}, None),
        ("apply_patch", {"input": "*** Begin Patch"}, None),
        ("shell", None, "{bro"),
    ],
)
def test_a_call_that_does_not_fit_the_tool_stays_a_function_call(
    name: str, arguments: Doc | None, raw: str | None
) -> None:
    call, output = turn(name, arguments, ToolResult("c1", (Text("x"),)), raw)
    assert (call["type"], call["name"], output["type"]) == ("function_call", name, "function_call_output")


def test_a_request_with_the_types_is_read_and_written_the_same() -> None:
    original = {
        "model": "gpt-5.2",
        "input": [
            {"role": "user", "content": "hi"},
            {
                "type": "shell_call",
                "call_id": "c",
                "id": "sh_1",
                "action": {"commands": ["ls"]},
                "status": "completed",
            },
            {"type": "shell_call_output", "call_id": "c", "output": [OUTPUT], "max_output_length": 4},
        ],
        "tools": [SHELL, PATCH],
    }
    profile = resolve_profile("openai-responses", "gpt-5.2")
    request = decode_request("openai-responses", original, profile="openai-responses", model="gpt-5.2")
    assert encode_request(request, profile).body == original
    other = with_other_origin(request)
    assert [item["type"] for item in encode_request(other, profile).body["input"][1:]] == [
        "shell_call",
        "shell_call_output",
    ]


def with_other_origin(request: Request) -> Request:
    """The same request with a history of another model."""
    origin = Origin("anthropic-messages", "anthropic", "claude-opus-5")
    call = Message("assistant", (ToolCall("c", "shell", {"commands": ["ls"]}),), origin)
    return Request(
        request.model, (user("hi"), call, tool_results(ToolResult("c", (Text("a"),)))), request.tools
    )
