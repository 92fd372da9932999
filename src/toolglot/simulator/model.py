"""A small deterministic model: a Request in, a Reply out.

It follows a script first, then directives, then the prompt.

A plain prompt is split into clauses; each goes to the tool with which it shares the most words ("in Paris and
in Rome": two calls). After the results, the model answers with a sentence that quotes each of them. A call
that has a result is not repeated, unless `tool_choice` requires a call, and even then not forever. Without a
matching tool, it answers with text, or with JSON if there is an output schema. It calls only tools that are
offered, and searches for a deferred tool first.

Prompts and directives obey `tool_choice`, `parallel`, `max_tokens` and the output schema, as a real model
would. A script is played as written: that is how to test what happens when a model disobeys.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from toolglot.common.jsontext import dumps_text
from toolglot.common.textutil import pluralize, truncate
from toolglot.common.value_checks import as_items
from toolglot.errors import UsageError
from toolglot.simulator.argument_filler import ArgumentFiller, split_words
from toolglot.simulator.directives import PlannedTurn, parse_directives
from toolglot.simulator.prompt_cache import CacheUse
from toolglot.values.messages import (
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
from toolglot.values.request import Request, Schema, ToolChoice, ToolDefinition, effective_tools
from toolglot.wire import spec
from toolglot.wire.ids import name_suffix
from toolglot.wire.json_values import as_dict, as_list
from toolglot.wire.openai_responses.reply_decode import NATIVE_ITEMS
from toolglot.wire.repair import FILLER_TEXT
from toolglot.wire.request_decoding import is_search_name

__all__ = ["Script", "Situation", "add_thought", "estimate_usage", "play_script", "respond", "truncate_call"]

_MAX_QUOTE = 400  # characters of a result in the answer
_CHARS_PER_TOKEN = 4
_COMMON_WORDS = split_words(
    "a an the is are of for in on at to and or with by from it its this that be get give please what me all "
    "any as"
)
_MAX_TURNS = 50  # with calls, since the user's message: what goes on longer is a runaway conversation
# What programs put into the user's messages; it is no prompt.
_HARNESS_TEXT = re.compile(
    r"<(system-reminder|environment_context|session_context|user_instructions)>.*?</\1>", re.DOTALL
)
_ENCODED = re.compile(r"_[0-9a-f]{6}$|\W|_")
_CLAUSE_BREAK = re.compile(
    r"\s*(?:,\s*(?:and|then)?|;|\band\b|\bthen\b|[?!.](?=\s|$)|\n)\s+|[?!.]+$", re.IGNORECASE
)


class Script(msgspec.Struct, frozen=True):
    """What the simulated model says, turn by turn, as written: `Simulator(Script(["say hi",
    Reply((Text("bye"),))]))`.

    A turn is a text with directives (`call NAME {json}`, `say TEXT`, ...), a Reply, or a function from
    Request to one of these. Turn n (from 0) answers a history with n assistant turns, so a script serves any
    number of conversations. After the last turn, the model follows the prompt again. Ids and state missing
    from a Reply are added.
    """

    turns: "Sequence[Reply | str | Callable[[Request], Reply | str]]"
    """The turns, in order."""

    def __post_init__(self) -> None:
        if not isinstance(self.turns, list):  # which may grow while it is played
            force_setattr(self, "turns", tuple(as_items(self.turns)))
        for turn in self.turns:
            if not isinstance(turn, Reply | str) and not callable(turn):
                raise _invalid_turn(turn)


def _invalid_turn(turn: Any) -> UsageError:
    return UsageError(
        "a turn of a script is text, a Reply, or a function that returns one of them, not "
        f"{type(turn).__name__}"
    )


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
        """Analyze a history."""
        messages = [message for message in request.messages if not _is_filler(message)]
        situation = cls._find_prompt(messages)
        if request.parallel is False:
            situation.planned_turns = [
                part for turn in situation.planned_turns for part in _split_calls(turn)
            ]
        situation.finders = {tool.name for tool in effective_tools(request).declared if _finds_tools(tool)}
        return situation

    @classmethod
    def _find_prompt(cls, messages: list[Message]) -> "Situation":
        """Find the user's last message.

        Text right after results is assumed to be added by programs, unless it has directives.
        """
        situation = cls("", "", [], messages)
        for index in reversed(range(len(messages))):
            message = messages[index]
            if message.role != "user":
                continue
            # A directive ends with its block.
            text = "\n".join(
                _HARNESS_TEXT.sub("", block.text) for block in message.blocks if isinstance(block, Text)
            )
            planned, prompt = parse_directives(text)
            situation = cls(text, prompt, planned, messages[index + 1 :])
            follows_results = index > 0 and messages[index - 1].role == "tool"
            is_only_harness = not prompt and _is_harness(message)
            if planned or not (follows_results or is_only_harness):
                break
        return situation

    @property
    def turn_index(self) -> int:
        """The number of assistant turns since the user's message, not counting unplanned searches for tools."""
        index = 0
        for message in self.messages_since:
            if message.role != "assistant":
                continue
            planned = _list_calls(self.planned_turns[index].blocks) if index < len(self.planned_turns) else []
            planned_names = {call.name for call in planned}
            names = {call.name for call in message.calls}
            is_search = bool(names) and names <= self.finders
            is_planned = bool(names & planned_names)
            if is_planned or not is_search:
                index += 1
        return index

    @property
    def current_turn(self) -> PlannedTurn | None:
        """The directives for this turn, if any."""
        return self.planned_turns[self.turn_index] if self.turn_index < len(self.planned_turns) else None

    def has_called(self, call: ToolCall) -> bool:
        """Whether the same call was made since the user's message."""
        calls = [(other.name, other.arguments) for message in self.messages_since for other in message.calls]
        return (call.name, call.arguments) in calls

    @property
    def results(self) -> list[ToolResult]:
        """The results since the user's message, with the names of their tools."""
        names: dict[str, str] = {}
        results: list[ToolResult] = []
        for message in self.messages_since:
            for call in message.calls:
                names[call.id] = call.name
            results += message.results
        return [replace(result, name=result.name or names.get(result.call_id, "")) for result in results]


