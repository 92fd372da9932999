"""A small deterministic model: a Request in, a Reply out. It follows a script first, then directives, then the prompt.

A plain prompt is split into clauses; each goes to the tool with which it shares the most words ("in Paris and in Rome": two
calls). After the results, the model answers with a sentence that quotes each of them. A call that has a result is not repeated,
unless `tool_choice` requires a call, and even then not forever. Without a matching tool, it answers with text, or with JSON if
there is an output schema. It calls only tools that are offered, and searches for a deferred tool first.

Prompts and directives obey `tool_choice`, `parallel`, `max_tokens` and the output schema, as a real model would. A script is
played as written: that is how to test what happens when a model disobeys.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from toolglot.errors import UsageError
from toolglot.jsontext import dumps_text
from toolglot.messages import (
    Block,
    Foreign,
    Media,
    Message,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolsChanged,
    Usage,
)
from toolglot.request import Request, ToolChoice, ToolDefinition, effective_tools
from toolglot.simulator.argument_filler import ArgumentFiller, split_words
from toolglot.simulator.directives import PlannedTurn, parse_directives
from toolglot.simulator.prompt_cache import CacheUse
from toolglot.textutil import truncate
from toolglot.value_checks import as_items
from toolglot.wire import spec
from toolglot.wire.json_values import as_dict, as_list
from toolglot.wire.openai_responses.reply_decode import NATIVE_ITEMS
from toolglot.wire.repair import FILLER_TEXT
from toolglot.wire.request_decoding import is_search_name

__all__ = ["Script", "Situation", "add_thought", "estimate_usage", "play_script", "respond", "truncate_call"]

_MAX_QUOTE = 400  # characters of a result in the answer
_CHARS_PER_TOKEN = 4
_COMMON_WORDS = split_words(
    "a an the is are of for in on at to and or with by from it its this that be get give please what me all any as"
)
_MAX_TURNS = 50  # with calls, since the user's message: what goes on longer is a runaway conversation
# What programs put into the user's messages; it is no prompt.
_HARNESS_TEXT = re.compile(r"<(system-reminder|environment_context|session_context|user_instructions)>.*?</\1>", re.DOTALL)
_ENCODED = re.compile(r"_[0-9a-f]{6}$|\W|_")
_CLAUSE_BREAK = re.compile(r"\s*(?:,\s*(?:and|then)?|;|\band\b|\bthen\b|[?!.](?=\s|$)|\n)\s+|[?!.]+$", re.IGNORECASE)


class Script(msgspec.Struct, frozen=True):
    """What the simulated model says, turn by turn, as written: `Simulator(Script(["say hi", Reply((Text("bye"),))]))`.

    A turn is a text with directives (`call NAME {json}`, `say TEXT`, ...), a Reply, or a function from Request to one of these.
    Turn n (from 0) answers a history with n assistant turns, so a script serves any number of conversations. After the last
    turn, the model follows the prompt again. Ids and state missing from a Reply are added.
    """

    turns: "Sequence[Reply | str | Callable[[Request], Reply | str]]"

    def __post_init__(self) -> None:
        if not isinstance(self.turns, list):  # which may grow while it is played
            force_setattr(self, "turns", tuple(as_items(self.turns)))
        for turn in self.turns:
            if not isinstance(turn, Reply | str) and not callable(turn):
                raise _invalid_turn(turn)


def _invalid_turn(turn: Any) -> UsageError:
    return UsageError(f"a turn of a script is text, a Reply, or a function that returns one of them, not {type(turn).__name__}")


class Situation(msgspec.Struct):
    """The state of a conversation: the user's last message, and what has happened since."""

    user_text: str
    prompt: str
    """The user's text without directives."""
    planned_turns: list[PlannedTurn]
    """The directives."""
    messages_since: list[Message]
    finders: set[str] = set()
    """The tools that find others."""

    @classmethod
    def from_request(cls, request: Request) -> "Situation":
        """Analyze a history. Text right after results is assumed to be added by programs, unless it has directives."""
        messages = [message for message in request.messages if not _is_filler(message)]
        last, text, planned, prompt = -1, "", list[PlannedTurn](), ""
        for index, message in reversed(list(enumerate(messages))):
            if message.role != "user":
                continue
            # A directive ends with its block.
            text = "\n".join(_HARNESS_TEXT.sub("", block.text) for block in message.blocks if isinstance(block, Text))
            planned, prompt = parse_directives(text)
            last = index
            if planned or index == 0 or (messages[index - 1].role != "tool" and (prompt or not _is_harness(message))):
                break
        if request.parallel is False:
            planned = [part for turn in planned for part in _split_calls(turn)]
        finders = {tool.name for tool in effective_tools(request).declared if _finds_tools(tool)}
        return cls(text, prompt, planned, messages[last + 1 :], finders)

    @property
    def turn_index(self) -> int:
        """The number of assistant turns since the user's message, not counting unplanned searches for tools."""
        index = 0
        for message in self.messages_since:
            if message.role == "assistant":
                planned = self.planned_turns[index].blocks if index < len(self.planned_turns) else []
                names = {block.name for block in planned if isinstance(block, ToolCall)}
                searched = {call.name for call in message.calls}
                index += not (searched and searched <= self.finders and not searched & names)
        return index

    @property
    def current_turn(self) -> PlannedTurn | None:
        """The directives for this turn, if any."""
        return self.planned_turns[self.turn_index] if self.turn_index < len(self.planned_turns) else None

    @property
    def results(self) -> list[ToolResult]:
        """The results since the user's message, with the names of their tools."""
        names = {call.id: call.name for message in self.messages_since for call in message.calls}
        results = [result for message in self.messages_since for result in message.results]
        return [replace(result, name=result.name or names.get(result.call_id, "")) for result in results]


