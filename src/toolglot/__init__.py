"""toolglot: LLM tool calling that works with every model and never breaks.

The public names. Each is loaded from its module when it is first used, so that `import toolglot` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolglot.builtin.tools import BuiltinOptions, builtins, coding_tools
    from toolglot.config.setup import from_config
    from toolglot.engine.engine import Engine
    from toolglot.engine.factory import create_engine
    from toolglot.engine.http import HttpTransport
    from toolglot.engine.recording import RecordingTransport, ReplayTransport
    from toolglot.engine.simulated import SimulatedTransport
    from toolglot.engine.transport import HttpRequest, Timeouts, Transport
    from toolglot.errors import (
        AuthenticationFailed,
        ConnectFailed,
        ConnectionLost,
        ContentBlocked,
        ContextTooLong,
        InvalidRequest,
        InvalidTool,
        LossyEncoding,
        MalformedData,
        MalformedReply,
        MalformedRequest,
        NameConflict,
        NotFound,
        Overloaded,
        PermissionDenied,
        ProviderError,
        QuotaExceeded,
        RateLimited,
        ReplayMiss,
        ServerFailed,
        TimedOut,
        ToolError,
        ToolglotError,
        TransportError,
        TruncatedStream,
        UnknownName,
        UsageError,
    )
    from toolglot.events import (
        ApprovalNeeded,
        BlockReady,
        BlockStarted,
        ContextTruncated,
        ModelSwitched,
        ReplyDone,
        ReplyStarted,
        Retrying,
        RunDone,
        RunEvent,
        RunResult,
        TextDelta,
        ThinkingDelta,
        ToolCallDelta,
        ToolCallReady,
        ToolCallStarted,
        ToolFinished,
        ToolOutcome,
        ToolProgress,
        ToolStarted,
    )
    from toolglot.facades.toml_loader import load_facade
    from toolglot.facades.view import Facade
    from toolglot.loop.context_window import ContextPolicy
    from toolglot.loop.orchestrator import Orchestrator, PromptContext
    from toolglot.loop.run import Run
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
    from toolglot.providers.catalog import resolve_profile
    from toolglot.providers.preflight import preflight
    from toolglot.providers.profile import Profile, ProviderLimits, ToolFeatures
    from toolglot.request import Options, Output, Request, ToolChoice, ToolDefinition, ToolExample
    from toolglot.simulator.core import Simulator
    from toolglot.tools.audit import AuditLog
    from toolglot.tools.config import RetryConfig, ToolConfig
    from toolglot.tools.context import Context
    from toolglot.tools.executor import ApprovalRequest, ToolExecutor
    from toolglot.tools.hooks import Hooks, Veto
    from toolglot.tools.metrics import ToolMetrics
    from toolglot.tools.registry import ToolRegistry
    from toolglot.tools.results import ToolOutput
    from toolglot.tools.tool import Rate, Tool, tool, tool_from_definition, tool_from_schema, tools_of
    from toolglot.wire.codec import create_reader, decode_request, encode_request
    from toolglot.wire.partial import PartialArguments
    from toolglot.wire.prefix import PrefixEncoder
    from toolglot.wire.repair import repair_history
    from toolglot.wire.restore_calls import restore_reply

__all__ = [
    "ApprovalNeeded",
    "ApprovalRequest",
    "AuditLog",
    "AuthenticationFailed",
    "BlockReady",
    "BlockStarted",
    "BuiltinOptions",
    "ConnectFailed",
    "ConnectionLost",
    "ContentBlocked",
    "Context",
    "ContextPolicy",
    "ContextTooLong",
    "ContextTruncated",
    "Conversation",
    "Engine",
    "Facade",
    "Foreign",
    "Hooks",
    "HttpRequest",
    "HttpTransport",
    "InvalidRequest",
    "InvalidTool",
    "Loss",
    "LossyEncoding",
    "MalformedData",
    "MalformedReply",
    "MalformedRequest",
    "Media",
    "Message",
    "ModelSwitched",
    "NameConflict",
    "NotFound",
    "Options",
    "Orchestrator",
    "Origin",
    "Output",
    "Overloaded",
    "PartialArguments",
    "PermissionDenied",
    "PrefixEncoder",
    "Profile",
    "PromptContext",
    "ProviderError",
    "ProviderLimits",
    "QuotaExceeded",
    "Rate",
    "RateLimited",
    "RecordingTransport",
    "Repair",
    "ReplayMiss",
    "ReplayTransport",
    "Reply",
    "ReplyDone",
    "ReplyStarted",
    "Request",
    "RetryConfig",
    "Retrying",
    "Run",
    "RunDone",
    "RunEvent",
    "RunResult",
    "ServerFailed",
    "SimulatedTransport",
    "Simulator",
    "Text",
    "TextDelta",
    "Thinking",
    "ThinkingDelta",
    "TimedOut",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallReady",
    "ToolCallStarted",
    "ToolChoice",
    "ToolConfig",
    "ToolDefinition",
    "ToolError",
    "ToolExample",
    "ToolExecutor",
    "ToolFeatures",
    "ToolFinished",
    "ToolMetrics",
    "ToolOutcome",
    "ToolOutput",
    "ToolProgress",
    "ToolRegistry",
    "ToolResult",
    "ToolStarted",
    "ToolglotError",
    "Transport",
    "TransportError",
    "TruncatedStream",
    "UnknownName",
    "Usage",
    "UsageError",
    "Veto",
    "assistant",
    "builtins",
    "coding_tools",
    "create_engine",
    "create_reader",
    "decode_request",
    "encode_request",
    "from_config",
    "load",
    "load_facade",
    "preflight",
    "repair_history",
    "resolve_profile",
    "restore_reply",
    "save",
    "system",
    "tool",
    "tool_from_definition",
    "tool_from_schema",
    "tool_results",
    "tools_of",
    "user",
]

_HOMES = {
    "errors": "AuthenticationFailed ConnectFailed ConnectionLost ContentBlocked ContextTooLong InvalidRequest "
    "MalformedData MalformedReply MalformedRequest NameConflict InvalidTool NotFound "
    "Overloaded PermissionDenied ProviderError QuotaExceeded RateLimited ReplayMiss ServerFailed TimedOut "
    "ToolError ToolglotError TransportError TruncatedStream UnknownName UsageError LossyEncoding",
    "events": "ApprovalNeeded BlockReady BlockStarted ContextTruncated ModelSwitched ReplyDone ReplyStarted Retrying "
    "RunDone RunEvent RunResult TextDelta ThinkingDelta ToolCallDelta ToolCallReady ToolCallStarted "
    "ToolFinished ToolOutcome ToolProgress ToolStarted",
    "losses": "Loss Repair",
    "messages": "Conversation Foreign Media Message Origin Reply Text Thinking ToolCall ToolResult Usage assistant "
    "load save system tool_results user",
    "providers.catalog": "resolve_profile",
    "providers.preflight": "preflight",
    "providers.profile": "Profile ProviderLimits ToolFeatures",
    "request": "Options Output Request ToolChoice ToolDefinition ToolExample",
    "wire.restore_calls": "restore_reply",
    "wire.codec": "decode_request encode_request create_reader",
    "wire.partial": "PartialArguments",
    "wire.prefix": "PrefixEncoder",
    "wire.repair": "repair_history",
    "engine.engine": "Engine",
    "engine.factory": "create_engine",
    "engine.http": "HttpTransport",
    "engine.recording": "RecordingTransport ReplayTransport",
    "engine.simulated": "SimulatedTransport",
    "engine.transport": "HttpRequest Timeouts Transport",
    "builtin.tools": "BuiltinOptions builtins coding_tools",
    "config.setup": "from_config",
    "loop.context_window": "ContextPolicy",
    "loop.orchestrator": "Orchestrator PromptContext",
    "loop.run": "Run",
    "simulator.core": "Simulator",
    "tools.audit": "AuditLog",
    "tools.config": "RetryConfig ToolConfig",
    "tools.context": "Context",
    "tools.executor": "ApprovalRequest ToolExecutor",
    "tools.hooks": "Hooks Veto",
    "tools.metrics": "ToolMetrics",
    "tools.registry": "ToolRegistry",
    "tools.results": "ToolOutput",
    "tools.tool": "Rate Tool tool tool_from_definition tool_from_schema tools_of",
    "facades.toml_loader": "load_facade",
    "facades.view": "Facade",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toolglot' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"toolglot.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
