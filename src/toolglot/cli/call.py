"""`toolglot call`: run a tool as a model would, with the same sandbox, limits, approvals and audit log.

Files need not be read before they are changed: the user's approval, or `--yes`, is enough. Only the lines of
`--jsonl`, with a model's or a facade's tools, are treated as the calls of one conversation.

With `--jsonl`, each line {"id", "tool", "arguments"} is answered by a line {"id", "ok", "content", "error",
"seconds"}, in the same order; invalid lines are answered in the same form. `ok` is the flag that a model
sees: some harnesses do not flag failed results but describe the failure in the text; `error` is set in either
case. Without `--yes`, a call that needs approval is refused. Background commands are terminated when the
program exits, with a note.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stdout
from typing import Any, cast

import click
import msgspec

from toolglot.cli.call_arguments import format_words, parse_words
from toolglot.cli.jsonl import Record, convert_record, process_lines
from toolglot.cli.models import find_profile
from toolglot.cli.options import (
    APPROVAL_MODE,
    APPROVE,
    DENY,
    FACADE,
    JSON,
    LOGGING,
    MCP,
    NO_SANDBOX,
    ROOT,
    TOOLS,
    YES,
    complete_model,
)
from toolglot.cli.printer import ToolPrints, print_line, print_note, write_json_line, write_text
from toolglot.cli.startup import CliSetup, Flags, prepare, ways_to_allow
from toolglot.cli.terminal_approvals import choose_approve, has_terminal_user
from toolglot.common.jsontext import dumps_text, loads_object
from toolglot.common.sanitize import shorten
from toolglot.config.setup import Setup
from toolglot.errors import ToolglotError, UsageError
from toolglot.facades.bound_facade import BoundFacade
from toolglot.facades.catalog import BASE_TOOLS, find_base_tools, resolve_facade
from toolglot.hosting.tool_view import ToolView
from toolglot.mcp.names import PREFIX as MCP_PREFIX
from toolglot.schema.arguments import make_example
from toolglot.tools.caller import Caller
from toolglot.tools.calls import base_call
from toolglot.tools.host import HostOptions, ToolHost
from toolglot.tools.policy import RUN_CODE
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.search import SEARCH_TOOLS
from toolglot.tools.tool import Tool
from toolglot.values.approvals import Approve
from toolglot.values.events import ToolOutcome
from toolglot.values.messages import Foreign, Media, Text, ToolCall, ToolsChanged
from toolglot.values.request import ToolDefinition

# For models only: people can use `toolglot tools`.
_MODEL_MARKUP = re.compile(r"</?tool_use_error>|\nParameters: .*", re.DOTALL)


class _Line(msgspec.Struct):
    """A line of `--jsonl`; the arguments of a freeform tool are text."""

    tool: str
    arguments: Record | str = {}


def complete_tool(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a built-in tool in a shell, by the names that the model given with -m has for them.

    Others would have to be imported, which a key press should not do.
    """
    names = _list_names(context.params.get("model"), context.params.get("facade"))
    return sorted(name for name in names if name.startswith(incomplete) and not _is_loop_tool(name))


def _list_names(model: str | None, facade: str | None) -> Collection[str]:
    """Return the names of the built-in tools; those that a model or a facade has for them, if one is given."""
    if not model and not facade:
        return BASE_TOOLS
    try:
        table = resolve_facade(facade or "auto", find_profile(model).model if model else "")
    except ToolglotError:  # said when the command is run
        return BASE_TOOLS
    return BASE_TOOLS - {*table.hides} | {view.name for view in table.views}