def _finds_tools(tool: ToolDefinition) -> bool:
    """Whether a tool of the client finds others. On most wires it is a function like any other."""
    return tool.kind != "hosted" and (tool.finds_tools or is_search_name(tool.name))


def _is_filler(message: Message) -> bool:
    """Whether no one wrote the message: media of results, late instructions, text between two turns, a compacted history."""
    if message.blocks and all(isinstance(block, Foreign | ToolsChanged) for block in message.blocks):
        return True
    if message.role == "assistant":
        return message.text == FILLER_TEXT and not message.calls
    return message.role == "user" and message.text.startswith(("[media of the result", "<system>"))


def _is_harness(message: Message) -> bool:
    """Whether a program wrote this message around the user's words."""
    return any(isinstance(block, Text) and _HARNESS_TEXT.search(block.text) for block in message.blocks)


def _split_calls(turn: PlannedTurn) -> Iterator[PlannedTurn]:
    """Yield turns with one call each. What comes before a call stays with it; the faults come first, the stop reason last."""
    blocks: list[Block] = []
    faults = turn.faults
    for block in turn.blocks:
        if isinstance(block, ToolCall) and any(isinstance(other, ToolCall) for other in blocks):
            yield PlannedTurn(blocks, faults, is_forced=turn.is_forced)
            blocks, faults = [], []
        blocks.append(block)
    yield PlannedTurn(blocks, faults, turn.stop, turn.is_forced)


def play_script(script: Script, request: Request) -> Reply | None:
    """Return the script's reply for this turn, without ids and state, or None after its last one."""
    index = sum(message.role == "assistant" and not _is_filler(message) for message in request.messages)
    if index >= len(script.turns):
        return None
    reply: Any = script.turns[index]
    if callable(reply):
        reply = reply(request)
    if isinstance(reply, str):
        turns, text = parse_directives(reply)
        reply = _make_reply(turns[0].blocks if turns else [Text(text)], turns[0].stop if turns else None)
    if not isinstance(reply, Reply):
        raise _invalid_turn(reply)
    return replace(reply, blocks=tuple(_shape_calls(reply.blocks, request)))


