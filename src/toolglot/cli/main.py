"""The command line: arguments -> public API -> what is printed. Nothing imports it."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from toolglot.cli.lines import answer_lines, read_input
from toolglot.errors import ToolglotError
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
def demo(wire: Annotated[str | None, typer.Option(help="Only this provider.")] = None) -> None:
    """Show one tool and one awkward conversation in every wire, with what was lost and mended."""
    from rich.console import Console

    from toolglot.cli.demo import show

    show(Console(), only=wire)


def _print(value: object) -> None:
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(dumps(value), indent=2) + b"\n")


def main() -> None:
    """The entry point: every failure is one sentence."""
    try:
        app()
    except ToolglotError as e:
        sys.exit(f"toolglot: {e}")


if __name__ == "__main__":
    main()