@click.command()
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.argument("arguments", nargs=-1)
@click.option(
    "-m", "--model", help="Use the tool names that this PROVIDER:MODEL sees.", shell_complete=complete_model
)
@TOOLS
@ROOT
@FACADE
@NO_SANDBOX
@DENY
@APPROVE
@APPROVAL_MODE
@YES
@MCP
@click.option(
    "--explain",
    is_flag=True,
    help="Report whether the call would run, ask or be refused, and why, without running it.",
)
@click.option(
    "--jsonl", is_flag=True, help="Read one call per line from stdin and write one result per line."
)
@JSON
@LOGGING
def call(
    tool: str | None,
    arguments: tuple[str, ...],
    model: str | None,
    yes: bool,
    explain: bool,
    jsonl: bool,
    json: bool,
    **flags: Any,
) -> int:
    """Run a tool as a model would.

    ARGUMENTS are a JSON object, or words KEY=VALUE: text as it stands, numbers, true and false, and JSON for the rest. Use -
    to read JSON from stdin. The sandbox, limits and audit log apply.

    In a terminal, you are shown each call that needs approval and asked to confirm it; elsewhere, and with --jsonl, such a
    call needs --yes. Built-in tools that change files, run commands or use the network need approval, as do tools of MCP
    servers and tools with approval=True; other tools run immediately. If configured, policy.ask lists the effects that need
    approval, for all tools.

    The exit code is 1 if a call failed and 2 for wrong usage. A command that exits with a nonzero code is a failed call only
    under some facades, such as Claude Code's. With --jsonl, each line is an object such as
    {"id": 1, "tool": "grep", "arguments": {"pattern": "TODO"}}.
    """
    if jsonl and tool is not None:
        raise UsageError(f"--jsonl reads calls from stdin: remove {tool!r} and everything after it")
    # Lines are like the calls of one conversation: with a model's tools, a file must be read first if its
    # harness says so.
    require_read = jsonl and (model is not None or flags["facade"] is not None)
    # Start servers only if the tool may be one of theirs.
    use_servers = "wait" if jsonl or (tool or "").startswith(MCP_PREFIX) else "no"
    has_user = not jsonl and has_terminal_user()
    can_approve = yes or has_user
    with (
        prepare(
            Flags(**flags), want_builtin=True, require_read=require_read, use_servers=use_servers
        ) as cli_setup,
        asyncio.Runner() as runner,
    ):
        if tool is None or use_servers != "no" or "shell" in (tool, *find_base_tools(tool)):
            cli_setup.print_notices()
        host = _open_host(cli_setup, choose_approve(yes=yes, has_user=has_user))
        view = _open_view(cli_setup, model)
        caller, facade = view.caller(can_ask=True), view.facade

        def execute(call: ToolCall) -> ToolOutcome:
            with redirect_stdout(ToolPrints()):
                outcome = runner.run(host.run(caller.interpret(call), caller))
            if _is_missing(outcome):
                _explain_missing(call.name, cli_setup, facade)
            _print_notes(outcome, call, host, caller, None if can_approve else cli_setup.setup)
            return outcome

        if explain and tool is not None:
            return _explain(host, caller, _parse_call(tool, arguments, view, cli_setup.tools))
        if jsonl:
            exit_code = _call_lines(execute, flags_errors=facade is None or facade.facade.flags_errors)
        elif tool is None:
            raise UsageError(
                "name a tool: toolglot call TOOL KEY=VALUE … (run `toolglot tools` to list them)"
            )
        else:
            outcome = execute(_parse_call(tool, arguments, view, cli_setup.tools))
            exit_code = 2 if _is_missing(outcome) else int(outcome.result.is_error)
            _print_outcome(outcome, json=json, is_reported=not can_approve)
        _warn_running_commands(cli_setup)
    return exit_code


def _is_missing(outcome: ToolOutcome) -> bool:
    """Return whether there is no such tool."""
    return outcome.result.error_kind == "not_found" and not outcome.ran


def _explain(host: ToolHost, caller: Caller, call: ToolCall) -> int:
    """Print the policy's verdict about a call; the exit code is 1 if it would be refused."""
    tool, arguments = _find_called(host, caller, call)
    if tool is None:
        raise UsageError(f"cannot explain {call.name}: no tool has this name, or the arguments are not valid")
    verdict = host.judge(tool, caller, arguments)
    if verdict.action != "refuse":
        host.policy.check_allowed(tool, call.name, caller)
    verb = {"run": "runs", "ask": "asks", "refuse": "is refused"}[verdict.action]
    print_line(f"{tool.name} {verb}: {verdict.reason}")
    return int(verdict.action == "refuse")


def _find_called(host: ToolHost, caller: Caller, call: ToolCall) -> tuple[Tool | None, dict[str, Any] | None]:
    """Return the tool that a call names, and its arguments as it gets them."""
    interpreted = caller.interpret(call)
    tool = host.find_tool(interpreted, caller)
    return tool, None if tool is None else tool.bind(base_call(interpreted)).arguments


def _print_notes(
    outcome: ToolOutcome, call: ToolCall, host: ToolHost, caller: Caller, setup: Setup | None
) -> None:
    """Print how a call was repaired, and how it can be allowed. `setup`: if nobody can approve it."""
    for repair in outcome.repairs:
        print_note(str(repair))
    if outcome.result.error_kind == "rejected" and setup is not None:
        tool, arguments = _find_called(host, caller, call)
        mode_helps = setup.mode_would_allow(tool, caller.config, arguments)
        ways = ways_to_allow([call.name], mode_helps=mode_helps)
        print_note(f"{shorten(call.name, 60)} needs approval ({ways})")


def _parse_call(name: str, words: tuple[str, ...], view: ToolView, tools: list[Any]) -> ToolCall:
    _check_callable(name, tools)
    text = " ".join(words) or "{}"
    if text == "-":
        text = sys.stdin.read()
    is_object = text.lstrip().startswith("{")
    if view.facade is not None and view.facade.is_freeform(name) and not is_object:
        return ToolCall("call_1", name, None, text, freeform=True)
    definition = next((tool for tool in view.definitions if tool.name == name), None)
    example = _make_example(definition)
    as_words = format_words(example)
    is_json = is_object or words in ((), ("-",))
    if not is_json and "=" in words[0]:
        schema = {} if definition is None else definition.parameters
        return ToolCall("call_1", name, parse_words(words, schema, as_words))
    try:
        return ToolCall("call_1", name, loads_object(text.encode()))
    except ValueError:
        raise UsageError(
            f"the arguments must be a JSON object or words KEY=VALUE, such as '{dumps_text(example)}' or {as_words}"
        ) from None


