"""Ollama's /api/chat."""

import re
from collections.abc import Mapping
from typing import ClassVar

from toolglot.providers.profile import Profile
from toolglot.simulator.wires.base import Refusal, WireRules, declare_fields
from toolglot.values.request import ToolDefinition
from toolglot.wire.framing import encode_ndjson
from toolglot.wire.json_values import Doc, as_dict, as_list, as_text, iter_dicts

__all__ = ["Rules"]

_OPTION_TYPES = {
    "temperature": "float32",
    "top_p": "float32",
    "num_predict": "integer",
    "top_k": "integer",
    "seed": "integer",
}


class Rules(WireRules):
    """What Ollama refuses. Unknown fields are dropped silently."""

    fields = declare_fields(
        string="model",
        array="messages tools",
        boolean="stream logprobs",
        object="options",
        integer="top_logprobs",
        string_or_object="format",
        boolean_or_string="think",
        string_or_number="keep_alive",
    )
    required = ("model",)
    refuses_unknown_fields = False
    wordings: ClassVar[Mapping[str, str]] = {
        **WireRules.wordings,
        "fault overloaded": "server busy, please try again. maximum pending requests exceeded",
        "fault auth": "unauthorized",
        "fault too_long": "the input length exceeds the context length",
        # the error of Go's JSON decoder
        "wrong type": "json: cannot unmarshal {noun} into Go struct field ChatRequest.{name} of type "
        "{expected}",
        "missing field": "{name} is required",
        "missing field of model": "model is required",
    }
    codes: ClassVar[Mapping[str, str]] = {}  # an error is only a message

    def check_body(self) -> None:
        think, format = self.doc.get("think"), self.doc.get("format")
        if isinstance(think, str) and think not in ("high", "medium", "low", "max"):
            raise Refusal(
                f'invalid think value: "{think}" (must be "high", "medium", "low", "max", true, or false)'
            )
        if isinstance(format, str) and format not in ("", "json"):
            raise Refusal(f'invalid format: "{format}"; expected "json" or a valid JSON Schema object')
        for tool in iter_dicts(self.doc.get("tools")):
            properties = as_dict(as_dict(tool.get("function")).get("parameters")).get("properties", {})
            if not isinstance(properties, dict):
                raise self.refuse_type("tools.function.parameters.properties", "map", properties)
        options = as_dict(self.doc.get("options"))
        for name, expected in _OPTION_TYPES.items():
            value = options.get(name, 0)
            # Ollama truncates a float for an integer: any number will do.
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not is_number:
                raise Refusal(f'option "{name}" must be of type {expected}')

    def check_history(self) -> None:
        """Any order is accepted; values must have the types of Ollama's Go structs."""
        for message in iter_dicts(self.doc.get("messages")):
            if message.get("role") not in ("system", "user", "assistant", "tool"):
                raise Refusal(f'invalid role "{message.get("role")}"')
            if not isinstance(content := message.get("content", ""), str):
                raise self.refuse_type("messages.content", "string", content)
            for call in iter_dicts(message.get("tool_calls")):
                if not isinstance(arguments := as_dict(call.get("function")).get("arguments", {}), dict):
                    path = "messages.tool_calls.function.arguments"
                    raise self.refuse_type(path, "api.ToolCallFunctionArguments", arguments)
            for image in as_list(message.get("images")):
                if not re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", as_text(image)) or not image:
                    raise Refusal("illegal base64 data at input byte 0")

    def check_schema(self, index: int, tool: ToolDefinition) -> None:
        """Ollama reads what it knows and drops the rest."""

    @classmethod
    def error_body(cls, refusal: Refusal, profile: Profile) -> Doc:
        return {"error": refusal.message}

    @classmethod
    def error_frame(cls, refusal: Refusal, profile: Profile) -> bytes:
        return encode_ndjson(cls.error_body(refusal, profile))
