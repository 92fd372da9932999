"""Chat Completions: replies and streams <-> tracker.

Tolerance of the many compatible servers is always on: an index, an id, a name, a finish reason may each be missing, repeated or
wrong; `arguments` may be text, an object, "" or null; reasoning comes under five names. Choice 0 counts.
"""

from collections.abc import Hashable
from typing import Any, cast

from toolglot.jsontext import dumps_text
from toolglot.losses import Loss
from toolglot.messages import Foreign, Media, Stop, Usage
from toolglot.wire.failures import failure
from toolglot.wire.shapes import Doc, as_dict, as_int, as_list, as_text, dicts, rest
from toolglot.wire.tracker import ToolCallTracker

__all__ = ["WIRE", "ChatDecoder"]

WIRE = "openai-chat"

STOPS: dict[str, Stop] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tools",
    "function_call": "tools",
    "content_filter": "filtered",
    "model_length": "length",  # Mistral
    "insufficient_system_resource": "error",  # DeepSeek
    "error": "error",  # OpenRouter, Mistral
}
# Fields of a message or delta that are read here. Anything else that says something is kept for the way back.
_READ = {"role", "content", "tool_calls", "function_call", "refusal"}
_PADDING = {"padding", "obfuscation", "index", "name", "prefix", "token_ids", "stop_reason", "content_filter_results"}
REASONING = ("reasoning_content", "reasoning", "reasoning_text", "thinking")


