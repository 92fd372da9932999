"""Anthropic Messages."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from toolglot.providers.profile import Profile
from toolglot.simulator.opaque_state import sign_state
from toolglot.simulator.wires.base import ErrorTable, Refusal, WireRules, declare_fields
from toolglot.values.request import ToolDefinition
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["Rules"]

_NATIVE_TYPES = ("text_editor_20250728", "bash_20250124", "memory_20250818")
# Fields that need a beta header.
_BETA_FIELDS = {
    *(
        "compaction",
        "context_management",
        "fallback_credit_token",
        "fallbacks",
        "mcp_servers",
        "output_format",
        "thread",
    )
}
# The first API version that refuses sampling parameters for every model.
_NO_SAMPLING_VERSION = "2026-10-21"
# Models that accept instructions between turns.
_MID_SYSTEM_MODELS = re.compile(r"claude-((fable|mythos)-5|opus-(4-8|5)|sonnet-5|haiku-5-5)")
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")


class _Turn(msgspec.Struct):
    """Neighbouring messages of one role; `index` is that of the last one."""

    index: int
    role: str
    blocks: list[Doc]

    def has(self, block_type: str) -> bool:
        return any(block.get("type") == block_type for block in self.blocks)


class Rules(WireRules):
    """What Messages refuses."""

    fields = declare_fields(
        string="model inference_geo service_tier speed user_profile_id workspace_id",
        array="messages tools stop_sequences",
        boolean="stream",
        object="tool_choice thinking output_config metadata cache_control diagnostics",
        integer="max_tokens top_k",
        number="temperature top_p",
        string_or_array="system",
        string_or_object="container",
    )
    required = ("model", "max_tokens", "messages")
    missing_key = "x-api-key header is required"
    stream_fault = "overloaded"
    error_event = "error"
    errors: ClassVar[ErrorTable] = {
        "invalid": (400, "invalid_request_error", ""),
        "no_key": (401, "authentication_error", ""),
        "auth": (401, "authentication_error", ""),
        "missing": (404, "not_found_error", ""),
        "method": (405, "invalid_request_error", ""),
        "large": (413, "request_too_large", ""),
        "too_long": (400, "invalid_request_error", ""),
        "rate": (429, "rate_limit_error", ""),
        "quota": (402, "billing_error", ""),
        "server": (500, "api_error", ""),
        "overloaded": (529, "overloaded_error", ""),
    }
    wordings: ClassVar[Mapping[str, str]] = {
        **WireRules.wordings,
        "fault quota": "Your credit balance is too low to access the API.",
        "fault server": "Internal server error",
        "fault overloaded": "Overloaded",
        "fault auth": "invalid x-api-key",
        "fault too_long": "prompt is too long: 210000 tokens > 200000 maximum",
        "unknown field": "{name}: Extra inputs are not permitted",
        "wrong type": "{name}: Input should be a valid {expected}",
        "missing field": "{name}: Field required",
        "missing field of messages": "messages: at least one message is required",
        "bad tool name": "tools.{name}.custom.name: String should match pattern '^{profile.limits.name}$'",
        "bad call id": "{name}.tool_use.id: String should match pattern '^{profile.limits.call_id}$'",
        "duplicate tool": "tools: Tool names must be unique.",
        "unknown choice": "Tool '{name}' not found in provided tools",
        "bad temperature": "temperature: range: 0..{profile.max_temperature:g}",
        "missing results": "{name}: `tool_use` ids were found without `tool_result` blocks immediately "
        "after: {ids}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        "orphan result": "{name}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {id}. "
        "Each `tool_result` "
        "block must have a corresponding `tool_use` block in the previous message.",
        "double result": "{name}.content: each tool_use must have a single result. Found multiple "
        "`tool_result` blocks with "
        "id: {id}",
        "missing thinking": "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but "
        "found `{name}`. When "
        "`thinking` is enabled, a final `assistant` message must start with a thinking block",
    }
    codes: ClassVar[Mapping[str, str]] = {}

    def vendor_fields(self) -> set[str]:
        return _BETA_FIELDS if self.headers.get("anthropic-beta") else set()

    def check_fields(self, *, has_model: bool) -> None:
        if not self.headers.get("anthropic-version"):
            raise Refusal("anthropic-version: header is required")
        super().check_fields(has_model=has_model)

    def check_body(self) -> None:
        doc, profile = self.doc, self.profile
        if doc.get("thread"):  # nothing is stored here: clients continue without
            raise Refusal("This request cannot be threaded.", code="thread_unsupported_request")
        sampling = [name for name in ("temperature", "top_p", "top_k") if doc.get(name) is not None]
        if sampling and self.headers["anthropic-version"] >= _NO_SAMPLING_VERSION:
            raise self.refuse("unknown field", sampling[0])
        if doc["max_tokens"] < 1:
            raise Refusal("max_tokens: Input should be greater than or equal to 1")
        if doc.get("tool_choice") and not doc.get("tools"):
            raise Refusal("tool_choice may only be specified while providing tools")
        if as_dict(doc.get("thinking")).get("type") == "enabled":
            self.check_thinking()
        effort = as_dict(doc.get("output_config")).get("effort")
        if effort is not None and effort not in profile.efforts:
            levels = ", ".join(profile.efforts)
            raise Refusal(f"This model does not support effort level '{effort}'. Supported levels: {levels}.")
        self.check_references()
        self.check_marks()

    def check_marks(self) -> None:
        """Check the marks for the prompt cache: their form, and how many there are."""
        for path, mark in self.iter_marks():
            type_name, ttl = as_dict(mark).get("type"), as_dict(mark).get("ttl")
            if type_name != "ephemeral":
                expected = "does not match any of the expected tags: 'ephemeral'"
                raise Refusal(f"{path}: Input tag '{type_name}' found using 'type' {expected}")
            if ttl is not None and ttl not in self.profile.cache_ttls:
                supported = " or ".join(map(repr, self.profile.cache_ttls))
                raise Refusal(f"{path}.ephemeral.ttl: Input should be {supported}")
        count = str(self.doc).count("'cache_control': {")
        limit = self.profile.limits.cache_marks
        if limit is not None and count > limit:
            raise Refusal(f"A maximum of {limit} blocks with cache_control may be provided. Found {count}.")

    def check_references(self) -> None:
        """A reference to a tool names a tool of the request.

        Its name may have 64 characters, though tools may have 128.
        """
        names = {as_text(tool.get("name")) for tool in self.list_tools()}
        pending: list[tuple[str, Any]] = [("messages", self.doc.get("messages"))]
        while pending:
            path, value = pending.pop()
            if isinstance(value, list):
                pending += [(f"{path}.{index}", item) for index, item in enumerate(as_list(value))]
                continue
            doc = as_dict(value)
            if doc.get("type") == "tool_reference":
                name = as_text(doc.get("tool_name") or doc.get("name"))
                if len(name) > 64:
                    raise Refusal(
                        f"{path}.tool_reference.tool_name: String should have at most 64 characters"
                    )
                if name not in names:
                    text = f"{path}: Tool reference '{name}' not found in available tools"
                    raise Refusal(text, code="tool_reference_unresolved")
            # Arguments of calls are not looked into: they may hold anything.
            pending += [
                (f"{path}.{key}", doc[key]) for key in ("content", "tool", "tool_references") if key in doc
            ]

    def list_tools(self) -> list[Doc]:
        """Return the tools of the request, and those that its messages define."""
        tools = list(iter_dicts(self.doc.get("tools")))
        for message in iter_dicts(self.doc.get("messages")):
            for block in iter_dicts(message.get("content")):
                if block.get("type") == "tool_addition":
                    tools.append(as_dict(as_dict(block.get("tool")).get("definition")))
        return tools

    def check_thinking(self) -> None:
        doc = self.doc
        budget = doc["thinking"].get("budget_tokens")
        if not self.profile.thinking_budget:
            raise Refusal(
                '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
            )
        if not isinstance(budget, int) or budget < 1024:
            raise Refusal("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= doc["max_tokens"]:
            raise Refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if as_dict(doc.get("tool_choice")).get("type") in ("any", "tool"):
            raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")
        if doc.get("temperature", 1) != 1:
            raise Refusal("`temperature` may only be set to 1 when thinking is enabled.")

    def check_schema(self, index: int, tool: ToolDefinition) -> None:
        path, schema = f"tools.{index}.custom.input_schema", tool.parameters
        if schema is None:
            if tool.kind == "function":
                raise self.refuse("missing field", path)
            return
        if schema.get("type") != "object":
            raise self.refuse("missing field", f"{path}.type")
        if any(key in schema for key in ("oneOf", "anyOf", "allOf")):
            raise Refusal(f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level")
        for key in as_dict(schema.get("properties")):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
                raise Refusal(
                    f"{path}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
                )

    def check_native_type(self, name: str) -> None:
        supported = self.profile.features.typed
        if name in _NATIVE_TYPES and name not in supported:
            hint = f" Did you mean one of {', '.join(sorted(supported))}?" if supported else ""
            raise Refusal(f"'{self.profile.model}' does not support tool types: {name}.{hint}")

    # -- history: results come first in the message after their calls, each exactly once; thinking comes back
    # unchanged

    def check_history(self) -> None:
        turns = self.merge_turns()
        if not turns:
            raise self.refuse("missing field", "messages")
        pending: list[str] = []
        for turn in turns:
            self.check_results(turn, pending)
            pending = self.check_tool_uses(turn)
            for number, block in enumerate(turn.blocks):
                self.check_block(f"messages.{turn.index}.content.{number}", turn.role, block)
        if pending:
            raise self.refuse("missing results", f"messages.{turns[-1].index}", ids=", ".join(pending))
        self.check_last_turn(turns)

    def check_results(self, turn: _Turn, pending: list[str]) -> None:
        """Check that a turn begins with one result for each pending call, and has no others."""
        path = f"messages.{turn.index}"
        results = [
            as_text(block.get("tool_use_id")) for block in turn.blocks if block.get("type") == "tool_result"
        ]
        for id in results:
            if id not in pending:
                raise self.refuse("orphan result", path, id=id)
        leading = 0
        while leading < len(turn.blocks) and turn.blocks[leading].get("type") == "tool_result":
            leading += 1
        missing = [id for id in pending if id not in results[:leading]]
        if missing:
            raise self.refuse("missing results", f"messages.{turn.index - 1}", ids=", ".join(missing))
        for id in results:
            if results.count(id) > 1:
                raise self.refuse("double result", path, id=id)

    def merge_turns(self) -> list[_Turn]:
        turns: list[_Turn] = []
        messages = as_list(self.doc.get("messages"))
        for index, message in enumerate(messages):
            doc = as_dict(message)
            speaker, content = as_text(doc.get("role")), doc.get("content")
            if speaker == "system" and _MID_SYSTEM_MODELS.search(self.profile.model):
                continue
            if speaker not in ("user", "assistant"):
                text = f"role '{speaker}' is not supported on this model; use 'user' or 'assistant'"
                raise Refusal(f"messages.{index}.role: {text}")
            if unknown := doc.keys() - {"role", "content"}:
                raise self.refuse("unknown field", f"messages.{index}.{min(unknown)}")
            if content in ("", [], None) and not (speaker == "assistant" and index == len(messages) - 1):
                text = (
                    "all messages must have non-empty content except for the optional final assistant message"
                )
                raise Refusal(f"messages.{index}: {text}")
            if not isinstance(content, str | list):
                raise self.refuse("wrong type", f"messages.{index}.content", expected="string or list")
            blocks = (
                [{"type": "text", "text": content}] if isinstance(content, str) else list(iter_dicts(content))
            )
            if turns and turns[-1].role == speaker:
                turns[-1].index = index
                turns[-1].blocks += blocks
            else:
                turns.append(_Turn(index, speaker, blocks))
        return turns

    def check_tool_uses(self, turn: _Turn) -> list[str]:
        ids: list[str] = []
        for number, block in enumerate(turn.blocks):
            path = f"messages.{turn.index}.content.{number}"
            if block.get("type") == "tool_use":
                id = as_text(block.get("id"))
                if turn.role != "assistant":
                    raise Refusal(f"{path}: `tool_use` blocks can only be in `assistant` messages")
                self.check_call_id(id, path)
                if id in ids:
                    raise Refusal(f"{path}: `tool_use` ids must be unique")
                if not isinstance(block.get("input"), dict):
                    raise self.refuse("wrong type", f"{path}.tool_use.input", expected="dictionary")
                ids.append(id)
            elif ids and block.get("type") in ("text", "thinking"):
                raise self.refuse("missing results", f"messages.{turn.index}", ids=", ".join(ids))
        return ids

    def check_block(self, path: str, role: str, block: Doc) -> None:
        match block.get("type"):
            case "text":
                text = as_text(block.get("text"))
                if role == "user":  # the assistant's own white space is let through
                    text = text.strip()
                if not text:
                    raise Refusal(
                        "messages: text content blocks must be non-empty and contain non-whitespace text"
                    )
            case "tool_result":
                is_empty = block.get("content") in (None, "", [])
                if role != "user":
                    raise Refusal(f"{path}: `tool_result` blocks can only be in `user` messages")
                if is_empty and block.get("is_error"):
                    raise Refusal(f"{path}.tool_result: content cannot be empty if `is_error` is true")
            case "thinking":
                signature = sign_state(self.profile, as_text(block.get("thinking")))
                if block.get("signature") != signature:
                    raise Refusal(f"{path}: Invalid `signature` in `thinking` block")
            case "image":
                source = as_dict(block.get("source"))
                if source.get("type") == "base64" and source.get("media_type") not in _IMAGE_TYPES:
                    types = ", ".join(map(repr, _IMAGE_TYPES))
                    raise Refusal(f"{path}.image.source.base64.media_type: Input should be {types}")
            case None:
                raise self.refuse("missing field", f"{path}.type")
            case _:
                pass

    def check_last_turn(self, turns: list[_Turn]) -> None:
        last = turns[-1]
        if last.role == "assistant":
            self.check_prefill(last)
        if as_dict(self.doc.get("thinking")).get("type") != "enabled":
            return
        # With manual thinking, the tool loop that is still open must begin with a thinking block.
        first: list[Doc] = []
        for turn in reversed(turns):
            is_assistant = turn.role == "assistant"
            expected = "tool_use" if is_assistant else "tool_result"
            if not turn.has(expected):
                break
            if is_assistant:
                first = turn.blocks
        if first and first[0].get("type") not in ("thinking", "redacted_thinking"):
            raise self.refuse("missing thinking", as_text(first[0].get("type")))

    def check_prefill(self, turn: _Turn) -> None:
        """Check an assistant's message at the end, which the reply continues."""
        if self.profile.history.ends_with_user:
            text = "This model does not support assistant message prefill."
            raise Refusal(f"{text} The conversation must end with a user message.")
        text = as_text(turn.blocks[-1].get("text")) if turn.blocks else ""
        if text != text.rstrip():
            raise Refusal("messages: final assistant content cannot end with trailing whitespace")
        if turn.has("thinking"):
            text = "an `assistant` message in the final position cannot contain `thinking`"
            raise Refusal(f"messages.{turn.index}.content.0: {text}")

    @classmethod
    def error_body(cls, refusal: Refusal, profile: Profile) -> Doc:
        error: Doc = {"type": cls.error_fields(refusal, profile)[1], "message": refusal.message}
        details: Doc = {"details": {"error_code": refusal.code}} if refusal.code else {}
        return {"type": "error", "error": {**error, **details}}
