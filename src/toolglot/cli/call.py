"""`toolglot call`: one tool run as a model would run it: the same sandbox, rules, approvals and audit log.

`--jsonl`: {"id", "tool", "arguments"} in a line gives {"id", "ok", "content", "error", "seconds"} in a line, in the same order.
A line that is no call is answered in the same form. What goes on running ends with the program, and that is said.
Without an approval (`--yes`) a call that needs one is refused. Exit: 0 all calls went well, 1 one failed, 2 wrong usage.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, cast

from toolglot.cli.jsonl import process_lines
from toolglot.cli.sanitize import escape_controls, shorten
from toolglot.cli.startup import CliSetup, Flags, prepare
from toolglot.errors import ToolglotError, UsageError
from toolglot.events import ToolOutcome
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import facade_for_model, find_facade
from toolglot.jsontext import dumps, loads_object
from toolglot.messages import Foreign, Media, Text, ToolCall
from toolglot.providers.catalog import ALIASES, PROFILES, SURFACES
from toolglot.request import BUILTIN_TAG
from toolglot.tools.executor import Approve, ToolExecutor
from toolglot.tools.registry import ToolRegistry

__all__ = ["call_lines", "call_once"]


def call_once(flags: Flags, name: str, arguments: str | None, *, model: str | None = None, yes: bool, json: bool) -> int:
    """Runs one call and shows its result; the exit code. `model`: whose facade it is. Raises UsageError."""
    given = sys.stdin.read() if arguments == "-" else arguments or "{}"
    with prepare(flags, want_builtin=True) as started, redirect_stdout(sys.stderr):  # what a tool prints is not its result
        executor, face = _create_executor(started, model, yes=yes)
        outcome = asyncio.run(executor.run(_build_call(face, name, given)))
        _print_repairs(outcome)
        _warn_running_commands(started)
    if json:
        sys.stdout.buffer.write(dumps(_outcome_record(1, outcome)) + b"\n")
    else:
        _print_outcome(outcome)
    return int(outcome.result.is_error)


def call_lines(flags: Flags, file: Path | None, *, model: str | None = None, yes: bool) -> int:
    """Runs a call for each line; the exit code."""
    with prepare(flags, want_builtin=True) as started:
        executor, _ = _create_executor(started, model, yes=yes)
        failed: list[object] = []
        with asyncio.Runner() as runner:

            def one(given: dict[str, Any]) -> dict[str, Any]:
                outcome = runner.run(executor.run(_parse_call(given)))
                _print_repairs(outcome)
                if outcome.result.is_error:
                    failed.append(given.get("id"))
                return _outcome_record(given.get("id"), outcome)

            code = process_lines(file, cast(Callable[[Any], Any], one), _error_record)
        _warn_running_commands(started)
    return code or int(bool(failed))


def _create_executor(cli_setup: CliSetup, model: str | None, *, yes: bool) -> tuple[ToolExecutor, BoundFacade | None]:
    """Whoever runs the tools, and the names under which they are called."""
    registry = ToolRegistry(cli_setup.tools)
    config = cli_setup.setup.tool_config(cli_setup.model, [one.name for one in registry])
    approve: Approve | None = (lambda _: "yes") if yes else None
    executor = ToolExecutor(registry, config, approve=approve, audit=cli_setup.setup.open_audit_log(), run_id="call")
    provider, _, name = (model or "").partition(":")
    facade, seen_by = cli_setup.setup.resolve_facade(), name if provider in {*PROFILES, *ALIASES, *SURFACES} else model or ""
    if facade == "auto" and model is None:
        return executor, None
    if isinstance(facade, str):
        facade = facade_for_model(seen_by) if facade == "auto" else find_facade(facade)
    own = [one.name for one in registry if BUILTIN_TAG in one.tags]
    face = executor.facade = BoundFacade(facade, seen_by, own, [one.name for one in registry if BUILTIN_TAG not in one.tags])
    return executor, face


def _parse_call(record: dict[str, Any]) -> ToolCall:
    name, arguments = record.get("tool"), record.get("arguments", {})
    if not isinstance(name, str):
        raise UsageError('a line needs "tool", the name of a tool')
    if isinstance(arguments, str):  # a freeform tool takes text
        return ToolCall(str(record.get("id", "")), name, None, arguments, freeform=True)
    if not isinstance(arguments, dict):
        raise UsageError('"arguments" must be an object')
    return ToolCall(str(record.get("id", "")), name, cast(dict[str, Any], arguments))


def _build_call(facade: BoundFacade | None, name: str, text: str) -> ToolCall:
    """A call with its arguments; what a freeform tool is told may be plain text."""
    if facade is not None and facade.is_freeform(name) and not text.lstrip().startswith("{"):
        return ToolCall("call_1", name, None, text, freeform=True)
    try:
        return ToolCall("call_1", name, loads_object(text.encode()))
    except ValueError as e:
        raise UsageError(f"the arguments are not a JSON object: {e}") from None


def _outcome_record(id: object, outcome: ToolOutcome) -> dict[str, Any]:
    result = outcome.result
    error = {"kind": result.error_kind or "execution", "message": result.text} if result.is_error else None
    return {
        "id": id,
        "ok": not result.is_error,
        "content": result.content,
        "error": error,
        "seconds": round(outcome.seconds, 6),
    }


def _error_record(id: object, error: ToolglotError) -> dict[str, Any]:
    """The answer to a line that is no call."""
    return {"id": id, "ok": False, "content": [], "error": {"kind": "validation", "message": str(error)}, "seconds": 0.0}


def _print_repairs(outcome: ToolOutcome) -> None:
    """Says what of a call was changed or left out before it ran."""
    for repair in outcome.repairs:
        print(f"toolglot: {escape_controls(str(repair))}", file=sys.stderr)


def _warn_running_commands(cli_setup: CliSetup) -> None:
    """Says which commands end with the program although they would go on."""
    own = cli_setup.builtins.tools if cli_setup.builtins is not None else ()
    listed: list[dict[str, Any]] = [one for tool in own if tool.name == "shell_list" for one in tool().data["sessions"]]
    if running := [repr(shorten(one["command"], 60)) for one in listed if one["running"]]:
        said = f"{', '.join(running)} {'is' if len(running) == 1 else 'are'} ended with this program"
        print(f"toolglot: {said}: only a conversation keeps commands running (toolglot chat)", file=sys.stderr)


def _print_outcome(outcome: ToolOutcome) -> None:
    result = outcome.result
    if result.is_error:
        print(f"toolglot: {escape_controls(result.text)}", file=sys.stderr)
        return
    for block in result.content:
        match block:
            case Text():
                text = escape_controls(block.text) if sys.stdout.isatty() else block.text
                print(text, end="" if text.endswith("\n") else "\n")
            case Media():
                print(f"[{block.kind} {block.media_type} {block.name}]".replace("  ", " "))
            case Foreign():
                sys.stdout.buffer.write(dumps(block.item) + b"\n")
