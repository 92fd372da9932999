"""Let models of any provider call tools: Python functions, commands, MCP servers.

`tool` makes a tool from a function, and an `Agent` runs a conversation with a model that may call it:

    from toolglot import Agent, tool

    @tool
    def get_weather(city: str) -> str:
        "Get the current weather in a city."
        return f"{city}: 21 degrees"

    agent = Agent("simulator", tools=[get_weather])  # with a key: "openai:gpt-5.1"
    print(agent.run_sync("What is the weather in Paris?").results[0].text)

The simulator needs no key. Below are the public names; each has a docstring: `help(toolglot.RunLimits)`.
"""

# Each name is loaded from its module when it is first used, so that `import toolglot` costs next to nothing.
# Type checkers read `__init__.pyi`, which `make docs` generates from this table.

from importlib import import_module

__version__ = "0.1.0"

# module -> names
_HOMES = {
    "builtin.shell.manager": "ShellOptions",
    "builtin.tool_state": "AskUser UserAnswer UserOption UserQuestion",
    "builtin.tools": "BuiltinOptions Builtins builtins coding_tools",
    "builtin.web.config": "WebConfig",
    "common.plugins": "PLUGIN_KINDS Plugin PluginKind list_plugins load_plugin",
    "common.skills": "Skill find_skills",
    "config.instructions": "Instructions read_instructions",
    "config.setup": "from_config",
    "confine.roots": "Root",
    "confine.sandbox": "SandboxLevel",
    "engine.engine": "Engine EngineResult PreparedTools",
    "engine.factory": "EngineOptions create_engine",
    "engine.http": "HttpTransport",
    "engine.rate_limit": "RequestRate",
    "engine.recording": "RecordingTransport ReplayTransport",
    "engine.signin.tokens": "SignIn Token",
    "engine.simulated": "SimulatedTransport",
    "engine.transport": "HttpRequest HttpResponse Timeouts Transport",
    "errors": "AuthenticationFailed ConnectFailed ConnectionLost ContentBlocked ContextTooLong "
    "InvalidRequest InvalidTool "
    "LossyEncoding MalformedData MalformedReply MalformedRequest MissingOutput NameConflict NotFound "
    "Overloaded "
    "PermissionDenied ProviderError QuotaExceeded RateLimited ReplayMiss ReplyTooLarge RequestFailed "
    "ServerFailed TimedOut "
    "ToolError ToolglotError TransportError TruncatedStream UnknownName UsageError",
    "facades.catalog": "facade_for_model find_facade list_facades",
    "facades.view": "Case Facade Field RenderContext View",
    "loop.agent.agent": "Agent Orchestrator",
    "loop.agent.config": "AgentOptions PromptContext",
    "loop.agent.view": "AgentView",
    "loop.attachments": "load_attachment",
    "loop.context_window": "ContextPolicy ContextUsage",
    "loop.conversation_state": "ResumeOptions RunOptions",
    "loop.deferral": "Deferral",
    "loop.limits": "RunLimits",
    "loop.run": "Run",
    "providers.catalog": "resolve_profile",
    "providers.preflight": "Problem preflight",
    "providers.profile": "Price Profile ProviderLimits ToolFeatures",
    "simulator.core": "Script Simulator",
    "telemetry.options": "Telemetry",
    "tools.audit": "AuditLog",
    "tools.config": "Rate RetryConfig ToolConfig",
    "tools.context": "Context Later",
    "tools.executor": "ToolExecutor",
    "tools.hooks": "Hooks Veto",
    "tools.metrics": "ToolMetrics ToolStatistics",
    "tools.options": "SchemaToolOptions ToolOptions",
    "tools.registry": "ToolRegistry",
    "tools.results": "ToolOutput",
    "tools.rules": "Subject",
    "tools.tool": "Tool tool tool_from_definition tool_from_schema tools_of",
    "values.approvals": "Allow Answer ApprovalRequest Approve Decision Deny Effect Ruling Suspended",
    "values.definitions": "CacheMark ToolDefinition ToolExample",
    "values.deliveries": "Delivery",
    "values.events": "AnswerNeeded ApprovalNeeded BlockReady BlockStarted ContextTruncated Delivered EngineEvent Event "
    "InnerEvent ModelSwitched ReplyDone "
    "ReplyStarted RequestDelayed Retrying RunDone RunEvent RunResult TextDelta ThinkingDelta ToolCallDelta "
    "ToolCallReady "
    "ToolCallStarted ToolFinished ToolOutcome ToolProgress ToolStarted",
    "values.losses": "Loss Repair",
    "values.messages": "Block Conversation Foreign Media Message Origin Reply Text Thinking ToolCall "
    "ToolResult ToolsChanged "
    "Usage assistant load save system tool_results user",
    "values.request": "Options Output Request ToolChoice",
    "wire.codec": "create_reader decode_request encode_request",
    "wire.converters": "EncodedResults decode_tools encode_results encode_tools",
    "wire.framing": "SseDecoder",
    "wire.partial": "PartialArguments",
    "wire.prefix": "EncodedBody PrefixEncoder",
    "wire.reader": "ReplyReader",
    "wire.repair": "RepairedHistory repair_history",
    "wire.restore_calls": "restore_reply",
    "wire.tracker": "ToolCallTracker",
    "wire.writer": "EncodedRequest",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'toolglot' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"toolglot.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