def respond(request: Request, situation: Situation, *, object_arguments: bool = False) -> Reply:
    """Return the model's own reply, without ids and state. `object_arguments`: calls cannot be truncated in the middle."""
    reply = _improvise(request, situation)
    reply = replace(reply, blocks=tuple(_shape_calls(reply.blocks, request)))
    budget = _CHARS_PER_TOKEN * (request.options.max_tokens or 0)
    blocks: list[Block] = []
    for block in reply.blocks if budget else ():
        length = len(block.text) if isinstance(block, Text | Thinking | ToolCall) else 0
        if length > budget:
            if isinstance(block, ToolCall):
                blocks.append(truncate_call(block, budget, object_arguments=object_arguments))
            elif isinstance(block, Text | Thinking):
                blocks.append(replace(block, text=block.text[:budget]))
            return replace(reply, blocks=tuple(blocks), stop="length")
        blocks.append(block)
        budget -= length
    return reply


def truncate_call(call: ToolCall, length: int, *, object_arguments: bool) -> ToolCall:
    """Return the call as truncated by the length limit. If arguments are objects, nothing remains of them."""
    return replace(call, arguments={}, raw="{}") if object_arguments else replace(call, arguments=None, raw=call.text[:length])


def _improvise(request: Request, situation: Situation) -> Reply:
    turn = situation.current_turn
    stop = turn.stop if turn else None
    choice = request.tool_choice or ToolChoice()
    offered = effective_tools(request)
    blocks = list(_shape_calls(turn.blocks, request)) if turn else []
    if turn and turn.is_forced:
        return _make_reply(blocks, stop)
    wanted = [block for block in blocks if isinstance(block, ToolCall)]
    callable_tools = offered.declared if choice.mode != "none" else ()
    allowed = {(tool.name, tool.namespace) for tool in callable_tools if not choice.names or choice.includes(tool)}
    if allowed and any(tool.finds_tools and tool.kind == "hosted" for tool in offered.declared):
        # The provider searches by itself, in the same reply.
        found = [
            tool
            for tool in offered.deferred
            if any((call.name, call.namespace) == (tool.name, tool.namespace) for call in wanted)
        ]
        allowed |= {(tool.name, tool.namespace) for tool in found}
        blocks = [ToolsChanged(loaded=tuple(tool.qualified_name for tool in found)), *blocks] if found else blocks
    blocks = [block for block in blocks if not isinstance(block, ToolCall) or (block.name, block.namespace) in allowed]
    has_calls = any(isinstance(block, ToolCall) for block in blocks)
    if search := None if has_calls else _search_tool(wanted, request, situation):
        return _make_reply([*blocks, search], stop)
    if request.output is not None and not has_calls:  # what is said must be JSON
        blocks = [block for block in blocks if not isinstance(block, Text) or block.text.lstrip().startswith(("{", "["))]
    if any(not isinstance(block, Thinking) for block in blocks) and (choice.mode != "required" or has_calls):
        return _make_reply(blocks, stop)
    if calls := _choose_calls(request, situation):
        return _make_reply([*blocks, *calls], stop)
    results = situation.results
    if request.output is not None:
        text = " ".join([situation.prompt, *(result.text for result in results)])
        filled = Text(dumps_text(ArgumentFiller(text).fill(request.output.schema or {})))
        return _make_reply([*blocks, filled], stop)
    answer = f"You said: {situation.prompt[:_MAX_QUOTE]}"
    if missing := [call.name for call in wanted if choice.mode == "auto" and not choice.names]:
        answer = f"There is no tool {missing[0]!r}."
    if results:
        quotes: list[str] = []
        for result in results:
            quote = truncate(result.text.strip() or "nothing", _MAX_QUOTE - 1)
            name = f"{result.name}: " if result.name else ""
            quotes.append(f"{name}{quote}{'' if quote[-1] in '.!?…' else '.'}")
        answer = "Here is what came back. " + " ".join(quotes)
    sent = [block for message in request.messages for block in message.blocks]
    nested = [part for block in sent if isinstance(block, ToolResult) for part in block.content]
    if images := sum(isinstance(block, Media) and block.kind == "image" for block in [*sent, *nested]):
        answer += f" I see {images} image{'s' * (images != 1)}."
    return _make_reply([*blocks, Text(answer)], stop)


