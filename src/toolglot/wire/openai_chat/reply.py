"""Chat Completions: replies and streams <-> tracker.

Tolerance of the many compatible servers is always on: an index, an id, a name, a finish reason may each be missing, repeated or
wrong; `arguments` may be text, an object, "" or null; reasoning comes under five names. Choice 0 counts.
"""

from collections.abc import Hashable
from typing import Any

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
        self.complete = False

    def frame(self, doc: Doc, event: str) -> None:
        if error := doc.get("error"):
            raise failure(error if isinstance(error, dict) and "error" in error else doc)
        if event == "error":
            raise failure(doc)
        tracker = self._tracker
        if not self._has_choices:
            tracker.begin(as_text(doc.get("id")), as_text(doc.get("model")))
        choices = doc.get("choices")
        if choices is not None:
            self._has_choices = True
            for choice in choices:
                if choice.get("index"):
                    self._others = True
                else:
                    self._choice(choice)
        if usage := doc.get("usage") or as_dict(doc.get("x_groq")).get("usage"):
            tracker.used(usage_of(usage))

    def body(self, doc: Doc, event: str) -> None:
        self.frame(doc, event)
        self.complete = True

    def done(self) -> None:
        self.complete = True

    def end(self) -> None:
        if not self._has_choices:
            if not self.complete:
                return
            raise failure({"error": "the answer holds no choices"})
        if self._others:
            self._tracker.losses.append(Loss("choices", "reply", "only choice 0 of n > 1 is read"))

    def _choice(self, choice: Doc) -> None:
        tracker = self._tracker
        if delta := choice.get("delta"):
            self.message(delta)
        elif message := choice.get("message"):
            self.message(message, whole=True)
        if reason := choice.get("finish_reason"):
            self.complete = True
            tracker.stop(STOPS.get(reason, "end"))

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
        tracker = self._tracker
        for field in REASONING:
            if (text := message.get(field)) and isinstance(text, str):
                if not tracker.has("reasoning"):
                    tracker.note("reasoning", "thinking", {"field": field})
                if tracker.noted("reasoning").get("field") == field:  # some send one text under two names
                    tracker.thinking("reasoning", text)

    def _more(self, message: Doc, whole: bool) -> None:
        tracker = self._tracker
        for number, call in enumerate(as_list(message.get("tool_calls"))):
            self._call(call, ("call", number) if whole else None)
        if (legacy := message.get("function_call")) and (legacy.get("name") or legacy.get("arguments")):
            tracker.call(("call", "legacy"), None, legacy.get("name"), legacy.get("arguments"))
            tracker.note(("call", "legacy"), "call", {"legacy": True})
        if refusal := message.get("refusal"):
            if isinstance(refusal, str):
                tracker.text("refusal", refusal)
                tracker.note("refusal", "text", {"refusal": True})
                tracker.stop("refusal")
        for field, value in message.items():
            if value and field not in _READ and field not in _PADDING and field not in REASONING:
                self._extra(field, value)

    def _call(self, call: Doc, slot: Hashable | None) -> None:
        body = as_dict(call.get("function") or call.get("custom"))
        id, name = call.get("id"), body.get("name")
        if slot is None:
            slot = self._tracker.call_slot(call.get("index"), id, name)
        freeform = not call.get("function") and "custom" in call
        self._tracker.call(slot, id, name, body.get("input" if freeform else "arguments"), freeform=freeform)
        if extra := rest(call, ("id", "type", "function", "custom", "index")):
            self._tracker.note(slot, "call", extra)

    def _parts(self, content: Any) -> None:
        """Content as parts (Mistral), or as a JSON value (Cloudflare)."""
        tracker = self._tracker
        if not isinstance(content, list):
            tracker.text("content", dumps_text(content))
            return
        for part in dicts(content):  # pyright: ignore[reportUnknownArgumentType]
            match part.get("type"):
                case "text":
                    tracker.text("content", part["text"])
                case "thinking":  # Mistral
                    tracker.note("reasoning", "thinking", {"field": "thinking_part"})
                    thoughts = part.get("thinking")
                    for thought in [thoughts] if isinstance(thoughts, str) else [t.get("text", "") for t in dicts(thoughts)]:
                        tracker.thinking("reasoning", thought)
                case _:
                    tracker.block(("part", len(tracker.events), id(part)), Foreign(WIRE, part))

    def _extra(self, field: str, value: Any) -> None:
        tracker = self._tracker
        if field == "reasoning_details":
            merged = merge_details(as_list(as_dict(tracker.opaque).get(field)), as_list(value))
            tracker.note_message({field: merged})
        elif field == "images":  # OpenRouter's generated images
            for number, image in enumerate(dicts(value)):
                tracker.block(("image", field, number), _image(image))
        elif field == "audio":
            tracker.note_message({field: {**as_dict(as_dict(tracker.opaque).get(field)), **as_dict(value)}})
        elif isinstance(value, list) and isinstance(before := as_dict(tracker.opaque).get(field), list):
            tracker.note_message({field: [*before, *value]})
        else:
            tracker.note_message({field: value})


def _image(image: Doc) -> Media | Foreign:
    url = as_dict(image.get("image_url")).get("url")
    if not isinstance(url, str):
        return Foreign(WIRE, image)
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma:
        return Media("image", head[5:].removesuffix(";base64"), data)
    return Media("image", url=url)


def merge_details(have: list[Any], more: list[Any]) -> list[Any]:
    """OpenRouter's reasoning_details come in fragments: joined by (type, index), the last signature wins."""
    merged = [dict(detail) for detail in dicts(have)]
    for detail in dicts(more):
        same = (detail.get("type"), detail.get("index"))
        last = merged[-1] if merged else {}
        if last and same == (last.get("type"), last.get("index")) and detail.get("id") in (None, last.get("id")):
            for key, value in detail.items():
                joins = key in ("text", "summary", "data") and isinstance(value, str)
                last[key] = as_text(last.get(key)) + value if joins else value if value is not None else last.get(key)
        else:
            merged.append(dict(detail))
    return merged


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
