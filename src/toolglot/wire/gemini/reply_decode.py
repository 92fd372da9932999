"""Gemini generateContent: replies and streams -> tracker.

Every part of every event is a new part. Parallel calls come one event each, complete, and often without an
id. Adjacent text parts are one text, unless a signature marks the end of one. Vertex can stream a call's
arguments as paths and values.
"""

import re
from functools import lru_cache
from typing import Any, cast

from toolglot.values.losses import Loss
from toolglot.values.messages import Foreign, Media, Usage
from toolglot.wire.json_values import (
    Doc,
    as_dict,
    as_int,
    as_text,
    join_surrogates,
    skip_empty,
    unknown_fields,
)
from toolglot.wire.media import media_kind
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import ReplyDecoder
from toolglot.wire.spec import GEMINI
from toolglot.wire.stop_reasons import decode_stop_reason
from toolglot.wire.tracker import ToolCallTracker

SIGNED_NAME = "signed_name"
"""Opaque field of a call: the name that its signature was made for, unless any tool could have it."""
PLAIN_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_CANDIDATE_FIELDS = (
    "groundingMetadata",
    "citationMetadata",
    "urlContextMetadata",
    "continuationToken",
    "finishMessage",
)


class GeminiReplyDecoder(ReplyDecoder):
    """Events of a stream, or a whole body."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        super().__init__(tracker)
        self._block_count = 0
        self._open_kind = ""  # kind of the block that the next part may continue: text, thinking, call
        self._arguments: Doc = {}  # of the open call
        self._has_partial_arguments = False
        self._calls: list[Doc] = []
        self._has_repeated_calls = False
        self._has_other_candidates = False
        self._has_identity = False  # id and model are known
        self._usage: Doc | None = None

    def read_frame(self, doc: Doc, event: str) -> None:
        if doc.get("error"):
            raise error_from_body(doc)
        if not self._has_identity:
            id = as_text(doc.get("responseId"))  # either may be missing
            model = as_text(doc.get("modelVersion"))
            self._has_identity = bool(id and model)
            self._tracker.begin(id, model)
        if candidates := doc.get("candidates"):
            self._read_candidate(candidates[0] or {})
            if len(candidates) > 1:  # only if candidateCount was requested
                self._has_other_candidates = True
        if (feedback := doc.get("promptFeedback")) and feedback.get("blockReason"):  # no candidates then
            self.is_complete = True
            self._tracker.stop_reason = "filtered"
            self._tracker.merge_message_opaque({"promptFeedback": feedback})
        if usage := doc.get("usageMetadata"):  # in every event; the last one counts
            self._usage = usage

    def read_body(self, doc: Doc, event: str) -> None:
        self.read_frame(doc, event)
        # A body without candidates is legal if the prompt was blocked.
        self.is_complete = any(key in doc for key in ("candidates", "promptFeedback", "usageMetadata"))

    def finish(self) -> None:
        self._close_block()
        if usage := self._usage:
            thoughts = as_int(usage.get("thoughtsTokenCount"))
            self._tracker.usage = Usage(
                input=as_int(usage.get("promptTokenCount")) + as_int(usage.get("toolUsePromptTokenCount")),
                output=as_int(usage.get("candidatesTokenCount")) + thoughts,  # which excludes the thoughts
                cached=as_int(usage.get("cachedContentTokenCount")),
                reasoning=thoughts,
            )
        if self._has_other_candidates:
            self._tracker.losses.append(Loss("candidates", "reply", "only the first candidate is read"))
        if self._has_repeated_calls:
            self._tracker.losses.append(
                Loss("tool call", "reply", "it came again after the end of the reply")
            )

    def _read_candidate(self, candidate: Doc) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if content else None
        for part in skip_empty(parts or ()):
            if len(part) == 1 and "text" in part and self._open_kind == "text":  # nearly every part
                if text := part["text"]:
                    self._tracker.add_text(self._block_count, text)
            else:
                self.read_part(part)
        if len(candidate) > ("content" in candidate) + ("index" in candidate):
            self._read_end(candidate)

    def _read_end(self, candidate: Doc) -> None:
        """Read why the model has stopped, and what comes beside the content."""
        if reason := candidate.get("finishReason"):
            # A word that nobody knows is an error, unless there are calls: aimock ends them with
            # FUNCTION_CALL.
            self._tracker.stop_reason = decode_stop_reason(reason) or ("tools" if self._calls else "error")
            self.is_complete = True
        for field in _CANDIDATE_FIELDS:
            if value := candidate.get(field):
                self._tracker.merge_message_opaque({field: value})

    def read_part(self, part: Doc) -> None:
        """Read one part, of a reply or of a message in the history."""
        tracker = self._tracker
        if (call := part.get("functionCall")) is not None:
            state = unknown_fields(part, ("functionCall",)) if len(part) > 1 else None
            self._read_call(call, state)
        elif "text" in part:
            kind = "thinking" if part.get("thought") else "text"
            if kind != self._open_kind:
                self._begin_block(kind)
            if text := part["text"]:
                add = tracker.add_thinking if kind == "thinking" else tracker.add_text
                add(self._block_count, text)
            # A signature belongs to exactly this part: parts with and without one must not be merged.
            if state := unknown_fields(part, ("text", "thought")):
                state = {key: value for key, value in state.items() if value is not None}
                tracker.merge_opaque(self._block_count, kind, state)
                self._close_block()
        elif (media := part.get("inlineData") or part.get("fileData")) is not None:
            self._begin_block("block")
            state = unknown_fields(part, ("inlineData", "fileData"))
            tracker.set_block(self._block_count, decode_media(media, state))
        else:  # executableCode, toolCall …: run by the provider, sent back unchanged
            self._begin_block("block")
            tracker.set_block(self._block_count, Foreign(GEMINI, part))

    def _read_call(self, call: Doc, state: Doc | None) -> None:
        # More can follow a finishReason (recorded), but a stream that a proxy replays must not run its calls
        # twice.
        if self.is_complete and self._is_repeated(call):
            self._has_repeated_calls = True
            return
        if self._open_kind != "call":
            self._begin_block("call")
            self._calls.append(call)
            self._arguments = dict(as_dict(call.get("args")))  # a copy: partial arguments are added to it
        if pieces := call.get("partialArgs"):
            self._has_partial_arguments = True
            for piece in skip_empty(pieces):
                add_partial_argument(self._arguments, piece)
        if state is None and "name" not in call and call.get("willContinue"):
            return  # only more arguments
        fields = unknown_fields(call, ("name", "args", "partialArgs", "willContinue")) or {}
        name = as_text(call.get("name"))
        if state and state.get("thoughtSignature") and not PLAIN_NAME.fullmatch(name):
            fields[SIGNED_NAME] = name
        self._tracker.merge_opaque(self._block_count, "call", {**(state or {}), **fields})
        self._tracker.update_call(self._block_count, call.get("id"), call.get("name"))
        if not call.get("willContinue"):
            self._close_block()

    def _is_repeated(self, call: Doc) -> bool:
        """Return whether the reply already has a call: the same, or one with its id."""
        if call in self._calls:
            return True
        id = call.get("id")
        return bool(id) and any(id == known.get("id") for known in self._calls)

    def _begin_block(self, kind: str) -> None:
        self._close_block()
        self._block_count += 1
        self._open_kind = kind

    def _close_block(self) -> None:
        if self._open_kind == "call":
            arguments = self._arguments
            if self._has_partial_arguments:
                arguments = join_partial_arguments(arguments)
                self._has_partial_arguments = False
            self._tracker.update_call(self._block_count, value=arguments)
        if self._open_kind:
            self._tracker.close(self._block_count)
        self._open_kind = ""


_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]")
_PATH = re.compile(rf"\$(?:{_PATH_STEP.pattern})*")


class _TextPieces(list[str]):
    """A string that comes in pieces; joined once, at the end."""


@lru_cache(maxsize=64)  # all pieces of one string have the same path
def parse_path(path: str) -> tuple[Any, ...]:
    """Split a JSONPath such as `$.a[0]['b']` into its keys and indexes. Raises KeyError."""
    if not _PATH.fullmatch(path):
        raise KeyError(path)
    steps: list[Any] = []
    for name, index, quoted in _PATH_STEP.findall(path):
        if index:
            steps.append(int(index))
        else:
            steps.append(name or quoted)
    return tuple(steps)


def add_partial_argument(node: Any, piece: Doc) -> None:
    """Add one piece of `partialArgs`: {"jsonPath": "$.a[0].b", "stringValue": …}.

    Strings at one path are joined.

    Until `join_partial_arguments`, arrays are kept as {0: …, 1: …} and strings as their pieces.
    """
    steps = parse_path(piece["jsonPath"])
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
    """Convert what `add_partial_argument` made to JSON."""
    if isinstance(value, _TextPieces):
        return join_surrogates("".join(value))
    if not isinstance(value, dict):
        return value
    fields = cast(dict[Any, Any], value)
    if fields and all(isinstance(key, int) for key in fields):
        return [join_partial_arguments(fields[key]) for key in sorted(fields)]
    return {key: join_partial_arguments(item) for key, item in fields.items()}


def decode_media(source: Doc, state: Doc | None) -> Media:
    """Decode inlineData or fileData."""
    media_type = as_text(source.get("mimeType"))
    opaque = dict(state or {})
    extra = unknown_fields(source, ("mimeType", "data", "fileUri", "displayName"))
    if extra:
        opaque["source"] = extra
    data = source.get("data")
    if isinstance(data, str):  # google-genai writes the URL-safe alphabet of base64
        data = data.replace("-", "+").replace("_", "/")
    name = as_text(source.get("displayName"))
    return Media(
        media_kind(media_type), media_type, data, source.get("fileUri"), name=name, opaque=opaque or None
    )
