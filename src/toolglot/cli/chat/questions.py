"""Show the questions of the `ask_user` tool and parse the answers: option numbers, or free text."""

from toolglot.builtin.tool_state import UserAnswer, UserQuestion
from toolglot.cli.chat.screen import Screen
from toolglot.cli.styled import Line
from toolglot.common.sanitize import escape_deceptive, escape_line


def show_question(question: UserQuestion, screen: Screen) -> None:
    """Print a question with its options."""
    head = Line("? ", "bold yellow")
    if question.header:
        head.append(f"{escape_line(question.header)}: ", "yellow")
    first, *others = escape_deceptive(question.question.expandtabs(4)).split("\n")
    lines = [head.append(first, "bold"), *(Line(f"    {line}", "bold") for line in others)]
    for number, option in enumerate(question.options, 1):
        line = Line(f"  {number} ").append(escape_line(option.label), "bold")
        if option.description:
            line.append(f"  {escape_line(option.description)}", "dim")
        lines.append(line)
    screen.print_rows(lines)
    if question.multi:
        screen.note("  you can choose several options: separate their numbers with commas", "dim")


def parse_answer(question: UserQuestion, text: str) -> UserAnswer | None:
    """Parse an answer; return None if it is empty or not a valid option number.

    Other text is taken literally.
    """
    labels = [option.label for option in question.options]
    parts = [part.strip() for part in text.split(",")] if question.multi else [text]
    answers: list[str] = []
    for part in filter(None, parts):
        if not labels or not part.isdecimal():
            answers.append(part)
        elif 1 <= int(part) <= len(labels):
            answers.append(labels[int(part) - 1])
        else:
            return None
    if not text:
        return None
    return answers if question.multi else answers[0]