def _finds_tools(tool: ToolDefinition) -> bool:
    """Whether a tool of the client finds others. On most wires it is a function like any other."""
    return tool.kind != "hosted" and (tool.finds_tools or is_search_name(tool.name))


def _is_filler(message: Message) -> bool:
    """Whether no one wrote the message: media of results, late instructions, text between two turns, a
    compacted history.
    """
    if message.blocks and all(isinstance(block, Foreign | ToolsChanged) for block in message.blocks):
        return True
    if message.role == "assistant":
        return message.text == FILLER_TEXT and not message.calls
    return message.role == "user" and message.text.startswith(("[media of the result", "<system>"))


def _is_harness(message: Message) -> bool:
    """Whether a program wrote this message around the user's words."""
    return any(isinstance(block, Text) and _HARNESS_TEXT.search(block.text) for block in message.blocks)


def _split_calls(turn: PlannedTurn) -> Iterator[PlannedTurn]:
    """Yield turns with one call each.

    What comes before a call stays with it; the faults come first, the stop reason last.
    """
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
        turn = turns[0] if turns else PlannedTurn([Text(text)], [])
        reply = _make_reply(turn.blocks, turn.stop)
    if not isinstance(reply, Reply):
        raise _invalid_turn(reply)
    return replace(reply, blocks=tuple(_shape_calls(reply.blocks, request)))


def respond(request: Request, situation: Situation, *, object_arguments: bool = False) -> Reply:
    """Return the model's own reply, without ids and state.

    `object_arguments`: calls cannot be truncated in the middle.
    """
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
    return (
        replace(call, arguments={}, raw="{}")
        if object_arguments
        else replace(call, arguments=None, raw=call.text[:length])
    )


def _improvise(request: Request, situation: Situation) -> Reply:
    turn = situation.current_turn or PlannedTurn()
    stop, planned = turn.stop, list(_shape_calls(turn.blocks, request))
    if turn.is_forced:
        return _make_reply(planned, stop)
    blocks = _drop_refused_calls(_load_found_tools(planned, request), request)
    if _list_calls(blocks):
        return _make_reply(blocks, stop)
    planned_calls = _list_calls(planned)
    if search := _search_tool(planned_calls, request, situation):
        return _make_reply([*blocks, search], stop)
    if request.output is not None:
        blocks = [block for block in blocks if _may_be_output(block)]
    has_answer = any(not isinstance(block, Thinking) for block in blocks)
    if has_answer and not _must_call(request):
        return _make_reply(blocks, stop)
    if calls := _choose_calls(request, situation):
        return _make_reply([*blocks, *calls], stop)
    if request.output is not None:
        return _make_reply([*blocks, _fill_output(request.output.schema or {}, situation)], stop)
    return _make_reply([*blocks, Text(_write_answer(request, situation, planned_calls))], stop)


def _must_call(request: Request) -> bool:
    """Whether the request requires a call."""
    return request.tool_choice is not None and request.tool_choice.mode == "required"


def _list_calls(blocks: Sequence[Block]) -> list[ToolCall]:
    return [block for block in blocks if isinstance(block, ToolCall)]


