"""The commands: parse arguments, call the public API, print the result. Implementations are imported when they are needed."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.exceptions import Exit

from toolglot.cli.jsonl import process_lines, read_input
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import loads_object
from toolglot.wire.spec import WIRES

Command = TypeVar("Command", bound=Callable[..., Any])

WIRE = click.Choice(list(WIRES))
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Combine several options into one decorator."""

    def decorate(function: Command) -> Command:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


_file = click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
_json = click.option("--json", is_flag=True, help="Print JSON.")
_jsonl = click.option("--jsonl", is_flag=True, help="Read one JSON object per line and write one result per line.")
_yes = click.option("-y", "--yes", is_flag=True, help="Approve every call that needs approval.")
_tools = click.option("--tools", multiple=True, metavar="MODULE:OBJECT", help="Load tools. Repeatable.")
_root = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory that the built-in tools work in. Default: the current one.",
)
_facade = click.option(
    "--facade", help="Show the built-in tools to models under this facade: an id, a TOML file or module:object."
)
_logging = _options(
    click.option("-v", "--verbose", count=True, help="Log progress to stderr; -vv for debug output."),
    click.option("--log-file", type=click.Path(path_type=Path), help="Append the log to this file as JSON lines."),
)
_agent = _options(
    click.option("-m", "--model", help="PROVIDER:MODEL, an alias, or simulator[:PROVIDER]."),
    _tools,
    click.option("--system", help="System prompt."),
    click.option("--allow", multiple=True, metavar="PATTERN", help="Offer only tools that match. Repeatable."),
    click.option("--deny", multiple=True, metavar="PATTERN", help="Never offer tools that match. Repeatable."),
    click.option("--max-turns", type=click.IntRange(min=1), help="Maximum number of requests with tools per prompt."),
    click.option("--base-url", help="Override the provider's base URL."),
    _root,
    click.option(
        "--builtin/--no-builtin", default=None, help="Offer the built-in tools. Default: yes, except on the simulator."
    ),
    _facade,
    _logging,
)


@click.group()
@click.version_option(package_name="toolglot", prog_name="toolglot", message="%(prog)s %(version)s")
def app() -> None:
    """LLM tool calling that works with every model and never breaks."""


@app.command()
@click.argument("prompt", required=False)
@_agent
@click.option("--load", type=click.Path(path_type=Path), help="Resume a conversation written by /save.")
def chat(prompt: str | None, load: Path | None, **flags: Any) -> None:
    """Chat with a model that can call tools.

    PROMPT is sent first, if there is one. If neither a model nor a key is configured, the simulator answers.
    """
    from toolglot.cli.chat.launch import launch
    from toolglot.cli.startup import Flags

    raise Exit(launch(Flags(**flags), prompt, load))


@app.command()
@click.argument("prompt", required=False)
@click.option("-a", "--attach", multiple=True, type=click.Path(path_type=Path), help="Attach a file. Repeatable.")
@_agent
@_yes
@click.option("--json", is_flag=True, help="Print every event as a JSON line.")
def run(prompt: str | None, attach: tuple[Path, ...], yes: bool, json: bool, **flags: Any) -> None:
    """Run one prompt with tools and print the answer.

    Use - as PROMPT or omit it to read stdin; otherwise piped input is appended. If neither a model nor a key
    is configured, the simulator answers.
    """
    from toolglot.cli.run import run_once
    from toolglot.cli.startup import Flags

    raise Exit(run_once(Flags(**flags), _read_prompt(prompt), attach, yes=yes, json=json))


@app.command()
@click.argument("tool", required=False)
@click.argument("arguments", required=False)
@click.option("-m", "--model", help="Use the tool names that this model sees.")
@_tools
@_root
@_facade
@_yes
@click.option("--jsonl", is_flag=True, help="Read one call per line and write one result per line.")
@click.option("--file", type=EXISTING_FILE, help="With --jsonl: read the calls from this file, not stdin.")
@_json
@_logging
def call(
    tool: str | None,
    arguments: str | None,
    model: str | None,
    yes: bool,
    jsonl: bool,
    file: Path | None,
    json: bool,
    **flags: Any,
) -> None:
    """Run a tool as a model would.

    The same sandbox, rules and audit log apply. ARGUMENTS are JSON; use - to read them from stdin.
    """
    from toolglot.cli.call import call_lines, call_once
    from toolglot.cli.startup import Flags

    if jsonl:
        if tool is not None:
            raise UsageError(f"--jsonl reads its calls from stdin or --file: remove {tool!r} and what follows it")
        raise Exit(call_lines(Flags(**flags), file, model=model, yes=yes))
    if file is not None:
        raise UsageError(f"--file {str(file)!r} requires --jsonl: pass the arguments after the tool name, or - for stdin")
    if tool is None:
        raise UsageError("name a tool: toolglot call TOOL '{…}' (run `toolglot tools` to list them)")
    raise Exit(call_once(Flags(**flags), tool, arguments, model=model, yes=yes, json=json))


