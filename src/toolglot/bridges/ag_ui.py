"""AG-UI: streams a run's events to front ends such as CopilotKit, and parses their requests.

The protocol's own package is not needed. Events that it does not define (retries, a change of model,
truncation, tool progress, a message that reached the run, why a run ended early) become CUSTOM events whose
names begin with `toolglot.`.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, assert_never, cast

import msgspec

from toolglot.bridges.event_streams import (
    Event,
    FrontEndRequest,
    describe_answer,
    describe_approval,
    encode_run,
    export_output,
    is_echo,
    is_for_front_end,
    make_decision,
    make_media,
    name_event,
    read_body,
    read_items,
    read_text,
    read_tools,
    result_media,
    split_prompt,
)
from toolglot.bridges.messages import restore_original, store_original
from toolglot.common.jsontext import dumps_text, loads
from toolglot.common.sanitize import escape_line
from toolglot.common.textutil import truncate
from toolglot.errors import STOP_REASONS, MalformedRequest
from toolglot.loop.format_call import describe_inner_event
from toolglot.values.approvals import Answer, Suspended
from toolglot.values.definitions import Schema
from toolglot.values.events import (
    AnswerNeeded,
    ApprovalNeeded,
    BlockEvent,
    BlockReady,
    BlockStarted,
    Delivered,
    InnerEvent,
    Notice,
    ReplyDone,
    ReplyStarted,
    RunDone,
    RunEvent,
    RunResult,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolOutcome,
    ToolProgress,
    ToolStarted,
)
from toolglot.values.losses import Loss
from toolglot.values.messages import (
    Block,
    Foreign,
    Media,
    Message,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)

__all__ = ["AgUiEncoder", "encode_events", "read_request"]

_PROTOCOL_VERSION = "1.0"
_LATER_REASONING = "toolglot_reasoning"
_MAX_HEADING = 300  # characters; the metadata has all of it


def encode_events(
    events: AsyncGenerator[RunEvent], request: FrontEndRequest, *, stateless: bool = False
) -> AsyncGenerator[bytes]:
    """Return a run as AG-UI server-sent events: `encode_events(agent.stream(request.prompt), request)`.

    `stateless`: the server keeps no conversation, so the client stores what a model needs back with its
    replies (signatures, encrypted reasoning).
    """
    return encode_run(AgUiEncoder(request, stateless=stateless), events)


class AgUiEncoder:
    """Converts one run's events to AG-UI events, as dicts."""

    def __init__(self, request: FrontEndRequest, *, stateless: bool = False) -> None:
        self._is_stateless = stateless
        self._answers = request.answers
        self._ids = {"threadId": request.chat_id, "runId": request.run_id}
        self._run_id = request.run_id
        self._replies = 0
        self._message_id = ""  # of the current reply
        self._open: dict[int, str] = {}  # open text and reasoning messages, by block index
        self._has_text = False
        self._without_arguments: set[int] = set()  # calls that have started
        self._usage: dict[tuple[str, str], Event] = {}

    def start(self) -> list[Event]:
        """Return the first events of a run."""
        return [{"type": "RUN_STARTED", **self._ids, "protocolVersion": _PROTOCOL_VERSION}]

    def fail(self, message: str, code: str) -> list[Event]:
        """Return the last events of a failed run."""
        return [{"type": "RUN_ERROR", "message": message, "code": code, "usage": [*self._usage.values()]}]

    def encode(self, event: RunEvent) -> list[Event]:
        """Convert a run's event to any number of protocol events."""
        if isinstance(event, BlockEvent):
            return self._encode_block(event)
        match event:
            case ReplyStarted():
                self._replies += 1
                self._message_id, self._open, self._has_text = f"{self._run_id}-{self._replies}", {}, False
                return []
            case ReplyDone():
                return self._finish_reply(event)
            case ToolFinished(outcome):
                return self._encode_outcome(outcome)
            case ToolProgress(call, text):
                return [_custom("tool_progress", {"toolCallId": call.id, "text": text})]
            case Delivered(id, _, message):
                return [_custom("delivered", {"id": id, "text": message.text})]
            case InnerEvent():
                progress = {
                    "toolCallId": event.path[0],
                    "path": list(event.path),
                    "text": describe_inner_event(event),
                }
                return [_custom("subagent_progress", progress)] if progress["text"] else []
            case RunDone(result):
                return self._finish_run(result)
            case Notice():
                return [_custom(name_event(event, "_"), msgspec.to_builtins(event))]
            case AnswerNeeded(calls):
                return _encode_needed(calls)
            case ToolStarted() | ApprovalNeeded():
                # a call is shown when it is made; what needs a decision is in the result
                return []
            case _:
                assert_never(event)

    # ---- replies

    def _encode_block(self, event: BlockEvent) -> list[Event]:
        match event:
            case BlockStarted(index, block):
                return self._open_block(index, block)
            case TextDelta(index, text):
                opened = [] if index in self._open else self._open_block(index, Text(""))
                return [
                    *opened,
                    {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._open[index], "delta": text},
                ]
            case ThinkingDelta(index, text):
                opened = [] if index in self._open else self._open_block(index, Thinking(""))
                return [
                    *opened,
                    {"type": "REASONING_MESSAGE_CONTENT", "messageId": self._open[index], "delta": text},
                ]
            case BlockReady(index, block):
                return self._close_block(index, block)
            case ToolCallStarted() | ToolCallDelta() | ToolCallReady():
                return self._encode_call(event)
            case _:
                assert_never(event)

    def _open_block(self, index: int, block: Text | Thinking) -> list[Event]:
        if isinstance(block, Thinking):
            id = self._open[index] = f"{self._message_id}-{index}"
            start = {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
            return [{"type": "REASONING_START", "messageId": id}, start]
        # The first text has the same id as the message that calls belong to.
        id = self._open[index] = f"{self._message_id}-{index}" if self._has_text else self._message_id
        self._has_text = True
        return [{"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}]

    def _close_block(self, index: int, block: Block) -> list[Event]:
        if isinstance(block, Text | Thinking):
            id = self._open.pop(index, None)
            if id is None:  # it was not streamed
                if not block.text:
                    return []
                delta = (
                    TextDelta(index, block.text)
                    if isinstance(block, Text)
                    else ThinkingDelta(index, block.text)
                )
                return [*self.encode(delta), *self._close_block(index, block)]
            if isinstance(block, Text):
                return [{"type": "TEXT_MESSAGE_END", "messageId": id}]
            return [
                {"type": "REASONING_MESSAGE_END", "messageId": id},
                {"type": "REASONING_END", "messageId": id},
            ]
        if isinstance(block, Media):
            return [_custom("media", _convert_media(block))]
        return (
            [{"type": "RAW", "event": block.item, "source": block.wire}] if isinstance(block, Foreign) else []
        )

    def _encode_call(self, event: ToolCallStarted | ToolCallDelta | ToolCallReady) -> list[Event]:
        match event:
            case ToolCallStarted(index, id, name):
                self._open[index] = id
                self._without_arguments.add(index)
                names = {"toolCallId": id, "toolCallName": name, "parentMessageId": self._message_id}
                return [{"type": "TOOL_CALL_START", **names}]
            case ToolCallDelta(index, text):
                self._without_arguments.discard(index)
                return [{"type": "TOOL_CALL_ARGS", "toolCallId": self._open[index], "delta": text}]
            case ToolCallReady(index, call):
                end: Event = {"type": "TOOL_CALL_END", "toolCallId": call.id}
                if index not in self._without_arguments:
                    return [end]
                # Gemini and Ollama send calls in one piece.
                self._without_arguments.discard(index)
                return [{"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": call.text}, end]

    def _finish_reply(self, event: ReplyDone) -> list[Event]:
        reply, usage = event.reply, event.reply.usage
        origin = (reply.origin.profile, reply.origin.model) if reply.origin is not None else ("", "")
        counts = {
            "inputTokens": usage.input,
            "outputTokens": usage.output,
            "totalTokens": usage.input + usage.output,
            "reasoningTokens": usage.reasoning,
            "cachedInputTokens": usage.cached,
            "cacheWriteInputTokens": usage.cache_write,
        }
        total = self._usage.setdefault(
            origin, {"provider": origin[0], "model": origin[1], **dict.fromkeys(counts, 0)}
        )
        total |= {name: total[name] + count for name, count in counts.items()}
        has_message = self._has_text or bool(reply.calls)
        stored = store_original(reply.message) if self._is_stateless and has_message else None
        if stored is None:
            return []
        value = {"subtype": "message", "entityId": self._message_id, "encryptedValue": dumps_text(stored)}
        return [{"type": "REASONING_ENCRYPTED_VALUE", **value}]

    # ---- calls and the end

    def _encode_outcome(self, outcome: ToolOutcome) -> list[Event]:
        call, result = outcome.call, outcome.result
        if call.caller:  # the client knows only the call that ran the code
            value = {
                "toolCallId": call.caller,
                "name": call.name,
                "arguments": call.arguments,
                "result": result.text,
            }
            return [_custom("inner_call", value)]
        if call.id in self._answers and is_echo(self._answers[call.id], result):
            return []  # the client has it, as its own message
        content: Any = result.text
        media = [_convert_media(block) for block in result_media(result)]
        if media:
            text = [{"type": "text", "text": result.text}] if result.text else []
            content = [*text, *media]
        ids = {"messageId": f"{self._run_id}-{call.id}", "toolCallId": call.id, "role": "tool"}
        encoded: Event = {"type": "TOOL_CALL_RESULT", **ids, "content": content}
        if result.is_error:
            encoded["metadata"] = {"toolglot": {"error": result.error_kind or "execution"}}
        return [encoded]

    def _finish_run(self, result: RunResult) -> list[Event]:
        message = STOP_REASONS.get(result.stop)
        if result.stop in ("error", "timeout"):
            return self.fail(message or result.stop, result.stop)
        events = [_custom("stopped_early", {"stop": result.stop, "message": message})] if message else []
        outcome: Event = {"type": "success"}
        # A client cannot continue before it has resolved all interrupts. What its own tools return comes as
        # messages, so calls of these are none.
        if interrupts := [_make_interrupt(item) for item in result.pending if item.kind != "external"]:
            outcome = {"type": "interrupt", "interrupts": interrupts}
        elif result.stop == "interrupted":
            outcome = {"type": "cancelled"}
        finished: Event = {
            "type": "RUN_FINISHED",
            **self._ids,
            "outcome": outcome,
            "usage": [*self._usage.values()],
        }
        if result.output is not None:
            finished["result"] = export_output(result.output)
        return [*events, finished]


def _encode_needed(calls: Sequence[Suspended]) -> list[Event]:
    """Return the event that tells the front end which of its tools it has to run now."""
    needed = [describe_answer(call) for call in calls if is_for_front_end(call)]
    return [_custom("answer_needed", {"calls": needed})] if needed else []


def _make_interrupt(suspended: Suspended) -> Event:
    request = suspended.request
    heading = escape_line(f"Allow {request.tool}? {request.reason}".rstrip())
    return {
        "id": request.fingerprint,
        "reason": "tool_call" if request.form is None else "input_required",
        "message": truncate(heading, _MAX_HEADING),
        "toolCallId": suspended.path[0],  # the client does not know calls made by code or by a sub-agent
        "responseSchema": _decision_schema(request.form),
        "metadata": {"toolglot": describe_approval(request)},
    }


def _custom(name: str, value: Any) -> Event:
    return {"type": "CUSTOM", "name": f"toolglot.{name}", "value": value}


def _decision_schema(form: Schema | None) -> Schema:
    """Return the schema of an answer. `form`: the schema of an MCP server's form."""
    properties = {
        "approved": {"type": "boolean"},
        "editedArgs": form or {"type": "object", "description": "Arguments to use instead of the model's."},
        "reason": {"type": "string", "description": "Reason for the model, if the call is not approved."},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["approved"] if form is None else ["approved", "editedArgs"],
    }


def _convert_media(media: Media) -> Event:
    kind = "document" if media.kind == "file" else media.kind
    if media.file_id is not None:
        source: Event = {"type": "file", "value": media.file_id}
    elif media.url is not None:
        source = {"type": "url", "value": media.url}
    else:
        source = {
            "type": "data",
            "value": media.data or "",
            "mimeType": media.media_type or "application/octet-stream",
        }
    return {"type": kind, "source": source}


# ---- requests


def read_request(body: Any) -> FrontEndRequest:
    """Parse a `RunAgentInput`: bytes, text, a dict, or an object from the protocol's package.

    Raises MalformedRequest.
    """
    fields = read_body(body)
    losses, answers = list[Loss](), dict[str, Answer]()
    tools = read_tools(read_items(fields.get("tools"), "tools"), losses, _find_parameters)
    messages = _read_messages(read_items(fields.get("messages"), "messages"), losses, answers)
    if items := read_items(fields.get("context"), "context"):
        texts = [f"{item.get('description', '')}: {item.get('value', '')}" for item in items]
        messages.insert(0, system("\n".join(["Context from the application:", *texts])))
    history, prompt = split_prompt(messages)
    known = {"threadId", "runId", "messages", "tools", "state", "resume", "protocolVersion"}
    return FrontEndRequest(
        chat_id=read_text(fields, "threadId"),
        run_id=read_text(fields, "runId"),
        history=history,
        prompt=prompt,
        decisions=dict(_read_resume(item) for item in read_items(fields.get("resume"), "resume")),
        tools=tools,
        answers=answers,
        state=fields.get("state"),
        extras={name: value for name, value in fields.items() if name not in known},
        losses=tuple(losses),
    )


def _find_parameters(tool: Event) -> Any:
    return tool.get("parameters")


def _read_resume(item: Event) -> tuple[str, Any]:
    payload = item.get("payload")
    answer = cast(Event, payload) if isinstance(payload, dict) else {"approved": payload}
    is_resolved = item.get("status") == "resolved"
    decision = make_decision(
        is_resolved and answer.get("approved"), answer.get("editedArgs"), answer.get("reason")
    )
    return read_text(item, "interruptId"), decision


def _read_messages(items: list[Event], losses: list[Loss], answers: dict[str, Answer]) -> list[Message]:
    """Return a client's messages. `answers` gets the results after the last reply, by call id."""
    messages: list[Message] = []
    thinking: list[Block] = []  # belongs to the reply that follows
    names: dict[str, str] = {}  # tool names, by call id
    for number, item in enumerate(_join_replies(items)):
        content, where = item.get("content"), f"messages[{number}]"
        match item.get("role"):
            case "system" | "developer":
                messages.append(system(read_text(item, "content")))
            case "user":
                if thinking:  # its run failed before the reply
                    losses.append(Loss("reasoning", where, "no reply follows it"))
                    thinking = []
                messages.append(user(_read_content(content, where, losses)))
            case "reasoning":
                thinking.append(Thinking(read_text(item, "content")))
            case "assistant":
                answers.clear()
                text = read_text(item, "content")
                if later := read_text(item, _LATER_REASONING):
                    thinking.append(Thinking(later))
                calls = [_read_call(call) for call in read_items(item.get("toolCalls"), "toolCalls")]
                names |= {call.id: call.name for call in calls}
                texts = [Text(text)] if text else []
                reply = assistant([*thinking, *texts, *calls])
                thinking = []
                if stored := read_text(item, "encryptedValue"):
                    reply = restore_original(_read_stored(stored), reply)
                messages.append(reply)
            case "tool":
                error, id = read_text(item, "error"), read_text(item, "toolCallId")
                blocks: tuple[ResultBlock, ...] = (
                    (Text(error),) if error else _read_content(content, where, losses)
                )
                result = ToolResult(id, blocks, names.get(id, ""), is_error=bool(error))
                answers[id] = _read_answer(blocks, error)
                earlier = messages.pop().results if messages and messages[-1].role == "tool" else ()
                messages.append(tool_results(*earlier, result))
            case role:
                losses.append(
                    Loss(f"message with role {role!r:.40}", where, "only the front end understands it")
                )
    return messages


def _read_answer(blocks: tuple[ResultBlock, ...], error: str) -> Answer:
    if error:
        return Answer(error=error)
    if len(blocks) == 1 and isinstance(blocks[0], Text):
        return Answer(blocks[0].text)
    return Answer(tuple(blocks))


def _join_replies(items: list[Event]) -> list[Event]:
    """Merge each reply into one message: `AgUiEncoder` sends everything after the first text as separate
    messages.
    """
    joined: list[Event] = []
    replies: dict[str, Event] = {}  # of the current run, by id
    for item in items:
        role, id = item.get("role"), read_text(item, "id")
        reply = replies.get(id.rpartition("-")[0])
        if role == "assistant" and reply is not None:
            reply["content"] = read_text(reply, "content") + read_text(item, "content")
            reply["toolCalls"] = [
                call for part in (reply, item) for call in read_items(part.get("toolCalls"), "toolCalls")
            ]
        elif role == "reasoning" and reply is not None:
            reply[_LATER_REASONING] = read_text(reply, _LATER_REASONING) + read_text(item, "content")
        else:
            if role == "assistant":
                # a client's own data under this name is ignored
                item = replies[id] = {**item, _LATER_REASONING: ""}
            elif role == "user":
                replies = {}
            joined.append(item)
    return joined


def _read_stored(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:  # not written by toolglot
        return None


def _read_call(item: Event) -> ToolCall:
    function: Any = item.get("function")
    if not isinstance(function, dict):
        raise MalformedRequest("a tool call must have a function")
    fields = cast(Event, function)
    raw = read_text(fields, "arguments")
    try:
        arguments = loads(raw or "{}")
    except ValueError:
        arguments = None
    id, name = read_text(item, "id"), read_text(fields, "name")
    if isinstance(arguments, dict):
        return ToolCall(id, name, cast(Event, arguments))
    return ToolCall(id, name, None, raw=raw)


def _read_content(content: Any, where: str, losses: list[Loss]) -> tuple[Text | Media, ...]:
    if isinstance(content, str):
        return (Text(content),)
    blocks: list[Text | Media] = []
    for part in read_items(content, f"content of {where}"):
        source: Any = part.get("source")
        match part.get("type"), source:
            case "text", _:
                blocks.append(Text(read_text(part, "text")))
            case "image" | "audio" | "video" | "document", {
                "type": "data",
                "value": str(data),
                "mimeType": str(media_type),
            }:
                blocks.append(make_media(media_type, data=data, family=str(part["type"])))
            case "image" | "audio" | "video" | "document" as kind, {"type": "url", "value": str(url)}:
                blocks.append(make_media(source.get("mimeType") or "", url=url, family=kind))
            case kind, {"type": "file"}:  # it could be someone else's
                losses.append(
                    Loss(f"{kind!r:.40}", where, "a front end may not refer to the provider's files")
                )
            case kind, _:
                raise MalformedRequest(f"{where} has a part of type {kind!r:.40} that cannot be read")
    return tuple(blocks)