class ChatDecoder:
    """Frames of a stream, or a whole body, to the tracker."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        self._tracker = tracker
        self._has_choices = False
        self._others = False
        self._known = False  # id and model
        self._usage: Doc | None = None
        self._details = Details()
        self._lists: dict[str, list[Any]] = {}  # fields of the message that grow: annotations, citations
        self._count = 0  # of blocks that came whole
        self._place: object = None  # the index of the call that came last
        self._slot: Hashable = None
        self._audio: dict[str, list[str]] = {}
        self.complete = False

    def frame(self, doc: Doc, event: str) -> None:
        if "error" in doc and (error := doc["error"]):
            raise failure(error if "error" in as_dict(error) else doc)
        if event == "error":
            raise failure(doc)
        if not self._known:
            id, model = as_text(doc.get("id")), as_text(doc.get("model"))
            self._known = bool(id and model)
            self._tracker.begin(id, model)
        choices = doc.get("choices")
        if choices is not None:
            self._has_choices = True
            for choice in choices:
                if choice.get("index"):
                    self._others = True
                else:
                    self._choice(choice)
        if usage := doc.get("usage"):
            self._usage = usage
        elif "x_groq" in doc:
            self._groq(as_dict(doc["x_groq"]))

    def body(self, doc: Doc, event: str) -> None:
        self.frame(doc, event)
        self.complete = True

    def done(self) -> None:
        self.complete = True

    def end(self) -> None:
        if self.complete and not self._has_choices:
            raise failure({"error": "the answer holds no choices"})
        tracker = self._tracker
        if self._usage:
            tracker.used(usage_of(self._usage))
        if state := {**self._details.fields(), **self._lists}:
            tracker.note_message(state)
        if self._audio:
            sound = {key: "".join(pieces) for key, pieces in self._audio.items()}
            tracker.note_message({"audio": {**as_dict(as_dict(tracker.opaque).get("audio")), **sound}})
        if tracker.has("refusal") and tracker.reason in (None, "end"):
            tracker.stop("refusal")
        if self._others:
            tracker.losses.append(Loss("choices", "reply", "only choice 0 of n > 1 is read"))

    def _groq(self, own: Doc) -> None:
        if error := own.get("error"):
            raise failure({"error": error})
        self._usage = as_dict(own.get("usage")) or self._usage

    def _choice(self, choice: Doc) -> None:
        if delta := choice.get("delta"):
            if len(delta) == 1 and "tool_calls" in delta and isinstance(calls := delta["tool_calls"], list):
                for call in cast(list[Doc], calls):
                    self._piece(call)
            else:
                self.message(delta)
        elif message := choice.get("message"):
            self.message(message, whole=True)
        if reason := choice.get("finish_reason"):
            self.complete = True
            self._tracker.stop(STOPS.get(reason, "end"))

    def message(self, message: Doc, *, whole: bool = False) -> None:
        """A message, or a piece of one: of a reply, or of the history."""
        only_content = len(message) == 1 and "content" in message
        if not only_content:
            self._thoughts(message)
        if content := message.get("content"):
            if isinstance(content, str):
                self._tracker.text("content", content)
            else:
                self._parts(content)
        if not only_content:
            self._more(message, whole)

    def _thoughts(self, message: Doc) -> None:
        """Reasoning, under one of its names: some servers send one text under two."""
        for field in REASONING:
            if (text := message.get(field)) and isinstance(text, str):
                if not self._tracker.has("reasoning"):
                    self._field = field
                    self._tracker.note("reasoning", "thinking", {"field": field})
                if self._field == field:
                    self._tracker.thinking("reasoning", text)

    def _more(self, message: Doc, whole: bool) -> None:
        tracker = self._tracker
        for number, call in enumerate(as_list(message.get("tool_calls"))):
            self._call(call, ("call", number) if whole else None)
        if (legacy := message.get("function_call")) and (legacy.get("name") or legacy.get("arguments")):
            tracker.note(("call", "legacy"), "call", {"legacy": True})
            tracker.call(("call", "legacy"), None, legacy.get("name"), legacy.get("arguments"))
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            tracker.note("refusal", "text", {"refusal": True})
            tracker.text("refusal", refusal)
        for field, value in message.items():
            if value and field not in _READ and field not in _PADDING and field not in REASONING:
                self._extra(field, value)

    def _piece(self, call: Doc) -> None:
        """More of a call: nearly always a fragment of the arguments of the call before."""
        if len(call) == 2 and call.get("index", self) == self._place and len(function := call.get("function") or ()) == 1:
            text = cast(Doc, function).get("arguments")
            if isinstance(text, str):
                if text:
                    self._tracker.arguments(self._slot, text)
                return
        self._call(call, None)

    def _call(self, call: Doc, slot: Hashable | None) -> None:
        body = as_dict(call.get("function") or call.get("custom"))
        id, name = call.get("id"), body.get("name")
        if slot is None:
            slot = self._tracker.call_slot(call.get("index"), id, name)
            self._place, self._slot = call.get("index"), slot
        freeform = not call.get("function") and "custom" in call
        if extra := rest(call, ("id", "type", "function", "custom", "index")):
            self._tracker.note(slot, "call", extra)
        self._tracker.call(slot, id, name, body.get("input" if freeform else "arguments"), freeform=freeform)

    def _parts(self, content: Any) -> None:
        """Content as parts (Mistral), or as a JSON value (Cloudflare)."""
        if not isinstance(content, list):
            self._tracker.text("content", dumps_text(content))
            return
        for part in dicts(content):  # pyright: ignore[reportUnknownArgumentType]
            match part.get("type"):
                case "text":
                    self._tracker.text("content", part["text"])
                case "thinking":  # Mistral
                    self._field = "thinking_part"
                    self._tracker.note(
                        "reasoning", "thinking", {"field": self._field, **(rest(part, ("type", "thinking")) or {})}
                    )
                    thoughts = part.get("thinking")
                    texts = [thoughts] if isinstance(thoughts, str) else [as_text(t.get("text")) for t in dicts(thoughts)]
                    self._tracker.thinking("reasoning", "".join(texts))
                case _:
                    self._whole(Foreign(WIRE, part))

    def _whole(self, block: Media | Foreign) -> None:
        self._count += 1
        self._tracker.block(("whole", self._count), block)

    def _extra(self, field: str, value: Any) -> None:
        if field == "reasoning_details":
            self._details.add(value)
        elif field == "images":  # OpenRouter's generated images
            for image in dicts(value):
                self._whole(_image(image))
        elif isinstance(value, list):
            self._lists.setdefault(field, []).extend(cast(list[Any], value))
        elif field == "audio":
            for key, item in as_dict(value).items():
                if isinstance(item, str) and key != "id":
                    self._audio.setdefault(key, []).append(item)
                else:
                    self._tracker.note_message({field: {**as_dict(as_dict(self._tracker.opaque).get(field)), key: item}})
        else:
            self._tracker.note_message({field: value})


def _image(image: Doc) -> Media | Foreign:
    url = as_dict(image.get("image_url")).get("url")
    if not isinstance(url, str):
        return Foreign(WIRE, image)
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma:
        return Media("image", head[5:].removesuffix(";base64"), data)
    return Media("image", url=url)


class Details:
    """OpenRouter's reasoning_details, which come in fragments: joined by type and index, the last signature wins."""

    _JOINED = ("text", "summary", "data")

    def __init__(self) -> None:
        self._items: list[tuple[Doc, dict[str, list[str]]]] = []  # each with the pieces of its texts

    def add(self, details: Any) -> None:
        """More fragments."""
        for detail in dicts(details):
            if not (self._items and self._goes_on(self._items[-1][0], detail)):
                self._items.append(({}, {}))
            item, pieces = self._items[-1]
            for key, value in detail.items():
                if key in self._JOINED and isinstance(value, str):
                    pieces.setdefault(key, []).append(value)
                    item.setdefault(key, "")
                elif value is not None or key not in item:
                    item[key] = value

    def _goes_on(self, item: Doc, detail: Doc) -> bool:
        same = all(item.get(key) == detail.get(key) for key in ("type", "index"))
        return same and detail.get("id") in (None, item.get("id"))

    def fields(self) -> Doc:
        """The field of the message, where there is one."""
        whole = [{**item, **{key: "".join(texts) for key, texts in pieces.items()}} for item, pieces in self._items]
        return {"reasoning_details": whole} if whole else {}


def usage_of(usage: Doc) -> Usage:
    """Also DeepSeek's and Groq's names."""
    prompt, completion = as_dict(usage.get("prompt_tokens_details")), as_dict(usage.get("completion_tokens_details"))
    return Usage(
        input=as_int(usage.get("prompt_tokens")),
        output=as_int(usage.get("completion_tokens")),
        cached=as_int(prompt.get("cached_tokens")) or as_int(usage.get("prompt_cache_hit_tokens")),
        cache_write=as_int(prompt.get("cache_write_tokens")),
        reasoning=as_int(completion.get("reasoning_tokens")),
    )
