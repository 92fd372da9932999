"""Shared code of the event streams for web front ends: server-sent events, approvals and media."""

from base64 import b64decode
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Protocol, cast

import msgspec

from toolglot.common.jsontext import dumps, loads
from toolglot.common.loggers import get_logger
from toolglot.common.sanitize import escape_deceptive, escape_line
from toolglot.errors import MalformedRequest, ToolglotError
from toolglot.values.approvals import Allow, ApprovalRequest, Decision, Deny
from toolglot.values.events import RunEvent
from toolglot.values.losses import Loss
from toolglot.values.messages import Media, MediaKind, Message, ToolResult

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
