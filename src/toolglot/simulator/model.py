"""A small deterministic model: a Request in, a Reply out. It obeys a script first, then directives, then the prompt.

A plain prompt is cut into clauses; each goes to the tool whose words it shares most ("in Paris and in Rome": two calls).
After the results it answers with a sentence that holds each of them. A call whose result is there is not made again, unless
`tool_choice` requires one. Without a fitting tool it answers in words, or in JSON where an output schema asks for it.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from toolglot.jsontext import dumps_text
from toolglot.messages import Block, Media, Message, Reply, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from toolglot.request import Request, ToolDefinition
from toolglot.simulator.argument_filler import ArgumentFiller, split_words
from toolglot.simulator.directives import PlannedTurn, parse_directives
from toolglot.wire import spec
from toolglot.wire.json_values import as_dict, as_list
from toolglot.wire.openai_responses.reply_decode import NATIVE_ITEMS
from toolglot.wire.repair import FILLER_TEXT

__all__ = ["Script", "Situation", "add_thought", "estimate_usage", "respond"]

_MAX_QUOTE = 400  # characters of a result in the answer
_COMMON_WORDS = split_words(
    "a an the is are of for in on at to and or with by from it its this that be get give please what me all any as"
)
_CLAUSE_BREAK = re.compile(r"\s*(?:,\s*(?:and|then)?|;|\band\b|\bthen\b|[?!.](?=\s|$)|\n)\s+|[?!.]+$", re.IGNORECASE)


class Script(msgspec.Struct, frozen=True):
    """Replies by turn: the n-th is given where the history holds n turns of the assistant. After the last the model goes on.

    A turn is a Reply, a text in the grammar of `directives`, or a function of the request. Ids and state that a Reply lacks
    are added.
    """

    turns: "Sequence[Reply | str | Callable[[Request], Reply]]"


class Situation(msgspec.Struct):
    """Where a conversation stands: what the user asked last, and what happened since."""

    user_text: str
    """All that the user said last."""
    prompt: str
    """The same without directives."""
    planned_turns: list[PlannedTurn]
    """The directives."""
    messages_since: list[Message]

    @classmethod
    def from_request(cls, request: Request) -> "Situation":
        """Reads a history."""
        messages = [message for message in request.messages if not _is_encoder_filler(message)]
        last = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
        words = messages[last].text if last >= 0 else ""
        told, prompt = parse_directives(words)
        return cls(words, prompt, told, messages[last + 1 :])

    @property
    def turn_index(self) -> int:
        """Turns of the assistant since the user spoke."""
        return sum(message.role == "assistant" for message in self.messages_since)

    @property
    def current_turn(self) -> PlannedTurn | None:
        """What the model was told to do in this turn."""
        return self.planned_turns[self.turn_index] if self.turn_index < len(self.planned_turns) else None

    @property
    def results(self) -> list[ToolResult]:
        """What came back since the user spoke, with the names of the tools."""
        names = {call.id: call.name for message in self.messages_since for call in message.calls}
        found = [result for message in self.messages_since for result in message.results]
        return [replace(result, name=result.name or names.get(result.call_id, "")) for result in found]


def _is_encoder_filler(message: Message) -> bool:
    """What an encoder says for want of another place: pictures of results, late instructions, words between two turns."""
    if message.role == "assistant":
        return message.text == FILLER_TEXT and not message.calls
    return message.role == "user" and message.text.startswith(("[media of the result", "<system>"))


def respond(request: Request, situation: Situation, script: Script | None = None) -> Reply:
    """The model's reply, without ids and state."""
    reply = script and _reply_from_script(script, request)
    if not reply:
        reply = _improvise(request, situation)
    return replace(reply, blocks=tuple(_shape_calls(reply.blocks, request)))


def _improvise(request: Request, situation: Situation) -> Reply:
    turn = situation.current_turn
    stop = turn.stop if turn else None
    if turn and turn.blocks:
        return _make_reply(turn.blocks, stop)
    calls = _choose_calls(request, situation)
    if calls:
        return _make_reply(calls, stop)
    if request.output is not None:
        value = ArgumentFiller(_all_text(situation)).fill_object(request.output.schema or {})
        return _make_reply([Text(dumps_text(value))], stop)
    return _truncate(_make_reply([Text(_answer_text(request, situation))], stop), request.options.max_tokens)


