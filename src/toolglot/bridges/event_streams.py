"""Shared code of the event streams for web front ends: server-sent events, approvals and media."""

from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol, Unpack, cast

import msgspec
from msgspec.structs import replace

from toolglot.common.jsontext import dumps, dumps_text, loads
from toolglot.common.loggers import get_logger
from toolglot.common.sanitize import escape_deceptive, escape_line
from toolglot.errors import MalformedRequest, ToolglotError, UsageError
from toolglot.loop.agent.agent import Agent, find_results, find_taken_names
from toolglot.loop.conversation_state import RunOptions
from toolglot.loop.run_tools import read_run_tools
from toolglot.values.approvals import Allow, Answer, ApprovalRequest, Decision, Deny, Suspended
from toolglot.values.definitions import ToolDefinition
from toolglot.values.events import AnswerNeeded, ApprovalNeeded, RunDone, RunEvent
from toolglot.values.losses import Loss
from toolglot.values.messages import Conversation, Media, MediaKind, Message, Text, ToolResult

__all__ = ["FrontEndRequest", "StreamEncoder", "encode_run", "name_event"]

log = get_logger("toolglot.bridges")
Event = dict[str, Any]


class FrontEndRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A front end's request. Everything in it is untrusted: a client can send forged messages."""

    chat_id: str
    """Identifies the conversation: AG-UI's `threadId`, the `id` of `useChat`."""
    run_id: str = ""
    """Of AG-UI."""
    history: tuple[Message, ...] = ()
    """The conversation as the client has it, without the prompt. A server that keeps conversations does not
    need it."""
    prompt: tuple[Message, ...] = ()
    """The user's messages after the last reply; empty if decisions were sent, or if the last reply is to be
    regenerated."""
    decisions: dict[str, Decision] = {}
    """Decisions on calls that waited for approval, for `Agent.resume`."""
    tools: tuple[ToolDefinition, ...] = ()
    """The front end's own tools. What they return comes with a later request."""
    answers: dict[str, Answer] = {}
    """What the client says that the calls of the last reply returned, by call id: those of its own tools, and
    those of the server, sent back. `stream` uses the answers that the server waits for."""
    shown_calls: frozenset[str] = frozenset()
    """The calls of the last reply that the client has got to answer (`useChat`)."""
    message_id: str = ""
    """The client's last reply, which a resumed run continues."""
    state: Any = None
    """AG-UI's `state`."""
    extras: dict[str, Any] = {}
    """All other fields of the body."""
    losses: tuple[Loss, ...] = ()
    """Parts of the request that cannot be used."""

    def new_prompt(self, conversation: Iterable[Message]) -> tuple[Message, ...]:
        """Return the prompt without the messages that the server's conversation already has.

        After a failed run, the client has no reply, so its next prompt begins with the one that failed. The
        last message is always new: a user can send the same text twice.
        """
        known = [message.blocks for message in conversation if message.role == "user"]
        prompt = [message.blocks for message in self.prompt]
        for count in range(len(prompt) - 1, 0, -1):
            if known[-count:] == prompt[:count]:
                return self.prompt[count:]
        return self.prompt

    async def stream(
        self, agent: Agent[Any, Any], *, output_type: Any = None, **options: Unpack[RunOptions[Any]]
    ) -> AsyncGenerator[RunEvent]:
        """Do what the request asks for, and yield the events: the rest of a run that waits, or a new run.

        A decision or an answer counts only for a call that waits for one. Everything else that the client
        says of calls is a loss (`losses` of the result), as is a tool of the front end whose name the agent
        needs itself. A prompt that comes while calls wait gives up those that have no answer. The tools of
        the front end are those of the request that began the run.

        Args:
            agent: The agent of the server.
            output_type: As for `Agent.run`.
            options: As for `Agent.run`; `tools`: others that the run has besides those of the front end.
        """
        conversation: Conversation | None = options.get("conversation")
        if conversation is None:
            conversation = agent.conversation
        waiting = await agent.list_pending(conversation)
        answers, losses = self._sort_answers(waiting, find_results(agent, conversation))
        prompt, items = self.new_prompt(conversation), dict[str, Decision | Answer](self.decisions) | answers
        if waiting and (items or not prompt):
            rest = _Rest(agent, conversation, prompt, gives_up=not _covers(items, waiting))
            resumed = agent.resume_stream(
                items, conversation=conversation, data=options.get("data"), output_type=output_type
            )
            async with aclosing(resumed) as events:
                async for event in rest.pass_on(events):
                    yield _add_losses(event, (*self.losses, *losses))
            if not (prompt := rest.undelivered):
                return
        elif not prompt and self.decisions:
            raise UsageError("no run is waiting to be resumed")
        elif not prompt and self.answers:
            raise _nothing_to_do(losses)
        own = read_run_tools(options.get("tools", ()))
        tools, lost = self._sort_tools(agent, {tool.qualified_name for tool in own})
        options["tools"], options["conversation"] = [*own, *tools], conversation
        async with aclosing(agent.stream(prompt, output_type=output_type, **options)) as events:
            async for event in events:
                yield _add_losses(event, (*self.losses, *losses, *lost))

    def _sort_answers(
        self, waiting: Iterable[Suspended], results: Mapping[str, ToolResult]
    ) -> tuple[dict[str, Answer], list[Loss]]:
        """Return the answers that the server waits for, and a loss for each that it does not."""
        answers, losses = dict[str, Answer](), list[Loss]()
        by_id = {suspended.id: suspended for suspended in waiting}
        for id, answer in self.answers.items():
            suspended, result = by_id.get(id), results.get(id)
            if suspended is not None and is_for_front_end(suspended):
                answers[id] = _read_as_data(answer) if suspended.schema is not None else answer
            elif suspended is not None:
                reason = "the call waits for something else than an answer of the front end"
                losses.append(Loss(f"answer to {id!r:.80}", "messages", reason))
            elif any(item.path[0] == id for item in by_id.values()):
                losses.append(Loss(f"answer to {id!r:.80}", "messages", "the server runs this call"))
            elif result is None:
                losses.append(Loss(f"answer to {id!r:.80}", "messages", "no such call waits for an answer"))
            elif not is_echo(answer, result):
                losses.append(Loss(f"answer to {id!r:.80}", "messages", "the call has been answered"))
        return answers, losses

    def _sort_tools(
        self, agent: Agent[Any, Any], taken: Iterable[str]
    ) -> tuple[list[ToolDefinition], list[Loss]]:
        """Return the tools of the front end that the run can have, and a loss for each other one."""
        tools, losses = list[ToolDefinition](), list[Loss]()
        taken = {*taken, *find_taken_names(agent, self.tools)}
        for tool in self.tools:
            if tool.name not in taken:
                tools.append(tool)
            else:
                losses.append(Loss(f"tool {tool.name!r:.80}", "tools", "the server has a tool of this name"))
        return tools, losses


