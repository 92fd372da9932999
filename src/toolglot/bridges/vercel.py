"""The Vercel AI SDK's UI message stream (`useChat`), version 1: encodes runs and parses requests.

Events that the protocol does not define (retries, a change of model, truncation, tool progress, a message
that reached the run, why a run ended early) become data parts whose types begin with `data-toolglot-`.
"""

from collections.abc import AsyncGenerator
from typing import Any, assert_never, cast

import msgspec
from msgspec.structs import replace

from toolglot.bridges.event_streams import (
    Event,
    FrontEndRequest,
    describe_approval,
    encode_run,
    export_output,
    is_for_front_end,
    make_decision,
    make_media,
    media_url,
    name_event,
    read_body,
    read_items,
    read_text,
    read_tools,
    result_media,
    split_prompt,
)
from toolglot.bridges.messages import restore_original, store_original
from toolglot.common.jsontext import dumps_text
from toolglot.common.sanitize import escape_line
from toolglot.errors import STOP_REASONS, MalformedRequest
from toolglot.loop.format_call import describe_inner_event
from toolglot.values.approvals import Answer, Suspended
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
    Conversation,
    Foreign,
    Media,
    Message,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    tool_results,
)

__all__ = ["HEADERS", "VercelEncoder", "encode_events", "read_request", "rewind"]

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""For the response: `StreamingResponse(encode_events(…), headers=HEADERS)`."""
_FINISH_REASONS = {
    "end": "stop",
    "length": "length",
    "refusal": "content-filter",
    "filtered": "content-filter",
    "error": "error",
    "timeout": "error",
    "approval": "tool-calls",
    "waiting": "tool-calls",
    "interrupted": "interrupted",
}
_STORED_KEY = "reply"


def encode_events(
    events: AsyncGenerator[RunEvent], request: FrontEndRequest, *, stateless: bool = False
) -> AsyncGenerator[bytes]:
    """Return a run as a UI message stream: `encode_events(agent.stream(request.prompt), request)`.

    `stateless`: the server keeps no conversation, so the client stores what a model needs back with its
    replies (signatures, encrypted reasoning).
    """
    return encode_run(VercelEncoder(request, stateless=stateless), events, b"data: [DONE]\n\n")


class VercelEncoder:
    """Converts one run's events to UI message stream chunks, as dicts."""

    def __init__(self, request: FrontEndRequest, *, stateless: bool = False) -> None:
        self._is_stateless = stateless
        # A run that goes on after an approval or an answer also continues the client's message.
        goes_on = bool(request.decisions or request.answers) and request.message_id
        self._message = {"messageId": request.message_id} if goes_on else {}
        self._shown_calls = request.shown_calls
        self._calls: set[str] = set()  # of this message, as far as this stream has begun it
        # Complete calls, by id, that the client has not got as such: it would run those of its own tools, but
        # they may be invalid, or need approval.
        self._held_calls: dict[str, ToolCall] = {}
        self._without_input: set[str] = set()  # calls that have started
        self._is_in_step = False
        self._replies = 0
        self._open: dict[int, str] = {}  # open parts, by block index

    def start(self) -> list[Event]:
        """Return the first chunks of a message."""
        return [{"type": "start", **self._message}]

    def fail(self, message: str, code: str) -> list[Event]:
        """Return the last chunks of a failed run."""
        notice = {
            "type": "data-toolglot-error",
            "data": {"code": code, "message": message},
            "transient": True,
        }
        return [
            notice,
            {"type": "error", "errorText": message},
            *self._end_step(),
            {"type": "finish", "finishReason": "error"},
        ]

    def encode(self, event: RunEvent) -> list[Event]:
        """Convert a run's event to any number of chunks."""
        if isinstance(event, BlockEvent):
            return self._encode_block(event)
        match event:
            case ReplyStarted():
                ended, self._is_in_step, self._open = self._end_step(), True, {}
                self._replies += 1
                return [*ended, {"type": "start-step"}]
            case ReplyDone(reply):
                return self._encode_original(reply)
            case ToolProgress(call, text):
                return [_notice("tool-progress", {"toolCallId": call.id, "text": text})]
            case ToolStarted(call):
                return self._show_call(call.id)
            case ToolFinished(outcome):
                return self._encode_outcome(outcome)
            case Delivered(id, _, message):
                return [_notice("delivered", {"id": id, "text": message.text})]
            case InnerEvent():
                progress = {
                    "toolCallId": event.path[0],
                    "path": list(event.path),
                    "text": describe_inner_event(event),
                }
                return [_notice("subagent-progress", progress)] if progress["text"] else []
            case RunDone(result):
                return self._finish_run(result)
            case Notice():
                return [_notice(name_event(event, "-"), msgspec.to_builtins(event))]
            case ApprovalNeeded() | AnswerNeeded():  # they are in the result
                return []
            case _:
                assert_never(event)

    def _encode_block(self, event: BlockEvent) -> list[Event]:
        match event:
            case BlockStarted(index, block):
                return self._open_block(index, block)
            case TextDelta(index, text):
                return self._encode_delta(index, Text(""), {"type": "text-delta", "delta": text})
            case ThinkingDelta(index, text):
                return self._encode_delta(index, Thinking(""), {"type": "reasoning-delta", "delta": text})
            case BlockReady(index, block):
                return self._close_block(index, block)
            case ToolCallStarted() | ToolCallDelta() | ToolCallReady():
                return self._encode_call(event)
            case _:
                assert_never(event)

    def _encode_original(self, reply: Reply) -> list[Event]:
        """Return what a client stores for a server that keeps no conversation."""
        stored = store_original(reply.message) if self._is_stateless else None
        return [{"type": "data-toolglot-reply", "data": {_STORED_KEY: stored}}] if stored is not None else []

    def _encode_delta(self, index: int, block: Text | Thinking, delta: Event) -> list[Event]:
        opened = [] if index in self._open else self._open_block(index, block)
        return [*opened, {**delta, "id": self._open[index]}]

    def _end_step(self) -> list[Event]:
        is_in_step, self._is_in_step = self._is_in_step, False
        return [{"type": "finish-step"}] if is_in_step else []

    def _open_block(self, index: int, block: Text | Thinking) -> list[Event]:
        id = self._open[index] = f"{self._replies}-{index}"
        return [{"type": "text-start" if isinstance(block, Text) else "reasoning-start", "id": id}]

    def _close_block(self, index: int, block: Block) -> list[Event]:
        match block:
            case Text() | Thinking():
                return self._close_text(index, block)
            case Media():
                url = media_url(block)
                if not url:
                    return [
                        _notice("provider-file", {"fileId": block.file_id, "mediaType": block.media_type})
                    ]
                return [
                    {"type": "file", "url": url, "mediaType": block.media_type or "application/octet-stream"}
                ]
            case Foreign(wire, item):
                return [_notice("foreign", {"wire": wire, "item": item})]
            case _:
                return []

    def _close_text(self, index: int, block: Text | Thinking) -> list[Event]:
        is_text = isinstance(block, Text)
        end = "text-end" if is_text else "reasoning-end"
        if index in self._open:
            return [{"type": end, "id": self._open.pop(index)}]
        if not block.text:
            return []
        # It was not streamed.
        delta = TextDelta(index, block.text) if is_text else ThinkingDelta(index, block.text)
        return [*self.encode(delta), {"type": end, "id": self._open.pop(index)}]

    def _encode_call(self, event: ToolCallStarted | ToolCallDelta | ToolCallReady) -> list[Event]:
        match event:
            case ToolCallStarted(index, id, name, freeform):
                self._open[index] = id
                encoding = {"inputEncoding": "text"} if freeform else {}
                self._calls.add(id)
                self._without_input.add(id)
                return [{"type": "tool-input-start", "toolCallId": id, "toolName": name, **encoding}]
            case ToolCallDelta(index, text):
                self._without_input.discard(self._open[index])
                return [_make_delta(self._open[index], text)]
            case ToolCallReady(_, call):
                self._held_calls[call.id] = call
                if call.id not in self._without_input:
                    return []
                self._without_input.discard(call.id)  # Gemini and Ollama send calls in one piece
                return [_make_delta(call.id, call.text)]

    def _show_call(self, id: str) -> list[Event]:
        """Return the chunk that says that a call is complete, if the client has not got it."""
        call = self._held_calls.pop(id, None)
        return [] if call is None else [_make_input("tool-input-available", call)]

    def _encode_outcome(self, outcome: ToolOutcome) -> list[Event]:
        call, result = outcome.call, outcome.result
        if not self._has_call(call.caller or call.id):
            return []
        held = None if call.caller else self._held_calls.pop(call.id, None)
        encoded = _encode_outcome(outcome)
        match encoded["type"]:
            case "tool-output-error" if held is not None:  # it did not run
                return [{**_make_input("tool-input-error", held), "errorText": result.text}]
            case "tool-output-available" if held is not None:
                return [_make_input("tool-input-available", held), encoded]
            case _:
                return [encoded]

    def _has_call(self, id: str) -> bool:
        """Return whether a call may be one of the client's message: chunks about others are errors to it."""
        return bool(self._message) or id in self._calls

    def _encode_pending(self, suspended: Suspended) -> list[Event]:
        if not self._has_call(suspended.path[0]):
            return []
        if suspended.kind != "external":
            return [_encode_question(suspended)]
        if not is_for_front_end(suspended) or suspended.id in self._shown_calls:
            return []
        call = replace(suspended.call, id=suspended.id, arguments=suspended.request.arguments)
        return [_make_input("tool-input-available", call)]

    def _finish_run(self, result: RunResult) -> list[Event]:
        message, chunks = STOP_REASONS.get(result.stop), list[Event]()
        if message is not None:
            chunks.append(
                {**_notice("stopped-early", {"stop": result.stop, "message": message}), "transient": False}
            )
        if result.stop in ("error", "timeout"):
            chunks.append({"type": "error", "errorText": message})
        if result.output is not None:
            chunks.append({"type": "data-toolglot-output", "data": export_output(result.output)})
        for suspended in result.pending:
            chunks += self._encode_pending(suspended)
        return [
            *chunks,
            *self._end_step(),
            {"type": "finish", "finishReason": _FINISH_REASONS.get(result.stop, "other")},
        ]