def _make_reply(blocks: Sequence[Block], stop: StopReason | None = None) -> Reply:
    made: StopReason = "tools" if any(isinstance(block, ToolCall) for block in blocks) else "end"
    return Reply(tuple(blocks), stop or made)


def _reply_from_script(script: Script, request: Request) -> Reply | None:
    at = sum(message.role == "assistant" and not _is_encoder_filler(message) for message in request.messages)
    if at >= len(script.turns):
        return None
    entry = script.turns[at]
    if isinstance(entry, Reply):
        return entry
    if not isinstance(entry, str):
        return entry(request)
    turns, rest = parse_directives(entry)
    return _make_reply(turns[0].blocks if turns else [Text(rest)], turns[0].stop if turns else None)


def _shape_calls(blocks: Sequence[Block], request: Request) -> Iterator[Block]:
    """Calls of freeform tools have text, those of a namespace have it, those of Responses' own tools are items of theirs."""
    tools = _index_tools(request.tools)
    for block in blocks:
        tool = tools.get(block.name) if isinstance(block, ToolCall) else None
        if not isinstance(block, ToolCall) or tool is None:
            yield block
            continue
        block = replace(block, name=tool.name)
        if tool.kind == "freeform" and not block.freeform:
            given = (block.arguments or {}).get("input", dumps_text(block.arguments or {}))
            yield replace(block, arguments=None, raw=str(given), freeform=True, namespace=tool.namespace)
        elif tool.wire == spec.OPENAI_RESPONSES and (kind := f"{(tool.opaque or {}).get('type')}_call") in NATIVE_ITEMS:
            item = {"type": kind, NATIVE_ITEMS[kind][1]: block.arguments or {}, "status": "completed"}
            yield replace(block, opaque={"item": item})
        else:
            yield replace(block, namespace=tool.namespace)


def _index_tools(tools: Sequence[ToolDefinition]) -> dict[str, ToolDefinition]:
    """Tools by what they are called: their names, and `SPACE.NAME`, also on wires that write it `SPACE__NAME`."""
    spaced = {f"{tool.namespace}.{tool.name}" if tool.namespace else tool.name.replace("__", ".", 1): tool for tool in tools}
    return {**spaced, **{tool.name: tool for tool in tools}}


# ---- plain prompts: which tools, with which arguments


def _choose_calls(request: Request, situation: Situation) -> list[ToolCall]:
    choice = request.tool_choice
    tools = [tool for tool in request.tools if tool.kind != "hosted"]
    if choice and choice.names:
        tools = [tool for tool in tools if tool.name in choice.names]
    if not tools or (choice and choice.mode == "none"):
        return []
    wanted = _guess_calls(situation.prompt, tools)
    made = [(call.name, call.arguments) for message in situation.messages_since for call in message.calls]
    fresh = [call for call in wanted if (call.name, call.arguments) not in made]
    if choice and choice.mode == "required" and not fresh:
        fresh = wanted or [_make_call(tools[0], ArgumentFiller(situation.prompt))]
    return fresh[:1] if request.parallel is False else fresh


def _guess_calls(prompt: str, tools: Sequence[ToolDefinition]) -> list[ToolCall]:
    """The calls that a prompt asks for. A clause without a tool of its own goes on with the one before."""
    found: list[tuple[ToolDefinition, str]] = []
    for clause in filter(None, _CLAUSE_BREAK.split(prompt)):
        tool = _best_tool(clause, tools)
        if tool is None and found:
            before, said = found[-1]
            if _needs_more_values(before, said):
                found[-1] = (before, f"{said} and {clause}")
                continue
            filler = ArgumentFiller(clause, split_words(before.name))
            if not filler.texts and not filler.numbers:  # it is about all of them: "in Paris and in Rome, in celsius"
                found = [(one, f"{words} {clause}") for one, words in found]
                continue
            tool = before
        if tool is not None:
            found.append((tool, clause))
    calls: list[ToolCall] = []
    for tool, clause in found:
        call = _make_call(tool, ArgumentFiller(clause, _tool_words(tool)))
        if call not in calls:
            calls.append(call)
    return calls


