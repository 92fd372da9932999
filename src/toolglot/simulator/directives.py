"""What a user message may tell the simulated model to do, exactly. Anything else in it is a plain prompt.

    call NAME {json}     a call, anywhere in the text; several are parallel calls of one turn
    say TEXT             at the start of a line: visible text
    think TEXT           at the start of a line: reasoning, before everything else
    fault NAME [TIMES]   at the start of a line: a fault (see `faults`), once or TIMES times, then the turn works
    stop REASON          at the start of a line: end | tools | length | refusal | filtered | pause
    then ...             before any of these: it belongs to the next turn, after the results of this one

A freeform tool gets its text as `call NAME {"input": "text"}`.
"""

import re
from typing import Any, cast, get_args

import msgspec

from toolglot.jsontext import loads
from toolglot.messages import Block, StopReason, Text, Thinking, ToolCall

__all__ = ["PlannedTurn", "parse_directives"]

_DIRECTIVE = re.compile(
    r"(?P<then>\bthen[ \t]+)?\bcall[ \t]+(?P<name>[\w.:/-]+)[ \t]*(?=\{)"
    r"|^[ \t]*(?P<later>then[ \t]+)?(?P<word>say|think|fault|stop)[ \t]+(?P<rest>[^\n]+)",
    re.MULTILINE,
)


class PlannedTurn(msgspec.Struct):
    """One turn of the model as it was told: what it says, the faults on the way, why it stops."""

    blocks: list[Block] = []
    faults: list[tuple[str, int]] = []
    stop: StopReason | None = None


def parse_directives(text: str) -> tuple[list[PlannedTurn], str]:
    """The turns that a text asks for, and what else it says."""
    turns: list[PlannedTurn] = []
    others: list[str] = []
    at = 0
    for match in _DIRECTIVE.finditer(text):
        if match.start() < at:  # inside the arguments of a call
            continue
        end, arguments = match.end(), None
        if match["name"]:
            found = _parse_object_at(text, end)
            if found is None:
                continue
            end, arguments = found
        others.append(text[at : match.start()])
        at = end
        if not turns or match["then"] or match["later"]:
            turns.append(PlannedTurn([], []))
        if arguments is not None:
            turns[-1].blocks.append(ToolCall("", match["name"], arguments))
        else:
            _apply_directive(turns[-1], match["word"], match["rest"].strip())
    return turns, "".join([*others, text[at:]]).strip()


def _apply_directive(turn: PlannedTurn, directive: str, argument: str) -> None:
    match directive:
        case "say":
            turn.blocks.append(Text(argument))
        case "think":
            turn.blocks.insert(0, Thinking(argument))
        case "fault":
            name, _, times = argument.partition(" ")
            turn.faults.append((name, int(times) if times.strip().isdigit() else 1))
        case _ if argument in get_args(StopReason):
            turn.stop = cast(StopReason, argument)
        case _:
            pass


def _parse_object_at(text: str, start: int) -> tuple[int, dict[str, Any]] | None:
    """The JSON object that begins here, and where it ends."""
    end = text.find("}", start)
    while end >= 0:
        try:
            value = loads(text[start : end + 1])
        except ValueError:
            end = text.find("}", end + 1)
            continue
        return (end + 1, cast(dict[str, Any], value)) if isinstance(value, dict) else None
    return None
