"""The command line: arguments -> public API -> what is printed. Nothing imports it."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from toolglot.cli.lines import answer_lines, read_input
from toolglot.errors import ToolglotError, UsageError
from toolglot.jsontext import dumps, loads_object


class Wire(StrEnum):
    """The API formats."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC_MESSAGES = "anthropic-messages"
    GEMINI = "gemini"
    OLLAMA_CHAT = "ollama-chat"


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
File = Annotated[
    Path | None, typer.Argument(help="A file; - or nothing reads stdin.", exists=True, dir_okay=False, allow_dash=True)
]
Model = Annotated[
    str | None, typer.Option("--model", "-m", help="PROVIDER:MODEL, or simulator[:PROVIDER].", envvar="TOOLGLOT_MODEL")
]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="One JSON object in a line, one answer in a line.")]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"toolglot {version('toolglot')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """LLM tool calling that works with every model and never breaks."""


@app.command()
def decode(wire: Annotated[Wire, typer.Option(help="The API format.")], file: File = None, jsonl: Jsonl = False) -> None:
    """Read a provider's answer, streamed or whole, as a neutral reply."""
    from toolglot.cli.decode import decode_line, read_reply, reply_answer
    from toolglot.wire.codec import reader

    if jsonl:
        raise typer.Exit(answer_lines(file, lambda given: decode_line(wire, given)))
    found = reader(wire)
    reply = read_reply(found, read_input(file))
    _print(reply_answer(reply, found))


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
        raise typer.Exit(answer_lines(file, lambda given: work.convert_line(source, target, model, given)))
    try:
        body = loads_object(read_input(file))
    except ValueError as e:
        raise ToolglotError(f"the request is not a JSON object: {e}") from None
    said = work.convert(body, source, target, model=model)
    _print(said["request"])
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
    from toolglot.cli.check import check as find
    from toolglot.cli.check import find_tools

    refused = False
    for finding in find(find_tools(tools), targets or []):
        refused = refused or finding.refused
        if json:
            sys.stdout.buffer.write(dumps(finding) + b"\n")
            continue
        state = ("refused", "red") if finding.refused else ("changed", "yellow") if finding.losses else ("ok", "green")
        typer.echo(
            f"{typer.style(f'{state[0]:8}', fg=state[1])} {finding.provider}{':' + finding.model if finding.model else ''}"
        )
        for word, notes in (("limit", finding.problems), ("lost", finding.losses), ("mended", finding.repairs)):
            for note in notes:
                typer.echo(f"           {word}: {note}")
    raise typer.Exit(int(refused))


@app.command()
def run(
    prompt: Annotated[str | None, typer.Argument(help="What to ask; - or nothing reads stdin.")] = None,
    model: Model = None,
    attach: Annotated[list[Path] | None, typer.Option("--attach", "-a", help="A file to show; may be repeated.")] = None,
    tools: Annotated[list[str] | None, typer.Option(help="Tools as module:object; may be repeated.")] = None,
    system: Annotated[str | None, typer.Option(help="Instructions to the model.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Another address of the provider.")] = None,
    max_turns: Annotated[int, typer.Option(help="Requests with tools.", min=1)] = 25,
    json: Annotated[bool, typer.Option("--json", help="Every event as a JSON line.")] = False,
) -> None:
    """Ask one thing: the model may call tools, the answer is printed. Without a model, the simulator answers."""
    from toolglot.cli.attach import attached
    from toolglot.cli.load import tools_in
    from toolglot.cli.run import run_once
    from toolglot.loop.orchestrator import Orchestrator
    from toolglot.tools.config import ToolConfig

    text = read_input(None).decode("utf-8", "replace") if prompt in (None, "-") else prompt
    if not text or not text.strip():
        raise UsageError("there is nothing to ask: give a prompt, or pipe one in")
    chosen = _chosen(model)
    given: dict[str, Any] = {"base_url": base_url} if base_url else {}
    agent = Orchestrator(
        chosen,
        tools=[one for name in tools or [] for one in tools_in(name)],
        system=system,
        config=ToolConfig(max_iterations=max_turns),
        **given,
    )
    raise typer.Exit(run_once(agent, [text, *map(attached, attach or [])], json=json))


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
        from toolglot.cli.bodies import show

        show(Console(), only=wire)
        return
    from toolglot.cli.demo import demo as play

    raise typer.Exit(play(Console(), only=wire))


def _chosen(model: str | None) -> str:
    """The model that is asked; without one the simulator, and that is said."""
    if model is None:
        typer.secho("no model is chosen (-m PROVIDER:MODEL or TOOLGLOT_MODEL): the simulator answers", err=True, dim=True)
        return "simulator"
    return model


def _print(value: object) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(dumps(value), indent=2) + b"\n")


def main() -> None:
    """The entry point: every failure is one sentence."""
    try:
        app()
    except UsageError as e:
        print(f"toolglot: {e}", file=sys.stderr)
        sys.exit(2)
    except ToolglotError as e:
        sys.exit(f"toolglot: {e}")


if __name__ == "__main__":
    main()
