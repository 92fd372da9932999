"""DATA: tools that a provider runs itself, by the name they have here. They pass through: the wire gets its own definition."""

from typing import Any

from toolglot.errors import UnknownName
from toolglot.request import ToolDefinition

__all__ = ["HOSTED_TOOLS", "find_hosted_tool"]

# name -> wire -> definition there (openai SDK 3.49, anthropic SDK 2.8, google-genai 3.1)
HOSTED_TOOLS: dict[str, dict[str, dict[str, Any]]] = {
    "web_search": {
        "openai-responses": {"type": "web_search"},
        "anthropic-messages": {"type": "web_search_20250305", "name": "web_search"},
        "gemini": {"googleSearch": {}},
    },
    "code_execution": {
        "openai-responses": {"type": "code_interpreter", "container": {"type": "auto"}},
        "anthropic-messages": {"type": "code_execution_20250825", "name": "code_execution"},
        "gemini": {"codeExecution": {}},
    },
}


def find_hosted_tool(name: str, wire: str) -> ToolDefinition | None:
    """A hosted tool for a wire; None where that has none of this name."""
    if name not in HOSTED_TOOLS:
        raise UnknownName("hosted tool", name, HOSTED_TOOLS)
    found = HOSTED_TOOLS[name].get(wire)
    return ToolDefinition(name, kind="hosted", wire=wire, opaque=found) if found is not None else None
