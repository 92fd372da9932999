"""The command line: arguments -> public API -> what is printed. Nothing imports it."""

import errno
import os
import stat
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from toolglot.cli.jsonl import process_lines, read_input
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import dumps, loads_object


class Wire(StrEnum):
    """The API formats."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC_MESSAGES = "anthropic-messages"
    GEMINI = "gemini"
    OLLAMA_CHAT = "ollama-chat"


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
File = Annotated[
    Path | None, typer.Argument(help="A file; - or nothing reads stdin.", exists=True, dir_okay=False, allow_dash=True)
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="PROVIDER:MODEL, an alias, or simulator[:PROVIDER].")]
Tools = Annotated[list[str] | None, typer.Option("--tools", help="Tools as module:object; may be repeated.")]
System = Annotated[str | None, typer.Option("--system", help="Instructions to the model.")]
Allow = Annotated[list[str] | None, typer.Option("--allow", help="Offer only tools of this name or pattern; may be repeated.")]
Deny = Annotated[list[str] | None, typer.Option("--deny", help="Never offer tools of this name or pattern; may be repeated.")]
MaxTurns = Annotated[int | None, typer.Option("--max-turns", help="Requests with tools for one prompt.", min=1)]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Another address of the provider.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more on stderr; -vv says everything.")]
RootDirectory = Annotated[
    Path | None, typer.Option("--root", help="The folder that the built-in tools work in.", exists=True, file_okay=False)
]
UseBuiltin = Annotated[
    bool | None, typer.Option("--builtin/--no-builtin", help="The built-in tools; off where the simulator answers.")
]
FacadeName = Annotated[
    str | None,
    typer.Option("--facade", help="How models see the built-in tools: a name or a TOML file."),
]
LogFile = Annotated[Path | None, typer.Option("--log-file", help="Write the log to this file, as JSON lines.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="One JSON object in a line, one answer in a line.")]


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"toolglot {version('toolglot')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """LLM tool calling that works with every model and never breaks."""


@app.command()
def decode(wire: Annotated[Wire, typer.Option(help="The API format.")], file: File = None, jsonl: Jsonl = False) -> None:
    """Read a provider's answer, streamed or whole, as a neutral reply."""
    from toolglot.cli.decode import decode_line, read_reply, reply_record
    from toolglot.wire.codec import create_reader

    if jsonl:
        raise typer.Exit(process_lines(file, lambda given: decode_line(wire, given)))
    found = create_reader(wire)
    reply = read_reply(found, read_input(file))
    _print_json(reply_record(reply, found))


@app.command()
def convert(
    source: Annotated[Wire, typer.Option("--from", help="The API format of the request.")],
    target: Annotated[Wire, typer.Option("--to", help="The API format to write.")],
    file: File = None,
    model: Annotated[str | None, typer.Option(help="The model of the new request; else the name is kept.")] = None,
    jsonl: Jsonl = False,
) -> None:
    """Turn a request for one provider into a request for another, and say what was lost or mended."""
    from toolglot.cli import convert as work

    if jsonl:
        raise typer.Exit(process_lines(file, lambda given: work.convert_line(source, target, model, given)))
    try:
        body = loads_object(read_input(file))
    except ValueError as e:
        raise ToolglotError(f"the request is not a JSON object: {e}") from None
    said = work.convert_request(body, source, target, model=model)
    _print_json(said["request"])
    for kind in ("losses", "repairs"):
        for one in said[kind]:
            typer.secho(
                f"{'lost' if kind == 'losses' else 'mended'}: {one}",
                err=True,
                fg="red" if kind == "losses" else "yellow",
            )


@app.command()
def check(
    tools: Annotated[str, typer.Argument(help="Tools as JSON (a file, or - for stdin), or module:object.")],
    targets: Annotated[list[str] | None, typer.Option("--for", help="PROVIDER or PROVIDER:MODEL; may be repeated.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object for each provider.")] = False,
) -> None:
    """Say what each provider would refuse or lose of some tools, before anything is sent."""
    from toolglot.cli.check import check_tools as find
    from toolglot.cli.check import load_definitions

    refused = False
    for finding in find(load_definitions(tools), targets or []):
        refused = refused or finding.is_refused
        if json:
            sys.stdout.buffer.write(dumps(finding) + b"\n")
            continue
        state = ("refused", "red") if finding.is_refused else ("changed", "yellow") if finding.losses else ("ok", "green")
        typer.echo(
            f"{typer.style(f'{state[0]:8}', fg=state[1])} {finding.provider}{':' + finding.model if finding.model else ''}"
        )
        for word, notes in (("limit", finding.problems), ("lost", finding.losses), ("mended", finding.repairs)):
            for note in notes:
                typer.echo(f"           {word}: {note}")
    raise typer.Exit(int(refused))


