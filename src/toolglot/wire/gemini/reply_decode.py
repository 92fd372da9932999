"""Gemini generateContent: replies and streams <-> tracker.

Every part of every event is a new part: parallel calls come one event each, whole, and often without an id. Adjacent text parts
are one text, except where a signature marks the end of one. Vertex may stream one call's arguments as paths and values.
"""

import re
from functools import lru_cache
from typing import Any, cast

from toolglot.losses import Loss
from toolglot.messages import Foreign, Media, StopReason, Usage
from toolglot.wire.json_values import Doc, as_dict, as_int, as_text, unknown_fields
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.spec import GEMINI
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["GeminiReplyDecoder", "snake_to_camel"]

# finishReason: by name, and by the number it has in the proto (some servers send numbers)
STOP_REASONS: dict[Any, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "FINISH_REASON_UNSPECIFIED": "end",
    "CONTINUATION": "pause",
    "OTHER": "error",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MALFORMED_RESPONSE": "error",
    1: "end",
    2: "length",
    3: "filtered",
    4: "filtered",
    5: "error",
}
_CANDIDATE_FIELDS = (
    "groundingMetadata",
    "citationMetadata",
    "urlContextMetadata",
    "continuationToken",
    "finishMessage",
)


class GeminiReplyDecoder:
    """Events of a stream, or a whole body, to the tracker."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        self._tracker = tracker
        self._block_count = 0  # of blocks begun
        self._open_kind = ""  # kind of the block that the next part may go on with: text, thinking, call
        self._arguments: Doc = {}  # of the open call
        self._has_partial_arguments = False
        self._has_other_candidates = False
        self._has_identity = False  # id and model
        self._usage: Doc | None = None
        self.is_complete = False

    def read_frame(self, doc: Doc, event: str) -> None:
        if doc.get("error"):
            raise error_from_body(doc)
        if not self._has_identity:
            id, model = as_text(doc.get("responseId")), as_text(doc.get("modelVersion"))
            self._has_identity = bool(id and model)
            self._tracker.begin(id, model)
        if candidates := doc.get("candidates"):
            self._read_candidate(candidates[0])
            if len(candidates) > 1:
                self._has_other_candidates = True
        if feedback := doc.get("promptFeedback"):
            self._read_feedback(feedback)
        if usage := doc.get("usageMetadata"):  # in every event; the last counts
            self._usage = usage

    def read_body(self, doc: Doc, event: str) -> None:
        self.read_frame(doc, event)
        self.is_complete = any(key in doc for key in ("candidates", "promptFeedback", "usageMetadata"))

    def read_done(self) -> None: ...

    def finish(self) -> None:
        self._close_block()
        if self._usage:
            self._tracker.set_usage(decode_usage(self._usage))
        if self._has_other_candidates:
            self._tracker.losses.append(Loss("candidates", "reply", "only the first candidate is read"))

    def _read_feedback(self, feedback: Doc) -> None:
        if feedback.get("blockReason"):
            self.is_complete = True
            self._tracker.set_stop_reason("filtered")
            self._tracker.merge_message_opaque({"promptFeedback": feedback})

    def _read_candidate(self, candidate: Doc) -> None:
        content = candidate.get("content")
        for part in (content.get("parts") or ()) if content else ():
            if len(part) == 1 and "text" in part and self._open_kind == "text":  # nearly every part
                if text := part["text"]:
                    self._tracker.add_text(self._block_count, text)
            else:
                self.read_part(part)
        if len(candidate) > ("content" in candidate) + ("index" in candidate):
            self._read_candidate_end(candidate)

    def _read_candidate_end(self, candidate: Doc) -> None:
        if reason := candidate.get("finishReason"):
            self.is_complete = True
            self._tracker.set_stop_reason(STOP_REASONS.get(reason, "error"))  # a new reason is rarely a good one
        for field in _CANDIDATE_FIELDS:
            if value := candidate.get(field):
                self._tracker.merge_message_opaque({field: value})

    def read_part(self, part: Doc) -> None:
        """One part, of a reply or of a message in the history."""
        tracker = self._tracker
        if (call := part.get("functionCall")) is not None:
            self._read_call(call, unknown_fields(part, ("functionCall",)) if len(part) > 1 else None)
        elif "text" in part:
            kind = "thinking" if part.get("thought") else "text"
            if kind != self._open_kind:
                self._begin_block(kind)
            if text := part["text"]:
                (tracker.add_thinking if kind == "thinking" else tracker.add_text)(self._block_count, text)
            if state := unknown_fields(part, ("text", "thought")):
                tracker.merge_opaque(self._block_count, kind, {key: value for key, value in state.items() if value is not None})
                self._close_block()
        elif (media := part.get("inlineData") or part.get("fileData")) is not None:
            self._begin_block("block")
            tracker.set_block(self._block_count, decode_media(media, unknown_fields(part, ("inlineData", "fileData"))))
        else:
            self._begin_block("block")
            tracker.set_block(self._block_count, Foreign(GEMINI, part))

    def _read_call(self, call: Doc, state: Doc | None) -> None:
        tracker = self._tracker
        if self._open_kind != "call":
            self._begin_block("call")
            self._arguments = dict(as_dict(call.get("args")))
        if pieces := call.get("partialArgs"):
            self._has_partial_arguments = True
            for piece in pieces:
                add_partial_argument(self._arguments, piece)
        if state is None and "name" not in call and call.get("willContinue"):
            return  # nothing but more of the arguments
        tracker.merge_opaque(
            self._block_count,
            "call",
            {**(state or {}), **(unknown_fields(call, ("name", "args", "partialArgs", "willContinue")) or {})},
        )
        tracker.update_call(self._block_count, call.get("id"), call.get("name"))
        if not call.get("willContinue"):
            self._close_block()

    def _begin_block(self, kind: str) -> None:
        self._close_block()
        self._block_count += 1
        self._open_kind = kind

    def _close_block(self) -> None:
        if self._open_kind == "call":
            self._tracker.update_call(
                self._block_count,
                value=join_partial_arguments(self._arguments) if self._has_partial_arguments else self._arguments,
            )
            self._has_partial_arguments = False
        if self._open_kind:
            self._tracker.close(self._block_count)
        self._open_kind = ""


_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]")

_PATH = re.compile(rf"\$(?:{_PATH_STEP.pattern})*")


class _TextPieces(list[str]):
    """Text that comes in pieces."""


@lru_cache(maxsize=64)
def _parse_path(path: str) -> tuple[Any, ...]:
    if not _PATH.fullmatch(path):
        raise KeyError(path)
    return tuple(int(n) if n else name or quoted for name, n, quoted in _PATH_STEP.findall(path))


def add_partial_argument(node: Any, piece: Doc) -> None:
    """Adds one piece of `partialArgs`: {"jsonPath": "$.a[0].b", "stringValue": …}. Text at one path is joined.

    Until `whole`, arrays are kept as {0: …, 1: …} and texts in their pieces.
    """
    steps = _parse_path(piece["jsonPath"])
    if not steps:
        return
    *path, last = steps
    for step in path:
        node = node.setdefault(step, {})
    value = piece.get("stringValue")
    if not isinstance(value, str):
        node[last] = piece.get("numberValue", piece.get("boolValue"))
    elif isinstance(before := node.get(last), _TextPieces):
        before.append(value)
    else:
        node[last] = _TextPieces([value])


def join_partial_arguments(value: Any) -> Any:
    """What `put` made, as JSON."""
    if isinstance(value, _TextPieces):
        return "".join(value)
    if not isinstance(value, dict):
        return value
    fields = cast(dict[Any, Any], value)
    if fields and all(isinstance(key, int) for key in fields):
        return [join_partial_arguments(fields[key]) for key in sorted(fields)]
    return {key: join_partial_arguments(item) for key, item in fields.items()}


def decode_media(source: Doc, state: Doc | None) -> Media:
    """inlineData or fileData."""
    media_type = as_text(source.get("mimeType"))
    top = media_type.partition("/")[0]
    kind = top if top in ("image", "audio", "video") else "file"
    more = unknown_fields(source, ("mimeType", "data", "fileUri", "displayName"))
    opaque = {**(state or {}), **({"source": more} if more else {})} or None
    data = source.get("data")
    return Media(
        kind,  # pyright: ignore[reportArgumentType]
        media_type,
        data.replace("-", "+").replace("_", "/") if isinstance(data, str) else data,  # Google's clients send the URL alphabet
        source.get("fileUri"),
        name=as_text(source.get("displayName")),
        opaque=opaque,
    )


def snake_to_camel(key: str) -> str:
    """`function_call` as `functionCall`: Google's JSON accepts both."""
    head, *tail = key.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in tail)


def decode_usage(usage: Doc) -> Usage:
    """`promptTokenCount` includes the cached ones; `candidatesTokenCount` excludes the thoughts."""
    thoughts = as_int(usage.get("thoughtsTokenCount"))
    return Usage(
        input=as_int(usage.get("promptTokenCount")) + as_int(usage.get("toolUsePromptTokenCount")),
        output=as_int(usage.get("candidatesTokenCount")) + thoughts,
        cached=as_int(usage.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )
