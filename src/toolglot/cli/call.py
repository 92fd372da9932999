"""`toolglot call`: run a tool as a model would, with the same sandbox, rules, approvals and audit log.

With `--jsonl`, each line {"id", "tool", "arguments"} is answered by a line {"id", "ok", "content", "error", "seconds"}, in the
same order; invalid lines are answered in the same form. Without `--yes`, a call that needs approval is refused. Background
commands end with the program, and a note says so. Exit codes: 0 all calls succeeded, 1 a call failed, 2 usage error.
"""

import asyncio
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from toolglot.cli.jsonl import Record, process_lines
from toolglot.cli.printer import write_json_line
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
    """Run one call and print its result; return the exit code. `model` selects the facade. Raises UsageError."""
    text = sys.stdin.read() if arguments == "-" else arguments or "{}"
    with prepare(flags, want_builtin=True) as cli_setup, redirect_stdout(sys.stderr):  # a tool's prints are not its result
        executor, facade = _create_executor(cli_setup, model, yes=yes)
        if facade is not None and facade.is_freeform(name) and not text.lstrip().startswith("{"):
            call = ToolCall("call_1", name, None, text, freeform=True)
        else:
            try:
                call = ToolCall("call_1", name, loads_object(text.encode()))
            except ValueError as e:
                raise UsageError(f"the arguments are not a JSON object: {e}") from None
        outcome = asyncio.run(executor.run(call if facade is None else facade.interpret(call)))
        _print_repairs(outcome)
        _warn_running_commands(cli_setup)
    if json:
        write_json_line(sys.stdout, _outcome_record(1, outcome))
    else:
        _print_outcome(outcome)
    return int(outcome.result.is_error)


def call_lines(flags: Flags, file: Path | None, *, model: str | None = None, yes: bool) -> int:
    """Run one call per line; return the exit code."""
    with prepare(flags, want_builtin=True) as cli_setup:
        executor, facade = _create_executor(cli_setup, model, yes=yes)
        failed_ids: list[object] = []
        with asyncio.Runner() as runner:

            def handle(record: Record) -> Record:
                name, arguments = record.get("tool"), record.get("arguments", {})
                if not isinstance(name, str):
                    raise UsageError('a line needs "tool", the name of a tool')
                call = ToolCall(str(record.get("id", "")), name)
                if isinstance(arguments, str):  # the input of a freeform tool
                    call = replace(call, raw=arguments, freeform=True)
                elif isinstance(arguments, dict):
                    call = replace(call, arguments=cast(Record, arguments))
                else:
                    raise UsageError('"arguments" must be an object')
                outcome = runner.run(executor.run(call if facade is None else facade.interpret(call)))
                _print_repairs(outcome)
                if outcome.result.is_error:
                    failed_ids.append(record.get("id"))
                return _outcome_record(record.get("id"), outcome)

            def refuse(id: object, error: ToolglotError) -> Record:
                details = {"kind": "validation", "message": str(error)}
                return {"id": id, "ok": False, "content": [], "error": details, "seconds": 0.0}

            exit_code = process_lines(file, handle, refuse)
        _warn_running_commands(cli_setup)
    return exit_code or int(bool(failed_ids))


def _create_executor(cli_setup: CliSetup, model: str | None, *, yes: bool) -> tuple[ToolExecutor, BoundFacade | None]:
    """Create the executor, with the facade whose names the calls may use."""
    registry = ToolRegistry(cli_setup.tools)
    setup = cli_setup.setup
    config = setup.tool_config(cli_setup.model, [tool.name for tool in registry])
    approve: Approve | None = (lambda _: "yes") if yes else None
    executor = ToolExecutor(registry, config, approve=approve, audit=setup.open_audit_log(), run_id="call")
    provider, _, name = (model or "").partition(":")
    facade, model_name = setup.resolve_facade(), name if provider in {*PROFILES, *ALIASES, *SURFACES} else model or ""
    if facade == "auto" and model is None:
        return executor, None
    if isinstance(facade, str):
        facade = facade_for_model(model_name) if facade == "auto" else find_facade(facade)
    builtin = [tool.name for tool in registry if BUILTIN_TAG in tool.tags]
    others = [tool.name for tool in registry if BUILTIN_TAG not in tool.tags]
    bound = BoundFacade(facade, model_name, builtin, others)
    executor.native_names = bound.names
    return executor, bound


def _outcome_record(id: object, outcome: ToolOutcome) -> Record:
    result = outcome.result
    error = {"kind": result.error_kind or "execution", "message": result.text} if result.is_error else None
    return {
        "id": id,
        "ok": not result.is_error,
        "content": result.content,
        "error": error,
        "seconds": round(outcome.seconds, 6),
    }


def _print_repairs(outcome: ToolOutcome) -> None:
    for repair in outcome.repairs:
        print(f"toolglot: {escape_controls(str(repair))}", file=sys.stderr)


def _warn_running_commands(cli_setup: CliSetup) -> None:
    """Name the background commands that are about to be terminated."""
    tools = cli_setup.builtins.tools if cli_setup.builtins is not None else ()
    sessions: list[Record] = [session for tool in tools if tool.name == "shell_list" for session in tool().data["sessions"]]
    if running := [repr(shorten(session["command"], 60)) for session in sessions if session["running"]]:
        names, verb = ", ".join(running), "was" if len(running) == 1 else "were"
        note = f"{names} {verb} terminated: only a conversation keeps commands running (toolglot chat)"
        print(f"toolglot: {note}", file=sys.stderr)


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
