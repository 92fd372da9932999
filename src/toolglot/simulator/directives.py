"""Commands for the simulated model in a user message. Anything else in the message is a plain prompt.

    call NAME {json}     a call, anywhere in the text; several are parallel calls of one turn
    call! NAME {json}    the same, even if the tool is not offered: its turn is played as written
    say TEXT             at the start of a line: visible text
    think TEXT           at the start of a line: reasoning, before everything else
    fault NAME [TIMES]   at the start of a line: a fault (see `faults`), once or TIMES times, then the turn
    succeeds stop REASON          at the start of a line: end | tools | length | refusal | filtered | pause
    then ...             before any of these: it belongs to the next turn, after the results of this one

A freeform tool gets its text as `call NAME {"input": "text"}`. At the start of a line, a malformed directive
is an error: `call NAME {not json}`, `call NAME a=1`, `stop nope`.
"""

import re
from json import JSONDecoder
from typing import cast, get_args

import msgspec

from toolglot.common.textutil import truncate
from toolglot.errors import UnknownName, UsageError
from toolglot.values.messages import Block, StopReason, Text, Thinking, ToolCall

__all__ = ["PlannedTurn", "parse_directives"]

_DIRECTIVE = re.compile(
    r"(?P<then>\bthen[ \t]+)?\bcall(?P<forced>!)?[ \t]+(?P<name>[\w.:/-]+)[ \t]*(?=\{)"
    r"|^[ \t]*(?P<later>then[ \t]+)?(?P<word>say|think|fault|stop(?=[ \t]+\S+[ \t]*$))[ \t]+(?P<rest>[^\n]+)",
    re.MULTILINE,
)
_UNREADABLE_CALL = re.compile(
    r"^[ \t]*(?:then[ \t]+)?(call!?[ \t]+([\w.:/-]+)(?:[ \t]*(?=[\[{])|(?=\()|[ \t]+(?=\w+=))[^\n]*)",
    re.MULTILINE,
)
_DECODER = JSONDecoder()


class PlannedTurn(msgspec.Struct):
    """One turn as the directives describe it: its content, the faults on the way, and the stop reason."""

    blocks: list[Block] = []
    faults: list[tuple[str, int]] = []
    stop: StopReason | None = None
    is_forced: bool = False
    """Played as written, whatever the request permits."""


def _read_fault(text: str) -> tuple[str, int]:
    """Return a fault, and how many times it happens: once, unless a number follows its name."""
    name, _, times = text.partition(" ")
    times = times.strip()
    if not times:
        return name, 1
    if times.isdecimal():
        return name, int(times)
    return text, 1  # an unknown name


def parse_directives(text: str) -> tuple[list[PlannedTurn], str]:
    """Return the turns that a text describes, and the rest of the text.

    Raises UsageError for a malformed directive.
    """
    turns: list[PlannedTurn] = []
    prompt: list[str] = []
    position = 0
    for match in _DIRECTIVE.finditer(text):
        if match.start() < position:  # inside the arguments of a call
            continue
        end, arguments, argument = match.end(), None, (match["rest"] or "").strip()
        if match["name"]:
            try:
                arguments, end = _DECODER.raw_decode(text, end)
            except (ValueError, RecursionError):
                continue
        prompt.append(text[position : match.start()])
        position = end
        if not turns or match["then"] or match["later"]:
            turns.append(PlannedTurn([], []))
        turn = turns[-1]
        match match["word"]:
            case None:
                turn.blocks.append(ToolCall("", match["name"], arguments))
                turn.is_forced |= bool(match["forced"])
            case "say":
                turn.blocks.append(Text(argument))
            case "think":
                turn.blocks.insert(0, Thinking(argument))
            case "fault":
                turn.faults.append(_read_fault(argument))
            case _:
                if argument not in get_args(StopReason):
                    raise UnknownName("reason to stop in a directive", argument, get_args(StopReason))
                turn.stop = cast("StopReason", argument)
    rest = "".join([*prompt, text[position:]]).strip()
    if match := _UNREADABLE_CALL.search(rest):
        example = f'call {match[2]} {{"name": "value"}}'
        raise UsageError(
            f"the directive {truncate(match[1], 80)!r} needs its arguments as a JSON object, as in {example}"
        )
    return turns, rest
