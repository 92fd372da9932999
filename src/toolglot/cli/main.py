"""The command line: the table of all commands, and one sentence for every failure."""

import errno
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from toolglot import __version__
from toolglot.errors import ToolglotError, UnknownName, UsageError

# command -> the module of toolglot.cli in which it is a click command of that name, and the first line of its
# help
COMMANDS = {
    "acp": ("acp", "Serve an editor that supports the Agent Client Protocol, over stdin and stdout."),
    "call": ("call", "Run a tool as a model would."),
    "chat": ("chat.launch", "Chat with a model that can call tools."),
    "check": ("check", "Report which parts of your tools providers would reject or lose."),
    "config": ("config", "Show the configuration."),
    "convert": ("convert", "Convert a request to another API format."),
    "decode": ("decode", "Decode a provider's response into a neutral reply."),
    "demo": ("demo", "Run a conversation with tools on every API format."),
    "doctor": ("doctor", "Check the installation, configuration, keys and sandbox."),
    "login": ("login", "Store a key in the system keyring, or sign in to Copilot."),
    "logout": ("login", "Delete a key or sign-in stored by `login`."),
    "mcp": ("mcp", "Manage MCP servers, or run as one."),
    "models": ("models", "Show the limits and features of providers and models."),
    "run": ("run", "Run one prompt with tools and print the answer."),
    "simulate": ("simulate", "Serve a simulator of every provider."),
    "tools": ("tools", "Show tools as defined, or as a model sees them."),
    "trust": ("trust", "Trust a project: its settings, instructions and MCP servers."),
}


class _CommandTable(click.Group):
    """The commands. Only the one that is used is imported, because some need a lot of modules."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return _load_plugin_command(cmd_name)
        module, _ = COMMANDS[cmd_name]
        return getattr(import_module(f"toolglot.cli.{module}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        may_be_plugin_command = name not in COMMANDS and not name.startswith("-")
        if may_be_plugin_command and _load_plugin_command(name) is None:
            from toolglot.common.plugins import plugin_names

            raise UnknownName("command", name, (*COMMANDS, *plugin_names("commands")))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = (
            CompletionItem(name, help=summary)
            for name, (_, summary) in COMMANDS.items()
            if name.startswith(incomplete)
        )
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])
        from toolglot.common.plugins import list_plugins

        plugins = [plugin for plugin in list_plugins() if plugin.kind == "commands"]
        rows = [(plugin.name, plugin.origin) for plugin in plugins if plugin.name not in COMMANDS]
        if rows:
            with formatter.section("Commands from plug-ins"):
                formatter.write_dl(rows)


def _load_plugin_command(name: str) -> click.Command | None:
    """Return the command of a plug-in; None if there is none. Raises UsageError."""
    from toolglot.common.plugins import find_plugin, plugin_error

    command = find_plugin("commands", name)
    if command is not None and not isinstance(command, click.Command):
        raise plugin_error("commands", name, "is not a click command")
    return command


@click.command(
    cls=_CommandTable,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog='Shell completion: eval "$(_TOOLGLOT_COMPLETE=bash_source toolglot)"; for other shells, '
    "zsh_source or fish_source.",
)
@click.version_option(__version__, "-V", "--version", prog_name="toolglot", message="%(prog)s %(version)s")
def app() -> None:
    """LLM tool calling for every major provider, with conversations that stay valid."""


def main() -> None:
    """Run the command line; report every failure in one sentence."""
    words: list[str] = []
    try:
        _prepare_streams()
        words = sys.argv[1:] or ["help"]
        if words[0] == "help":
            words = [*words[1:], "--help"]
        sys.exit(app(words, prog_name="toolglot", standalone_mode=False))
    except ToolglotError as e:
        _fail(str(e), 2 if isinstance(e, UsageError) else 1)
    except click.ClickException as e:
        context = getattr(e, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        _fail(" ".join(e.format_message().split()).removesuffix(".") + hint, e.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has exited
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes stdout on exit
        sys.exit(1)
    except Exception as e:
        if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EIO):
            _fail(f"cannot write the output: {e.strerror}", 1)
        if isinstance(e, FileNotFoundError) and _cwd_is_missing():
            _fail("the current directory no longer exists: change to another one", 2)
        command = words[0] if words else ""
        is_own_command = command in COMMANDS or command.startswith("-")
        owner, source = "", "toolglot"
        if command and not is_own_command:
            owner, source = f" in the plug-in command {command!r}", "the plug-in"
        _fail(
            f"unexpected {type(e).__name__}{owner}: {e} (this is a bug; please report it where you got {source} "
            f"from, with {_save_traceback()})",
            1,
        )


def _prepare_streams() -> None:
    """Replace closed streams.

    Let output replace characters that its encoding lacks. Raises UsageError if stdout is closed.
    """
    # Python sets closed streams to None, which their type does not say.
    streams: dict[str, Any] = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
    for name, stream in streams.items():
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            fd = os.open(os.devnull, os.O_RDWR)  # the number of the closed one, so that no other file gets it
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        elif name != "stdin" and isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if streams["stdout"] is None:
        raise UsageError(
            "stdout is closed: redirect it to a file, or to /dev/null if you do not need the output"
        )


def _fail(message: str, exit_code: int) -> NoReturn:
    from toolglot.cli.printer import print_note

    print_note(message)
    sys.exit(exit_code)


def _cwd_is_missing() -> bool:
    try:
        os.getcwd()  # unlike stat("."), this fails if the directory was deleted
    except FileNotFoundError:
        return True
    return False


def _save_traceback() -> str:
    """Write the current exception to a file without keys; return its path."""
    from tempfile import NamedTemporaryFile
    from traceback import format_exc

    from toolglot.common.redact import redact
    from toolglot.engine.signin.environment import secret_values

    with NamedTemporaryFile("w", prefix="toolglot-", suffix=".log", encoding="utf-8", delete=False) as file:
        file.write(redact(format_exc(), secret_values(), by_name=True))
    return file.name


if __name__ == "__main__":
    main()
