"""toolglot: LLM tool calling that works with every model and never breaks.

The public names. Each is loaded from its module when it is first used, so that `import toolglot` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# For type checkers; `X as X` marks a name that is exported.
if TYPE_CHECKING:
    from toolglot.confine.roots import Root as Root
    from toolglot.builtin.shell.manager import ShellOptions as ShellOptions
    from toolglot.builtin.tool_state import (
        AskUser as AskUser,
        UserAnswer as UserAnswer,
        UserQuestion as UserQuestion,
        UserOption as UserOption,
    )
    from toolglot.builtin.tools import (
        BuiltinOptions as BuiltinOptions,
        Builtins as Builtins,
        builtins as builtins,
        coding_tools as coding_tools,
    )
    from toolglot.builtin.web.config import WebConfig as WebConfig
    from toolglot.config.instructions import Instructions as Instructions, read_instructions as read_instructions
    from toolglot.common.plugins import (
        PLUGIN_KINDS as PLUGIN_KINDS,
        Plugin as Plugin,
        PluginKind as PluginKind,
        list_plugins as list_plugins,
        load_plugin as load_plugin,
    )
    from toolglot.common.skills import Skill as Skill, find_skills as find_skills
    from toolglot.config.setup import from_config as from_config
    from toolglot.engine.engine import Engine as Engine, EngineResult as EngineResult, PreparedTools as PreparedTools
    from toolglot.engine.factory import EngineOptions as EngineOptions, create_engine as create_engine
    from toolglot.engine.http import HttpTransport as HttpTransport
    from toolglot.engine.recording import RecordingTransport as RecordingTransport, ReplayTransport as ReplayTransport
    from toolglot.engine.simulated import SimulatedTransport as SimulatedTransport
    from toolglot.engine.transport import (
        HttpRequest as HttpRequest,
        HttpResponse as HttpResponse,
        Timeouts as Timeouts,
        Transport as Transport,
    )
    from toolglot.errors import (
        AuthenticationFailed as AuthenticationFailed,
        ConnectFailed as ConnectFailed,
        ConnectionLost as ConnectionLost,
        ContentBlocked as ContentBlocked,
        ContextTooLong as ContextTooLong,
        InvalidRequest as InvalidRequest,
        InvalidTool as InvalidTool,
        LossyEncoding as LossyEncoding,
        MalformedData as MalformedData,
        MalformedReply as MalformedReply,
        MalformedRequest as MalformedRequest,
        MissingOutput as MissingOutput,
        NameConflict as NameConflict,
        NotFound as NotFound,
        Overloaded as Overloaded,
        PermissionDenied as PermissionDenied,
        ProviderError as ProviderError,
        QuotaExceeded as QuotaExceeded,
        RateLimited as RateLimited,
        ReplayMiss as ReplayMiss,
        ReplyTooLarge as ReplyTooLarge,
        ServerFailed as ServerFailed,
        TimedOut as TimedOut,
        ToolError as ToolError,
        ToolglotError as ToolglotError,
        TransportError as TransportError,
        TruncatedStream as TruncatedStream,
        UnknownName as UnknownName,
        UsageError as UsageError,
    )
    from toolglot.values.approvals import (
        Allow as Allow,
        ApprovalRequest as ApprovalRequest,
        Approve as Approve,
        Decision as Decision,
        Deny as Deny,
        Effect as Effect,
        Ruling as Ruling,
        Suspended as Suspended,
    )
    from toolglot.values.events import (
        EngineEvent as EngineEvent,
        Event as Event,
        ApprovalNeeded as ApprovalNeeded,
        BlockReady as BlockReady,
        BlockStarted as BlockStarted,
        ContextTruncated as ContextTruncated,
        ModelSwitched as ModelSwitched,
        ReplyDone as ReplyDone,
        ReplyStarted as ReplyStarted,
        RequestDelayed as RequestDelayed,
        Retrying as Retrying,
        RunDone as RunDone,
        RunEvent as RunEvent,
        RunResult as RunResult,
        TextDelta as TextDelta,
        ThinkingDelta as ThinkingDelta,
        ToolCallDelta as ToolCallDelta,
        ToolCallReady as ToolCallReady,
        ToolCallStarted as ToolCallStarted,
        ToolFinished as ToolFinished,
        ToolOutcome as ToolOutcome,
        ToolProgress as ToolProgress,
        ToolStarted as ToolStarted,
    )
    from toolglot.values.definitions import (
        CacheMark as CacheMark,
        ToolDefinition as ToolDefinition,
        ToolExample as ToolExample,
    )
    from toolglot.facades.catalog import (
        facade_for_model as facade_for_model,
        find_facade as find_facade,
        list_facades as list_facades,
    )
    from toolglot.facades.view import (
        Case as Case,
        Facade as Facade,
        Field as Field,
        RenderContext as RenderContext,
        View as View,
    )
    from toolglot.loop.agent.agent import Agent as Agent, Orchestrator as Orchestrator
    from toolglot.loop.agent.config import AgentOptions as AgentOptions, PromptContext as PromptContext
    from toolglot.loop.agent.runs import ResumeOptions as ResumeOptions, RunOptions as RunOptions
    from toolglot.loop.agent.view import AgentView as AgentView
    from toolglot.loop.attachments import load_attachment as load_attachment
    from toolglot.loop.context_window import ContextPolicy as ContextPolicy, ContextUsage as ContextUsage
    from toolglot.loop.deferral import Deferral as Deferral
    from toolglot.loop.run import Run as Run
    from toolglot.values.losses import Loss as Loss, Repair as Repair
    from toolglot.values.messages import (
        Block as Block,
        Conversation as Conversation,
        Foreign as Foreign,
        Media as Media,
        Message as Message,
        Origin as Origin,
        Reply as Reply,
        Text as Text,
        Thinking as Thinking,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        ToolsChanged as ToolsChanged,
        Usage as Usage,
        assistant as assistant,
        load as load,
        save as save,
        system as system,
        tool_results as tool_results,
        user as user,
    )
    from toolglot.providers.catalog import resolve_profile as resolve_profile
    from toolglot.providers.preflight import preflight as preflight, Problem as Problem
    from toolglot.providers.profile import (
        Profile as Profile,
        ProviderLimits as ProviderLimits,
        ToolFeatures as ToolFeatures,
        Price as Price,
    )
    from toolglot.values.request import (
        Options as Options,
        Output as Output,
        Request as Request,
        ToolChoice as ToolChoice,
    )
    from toolglot.simulator.core import Script as Script, Simulator as Simulator
    from toolglot.telemetry.options import Telemetry as Telemetry
    from toolglot.tools.audit import AuditLog as AuditLog
    from toolglot.tools.config import (
        Rate as Rate,
        RequestRate as RequestRate,
        RetryConfig as RetryConfig,
        ToolConfig as ToolConfig,
    )
    from toolglot.tools.context import Context as Context
    from toolglot.tools.executor import ToolExecutor as ToolExecutor
    from toolglot.tools.hooks import Hooks as Hooks, Veto as Veto
    from toolglot.tools.metrics import ToolMetrics as ToolMetrics, ToolStatistics as ToolStatistics
    from toolglot.tools.options import SchemaToolOptions as SchemaToolOptions, ToolOptions as ToolOptions
    from toolglot.tools.registry import ToolRegistry as ToolRegistry
    from toolglot.tools.results import ToolOutput as ToolOutput
    from toolglot.tools.rules import Subject as Subject
    from toolglot.tools.tool import (
        Tool as Tool,
        tool as tool,
        tool_from_definition as tool_from_definition,
        tool_from_schema as tool_from_schema,
        tools_of as tools_of,
    )
    from toolglot.wire.codec import (
        create_reader as create_reader,
        decode_request as decode_request,
        encode_request as encode_request,
    )
    from toolglot.wire.converters import (
        EncodedResults as EncodedResults,
        decode_tools as decode_tools,
        encode_results as encode_results,
        encode_tools as encode_tools,
    )
    from toolglot.wire.framing import SseDecoder as SseDecoder
    from toolglot.wire.partial import PartialArguments as PartialArguments
    from toolglot.wire.prefix import EncodedBody as EncodedBody, PrefixEncoder as PrefixEncoder
    from toolglot.wire.repair import repair_history as repair_history, RepairedHistory as RepairedHistory
    from toolglot.wire.reader import ReplyReader as ReplyReader
    from toolglot.wire.writer import EncodedRequest as EncodedRequest
    from toolglot.confine.sandbox import SandboxLevel as SandboxLevel
    from toolglot.engine.signin.tokens import SignIn as SignIn, Token as Token
    from toolglot.wire.restore_calls import restore_reply as restore_reply
    from toolglot.wire.tracker import ToolCallTracker as ToolCallTracker

# For the interpreter: module -> names.
_HOMES = {
    "errors": "AuthenticationFailed ConnectFailed ConnectionLost ContentBlocked ContextTooLong InvalidRequest MalformedData "
    "MalformedReply MalformedRequest MissingOutput NameConflict InvalidTool NotFound Overloaded PermissionDenied "
    "ProviderError QuotaExceeded RateLimited ReplayMiss ReplyTooLarge ServerFailed TimedOut ToolError ToolglotError "
    "TransportError TruncatedStream UnknownName UsageError LossyEncoding",
    "values.approvals": "Allow ApprovalRequest Approve Decision Deny Effect Ruling Suspended",
    "values.definitions": "CacheMark ToolDefinition ToolExample",
    "values.events": "ApprovalNeeded BlockReady BlockStarted ContextTruncated EngineEvent Event ModelSwitched ReplyDone "
    "ReplyStarted RequestDelayed Retrying RunDone RunEvent RunResult TextDelta ThinkingDelta ToolCallDelta "
    "ToolCallReady ToolCallStarted ToolFinished ToolOutcome ToolProgress ToolStarted",
    "values.losses": "Loss Repair",
    "values.messages": "Block Conversation Foreign Media Message Origin Reply Text Thinking ToolCall ToolResult ToolsChanged "
    "Usage assistant load save system tool_results user",
    "providers.catalog": "resolve_profile",
    "providers.preflight": "Problem preflight",
    "providers.profile": "Price Profile ProviderLimits ToolFeatures",
    "values.request": "Options Output Request ToolChoice",
    "wire.reader": "ReplyReader",
    "wire.writer": "EncodedRequest",
    "confine.sandbox": "SandboxLevel",
    "engine.signin.tokens": "SignIn Token",
    "wire.restore_calls": "restore_reply",
    "wire.codec": "decode_request encode_request create_reader",
    "wire.converters": "EncodedResults decode_tools encode_results encode_tools",
    "wire.framing": "SseDecoder",
    "wire.partial": "PartialArguments",
    "wire.prefix": "EncodedBody PrefixEncoder",
    "wire.repair": "RepairedHistory repair_history",
    "wire.tracker": "ToolCallTracker",
    "engine.engine": "EngineResult PreparedTools Engine",
    "engine.factory": "EngineOptions create_engine",
    "engine.http": "HttpTransport",
    "engine.recording": "RecordingTransport ReplayTransport",
    "engine.simulated": "SimulatedTransport",
    "engine.transport": "HttpRequest HttpResponse Timeouts Transport",
    "confine.roots": "Root",
    "builtin.shell.manager": "ShellOptions",
    "builtin.tool_state": "UserOption AskUser UserAnswer UserQuestion",
    "builtin.web.config": "WebConfig",
    "builtin.tools": "BuiltinOptions Builtins builtins coding_tools",
    "config.setup": "from_config",
    "config.instructions": "Instructions read_instructions",
    "common.plugins": "PLUGIN_KINDS Plugin PluginKind list_plugins load_plugin",
    "common.skills": "Skill find_skills",
    "loop.agent.agent": "Agent Orchestrator",
    "loop.agent.config": "AgentOptions PromptContext",
    "loop.agent.runs": "ResumeOptions RunOptions",
    "loop.agent.view": "AgentView",
    "loop.attachments": "load_attachment",
    "loop.context_window": "ContextPolicy ContextUsage",
    "loop.deferral": "Deferral",
    "loop.run": "Run",
    "simulator.core": "Script Simulator",
    "telemetry.options": "Telemetry",
    "tools.audit": "AuditLog",
    "tools.config": "Rate RequestRate RetryConfig ToolConfig",
    "tools.context": "Context",
    "tools.executor": "ToolExecutor",
    "tools.hooks": "Hooks Veto",
    "tools.metrics": "ToolStatistics ToolMetrics",
    "tools.options": "SchemaToolOptions ToolOptions",
    "tools.registry": "ToolRegistry",
    "tools.results": "ToolOutput",
    "tools.rules": "Subject",
    "tools.tool": "Tool tool tool_from_definition tool_from_schema tools_of",
    "facades.catalog": "facade_for_model find_facade list_facades",
    "facades.view": "Case Facade Field RenderContext View",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toolglot' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"toolglot.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