def _make_example(definition: ToolDefinition | None) -> dict[str, Any]:
    """Return arguments that a call could have; those of no tool if there is none."""
    example: Any = {}
    if definition is not None:
        examples = definition.examples
        example = examples[0].input if examples else make_example(definition.parameters)
    return cast(dict[str, Any], example) if example and isinstance(example, dict) else {"name": "value"}


def _check_callable(name: str, tools: list[Any]) -> None:
    """Raise UsageError for a tool that an agent adds to its own: it is part of a conversation."""
    if _is_loop_tool(name) and name not in (tool.name for tool in tools if isinstance(tool, Tool)):
        raise UsageError(f"{name} exists only in a conversation: use toolglot run or toolglot chat")


def _is_loop_tool(name: str) -> bool:
    return not {RUN_CODE, SEARCH_TOOLS}.isdisjoint((name, *find_base_tools(name)))


def _explain_missing(name: str, cli_setup: CliSetup, facade: BoundFacade | None) -> None:
    """Raise UsageError if it is known why there is no tool of this name."""
    _check_callable(name, cli_setup.tools)
    if cli_setup.builtins is not None:
        cli_setup.builtins.check_usable(name)
    if facade is None and (bases := find_base_tools(name)) not in ((), (name,)):
        raise UsageError(
            f"{name} is a model's name for {' or '.join(bases)}: use that name, or choose the model with -m"
        )


def _call_lines(execute: Callable[[ToolCall], ToolOutcome], *, flags_errors: bool) -> int:
    """Run one call per line; return the exit code.

    `flags_errors`: whether the model is shown which calls failed.
    """
    failed_ids: list[object] = []

    def handle(record: Record) -> Record:
        line, id = convert_record(record, _Line), str(record.get("id", ""))
        if isinstance(line.arguments, str):
            outcome = execute(ToolCall(id, line.tool, None, line.arguments, freeform=True))
        else:
            outcome = execute(ToolCall(id, line.tool, line.arguments))
        if outcome.result.is_error:
            failed_ids.append(record.get("id"))
        answer = _outcome_record(record.get("id"), outcome)
        return answer if flags_errors else {**answer, "ok": True}

    def refuse(id: object, error: ToolglotError) -> Record:
        return {
            "id": id,
            "ok": False,
            "content": [],
            "error": {"kind": "validation", "message": str(error)},
            "seconds": 0.0,
        }

    return process_lines(None, handle, refuse) or int(bool(failed_ids))


def _open_host(cli_setup: CliSetup, approve: Approve) -> ToolHost:
    options = HostOptions(approve=approve, audit=cli_setup.setup.open_audit_log())
    return options.open_host(run_id="call")


def _open_view(cli_setup: CliSetup, model: str | None) -> ToolView:
    """Return the tools, under the names that the calls may use."""
    registry, setup = ToolRegistry(cli_setup.tools), cli_setup.setup
    config = setup.tool_config(cli_setup.model, [tool.name for tool in registry])
    facade = setup.resolve_facade()
    if facade == "auto" and model is None:
        return ToolView(registry, config)
    name = find_profile(setup.resolve_model(model)).model if model else ""
    if isinstance(facade, str):
        facade = resolve_facade(facade, name)
    return ToolView(registry, config, facade, name)


def _outcome_record(id: object, outcome: ToolOutcome) -> Record:
    result = outcome.result
    error = {"kind": result.error_kind or "execution", "message": result.text} if result.is_error else None
    seconds = round(outcome.seconds, 6)
    return {
        "id": id,
        "ok": not result.is_error,
        "content": result.content,
        "error": error,
        "seconds": seconds,
    }


def _warn_running_commands(cli_setup: CliSetup) -> None:
    """Name the background commands that are about to be terminated."""
    if cli_setup.builtins is None:
        return
    running: list[str] = []
    for tool in cli_setup.builtins.tools:
        if tool.name == "shell_list":
            sessions: list[Record] = tool().data["sessions"]
            running += [repr(shorten(session["command"], 60)) for session in sessions if session["running"]]
    if running:
        verb = "was" if len(running) == 1 else "were"
        print_note(
            f"{', '.join(running)} {verb} terminated: only a conversation keeps commands running (toolglot "
            "chat)"
        )


def _print_outcome(outcome: ToolOutcome, *, json: bool, is_reported: bool) -> None:
    """Print a result. `is_reported`: a call that needs approval was reported already."""
    result = outcome.result
    if json:
        write_json_line(sys.stdout, _outcome_record(1, outcome))
        return
    if result.is_error:
        if is_reported and result.error_kind == "rejected":
            return
        print_note(_MODEL_MARKUP.sub("", result.text))
        return
    for block in result.content:
        match block:
            case Text():
                write_text(sys.stdout, block.text if block.text.endswith("\n") else f"{block.text}\n")
            case Media():
                print_line(f"[{block.kind} {block.media_type} {block.name}]".replace("  ", " "))
            case Foreign():
                write_json_line(sys.stdout, block.item)
            case ToolsChanged():
                names = [*(tool.qualified_name for tool in block.added), *block.loaded]
                print_line(f"[loaded {', '.join(names)}]")
