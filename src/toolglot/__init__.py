"""toolglot: LLM tool calling that works with every model and never breaks.

The public names. Each is loaded from its module when it is first used, so that `import toolglot` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolglot.errors import (
        ContextTooLong,
        LimitExceeded,
        MalformedData,
        MalformedReply,
        MalformedRequest,
        ProviderError,
        ToolglotError,
        TruncatedStream,
        UsageError,
        WouldLose,
    )
    from toolglot.losses import Loss, Repair
    from toolglot.messages import (
        Conversation,
        Foreign,
        Media,
        Message,
        Origin,
        Reply,
        Text,
        Thinking,
        ToolCall,
        ToolResult,
        Usage,
        assistant,
        load,
        save,
        system,
        tool_results,
        user,
    )
    from toolglot.providers.catalog import resolve
    from toolglot.providers.preflight import preflight
    from toolglot.providers.profile import Profile, ProviderLimits, ToolFeatures
    from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition, ToolExample
    from toolglot.wire.back import restored
    from toolglot.wire.codec import decode_request, encode_request, reader
    from toolglot.wire.prefix import PrefixEncoder
    from toolglot.wire.repair import repair

__all__ = [
    "ContextTooLong",
    "Conversation",
    "Foreign",
    "LimitExceeded",
    "Loss",
    "MalformedData",
    "MalformedReply",
    "MalformedRequest",
    "Media",
    "Message",
    "Options",
    "Origin",
    "Output",
    "PrefixEncoder",
    "Profile",
    "ProviderError",
    "ProviderLimits",
    "Repair",
    "Reply",
    "Request",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolChoice",
    "ToolDefinition",
    "ToolExample",
    "ToolFeatures",
    "ToolResult",
    "ToolglotError",
    "TruncatedStream",
    "Usage",
    "UsageError",
    "WouldLose",
    "assistant",
    "decode_request",
    "encode_request",
    "load",
    "preflight",
    "reader",
    "repair",
    "resolve",
    "restored",
    "save",
    "system",
    "tool_results",
    "user",
]

_HOMES = {
    "errors": "ContextTooLong LimitExceeded MalformedData MalformedReply MalformedRequest ProviderError ToolglotError "
    "TruncatedStream UsageError WouldLose",
    "losses": "Loss Repair",
    "messages": "Conversation Foreign Media Message Origin Reply Text Thinking ToolCall ToolResult Usage assistant load save "
    "system tool_results user",
    "providers.catalog": "resolve",
    "providers.preflight": "preflight",
    "providers.profile": "Profile ProviderLimits ToolFeatures",
    "request": "Options Output Request ToolChoice ToolDefinition ToolExample",
    "wire.back": "restored",
    "wire.codec": "decode_request encode_request reader",
    "wire.prefix": "PrefixEncoder",
    "wire.repair": "repair",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toolglot' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"toolglot.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