@app.command()
def chat(
    prompt: Annotated[str | None, typer.Argument(help="What to say first.")] = None,
    model: Model = None,
    tools: Tools = None,
    system: System = None,
    allow: Allow = None,
    deny: Deny = None,
    max_turns: MaxTurns = None,
    base_url: BaseUrl = None,
    load: Annotated[Path | None, typer.Option("--load", help="Go on with a conversation that /save wrote.")] = None,
    root: RootDirectory = None,
    builtin: UseBuiltin = None,
    facade: FacadeName = None,
    verbose: Verbose = 0,
    log_file: LogFile = None,
) -> None:
    """Talk with a model that may call tools. Without a model and a key, the simulator answers."""
    given = locals()
    from toolglot.cli.chat.launch import launch
    from toolglot.cli.startup import Flags

    raise typer.Exit(launch(Flags.from_arguments(given), prompt, load))


@app.command()
def run(
    prompt: Annotated[str | None, typer.Argument(help="What to ask; - or nothing reads stdin, else a pipe is added.")] = None,
    model: Model = None,
    attach: Annotated[list[Path] | None, typer.Option("--attach", "-a", help="A file to show; may be repeated.")] = None,
    tools: Tools = None,
    system: System = None,
    allow: Allow = None,
    deny: Deny = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve every call that would be asked about.")] = False,
    max_turns: MaxTurns = None,
    base_url: BaseUrl = None,
    json: Annotated[bool, typer.Option("--json", help="Every event as a JSON line.")] = False,
    root: RootDirectory = None,
    builtin: UseBuiltin = None,
    facade: FacadeName = None,
    verbose: Verbose = 0,
    log_file: LogFile = None,
) -> None:
    """Ask one thing: the model may call tools, the answer is printed. Without a model and a key, the simulator answers."""
    given = locals()
    from toolglot.cli.run import run_once
    from toolglot.cli.startup import Flags

    raise typer.Exit(run_once(Flags.from_arguments(given), _read_prompt(prompt), attach or [], yes=yes, json=json))


@app.command()
def call(
    tool: Annotated[str | None, typer.Argument(help="The name of a tool; not with --jsonl.")] = None,
    arguments: Annotated[str | None, typer.Argument(help="Its arguments as JSON; - reads stdin.")] = None,
    file: Annotated[Path | None, typer.Option(help="With --jsonl: the calls; else stdin.", exists=True, dir_okay=False)] = None,
    tools: Tools = None,
    root: RootDirectory = None,
    facade: FacadeName = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Under the names that this model has for them.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve every call that would be asked about.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One call in a line, one answer in a line.")] = False,
    json: Json = False,
    verbose: Verbose = 0,
    log_file: LogFile = None,
) -> None:
    """Run one tool as a model would run it: the same sandbox, rules and audit log."""
    from toolglot.cli.call import call_lines, call_once
    from toolglot.cli.startup import Flags

    flags = Flags(tools=tuple(tools or ()), root=root, verbose=verbose, log_file=log_file, facade=facade)
    if jsonl:
        if tool is not None:
            raise UsageError(f"--jsonl reads its calls from stdin or --file: leave out {tool!r} and what follows it")
        raise typer.Exit(call_lines(flags, file, model=model, yes=yes))
    if file is not None:
        raise UsageError(f"--file {str(file)!r} is for --jsonl: one call has its arguments after its name, or - for stdin")
    if tool is None:
        raise UsageError("say which tool: toolglot call TOOL '{…}'; toolglot tools lists them")
    raise typer.Exit(call_once(flags, tool, arguments, model=model, yes=yes, json=json))


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="PROVIDER or PROVIDER:MODEL; nothing shows all providers.")] = None,
    json: Json = False,
) -> None:
    """Show what is known of providers and models: wire, limits, features, facts with their dates."""
    from toolglot.cli.models import show_models

    raise typer.Exit(show_models(name, json=json))


