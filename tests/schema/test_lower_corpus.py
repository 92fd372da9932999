"""Every tool schema of the recorded requests, for every dialect, before the referee, who knows the providers'
4xx.
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from schema_legality import violations

from toolglot.schema.dialects import DIALECTS, Dialect
from toolglot.schema.lower import check_strict_limits, lower
from toolglot.schema.openapi import from_openapi

SHARED = Path(__file__).parents[3] / "shared"
RECORDINGS = SHARED / "corpus" / "recordings"
REFEREE = SHARED / "referee"

pytestmark = [
    pytest.mark.skipif(
        not (RECORDINGS.is_dir() and REFEREE.is_dir()),
        reason=f"needs {RECORDINGS} and {REFEREE}, which are not in the repository",
    ),
    pytest.mark.untraced,
]

HELLO = [{"role": "user", "content": "Hello"}]


def schemas_in(tools: Any) -> Iterator[Any]:
    """The schemas anywhere in a wire's `tools`."""
    if isinstance(tools, list):
        for tool in cast("list[Any]", tools):
            yield from schemas_in(tool)
    elif isinstance(tools, dict):
        for key, value in cast("dict[str, Any]", tools).items():
            if key in ("input_schema", "parametersJsonSchema", "parameters_json_schema", "json"):
                yield value
            elif key == "parameters":
                yield from_openapi(value)
            elif key in (
                "function",
                "functionDeclarations",
                "function_declarations",
                "toolSpec",
                "inputSchema",
                "tools",
            ):
                yield from schemas_in(value)


@cache
def corpus() -> list[Any]:
    lines = (line for path in sorted(RECORDINGS.glob("*.jsonl")) for line in path.read_text().splitlines())
    requests: Iterator[dict[str, Any]] = (json.loads(line)["request"] or {} for line in lines)
    schemas = (schema for request in requests for schema in schemas_in(request.get("tools")))
    return list({json.dumps(schema, sort_keys=True): schema for schema in schemas}.values())


def bodies(schema: dict[str, Any], dialect: Dialect) -> Iterator[tuple[str, dict[str, Any]]]:
    """The smallest requests that carry the schema, by wire."""
    strict = {"strict": True} if dialect.name.endswith("strict") else {}
    named: dict[str, Any] = {"name": "tool", "description": "A tool."}
    function = {**named, "parameters": schema, **strict}
    if dialect.name.startswith("anthropic"):
        tool = {**named, "input_schema": schema, **strict}
        yield (
            "anthropic-messages",
            {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": HELLO, "tools": [tool]},
        )
    elif dialect.name.startswith("gemini"):
        field = "parametersJsonSchema" if dialect.name == "gemini" else "parameters"
        parameters = {field: schema} if schema["properties"] or field == "parametersJsonSchema" else {}
        contents = [{"role": "user", "parts": [{"text": "Hello"}]}]
        yield "gemini", {"contents": contents, "tools": [{"functionDeclarations": [{**named, **parameters}]}]}
    elif dialect.name == "ollama":
        yield (
            "ollama-chat",
            {"model": "llama", "messages": HELLO, "tools": [{"type": "function", "function": function}]},
        )
    else:
        yield (
            "openai-chat",
            {"model": "gpt-4.1", "messages": HELLO, "tools": [{"type": "function", "function": function}]},
        )
        yield (
            "openai-responses",
            {"model": "gpt-4.1", "input": "Hello", "tools": [{"type": "function", **function}]},
        )


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_referee_accepts_every_recorded_schema(dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(REFEREE), *sys.path])
    check: Callable[[str, Any], list[Any]] = importlib.import_module("referee").check
    assert len(corpus()) > 200
    for schema in corpus():
        lowered = lower(schema, dialect, tool_name="tool")
        assert violations(lowered.schema, dialect.name) == []
        assert lower(lowered.schema, dialect, tool_name="tool").schema == lowered.schema
        if check_strict_limits({"tool": lowered.schema}, dialect):
            continue  # goes out without strict
        for wire, body in bodies(lowered.schema, dialect):
            refused = [
                v for v in check(wire, body) if v.severity == "error" and v.evidence in ("spec", "real4xx")
            ]
            assert refused == [], (wire, schema, lowered.schema)


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.is_open], ids=lambda dialect: dialect.name)
def test_open_dialects_leave_recorded_schemas_alone(dialect: Dialect) -> None:
    plain: list[Any] = [
        schema for schema in corpus() if schema is not True and schema.get("type") == "object"
    ]
    losses = [loss for schema in plain for loss in lower(schema, dialect, tool_name="t").losses]
    assert {loss.subject for loss in losses} <= {"property name"}
    assert len(losses) <= 1