class _Rest:
    """Passes on the rest of a run that waited, and with it the prompt that came with the answers.

    The prompt follows the results in the same run. If calls still wait, they are given up (`gives_up`): the
    prompt begins a new run.
    """

    def __init__(
        self,
        agent: Agent[Any, Any],
        conversation: Conversation,
        prompt: Sequence[Message],
        *,
        gives_up: bool,
    ) -> None:
        self._agent, self._conversation, self._prompt = agent, conversation, prompt
        self._gives_up = gives_up and bool(prompt)
        self.undelivered: tuple[Message, ...] = tuple(prompt)

    async def pass_on(self, events: AsyncGenerator[RunEvent]) -> AsyncGenerator[RunEvent]:
        """Yield the events, but not an end that is none."""
        deliveries: list[Any] = []
        is_first = True
        async for event in events:
            if is_first and not self._gives_up:
                # Not before: if an answer is refused, the client sends its prompt again.
                deliveries = [
                    self._agent.deliver(message, conversation=self._conversation) for message in self._prompt
                ]
            is_first = False
            if isinstance(event, RunDone):
                if not self._gives_up:
                    self.undelivered = tuple(
                        [delivery.message for delivery in deliveries if delivery.state == "refused"]
                    )
                if self.undelivered:
                    return
            elif self._gives_up and isinstance(event, ApprovalNeeded | AnswerNeeded):
                continue
            yield event