@app.command("tools")
def tools_command(
    tools: Annotated[
        list[str] | None, typer.Argument(help="module:object, or a JSON file; nothing takes the configured.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="As this PROVIDER:MODEL sees them; with --wire also MODEL alone.")
    ] = None,
    wire: Annotated[Wire | None, typer.Option(help="As this API format has them.")] = None,
    facade: Annotated[str | None, typer.Option(help="Under the names of a harness.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The request's tools field, exactly as it would be sent.")] = False,
) -> None:
    """Show tools as a model sees them, and what is lost on the way."""
    from toolglot.cli.check import load_definitions
    from toolglot.cli.startup import Flags, prepare
    from toolglot.cli.tools import show_tools
    from toolglot.config.layers import read_configuration
    from toolglot.config.setup import Setup

    found = [one for name in tools for one in load_definitions(name)] if tools else prepare(Flags(), want_builtin=True).tools
    settings = read_configuration().settings
    seen_by = Setup(settings).resolve_model(model) if model and (wire is None or model in settings.aliases) else model
    seen_as = facade or (settings.facade if settings.facade != "auto" else None)
    raise typer.Exit(show_tools(found, model=seen_by, wire=wire, facade=seen_as, json=json))


@app.command()
def doctor(
    online: Annotated[bool, typer.Option("--online", help="Also see which providers can be reached.")] = False,
    json: Json = False,
) -> None:
    """Look at versions, extras, configuration, keys, the sandbox and what tools did so far."""
    from toolglot.cli.doctor import run_doctor as look
    from toolglot.config.layers import Configuration, read_configuration

    found: Configuration | ToolglotError
    try:
        found = read_configuration()
    except ToolglotError as error:
        found = error
    raise typer.Exit(look(found, online=online, json=json))


config = typer.Typer(no_args_is_help=True, help="Look at the configuration.", rich_markup_mode=None)
app.add_typer(config, name="config")


@config.command("show")
def config_show(json: Json = False) -> None:
    """Print every setting with its origin."""
    from toolglot.cli.config import show_configuration
    from toolglot.config.layers import read_configuration

    show_configuration(read_configuration(), json=json)


@config.command("path")
def config_path(json: Json = False) -> None:
    """Print the files that are looked at."""
    from toolglot.cli.config import show_paths

    show_paths(json=json)


@app.command()
def trust(
    folder: Annotated[Path | None, typer.Argument(help="A folder; nothing means the project's here.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Do not trust it any more.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Print the trusted folders.")] = False,
) -> None:
    """Let the toolglot.toml of a folder set everything: load tools, name addresses, loosen rules."""
    from toolglot.cli.trust import update_trust

    raise typer.Exit(update_trust(folder, remove=remove, list_all=listed))


@app.command()
def login(
    provider: Annotated[str, typer.Argument(help="copilot, or a provider whose key is to be kept.")],
    host: Annotated[str | None, typer.Option(help="A company's GitHub, as in company.ghe.com.")] = None,
) -> None:
    """Sign in to Copilot, or put a provider's key into the system keyring."""
    from toolglot.cli.login import login as enter

    raise typer.Exit(enter(provider, host=host))


@app.command()
def logout(provider: Annotated[str, typer.Argument(help="A provider.")]) -> None:
    """Forget a login or a key that `login` has kept."""
    from toolglot.cli.login import logout as leave

    raise typer.Exit(leave(provider))


@app.command()
def simulate(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = 8484,
    fault: Annotated[list[str] | None, typer.Option(help="One fault for each request, in order; may be repeated.")] = None,
) -> None:
    """Serve a stand-in for every provider on this machine: five wires, strict, no key, no network."""
    from toolglot.cli.simulate import serve

    raise typer.Exit(serve(host, port, fault or []))


@app.command()
def demo(
    wire: Annotated[str | None, typer.Option(help="Only this provider.")] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Show one awkward request in every wire instead.")] = False,
) -> None:
    """Show a conversation with tools on every wire, handed over in the middle: on the simulator, over HTTP, without a key."""
    from rich.console import Console

    if bodies:
        from toolglot.cli.demo_wires import show_wires

        show_wires(Console(), only=wire)
        return
    from toolglot.cli.demo import run_demo as play
    from toolglot.cli.demo_tools import run_tools_demo

    console = Console()
    raise typer.Exit(play(console, only=wire) or (0 if wire else run_tools_demo(console)))


def _read_prompt(prompt: str | None) -> str:
    """What is asked. Raises UsageError where it is nothing, or not text."""
    if prompt in (None, "-"):
        prompt = _read_stdin()
    elif _has_piped_input() and (more := _read_stdin()).strip():
        prompt = f"{prompt}\n\n{more}"
    if not prompt or not prompt.strip():
        raise UsageError("there is nothing to ask: give a prompt, or pipe one in")
    return prompt


def _read_stdin() -> str:
    try:
        return read_input(None).decode()
    except UnicodeDecodeError as e:
        raise UsageError(f"the prompt on stdin is not UTF-8 text: byte {e.start} is {e.object[e.start]:#04x}") from None


def _has_piped_input() -> bool:
    """Whether somebody has sent something to read: a pipe or a file, not a terminal or nothing."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _print_json(value: object) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(dumps(value), indent=2) + b"\n")


def main() -> None:
    """The entry point: every failure is one sentence."""
    try:
        app()
    except ToolglotError as e:
        from toolglot.cli.sanitize import escape_invisible

        print(f"toolglot: {escape_invisible(str(e))}", file=sys.stderr)
        sys.exit(2 if isinstance(e, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at its end
        sys.exit(1)
    except Exception as e:
        if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EIO):
            sys.exit(f"toolglot: the output cannot be written: {e.strerror}")
        if isinstance(e, FileNotFoundError) and _cwd_is_missing():
            print("toolglot: the current folder is not there any more: change to another one", file=sys.stderr)
            sys.exit(2)
        from logging import getLogger

        getLogger("toolglot.cli").debug("unexpected failure", exc_info=True)
        sys.exit(f"toolglot: unexpected {type(e).__name__}: {e} (a bug: -vv shows where)")


def _cwd_is_missing() -> bool:
    """Whether the current folder was removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


if __name__ == "__main__":
    main()