def _load_found_tools(blocks: list[Block], request: Request) -> list[Block]:
    """Let the provider's own search, if there is one, find the tools that are called: in the same reply."""
    offered = effective_tools(request)
    has_search = any(_is_hosted_search(tool) for tool in offered.declared)
    if not has_search or not _list_callable(request):
        return blocks
    calls = {(call.name, call.namespace) for call in _list_calls(blocks)}
    loaded = [tool.qualified_name for tool in offered.deferred if (tool.name, tool.namespace) in calls]
    return [ToolsChanged(loaded=tuple(loaded)), *blocks] if loaded else blocks


def _is_hosted_search(tool: ToolDefinition) -> bool:
    """Whether the provider runs the tool, and it finds others."""
    return tool.finds_tools and tool.kind == "hosted"


def _drop_refused_calls(blocks: list[Block], request: Request) -> list[Block]:
    """Drop the calls of tools that are not offered, or that the choice excludes."""
    tools = _list_callable(request)
    if blocks and isinstance(blocks[0], ToolsChanged):
        loaded = blocks[0].loaded
        tools += [tool for tool in effective_tools(request).deferred if tool.qualified_name in loaded]
    allowed = {(tool.name, tool.namespace) for tool in tools}
    kept: list[Block] = []
    for block in blocks:
        if not isinstance(block, ToolCall) or (block.name, block.namespace) in allowed:
            kept.append(block)
    return kept


def _list_callable(request: Request) -> list[ToolDefinition]:
    """Return the declared tools that the choice allows."""
    choice = request.tool_choice or ToolChoice()
    if choice.mode == "none":
        return []
    declared = effective_tools(request).declared
    return [tool for tool in declared if not choice.names or choice.includes(tool)]


def _may_be_output(block: Block) -> bool:
    """Whether a block may stand in a structured answer, where all that is said must be JSON."""
    return not isinstance(block, Text) or block.text.lstrip().startswith(("{", "["))


def _fill_output(schema: Schema, situation: Situation) -> Text:
    text = " ".join([situation.prompt, *(result.text for result in situation.results)])
    return Text(dumps_text(ArgumentFiller(text).fill(schema)))


def _write_answer(request: Request, situation: Situation, planned_calls: Sequence[ToolCall]) -> str:
    """Return a sentence about the results, the missing tool or the prompt."""
    choice = request.tool_choice or ToolChoice()
    if situation.results:
        answer = "Here is what came back. " + " ".join(map(_quote_result, situation.results))
    elif planned_calls and choice.mode == "auto" and not choice.names:
        answer = f"There is no tool {planned_calls[0].name!r}."
    else:
        answer = f"You said: {situation.prompt[:_MAX_QUOTE]}"
    if images := _count_images(request):
        answer += f" I see {pluralize(images, 'image')}."
    return answer


def _quote_result(result: ToolResult) -> str:
    quote = truncate(result.text.strip() or "nothing", _MAX_QUOTE - 1)
    if quote[-1] not in ".!?…":
        quote += "."
    return f"{result.name}: {quote}" if result.name else quote


def _count_images(request: Request) -> int:
    blocks = [block for message in request.messages for block in message.blocks]
    for block in tuple(blocks):
        if isinstance(block, ToolResult):
            blocks += block.content
    return sum(isinstance(block, Media) and block.kind == "image" for block in blocks)


def _make_reply(blocks: Sequence[Block], stop: StopReason | None = None) -> Reply:
    default: StopReason = "tools" if _list_calls(blocks) else "end"
    return Reply(tuple(blocks), stop or default)


def _find_tool(name: str, known: Sequence[ToolDefinition]) -> ToolDefinition | None:
    """Return the tool that a directive names, as the request or as the program calls it; of several, the last
    one.

    Encoders write a namespace or a dot in a name as underscores, and append a hash of the name if it was
    illegal or too long.
    """
    suffixes = (name_suffix(name), name_suffix(name.replace(".", "__", 1)))
    loose = _ENCODED.sub("", name)
    tests: tuple[Callable[[ToolDefinition], bool], ...] = (
        lambda tool: tool.name == name,
        lambda tool: tool.name.endswith(suffixes),
        lambda tool: _ENCODED.sub("", tool.qualified_name) == loose,
    )
    for is_meant in tests:
        for tool in reversed(known):
            if is_meant(tool):
                return tool
    return None


def _shape_calls(blocks: Sequence[Block], request: Request) -> Iterator[Block]:
    """Give calls the form of their tools."""
    known = [tool for tools in effective_tools(request) for tool in tools]
    for block in blocks:
        if not isinstance(block, ToolCall):
            yield block
            continue
        tool = _find_tool(block.name, known)
        yield block if tool is None else _shape_call(replace(block, name=tool.name), tool)


