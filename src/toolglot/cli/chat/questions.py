"""Questions that a tool puts to the user: options by number, or own words."""

from rich.text import Text as Line

from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.cli.chat.screen import Screen
from toolglot.cli.sanitize import escape_invisible

__all__ = ["parse_answer", "show_question"]


def show_question(question: UserQuestion, screen: Screen) -> None:
    """Draws one question with its options."""
    head = Line()
    head.append("? ", style="bold yellow")
    if question.header:
        head.append(f"{escape_invisible(question.header)}: ", style="yellow")
    head.append(escape_invisible(question.question), style="bold")
    screen.console.print(head)
    for number, option in enumerate(question.options, 1):
        line = Line(f"  {number} ")
        line.append(escape_invisible(option.get("label", "")), style="bold")
        if about := option.get("description", ""):
            line.append(f"  {escape_invisible(about)}", style="dim")
        screen.console.print(line)
    if question.multi:
        screen.note("  several numbers may be given, with commas", "dim")


def parse_answer(question: UserQuestion, text: str) -> UserAnswer | None:
    """What the user meant; None where it says nothing. A number is an option, everything else is meant as it is."""
    if not text:
        return None
    labels = [option.get("label", "") for option in question.options]
    parts = [part.strip() for part in text.split(",")] if question.multi else [text]
    chosen = [_choose_option(part, labels) for part in parts if part]
    if any(one is None for one in chosen):
        return None
    found = [one for one in chosen if one is not None]
    return found if question.multi else found[0]


def _choose_option(text: str, labels: list[str]) -> str | None:
    if not labels or not text.isdecimal():
        return text
    number = int(text)
    return labels[number - 1] if 1 <= number <= len(labels) else None
