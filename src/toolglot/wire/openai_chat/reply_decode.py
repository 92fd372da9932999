"""Chat Completions: replies and streams -> tracker.

Tolerance of the many compatible servers is always on: index, id, name and finish reason may each be missing,
repeated or wrong; `arguments` may be text, an object, "" or null; reasoning comes under four names. Only
choice 0 counts.
"""

from collections.abc import Collection, Hashable
from typing import Any, TypeGuard, cast

from toolglot.common.jsontext import dumps_text
from toolglot.values.losses import Loss
from toolglot.values.messages import Foreign, Media
from toolglot.wire.cache_marks import read_mark
from toolglot.wire.json_values import (
    Doc,
    as_dict,
    as_text,
    iter_dicts,
    join_surrogates,
    require_list,
    skip_empty,
    unknown_fields,
)
from toolglot.wire.openai_common import decode_usage
from toolglot.wire.provider_errors import error_from_body
from toolglot.wire.reader import ReplyDecoder
from toolglot.wire.spec import OPENAI_CHAT
from toolglot.wire.stop_reasons import decode_stop_reason
from toolglot.wire.tracker import ToolCallTracker, make_call

# Fields of a message or delta that are decoded, or that carry no information. Any other is kept and sent
# back.
_DECODED_FIELDS = {"role", "content", "tool_calls", "function_call", "refusal"}
_IGNORED_FIELDS = {
    "padding",
    "obfuscation",
    "index",
    "name",
    "prefix",
    "token_ids",
    "stop_reason",
    "content_filter_results",
}
# In this order: DeepSeek, llama.cpp and older vLLM; OpenRouter, Groq and newer vLLM; Copilot; Ollama's name
# for it.
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
_CALL_FIELDS = {"id", "type", "function", "custom", "index"}
_JOINED_DETAILS = ("text", "summary", "data")
_JOINED_AUDIO = ("data", "transcript")
_KNOWN_FIELDS = {*_DECODED_FIELDS, *_IGNORED_FIELDS, *REASONING_FIELDS}


