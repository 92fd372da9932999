"""Spans and metrics, named after OpenTelemetry's GenAI conventions.

The names are from `opentelemetry-util-genai` 1.3b0. They are hard-coded, because the packages that define
them are betas and would be additional dependencies; a test compares them. Names that the conventions do not
define start with `toolglot.`.
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from opentelemetry import _logs, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode

from toolglot.common.redact import redact
from toolglot.errors import ToolglotError
from toolglot.telemetry.content import FINISH_REASONS
from toolglot.values.approvals import Suspended
from toolglot.values.events import ReplyStarted, RequestDelayed, Retrying, RunResult, ToolOutcome
from toolglot.values.losses import Loss, Repair
from toolglot.values.messages import Reply, ToolCall, Usage
from toolglot.values.request import Request, ToolDefinition

__all__ = ["PROVIDER_NAMES", "AgentSpan", "Answer", "ChatSpan", "EngineFacts", "Signals", "ToolSpan"]

Attributes = dict[str, Any]
PROVIDER_NAMES = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "azure-chat": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "azure-dated-chat": "azure.ai.openai",
    "azure-dated-responses": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
    "mistral": "mistral_ai",
}
"""Profile -> `gen_ai.provider.name`; other profiles use their own names (anthropic, deepseek, groq, ollama
…)."""
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_AGENT_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
_TOKENS = tuple(4**power for power in range(14))
_HISTOGRAMS: dict[str, tuple[str, Sequence[float], str]] = {
    "gen_ai.client.operation.duration": ("s", _SECONDS, "Duration of a model request"),
    "gen_ai.client.operation.time_to_first_chunk": (
        "s",
        _SECONDS,
        "Time until the first chunk of a streamed reply",
    ),
    "gen_ai.client.operation.time_per_output_chunk": (
        "s",
        _SECONDS,
        "Time from one chunk of a streamed reply to the next",
    ),
    "gen_ai.client.token.usage": ("{token}", _TOKENS, "Tokens of a model request, by type"),
    "gen_ai.execute_tool.duration": ("s", _SECONDS, "Duration of a tool call"),
    "gen_ai.invoke_agent.duration": ("s", _AGENT_SECONDS, "Duration of a run"),
}


class Signals:
    """Creates spans, metrics and events."""

    def __init__(
        self, tracers: trace.TracerProvider, meters: metrics.MeterProvider, loggers: _logs.LoggerProvider
    ) -> None:
        scope = ("toolglot", cast(str, vars(sys.modules["toolglot"])["__version__"]))
        self.tracer = tracers.get_tracer(*scope)
        self.logger = loggers.get_logger(*scope)
        meter = meters.get_meter(*scope)
        self.histograms = {
            name: meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)
            for name, (unit, buckets, description) in _HISTOGRAMS.items()
        }


# ---- inputs


class _Profile(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def base_url(self) -> str: ...


class EngineFacts(Protocol):
    """What telemetry reads from an engine."""

    @property
    def profile(self) -> _Profile: ...
    @property
    def model(self) -> str: ...
    @property
    def secrets(self) -> Iterable[str]: ...


class Answer(Protocol):
    """A reply, and how it was obtained."""

    @property
    def reply(self) -> Reply: ...
    @property
    def losses(self) -> tuple[Loss, ...]: ...
    @property
    def repairs(self) -> tuple[Repair, ...]: ...


def _describe_engine(engine: EngineFacts) -> Attributes:
    profile = engine.profile
    provider = PROVIDER_NAMES.get(profile.id, profile.id)
    attributes: Attributes = {"gen_ai.provider.name": provider, "gen_ai.request.model": engine.model}
    with suppress(ValueError):  # a port that is not a number
        url = urlsplit(profile.base_url)
        if url.hostname:
            port = url.port or (443 if url.scheme == "https" else 80)
            attributes |= {"server.address": url.hostname, "server.port": port}
    return attributes


def _describe_request(request: Request) -> Attributes:
    options = request.options
    attributes: Attributes = {
        "gen_ai.request.stream": request.stream or None,
        "gen_ai.request.max_tokens": options.max_tokens,
        "gen_ai.request.temperature": options.temperature,
        "gen_ai.request.top_p": options.top_p,
        "gen_ai.request.top_k": options.top_k,
        "gen_ai.request.stop_sequences": [*options.stop] or None,
        "gen_ai.request.seed": options.seed,
        "gen_ai.request.presence_penalty": options.presence_penalty,
        "gen_ai.request.frequency_penalty": options.frequency_penalty,
        "gen_ai.request.reasoning.level": options.effort,
        "gen_ai.output.type": "json" if request.output is not None else None,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _describe_usage(usage: Usage) -> Attributes:
    details = {
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }
    counts = {"gen_ai.usage.input_tokens": usage.input, "gen_ai.usage.output_tokens": usage.output}
    return {**counts, **{name: count for name, count in details.items() if count}}


# ---- spans


class _Span:
    """A span with its context, and the histogram that records its duration."""

    duration_metric: str

    def __init__(
        self,
        signals: Signals,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        measures: Attributes,
        parent: Context | None,
    ) -> None:
        self.signals, self.measures = signals, measures
        self._started_at = time.perf_counter()
        self.span = signals.tracer.start_span(
            name, parent, kind, {name: _clean(value) for name, value in attributes.items()}
        )
        self.context = trace.set_span_in_context(self.span, parent)

    @property
    def seconds(self) -> float:
        """Seconds since it started."""
        return time.perf_counter() - self._started_at

    def record(self, metric: str, value: float, attributes: Attributes | None = None) -> None:
        """Record a measurement of this operation."""
        if attributes is None:
            attributes = self.measures
        self.signals.histograms[metric].record(value, attributes, self.context)

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes. A span that has ended ignores them."""
        if self.span.is_recording():
            self.span.set_attributes({name: _clean(value) for name, value in attributes.items()})

    def add_event(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Add a toolglot event. A span that has ended ignores it."""
        if self.span.is_recording():
            self.span.add_event(f"toolglot.{name}", {key: _clean(value) for key, value in attributes.items()})

    def fail(self, error_type: str, message: str = "") -> None:
        """Mark the operation as failed."""
        self.measures = {**self.measures, "error.type": error_type}
        self.set({"error.type": error_type})
        self.span.set_status(StatusCode.ERROR, _clean(message) or None)

    def fail_with(self, error: BaseException, secrets: Iterable[str]) -> None:
        """Mark the operation as failed by an exception. Abandoning a stream early is not a failure."""
        if isinstance(error, GeneratorExit):
            self.add_event("abandoned", {})
        elif isinstance(error, ToolglotError):
            self.fail(error.type, redact(str(error), secrets))
        else:
            module, name = type(error).__module__, type(error).__qualname__
            if module != "builtins":
                name = f"{module}.{name}"
            self.fail(name, redact(str(error), secrets))

    def end(self) -> None:
        """End the span and record its duration."""
        self.record(self.duration_metric, self.seconds)
        self.span.end()


def _clean(value: Any) -> Any:
    """Return a value that every exporter can encode: without lone surrogates."""
    return (
        value.encode(errors="backslashreplace").decode()
        if isinstance(value, str) and not value.isascii()
        else value
    )


class AgentSpan(_Span):
    """A run."""

    duration_metric = "gen_ai.invoke_agent.duration"

    def __init__(self, signals: Signals, agent: str, engine: EngineFacts, conversation_id: str) -> None:
        names = {"gen_ai.agent.name": agent} if agent else {}
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            **names,
            **_describe_engine(engine),
        }
        attributes["gen_ai.conversation.id"] = conversation_id
        measures = {**names, "gen_ai.request.model": engine.model}
        super().__init__(
            signals, f"invoke_agent {agent}".rstrip(), SpanKind.INTERNAL, attributes, measures, None
        )

    def describe_result(self, result: RunResult) -> None:
        """Add how the run ended."""
        self.set(
            {
                **_describe_usage(result.usage),
                "toolglot.stop": result.stop,
                "toolglot.iterations": result.iterations,
            }
        )
        if result.cost is not None:
            self.set({"toolglot.cost": result.cost})
        if result.reply is not None:
            stop = result.reply.stop
            self.set({"gen_ai.response.finish_reasons": [FINISH_REASONS.get(stop, stop)]})
        if result.stop in ("error", "timeout"):
            self.fail(result.stop)


class ChatSpan(_Span):
    """A model request until it is answered, including retries."""

    duration_metric = "gen_ai.client.operation.duration"

    def __init__(
        self,
        signals: Signals,
        engine: EngineFacts,
        request: Request,
        conversation_id: str,
        parent: Context | None,
    ) -> None:
        measures: Attributes = {"gen_ai.operation.name": "chat", **_describe_engine(engine)}
        attributes = {**measures, **_describe_request(request), "gen_ai.conversation.id": conversation_id}
        super().__init__(signals, f"chat {engine.model}", SpanKind.CLIENT, attributes, measures, parent)
        self.details = attributes
        """Attributes of the request and the reply, for the event with content."""
        self._is_streamed = bool(request.stream)
        self._last_chunk = 0.0

    def observe(self, batch: Sequence[object]) -> None:
        """Record that a chunk has arrived, or that the request is retried or delayed."""
        match batch[0]:
            case Retrying(reason, seconds, attempt):
                self.add_event("retry", {"reason": reason, "seconds": seconds, "attempt": attempt})
            case RequestDelayed(reason, seconds):
                self.add_event("request_delayed", {"reason": reason, "seconds": seconds})
            case _ if self._is_streamed:
                seconds, first = self.seconds, batch[0]
                if isinstance(first, ReplyStarted) and first.model:
                    self.measures = {**self.measures, "gen_ai.response.model": first.model}
                if self._last_chunk:
                    self.record("gen_ai.client.operation.time_per_output_chunk", seconds - self._last_chunk)
                else:
                    self.record("gen_ai.client.operation.time_to_first_chunk", seconds)
                    self.details["gen_ai.response.time_to_first_chunk"] = seconds
                self._last_chunk = seconds
            case _:
                pass

    def describe_reply(self, reply: Reply) -> None:
        """Add the model's reply."""
        self.details |= _describe_usage(reply.usage)
        self.details["gen_ai.response.finish_reasons"] = [FINISH_REASONS.get(reply.stop, reply.stop)]
        if reply.id:
            self.details["gen_ai.response.id"] = reply.id
        if reply.origin is not None and reply.origin.model:
            model = {"gen_ai.response.model": reply.origin.model}
            self.details |= model
            self.measures = {**self.measures, **model}
        self.set(self.details)
        if reply.usage.input or reply.usage.output:  # some servers report no counts, which is not 0
            for token_type, count in (("input", reply.usage.input), ("output", reply.usage.output)):
                self.record(
                    "gen_ai.client.token.usage", count, {**self.measures, "gen_ai.token.type": token_type}
                )


class ToolSpan(_Span):
    """The execution of a tool call."""

    duration_metric = "gen_ai.execute_tool.duration"

    def __init__(
        self,
        signals: Signals,
        agent: str,
        tool: ToolDefinition,
        call: ToolCall,
        shown_name: str,
        parent: Context | None,
    ) -> None:
        name = tool.qualified_name
        measures: Attributes = {"gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
        if agent:
            measures["gen_ai.agent.name"] = agent
        attributes = {"gen_ai.operation.name": "execute_tool", **measures, "gen_ai.tool.call.id": call.id}
        if tool.description:
            attributes["gen_ai.tool.description"] = tool.description
        if shown_name != tool.name:
            attributes["toolglot.tool.shown_name"] = shown_name
        if server := next((tag.removeprefix("mcp:") for tag in tool.tags if tag.startswith("mcp:")), ""):
            attributes |= {"mcp.method.name": "tools/call", "toolglot.mcp.server": server}
        super().__init__(signals, f"execute_tool {name}", SpanKind.INTERNAL, attributes, measures, parent)

    def describe_outcome(self, outcome: ToolOutcome | Suspended | None, *, with_content: bool) -> None:
        """Add the outcome of the call, or what it waits for; None: it was interrupted."""
        if outcome is None:
            self.fail("interrupted")
            return
        if isinstance(outcome, Suspended):
            self.add_event("suspended", {"reason": outcome.request.reason} if with_content else {})
            return
        if outcome.retries:
            self.set({"toolglot.tool.retries": outcome.retries})
        for repair in outcome.repairs:
            fields = {"subject": repair.subject, "where": repair.where}
            if with_content:  # the reason quotes the arguments
                fields["reason"] = repair.reason
            self.add_event("repair", fields)
        result = outcome.result
        if result.is_error:  # its text may quote what must not be recorded
            self.fail(result.error_code or result.error_kind or "execution")