def _covers(items: Mapping[str, Any], waiting: Iterable[Suspended]) -> bool:
    """Return whether there is a decision or an answer for each call that waits."""
    return all(item.id in items or item.fingerprint in items for item in waiting)


def _nothing_to_do(losses: Sequence[Loss]) -> UsageError:
    """Return the error for answers that nothing waits for, without a prompt. A client sends them again after a
    failed run, for example.
    """
    if losses:
        return UsageError(f"{losses[0].subject}: {losses[0].reason}")
    return UsageError("the calls have been answered, and the run has ended: send a message")


def _add_losses(event: RunEvent, losses: tuple[Loss, ...]) -> RunEvent:
    if not losses or not isinstance(event, RunDone):
        return event
    return RunDone(replace(event.result, losses=(*losses, *event.result.losses)))


def is_echo(answer: Answer, result: ToolResult) -> bool:
    """Return whether a client sends back what the server has sent it, or what it has sent before."""
    value: Any = answer.error or answer.value
    if result.data is not None and value == result.data:
        return True
    text = _read_as_text(value)
    return text == result.text or _parse(text) == _parse(result.text)


def _read_as_text(value: Any) -> str:
    """Return the text of an answer, whether text, content or data."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "".join([block.text for block in cast(tuple[Any, ...], value) if isinstance(block, Text)])
    return dumps_text(value)


def _read_as_data(answer: Answer) -> Answer:
    """Return an answer with the data that its text is, for a call that waits for data."""
    return replace(answer, value=_parse(answer.value)) if isinstance(answer.value, str) else answer


def _parse(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return text


class StreamEncoder(Protocol):
    """Converts a run's events to a protocol's."""

    def start(self) -> list[Event]: ...
    def encode(self, event: RunEvent) -> list[Event]: ...
    def fail(self, message: str, code: str) -> list[Event]: ...


async def encode_run(
    encoder: StreamEncoder, events: AsyncGenerator[RunEvent], end: bytes = b""
) -> AsyncGenerator[bytes]:
    """Yield a run as server-sent events.

    An error is the last event, because the status has already been sent.
    """
    try:
        async with aclosing(events):
            yield to_sse(encoder.start())
            async for event in events:
                if frames := encoder.encode(event):
                    yield to_sse(frames)
    except ToolglotError as error:
        yield to_sse(encoder.fail(str(error), error.type))
    except Exception:  # its text must not reach clients
        log.exception("a run for a front end failed")
        yield to_sse(encoder.fail("the server failed; see its log", "internal_error"))
    if end:
        yield end


def to_sse(events: Sequence[Event]) -> bytes:
    """Return events as server-sent events."""
    return b"".join([b"data: %s\n\n" % dumps(event) for event in events])


def read_body(body: Any) -> dict[str, Any]:
    """Parse a request's body, given as bytes, as text or already parsed. Raises MalformedRequest."""
    if callable(dump := getattr(body, "model_dump", None)):
        body = dump(mode="json", by_alias=True)
    try:
        value = loads(body) if isinstance(body, bytes | str) else body
    except ValueError as e:
        raise MalformedRequest(f"the body is not JSON: {e}") from None
    if not isinstance(value, dict):
        raise MalformedRequest("the body must be a JSON object")
    return cast(dict[str, Any], value)


def read_items(value: Any, name: str) -> list[dict[str, Any]]:
    """Return a list of objects. Raises MalformedRequest."""
    if value is None:
        return []
    if not isinstance(value, list) or any(not isinstance(item, dict) for item in cast(list[Any], value)):
        raise MalformedRequest(f"{name} must be a list of objects")
    return cast(list[dict[str, Any]], value)


def read_text(fields: dict[str, Any], name: str) -> str:
    """Return a string, "" if it is missing. Raises MalformedRequest."""
    if not isinstance(value := fields.get(name), str | None):
        raise MalformedRequest(f"{name} must be a string")
    return value or ""