class ChatReplyDecoder(ReplyDecoder):
    """Frames of a stream, or a whole body."""

    def __init__(self, tracker: ToolCallTracker) -> None:
        super().__init__(tracker)
        self._has_choices = False
        self._has_other_choices = False
        self._has_identity = False  # id and model are known
        self._usage: Doc | None = None
        self._details: list[Fragments] = []  # OpenRouter's reasoning_details
        self._audio = Fragments()
        self._reasoning_field = ""  # the name under which reasoning came first
        self._lists: dict[str, list[Any]] = {}  # fields of the message that grow: annotations, citations
        self._block_count = 0  # blocks received whole
        self._text_slot: Hashable = "content"
        self._call_index: object = None  # of the most recent call
        self._call_slot: Hashable = None

    def read_frame(self, doc: Doc, event: str) -> None:
        if error := doc.get("error"):
            body = error if "error" in as_dict(error) else doc  # an error may be nested twice
            raise error_from_body(body)
        if event == "error":
            raise error_from_body(doc)
        if not self._has_identity:
            id = as_text(doc.get("id"))
            model = as_text(doc.get("model"))
            self._has_identity = bool(id and model)  # the first chunk of Azure has neither
            self._tracker.begin(id, model)
        choices = doc.get("choices")
        if choices is not None:  # null in chunks of Copilot, [] in those with usage or filter results
            self._has_choices = True
            for choice in skip_empty(choices):
                if choice.get("index"):
                    self._has_other_choices = True
                else:
                    self._read_choice(choice)
        if usage := doc.get("usage"):
            self._usage = usage
        elif "x_groq" in doc:
            extension = as_dict(doc["x_groq"])
            if error := extension.get("error"):
                raise error_from_body({"error": error})
            self._usage = as_dict(extension.get("usage")) or self._usage

    def read_body(self, doc: Doc, event: str) -> None:
        self.read_frame(doc, event)
        self.is_complete = True

    def read_done(self) -> None:
        self.is_complete = self.is_over = True

    def finish(self) -> None:
        if self.is_complete and not self._has_choices:
            raise error_from_body({"error": "the reply has no choices"})
        tracker = self._tracker
        if usage := self._usage:
            tracker.usage = decode_usage(usage, "prompt", "completion")
        details = [detail.join() for detail in self._details]
        fields = {"reasoning_details": details, **self._lists, "audio": self._audio.join()}
        state = {field: value for field, value in fields.items() if value}
        if state:
            tracker.merge_message_opaque(state)
        # there is no finish reason for it
        if tracker.has_slot("refusal") and tracker.stop_reason in (None, "end"):
            tracker.stop_reason = "refusal"
        if self._has_other_choices:
            tracker.losses.append(Loss("choices", "reply", "only choice 0 of n > 1 is read"))

    def _read_choice(self, choice: Doc) -> None:
        if delta := choice.get("delta"):
            calls = delta.get("tool_calls") if len(delta) == 1 else None
            if isinstance(calls, list):
                for call in skip_empty(calls):
                    self._read_call_delta(call)
            else:
                self.read_message(delta)
        elif message := choice.get("message"):
            self.read_message(message, whole=True)
        if reason := choice.get("finish_reason"):
            self._tracker.stop_reason = decode_stop_reason(reason) or "end"
            self.is_complete = True

    def read_message(self, message: Doc, *, whole: bool = False) -> None:
        """Read a message or a piece of one, of a reply or of the history."""
        tracker = self._tracker
        only_content = len(message) == 1 and "content" in message
        if not only_content:
            self._read_reasoning(message)
        if content := message.get("content"):
            if isinstance(content, str):
                tracker.add_text("content", content)
            else:
                self._read_parts(content)
        if not only_content:
            self._read_other_fields(message, whole)

    def _read_reasoning(self, message: Doc) -> None:
        """Read the text of the reasoning under the name that it had first: the same text may come under two
        names.
        """
        tracker = self._tracker
        for field in REASONING_FIELDS:
            text = message.get(field)
            if not text or not isinstance(text, str):
                continue
            if not tracker.has_slot("reasoning"):
                self._reasoning_field = field
                tracker.merge_opaque("reasoning", "thinking", {"field": field})
            if self._reasoning_field == field:
                tracker.add_thinking("reasoning", text)

    def _read_other_fields(self, message: Doc, whole: bool) -> None:
        tracker = self._tracker
        for number, call in enumerate(skip_empty(require_list(message.get("tool_calls")))):
            slot = ("call", number) if whole else None
            self._read_call(call, slot)
        if legacy := message.get("function_call"):
            self._read_legacy_call(legacy.get("name"), legacy.get("arguments"))
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            tracker.merge_opaque("refusal", "text", {"refusal": True})
            tracker.add_text("refusal", refusal)
        for field, value in message.items():
            if not value or field in _KNOWN_FIELDS:
                continue
            if field == "reasoning_details":
                for detail in iter_dicts(value):
                    self._read_detail(detail)
            elif field == "images":  # OpenRouter's generated images
                for image in iter_dicts(value):
                    self._add_whole_block(_decode_image(image))
            elif isinstance(value, list):  # annotations and citations come in several deltas
                self._lists.setdefault(field, []).extend(cast(list[Any], value))
            elif field == "audio":
                self._audio.add(as_dict(value), _JOINED_AUDIO)
            else:
                tracker.merge_message_opaque({field: value})

    def _read_legacy_call(self, name: Any, arguments: Any) -> None:
        """Read the call of a `function_call`. It is sent back in the new form: this one is deprecated."""
        if name or arguments:
            self._tracker.merge_opaque(("call", "legacy"), "call", {"legacy": True})
            self._tracker.update_call(("call", "legacy"), None, name, arguments)

    def _read_detail(self, detail: Doc) -> None:
        """Join details by type and index, unless their ids differ; the last signature wins."""
        if not self._details or not _continues(detail, self._details[-1].fields):
            self._details.append(Fragments())
        self._details[-1].add(detail, _JOINED_DETAILS)

    def _read_call_delta(self, call: Doc) -> None:
        # Nearly always a fragment of the arguments of the call before.
        if len(call) == 2 and call.get("index", self) == self._call_index:
            function: Doc = call.get("function") or {}
            text = function.get("arguments") if len(function) == 1 else None
            if isinstance(text, str):
                if text:
                    self._tracker.add_arguments(self._call_slot, text)
                return
        self._read_call(call, None)

    def _read_call(self, call: Doc, slot: Hashable | None) -> None:
        body = as_dict(call.get("function") or call.get("custom"))
        id = call.get("id")
        name = body.get("name")
        is_whole = slot is not None
        if slot is None:
            slot = self._tracker.find_call_slot(call.get("index"), id, name)
            self._call_index = call.get("index")
            self._call_slot = slot
        is_freeform = not call.get("function") and "custom" in call
        extra = unknown_fields(call, _CALL_FIELDS)
        value = body.get("input") if is_freeform else body.get("arguments")
        if is_whole and _is_word(id) and _is_word(name):
            self._tracker.set_block(slot, make_call(id, name, value, freeform=is_freeform, opaque=extra))
            return
        if extra:
            self._tracker.merge_opaque(slot, "call", extra)
        self._tracker.update_call(slot, id, name, value, freeform=is_freeform)

    def _read_parts(self, content: Any) -> None:
        """Read content that is a list of parts (Mistral) or a JSON value (Cloudflare)."""
        if not isinstance(content, list):
            self._tracker.add_text("content", dumps_text(content))
            return
        for part in iter_dicts(content):  # pyright: ignore[reportUnknownArgumentType]
            match part.get("type"):
                case "text" if read_mark(part):  # of a history: the mark ends a block
                    self._block_count += 1
                    slot = ("marked", self._block_count)
                    self._tracker.merge_opaque(slot, "text", unknown_fields(part, ("type", "text")) or {})
                    self._tracker.add_text(slot, part.get("text"))
                    self._text_slot = ("content", self._block_count)
                case "text":
                    self._tracker.add_text(self._text_slot, part.get("text"))
                case "thinking":  # Mistral
                    self._reasoning_field = "thinking_part"
                    state = {
                        "field": self._reasoning_field,
                        **(unknown_fields(part, ("type", "thinking")) or {}),
                    }
                    self._tracker.merge_opaque("reasoning", "thinking", state)
                    self._tracker.add_thinking("reasoning", _join_thoughts(part.get("thinking")))
                case _:
                    self._add_whole_block(Foreign(OPENAI_CHAT, part))

    def _add_whole_block(self, block: Media | Foreign) -> None:
        self._block_count += 1
        self._tracker.set_block(("whole", self._block_count), block)