def _best_tool(clause: str, tools: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """The tool that shares most words with a clause: names count three times, one word of a description is not enough."""
    said = split_words(clause) - _COMMON_WORDS
    scores = [
        3 * len(said & split_words(tool.name)) + len(said & (_tool_words(tool) - split_words(tool.name))) for tool in tools
    ]
    best = max(scores)
    return tools[scores.index(best)] if best > 1 else None


def _tool_words(tool: ToolDefinition) -> frozenset[str]:
    parameters = as_dict((tool.parameters or {}).get("properties"))
    parts = [tool.name, tool.description, *parameters]
    parts += [f"{as_dict(part).get('description', '')} {as_dict(part).get('enum', '')}" for part in parameters.values()]
    return split_words(" ".join(parts)) - _COMMON_WORDS


def _needs_more_values(tool: ToolDefinition, clause: str) -> bool:
    """Whether a tool needs more values than a clause offers."""
    filler, parameters = ArgumentFiller(clause, _tool_words(tool)), tool.parameters or {}
    properties = as_dict(parameters.get("properties"))
    needed = [as_dict(properties.get(name)) for name in as_list(parameters.get("required"))]
    numbers = sum(part.get("type") in ("integer", "number") for part in needed)
    texts = sum(part.get("type") == "string" and not part.get("enum") for part in needed)
    listed = any(part.get("type") == "array" for part in needed)
    return numbers > len(filler.numbers) or texts > len(filler.texts) or listed


def _make_call(tool: ToolDefinition, filler: ArgumentFiller) -> ToolCall:
    if tool.kind == "freeform":
        return ToolCall("", tool.name, {"input": filler.prompt})
    return ToolCall("", tool.name, filler.fill_object(tool.parameters or {}))


# ---- words


def _answer_text(request: Request, situation: Situation) -> str:
    """What it says where there is nothing to call."""
    results = situation.results
    said = (
        "Here is what came back. " + " ".join(map(_quote_result, results))
        if results
        else f"You said: {situation.prompt[:_MAX_QUOTE]}"
    )
    blocks = [block for message in request.messages for block in message.blocks]
    inside = [part for block in blocks if isinstance(block, ToolResult) for part in block.content]
    images = sum(isinstance(block, Media) and block.kind == "image" for block in [*blocks, *inside])
    return f"{said} I see {images} image{'s' * (images != 1)}." if images else said


def _quote_result(result: ToolResult) -> str:
    text = result.text.strip() or "nothing"
    text = text if len(text) <= _MAX_QUOTE else f"{text[: _MAX_QUOTE - 1]}…"
    name = f"{result.name}: " if result.name else ""
    return f"{name}{text}{'' if text[-1] in '.!?…' else '.'}"


def _all_text(situation: Situation) -> str:
    return " ".join([situation.prompt, *(result.text for result in situation.results)])


def _truncate(reply: Reply, limit: int | None) -> Reply:
    """A text within the limit of tokens, four characters each."""
    if not limit or len(reply.text) <= 4 * limit:
        return reply
    return replace(reply, blocks=(Text(reply.text[: 4 * limit]),), stop="length")


def add_thought(reply: Reply, situation: Situation) -> Reply:
    """A reply that begins with a thought."""
    if any(isinstance(block, Thinking) for block in reply.blocks):
        return reply
    names = ", ".join(call.name for call in reply.calls)
    text = f"I should call {names}." if names else "The results are there." if situation.results else "I can answer at once."
    return replace(reply, blocks=(Thinking(text), *reply.blocks))


def estimate_usage(reply: Reply, request_bytes: int) -> Usage:
    """Four characters are a token."""
    thought = sum(len(block.text) for block in reply.blocks if isinstance(block, Thinking))
    said = sum(len(block.text) for block in reply.blocks if isinstance(block, Text | Thinking | ToolCall))
    return Usage(input=max(1, request_bytes // 4), output=max(1, said // 4), reasoning=thought // 4)
