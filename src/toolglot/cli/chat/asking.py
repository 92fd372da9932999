"""Questions that a tool puts to the user: options by number, or own words."""

from rich.text import Text as Line

from toolglot.builtin.toolbox import Answer, Question
from toolglot.cli.chat.screen import Screen
from toolglot.cli.visible import visible

__all__ = ["show", "understood"]


def show(question: Question, screen: Screen) -> None:
    """Draws one question with its options."""
    head = Line()
    head.append("? ", style="bold yellow")
    if question.header:
        head.append(f"{visible(question.header)}: ", style="yellow")
    head.append(visible(question.question), style="bold")
    screen.console.print(head)
    for number, option in enumerate(question.options, 1):
        line = Line(f"  {number} ")
        line.append(visible(option.get("label", "")), style="bold")
        if about := option.get("description", ""):
            line.append(f"  {visible(about)}", style="dim")
        screen.console.print(line)
    if question.multi:
        screen.note("  several numbers may be given, with commas", "dim")


def understood(question: Question, said: str) -> Answer | None:
    """What the user meant; None where it says nothing. A number is an option, everything else is meant as it is."""
    if not said:
        return None
    labels = [option.get("label", "") for option in question.options]
    parts = [part.strip() for part in said.split(",")] if question.multi else [said]
    chosen = [_chosen(part, labels) for part in parts if part]
    if any(one is None for one in chosen):
        return None
    found = [one for one in chosen if one is not None]
    return found if question.multi else found[0]


def _chosen(said: str, labels: list[str]) -> str | None:
    if not labels or not said.isdecimal():
        return said
    number = int(said)
    return labels[number - 1] if 1 <= number <= len(labels) else None