def _is_word(value: object) -> TypeGuard[str]:
    """Return whether an id or a name is there."""
    return isinstance(value, str) and value != ""


def _continues(detail: Doc, last: Doc) -> bool:
    """Return whether a detail of the reasoning is the next fragment of the last one."""
    if detail.get("type") != last.get("type") or detail.get("index") != last.get("index"):
        return False
    return detail.get("id") in (None, last.get("id"))


def _join_thoughts(thoughts: Any) -> str:
    """Return the text of Mistral's reasoning, which is a string, or parts that have texts."""
    if isinstance(thoughts, str):
        return thoughts
    return "".join(as_text(part.get("text")) for part in iter_dicts(thoughts))


def _decode_image(image: Doc) -> Media | Foreign:
    url = as_dict(image.get("image_url")).get("url")
    if not isinstance(url, str):
        return Foreign(OPENAI_CHAT, image)
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma:
        return Media("image", head[5:].removesuffix(";base64"), data)
    return Media("image", url=url)


class Fragments:
    """An object that comes in fragments: texts of some fields are joined, any other value replaces the one
    before.
    """

    def __init__(self) -> None:
        self.fields: Doc = {}
        self._pieces: dict[str, list[str]] = {}  # of the texts that are joined

    def add(self, fragment: Doc, joined: Collection[str]) -> None:
        """Add a fragment."""
        for key, value in fragment.items():
            if key in joined and isinstance(value, str):
                self._pieces.setdefault(key, []).append(value)
                self.fields.setdefault(key, "")
            elif value is not None or key not in self.fields:
                self.fields[key] = value

    def join(self) -> Doc:
        """Return the whole object."""
        return {
            **self.fields,
            **{key: join_surrogates("".join(pieces)) for key, pieces in self._pieces.items()},
        }
