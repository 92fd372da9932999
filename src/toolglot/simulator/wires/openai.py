"""What OpenAI's two wires share."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from toolglot.simulator.wires.base import Refusal, WireRules
from toolglot.wire.json_values import Doc, as_dict, iter_dicts

__all__ = ["ROLES", "OpenAIRules"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_DEFAULTS = {"temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}


class OpenAIRules(WireRules):
    """The rules of Chat Completions and Responses."""

    wordings: ClassVar[Mapping[str, str]] = {
        **WireRules.wordings,
        "unsupported option": "Unsupported parameter: '{name}' is not supported with this model.",
    }

    def check_dependent_fields(self) -> None:
        """Check fields that need another one."""
        doc = self.doc
        if doc.get("stream_options") and not doc.get("stream"):
            raise Refusal(
                "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
                param="stream_options",
            )
        has_later_tools = any(item.get("type") == "additional_tools" for item in iter_dicts(doc.get("input")))
        if any(iter_dicts(doc.get("tools"))) or has_later_tools or not self.refuses_unknown_fields:
            return
        for name in ("tool_choice", "parallel_tool_calls"):
            if doc.get(name) not in (None, "none", "auto"):
                raise Refusal(
                    f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.",
                    param=name,
                )

    def check_marks(self) -> None:
        """Check what a request says to the prompt cache, for models that have marks."""
        if self.profile.cache_field != "prompt_cache_breakpoint":
            return
        options = as_dict(self.doc.get("prompt_cache_options"))
        for path, mark in [("prompt_cache_options", options), *self.iter_marks()]:
            path = re.sub(r"\.(\d+)", r"[\1]", path)
            if not isinstance(mark, dict):
                raise self.refuse_type(path, "an object", mark)
            doc, is_option = as_dict(mark), path == "prompt_cache_options"
            if not is_option and "mode" not in doc:
                raise self.refuse("missing field", f"{path}.mode", param=f"{path}.mode")
            modes = ("implicit", "explicit") if is_option else ("explicit",)
            for name, values in (("mode", modes), ("ttl", self.profile.cache_ttls)):
                if name in doc and doc[name] not in values:
                    supported = ", ".join(map(repr, values))
                    raise self.refuse(
                        "unknown value", param=f"{path}.{name}", value=doc[name], supported=supported
                    )

    def check_effort(self, param: str, effort: Any) -> None:
        supported = self.profile.efforts
        if effort is None or effort in supported:
            return
        if not supported:
            raise self.refuse("unsupported option", param)
        values = ", ".join(map(repr, supported))
        raise Refusal(
            f"Unsupported value: '{param}' does not support '{effort}'. Supported values are: {values}.",
            param=param,
        )

    def check_role(self, role: str, roles: tuple[str, ...], path: str) -> None:
        if role not in roles:
            raise self.refuse(
                "unknown value", param=f"{path}.role", value=role, supported=", ".join(map(repr, roles))
            )

    def check_output_schema(self, format: Doc, param: str) -> None:
        """The root of structured output is an object: 400 for an array, a number or a union."""
        schema = as_dict(format.get("schema"))
        if format and schema.get("type") != "object":
            expected = (
                f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
            )
            text = f"Invalid schema for response_format '{format.get('name')}': {expected}"
            raise Refusal(text, param=param, code="invalid_json_schema")

    def check_json_word(self, fields: tuple[str, ...], param: str) -> None:
        """JSON mode wants the word in the prompt: without it models may emit white space for ever."""
        if "json" not in str([self.doc.get(name) for name in fields]).lower():
            text = (
                f"'{fields[0]}' must contain the word 'json' in some form, to use '{param}' of type "
                "'json_object'."
            )
            raise Refusal(text)

    def check_option(self, name: str, value: Any) -> None:
        if value != _DEFAULTS.get(name):  # a default changes nothing
            super().check_option(name, value)
