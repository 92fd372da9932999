"""Approvals on the terminal of a command that runs once, such as `toolglot run` and `toolglot call`."""

import signal
import sys

import click

from toolglot.cli.startup import approve_all
from toolglot.values.approvals import ApprovalRequest, Approve

__all__ = ["ask_for_approval", "choose_approve", "has_terminal_user"]


def has_terminal_user() -> bool:
    """Whether somebody sees a question and can answer it; the output may go elsewhere."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def choose_approve(*, yes: bool, has_user: bool) -> Approve:
    """Return the function that decides about calls that need approval. `yes`: for `--yes`."""
    if yes:
        return approve_all
    return ask_for_approval if has_user else lambda _: "later"


def ask_for_approval(approval: ApprovalRequest) -> bool:
    """Show everything that the call would do, and ask on the terminal."""
    from toolglot.cli.chat.approvals import print_approvals

    print_approvals([approval])
    # asyncio turns Ctrl-C into a cancellation, which would wait for the answer.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm("Run it?", err=True)
    except click.Abort as abort:
        sys.stderr.write("\n")
        is_interrupted = isinstance(abort.__context__, KeyboardInterrupt)
    finally:
        signal.signal(signal.SIGINT, handler)
    if is_interrupted:
        signal.raise_signal(signal.SIGINT)  # ends the program
    return False
