"""Chat Completions: OpenAI, Azure, and the vendors that imitate them."""

import re
from collections.abc import Mapping
from typing import ClassVar

from toolglot.providers.profile import Profile
from toolglot.simulator.wires.base import Refusal, VendorErrors, declare_fields
from toolglot.simulator.wires.openai import ROLES, OpenAIRules
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["OPENAI_ROWS", "Rules"]

OPENAI_ROWS = ("openai-chat", "azure-chat", "azure-dated-chat")
# Vendors that are played as refusing what they do not know; the others drop it silently.
_STRICT_ROWS = (*OPENAI_ROWS, "mistral", "groq")
# OpenAI's models that support function tools on Responses only: if an effort is set, and always (they reason
# by default).
_NOT_ON_CHAT = re.compile(r"^gpt-(5\.([4-9]|\d\d)|[6-9])")
_NEVER_ON_CHAT = re.compile(r"^gpt-(5\.([5-9]|\d\d)|[6-9])")
# Fields that a vendor knows besides its wire's, and (with a minus) those that it does not.
_VENDOR_FIELDS = {
    "mistral": {
        "random_seed",
        "safe_prompt",
        "prompt_mode",
        "guardrails",
        "-max_completion_tokens",
        "-seed",
        "-logit_bias",
    },
    "groq": {
        *(
            "reasoning_format",
            "include_reasoning",
            "disable_tool_validation",
            "search_settings",
            "compound_custom",
        ),
        "documents",
    },
}
# Fields of a message at OpenAI and Azure.
_MESSAGE_FIELDS = {
    *(
        "role",
        "content",
        "name",
        "tool_calls",
        "tool_call_id",
        "refusal",
        "audio",
        "function_call",
        "annotations",
    ),
    "prompt_cache_breakpoint",
    "parsed",  # the official client sends back what it added
}


