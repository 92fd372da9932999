"""OpenAI Responses."""

import re
from collections.abc import Mapping
from typing import ClassVar

from toolglot.providers.profile import Profile
from toolglot.simulator.opaque_state import sign_state
from toolglot.simulator.wires.base import Refusal, declare_fields
from toolglot.simulator.wires.openai import ROLES, OpenAIRules
from toolglot.wire.framing import encode_sse
from toolglot.wire.json_values import Doc, as_dict, as_text, iter_dicts

__all__ = ["Rules"]

_CALL_TYPES = (
    *(
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "computer_call",
    ),
)
_OUTPUT_TYPES = {f"{name}_output" for name in _CALL_TYPES}
_ID_PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "message": "msg", "reasoning": "rs"}
# The simulator marks what came after reasoning with an `r` in its item id, so that a missing reasoning item
# shows.
_AFTER_REASONING = re.compile(r"(?:fc|msg|ctc)_(\w+r)_\d+")
_MIN_OUTPUT_TOKENS = 16


def _may_follow_reasoning(item: Doc) -> bool:
    """Whether the model can have made an item from what it thought."""
    type_name = as_text(item.get("type")) or "message"
    if type_name == "message":
        return item.get("role") == "assistant"
    return type_name not in _OUTPUT_TYPES


