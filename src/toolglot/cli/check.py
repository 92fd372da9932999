"""`toolglot check`: report what each provider would reject or lose of a set of tools."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from toolglot.cli.printer import Printer
from toolglot.cli.styled import Line
from toolglot.config.loading import import_object
from toolglot.errors import MalformedData, UsageError
from toolglot.jsontext import loads
from toolglot.losses import Loss, Repair
from toolglot.messages import user
from toolglot.providers.catalog import PROFILES, resolve_profile
from toolglot.providers.preflight import Problem, preflight
from toolglot.request import Request, ToolDefinition
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool
from toolglot.wire import spec
from toolglot.wire.codec import decode_request, encode_request

__all__ = ["CheckResult", "check_tools", "load_definitions", "print_result"]


class CheckResult(msgspec.Struct, frozen=True):
    """What one provider would do with the tools."""

    provider: str
    model: str
    problems: list[Problem]
    losses: tuple[Loss, ...]
    repairs: tuple[Repair, ...]

    @property
    def is_refused(self) -> bool:
        """Whether the provider would reject a tool, or the whole set."""
        return any(problem.is_refused for problem in self.problems)


def check_tools(tools: Iterable[ToolDefinition], targets: Iterable[str]) -> Iterator[CheckResult]:
    """Check the tools for each `PROVIDER[:MODEL]`, or for all providers if there are no targets."""
    tools = tuple(tools)
    for target in list(targets) or sorted(PROFILES):
        provider, _, model = target.partition(":")
        profile = resolve_profile(provider, model)
        encoded = encode_request(Request(model, [user("check")], tools), profile)
        repairs = tuple(repair for repair in encoded.repairs if repair.where == "tools")
        yield CheckResult(provider, model, preflight(tools, profile), encoded.losses, repairs)


def print_result(result: CheckResult) -> None:
    """Print a result for people."""
    state, style = ("rejected", "red") if result.is_refused else ("changed", "yellow") if result.losses else ("ok", "green")
    target = f"{result.provider}:{result.model}" if result.model else result.provider
    printer = Printer(sys.stdout)
    printer.write(Line(f"{state:9}", style).append(f" {target}\n"))
    for label, notes in (("limit", result.problems), ("lost", result.losses), ("repaired", result.repairs)):
        for note in notes:
            printer.print_line(f"          {label}: {note}")


def load_definitions(name: str) -> list[ToolDefinition]:
    """Load tool definitions from a JSON file, from stdin (`-`), or from `module:object`."""
    if ":" in name and not Path(name).exists():
        return list(_to_definitions(import_object(name)))
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read {name}: {e.strerror}") from None
    try:
        return list(_to_definitions(loads(data)))
    except ValueError as e:
        raise MalformedData(f"{name} is not JSON: {e}") from None


def _to_definitions(value: Any) -> Iterator[ToolDefinition]:
    """Convert tools in any form: ours, functions, a provider's or MCP's JSON, lists of them, or a whole request."""
    match value:
        case ToolDefinition():
            yield value
        case Tool():
            yield value.definition
        case ToolRegistry():
            yield from value.definitions()
        case dict():
            fields = cast(dict[str, Any], value)
            if "tools" in fields and "type" not in fields:
                yield from _to_definitions(fields["tools"])
            else:
                yield from _decode_definition(fields)
        case list() | tuple():
            for item in cast(Iterable[Any], value):
                yield from _to_definitions(item)
        case _ if callable(value):
            yield tool(value).definition
        case _:
            raise UsageError(f"not a tool: {value!r:.80}")


def _decode_definition(fields: dict[str, Any]) -> Iterator[ToolDefinition]:
    """Decode one JSON tool; its keys tell which API format it is written in."""
    if "inputSchema" in fields:  # MCP
        yield ToolDefinition(str(fields.get("name", "")), str(fields.get("description") or ""), fields["inputSchema"])
        return
    if "functionDeclarations" in fields or "function_declarations" in fields:
        wire = spec.GEMINI
    elif "function" in fields or "custom" in fields:
        wire = spec.OPENAI_CHAT
    elif "input_schema" in fields:
        wire = spec.ANTHROPIC_MESSAGES
    elif "name" in fields or "type" in fields:
        wire = spec.OPENAI_RESPONSES
    else:
        raise UsageError(f"not a tool: an object with the keys {', '.join(map(repr, fields)) or 'none'}")
    yield from decode_request(wire, {"tools": [fields]}).tools