class Rules(OpenAIRules):
    """What Chat Completions refuses."""

    fields = declare_fields(
        string="model reasoning_effort user prompt_cache_key prompt_cache_retention safety_identifier "
        "service_tier verbosity",
        array="messages tools modalities functions",
        boolean="stream parallel_tool_calls logprobs store",
        object="stream_options response_format logit_bias metadata audio prediction web_search_options "
        "moderation "
        "prompt_cache_options reasoning",
        integer="max_tokens max_completion_tokens n seed top_logprobs",
        number="temperature top_p presence_penalty frequency_penalty",
        string_or_array="stop",
        string_or_object="tool_choice function_call",
    )
    required = ("model", "messages")
    vendor_errors: ClassVar[VendorErrors] = {
        ("openrouter", "quota"): (402, "", ""),
        ("deepseek", "quota"): (402, "unknown_error", "invalid_request_error"),
        ("mistral", "too_long"): (400, "invalid_request_error", "3051"),
    }
    wordings: ClassVar[Mapping[str, str]] = {
        **OpenAIRules.wordings,
        "unsupported option of max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this "
        "model. Use "
        "'max_completion_tokens' instead.",
        "not on chat": "Function tools with reasoning_effort are not supported for {name} in "
        "/v1/chat/completions. To use "
        "function tools, use /v1/responses or set reasoning_effort to 'none'.",
        "missing results": "An assistant message with 'tool_calls' must be followed by tool messages "
        "responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: {name}",
        "unknown field at mistral": "Extra inputs are not permitted",
        "unknown field at groq": "property '{name}' is unsupported",
        "bad call id at mistral": "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.",
    }

    @property
    def is_openai(self) -> bool:
        return self.profile.id in OPENAI_ROWS

    @property
    def refuses_unknown_fields(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.profile.id in _STRICT_ROWS

    @property
    def requires_reasoning(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """DeepSeek: thinking is on unless it is disabled, and then every turn with calls needs its reasoning."""
        is_off = (
            as_dict(self.doc.get("thinking")).get("type") == "disabled"
            or self.profile.model == "deepseek-chat"
        )
        return self.profile.reasoning_echo == "required" and not is_off

    def vendor_fields(self) -> set[str]:
        return _VENDOR_FIELDS.get(self.profile.id, set())

    def check_fields(self, *, has_model: bool) -> None:
        if self.profile.id == "copilot" and "max_tokens" in self.doc:
            raise Refusal("Bad Request", is_plain_text=True)
        super().check_fields(has_model=has_model)

    def check_body(self) -> None:
        self.check_dependent_fields()
        self.check_marks()
        if self.refuses_unknown_fields and self.doc.get("tools") == []:
            raise self.refuse("empty array", "tools", param="tools")
        if self.is_openai:
            self._check_max_tokens()
            self._check_tools_with_reasoning()
        if self.is_openai or self.profile.id in ("xai", "groq"):
            self.check_effort("reasoning_effort", self.doc.get("reasoning_effort"))
        self._check_response_format()

    def _check_max_tokens(self) -> None:
        if "max_tokens" not in self.doc:
            return
        if "max_completion_tokens" in self.doc:
            raise Refusal(
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
            )
        if self.profile.sampling == "none":
            raise self.refuse("unsupported option", "max_tokens", param="max_tokens")

    def _check_tools_with_reasoning(self) -> None:
        """Check that a model which calls functions only on Responses while it reasons does not have both."""
        effort, model = self.doc.get("reasoning_effort"), self.profile.model
        if effort == "none" or not _NOT_ON_CHAT.search(model):
            return
        reasons = effort is not None or _NEVER_ON_CHAT.search(model)
        has_functions = any(tool.get("type") == "function" for tool in iter_dicts(self.doc.get("tools")))
        if reasons and has_functions:
            raise self.refuse("not on chat", model)

    def _check_response_format(self) -> None:
        response_format = as_dict(self.doc.get("response_format"))
        form = response_format.get("type")
        if form == "json_schema" and self.profile.json_output == "object":
            raise Refusal("This response_format type is unavailable now")
        if self.is_openai and form == "json_schema":
            self.check_output_schema(as_dict(response_format.get("json_schema")), "response_format")
        if self.is_openai and form == "json_object":
            self.check_json_word(("messages",), "response_format")

    # -- history: every call is answered right after its turn, by a tool message with its id

    def check_history(self) -> None:
        pending: list[str] = []
        previous = ""
        messages = as_list(self.doc.get("messages"))
        if not messages:
            raise self.refuse("empty array", "messages", param="messages")
        for index, message in enumerate(messages):
            path = f"messages[{index}]"
            if not isinstance(message, dict):
                raise self.refuse_type(path, "an object", message)
            doc = as_dict(message)
            role = as_text(doc.get("role"))
            self.check_role(role, ROLES, path)
            if role == "tool":
                self.check_tool_message(doc, path, pending)
            elif pending:
                raise self.refuse("missing results", ", ".join(pending), param="messages")
            if role == "user" and previous == "tool" and self.profile.history.filler_after_results:
                raise Refusal("Unexpected role 'user' after role 'tool'")
            self.check_message(doc, path, role)
            if role == "assistant":
                pending = self.check_calls(doc, path)
            previous = role
        if pending:
            raise self.refuse("missing results", ", ".join(pending), param="messages")

    def check_tool_message(self, doc: Doc, path: str, pending: list[str]) -> None:
        id = doc.get("tool_call_id")
        if not isinstance(id, str):
            raise self.refuse("missing field", f"{path}.tool_call_id")
        if id not in pending:
            text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            raise Refusal(f"Invalid parameter: {text}", param=f"{path}.role")
        pending.remove(id)
        # "no" is OpenAI itself: others allow media in results
        if self.profile.reasoning_echo == "no" and any(
            part.get("type") != "text" for part in iter_dicts(doc.get("content"))
        ):
            text = (
                f"Invalid '{path}'. Tool messages hold text only: image_url is only allowed for role 'user'."
            )
            raise Refusal(text, param=path)

    def check_message(self, doc: Doc, path: str, role: str) -> None:
        if self.profile.reasoning_echo == "no":  # OpenAI itself
            unknown = doc.keys() - _MESSAGE_FIELDS
            if unknown:
                raise Refusal(
                    f"Unknown parameter: '{path}.{min(unknown)}'.", code="unknown_parameter", param=path
                )
        content = doc.get("content")
        has_other = any(doc.get(field) for field in ("tool_calls", "function_call", "refusal", "audio"))
        may_be_empty = role == "assistant" and has_other
        if content is None and not may_be_empty:
            raise Refusal(
                f"Invalid value for 'content': expected a string, got null. ({path})", param=f"{path}.content"
            )
        if not isinstance(content, str | list | None):
            raise self.refuse_type(f"{path}.content", "a string or an array", content)
        if role == "system" and self.profile.system_role == "user":
            text = f"Unsupported value: '{path}.role' does not support 'system' with this model."
            raise Refusal(text, code="unsupported_value")

    def check_calls(self, doc: Doc, path: str) -> list[str]:
        ids: list[str] = []
        if doc.get("tool_calls") == []:
            raise self.refuse("empty array", f"{path}.tool_calls")
        allows_objects = self.profile.id == "mistral"
        for index, call in enumerate(iter_dicts(doc.get("tool_calls"))):
            where = f"{path}.tool_calls[{index}]"
            id = as_text(call.get("id"))
            function = as_dict(call.get("function") or call.get("custom"))
            arguments = function.get("input" if "custom" in call else "arguments")
            self.check_call_id(id, f"{where}.id")
            if id in ids:
                raise Refusal(f"Duplicate value for 'tool_call_id' of '{id}' in '{path}'.", param=where)
            is_object = allows_objects and isinstance(arguments, dict)
            if not is_object and not isinstance(arguments, str):
                raise self.refuse_type(f"{where}.function.arguments", "a string", arguments)
            ids.append(id)
        if ids and self.requires_reasoning and not isinstance(doc.get("reasoning_content"), str):
            raise Refusal("The `reasoning_content` in the thinking mode must be passed back to the API.")
        return ids

    # -- error bodies

    @classmethod
    def error_fields(cls, refusal: Refusal, profile: Profile) -> tuple[int, str, str]:
        status, type, code = super().error_fields(refusal, profile)
        return (422 if refusal.unknown_field and profile.id == "mistral" else status), type, code

    @classmethod
    def error_body(cls, refusal: Refusal, profile: Profile) -> Doc:
        status, type, code = cls.error_fields(refusal, profile)
        message = refusal.message
        match profile.id:
            case "xai":
                return {"code": code or type, "error": message}
            case "openrouter":
                return {"error": {"code": status, "message": message, "metadata": {}}}
            case "mistral":
                body: Doc = {"object": "error", "message": message, "type": type, "param": refusal.param}
                if not refusal.unknown_field:
                    return {**body, "code": code or "1000"}
                detail = {"type": "extra_forbidden", "loc": ["body", refusal.unknown_field], "msg": message}
                return {**body, "message": {"detail": [detail]}, "code": None}
            case "copilot":
                return {"error": {"message": message, "code": code or "invalid_request_body"}}
            case _:
                return super().error_body(refusal, profile)