def _shape_call(call: ToolCall, tool: ToolDefinition) -> ToolCall:
    """Give a call the form of its tool: text if it is freeform, a namespace, an item if it is a native tool
    of Responses.
    """
    arguments = call.arguments or {}
    if tool.kind == "freeform" and not call.freeform:
        text = str(arguments.get("input", dumps_text(arguments)))
        return replace(call, arguments=None, raw=text, freeform=True, namespace=tool.namespace)
    if tool.wire != spec.OPENAI_RESPONSES:
        return replace(call, namespace=tool.namespace)
    kind = f"{(tool.opaque or {}).get('type')}_call"
    if kind in NATIVE_ITEMS:
        item = {"type": kind, NATIVE_ITEMS[kind][1]: arguments, "status": "completed"}
        return replace(call, opaque={"item": item})
    if tool.finds_tools:  # `tool_search` that the client runs
        item = {
            "type": "tool_search_call",
            "execution": "client",
            "status": "completed",
            "arguments": arguments,
        }
        return replace(call, opaque={"item": item})
    return replace(call, namespace=tool.namespace)


# ---- plain prompts: which tools, with which arguments


def _choose_calls(request: Request, situation: Situation) -> list[ToolCall]:
    if situation.turn_index >= _MAX_TURNS:
        return []
    tools = [tool for tool in _list_callable(request) if tool.kind != "hosted"]
    if not tools:
        return []
    wanted = _guess_calls(situation.prompt, tools)
    if not wanted:
        wanted_later = _guess_calls(situation.prompt, effective_tools(request).deferred)
        if wanted_later:
            search = _search_tool(wanted_later, request, situation)
            return [] if search is None else [search]
    calls = [call for call in wanted if not situation.has_called(call)]
    if not calls and _must_call(request):
        calls = wanted
        if not calls:
            calls = [_make_call(tools[0], ArgumentFiller(situation.prompt))]
    if request.parallel is False:
        return calls[:1]
    return calls


def _search_tool(wanted: Sequence[ToolCall], request: Request, situation: Situation) -> ToolCall | None:
    """Return the search for the first wanted tool that is deferred, if the model may search and has not done
    so.
    """
    finder = next(filter(_finds_tools, _list_callable(request)), None)
    name = _find_deferred_name(wanted, request)
    if finder is None or name is None:
        return None
    search = _make_call(finder, ArgumentFiller(f"`{name}`"))
    properties = as_dict((finder.parameters or {}).get("properties"))
    field = next(iter(properties), "query")
    query = f"select:{name}" if finder.name == "ToolSearch" else name
    search = replace(search, arguments={**(search.arguments or {}), field: query})
    return None if situation.has_called(search) else search


def _find_deferred_name(wanted: Sequence[ToolCall], request: Request) -> str | None:
    """Return the name of the first wanted tool that has to be found."""
    offered = effective_tools(request)
    deferred = {tool.name: tool.qualified_name for tool in offered.deferred}
    declared = {tool.name for tool in offered.declared}
    for call in wanted:
        if call.name in deferred:
            return deferred[call.name]
        # Without any deferred tool in the request, a program may still have some that it did not declare.
        if not deferred and call.name not in declared:
            return call.name
    return None


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
            # about all of them: "in Paris and in Rome, in celsius"
            if not filler.texts and not filler.numbers:
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
    parts += [
        f"{as_dict(part).get('description', '')} {as_dict(part).get('enum', '')}"
        for part in parameters.values()
    ]
    return split_words(" ".join(parts)) - _COMMON_WORDS


def _needs_more_values(tool: ToolDefinition, clause: str) -> bool:
    """Whether a tool requires more values than a clause offers."""
    filler = ArgumentFiller(clause, _tool_words(tool))
    parameters = tool.parameters or {}
    properties = as_dict(parameters.get("properties"))
    numbers = 0
    texts = 0
    for name in as_list(parameters.get("required")):
        part = as_dict(properties.get(name))
        match part.get("type"):
            case "array":
                return True
            case "integer" | "number":
                numbers += 1
            case "string" if not part.get("enum"):
                texts += 1
            case _:
                pass
    return numbers > len(filler.numbers) or texts > len(filler.texts)


def _make_call(tool: ToolDefinition, filler: ArgumentFiller) -> ToolCall:
    if tool.kind == "freeform":
        return ToolCall("", tool.name, {"input": filler.prompt})
    return ToolCall("", tool.name, filler.fill(tool.parameters or {}))


# ---- what every reply gets


def add_thought(reply: Reply, situation: Situation, *, is_hidden: bool = False) -> Reply:
    """Return the reply with a thought in front; a hidden one has no text."""
    if any(isinstance(block, Thinking) for block in reply.blocks):
        return reply
    text = "I can answer at once."
    if reply.calls:
        text = f"I should call {', '.join(call.name for call in reply.calls)}."
    elif situation.results:
        text = "The results are there."
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