def read_tools(
    items: Iterable[Event], losses: list[Loss], find_schema: Callable[[Event], Any]
) -> tuple[ToolDefinition, ...]:
    """Return the tools that a front end declares; one that no run can have is a loss."""
    tools: dict[str, ToolDefinition] = {}
    for item in items:
        name, schema = read_text(item, "name"), find_schema(item)
        definition = ToolDefinition(
            name,
            read_text(item, "description"),
            {"type": "object", **schema} if isinstance(schema, dict) else None,
        )
        if not name.strip():
            losses.append(Loss("a tool", "tools", "it has no name"))
            continue
        try:
            read_run_tools([definition])
        except ToolglotError as e:
            losses.append(Loss(f"tool {name!r:.80}", "tools", str(e)))
            continue
        if name in tools:
            losses.append(Loss(f"tool {name!r:.80}", "tools", "there are two of this name"))
        tools.setdefault(name, definition)
    return tuple(tools.values())


def split_prompt(messages: list[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the history, and the user's messages after the last reply."""
    end = len(messages)
    while end and messages[end - 1].role == "user":
        end -= 1
    return tuple(messages[:end]), tuple(messages[end:])


def make_decision(approved: object, arguments: object = None, reason: object = None) -> Decision:
    """Return a user's decision. Anything other than a clear yes means no."""
    if approved is not True:
        return Deny(reason if isinstance(reason, str) else "")
    return Allow(arguments=cast(dict[str, Any], arguments)) if isinstance(arguments, dict) else Allow()


def describe_approval(request: ApprovalRequest) -> dict[str, Any]:
    """Return what a user needs to see to decide on a call.

    Where a front end shows it, nothing in it may deceive.
    """
    fields = {
        "tool": request.tool,
        "arguments": request.arguments,
        "target": escape_line(request.target),
        "effects": sorted(request.effects),
        "preview": escape_deceptive(request.preview or request.preview_error),
        "reason": escape_line(request.reason),
        "form": request.form,
    }
    return {name: value for name, value in fields.items() if value}


def describe_answer(suspended: Suspended) -> dict[str, Any]:
    """Return what a front end needs to answer a call: its arguments may have been repaired, or changed by the
    approver.
    """
    request = suspended.request
    fields = {"toolCallId": suspended.id, "name": request.call.name, "arguments": request.arguments}
    optional = {"schema": suspended.schema, "expires": suspended.expires}
    return {**fields, **{name: value for name, value in optional.items() if value is not None}}


def is_for_front_end(suspended: Suspended) -> bool:
    """Return whether a front end may answer a call: its tool has only a definition. A tool with a function that
    has put off its answer waits for somebody else, and so does a sub-agent.
    """
    return suspended.kind == "external" and not suspended.has_started


def export_output(value: Any) -> Any:
    """Return a run's structured output as plain data."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_dump_model)


def _dump_model(value: Any) -> Any:
    dump: Any = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True) if callable(dump) else str(value)


def make_media(
    media_type: str, *, data: str | None = None, url: str | None = None, name: str = "", family: str = ""
) -> Media:
    """Return a block for a user's file.

    `family`: image, audio or video, if the media type does not specify it.
    """
    if url is not None and url.startswith("data:"):
        header, _, data = url[5:].partition(",")
        media_type, url = header.partition(";")[0] or media_type, None
        if ";base64" not in header:
            raise MalformedRequest("a data URL must be encoded in base64")
    try:
        b64decode(data or "", validate=True)
    except ValueError as e:
        raise MalformedRequest(f"a file is not valid base64: {e}") from None
    family = family or media_type.partition("/")[0]
    kind: MediaKind = cast(MediaKind, family) if family in ("image", "audio", "video") else "file"
    return Media(kind, media_type, data, url, name=name)


def media_url(media: Media) -> str:
    """Return a URL for media, a data URL if there is no other; "" for a file stored only at the provider."""
    data = (
        f"data:{media.media_type or 'application/octet-stream'};base64,{media.data}"
        if media.data is not None
        else ""
    )
    return media.url or data


def result_media(result: ToolResult) -> list[Media]:
    """Return the images and files in a result."""
    return [block for block in result.content if isinstance(block, Media)]


def name_event(event: RunEvent, separator: str) -> str:
    """Return the name of an event's type as `model_switched`."""
    name = type(event).__name__
    return "".join(f"{separator}{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip(
        separator
    )