@app.command()
@click.argument("name", required=False)
@_json
def models(name: str | None, json: bool) -> None:
    """Show the limits and features of providers and models.

    NAME is PROVIDER or PROVIDER:MODEL; without it, all providers are listed.
    """
    from toolglot.cli.models import show_models

    raise Exit(show_models(name, json=json))


@app.command()
@click.argument("tools", nargs=-1)
@click.option("-m", "--model", help="Show them as this PROVIDER:MODEL sees them; with --wire, MODEL is enough.")
@click.option("--wire", type=WIRE, help="Show them in this API format.")
@click.option("--facade", help="Show the built-in tools under this facade.")
@click.option("--json", is_flag=True, help="Print the tools field of a request, exactly as it would be sent.")
def tools(tools: tuple[str, ...], model: str | None, wire: str | None, facade: str | None, json: bool) -> None:
    """Show tools as a model sees them.

    TOOLS are module:object or JSON files; without them, the configured and built-in tools are shown.
    """
    from toolglot.cli.check import load_definitions
    from toolglot.cli.startup import Flags, prepare
    from toolglot.cli.tools import show_tools
    from toolglot.config.layers import read_configuration
    from toolglot.config.setup import Setup

    shown = [item for name in tools for item in load_definitions(name)] if tools else prepare(Flags(), want_builtin=True).tools
    settings = read_configuration().settings
    resolved = Setup(settings).resolve_model(model) if model and (wire is None or model in settings.aliases) else model
    facade = facade or (settings.facade if settings.facade != "auto" else None)
    raise Exit(show_tools(shown, model=resolved, wire=wire, facade=facade, json=json))


@app.command()
@click.argument("tools")
@click.option("--for", "targets", multiple=True, metavar="PROVIDER[:MODEL]", help="Check only this target. Repeatable.")
@click.option("--json", is_flag=True, help="Print one JSON object per provider.")
def check(tools: str, targets: tuple[str, ...], json: bool) -> None:
    """Report what providers would reject or lose of your tools.

    Nothing is sent. TOOLS is a JSON file, - for stdin, or module:object.
    """
    from toolglot.cli.check import check_tools, load_definitions, print_result
    from toolglot.cli.printer import write_json_line

    is_refused = False
    for result in check_tools(load_definitions(tools), targets):
        is_refused = is_refused or result.is_refused
        if json:
            write_json_line(sys.stdout, result)
        else:
            print_result(result)
    raise Exit(int(is_refused))


@app.command()
@click.option("--from", "source", type=WIRE, required=True, help="API format of the input.")
@click.option("--to", "target", type=WIRE, required=True, help="API format of the output.")
@click.option("--model", help="Model name in the output. Default: keep the name.")
@_jsonl
@_file
def convert(source: str, target: str, model: str | None, jsonl: bool, file: Path | None) -> None:
    """Convert a request to another API format.

    What was lost or repaired is reported on stderr. Use - as FILE or omit it to read stdin.
    """
    from toolglot.cli.config import print_json
    from toolglot.cli.convert import convert_line, convert_request

    if jsonl:
        raise Exit(process_lines(file, lambda record: convert_line(source, target, model, record)))
    try:
        body = loads_object(read_input(file))
    except ValueError as e:
        raise ToolglotError(f"the request is not a JSON object: {e}") from None
    result = convert_request(body, source, target, model=model)
    print_json(result["request"])
    for loss in result["losses"]:
        click.secho(f"lost: {loss}", err=True, fg="red")
    for repair in result["repairs"]:
        click.secho(f"repaired: {repair}", err=True, fg="yellow")


@app.command()
@click.option("--wire", type=WIRE, required=True, help="API format of the response.")
@_jsonl
@_file
def decode(wire: str, jsonl: bool, file: Path | None) -> None:
    """Decode a provider's response into a neutral reply.

    The response may be a stream or a complete body. Use - as FILE or omit it to read stdin.
    """
    from toolglot.cli.config import print_json
    from toolglot.cli.decode import decode_line, read_reply, reply_record
    from toolglot.wire.codec import create_reader

    if jsonl:
        raise Exit(process_lines(file, lambda record: decode_line(wire, record)))
    reply_reader = create_reader(wire)
    reply = read_reply(reply_reader, read_input(file))
    print_json(reply_record(reply, reply_reader))


@app.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8484, show_default=True, help="Port to listen on; 0 picks a free one."
)
@click.option("--fault", multiple=True, help="Inject a fault into the next request. Repeatable: one per request, in order.")
def simulate(host: str, port: int, fault: tuple[str, ...]) -> None:
    """Serve a simulator of every provider.

    It speaks all API formats and validates requests strictly. It needs no key and no network.
    """
    from toolglot.cli.simulate import serve

    raise Exit(serve(host, port, fault))


