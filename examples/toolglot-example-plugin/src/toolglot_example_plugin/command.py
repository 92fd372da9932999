"""A command: `toolglot roll`. It returns its exit code; a ToolglotError is shown as one sentence."""

import click

from toolglot import UsageError
from toolglot_example_plugin.tools import roll_dice

__all__ = ["roll"]


@click.command()
@click.option("--sides", default=6, help="Sides of the die.")
def roll(sides: int) -> int:
    """Roll a die."""
    if sides < 1:
        raise UsageError(f"a die with {sides} sides cannot be rolled: use --sides 6")
    click.echo(roll_dice(sides=sides)[0])
    return 0
