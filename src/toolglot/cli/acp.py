"""`toolglot acp`: an agent for editors that support the Agent Client Protocol, over stdin and stdout."""

import asyncio
import os
import signal
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from toolglot.cli.options import AGENT
from toolglot.cli.printer import collect_notes, print_note
from toolglot.cli.startup import Flags, logins_file, prepare, require_key
from toolglot.common.user_dirs import data_directory
from toolglot.engine.auth import describe_key_origin
from toolglot.errors import UsageError
from toolglot.providers.catalog import DEFAULT_MODELS, resolve_profile

if TYPE_CHECKING:
    from toolglot.acp.agent import SessionOptions
    from toolglot.acp.session import AgentParts


@click.command()
@AGENT
def acp(**flags: Any) -> int:
    """Serve an editor that supports the Agent Client Protocol, over stdin and stdout.

    Zed, JetBrains IDEs, Neovim and Emacs start it themselves: add the command `toolglot acp` to their
    configuration.
    """
    try:
        from toolglot.acp.agent import EditorAgent
        from toolglot.acp.session_store import SessionStore
    except ImportError as e:
        if not (e.name or "").startswith("acp"):
            raise
        raise UsageError("editors need an additional package: pip install 'toolglot[acp]'") from None
    if sys.stdin.isatty():
        print_note("waiting for an editor on stdin: add this command to your editor's configuration")
    own_flags = Flags(**flags)
    read_fd, write_fd = _take_streams()

    async def serve() -> None:
        agent = EditorAgent(
            lambda options: open_agent(own_flags, options),
            SessionStore(data_directory() / "editor_sessions"),
            read_fd,
            write_fd,
        )
        task = asyncio.current_task()
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGTERM, lambda: task.cancel() if task else None
            )
        with suppress(asyncio.CancelledError):
            await agent.serve()

    asyncio.run(serve())
    return 0


def _take_streams() -> tuple[int, int]:
    """Return descriptors for the protocol. All other output goes to stderr, and all other input is empty."""
    sys.stdout.flush()
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return read_fd, write_fd


def open_agent(flags: Flags, options: "SessionOptions") -> "AgentParts":
    """Create a session's agent, as `toolglot chat` would in its directory.

    Raises UsageError, SignInRequired.
    """
    from toolglot.acp.connection import SignInRequired
    from toolglot.acp.session import AgentParts

    directory = options.directory
    with collect_notes() as notices, ExitStack() as stack:
        cli_setup = stack.enter_context(
            prepare(
                replace(flags, root=flags.root or directory),
                ask_user=options.ask_user,
                use_demo_tools=True,
                saved_model=options.saved_model,
                directory=directory,
                use_servers="start",
                extra_servers=options.servers,
            )
        )
        try:
            engine_options = {"base_url": flags.base_url} if flags.base_url else {}
            require_key(cli_setup.setup.engine(cli_setup.model, **engine_options))
        except UsageError as e:
            raise SignInRequired(str(e)) from None
        agent = cli_setup.create_agent(approve=options.approve, hooks=[options.hooks])
        if cli_setup.servers is not None:
            cli_setup.servers.notify = options.notify
        cli_setup.print_notices()
        if cli_setup.model_reason:
            print_note(cli_setup.model_reason)
        close = stack.pop_all().close
    return AgentParts(
        agent=agent,
        setup=cli_setup.setup,
        require_key=require_key,
        models=_list_models(cli_setup.setup.settings.aliases),
        builtins=cli_setup.builtins,
        instructions=cli_setup.instructions,
        servers=cli_setup.servers.client if cli_setup.servers is not None else None,
        notices=notices,
        close=close,
    )


def _list_models(aliases: dict[str, str]) -> tuple[str, ...]:
    """Return the models to choose from: the user's aliases, and one model per provider that has a key."""
    keyring = logins_file().exists()
    defaults = [
        f"{provider}:{name}"
        for provider, name in DEFAULT_MODELS.items()
        if describe_key_origin(resolve_profile(provider, name), keyring=keyring) is not None
    ]
    return (*aliases, *defaults)