def _make_reply(blocks: Sequence[Block], stop: StopReason | None = None) -> Reply:
    default: StopReason = "tools" if any(isinstance(block, ToolCall) for block in blocks) else "end"
    return Reply(tuple(blocks), stop or default)


def _shape_calls(blocks: Sequence[Block], request: Request) -> Iterator[Block]:
    """Give calls the form of their tools: text for freeform ones, a namespace, an item for native tools of Responses."""
    known = [tool for tools in effective_tools(request) for tool in tools]
    # Encoders write a namespace or a dot in a name as underscores, and may append a hash.
    tools = {_ENCODED.sub("", tool.qualified_name): tool for tool in known} | {tool.name: tool for tool in known}
    for block in blocks:
        tool = None
        if isinstance(block, ToolCall):
            tool = tools.get(block.name) or tools.get(_ENCODED.sub("", block.name))
        if not isinstance(block, ToolCall) or tool is None:
            yield block
            continue
        block = replace(block, name=tool.name)
        if tool.kind == "freeform" and not block.freeform:
            text = (block.arguments or {}).get("input", dumps_text(block.arguments or {}))
            yield replace(block, arguments=None, raw=str(text), freeform=True, namespace=tool.namespace)
        elif tool.wire == spec.OPENAI_RESPONSES and (kind := f"{(tool.opaque or {}).get('type')}_call") in NATIVE_ITEMS:
            item = {"type": kind, NATIVE_ITEMS[kind][1]: block.arguments or {}, "status": "completed"}
            yield replace(block, opaque={"item": item})
        elif tool.wire == spec.OPENAI_RESPONSES and tool.finds_tools:  # `tool_search` that the client runs
            item = {
                "type": "tool_search_call",
                "execution": "client",
                "status": "completed",
                "arguments": block.arguments or {},
            }
            yield replace(block, opaque={"item": item})
        else:
            yield replace(block, namespace=tool.namespace)


# ---- plain prompts: which tools, with which arguments


def _choose_calls(request: Request, situation: Situation) -> list[ToolCall]:
    choice, offered = request.tool_choice, effective_tools(request)
    tools = [tool for tool in offered.declared if tool.kind != "hosted"]
    if choice and choice.names:
        tools = [tool for tool in tools if choice.includes(tool)]
    if not tools or (choice and choice.mode == "none") or situation.turn_index >= _MAX_TURNS:
        return []
    wanted = _guess_calls(situation.prompt, tools)
    if not wanted and (deferred := _guess_calls(situation.prompt, offered.deferred)):
        search = _search_tool(deferred, request, situation)
        return [search] if search else []
    done = [(call.name, call.arguments) for message in situation.messages_since for call in message.calls]
    new = [call for call in wanted if (call.name, call.arguments) not in done]
    if choice and choice.mode == "required" and not new:
        new = wanted or [_make_call(tools[0], ArgumentFiller(situation.prompt))]
    return new[:1] if request.parallel is False else new


def _search_tool(wanted: Sequence[ToolCall], request: Request, situation: Situation) -> ToolCall | None:
    """Return the search for the first wanted tool that is deferred, if the model may search and has not done so."""
    offered, choice = effective_tools(request), request.tool_choice or ToolChoice()
    deferred = {tool.name: tool.qualified_name for tool in offered.deferred}
    declared = {tool.name for tool in offered.declared}
    # Without any deferred tool in the request, a program may still have some that it did not declare.
    names = [
        deferred.get(call.name, call.name) for call in wanted if call.name in deferred or not {*deferred, call.name} & declared
    ]
    names = [name for name in names if name in deferred.values() or not deferred]
    finder = next(filter(_finds_tools, offered.declared), None)
    if not names or finder is None or choice.mode == "none" or (choice.names and not choice.includes(finder)):
        return None
    search = _make_call(finder, ArgumentFiller(f"`{names[0]}`"))
    field = next(iter(as_dict((finder.parameters or {}).get("properties"))), "query")
    query = f"select:{names[0]}" if finder.name == "ToolSearch" else names[0]
    search = replace(search, arguments={**(search.arguments or {}), field: query})
    done = [(call.name, call.arguments) for message in situation.messages_since for call in message.calls]
    return None if (search.name, search.arguments) in done else search


