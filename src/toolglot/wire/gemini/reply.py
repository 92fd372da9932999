"""Gemini generateContent: replies and streams <-> tracker.

Every part of every event is a new part: parallel calls come one event each, whole, and often without an id. Adjacent text parts
are one text, except where a signature marks the end of one. Vertex may stream one call's arguments as paths and values.
"""

import re
from functools import lru_cache
from typing import Any, cast

from toolglot.losses import Loss
from toolglot.messages import Foreign, Media, Stop, Usage
from toolglot.wire.failures import failure
from toolglot.wire.shapes import Doc, as_dict, as_int, as_text, rest
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["WIRE", "GeminiDecoder", "snake_to_camel"]

WIRE = "gemini"

# finishReason: by name, and by the number it has in the proto (some servers send numbers)
STOPS: dict[Any, Stop] = {
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


class GeminiDecoder:
    """Events of a stream, or a whole body, to the tracker."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        self._tracker = tracker
        self._count = 0  # of blocks begun
        self._open = ""  # kind of the block that the next part may go on with: text, thinking, call
        self._arguments: Doc = {}  # of the open call
        self._in_pieces = False
        self._others = False
        self._known = False  # id and model
        self._usage: Doc | None = None
        self.complete = False

    def frame(self, doc: Doc, event: str) -> None:
        if doc.get("error"):
            raise failure(doc)
        if not self._known:
            id, model = as_text(doc.get("responseId")), as_text(doc.get("modelVersion"))
            self._known = bool(id and model)
            self._tracker.begin(id, model)
        if candidates := doc.get("candidates"):
            self._candidate(candidates[0])
            if len(candidates) > 1:
                self._others = True
        if feedback := doc.get("promptFeedback"):
            self._blocked(feedback)
        if usage := doc.get("usageMetadata"):  # in every event; the last counts
            self._usage = usage

    def body(self, doc: Doc, event: str) -> None:
        self.frame(doc, event)
        self.complete = any(key in doc for key in ("candidates", "promptFeedback", "usageMetadata"))

    def done(self) -> None: ...

    def end(self) -> None:
        self._close()
        if self._usage:
            self._tracker.used(usage_of(self._usage))
        if self._others:
            self._tracker.losses.append(Loss("candidates", "reply", "only the first candidate is read"))

    def _blocked(self, feedback: Doc) -> None:
        if feedback.get("blockReason"):
            self.complete = True
            self._tracker.stop("filtered")
            self._tracker.note_message({"promptFeedback": feedback})

    def _candidate(self, candidate: Doc) -> None:
        content = candidate.get("content")
        for part in (content.get("parts") or ()) if content else ():
            if len(part) == 1 and "text" in part and self._open == "text":  # nearly every part
                if text := part["text"]:
                    self._tracker.text(self._count, text)
            else:
                self.part(part)
        if len(candidate) > ("content" in candidate) + ("index" in candidate):
            self._more(candidate)

    def _more(self, candidate: Doc) -> None:
        if reason := candidate.get("finishReason"):
            self.complete = True
            self._tracker.stop(STOPS.get(reason, "error"))  # a new reason is rarely a good one
        for field in _CANDIDATE_FIELDS:
            if value := candidate.get(field):
                self._tracker.note_message({field: value})

    def part(self, part: Doc) -> None:
        """One part, of a reply or of a message in the history."""
        tracker = self._tracker
        if (call := part.get("functionCall")) is not None:
            self._call(call, rest(part, ("functionCall",)) if len(part) > 1 else None)
        elif "text" in part:
            kind = "thinking" if part.get("thought") else "text"
            if kind != self._open:
                self._begin(kind)
            if text := part["text"]:
                (tracker.thinking if kind == "thinking" else tracker.text)(self._count, text)
            if state := rest(part, ("text", "thought")):
                tracker.note(self._count, kind, {key: value for key, value in state.items() if value is not None})
                self._close()
        elif (media := part.get("inlineData") or part.get("fileData")) is not None:
            self._begin("block")
            tracker.block(self._count, media_of(media, rest(part, ("inlineData", "fileData"))))
        else:
            self._begin("block")
            tracker.block(self._count, Foreign(WIRE, part))

    def _call(self, call: Doc, state: Doc | None) -> None:
        tracker = self._tracker
        if self._open != "call":
            self._begin("call")
            self._arguments = dict(as_dict(call.get("args")))
        if pieces := call.get("partialArgs"):
            self._in_pieces = True
            for piece in pieces:
                put(self._arguments, piece)
        if state is None and "name" not in call and call.get("willContinue"):
            return  # nothing but more of the arguments
        tracker.note(
            self._count, "call", {**(state or {}), **(rest(call, ("name", "args", "partialArgs", "willContinue")) or {})}
        )
        tracker.call(self._count, call.get("id"), call.get("name"))
        if not call.get("willContinue"):
            self._close()

    def _begin(self, kind: str) -> None:
        self._close()
        self._count += 1
        self._open = kind

    def _close(self) -> None:
        if self._open == "call":
            self._tracker.call(self._count, value=whole(self._arguments) if self._in_pieces else self._arguments)
            self._in_pieces = False
        if self._open:
            self._tracker.close(self._count)
        self._open = ""


_STEP = re.compile(r"\.([^.\[]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]")

_PATH = re.compile(rf"\$(?:{_STEP.pattern})*")


class _Pieces(list[str]):
    """Text that comes in pieces."""


@lru_cache(maxsize=64)
def _steps(path: str) -> tuple[Any, ...]:
    if not _PATH.fullmatch(path):
        raise KeyError(path)
    return tuple(int(n) if n else name or quoted for name, n, quoted in _STEP.findall(path))


def put(node: Any, piece: Doc) -> None:
    """Adds one piece of `partialArgs`: {"jsonPath": "$.a[0].b", "stringValue": …}. Text at one path is joined.

    Until `whole`, arrays are kept as {0: …, 1: …} and texts in their pieces.
    """
    steps = _steps(piece["jsonPath"])
    if not steps:
        return
    *path, last = steps
    for step in path:
        node = node.setdefault(step, {})
    value = piece.get("stringValue")
    if not isinstance(value, str):
        node[last] = piece.get("numberValue", piece.get("boolValue"))
    elif isinstance(before := node.get(last), _Pieces):
        before.append(value)
    else:
        node[last] = _Pieces([value])


def whole(value: Any) -> Any:
    """What `put` made, as JSON."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if not isinstance(value, dict):
        return value
    fields = cast(dict[Any, Any], value)
    if fields and all(isinstance(key, int) for key in fields):
        return [whole(fields[key]) for key in sorted(fields)]
    return {key: whole(item) for key, item in fields.items()}


def media_of(source: Doc, state: Doc | None) -> Media:
    """inlineData or fileData."""
    media_type = as_text(source.get("mimeType"))
    top = media_type.partition("/")[0]
    kind = top if top in ("image", "audio", "video") else "file"
    more = rest(source, ("mimeType", "data", "fileUri", "displayName"))
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


def usage_of(usage: Doc) -> Usage:
    """`promptTokenCount` includes the cached ones; `candidatesTokenCount` excludes the thoughts."""
    thoughts = as_int(usage.get("thoughtsTokenCount"))
    return Usage(
        input=as_int(usage.get("promptTokenCount")) + as_int(usage.get("toolUsePromptTokenCount")),
        output=as_int(usage.get("candidatesTokenCount")) + thoughts,
        cached=as_int(usage.get("cachedContentTokenCount")),
        reasoning=thoughts,
    )