def _make_delta(call_id: str, text: str) -> Event:
    return {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": text}


def _make_input(kind: str, call: ToolCall) -> Event:
    input = call.text if call.arguments is None else call.arguments
    return {"type": kind, "toolCallId": call.id, "toolName": call.name, "input": input}


def _encode_question(suspended: Suspended) -> Event:
    request = suspended.request
    question: Event = {
        "type": "tool-approval-request",
        "approvalId": request.fingerprint,
        "toolCallId": suspended.path[0],  # the client does not know calls made by code or by a sub-agent
        "approvalDescriptor": describe_approval(request),
    }
    if request.reason:
        question["reason"] = escape_line(request.reason)
    return question


def _notice(name: str, data: Any) -> Event:
    """Return a data part that the client shows but does not store."""
    return {"type": f"data-toolglot-{name}", "data": data, "transient": True}


def _encode_outcome(outcome: ToolOutcome) -> Event:
    call, result = outcome.call, outcome.result
    if call.caller:  # the client knows only the call that ran the code
        value = {
            "toolCallId": call.caller,
            "name": call.name,
            "arguments": call.arguments,
            "result": result.text,
        }
        return _notice("inner-call", value)
    if result.error_code == "not_approved":
        return {"type": "tool-output-denied", "toolCallId": call.id}
    if result.is_error:
        return {"type": "tool-output-error", "toolCallId": call.id, "errorText": result.text}
    output: Any = result.data if result.data is not None else result.text
    if media := result_media(result):
        output = {
            "text": result.text,
            "files": [{"mediaType": item.media_type, "url": media_url(item)} for item in media],
        }
    return {"type": "tool-output-available", "toolCallId": call.id, "output": output}


# ---- requests


def read_request(body: Any) -> FrontEndRequest:
    """Parse a `useChat` request: bytes, text or a dict. Raises MalformedRequest.

    Approval responses cannot carry arguments; pass them in the body as `approvalArguments`, by approval id.
    A front end that declares its own tools passes them in the body, too: `tools`, each with a `description`
    and `parameters` or an `inputSchema`, by name or in a list.
    """
    fields, losses, answers = read_body(body), list[Loss](), dict[str, Answer]()
    if "messages" not in fields:
        raise MalformedRequest("the body has no messages")
    items = read_items(fields["messages"], "messages")
    messages: list[Message] = []
    decisions: dict[str, Any] = {}
    shown_calls = frozenset[str]()
    tools = read_tools(_list_tools(fields.get("tools")), losses, _find_schema)
    arguments = fields.get("approvalArguments")
    arguments = cast(Event, arguments) if isinstance(arguments, dict) else {}
    for number, item in enumerate(items):
        where = f"messages[{number}]"
        if "parts" not in item:  # from older versions, which have `content`
            raise MalformedRequest(f"{where} has no parts: AI SDK 5 or newer is required")
        parts = read_items(item["parts"], "parts")
        if item.get("role") == "assistant":
            messages += _read_reply(parts, where, losses)
            # earlier ones have been used
            decisions = dict(filter(None, (_read_approval(part, arguments) for part in parts)))
            answers, shown_calls = _read_answers(parts)
        elif (role := item.get("role")) in ("user", "system"):
            messages.append(Message(role, tuple(_read_parts(parts, where, losses, is_reply=False))))
            decisions = {}
        else:
            losses.append(Loss(f"message with role {role!r:.40}", where, "only the front end understands it"))
    history, prompt = split_prompt(messages)
    last = items[-1] if items else {}
    return FrontEndRequest(
        chat_id=read_text(fields, "id"),
        history=history,
        prompt=prompt,
        decisions=decisions,
        tools=tools,
        answers=answers,
        shown_calls=shown_calls,
        message_id=read_text(last, "id") if last.get("role") == "assistant" else "",
        extras={name: value for name, value in fields.items() if name not in ("id", "messages")},
        losses=tuple(losses),
    )


def rewind(conversation: Conversation, request: FrontEndRequest) -> Conversation:
    """Return the server's conversation without what the user discarded: a reply to regenerate, or all after
    an edited prompt.

    The client must have sent all of its messages.
    """
    is_edited = "messageId" in request.extras and bool(request.prompt)
    is_regenerated = request.extras.get("trigger") == "regenerate-message"
    if not is_edited and not is_regenerated:
        return conversation
    prompts = [index for index, message in enumerate(conversation) if message.role == "user"]
    kept = sum(message.role == "user" for message in request.history)
    if kept >= len(prompts):
        return conversation
    return Conversation(conversation[: prompts[kept]])


def _tool_name(part: Event) -> str:
    """Return a tool part's tool name; "" for other parts."""
    kind = read_text(part, "type")
    if kind == "dynamic-tool":
        return read_text(part, "toolName")
    return kind[5:] if kind.startswith("tool-") else ""


def _read_approval(part: Event, arguments: Event) -> tuple[str, Any] | None:
    approval: Any = part.get("approval")
    if not _tool_name(part) or part.get("state") != "approval-responded" or not isinstance(approval, dict):
        return None
    answer = cast(Event, approval)
    id = read_text(answer, "id")
    return id, make_decision(answer.get("approved"), arguments.get(id), answer.get("reason"))


def _read_answers(parts: list[Event]) -> tuple[dict[str, Answer], frozenset[str]]:
    """Return what the calls of a reply have returned, as the client says, and the calls that have not."""
    answers, shown_calls = dict[str, Answer](), set[str]()
    for part in parts:
        if part.get("type") == "step-start":  # earlier ones have been used
            answers, shown_calls = dict[str, Answer](), set[str]()
        if not _tool_name(part):
            continue
        id, state = read_text(part, "toolCallId"), part.get("state")
        if state == "output-available":
            answers[id] = Answer(_read_value(part.get("output")))
        elif state == "output-error":
            answers[id] = Answer(error=read_text(part, "errorText") or "The call has failed.")
        elif state == "input-available":
            shown_calls.add(id)
    return answers, frozenset(shown_calls)


def _list_tools(tools: Any) -> list[Event]:
    """Return the tools that a client declares; other data under this name is its own."""
    if isinstance(tools, dict):
        named = cast(dict[str, Any], tools)
        tools = [{**tool, "name": name} for name, tool in named.items() if isinstance(tool, dict)]
    if not isinstance(tools, list):
        return []
    items = cast(list[Any], tools)
    return [tool for tool in items if isinstance(tool, dict) and "name" in tool]


def _find_schema(tool: Event) -> Any:
    return tool.get("parameters", tool.get("inputSchema"))


def _read_reply(parts: list[Event], where: str, losses: list[Loss]) -> list[Message]:
    """Convert a client's message to replies with the results of their calls, one reply per step."""
    steps: list[list[Event]] = [[]]
    for part in parts:
        if part.get("type") == "step-start":
            steps.append([])
        else:
            steps[-1].append(part)
    messages: list[Message] = []
    for step in filter(None, steps):
        stored = next((part.get("data") for part in step if part.get("type") == "data-toolglot-reply"), None)
        blocks = _read_parts(step, where, losses)
        reply = Message("assistant", tuple(blocks))
        if isinstance(stored, dict):
            reply = restore_original(cast(Event, stored).get(_STORED_KEY), reply)
        if blocks:
            messages.append(reply)
        if results := [result for part in step if (result := _read_result(part)) is not None]:
            messages.append(tool_results(*results))
    return messages


def _read_parts(parts: list[Event], where: str, losses: list[Loss], *, is_reply: bool = True) -> list[Block]:
    """Convert a message's content. Only replies may have reasoning and calls, whatever a client sends."""
    blocks: list[Block] = []
    for part in parts:
        kind = read_text(part, "type")
        if kind == "text":
            blocks.append(Text(read_text(part, "text")))
        elif kind == "file":
            name, url = read_text(part, "filename"), read_text(part, "url")
            blocks.append(make_media(read_text(part, "mediaType"), url=url, name=name))
        elif is_reply and kind == "reasoning":
            blocks.append(Thinking(read_text(part, "text")))
        elif is_reply and _tool_name(part):
            if part.get("state") != "input-streaming":  # it never became a call
                blocks.append(_read_call(part))
        elif not kind.startswith("data-toolglot-"):
            losses.append(Loss(f"part of type {kind!r:.60}", where, "only the front end understands it"))
    return blocks


def _read_call(part: Event) -> ToolCall:
    """Return a tool part's call. An input that is no object is kept as the text that it is, or as JSON."""
    name, call_id = _tool_name(part), read_text(part, "toolCallId")
    input: Any = part.get("input")
    if isinstance(input, dict):
        return ToolCall(call_id, name, cast(Event, input))
    return ToolCall(call_id, name, None, raw=input if isinstance(input, str) else dumps_text(input))


def _is_file(value: object) -> bool:
    """Return whether a value is a file in the form that `_encode_outcome` sends."""
    match value:
        case {"mediaType": str(), "url": str(url)}:
            return bool(url) and len(cast(Event, value)) == 2
        case _:
            return False


def _read_result(part: Event) -> ToolResult | None:
    name, call_id = _tool_name(part), read_text(part, "toolCallId")
    match name and part.get("state"):
        case "output-available":
            return ToolResult(call_id, _read_output(part.get("output")), name)
        case "output-error":
            return ToolResult(
                call_id, (Text(read_text(part, "errorText")),), name, is_error=True, error_kind="execution"
            )
        case "output-denied":
            text = "The user did not approve the call. It did not run."
            return ToolResult(call_id, (Text(text),), name, is_error=True, error_kind="rejected")
        case _:
            return None


def _read_output(output: Any) -> tuple[Text | Media, ...]:
    """Return what a tool has returned as content."""
    value = _read_value(output)
    if isinstance(value, tuple):
        return cast(tuple[Text | Media, ...], value)
    return (Text(value if isinstance(value, str) else dumps_text(value)),)


def _read_value(output: Any) -> Any:
    """Return what a tool has returned: content, if it is in the form that `_encode_outcome` sends, or any JSON."""
    match output:
        case {"text": str(text), "files": [*files]} if all(map(_is_file, files)):
            media = [make_media(file["mediaType"], url=file["url"]) for file in cast(list[Event], files)]
            return (Text(text), *media) if text else tuple(media)
        case _:
            return output