@app.command()
@click.option("--wire", metavar="PROVIDER", help="Run only this provider.")
def demo(wire: str | None) -> None:
    """Run a conversation with tools on every API format.

    Each conversation is handed over to another provider halfway. It runs on the simulator, without a key.
    """
    from toolglot.cli.demo import run_demo
    from toolglot.cli.demo_tools import run_tools_demo
    from toolglot.cli.printer import Printer

    printer = Printer(sys.stdout)
    raise Exit(run_demo(printer, only=wire) or (0 if wire else run_tools_demo(printer)))


@app.command()
@click.option("--online", is_flag=True, help="Also check which providers can be reached.")
@_json
def doctor(online: bool, json: bool) -> None:
    """Check the installation, configuration, keys and sandbox."""
    from toolglot.cli.doctor import run_doctor
    from toolglot.config.layers import Configuration, read_configuration

    configuration: Configuration | ToolglotError
    try:
        configuration = read_configuration()
    except ToolglotError as error:
        configuration = error
    raise Exit(run_doctor(configuration, online=online, json=json))


@app.group()
def config() -> None:
    """Show the configuration."""


@config.command("show")
@_json
def config_show(json: bool) -> None:
    """Print every setting and where it comes from."""
    from toolglot.cli.config import show_configuration
    from toolglot.config.layers import read_configuration

    show_configuration(read_configuration(), json=json)


@config.command("path")
@_json
def config_path(json: bool) -> None:
    """Print the files and directories that are used."""
    from toolglot.cli.config import show_paths

    show_paths(json=json)


@app.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--remove", is_flag=True, help="Stop trusting it.")
@click.option("--list", "list_all", is_flag=True, help="List the trusted directories.")
def trust(directory: Path | None, remove: bool, list_all: bool) -> None:
    """Trust the toolglot.toml of a directory.

    A trusted file can change any setting: load tools, set URLs, relax rules. DIRECTORY defaults to that of the project file.
    """
    from toolglot.cli.trust import update_trust

    raise Exit(update_trust(directory, remove=remove, list_all=list_all))


@app.command()
@click.argument("provider")
@click.option("--host", help="GitHub Enterprise host, for example company.ghe.com (copilot only).")
def login(provider: str, host: str | None) -> None:
    """Store a key in the system keyring, or sign in to Copilot."""
    from toolglot.cli.login import login as run_login

    raise Exit(run_login(provider, host=host))


@app.command()
@click.argument("provider")
def logout(provider: str) -> None:
    """Delete a key or sign-in stored by `login`."""
    from toolglot.cli.login import logout as run_logout

    raise Exit(run_logout(provider))


def _read_prompt(prompt: str | None) -> str:
    """Combine the prompt argument with piped input. Raises UsageError if there is no prompt."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        mode = 0
    if prompt in (None, "-"):
        prompt = _read_stdin()
    elif stat.S_ISFIFO(mode) or stat.S_ISREG(mode):  # reading anything else could wait forever
        piped = _read_stdin()
        prompt = f"{prompt}\n\n{piped}" if piped.strip() else prompt
    if not prompt or not prompt.strip():
        raise UsageError("the prompt is empty: pass one as an argument, or pipe it in")
    return prompt


def _read_stdin() -> str:
    try:
        return read_input(None).decode()
    except UnicodeDecodeError as e:
        raise UsageError(f"the prompt on stdin is not UTF-8 text: byte {e.start} is {e.object[e.start]:#04x}") from None


def main() -> None:
    """Run the command line; report every failure in one sentence."""
    try:
        app(prog_name="toolglot")
    except ToolglotError as e:
        from toolglot.cli.sanitize import escape_invisible

        print(f"toolglot: {escape_invisible(str(e))}", file=sys.stderr)
        sys.exit(2 if isinstance(e, UsageError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has exited
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes stdout on exit
        sys.exit(1)
    except Exception as e:
        if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EIO):
            sys.exit(f"toolglot: cannot write the output: {e.strerror}")
        if isinstance(e, FileNotFoundError) and _cwd_is_missing():
            print("toolglot: the current directory no longer exists: change to another one", file=sys.stderr)
            sys.exit(2)
        from logging import getLogger

        getLogger("toolglot.cli").debug("unexpected failure", exc_info=True)
        sys.exit(f"toolglot: unexpected {type(e).__name__}: {e} (this is a bug; use -vv for details)")


def _cwd_is_missing() -> bool:
    try:
        os.getcwd()  # unlike stat("."), this fails if the directory was deleted
    except FileNotFoundError:
        return True
    return False


if __name__ == "__main__":
    main()