class Rules(OpenAIRules):
    """What Responses refuses."""

    fields = declare_fields(
        string="model previous_response_id prompt_cache_key prompt_cache_retention safety_identifier "
        "service_tier truncation "
        "user",
        array="tools include context_management access_programs",
        boolean="stream parallel_tool_calls store background",
        object="stream_options reasoning text metadata prompt image moderation prompt_cache_options "
        "client_metadata",
        integer="max_output_tokens max_tool_calls top_logprobs",
        number="temperature top_p",
        string_or_array="input instructions",
        string_or_object="tool_choice conversation",
    )
    required = ("model",)
    wordings: ClassVar[Mapping[str, str]] = {
        **OpenAIRules.wordings,
        "fault too_long": "Your input exceeds the context window of this model. Please adjust your input and "
        "try again.",
        "unknown field": "Unknown parameter: '{name}'.",
        "unknown field of messages": "Unsupported parameter: 'messages'. In the Responses API, this "
        "parameter has moved to "
        "'input'.",
    }
    codes: ClassVar[Mapping[str, str]] = {**OpenAIRules.codes, "unknown field": "unknown_parameter"}

    def check_body(self) -> None:
        doc = self.doc
        self.check_dependent_fields()
        self.check_marks()
        if id := as_text(doc.get("previous_response_id")):  # nothing is stored here
            raise Refusal(f"Previous response with id '{id}' not found.", code="previous_response_not_found")
        if not any(doc.get(field) for field in ("input", "prompt", "conversation")):
            raise Refusal(
                "One of 'input' or 'previous_response_id' or 'prompt' or 'conversation' must be provided."
            )
        limit = doc.get("max_output_tokens")
        if limit is not None and limit < _MIN_OUTPUT_TOKENS:
            expected = f"Expected a value >= {_MIN_OUTPUT_TOKENS}, but got {limit} instead."
            text = f"Invalid 'max_output_tokens': integer below minimum value. {expected}"
            raise Refusal(text, code="integer_below_min_value")
        tools = list(iter_dicts(doc.get("tools")))
        has_search = any(tool.get("type") == "tool_search" for tool in tools)
        inner = [tool for space in tools for tool in iter_dicts(space.get("tools"))]
        has_deferred = any(tool.get("defer_loading") for tool in [*tools, *inner])
        if has_deferred and not has_search:
            raise Refusal(
                "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search.",
                param="tools",
            )
        self.check_effort("reasoning.effort", as_dict(doc.get("reasoning")).get("effort"))
        format = as_dict(as_dict(doc.get("text")).get("format"))
        if format.get("type") == "json_schema":
            self.check_output_schema(format, "text.format.schema")
        if format.get("type") == "json_object":
            self.check_json_word(("input", "instructions"), "text.format")

    def check_native_type(self, name: str) -> None:
        if name in ("shell", "apply_patch") and name not in self.profile.features.typed:
            raise Refusal(f"Hosted tool '{name}' is not supported with {self.profile.model}.", param="tools")

    # -- history: calls and outputs in pairs, reasoning with what it led to

    def check_history(self) -> None:
        items = list(iter_dicts(self.doc.get("input"))) if isinstance(self.doc.get("input"), list) else []
        calls: list[str] = []
        answered: set[str] = set()
        seen: set[str] = set()
        for index, item in enumerate(items):
            type_name, path = as_text(item.get("type")) or "message", f"input[{index}]"
            self.check_item_id(item, type_name, path, seen)
            if type_name in _CALL_TYPES or type_name in _OUTPUT_TYPES:
                self.check_pair(item, type_name, path, calls, answered)
            elif type_name == "tool_search_call":  # the server's own, or answered in one of several forms
                calls.append(as_text(item.get("call_id")))
                answered.add(calls[-1])
            elif type_name == "message":
                self.check_message(item, path)
            elif type_name == "reasoning":
                self.check_reasoning(item, items[index + 1 :])
            elif type_name == "compaction":
                self.check_cipher(item, "compaction")
        if unanswered := [id for id in calls if id not in answered]:
            raise Refusal(f"No tool output found for function call {unanswered[0]}.", param="input")

    def check_item_id(self, item: Doc, type_name: str, path: str, seen: set[str]) -> None:
        if item.get("id") is None:
            return
        id, prefix = as_text(item["id"]), _ID_PREFIXES.get(type_name, "")
        if not id.startswith(prefix):
            raise Refusal(
                f"Invalid '{path}.id': '{id}'. Expected an ID that begins with '{prefix}'.",
                code="invalid_value",
            )
        if len(id) > 64:
            raise self.refuse("bad call id", f"{path}.id", limit=64, length=len(id))
        if id in seen:
            raise Refusal(
                f"Duplicate item found with id {id}. Remove duplicate items from your input and try again."
            )
        seen.add(id)
        if (match := _AFTER_REASONING.fullmatch(id)) and not any(
            other.startswith(f"rs_{match[1]}_") for other in seen
        ):
            missing = f"was provided without its required 'reasoning' item: 'rs_{match[1]}_0'."
            raise Refusal(f"Item '{id}' of type '{type_name}' {missing}")

    def check_pair(self, item: Doc, type_name: str, path: str, calls: list[str], answered: set[str]) -> None:
        id = as_text(item.get("call_id"))
        self.check_call_id(id, f"{path}.call_id")
        if type_name in _OUTPUT_TYPES:
            if id not in calls:
                raise Refusal(
                    f"No tool call found for function call output with call_id {id}.", param="input"
                )
            self.check_native_output(item, type_name, path)
            answered.add(id)
            return
        if type_name == "function_call" and not isinstance(item.get("arguments"), str):
            raise self.refuse_type(f"{path}.arguments", "a string", item.get("arguments"))
        calls.append(id)

    def check_native_output(self, item: Doc, type_name: str, path: str) -> None:
        """Outputs of native tools have a form of their own."""
        if type_name == "apply_patch_call_output" and item.get("status") not in ("completed", "failed"):
            raise self.refuse("missing field", f"{path}.status")
        if type_name != "shell_call_output":
            return
        if not isinstance(item.get("output"), list):
            raise self.refuse_type(f"{path}.output", "an array", item.get("output"))
        for index, part in enumerate(iter_dicts(item["output"])):
            for field in ("stdout", "stderr", "outcome"):
                if field not in part:
                    raise self.refuse("missing field", f"{path}.output[{index}].{field}")

    def check_message(self, item: Doc, path: str) -> None:
        role = as_text(item.get("role"))
        self.check_role(role, ROLES[:4], path)
        if role == "assistant":
            wrong, values = {"input_text", "input_image", "input_file", "text"}, "'output_text' and 'refusal'"
        else:
            wrong = {"output_text", "refusal", "text"}
            values = "'input_text', 'input_image', and 'input_file'"
        for part in iter_dicts(item.get("content")):
            if part.get("type") in wrong:
                raise self.refuse(
                    "unknown value", param=f"{path}.content", value=part["type"], supported=values
                )

    def check_reasoning(self, item: Doc, following: list[Doc]) -> None:
        id = as_text(item.get("id"))
        cipher = item.get("encrypted_content")
        follower = next((other for other in following if other.get("type") != "reasoning"), None)
        if follower is None or not _may_follow_reasoning(follower):
            text = f"Item '{id}' of type 'reasoning' was provided without its required following item."
            raise Refusal(text, param="input")
        if not isinstance(item.get("summary"), list):
            raise self.refuse("missing field", "input.summary")
        if cipher is not None:
            text = "".join(as_text(part.get("text")) for part in iter_dicts(item["summary"]))
            self.check_cipher(item, text)
        elif self.doc.get("store") is False:
            raise Refusal(
                f"Item with id '{id}' not found. Items are not persisted when `store` is set to false."
            )

    def check_cipher(self, item: Doc, text: str) -> None:
        if item.get("encrypted_content") != sign_state(self.profile, text):
            message = f"The encrypted content for item {item.get('id')} could not be verified."
            raise Refusal(message, code="invalid_encrypted_content")

    @classmethod
    def error_frame(cls, refusal: Refusal, profile: Profile) -> bytes:
        error = cls.error_body(refusal, profile)["error"]
        frame: Doc = {
            "type": "error",
            "code": error["code"],
            "message": error["message"],
            "param": error["param"],
        }
        return encode_sse({**frame, "sequence_number": 0}, "error")