def _guess_calls(prompt: str, tools: Sequence[ToolDefinition]) -> list[ToolCall]:
    """Return the calls that a prompt asks for. A clause that matches no tool belongs to the one before."""
    if not tools:
        return []
    matches: list[tuple[ToolDefinition, str]] = []
    for clause in filter(None, _CLAUSE_BREAK.split(prompt)):
        # Names count three times; one word of a description is not enough.
        words = split_words(clause) - _COMMON_WORDS
        scores = [2 * len(words & split_words(tool.name)) + len(words & _tool_words(tool)) for tool in tools]
        tool = tools[scores.index(max(scores))] if max(scores) > 1 else None
        if tool is None and matches:
            previous, text = matches[-1]
            if _needs_more_values(previous, text):
                matches[-1] = (previous, f"{text} and {clause}")
                continue
            filler = ArgumentFiller(clause, split_words(previous.name))
            if not filler.texts and not filler.numbers:  # about all of them: "in Paris and in Rome, in celsius"
                matches = [(other, f"{text} {clause}") for other, text in matches]
                continue
            tool = previous
        if tool is not None:
            matches.append((tool, clause))
    calls: list[ToolCall] = []
    for tool, clause in matches:
        call = _make_call(tool, ArgumentFiller(clause, _tool_words(tool)))
        if call not in calls:
            calls.append(call)
    return calls


def _tool_words(tool: ToolDefinition) -> frozenset[str]:
    parameters = as_dict((tool.parameters or {}).get("properties"))
    parts = [tool.name, tool.description, *parameters]
    parts += [f"{as_dict(part).get('description', '')} {as_dict(part).get('enum', '')}" for part in parameters.values()]
    return split_words(" ".join(parts)) - _COMMON_WORDS


def _needs_more_values(tool: ToolDefinition, clause: str) -> bool:
    """Whether a tool requires more values than a clause offers."""
    filler, parameters = ArgumentFiller(clause, _tool_words(tool)), tool.parameters or {}
    properties = as_dict(parameters.get("properties"))
    required = [as_dict(properties.get(name)) for name in as_list(parameters.get("required"))]
    numbers = sum(part.get("type") in ("integer", "number") for part in required)
    texts = sum(part.get("type") == "string" and not part.get("enum") for part in required)
    has_list = any(part.get("type") == "array" for part in required)
    return numbers > len(filler.numbers) or texts > len(filler.texts) or has_list


def _make_call(tool: ToolDefinition, filler: ArgumentFiller) -> ToolCall:
    if tool.kind == "freeform":
        return ToolCall("", tool.name, {"input": filler.prompt})
    return ToolCall("", tool.name, filler.fill(tool.parameters or {}))


# ---- what every reply gets


def add_thought(reply: Reply, situation: Situation, *, is_hidden: bool = False) -> Reply:
    """Return the reply with a thought in front; a hidden one has no text."""
    if any(isinstance(block, Thinking) for block in reply.blocks):
        return reply
    names = ", ".join(call.name for call in reply.calls)
    text = f"I should call {names}." if names else "The results are there." if situation.results else "I can answer at once."
    return replace(reply, blocks=(Thinking("" if is_hidden else text), *reply.blocks))


def estimate_usage(reply: Reply, prompt: CacheUse) -> Usage:
    """Return token counts at four characters each."""
    thinking = sum(len(block.text) for block in reply.blocks if isinstance(block, Thinking))
    output = sum(len(block.text) for block in reply.blocks if isinstance(block, Text | Thinking | ToolCall))
    return Usage(
        input=prompt.tokens,
        output=max(1, output // _CHARS_PER_TOKEN),
        cached=prompt.cached,
        cache_write=prompt.written,
        reasoning=thinking // _CHARS_PER_TOKEN,
    )
